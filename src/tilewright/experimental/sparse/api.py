"""Functions of every sparse format: empty and identity matrices, made dense, kept in a file."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import numpy as jnp
from ...core.ir.array import DTypeLike
from ...core.ir.types import as_dtype
from ...core.primitives.custom.checkpoint import name_p
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError
from ...core.tracing.trace import Tracer
from .base import TODENSE, Array, JAXSparse
from .bcoo import BCOO
from .bcsr import BCSR
from .matrices import COO, CSC, CSR

FORMATS: Mapping[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str, formats: Sequence[str]) -> Any:
    if name not in formats:
        raise ArgumentError(f"sparse_format={name!r}", f"one of {', '.join(formats)}")
    return FORMATS[name]


@public
def todense(arr: JAXSparse | Array) -> Array:
    """A sparse array as a dense one; a dense one as it is. Both work within `sparsify`.

    >>> from tilewright.experimental import sparse
    >>> todense(sparse.eye(1))
    Array([[1.]], dtype=float32)
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return name_p.bind(arr, name=TODENSE) if isinstance(arr, Tracer) else jnp.asarray(arr)


@public
def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: DTypeLike = "int32", sparse_format: str = "bcoo", **kwds: Any
) -> Any:
    """A sparse array of zeros, of which none is stored.

    >>> empty((2, 3))
    BCOO(float32[2, 3], nse=0)
    """
    made = _format(sparse_format, list(FORMATS))
    return made._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


@public
def eye(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None, index_dtype: DTypeLike = "int32",
    sparse_format: str = "bcoo", **kwds: Any,
) -> Any:  # fmt: skip
    """A sparse matrix with ones along its k-th diagonal.

    >>> eye(2, 3, 1).todense()
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    made = _format(sparse_format, [name for name in FORMATS if name != "bcsr"])
    n, m, diagonal = operator.index(N), operator.index(N if M is None else M), operator.index(k)
    return made._eye(n, m, diagonal, dtype=dtype, index_dtype=index_dtype, **kwds)


@public
def save(file: Any, mat: JAXSparse) -> None:
    """Write a sparse array of any format to a file of NumPy's format `npz`.

    Raises:
      ArgumentTypeError: the array is not sparse.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, eye(2))
    >>> _ = file.seek(0)
    >>> load(file)
    BCOO(float32[2, 2], nse=2)
    """
    if not isinstance(mat, JAXSparse):
        raise ArgumentTypeError(f"save of a {type(mat).__name__}", "use `numpy.save` for dense arrays")
    name = next(n for n, made in FORMATS.items() if type(mat) is made)
    flags = [getattr(mat, f, False) for f in ("indices_sorted", "unique_indices")]
    buffers = {f"buffer{i}": np.asarray(x) for i, x in enumerate(mat.tree_flatten()[0])}
    entries: Any = {"format": np.str_(name), "shape": np.array(mat.shape, np.int64), "flags": np.array(flags),
                    "dtype": np.str_(mat.dtype)}  # fmt: skip
    np.savez(file, **(entries | buffers))


@public
def load(file: Any) -> Any:
    """A sparse array from a file that `save` wrote.

    Raises:
      ArgumentError: the file holds something else.

    >>> import io, numpy as np
    >>> from tilewright.experimental import sparse
    >>> file = io.BytesIO()
    >>> sparse.save(file, sparse.BCOO.fromdense(np.float32([[0, 2], [3, 0]])))
    >>> _ = file.seek(0)
    >>> sparse.load(file).todense().tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    with np.load(file, allow_pickle=False) as found:
        name = str(found["format"]) if "format" in found else ""
        if name not in FORMATS:
            raise ArgumentError("the file holds no sparse array", "use `numpy.load` for dense arrays")
        data, *places = (found[f"buffer{i}"] for i in range(2 if name == "bcoo" else 3))
        if data.dtype.kind == "V":  # NumPy's files do not tell what floats these are
            data = data.view(as_dtype(str(found["dtype"])))
        buffers = tuple(map(jnp.asarray, (data, *places)))
        flags = dict(zip(("indices_sorted", "unique_indices"), map(bool, found["flags"]), strict=True))
        shape = tuple(int(n) for n in found["shape"])
    return FORMATS[name](buffers, shape=shape, **(flags if name in ("bcoo", "bcsr") else {}))


__all__ = ["empty", "eye", "load", "save", "todense"]
