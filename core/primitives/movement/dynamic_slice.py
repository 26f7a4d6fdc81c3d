"""`dynamic_slice` and `dynamic_update_slice`: windows of a static size at computed, clamped positions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import FREE, MOVER, Relation, Window, inserted, same_places
from ...ir.dimension import dimension
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.types import INT32, INT64, ArrayType, Shape, is_integer, is_unsigned
from ...support.call_errors import public
from ...support.errors import ArgumentError, DtypeError, ShapeError, plural
from ...tracing.trace import Value, dtype_of, shape_of, typeof
from ...transforms.rule_helpers import instantiate, zeros
from ...transforms.structural_primitives import moved
from ..elementwise.arithmetic import add_p, mul_p
from ..elementwise.comparison import lt_p, select_n_p
from ..elementwise.conversion import convert_element_type, convert_element_type_p
from .gather_dimension_numbers import CLIP, GatherDimensionNumbers, ScatterDimensionNumbers
from .gather_scatter import gather_p, scatter_p
from .shape import Dims, as_axis, broadcast_in_dim, concatenate, index_in_dim, integers, slide, squeeze

slice_of = slice


def _check_starts(name: str, x: ArrayType, starts: Sequence[ArrayType]) -> None:
    if len(starts) != x.ndim:
        raise ShapeError(f"{name}: got {plural(len(starts), 'start index')} for the operand {x.show()}",
                         "give one per axis")  # fmt: skip
    for s in starts:
        if s.shape or not is_integer(s.dtype):
            raise DtypeError(f"{name}: a start index is {s.show()}", "start indices are integer scalars")


def _window(starts: Sequence[Any], shape: Shape, sizes: Shape) -> Any:
    begins = [min(max(int(s), 0), d - n) for s, d, n in zip(starts, shape, sizes, strict=True)]
    return tuple(slice_of(a, a + n) for a, n in zip(begins, sizes, strict=True))


def _stacked(axis: AxisInfo, starts: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Start indices, batched ones among them, as one array (axis.size, number of axes)."""
    wide = any(dtype_of(s) == INT64 for s in starts)
    columns = [
        broadcast_in_dim(widened(s) if wide else convert_element_type(s, INT32), (axis.size, 1),
                         () if d is None else (0,))  # fmt: skip
        for s, d in zip(starts, dims, strict=True)
    ]
    return concatenate(columns, 1)


# ---------------------------------------------------------------------------- dynamic_slice


def _slice_typing(x: ArrayType, *starts: ArrayType, slice_sizes: Dims) -> ArrayType:
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != x.ndim or any(not 0 <= n <= d for n, d in zip(slice_sizes, x.shape, strict=True)):
        remedy = "give one size per axis, at most the axis' own"
        raise ShapeError(f"dynamic_slice: slice sizes {slice_sizes} do not fit the operand {x.show()}", remedy)
    return x.with_shape(slice_sizes)


def _slice_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, slice_sizes: Dims) -> Any:
    out = dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes)
    if type(tangents[0]) is Zero:
        return out, Zero(typeof(out).tangent())
    return out, dynamic_slice_p.bind(tangents[0], *primals[1:], slice_sizes=slice_sizes)


def _slice_transpose(ct: Array, x: Linear, *starts: Any, slice_sizes: Dims) -> Any:
    if not isinstance(x, Linear):
        return [None] * (1 + len(starts))
    into = zeros(ArrayType(x.shape, dtype_of(ct)))
    return [dynamic_update_slice_p.bind(into, ct, *starts), *[None] * len(starts)]


def _slice_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, slice_sizes: Dims) -> Any:
    (x, *starts), (b, *start_dims) = args, dims
    if all(d is None for d in start_dims):
        zero = np.zeros((), dtype_of(starts[0]) if starts else INT32)[()]
        out = dynamic_slice_p.bind(x, *inserted(starts, b, zero), slice_sizes=inserted(slice_sizes, b, axis.size))
        return out, b
    axes = tuple(range(len(slice_sizes)))
    assert gather_p.batch is not None
    return gather_p.batch(
        axis, (x, _stacked(axis, starts, start_dims)), (b, 0),
        dimension_numbers=GatherDimensionNumbers(axes, (), axes), slice_sizes=slice_sizes,
        indices_are_sorted=True, unique_indices=True, mode=CLIP, fill_value=None)  # fmt: skip


def _slice_relation(ins: Sequence[Any], outs: Sequence[Any], *, slice_sizes: Dims) -> Relation:
    x, *starts = ins
    windows = [Window(0, 0) if n == size else None for n, size in zip(x.shape, slice_sizes, strict=True)]
    return slide(x, outs[0], windows, *((),) * len(starts))


dynamic_slice_p: Primitive = Primitive(
    "dynamic_slice",
    places=same_places,
    typing=_slice_typing,
    jvp=_slice_jvp,
    transpose=_slice_transpose,
    batch=_slice_batch,
    numpy=lambda x, *starts, slice_sizes: x[_window(starts, x.shape, slice_sizes)],
    relation=_slice_relation,
    work=FREE,
    kind=MOVER,
)


INT32_MAX = int(np.iinfo(np.int32).max)


def int64(values: ArrayLike) -> Any:
    """Integers as a value of int64, whatever `enable_x64` says: made of two words of int32."""
    found = np.asarray(values, np.int64)
    if np.all(np.abs(found) <= INT32_MAX):
        return widened(found.astype(np.int32)[()])
    high, low = (found >> 31).astype(np.int32)[()], (found & INT32_MAX).astype(np.int32)[()]
    half = widened(np.full(found.shape, 2**15, np.int32)[()])
    unit = add_p.bind(mul_p.bind(half, half), mul_p.bind(half, half))
    return add_p.bind(mul_p.bind(widened(high), unit), widened(low))


def widened(x: ArrayLike) -> Any:
    """Integers as int64, whatever `enable_x64` says."""
    return convert_element_type_p.bind(x, new_dtype=INT64, weak_type=False)


def wrapped(index: ArrayLike, size: int) -> Any:
    """An index with negative values counted from the end; known ones become Python integers."""
    symbolic = getattr(size, "symbolic", False)
    if getattr(index, "symbolic", False) or (symbolic and isinstance(index, int)):
        return index if index >= 0 else index + size
    if not isinstance(index, Value) and not symbolic:
        known = np.asarray(index)
        if known.dtype.kind not in "iu":
            raise DtypeError(f"the start index {index!r}", "start indices are integers")
        known = known.astype(np.int64)
        known = np.where(known < 0, known + size, known)
        return known if known.ndim else int(known)
    type_ = typeof(index)
    if is_unsigned(type_.dtype):
        return index
    if np.dtype(type_.dtype).itemsize < 4:
        index = convert_element_type(index, INT32)
    if not symbolic and size > INT32_MAX and np.dtype(dtype_of(index)).itemsize < 8:
        index = widened(index)
        zero, length = (int64(np.full(shape_of(index), n)) for n in (0, size))
        return select_n_p.bind(lt_p.bind(index, zero), index, add_p.bind(index, length))
    dtype = dtype_of(index)
    zero = np.zeros((), dtype)[()]
    length = convert_element_type(dimension(size), dtype) if symbolic else np.asarray(size).astype(dtype)[()]
    return select_n_p.bind(lt_p.bind(index, zero), index, add_p.bind(index, length))


def _starts(name: str, shape: Shape, starts: Sequence[Any], wrap: bool) -> list[Any]:
    if isinstance(starts, Value) or isinstance(starts, np.ndarray):
        if len(shape_of(starts)) != 1:
            raise ShapeError(f"{name}: start indices have shape {shape_of(starts)}", "pass a sequence of scalars")
        n = shape_of(starts)[0]
        starts = [squeeze(index_in_dim(starts, i), (0,)) for i in range(n)]
    starts = list(starts)
    if len(starts) != len(shape):
        what = f"{name}: got {plural(len(starts), 'start index')} for an operand of shape {shape}"
        raise ShapeError(what, "give one per axis")
    wraps = [wrap] * len(shape) if isinstance(wrap, bool) else list(wrap)
    if len(wraps) != len(shape):
        raise ArgumentError(f"{name}: allow_negative_indices {wrap} needs one entry per axis of shape {shape}")
    # Static indices become int32 literals, so that one program serves every Python integer type.
    found = [wrapped(s, d) if w else s for s, d, w in zip(starts, shape, wraps, strict=True)]
    return [_literal(s, d) if isinstance(s, int) else s for s, d in zip(found, shape, strict=True)]


def _literal(value: int, size: int) -> Any:
    if value > INT32_MAX and isinstance(size, int) and size > INT32_MAX:  # as far as the axis goes
        return int64(min(value, size))
    return np.int32(min(max(value, -INT32_MAX - 1), INT32_MAX))


@public
def dynamic_slice(
    operand: ArrayLike, start_indices: Any, slice_sizes: Sequence[int], *, allow_negative_indices: Any = True
) -> Array:
    """The window of `slice_sizes` that starts at `start_indices`, moved inside the array where it would leave it.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.dynamic_slice(jnp.arange(5), (4,), (2,))
    Array([3, 4], dtype=int32)
    """
    starts = _starts("dynamic_slice", shape_of(operand), start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=integers(slice_sizes, "slice_sizes", "dynamic_slice"))


@public
def dynamic_slice_in_dim(
    operand: ArrayLike, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Array:
    """`dynamic_slice` along one axis, whole along the others.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.dynamic_slice_in_dim(jnp.ones((5, 3)), 2, 2).shape
    (2, 3)
    """
    shape = shape_of(operand)
    axis, size = as_axis(axis, len(shape), "dynamic_slice_in_dim"), operator.index(slice_size)
    starts, sizes = [0] * len(shape), list(shape)
    starts[axis], sizes[axis] = start_index, size
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


@public
def dynamic_index_in_dim(
    operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Array:
    """The part of an array at a computed index of one axis; the axis stays, with size 1, if `keepdims`.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.dynamic_index_in_dim(jnp.array([10, 20, 30]), 1, keepdims=False)
    Array(20, dtype=int32)
    """
    part = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return part if keepdims else squeeze(part, (axis,))


# ---------------------------------------------------------------------------- dynamic_update_slice


def _update_typing(x: ArrayType, update: ArrayType, *starts: ArrayType) -> ArrayType:
    _check_starts("dynamic_update_slice", x, starts)
    shown = f"the update {update.show()} into the operand {x.show()}"
    if update.dtype != x.dtype:
        raise DtypeError(f"dynamic_update_slice: cannot write {shown}", "cast the update with `astype`")
    if update.ndim != x.ndim or any(n > d for n, d in zip(update.shape, x.shape, strict=True)):
        raise ShapeError(f"dynamic_update_slice: cannot fit {shown}", "ranks must match and no size may exceed")
    return x.strong()


def _update_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    out, starts = dynamic_update_slice_p.bind(*primals), primals[2:]
    if all(type(t) is Zero for t in tangents[:2]):
        return out, Zero(typeof(out).tangent())
    return out, dynamic_update_slice_p.bind(*map(instantiate, tangents[:2]), *starts)


def _update_transpose(ct: Array, x: Array | Linear, update: Linear, *starts: Any) -> Any:
    shape = update.shape if isinstance(update, Linear) else shape_of(update)
    to_x = to_update = None
    if isinstance(x, Linear):
        to_x = dynamic_update_slice_p.bind(ct, zeros(ArrayType(shape, dtype_of(ct))), *starts)
    if isinstance(update, Linear):
        to_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=shape)
    return [to_x, to_update, *[None] * len(starts)]


def _update_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    (x, update, *starts), (x_dim, u_dim, *start_dims) = args, dims
    if all(d is None for d in start_dims):
        b = next(d for d in (x_dim, u_dim) if d is not None)
        zero = np.zeros((), dtype_of(starts[0]) if starts else INT32)[()]
        x, update = moved(axis, x, x_dim, b), moved(axis, update, u_dim, b)
        return dynamic_update_slice_p.bind(x, update, *inserted(starts, b, zero)), b
    window = tuple(range(len(starts)))
    assert scatter_p.batch is not None
    return scatter_p.batch(
        axis, (x, _stacked(axis, starts, start_dims), update), (x_dim, 0, u_dim),
        dimension_numbers=ScatterDimensionNumbers(window, (), window),
        indices_are_sorted=True, unique_indices=True, mode=CLIP)  # fmt: skip


def _update_numpy(x: Operand, update: Operand, *starts: Any) -> Any:
    out = x.copy()
    out[_window(starts, x.shape, update.shape)] = update
    return out


def _update_relation(ins: Sequence[Any], outs: Sequence[Any]) -> Relation:
    x, update, *starts = ins
    windows = [Window(0, 0) if n == size else None for n, size in zip(x.shape, update.shape, strict=True)]
    found = slide(x, update, windows)
    return replace(found, operands=(*found.operands, *found.results, *((),) * len(starts)), results=found.operands)


dynamic_update_slice_p: Primitive = Primitive(
    "dynamic_update_slice",
    places=same_places,
    typing=_update_typing,
    jvp=_update_jvp,
    transpose=_update_transpose,
    batch=_update_batch,
    numpy=_update_numpy,
    relation=_update_relation,
    work=FREE,
    kind=MOVER,
)


@public
def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Array:
    """`operand` with `update` written at `start_indices`, moved inside the array where it would leave it.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.dynamic_update_slice(jnp.zeros(4), jnp.ones(2), (1,))
    Array([0., 1., 1., 0.], dtype=float32)
    """
    starts = _starts("dynamic_update_slice", shape_of(operand), start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


@public
def dynamic_update_slice_in_dim(
    operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """`dynamic_update_slice` along one axis, from the start of the others.

    >>> from tilewright import lax, numpy as jnp
    >>> print(lax.dynamic_update_slice_in_dim(jnp.zeros((2, 3)), jnp.ones((2, 1)), 1, 1))
    [[0. 1. 0.]
     [0. 1. 0.]]
    """
    shape = shape_of(operand)
    starts: list[Any] = [0] * len(shape)
    starts[as_axis(axis, len(shape), "dynamic_update_slice_in_dim")] = start_index
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


@public
def dynamic_update_index_in_dim(
    operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """Write one part of an array at a computed index of an axis; `update` may lack the axis.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.dynamic_update_index_in_dim(jnp.zeros(3), 7.0, 1, 0)
    Array([0., 7., 0.], dtype=float32)
    """
    shape = shape_of(operand)
    axis = as_axis(axis, len(shape), "dynamic_update_index_in_dim")
    if len(shape_of(update)) != len(shape):
        given = shape_of(update)
        update = broadcast_in_dim(
            update, inserted(given, axis, 1), [i for i in range(len(shape)) if i != axis][: len(given)])  # fmt: skip
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)


PRIMITIVES: tuple[Primitive, ...] = (dynamic_slice_p, dynamic_update_slice_p)

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_slice_p",
    "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim", "dynamic_update_slice_p",
]  # fmt: skip
