"""A kernel on smaller blocks: the same cells, each in parts.

A new axis of the grid, outermost and parallel, counts the parts. Each part is the whole kernel on its part of the
blocks, so that what is carried from cell to cell stays within it. An output without the axis gets one copy for each
part; their combined result is the sum where the parts are additive, else any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.ir.array import Array
from ...core.ir.primitive import SIZE
from ...core.ir.program import Eqn, Program, Var, run
from ...core.ir.types import ArrayType, RefType
from ...core.primitives.control_flow.cond import bind_cond, cond_p
from ...core.primitives.control_flow.scan import bind_scan, scan_p
from ...core.primitives.control_flow.while_loop import bind_while, while_p
from ...core.primitives.elementwise.arithmetic import add_p, mul_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.shape import index_in_dim, iota_p
from ...core.primitives.refs.state_primitives import Index, Span
from ...core.support.memo import cached
from ...core.tracing.trace import bind_eqn, eval_program, trace_program
from ...core.transforms.structural_primitives import reduce_sum_p
from ..analysis.dead_stores import ACCESSES
from ..analysis.splittable_axes import SIZED, SPLIT, SUM, Cut, Unit, cuts, outputs_cut
from ..kernel.kernel import Block, Kernel, trace_map
from .desugar import desugared
from .rebuild import INHERITED, carried, for_each, remap, trace_kernel


@dataclass(frozen=True, eq=False)
class Smaller:
    """A kernel in parts; `finish` makes the results of the kernel that it stands for from its own; None: they are."""

    kernel: Kernel
    finish: Program | None = None

    def then(self, other: Smaller) -> Smaller:
        """Cut once more, as `other` says of this one's kernel."""
        last, first = self.finish, other.finish
        if last is None or first is None:
            return Smaller(other.kernel, first or last)
        both = trace_program(lambda *xs: eval_program(last, *eval_program(first, *xs)), first.in_types, first.name)
        return Smaller(other.kernel, both)

    def around(self, kernel: Kernel, out_types: Sequence[ArrayType], finish: Program | None) -> Program | None:
        """What makes a kernel's results of its operands and a call's results, given what makes those of this one."""
        last, n = self.finish, len(kernel.in_types)
        if last is None:
            return finish

        def run_(*values: Any) -> list[Any]:
            return eval_program(last, *(values[n:] if finish is None else eval_program(finish, *values)))

        return trace_program(run_, [*kernel.in_types, *out_types], last.name)

    def note(self, kernel: Kernel) -> str:
        """Which blocks are smaller than those of the kernel that it stands for, in words."""
        pairs = zip(kernel.blocks, self.kernel.blocks, strict=True)
        found = [f"{a.name} {_sizes(b)} in place of {_sizes(a)}" for a, b in pairs if a.shape != b.shape]
        return f"blocks of {', '.join(found)}" if found else ""


def _sizes(block: Block) -> str:
    return "x".join(map(str, block.shape))


@cached(256)
def smaller(kernel: Kernel, unit: Unit, parts: int = 2) -> tuple[Smaller, ...] | str:
    """A kernel on blocks of one `parts`-th, in each way there is, the one that makes the most of them smaller first.

    `unit(type, axis)` divides what is left of an axis. Where there is no way, why.
    """
    if not kernel.cells or kernel.interpret or kernel.symbolic:
        return "it is interpreted, or its sizes are not known"
    found = cuts(desugared(kernel, atomics=True, in_step=False), parts, unit)
    if isinstance(found, str):
        return found
    return tuple(_Cutter(c).made() for c in found if _fits(c)) or "a part of a block lies past the end of its array"


@cached(256)
def smaller_outputs(kernel: Kernel, unit: Unit, parts: int) -> Kernel | None:
    """A kernel on blocks of one `parts`-th of each output and of what it is made of; None where that is not possible.

    `unit(type, axis)` divides what is left of an axis.
    """
    found = outputs_cut(desugared(kernel, atomics=True, in_step=False), parts, unit)
    return None if found is None or not _fits(found) else _Cutter(found).made().kernel


def _split(cut: Cut, position: int) -> list[int]:
    """The axes of the array behind a Ref that are cut."""
    ref = cut.kernel.body.inputs[position]
    block = cut.kernel.blocks[position - cut.kernel.splits[1]]
    return [d for axis, d in enumerate(block.seen) if (ref, axis) in cut.axes]


def _fits(cut: Cut) -> bool:
    """Whether all parts of a block are in bounds."""
    kernel = cut.kernel
    first = kernel.splits[1]
    for number, block in enumerate(kernel.blocks):
        for d in _split(cut, first + number):
            n, size = block.array.shape[d], block.sizes[d]
            if not block.element[d] and -(-n // size) * size - n >= size // cut.parts:
                return False
    return True


class _Cutter:
    """Makes the kernel of a cut."""

    def __init__(self, cut: Cut):
        self.cut, self.kernel = cut, cut.kernel
        self.grid = (cut.parts, *self.kernel.grid)
        self.part: Any = None  # the id of the part, while the body is traced

    def made(self) -> Smaller:
        kernel, first = self.kernel, self.kernel.splits[1]
        blocks = [self.block(b, first + i) for i, b in enumerate(kernel.blocks)]
        n = len(kernel.inputs)
        outputs = [b if s == SPLIT else self.copies(b) for b, s in zip(blocks[n:], self.cut.outputs, strict=True)]
        scratch = [self.type(v) for v in kernel.body.inputs[kernel.splits[3] :]]

        def body(
            ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
            scratch: Sequence[Any],
        ) -> None:  # fmt: skip
            self.part = ids[0]
            run(kernel.body, self.bind, [*ids[1:], *prefetched, *inputs, *outputs, *scratch])

        semantics = None if kernel.semantics is None else ("parallel", *kernel.semantics)
        told = dict(kernel.settings)
        kept = ((INHERITED, True),) if told.get(INHERITED) else ()
        extents = tuple((a + 1, trace_map(self.grid, kernel.prefetch, lambda *args, p=p: eval_program(p, *args[1:])))
                        for a, p in kernel.extents)  # fmt: skip
        made = trace_kernel(kernel, body, grid=self.grid, inputs=blocks[:n], outputs=outputs, scratch=scratch,
                            semantics=semantics, extents=extents, settings=(*carried(kernel, 1), *kept))  # fmt: skip
        return Smaller(made, self.finish(made))

    # ---------------------------------------------------------------------- blocks

    def block(self, block: Block, position: int) -> Block:
        """A block on the new grid, smaller along the axes that are cut."""
        split, parts = _split(self.cut, position), self.cut.parts
        if not split:
            return remap(block, self.kernel.prefetch, self.grid, lambda ids: ids[1:])
        axes = [replace(a, size=a.size // parts) if d in split else a for d, a in enumerate(block.axes)]

        def index(*args: Any) -> list[Any]:
            found = []
            for d, i in enumerate(block.index(*args[1:])):
                if d in split:
                    part = mul_p.bind(args[0], np.int32(axes[d].size)) if block.element[d] else args[0]
                    i = add_p.bind(i if block.element[d] else mul_p.bind(i, np.int32(parts)), part)
                found.append(i)
            return found

        return replace(block, axes=tuple(axes), index_map=trace_map(self.grid, self.kernel.prefetch, index))

    def copies(self, block: Block) -> Block:
        """An output with a separate copy per part."""
        return for_each(block, [0], self.grid, self.kernel.prefetch)

    def finish(self, made: Kernel) -> Program | None:
        kinds = self.cut.outputs
        if all(kind == SPLIT for kind in kinds):
            return None

        def one(x: Array, kind: str) -> Any:
            if kind == SPLIT:
                return x
            return reduce_sum_p.bind(x, axes=(0,)) if kind == SUM else index_in_dim(x, 0, 0, keepdims=False)

        return trace_program(lambda *xs: list(map(one, xs, kinds)), made.out_types, f"{made.name}_parts")

    # ---------------------------------------------------------------------- the body

    def type(self, var: Var) -> Any:
        if isinstance(var.type, RefType):
            return RefType(var.type.array.with_shape(self.cut.shape(var)), var.type.space)
        return var.type.with_shape(self.cut.shape(var)) if hasattr(var.type, "with_shape") else var.type

    def program(self, program: Program) -> Program:
        return trace_program(lambda *xs: run(program, self.bind, xs), list(map(self.type, program.inputs)),
                             program.name)  # fmt: skip

    def bind(self, eqn: Eqn, values: list[Any]) -> Sequence[Any]:
        """Bind an equation on parts of its operands."""
        primitive, params = eqn.primitive, eqn.params
        if primitive is cond_p:
            return bind_cond(values[0], values[1:], [self.program(b) for b in params["branches"]])
        if primitive is scan_p:
            n, m = params["num_consts"], params["num_carry"]
            how = {k: v for k, v in params.items() if k not in ("program", "num_consts", "num_carry")}
            return bind_scan(self.program(params["program"]), values[:n], values[n : n + m], values[n + m :], **how)
        if primitive is while_p:
            n, m = params["cond_nconsts"], params["body_nconsts"]
            return bind_while(self.program(params["cond_program"]), self.program(params["body_program"]), values[:n],
                              values[n : n + m], values[n + m :])  # fmt: skip
        eqn = eqn.replace(params=self.params(eqn))
        found = bind_eqn(eqn, values)
        if primitive is iota_p and (eqn.outputs[0], params["dimension"]) in self.cut.axes:
            return [self.moved(found[0], self.cut.shape(eqn.outputs[0])[params["dimension"]])]
        return found

    def moved(self, iota: Array, size: int) -> Any:
        """Indices into the unsplit axis, from indices into a part."""
        return add_p.bind(iota, convert_element_type(mul_p.bind(self.part, np.int32(size)), iota.aval.dtype))

    def params(self, eqn: Eqn) -> dict[str, Any]:
        primitive, params = eqn.primitive, dict(eqn.params)
        if primitive in ACCESSES:
            sizes = self.cut.shape(eqn.inputs[0])
            entries = zip(params["index"], sizes, range(len(sizes)), strict=True)
            params["index"] = Index(Span(0, n) if (eqn.inputs[0], d) in self.cut.axes else e for e, n, d in entries)
        elif primitive in SIZED:
            params[SIZED[primitive]] = self.cut.shape(eqn.outputs[0])
        elif primitive.axes is not None:
            for name in [k for k, left in primitive.axes.items() if left is SIZE]:
                given = zip(params[name], self.cut.shape(eqn.inputs[0]), range(len(params[name])), strict=True)
                params[name] = tuple(n if (eqn.inputs[0], d) in self.cut.axes else s for s, n, d in given)
        return params
