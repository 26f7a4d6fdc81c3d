"""Kernels in an XLA program: compiled side by side, called as PTX custom calls, with scratch memory that is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.ir.program import Program
from ...core.ir.types import ArrayType
from ...core.support.errors import TilewrightError
from ...core.tracing.trace import eval_program, trace_program
from ..kernel.kernel import Kernel
from ..legalize import Legal
from ..targets.target import CustomCall, Target, target_of
from .code import Compiled, Module, resources

PTX_CALL = "__gpu$xla.gpu.ptx"
BYTE = np.dtype(np.uint8)


def ptx_call(kernel: Kernel, module: Module, compiled: Compiled, *scratch: int) -> CustomCall:
    """The custom call that is a kernel; after its results it takes memories of `scratch` bytes, which are dropped."""
    memories = [ArrayType((n,), BYTE) for n in scratch]
    return CustomCall(
        PTX_CALL, _ptx_config(compiled), module.in_types, (*module.out_types, *memories), 4, module.aliases,
        module.prepare, _without(kernel, module.out_types, module.finish, memories), module.name,
    )  # fmt: skip


def _without(
    kernel: Kernel, out_types: Sequence[ArrayType], finish: Program | None, scratch: Sequence[ArrayType]
) -> Program:
    """`finish` of a module whose launch also gives its scratch memory."""
    operands, results = len(kernel.in_types), len(kernel.in_types) + len(out_types)

    def run(*values: object) -> list[object]:
        kept = values[:results]
        return list(kept[operands:]) if finish is None else list(eval_program(finish, *kept))

    return trace_program(run, [*kernel.in_types, *out_types, *scratch], f"{kernel.name}_results")


def _ptx_config(compiled: Compiled) -> str:
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


def start_all[K: Kernel | Legal](kernels: Sequence[K], start: Callable[[K], object]) -> None:
    """Begin to compile kernels side by side; errors are raised when it is emitted."""
    for kernel in dict.fromkeys(kernels):
        try:
            start(kernel)
        except TilewrightError:
            continue


def with_kernels(
    text: str, name: str, target: str, kernels: Sequence[Kernel | Legal], build: Callable[[str, str, str], Any],
    compiled_kernel: Callable[[Any, Target], tuple[Any, Compiled]],
) -> Any:  # fmt: skip
    """A program for a GPU: `build` compiles the module's text; the result also has its kernels' resources."""
    machine = target_of(target)
    compiled = tuple(compiled_kernel(kernel, machine)[1] for kernel in dict.fromkeys(kernels))
    binary = build(text, target, name)
    return replace(binary, resources=tuple(resources(c, machine) for c in compiled), kernels=compiled)
