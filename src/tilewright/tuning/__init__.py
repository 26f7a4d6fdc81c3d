"""Tuning: which configuration of a function is fastest here, measured when asked and kept for next time.

@autotune(space={"block": [64, 128, 256]})
def scaled(x, *, block=128): ...

scaled(x)             # the best known configuration for such arguments, or the default
scaled.tune(x)        # measure, and keep the result
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.support.lazy_imports import later as _later
from ..core.support.lazy_imports import members as _members

if TYPE_CHECKING:
    from .autotuned import Autotuned, autotune
    from .program import ProgramReport, tune
    from .report import Report, Trial
    from .space import divisors, permutations, powers_of_two
    from .store import Store, TuningWarning
    from .tables import tuned

_LATER = {
    "autotuned": "Autotuned autotune",
    "program": "ProgramReport tune",
    "report": "Report Trial",
    "space": "divisors permutations powers_of_two",
    "store": "Store TuningWarning",
    "tables": "tuned",
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _members(_LATER))

__all__ = [
    "Autotuned", "ProgramReport", "Report", "Store", "Trial", "TuningWarning", "autotune", "divisors", "permutations",
    "powers_of_two", "tune", "tuned",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
