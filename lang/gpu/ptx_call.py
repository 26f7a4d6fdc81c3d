"""Machine code as XLA's custom call that launches PTX, with memory of its own that is dropped."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.ir import Program
from ...core.trace import eval_program, trace_program
from ...core.types import ArrayType
from ..kernel import Kernel
from .code import Compiled

PTX_CALL = "__gpu$xla.gpu.ptx"


def without(
    kernel: Kernel, out_types: Sequence[ArrayType], finish: Program | None, scratch: Sequence[ArrayType]
) -> Program:
    """`finish` of a module whose launch also gives its scratch memory."""
    operands, results = len(kernel.in_types), len(kernel.in_types) + len(out_types)

    def run(*values: object) -> list[object]:
        kept = values[:results]
        return list(kept[operands:]) if finish is None else list(eval_program(finish, *kept))

    return trace_program(run, [*kernel.in_types, *out_types, *scratch], f"{kernel.name}_results")


def ptx_config(compiled: Compiled) -> str:
    x, y, z = compiled.grid
    sizes = {"grid_x": x, "grid_y": y, "grid_z": z, "block_x": compiled.threads, "block_y": 1, "block_z": 1,
             "shared_mem_bytes": compiled.shared}  # fmt: skip
    return config({"name": compiled.name, "kernel_type": "ptx", "kernel_data": compiled.assembly}, sizes)


def config(texts: dict[str, str], sizes: dict[str, int], more: str = "") -> str:
    """A dictionary attribute of strings and 32-bit integers, as MLIR prints it."""
    parts = [f'{k} = "{_escaped(v)}"' for k, v in texts.items()] + [f"{k} = {v} : i32" for k, v in sizes.items()]
    return f"{{{', '.join(parts)}{more}}}"


def _escaped(text: str) -> str:
    return "".join(c if " " <= c <= "~" and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode()) for c in text)
