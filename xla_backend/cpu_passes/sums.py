"""Sums that XLA:CPU is kept from giving to YNN, or from giving several of to one of YNN's kernels.

YNN's kernel for a reduction takes 0.3 ms to make when it first runs: few rows added up to one are as fast in XLA's own
loop. And YNN's fusions of several reductions are wrong for 4096 rows and more (jaxlib 0.11.2 and 0.12.0.1; the gradient
of a layer norm of 4096 x 64 is off by 2, in jax too). Programs that may have such have a barrier behind each reduction
of so many rows where one is large, so that no fusion has two in a row; others use XLA's own loops for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.ir.passes import primitives_of, within
from ...core.ir.program import Eqn, Program, Var, subprograms
from ...core.primitives.custom.checkpoint import optimization_barrier_p
from ...core.primitives.reduction.reduce import PRIMITIVES
from .options import FEW_ELEMENTS

REDUCTIONS = frozenset(PRIMITIVES)
# One of XLA's options for a compilation, and its value.
OWN_LOOPS = ("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT")
SEVERAL, MANY_ROWS = 3, 4096  # from which on YNN may be wrong: reductions of a program, elements of a result of one
LARGE = 2**18  # elements of an array whose reduction YNN does faster than XLA's own loops


@dataclass(frozen=True)
class Reductions:
    """How many reductions a program has, the most rows of one, the most elements, and whether all are of few rows.

    Sizes that are not known count as endless.
    """

    count: int = 0
    rows: float = 0
    elements: float = 0
    few: bool = True

    def __add__(self, other: Reductions) -> Reductions:
        return Reductions(self.count + other.count, max(self.rows, other.rows), max(self.elements, other.elements),
                          self.few and other.few)  # fmt: skip

    @property
    def unsafe(self) -> bool:
        """Whether a fusion of YNN's may be wrong."""
        return self.count >= SEVERAL and self.rows >= MANY_ROWS

    @property
    def isolated(self) -> bool:
        """Whether barriers keep them right, rather than XLA's own loops."""
        return self.unsafe and self.elements >= LARGE


def reductions_of(program: Program) -> Reductions:
    """The reductions in a Program and in those within it, those of one that occurs twice twice."""
    known: dict[Program, Reductions] = {}

    def found(inner: Program) -> Reductions:
        if inner not in known:
            total = Reductions()
            for eqn in inner.eqns if _reduces(inner) else ():
                if eqn.primitive in REDUCTIONS:
                    total += _one(eqn)
                for _, below in subprograms(eqn):
                    total += found(below)
            known[inner] = total
        return known[inner]

    return found(program)


def compiler_options(found: Reductions, off: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The options to compile a program of some reductions with."""
    few = found.count > 0 and found.few and "few_rows" not in off
    return (OWN_LOOPS,) if few or found.unsafe and not found.isolated else ()


def behind_barriers(program: Program) -> Program:
    """The Program with a barrier behind each reduction of many rows, in the Programs within it too."""
    known: dict[Program, Program] = {}

    def isolated(inner: Program) -> Program:
        if inner not in known:
            eqns: list[Eqn] = []
            for eqn in inner.eqns:
                eqn = within(eqn, isolated)
                if eqn.primitive in REDUCTIONS and _rows(eqn) >= MANY_ROWS:
                    behind = eqn.outputs
                    eqn = eqn.replace(outputs=[Var(v.type) for v in behind])
                    eqns += [eqn, Eqn(optimization_barrier_p, eqn.outputs, behind, {}, source=eqn.source)]
                else:
                    eqns.append(eqn)
            known[inner] = inner.replace(eqns=eqns) if _reduces(inner) else inner
        return known[inner]

    return isolated(program)


def _reduces(program: Program) -> bool:
    return not REDUCTIONS.isdisjoint(primitives_of(program))


def _one(eqn: Eqn) -> Reductions:
    shape, axes = _reduced(eqn)
    elements = _product(shape)
    return Reductions(1, _rows(eqn), elements, len(shape) - 1 not in axes and elements <= FEW_ELEMENTS)


def _rows(eqn: Eqn) -> float:
    """The elements of a reduction's result."""
    shape, axes = _reduced(eqn)
    return _product([n for d, n in enumerate(shape) if d not in axes])


def _reduced(eqn: Eqn) -> tuple[Sequence[Any], Sequence[int]]:
    """The shape of a reduction's operand, and the axes that are reduced."""
    params: Any = eqn.params
    return eqn.inputs[0].type.shape, params["axes"] if "axes" in params else params["dimensions"]


def _product(sizes: Sequence[Any]) -> float:
    return math.prod(n if isinstance(n, int) else math.inf for n in sizes)
