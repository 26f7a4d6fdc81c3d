"""Cases of linear algebra: batches, complex numbers, matrices that are not square, and none at all.

Vectors of complex matrices turn freely, so that their derivatives are in tests/frontend/numpy/test_linalg.py.
"""

import numpy as np

from tilewright.core.primitives.linalg.cholesky import cholesky_p, cholesky_update_p, symmetric_product_p
from tilewright.core.primitives.linalg.eig import eig_p, hessenberg_p, schur_p, tridiagonal_p
from tilewright.core.primitives.linalg.eigh import eigh_p
from tilewright.core.primitives.linalg.lu import lu_p, lu_pivots_to_permutation_p, lu_solve_p
from tilewright.core.primitives.linalg.qr import geqp3_p, geqrf_p, householder_product_p, ormqr_p, qr_p
from tilewright.core.primitives.linalg.svd import SvdAlgorithm, svd_p
from tilewright.core.primitives.linalg.triangular import triangular_solve_p
from tilewright.core.primitives.linalg.tridiagonal import tridiagonal_solve_p
from tilewright.core.tracing.numpy_interpreter import apply

from . import Case
from .shape import t

SOLVE = {"left_side": True, "lower": True, "transpose_a": False, "conjugate_a": False, "unit_diagonal": False}
C64 = "complex64"


def normal(*shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype == C64 else x).astype(dtype)


def positive(*shape, dtype="float32"):
    x = normal(*shape, dtype=dtype)
    return (x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


def solvable(*shape, dtype="float32"):
    return (normal(*shape, dtype=dtype) + 3 * np.eye(shape[-1])).astype(dtype)


def given(primitive, *operands, grad=None, note="", **params):
    types = tuple(t(*x.shape, dtype=str(x.dtype)) for x in operands)
    grad = grad if isinstance(grad, tuple) or grad is None else (grad,) * len(operands)
    return Case(primitive, types, params, operands=operands, grad=grad, note=note, tolerance=1e-4)


def triangular(a, b, note="", **changes):
    return given(triangular_solve_p, a, b, note=note, **{**SOLVE, **changes})


def factored(a, b, trans, grad=True):
    factors, _, permutation = apply(lu_p, [a], {})
    return given(lu_solve_p, a, factors, permutation, b, grad=(grad, False, False, grad), trans=trans, note=f"{trans}")


def reflectors(*shape, dtype="float32"):
    x = normal(*shape, dtype=dtype)
    return apply(geqrf_p, [x], {})


def eigen(x, left=True, right=True, derivs=True, grad=None, note=""):
    return given(eig_p, x, grad=grad, note=f"{left}{right}{note}", compute_left_eigenvectors=left,
                 compute_right_eigenvectors=right, enable_eigvec_derivs=derivs)  # fmt: skip


def singular(x, full=False, uv=True, algorithm=SvdAlgorithm.DEFAULT, grad=None):
    return given(svd_p, x, grad=grad, note=f"{full}{uv}{algorithm.name}", full_matrices=full, compute_uv=uv,
                 algorithm=algorithm)  # fmt: skip


SPREAD = np.diag(np.arange(1.0, 5.0)).astype(np.float32)  # distinct eigenvalues, real ones
TALL, WIDE = normal(2, 4, 3), normal(3, 5)
BAND = [normal(2, 5), normal(2, 5) + 4, normal(2, 5), normal(2, 5, 3)]

CASES = [
    given(cholesky_p, positive(4, 4)),
    given(cholesky_p, positive(2, 3, 3)),
    given(cholesky_p, positive(3, 3, dtype=C64)),
    given(cholesky_p, normal(2, 0, 0)),
    given(cholesky_update_p, np.linalg.cholesky(positive(4, 4)).T.copy(), normal(4)),
    given(cholesky_update_p, np.linalg.cholesky(positive(2, 3, 3, dtype=C64)).conj().swapaxes(1, 2).copy(),
          normal(2, 3, dtype=C64)),
    given(symmetric_product_p, normal(2, 3, 4), positive(2, 3, 3), alpha=2.0, beta=-0.5),
    given(symmetric_product_p, normal(3, 0), positive(3, 3), alpha=1.0, beta=1.0),
    triangular(solvable(4, 4), normal(4, 2)),
    triangular(solvable(2, 3, 3), normal(2, 3, 2), lower=False, transpose_a=True, note="upper-transposed"),
    triangular(solvable(3, 3), normal(2, 3), left_side=False, unit_diagonal=True, note="right-unit"),
    triangular(solvable(3, 3, dtype=C64), normal(3, 2, dtype=C64), transpose_a=True, conjugate_a=True, note="adjoint"),
    triangular(solvable(3, 3, dtype=C64), normal(2, 3, dtype=C64), left_side=False, conjugate_a=True, note="conjugate"),
    triangular(normal(0, 0), normal(0, 2)),
    given(lu_p, normal(4, 4)),
    given(lu_p, TALL),
    given(lu_p, WIDE),
    given(lu_p, normal(3, 3, dtype=C64)),
    given(lu_p, normal(2, 0, 3)),
    given(lu_pivots_to_permutation_p, np.array([[2, 1, 3], [0, 3, 3]], np.int32), permutation_size=5),
    given(lu_pivots_to_permutation_p, np.zeros((0,), np.int32), permutation_size=2),
    *[factored(solvable(3, 3), normal(3, 2), trans) for trans in (0, 1, 2)],
    *[factored(solvable(2, 3, 3, dtype=C64), normal(2, 3, 2, dtype=C64), trans) for trans in (0, 1, 2)],
    given(geqrf_p, TALL),
    given(geqrf_p, normal(2, 3, dtype=C64)),
    given(geqp3_p, TALL, np.zeros((2, 3), np.int32)),
    given(householder_product_p, *reflectors(4, 3)),
    given(householder_product_p, *reflectors(3, 2, dtype=C64)),
    given(householder_product_p, normal(3, 3), normal(0)),
    *[given(ormqr_p, *reflectors(4, 3), normal(4, 4), grad=(False, False, True), left=left, transpose=transpose,
            note=f"{left}{transpose}")
      for left in (False, True) for transpose in (False, True)],
    given(ormqr_p, *reflectors(3, 2, dtype=C64), normal(3, 2, dtype=C64), grad=(False, False, True), left=True,
          transpose=True),
    given(qr_p, normal(4, 4), pivoting=False, full_matrices=True),
    given(qr_p, TALL, pivoting=False, full_matrices=False),
    given(qr_p, TALL, pivoting=False, full_matrices=True, grad=False, note="full"),
    given(qr_p, WIDE, pivoting=False, full_matrices=False),
    given(qr_p, WIDE, pivoting=True, full_matrices=False),
    given(qr_p, normal(3, 3, dtype=C64), pivoting=False, full_matrices=False),
    given(qr_p, normal(2, 3, 0), pivoting=False, full_matrices=True, grad=False),
    given(eigh_p, positive(4, 4), lower=True, compute_vectors=True),
    given(eigh_p, positive(2, 3, 3), lower=False, compute_vectors=True, note="upper"),
    given(eigh_p, positive(3, 3), lower=True, compute_vectors=False, note="values"),
    given(eigh_p, positive(3, 3, dtype=C64), lower=True, compute_vectors=False, note="values"),
    given(eigh_p, normal(0, 0), lower=True, compute_vectors=True, grad=False),
    singular(TALL),
    singular(WIDE),
    singular(normal(3, 3), full=True),
    singular(TALL, full=True, grad=False),
    singular(TALL, uv=False),
    singular(normal(3, 4, dtype=C64), uv=False),
    singular(TALL, algorithm=SvdAlgorithm.QR),
    singular(normal(2, 3, 0), full=True, grad=False),
    eigen(SPREAD + 0.1 * normal(4, 4), derivs=True),
    eigen((SPREAD + 0.1 * normal(4, 4)).astype(np.complex64), left=False),
    eigen(normal(2, 3, 3), left=False, right=False, derivs=False),
    eigen(normal(3, 3, dtype=C64), note="distinct"),
    eigen(normal(2, 0, 0), grad=False),
    given(schur_p, normal(4, 4), compute_schur_vectors=True),
    given(schur_p, normal(2, 3, 3, dtype=C64), compute_schur_vectors=False),
    given(schur_p, normal(0, 0), compute_schur_vectors=True),
    given(hessenberg_p, normal(4, 4)),
    given(hessenberg_p, normal(2, 3, 3, dtype=C64)),
    given(hessenberg_p, normal(1, 1)),
    given(tridiagonal_p, positive(4, 4), lower=True),
    given(tridiagonal_p, positive(2, 3, 3, dtype=C64), lower=True),
    given(tridiagonal_solve_p, *BAND, perturb_singular=False),
    given(tridiagonal_solve_p, *(x.astype(np.complex64) for x in BAND), perturb_singular=False),
]  # fmt: skip
