"""`scatter` and its kin: writing, adding, ... windows into an array at computed positions.

The mirror image of `gather`: updates have window axes (`update_window_dims`) and one axis for each axis
of the indices but the last. Windows that leave the array are dropped (`FILL_OR_DROP`, and in effect
`PROMISE_IN_BOUNDS`) or moved inside (`CLIP`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DtypeError, ShapeError, UnsupportedError
from ..ir import Program
from ..primitive import AxisInfo, Linear, Primitive, Zero, all_zero
from ..relation import FREE, Loops, Relation, Work
from ..rules import add_tangents, instantiate, moved, zeros
from ..trace import dtype_of, shape_of, trace_program, typeof
from ..types import UINT32, ArrayType, Shape
from .compare import eq_p, select_n_p
from .convert import convert_element_type
from .elementwise import add_p, div_p, mul_p, neg_p
from .gather import (
    CLIP,
    GatherDimensionNumbers,
    GatherScatterMode,
    added,
    check_batching,
    check_dims,
    check_indices,
    gather_p,
    window_axes,
    window_positions,
)
from .shape import Dims, broadcasted_iota, full, integers, reshape_to


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and updates a scatter relates; the mirror of `GatherDimensionNumbers`."""

    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    operand_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()

    def as_gather(self) -> GatherDimensionNumbers:
        """The dimension numbers of the gather that reads what this scatter writes."""
        return GatherDimensionNumbers(*self)


def window_sizes(x_shape: Shape, update_shape: Shape, d: ScatterDimensionNumbers) -> Dims:
    """The size of a window along each axis of the operand."""
    gone = (*d.inserted_window_dims, *d.operand_batching_dims)
    sizes = iter([update_shape[i] for i in d.update_window_dims])
    return tuple(min(1, n) if i in gone else next(sizes) for i, n in enumerate(x_shape))


# ---------------------------------------------------------------------------- typing and meaning


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
            raise ShapeError(f"{name}: {shown} do not fit together under {d}")
        sizes = window_sizes(x.shape, updates.shape, d)
        if any(n > limit for n, limit in zip(sizes, x.shape, strict=True)):
            raise ShapeError(f"{name}: windows {sizes} of the updates {updates.show()} exceed the operand {x.show()}")
        check_batching(name, x, indices, d.operand_batching_dims, d.scatter_indices_batching_dims)
        return ArrayType(x.shape, x.dtype, x.weak_type and updates.weak_type)

    return typing


def _positions(x: Any, indices: Any, updates: Any, d: ScatterDimensionNumbers, mode: Any) -> tuple[Any, Any]:
    """Positions in `x` of the update elements to be applied, in order, and those elements' mask."""
    sizes = window_sizes(x.shape, updates.shape, d)
    at, inside = window_positions(x.shape, indices, updates.shape, d.as_gather(), sizes, clamp=mode is CLIP)
    keep = np.ones_like(inside) if mode is CLIP else inside
    return tuple(a[keep] for a in at), keep


def _numpy(combine: Any) -> Callable[..., Any]:
    def evaluate(x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, **_: Any) -> Any:
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


def _reads(x: Any, indices: Any, updates_shape: Shape, params: dict[str, Any], fill: Any = 0) -> Any:
    """What lies in `x` where the updates go."""
    d = params["dimension_numbers"]
    sizes = window_sizes(shape_of(x), updates_shape, d)
    how = {k: params[k] for k in ("indices_are_sorted", "unique_indices", "mode")}
    return gather_p.bind(x, indices, dimension_numbers=d.as_gather(), slice_sizes=sizes, fill_value=fill, **how)


def _zeros_like(x: Any) -> Any:
    return zeros(ArrayType(shape_of(x), dtype_of(x)))


def _adds(x: Any, indices: Any, updates: Any, params: dict[str, Any]) -> Any:
    return scatter_add_p.bind(x, indices, updates, **params)


def _additive_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        out = primitive().bind(*primals, **params)
        t, _, t_updates = tangents
        if type(t_updates) is Zero:
            return out, Zero(typeof(out).tangent()) if type(t) is Zero else t
        return out, primitive().bind(instantiate(t), primals[1], t_updates, **params)

    return jvp


def _additive_transpose(sign: Callable[[Any], Any]) -> Callable[..., Any]:
    def transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
        to_updates = sign(_reads(ct, indices, updates.shape, params)) if isinstance(updates, Linear) else None
        return [ct if isinstance(x, Linear) else None, None, to_updates]

    return transpose


def _set_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
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
    won = eq_p.bind(_reads(winners, indices, shape, params), numbers)
    kept = select_n_p.bind(eq_p.bind(winners, np.uint32(0)), _zeros_like(t), t)
    return out, _adds(kept, indices, select_n_p.bind(won, _zeros_like(t_updates), t_updates), params)


def _set_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    if not params["unique_indices"]:
        raise UnsupportedError("scatter: transposed with indices that may repeat", "pass `unique_indices=True`")
    to_x = to_updates = None
    if isinstance(x, Linear):
        to_x = scatter_p.bind(ct, indices, zeros(ArrayType(updates.shape, dtype_of(ct))), **params)
    if isinstance(updates, Linear):
        to_updates = _reads(ct, indices, updates.shape, params)
    return [to_x, None, to_updates]


def _unique_only(name: str, params: dict[str, Any]) -> None:
    if not params["unique_indices"]:
        raise UnsupportedError(
            f"{name} has no derivative with respect to updates whose indices may repeat",
            "pass `unique_indices=True` if they do not")  # fmt: skip


def _mul_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (x, indices, updates), (t, _, t_updates) = primals, tangents
    out = scatter_mul_p.bind(*primals, **params)
    tangent: Any = Zero(typeof(out).tangent())
    if type(t) is not Zero:
        tangent = scatter_mul_p.bind(t, indices, updates, **params)
    if type(t_updates) is not Zero:
        _unique_only("scatter_mul", params)
        change = mul_p.bind(t_updates, _reads(x, indices, shape_of(updates), params))
        tangent = add_tangents(tangent, _adds(_zeros_like(x), indices, change, params))
    return out, tangent


def _mul_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    if isinstance(x, Linear):
        return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]
    _unique_only("scatter_mul", params)
    return [None, None, _reads(mul_p.bind(ct, x), indices, updates.shape, params)]


def _extreme_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    """Of the operand's element and the updates equal to the result, each gets an equal share."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        (x, indices, updates), (t, _, t_updates) = primals, tangents
        out = primitive().bind(*primals, **params)
        if all_zero((t, t_updates)):
            return out, Zero(typeof(out).tangent())
        dtype = dtype_of(out)
        is_x = eq_p.bind(x, out)
        is_update = eq_p.bind(updates, _reads(out, indices, shape_of(updates), params))
        as_number = functools.partial(convert_element_type, new_dtype=dtype)
        count = _adds(as_number(is_x), indices, as_number(is_update), params)
        t, t_updates = instantiate(t), instantiate(t_updates)
        from_x = select_n_p.bind(is_x, _zeros_like(t), t)
        from_updates = select_n_p.bind(is_update, _zeros_like(t_updates), t_updates)
        return out, div_p.bind(_adds(from_x, indices, from_updates, params), count)

    return jvp


# ---------------------------------------------------------------------------- batching


def _batch(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(axis: AxisInfo, args: Any, dims: Any, *, dimension_numbers: ScatterDimensionNumbers, **how: Any) -> Any:
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


def _relation(ins: Any, outs: Any, *, dimension_numbers: ScatterDimensionNumbers, **_: Any) -> Relation:
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


def _scatter(name: str, combine: Any, jvp: Any, transpose: Any = None) -> Primitive:
    late = lambda: _BY_NAME[name]  # noqa: E731
    return Primitive(
        name, typing=_typing(name), jvp=jvp(late) if jvp in (_additive_jvp, _extreme_jvp) else jvp,
        transpose=transpose, batch=_batch(late), numpy=_numpy(combine), relation=_relation,
        work=FREE if combine is None else Work(1, operand=2))  # fmt: skip


scatter_p = _scatter("scatter", None, _set_jvp, _set_transpose)
scatter_add_p = _scatter("scatter_add", np.add, _additive_jvp, _additive_transpose(lambda ct: ct))
scatter_sub_p = _scatter("scatter_sub", np.subtract, _additive_jvp, _additive_transpose(lambda ct: neg_p.bind(ct)))
scatter_mul_p = _scatter("scatter_mul", np.multiply, _mul_jvp, _mul_transpose)
scatter_min_p = _scatter("scatter_min", np.minimum, _extreme_jvp)
scatter_max_p = _scatter("scatter_max", np.maximum, _extreme_jvp)


# ---------------------------------------------------------------------------- scatter_apply


def _apply_numpy(
    x: Any, indices: Any, updates: Any, *, update: Program, dimension_numbers: Any, mode: Any, **_: Any
) -> Any:
    from ..evaluate import evaluate

    out = x.copy()
    at, keep = _positions(x, indices, updates, dimension_numbers, mode)
    for place in zip(*(a.tolist() for a in at), strict=True) if at else [()] * np.count_nonzero(keep):
        out[place] = evaluate(update, out[place])[0]
    return out


scatter_apply_p = Primitive(
    "scatter_apply",
    typing=_typing("scatter_apply"),
    batch=_batch(lambda: scatter_apply_p),
    numpy=_apply_numpy,
    relation=_relation,
    runs=lambda ins, **_: ins[2].size,
)
_BY_NAME = {p.name: p for p in (scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p)}


# ---------------------------------------------------------------------------- functions


def _bind(
    primitive: Primitive, operand: Any, indices: Any, updates: Any, numbers: Sequence[Any], indices_are_sorted: bool,
    unique_indices: bool, mode: Any, **more: Any,
) -> Any:  # fmt: skip
    return primitive.bind(
        operand, indices, updates,
        dimension_numbers=ScatterDimensionNumbers(*(integers(d, "dimension", primitive.name) for d in numbers)),
        indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode), **more)  # fmt: skip


def _function(primitive: Primitive, doc: str) -> Callable[..., Any]:
    def function(
        operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
        indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
    ) -> Any:  # fmt: skip
        how = (dimension_numbers, indices_are_sorted, unique_indices, mode)
        return _bind(primitive, operand, scatter_indices, updates, *how)

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = doc
    return function


scatter = _function(
    scatter_p, "Write `updates` into the windows of `operand` at `scatter_indices`; of repeated ones one wins."
)
scatter_add = _function(scatter_add_p, "Add `updates` to the windows of `operand` at `scatter_indices`.")
scatter_sub = _function(scatter_sub_p, "Subtract `updates` from the windows of `operand` at `scatter_indices`.")
scatter_mul = _function(scatter_mul_p, "Multiply the windows of `operand` at `scatter_indices` by `updates`.")
scatter_min = _function(scatter_min_p, "Lower the windows of `operand` at `scatter_indices` to `updates`.")
scatter_max = _function(scatter_max_p, "Raise the windows of `operand` at `scatter_indices` to `updates`.")


def scatter_apply(
    operand: Any, scatter_indices: Any, func: Callable[[Any], Any], dimension_numbers: ScatterDimensionNumbers, *,
    update_shape: Sequence[int] = (), indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Any:  # fmt: skip
    """Apply a scalar function in place at the indices, once for each time a place is named.

    It has a derivative only with `unique_indices=True`.
    """
    shape = tuple(operator.index(n) for n in update_shape)
    how = (dimension_numbers, indices_are_sorted, unique_indices, mode)
    if unique_indices:
        params = {"dimension_numbers": ScatterDimensionNumbers(*map(tuple, dimension_numbers)),
                  "indices_are_sorted": indices_are_sorted, "unique_indices": True,
                  "mode": GatherScatterMode.from_any(mode)}  # fmt: skip
        values = func(_reads(operand, scatter_indices, shape, params, fill=None))
        return _bind(scatter_p, operand, scatter_indices, values, *how)
    scalar = ArrayType((), dtype_of(operand))
    program = trace_program(lambda v: [convert_element_type(func(v), scalar.dtype)], [scalar], "scatter_apply")
    if program.constants:
        raise UnsupportedError("scatter_apply: the function closes over arrays", "pass `unique_indices=True`")
    updates = full(shape, 0, scalar.dtype)
    return _bind(scatter_apply_p, operand, scatter_indices, updates, *how, update=program)


PRIMITIVES: tuple[Primitive, ...] = (*_BY_NAME.values(), scatter_apply_p)

__all__ = [
    "ScatterDimensionNumbers", "scatter", "scatter_add", "scatter_add_p", "scatter_apply", "scatter_max",
    "scatter_max_p", "scatter_min", "scatter_min_p", "scatter_mul", "scatter_mul_p", "scatter_p", "scatter_sub",
    "scatter_sub_p",
]  # fmt: skip
