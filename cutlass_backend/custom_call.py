"""A kernel as a custom call of an XLA program: PTX, with memory for the parameters of its blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..lang.gpu.code import Compiled
from ..lang.gpu.entry_points import emitter, linker, starter
from ..lang.legalize import Legal, entry
from ..lang.targets.target import CustomCall, Target
from . import compiler
from .epilogue import BACKEND
from .module import CutlassModule, cutlass_module


@entry(BACKEND)
def compiled_kernel(kernel: Legal, machine: Target) -> tuple[CutlassModule, Compiled]:
    """The source of a kernel and its machine code, which fits the target.

    Raises:
      UnsupportedError: the kernel is not for this backend, with the reason.
      CompileError, ResourceError, VersionError: of its compiler.
    """
    module = cutlass_module(kernel, machine)
    compiled = compiler.machine_code(module, machine, kernel.source)
    return replace(module, threads=compiled.threads, shared=compiled.shared, stages=compiler.stages(module)), compiled


emit: Callable[..., CustomCall] = emitter(BACKEND, compiled_kernel)
start: Callable[..., None] = starter(lambda kernel, machine: compiler.start(cutlass_module(kernel, machine)))
compile: Callable[..., Any] = linker(compiled_kernel)
