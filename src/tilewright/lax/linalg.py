"""`jax.lax.linalg`'s names: factorisations of matrices in the last two axes, and their primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.jit.inline_jit import inline_jit
from ..core.primitives.linalg import cholesky as _cholesky
from ..core.primitives.linalg import eig as _eig
from ..core.primitives.linalg import eigh as _eigh
from ..core.primitives.linalg import lu as _lu
from ..core.primitives.linalg import qdwh as _qdwh
from ..core.primitives.linalg import qr as _qr
from ..core.primitives.linalg import svd as _svd
from ..core.primitives.linalg import triangular as _triangular
from ..core.primitives.linalg import tridiagonal as _tridiagonal
from ..core.primitives.linalg.cholesky import cholesky_p, cholesky_update_p, symmetric_product_p
from ..core.primitives.linalg.eig import EigImplementation, eig_p, hessenberg_p, schur_p, tridiagonal_p
from ..core.primitives.linalg.eigh import EighImplementation, eigh_p
from ..core.primitives.linalg.lu import lu_p, lu_pivots_to_permutation_p
from ..core.primitives.linalg.qr import householder_product_p, ormqr_p, qr_p
from ..core.primitives.linalg.svd import SvdAlgorithm, svd_p
from ..core.primitives.linalg.triangular import triangular_solve_p
from ..core.primitives.linalg.tridiagonal import tridiagonal_solve_p

if TYPE_CHECKING:  # checkers and editors see the functions themselves, with their parameters and docstrings
    from ..core.primitives.linalg.cholesky import cholesky, cholesky_update, symmetric_product
    from ..core.primitives.linalg.eig import eig, hessenberg, schur, tridiagonal
    from ..core.primitives.linalg.eigh import eigh
    from ..core.primitives.linalg.lu import lu, lu_pivots_to_permutation
    from ..core.primitives.linalg.qdwh import qdwh
    from ..core.primitives.linalg.qr import householder_product, ormqr, qr
    from ..core.primitives.linalg.svd import svd
    from ..core.primitives.linalg.triangular import triangular_solve
    from ..core.primitives.linalg.tridiagonal import tridiagonal_solve
else:  # called eagerly, each is one program
    cholesky = inline_jit("symmetrize_input")(_cholesky.cholesky)
    cholesky_update = inline_jit()(_cholesky.cholesky_update)
    symmetric_product = inline_jit("alpha", "beta", "symmetrize_output")(_cholesky.symmetric_product)
    triangular_solve = inline_jit("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")(
        _triangular.triangular_solve
    )
    lu = inline_jit()(_lu.lu)
    lu_pivots_to_permutation = inline_jit("permutation_size")(_lu.lu_pivots_to_permutation)
    householder_product = inline_jit()(_qr.householder_product)
    ormqr = inline_jit("left", "transpose")(_qr.ormqr)
    qr = inline_jit("pivoting", "full_matrices", "use_magma")(_qr.qr)
    eigh = inline_jit("lower", "symmetrize_input", "sort_eigenvalues", "subset_by_index", "implementation")(_eigh.eigh)
    svd = inline_jit("full_matrices", "compute_uv", "subset_by_index", "algorithm")(_svd.svd)
    eig = inline_jit(
        "compute_left_eigenvectors", "compute_right_eigenvectors", "enable_eigvec_derivs", "implementation", "use_magma"
    )(_eig.eig)
    schur = inline_jit("compute_schur_vectors", "sort_eig_vals", "select_callable")(_eig.schur)
    hessenberg = inline_jit()(_eig.hessenberg)
    tridiagonal = inline_jit("lower")(_eig.tridiagonal)
    tridiagonal_solve = inline_jit("perturb_singular")(_tridiagonal.tridiagonal_solve)
    qdwh = inline_jit("is_hermitian", "max_iterations", "eps", "dynamic_shape")(_qdwh.qdwh)

__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_p", "cholesky_update",
    "cholesky_update_p", "eig", "eig_p", "eigh", "eigh_p", "hessenberg", "hessenberg_p", "householder_product",
    "householder_product_p", "lu", "lu_p", "lu_pivots_to_permutation", "lu_pivots_to_permutation_p", "ormqr", "ormqr_p",
    "qdwh", "qr", "qr_p", "schur", "schur_p", "svd", "svd_p", "symmetric_product", "symmetric_product_p",
    "triangular_solve", "triangular_solve_p", "tridiagonal", "tridiagonal_p", "tridiagonal_solve",
    "tridiagonal_solve_p",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
