"""Branches of a cell that are run again where they were taken, then backwards.

Such are branches over far memory: far operands are arrays of any size, so that these cannot work on values
(`lang/autodiff/functionalize_control.py`), and what they read of them no cell writes. Such are, too, branches on values
that would keep much for their derivative: where registers hold it until the branch is run backwards, they are wanted
for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ...core.ir.primitive import Zero
from ...core.ir.program import Eqn, Program
from ...core.ir.types import RefType, is_inexact
from ...core.primitives.control_flow.cond import bind_cond
from ...core.tracing.trace import trace_program, typeof
from ...core.transforms.linearize import linearized
from ...core.transforms.rule_helpers import instantiate
from ..analysis.dead_stores import drop_local_writes
from ..transforms.discharge import written

RESIDUALS = 2**16  # bytes that a branch may keep: a quarter of the registers of a GPU's multiprocessor


def residual_bytes(eqn: Eqn, active: Sequence[bool]) -> int:
    """What a branch on values would keep for its derivative, besides what it takes and gives."""
    found = [linearized(b, tuple(active[1:])).primal for b in eqn.params["branches"]]
    return max(sum(t.nbytes for t in p.out_types[len(eqn.outputs) :]) for p in found)


class Choice:
    """A branch of a cell, to be run backwards; `active` says which of its operands (the index first) has a tangent."""

    record_back: Callable[..., Any]
    spaces: Callable[..., list[RefType]]

    def __init__(self, eqn: Eqn, active: Sequence[bool], dependent: Callable[..., list[bool]], back: Callable[..., Any],
                 spaces: Callable[..., list[RefType]]):  # fmt: skip
        self.branches: tuple[Program, ...] = eqn.params["branches"]
        self.active: tuple[bool, ...] = tuple(active)
        self.record_back, self.spaces = back, spaces
        found = [dependent(b, self.active[1:]) for b in self.branches]
        self.derived: tuple[bool, ...] = tuple(
            any(flags) and is_inexact(a.type.dtype)
            for a, *flags in zip(self.branches[0].outputs, *found, strict=True)
        )  # fmt: skip

    first = 1  # the operand that the first input of a branch is

    @property
    def programs(self) -> tuple[Program, ...]:
        return self.branches

    @property
    def inputs(self) -> tuple[int, ...]:
        """The operands with a tangent, counted without the index."""
        return tuple(i for i, a in enumerate(self.active[1:]) if a)

    @cached_property
    def inner(self) -> list[list[RefType]]:
        """The work space of the loops within each branch."""
        return [self.spaces(b, self.inputs, self.record_back) for b in self.branches]

    @property
    def space(self) -> list[RefType]:
        return [type for types in self.inner for type in types]

    def forward(self, primals: Sequence[Any], space: Sequence[Any]) -> list[Any]:
        return bind_cond(primals[0], primals[1:], self.branches)

    def backward(
        self, primals: Sequence[Any], space: Sequence[Any], refs: dict[int, Any], cts: Sequence[Any]
    ) -> dict[int, Any]:
        """Run the branch backwards: Refs of cotangents by input, those of what it gives; gives those of the values."""
        operands, outs = primals[1:], self.branches[0].outputs
        values = [i for i in self.inputs if not isinstance(typeof(operands[i]), RefType)]
        known = [k for k, ct in enumerate(cts) if ct is not None and type(ct) is not Zero]
        given = [*operands, *refs.values(), *(cts[k] for k in known), *space]

        def of(branch: Program, first: int, count: int) -> Program:
            def fun(*args: Any) -> list[Any]:
                rest = iter(args[len(operands) :])
                here = {i - 1: next(rest) for i in refs}
                came = {k: next(rest) for k in known}
                wanted = [came.get(k, Zero(a.type.tangent())) for k, a in enumerate(outs)]
                work = list(rest)[first : first + count]
                found = self.record_back(branch, args[: len(operands)], self.inputs, work, here, wanted)
                return [instantiate(found.get(i, Zero(typeof(operands[i]).tangent()))) for i in values]

            made = trace_program(fun, [typeof(x) for x in given], f"{branch.name}_back")
            return drop_local_writes(made, [made.inputs[i] for i in written(branch)])

        starts = [sum(map(len, self.inner[:k])) for k in range(len(self.branches))]
        made = [of(b, s, len(n)) for b, s, n in zip(self.branches, starts, self.inner, strict=True)]
        return dict(zip((i + 1 for i in values), bind_cond(primals[0], given, made), strict=True))
