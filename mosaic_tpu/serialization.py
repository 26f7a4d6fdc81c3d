"""Mosaic modules as libtpu takes them: text into versioned bytecode, and back to a name."""

from __future__ import annotations

import io
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.passmanager import PassManager
from jaxlib.mosaic.python import tpu


def context() -> Any:
    """A new MLIR context with the dialects of Mosaic modules."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made = ir.Context()
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    tpu.register_dialect(made)
    return made


def serialize(text: str) -> bytes:
    """The text of a Mosaic module, verified, as bytecode of the stable dialect."""
    made = context()
    with made, ir.Location.unknown():
        module = ir.Module.parse(text)
        module.operation.verify()
        made.allow_unregistered_dialects = True  # the stable dialect has no definition here
        PassManager.parse("builtin.module(mosaic-serde{serialize=true})").run(module.operation)
        out = io.BytesIO()
        module.operation.write_bytecode(out, desired_version=0)
        return out.getvalue()


def module_name(code: bytes) -> str:
    """The name of a module in bytecode; "" if it has none."""
    made = context()
    made.allow_unregistered_dialects = True
    with made, ir.Location.unknown():
        attributes = ir.Module.parse(code).operation.attributes
        return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else ""
