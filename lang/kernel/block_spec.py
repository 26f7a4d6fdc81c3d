"""How an operand is cut into blocks, and over which grid: what the author of a kernel states.

BlockSpec(block_shape, index_map)    cell (i, j, ...) sees block `index_map(i, j, ...)` of its operand
block_shape ::= one of int | None | Squeezed | Blocked(n) | Element(n) | BoundedSlice(n) per axis of the operand
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike
from ...core.ir.types import ArrayType, MemorySpace, RefType, canonical_dtype
from ...core.primitives.refs.ref_indexing import Slice
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ArgumentTypeError, BlockRankError, plural
from ...core.tracing.trace import Tracer

ANY, VMEM, SMEM, HBM, SEMAPHORE = (MemorySpace[n] for n in ("ANY", "VMEM", "SMEM", "HBM", "SEMAPHORE"))


class Squeezed:
    """A block axis of size 1 that the body does not see; `None` means the same."""

    def __repr__(self) -> str:
        return "squeezed"


squeezed: Squeezed = Squeezed()


@dataclass(frozen=True)
class Blocked:
    """A block axis of `block_size` elements whose index counts blocks; a plain int means the same."""

    block_size: int


@public
@dataclass(frozen=True)
class Element:
    """A block axis of `block_size` elements whose index counts elements, so that blocks may overlap.

    `padding` is how many elements a block may see before the array, and after it; the index counts from the first of
    them, so that with a padding of (2, 0) index 0 starts 2 elements before the array.
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class BoundedSlice:
    """A block axis of at most `block_size` elements: the index map gives `ds(start, size)`, counted in elements.

    The Ref is `block_size` long. Elements past `size` are unspecified: the operand's own elements there, and past its
    end the `fill`. The size may be traced; a size that is known is checked. Of an output the first `size` elements are
    stored, on every cell; its other elements are untouched.
    """

    block_size: int


@dataclass(frozen=True)
class BlockAxis:
    """One axis of a block: its size, whether bodies see it, and whether its index counts elements rather than blocks.

    `padding` is how many elements blocks may see before the array and after it; none but along `element` axes.
    """

    size: int
    squeezed: bool = False
    element: bool = False
    padding: tuple[int, int] = (0, 0)

    @staticmethod
    def of(entry: Any) -> BlockAxis:
        """The axis that an entry of a block shape states."""
        if entry is None or isinstance(entry, Squeezed):
            return BlockAxis(1, True)
        size = int(getattr(entry, "block_size", entry))
        if isinstance(entry, BoundedSlice):
            return BlockAxis(size, element=True, padding=(0, size))
        return BlockAxis(size, element=True, padding=entry.padding) if isinstance(entry, Element) else BlockAxis(size)

    @property
    def step(self) -> int:
        """How many elements one step of the index is."""
        return 1 if self.element else self.size

    def start(self, index: ArrayLike) -> Any:
        """The first element of the block of an index."""
        return index * self.step - self.padding[0]

    def count(self, n: int) -> int:
        """How many indices there are along an axis of `n` elements."""
        return n + sum(self.padding) - self.size + 1 if self.element else -(-n // self.size)

    def fits(self, start: ArrayLike, n: int) -> Any:
        """Whether a block that starts there is one of those of an axis of `n` elements."""
        if self.element:
            return (start >= -self.padding[0]) & (start + self.size <= n + self.padding[1])
        return (start >= 0) & (start < n)

    def ragged(self, n: int) -> bool:
        """Whether blocks may reach past the end of an axis of `n` elements."""
        return not self.squeezed and (any(self.padding) if self.element else n % self.size != 0)


@public
@dataclass(frozen=True)
class Buffered:
    """How deep the pipeline of an operand is: `buffer_count` blocks are in flight at once."""

    buffer_count: int
    use_lookahead: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.buffer_count, int) or self.buffer_count < 1:
            raise ArgumentError(f"Buffered: buffer_count is {self.buffer_count!r}", "give 1 or more")


# A function from the indices of a cell, and prefetched Refs, to those of its block. By arity, so that checkers know the
# parameters of a lambda.
IndexMap = (
    Callable[[], Any]
    | Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any], Any]
)


@public
@dataclass(frozen=True)
class BlockSpec:
    """How one operand is cut: the block's shape, and which block each cell of the grid sees.

    Without a `block_shape` every cell sees the whole operand; without an `index_map`, block 0. `fill` is
    what a load gives past the end of the operand (unspecified where it is None). `pipeline_mode=Buffered(n)`, or
    `buffering=n`, keeps `n` blocks in flight on targets that have a pipeline; it changes no result.

    >>> BlockSpec((128, 64), lambda i, k: (i, k)).block_shape
    (128, 64)
    """

    block_shape: Sequence[Any] | None = None
    index_map: IndexMap | None = None
    memory_space: MemorySpace | None = None
    fill: float | int | bool | None = None
    pipeline_mode: Any = None
    buffering: int | None = None

    def __post_init__(self) -> None:
        if callable(self.block_shape):
            raise ArgumentTypeError(
                "BlockSpec: the first argument is a function", "write BlockSpec(block_shape, index_map), in this order"
            )
        if self.index_map is not None and not callable(self.index_map):
            raise ArgumentTypeError(
                f"BlockSpec: the index map is {self.index_map!r}",
                "give a function of the grid's indices that gives a block index for each axis: `lambda i: (i, 0)`",
            )
        if self.memory_space is not None and not isinstance(self.memory_space, MemorySpace):
            raise ArgumentTypeError(
                f"BlockSpec: memory_space is {self.memory_space!r}", "give `lang.VMEM`, `SMEM`, `ANY` or `HBM`, or None"
            )
        if self.block_shape is not None and not isinstance(self.block_shape, Iterable):
            raise ArgumentTypeError(
                f"BlockSpec: the block shape is {self.block_shape!r}",
                f"give a size for each axis: `BlockSpec(({self.block_shape!r},), index_map)`",
            )
        if self.block_shape is not None:
            object.__setattr__(self, "block_shape", tuple(self.block_shape))
            for size in self.block_shape:
                _check_size(size, self.block_shape)
        if self.fill is not None and (np.ndim(self.fill) or np.asarray(self.fill).dtype.kind in "OSU"):
            raise ArgumentTypeError(f"BlockSpec: fill is {self.fill!r}", "give a number, `fill=0`, or None")
        if self.pipeline_mode is not None and not isinstance(self.pipeline_mode, Buffered):
            raise ArgumentTypeError(f"BlockSpec: pipeline_mode is {self.pipeline_mode!r}", "give Buffered(n)")
        if self.buffering is not None:
            Buffered(self.buffering)

    @property
    def buffers(self) -> int | None:
        """How many blocks are in flight; None: the target's choice."""
        return self.pipeline_mode.buffer_count if isinstance(self.pipeline_mode, Buffered) else self.buffering

    def replace(self, **changes: Any) -> BlockSpec:
        return BlockSpec(**{name: changes.get(name, getattr(self, name)) for name in self.__dataclass_fields__})


def _check_size(size: Any, shape: Sequence[Any]) -> None:
    if size is None or isinstance(size, Squeezed):
        return
    number = size.block_size if isinstance(size, (Blocked, Element, BoundedSlice)) else size
    if isinstance(number, Tracer):
        raise ArgumentTypeError(
            f"BlockSpec: block shape {shape} has a size that is traced",
            "block sizes are known while tracing: make the argument static (`static_argnames` of `jit` or of "
            "`interop.jax.call`)",
        )
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
        raise ArgumentTypeError(
            f"BlockSpec: block shape {shape} has {size!r} in it",
            "sizes are ints, None (squeezed), Element(n) or BoundedSlice(n)",
        )
    if number < 1:
        raise ArgumentError(f"BlockSpec: block shape {shape} has size {number}", "block sizes are at least 1")


no_block_spec: BlockSpec = BlockSpec()


def start_of(found: ArrayLike, size: Any, where: str) -> Any:
    """Where a block starts along an axis, from what the index map gives for it."""
    bounded = isinstance(size, BoundedSlice)
    if bounded != isinstance(found, Slice):
        raise BlockRankError(f"{where}: its index map gives {found!r} for an axis of {size!r}",
                             "give `ds(start, size)` for axes of BoundedSlice, and indices for others")  # fmt: skip
    if not isinstance(found, Slice):
        return found
    if found.stride != 1 or (isinstance(found.size, int) and not 0 <= found.size <= size.block_size):
        raise ArgumentError(f"{where}: its index map gives {found!r} for an axis of {size!r}",
                            f"give at most {size.block_size} elements, side by side")  # fmt: skip
    return found.start


def one_per_axis(found: Any, rank: int, block: str) -> list[Any]:
    """What an index map gives, as one index for each axis of a block of some rank; `block` is what errors call it."""
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(found) != rank:
        raise BlockRankError(f"{block} has rank {rank}, its index map gives {plural(len(found), 'index')}",
                             "give one block index per axis of the block")  # fmt: skip
    return found


def block_index(spec: BlockSpec, ids: Sequence[Any], rank: int, where: str) -> list[Any]:
    """Which block of an operand of some rank a step of a pipeline sees: indices, and slices along axes of BoundedSlice.

    `where` is what errors call the operand.
    """
    if spec.index_map is None:
        return [np.int32(0)] * rank
    found = one_per_axis(spec.index_map(*ids), rank, f"{where}: its block")
    for i, size in zip(found, spec.block_shape or [None] * rank, strict=True):
        start_of(i, size, where)
    return [np.int32(i) if isinstance(i, (int, np.integer)) else i for i in found]


@public
@dataclass(frozen=True)
class GridSpec:
    """A grid with the BlockSpecs of inputs and outputs (pytrees like theirs) and the scratch."""

    grid: Any = ()
    in_specs: Any = None
    out_specs: Any = None
    scratch_shapes: Any = ()
    num_scalar_prefetch: int = field(default=0, kw_only=True)


@public
class PrefetchScalarGridSpec(GridSpec):
    """A grid whose index maps also take the first `num_scalar_prefetch` operands, as Refs after the indices."""

    def __init__(
        self, num_scalar_prefetch: int, grid: Sequence[Any] = (), in_specs: Sequence[Any] | None = None,
        out_specs: Any = None, scratch_shapes: Sequence[Any] = (),
    ):  # fmt: skip
        if not isinstance(num_scalar_prefetch, int) or num_scalar_prefetch < 0:
            raise ArgumentError(f"PrefetchScalarGridSpec: num_scalar_prefetch is {num_scalar_prefetch!r}",
                                "give how many of the first operands the index maps take")  # fmt: skip
        super().__init__(grid, in_specs, out_specs, scratch_shapes, num_scalar_prefetch=num_scalar_prefetch)


def as_scratch(scratch: Any) -> RefType:
    """The Ref type of a scratch: `VMEM(shape, dtype)`, `SMEM(...)`, or anything with a shape and a dtype."""
    if isinstance(scratch, RefType):
        return scratch
    if hasattr(scratch, "shape") and hasattr(scratch, "dtype"):
        space = getattr(scratch, "space", MemorySpace.VMEM)
        return RefType(ArrayType(tuple(scratch.shape), canonical_dtype(scratch.dtype)), space)
    raise ArgumentTypeError(
        f"kernel_call: the scratch {scratch!r} has no shape and dtype",
        "use lang.VMEM(shape, dtype) or a ShapeDtypeStruct",
    )


def shape_dtype(x: Any) -> ArrayType:
    """The array type of an entry of `out_shape`."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return ArrayType(tuple(x.shape), canonical_dtype(x.dtype))
    raise ArgumentTypeError(
        f"kernel_call: the out_shape entry {x!r} has no shape and dtype",
        "give an array, or ShapeDtypeStruct(shape, dtype), for each output",
    )
