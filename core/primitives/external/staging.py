"""Values and choices of a program being made: constants of a shape, values lifted into it, tokens, code by platform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike, Operand
from ...ir.binding import with_out_sharding
from ...ir.typeof import placed_like
from ...ir.types import BOOL, INT32, INT64
from ...support.call_errors import public
from ...support.config import current
from ...support.errors import ArgumentTypeError, UnsupportedError
from ...support.runtime import runtime
from ...tracing.array_conversion import as_array
from ...tracing.trace import shape_of
from ..custom.checkpoint import optimization_barrier
from ..elementwise.conversion import convert_element_type
from ..movement.shape import broadcast_to, concatenate, copy_p, expand_dims, full


def empty(shape: int | Sequence[int], dtype: DTypeLike, *, out_sharding: Any = None) -> Array:
    """An array whose values are of no interest; here they are zeros, which XLA fills in where they are used.

    >>> import numpy as np
    >>> empty(3, np.float32).shape
    (3,)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, empty, shape, dtype)
    return full((shape,) if isinstance(shape, int) else tuple(shape), 0, dtype)


@public
def shape_as_value(shape: Sequence[Any]) -> ArrayLike:
    """A shape, whose sizes may be symbolic, as a vector of integers.

    >>> shape_as_value((2, 3)).tolist()
    [2, 3]
    """
    if all(isinstance(n, int) for n in shape):
        return np.asarray(shape, INT32 if max(shape, default=0) <= np.iinfo(INT32).max else INT64)
    return concatenate([expand_dims(convert_element_type(n, INT32), (0,)) for n in shape], 0)


def broadcast_like(arr: ArrayLike, like_arr: Operand) -> Array:
    """An array broadcast, by NumPy's rules, to the shape of another or of a struct, with that one's sharding.

    >>> import numpy as np
    >>> broadcast_like(np.arange(2.0), np.zeros((3, 2))).shape
    (3, 2)
    """
    placed = placed_like(like_arr)
    shape = tuple(like_arr.shape) if hasattr(like_arr, "shape") else shape_of(like_arr)
    if placed is not None:
        return with_out_sharding(placed, broadcast_to, as_array(arr), shape)
    return broadcast_to(as_array(arr), shape)


def stage(x: ArrayLike, /) -> Any:
    """A value as one of the program being traced; outside of a trace, as an array.

    >>> stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return copy_p.bind(x)


def create_token(_: object = None) -> Any:
    """A token: an array without elements, which `after_all` makes others of. The argument says nothing.

    >>> create_token().shape
    (0,)
    """
    return full((0,), False, BOOL)


def after_all(*operands: Any) -> Any:
    """A token that is there when all operands are: tokens or any other values.

    What is to come after them takes part in one `optimization_barrier` with it. Without operands it is a new token.

    >>> import numpy as np
    >>> x, token = np.ones(3), after_all(create_token(), np.ones(2))
    >>> x, token = optimization_barrier((x, token))  # this x is made after the ones
    >>> token.shape
    (0,)
    """
    token, *_ = optimization_barrier((create_token(), *operands))
    return token


def platform() -> str:
    """That of the target which programs are traced for."""
    target = current().kernel_target or runtime.backend.target()
    return "cpu" if target is None else target.partition(":")[0] if isinstance(target, str) else target.kind


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """The function given for the platform that the program is made for (`cpu`, `cuda`, `rocm`, `tpu`), of `args`.

    The choice is made while the program is traced, for the device that it will run on, or the target of `compile`. Only
    that function is traced. Raises `UnsupportedError` where there is none for the platform and no default.

    >>> platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x)
    3.0
    """
    for name, function in {**per_platform, "default": default}.items():
        if not callable(function) and not (name == "default" and function is None):
            raise ArgumentTypeError(f"platform_dependent: {name}={function!r} is not a function", "pass a callable")
    here = platform()
    names = (here, "gpu") if here in ("cuda", "rocm") else (here,)
    chosen = next((per_platform[name] for name in names if name in per_platform), default)
    if chosen is None:
        raise UnsupportedError(f"platform_dependent: there is no function for {here}", f"give {here}=, or default=")
    return chosen(*args)
