"""Linear algebra: the primitives that libraries such as LAPACK compute, and `lax.linalg`'s functions over them."""

from . import cholesky as _cholesky
from . import eig as _eig
from . import eigh as _eigh
from . import lu as _lu
from . import qr as _qr
from . import svd as _svd
from . import triangular as _triangular
from . import tridiagonal as _tridiagonal

PRIMITIVES = (
    *_cholesky.PRIMITIVES,
    *_triangular.PRIMITIVES,
    *_lu.PRIMITIVES,
    *_qr.PRIMITIVES,
    *_eigh.PRIMITIVES,
    *_svd.PRIMITIVES,
    *_eig.PRIMITIVES,
    *_tridiagonal.PRIMITIVES,
)
