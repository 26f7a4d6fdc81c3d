"""The meaning of a kernel, in NumPy: cells one after the other in grid order.

A block is copied in when a cell's index differs from the one before it, and an output block copied out
when its run of cells ends. What nothing has written is poison: NaN, the least integer, or the greatest where none is
negative. Modes (`InterpretParams`) find races, run parallel cells in a random order, and tell which block moves when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...core.ir.program import Effect, Eqn
from ...core.ir.types import FAR, MemorySpace
from ...core.support.errors import ArgumentTypeError, CheckError, OutOfBoundsError
from ...core.tracing.numpy_interpreter import evaluate, observing
from ..analysis.facts import analyse
from ..analysis.loop_carried import only_atomic
from ..kernel.kernel import EDGE, Block, Kernel
from ..ops.interpret_params import DEFAULT, InterpretParams, Run, poison, run_as
from ..transforms.desugar import desugared
from ..transforms.dynamic_grid import actual
from ..warpgroups.specs import mesh_of
from .race_detector import Races
from .warpgroups import interpret_mesh


def block_index(block: Block, ids: Sequence[int], prefetched: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Which block a cell sees."""
    if block.index_map is None:
        return (0,) * block.array.ndim
    return tuple(int(i) for i in evaluate(block.index_map, *map(np.int32, ids), *prefetched))


class _Resident:
    """The block of one operand that is in reach of the cell at hand."""

    def __init__(self, kernel: Kernel, block: Block, array: np.ndarray, defined: bool, writable: bool):
        self.kernel, self.block, self.array = kernel, block, array
        self.defined, self.writable = defined or block.space in FAR, writable
        self.index: tuple[int, ...] | None = None
        self.whole = poison(block.sizes, block.array.dtype)

    @property
    def ref(self) -> np.ndarray:
        return self.seen(self.whole)

    def seen(self, whole: np.ndarray) -> np.ndarray:
        """Something of the block's sizes as the body sees it."""
        return whole.reshape(self.block.shape)

    def _places(self, index: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The in-bounds part of a block, as slices of the array and of the block."""
        inner, outer = [], []
        block = self.block
        for d, (i, axis, n) in enumerate(zip(index, block.axes, self.array.shape, strict=True)):
            start = axis.start(i)
            low = min(max(start, 0), n)
            high = max(min(start + axis.size, n), low)
            if n and low == high and not axis.fits(start, n):
                raise OutOfBoundsError(
                    f"kernel {self.kernel.name}: operand {block.name} of {block.array.show()}: block {index} "
                    f"of sizes {block.sizes} starts at {start} along axis {d}, past the end {n}",
                    "keep the index map within the operand", self.kernel.source)  # fmt: skip
            outer.append(slice(low, high))
            inner.append(slice(low - start, high - start))
        return tuple(outer), tuple(inner)

    def positions(self) -> np.ndarray:
        """For each element of the resident block, its place in the array in row-major order; -1 outside."""
        assert self.index is not None
        outer, inner = self._places(self.index)
        found = np.full(self.block.sizes, -1, np.int64)
        found[inner] = np.arange(self.array.size).reshape(self.array.shape)[outer]
        return found

    def enter(self, index: tuple[int, ...]) -> bool:
        """Make block `index` the resident one, as it is in the array (outputs: undefined unless aliased).

        Gives whether it was not the resident one before.
        """
        if index == self.index:
            return False
        self.leave()
        self.index = index
        outer, inner = self._places(index)
        self.whole = poison(self.block.sizes, self.block.array.dtype)
        if self.block.fill is EDGE and self.defined:
            places = [
                np.clip(o.start - i.start + np.arange(size), 0, n - 1)
                for o, i, size, n in zip(outer, inner, self.block.sizes, self.array.shape, strict=True)
            ]
            self.whole = self.array[np.ix_(*places)]
            return True
        if (self.defined or not self.writable) and self.block.fill is not None:
            self.whole[...] = self.block.fill
        if self.defined:
            self.whole[inner] = self.array[outer]
        return True

    def leave(self) -> None:
        """Copy the resident block back to the array, if it is an output's."""
        if self.writable and self.index is not None:
            outer, inner = self._places(self.index)
            self.array[outer] = self.whole[inner]
        self.index = None


Watcher = Callable[[tuple[int, ...], list[tuple[int, ...]]], None]


def parallel_axes(kernel: Kernel) -> tuple[int, ...]:
    """The grid axes whose cells may run in any order: those declared so, or else those that carry nothing."""
    if kernel.semantics is not None:
        return tuple(a for a, s in enumerate(kernel.semantics) if s == "parallel")
    return tuple(a for a in range(len(kernel.grid)) if a not in analyse(desugared(kernel)).carry)


class Machine:
    """A kernel being interpreted."""

    inside: Any
    kernel: Kernel
    run_state: Run
    params: InterpretParams
    watch: Watcher | None
    inputs: list[_Resident]
    loads: list[bool]

    def __init__(self, kernel: Kernel, arrays: Sequence[Any], run: Run, watch: Watcher | None):
        sizes = [np.asarray(a) for a in arrays[: len(kernel.prefetch)]]
        kernel, self.inside = actual(kernel, sizes)
        self.kernel, self.run_state, self.params, self.watch = kernel, run, run.params, watch
        given = [np.asarray(a) for a in arrays]
        self.prefetched: list[np.ndarray] = [a.copy() for a in given[: len(kernel.prefetch)]]
        rest = given[len(kernel.prefetch) :]
        starts = {o: rest[i] for i, o in kernel.aliases}
        self.inputs = [_Resident(kernel, b, a, True, False) for b, a in zip(kernel.inputs, rest, strict=True)]
        self.outputs: list[Any] = []
        for o, block in enumerate(kernel.outputs):
            start = starts[o].copy() if o in starts else poison(block.array.shape, block.array.dtype)
            self.outputs.append(_Resident(kernel, block, start, o in starts, True))
        self.residents: list[Any] = [*self.inputs, *self.outputs]
        asked = (self.params.detect_races or self.params.random_seed is not None) and not run.together
        self.parallel: tuple[int, ...] | tuple[()] = parallel_axes(kernel) if asked else ()
        self.races: Races | None = Races(kernel, self.parallel) if self.params.detect_races and asked else None
        atomic = [only_atomic(kernel, o) for o in range(len(kernel.outputs))]
        first = kernel.splits[1]
        self.loads = [Effect("read", first + i) in kernel.body.effects for i in range(len(self.inputs))]
        self.loads += [not a for a in atomic]
        self.stores: list[str] = [*[""] * len(self.inputs), *("updates" if a else "writes" for a in atomic)]
        self.fresh_scratch()

    def fresh_scratch(self) -> None:
        self.scratch: list[np.ndarray] = [
            np.zeros(s.shape, s.dtype) if s.space is MemorySpace.SEMAPHORE else poison(s.shape, s.dtype)
            for s in self.kernel.scratch
        ]

    def semaphores(self) -> dict[str, np.ndarray]:
        """What each semaphore holds, by its name."""
        start = self.kernel.splits[3]
        return {
            self.kernel.scratch_name(start + n): held
            for n, (type, held) in enumerate(zip(self.kernel.scratch, self.scratch, strict=True))
            if type.space is MemorySpace.SEMAPHORE
        }

    def groups(self) -> list[list[tuple[int, ...]]]:
        """The cells in the order they run; a new group starts with nothing resident and fresh scratch."""
        cells = list(np.ndindex(*self.kernel.grid))
        if self.inside is not None:
            cells = [ids for ids in cells if self.inside(ids)]
        if self.params.random_seed is None or self.run_state.together:
            return [cells]
        found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for ids in cells:
            found.setdefault(tuple(ids[a] for a in self.parallel), []).append(ids)
        groups = list(found.values())
        order = np.random.default_rng(self.params.random_seed).permutation(len(groups))
        return [groups[i] for i in order]

    def run(self) -> list[np.ndarray]:
        for number, group in enumerate(self.groups()):
            if number:
                self.leave()
                self.fresh_scratch()
            for ids in group:
                self.cell(ids)
            self.run_state.finish(self.semaphores())
        self.leave()
        return [r.array for r in self.outputs]

    def leave(self) -> None:
        stored = [r for r in self.outputs if r.index is not None]
        for resident in stored:
            self.copied_out(resident)
        self.tell("", [f"{r.block.name}{list(r.index or ())} stored" for r in stored])
        for resident in self.residents:
            resident.leave()

    def tell(self, cell: str, moves: Sequence[str]) -> None:
        if self.params.trace and (moves or cell):
            line = f"{self.kernel.name}{cell}: " + (", ".join(moves) or "nothing moves")
            (print if self.params.trace is True else self.params.trace)(line)

    def copied_out(self, resident: _Resident) -> None:
        """A block that is about to be copied out is written by the cell at hand."""
        if self.races is not None and resident.index is not None and resident.block.space not in FAR:
            number = self.residents.index(resident)
            self.races.touch(self.races.memories[number], resident.positions(), self.stores[number])

    def cell(self, ids: tuple[int, ...]) -> None:
        if self.races is not None and self.races.crosses(ids):
            self.leave()  # parallel cells have no blocks in common
        indices = [block_index(r.block, ids, self.prefetched) for r in self.residents]
        self.run_state.cell = ids
        if self.watch is not None:
            self.watch(ids, indices)
        if self.params.grid_point_recorder is not None:
            self.params.grid_point_recorder(ids)
        self.move(ids, indices)
        refs = [r.ref.copy() for r in self.inputs] + [r.ref for r in self.outputs]
        self.run_state.enter([*refs, *self.scratch])
        if self.races is not None:
            for resident, ref, memory in zip(self.residents, refs, self.races.memories, strict=True):
                if resident.block.space in FAR:
                    self.races.reach(ref, memory, resident.seen(resident.positions()))
        try:
            evaluate(self.kernel.body, *map(np.int32, ids), *self.prefetched, *refs, *self.scratch)
        except CheckError as error:
            what = f"kernel {self.kernel.name}, cell {ids}: {error.what}"
            raise type(error)(what, error.remedy, error.source) from None

    def move(self, ids: tuple[int, ...], indices: Sequence[tuple[int, ...]]) -> None:
        """Bring the blocks of a cell in, and those it no longer sees out."""
        moves = []
        for resident, index in zip(self.residents, indices, strict=True):
            if resident.index == index:
                continue
            if resident.writable and resident.index is not None:
                moves.append(f"{resident.block.name}{list(resident.index)} stored")
                self.copied_out(resident)  # by the cell before, to which `races.cell` still points
        if self.races is not None:
            self.races.enter(ids)
        for number, (resident, index) in enumerate(zip(self.residents, indices, strict=True)):
            if not resident.enter(index):
                continue
            moves.append(f"{resident.block.name}{list(index)} {'loaded' if resident.defined else 'entered'}")
            watched = self.loads[number] and resident.defined and resident.block.space not in FAR
            if self.races is not None and watched:
                self.races.touch(self.races.memories[number], resident.positions(), "reads")
        self.tell(f" {ids}", moves)

    def observe(self, eqn: Eqn, values: list[Any]) -> None:
        self.run_state.source = eqn.source
        if self.races is not None:
            self.races.observe(eqn, values)


def interpret(
    kernel: Kernel, *arrays: Any, watch: Watcher | None = None, params: InterpretParams | None = None
) -> list[np.ndarray]:
    """Run a kernel cell by cell; gives its outputs.

    `params` are the modes (those of the kernel where not given). `watch(ids, block_indices)` is called before
    each cell, with the index of each input's and output's block.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(x, o):
    ...     o[...] = x[...] * tl.program_id(0)
    >>> block = tl.BlockSpec((2,), lambda i: (i,))
    >>> call = tl.kernel_call(body, tw.ShapeDtypeStruct((4,), "float32"), grid=2, in_specs=[block], out_specs=block)
    >>> x = np.ones(4, "float32")
    >>> kernel = tw.make_jaxpr(call)(x).eqns[0].params["kernel"]
    >>> interpret(kernel, x)[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    if not isinstance(kernel, Kernel):
        raise ArgumentTypeError(f"lang.interpret: {kernel!r} is no Kernel",
                                "have a call interpreted: `kernel_call(body, ..., interpret=True)`")  # fmt: skip
    if params is None:
        params = kernel.interpret if isinstance(kernel.interpret, InterpretParams) else DEFAULT
    if mesh_of(kernel) is not None:
        return interpret_mesh(kernel, arrays, params)
    with run_as(Run(kernel.name, params)) as run:
        machine = Machine(kernel, arrays, run, watch)
        with observing(machine.observe) if kernel.cells else nullcontext():
            return machine.run()
