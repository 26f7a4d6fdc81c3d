"""Looking at values from inside compiled programs, stopping in them, and at how arrays lie on devices."""

from typing import TYPE_CHECKING

from .core.later import later as _later
from .core.later import members as _members
from .core.primitives.callback import debug_callback as callback  # noqa: F401
from .core.primitives.callback import debug_print as print  # noqa: F401

if TYPE_CHECKING:
    from .core.show_sharding import inspect_array_sharding, visualize_array_sharding, visualize_sharding  # noqa: F401
    from .debugger import breakpoint  # noqa: F401

_LATER = {
    "core.show_sharding": "inspect_array_sharding visualize_array_sharding visualize_sharding",
    "debugger": "breakpoint",
}
__getattr__, __dir__, __all__ = _later(__name__, _members(_LATER))
