"""Random numbers without a key: those of the compiler's own generator, whose state no program sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.primitive import AxisInfo, Primitive
from ...ir.promotion import promote_types
from ...ir.types import ArrayType, is_float, is_integer
from ...support.errors import DtypeError, ShapeError, UnsupportedError
from ...support.runtime import runtime
from ...tracing.trace import typeof
from ..elementwise.conversion import convert_element_type
from ..external.host_callback import no_derivative
from ..movement.shape import as_shape

_STATE = runtime.part("hidden.generator", np.random.default_rng())


def _typing(a: ArrayType, b: ArrayType, *, shape: tuple[int, ...]) -> ArrayType:
    if a.dtype != b.dtype or not (is_float(a.dtype) or is_integer(a.dtype)):
        raise DtypeError(f"rng_uniform between {a.show()} and {b.show()}", "two real numbers of one dtype")
    if a.shape or b.shape:
        raise ShapeError(f"rng_uniform between {a.show()} and {b.show()}", "two scalars: scale the result by arrays")
    return ArrayType(shape, a.dtype)


def _numpy(a: Operand, b: Operand, *, shape: tuple[int, ...]) -> Any:
    if is_integer(a.dtype):
        return _STATE.integers(a, b, shape, a.dtype)
    return (_STATE.random(shape) * (b - a) + a).astype(a.dtype)


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    raise UnsupportedError("rng_uniform of a batch of limits", "draw from 0 to 1 and scale, or use `random.uniform`")


rng_uniform_p: Primitive = Primitive(
    "rng_uniform", _typing, jvp=no_derivative("rng_uniform"), batch=_batch, numpy=_numpy,
)  # fmt: skip


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Uniform numbers from `a` to below `b`, two scalars, of a generator with hidden state: no two calls give the same.

    Which numbers depends on the platform and its compiler; `random.uniform` gives the same ones for the same key.

    Raises:
      ShapeError: limits that are no scalars. DtypeError: limits that are no real numbers.

    >>> rng_uniform(1.0, 2.0, (3,)).shape
    (3,)
    """
    types: Any = [typeof(a), typeof(b)]
    dtype, _ = promote_types(types)
    a, b = (convert_element_type(x, dtype) for x in (a, b))
    return rng_uniform_p.bind(a, b, shape=as_shape(shape, "rng_uniform"))


__all__ = ["rng_uniform", "rng_uniform_p"]
