"""`Template`: the kernel that a primitive becomes, as a function of tile sizes and target.

    Template ::= primitive, loops, cut, work
    Loops    ::= the extents of the loop nest that tiles cut; the loops that carry (they go innermost); those kept whole
    Parts    ::= what `kernel_call` takes, for given tiles: specs, body, scratch; and what comes after it

A template tiles its primitive and never redefines it: the body applies the primitive itself to blocks, and at
whole-array tiles it is that and nothing else.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.errors import ArgumentError
from ..core.evaluate import apply
from ..core.primitive import Primitive
from ..core.primitives.elementwise import max_p, min_p
from ..core.primitives.random import random_unwrap_p, random_wrap_p
from ..core.trace import trace_program, typeof
from ..core.types import UINT32, ArrayType, is_key
from ..lang.block import BlockSpec, Element, PrefetchScalarGridSpec
from ..lang.call import kernel_call
from ..lang.kernel import Kernel
from ..lang.ops import cdiv, program_id
from ..lang.primitive import kernel_call_p
from ..lang.target import CPU, Target, target_of
from .built import Built
from .cost import Cost, bytes_moved, resident_bytes
from .split import runs_of

Tiles = tuple[int, ...]
RUN = -1  # in the order of a grid, the runs of the shared loop


@dataclass(frozen=True)
class Loops:
    """The loop nest of an operation. `carry` and `whole` are positions in `sizes`.

    `shared` is a loop that carries and whose steps may be shared out over runs, each of which gives a partial result.
    """

    sizes: tuple[int, ...]
    carry: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    matrix: tuple[int, ...] = ()  # the loops that a matrix unit runs over
    single: tuple[int, ...] = ()  # the loops that go step by step: tile 1, unless all is one cell
    short: tuple[int, ...] = ()  # the loops whose steps a cell has one by one in its code: best a few
    shared: int | None = None

    def cut(self, tiles: Tiles) -> Cut:
        """The nest with one tile for each loop, and maybe one number more: the runs of the shared loop."""
        cut = Cut(self, tiles[: len(self.sizes)])
        if len(tiles) == len(self.sizes) or self.shared is None or 0 in self.sizes:
            return cut
        count = cut.counts[self.shared]
        return replace(cut, runs=cdiv(count, cdiv(count, tiles[-1])))


@dataclass(frozen=True)
class Cut:
    """A loop nest with its tiles: makes grids, block specs and, within a body, positions."""

    loops: Loops
    tiles: Tiles
    runs: int = 1  # that the steps of the shared loop are divided over; none of them is without a step

    @property
    def counts(self) -> tuple[int, ...]:
        """Cells along each loop; a carry loop without steps still has the one that gives the empty result."""
        return tuple(
            cdiv(n, t) if n or i not in self.loops.carry else 1
            for i, (n, t) in enumerate(zip(self.loops.sizes, self.tiles, strict=True))
        )

    @property
    def order(self) -> tuple[int, ...]:
        """The loops in the order of the grid: what carries innermost, so that a block's visits are one run."""
        carry = self.loops.carry
        return (*(i for i in range(len(self.tiles)) if i not in carry), *((RUN,) if self.runs > 1 else ()), *carry)

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(self.cells_along(i) for i in self.order)

    def cells_along(self, loop: int) -> int:
        """Cells along a loop of the grid: of the shared one, those of a run."""
        if loop == RUN:
            return self.runs
        return cdiv(self.counts[loop], self.runs) if loop == self.loops.shared else self.counts[loop]

    @property
    def cells(self) -> int:
        return math.prod(self.counts)

    def ragged(self, loop: int) -> bool:
        return self.loops.sizes[loop] % self.tiles[loop] != 0

    def split(self, loop: int) -> bool:
        return self.counts[loop] > 1

    def at(self, loop: int, ids: Sequence[Any]) -> Any:
        """The id of a loop among the ids that an index map gets; of idle cells, that of the last one that is not."""
        found = ids[self.order.index(loop)]
        if loop != self.loops.shared or self.runs == 1:
            return found
        found = ids[self.order.index(RUN)] * np.int32(self.cells_along(loop)) + found
        return min_p.bind(found, np.int32(self.counts[loop] - 1)) if self.uneven else found

    def id(self, loop: int) -> Any:
        """The id of a loop, within a body; of the shared one, within its run."""
        return program_id(self.order.index(loop))

    @property
    def uneven(self) -> bool:
        """Whether the last run has cells with nothing to do."""
        shared = self.loops.shared
        return shared is not None and self.cells_along(shared) * self.runs > self.counts[shared]

    def busy(self) -> Any:
        """Whether a cell has something to do, within a body."""
        shared = self.loops.shared
        if shared is None or not self.uneven:
            return True
        return self.id(RUN) * self.cells_along(shared) + self.id(shared) < self.counts[shared]

    def spec(self, follows: Sequence[int | None], shape: Sequence[int], scales: Sequence[int] | None = None,
             fill: Any = None) -> BlockSpec:  # fmt: skip
        """Blocks of an array each axis of which follows a loop, in `scales` elements a step, or is kept whole."""
        if not shape:
            return BlockSpec()
        scales = scales or [1] * len(shape)
        sizes = tuple(
            max(n, 1) if loop is None else self.tiles[loop] * scale
            for loop, n, scale in zip(follows, shape, scales, strict=True)
        )

        def index_map(*ids: Any) -> tuple[Any, ...]:
            return tuple(np.int32(0) if loop is None else self.at(loop, ids) for loop in follows)

        return BlockSpec(sizes, index_map, fill=fill)

    def carry_ids(self) -> list[tuple[Any, int]]:
        """The ids of the loops that carry and are cut, with their counts, within a body."""
        return [(self.id(i), n) for i in self.loops.carry if (n := self.cells_along(i)) > 1]

    def first(self) -> Any:
        """Whether a cell is the first of its run along the carry loops; the constant True without any."""
        return functools.reduce(both, [i == 0 for i, _ in self.carry_ids()], True)

    def last(self) -> Any:
        """Whether a cell is the last of its run along the carry loops."""
        return functools.reduce(both, [i == n - 1 for i, n in self.carry_ids()], True)


def both(a: Any, b: Any) -> Any:
    """Two conditions as one, each of which may be the constant True."""
    return b if a is True else a if b is True else a & b


@dataclass(frozen=True)
class Window:
    """One axis of `n` elements cut in blocks of `size` that start at `base + step * id`, in the array or partly before
    or after it; `more` are other loops that move the start, with their steps.

    Blocks that would lie wholly outside are moved until one element is inside; their content is not to be used.
    """

    loop: int
    base: int
    step: int
    size: int
    n: int
    more: tuple[tuple[int, int], ...] = ()

    def start(self, id_of: Callable[[int], Any], size: int = 1) -> Any:
        """Where a block starts, in units of `size`, from the ids of loops."""
        found = id_of(self.loop) * np.int32(self.step // size) + np.int32(self.base // size)
        for loop, step in self.more:
            found = found + id_of(loop) * np.int32(step // size)
        return found

    def starts(self, cut: Cut) -> tuple[int, int]:
        """The least start and the greatest."""
        moves = [(cut.counts[loop] - 1) * step for loop, step in ((self.loop, self.step), *self.more)]
        return self.base + sum(min(m, 0) for m in moves), self.base + sum(max(m, 0) for m in moves)

    def block(self, cut: Cut) -> tuple[Any, Callable[[Sequence[Any]], Any]]:
        """The entry of a block shape, and its index as a function of the ids that an index map gets."""
        size, n = self.size, self.n
        low, high = self.starts(cut)
        if low >= 0 and high < n and all(k % size == 0 for k in (self.base, self.step, *(k for _, k in self.more))):
            return size, lambda ids: self.start(lambda loop: cut.at(loop, ids), size)
        least, most = max(low, 1 - size), min(high, n - 1)
        padding = (max(0, -least), max(0, most + size - n))

        def index(ids: Sequence[Any]) -> Any:
            start = self.start(lambda loop: cut.at(loop, ids))
            if (least, most) != (low, high):
                start = max_p.bind(min_p.bind(start, np.int32(most)), np.int32(least))
            return start + np.int32(padding[0])

        return Element(size, padding), index


def windows(cut: Cut, axes: Sequence[Window | int | None], shape: Sequence[int], fill: Any = None) -> BlockSpec:
    """Blocks each axis of which is a window, follows a loop, or is whole."""
    entries = []
    for axis, n in zip(axes, shape, strict=True):
        if isinstance(axis, Window):
            entries.append(axis.block(cut))
        elif axis is None:
            entries.append((max(n, 1), lambda ids: np.int32(0)))
        else:
            entries.append((cut.tiles[axis], functools.partial(cut.at, axis)))

    def index_map(*ids: Any) -> tuple[Any, ...]:
        return tuple(index(ids) for _, index in entries)

    return BlockSpec(tuple(size for size, _ in entries), index_map, fill=fill) if entries else BlockSpec()


@dataclass(frozen=True)
class Parts:
    """A kernel in the author's terms. `args`: which operand each input is (prefetched ones first).

    `views`: by number, operands that it takes in another shape, of the same elements; `outs`: its results where they
    are not the primitive's, which are then views of them, or what the kernel `then` makes of them.
    """

    body: Callable[..., None]
    in_specs: Sequence[BlockSpec]
    out_specs: Sequence[BlockSpec]
    scratch: Sequence[Any] = ()
    args: Sequence[int] | None = None
    prefetch: int = 0
    aliases: dict[int, int] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None
    views: dict[int, tuple[int, ...]] = field(default_factory=dict)
    outs: Sequence[ArrayType] | None = None
    then: Callable[[Target], Kernel] | None = None


@dataclass(frozen=True, eq=False)
class Template:
    """How a primitive becomes a kernel.

    `loops(types, params)` gives the loop nest, `cut(types, outs, params, cut)` the `Parts` for given tiles and
    `work(types, outs, params)` its operations and calls of transcendental functions, whatever the tiles are.
    """

    family: str
    primitive: Primitive
    loops: Callable[[Sequence[ArrayType], dict[str, Any]], Loops]
    cut: Callable[[Sequence[ArrayType], Sequence[ArrayType], dict[str, Any], Cut], Parts]
    work: Callable[[Sequence[ArrayType], Sequence[ArrayType], dict[str, Any]], tuple[int, int]]

    @property
    def name(self) -> str:
        return self.primitive.name

    def __call__(self, *args: Any, tiles: Tiles | None = None, target: str | Target = CPU, **params: Any) -> Any:
        """The primitive applied to arrays, as a kernel; results as the primitive gives them."""
        types: list[Any] = [typeof(a) for a in args]
        built = self.build(*types, tiles=tiles, target=target, **params)
        raw = [random_unwrap_p.bind(a) if is_key(t.dtype) else a for a, t in zip(args, types, strict=True)]
        outs = built.run(lambda kernel, *xs: kernel_call_p.bind(*xs, kernel=kernel), raw)
        wanted = self.results(types, params)
        return self.unpacked(
            [random_wrap_p.bind(o, impl=t.dtype) if is_key(t.dtype) else o for o, t in zip(outs, wanted, strict=True)]
        )

    def kernel(self, *types: ArrayType, tiles: Tiles | None = None, target: str | Target = CPU, **params: Any
               ) -> Kernel:  # fmt: skip
        """The (first) kernel for operands of some types; `tiles` has one size per loop, the target's default without.

        A last number more is into how many runs the shared loop is divided, if there is one.

        Raises:
          ArgumentError: tiles that are not one per loop, or that the target cannot hold.
        """
        return self.build(*types, tiles=tiles, target=target, **params).kernels[0]

    def unpacked(self, outs: Sequence[Any]) -> Any:
        """A kernel's results as the primitive gives its own."""
        return list(outs) if self.primitive.multiple else outs[0]

    def reference(self, *arrays: Any, **params: Any) -> Any:
        """The meaning, in NumPy."""
        return apply(self.primitive, arrays, params)

    def results(self, types: Sequence[ArrayType], params: dict[str, Any]) -> list[ArrayType]:
        found = self.primitive.typing(*types, **params)
        return [t.strong() for t in (found if self.primitive.multiple else [found])]

    def cost(self, *types: ArrayType, tiles: Tiles | None = None, target: str | Target = CPU, **params: Any) -> Cost:
        """Operations, transcendental functions, and bytes moved at some tiles."""
        flops, transcendentals = self.work(types, self.results(types, params), params)
        built = self.build(*types, tiles=tiles, target=target, **params)
        return Cost(flops, transcendentals, sum(map(bytes_moved, built.kernels)))

    # ------------------------------------------------------------------------ tiles

    def whole(self, *types: ArrayType, **params: Any) -> Tiles:
        """The tiles at which the kernel is one cell: the primitive itself."""
        return tuple(max(n, 1) for n in self.loops(types, params).sizes)

    def default(self, *types: ArrayType, target: str | Target = CPU, **params: Any) -> Tiles:
        """Sensible tiles on a target: the whole array on a CPU, else the first of the candidates."""
        return self.candidates(*types, target=target, **params)[0]

    def candidates(self, *types: ArrayType, target: str | Target = CPU, **params: Any) -> tuple[Tiles, ...]:
        """Tiles worth trying on a target, all of which it can hold; the default first."""
        target = target_of(target)
        loops = self.loops(types, params)
        whole = tuple(max(n, 1) for n in loops.sizes)
        if target.whole_arrays:
            return (whole,)
        options = [target.tile_sizes(n, loops, i) for i, n in enumerate(loops.sizes)]
        first = self._grown(types, params, target, loops, options)
        found = [first]
        for i in itertools.chain(loops.matrix, range(len(whole) - 1, -1, -1)):
            for size in options[i]:
                tiles = (*first[:i], size, *first[i + 1 :])
                if tiles not in found and self.bytes_held(types, params, tiles) <= target.block_bytes:
                    found.append(tiles)
        return (*self.shared(types, params, target, first), *found)

    def shared(self, types: Any, params: Any, target: Target, tiles: Tiles) -> list[Tiles]:
        """Tiles with runs, where cells are fewer than half of the target's cores; the best number first."""
        loops = self.loops(types, params)
        if loops.shared is None or 0 in loops.sizes:
            return []
        parts = self.cut(types, self.results(types, params), params, loops.cut((*tiles, 2)))
        if parts.then is None or parts.outs is None:  # a loop of one step
            return []
        counts = loops.cut(tiles).counts
        cells = math.prod(n for i, n in enumerate(counts) if i not in loops.carry)
        partial = sum(t.nbytes // t.shape[0] for t in parts.outs)
        moved = sum(t.nbytes for t in types)
        return [(*tiles, n) for n in runs_of(cells, counts[loops.shared], target.units, moved, partial)]

    def _grown(self, types: Any, params: Any, target: Target, loops: Loops, options: Sequence[Sequence[int]]) -> Tiles:
        """The largest tiles that fit, the innermost loops (of a matrix unit first) grown first."""
        tiles = [options[i][0] for i in range(len(loops.sizes))]
        order = [*loops.matrix, *(i for i in range(len(tiles) - 1, -1, -1) if i not in loops.matrix)]
        for i in order:
            for size in options[i]:
                trial = (*tiles[:i], size, *tiles[i + 1 :])
                if i not in loops.whole and self.bytes_held(types, params, trial) <= target.block_bytes:
                    tiles[i] = size
        return tuple(tiles)

    def bytes_held(self, types: Sequence[ArrayType], params: dict[str, Any], tiles: Tiles) -> int:
        """The bytes of fast memory that one cell's blocks take (twice, for the next ones come in meanwhile)."""
        outs = self.results(types, params)
        parts = self.cut(types, outs, params, self.loops(types, params).cut(tiles))
        order = parts.args if parts.args is not None else range(len(types))
        arrays = [*(_viewed(types[i], parts.views.get(i)) for i in order[parts.prefetch :]),
                  *(raw_type(t) for t in parts.outs or outs)]  # fmt: skip
        specs = (*parts.in_specs, *parts.out_specs)
        shapes = [(_sizes(s, a), a.dtype.itemsize) for s, a in zip(specs, arrays, strict=True)]
        held = [(s.shape, s.dtype.itemsize) for s in parts.scratch]
        return 2 * resident_bytes(shapes) + resident_bytes(held)

    # ------------------------------------------------------------------------ the kernel

    def build(self, *types: ArrayType, tiles: Tiles | None = None, target: str | Target = CPU, **params: Any) -> Built:
        """The kernels, and which operand each input of the first is."""
        target = target_of(target)
        outs = self.results(types, params)
        loops = self.loops(types, params)
        if tiles is None:
            tiles = self.default(*types, target=target, **params)
        kernel, order, then = self.first(types, params, self._checked(types, params, loops, tuple(tiles), target))
        kernels = (kernel,) if then is None else (kernel, then(target))
        return Built(kernels, order, tuple(raw_type(t).shape for t in outs))

    def first(self, types: Sequence[ArrayType], params: dict[str, Any], tiles: Tiles
              ) -> tuple[Kernel, tuple[int, ...], Callable[[Target], Kernel] | None]:  # fmt: skip
        """The first kernel at tiles that are known to fit, which operand each of its inputs is, and what comes next."""
        outs, cut = self.results(types, params), self.loops(types, params).cut(tiles)
        if all(0 in t.shape for t in outs):
            parts = Parts(lambda *refs: None, [], [BlockSpec()] * len(outs), args=(), grid=(0,))
        else:
            parts = self.cut(types, outs, params, cut)
        order = tuple(range(len(types))) if parts.args is None else tuple(parts.args)
        kernel = self.of_parts(parts, [_viewed(types[i], parts.views.get(i)) for i in order], parts.outs or outs, cut)
        return kernel, order, parts.then

    def of_parts(self, parts: Parts, types: Sequence[ArrayType], outs: Sequence[ArrayType], cut: Cut) -> Kernel:
        """The kernel of some parts; `types` are those of its inputs."""
        spec = PrefetchScalarGridSpec(
            parts.prefetch, cut.grid if parts.grid is None else parts.grid, list(parts.in_specs),
            list(parts.out_specs), list(parts.scratch)
        )  # fmt: skip
        results = [raw_type(t) for t in outs]
        call = kernel_call(parts.body, results, grid_spec=spec, name=self.name, input_output_aliases=parts.aliases)
        program = trace_program(lambda *xs: call(*xs), list(types), self.name)
        return program.eqns[-1].params["kernel"]

    def _checked(self, types: Any, params: Any, loops: Loops, tiles: Tiles, target: Target) -> Tiles:
        more = len(tiles) - len(loops.sizes)
        if more not in (0, 1) or (more and loops.shared is None) or any(t < 1 for t in tiles):
            raise ArgumentError(
                f"template {self.name}: tiles {tiles} for loops of {loops.sizes}",
                "give one positive size for each" + ", and no more than the runs" * (loops.shared is not None)
            )  # fmt: skip
        for i in loops.whole:
            if tiles[i] < loops.sizes[i]:
                raise ArgumentError(
                    f"template {self.name}: loop {i} of {loops.sizes} is cut by the tile {tiles[i]}",
                    "this loop is kept whole: its tile is its size")  # fmt: skip
        if any(tiles[i] != 1 for i in loops.single) and loops.cut(tiles).cells > 1:
            raise ArgumentError(
                f"template {self.name}: tiles {tiles} for loops of {loops.sizes}",
                f"loops {loops.single} go step by step: their tiles are 1")  # fmt: skip
        if not target.whole_arrays and (held := self.bytes_held(types, params, tiles)) > target.fast_bytes:
            raise ArgumentError(
                f"template {self.name}: tiles {tiles} take {held} bytes, {target.name} holds {target.fast_bytes}",
                "use smaller tiles, or those of `candidates`")  # fmt: skip
        return tiles


def _sizes(spec: BlockSpec, array: ArrayType) -> tuple[int, ...]:
    if spec.block_shape is None:
        return array.shape
    return tuple(1 if s is None else getattr(s, "block_size", s) for s in spec.block_shape)


def _viewed(t: ArrayType, shape: tuple[int, ...] | None) -> ArrayType:
    return raw_type(t) if shape is None else ArrayType(shape, t.dtype)


def raw_type(t: ArrayType) -> ArrayType:
    """What a kernel sees of an operand: random keys as their words."""
    return ArrayType((*t.shape, t.dtype.words), UINT32) if is_key(t.dtype) else t.strong()
