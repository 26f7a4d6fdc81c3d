"""Triton's dialect. A pointer is an address: a buffer's number above bit 40, the byte within it below.

Programs run one after the other, each to its end, in order or in a random one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir
from jaxlib.triton import dialect

from ..core.support.errors import EmulationError, OutOfBoundsError, RaceError, plural
from ..core.support.memo import once
from . import arith, descriptors, hints
from .core import Machine, Op, Region, Rule, Run, reading
from .extern import extern
from .races import Races, lanes_of
from .values import poison

REGION_BITS = 40
_OF_A_PROGRAM = 2  # the scope "cta" among those of Triton's atomic operations
FINITE_FLOAT8 = tuple(
    np.dtype(d)
    for d in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e4m3b11fnuz,
    )
)


class Memory:
    """The buffers that pointers point into, and who has accessed what of them: threads, or the copy engine."""

    program: int
    epoch: int

    def __init__(self, races: bool = False) -> None:
        self.buffers: list[np.ndarray] = []
        self.races: list[Races] | None = [] if races else None
        self.program = 0  # its number, from 1
        self.epoch = 1  # one more for each barrier and each program

    def add(self, array: np.ndarray) -> np.ndarray:
        """Takes an array in; gives its address."""
        self.buffers.append(array)
        if self.races is not None:
            self.races.append(Races(len(self.races), array))
        return np.asarray(len(self.buffers) << REGION_BITS, np.int64)

    def begin(self, program: int) -> None:
        self.program, self.epoch = program + 1, self.epoch + 1

    def barrier(self) -> None:
        self.epoch += 1

    def places(
        self, kind: str, addresses: np.ndarray, live: Any, dtype: np.dtype[Any], engine: bool = False
    ) -> list[tuple[np.ndarray, Any, Any]]:
        """For each buffer that live lanes point into: its elements, those lanes (among the live), and where."""
        flat = addresses.reshape(-1)[live]
        numbers = flat >> REGION_BITS
        names = lanes_of(addresses.size, addresses.shape == (), kind)[live] if self.races is not None else None
        found = []
        for number in np.unique(numbers).tolist():
            lanes: Any = slice(None) if (numbers == number).all() else np.flatnonzero(numbers == number)
            if not 0 < number <= len(self.buffers):
                raise OutOfBoundsError(f"{kind} through a pointer into no buffer (address {flat[lanes][:1]})")
            buffer = self.buffers[number - 1]
            offsets = flat[lanes] - (number << REGION_BITS)
            wrong = offsets + dtype.itemsize > buffer.nbytes
            if wrong.any():
                raise OutOfBoundsError(
                    f"{kind} out of bounds: byte {offsets[wrong][0]} of operand {number - 1}, which has "
                    f"{buffer.nbytes} ({np.count_nonzero(wrong)} of {wrong.size} lanes)"
                )
            if (offsets % dtype.itemsize).any():
                raise EmulationError(f"{kind} at a byte that is no multiple of {dtype.itemsize}")
            if self.races is not None and names is not None:
                self.races[number - 1].access(kind, offsets, names[lanes], self.program, self.epoch, engine)
            flat_bytes = buffer.reshape(-1).view(np.uint8)
            elements = flat_bytes[: flat_bytes.size // dtype.itemsize * dtype.itemsize].view(dtype)
            found.append((elements, lanes, offsets // dtype.itemsize))
        return found

    def load(
        self, addresses: np.ndarray, dtype: np.dtype[Any], mask: Any, other: Any, engine: bool = False
    ) -> np.ndarray:
        live = slice(None) if mask is None else np.asarray(mask).reshape(-1)
        out = poison(addresses.size, dtype) if other is None else np.array(other, dtype).reshape(-1)
        values = np.empty(addresses.reshape(-1)[live].size, dtype)
        for elements, lanes, where in self.places("load", addresses, live, dtype, engine):
            values[lanes] = elements[where]
        out[live] = values
        return out.reshape(addresses.shape)

    def store(self, addresses: np.ndarray, values: np.ndarray, mask: Any, engine: bool = False) -> None:
        live = slice(None) if mask is None else np.asarray(mask).reshape(-1)
        values = np.ascontiguousarray(values).reshape(-1)[live]
        for elements, lanes, where in self.places("store", addresses, live, values.dtype, engine):
            elements[where] = values[lanes]
            if (elements[where].view(np.uint8) != values[lanes].view(np.uint8)).any():
                raise RaceError("a store of different values to one element by several lanes")

    def update(
        self, addresses: np.ndarray, mask: Any, f: Any, operands: Sequence[np.ndarray], scope: int
    ) -> np.ndarray:
        """Lane by lane, `x = f(x, *operands)`; gives the values before."""
        dtype = operands[0].dtype
        live = np.arange(addresses.size) if mask is None else np.flatnonzero(mask)
        old = poison(addresses.size, dtype)
        flat = [o.reshape(-1)[live] for o in operands]
        kind = "update within a program" if scope == _OF_A_PROGRAM else "update"
        for elements, lanes, where in self.places(kind, addresses, live, dtype):
            mine = [o[lanes] for o in flat]
            if np.unique(where).size == where.size:
                old[live[lanes]] = elements[where]
                elements[where] = f(elements[where], *mine)
                continue
            for i, (lane, at) in enumerate(zip(live[lanes], where)):
                old[lane] = elements[at]
                elements[at] = f(elements[at : at + 1], *(o[i : i + 1] for o in mine))[0]
        return old.reshape(addresses.shape)


class TritonMachine(Machine):
    """A module of Triton's dialect with the memory and the program id that its operations see."""

    def __init__(self, module: ir.Module, grid: Sequence[int], races: bool = False):
        super().__init__(module, RULES)
        self.memory: Memory = Memory(races)
        self.grid: tuple[int, ...] = (*grid, 1, 1, 1)[:3]
        self.program: tuple[int, int, int] = (0, 0, 0)
        self.printed: list[tuple[str, list[np.ndarray]]] = []

    def prepare(self, operation: ir.Operation, slots: dict[ir.Value, int]) -> Any:
        run, results = super().prepare(operation, slots)
        return hints.checked(operation, run), results


# ---------------------------------------------------------------------------------------------- programs and shapes


def _program_id(op: Op) -> Run:
    axis, machine = op.int("axis"), op.machine
    return lambda: np.asarray(machine.program[axis], np.int32)


def _num_programs(op: Op) -> Run:
    axis, machine = op.int("axis"), op.machine
    return lambda: np.asarray(machine.grid[axis], np.int32)


def _make_range(op: Op) -> Run:
    value = np.arange(op.int("start"), op.int("end"), dtype=np.int32)
    return lambda: value


def _broadcast(op: Op) -> Run:
    shape = op.result.shape
    return lambda x: np.broadcast_to(x, shape)


def _expand_dims(op: Op) -> Run:
    axis = op.int("axis")
    return lambda x: np.expand_dims(x, axis)


def _reshape(op: Op) -> Run:
    if op.flag("allow_reorder"):
        raise EmulationError("tt.reshape with allow_reorder gives elements in no defined order")
    return lambda x: np.ascontiguousarray(x).reshape(op.result.shape)


def _trans(op: Op) -> Run:
    order = op.ints("order")
    return lambda x: np.transpose(x, order)


def _gather(op: Op) -> Run:
    axis = op.int("axis")

    def run(source: Any, indices: Any) -> Any:
        if np.any((indices < 0) | (indices >= source.shape[axis])):
            raise OutOfBoundsError(f"tt.gather: an index is out of the {source.shape[axis]} elements of axis {axis}")
        return np.take_along_axis(source, indices.astype(np.int64), axis)

    return run


def _histogram(op: Op) -> Run:
    (bins,) = op.result.shape

    def run(values: Any, mask: Any = None) -> Any:
        kept = values if mask is None else values[mask]
        if np.any((kept < 0) | (kept >= bins)):
            raise EmulationError(f"tt.histogram: a value is out of the {bins} bins")
        return np.bincount(kept, minlength=bins).astype(op.result.dtype)

    return run


# ---------------------------------------------------------------------------------------------- memory


def _addptr(op: Op) -> Run:
    pointee = op.result.pointee
    assert pointee is not None
    return lambda pointer, offset: pointer + offset.astype(np.int64) * pointee.itemsize


def _load(op: Op) -> Run:
    machine, dtype = op.machine, op.result.dtype
    return lambda pointer, mask=None, other=None: machine.memory.load(pointer, dtype, mask, other)


def _store(op: Op) -> Run:
    machine = op.machine
    return lambda pointer, value, mask=None: machine.memory.store(pointer, value, mask)


def _views(view: Any, f: Any) -> Any:
    return lambda x, y: arith.typed(f(view(x), view(y)).view(x.dtype), _Like(x.dtype))


@dataclass(frozen=True)
class _Like:
    dtype: Any


# By number of the attribute: and, or, xor, add, fadd, max, min, umax, umin, exch.
MODIFY = {
    1: np.bitwise_and, 2: np.bitwise_or, 3: np.bitwise_xor, 4: np.add, 5: np.add, 6: np.maximum, 7: np.minimum,
    8: _views(arith.unsigned, np.maximum), 9: _views(arith.unsigned, np.minimum), 10: lambda x, y: y,
}  # fmt: skip


def _atomic_rmw(op: Op) -> Run:
    machine, number, scope = op.machine, op.int("atomic_rmw_op"), op.int("scope")
    f, dtype = MODIFY[number], op.result.dtype
    assert dtype is not None
    if (dtype.kind == "i") == (number == 5) and number != 10:
        raise EmulationError(f"tt.atomic_rmw: operation {number} on {dtype}")
    return lambda pointer, value, mask=None: machine.memory.update(pointer, mask, f, [value], scope)


def _atomic_cas(op: Op) -> Run:
    machine, scope = op.machine, op.int("scope")

    def exchange(x: Any, expected: Any, value: Any) -> Any:
        kind = f"u{x.dtype.itemsize}"
        return np.where(x.view(kind) == expected.view(kind), value, x)

    return lambda pointer, expected, value: machine.memory.update(pointer, None, exchange, [expected, value], scope)


# ---------------------------------------------------------------------------------------------- numbers


def round_tf32(x: np.ndarray) -> np.ndarray:
    """float32 rounded to TF32's 10 bits of mantissa, ties away from zero."""
    u = np.asarray(x).view(np.uint32)
    return np.where(np.isfinite(x), ((u + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32), x)


def _dot(op: Op) -> Run:
    dtype = op.result.number
    tf32 = op.int("inputPrecision", 0) == 0 and op.operands[0].dtype == np.float32

    def run(x: Any, y: Any, acc: Any) -> Any:
        if dtype.kind == "i":
            return acc + np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(np.int64).astype(dtype)
        x, y, z = arith.wide(x), arith.wide(y), arith.wide(acc)
        if tf32:
            x, y = round_tf32(x), round_tf32(y)
        return (np.matmul(x, y) + z).astype(dtype)

    return run


def halves(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.split(x, 2, axis)
    return first, second


def _reduce(op: Op) -> Run:
    axis = op.int("axis")
    (combine,) = op.regions

    def run(*values: Any) -> Any:
        rows = list(values)
        while rows[0].shape[axis] > 1:
            first, second = zip(*(halves(x, axis) for x in rows))
            rows = combine(*first, *second)
        return op.packed([np.squeeze(x, axis) for x in rows])

    return run


def _scan(op: Op) -> Run:
    axis, reverse = op.int("axis"), op.flag("reverse")
    (combine,) = op.regions

    def run(*values: Any) -> Any:
        rows = [np.flip(x, axis) if reverse else x for x in values]
        rows = _prefixes(combine, rows, axis)
        return op.packed([np.flip(x, axis) if reverse else x for x in rows])

    return run


def _prefixes(combine: Region, rows: list[Any], axis: int) -> list[Any]:
    """Inclusive prefixes by doubling: with step d, each element takes in the d elements before it."""
    step, n = 1, rows[0].shape[axis]

    def part(x: Any, start: int, stop: int) -> Any:
        return x[(slice(None),) * axis + (slice(start, stop),)]

    while step < n:
        later = combine(*(part(x, 0, n - step) for x in rows), *(part(x, step, n) for x in rows))
        rows = [np.concatenate([part(x, 0, step), y], axis) for x, y in zip(rows, later)]
        step *= 2
    return rows


def _map_elementwise(op: Op) -> Run:
    if op.int("pack", 1) != 1:
        raise EmulationError("tt.map_elementwise with a pack")
    return lambda *values: op.packed(op.regions[0](*values))


def _extern(op: Op) -> Run:
    dtype = op.operands[0].dtype
    f = extern(op.text("symbol"), dtype)
    return lambda *xs: arith.typed(f(*xs), op.result)


def _asm(op: Op) -> Run:
    """The instructions that kernels are printed with; authors' own are not known."""
    text = op.text("asm_string")
    if not text.startswith("ex2.approx.ftz.f32 $0, $1;") and "fma.rn.f32x2 x0, x1, x2, x3" not in text:
        raise EmulationError(f"the instructions {text!r} are not known", "run the kernel with `interpret=True`")

    def run(*xs: Any) -> Any:
        found = np.exp2(xs[0] if len(xs) == 1 else arith.typed(arith.fused_multiply_add(*xs), op.result))
        return np.where(np.abs(found) < np.finfo(np.float32).tiny, np.float32(0), found)

    return run


def _fp_to_fp(op: Op) -> Run:
    """Rounds to nearest even, or towards zero; float8 formats saturate, as the hardware's conversions do."""
    dtype = op.result.dtype
    assert dtype is not None
    towards_zero = "rounding" in op and op.int("rounding") == 0

    def run(x: Any) -> Any:
        if dtype in FINITE_FLOAT8:
            limit = float(ml_dtypes.finfo(dtype).max)
            x = np.where(np.isnan(x), x, np.clip(x.astype(np.float32), -limit, limit))
        out = np.asarray(x).astype(dtype)
        if towards_zero and dtype.itemsize < x.dtype.itemsize:
            over = np.abs(out.astype(np.float64)) > np.abs(x.astype(np.float64))
            kind = f"u{dtype.itemsize}"
            out = np.where(over, (out.view(kind) - over.astype(kind)).view(dtype), out)
        return out

    return run


def _clampf(op: Op) -> Run:
    low, high = (np.maximum, np.minimum) if op.int("propagateNan", 0) else (np.fmax, np.fmin)
    return lambda x, a, b: high(low(x, a), b)


def _join(op: Op) -> Run:
    return lambda x, y: np.stack([x, y], -1)


def _split(op: Op) -> Run:
    return lambda x: (x[..., 0], x[..., 1])


def _unsplat(op: Op) -> Run:
    return lambda x: x.reshape(())


def _same(op: Op) -> Run:
    return lambda x: x


def _bitcast(op: Op) -> Run:
    return _same(op) if op.result.pointee is not None else lambda x: np.asarray(x).view(op.result.number)


def _print(op: Op) -> Run:
    prefix, machine = op.text("prefix"), op.machine
    return lambda *values: machine.printed.append((prefix, [np.array(v) for v in values]))


RULES: dict[str, Rule] = {
    **arith.RULES,
    **descriptors.RULES,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.make_range": _make_range,
    "tt.splat": _broadcast,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expand_dims,
    "tt.reshape": _reshape,
    "tt.trans": _trans,
    "tt.join": _join,
    "tt.split": _split,
    "tt.unsplat": _unsplat,
    "tt.gather": _gather,
    "tt.histogram": _histogram,
    "tt.addptr": _addptr,
    "tt.int_to_ptr": _same,
    "tt.ptr_to_int": _same,
    "tt.bitcast": _bitcast,
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic_rmw,
    "tt.atomic_cas": _atomic_cas,
    "tt.dot": _dot,
    "tt.reduce": _reduce,
    "tt.scan": _scan,
    "tt.map_elementwise": _map_elementwise,
    "tt.extern_elementwise": _extern,
    "tt.elementwise_inline_asm": _asm,
    "tt.fp_to_fp": _fp_to_fp,
    "tt.clampf": _clampf,
    "tt.precise_sqrt": arith.plain(np.sqrt),
    "tt.precise_divf": arith.plain(np.divide),
    "tt.mulhiui": lambda op: lambda x, y: extern("__nv_umulhi", x.dtype)(x, y),
    "tt.print": _print,
    "gpu.barrier": lambda op: op.machine.memory.barrier,
}


# ---------------------------------------------------------------------------------------------- running


@once
def context() -> ir.Context:
    """A context that reads Triton's dialect."""
    return reading(dialect.register_dialect)


_DESCRIPTOR = re.compile(r"<tensor<([^<>]*)>>")


def parse(text: str) -> ir.Module:
    """A module from its text, as Triton or jaxlib print it (they differ in the type of descriptors)."""
    module = ir.Module.parse(_DESCRIPTOR.sub(r"<\1>", text), context())
    module.operation.verify()
    return module


def run_ttir(
    text: str | ir.Module,
    grid: Sequence[int],
    args: Sequence[Any],
    order: np.random.Generator | None = None,
    races: bool = True,
) -> list[np.ndarray]:
    """Run a module's function for each program of a grid; gives its buffers after it.

    `args`: an array per pointer (the same array twice is one buffer), a number per scalar. They are left as they are.
    `order`: where programs run in a random order. `races`: refuse accesses that another order would change (a module
    that synchronises its programs by flags in memory has such).
    """
    machine = TritonMachine(parse(text) if isinstance(text, str) else text, grid, races)
    name = machine.entry()
    types = [a.type for a in machine.sources[name].regions[0].blocks[0].arguments]
    if len(types) != len(args):
        raise EmulationError(f"@{name} takes {plural(len(types), 'argument')}, and is given {len(args)}")
    values, copies = hints.arguments(machine, machine.sources[name], args)
    programs = [p[::-1] for p in itertools.product(*map(range, machine.grid[::-1]))]
    for i in range(len(programs)) if order is None else order.permutation(len(programs)):
        machine.program = programs[i]
        machine.memory.begin(int(i))
        machine.call(name, *values)
    return copies
