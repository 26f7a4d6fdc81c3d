"""The primitives `gather`, `scatter` and its kin: each one's derivative reads or writes by the other.

A scatter is the mirror image of a gather: updates have window axes (`update_window_dims`) and one axis for each axis
of the indices but the last. Windows that leave the array are dropped (`FILL_OR_DROP`, and in effect
`PROMISE_IN_BOUNDS`) or moved inside (`CLIP`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import FREE, Loops, Relation, Work, inserted
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero, all_zero
from ...ir.program import Program
from ...ir.types import UINT32, ArrayType, Shape
from ...support.errors import DtypeError, ShapeError, UnsupportedError
from ...tracing.numpy_interpreter import evaluate
from ...tracing.trace import dtype_of, shape_of, typeof
from ...transforms.rule_helpers import instantiate, zeros
from ...transforms.structural_primitives import add_tangents, moveaxis, moved
from ..elementwise.arithmetic import add_p, div_p, mul_p, neg_p
from ..elementwise.comparison import eq_p, select_n_p
from ..elementwise.conversion import convert_element_type
from .gather_dimension_numbers import (
    CLIP,
    FILL,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    added,
    check_batching,
    check_dims,
    check_indices,
    default_fill,
    gather_shape,
    window_axes,
    window_positions,
    window_sizes,
)
from .shape import Dims, broadcasted_iota, full, reshape_to

# ---------------------------------------------------------------------------- gather: typing and meaning


def _gather_typing(
    x: ArrayType, indices: ArrayType, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Dims,
    indices_are_sorted: bool, unique_indices: bool, mode: GatherScatterMode, fill_value: ArrayLike | None,
) -> ArrayType:  # fmt: skip
    d, rank = dimension_numbers, x.ndim
    check_indices("gather", indices, len(d.start_index_map))
    batch = indices.shape[:-1]
    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    out_rank = len(batch) + len(d.offset_dims)
    check_dims("gather", "offset_dims", d.offset_dims, out_rank)
    check_dims("gather", "collapsed_slice_dims", d.collapsed_slice_dims, rank)
    check_dims("gather", "operand_batching_dims", d.operand_batching_dims, rank)
    check_dims("gather", "start_indices_batching_dims", d.start_indices_batching_dims, len(batch), ordered=False)
    check_dims("gather", "collapsed_slice_dims and operand_batching_dims", gone, rank, ordered=False)
    check_dims("gather", "start_index_map and operand_batching_dims", (*d.start_index_map, *d.operand_batching_dims),
               rank, ordered=False)  # fmt: skip
    if len(slice_sizes) != rank or len(d.offset_dims) + len(gone) != rank:
        raise ShapeError(f"gather: slice_sizes {slice_sizes} and {d} do not fit the operand {x.show()}")
    for size, limit in zip(slice_sizes, x.shape, strict=True):
        if not 0 <= size <= limit:
            raise ShapeError(f"gather: slice_sizes {slice_sizes} exceed the operand {x.show()}")
    if any(slice_sizes[g] != 1 for g in d.collapsed_slice_dims) or any(slice_sizes[g] > 1 for g in gone):
        raise ShapeError(f"gather: slice_sizes {slice_sizes} must be 1 along axes {gone}, which the result lacks")
    check_batching("gather", x, indices, d.operand_batching_dims, d.start_indices_batching_dims)
    return ArrayType(gather_shape(batch, d, slice_sizes), x.dtype, x.weak_type)


def _gather_numpy(
    x: Operand, indices: Operand, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
    mode: GatherScatterMode, fill_value: ArrayLike | None, **_: Any,
) -> Any:  # fmt: skip
    out_shape = gather_shape(indices.shape[:-1], dimension_numbers, slice_sizes)
    if 0 in out_shape:
        return np.zeros(out_shape, x.dtype)
    positions, inside = window_positions(x.shape, indices, out_shape, dimension_numbers, slice_sizes, clamp=True)
    out = x[positions]
    if mode is FILL:
        fill = np.asarray(default_fill(x.dtype) if fill_value is None else fill_value).astype(x.dtype)
        out = np.where(inside, out, fill)
    return out


# ---------------------------------------------------------------------------- gather: rules


def _gather_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out, t = gather_p.bind(*primals, **params), tangents[0]
    if type(t) is Zero:
        return out, Zero(typeof(out).tangent())
    return out, gather_p.bind(t, primals[1], **params | {"fill_value": 0})


def _gather_transpose(
    ct: Array, x: Linear, indices: Array, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
    fill_value: ArrayLike | None, **how: Any,
) -> Any:  # fmt: skip
    if not isinstance(x, Linear):
        return [None, None]
    into = zeros(ArrayType(x.shape, dtype_of(ct)))
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    return [scatter_add_p.bind(into, indices, ct, dimension_numbers=numbers, **how), None]


def _gather_batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Dims, **how: Any,
) -> Any:  # fmt: skip
    (x, indices), (x_dim, i_dim), d = args, dims, dimension_numbers
    if i_dim is None:
        return _gather_batch_operand(axis, x, indices, x_dim, d, slice_sizes, how)
    indices = moveaxis(indices, i_dim, 0)
    d = d._replace(offset_dims=added(d.offset_dims), start_indices_batching_dims=added(d.start_indices_batching_dims))
    if x_dim is None:
        how |= {"indices_are_sorted": False, "unique_indices": False}
    else:
        x = moveaxis(x, x_dim, 0)
        slice_sizes = (min(1, axis.size), *slice_sizes)
        d = d._replace(
            collapsed_slice_dims=added(d.collapsed_slice_dims),
            start_index_map=added(d.start_index_map),
            operand_batching_dims=(0, *added(d.operand_batching_dims)),
            start_indices_batching_dims=(0, *d.start_indices_batching_dims),
        )
        how |= {"indices_are_sorted": False}
    return gather_p.bind(x, indices, dimension_numbers=d, slice_sizes=slice_sizes, **how), 0


def _gather_batch_operand(
    axis: AxisInfo, x: Array, indices: Array, at: int, d: GatherDimensionNumbers, slice_sizes: Dims,
    how: Mapping[str, Any],
) -> Any:  # fmt: skip
    """Only the operand is batched: its batch axis, wherever it is, becomes one more window axis."""

    def shifted(values: Dims) -> Dims:
        return tuple(v + (v >= at) for v in values)

    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    before = sum(i not in gone for i in range(at))
    rank = len(shape_of(indices)) - 1 + len(d.offset_dims)
    out = d.offset_dims[before] if before < len(d.offset_dims) else rank
    offsets = (*d.offset_dims[:before], out, *added(d.offset_dims[before:]))
    d = d._replace(
        offset_dims=offsets, collapsed_slice_dims=shifted(d.collapsed_slice_dims),
        start_index_map=shifted(d.start_index_map), operand_batching_dims=shifted(d.operand_batching_dims))  # fmt: skip
    sizes = inserted(slice_sizes, at, axis.size)
    return gather_p.bind(x, indices, dimension_numbers=d, slice_sizes=sizes, **how), out


def _gather_relation(
    ins: Sequence[Any], outs: Sequence[Any], *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Dims, **_: Any
) -> Relation:
    """Parallel along the axes of the indices and those that windows take whole; all of any other may be read."""
    (x, indices), (out,), d, loops = ins, outs, dimension_numbers, Loops()
    batch = loops.axes(indices.shape[:-1])
    (vector,), kinds = loops.whole(indices.shape[-1])
    axes, window, more = window_axes(loops, x, slice_sizes, batch, d)
    rest, inner = iter(batch), iter(window)
    result = tuple(next(inner) if i in d.offset_dims else next(rest) for i in range(out.ndim))
    return loops.relation([axes, (*batch, vector)], [result], kinds | more)


gather_p: Primitive = Primitive(
    "gather",
    typing=_gather_typing,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
    numpy=_gather_numpy,
    relation=_gather_relation,
    work=FREE,
)


# ---------------------------------------------------------------------------- scatter: typing and meaning


def _typing(name: str) -> Callable[..., ArrayType]:
    def typing(
        x: ArrayType, indices: ArrayType, updates: ArrayType, *, dimension_numbers: ScatterDimensionNumbers, **_: Any
    ) -> ArrayType:
        d, batch = dimension_numbers, indices.shape[:-1]
        check_indices(name, indices, len(d.scatter_dims_to_operand_dims))
        if updates.dtype != x.dtype:
            raise DtypeError(f"{name}: updates are {updates.show()}, the operand {x.show()}", "cast the updates")
        gone = (*d.inserted_window_dims, *d.operand_batching_dims)
        check_dims(name, "update_window_dims", d.update_window_dims, updates.ndim)
        check_dims(name, "inserted_window_dims", d.inserted_window_dims, x.ndim)
        check_dims(name, "operand_batching_dims", d.operand_batching_dims, x.ndim)
        check_dims(name, "scatter_indices_batching_dims", d.scatter_indices_batching_dims, len(batch), ordered=False)
        check_dims(name, "inserted and batching axes", gone, x.ndim, ordered=False)
        indexed = (*d.scatter_dims_to_operand_dims, *d.operand_batching_dims)
        check_dims(name, "indexed and batching axes", indexed, x.ndim, ordered=False)
        rest = tuple(n for i, n in enumerate(updates.shape) if i not in d.update_window_dims)
        if len(d.update_window_dims) + len(gone) != x.ndim or rest != batch:
            shown = f"updates {updates.show()}, indices {indices.show()} and operand {x.show()}"
            raise ShapeError(f"{name}: {shown} are inconsistent under {d}")
        sizes = window_sizes(x.shape, updates.shape, d)
        if any(n > limit for n, limit in zip(sizes, x.shape, strict=True)):
            raise ShapeError(f"{name}: windows {sizes} of the updates {updates.show()} exceed the operand {x.show()}")
        check_batching(name, x, indices, d.operand_batching_dims, d.scatter_indices_batching_dims)
        return ArrayType(x.shape, x.dtype, x.weak_type)

    return typing


def _positions(
    x: Operand, indices: Operand, updates: Operand, d: ScatterDimensionNumbers, mode: GatherScatterMode
) -> tuple[Any, Any]:
    """Positions in `x` of the update elements to be applied, in order, and those elements' mask."""
    sizes = window_sizes(x.shape, updates.shape, d)
    at, inside = window_positions(x.shape, indices, updates.shape, d.as_gather(), sizes, clamp=mode is CLIP)
    keep = np.ones_like(inside) if mode is CLIP else inside
    return tuple(a[keep] for a in at), keep


def _numpy(combine: Callable[..., Any] | None) -> Callable[..., Any]:
    def evaluate(
        x: Operand, indices: Operand, updates: Operand, *, dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode, **_: Any,
    ) -> Any:  # fmt: skip
        out = x.copy()
        at, keep = _positions(x, indices, updates, dimension_numbers, mode)
        if x.ndim == 0:
            for u in updates[keep]:
                out = np.asarray(u if combine is None else combine(out, u))
        elif combine is None:
            out[at] = updates[keep]
        else:
            combine.at(out, at, updates[keep])
        return out

    return evaluate


# ---------------------------------------------------------------------------- derivatives


def reads_of(
    x: ArrayLike, indices: ArrayLike, updates_shape: Shape, params: dict[str, Any], fill: Any = 0
) -> Any:
    """The elements of `x` at the scattered places."""
    d = params["dimension_numbers"]
    sizes = window_sizes(shape_of(x), updates_shape, d)
    how = {k: params[k] for k in ("indices_are_sorted", "unique_indices", "mode")}
    return gather_p.bind(x, indices, dimension_numbers=d.as_gather(), slice_sizes=sizes, fill_value=fill, **how)


def _zeros_like(x: Operand) -> Any:
    return zeros(ArrayType(shape_of(x), dtype_of(x)))


def _adds(x: Array, indices: Array, updates: Array, params: dict[str, Any]) -> Any:
    return scatter_add_p.bind(x, indices, updates, **params)


def _additive_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive().bind(*primals, **params)
        t, _, t_updates = tangents
        if type(t_updates) is Zero:
            return out, Zero(typeof(out).tangent()) if type(t) is Zero else t
        return out, primitive().bind(instantiate(t), primals[1], t_updates, **params)

    return jvp


def _additive_transpose(sign: Callable[[Any], Any]) -> Callable[..., Any]:
    def transpose(ct: Operand, x: Operand | Linear, indices: Operand, updates: Linear, **params: Any) -> Any:
        to_updates = sign(reads_of(ct, indices, updates.shape, params)) if isinstance(updates, Linear) else None
        return [ct if isinstance(x, Linear) else None, None, to_updates]

    return transpose


def _set_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    (x, indices, updates), (t, _, t_updates) = primals, tangents
    out = scatter_p.bind(*primals, **params)
    if all_zero((t, t_updates)):
        return out, Zero(typeof(out).tangent())
    t, t_updates = instantiate(t), instantiate(t_updates)
    if params["unique_indices"]:
        return out, scatter_p.bind(t, indices, t_updates, **params)
    # Of updates that go to one place one wins. Scatter each element's own number, from 1, to see which.
    shape = shape_of(updates)
    size = int(np.prod(shape))
    numbers = reshape_to(broadcasted_iota(UINT32, (size,), 0) if size else full((0,), np.uint32(0)), shape)
    numbers = add_p.bind(numbers, np.uint32(1))
    winners = scatter_p.bind(full(shape_of(x), np.uint32(0)), indices, numbers, **params)
    won = eq_p.bind(reads_of(winners, indices, shape, params), numbers)
    kept = select_n_p.bind(eq_p.bind(winners, np.uint32(0)), _zeros_like(t), t)
    return out, _adds(kept, indices, select_n_p.bind(won, _zeros_like(t_updates), t_updates), params)


def _set_transpose(ct: Array, x: Array | Linear, indices: Array, updates: Linear, **params: Any) -> Any:
    if not params["unique_indices"]:
        raise UnsupportedError("scatter: transposed with indices that may repeat", "pass `unique_indices=True`")
    to_x = to_updates = None
    if isinstance(x, Linear):
        to_x = scatter_p.bind(ct, indices, zeros(ArrayType(updates.shape, dtype_of(ct))), **params)
    if isinstance(updates, Linear):
        to_updates = reads_of(ct, indices, updates.shape, params)
    return [to_x, None, to_updates]


def _unique_only(params: dict[str, Any]) -> None:
    if not params["unique_indices"]:
        raise UnsupportedError(
            "scatter_mul has no derivative with respect to updates whose indices may repeat",
            "pass `unique_indices=True` if they do not")  # fmt: skip


def _mul_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    (x, indices, updates), (t, _, t_updates) = primals, tangents
    out = scatter_mul_p.bind(*primals, **params)
    tangent: Any = Zero(typeof(out).tangent())
    if type(t) is not Zero:
        tangent = scatter_mul_p.bind(t, indices, updates, **params)
    if type(t_updates) is not Zero:
        _unique_only(params)
        change = mul_p.bind(t_updates, reads_of(x, indices, shape_of(updates), params))
        tangent = add_tangents(tangent, _adds(_zeros_like(x), indices, change, params))
    return out, tangent


def _mul_transpose(ct: Array, x: Linear, indices: Array, updates: Array, **params: Any) -> Any:
    if isinstance(x, Linear):
        return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]
    _unique_only(params)
    return [None, None, reads_of(mul_p.bind(ct, x), indices, updates.shape, params)]


def _extreme_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    """Of the operand's element and the updates equal to the result, each gets an equal share."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (x, indices, updates), (t, _, t_updates) = primals, tangents
        out = primitive().bind(*primals, **params)
        if all_zero((t, t_updates)):
            return out, Zero(typeof(out).tangent())
        dtype = dtype_of(out)
        is_x = eq_p.bind(x, out)
        is_update = eq_p.bind(updates, reads_of(out, indices, shape_of(updates), params))
        as_number = functools.partial(convert_element_type, new_dtype=dtype)
        count = _adds(as_number(is_x), indices, as_number(is_update), params)
        t, t_updates = instantiate(t), instantiate(t_updates)
        from_x = select_n_p.bind(is_x, _zeros_like(t), t)
        from_updates = select_n_p.bind(is_update, _zeros_like(t_updates), t_updates)
        return out, div_p.bind(_adds(from_x, indices, from_updates, params), count)

    return jvp


# ---------------------------------------------------------------------------- batching


def _batch(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(
        axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, dimension_numbers: ScatterDimensionNumbers,
        **how: Any,
    ) -> Any:  # fmt: skip
        (x, indices, updates), (x_dim, i_dim, u_dim), d = args, dims, dimension_numbers
        x, updates = moved(axis, x, x_dim, 0), moved(axis, updates, u_dim, 0)
        d = d._replace(
            inserted_window_dims=added(d.inserted_window_dims),
            scatter_dims_to_operand_dims=added(d.scatter_dims_to_operand_dims),
            operand_batching_dims=added(d.operand_batching_dims),
            update_window_dims=added(d.update_window_dims),
        )
        if i_dim is None:
            d = d._replace(update_window_dims=(0, *d.update_window_dims))
        else:
            indices = moved(axis, indices, i_dim, 0)
            d = d._replace(
                operand_batching_dims=(0, *d.operand_batching_dims),
                scatter_indices_batching_dims=(0, *added(d.scatter_indices_batching_dims)),
            )
            how["indices_are_sorted"] = False
        return primitive().bind(x, indices, updates, dimension_numbers=d, **how), 0

    return batch


# ---------------------------------------------------------------------------- relation


def _relation(
    ins: Sequence[Any], outs: Sequence[Any], *, dimension_numbers: ScatterDimensionNumbers, **_: Any
) -> Relation:
    """Parallel along batching axes and those that windows take whole; any update may reach the rest."""
    (x, indices, updates), d, loops = ins, dimension_numbers.as_gather(), Loops()
    batch, kinds = loops.whole(*indices.shape[:-1])
    for axis in (batch[i] for i in d.start_indices_batching_dims):
        for f in axis:
            del kinds[f]
    (vector,), more = loops.whole(indices.shape[-1])
    sizes = window_sizes(x.shape, updates.shape, dimension_numbers)
    axes, window, rest = window_axes(loops, x, sizes, batch, d)
    places, inner = iter(batch), iter(window)
    update = tuple(next(inner) if i in d.offset_dims else next(places) for i in range(updates.ndim))
    return loops.relation([axes, (*batch, vector), update], [axes], kinds | more | rest)


# ---------------------------------------------------------------------------- the primitives


def _scatter(
    name: str, combine: Callable[..., Any] | None, jvp: Callable[..., Any], transpose: Callable[..., Any] | None = None
) -> Primitive:
    late = lambda: p  # noqa: E731
    p = Primitive(
        name, typing=_typing(name), jvp=jvp(late) if jvp in (_additive_jvp, _extreme_jvp) else jvp,
        transpose=transpose, batch=_batch(late), numpy=_numpy(combine), relation=_relation,
        work=FREE if combine is None else Work(1, operand=2))  # fmt: skip
    return p


scatter_p: Primitive = _scatter("scatter", None, _set_jvp, _set_transpose)
scatter_add_p: Primitive = _scatter("scatter_add", np.add, _additive_jvp, _additive_transpose(lambda ct: ct))
scatter_sub_p: Primitive
scatter_sub_p = _scatter("scatter_sub", np.subtract, _additive_jvp, _additive_transpose(lambda ct: neg_p.bind(ct)))
scatter_mul_p: Primitive = _scatter("scatter_mul", np.multiply, _mul_jvp, _mul_transpose)
scatter_min_p: Primitive = _scatter("scatter_min", np.minimum, _extreme_jvp)
scatter_max_p: Primitive = _scatter("scatter_max", np.maximum, _extreme_jvp)


# ---------------------------------------------------------------------------- scatter_apply


def _apply_numpy(
    x: Operand, indices: Operand, updates: Operand, *, update: Program, dimension_numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode, **_: Any,
) -> Any:  # fmt: skip
    out = x.copy()
    at, keep = _positions(x, indices, updates, dimension_numbers, mode)
    for place in zip(*(a.tolist() for a in at), strict=True) if at else [()] * np.count_nonzero(keep):
        out[place] = evaluate(update, out[place])[0]
    return out


scatter_apply_p: Primitive = Primitive(
    "scatter_apply",
    typing=_typing("scatter_apply"),
    batch=_batch(lambda: scatter_apply_p),
    numpy=_apply_numpy,
    relation=_relation,
    runs=lambda ins, **_: ins[2].size,
)
PRIMITIVES: tuple[Primitive, ...] = (
    gather_p, scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p, scatter_apply_p,
)  # fmt: skip

__all__ = [
    "gather_p", "scatter_add_p", "scatter_max_p", "scatter_min_p", "scatter_mul_p", "scatter_p", "scatter_sub_p",
]  # fmt: skip
