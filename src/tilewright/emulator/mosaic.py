"""The Mosaic TPU dialect: a kernel's function run over its grid, with the windows that its attributes describe.

A window's block is copied in when its index changes, an output's copied out when its run of equal indices ends. An
output's block starts as poison, and so is what a block has beyond the end of its array; that is not stored either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mosaic.python import tpu

from ..core.support.errors import EmulationError, OutOfBoundsError, RaceError, SemaphoreError, plural
from ..core.support.memo import once
from . import arith, memrefs, vectors
from .core import Machine, Op, Rule, Run, as_ints, reading, region
from .memrefs import MemRef, Semaphore, allocate, space_of
from .values import Type, convert_type, poison

DYNAMIC = np.iinfo(np.int64).min
IN_FLIGHT = 3  # cells from a block's copy out until a copy in is sure to see it: both run ahead or behind by one


class MosaicMachine(Machine):
    """A module of the Mosaic dialect, with the state of what runs it; `core`: one device of several."""

    def __init__(self, module: ir.Module, core: Any = None):
        super().__init__(module, RULES)
        self.core = core
        self.meeting: MemRef | None = None  # the barrier semaphore
        self.grid: tuple[int, ...] = ()
        self.semaphores: list[Semaphore] = []
        self.random: np.random.Generator = np.random.default_rng(0)
        self.printed: list[tuple[str, list[np.ndarray]]] = []

    def settle(self) -> None:
        """Every copy and signal has been waited for."""
        if not all(s.settled() for s in self.semaphores):
            raise SemaphoreError("the kernel ends with a copy in flight, or a semaphore above zero")
        self.semaphores.clear()

    def allocate(self, type: Type, name: str) -> MemRef:
        """Fresh memory. Of several devices, semaphores are plain counts."""
        made = allocate(type)
        counts = made.space == "semaphore_mem"
        if self.core is not None:
            made = MemRef(np.zeros(type.shape, np.int32), made.space) if counts else made
            self.core.add(made.array, name, counts)
        elif counts:
            self.semaphores.extend(made.array.flat)
        return made

    def barrier(self) -> MemRef:
        if self.meeting is None:
            raise EmulationError("the barrier semaphore, on one device")
        return self.meeting


# ---------------------------------------------------------------------------------------------- state of the core


def _iteration_bound(op: Op) -> Run:
    machine, axis = op.machine, op.int("dim")
    return lambda: np.asarray(machine.grid[axis], op.result.dtype)


def _zero(op: Op) -> Run:
    return lambda: np.asarray(0, op.result.dtype)


def _seed(op: Op) -> Run:
    def run(*seeds: Any) -> None:
        op.machine.random = np.random.default_rng([int(s) % 2**32 for s in seeds])

    return run


def _random_bits(op: Op) -> Run:
    def run() -> Any:
        words = op.machine.random.integers(0, 2**32, op.result.shape, np.uint32)
        return words.view(np.int32)

    return run


def _log(op: Op) -> Run:
    tag, machine = op.text("tag"), op.machine
    return lambda *values: machine.printed.append(
        (tag, [np.array(v.array if isinstance(v, MemRef) else v) for v in values])
    )


def _nothing(op: Op) -> Run:
    return lambda *_: None


RULES: dict[str, Rule] = {
    **arith.RULES,
    **memrefs.RULES,
    **vectors.RULES,
    "tpu.iteration_bound": _iteration_bound,
    "tpu.core_id": _zero,
    "tpu.prng_set_seed_32": _seed,
    "tpu.prng_random_bits": _random_bits,
    "tpu.log": _log,
    "tpu.log_buffer": _log,
    "tpu.region": region,
    "tpu.trace": region,
    "tpu.trace_start": _nothing,
    "tpu.trace_stop": _nothing,
    "tpu.trace_value": _nothing,
    "tpu.delay": _nothing,
}


# ---------------------------------------------------------------------------------------------- windows


class Window:
    """One operand of the kernel: the block that the cell at hand sees, or the whole array."""

    number: int
    array: np.ndarray
    output: bool
    type: Type
    space: str
    owner: np.ndarray
    padding: list[int]
    element: bool

    def __init__(self, number: int, type: Type, array: np.ndarray, given: ir.DictAttr | None, output: bool):
        if type.dtype is None or type.dtype.itemsize != array.dtype.itemsize:
            raise EmulationError(f"operand {number} is {type.text}, and is given an array of {array.dtype}")
        self.number, self.array, self.output = number, array.view(type.dtype), output
        self.type, self.space = type, space_of(type)
        self.transform: str | None = None
        self.index: tuple[int, ...] | None = None
        self.run = 0  # of cells that are equal along the parallel axes: which one, from 1
        self.written: np.ndarray | None = None  # for memory shared with an output: in which cell, from 1
        self.owner = np.zeros(array.shape if output else (), np.int64)  # which run of cells copied each element out
        if given is None or "transform_indices" not in given:
            if type.shape != array.shape:
                raise EmulationError(f"operand {number} is {type.text}, and is given an array of shape {array.shape}")
            self.block = self.array if self.whole else self.array.copy()
            return
        self.transform = ir.FlatSymbolRefAttr(given["transform_indices"]).value
        self.sizes: tuple[int, ...] = tuple(as_ints(given["window_bounds"]))
        if self.sizes != type.shape:
            raise EmulationError(f"operand {number} is {type.text}, and its window has sizes {self.sizes}")
        self.padding, self.element = self._kind(given)
        self.block: np.ndarray = poison(self.sizes, self.array.dtype)

    @property
    def whole(self) -> bool:
        """Whether the body reaches the array itself."""
        return self.transform is None and self.space in ("any", "hbm")

    def _kind(self, given: ir.DictAttr) -> tuple[list[int], bool]:
        """Elements before the start, and whether an index counts elements rather than blocks."""
        if "window_kind" not in given:
            return [0] * len(self.sizes), False
        found = vectors.lists(str(given["window_kind"]))
        return found[0], True

    def ref(self) -> MemRef:
        return MemRef(self.block, self.space, not self.output and self.written is None)

    def places(self, index: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Where a block lies in the array, and that part within the block."""
        inner, outer = [], []
        for axis, (i, size, n, before) in enumerate(zip(index, self.sizes, self.array.shape, self.padding)):
            start = i - before if self.element else i * size
            low, high = max(start, 0), min(start + size, n)
            if low >= high or (start < 0 and not self.element):
                raise OutOfBoundsError(
                    f"operand {self.number}: block {index} of {self.sizes} starts at {start} of axis {axis} of an "
                    f"array {self.array.shape}"
                )
            outer.append(slice(low, high))
            inner.append(slice(low - start, high - start))
        return tuple(outer), tuple(inner)

    def enter(self, index: tuple[int, ...], cell: int, run: int) -> None:
        """The block that a cell sees; `run` is that of its place along the parallel axes."""
        if self.transform is None or (index == self.index and (run == self.run or not self.output)):
            return
        self.leave(cell)
        self.run: int = run
        self.index = index
        outer, inner = self.places(index)
        self.block[...] = poison((), self.array.dtype)
        if self.output:
            return
        if self.written is not None and (cell - self.written[outer] < IN_FLIGHT)[self.written[outer] > 0].any():
            raise RaceError(f"operand {self.number}: block {index} is copied in while an output that shares its memory "
                            "is being copied out")  # fmt: skip
        self.block[inner] = self.array[outer]

    def leave(self, cell: int) -> None:
        """Copy an output's block out."""
        if not self.output or self.whole:
            return
        if self.transform is None:
            self.array[...] = self.block
        elif self.index is not None:
            outer, inner = self.places(self.index)
            if ((self.owner[outer] != 0) & (self.owner[outer] != self.run)).any():
                raise RaceError(f"race: result {self.number}: block {self.index} is written by unordered cells "
                                "along parallel axes")  # fmt: skip
            self.owner[outer] = self.run
            self.array[outer] = self.block[inner]
            if self.written is not None:
                self.written[outer] = cell
        self.index = None


@dataclass
class Kernel:
    """What the attributes of a kernel's function say."""

    machine: MosaicMachine
    name: str
    types: list[Type]
    bounds: list[int]
    semantics: list[str]
    prefetch: int
    scratch: int
    windows: list[ir.DictAttr | None]

    @classmethod
    def of(cls, machine: MosaicMachine) -> Kernel:
        name = machine.entry()
        source = machine.sources[name]
        types = [convert_type(a.type) for a in source.regions[0].blocks[0].arguments]
        attributes = source.attributes

        def number(key: str) -> int:
            return ir.IntegerAttr(attributes[key]).value if key in attributes else 0

        bounds = as_ints(attributes["iteration_bounds"]) if "iteration_bounds" in attributes else []
        given = attributes["dimension_semantics"] if "dimension_semantics" in attributes else "[]"
        semantics = re.findall(r"<(\w+)>", str(given))
        prefetch, scratch = number("scalar_prefetch"), number("scratch_operands")
        operands = len(types) - len(bounds) - prefetch - scratch
        if "window_params" in attributes:
            windows: list[Any] = [ir.DictAttr(w) for w in ir.ArrayAttr(attributes["window_params"])]
        else:
            windows = [None] * operands
        if len(windows) != operands or len(semantics) != len(bounds):
            raise EmulationError(
                f"@{name} takes {plural(len(types), 'argument')}, which is not {len(bounds)} ids, {prefetch} scalars, "
                f"{len(windows)} windows and {scratch} scratch operands"
            )
        return cls(machine, name, types, bounds, semantics, prefetch, scratch, windows)

    def run_of(self, ids: Sequence[int], grid: Sequence[int]) -> int:
        """The number of a cell's place along the parallel axes, from 1."""
        number = 0
        for i, n, semantic in zip(ids, grid, self.semantics):
            number = number * n + i if semantic == "parallel" else number
        return number + 1

    def groups(self, grid: Sequence[int], order: np.random.Generator | None) -> Iterator[list[tuple[int, ...]]]:
        """The cells in the order they run; a group starts with nothing resident and fresh scratch."""
        cells = list(np.ndindex(*grid))
        if order is None:
            yield cells
            return
        axes = [a for a, s in enumerate(self.semantics) if s == "parallel"]
        found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for ids in cells:
            found.setdefault(tuple(ids[a] for a in axes), []).append(ids)
        groups = list(found.values())
        for i in order.permutation(len(groups)):
            yield groups[i]


# ---------------------------------------------------------------------------------------------- running


@once
def context() -> ir.Context:
    """A context that reads the Mosaic TPU dialect."""
    return reading(tpu.register_dialect)


def parse(text: str) -> ir.Module:
    module = ir.Module.parse(text, context())
    module.operation.verify()
    return module


def run_mosaic(
    text: str | ir.Module, args: Sequence[Any], outputs: int = 1, order: np.random.Generator | None = None,
    core: Any = None, names: Sequence[str] = (),
) -> list[np.ndarray]:  # fmt: skip
    """Run a module's kernel; gives its arrays after it.

    `args`: sizes of dynamic grid axes, prefetched scalars, inputs, then `outputs` results as they start (an array that
    is also an input shares its memory). They are left as they are. `order`: where parallel cells run in a random order.
    `core`: the device that runs it, where there are several (`devices.Core`), and the `names` of arrays and scratch.
    """
    machine = MosaicMachine(parse(text) if isinstance(text, str) else text, core)
    kernel = Kernel.of(machine)
    dynamic = [a for a, n in enumerate(kernel.bounds) if n == DYNAMIC]
    sizes = dict(zip(dynamic, args))
    machine.grid = tuple(int(sizes.get(a, n)) for a, n in enumerate(kernel.bounds))
    arrays = [np.asarray(a) for a in args[len(dynamic) :]]
    count = kernel.prefetch + len(kernel.windows)
    if len(arrays) != count:
        raise EmulationError(f"@{kernel.name} takes {count} arrays, and is given {len(arrays)}")
    copies: dict[int, np.ndarray] = {}
    mine = [copies.setdefault(id(a), np.array(a, order="C")) for a in arrays]
    types = kernel.types[len(kernel.bounds) :]
    scalars = [MemRef(_typed(a, t, i), "smem", True) for i, (a, t) in enumerate(zip(mine[: kernel.prefetch], types))]
    windows = []
    for i in range(kernel.prefetch, count):
        windows.append(Window(i, types[i], mine[i], kernel.windows[i - kernel.prefetch], i >= count - outputs))
    _share(windows)
    def name(number: int) -> str:
        return names[number] if number < len(names) else f"scratch {number}"

    if core is not None:
        for number, array in enumerate([s.array for s in scalars] + [w.block for w in windows]):
            core.add(array, name(number))
        machine.meeting = MemRef(np.zeros((), np.int32), "semaphore_mem")
        core.add(machine.meeting.array, "barrier", True)
    cell = 0
    for group in kernel.groups(machine.grid, order):
        scratch = [machine.allocate(t, name(number)) for number, t in enumerate(types[count:], count)]
        if core is not None:
            core.begin()
        for ids in group:
            cell += 1
            if core is not None:
                core.cell = ids
            numbers = [np.asarray(i, np.int32) for i in ids]
            for w in sorted(windows, key=lambda w: not w.output):
                if w.transform is not None:
                    index = tuple(int(i) for i in machine.call(w.transform, *numbers, *scalars))
                    w.enter(index, cell, kernel.run_of(ids, machine.grid))
            machine.call(kernel.name, *numbers, *scalars, *(w.ref() for w in windows), *scratch)
        for w in windows:
            w.leave(cell)
        if core is None:
            machine.settle()
    return mine


def _typed(array: np.ndarray, type: Type, number: int) -> np.ndarray:
    if type.shape != array.shape or type.dtype is None or type.dtype.itemsize != array.dtype.itemsize:
        raise EmulationError(f"operand {number} is {type.text}, and is given {array.dtype}{array.shape}")
    return array.view(type.dtype)


def _share(windows: list[Window]) -> None:
    """Inputs and outputs of the same memory know what has been written to it."""
    for w in windows:
        for other in windows:
            if w.output and not other.output and np.shares_memory(w.array, other.array):
                w.written = other.written = np.zeros(w.array.shape, np.int64)
