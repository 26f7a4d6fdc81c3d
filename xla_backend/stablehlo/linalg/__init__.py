"""StableHLO of linear algebra: one table of rules for each kind of device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....core.ir.primitive import Primitive
from ....core.primitives.linalg import PRIMITIVES
from ..emit import Emitter, Operand
from . import cpu, gpu, tpu
from .call import Rule, constants, empty

TABLES: Mapping[str, Mapping[Any, Rule]] = {"cpu": cpu.RULES, "cuda": gpu.RULES, "rocm": gpu.RULES, "tpu": tpu.RULES}


def _rule(primitive: Primitive) -> Rule:
    """The rule for the device that is printed for; operands without elements need none of its routines."""

    def rule(e: Emitter, operands: list[Operand], outs: Sequence[Any], **params: Any) -> Any:
        types = outs if primitive.multiple else [outs]
        if primitive.expand is None and empty(primitive, operands, types):
            found = constants(e, primitive, operands, types, params)
            return found if primitive.multiple else found[0]
        return TABLES[e.platform][primitive](e, operands, outs, **params)

    return rule


RULES: dict[Primitive, Rule] = {p: _rule(p) for p in PRIMITIVES}
