"""`numpy.linalg`: norms, factors, systems and products of matrices in the last two axes."""

from collections.abc import Callable

from ..shape import matrix_transpose
from .decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from .norms import matrix_norm, norm, vector_norm
from .products import cross, diagonal, matmul, matrix_power, multi_dot, outer, tensordot, trace, vecdot
from .solving import (
    SlogdetResult,
    cond,
    det,
    inv,
    lstsq,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond", "cross", "det", "diagonal",
    "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
