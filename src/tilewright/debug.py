"""Looking at values from inside compiled programs, stopping in them, and at how arrays lie on devices."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from .core.primitives.callback import debug_callback as callback
from .core.primitives.callback import debug_print as print

if TYPE_CHECKING:
    from .core.show_sharding import inspect_array_sharding, visualize_array_sharding, visualize_sharding
    from .debugger import breakpoint

_SHARDING = ("inspect_array_sharding", "visualize_array_sharding", "visualize_sharding")
_LATER = {name: ".core.show_sharding" for name in _SHARDING} | {"breakpoint": ".debugger"}

__all__ = [
    "breakpoint", "callback", "inspect_array_sharding", "print", "visualize_array_sharding", "visualize_sharding",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(_LATER[name], __package__), name)
