"""Values on the devices of a mesh: along which axes they may differ, and the primitives that change it.

In the body of a `shard_map` each type says along which axes of the mesh the devices may have other values
(`VaryingType`); it is inferred. A map within another sees other axes (a name that is taken is refused), so that an
axis's name tells whose it is. An operation on values of which only some vary makes the others vary first, by `pvary`:
nothing happens when it runs, and its transpose is the sum over the devices. So the derivative by a value that all
devices share is the sum of what each contributes, and a sum over devices hands its cotangent to each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike
from ...ir.axis_relation import same_places
from ...ir.extension_types import is_opaque
from ...ir.primitive import OWN, AxisInfo, Primitive
from ...ir.program import Effect, Effects
from ...ir.types import ArrayType, VaryingType
from ...tracing.trace import Tracer, axis_environment, typeof
from ...transforms.rule_helpers import linear_jvp
from ...transforms.structural_primitives import moveaxis
from ..elementwise.arithmetic import div_p, mul_p
from ..movement.shape import slice_in_dim, squeeze
from ..reduction.reduce import reduce_max_p, reduce_min_p, reduce_sum_p

Names = tuple[Any, ...]


def mesh_axes() -> dict[Any, int]:
    """The axes of the mesh of which one device is traced, with their sizes."""
    return {a[0]: a[1] for a in axis_environment() if len(a) == 3}


def ordered(names: Any) -> Names:
    """A set of axes, as a parameter."""
    return tuple(sorted(names, key=str))


def pvary(x: ArrayLike, names: Collection[Any]) -> Any:
    """A value that counts as other along some axes of the mesh on each device; itself where it does already.

    >>> import tilewright as tw
    >>> from tilewright import lax, numpy as tnp
    >>> def f(x):
    ...     zero = lax.pvary(tnp.zeros(()), ("x",))
    ...     return lax.fori_loop(0, 3, lambda i, total: total + x.sum(), zero)[None]
    >>> mesh = tw.make_mesh((1,), ("x",))
    >>> tw.shard_map(f, mesh=mesh, in_specs=tw.P("x"), out_specs=tw.P("x"))(tnp.ones(2)).tolist()
    [6.0]
    """
    missing = frozenset(names) - typeof(x).vary
    return pvary_p.bind(x, axes=ordered(missing)) if missing else x


def align(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """Operands that all vary along the same axes, but for constants and for primitives that tell themselves."""
    if primitive.varies is OWN or len(args) < 2:
        return args
    types = [typeof(a) for a in args]
    found = [t.vary if isinstance(a, Tracer) and not is_opaque(t) else None for a, t in zip(args, types, strict=True)]
    union = _together(types)
    if all(v is None or v == union for v in found):
        return args
    return [a if v is None else pvary(a, union) for a, v in zip(args, found, strict=True)]


def _together(types: Sequence[Any]) -> frozenset[Any]:
    """The axes along which any of some values varies; one of a client's own type counts as varying along all."""
    if any(map(is_opaque, types)):
        return frozenset(mesh_axes())
    return frozenset().union(*(t.vary for t in types if isinstance(t, ArrayType)))


def varied(primitive: Primitive, types: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The types of an equation's results, with the axes along which they vary."""
    if primitive.varies is OWN:
        return list(outs)
    vary = _together(types)
    if primitive.varies is not None:
        vary = primitive.varies(vary, params).intersection(mesh_axes())
    return [VaryingType(t, vary) if isinstance(t, ArrayType) else t for t in outs]


# ---------------------------------------------------------------------------- primitives


def axis_effects(*types: Any, axes: Names, **_: Any) -> Effects:
    return frozenset(Effect("axis", name) for name in axes)


def _batch_of(primitive: Callable[[], Primitive], over: Callable[[Any, AxisInfo], Any]) -> Callable[..., Any]:
    """A batching rule; over one of the primitive's own axes, the devices being a batch, `over` says what it means."""

    def batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, axes: Names, **params: Any) -> Any:
        (x,), (d,) = args, dims
        if axis.name not in axes:
            return primitive().bind(x, axes=axes, **params), d
        rest = tuple(a for a in axes if a != axis.name)
        if d is not None:
            x, d = over(moveaxis(x, d, 0), axis)
        return (primitive().bind(x, axes=rest, **params) if rest else x), d

    return batch


pvary_p: Primitive = Primitive(
    "pvary", typing=lambda x, *, axes: x, jvp=linear_jvp(lambda: pvary_p),
    transpose=lambda ct, x, *, axes: [psum_invariant_p.bind(ct, axes=axes)],
    batch=_batch_of(lambda: pvary_p, lambda x, axis: (x, 0)), effects=axis_effects,
    varies=lambda vary, params: vary | {*params["axes"]}, numpy=lambda x, *, axes: x, places=same_places,
)  # fmt: skip


def _invariant(name: str, over: Callable[[Any], Any], **rules: Any) -> Primitive:
    """A reduction over devices after which all have one value."""
    primitive = Primitive(
        name, typing=lambda x, *, axes: x.strong(), batch=_batch_of(lambda: primitive, lambda x, axis: (over(x), None)),
        effects=axis_effects, varies=lambda vary, params: vary - {*params["axes"]}, places=same_places, **rules,
    )  # fmt: skip
    return primitive


psum_invariant_p: Primitive = _invariant(
    "psum_invariant", lambda x: reduce_sum_p.bind(x, axes=(0,)), jvp=linear_jvp(lambda: psum_invariant_p),
    transpose=lambda ct, x, *, axes: [pvary(ct, axes)],
)  # fmt: skip
pmax_invariant_p: Primitive = _invariant("pmax_invariant", lambda x: reduce_max_p.bind(x, axes=(0,)))
pmin_invariant_p: Primitive = _invariant("pmin_invariant", lambda x: reduce_min_p.bind(x, axes=(0,)))


def _share(ct: Array, x: Any, *, axes: Names) -> list[Any]:
    """Of a value that all devices have, the cotangent is theirs in equal parts."""
    size = int(np.prod([mesh_axes()[a] for a in axes]))
    return [pvary(div_p.bind(ct, np.asarray(size).astype(ct.dtype)[()]), axes)]


# A value that the caller knows to be the same on all devices along some axes.
assume_equal_p: Primitive = Primitive(
    "assume_equal", typing=lambda x, *, axes: x, jvp=linear_jvp(lambda: assume_equal_p), transpose=_share,
    batch=_batch_of(lambda: assume_equal_p, lambda x, axis: (squeeze(slice_in_dim(x, 0, 1), (0,)), None)),
    effects=axis_effects, varies=lambda vary, params: vary - {*params["axes"]}, places=same_places,
)  # fmt: skip

PRIMITIVES = (pvary_p, psum_invariant_p, pmax_invariant_p, pmin_invariant_p, assume_equal_p)


def over_mesh(primitive: Primitive, x: ArrayLike, names: Names) -> Any:
    """A reduction of a value, which may be the same on all devices, over axes of the mesh."""
    if primitive is not psum_invariant_p:
        return primitive.bind(pvary(x, names), axes=names)
    same = [n for n in names if n not in typeof(x).vary] if isinstance(x, Tracer) else list(names)
    rest = tuple(n for n in names if n not in same)
    if same:  # as many equal values as there are devices
        size = int(np.prod([mesh_axes()[n] for n in same]))
        x = mul_p.bind(x, np.asarray(size).astype(typeof(x).dtype)[()])
    return psum_invariant_p.bind(x, axes=rest) if rest else x

