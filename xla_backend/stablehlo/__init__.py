"""StableHLO lowering: one table from primitives to rules, family by family."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.support.memo import once
from . import contract, control, conv, elementwise, index, random, reduce, shape, sort, window
from .calls import callback, checkpoint, custom_call, jit

_RULES: dict[Primitive, Any] = {
    **jit.RULES,
    **elementwise.RULES,
    **reduce.RULES,
    **shape.RULES,
    **index.RULES,
    **sort.RULES,
    **contract.RULES,
    **conv.RULES,
    **window.RULES,
    **random.RULES,
    **control.RULES,
    **checkpoint.RULES,
    **callback.RULES,
    **custom_call.RULES,
}

# Families whose primitives are imported when they are first used: their rules are imported after them.
_LATER = {
    "calls.exported": "core.primitives.external.call_exported",
    "calls.ffi": "core.primitives.external.ffi_call",
    "fft": "core.primitives.contraction.fft",
    "stateful_rng": "core.primitives.rng.stateful_rng",
    "linalg": "core.primitives.linalg",
    "sparse": "core.primitives.contraction.coo_matmul",
    "spmd": "core.sharding.mesh",
}
_PACKAGE = __name__.removesuffix("xla_backend.stablehlo")


def rules() -> Mapping[Primitive, Any]:
    """The rule of each primitive that a program can hold by now."""
    return _table(tuple([family for family, name in _LATER.items() if _PACKAGE + name in sys.modules]))


@once
def _table(families: tuple[str, ...]) -> Mapping[Primitive, Any]:
    later = [import_module(f".{family}", __name__).RULES for family in families]
    return {p: rule for table in (_RULES, *later) for p, rule in table.items()}
