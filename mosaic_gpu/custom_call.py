"""A kernel as a custom call of an XLA program: PTX, with memory for its tensor descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.support.errors import CompileError
from ..lang.gpu.code import Compiled, check, resources
from ..lang.gpu.entry_points import emitter, linker, starter
from ..lang.legalize import Legal, entry
from ..lang.targets.target import CustomCall, Target
from . import compiler
from .language import BACKEND
from .module import MosaicGpuModule, mosaic_gpu_module


@entry(BACKEND)
def compiled_kernel(kernel: Legal, machine: Target) -> tuple[MosaicGpuModule, Compiled]:
    """The module of a kernel and its machine code, which fits the target.

    Raises:
      UnsupportedError: the kernel is not for this backend, with the reason.
      CompileError, VersionError: of its compiler.
    """
    module = mosaic_gpu_module(kernel, machine)
    try:
        compiled = compiler.machine_code(module, machine, kernel.source)
    except CompileError:
        if not module.divided:
            raise
        compiled = None
    spills = 0 if compiled is None else resources(compiled, machine).spills or 0
    if compiled is None or spills and module.divided:  # two loops may take more registers than one
        whole = mosaic_gpu_module(kernel, machine, divided=False)
        other = compiler.machine_code(whole, machine, kernel.source)
        if compiled is None or (resources(other, machine).spills or 0) < spills:
            module, compiled = whole, other
    check(compiled, machine, kernel.source)
    return module, compiled


emit: Callable[..., CustomCall] = emitter(BACKEND, compiled_kernel)
start: Callable[..., None] = starter(lambda kernel, machine: compiler.start(mosaic_gpu_module(kernel, machine)))
compile: Callable[..., Any] = linker(compiled_kernel)
