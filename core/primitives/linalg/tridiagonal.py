"""Solutions of tridiagonal systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike
from ...ir.primitive import Linear, Primitive, Zero
from ...ir.types import ArrayType
from ...support.errors import ShapeError
from ...support.memo import cached
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import weak_as_operands, zeros
from ...transforms.structural_primitives import add_tangents, moveaxis
from ..control_flow.scan import scan
from ..elementwise.arithmetic import div_p, mul_p, neg_p, sub_p
from ..movement.shape import pad, rev
from .common import check_batch, check_dtype, check_matrix, each, matrixwise
from .matrices import columns_of

if TYPE_CHECKING:
    from ...support.pytree import PyTree


@cached(1024)
def _typing(dl: ArrayType, d: ArrayType, du: ArrayType, b: ArrayType, *, perturb_singular: bool) -> ArrayType:
    check_dtype("tridiagonal_solve", dl, d, du, b)
    batch, m, _ = check_matrix("tridiagonal_solve", b)
    for t in (dl, d, du):
        if t.ndim < 1 or t.shape[-1] != m:
            raise ShapeError(f"tridiagonal_solve: a diagonal {t.show()} does not fit {b.show()}",
                             "each diagonal is as long as `b` has rows")  # fmt: skip
        check_batch("tridiagonal_solve", batch, t.shape[:-1], t)
    return b.strong()


def _shifted(v: Any, by: int) -> Any:
    """A vector moved along its last axis, with zeros coming in."""
    lead = [(0, 0, 0)] * (len(shape_of(v)) - 1)
    return pad(v, np.zeros((), typeof(v).dtype)[()], [*lead, (by, -by, 0)])


def _rows_shifted(x: Any, by: int) -> Any:
    lead = [(0, 0, 0)] * (len(shape_of(x)) - 2)
    return pad(x, np.zeros((), typeof(x).dtype)[()], [*lead, (by, -by, 0), (0, 0, 0)])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, perturb_singular: bool) -> Any:
    """Of T X = B: T dX = dB - dT X."""
    *diagonals, _ = primals
    out = tridiagonal_solve_p.bind(*primals, perturb_singular=perturb_singular)
    right: Any = None if type(tangents[3]) is Zero else tangents[3]
    columns = shape_of(out)[-1]
    for t, by in zip(tangents[:3], (1, 0, -1), strict=True):
        if type(t) is not Zero:
            beside = _rows_shifted(out, by) if by else out
            right = add_tangents(right, neg_p.bind(mul_p.bind(columns_of(t, columns), beside)))
    if right is None:
        return out, Zero(typeof(out).tangent())
    return out, tridiagonal_solve_p.bind(*diagonals, right, perturb_singular=perturb_singular)


def _transpose(ct: Any, dl: Any, d: Array, du: Any, b: Any, *, perturb_singular: bool) -> Any:
    if type(b) is not Linear or type(ct) is Zero:
        return [None] * 4
    below, above = _shifted(du, 1), _shifted(dl, -1)
    return [None, None, None, tridiagonal_solve_p.bind(below, d, above, ct, perturb_singular=perturb_singular)]


def _numpy(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray, *, perturb_singular: bool) -> np.ndarray:
    return np.linalg.solve(np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1), b) if len(d) else b


def _expand(dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool) -> Any:
    """Thomas's algorithm: one sweep down that clears the lower diagonal, one up; no rows are exchanged."""
    rank = len(shape_of(b))
    columns = shape_of(b)[-1]
    diagonals = [moveaxis(v, rank - 2, 0) for v in (dl, d, du)]
    rows = moveaxis(b, rank - 2, 0)

    def down(carry: PyTree, step: Sequence[Any]) -> Any:
        above, before = carry
        low, on, high, row = step
        pivot = sub_p.bind(on, mul_p.bind(low, above))
        factor, lows = div_p.bind(high, pivot), columns_of(low, columns)
        row = div_p.bind(sub_p.bind(row, mul_p.bind(lows, before)), columns_of(pivot, columns))
        return (factor, row), (factor, row)

    start = (zeros(ArrayType(shape_of(d)[:-1], typeof(d).dtype)),
             zeros(ArrayType((*shape_of(d)[:-1], columns), typeof(b).dtype)))  # fmt: skip
    _, (factors, solved) = scan(down, start, (*diagonals, rows))

    def up(after: Array, step: Sequence[Any]) -> Any:
        factor, row = step
        row = sub_p.bind(row, mul_p.bind(columns_of(factor, columns), after))
        return row, row

    _, out = scan(up, start[1], (rev(factors, (0,)), rev(solved, (0,))))
    return moveaxis(rev(out, (0,)), 0, rank - 2)


tridiagonal_solve_p: Primitive = Primitive(
    "tridiagonal_solve", weak_as_operands(_typing), jvp=_jvp, transpose=_transpose,
    numpy=each(_typing, _numpy, [1, 1, 1, 2]), expand=_expand, relation=matrixwise(1, 1, 1, 2),
)  # fmt: skip


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """The solutions of tridiagonal systems: diagonals `dl`, `d`, `du` (..., m), right-hand sides `b` (..., m, k).

    `dl[0]` and `du[m - 1]` are passed over.

    Raises:
      ShapeError: sizes that do not fit.
      DtypeError: dtypes that differ, or are not float32, float64, complex64 or complex128.
      UnsupportedError: `perturb_singular`, which changes small pivots.

    >>> import numpy as np
    >>> zero, two = np.zeros(2, np.float32), np.full(2, 2.0, np.float32)
    >>> tridiagonal_solve(zero, two, zero, np.ones((2, 1), np.float32))
    Array([[0.5],
           [0.5]], dtype=float32)
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))


PRIMITIVES = (tridiagonal_solve_p,)
