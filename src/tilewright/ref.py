"""`jax.ref`'s names: mutable arrays."""

from collections.abc import Callable

from .core.ir.types import RefType as AbstractRef
from .lang.frontend.mutable_arrays import Ref, addupdate, empty_ref, free_ref, freeze, get, new_ref, set, swap

__all__ = ["AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]
__dir__: Callable[[], list[str]] = __all__.copy
