"""`pallas.ops.tpu.matmul`: a product by blocks."""

from __future__ import annotations

from typing import Any

from .... import lang as tl
from .... import numpy as jnp
from ....core.ir.types import ArrayType, canonical_dtype
from ....core.support.errors import ShapeError


def matmul(
    x: Any, y: Any, *, block_shape: tuple[int, int], block_k: int = 256, out_dtype: Any = None, debug: bool = False
) -> Any:
    """`x @ y` in blocks of `block_shape`, summed in float32 over blocks of `block_k`; sizes divide evenly.

    Raises:
      ShapeError: sizes that do not fit.

    >>> from tilewright import numpy as tnp
    >>> matmul(tnp.ones((8, 8)), tnp.ones((8, 8)), block_shape=(4, 4), block_k=4)[0, 0].tolist()
    8.0
    """
    (m, k), (depth, n), (rows, columns) = x.shape, y.shape, block_shape
    if k != depth or m % rows or n % columns or k % block_k:
        raise ShapeError(f"matmul of {x.shape} and {y.shape} in blocks of {block_shape} and {block_k}",
                         "give sizes that fit, and blocks that divide them")  # fmt: skip

    def body(x: Any, y: Any, o: Any, total: Any) -> None:
        @tl.when(tl.program_id(2) == 0)
        def _() -> None:
            total[...] = jnp.zeros(total.shape, "float32")

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

        @tl.when(tl.program_id(2) == tl.num_programs(2) - 1)
        def _() -> None:
            o[...] = total[...].astype(o.dtype)

    return tl.kernel_call(
        body, ArrayType((m, n), canonical_dtype(out_dtype or x.dtype)), grid=(m // rows, n // columns, k // block_k),
        in_specs=[tl.BlockSpec((rows, block_k), lambda i, j, k: (i, k)),
                  tl.BlockSpec((block_k, columns), lambda i, j, k: (k, j))],
        out_specs=tl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        scratch_shapes=[tl.VMEM((rows, columns), "float32")], name="matmul")(x, y)  # fmt: skip
