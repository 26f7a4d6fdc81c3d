"""`COO`, `CSR` and `CSC`: plain sparse matrices, made, made dense, and multiplied; `BCOO` does more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import numpy as jnp
from ...core.ir.array import DTypeLike
from ...core.ir.static_ints import as_shape
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ShapeError, UnsupportedError
from ...core.tracing.trace import Value, shape_of
from .arithmetic import bcoo_dot_general
from .base import Array, JAXSparse, check_integers, register
from .bcoo import BCOO, bcoo_fromdense
from .bcsr import BCSR


class _Matrix(JAXSparse):
    """Two axes and three buffers; everything is done by BCOO's functions."""

    _names: tuple[str, str, str]
    _flags: tuple[str, ...] = ()
    _along: int | None = None  # the axis for which the third buffer tells where each row or column begins

    def __init__(self, args: tuple[Array, Array, Array], *, shape: Sequence[int], **flags: bool):
        for name, x in zip(self._names, args, strict=True):
            setattr(self, name, x if isinstance(x, Value) else jnp.asarray(x))
        self.shape = as_shape(shape, type(self).__name__)
        given = [shape_of(getattr(self, n)) for n in self._names]
        places = (self.nse,) if self._along is None else (self.shape[self._along] + 1,)
        if len(self.shape) != 2 or given != [(self.nse,), (self.nse,), places]:
            raise ShapeError(f"{type(self).__name__} of shape {self.shape} with buffers of {given}",
                             "two axes; a place for each element, and where each row or column begins")  # fmt: skip
        for name in self._names[1:]:
            check_integers(getattr(self, name), f"{type(self).__name__} {name}")
        unknown = flags.keys() - {*self._flags}
        if unknown:
            raise ArgumentError(f"{type(self).__name__} takes no {sorted(unknown)}", f"it takes {list(self._flags)}")
        for name in self._flags:
            setattr(self, f"_{name}", flags.get(name, False))

    @property
    def nse(self) -> int:
        return shape_of(self.data)[0]

    def tree_flatten(self) -> tuple[tuple[Array, ...], Any]:
        flags = tuple((name, getattr(self, f"_{name}")) for name in self._flags)
        return tuple(getattr(self, name) for name in self._names), (self.shape, flags)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Any]) -> Any:
        """The matrix of its buffers."""
        made = object.__new__(cls)
        made.shape, flags = aux
        for name, x in (*zip(cls._names, children, strict=True), *((f"_{name}", x) for name, x in flags)):
            setattr(made, name, x)
        return made

    def to_bcoo(self) -> BCOO:
        """The matrix as BCOO."""
        raise NotImplementedError

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> Any:
        """The matrix of a BCOO."""
        raise NotImplementedError

    @classmethod
    def fromdense(cls, mat: Array, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> Any:
        """The sparse matrix of a dense one; within `jit` give `nse`."""
        return cls.from_bcoo(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype))

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike = None, index_dtype: DTypeLike = "int32") -> Any:
        if len(shape) != 2:
            raise ArgumentError(f"{cls.__name__} of shape {tuple(shape)}", "it has two axes")
        return cls.from_bcoo(BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype))

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: DTypeLike = None, index_dtype: DTypeLike = "int32") -> Any:
        return cls.from_bcoo(BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype))

    def todense(self) -> Array:
        """The dense matrix."""
        return self.to_bcoo().todense()

    def __matmul__(self, other: Any) -> Array:
        if isinstance(other, JAXSparse):
            raise UnsupportedError(f"product of {type(self).__name__} and {type(other).__name__}",
                                   "convert both to BCOO")  # fmt: skip
        other = jnp.asarray(other)
        if other.ndim not in (1, 2):
            raise UnsupportedError(f"product of {self} with an array of shape {other.shape}", "a vector or a matrix")
        return _product(self, other, False)

    def _no_axes(self, axes: Any) -> None:
        if axes is not None:
            raise UnsupportedError(f"transpose of {type(self).__name__} by {axes}", "leave the axes out")


def _product(mat: _Matrix, other: Array, transpose: bool) -> Any:
    wanted = mat.shape[0 if transpose else 1]
    if other.shape[0] != wanted:
        raise ShapeError(f"product of {mat.shape}{' transposed' if transpose else ''} with {other.shape}",
                         f"the operand has {wanted} rows")  # fmt: skip
    return bcoo_dot_general(mat.to_bcoo(), other, dimension_numbers=(((0 if transpose else 1,), (0,)), ((), ())))


@register
@public
class COO(_Matrix):
    """A sparse matrix by rows and columns of its elements: `COO((data, row, col), shape=...)`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> sparse.COO.fromdense(jnp.eye(2)) @ jnp.ones(2)
    Array([1., 1.], dtype=float32)
    """

    row: Array
    col: Array
    _names, _flags = ("data", "row", "col"), ("rows_sorted", "cols_sorted")
    _rows_sorted: bool
    _cols_sorted: bool

    def to_bcoo(self) -> BCOO:
        """The matrix as BCOO."""
        return BCOO((self.data, jnp.stack([self.row, self.col], -1)), shape=self.shape)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> COO:
        """The matrix of a BCOO."""
        return cls((mat.data, mat.indices[:, 0], mat.indices[:, 1]), shape=mat.shape, rows_sorted=mat.indices_sorted)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The transpose: rows and columns change places."""
        self._no_axes(axes)
        return COO((self.data, self.col, self.row), shape=self.shape[::-1], rows_sorted=self._cols_sorted,
                   cols_sorted=self._rows_sorted)  # fmt: skip


@register
@public
class CSR(_Matrix):
    """A sparse matrix row by row: `CSR((data, indices, indptr), shape=...)`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> sparse.CSR.fromdense(jnp.eye(2)).indptr
    Array([0, 1, 2], dtype=int32)
    """

    indices: Array
    indptr: Array
    _names, _along = ("data", "indices", "indptr"), 0

    def to_bcoo(self) -> BCOO:
        """The matrix as BCOO."""
        return BCSR((self.data, self.indices, self.indptr), shape=self.shape).to_bcoo()

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> CSR:
        """The matrix of a BCOO."""
        rows = BCSR.from_bcoo(mat)
        return cls((rows.data, rows.indices, rows.indptr), shape=mat.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """The transpose: the same buffers, read column by column."""
        self._no_axes(axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@register
@public
class CSC(_Matrix):
    """A sparse matrix column by column: `CSC((data, indices, indptr), shape=...)`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> sparse.CSC.fromdense(jnp.array([[1.0, 2.0]])).indptr
    Array([0, 1, 2], dtype=int32)
    """

    indices: Array
    indptr: Array
    _names, _along = ("data", "indices", "indptr"), 1

    def to_bcoo(self) -> BCOO:
        """The matrix as BCOO."""
        return self.transpose().to_bcoo().transpose()

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> CSC:
        """The matrix of a BCOO."""
        return CSR.from_bcoo(mat.transpose()).transpose()

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """The transpose: the same buffers, read row by row."""
        self._no_axes(axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


# ------------------------------------------------------------------------------------------- functions


@public
def coo_fromdense(mat: Array, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> COO:
    """The COO matrix of a dense one; within `jit` give `nse`.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> sparse.coo_fromdense(np.float32([[0, 2], [3, 0]]))
    COO(float32[2, 2], nse=2)
    """
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)


@public
def coo_todense(mat: COO) -> Array:
    """The dense matrix of a COO matrix.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> sparse.coo_todense(sparse.coo_fromdense(np.float32([[0, 2], [3, 0]]))).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    return mat.todense()


@public
def coo_matvec(mat: COO, v: Array, transpose: bool = False) -> Array:
    """The product of a COO matrix, or its transpose, with a vector.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.coo_fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.coo_matvec(mat, np.float32([1, 10])).tolist()
    [20.0, 3.0]
    """
    return _product(mat, jnp.asarray(v), transpose)


@public
def coo_matmat(mat: COO, B: Array, *, transpose: bool = False) -> Array:
    """The product of a COO matrix, or its transpose, with a dense matrix.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.coo_fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.coo_matmat(mat, np.float32([[1], [10]]), transpose=True).tolist()
    [[30.0], [2.0]]
    """
    return _product(mat, jnp.asarray(B), transpose)


@public
def csr_fromdense(mat: Array, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> CSR:
    """The CSR matrix of a dense one; within `jit` give `nse`.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> sparse.csr_fromdense(np.float32([[0, 2], [3, 0]]))
    CSR(float32[2, 2], nse=2)
    """
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)


@public
def csr_todense(mat: CSR) -> Array:
    """The dense matrix of a CSR matrix.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> sparse.csr_todense(sparse.csr_fromdense(np.float32([[0, 2], [3, 0]]))).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    return mat.todense()


@public
def csr_matvec(mat: CSR, v: Array, transpose: bool = False) -> Array:
    """The product of a CSR matrix, or its transpose, with a vector.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.csr_fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.csr_matvec(mat, np.float32([1, 10])).tolist()
    [20.0, 3.0]
    """
    return _product(mat, jnp.asarray(v), transpose)


@public
def csr_matmat(mat: CSR, B: Array, *, transpose: bool = False) -> Array:
    """The product of a CSR matrix, or its transpose, with a dense matrix.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.csr_fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.csr_matmat(mat, np.float32([[1], [10]]), transpose=True).tolist()
    [[30.0], [2.0]]
    """
    return _product(mat, jnp.asarray(B), transpose)


__all__ = [
    "COO", "CSC", "CSR", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat",
    "csr_matvec", "csr_todense",
]  # fmt: skip
