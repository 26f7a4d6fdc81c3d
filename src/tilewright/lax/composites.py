"""Functions that carry a name of their own in programs: `jax.lax.composite`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import ArgumentTypeError
from ..core.jit import jit


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function that computes what `decomposition` does, called under a name in programs and profiles.

    Positional arguments are arrays, keyword arguments are attributes, which are hashable. What is printed is a call of
    that name with the decomposition as its body: XLA has no operations for names to stand for.

    >>> double = composite(lambda x: x + x, name="my.double")
    >>> print(double(2.0))
    4.0
    """
    if not isinstance(name, str) or not name:
        raise ArgumentTypeError(f"composite: the name is {name!r}", "pass a string, such as 'my.tangent'")

    def call(*args: Any, **attributes: Any) -> Any:
        given = {key: value for key, value in attributes.items() if value is not None}

        def body(*operands: Any) -> Any:
            return decomposition(*operands, **given)

        body.__name__ = name if not version else f"{name}.v{version}"
        return jit(body)(*args)

    return call
