"""The linear operations that the rules of all others use, and their helper functions.

Sums, negation, the movers `broadcast_in_dim`, `reshape` and `transpose`, and the sum over axes share the layer below
the rules: the transpose of each is one of the others. Elementwise primitives take rank-0 operands beside operands of
one shape, so a rule may write `mul_p.bind(t, like(t, 2.0))` without a broadcast; `spread` and `unbroadcast` are the
two places where that implied broadcast has to be made real.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.array import ArrayLike, Operand
from ..ir.axis_relation import FREE, MOVER, POINTWISE, Loops, Monoid, Reduced, Relation, inserted, pointwise
from ..ir.elementwise_typing import NUMBER, check_kind, nary_typing, widened
from ..ir.extension_types import is_opaque
from ..ir.primitive import NAMED, AxisInfo, Linear, Primitive, Zero
from ..ir.types import ArrayType, Shape, is_inexact
from ..support.errors import ShapeError
from ..tracing.trace import shape_of, typeof

Axes = tuple[int, ...]

# ---------------------------------------------------------------------------- zeros, sums and implied broadcasts


def add_tangents(a: Any, b: Any) -> Any:
    """The sum of two tangents or cotangents, either of which may be `Zero` or None."""
    if a is None or type(a) is Zero:
        return a if b is None else b
    if b is None or type(b) is Zero:
        return a
    return type_.add_tangents(a, b) if is_opaque(type_ := typeof(a)) else add_any_p.bind(a, b)


def spread(x: ArrayLike, shape: Sequence[int]) -> Any:
    """Broadcast a scalar to a shape; anything of that shape already stays as it is."""
    shape = tuple(shape)
    if shape_of(x) == shape:
        return x
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=())


def unbroadcast(ct: ArrayLike, type: ArrayType) -> Any:
    """The cotangent of a rank-0 operand whose broadcast was implied: the sum over all axes."""
    shape = shape_of(ct)
    if shape == type.shape:
        return ct
    return reduce_sum_p.bind(ct, axes=tuple(range(len(shape))))


def unbroadcasting(transpose: Callable[..., Any]) -> Callable[..., Any]:
    def rule(ct: ArrayLike, *args: Any, **params: Any) -> list[Any]:
        cts = transpose(ct, *args, **params)
        return [
            unbroadcast(c, a.type) if type(a) is Linear and c is not None else None
            for c, a in zip(cts, args, strict=True)
        ]

    return rule


# ---------------------------------------------------------------------------- batch axes


def broadcast_batch(x: ArrayLike, size: int, dim: int = 0) -> Any:
    """Repeat an unbatched value along a new axis `dim`."""
    shape = shape_of(x)
    new = (*shape[:dim], size, *shape[dim:])
    return broadcast_in_dim_p.bind(x, shape=new, broadcast_dimensions=tuple(d for d in range(len(new)) if d != dim))


def moveaxis(x: ArrayLike, src: int, dst: int) -> Any:
    """Move one axis."""
    if src == dst:
        return x
    order = [d for d in range(len(shape_of(x))) if d != src]
    order.insert(dst, src)
    return transpose_p.bind(x, permutation=tuple(order))


def moved(axis: AxisInfo, x: ArrayLike, src: int | None, dst: int) -> Any:
    """A batching rule's operand with its batch axis at `dst`; an unbatched one is repeated."""
    if is_opaque(type_ := typeof(x)):
        return type_.remapped(x, src, dst)
    return broadcast_batch(x, axis.size, dst) if src is None else moveaxis(x, src, dst)


def align(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Operands of one shape (or scalars) moved to one batch axis; unbatched scalars stay scalars."""
    shapes = [shape_of(a) for a in args]
    ranks = [len(s) - (d is not None) for s, d in zip(shapes, dims, strict=True)]
    rank = max(ranks)
    dst = next((d for d, r in zip(dims, ranks, strict=True) if d is not None and r == rank), 0)
    whole = next(i for i, r in enumerate(ranks) if r == rank)
    shape = [s for i, s in enumerate(shapes[whole]) if i != dims[whole]]
    shape.insert(dst, axis.size)
    out: list[Any] = []
    for x, d, r in zip(args, dims, ranks, strict=True):
        if d is None and r == 0:
            out.append(x)
        elif r == rank:
            out.append(moved(axis, x, d, dst))
        else:  # a batch of scalars beside batched or unbatched arrays
            out.append(broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=(dst,)))
    return out, dst


def shift(axes: Sequence[int], batch: int) -> Axes:
    """Axes of the unbatched array as axes of the batched one."""
    return tuple(a + (a >= batch) for a in axes)


# ---------------------------------------------------------------------------- elementwise


def _sum_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        out = primitive().bind(*primals)
        type_ = typeof(out)
        total: Any = Zero(type_.tangent())
        if is_inexact(type_.dtype):
            for t in tangents:
                if type(t) is not Zero:
                    total = add_tangents(total, spread(t, type_.shape))
        return out, total

    return rule


def _sum(name: str) -> Primitive:
    p = Primitive(
        name, nary_typing(name, NUMBER), jvp=_sum_jvp(lambda: p), transpose=unbroadcasting(lambda ct, x, y: [ct, ct]),
        numpy=widened(np.add), relation=pointwise, kind=POINTWISE,
    )  # fmt: skip
    return p


def alone_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    """The jvp rule of a primitive linear in its one operand."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        p, (t,) = primitive(), tangents
        out = p.bind(*primals, **params)
        return out, Zero(typeof(out).tangent()) if type(t) is Zero else p.bind(t, **params)

    return rule


add_p: Primitive
add_any_p: Primitive
add_p, add_any_p = _sum("add"), _sum("add_any")
neg_p: Primitive = Primitive(
    "neg", nary_typing("neg", NUMBER), jvp=alone_jvp(lambda: neg_p), transpose=lambda ct, x: [neg_p.bind(ct)],
    numpy=widened(np.negative), relation=pointwise, kind=POINTWISE,
)  # fmt: skip


# ---------------------------------------------------------------------------- movers


def shape_error(name: str, x: ArrayType, what: str, remedy: str = "") -> ShapeError:
    return ShapeError(f"{name}: {what}; the operand is {x.show()}", remedy)


def _broadcast_typing(x: ArrayType, *, shape: Shape, broadcast_dimensions: Axes) -> ArrayType:
    dims = broadcast_dimensions
    if len(dims) != x.ndim:
        raise shape_error("broadcast_in_dim", x, f"broadcast_dimensions {dims} names {len(dims)} axes, not {x.ndim}")
    if any(not 0 <= d < len(shape) for d in dims) or any(a >= b for a, b in zip(dims, dims[1:], strict=False)):
        raise shape_error("broadcast_in_dim", x, f"broadcast_dimensions {dims} must differ and lie within {shape}")
    if any(x.shape[i] not in (1, shape[d]) for i, d in enumerate(dims)):
        raise shape_error(
            "broadcast_in_dim", x, f"it does not broadcast to {shape} along axes {dims}",
            "each operand size must be 1 or equal the size it maps to")  # fmt: skip
    return x.with_shape(shape)


def _broadcast_numpy(x: Operand, *, shape: Shape, broadcast_dimensions: Axes) -> Any:
    view = [1] * len(shape)
    for size, d in zip(x.shape, broadcast_dimensions, strict=True):
        view[d] = size
    return np.broadcast_to(x.reshape(view), shape)


def _broadcast_batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[int], *, shape: Shape, broadcast_dimensions: Axes
) -> Any:
    (x,), (b,) = args, dims
    out = broadcast_dimensions[b] if b < len(broadcast_dimensions) else len(shape)
    mapped = inserted(broadcast_dimensions, b, out)
    mapped = (*mapped[: b + 1], *(d + 1 for d in mapped[b + 1 :]))
    return broadcast_in_dim_p.bind(x, shape=inserted(shape, out, axis.size), broadcast_dimensions=mapped), out


def _broadcast_transpose(ct: Operand, x: Linear, *, shape: Shape, broadcast_dimensions: Axes) -> Any:
    kept = {d for i, d in enumerate(broadcast_dimensions) if x.shape[i] == shape[d]}
    axes = tuple(d for d in range(len(shape)) if d not in kept)
    ct = reduce_sum_p.bind(ct, axes=axes) if axes else ct
    return [reshape_to(ct, x.shape)]


def _broadcast_relation(
    ins: Sequence[Any], outs: Sequence[Any], *, shape: Shape, broadcast_dimensions: Axes
) -> Relation:
    loops = Loops()
    out = loops.axes(shape)
    axes = (() if n == 1 else out[d] for n, d in zip(ins[0].shape, broadcast_dimensions, strict=True))
    return loops.relation([tuple(axes)], [out])


broadcast_in_dim_p: Primitive = Primitive(
    "broadcast_in_dim",
    typing=_broadcast_typing,
    jvp=alone_jvp(lambda: broadcast_in_dim_p),
    transpose=_broadcast_transpose,
    batch=_broadcast_batch,
    numpy=_broadcast_numpy,
    relation=_broadcast_relation,
    work=FREE,
    kind=MOVER,
)


def _reshape_typing(x: ArrayType, *, new_sizes: Shape, dimensions: None = None) -> ArrayType:
    if math.prod(new_sizes) != x.size or any(d < 0 for d in new_sizes):
        raise shape_error(
            "reshape", x, f"{x.size} elements do not fill shape {new_sizes} of {math.prod(new_sizes)}",
            "the product of the sizes must stay the same")  # fmt: skip
    return x.with_shape(new_sizes)


def _reshape_batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[int], *, new_sizes: Shape, dimensions: None = None
) -> Any:
    (x,), (b,) = args, dims
    if b and b == len(shape_of(x)) - 1:
        return reshape_p.bind(x, new_sizes=(*new_sizes, axis.size), dimensions=None), len(new_sizes)
    return reshape_p.bind(moved(axis, x, b, 0), new_sizes=(axis.size, *new_sizes), dimensions=None), 0


def _reshape_relation(ins: Sequence[Any], outs: Sequence[Any], **_: Any) -> Relation:
    loops = Loops()
    old, new, kinds = loops.cut(ins[0].shape, outs[0].shape)
    return loops.relation([old], [new], kinds)


reshape_p: Primitive = Primitive(
    "reshape",
    typing=_reshape_typing,
    jvp=alone_jvp(lambda: reshape_p),
    transpose=lambda ct, x, **_: [reshape_to(ct, x.shape)],
    batch=_reshape_batch,
    numpy=lambda x, *, new_sizes, dimensions=None: x.reshape(new_sizes),
    relation=_reshape_relation,
    work=FREE,
    kind=MOVER,
)


def reshape_to(x: ArrayLike, shape: Shape) -> Any:
    """`reshape` to a shape known to fit."""
    return x if shape_of(x) == shape else reshape_p.bind(x, new_sizes=shape, dimensions=None)


def _transpose_typing(x: ArrayType, *, permutation: Axes) -> ArrayType:
    if sorted(permutation) != list(range(x.ndim)):
        raise shape_error("transpose", x, f"permutation {permutation} is not one of its {x.ndim} axes")
    return x.with_shape(x.shape[p] for p in permutation)


def inverse(permutation: Sequence[int]) -> Axes:
    """The inverse of a permutation."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _transpose_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int], *, permutation: Axes) -> Any:
    (x,), (b,) = args, dims
    out = len(permutation) if b == len(permutation) else 0
    return transpose_p.bind(x, permutation=inserted(shift(permutation, b), out, b)), out


def _transpose_relation(ins: Sequence[Any], outs: Sequence[Any], *, permutation: Axes) -> Relation:
    loops = Loops()
    axes = loops.axes(ins[0].shape)
    return loops.relation([axes], [tuple(axes[p] for p in permutation)])


transpose_p: Primitive = Primitive(
    "transpose",
    typing=_transpose_typing,
    jvp=alone_jvp(lambda: transpose_p),
    transpose=lambda ct, x, *, permutation: [transpose_p.bind(ct, permutation=inverse(permutation))],
    batch=_transpose_batch,
    numpy=lambda x, *, permutation: np.transpose(x, permutation),
    relation=_transpose_relation,
    work=FREE,
    kind=MOVER,
)


# ---------------------------------------------------------------------------- the sum over axes


def check_axes(name: str, x: ArrayType, axes: Axes) -> None:
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise ShapeError(f"{name} over axes {axes} of {x.show()}", f"axes are distinct and from 0 to {x.ndim - 1}")


def without_axes(shape: Sequence[Any], axes: Axes) -> tuple[Any, ...]:
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def reduction_typing(name: str, kinds: Sequence[str]) -> Callable[..., ArrayType]:
    def typing(x: ArrayType, *, axes: Axes, open_axes: Any = None) -> ArrayType:
        check_axes(name, x, axes)
        check_kind(name, x, kinds)
        return x.with_shape(without_axes(x.shape, axes))

    return typing


def spread_axes(x: ArrayLike, shape: Sequence[int], axes: Axes) -> Any:
    """A reduction's result repeated along the reduced axes."""
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=kept)


def reducing(ins: Sequence[Any], axes: Axes, kind: Any) -> Relation:
    """The relation of an operation that the axes of its operand go into, and do not come out of."""
    loops = Loops()
    operand = loops.axes(ins[0].shape)
    return loops.relation([operand], [without_axes(operand, axes)], {f: kind for a in axes for f in operand[a]})


def filled(value: int) -> Callable[[Any], Any]:
    return lambda dtype: np.array(value).astype(dtype)[()]


SUM = Monoid("sum", filled(0), add_p.bind)


def reducer(
    name: str, kinds: Sequence[str], ufunc: Callable[..., Any], monoid: Monoid, jvp: Callable[..., Any],
    transpose: Callable[..., Any] | None = None, initial: Callable[..., Any] | None = None,
) -> Primitive:  # fmt: skip
    """A reduction over `axes`; a sum is deferred along the mesh axes `open_axes` (`core/tracing/unreduced_scope`)."""
    kind = Reduced(monoid)

    def relation(ins: Sequence[Any], outs: Sequence[Any], *, axes: Axes, open_axes: Any = None) -> Relation:
        return reducing(ins, axes, kind)

    def numpy(x: Operand, *, axes: Axes) -> Any:
        return ufunc.reduce(x, axis=axes, **({} if initial is None else {"initial": initial(x.dtype)}))

    def wide(x: Operand, *, axes: Axes, open_axes: Any = None) -> Any:
        return widened(numpy)(x, axes=axes).astype(x.dtype)

    return Primitive(
        name,
        reduction_typing(name, kinds),
        jvp=jvp,
        transpose=transpose,
        numpy=wide,
        relation=relation,
        axes={"axes": NAMED},
    )


reduce_sum_p: Primitive = reducer(
    "reduce_sum", NUMBER, np.add, SUM, alone_jvp(lambda: reduce_sum_p),
    transpose=lambda ct, x, *, axes, open_axes=None: [spread_axes(ct, x.shape, axes)],
)  # fmt: skip
