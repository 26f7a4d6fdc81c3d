"""`jax.scipy.linalg`'s names: factors, systems, functions and special forms of matrices."""

from collections.abc import Callable

from ...core.ir.array import Array
from ...numpy.linalg.solving import det as _det
from ...numpy.linalg.solving import inv as _inv
from ...numpy.util import ArrayLike
from .decompositions import (
    cho_factor,
    cholesky,
    eigh,
    eigh_tridiagonal,
    hessenberg,
    lu,
    lu_factor,
    polar,
    qr,
    qr_multiply,
    rsf2csf,
    schur,
    svd,
)
from .functions import expm, expm_frechet, funm, sqrtm
from .matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)
from .solving import cho_solve, lu_solve, solve, solve_sylvester, solve_triangular


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of square matrices.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    return _det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of square matrices.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.inv(jnp.array([[2., 0.], [0., 4.]]))[0]
    Array([0.5, 0. ], dtype=float32)
    """
    return _inv(a)


__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "det", "dft",
    "eigh", "eigh_tridiagonal", "expm", "expm_frechet", "fiedler", "fiedler_companion", "funm", "hadamard", "hankel",
    "helmert", "hessenberg", "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve",
    "pascal", "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester", "solve_triangular",
    "sqrtm", "svd", "toeplitz",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
