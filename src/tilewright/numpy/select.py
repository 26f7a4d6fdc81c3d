"""Elements of one array or another, by a condition or a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import lax
from ..core.ir.types import INT32
from ..core.support.errors import ArgumentError
from .arithmetic import clip, remainder
from .elementwise import as_boolean, where3
from .index import as_indices, nonzero
from .util import (
    Array,
    ArrayLike,
    Value,
    astype,
    broadcast,
    inline_jit,
    no_out,
    promote_dtypes,
    strong,
    value,
)


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each element of `a`, the element of the array of `choices` it names.

    >>> from tilewright import numpy as jnp
    >>> jnp.choose(jnp.array([1, 0]), [jnp.array([1, 2]), jnp.array([3, 4])])
    Array([3, 2], dtype=int32)
    """
    no_out(out, "choose")
    which = as_indices(a)
    options = [value(c) for c in (choices if isinstance(choices, (list, tuple)) else list(value(choices)))]
    if mode == "raise":
        data = np.asarray(which)  # a tracer's error says that its value is not known
        if data.size and (data.min() < 0 or data.max() >= len(options)):
            raise ArgumentError(
                f"choose of index {data.max()} among {len(options)} choices", "use mode 'wrap' or 'clip'"
            )
    elif mode == "wrap":
        which = remainder(which, len(options))
    elif mode == "clip":
        which = clip(which, 0, len(options) - 1)
    else:
        raise ArgumentError(f"there is no mode {mode!r} of choose", "one of 'raise', 'wrap', 'clip'")
    which, *options = broadcast([which, *promote_dtypes(*options)], scalars=False)
    return strong(lax.select_n(astype(which, INT32), *options))


@inline_jit()
def select(condlist: Any, choicelist: Any, default: ArrayLike = 0) -> Array:
    """Elements of the first choice whose condition holds, or the default.

    >>> from tilewright import numpy as jnp
    >>> jnp.select([jnp.arange(3) < 1, jnp.arange(3) < 2], [10, 20], 30)
    Array([10, 20, 30], dtype=int32, weak_type=True)
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError(
            f"{len(condlist)} conditions for {len(choicelist)} choices", "give one of each, at least one"
        )
    *options, result = promote_dtypes(*choicelist, default)
    for condition, option in zip(reversed(condlist), reversed(options), strict=True):
        result = where3(as_boolean(condition), option, result)
    return result


def where(
    condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: int | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """Choose from `x` where a condition holds, from `y` elsewhere; with one argument, `nonzero`.

    >>> from tilewright import numpy as jnp
    >>> jnp.where(jnp.arange(3) > 1, 10, 20)
    Array([20, 20, 10], dtype=int32, weak_type=True)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentError("where takes one argument or three", "pass both `x` and `y`, or neither")
    if size is not None or fill_value is not None:
        raise ArgumentError("size and fill_value belong to where of one argument", "drop them")
    condition = condition if isinstance(condition, (bool, Value)) else value(condition, "where")
    return _where(as_boolean(condition), x, y)


@inline_jit()
def _where(condition: Any, x: Any, y: Any) -> Array:
    return where3(condition, x, y)


__all__ = [
    "choose", "select", "where",
]  # fmt: skip
