"""Communication over named axes: those that `vmap(axis_name=...)` defines, and in a `shard_map` those of a mesh.

A collective has an `axis` effect for each name, so that batching over that axis reaches it whether or not
its operand is batched; batching over the axis turns it into a reduction, a concatenation or an index.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import other_places, same_places
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.types import BOOL, INT32, ArrayType, canonical_dtype
from ...support import pytree
from ...support.errors import ArgumentError, ArgumentTypeError, ShapeError, UnboundAxisError, UnsupportedError
from ...tracing.trace import Value, axis_environment, shape_of, typeof
from ...transforms.rule_helpers import instantiate
from ...transforms.structural_primitives import moveaxis, moved
from ..elementwise.arithmetic import mul_p
from ..elementwise.comparison import eq_p, select_n_p
from ..elementwise.conversion import convert_element_type_p
from ..movement.dynamic_slice import dynamic_slice_in_dim
from ..movement.shape import (
    broadcast_in_dim_p,
    concatenate,
    expand_dims,
    index_in_dim,
    iota_p,
    reshape_to,
    slice_in_dim,
    squeeze,
)
from ..reduction.reduce import reduce_max_p, reduce_min_p, reduce_sum_p
from .varying_axes import (
    axis_effects,
    mesh_axes,
    over_mesh,
    pmax_invariant_p,
    pmin_invariant_p,
    psum_invariant_p,
    pvary,
)

Names = tuple[Any, ...]


def _sizes() -> dict[Any, int]:
    return {a[0]: a[1] for a in axis_environment()}


def _size_of(name: Hashable) -> int:
    sizes = _sizes()
    if name not in sizes:
        bound = ", ".join(map(repr, sizes)) or "none"
        raise UnboundAxisError(
            f"there is no axis named {name!r} here (bound: {bound})",
            f"use `vmap(..., axis_name={name!r})`, or `shard_map` over a mesh with that axis",
        )
    return sizes[name]


def _names(axis_name: Hashable) -> Names:
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for name in names:
        _size_of(name)
    return names


def _product(names: Names) -> int:
    size = 1
    for name in names:
        size *= _size_of(name)
    return size


def _on_mesh(names: Names) -> bool:
    """Whether all of some names are axes of a mesh."""
    return mesh_axes().keys() >= set(names)


def _grouped(groups: Sequence[Any] | None, names: Names, function: str) -> dict[str, Any]:
    """The parameter of a collective within groups of the members, which axes of a mesh alone have."""
    if groups is None:
        return {}
    if not _on_mesh(names):
        raise UnsupportedError(
            f"{function} with axis_index_groups under `vmap`", "reshape the axis and name both parts"
        )
    found = tuple(tuple(int(i) for i in group) for group in groups)
    if sorted(i for g in found for i in g) != list(range(_product(names))) or len({len(g) for g in found}) != 1:
        raise ArgumentError(
            f"{function} with axis_index_groups {groups} of an axis of size {_product(names)}",
            "groups of one size, with each member in one of them",
        )
    return {"groups": found}


def _moving(vary: frozenset[Any], params: dict[str, Any]) -> frozenset[Any]:
    return vary | {*params["axes"]}


def _linear_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        p = primitive()
        out = p.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return out, Zero(typeof(out).tangent())
        return out, p.bind(instantiate(tangents[0]), **params)

    return rule


# ---------------------------------------------------------------------------- reductions over axes


def _reduction(name: str, over: Callable[[Any], Any], repeated: Callable[[Any, int], Any], **rules: Any) -> Primitive:
    """A reduction: `over(x)` along axis 0; `repeated(x, n)` of n equal values."""

    def batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, axes: Names) -> Any:
        (x,), (d,) = args, dims
        if axis.name not in axes:
            return primitive.bind(x, axes=axes), d
        x = repeated(x, axis.size) if d is None else over(moveaxis(x, d, 0))
        rest = tuple(a for a in axes if a != axis.name)
        return (primitive.bind(x, axes=rest) if rest else x), None

    primitive = Primitive(name, typing=lambda x, *, axes: x.strong(), batch=batch, effects=axis_effects,
                          places=same_places, **rules)  # fmt: skip
    return primitive


def _sum(x: Array) -> Any:
    return reduce_sum_p.bind(x, axes=(0,))


def _max(x: Array) -> Any:
    return reduce_max_p.bind(x, axes=(0,))


def _min(x: Array) -> Any:
    return reduce_min_p.bind(x, axes=(0,))


def _times(x: Array, n: int) -> Any:
    return mul_p.bind(x, np.asarray(n).astype(typeof(x).dtype)[()])


psum_p: Primitive = _reduction(
    "psum", _sum, _times, jvp=_linear_jvp(lambda: psum_p), transpose=lambda ct, x, *, axes: [psum_p.bind(ct, axes=axes)]
)
pmax_p: Primitive = _reduction("pmax", _max, lambda x, n: x)
pmin_p: Primitive = _reduction("pmin", _min, lambda x, n: x)


# ---------------------------------------------------------------------------- moving between members


def _mover(
    name: str, typing: Callable[..., Any], over: Callable[..., Any], shift: Callable[..., Any],
    transpose: Callable[..., Any], places: Callable[..., Any] = same_places, varies: Callable[..., Any] = _moving,
) -> Primitive:  # fmt: skip
    """A collective over one axis: `over(axis, x batched at 0, **params) -> out, dim`; `shift(params, dim)` moves its
    dimensions past another batch axis and says where that axis ends up."""

    def batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, axes: Names, **params: Any) -> Any:
        (x,), (d,) = args, dims
        if axis.name in axes:
            return over(axis, moved(axis, x, d, 0), **params)
        assert d is not None
        return primitive.bind(moveaxis(x, d, 0), axes=axes, **shift(params)), 0

    primitive = Primitive(
        name, typing, jvp=_linear_jvp(lambda: primitive), transpose=transpose, batch=batch, effects=axis_effects,
        varies=varies, places=places,
    )  # fmt: skip
    return primitive


def _plus_one(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda params: params | {n: params[n] + 1 for n in names}


def _reshaped(x: Operand, shape: Sequence[int]) -> Any:
    return reshape_to(x, tuple(shape))


def _gather_typing(
    x: ArrayType, *, axes: Names, dimension: int, size: int, tiled: bool, groups: Any = None
) -> ArrayType:
    shape = list(x.shape)
    if tiled:
        shape[dimension] *= size
    else:
        shape.insert(dimension, size)
    return x.with_shape(shape).strong()


def _gather_places(types: Any, outs: Sequence[Any], *, dimension: int, tiled: bool, **params: Any) -> Any:
    """The result has the operand's sharding, and a new axis is not sharded."""
    if tiled:
        return same_places(types, outs)
    dims = types[0].placed.spec.padded(types[0].ndim)
    return [(*dims[:dimension], (), *dims[dimension:])]


def _gather_over(axis: AxisInfo, x: Operand, *, dimension: int, size: int, tiled: bool) -> Any:
    out = moveaxis(x, 0, dimension)
    if tiled:
        shape = shape_of(out)
        out = _reshaped(out, (*shape[:dimension], shape[dimension] * shape[dimension + 1], *shape[dimension + 2 :]))
    return out, None


all_gather_p: Primitive = _mover(
    "all_gather",
    _gather_typing,
    _gather_over,
    _plus_one("dimension"),
    lambda ct, x, **params: [psum_scatter_p.bind(ct, **params)],
    _gather_places,
)


def _own_part(ct: Array, x: Any, *, axes: Names, dimension: int, size: int, tiled: bool) -> list[Any]:
    """Of a cotangent that all devices hold, the part of this one."""
    width = shape_of(ct)[dimension] // size
    part = dynamic_slice_in_dim(pvary(ct, axes), axis_index(axes) * np.int32(width), width, dimension)
    return [part if tiled else squeeze(part, (dimension,))]


# On a mesh: all devices have the result, and its transpose communicates nothing.
all_gather_invariant_p: Primitive = _mover(
    "all_gather_invariant", _gather_typing, _gather_over, _plus_one("dimension"), _own_part, _gather_places,
    lambda vary, params: vary - {*params["axes"]},
)  # fmt: skip


def _scatter_typing(
    x: ArrayType, *, axes: Names, dimension: int, size: int, tiled: bool, groups: Any = None
) -> ArrayType:
    shape = list(x.shape)
    n = shape[dimension]
    if n % size if tiled else n != size:
        raise ShapeError(
            f"psum_scatter of {x.show()} along dimension {dimension} over an axis of size {size}",
            "make the dimension equal to the axis size, or a multiple of it with tiled=True",
        )
    if tiled:
        shape[dimension] //= size
    else:
        del shape[dimension]
    return x.with_shape(shape).strong()


def _scatter_places(types: Any, outs: Sequence[Any], *, dimension: int, tiled: bool, **params: Any) -> Any:
    return same_places(types, outs) if tiled else other_places(types, outs, axes=(dimension,))


def _scatter_over(axis: AxisInfo, x: Operand, *, dimension: int, size: int, tiled: bool) -> Any:
    out = _sum(x)
    if tiled:
        shape = shape_of(out)
        out = _reshaped(out, (*shape[:dimension], size, shape[dimension] // size, *shape[dimension + 1 :]))
    return out, dimension


psum_scatter_p: Primitive = _mover(
    "reduce_scatter",
    _scatter_typing,
    _scatter_over,
    _plus_one("dimension"),
    lambda ct, x, **params: [all_gather_p.bind(ct, **params)],
    _scatter_places,
)


def _exchange_typing(
    x: ArrayType, *, axes: Names, split: int, concat: int, size: int, groups: Any = None
) -> ArrayType:
    if x.shape[split] % size:
        raise ShapeError(
            f"all_to_all splits dimension {split} of {x.show()} over an axis of size {size}",
            "make the dimension a multiple of the axis size",
        )
    shape = list(x.shape)
    shape[split] //= size
    shape[concat] *= size
    return x.with_shape(shape).strong()


def _exchange_over(axis: AxisInfo, x: Operand, *, split: int, concat: int, size: int) -> Any:
    shape = shape_of(x)[1:]
    parts = _reshaped(x, (size, *shape[:split], size, shape[split] // size, *shape[split + 1 :]))
    # Axis 0 numbers senders, axis split + 1 receivers: receivers lead, senders go before `concat`.
    parts = moveaxis(parts, split + 1, 0)
    parts = moveaxis(parts, 1, concat + 1)
    out = shape_of(parts)
    return _reshaped(parts, (*out[: concat + 1], out[concat + 1] * out[concat + 2], *out[concat + 3 :])), 0


all_to_all_p: Primitive = _mover(
    "all_to_all",
    _exchange_typing,
    _exchange_over,
    _plus_one("split", "concat"),
    lambda ct, x, *, split, concat, **params: [all_to_all_p.bind(ct, split=concat, concat=split, **params)],
)


def _permute_over(axis: AxisInfo, x: Operand, *, perm: Sequence[tuple[int, int]]) -> Any:
    source = {to: start for start, to in perm}
    rows = [slice_in_dim(x, source.get(i, 0), source.get(i, 0) + 1) for i in range(axis.size)]
    out = concatenate(rows, 0)
    received = np.array([i in source for i in range(axis.size)])
    if received.all():
        return out, 0
    shape = shape_of(out)
    mask = broadcast_in_dim_p.bind(received, shape=shape, broadcast_dimensions=(0,))
    zero = np.zeros((), typeof(out).dtype)[()]
    return select_n_p.bind(mask, broadcast_in_dim_p.bind(zero, shape=shape, broadcast_dimensions=()), out), 0


ppermute_p: Primitive = _mover(
    "ppermute",
    lambda x, **_: x.strong(),
    _permute_over,
    lambda params: params,
    lambda ct, x, *, perm, axes: [ppermute_p.bind(ct, axes=axes, perm=tuple((b, a) for a, b in perm))],
)


def _broadcast_over(axis: AxisInfo, x: Operand, *, source: int) -> Any:
    return index_in_dim(x, source, 0, keepdims=False), None


def _broadcast_transpose(ct: Array, x: Linear, *, axes: Names, source: int) -> list[Any]:
    total = psum_p.bind(ct, axes=axes)
    here = eq_p.bind(axis_index(axes[0]), np.int32(source))
    zero = broadcast_in_dim_p.bind(np.zeros((), ct.dtype)[()], shape=shape_of(ct), broadcast_dimensions=())
    return [select_n_p.bind(here, zero, total)]


pbroadcast_p: Primitive = _mover(
    "pbroadcast", lambda x, **_: x.strong(), _broadcast_over, lambda params: params, _broadcast_transpose
)


def _index_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, axes: Names) -> Any:
    return iota_p.bind(dtype=INT32, shape=(axis.size,), dimension=0), 0


axis_index_p: Primitive = Primitive(
    "axis_index", typing=lambda *, axes: ArrayType((), INT32), batch=_index_batch, effects=axis_effects, varies=_moving
)


def _within(name: str, **rules: Any) -> Primitive:
    """A reduction within groups of the members of an axis of a mesh."""
    return Primitive(name, typing=lambda x, *, axes, groups: x.strong(), effects=axis_effects, varies=_moving,
                     places=same_places,
                     batch=lambda axis, args, dims, **params: (primitives[name].bind(*args, **params), dims[0]),
                     **rules)  # fmt: skip


psum_groups_p: Primitive = _within("psum_groups", jvp=_linear_jvp(lambda: psum_groups_p),
                        transpose=lambda ct, x, **params: [psum_groups_p.bind(ct, **params)])  # fmt: skip
pmax_groups_p: Primitive = _within("pmax_groups")
pmin_groups_p: Primitive = _within("pmin_groups")
primitives: dict[str, Primitive] = {p.name: p for p in (psum_groups_p, pmax_groups_p, pmin_groups_p)}
_GROUPED = {psum_p: psum_groups_p, pmax_p: pmax_groups_p, pmin_p: pmin_groups_p}
_OVER_MESH = {psum_p: psum_invariant_p, pmax_p: pmax_invariant_p, pmin_p: pmin_invariant_p}

PRIMITIVES = (
    psum_p,
    pmax_p,
    pmin_p,
    all_gather_p,
    all_gather_invariant_p,
    psum_scatter_p,
    all_to_all_p,
    ppermute_p,
    pbroadcast_p,
    axis_index_p,
)


# ---------------------------------------------------------------------------- functions


def _is_static(x: Operand) -> bool:
    return not isinstance(x, (Value, np.ndarray, np.generic)) and not hasattr(x, "aval")


def psum(x: ArrayLike, axis_name: Hashable, *, axis_index_groups: Any = None) -> Any:
    """The sum of a pytree over a named axis (or a tuple of them). Of a Python number: that number times the size.

    Raises `UnboundAxisError` where no enclosing `vmap` names the axis.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: tw.lax.psum(x, "i"), axis_name="i")(tw.numpy.arange(4.0)))
    [6. 6. 6. 6.]
    """
    names = _names(axis_name)
    size = _product(names) if axis_index_groups is None else len(axis_index_groups[0])
    return pytree.map(
        lambda leaf: leaf * size if _is_static(leaf) else _reduced(psum_p, leaf, names, axis_index_groups), x
    )


def _reduced(primitive: Primitive, x: Array, names: Names, groups: Any) -> Any:
    """A reduction over axes of `vmap`, and then over those of a mesh."""
    if groups is not None:
        grouped = _grouped(groups, names, primitive.name)
        return _GROUPED[primitive].bind(pvary(x, names), axes=names, **grouped)
    mesh = tuple(n for n in names if n in mesh_axes())
    rest = tuple(n for n in names if n not in mesh)
    x = primitive.bind(x, axes=rest) if rest or not names else x
    return over_mesh(_OVER_MESH[primitive], x, mesh) if mesh else x


def pmean(x: ArrayLike, axis_name: Hashable, *, axis_index_groups: Any = None) -> Any:
    """The mean of a pytree over a named axis. Errors as `psum`.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: x - tw.lax.pmean(x, "i"), axis_name="i")(tw.numpy.array([1.0, 3.0])))
    [-1.  1.]
    """
    size = _product(_names(axis_name)) if axis_index_groups is None else len(axis_index_groups[0])
    return pytree.map(lambda leaf: leaf / size, psum(x, axis_name, axis_index_groups=axis_index_groups))


def _over_leaves(primitive: Primitive, x: Array, axis_name: Hashable, groups: Any) -> Any:
    names = _names(axis_name)
    return pytree.map(lambda leaf: leaf if _is_static(leaf) else _reduced(primitive, leaf, names, groups), x)


def pmax(x: ArrayLike, axis_name: Hashable, *, axis_index_groups: Any = None) -> Any:
    """The largest value over a named axis, elementwise. Errors as `psum`.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: tw.lax.pmax(x, "i"), axis_name="i")(tw.numpy.array([3, 1, 2])))
    [3 3 3]
    """
    return _over_leaves(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: ArrayLike, axis_name: Hashable, *, axis_index_groups: Any = None) -> Any:
    """The smallest value over a named axis, elementwise. Errors as `psum`.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: tw.lax.pmin(x, "i"), axis_name="i")(tw.numpy.array([3, 1, 2])))
    [1 1 1]
    """
    return _over_leaves(pmin_p, x, axis_name, axis_index_groups)


def _one(axis_name: Hashable, function: str) -> Names:
    names = _names(axis_name)
    if len(names) != 1 and not _on_mesh(names):
        raise UnsupportedError(f"{function} over several axes {names} at once", "call it over one axis after another")
    return names


def _dimension(axis: int, ndim: int, function: str) -> int:
    if not -ndim <= axis < ndim:
        raise ArgumentError(f"{function} along dimension {axis} of an array with {ndim}", "name one of its dimensions")
    return axis % ndim


def all_gather(
    x: ArrayLike, axis_name: Hashable, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False,
    to: str = "varying",
) -> Any:  # fmt: skip
    """The values of all members of a named axis, stacked along a new dimension `axis`, or concatenated (`tiled`).

    Within a `shard_map` the result counts as varying (`to="varying"`), so that its transpose is `psum_scatter`, or as
    the same on all devices (`to="invarying"`), so that its transpose is the device's part of the cotangent. Types do
    not tell reduced values (`to="reduced"`) from varying ones.

    Raises:
      ArgumentError: another `to`.
      UnsupportedError: groups, with another `to` than "varying".

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: tw.lax.all_gather(x, "i"), axis_name="i")(tw.numpy.arange(2.0)))
    [[0. 1.]
     [0. 1.]]
    """
    if to not in ("varying", "invarying", "reduced"):
        raise ArgumentError(f"all_gather to {to!r}", "to='varying', 'invarying' or 'reduced'")
    if axis_index_groups is not None and to != "varying":
        raise UnsupportedError(f"all_gather with axis_index_groups to {to!r}", "to='varying'")
    if isinstance(axis_name, (tuple, list)) and len(axis_name) > 1 and not _on_mesh(_names(axis_name)):
        for name in reversed(axis_name):
            x = all_gather(x, name, axis=axis, tiled=tiled)
        if tiled:
            return x
        size, n = _product(_names(axis_name)), len(axis_name)

        def flat(leaf: Operand) -> Any:
            shape = shape_of(leaf)
            at = axis % (len(shape) - n + 1)
            return _reshaped(leaf, (*shape[:at], size, *shape[at + n :]))

        return pytree.map(flat, x)
    names = _one(axis_name, "all_gather")
    groups = _grouped(axis_index_groups, names, "all_gather")
    size = _members(names, groups)
    primitive = all_gather_invariant_p if to == "invarying" and _on_mesh(names) else all_gather_p

    def gather(leaf: Array) -> Any:
        ndim = len(shape_of(leaf)) + (not tiled)
        dimension = _dimension(axis, ndim, "all_gather")
        leaf = _entering(leaf, names)
        return primitive.bind(leaf, axes=names, dimension=dimension, size=size, tiled=tiled, **groups)

    return pytree.map(gather, x)


def _members(names: Names, groups: dict[str, Any]) -> int:
    return len(groups["groups"][0]) if groups else _product(names)


def _entering(x: Array, names: Names) -> Any:
    """An operand of a collective, which on a mesh counts as other on each device."""
    return pvary(x, names) if _on_mesh(names) else x


def _checked(primitive: Primitive, x: Array, **params: Any) -> Any:
    """Bind after checking the types of one element, which batching rules do not look at."""
    primitive.typing(typeof(x), **params)
    return primitive.bind(x, **params)


def psum_scatter(
    x: ArrayLike, axis_name: Hashable, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """The sum over a named axis, of which each member keeps its own part along `scatter_dimension`.

    >>> import tilewright as tw
    >>> x = tw.numpy.array([[1, 2], [10, 20]])
    >>> print(tw.vmap(lambda row: tw.lax.psum_scatter(row, "i"), axis_name="i")(x))
    [11 22]
    """
    names = _one(axis_name, "psum_scatter")
    groups = _grouped(axis_index_groups, names, "psum_scatter")
    size = _members(names, groups)

    def scatter(leaf: Array) -> Any:
        dimension = _dimension(scatter_dimension, len(shape_of(leaf)), "psum_scatter")
        leaf = _entering(leaf, names)
        return _checked(psum_scatter_p, leaf, axes=names, dimension=dimension, size=size, tiled=tiled, **groups)

    return pytree.map(scatter, x)


def all_to_all(
    x: ArrayLike, axis_name: Hashable, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:  # fmt: skip
    """Split along `split_axis`, send part i to member i of a named axis, and join what arrives along `concat_axis`.

    Without `tiled` the split dimension has the axis's size and disappears, and a new one appears at `concat_axis`.

    >>> import tilewright as tw
    >>> x = tw.numpy.array([[1, 2], [3, 4]])
    >>> print(tw.vmap(lambda row: tw.lax.all_to_all(row, "i", 0, 0), axis_name="i")(x))
    [[1 3]
     [2 4]]
    """
    names = _names(axis_name)
    groups = _grouped(axis_index_groups, names, "all_to_all")
    size = _members(names, groups)

    def swap(leaf: Array, split: int, concat: int) -> Any:
        if len(names) > 1 and not _on_mesh(names):
            return _axis_by_axis(leaf, names, split, concat, size)
        return _checked(all_to_all_p, leaf, axes=names, split=split, concat=concat, size=size, **groups)

    def exchange(leaf: Array) -> Any:
        leaf = _entering(leaf, names)
        ndim = len(shape_of(leaf))
        split, concat = (_dimension(a, ndim, "all_to_all") for a in (split_axis, concat_axis))
        if tiled:
            return swap(leaf, split, concat)
        if shape_of(leaf)[split] != size:
            raise ShapeError(
                f"all_to_all splits dimension {split} of {typeof(leaf).show()} over an axis of size {size}",
                "make them equal, or pass tiled=True",
            )
        # A dimension of one to join along, placed where the result has its new dimension.
        place = concat + (split < concat)
        wide = expand_dims(leaf, (place,))
        split += place <= split
        return squeeze(swap(wide, split, place), (split,))

    return pytree.map(exchange, x)


def _axis_by_axis(x: Array, names: Names, split: int, concat: int, size: int) -> Any:
    """`all_to_all` over several axes, of which the first is the major one, as one exchange over each."""
    sizes, shape = [_members((name,), {}) for name in names], [*shape_of(x)]
    if shape[split] % size:
        raise ShapeError(
            f"all_to_all splits dimension {split} of {typeof(x).show()} over axes {names} of {size} members",
            "make the dimension a multiple of their number")  # fmt: skip
    k = len(names)
    cut = [*shape[:split], *sizes, shape[split] // size, *shape[split + 1 :]]
    at = concat + (k if concat >= split else 0)
    parts = _reshaped(x, (*cut[:at], *[1] * k, *cut[at:]))
    first = split + (k if at <= split else 0)
    for n, name in enumerate(names):
        parts = all_to_all_p.bind(parts, axes=(name,), split=first + n, concat=at + n, size=sizes[n])
    shape[split] //= size
    shape[concat] *= size
    return _reshaped(parts, tuple(shape))


def _pairs(perm: Sequence[Any], size: int) -> tuple[tuple[int, int], ...]:
    if isinstance(perm, Iterator):
        raise ArgumentTypeError(f"a permutation of type {type(perm).__name__}, which is empty when it is read again",
                                "pass a list of pairs")  # fmt: skip
    pairs = tuple((int(a), int(b)) for a, b in perm)
    for ends in zip(*pairs, strict=True):
        if len(set(ends)) != len(ends) or not all(0 <= e < size for e in ends):
            raise ArgumentError(
                f"the permutation {list(pairs)} of an axis of size {size} names a member twice, or one outside",
                "give pairs (source, destination), each member at most once on either side",
            )
    return pairs


def ppermute(x: ArrayLike, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along `perm`, pairs (source, destination) of members of a named axis; who receives nothing has zeros.

    >>> import tilewright as tw
    >>> shift = lambda x: tw.lax.ppermute(x, "i", [(0, 1), (1, 2)])
    >>> print(tw.vmap(shift, axis_name="i")(tw.numpy.array([1.0, 2.0, 3.0])))
    [0. 1. 2.]
    """
    names = _one(axis_name, "ppermute")
    pairs = _pairs(perm, _product(names))
    return pytree.map(lambda leaf: ppermute_p.bind(_entering(leaf, names), axes=names, perm=pairs), x)


def pshuffle(x: ArrayLike, axis_name: Hashable, perm: Sequence[int]) -> Any:
    """Member i of a named axis receives the value of member `perm[i]`.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: tw.lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(tw.numpy.arange(3)))
    [2 0 1]
    """
    size = _product(_one(axis_name, "pshuffle"))
    if sorted(perm) != list(range(size)):
        raise ArgumentError(f"{list(perm)} is not a permutation of an axis of size {size}", f"permute range({size})")
    return ppermute(x, axis_name, list(zip(perm, range(size), strict=True)))


def pswapaxes(x: ArrayLike, axis_name: Hashable, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap a named axis with dimension `axis`, which has its size.

    >>> import tilewright as tw
    >>> x = tw.numpy.array([[1, 2], [3, 4]])
    >>> print(tw.vmap(lambda row: tw.lax.pswapaxes(row, "i", 0), axis_name="i")(x))
    [[1 3]
     [2 4]]
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: ArrayLike, axis_name: Hashable, source: int) -> Any:
    """The value of member `source` of a named axis, for every member.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: tw.lax.pbroadcast(x, "i", 1), axis_name="i")(tw.numpy.arange(3)))
    [1 1 1]
    """
    names = _one(axis_name, "pbroadcast")
    if not 0 <= source < _product(names):
        raise ArgumentError(
            f"there is no member {source} of the axis {names[0]!r} of size {_product(names)}", "name another"
        )
    if _on_mesh(names):
        return pytree.map(lambda leaf: _from_one(leaf, names, int(source)), x)
    return pytree.map(lambda leaf: pbroadcast_p.bind(leaf, axes=names, source=int(source)), x)


def _from_one(x: Any, names: Names, source: int) -> Any:
    """The value of one device, for all: a sum to which the others add zero."""
    shape, dtype = shape_of(x), typeof(x).dtype
    if dtype == BOOL:
        x = convert_element_type_p.bind(x, new_dtype=INT32, weak_type=False)
    here = broadcast_in_dim_p.bind(eq_p.bind(axis_index(names), np.int32(source)), shape=shape, broadcast_dimensions=())
    zero = broadcast_in_dim_p.bind(np.zeros((), typeof(x).dtype)[()], shape=shape, broadcast_dimensions=())
    out = over_mesh(psum_invariant_p, select_n_p.bind(here, zero, x), names)
    return out if typeof(out).dtype == dtype else convert_element_type_p.bind(out, new_dtype=dtype, weak_type=False)


def pcast(x: ArrayLike, axis_name: Hashable, *, to: str = "varying") -> Any:
    """A pytree of values that count as other on each device along axes of a mesh (`to="varying"`).

    Nothing happens when it runs. Operations do so themselves where it is needed; asked for, it decides where the sum
    of a derivative is taken: `grad` by a value made so gives each device its own part of the gradient. So it does by
    one that is `to="reduced"`, which is the same on all devices before. Types within `shard_map` show such values, and
    parts that are yet to be summed (`to="unreduced"`, of what differs already), as varying.

    Raises:
      ArgumentError: another `to`; axes that are not those of a mesh here; `to="unreduced"` of what is the same on all
        devices; `to="reduced"` of what differs.

    >>> import tilewright as tw
    >>> from tilewright.sharding import P
    >>> mesh = tw.make_mesh((1,), ("i",))
    >>> f = tw.shard_map(lambda x: tw.lax.pcast(x, "i"), mesh=mesh, in_specs=P(), out_specs=P("i"))
    >>> print(f(tw.numpy.ones(2)))
    [1. 1.]
    """
    names = _names(axis_name)
    if to not in ("varying", "reduced", "unreduced") or not _on_mesh(names):
        raise ArgumentError(f"pcast over {names} to {to!r}", "to='varying', over axes of the mesh of a `shard_map`")
    for leaf in pytree.leaves(x):
        varies = typeof(leaf).vary.intersection(names)
        if to == "unreduced" and len(varies) < len(names):
            raise ArgumentError(f"pcast of {typeof(leaf).show()} over {names} to 'unreduced', of which all devices "
                                "hold the same", "pass a value that differs along the axes")  # fmt: skip
        if to == "reduced" and varies:
            raise ArgumentError(f"pcast of {typeof(leaf).show()} over {names} to 'reduced', which differs between "
                                "devices", "reduce it (`lax.psum`) or gather it (`lax.all_gather`) first")  # fmt: skip
    return pytree.map(lambda leaf: pvary(leaf, names), x)


def axis_index(axis_name: Hashable) -> Array:
    """The position of this member along a named axis, an int32 scalar; of a tuple of axes: in row-major order.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: x + tw.lax.axis_index("i"), axis_name="i")(tw.numpy.zeros(3)))
    [0. 1. 2.]
    """
    index: Any = None
    known = {a[0]: a[3] for a in axis_environment() if len(a) > 3}
    for name in _names(axis_name):
        here = known[name]() if name in known else axis_index_p.bind(axes=(name,))
        index = here if index is None else index * _size_of(name) + here
    return np.zeros((), canonical_dtype(INT32)) if index is None else index  # type: ignore[return-value]


def axis_size(axis_name: Hashable) -> int:
    """The size of a named axis (of several: their product), a Python int. Errors as `psum`.

    >>> import tilewright as tw
    >>> print(tw.vmap(lambda x: x / tw.lax.axis_size("i"), axis_name="i")(tw.numpy.ones(4)))
    [0.25 0.25 0.25 0.25]
    """
    if isinstance(axis_name, Value):
        raise ArgumentTypeError(f"an axis name is a hashable value, got {axis_name!r}", "pass the name given to `vmap`")
    return _product(_names(axis_name))


__all__ = [
    "all_gather", "all_gather_p", "all_to_all", "all_to_all_p", "axis_index", "axis_index_p", "axis_size",
    "pbroadcast", "pcast", "pmax", "pmax_p", "pmean", "pmin", "pmin_p", "ppermute", "ppermute_p", "pshuffle", "psum",
    "psum_p", "psum_scatter", "pswapaxes", "pvary",
]  # fmt: skip
