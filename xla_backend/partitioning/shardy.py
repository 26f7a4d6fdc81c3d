"""Shardy's passes, run in this process on the text of a module: how the results of a program come to lie."""

from __future__ import annotations

from typing import Any

# The bindings take 80 ms to load; this module is loaded by the first program whose results have no sharding given.
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from ...core.support.memo import once


@once
def context() -> ir.Context:
    """MLIR's context with the dialects that modules are written in."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made = ir.Context()
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    with made:
        for dialect in (stablehlo, sdy, chlo):
            dialect.register_dialect(made)
    stablehlo.register_stablehlo_passes()
    return made


# Shardy has no sharding rules of CHLO's functions: it stops at `chlo.lgamma`. XLA expands them before it partitions.
EXPAND = "func.func(chlo-legalize-to-stablehlo)"


def run(text: str, *passes: str) -> Any:
    """The module that passes make of a text, with the functions of CHLO expanded."""
    with context():
        module = ir.Module.parse(text)
        for name in (EXPAND, *passes) if "chlo." in text else passes:
            passmanager.PassManager.parse(f"builtin.module({name})").run(module.operation)
        return module


UNKNOWN = "tilewright.unknown."
Dims = tuple[str, tuple[tuple[str, ...], ...]]  # a mesh's name, and the names of the axes of each dimension


def propagated(text: str) -> list[Dims | None]:
    """How each result of a module's `main` lies by Shardy's propagation; None: on every device whole.

    What is read are the values that are returned: results themselves Shardy does not split into uneven parts.
    """
    module = run(text, "sdy-propagation-pipeline")
    with context():
        main = next(op for op in module.body.operations if _is_main(op))
        block = main.regions[0].blocks[0]
        given = [a["sdy.sharding"] if "sdy.sharding" in a else None for a in main.attributes["arg_attrs"]] \
            if "arg_attrs" in main.attributes else [None] * len(block.arguments)  # fmt: skip
        returned = block.operations[len(block.operations) - 1]
        return [_lying(value, given) for value in returned.operands]


def _lying(value: Any, given: list[Any]) -> Dims | None:
    """How a value of `main` lies; `given` are the attributes of its arguments."""
    if isinstance(value.owner, ir.Block):
        found = given[ir.BlockArgument(value).arg_number]
        return None if found is None else _dims(found)
    attributes = value.owner.attributes
    for name in ("sdy.sharding", "sharding"):
        if name in attributes:
            found = attributes[name]
            if name == "sdy.sharding":
                found = sdy.TensorShardingPerValueAttr(found).shardings[ir.OpResult(value).result_number]
            return _dims(found)
    if "out_shardings" in attributes:
        found = sdy.TensorShardingPerValueAttr(attributes["out_shardings"])
        return _dims(found.shardings[ir.OpResult(value).result_number])
    return None


def unknown_calls(text: str) -> dict[int, tuple[list[Any], list[Any]]]:
    """How the operands and the results of calls that XLA does not know come to lie, by the calls' numbers."""
    module, found = run(text, "sdy-propagation-pipeline"), {}
    with context():
        main = next(op for op in module.body.operations if _is_main(op))
        attributes = main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else []
        given = [a["sdy.sharding"] if "sdy.sharding" in a else None for a in attributes]

        def dims(value: Any) -> Any:
            inner = isinstance(value.owner, ir.Block) and value.owner != main.regions[0].blocks[0]
            lying = None if inner else _lying(value, given)
            return None if lying is None or lying[0] != "mesh" else lying[1]

        def visit(op: Any) -> Any:
            if op.name == "stablehlo.custom_call":
                name = ir.StringAttr(op.attributes["call_target_name"]).value
                if name.startswith(UNKNOWN):
                    found[int(name.removeprefix(UNKNOWN))] = [*map(dims, op.operands)], [*map(dims, op.results)]
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
    return found


def _is_main(op: Any) -> bool:
    return "sym_name" in op.attributes and ir.StringAttr(op.attributes["sym_name"]).value == "main"


def _dims(attribute: Any) -> Dims:
    found = sdy.TensorShardingAttr(attribute)
    mesh = ir.FlatSymbolRefAttr(found.mesh_or_ref).value
    return mesh, tuple(_axes(sdy.DimensionShardingAttr(d)) for d in found.dimension_shardings)


def _axes(dimension: Any) -> tuple[str, ...]:
    """The axes that split a dimension. A part of an axis has no name, so that from there on it is not split."""
    names: list[str] = []
    for attribute in dimension.axes:
        axis = sdy.AxisRefAttr(attribute)
        if axis.sub_axis_info is not None:
            break
        names.append(axis.name)
    return tuple(names)
