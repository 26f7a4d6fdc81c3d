"""Linear algebra on the CPU: the routines of the LAPACK that SciPy brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.ir.types import ArrayType, Dtype, is_complex
from ....core.primitives.elementwise.arithmetic import sub_p
from ....core.primitives.elementwise.conversion import conj_p
from ....core.primitives.linalg.cholesky import cholesky_p, cholesky_update_p, symmetric_product_p
from ....core.primitives.linalg.eig import eig_p, hessenberg_p, schur_p, tridiagonal_p
from ....core.primitives.linalg.eigh import eigh_p
from ....core.primitives.linalg.lu import lu_p, lu_pivots_to_permutation, lu_pivots_to_permutation_p, lu_solve_p
from ....core.primitives.linalg.matrices import triangle
from ....core.primitives.linalg.qr import geqp3_p, geqrf_p, householder_product_p, ormqr_p, qr_p
from ....core.primitives.linalg.svd import SvdAlgorithm, svd_by_polar, svd_p
from ....core.primitives.linalg.triangular import triangular_solve_p
from ....core.primitives.linalg.tridiagonal import tridiagonal_solve_p
from ....core.support.errors import UnsupportedError
from ....core.tracing.trace import shape_of
from ....core.transforms.structural_primitives import spread
from ..emit import Emitter, Operand
from .call import Rule, all_checked, call, checked, eigen, expanded, info_of, inline, letter

if TYPE_CHECKING:
    from ....core.ir.array import Array

_PREFIX = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def routine(name: str, dtype: Dtype) -> str:
    """The target of a LAPACK routine for a dtype."""
    return f"lapack_{_PREFIX[str(dtype)]}{name}_ffi"


def _call(
    e: Emitter,
    name: str,
    operands: Sequence[Operand],
    outs: Sequence[ArrayType],
    config: dict[str, str] | None = None,
    aliases: Sequence[tuple[int, int]] = (),
) -> list[Operand]:
    """A routine on matrices, the first operand one of them."""
    return call(e, routine(name, operands[0].dtype), operands, outs, len(operands[0].shape), config, aliases)


def _one_minus(x: Array) -> Any:
    return sub_p.bind(x, spread(np.int32(1), shape_of(x)))


def _cholesky(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    types = [out, info_of(operands[0])]
    found = _call(e, "potrf", operands, types, {"uplo": letter("L")}, [(0, 0)])
    return inline(e, lambda factor, info: triangle(checked(factor, info), True), found)[0]


def _triangular_solve(
    e: Emitter, operands: list[Operand], out: ArrayType, *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> Operand:  # fmt: skip
    a, b = operands
    if conjugate_a and not transpose_a:
        (a,) = inline(e, lambda x: conj_p.bind(x, input_dtype=a.dtype), [a])
    config = {
        "diag": letter("U" if unit_diagonal else "N"), "side": letter("L" if left_side else "R"),
        "trans_x": letter(("C" if conjugate_a else "T") if transpose_a else "N"), "uplo": letter("L" if lower else "U"),
    }  # fmt: skip
    return _call(e, "trsm", [a, b], [out], config, [(1, 0)])[0]


def _lu(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    factors, pivots, info = _call(e, "getrf", operands, [*outs[:2], info_of(operands[0])], {}, [(0, 0)])

    def finish(factors: Array, pivots: Array, info: Array) -> Any:
        pivots = _one_minus(pivots)
        return checked(factors, info, True), pivots, lu_pivots_to_permutation(pivots, outs[2].shape[-1])

    return inline(e, finish, [factors, pivots, info])


def _geqrf(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    return _call(e, "geqrf", operands, outs, {}, [(0, 0)])


def _geqp3(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    return _call(e, "geqp3", operands, outs, {}, [(0, 0), (1, 1)])


def _householder_product(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    name = "ungqr" if is_complex(out.dtype) else "orgqr"
    return _call(e, name, operands, [out], {}, [(0, 0)])[0]


def _ormqr(e: Emitter, operands: list[Operand], out: ArrayType, *, left: bool, transpose: bool) -> Operand:
    name = "unmqr" if is_complex(out.dtype) else "ormqr"
    config = {"left": str(left).lower(), "transpose": str(transpose).lower()}
    return _call(e, name, operands, [out], config, [(2, 0)])[0]


def _eigh(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, lower: bool, compute_vectors: bool
) -> list[Operand]:
    (x,) = operands
    name = "heevd" if is_complex(x.dtype) else "syevd"
    config = {"mode": letter("V" if compute_vectors else "N"), "uplo": letter("L" if lower else "U")}
    vectors, values, info = _call(e, name, [x], [x.type, outs[-1], info_of(x)], config, [(0, 0)])
    wanted = [vectors, values] if compute_vectors else [values]
    return all_checked(e, info, wanted)


def _svd(
    e: Emitter,
    operands: list[Operand],
    outs: Sequence[Any],
    *,
    full_matrices: bool,
    compute_uv: bool,
    algorithm: SvdAlgorithm,
) -> list[Operand]:
    (x,) = operands
    if algorithm is SvdAlgorithm.POLAR:
        return inline(e, lambda x: svd_by_polar(x, full_matrices, compute_uv), operands)
    if algorithm is SvdAlgorithm.JACOBI:
        raise UnsupportedError("svd by Jacobi's algorithm has no routine on the CPU", "leave `algorithm` out")
    m, n = x.shape[-2:]
    k = min(m, n)
    left, right = (m, n) if full_matrices or not compute_uv else (k, k)
    batch = x.shape[:-2]
    types = [x.type, outs[0], ArrayType((*batch, m, left), x.dtype), ArrayType((*batch, right, n), x.dtype),
             info_of(x)]  # fmt: skip
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    name = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    _, *found, info = _call(e, name, [x], types, {"mode": letter(mode)}, [(0, 0)])
    return all_checked(e, info, found[: len(outs)])


def _eig(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool, enable_eigvec_derivs: bool,
) -> list[Operand]:  # fmt: skip
    (x,), left, right = operands, compute_left_eigenvectors, compute_right_eigenvectors
    config = {"compute_left": letter("V" if left else "N"), "compute_right": letter("V" if right else "N")}
    return eigen(e, x, outs, left, right, lambda types: _call(e, "geev", [x], types, config))


def _schur(e: Emitter, operands: list[Operand], outs: Sequence[Any], *, compute_schur_vectors: bool) -> list[Operand]:
    (x,) = operands
    batch, n = x.shape[:-2], x.shape[-1]
    value = ArrayType((*batch, n), x.dtype)
    values = [value] if is_complex(x.dtype) else [value, value]
    types = [x.type, x.type, *values, info_of(x), info_of(x)]
    config = {"mode": letter("V" if compute_schur_vectors else "N"), "sort": letter("N")}
    form, vectors, *_, info = _call(e, "gees", [x], types, config, [(0, 0)])
    wanted = [form, vectors][: len(outs)]
    return all_checked(e, info, wanted)


def _hessenberg(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    (x,) = operands
    config = {"high": f"{x.shape[-1]} : i32", "low": "1 : i32"}
    *found, info = _call(e, "gehrd", [x], [*outs, info_of(x)], config, [(0, 0)])
    return all_checked(e, info, found)


def _tridiagonal(e: Emitter, operands: list[Operand], outs: Sequence[Any], *, lower: bool) -> list[Operand]:
    (x,) = operands
    name = "hetrd" if is_complex(x.dtype) else "sytrd"
    *found, info = _call(e, name, [x], [*outs, info_of(x)], {"uplo": letter("L" if lower else "U")}, [(0, 0)])
    return all_checked(e, info, found)


def _tridiagonal_solve(e: Emitter, operands: list[Operand], out: ArrayType, *, perturb_singular: bool) -> Operand:
    matrix = len(out.shape)
    if perturb_singular:
        return call(e, "tridiagonal_solve_perturbed_ffi", operands, [out], matrix, {})[0]
    types = [*(o.type for o in operands), info_of(operands[3])]
    *_, found, info = call(e, routine("gtsv", out.dtype), operands, types, matrix, {}, [(i, i) for i in range(4)])
    return inline(e, checked, [found, info])[0]


RULES: dict[Any, Rule] = {
    cholesky_p: _cholesky,
    cholesky_update_p: expanded(cholesky_update_p),
    symmetric_product_p: expanded(symmetric_product_p),
    triangular_solve_p: _triangular_solve,
    lu_p: _lu,
    lu_pivots_to_permutation_p: expanded(lu_pivots_to_permutation_p),
    lu_solve_p: expanded(lu_solve_p),
    geqrf_p: _geqrf,
    geqp3_p: _geqp3,
    householder_product_p: _householder_product,
    ormqr_p: _ormqr,
    qr_p: expanded(qr_p),
    eigh_p: _eigh,
    svd_p: _svd,
    eig_p: _eig,
    schur_p: _schur,
    hessenberg_p: _hessenberg,
    tridiagonal_p: _tridiagonal,
    tridiagonal_solve_p: _tridiagonal_solve,
}
