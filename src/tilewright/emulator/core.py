"""Walking a module: operations become closures once, and blocks then run as lists of (closure, inputs, outputs).

A rule takes an `Op` and gives the function that runs it on values. Scalars are arrays of shape (), tensors and vectors
arrays. `RULES` of this file are functions and control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext

from ..core.support.errors import EmulationError
from .values import Type, convert_type

Run = Callable[..., Any]
LIFTING = ("tt.reduce", "tt.scan", "tt.map_elementwise")  # their regions say what happens to one element


class Op:
    """One operation, as a rule sees it."""

    machine: Any
    operation: Any
    regions: list[Region]

    def __init__(self, machine: Any, operation: ir.Operation, regions: list[Region]):
        self.machine, self.operation, self.regions = machine, operation, regions
        self.name: str = operation.name
        self.attributes: Any = operation.attributes
        self.operands: list[Type] = [convert_type(v.type) for v in operation.operands]
        self.results: list[Type] = [convert_type(v.type) for v in operation.results]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def attribute(self, name: str) -> ir.Attribute:
        if name not in self.attributes:
            raise EmulationError(f"{self.name} has no attribute {name}")
        return self.attributes[name]

    def int(self, name: str, default: int | None = None) -> int:
        if default is not None and name not in self.attributes:
            return default
        return ir.IntegerAttr(self.attribute(name)).value

    def flag(self, name: str) -> bool:
        return name in self.attributes and bool(ir.BoolAttr(self.attribute(name)).value)

    def ints(self, name: str) -> list[int]:
        """An array of integers: `array<i32: ...>`, `array<i64: ...>`, `dense<...>` or `[...]`."""
        return as_ints(self.attribute(name))

    def text(self, name: str) -> str:
        found = self.attribute(name)
        return found.value if isinstance(found, (ir.StringAttr, ir.FlatSymbolRefAttr)) else str(found)

    def segments(self) -> list[slice]:
        """Where the groups of a variadic operation's operands lie."""
        ends = np.cumsum([0, *self.ints("operandSegmentSizes")]).tolist()
        return [slice(a, b) for a, b in zip(ends, ends[1:])]

    @property
    def result(self) -> Type:
        return self.results[0]

    def used(self, result: int = 0) -> bool:
        return any(True for _ in self.operation.results[result].uses)

    def packed(self, values: Sequence[Any]) -> Any:
        """Values of a region as the results of the operation: one alone is itself."""
        return values[0] if len(self.results) == 1 else tuple(values)


def as_ints(attribute: ir.Attribute) -> list[int]:
    for kind in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseI8ArrayAttr, ir.DenseBoolArrayAttr):
        if isinstance(attribute, kind):
            return [int(x) for x in attribute]
    if isinstance(attribute, ir.ArrayAttr):
        return [ir.IntegerAttr(x).value for x in attribute]
    return [int(x) for x in np.array(ir.DenseIntElementsAttr(attribute)).reshape(-1)]


Rule = Callable[[Op], Run]


@dataclass(eq=False)
class Block:
    """A block: its steps, and where its terminator goes on to (nowhere: the terminator's operands are the result)."""

    machine: Machine
    arguments: list[int]
    lifted: bool = False  # its scalars are tensors: it runs on all elements at once
    steps: list[tuple[Run, list[int], list[tuple[int, Type]]]] = field(default_factory=list)
    operations: list[ir.Operation] = field(default_factory=list)  # of the steps
    end: list[int] = field(default_factory=list)
    targets: list[tuple[int, slice]] = field(default_factory=list)

    def run(self, values: Sequence[Any]) -> list[Any]:
        frame = self.machine.frame
        for slot, value in zip(self.arguments, values, strict=True):
            frame[slot] = value
        at = 0
        try:
            for at, (run, inputs, outputs) in enumerate(self.steps):  # noqa: B007
                out = run(*[frame[i] for i in inputs])
                for (slot, type), value in zip(outputs, (out,) if len(outputs) == 1 else out or ()):
                    if type.dtype is not None and type.kind != "memref":
                        _check(value, type, self.lifted)
                    frame[slot] = value
        except Exception as error:
            if not getattr(error, "__notes__", None):
                operation = self.operations[at]
                error.add_note(f"in: {str(operation).splitlines()[0].strip()}")
                error.add_note(str(operation.location))
            raise
        return [frame[i] for i in self.end]


def _check(value: Any, type: Type, lifted: bool) -> None:
    if value.dtype != type.dtype or (value.shape != type.shape and not lifted):
        raise EmulationError(f"a rule of the emulator gave {value.dtype}{list(value.shape)} for {type.text}")


class Region:
    """The blocks of a region; running it gives the operands of the terminator that leaves it."""

    def __init__(self, machine: Machine, region: ir.Region, slots: dict[ir.Value, int], lifted: bool = False):
        def slot(value: ir.Value) -> int:
            return slots.setdefault(value, len(slots))

        blocks = list(region.blocks)
        self.blocks: list[Block] = [Block(machine, [slot(a) for a in b.arguments], lifted) for b in blocks]
        for block, source in zip(self.blocks, blocks):
            operations = [o.operation for o in source.operations]
            for operation in operations[:-1]:
                run, outputs = machine.prepare(operation, slots)
                inputs = [slot(v) for v in operation.operands]
                block.steps.append((run, inputs, [(slot(v), t) for v, t in outputs]))
                block.operations.append(operation)
            if not operations:
                continue
            last = operations[-1]
            block.end = [slot(v) for v in last.operands]
            cuts = [slice(0, None)] if last.name == "cf.br" else []
            if last.name == "cf.cond_br":
                cuts = Op(machine, last, []).segments()[1:]
            block.targets = [(blocks.index(b), cut) for b, cut in zip(last.successors, cuts, strict=True)]

    def __call__(self, *values: Any) -> list[Any]:
        if not self.blocks:
            return []
        block, arguments = self.blocks[0], list(values)
        while True:
            arguments = block.run(arguments)
            if not block.targets:
                return arguments
            number, cut = block.targets[0 if len(block.targets) == 1 or arguments[0] else 1]
            block, arguments = self.blocks[number], arguments[cut]


class Machine:
    """A module ready to run: its functions by name, and the rules for its operations."""

    rules: dict[str, Rule]

    def __init__(self, module: ir.Module, rules: Mapping[str, Rule]):
        self.module, self.rules = module, {**RULES, **rules}
        self.frame: list[Any] = []
        self.sources: dict[str, ir.Operation] = {}
        for op in module.body.operations:
            operation = op.operation
            if operation.name in ("func.func", "tt.func"):
                self.sources[ir.StringAttr(operation.attributes["sym_name"]).value] = operation
        if not self.sources:
            raise EmulationError("the module has no function")
        self.prepared: dict[str, tuple[Region, int]] = {}

    def prepare(self, operation: ir.Operation, slots: dict[ir.Value, int]) -> tuple[Run, list[tuple[ir.Value, Type]]]:
        """The function that runs an operation, and its results with their types."""
        rule = self.rules.get(operation.name)
        if rule is None:
            raise EmulationError(f"the emulator has no rule for {operation.name}: {operation}")
        lifted = operation.name in LIFTING
        op = Op(self, operation, [Region(self, r, slots, lifted) for r in operation.regions])
        return rule(op), list(zip(operation.results, op.results))

    def entry(self) -> str:
        """The public function, or else the first."""
        for name, source in self.sources.items():
            if "sym_visibility" in source.attributes and str(source.attributes["sym_visibility"]) == '"public"':
                return name
        return next(iter(self.sources))

    def call(self, name: str, *values: Any) -> list[Any]:
        """Call a function of the module."""
        if name not in self.sources:
            raise EmulationError(f"the module has no function @{name}")
        if name not in self.prepared:
            slots: dict[ir.Value, int] = {}
            region = Region(self, self.sources[name].regions[0], slots)
            self.prepared[name] = region, len(slots)
        region, size = self.prepared[name]
        outer, self.frame = self.frame, [None] * size
        try:
            with np.errstate(all="ignore"):
                return region(*values)
        finally:
            self.frame = outer


# ------------------------------------------------------------------------------------------- functions and control


def _call(op: Op) -> Run:
    name = op.text("callee")
    return lambda *values: op.packed(op.machine.call(name, *values)) if op.results else op.machine.call(name, *values)


def _if(op: Op) -> Run:
    then, other = op.regions[0], op.regions[1] if len(op.regions) > 1 else None

    def run(condition: Any) -> Any:
        _scalar(op, condition)
        values = then() if condition else other() if other is not None else []
        return op.packed(values) if op.results else None

    return run


def _for(op: Op) -> Run:
    (body,) = op.regions
    dtype = op.operands[0].dtype
    assert dtype is not None

    def run(low: Any, high: Any, step: Any, *carry: Any) -> Any:
        if step <= 0:
            raise EmulationError(f"scf.for with step {step}")
        values = list(carry)
        for i in range(int(low), int(high), int(step)):
            values = body(np.asarray(i, dtype), *values)
        return op.packed(values) if op.results else None

    return run


def _while(op: Op) -> Run:
    before, after = op.regions

    def run(*carry: Any) -> Any:
        values = list(carry)
        while True:
            condition, *values = before(*values)
            if not condition:
                return op.packed(values) if op.results else None
            values = after(*values)

    return run


def _switch(op: Op) -> Run:
    default, *cases = op.regions
    numbers = op.ints("cases")

    def run(index: Any) -> Any:
        values = dict(zip(numbers, cases)).get(int(index), default)()
        return op.packed(values) if op.results else None

    return run


def region(op: Op) -> Run:
    (body,) = op.regions
    return lambda: op.packed(body()) if op.results else body()


def _assert(op: Op) -> Run:
    message = op.text("msg" if "msg" in op else "message")

    def run(condition: Any, *rest: Any) -> None:
        if not np.all(condition):
            raise EmulationError(f"{op.name}: {message}")

    return run


def _scalar(op: Op, value: Any) -> None:
    if value.shape != ():
        raise EmulationError(f"{op.name} on a value of each element: a region on full tensors cannot branch")


RULES: dict[str, Rule] = {
    "func.call": _call,
    "tt.call": _call,
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
    "scf.index_switch": _switch,
    "scf.execute_region": region,
    "cf.assert": _assert,
    "tt.assert": _assert,
}


def reading(register: Callable[[Any], Any]) -> Any:
    """A context that reads a dialect, which `register` adds to it, and those that it is mixed with."""
    found, registry = ir.Context(), ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    found.append_dialect_registry(registry)
    found.load_all_available_dialects()
    register(found)
    return found
