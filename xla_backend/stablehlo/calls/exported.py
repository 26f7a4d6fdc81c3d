"""StableHLO of calls of exported functions: their own functions, under new names, and a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ....core.ir.types import INT32, ArrayType
from ....core.primitives.external.call_exported import call_exported_p
from ...arrays.transfer import physical
from ...jaxlib import shim
from ..emit import Emitter, Operand

_ON_MESH = re.compile(r"<@(\w+),(?= \[)")  # in each of Shardy's attributes


def _functions(e: Emitter, exported: Any) -> str:
    """Print the functions of an export, once for a module; gives the name of the one to call."""
    prefix = e.imported.get(exported)
    if prefix is None:
        prefix = e.imported[exported] = f"exported_{len(e.imported)}_"
        functions, meshes = shim.functions(exported.mlir_module_serialized, prefix, len(e.callbacks))
        if meshes:
            names = {old: e.meshes.declared(body) for old, body in meshes.items()}
            functions = [_ON_MESH.sub(lambda found: f"<@{names[found[1]]},", text) for text in functions]
        e.functions += functions
        e.callbacks += exported.callbacks
    return prefix + "main"


def _converted(e: Emitter, x: Operand, type: ArrayType) -> Operand:
    """A value whose size is known to one side alone, as the other side has it."""
    return x if x.shape == type.shape else e.op("stablehlo.convert", [x], type)


def _call(e: Emitter, operands: list[Operand], outs: Sequence[Any], *, exported: Any) -> list[Operand]:
    if "cpu" in exported.platforms:
        shim.lapack()
    branch = exported.branch(e.platform)
    stated = [physical(t) for t in exported.in_avals]
    given = [_converted(e, operands[i], stated[i]) for i in exported.module_kept_var_idx]
    if len(exported.platforms) > 1:
        given.insert(0, e.constant(branch, ArrayType((), INT32)))
    made = [physical(t) for t in exported.out_avals]
    results = e.ops("func.call", given, made, f"callee = @{_functions(e, exported)}")
    e.unrefined = e.unrefined or exported.uses_global_constants
    return [_converted(e, x, physical(t)) for x, t in zip(results, outs, strict=True)]


RULES = {call_exported_p: _call}
