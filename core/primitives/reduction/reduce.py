"""Reductions over axes: sums, products, extrema and their indices, bits, and any user's monoid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike
from ...ir.axis_relation import Monoid, Relation, Whole, Work, other_places
from ...ir.binding import with_out_sharding
from ...ir.elementwise_typing import BITS, NUMBER, ORDERED, check_kind, widened
from ...ir.passes import hoist
from ...ir.primitive import NAMED, AxisInfo, Primitive, Zero
from ...ir.program import Program
from ...ir.static_ints import check_positions
from ...ir.types import ArrayType, canonical_dtype, is_bool, is_inexact, is_integer, kind
from ...support import pytree
from ...support.errors import ArgumentError, DtypeError, ShapeError
from ...tracing.numpy_interpreter import evaluate
from ...tracing.trace import eval_program, shape_of, trace_program, typeof
from ...tracing.unreduced_scope import asked_open, split_within
from ...transforms.batching import batch_program
from ...transforms.jvp import expanded_jvp
from ...transforms.rule_helpers import no_tangent
from ...transforms.structural_primitives import (
    SUM,
    check_axes,
    filled,
    moveaxis,
    moved,
    reduce_sum_p,
    reducer,
    reducing,
    spread_axes,
    without_axes,
)
from ..elementwise.arithmetic import add_p, div_p, max_p, min_p, mul_p
from ..elementwise.bitwise import and_p, bits_of, or_p, xor_p
from ..elementwise.comparison import eq_p
from ..elementwise.conversion import convert_element_type
from ..movement.shape import (
    as_axes,
    broadcast_in_dim_p,
    concatenate_p,
    reshape_p,
    slice_p,
    transpose_p,
)

Axes = tuple[int, ...]


# ---------------------------------------------------------------------------- shared by the family


# ---------------------------------------------------------------------------- sums, products, extrema, bits


def lowest(dtype: DTypeLike) -> Any:
    """The identity of the maximum: the least value of a dtype."""
    return _extreme(dtype, low=True)


def highest(dtype: DTypeLike) -> Any:
    """The identity of the minimum: the greatest value of a dtype."""
    return _extreme(dtype, low=False)


def _extreme(dtype: np.dtype[Any], low: bool) -> Any:
    of = kind(dtype)
    if of == "bool":
        return np.bool_(not low)
    if of in ("int", "uint"):
        bits = bits_of(dtype)
        least, most = (0, 2**bits - 1) if of == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return np.array(least if low else most).astype(dtype)[()]
    infinite = np.array(-np.inf if low else np.inf)
    if of == "complex":
        return np.array(complex(infinite, infinite)).astype(dtype)[()]
    converted = infinite.astype(dtype)[()]
    if np.isinf(np.float32(converted)):
        return converted
    limits = ml_dtypes.finfo(dtype)  # float8_e4m3fn has no infinity
    return limits.min if low else limits.max


def _extremum_jvp(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    """Elements equal to the extremum share its tangent equally."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], *, axes: Axes) -> Any:
        (x,), (t,) = primals, tangents
        out = primitive().bind(x, axes=axes)
        type_ = typeof(out)
        if type(t) is Zero or not is_inexact(type_.dtype):
            return out, Zero(type_.tangent())
        here = eq_p.bind(x, spread_axes(out, shape_of(x), axes))
        here = convert_element_type(here, type_.dtype)
        total = reduce_sum_p.bind(mul_p.bind(t, here), axes=axes)
        return out, div_p.bind(total, reduce_sum_p.bind(here, axes=axes))

    return rule


def _leading(x: Array, axes: Axes) -> Any:
    """The reduced axes moved to the front and merged into one."""
    shape = shape_of(x)
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    x = transpose_p.bind(x, permutation=(*axes, *kept))
    count = int(np.prod([shape[a] for a in axes], dtype=np.int64))
    return reshape_p.bind(x, new_sizes=(count, *(shape[k] for k in kept)), dimensions=None)


def _rows(x: Array, start: int, stop: int) -> Any:
    shape = shape_of(x)
    return slice_p.bind(
        x, start_indices=(start, *(0 for _ in shape[1:])), limit_indices=(stop, *shape[1:]), strides=None
    )


def halve(combine: Callable[..., Sequence[Any]], rows: Sequence[Any]) -> list[Any]:
    """Combine the rows (leading axis, at least one) of some arrays pairwise until one of each is left."""
    rows = list(rows)
    while (count := shape_of(rows[0])[0]) > 1:
        half = count // 2
        new = list(combine([_rows(x, 0, half) for x in rows], [_rows(x, half, 2 * half) for x in rows]))
        if count % 2:
            last = [_rows(x, count - 1, count) for x in rows]
            new = [concatenate_p.bind(a, b, dimension=0) for a, b in zip(new, last, strict=True)]
        rows = new
    return [reshape_p.bind(x, new_sizes=shape_of(x)[1:], dimensions=None) for x in rows]


def _product_by_halves(x: Array, *, axes: Axes) -> Any:
    """A product as a tree of products: its derivative divides by nothing, so zeros are no trouble."""
    if not axes:
        return x
    rows = _leading(x, axes)
    if shape_of(rows)[0] == 0:
        return reduce_prod_p.bind(x, axes=axes)
    return halve(lambda a, b: [mul_p.bind(a[0], b[0])], [rows])[0]


def _product_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axes: Axes) -> Any:
    type_ = typeof(primals[0])
    if type(tangents[0]) is Zero or 0 in type_.shape:
        return no_tangent(reduce_prod_p)(primals, tangents, axes=axes)
    return expanded_jvp(_product_by_halves)(primals, tangents, axes=axes)


def _all_bits(dtype: np.dtype[Any]) -> Any:
    return np.invert(np.zeros((), dtype))[()]


PRODUCT = Monoid("product", filled(1), mul_p.bind)
MAXIMUM = Monoid("maximum", lowest, max_p.bind)
MINIMUM = Monoid("minimum", highest, min_p.bind)
AND = Monoid("and", _all_bits, and_p.bind)
OR = Monoid("or", filled(0), or_p.bind)
XOR = Monoid("xor", filled(0), xor_p.bind)


def sums(dtype: DTypeLike) -> Monoid:
    """The monoid that the products of a contraction are joined by."""
    return OR if is_bool(dtype) else SUM


reduce_prod_p: Primitive = reducer("reduce_prod", NUMBER, np.multiply, PRODUCT, _product_jvp)
reduce_max_p: Primitive
reduce_max_p = reducer("reduce_max", ORDERED, np.maximum, MAXIMUM, _extremum_jvp(lambda: reduce_max_p), initial=lowest)
reduce_min_p: Primitive
reduce_min_p = reducer("reduce_min", ORDERED, np.minimum, MINIMUM, _extremum_jvp(lambda: reduce_min_p), initial=highest)
reduce_and_p: Primitive = reducer("reduce_and", BITS, np.bitwise_and, AND, no_tangent(lambda: reduce_and_p))
reduce_or_p: Primitive = reducer("reduce_or", BITS, np.bitwise_or, OR, no_tangent(lambda: reduce_or_p))
reduce_xor_p: Primitive = reducer("reduce_xor", BITS, np.bitwise_xor, XOR, no_tangent(lambda: reduce_xor_p))


class Reducer(Protocol):
    """A reduction over some axes."""

    __name__: str

    def __call__(self, operand: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None) -> Array: ...


def bind_sum(operand: ArrayLike, axes: Sequence[int]) -> Any:
    """A sum that is deferred along those mesh axes, of the ones that the caller asked for, that split what it adds."""
    asked = asked_open.get()
    deferred = asked and asked & split_within(typeof(operand), axes)
    return reduce_sum_p.bind(operand, axes=axes, **({"open_axes": deferred} if deferred else {}))


def _function(primitive: Primitive, doc: str) -> Reducer:
    def reducer(operand: Array, axes: Sequence[int], *, out_sharding: None = None) -> Any:
        if out_sharding is not None:
            return with_out_sharding(out_sharding, reducer, operand, axes)
        axes = as_axes(axes, len(shape_of(operand)), primitive.name)
        return bind_sum(operand, axes) if primitive is reduce_sum_p else primitive.bind(operand, axes=axes)

    reducer.__name__ = reducer.__qualname__ = primitive.name
    reducer.__doc__ = doc
    return reducer


reduce_sum: Reducer = _function(reduce_sum_p, "The sum over some axes, of numbers.")
reduce_prod: Reducer = _function(reduce_prod_p, "The product over some axes, of numbers.")
reduce_max: Reducer
reduce_max = _function(reduce_max_p, "The maximum over some axes, NaN where one is; equal ones share the derivative.")
reduce_min: Reducer
reduce_min = _function(reduce_min_p, "The minimum over some axes, NaN where one is; equal ones share the derivative.")
reduce_and: Reducer = _function(reduce_and_p, "The conjunction over some axes, of booleans or of bits.")
reduce_or: Reducer = _function(reduce_or_p, "The disjunction over some axes, of booleans or of bits.")
reduce_xor: Reducer = _function(reduce_xor_p, "The exclusive disjunction over some axes, of booleans or of bits.")


# ---------------------------------------------------------------------------- indices of extrema


def _position_typing(name: str) -> Callable[..., ArrayType]:
    def typing(x: ArrayType, *, axes: Axes, index_dtype: np.dtype[Any]) -> ArrayType:
        check_axes(name, x, axes)
        check_kind(name, x, ("bool", "int", "uint", "float"))
        if len(axes) != 1:
            raise ArgumentError(f"{name} takes one axis, got {axes}", "reshape the axes into one first")
        if not is_integer(index_dtype):
            raise DtypeError(f"{name} gives integers, not {index_dtype}", "pass an integer index_dtype")
        check_positions(name, x.shape[axes[0]] if axes else 0, index_dtype)
        if x.shape[axes[0]] == 0:
            raise ShapeError(f"{name} over an axis without elements: {x.show()}", "it has no index of an extremum")
        return ArrayType(without_axes(x.shape, axes), index_dtype)

    return typing


def _position(name: str, numpy: Any) -> Primitive:
    p = Primitive(
        name,
        _position_typing(name),
        jvp=no_tangent(lambda: p),
        numpy=lambda x, *, axes, index_dtype: widened(numpy)(x, axis=axes[0]).astype(index_dtype),
        relation=lambda ins, outs, *, axes, index_dtype: reducing(ins, axes, Whole()),
        places=other_places,
        work=Work(1, operand=0),
        axes={"axes": NAMED},
    )
    return p


argmax_p: Primitive = _position("argmax", np.argmax)
argmin_p: Primitive = _position("argmin", np.argmin)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike = np.int32) -> Array:
    """The position of the first maximum (or of the first NaN) along an axis.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.argmax(jnp.array([3, 7, 7]), 0)
    Array(1, dtype=int32)
    """
    axes = as_axes((axis,), len(shape_of(operand)), "argmax")
    return argmax_p.bind(operand, axes=axes, index_dtype=canonical_dtype(index_dtype))


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike = np.int32) -> Array:
    """The position of the first minimum (or of the first NaN) along an axis.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.argmin(jnp.array([3, 7, 2]), 0)
    Array(2, dtype=int32)
    """
    axes = as_axes((axis,), len(shape_of(operand)), "argmin")
    return argmin_p.bind(operand, axes=axes, index_dtype=canonical_dtype(index_dtype))


# ---------------------------------------------------------------------------- any monoid


def _reduce_typing(*types: ArrayType, computation: Program, dimensions: Axes) -> list[ArrayType]:
    count = len(types) // 2
    arrays, starts = types[:count], types[count:]
    if any(a.shape != arrays[0].shape for a in arrays):
        shown = ", ".join(a.show() for a in arrays)
        raise ShapeError(f"reduce takes arrays of one shape, got {shown}", "broadcast them")
    check_axes("reduce", arrays[0], dimensions)
    for a, s in zip(arrays, starts, strict=True):
        if s.shape or s.dtype != a.dtype:
            raise ShapeError(f"reduce of {a.show()} starts from a scalar of that dtype, got {s.show()}")
    found = [t.strong() for t in computation.out_types]
    if found != [ArrayType((), a.dtype) for a in arrays]:
        shown, wanted = ", ".join(t.show() for t in found), ", ".join(str(a.dtype) for a in arrays)
        raise ShapeError(f"the computation of reduce gives ({shown}), not scalars of {wanted}", "cast its results")
    return [ArrayType(without_axes(a.shape, dimensions), a.dtype) for a in arrays]


def _reduce_numpy(*args: Any, computation: Program, dimensions: Axes) -> list[Any]:
    arrays, starts = args[: len(args) // 2], args[len(args) // 2 :]
    shape = without_axes(arrays[0].shape, dimensions)
    count = math.prod(arrays[0].shape[d] for d in dimensions)
    rows = [np.moveaxis(a, dimensions, range(len(dimensions))).reshape(count, *shape) for a in arrays]
    outs = [np.empty(shape, a.dtype) for a in arrays]
    for place in itertools.product(*map(range, shape)):
        state = list(starts)
        for i in range(count):
            state = evaluate(computation, *state, *(r[(i, *place)] for r in rows))
        for out, value in zip(outs, state, strict=True):
            out[place] = value
    return outs


def _vectorised(computation: Program, count: int, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """A scalar computation applied to each pair of elements of arrays."""
    shape = shape_of(a[0])
    size = int(np.prod(shape, dtype=np.int64))
    flat = [reshape_p.bind(x, new_sizes=(size,), dimensions=None) for x in (*a, *b)]
    batched, dims = batch_program(computation, AxisInfo(size), (0,) * (2 * count))
    outs = eval_program(batched, *flat)
    whole = [moved(AxisInfo(size), x, d, 0) for x, d in zip(outs, dims, strict=True)]
    return [reshape_p.bind(x, new_sizes=shape, dimensions=None) for x in whole]


def _reduce_by_halves(*args: Any, computation: Program, dimensions: Axes) -> list[Any]:
    """A reduction as a tree of vectorised steps, which can be differentiated."""
    count = len(args) // 2
    arrays, starts = args[:count], args[count:]
    shape = without_axes(shape_of(arrays[0]), dimensions)
    first = [broadcast_in_dim_p.bind(s, shape=shape, broadcast_dimensions=()) for s in starts]
    rows = [_leading(x, dimensions) for x in arrays]
    if shape_of(rows[0])[0] == 0:
        return first
    reduced = halve(lambda a, b: _vectorised(computation, count, a, b), rows)
    return _vectorised(computation, count, first, reduced)


def _reduce_batch(
    axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, computation: Program, dimensions: Axes
) -> Any:
    count = len(args) // 2
    if any(d is not None for d in dims[count:]):
        # Starts that differ along the batch: reduce each from its own by the vectorised tree.
        types = [ArrayType(without_axes(shape_of(a), () if d is None else (d,)), typeof(a).dtype)
                 for a, d in zip(args, dims, strict=True)]  # fmt: skip
        program = trace_program(
            lambda *xs: _reduce_by_halves(*xs, computation=computation, dimensions=dimensions), types, "reduce"
        )
        batched, out_dims = batch_program(program, axis, tuple(None if d is None else 0 for d in dims))
        front = [a if d is None else moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True)]
        return eval_program(batched, *front), list(out_dims)
    arrays = [moved(axis, a, d, 0) for a, d in zip(args[:count], dims[:count], strict=True)]
    shifted = tuple(a + 1 for a in dimensions)
    outs = reduce_p.bind(*arrays, *args[count:], computation=computation, dimensions=shifted)
    return outs, [0] * count


def _reduce_relation(ins: Sequence[Any], outs: Sequence[Any], *, computation: Program, dimensions: Axes) -> Relation:
    """The axes stay in one piece: the starts are joined in once, and need not be neutral."""
    found = reducing(ins, dimensions, Whole())
    count = len(ins) // 2
    return replace(found, operands=found.operands * count + ((),) * count, results=found.results * count)


reduce_p: Primitive = Primitive(
    "reduce",
    _reduce_typing,
    jvp=expanded_jvp(_reduce_by_halves, multiple=True),
    batch=_reduce_batch,
    numpy=_reduce_numpy,
    relation=_reduce_relation,
    runs=lambda ins, **_: ins[0].size,
    expand=_reduce_by_halves,
    multiple=True,
)

_MONOIDS: dict[Primitive, tuple[Primitive, Monoid]] = {
    add_p: (reduce_sum_p, SUM),
    mul_p: (reduce_prod_p, PRODUCT),
    max_p: (reduce_max_p, MAXIMUM),
    min_p: (reduce_min_p, MINIMUM),
    and_p: (reduce_and_p, AND),
    or_p: (reduce_or_p, OR),
    xor_p: (reduce_xor_p, XOR),
}


def monoid_of(computation: Program) -> Primitive | None:
    """The primitive that a binary scalar Program consists of, if it is one of the standard monoids."""
    if len(computation.eqns) == 1 and len(computation.inputs) == 2:
        (eqn,) = computation.eqns
        plain = set(eqn.inputs) == set(computation.inputs) and computation.outputs == eqn.outputs
        if plain and eqn.primitive in _MONOIDS:
            return eqn.primitive
    return None


def _is_identity(start: Any, identity: Any) -> bool:
    known = isinstance(start, (bool, int, float, complex, np.ndarray, np.generic))
    return known and bool(np.asarray(start) == identity)


def reduce(
    operands: Any, init_values: Any, computation: Callable[[Any, Any], Any], dimensions: Sequence[int], *,
    out_sharding: None = None,
) -> Any:  # fmt: skip
    """Fold a function over some axes of a pytree of arrays of one shape.

    `computation(a, b)` takes and gives pytrees of scalars and must be associative and commutative, with
    `init_values` (scalars) its identity; the order of the folds is not defined.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.reduce(jnp.array([[1, 2], [3, 4]]), 1, lax.mul, (1,))
    Array([ 2, 12], dtype=int32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, reduce, operands, init_values, computation, dimensions)
    arrays, treedef = pytree.flatten(operands)
    starts = pytree.flatten_up_to(treedef, init_values)
    types = [typeof(a) for a in arrays]
    axes = as_axes(dimensions, len(types[0].shape) if types else 0, "reduce")
    weak = [t.weak_type and typeof(s).weak_type for s, t in zip(starts, types, strict=True)]
    starts = [convert_element_type(s, t.dtype) for s, t in zip(starts, types, strict=True)]

    def flat(*scalars: Any) -> list[Any]:
        half = len(scalars) // 2
        out = computation(pytree.unflatten(treedef, scalars[:half]), pytree.unflatten(treedef, scalars[half:]))
        return pytree.flatten_up_to(treedef, out)

    scalar_types = [ArrayType((), t.dtype) for t in types]
    program, constants = hoist(trace_program(flat, [*scalar_types, *scalar_types], "reduce"))
    if constants:
        raise ArgumentError(
            "the computation of reduce uses an array or traced value from outside", "pass it as one of the operands"
        )
    monoid = monoid_of(program)
    if monoid is not None:
        reducer, known = _MONOIDS[monoid]
        out = reducer.bind(arrays[0], axes=axes)
        given = pytree.leaves(init_values)[0]
        if not _is_identity(given, known.neutral(types[0].dtype)):
            out = monoid.bind(starts[0], out)
        outs = [out]
    else:
        outs = reduce_p.bind(*arrays, *starts, computation=program, dimensions=axes)
    return pytree.unflatten(treedef, [convert_element_type(o, t.dtype, w)
                                    for o, t, w in zip(outs, types, weak, strict=True)])  # fmt: skip


PRIMITIVES: tuple[Primitive, ...] = (
    reduce_sum_p, reduce_prod_p, reduce_max_p, reduce_min_p, reduce_and_p, reduce_or_p, reduce_xor_p,
    argmax_p, argmin_p, reduce_p,
)  # fmt: skip

__all__ = [
    "argmax", "argmax_p", "argmin", "argmin_p", "reduce", "reduce_and", "reduce_and_p", "reduce_max",
    "reduce_max_p", "reduce_min", "reduce_min_p", "reduce_or", "reduce_or_p", "reduce_p", "reduce_prod",
    "reduce_prod_p", "reduce_sum", "reduce_sum_p", "reduce_xor", "reduce_xor_p",
]  # fmt: skip
