"""`Operation`: a fused operation with its plain reference and its cost; and what all of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import lax
from tilewright import numpy as jnp

from ...core.ir.array import ArrayLike, DTypeLike, Operand
from ...core.ir.types import ArrayType
from ...core.primitives.custom.custom_derivatives import custom_vjp
from ...core.support.errors import ShapeError
from ...core.tracing.trace import shape_of, typeof
from ...lang.call.kernel_call import kernel_call
from ...lang.kernel.block_spec import BlockSpec
from ...lang.ops.basic import program_id, when
from ...lang.targets.target import Target, current_target
from ..cost import Cost

FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Operation:
    """`function` and `reference` take the same arguments; `cost` takes them too and gives that of the forward pass."""

    name: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    cost: Callable[..., Cost]


# The arrays of a block of rows on a TPU. Its compiler writes out an instruction for each register of a block, so that
# blocks of many megabytes take minutes to compile. In blocks of a quarter of this size a row takes twice the cycles by
# libtpu's estimate includes a start-up cost per cell.
TPU_BLOCK_BYTES = 2**22


def nbytes(*arrays: Any) -> int:
    """The bytes of arrays (or of their types); None counts nothing."""
    types = [a if isinstance(a, ArrayType) else typeof(a) for a in arrays if a is not None]
    return sum(math.prod(t.shape) * t.dtype.itemsize for t in types)


def dtype_of(x: Any) -> np.dtype:
    return typeof(x).dtype


def work_dtype(*arrays: Any) -> np.dtype:
    """What sums and exponentials are computed in: float32 at least."""
    widest = max((dtype_of(a) for a in arrays), key=lambda d: d.itemsize)
    return widest if widest.itemsize > 4 else FLOAT32


def like(x: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike = None) -> ArrayType:
    """The type of a result."""
    return ArrayType(tuple(shape_of(x) if shape is None else shape), np.dtype(dtype or dtype_of(x)))


def with_backward(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """The first result of `forward`, whose cotangents are `backward(ct, *arguments, *results)`."""

    def remembered(*args: Any) -> Any:
        results = forward(*args)
        return results[0], (*args, *results)

    call = custom_vjp(lambda *args: forward(*args)[0])
    call.defvjp(remembered, lambda residuals, ct: backward(ct, *residuals))
    return call


def product(a: ArrayLike, b: ArrayLike, i: int, j: int, dtype: DTypeLike) -> Any:
    """The product of two matrices over axis `i` of one and `j` of the other, summed in a dtype."""
    return lax.dot_general(a, b, (((i,), (j,)), ((), ())), preferred_element_type=dtype)


def row_tile(rows: int, row_bytes: int, target: str | Target | None = None, arrays: int = 4) -> int:
    """How many rows a cell takes: all where the compiler fuses whole arrays, else a power of two that fits."""
    target = current_target(target)
    if target.whole_arrays:
        return max(rows, 1)
    fits = max(target.block_bytes // max(arrays * row_bytes, 1), 1)
    if target.kind == "tpu":
        fits = min(fits, max(TPU_BLOCK_BYTES // max(arrays * row_bytes, 1), 8))
    return min(1 << (fits.bit_length() - 1), 1 << max(rows - 1, 0).bit_length())


def row_fits(row_bytes: int, target: str | Target | None = None) -> bool:
    """Whether a cell can hold four whole rows: in registers on a GPU, whose blocks are powers of two."""
    target = current_target(target)
    if target.gpu:
        return 4 << max(row_bytes - 1, 0).bit_length() <= target.register_bytes
    return target.whole_arrays or 4 * row_bytes <= target.block_bytes


def gpu_family(target: Target, table: Mapping[str, Any]) -> str:
    """A GPU's entry of a table by architecture; sm_80's for architectures without an entry."""
    name = ":".join(target.name.split(":")[:2])
    return name if name in table else "cuda:sm_80"


def row_spec(rows: int, width: int, **options: Any) -> BlockSpec:
    """Some whole rows a cell."""
    return BlockSpec((rows, width), lambda i, *_: (i, 0), **options)


def vector_spec(rows: int, **options: Any) -> BlockSpec:
    """One number for each row of a cell."""
    return BlockSpec((rows,), lambda i, *_: (i,), **options)


def zeros_first(axis: int, *totals: Any) -> None:
    """In a body: sums are zeros in the first cell along an axis of the grid."""

    @when(program_id(axis) == 0)
    def _() -> None:
        for total in totals:
            total[...] = jnp.zeros(total.shape, total.dtype)


def by_blocks(
    formula: Callable[..., Sequence[Any]], given: Sequence[tuple[Any, BlockSpec]], outs: Sequence[ArrayType],
    out_specs: Sequence[BlockSpec], grid: int | Sequence[int], work: Any, name: str,
) -> list[Any]:  # fmt: skip
    """A kernel: a formula of blocks in a dtype, None where an operand is, with its results in the dtypes of `outs`."""
    present = [a is not None for a, _ in given]

    def body(*refs: Any) -> None:
        rest = iter(refs)
        blocks = [next(rest)[...].astype(work) if p else None for p in present]
        for out, made in zip(rest, formula(*blocks), strict=True):
            out[...] = made.astype(out.dtype)

    return kernel_call(
        body, list(outs), grid=grid, in_specs=[s for a, s in given if a is not None], out_specs=list(out_specs),
        name=name,
    )(*(a for a, _ in given if a is not None))  # fmt: skip


def as_rows(x: Operand) -> Any:
    """An array as a matrix of its last axis."""
    shape = shape_of(x)
    if not shape:
        raise ShapeError("an operation over rows of a scalar", "give an array of rank 1 or more")
    return x.reshape(math.prod(shape[:-1]), shape[-1])
