"""What the author of a kernel for warpgroups states: the mesh, memory, barriers, accumulators, hints on layouts."""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.ir.array import ArrayLike, DTypeLike
from ...core.ir.types import FLOAT32, INT32, ArrayType, RefType, canonical_dtype
from ...core.ir.types import MemorySpace as Space
from ...core.support.errors import ArgumentError, UnsupportedError
from ...core.tracing.trace import typeof
from ..kernel.block_spec import GridSpec
from ..kernel.kernel import Kernel

MOST_BLOCKS = 8  # of a cluster


@dataclass(frozen=True)
class TilingTransform:
    """A hint: memory is laid out in tiles of these sizes. The layout here follows from how memory is used."""

    tiling: tuple[int, ...]


@dataclass(frozen=True)
class SwizzleTransform:
    """A hint: the parts of each row of this many bytes are exchanged. Tiles that are copied are swizzled by 128."""

    swizzle: int

    def __post_init__(self) -> None:
        if self.swizzle not in (16, 32, 64, 128):
            raise ArgumentError(f"SwizzleTransform({self.swizzle!r})", "give 16, 32, 64 or 128 bytes")


@dataclass(frozen=True)
class Scratch:
    """Memory of a block of threads, or an accumulator of a warpgroup, with hints that change no value."""

    shape: tuple[int, ...]
    dtype: Any
    space: Space
    transforms: tuple[Any, ...] = ()
    packed: bool | None = None
    collective: bool | None = None
    layout: Any = None

    def get_ref_aval(self) -> RefType:
        """The type of its Ref."""
        return RefType(ArrayType(self.shape, canonical_dtype(self.dtype)), self.space)


class MemorySpace(enum.Enum):
    """Where a Ref of a kernel for warpgroups lives; calling one states scratch: `SMEM((128, 64), "float16")`.

    >>> MemorySpace.SMEM((128, 64), "float16").shape
    (128, 64)
    """

    GMEM = Space.HBM
    SMEM = Space.SMEM
    TMEM = Space.TMEM
    REGS = Space.REGS

    def __call__(
        self, shape: Sequence[int], dtype: DTypeLike, *, transforms: Sequence[Any] = (), packed: bool | None = None,
        collective: bool | None = None, layout: Any = None,
    ) -> Scratch:  # fmt: skip
        """Memory of a shape and dtype. `transforms`, `packed`, `collective` and `layout` are hints."""
        return Scratch(tuple(shape), dtype, self.value, tuple(transforms), packed, collective, layout)


GMEM, SMEM, TMEM, REGS = MemorySpace


@dataclass(frozen=True, eq=False)
class ACC:
    """The accumulator of a warpgroup's products, zeros at first: what `wgmma` adds to. State it in `run_scoped`.

    >>> ACC((64, 128)).dtype
    dtype('float32')
    """

    shape: tuple[int, ...]
    dtype: Any = FLOAT32
    value: Any = None  # what it starts with, for `run_state`
    space = Space.REGS

    @classmethod
    def init(cls, array: ArrayLike) -> ACC:
        """An accumulator that starts as an array: `run_state(f)(ACC.init(array))`."""
        type_ = typeof(array)
        return cls(type_.shape, type_.dtype, array)

    def get_ref_aval(self) -> RefType:
        """The type of its Ref."""
        return RefType(ArrayType(tuple(self.shape), canonical_dtype(self.dtype)), self.space)


@dataclass(frozen=True, kw_only=True)
class Barrier:
    """Barriers in shared memory: a phase of one ends after `num_arrivals` arrivals, with the bytes they announce.

    `num_barriers` is the shape of an array of them. A warpgroup's n-th wait is for the n-th phase.
    `orders_tensor_core`: the barrier also orders products of `tcgen05_mma` and accesses to TMEM.

    >>> Barrier(num_arrivals=2, num_barriers=4).shape
    (4,)
    """

    num_arrivals: int = 1
    num_barriers: int | Sequence[int] = ()
    orders_tensor_core: bool = False
    space = Space.SEMAPHORE
    dtype = INT32

    def __post_init__(self) -> None:
        if not isinstance(self.num_arrivals, int) or self.num_arrivals < 1:
            raise ArgumentError(f"Barrier: num_arrivals is {self.num_arrivals!r}", "give 1 or more")
        if isinstance(self.num_barriers, Sequence):
            object.__setattr__(self, "num_barriers", tuple(self.num_barriers))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.num_barriers,) if isinstance(self.num_barriers, int) else tuple(self.num_barriers)


@dataclass(frozen=True, kw_only=True)
class ClusterBarrier(Barrier):
    """Barriers of every block of a cluster: an arrival counts at those of all blocks along `collective_axes`.

    A phase of one ends after `num_arrivals` arrivals of each of these blocks; a wait is for the block's own one. With
    `leader_tracked` an arrival counts at the first block's alone, which is the one that may wait.
    """

    collective_axes: Any = ()
    leader_tracked: bool = False


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """The blocks of threads of a kernel and the warpgroups within each: sizes, and names for `lax.axis_index`.

    `num_threads` counts warpgroups of 128 threads, each of which runs the body once. At each place of `grid` there are
    as many blocks as `cluster` has, 8 at most, which reach each other's shared memory and barriers.

    >>> Mesh(grid=(4,), grid_names=("m",), num_threads=2, thread_name="wg").shape
    {'m': 4, 'wg': 2}
    """

    grid: tuple[int, ...] = ()
    grid_names: tuple[Any, ...] = ()
    cluster: tuple[int, ...] = ()
    cluster_names: tuple[Any, ...] = ()
    num_threads: int | None = None
    thread_name: Any = None
    kernel_name: str | None = None

    def __post_init__(self) -> None:
        for name in ("grid", "grid_names", "cluster", "cluster_names"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for sizes, names in (("grid", "grid_names"), ("cluster", "cluster_names")):
            if len(getattr(self, sizes)) != len(getattr(self, names)):
                raise ArgumentError(f"Mesh: {sizes} is {getattr(self, sizes)}, {names} are {getattr(self, names)}",
                                    "give each axis a name")  # fmt: skip
        if (self.num_threads is None) != (self.thread_name is None):
            raise ArgumentError(f"Mesh: num_threads is {self.num_threads}, thread_name is {self.thread_name!r}",
                                "give both, or neither for one warpgroup")  # fmt: skip
        if self.num_threads is not None and not 1 <= self.num_threads <= 8:
            raise ArgumentError(f"Mesh: num_threads is {self.num_threads}",
                                "it counts warpgroups of 128 threads; a block has 1 to 8 of them")  # fmt: skip
        if len(set(self.names)) != len(self.names):
            raise ArgumentError(f"Mesh: the axes are named {self.names}", "give each axis a name of its own")
        if any(n < 1 for n in (*self.grid, *self.cluster)):
            raise ArgumentError(f"Mesh: the grid {self.grid} of clusters {self.cluster} has no blocks",
                                "give each axis 1 or more")  # fmt: skip
        if self.blocks > MOST_BLOCKS:
            raise UnsupportedError(f"a cluster of {self.cluster} blocks", f"give 1 to {MOST_BLOCKS}")

    @property
    def names(self) -> tuple[Any, ...]:
        return (*self.grid_names, *self.cluster_names, *(() if self.thread_name is None else (self.thread_name,)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The grid of the Kernel: the blocks, and last the warpgroups of a block."""
        return (*self.grid, *self.cluster, self.threads)

    @property
    def threads(self) -> int:
        return self.num_threads or 1

    @property
    def blocks(self) -> int:
        """How many a cluster has."""
        return math.prod(self.cluster)

    def strides(self, axes: Sequence[int]) -> list[tuple[int, int, int]]:
        """The size of each of some axes of a cluster, and its stride in the cluster and within these axes."""
        found = [(self.cluster[d], math.prod(self.cluster[d + 1 :])) for d in axes]
        return [(n, step, math.prod(m for m, _ in found[i + 1 :])) for i, (n, step) in enumerate(found)]

    def offsets(self, axes: Sequence[int]) -> list[int]:
        """The numbers in their cluster of the blocks that are along some axes from the first one on."""
        steps = [range(0, n * step, step) for n, step, _ in self.strides(axes)]
        return [sum(place) for place in itertools.product(*steps)]

    def cluster_axes(self, what: str, names: str | Sequence[str]) -> tuple[int, ...]:
        """The numbers of axes of a cluster that are given by name, also in tuples."""
        given = names if isinstance(names, (tuple, list)) else (names,)
        flat = [n for one in given for n in (one if isinstance(one, (tuple, list)) else (one,))]
        for name in flat:
            if name not in self.cluster_names:
                raise ArgumentError(f"{what}: {name!r} is no axis of the cluster",
                                    f"give names of `cluster_names`, {self.cluster_names}")  # fmt: skip
        return tuple(self.cluster_names.index(name) for name in flat)

    @property
    def shape(self) -> dict[Any, int]:
        return dict(zip(self.names, self.sizes, strict=False))


@dataclass(frozen=True)
class MeshSpec(GridSpec):
    """The grid of a kernel for warpgroups."""

    mesh: Mesh = field(default=Mesh(), kw_only=True)


def mesh_of(kernel: Kernel) -> Mesh | None:
    """The mesh of a kernel for warpgroups; None for any other kernel."""
    return dict(kernel.settings).get("mesh")
