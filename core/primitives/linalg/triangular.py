"""Solutions of triangular systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import Kind, Loops, Relation, Whole
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.types import ArrayType
from ...support.errors import ShapeError
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import weak_as_operands
from ...transforms.structural_primitives import add_tangents, moveaxis, moved
from ..elementwise.arithmetic import neg_p
from ..movement.shape import expand_dims, reshape, squeeze
from .common import FACTORED, check_batch, check_dtype, check_matrix, check_square, through_float32
from .matrices import conjugate, product, transposed, triangle


@cached(1024)
def _typing(
    a: ArrayType, b: ArrayType, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool,
    unit_diagonal: bool,
) -> ArrayType:  # fmt: skip
    check_dtype("triangular_solve", a, b)
    batch, n = check_square("triangular_solve", a)
    other, rows, columns = check_matrix("triangular_solve", b)
    check_batch("triangular_solve", batch, other, b)
    if (rows if left_side else columns) != n:
        side = "left" if left_side else "right"
        raise ShapeError(f"triangular_solve: {a.show()} does not fit {b.show()} on its {side} side",
                         "the inner sizes must be equal")  # fmt: skip
    return b.strong()


def _applied(a: Operand, *, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool) -> Any:
    """What the operand stands for: its triangle (without a diagonal of ones), transposed and conjugated."""
    a = triangle(a, lower, 0 if not unit_diagonal else (-1 if lower else 1))
    a = transposed(a) if transpose_a else a
    return conjugate(a) if conjugate_a else a


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, left_side: bool, **params: Any) -> Any:
    """Of A X = B: A dX = dB - dA X. (Giles, "Collected matrix derivative results", 2008, section 2.3.1)"""
    a, b = primals
    da, db = tangents
    out = triangular_solve_p.bind(a, b, left_side=left_side, **params)
    right: Any = None if type(db) is Zero else db
    if type(da) is not Zero:
        change = _applied(da, **params)
        right = add_tangents(right, neg_p.bind(product(change, out) if left_side else product(out, change)))
    if right is None:
        return out, Zero(typeof(out).tangent())
    return out, triangular_solve_p.bind(a, right, left_side=left_side, **params)


def _transpose(ct: Operand, a: Array, b: Linear, *, transpose_a: bool, **params: Any) -> Any:
    if type(b) is not Linear or type(ct) is Zero:
        return [None, None]
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def substituted(
    a: np.ndarray, b: np.ndarray, *, left_side: bool = True, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> np.ndarray:  # fmt: skip
    """The solutions, row after row, by NumPy."""
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = np.where(np.eye(a.shape[-1], dtype=bool), a.dtype.type(1), a)
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    a = np.conj(a) if conjugate_a else a
    lower ^= transpose_a
    if not left_side:
        a, b, lower = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not lower
    out = np.zeros(b.shape, b.dtype)
    n = a.shape[-1]
    for i in range(n) if lower else reversed(range(n)):
        done = slice(0, i) if lower else slice(i + 1, n)
        known = a[..., i : i + 1, done] @ out[..., done, :]
        out[..., i, :] = (b[..., i, :] - known[..., 0, :]) / a[..., i, i, None]
    return out if left_side else np.swapaxes(out, -1, -2)


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int], *, left_side: bool, **params: Any) -> Any:
    """One matrix for many right-hand sides is one system of more columns (or rows)."""
    a, b = args
    if dims[0] is not None:
        every = [moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True)]
        return triangular_solve_p.bind(*every, left_side=left_side, **params), 0
    rank = len(shape_of(b))
    at = rank - 2 if left_side else rank - 3  # of the new axis: before the one that it joins
    b = moveaxis(b, dims[1], at)
    shape = shape_of(b)
    merged = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
    out = triangular_solve_p.bind(a, reshape(b, merged), left_side=left_side, **params)
    return reshape(out, shape), at


def _relation(ins: Sequence[Any], outs: Sequence[Any], *, left_side: bool, **params: Any) -> Relation:
    """The vectors that are solved for are parallel; the matrix's two axes are whole."""
    loops = Loops()
    count = ins[0].ndim - 2
    shared = loops.axes(ins[0].shape[:count])
    first, second, inner, result = (loops.axis(ins[0].shape[-1]) for _ in range(4))
    free = loops.axis(ins[1].shape[-1 if left_side else -2])
    given, found = ((inner, free), (result, free)) if left_side else ((free, inner), (free, result))
    kinds: dict[int, Kind] = {f: Whole() for axis in (first, second, inner, result) for f in axis}
    return loops.relation([(*shared, first, second), (*shared, *given)], [(*shared, *found)], kinds)


triangular_solve_p: Primitive = Primitive(
    "triangular_solve", weak_as_operands(_typing), jvp=_jvp, transpose=_transpose, batch=_batch,
    numpy=substituted, relation=_relation,
)  # fmt: skip


def triangular_solve(
    a: ArrayLike, b: ArrayLike, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Array:  # fmt: skip
    """The solutions `X` of `op(A) X = B` (`left_side`) or `X op(A) = B`, for triangles of matrices `A`.

    `a` is (..., n, n), of which one triangle is read; `b` is (..., n, k) or (..., k, n), or a vector (..., n).
    `op` transposes and conjugates as asked; with `unit_diagonal` the diagonal is taken to be ones. Floats of less than
    32 bits are solved in float32, and rounded.

    Raises:
      ShapeError: `a` is not square, or the sizes do not fit.
      DtypeError: dtypes that differ, or are not floating or complex.

    >>> import numpy as np
    >>> triangular_solve(np.array([[2.0, 0.0], [1.0, 1.0]], np.float32), np.array([[2.0], [3.0]], np.float32),
    ...                  left_side=True, lower=True)
    Array([[1.],
           [2.]], dtype=float32)
    """
    a_type, b_type = typeof(a), typeof(b)
    vector = b_type.ndim == a_type.ndim - 1
    if vector:
        b = expand_dims(b, (b_type.ndim if left_side else b_type.ndim - 1,))
    conjugate_a = conjugate_a and a_type.dtype in FACTORED[2:]
    how = {
        "left_side": bool(left_side), "lower": bool(lower), "transpose_a": bool(transpose_a),
        "conjugate_a": bool(conjugate_a), "unit_diagonal": bool(unit_diagonal),
    }  # fmt: skip
    out = through_float32(lambda a, b: triangular_solve_p.bind(a, b, **how), a, b)
    if vector:
        out = squeeze(out, (b_type.ndim if left_side else b_type.ndim - 1,))
    return out


PRIMITIVES = (triangular_solve_p,)
