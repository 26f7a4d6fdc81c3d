"""The forward and the backward pass of a function as two functions, each compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..api.transformations import selected, vjp
from ..ir.array import Array
from .jit import jit


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward function `fwd(*args) -> (out, residuals)` and the backward one, `bwd(residuals, cotangent)`.

    Unlike the function that `vjp` gives, `bwd` is one function for all calls, and so is compiled once; it gives the
    tuple of cotangents. With `has_aux` the forward function gives `(out, residuals, aux)`.

    >>> forward, backward = fwd_and_bwd(lambda x, y: x * y, (0, 1))
    >>> out, residuals = forward(3.0, 4.0)
    >>> [float(ct) for ct in backward(residuals, 1.0)]
    [4.0, 3.0]
    """

    def fwd(*args: Any, **kwargs: Any) -> Any:
        partial, chosen, _ = selected(fun, argnums, args, kwargs, "fwd_and_bwd")
        return vjp(partial, *chosen, has_aux=has_aux)

    def bwd(residuals: Any, cotangent: Array) -> Any:
        return residuals(cotangent)

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
