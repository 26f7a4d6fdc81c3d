"""What the rules of primitives share: zeros, tangents, and moving or making batch axes.

Elementwise primitives take rank-0 operands beside operands of one common shape, so a rule may write
`mul_p.bind(t, like(t, 2.0))` without a broadcast; `spread` and `unbroadcast` are the two places where
that implied broadcast has to be made real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .primitive import AxisInfo, Primitive, Zero
from .trace import Scalar, shape_of, typeof
from .types import FLOAT0, ArrayType, is_float, is_inexact

Late = Primitive | Callable[[], Primitive]
"""A primitive, or a function that gives it: a rule is often written before the primitive it rides on."""


def _resolve(primitive: Late) -> Primitive:
    return primitive if isinstance(primitive, Primitive) else primitive()


# ---------------------------------------------------------------------------- constants and zeros


def like(x: Any, value: Any) -> Any:
    """A scalar of the dtype of `x`; it stays a (weak) Python scalar where that means the same."""
    dtype = typeof(x).dtype
    if type(value) is int and is_float(dtype):
        value = float(value)
    if type(value) in Scalar and typeof(value).dtype == dtype:
        return value
    return np.asarray(value).astype(dtype)[()]


def zeros(type: ArrayType) -> Any:
    """An array of zeros of a type (of a `float0` one: NumPy's array without bytes)."""
    if type.dtype == FLOAT0:
        return np.zeros(type.shape, FLOAT0)
    zero = np.zeros((), type.dtype)[()]
    return zero if not type.shape else spread(zero, type.shape)


def instantiate(x: Any) -> Any:
    """An array for a tangent or cotangent that may be a symbolic `Zero`."""
    return zeros(x.type) if isinstance(x, Zero) else x  # type: ignore[arg-type]


def add_tangents(a: Any, b: Any) -> Any:
    """The sum of two tangents or cotangents, either of which may be `Zero` or None."""
    if a is None or type(a) is Zero:
        return a if b is None else b
    if b is None or type(b) is Zero:
        return a
    from .primitives.elementwise import add_any_p

    return add_any_p.bind(a, b)


def spread(x: Any, shape: Sequence[int]) -> Any:
    """Broadcast a scalar to a shape; anything of that shape already stays as it is."""
    shape = tuple(shape)
    if shape_of(x) == shape:
        return x
    from .primitives.shape import broadcast_in_dim_p

    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=())


def unbroadcast(ct: Any, type: Any) -> Any:
    """The cotangent of a rank-0 operand whose broadcast was implied: the sum over all axes."""
    shape = shape_of(ct)
    if shape == type.shape:
        return ct
    from .primitives.reduce import reduce_sum_p

    return reduce_sum_p.bind(ct, axes=tuple(range(len(shape))))


# ---------------------------------------------------------------------------- derivatives


def linear_jvp(primitive: Late) -> Callable[..., Any]:
    """The jvp rule of a primitive linear in all its (differentiable) arguments together."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        p = _resolve(primitive)
        out = p.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return (out, [Zero(typeof(o).tangent()) for o in out]) if p.multiple else (out, Zero(typeof(out).tangent()))
        return out, p.bind(*map(instantiate, tangents), **params)

    return rule


def no_tangent(primitive: Late) -> Callable[..., Any]:
    """The jvp rule of a primitive whose derivative is zero wherever it exists (`floor`, comparisons, integers)."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        p = _resolve(primitive)
        out = p.bind(*primals, **params)
        if p.multiple:
            return out, [Zero(typeof(o).tangent()) for o in out]
        return out, Zero(typeof(out).tangent())

    return rule


def nary_jvp(primitive: Late, *partials: Callable[..., Any] | None) -> Callable[..., Any]:
    """The jvp rule of an elementwise primitive: `partials[i](t, out, *primals, **params)` is what tangent i adds.

    A partial that is None is of an argument the result does not depend on smoothly.
    """

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = _resolve(primitive).bind(*primals, **params)
        out_type = typeof(out)
        total: Any = Zero(out_type.tangent())
        if is_inexact(out_type.dtype):
            for t, partial in zip(tangents, partials, strict=True):
                if type(t) is not Zero and partial is not None:
                    total = add_tangents(total, spread(partial(t, out, *primals, **params), out_type.shape))
        return out, total

    return rule


def expanded_jvp(function: Callable[..., Any], multiple: bool = False) -> Callable[..., Any]:
    """The jvp rule of a primitive whose derivative is that of `function`, the same in other primitives."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        from .jvp import jvp_flat

        def flat(*args: Any) -> Sequence[Any]:
            out = function(*args, **params)
            return out if multiple else [out]

        outs, out_tangents = jvp_flat(flat, primals, tangents)
        return (outs, out_tangents) if multiple else (outs[0], out_tangents[0])

    return rule


# ---------------------------------------------------------------------------- batching


def broadcast_batch(x: Any, size: int, dim: int = 0) -> Any:
    """Repeat an unbatched value along a new axis `dim`."""
    from .primitives.shape import broadcast_in_dim_p

    shape = shape_of(x)
    new = (*shape[:dim], size, *shape[dim:])
    return broadcast_in_dim_p.bind(x, shape=new, broadcast_dimensions=tuple(d for d in range(len(new)) if d != dim))


def moveaxis(x: Any, src: int, dst: int) -> Any:
    """Move one axis."""
    if src == dst:
        return x
    from .primitives.shape import transpose_p

    order = [d for d in range(len(shape_of(x))) if d != src]
    order.insert(dst, src)
    return transpose_p.bind(x, permutation=tuple(order))


def moved(axis: AxisInfo, x: Any, src: int | None, dst: int) -> Any:
    """A batching rule's operand with its batch axis at `dst`; an unbatched one is repeated."""
    return broadcast_batch(x, axis.size, dst) if src is None else moveaxis(x, src, dst)


def align(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], at: int | None = None
) -> tuple[list[Any], int]:
    """Operands of one shape, scalars apart, brought to one batch axis (at `at`); unbatched scalars stay scalars."""
    shapes = [shape_of(a) for a in args]
    ranks = [len(s) - (d is not None) for s, d in zip(shapes, dims, strict=True)]
    rank = max(ranks)
    places = [d for d, r in zip(dims, ranks, strict=True) if d is not None and r == rank]
    dst = at if at is not None else places[0] if places else 0
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
            from .primitives.shape import broadcast_in_dim_p

            out.append(broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=(dst,)))
    return out, dst
