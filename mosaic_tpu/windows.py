"""Windows: how the operands of a kernel become the operands of its custom call, and which window a cell sees.

A block is a window as it is (`native`) where it agrees with the tiling of the last two axes: each of the two is whole
or a multiple of its tile. Any other block is cut out beforehand: the array is padded to whole blocks and its blocks
put side by side (`tiled`: axes that are cut lead, then the block, whole and so legal). Overlapping windows, whose
starts are any elements, are copied out one for each cell (`copied`); those of outputs, and blocks
that atomics come back to, are parts of the whole array, with the margins that windows reach into (`placed`).
Memory that bodies reach themselves is `whole`.
Dtypes that memory does not hold (booleans, float16, 4-bit integers) are converted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.ir.types import FAR, ArrayType, MemorySpace, is_bool
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.shape import broadcast_in_dim_p, reshape_to, slice, transpose
from ..lang.analysis.index_maps import map_of
from ..lang.kernel.kernel import EDGE, Block, Kernel
from ..lang.targets.target import Target
from ..lang.transforms.windows import gather_blocks, margins, padded
from .text import ANY, SMEM, VMEM, bits_of
from .values import physical, stored, wide

_ARRAYS = {"f32": np.float32, "i32": np.int32}


def storage_dtype(dtype: Any, words: bool = False) -> Any:
    """The dtype in which an array of the call holds values of a dtype; in scalar memory, words of 32 bits."""
    element = ("i32" if is_bool(dtype) else wide(dtype)) if words else stored(dtype)
    if element not in _ARRAYS:
        return dtype
    if element == "i32" and str(dtype) == "uint32":
        return dtype
    return np.dtype(_ARRAYS[element])


@dataclass(frozen=True)
class Window:
    """One operand of the call: `array` as the call takes it, and the window of `bounds` that a cell sees.

    `kind` is native, tiled, copied, placed, whole, far (no window: the body copies), or empty (one number in place of
    none). The window's leading `lead` axes are not the block's: they have size 1, or, far, the size of the array, and
    the cell's block is at one place of them.
    """

    block: Block
    kind: str
    array: ArrayType
    bounds: tuple[int, ...]
    lead: int
    space: str
    cut: tuple[int, ...] = ()  # tiled: the axes that lead
    axes: tuple[int, ...] = ()  # copied: the grid axes that lead

    @property
    def element(self) -> str:
        return (wide(self.block.array.dtype) if not is_bool(self.block.array.dtype) else "i32") \
            if self.space == SMEM else stored(self.block.array.dtype)  # fmt: skip


def tile_of(target: Target, dtype: Any) -> tuple[int, int]:
    """The tile of the last two axes of arrays of a dtype, (sublanes, lanes)."""
    return target.sublanes * 32 // bits_of(stored(dtype)), target.lanes


def is_native(block: Block, target: Target) -> bool:
    """Whether a block agrees with the tiling of its array."""
    if any(block.element) or block.array.ndim < 2 or block.fill is EDGE:
        return False
    tiles = tile_of(target, block.array.dtype)
    for d, tile in zip((-2, -1), tiles, strict=True):
        n, whole = block.sizes[d], block.array.shape[d]
        if block.squeezed[d] or (n != whole and n % tile):
            return False
    return True


def ragged_axes(window: Window) -> list[int]:
    """The axes along which a cell's block may reach past the end, where something is to be loaded there."""
    block = window.block
    if window.kind != "native" or block.fill is None:
        return []
    return [d for d, (n, size) in enumerate(zip(block.array.shape, block.sizes, strict=True)) if n % size]


def window_of(kernel: Kernel, block: Block, output: bool, target: Target, far: bool = False,
              again: bool = False) -> Window:  # fmt: skip
    """How the call takes an operand; `far`: memory that bodies reach themselves stays in HBM.

    `again`: cells may come back to a block of the output, so all of it stays.
    """
    if block.space is MemorySpace.SMEM and block.index_map is None and not output:
        held = ArrayType(block.array.shape or (1,), storage_dtype(block.array.dtype, words=True))
        return Window(block, "whole", held, held.shape, 0, SMEM)
    dtype = storage_dtype(block.array.dtype)
    shape = block.array.shape
    if far and block.space in FAR and block.array.size and (lead := _picked(block)) is not None:
        held = (*shape[:lead], *physical(shape[lead:]))
        return Window(block, "far", ArrayType(held, dtype), held, lead, ANY)
    if not block.array.size:
        return Window(block, "empty", ArrayType((1, 1), dtype), (1, 1), 0, VMEM)
    if block.index_map is None or (block.sizes == shape and not any(block.element)):
        rest = physical(block.shape)
        return Window(block, "whole", ArrayType(rest, dtype), rest, 0, VMEM)
    if any(block.element) and not output:
        fact = map_of(kernel, block)
        axes = tuple(range(len(kernel.grid))) if fact is None else fact.axes
        axes = tuple(a for a in axes if kernel.grid[a] > 1)
        bounds = (*(1 for _ in axes), *physical(block.shape))
        held = ArrayType((*(kernel.grid[a] for a in axes), *physical(block.shape)), dtype)
        return Window(block, "copied", held, bounds, len(axes), VMEM, axes=axes)
    if any(block.element) or again:
        sizes = tuple(n + low + high for n, (low, high, _) in zip(shape, margins(block), strict=True))
        return Window(block, "placed", ArrayType(physical(sizes), dtype), physical(sizes), 0, VMEM)
    if is_native(block, target):
        return _native(block, dtype)
    cut = tuple(d for d, (n, size) in enumerate(zip(shape, block.sizes, strict=True)) if -(-n // size) > 1)
    counts = tuple(-(-shape[d] // block.sizes[d]) for d in cut)
    inner = physical(block.shape)
    return Window(block, "tiled", ArrayType((*counts, *inner), dtype), (*(1 for _ in cut), *inner), len(cut), VMEM,
                  cut=cut)  # fmt: skip


def _picked(block: Block) -> int | None:
    """How many leading axes a block picks one place along, where it has all of the others; None: it is another part."""
    if block.index_map is None:
        return 0
    lead = sum(block.squeezed)
    whole = block.sizes[lead:] == block.array.shape[lead:] and not any(block.element)
    return lead if whole and all(block.squeezed[:lead]) else None


def _native(block: Block, dtype: np.dtype[Any]) -> Window:
    lead = len(block.sizes) - len(block.shape)
    if any(block.squeezed[lead:]):  # squeezed axes between others: the block is tiled instead
        order = [d for d, gone in enumerate(block.squeezed) if gone] + [
            d for d, gone in enumerate(block.squeezed) if not gone
        ]
        shape = tuple(block.array.shape[d] for d in order)
        bounds = tuple(block.sizes[d] for d in order)
        return Window(block, "native", ArrayType(shape, dtype), bounds, lead, VMEM, cut=tuple(order))
    return Window(block, "native", ArrayType(block.array.shape, dtype), block.sizes, lead, VMEM)


# ---------------------------------------------------------------------------- the arrays around the call


def prepared(kernel: Kernel, window: Window, array: Any, prefetched: Sequence[Any]) -> Any:
    """The call's operand, of the kernel's."""
    block = window.block
    if window.kind == "empty":
        return broadcast_in_dim_p.bind(np.zeros((), window.array.dtype)[()], shape=(1, 1), broadcast_dimensions=())
    if window.kind == "copied":
        array = gather_blocks(kernel, block, array, prefetched, window.axes, {})
    elif window.kind == "tiled":
        array = _tiled(block, array, window)
    elif window.kind == "placed":
        array = padded(block, array, margins(block))
    elif window.kind == "native" and window.cut:
        array = transpose(array, window.cut)
    return reshape_to(cast(array, window.array.dtype), window.array.shape)


def cast(array: Any, dtype: Any) -> Any:
    return array if array.dtype == dtype else convert_element_type(array, dtype)


def _tiled(block: Block, array: Any, window: Window) -> Any:
    """Blocks side by side."""
    pads = [(0, -n % size, 0) for n, size in zip(block.array.shape, block.sizes, strict=True)]
    array = padded(block, array, pads)
    split, lead, inner, at = [], [], [], 0
    for d, size in enumerate(block.sizes):
        if d in window.cut:
            split += [array.shape[d] // size, size]
            lead.append(at)
            inner.append(at + 1)
            at += 2
        else:
            split.append(array.shape[d])
            inner.append(at)
            at += 1
    return transpose(reshape_to(array, tuple(split)), (*lead, *inner))


def finished(window: Window, result: Any) -> Any:
    """The kernel's result, of the call's."""
    block, shape = window.block, window.block.array.shape
    if window.kind == "empty":
        return broadcast_in_dim_p.bind(np.zeros((), block.array.dtype)[()], shape=shape, broadcast_dimensions=())
    if window.kind == "tiled":
        result = _untiled(block, result, window)
    elif window.kind == "placed":
        lows = tuple(low for low, _, _ in margins(block))
        whole = tuple(n + low + high for n, (low, high, _) in zip(shape, margins(block), strict=True))
        result = slice(reshape_to(result, whole), lows, tuple(low + n for low, n in zip(lows, shape, strict=True)))
    elif window.kind == "native" and window.cut:
        inverse = sorted(range(len(shape)), key=lambda d: window.cut[d])
        result = transpose(result, inverse)
    result = reshape_to(result, shape)
    return result if result.dtype == block.array.dtype else convert_element_type(result, block.array.dtype)


def _untiled(block: Block, result: Any, window: Window) -> Any:
    counts = {d: window.array.shape[i] for i, d in enumerate(window.cut)}
    apart = reshape_to(result, (*counts.values(), *block.sizes))
    order, n = [], len(window.cut)
    for d in range(len(block.sizes)):
        order += [window.cut.index(d), n + d] if d in counts else [n + d]
    whole = tuple(counts.get(d, 1) * size for d, size in enumerate(block.sizes))
    joined = reshape_to(transpose(apart, tuple(order)), whole)
    shape = block.array.shape
    return joined if whole == shape else slice(joined, (0,) * len(shape), shape)


# ---------------------------------------------------------------------------- which window


def indices(window: Window, ids: Sequence[Any], found: Callable[[], Sequence[Any]], zero: Any) -> list[Any]:
    """The window's index, of the cell's ids and (from `found`) the block's index."""
    rank = len(window.bounds)
    if window.kind in ("whole", "placed", "empty", "far"):
        return [zero] * rank
    if window.kind == "copied":
        return [*(ids[a] for a in window.axes), *[zero] * (rank - window.lead)]
    index = list(found())
    if window.kind == "native":
        return [index[d] for d in window.cut] if window.cut else index
    return [*(index[d] for d in window.cut), *[zero] * (rank - window.lead)]
