"""`jax.scipy`'s names."""

from typing import TYPE_CHECKING

from ..core.later import later as _later

if TYPE_CHECKING:
    from . import linalg, special, stats

__getattr__, __dir__, __all__ = _later(__name__, {name: f".{name}" for name in ("linalg", "special", "stats")})
