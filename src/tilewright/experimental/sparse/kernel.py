"""The product of a block-sparse matrix with a dense one as a kernel: the places of blocks are prefetched scalars."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import lang, lax
from ... import numpy as jnp
from ...core.api.transformations import ShapeDtypeStruct
from ...core.support.call_errors import public
from ...core.support.errors import DtypeError, ShapeError
from .base import Array, check_integers


def _check(data: Array, rows: Array, columns: Array, dense: Array) -> None:
    nse = data.shape[0] if data.ndim else 0
    if data.ndim != 3 or dense.ndim != 2 or rows.shape != (nse,) != () or columns.shape != (nse,):
        raise ShapeError(f"block_matmul of {data.shape}, {rows.shape}, {columns.shape} and {dense.shape}",
                         "blocks (nse, bm, bk), places (nse,) and a matrix")  # fmt: skip
    bk = data.shape[2]
    if not bk or dense.shape[0] % bk:
        raise ShapeError(f"blocks of {bk} columns for a matrix of {dense.shape[0]} rows", "the sizes divide")
    if data.dtype != dense.dtype or not jnp.issubdtype(data.dtype, np.floating):
        raise DtypeError(f"block_matmul of {data.dtype} and {dense.dtype}", "cast both to one dtype of floats")
    check_integers(rows, "rows")
    check_integers(columns, "columns")


def _in_order(data: Array, rows: Array, columns: Array, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Blocks and their places, int32, by rising rows; blocks outside of the matrix are zeros at places within it."""
    inside = (rows >= 0) & (rows < shape[0]) & (columns >= 0) & (columns < shape[1])
    rows = jnp.where(inside, rows, shape[0] - 1).astype(np.int32)
    rows, order = lax.sort((rows, jnp.arange(data.shape[0], dtype=np.int32)), num_keys=1)
    columns = jnp.where(inside, columns, 0).astype(np.int32)[order]
    return jnp.where(inside[:, None, None], data, 0).astype(data.dtype)[order], rows, columns


@public
def block_matmul(
    data: Array, rows: Array, columns: Array, dense: Array, *, size: int, tile: int | None = None,
    interpret: bool = False,
) -> Array:  # fmt: skip
    """The product of a matrix of `size` rows of blocks with a dense one: a kernel, on every target.

    `data` of shape (nse, bm, bk) holds blocks at `rows` and `columns`, vectors of nse integers in any order; those at
    one place add up, those outside count nothing. `dense` has shape (k * bk, n), the result (size * bm, n). `tile`
    columns of `dense` are taken at once, by default 128 or all. Products are added up in float32 for half precision.

    Raises:
      ShapeError, DtypeError: operands that do not fit together.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental import sparse
    >>> blocks, at = jnp.ones((2, 2, 2)), jnp.array([0, 2])
    >>> sparse.block_matmul(blocks, at, jnp.array([1, 0]), jnp.ones((4, 3)), size=3)[:, 0]
    Array([2., 2., 0., 0., 2., 2.], dtype=float32)
    """
    data, rows, columns, dense = map(jnp.asarray, (data, rows, columns, dense))
    size = operator.index(size)
    _check(data, rows, columns, dense)
    (nse, bm, bk), n = data.shape, dense.shape[1]
    count = dense.shape[0] // bk
    if 0 in (nse, bm, n, size, count):
        return jnp.zeros((size * bm, n), data.dtype)
    data, rows, columns = _in_order(data, rows, columns, (size, count))
    wide = np.dtype(np.float32) if data.dtype.itemsize < 4 else data.dtype
    width = min(n, 128) if tile is None else tile

    def body(rows_ref: Any, columns_ref: Any, data_ref: Any, dense_ref: Any, start_ref: Any, out_ref: Any) -> None:
        del columns_ref
        e = lang.program_id(1)

        @lang.when((e == 0) | (rows_ref[e] != rows_ref[jnp.maximum(e - 1, 0)]))
        def _() -> None:
            out_ref[...] = start_ref[...]

        out_ref[...] += lax.dot(data_ref[...], dense_ref[...], preferred_element_type=wide)

    by_row = lang.BlockSpec((bm, width), lambda j, e, rows, columns: (rows[e], j))
    spec = lang.PrefetchScalarGridSpec(
        num_scalar_prefetch=2, grid=(-(-n // width), nse),
        in_specs=[lang.BlockSpec((None, bm, bk), lambda j, e, rows, columns: (e, 0, 0)),
                  lang.BlockSpec((bk, width), lambda j, e, rows, columns: (columns[e], j)), by_row],
        out_specs=by_row,
    )  # fmt: skip
    start = jnp.zeros((size * bm, n), wide)
    call = lang.kernel_call(
        body, ShapeDtypeStruct(start.shape, wide), grid_spec=spec, input_output_aliases={4: 0}, interpret=interpret,
        name="block_matmul",
    )  # fmt: skip
    return call(rows, columns, data, dense, start).astype(data.dtype)


__all__ = ["block_matmul"]
