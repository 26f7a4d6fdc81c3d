"""`jax.experimental.jet`'s names: Taylor mode."""

from collections.abc import Callable
from typing import Any

from ..core.jet.taylor_mode import jet
from ..core.primitives.special.functions import lgamma
from ..numpy import exp


def fact(n: Any) -> Any:
    """The factorial of a number, as a float: by what a Taylor term is less than a derivative.

    >>> print(f"{fact(4.0):.2f}")
    24.00
    """
    return exp(lgamma(n + 1.0))


__all__ = ["fact", "jet"]
__dir__: Callable[[], list[str]] = __all__.copy
