"""`jax.experimental`: that of this package, with Pallas and what else has its place elsewhere here."""

from collections.abc import Callable
from typing import Any

from .... import experimental as _ours
from ...facade import facade

__all__ = _ours.__all__
__getattr__: Callable[..., Any] = facade("jax.experimental")
