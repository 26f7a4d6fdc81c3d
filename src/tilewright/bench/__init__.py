"""Benchmarks for users: functions in turn against each other, with spread, ratios, bytes, operations and memory.

found = benchmark(f, x, against={"plain": g})
print(found)
found.save("f.json"), found.save("f.png")
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.support.lazy_imports import later as _later
from ..core.support.lazy_imports import members as _members

if TYPE_CHECKING:
    from .changes import Change, compare
    from .result import Result, Row, load
    from .run import benchmark, scaling

_LATER = {
    "changes": "Change compare",
    "result": "Result Row load",
    "run": "benchmark scaling",
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _members(_LATER))

__all__ = ["Change", "Result", "Row", "benchmark", "compare", "load", "scaling"]
__dir__: Callable[[], list[str]] = __all__.copy
