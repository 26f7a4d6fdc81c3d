"""The operations of a module as steps, which are read once: values are numbers of slots."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...core.support.errors import EmulationError
from .. import arith
from ..core import Op
from . import flow, waits
from .cluster import BASE
from .flow import Step
from .global_memory import SHIFT, GlobalMemory
from .values import HALF

SIZES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32, "!llvm.ptr": np.int64,
         **HALF}  # fmt: skip
HOST = 1 << 60  # where the host's list of pointers to buffers begins


class Reader:
    """Reads blocks of operations; what they load is in `memory`. `launch` is the last launch of blocks that it read."""

    def __init__(self, memory: GlobalMemory):
        self.memory = memory
        self.slots: dict[Any, int] = {}
        self.launch: Any = None

    def slot(self, value: Any) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def block(self, block: Any) -> list[Step]:
        found = []
        for one in block.operations:
            o = one.operation
            if o.name == "gpu.launch":
                self.launch = o
            else:
                function, given = self.step(o)
                results = [] if function == flow.END else o.results
                found.append((function, given, [*map(self.slot, o.operands)], [*map(self.slot, results)]))
        return found

    def step(self, o: Any) -> tuple[Callable[..., Any] | str, Any]:
        """What runs an operation, and what it is given."""
        if o.name in ("scf.yield", "scf.condition", "gpu.terminator", "func.return"):
            return flow.END, None
        if o.name == "scf.if":
            return flow.branch, [self.block(r.blocks[0]) if len(r.blocks) else None for r in o.regions]
        if o.name == "scf.for":
            inner = o.regions[0].blocks[0]
            return flow.loop, (self.block(inner), [*map(self.slot, inner.arguments)])
        if o.name == "scf.while":
            blocks = [region.blocks[0] for region in o.regions]
            return flow.repeat, [(self.block(b), [*map(self.slot, b.arguments)]) for b in blocks]
        if o.name == "llvm.inline_asm":
            text = str(ir.StringAttr(o.attributes["asm_string"]).value)
            typed = re.match(r"ld\.shared\.(v2\.)?b32", text)
            return flow.asm, flow.instruction(f"{text} {o.results[0].type}" if typed else text)
        if o.name == "gpu.barrier":
            return waits.everyone, None
        if o.name == "llvm.store":
            return flow.put, None
        return flow.COMPUTE, self.function(o)

    def function(self, o: Any) -> Callable[..., Any]:
        """An operation as a function of values."""
        rule = arith.RULES.get(o.name)
        if rule is not None:
            return rule(Op(None, o, []))
        if o.name == "llvm.getelementptr":
            size = np.dtype(SIZES[str(ir.TypeAttr(o.attributes["elem_type"]).value)]).itemsize
            raw = list(ir.DenseI32ArrayAttr(o.attributes["rawConstantIndices"]))[0]
            return lambda base, *index: base + np.asarray(index[0] if index else raw).astype(np.int64) * size
        if o.name == "llvm.load":
            kind = str(o.results[0].type)
            if kind == "!llvm.ptr":
                return lambda at: ((at - HOST) // 8 + 1) << SHIFT
            return lambda at: self.memory.load(at, SIZES[kind])
        if o.name == "llvm.extractvalue":
            position = list(ir.DenseI64ArrayAttr(o.attributes["position"]))[0]
            return lambda x: x[position]
        if o.name == "memref.extract_aligned_pointer_as_index":
            return lambda x: np.asarray(BASE, np.int64)
        if o.name in ("gpu.dynamic_shared_memory", "builtin.unrealized_conversion_cast"):
            return lambda *x: np.asarray(0, np.int64)
        raise EmulationError(f"the emulator does not know {o.name}")
