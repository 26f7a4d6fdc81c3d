"""`BCOO`: elements and their coordinates, for each place of leading batch axes; made, read, sorted, added up.

    data      batch axes + (nse,) + dense axes         what is stored
    indices   batch axes + (nse, n_sparse)             where; elements at one place add up, those outside are padding
    shape     batch axes + sparse axes + dense axes    batch axes of the buffers may be of size 1 and are then repeated
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ... import lax
from ... import numpy as jnp
from ...core.ir.array import DTypeLike
from ...core.ir.static_ints import as_shape
from ...core.ir.types import is_bool
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError, ConcretizationError, ShapeError, UnsupportedError
from ...core.tracing.trace import Value, dtype_of, shape_of
from .base import (
    Array,
    JAXSparse,
    Shape,
    SparseInfo,
    batch_shape,
    batched,
    check_fits,
    late_operators,
    permutation,
    register,
    wide_indices,
)

if TYPE_CHECKING:
    from .transform import BCOOOperators
else:
    BCOOOperators = late_operators(
        "BCOOOperators",
        "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __matmul__ __rmatmul__ __pow__ "
        "__rpow__ __gt__ __ge__ __lt__ __le__ __eq__ __ne__ __abs__ __neg__ __pos__ __getitem__ __iter__ sum reshape "
        "astype update_layout",
    )


class BCOOProperties(NamedTuple):
    """How the axes of an array are kept, and how many elements are stored."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def layout_of(data: Array, indices: Array, shape: Sequence[int]) -> BCOOProperties:
    """The layout that buffers have for a shape; raises where they do not fit it."""
    held, given = shape_of(indices), shape_of(data)
    if len(held) < 2:
        raise ShapeError(f"BCOO indices of shape {held}", "they have axes of elements and of coordinates")
    n_batch, (nse, n_sparse) = len(held) - 2, held[-2:]
    n_dense = len(shape) - n_batch - n_sparse
    fits = n_dense >= 0 and len(given) == n_batch + 1 + n_dense
    fits = fits and given[n_batch:] == (nse, *shape[n_batch + n_sparse :])
    sizes = zip(given[:n_batch], held[:n_batch], shape, strict=False)
    if not fits or any({a, b} - {1, s} for a, b, s in sizes):
        raise ShapeError(f"BCOO data of shape {given} and indices of shape {held} for shape {tuple(shape)}",
                         "data: batch + (nse,) + dense axes; indices: batch + (nse, n_sparse)")  # fmt: skip
    return BCOOProperties(n_batch, n_sparse, n_dense, nse)


@register
@public
class BCOO(BCOOOperators, JAXSparse):
    """A sparse array by coordinates, with batch axes before the sparse axes and dense axes after them.

    `data` has shape batch + (nse,) + dense, `indices` batch + (nse, n_sparse), of integers; narrow and unsigned ones
    become int32. Elements at one place add up; those with an index past the end are padding. Arithmetic gives sparse
    arrays where the result has zeros where the operand has them; indexing, sums, transposes and products with dense
    arrays are as those of dense arrays.

    Raises:
      ShapeError: the buffers do not fit the shape.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> m
    BCOO(float32[2, 3], nse=3)
    >>> m @ jnp.ones(3)
    Array([2., 5.], dtype=float32)
    """

    indices: Array
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self, args: tuple[Array, ...], *, shape: Sequence[int], indices_sorted: bool = False,
        unique_indices: bool = False,
    ):  # fmt: skip
        data, indices = args
        self.data: Value | Array = data if isinstance(data, Value) else jnp.asarray(data)
        self.indices = wide_indices(indices, "BCOO indices")
        self.shape: Shape = as_shape(shape, "BCOO")
        layout = layout_of(self.data, self.indices, self.shape)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices and (layout.n_sparse > 0 or layout.nse < 2)

    @property
    def nse(self) -> int:
        return shape_of(self.indices)[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return len(self.indices.shape) - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes."""
        return shape_of(self.indices)[-1]

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return len(shape_of(self.data)) - 1 - self.n_batch

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    @property
    def _flags(self) -> dict[str, bool]:
        return {"indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}

    @property
    def parts(self) -> tuple[Shape, Shape, Shape]:
        """The sizes of batch, sparse and dense axes."""
        b, s = self.n_batch, self.n_batch + self.n_sparse
        return self.shape[:b], self.shape[b:s], self.shape[s:]

    def _described(self) -> str:
        names = ("nse", "n_batch", "n_dense")
        return ", ".join(f"{n}={getattr(self, n)}" for n in names if n == "nse" or getattr(self, n))

    def tree_flatten(self) -> tuple[tuple[Array, Array], Any]:
        indices = self.indices
        count = len(shape_of(indices)) - 2 if hasattr(indices, "shape") else 0
        return (self.data, indices), (self._info, count)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Any]) -> BCOO:
        """The array of buffers, of which `vmap` may have taken batch axes away, or to which it may have given some."""
        made = object.__new__(cls)
        made.data, made.indices = children
        (shape, made.indices_sorted, made.unique_indices), count = aux
        if hasattr(made.data, "shape") and hasattr(made.indices, "shape"):
            now = len(made.indices.shape) - 2
            if 0 <= now != count:
                shape = (*batch_shape(shape[:count], children, now), *shape[count:])
        made.shape = shape
        return made

    # ------------------------------------------------------------ making

    @classmethod
    def fromdense(
        cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """`bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    @public
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """The matrix of SciPy's `mat`, a sparse matrix or array of any format."""
        if n_dense or n_batch:
            raise UnsupportedError("from_scipy_sparse with batch or dense axes", "use `update_layout` afterwards")
        coo = mat.tocoo()
        indices = np.stack((coo.row, coo.col), 1).astype(index_dtype or np.int32)
        return cls((jnp.asarray(coo.data), jnp.asarray(indices)), shape=mat.shape)

    @classmethod
    def _empty(
        cls, shape: Sequence[int], *, dtype: DTypeLike = None, index_dtype: DTypeLike = "int32", n_dense: int = 0,
        n_batch: int = 0, nse: int = 0,
    ) -> BCOO:  # fmt: skip
        shape = as_shape(shape, "a sparse array")
        n_sparse = len(shape) - n_dense - n_batch
        if min(n_sparse, n_dense, n_batch, nse) < 0:
            raise ArgumentError(f"empty of shape {shape} with n_batch={n_batch}, n_dense={n_dense}, nse={nse}",
                                "none is negative, and they leave 0 or more sparse axes")  # fmt: skip
        batch, sparse, dense = shape[:n_batch], shape[n_batch : n_batch + n_sparse], shape[n_batch + n_sparse :]
        indices = jnp.broadcast_to(jnp.asarray(np.array(sparse, index_dtype)), (*batch, nse, n_sparse))
        data = jnp.zeros((*batch, nse, *dense), dtype)
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: DTypeLike = None, index_dtype: DTypeLike = "int32", n_batch: int = 0,
        n_dense: int = 0,
    ) -> BCOO:  # fmt: skip
        if min(n_batch, n_dense, 2 - n_batch - n_dense) < 0:
            raise ArgumentError(f"eye with n_batch={n_batch}, n_dense={n_dense}", "it has two axes")
        count = max(min(N, M - k) if k > 0 else min(N + k, M), 0)
        if not count:
            return cls._empty((N, M), dtype=dtype, index_dtype=index_dtype, n_batch=n_batch, n_dense=n_dense)
        if n_batch or n_dense:
            mat = jnp.eye(N, M, k, dtype=dtype)
            return cls.fromdense(mat, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
        places = np.arange(count)[:, None] + np.array([max(-k, 0), max(k, 0)])
        data, indices = jnp.ones(count, dtype), jnp.asarray(places.astype(index_dtype))
        return cls((data, indices), shape=(N, M), indices_sorted=True, unique_indices=True)

    # ------------------------------------------------------------ as another

    def todense(self) -> Array:
        """`bcoo_todense`."""
        return bcoo_todense(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same array with sorted indices, elements of one place added up, zeros left out unless told otherwise.

        Within `jit` give `nse`, the number of elements to store: more are padded, further ones left out. Zeros cannot
        be left out of what is differentiated.
        """
        return bcoo_eliminate_zeros(self, nse) if remove_zeros else bcoo_sum_duplicates(self, nse)

    def sort_indices(self) -> BCOO:
        """`bcoo_sort_indices`."""
        return bcoo_sort_indices(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """`bcoo_transpose`, by default with the axes reversed."""
        return bcoo_transpose(self, permutation=range(self.ndim)[::-1] if axes is None else axes)


def columns(indices: Array) -> tuple[Array, ...]:
    """The coordinates of elements, one vector for each axis."""
    return tuple(indices[..., i] for i in range(shape_of(indices)[-1]))


def past_end(indices: Array, sizes: Sequence[int]) -> np.ndarray:
    """The place past the end of every axis, of as many axes as `indices`, of shape (..., n)."""
    check_fits(sizes, dtype_of(indices))
    return np.array(sizes, dtype_of(indices)).reshape((1,) * (len(shape_of(indices)) - 1) + (len(sizes),))


def valid(indices: Array, sizes: Shape) -> Array:
    """Which elements are inside, for indices of shape (..., n)."""
    if not sizes:
        return jnp.ones(shape_of(indices)[:-1], bool)
    limits = past_end(indices, sizes)
    return jnp.all((indices < limits) & (indices >= -limits), -1)


def wrapped(indices: Array, sizes: Shape) -> Array:
    """Indices counted from the front; those outside are all of them past the end."""
    limits = past_end(indices, sizes)
    return jnp.where(valid(indices, sizes)[..., None], jnp.where(indices < 0, indices + limits, indices), limits)


# ------------------------------------------------------------------------------------------- dense and sparse


@public
def bcoo_todense(mat: BCOO) -> Array:
    """The dense array that a sparse one means.

    >>> from tilewright.experimental import sparse
    >>> bcoo_todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    inner = mat.shape[mat.n_batch :]

    def dense(data: Array, indices: Array) -> Array:
        if not shape_of(indices)[-1]:
            return jnp.sum(data, 0, dtype_of(data))
        if 0 in inner:
            return jnp.zeros(inner, dtype_of(data))
        return jnp.zeros(inner, dtype_of(data)).at[columns(indices)].add(data, mode="drop")

    return jnp.broadcast_to(batched(dense, mat.n_batch)(mat.data, mat.indices), mat.shape)


def count_stored(mat: Array, n_batch: int, n_dense: int) -> Array:
    """How many elements each place of the batch axes needs."""
    return jnp.sum(_nonzero_rows(mat, n_dense), tuple(range(n_batch, mat.ndim - n_dense)))


def _nonzero_rows(mat: Array, n_dense: int) -> Array:
    return jnp.any(mat != 0, tuple(range(mat.ndim - n_dense, mat.ndim)))


def concrete_nse(nse: Any, what: str) -> int:
    """A number of stored elements as a Python integer; it cannot be traced."""
    try:
        return operator.index(nse)
    except (ConcretizationError, TypeError):
        raise ConcretizationError(f"{what} of an unknown number of elements", "give `nse`, a Python integer") from None


@public
def bcoo_fromdense(
    mat: Array, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: DTypeLike = np.int32
) -> BCOO:
    """The sparse array of a dense one; `nse` elements are stored at each place of the batch axes, booleans as int32.

    Raises:
      ConcretizationError: within `jit`, where `nse` is not given.

    >>> from tilewright import numpy as jnp
    >>> bcoo_fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).indices
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ArgumentError(f"n_batch={n_batch}, n_dense={n_dense} for an array of shape {mat.shape}",
                            "they leave 0 or more sparse axes")  # fmt: skip
    found = jnp.max(count_stored(mat, n_batch, n_dense), initial=0) if nse is None else nse
    count = concrete_nse(found, "bcoo_fromdense")
    sizes = mat.shape[n_batch : n_batch + n_sparse]
    dtype = np.dtype(np.int32) if is_bool(mat.dtype) else mat.dtype

    def sparse(mat: Array) -> tuple[Array, Array]:
        mask = _nonzero_rows(mat, n_dense)
        if sizes:
            places = jnp.nonzero(mask, size=count, fill_value=sizes)
            indices = jnp.stack(places, -1).astype(index_dtype)
        else:
            indices = jnp.zeros((count, 0), index_dtype)
        inside = jnp.arange(count) < jnp.sum(mask)
        data = _extract(indices, mat)
        return jnp.where(jnp.reshape(inside, (count,) + (1,) * n_dense), data, 0).astype(dtype), indices

    data, indices = batched(sparse, n_batch)(mat)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def _extract(indices: Array, mat: Array) -> Array:
    """The values of a dense array at coordinates; 0 outside."""
    count, n_sparse = shape_of(indices)
    inner = shape_of(mat)[n_sparse:]
    if not n_sparse:
        return jnp.broadcast_to(mat, (count, *inner))
    if 0 in shape_of(mat) or not count:
        return jnp.zeros((count, *inner), dtype_of(mat))
    return mat.at[columns(indices)].get(mode="fill", fill_value=0)


@public
def bcoo_extract(sparr: BCOO, arr: Array, *, assume_unique: bool | None = None) -> BCOO:
    """The values of a dense array at the places that a sparse array stores.

    Of elements at one place the first has the value and the others 0, unless `assume_unique` (by default what is known
    of `sparr`).

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> bcoo_extract(sparse.eye(2), jnp.array([[1, 2], [3, 4]])).data
    Array([1, 4], dtype=int32)
    """
    if not isinstance(sparr, BCOO):
        raise ArgumentTypeError(f"bcoo_extract of a {type(sparr).__name__}", "the first argument is a BCOO")
    mat = jnp.asarray(arr)
    if mat.shape != sparr.shape:
        raise ShapeError(f"bcoo_extract of shapes {sparr.shape} and {mat.shape}", "they are equal")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    sizes = sparr.parts[1]

    def found(indices: Array, mat: Array) -> Array:
        data = _extract(indices, mat)
        if unique:
            return data
        first = _first_of_each(indices, sizes)
        return jnp.where(jnp.reshape(first, (-1,) + (1,) * (data.ndim - 1)), data, 0).astype(data.dtype)

    data = batched(found, sparr.n_batch)(sparr.indices, mat)
    return BCOO((data, sparr.indices), shape=sparr.shape, **sparr._flags)


# --------------------------------------------------------------------------------------- order and duplicates


def _sorted(indices: Array) -> tuple[Array, Array]:
    """Coordinates in lexicographic order, and the order."""
    count, n = shape_of(indices)
    if not n:
        return indices, jnp.arange(count, dtype=np.int32)
    *keys, order = lax.sort((*columns(indices), jnp.arange(count, dtype=np.int32)), num_keys=n)
    return jnp.stack(keys, -1), order


def _new_places(ordered: Array) -> Array:
    """Of sorted coordinates, which are not those before them."""
    changed = jnp.any(ordered[1:] != ordered[:-1], -1)
    return jnp.concatenate([jnp.ones(min(1, shape_of(ordered)[0]), bool), changed])


def _first_of_each(indices: Array, sizes: Shape) -> Array:
    ordered, order = _sorted(wrapped(indices, sizes))
    return jnp.zeros(shape_of(order), bool).at[order].set(_new_places(ordered))


@public
def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The same array with indices in lexicographic order.

    >>> from tilewright.experimental import sparse
    >>> bcoo_sort_indices(sparse.BCOO(([1.0, 2.0], [[1], [0]]), shape=(2,))).data
    Array([2., 1.], dtype=float32)
    """
    indices, order = batched(_sorted, mat.n_batch)(mat.indices)
    data = batched(lambda data, order: data[order], mat.n_batch)(mat.data, order)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


@public
def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The same array with sorted indices and elements of one place added up.

    `nse` elements are stored: further ones are left out, fewer padded. It must be given within `jit`.

    Raises:
      ConcretizationError: within `jit`, where `nse` is not given.

    >>> from tilewright.experimental import sparse
    >>> bcoo_sum_duplicates(sparse.BCOO(([1.0, 2.0], [[1], [1]]), shape=(2,))).data
    Array([3.], dtype=float32)
    """
    sizes = mat.parts[1]

    def grouped(indices: Array) -> tuple[Array, Array, Array, Array]:
        ordered, order = _sorted(wrapped(indices, sizes))
        new = _new_places(ordered) & valid(ordered, sizes)
        group = jnp.where(valid(ordered, sizes), jnp.cumsum(new) - 1, shape_of(ordered)[0])
        return ordered, order, group, jnp.sum(new)

    ordered, order, group, found = batched(grouped, mat.n_batch)(mat.indices)
    if not sizes:
        found = jnp.minimum(found, 1)
    count = concrete_nse(jnp.max(found, initial=0) if nse is None else nse, "bcoo_sum_duplicates")

    def added(data: Array, ordered: Array, order: Array, group: Array) -> tuple[Array, Array]:
        kept = jnp.where(group < count, group, count)
        total = jnp.zeros((count, *data.shape[1:]), data.dtype)
        filler = jnp.broadcast_to(past_end(ordered, sizes), (count, len(sizes)))
        if not count:
            return total, filler
        return total.at[kept].add(data[order], mode="drop"), filler.at[kept].set(ordered, mode="drop")

    data, indices = batched(added, mat.n_batch)(mat.data, ordered, order, group)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


@public
def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """`bcoo_sum_duplicates` that leaves out elements which are 0.

    >>> from tilewright.experimental import sparse
    >>> bcoo_eliminate_zeros(sparse.BCOO(([0.0, 2.0], [[1], [0]]), shape=(2,))).nse
    1
    """
    batch, sizes, dense = mat.parts

    def marked(data: Array, indices: Array) -> Array:
        stored = jnp.any(data != 0, tuple(range(1, 1 + len(dense))))
        return jnp.where(stored[:, None], indices, past_end(indices, sizes))

    indices = batched(marked, mat.n_batch)(mat.data, mat.indices) if sizes else mat.indices
    return bcoo_sum_duplicates(BCOO((mat.data, indices), shape=mat.shape), nse)


@public
def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:  # noqa: F811
    """The array with its axes in another order; batch, sparse and dense axes stay what they are.

    Raises:
      UnsupportedError: a batch or dense axis would change places with one of another kind.

    >>> from tilewright.experimental import sparse
    >>> bcoo_transpose(sparse.empty((2, 3)), permutation=(1, 0)).shape
    (3, 2)
    """
    order = _permutation(permutation if not isinstance(permutation, range) else list(permutation), mat.ndim)
    b, s = mat.n_batch, mat.n_sparse
    batch, sparse, dense = order[:b], order[b : b + s], order[b + s :]
    if sorted(batch) != list(range(b)) or sorted(dense) != list(range(b + s, mat.ndim)):
        raise UnsupportedError(f"transpose by {order} with n_batch={b} and n_dense={mat.n_dense} mixes kinds of axes",
                               "`update_layout` changes what an axis is")  # fmt: skip
    data = jnp.transpose(mat.data, (*batch, b, *(d - s + 1 for d in dense)))
    chosen = [d - b for d in sparse]
    in_order = chosen == list(range(s))
    indices = mat.indices if in_order else mat.indices[..., np.array(chosen, np.int32)]
    indices = jnp.transpose(indices, (*batch, b, b + 1))
    shape = tuple(mat.shape[d] for d in order)
    return BCOO((data, indices), shape=shape, indices_sorted=mat.indices_sorted and in_order,
                unique_indices=mat.unique_indices)  # fmt: skip


_permutation = permutation


def full_buffers(mat: BCOO) -> tuple[Array, ...]:
    """The buffers with every batch axis at its size."""
    batch = mat.parts[0]
    return tuple(jnp.broadcast_to(x, (*batch, *shape_of(x)[mat.n_batch :])) for x in (mat.data, mat.indices))




__all__ = [
    "BCOO", "BCOOProperties", "bcoo_eliminate_zeros", "bcoo_extract", "bcoo_fromdense", "bcoo_sort_indices",
    "bcoo_sum_duplicates", "bcoo_todense", "bcoo_transpose",
]  # fmt: skip
