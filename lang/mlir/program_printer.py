"""The walk of every printer over a Program: the values of its atoms, its equations by their rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.program import Eqn, Literal, Program, Var
from ...core.support.errors import Source
from ..legalize import Backend


class ProgramPrinter:
    """What rules see as `e`; a backend adds `literal`, `array` and what surrounds an equation."""

    backend: Backend
    name: str  # of the kernel
    source: Source | None = None  # of the equation around this Program
    uses: Sequence[int] = ()  # how often each result of the current equation is read

    @property
    def wanted(self) -> list[bool]:
        """Which results of the current equation are read."""
        return [n > 0 for n in self.uses]

    def literal(self, value: Any, type: Any) -> Any:
        """The value of a literal."""
        raise NotImplementedError

    def constant_array(self, value: np.ndarray, type: Any) -> Any:
        """The value of an array that a Program contains."""
        raise NotImplementedError

    def inline(self, program: Program, operands: Sequence[Any]) -> list[Any]:
        """Print a Program's equations here; gives its outputs."""
        env: dict[Any, Any] = dict(zip(program.inputs, operands, strict=True))
        for var, value in zip(program.constants, program.values, strict=True):
            env[var] = self.constant_array(np.asarray(value), var.type)
        uses = Counter(a for e in program.eqns for a in e.inputs if type(a) is Var)
        uses.update(a for a in program.outputs if type(a) is Var)

        def read(atom: Literal | Var) -> Any:
            return env[atom] if type(atom) is Var else self.literal(atom.value, atom.type)

        for eqn in program.eqns:
            values = [read(a) for a in eqn.inputs]
            self.uses = [uses[v] for v in eqn.outputs]
            env.update(zip(eqn.outputs, self.equation(eqn, values), strict=True))
        return [read(a) for a in program.outputs]

    def equation(self, eqn: Eqn, operands: list[Any]) -> list[Any]:
        """Print one equation; gives its results."""
        return self.ruled(eqn, operands)

    def ruled(self, eqn: Eqn, operands: list[Any]) -> list[Any]:
        """An equation's results by the rule of its primitive.

        Raises:
          UnsupportedError: there is none.
        """
        rule = self.backend.rules.get(eqn.primitive)
        if rule is None:
            raise self.backend.refusal(self.name, eqn.primitive, eqn.source or self.source)
        outs = [v.type for v in eqn.outputs]
        if eqn.primitive.multiple:
            return list(rule(self, operands, outs, **eqn.params))
        return [rule(self, operands, outs[0], **eqn.params)]
