"""Joining, splitting and padding arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import lax
from ..core.ir.static_ints import integer
from ..core.ir.types import as_size
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, ArgumentTypeError, ShapeError
from .create import asarray
from .shape import atleast_1d, atleast_2d, atleast_3d, ravel
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    Value,
    astype,
    axis_of,
    dtype_argument,
    inline_jit,
    no_out,
    promote_dtypes,
    shape_of,
    strong,
    value,
)

# ---------------------------------------------------------------------------- joining


def _parts(arrays: Any, name: str, dtype: DTypeLike = None) -> list[Array]:
    if isinstance(arrays, (Value, np.ndarray)):
        n = shape_of(arrays)
        if not n:
            raise ArgumentTypeError(f"{name} takes a sequence of arrays, not one of rank 0", "put the arrays in a list")
        arrays = [value(arrays)[i] for i in range(n[0])]
    if not isinstance(arrays, (list, tuple)):
        raise ArgumentTypeError(f"{name} takes a sequence of arrays, not {type(arrays).__name__}", "put them in a list")
    if not arrays:
        raise ArgumentError(f"{name} of no arrays", "pass at least one")

    parts = [asarray(a) for a in arrays]
    return promote_dtypes(*parts) if dtype is None else [strong(astype(p, dtype)) for p in parts]


@inline_jit("axis", "dtype")
def _concatenate(arrays: Any, axis: int | None, dtype: DTypeLike) -> Array:
    parts = _parts(arrays, "concatenate", dtype)
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    if not shape_of(parts[0]):
        raise ShapeError("concatenate of arrays of rank 0", "use `stack`")
    axis = axis_of(axis, len(shape_of(parts[0])))
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, axis)


@public
def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike = None) -> Array:
    """Join arrays along an axis they have.

    >>> from tilewright import numpy as jnp
    >>> jnp.concatenate([jnp.zeros(1), jnp.ones(2)])
    Array([0., 1., 1.], dtype=float32)
    """
    return _concatenate(arrays, axis, dtype_argument(dtype))


@public
def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Join arrays along an axis they have.

    >>> from tilewright import numpy as jnp
    >>> jnp.concat([jnp.zeros(1), jnp.ones(1)])
    Array([0., 1.], dtype=float32)
    """
    return _concatenate(arrays, axis, None)


@inline_jit("axis", "dtype")
def _stack(arrays: Any, axis: int, dtype: DTypeLike) -> Array:
    parts = _parts(arrays, "stack", dtype)
    if len({shape_of(p) for p in parts}) > 1:
        shapes = ", ".join(str(shape_of(p)) for p in parts)
        raise ShapeError(f"stack of arrays of shapes {shapes}", "they must all have one shape")
    axis = axis_of(axis, len(shape_of(parts[0])) + 1)
    return lax.concatenate([lax.expand_dims(p, (axis,)) for p in parts], axis)


@public
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """Join arrays of one shape along a new axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.stack([jnp.zeros(1), jnp.ones(1)])
    Array([[0.],
           [1.]], dtype=float32)
    """
    no_out(out, "stack")
    return _stack(arrays, axis, dtype_argument(dtype))


@public
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along an axis, which they lose.

    >>> from tilewright import numpy as jnp
    >>> [float(v) for v in jnp.unstack(jnp.array([1., 2.]))]
    [1.0, 2.0]
    """
    x = value(x, "unstack")
    number = axis_of(axis, len(shape_of(x)))
    return tuple(lax.index_in_dim(x, i, number, keepdims=False) for i in range(shape_of(x)[number]))


def _rows(arrays: Any, raised: Any, name: str) -> list[Array]:
    result = raised(*_parts(arrays, name))
    return result if isinstance(result, list) else [result]


@public
def hstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays along the second axis, vectors along the first.

    >>> from tilewright import numpy as jnp
    >>> jnp.hstack([jnp.zeros(1), jnp.ones(1)])
    Array([0., 1.], dtype=float32)
    """
    parts = _rows(tup, atleast_1d, "hstack")
    return concatenate(parts, 0 if len(shape_of(parts[0])) == 1 else 1, dtype)


@public
def vstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays along the first axis, vectors as rows.

    >>> from tilewright import numpy as jnp
    >>> jnp.vstack([jnp.zeros(2), jnp.ones(2)]).shape
    (2, 2)
    """
    return concatenate(_rows(tup, atleast_2d, "vstack"), 0, dtype)


@public
def dstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Join arrays along the third axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.dstack([jnp.zeros(2), jnp.ones(2)]).shape
    (1, 2, 2)
    """
    return concatenate(_rows(tup, atleast_3d, "dstack"), 2, dtype)


@public
def column_stack(tup: Any) -> Array:
    """Join vectors as columns, and matrices along the second axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.column_stack([jnp.zeros(2), jnp.ones(2)]).shape
    (2, 2)
    """
    parts = [lax.reshape(p, (-1 if not shape_of(p) else shape_of(p)[0], 1)) if len(shape_of(p)) == 1 else p
             for p in _rows(tup, atleast_1d, "column_stack")]  # fmt: skip
    return concatenate(parts, 1)


@public
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Join values to the end of an array, both laid flat unless an axis is named.

    >>> from tilewright import numpy as jnp
    >>> jnp.append(jnp.arange(2), 5)
    Array([0, 1, 5], dtype=int32)
    """
    if axis is None:
        return concatenate([ravel(value(arr)), ravel(value(values))])
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Array:
    """Assemble nested lists of arrays: the innermost along the last axis, the next along the one before.

    >>> from tilewright import numpy as jnp
    >>> jnp.block([[jnp.zeros((1, 1)), jnp.ones((1, 1))]]).shape
    (1, 2)
    """

    def depth(x: Any) -> int:
        return 1 + max(depth(v) for v in x) if isinstance(x, list) else 0

    def join(x: Any, level: int, rank: int) -> Array:
        if isinstance(x, list):
            return concatenate([join(v, level - 1, rank) for v in x], rank - level)
        a = value(x)
        missing = rank - len(shape_of(a))
        return lax.expand_dims(a, tuple(range(missing))) if missing > 0 else a

    def largest(x: Any) -> int:
        return max(largest(v) for v in x) if isinstance(x, list) else len(shape_of(x))

    levels = depth(arrays)
    return join(arrays, levels, max(levels, largest(arrays)))


# ---------------------------------------------------------------------------- splitting


def _split(name: str, ary: ArrayLike, indices_or_sections: Any, axis: int, even: bool) -> list[Array]:
    a = value(ary, name)
    number = axis_of(axis, len(shape_of(a)))
    length = shape_of(a)[number]
    if np.ndim(indices_or_sections) == 0:
        whole = isinstance(indices_or_sections, float) and indices_or_sections.is_integer()
        count = int(indices_or_sections) if whole else integer(indices_or_sections, "indices_or_sections", name)
        if count < 1:
            raise ArgumentError(f"{name} into {count} parts", "ask for one part or more")
        if even and length % count:
            raise ArgumentError(
                f"an axis of {length} elements does not split into {count} equal parts", "use `array_split`"
            )
        part, more = divmod(length, count)
        cuts = [i * part + min(i, more) for i in range(1, count)]
    else:
        cuts = [as_size(i) for i in indices_or_sections]
    bounds = [0, *(min(max(c + length if c < 0 else c, 0), length) for c in cuts), length]
    return [lax.slice_in_dim(a, lo, max(lo, hi), axis=number) for lo, hi in zip(bounds[:-1], bounds[1:], strict=True)]


@public
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into equal parts, or at given positions.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.split(jnp.arange(4), 2)]
    [(2,), (2,)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


@public
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into parts as equal as can be, or at given positions.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.array_split(jnp.arange(3), 2)]
    [(2,), (1,)]
    """
    return _split("array_split", ary, indices_or_sections, axis, False)


@public
def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.vsplit(jnp.ones((2, 2)), 2)]
    [(1, 2), (1, 2)]
    """
    return split(ary, indices_or_sections, 0)


@public
def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, of a vector along the first.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.hsplit(jnp.ones((2, 2)), 2)]
    [(2, 1), (2, 1)]
    """
    return split(ary, indices_or_sections, 0 if len(shape_of(ary)) == 1 else 1)


@public
def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis.

    >>> from tilewright import numpy as jnp
    >>> [v.shape for v in jnp.dsplit(jnp.ones((1, 1, 2)), 2)]
    [(1, 1, 1), (1, 1, 1)]
    """
    return split(ary, indices_or_sections, 2)


__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit",
    "hstack", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip
