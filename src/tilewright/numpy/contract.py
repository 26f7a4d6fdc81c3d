"""Products and contractions, all of them one `dot_general` per pair of operands.

`pair(x, xs, y, ys, out)` is the engine: axes carry labels, and labels say what is summed, what is
batched and what is free. einsum, matmul, tensordot and the others name their axes and call it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import lax
from ..core.ir.binding import with_out_sharding
from ..core.primitives.contraction.dot_algorithms import PrecisionLike
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, ShapeError, plural
from ..core.tracing.trace import Tracer
from .elementwise import multiply
from .join import stack
from .matrices import diagonal
from .reductions import sum as sum_of
from .shape import broadcast_arrays, moveaxis, ravel
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    astype,
    axes_of,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_bool,
    is_complex,
    no_out,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)

Labels = Sequence[Any]

# ---------------------------------------------------------------------------- the engine


def of_one(x: Array, xs: Labels, out: Labels) -> Array:
    """Sum out the labels of one operand that are not wanted, take diagonals of repeated ones, and order the rest."""
    xs = list(xs)
    for label in dict.fromkeys(xs):
        while xs.count(label) > 1:
            i = xs.index(label)
            j = xs.index(label, i + 1)
            x = diagonal(x, 0, i, j)
            xs = [s for d, s in enumerate(xs) if d not in (i, j)] + [label]
    gone = tuple(d for d, label in enumerate(xs) if label not in out)
    if gone:
        x = sum_of(x, gone, dtype_of(x)) if not is_bool(dtype_of(x)) else lax.reduce_or(x, gone)
        xs = [label for label in xs if label in out]
    order = [xs.index(label) for label in out]
    return x if order == list(range(len(order))) else lax.transpose(x, order)


def pair(
    x: Array, xs: Labels, y: Array, ys: Labels, out: Labels, precision: PrecisionLike = None, preferred: Any = None
) -> Array:
    """Contract two operands with labelled axes; an axis of size 1 broadcasts against its partner."""
    kept = set(out)
    x, left = _without_repeats(x, list(xs))
    y, right = _without_repeats(y, list(ys))
    x, left, y, right = _without_unit_partners(x, left, y, right)
    shared = [s for s in left if s in right]
    batch = [s for s in shared if s in kept]
    summed = [s for s in shared if s not in kept]
    x, left = _summed_alone(x, left, right, kept)
    y, right = _summed_alone(y, right, left, kept)
    numbers = (
        ([left.index(s) for s in summed], [right.index(s) for s in summed]),
        ([left.index(s) for s in batch], [right.index(s) for s in batch]),
    )
    result = lax.dot_general(x, y, numbers, precision, preferred)
    names = batch + [s for s in left if s not in shared] + [s for s in right if s not in shared]
    order = [names.index(s) for s in out]
    return result if order == list(range(len(order))) else lax.transpose(result, order)


def _without_repeats(x: Array, xs: list[Any]) -> tuple[Array, list[Any]]:
    distinct = list(dict.fromkeys(xs))
    return (x, xs) if len(distinct) == len(xs) else (of_one(x, xs, distinct), distinct)


def _without_unit_partners(x: Array, xs: list[Any], y: Array, ys: list[Any]) -> Any:
    """Drop axes of size 1 whose partner is longer: repeating them would multiply the work."""
    x_sizes, y_sizes = dict(zip(xs, shape_of(x), strict=True)), dict(zip(ys, shape_of(y), strict=True))
    x_drop, y_drop = [], []
    for label in x_sizes.keys() & y_sizes.keys():
        n, m = x_sizes[label], y_sizes[label]
        if n != m:
            if 1 not in (n, m):
                raise ShapeError(
                    f"a dimension of {n} meets one of {m}", "contracted and batched dimensions must be equal"
                )
            (x_drop if n == 1 else y_drop).append(label)
    if x_drop:
        x, xs = lax.squeeze(x, tuple(xs.index(s) for s in x_drop)), [s for s in xs if s not in x_drop]
    if y_drop:
        y, ys = lax.squeeze(y, tuple(ys.index(s) for s in y_drop)), [s for s in ys if s not in y_drop]
    return x, xs, y, ys


def _summed_alone(x: Array, xs: list[Any], others: list[Any], kept: set[Any]) -> tuple[Array, list[Any]]:
    """Sum out labels that neither the result nor the other operand has."""
    wanted = [s for s in xs if s in kept or s in others]
    return (x, xs) if len(wanted) == len(xs) else (of_one(x, xs, wanted), wanted)


def _operands(name: str, a: ArrayLike, b: ArrayLike) -> list[Array]:
    return promote_dtypes(value(a, name), value(b, name))


_HOW = ("precision", "preferred_element_type")

# ---------------------------------------------------------------------------- products


@inline_jit(*_HOW)
def _dot(a: Any, b: Any, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None) -> Array:
    a, b = _operands("dot", a, b)
    n, m = len(shape_of(a)), len(shape_of(b))
    if n == 0 or m == 0:
        result = lax.mul(*promote_dtypes(a, b)) if not is_bool(dtype_of(a)) else lax.bitwise_and(a, b)
        return result if preferred_element_type is None else astype(result, preferred_element_type)
    xs = [f"x{d}" for d in range(n)]
    ys = [f"y{d}" for d in range(m)]
    ys[max(m - 2, 0)] = xs[-1]
    _same_length("dot", a, -1, b, max(m - 2, 0))
    out = xs[:-1] + [s for s in ys if s != xs[-1]]
    return pair(a, xs, b, ys, out, precision, preferred_element_type)


def _same_length(name: str, a: Array, i: int, b: Array, j: int) -> None:
    if shape_of(a)[i] != shape_of(b)[j]:
        raise ShapeError(
            f"{name} of shapes {shape_of(a)} and {shape_of(b)} would contract {shape_of(a)[i]} with {shape_of(b)[j]}",
            "these two dimensions must be equal",
        )


def dot(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The product of vectors, matrices, or the last axis of one array with the last but one of another.

    >>> from tilewright import numpy as jnp
    >>> jnp.dot(jnp.array([1., 2.]), jnp.array([3., 4.]))
    Array(11., dtype=float32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, dot, a, b, precision=precision,
                             preferred_element_type=preferred_element_type)  # fmt: skip
    return _dot(a, b, precision, dtype_argument(preferred_element_type))


@inline_jit(*_HOW)
def _matmul(a: Any, b: Any, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None) -> Array:
    a, b = _operands("matmul", a, b)
    n, m = len(shape_of(a)), len(shape_of(b))
    if n == 0 or m == 0:
        raise ShapeError(f"matmul of shapes {shape_of(a)} and {shape_of(b)}", "arrays of rank 0 multiply by `*`")
    _same_length("matmul", a, -1, b, max(m - 2, 0))
    batch = [f"b{d}" for d in range(max(n, m, 2) - 2)]
    xs = batch[len(batch) - max(n - 2, 0) :] + (["i", "k"] if n > 1 else ["k"])
    ys = batch[len(batch) - max(m - 2, 0) :] + (["k", "j"] if m > 1 else ["k"])
    out = batch + (["i"] if n > 1 else []) + (["j"] if m > 1 else [])
    return _batched(a, xs, b, ys, out, precision, preferred_element_type)


def _batched(a: Array, xs: list[Any], b: Array, ys: list[Any], out: list[Any], precision: Any, preferred: Any) -> Array:
    """`pair` for labels whose sizes may both be 1 in one operand; the errors name the batch shapes."""
    sizes: dict[Any, int] = {}
    for label, n in [*zip(xs, shape_of(a), strict=True), *zip(ys, shape_of(b), strict=True)]:
        if label in sizes and n != sizes[label] and 1 not in (n, sizes[label]):
            raise ShapeError(
                f"batches of {sizes[label]} and {n} (shapes {shape_of(a)}, {shape_of(b)})", "they must broadcast"
            )
        sizes[label] = max(n, sizes.get(label, 1)) if n != 0 else 0
    return pair(a, xs, b, ys, out, precision, preferred)


def matmul(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The matrix product, over leading axes that broadcast.

    >>> from tilewright import numpy as jnp
    >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones((3, 1)))
    Array([[3.],
           [3.]], dtype=float32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, matmul, a, b, precision=precision,
                             preferred_element_type=preferred_element_type)  # fmt: skip
    return _matmul(a, b, precision, dtype_argument(preferred_element_type))


@inline_jit(*_HOW)
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The product of two arrays laid flat, the first conjugated.

    >>> from tilewright import numpy as jnp
    >>> jnp.vdot(jnp.array([1., 2.]), jnp.array([3., 4.]))
    Array(11., dtype=float32)
    """
    a, b = ravel(value(a, "vdot")), ravel(value(b, "vdot"))
    return _dot(_conjugated(a), b, precision, dtype_argument(preferred_element_type))


def _conjugated(x: Array) -> Array:
    return lax.conj(x) if is_complex(dtype_of(x)) else x


@inline_jit("axis", *_HOW)
def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The product of vectors along an axis, the first conjugated, over the other axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.vecdot(jnp.ones((2, 3)), jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    x1, x2 = _operands("vecdot", x1, x2)
    x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    _same_length("vecdot", x1, -1, x2, -1)
    n, m = len(shape_of(x1)), len(shape_of(x2))
    batch = [f"b{d}" for d in range(max(n, m) - 1)]
    xs, ys = batch[len(batch) - n + 1 :] + ["k"], batch[len(batch) - m + 1 :] + ["k"]
    return _batched(_conjugated(x1), xs, x2, ys, batch, precision, dtype_argument(preferred_element_type))


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The product of matrices and vectors, over leading axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.matvec(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    x2 = value(x2)
    product = matmul(x1, lax.expand_dims(x2, (len(shape_of(x2)),)))
    return lax.squeeze(product, (len(shape_of(product)) - 1,))


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The product of vectors, conjugated, and matrices, over leading axes.

    >>> from tilewright import numpy as jnp
    >>> jnp.vecmat(jnp.ones(2), jnp.ones((2, 3)))
    Array([2., 2., 2.], dtype=float32)
    """
    x1 = _conjugated(value(x1))
    product = matmul(lax.expand_dims(x1, (len(shape_of(x1)) - 1,)), x2)
    return lax.squeeze(product, (len(shape_of(product)) - 2,))


@inline_jit(*_HOW)
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The product over the last axes of two arrays.

    >>> from tilewright import numpy as jnp
    >>> jnp.inner(jnp.array([1., 2.]), jnp.array([3., 4.]))
    Array(11., dtype=float32)
    """
    a, b = _operands("inner", a, b)
    if not shape_of(a) or not shape_of(b):
        return _dot(a, b, precision, dtype_argument(preferred_element_type))
    _same_length("inner", a, -1, b, -1)
    xs = [f"x{d}" for d in range(len(shape_of(a)) - 1)]
    ys = [f"y{d}" for d in range(len(shape_of(b)) - 1)]
    return pair(a, [*xs, "k"], b, [*ys, "k"], xs + ys, precision, dtype_argument(preferred_element_type))


@inline_jit()
def _outer(a: Any, b: Any) -> Array:
    a, b = ravel(value(a, "outer")), ravel(value(b, "outer"))
    return multiply(lax.expand_dims(a, (1,)), lax.expand_dims(b, (0,)))


@public
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The product of every pair of elements of two arrays laid flat.

    >>> from tilewright import numpy as jnp
    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    no_out(out, "outer")
    return _outer(a, b)


@inline_jit("axes", *_HOW)
def _tensordot(a: Any, b: Any, axes: Any, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    a, b = _operands("tensordot", a, b)
    n, m = len(shape_of(a)), len(shape_of(b))
    if isinstance(axes, (tuple, list)):
        first, second = (axes_of(side, rank) for side, rank in zip(axes, (n, m), strict=True))
    else:
        count = operator.index(axes)
        if count > min(n, m):
            raise ArgumentError(f"tensordot over {plural(count, 'axis')} of ranks {n} and {m}",
                                "use no more axes than there are")  # fmt: skip
        first, second = tuple(range(n - count, n)), tuple(range(count))
    if len(first) != len(second):
        raise ArgumentError(f"tensordot over {len(first)} and {plural(len(second), 'axis')}",
                            "name as many on each side")  # fmt: skip
    xs, ys = [f"x{d}" for d in range(n)], [f"y{d}" for d in range(m)]
    for i, j in zip(first, second, strict=True):
        _same_length("tensordot", a, i, b, j)
        ys[j] = xs[i]
    out = [s for d, s in enumerate(xs) if d not in first] + [s for d, s in enumerate(ys) if d not in second]
    return pair(a, xs, b, ys, out, precision, preferred_element_type)


@public
def tensordot(
    a: ArrayLike, b: ArrayLike, axes: Any = 2, *, precision: Any = None, preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The product over some axes of two arrays: the last of one with the first of the other, or those named.

    >>> from tilewright import numpy as jnp
    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 1)), 1).shape
    (2, 1)
    """
    return _tensordot(a, b, axes, precision, dtype_argument(preferred_element_type))


@inline_jit()
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: copies of `b` scaled by each element of `a`.

    >>> from tilewright import numpy as jnp
    >>> jnp.kron(jnp.array([1, 2]), jnp.array([1, 1]))
    Array([1, 1, 2, 2], dtype=int32)
    """

    a, b = _operands("kron", a, b)
    rank = max(len(shape_of(a)), len(shape_of(b)))
    n, m = ((1,) * (rank - len(shape_of(x))) + shape_of(x) for x in (a, b))
    left = lax.reshape(a, [d for size in n for d in (size, 1)])
    right = lax.reshape(b, [d for size in m for d in (1, size)])
    return lax.reshape(multiply(left, right), tuple(i * j for i, j in zip(n, m, strict=True)))


@public
def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The vector product of vectors of 2 or 3 components.

    >>> from tilewright import numpy as jnp
    >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    return _cross(a, b, axisa, axisb, axisc)


@inline_jit("axisa", "axisb", "axisc")
def _cross(a: Any, b: Any, axisa: int, axisb: int, axisc: int) -> Array:
    a, b = _operands("cross", a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    n, m = shape_of(a)[-1], shape_of(b)[-1]
    if n not in (2, 3) or m not in (2, 3):
        raise ShapeError(f"cross of vectors of {n} and {m} components", "they have 2 or 3")
    x = [a[..., i] for i in range(n)]
    y = [b[..., i] for i in range(m)]
    last = strong(x[0] * y[1] - x[1] * y[0])
    if n == m == 2:
        return last
    zero = np.zeros((), dtype_of(a))[()]
    x2, y2 = x[2] if n == 3 else zero, y[2] if m == 3 else zero

    parts = broadcast_arrays(x[1] * y2 - x2 * y[1], x2 * y[0] - x[0] * y2, last)
    return moveaxis(stack(parts, -1), -1, axisc)


@inline_jit("offset", "axis1", "axis2", "dtype")
def _trace(a: Any, offset: Any, axis1: int, axis2: int, dtype: DTypeLike) -> Array:
    a = value(a, "trace")
    if not isinstance(offset, Tracer):
        return sum_of(diagonal(a, offset, axis1, axis2), -1, dtype)
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = (lax.broadcasted_iota(np.dtype(np.int32), shape_of(a)[-2:], d) for d in (0, 1))
    return sum_of(a, (-2, -1), dtype, where=rows + offset == columns)


@public
def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike = None, out: None = None
) -> Array:
    """The sum of a diagonal.

    >>> from tilewright import numpy as jnp
    >>> jnp.trace(jnp.ones((2, 2)))
    Array(2., dtype=float32)
    """
    no_out(out, "trace")
    return _trace(a, offset, axis1, axis2, dtype_argument(dtype))


# ---------------------------------------------------------------------------- einsum


def _parsed(operands: Sequence[Any]) -> tuple[list[str], str, list[Any]]:
    """Input labels, output labels and arrays of an einsum call in any of its spellings."""
    if isinstance(operands[0], str) and "..." not in operands[0]:
        text = operands[0].replace(" ", "")
        arrays = [value(x, "einsum") for x in operands[1:]]
        if "->" not in text:
            counts = {c: text.replace(",", "").count(c) for c in text.replace(",", "")}
            text += "->" + "".join(sorted(c for c, n in counts.items() if n == 1))
        inputs, output = text.split("->")
        return inputs.split(","), output, arrays
    if isinstance(operands[0], str):
        arrays = [value(x, "einsum") for x in operands[1:]]
        given: Sequence[Any] = (operands[0], *arrays)
    else:
        given = [value(x) if i % 2 == 0 and i < 2 * (len(operands) // 2) else x for i, x in enumerate(operands)]
        arrays = list(given[0 : 2 * (len(given) // 2) : 2])
    shapes = [_Shaped(x) for x in arrays]
    stand_ins = iter(shapes)
    given = [next(stand_ins) if any(x is a for a in arrays) else x for x in given]
    from opt_einsum import parser

    try:
        inputs, output, _ = parser.parse_einsum_input(given)
    except ValueError as error:
        what = f"einsum of {operands[0]!r} for shapes {', '.join(str(x.shape) for x in shapes)}: {error}"
        raise ArgumentError(what, "name every axis, or leave the leading ones to `...`") from None
    return inputs.split(","), output, arrays


class _Shaped:
    """A shape in the place of an array, for a parser that looks at nothing else."""

    def __init__(self, x: Any):
        self.shape = shape_of(x)
        self.ndim = len(self.shape)


def _sizes(inputs: Sequence[str], arrays: Sequence[Any]) -> dict[str, int]:
    if len(inputs) != len(arrays):
        raise ArgumentError(
            f"einsum of {len(inputs)} terms with {len(arrays)} operands", "give one operand for each term"
        )
    sizes: dict[str, int] = {}
    for term, x in zip(inputs, arrays, strict=True):
        if len(term) != len(shape_of(x)):
            raise ShapeError(f"einsum term {term!r} for an operand of shape {shape_of(x)}", "name every axis once")
        for label, n in zip(term, shape_of(x), strict=True):
            if label in sizes and n != sizes[label] and 1 not in (n, sizes[label]):
                raise ShapeError(f"einsum label {label!r} is of size {sizes[label]} and {n}", "sizes must agree")
            sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    return sizes


def _path(
    inputs: Sequence[str], output: str, arrays: Sequence[Any], optimize: Any
) -> list[tuple[tuple[int, ...], str]]:
    """The steps of the contraction: positions of operands, and the expression that joins them."""
    if len(arrays) <= 2:
        return [(tuple(range(len(arrays))), f"{','.join(inputs)}->{output}")]
    sizes = _sizes(inputs, arrays)
    shapes = [tuple(sizes[label] for label in term) for term in inputs]
    how = "auto" if optimize is True else optimize if optimize is not False else [tuple(range(len(arrays)))]
    if isinstance(how, (list, tuple)) and how and how[0] == "einsum_path":
        how = list(how[1:])
    import opt_einsum

    expression = f"{','.join(inputs)}->{output}"
    _, info = opt_einsum.contract_path(expression, *shapes, shapes=True, optimize=how)
    return [(tuple(step[0]), step[2]) for step in info.contraction_list]


@inline_jit("expression", "optimize", *_HOW)
def _einsum(
    arrays: Any, expression: Any, optimize: Any, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    inputs, output = expression
    arrays = promote_dtypes(*arrays)
    preferred = preferred_element_type
    for positions, step in _path(inputs, output, arrays, optimize):
        terms, result = step.split("->")
        parts = terms.split(",")
        taken = [arrays[i] for i in positions]
        arrays = [x for i, x in enumerate(arrays) if i not in positions]
        joined, labels = taken[0], parts[0]
        if len(taken) == 1:
            joined = of_one(joined, labels, result)
        for i in range(1, len(taken)):
            later = set(result).union(*parts[i + 1 :])
            wanted = (
                result if i == len(taken) - 1 else "".join(s for s in dict.fromkeys(labels + parts[i]) if s in later)
            )
            joined, labels = pair(joined, labels, taken[i], parts[i], wanted, precision, preferred), wanted
        arrays.append(joined)
    (result_array,) = arrays
    return result_array if preferred is None else astype(result_array, preferred)


@public
def einsum(
    subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto", precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None, _dot_general: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Sums of products of elements, by Einstein's convention.

    Labels that are not in the result are summed over; with three operands or more `opt_einsum` chooses
    the order of the contractions.

    >>> from tilewright import numpy as jnp
    >>> jnp.einsum('ij,j->i', jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    no_out(out, "einsum")
    inputs, output, arrays = _parsed((subscripts, *operands))
    _check_labels(inputs, output, arrays)
    optimize = (
        tuple(map(tuple, optimize)) if isinstance(optimize, list) and optimize[:1] != ["einsum_path"] else optimize
    )
    return _einsum(arrays, (tuple(inputs), output), optimize, precision, dtype_argument(preferred_element_type))


def _check_labels(inputs: Sequence[str], output: str, arrays: Sequence[Any]) -> None:
    sizes = _sizes(inputs, arrays)
    for label in output:
        if label not in sizes or output.count(label) > 1:
            raise ArgumentError(
                f"einsum result {output!r} has label {label!r} that no operand has, or twice", "name it once"
            )


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> Any:
    """The order of contractions that `einsum` would use, and a report on it.

    >>> from tilewright import numpy as jnp
    >>> jnp.einsum_path('ij,jk->ik', jnp.ones((2, 3)), jnp.ones((3, 4)))[0]
    [(0, 1)]
    """
    import opt_einsum

    inputs, output, arrays = _parsed((subscripts, *operands))
    shapes = [shape_of(x) for x in arrays]
    path, info = opt_einsum.contract_path(f"{','.join(inputs)}->{output}", *shapes, shapes=True, optimize=optimize)
    return list(path), info


# ---------------------------------------------------------------------------- convolution


def _convolved(a: Any, v: Any, mode: str, flip: bool, precision: PrecisionLike, preferred: Any) -> Array:
    a, v = promote_dtypes_inexact(value(a, "convolve"), value(v, "convolve"))
    if len(shape_of(a)) != 1 or len(shape_of(v)) != 1 or 0 in (*shape_of(a), *shape_of(v)):
        raise ShapeError(
            f"convolution of shapes {shape_of(a)} and {shape_of(v)}", "pass two vectors that are not empty"
        )
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"there is no mode {mode!r} of convolve", "one of 'full', 'same', 'valid'")
    # The longer vector is slid over. Correlation with the two exchanged comes out backwards.
    swapped = shape_of(a)[0] < shape_of(v)[0]
    a, v = (v, a) if swapped else (a, v)
    n = shape_of(v)[0]
    low, high = {"full": (n - 1, n - 1), "same": (n // 2, n - 1 - n // 2), "valid": (0, 0)}[mode]
    result = _windowed(a, lax.rev(v, (0,)) if flip else v, low, high, precision, preferred)
    return lax.rev(result, (0,)) if swapped and not flip else result


def _windowed(a: Array, kernel: Array, low: int, high: int, precision: PrecisionLike, preferred: Any) -> Array:
    lhs, rhs = lax.expand_dims(a, (0, 1)), lax.expand_dims(kernel, (0, 1))
    result = lax.conv_general_dilated(
        lhs, rhs, (1,), [(low, high)], precision=precision, preferred_element_type=preferred
    )
    return lax.squeeze(result, (0, 1))


@inline_jit("mode", *_HOW)
def convolve(
    a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The convolution of two vectors.

    >>> from tilewright import numpy as jnp
    >>> jnp.convolve(jnp.array([1., 2.]), jnp.array([1., 1.]))
    Array([1., 3., 2.], dtype=float32)
    """
    return _convolved(a, v, mode, True, precision, dtype_argument(preferred_element_type))


@inline_jit("mode", *_HOW)
def correlate(
    a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The correlation of two vectors, the second conjugated.

    >>> from tilewright import numpy as jnp
    >>> jnp.correlate(jnp.array([1., 2., 3.]), jnp.array([0., 1.]))
    Array([2., 3.], dtype=float32)
    """
    return _convolved(a, _conjugated(value(v)), mode, False, precision, dtype_argument(preferred_element_type))


__all__ = [
    "convolve", "correlate", "cross", "dot", "einsum", "einsum_path", "inner", "kron", "matmul", "matvec", "outer",
    "tensordot", "trace", "vdot", "vecdot", "vecmat",
]  # fmt: skip
