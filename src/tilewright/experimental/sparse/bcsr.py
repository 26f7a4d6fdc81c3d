"""`BCSR`: the elements of each row after each other, with the place where each row begins; batch and dense axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ... import numpy as jnp
from ...core.ir.array import DTypeLike
from ...core.ir.static_ints import as_shape
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ShapeError, UnsupportedError
from ...core.tracing.trace import Value, dtype_of, shape_of
from .arithmetic import bcoo_dot_general
from .base import Array, JAXSparse, SparseInfo, batch_shape, batched, late_operators, register, wide_indices
from .bcoo import BCOO, bcoo_eliminate_zeros, bcoo_extract, bcoo_fromdense, bcoo_sum_duplicates, bcoo_todense, wrapped
from .layout import bcoo_broadcast_in_dim, bcoo_concatenate

if TYPE_CHECKING:
    from .transform import BCSROperators
else:
    BCSROperators = late_operators("BCSROperators", "__matmul__ __rmatmul__ __getitem__ __iter__")


class BCSRProperties(NamedTuple):
    """How many axes are batch and dense axes, and how many elements are stored."""

    n_batch: int
    n_dense: int
    nse: int


@register
@public
class BCSR(BCSROperators, JAXSparse):
    """A sparse array by rows: two sparse axes, with batch axes before and dense axes after them.

    `data` has shape batch + (nse,) + dense, `indices` (the columns) batch + (nse,), `indptr` (where each row begins)
    batch + (rows + 1,). Elements past the last row are padding.

    Raises:
      ShapeError: the buffers do not fit the shape.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> m.indptr
    Array([0, 1, 2], dtype=int32)
    """

    shape: tuple[int, ...]
    indices: Array
    indptr: Array
    indices_sorted: bool
    unique_indices: bool
    n_sparse = 2

    def __init__(
        self, args: tuple[Array, ...], *, shape: Sequence[int], indices_sorted: bool = False,
        unique_indices: bool = False,
    ):  # fmt: skip
        data, indices, indptr = args
        self.data: Value | Array = data if isinstance(data, Value) else jnp.asarray(data)
        self.indices, self.indptr = wide_indices(indices, "BCSR indices"), wide_indices(indptr, "BCSR indptr")
        self.shape, self.indices_sorted, self.unique_indices = as_shape(shape, "BCSR"), indices_sorted, unique_indices
        b, given = self.n_batch, [shape_of(x) for x in (self.data, self.indices, self.indptr)]
        n_dense = self.ndim - b - 2
        wanted = ((self.nse, *self.shape[self.ndim - n_dense :]), (self.nse,), (self.shape[b] + 1,)) \
            if n_dense >= 0 else ()  # fmt: skip
        if not wanted or any(
            s[b:] != w or {*(n for n, m in zip(s[:b], self.shape, strict=False) if n != m)} - {1}
            for s, w in zip(given, wanted, strict=True)
        ):
            raise ShapeError(
                f"BCSR buffers of shapes {given} for shape {self.shape}",
                "data: batch + (nse,) + dense, indices: batch + (nse,), indptr: batch + (rows + 1,)",
            )

    @property
    def nse(self) -> int:
        return shape_of(self.indices)[-1]

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return len(self.indices.shape) - 1

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return len(shape_of(self.data)) - len(shape_of(self.indices))

    def _described(self) -> str:
        names = ("nse", "n_batch", "n_dense")
        return ", ".join(f"{n}={getattr(self, n)}" for n in names if n == "nse" or getattr(self, n))

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], Any]:
        count = len(self.indices.shape) - 1 if hasattr(self.indices, "shape") else 0
        info = SparseInfo(self.shape, self.indices_sorted, self.unique_indices)
        return (self.data, self.indices, self.indptr), (info, count)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Any]) -> BCSR:
        """The array of buffers, of which `vmap` may have taken batch axes away, or to which it may have given some."""
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        (shape, made.indices_sorted, made.unique_indices), count = aux
        if all(hasattr(x, "shape") for x in children):
            now = len(made.indices.shape) - 1
            if 0 <= now != count:
                shape = (*batch_shape(shape[:count], children, now), *shape[count:])
        made.shape = shape
        return made

    @classmethod
    def fromdense(
        cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """`bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    @public
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The array of a BCOO with two sparse axes."""
        if arr.n_sparse != 2:
            raise UnsupportedError(f"BCSR of {arr} with {arr.n_sparse} sparse axes", "`update_layout` leaves it two")
        rows, cols = arr.parts[1]
        if not arr.indices_sorted:
            places = wrapped(arr.indices, (rows, cols))
            arr = BCOO((arr.data, places), shape=arr.shape, unique_indices=arr.unique_indices).sort_indices()

        def pointers(indices: Array) -> tuple[Array, Array]:
            places = wrapped(indices, (rows, cols))
            counts = jnp.zeros(rows + 1, indices.dtype).at[places[:, 0] + 1].add(1, mode="drop")
            return jnp.cumsum(counts, dtype=indices.dtype), places[:, 1]

        indptr, indices = batched(pointers, arr.n_batch)(arr.indices)
        return cls((arr.data, indices, indptr), shape=arr.shape, indices_sorted=True,
                   unique_indices=arr.unique_indices)  # fmt: skip

    @classmethod
    @public
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """The matrix of SciPy's `mat`, a sparse matrix or array of any format."""
        if n_dense or n_batch:
            raise UnsupportedError("from_scipy_sparse with batch or dense axes", "convert it to BCOO first")
        if mat.ndim != 2:
            raise ArgumentError(f"BCSR of an array of {mat.ndim} axes", "it has two")
        csr, dtype = mat.tocsr(), index_dtype or np.int32
        buffers = (csr.data, csr.indices.astype(dtype), csr.indptr.astype(dtype))
        return cls(tuple(map(jnp.asarray, buffers)), shape=mat.shape)

    @classmethod
    def _empty(
        cls, shape: Sequence[int], *, dtype: DTypeLike = None, index_dtype: DTypeLike = "int32", n_dense: int = 0,
        n_batch: int = 0, nse: int = 0,
    ) -> BCSR:  # fmt: skip
        if len(shape) - n_dense - n_batch != 2:
            raise ArgumentError(f"BCSR of shape {tuple(shape)} with n_batch={n_batch} and n_dense={n_dense}",
                                "two axes are sparse")  # fmt: skip
        made = BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch, nse=nse)
        return cls.from_bcoo(made)

    def to_bcoo(self) -> BCOO:
        """The array by coordinates."""
        rows, cols = self.shape[self.n_batch : self.n_batch + 2]
        nse = self.nse

        def coordinates(indices: Array, indptr: Array) -> Array:
            row = jnp.searchsorted(indptr, jnp.arange(nse, dtype=indptr.dtype), side="right") - 1
            row = jnp.where(jnp.arange(nse) < indptr[-1], row, rows).astype(indices.dtype)
            return jnp.stack([row, indices], -1)

        indices = batched(coordinates, self.n_batch)(self.indices, self.indptr)
        flags = {"indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return BCOO((self.data, indices), shape=self.shape, **flags)

    def todense(self) -> Array:
        """`bcsr_todense`."""
        return bcsr_todense(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The same array with elements of one place added up, zeros left out unless told otherwise."""
        return bcsr_eliminate_zeros(self, nse) if remove_zeros else bcsr_sum_duplicates(self, nse)

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """Not there: the rows of a transpose are these columns. `to_bcoo().transpose()` is."""
        raise UnsupportedError("BCSR has no transpose", "use `to_bcoo().transpose()`, and `BCSR.from_bcoo` of that")


@public
def bcsr_fromdense(
    mat: Array, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: DTypeLike = np.int32
) -> BCSR:
    """The sparse array by rows of a dense one; within `jit` give `nse`.

    >>> from tilewright import numpy as jnp
    >>> bcsr_fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).indices
    Array([1, 0], dtype=int32)
    """
    mat = jnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ArgumentError(f"BCSR of shape {mat.shape} with n_batch={n_batch} and n_dense={n_dense}",
                            "two axes are sparse")  # fmt: skip
    return BCSR.from_bcoo(bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype))


@public
def bcsr_todense(mat: BCSR) -> Array:
    """The dense array that a sparse one means.

    >>> from tilewright import numpy as jnp
    >>> bcsr_todense(bcsr_fromdense(jnp.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return bcoo_todense(mat.to_bcoo())


@public
def bcsr_extract(indices: Array, indptr: Array, mat: Array) -> Array:
    """The values of a dense array at the places of BCSR indices.

    >>> from tilewright import numpy as jnp
    >>> bcsr_extract(jnp.array([1]), jnp.array([0, 1]), jnp.array([[3, 4]]))
    Array([4], dtype=int32)
    """
    mat, indices, indptr = map(jnp.asarray, (mat, indices, indptr))
    n_batch = indices.ndim - 1
    data = jnp.zeros((*indices.shape, *mat.shape[n_batch + 2 :]), dtype_of(mat))
    places = BCSR((data, indices, indptr), shape=mat.shape).to_bcoo()
    return bcoo_extract(places, mat, assume_unique=True).data


@public
def bcsr_dot_general(
    lhs: BCSR | Array, rhs: Array, *, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """`lax.dot_general` of which an operand is a BCSR and the other dense.

    >>> from tilewright import numpy as jnp
    >>> m = bcsr_fromdense(jnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> bcsr_dot_general(m, jnp.ones(2), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([2., 1.], dtype=float32)
    """
    sides: list[Any] = [x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs)]
    if all(isinstance(x, BCOO) for x in sides):
        raise UnsupportedError("product of two BCSR arrays", "convert them with `to_bcoo()`")
    return bcoo_dot_general(*sides, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type)


@public
def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The same array with sorted indices and elements of one place added up; within `jit` give `nse`.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.BCSR.fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.bcsr_sum_duplicates(mat).todense().tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse))


@public
def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """`bcsr_sum_duplicates` that leaves out elements which are 0.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.BCSR.fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.bcsr_eliminate_zeros(mat).nse
    2
    """
    return BCSR.from_bcoo(bcoo_eliminate_zeros(mat.to_bcoo(), nse))


@public
def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """The array repeated along new batch axes; axis i becomes axis `broadcast_dimensions[i]`.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.BCSR.fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.bcsr_broadcast_in_dim(mat, shape=(4, 2, 2), broadcast_dimensions=(1, 2)).shape
    (4, 2, 2)
    """
    found = bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions)
    return BCSR.from_bcoo(found)


@public
def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Sparse arrays of one layout joined along a batch or sparse axis.

    >>> import numpy as np
    >>> from tilewright.experimental import sparse
    >>> mat = sparse.BCSR.fromdense(np.float32([[0, 2], [3, 0]]))
    >>> sparse.bcsr_concatenate([mat, mat], dimension=0).shape
    (4, 2)
    """
    return BCSR.from_bcoo(bcoo_concatenate([mat.to_bcoo() for mat in operands], dimension=dimension))


__all__ = [
    "BCSR", "BCSRProperties", "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_eliminate_zeros",
    "bcsr_extract", "bcsr_fromdense", "bcsr_sum_duplicates", "bcsr_todense",
]  # fmt: skip
