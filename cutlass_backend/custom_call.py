"""A kernel as a custom call of an XLA program: PTX, with memory for the parameters of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.caches import cached
from ..core.errors import TilewrightError
from ..core.types import ArrayType
from ..lang.extent import static
from ..lang.gpu.code import Compiled
from ..lang.gpu.ptx_call import PTX_CALL, ptx_config, without
from ..lang.gpu.resources import resources
from ..lang.kernel import Kernel
from ..lang.target import CustomCall, Target, target_of
from . import compiler
from .module import CutlassModule, cutlass_module

BYTE = np.dtype(np.uint8)


def compiled_kernel(kernel: Kernel, machine: Target) -> tuple[CutlassModule, Compiled]:
    """The source of a kernel and its machine code, which fits the target.

    Raises:
      UnsupportedError: the kernel is not for this backend, with the reason.
      CompileError, ResourceError, VersionError: of its compiler.
    """
    module = cutlass_module(kernel, machine)
    compiled = compiler.machine_code(module, machine, kernel.source)
    found = replace(module, threads=compiled.threads, shared=compiled.shared, stages=compiler.stages(module))
    return found, compiled


@cached(1024)
def emit(kernel: Kernel, machine: Target) -> CustomCall:
    """The custom call that is a kernel. Raises as `compiled_kernel`."""
    module, compiled = compiled_kernel(kernel, machine)
    scratch = (ArrayType((max(module.scratch, 1),), BYTE),)
    return CustomCall(
        PTX_CALL, ptx_config(compiled), module.in_types, (*module.out_types, *scratch), 4, module.aliases,
        module.prepare, without(kernel, module.out_types, module.finish, scratch), module.name,
    )  # fmt: skip


def start(kernels: Sequence[Kernel], machine: Target) -> None:
    """Begin to compile kernels side by side; what is wrong with one is told when it is emitted."""
    for kernel in dict.fromkeys(kernels):
        try:
            compiler.start(cutlass_module(static(kernel, machine.name), machine))
        except TilewrightError:
            continue


def compile(text: str, name: str, target: str, kernels: Sequence[Kernel], build: Callable[[str, str, str], Any]) -> Any:
    """A program for a GPU: `build` compiles the module's text; the result also tells of its kernels."""
    machine = target_of(target)
    compiled = tuple(compiled_kernel(kernel, machine)[1] for kernel in dict.fromkeys(kernels))
    binary = build(text, target, name)
    return replace(binary, resources=tuple(resources(c, machine) for c in compiled), kernels=compiled)
