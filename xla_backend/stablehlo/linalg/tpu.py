"""Linear algebra on TPUs: what XLA expands, and expansions of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....core.primitives.linalg.cholesky import cholesky_p, cholesky_update_p, symmetric_product_p
from ....core.primitives.linalg.eig import eig_p, hessenberg_p, schur_p, tridiagonal_p
from ....core.primitives.linalg.eigh import eigh_p
from ....core.primitives.linalg.lu import lu_p, lu_pivots_to_permutation_p, lu_solve_p
from ....core.primitives.linalg.matrices import triangle
from ....core.primitives.linalg.qr import geqp3_p, geqrf_p, householder_product_p, ormqr_p, qr_p
from ....core.primitives.linalg.svd import SvdAlgorithm, svd_by_polar, svd_p
from ....core.primitives.linalg.triangular import triangular_solve_p
from ....core.primitives.linalg.tridiagonal import tridiagonal_solve_p
from ....core.support.errors import UnsupportedError
from ..emit import Emitter, Operand
from .call import Rule, expanded, inline, unsupported
from .plain import custom, triangular_solve

if TYPE_CHECKING:
    from ....core.ir.types import ArrayType

SWEEPS, TOLERANCE = 100, "1e-6"  # of Jacobi's algorithm


def _cholesky(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    factor = e.op("stablehlo.cholesky", operands, out, "lower = true")
    return inline(e, lambda x: triangle(x, True), [factor])[0]


def _lu(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    return custom(e, "LuDecomposition", operands, outs)


def _geqrf(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    return custom(e, "Qr", operands, outs)


def _householder_product(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    return custom(e, "ProductOfElementaryHouseholderReflectors", operands, [out])[0]


def _eigh(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, lower: bool, compute_vectors: bool
) -> list[Operand]:
    (x,) = operands
    config = f"{int(lower)},1,{SWEEPS},{TOLERANCE}"
    return custom(e, "Eigh", [x], [x.type, outs[-1]], config)[-len(outs) :]


def _svd(
    e: Emitter,
    operands: list[Operand],
    outs: Sequence[Any],
    *,
    full_matrices: bool,
    compute_uv: bool,
    algorithm: SvdAlgorithm,
) -> list[Operand]:
    if algorithm not in (SvdAlgorithm.DEFAULT, SvdAlgorithm.POLAR):
        raise UnsupportedError(f"svd by {algorithm} has no routine on TPUs", "leave `algorithm` out")
    return inline(e, lambda x: svd_by_polar(x, full_matrices, compute_uv), operands)


def _tridiagonal_solve(e: Emitter, operands: list[Operand], out: ArrayType, *, perturb_singular: bool) -> Operand:
    if perturb_singular:
        raise UnsupportedError("tridiagonal_solve with perturb_singular has no routine on TPUs", "leave it out")
    return expanded(tridiagonal_solve_p)(e, operands, out, perturb_singular=False)


RULES: dict[Any, Rule] = {
    cholesky_p: _cholesky,
    cholesky_update_p: expanded(cholesky_update_p),
    symmetric_product_p: expanded(symmetric_product_p),
    triangular_solve_p: triangular_solve,
    lu_p: _lu,
    lu_pivots_to_permutation_p: expanded(lu_pivots_to_permutation_p),
    lu_solve_p: expanded(lu_solve_p),
    geqrf_p: _geqrf,
    geqp3_p: unsupported(geqp3_p, "TPUs"),
    householder_product_p: _householder_product,
    ormqr_p: expanded(ormqr_p),
    qr_p: expanded(qr_p),
    eigh_p: _eigh,
    svd_p: _svd,
    eig_p: unsupported(eig_p, "TPUs"),
    schur_p: unsupported(schur_p, "TPUs"),
    hessenberg_p: unsupported(hessenberg_p, "TPUs"),
    tridiagonal_p: unsupported(tridiagonal_p, "TPUs"),
    tridiagonal_solve_p: _tridiagonal_solve,
}
