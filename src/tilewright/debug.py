"""Looking at values from inside compiled programs, stopping in them, and at how arrays lie on devices."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from .core.primitives.external.host_callback import debug_callback as callback  # noqa: F401
from .core.primitives.external.host_callback import debug_print as print  # noqa: F401
from .core.support.lazy_imports import later as _later
from .core.support.lazy_imports import members as _members

if TYPE_CHECKING:
    from .core.sharding.visualize import inspect_array_sharding, visualize_array_sharding, visualize_sharding  # noqa: F401
    from .debugging.debugger import breakpoint  # noqa: F401

_LATER = {
    "core.sharding.visualize": "inspect_array_sharding visualize_array_sharding visualize_sharding",
    "debugging.debugger": "breakpoint",
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _members(_LATER))

__all__ = [
    "breakpoint", "callback", "inspect_array_sharding", "print", "visualize_array_sharding", "visualize_sharding",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
