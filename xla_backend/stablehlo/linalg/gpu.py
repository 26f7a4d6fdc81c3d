"""Linear algebra on GPUs: the routines of cuSOLVER, cuSPARSE and of XLA's plugin; on AMD's the same by hip's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.ir.types import ArrayType, is_complex
from ....core.primitives.elementwise.arithmetic import sub_p
from ....core.primitives.linalg.cholesky import cholesky_p, cholesky_update_p, symmetric_product_p
from ....core.primitives.linalg.eig import eig_p, hessenberg_p, schur_p, tridiagonal_p
from ....core.primitives.linalg.eigh import eigh_p
from ....core.primitives.linalg.lu import lu_p, lu_pivots_to_permutation, lu_pivots_to_permutation_p, lu_solve_p
from ....core.primitives.linalg.matrices import adjoint, part, triangle
from ....core.primitives.linalg.qr import geqp3_p, geqrf_p, householder_product_p, ormqr_p, qr_p
from ....core.primitives.linalg.svd import SvdAlgorithm, svd_by_polar, svd_p
from ....core.primitives.linalg.triangular import triangular_solve_p
from ....core.primitives.linalg.tridiagonal import tridiagonal_solve_p
from ....core.tracing.trace import shape_of
from ....core.transforms.structural_primitives import spread
from ..emit import Emitter, Operand
from .call import Rule, all_checked, call, checked, eigen, expanded, flag, info_of, inline, unsupported
from .plain import triangular_solve

if TYPE_CHECKING:
    from ....core.ir.array import Array

SMALL = 1024  # sizes up to which Jacobi's algorithm is the faster for singular values


def _name(e: Emitter, library: str, routine: str) -> str:
    """A target: `cu` and `cusolver` by the names that they have on AMD's GPUs there."""
    return f"{'hip' if e.platform == 'rocm' else 'cu'}{library}_{routine}"


def _solver(
    e: Emitter,
    name: str,
    operands: Sequence[Operand],
    outs: Sequence[ArrayType],
    config: dict[str, str] | None = None,
    aliases: Sequence[tuple[int, int]] = (),
) -> list[Operand]:
    target = _name(e, "solver", f"{name}_ffi")
    return call(e, target, operands, outs, len(operands[0].shape), config, aliases)


def _cholesky(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    found = _solver(e, "potrf", operands, [out, info_of(operands[0])], {"lower": "true"}, [(0, 0)])
    return inline(e, lambda factor, info: triangle(checked(factor, info), True), found)[0]


def _lu(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    found = _solver(e, "getrf", operands, [*outs[:2], info_of(operands[0])], {}, [(0, 0)])

    def finish(factors: Array, pivots: Array, info: Array) -> Any:
        pivots = sub_p.bind(pivots, spread(np.int32(1), shape_of(pivots)))
        return checked(factors, info, True), pivots, lu_pivots_to_permutation(pivots, outs[2].shape[-1])

    return inline(e, finish, found)


def _permutation(e: Emitter, operands: list[Operand], out: ArrayType, *, permutation_size: int) -> Operand:
    return call(e, _name(e, "", "lu_pivots_to_permutation"), operands, [out], 0, {})[0]


def _geqrf(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    return _solver(e, "geqrf", operands, outs, {}, [(0, 0)])


def _geqp3(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    matrix = len(operands[0].shape)
    target = _name(e, "hybrid", "geqp3")
    return call(e, target, operands, outs, matrix, {"magma": '"auto"'}, [(0, 0), (1, 1)])


def _householder_product(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    return _solver(e, "orgqr", operands, [out], {}, [(0, 0)])[0]


def _ormqr(e: Emitter, operands: list[Operand], out: ArrayType, *, left: bool, transpose: bool) -> Operand:
    return _solver(e, "ormqr", operands, [out], {"left": flag(left), "transpose": flag(transpose)}, [(2, 0)])[0]


def _eigh(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, lower: bool, compute_vectors: bool
) -> list[Operand]:
    (x,) = operands
    config = {"algorithm": "0 : ui8", "lower": flag(lower)}
    vectors, values, info = _solver(e, "syevd", [x], [x.type, outs[-1], info_of(x)], config, [(0, 0)])
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
    m, n = x.shape[-2:]
    if algorithm is SvdAlgorithm.POLAR:
        return inline(e, lambda x: svd_by_polar(x, full_matrices, compute_uv), operands)
    small = algorithm is SvdAlgorithm.DEFAULT and max(m, n) <= SMALL
    if small or algorithm is SvdAlgorithm.JACOBI:
        return _svd_by_jacobi(e, x, outs, compute_uv)
    batch, k = x.shape[:-2], min(m, n)
    transposed = m < n  # the routine takes no more columns than rows; it reads a transposed matrix in place
    left, right = (m, n) if full_matrices or not compute_uv else (k, k)
    vectors = [ArrayType((*batch, m, left), x.dtype), ArrayType((*batch, right, n), x.dtype)]
    types = [x.type, outs[0], *(vectors[::-1] if transposed else vectors), info_of(x)]
    config = {"compute_uv": flag(compute_uv), "full_matrices": flag(full_matrices or not compute_uv),
              "transposed": flag(transposed)}  # fmt: skip
    _, values, u, vt, info = _gesvd(e, x, types, config, transposed)
    if transposed:
        u, vt = vt, u
    wanted = [values, u, vt][: len(outs)]
    return all_checked(e, info, wanted)


def _gesvd(
    e: Emitter, x: Operand, types: Sequence[ArrayType], config: dict[str, str] | None, transposed: bool
) -> list[Operand]:
    # Row by row in memory, an array is its own transpose column by column: that is what `transposed` says.
    matrix = 0 if transposed else len(x.shape)
    return call(e, _name(e, "solver", "gesvd_ffi"), [x], types, matrix, config, [(0, 0)])


def _svd_by_jacobi(e: Emitter, x: Operand, outs: Sequence[Any], compute_uv: bool) -> list[Operand]:
    """The routine gives square V, not its adjoint."""
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    square = [ArrayType((*batch, s, s), x.dtype) for s in (m, n)]
    config = {"compute_uv": flag(compute_uv), "full_matrices": "true"}
    _, values, u, v, info = _solver(e, "gesvdj", [x], [x.type, outs[0], *square, info_of(x)], config, [(0, 0)])
    if not compute_uv:
        return inline(e, checked, [values, info])

    def finish(values: Array, u: Array, v: Array, info: Array) -> Any:
        vectors = part(u, m, outs[1].shape[-1]), part(adjoint(v), outs[2].shape[-2], n)
        return [checked(x, info) for x in (values, *vectors)]

    return inline(e, finish, [values, u, v, info])


def _eig(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool, enable_eigvec_derivs: bool,
) -> list[Operand]:  # fmt: skip
    """By LAPACK on the host, which the plugin calls."""
    (x,), left, right = operands, compute_left_eigenvectors, compute_right_eigenvectors
    config = {"left": flag(left), "magma": '"auto"', "right": flag(right)}
    target = _name(e, "hybrid", "eig_comp" if is_complex(x.dtype) else "eig_real")
    return eigen(e, x, outs, left, right, lambda types: call(e, target, [x], types, len(x.shape), config))


def _tridiagonal(e: Emitter, operands: list[Operand], outs: Sequence[Any], *, lower: bool) -> list[Operand]:
    (x,) = operands
    *found, info = _solver(e, "sytrd", [x], [*outs, info_of(x)], {"lower": flag(lower)}, [(0, 0)])
    return all_checked(e, info, found)


def _tridiagonal_solve(e: Emitter, operands: list[Operand], out: ArrayType, *, perturb_singular: bool) -> Operand:
    if perturb_singular:
        return call(e, _name(e, "", "tridiagonal_solve_perturbed"), operands, [out], len(out.shape), {})[0]
    return call(e, _name(e, "sparse", "gtsv2_ffi"), operands, [out], len(out.shape), {}, [(3, 0)])[0]


RULES: dict[Any, Rule] = {
    cholesky_p: _cholesky,
    cholesky_update_p: expanded(cholesky_update_p),
    symmetric_product_p: expanded(symmetric_product_p),
    triangular_solve_p: triangular_solve,
    lu_p: _lu,
    lu_pivots_to_permutation_p: _permutation,
    lu_solve_p: expanded(lu_solve_p),
    geqrf_p: _geqrf,
    geqp3_p: _geqp3,
    householder_product_p: _householder_product,
    ormqr_p: _ormqr,
    qr_p: expanded(qr_p),
    eigh_p: _eigh,
    svd_p: _svd,
    eig_p: _eig,
    schur_p: unsupported(schur_p, "GPUs"),
    hessenberg_p: unsupported(hessenberg_p, "GPUs"),
    tridiagonal_p: _tridiagonal,
    tridiagonal_solve_p: _tridiagonal_solve,
}
