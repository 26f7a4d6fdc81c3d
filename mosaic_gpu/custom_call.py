"""A kernel as a custom call of an XLA program: PTX, with memory for its tensor descriptors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.support.memo import cached
from ..lang.gpu.code import Compiled, check
from ..lang.gpu.ptx_call import ptx_call, start_all, with_kernels
from ..lang.kernel.kernel import Kernel
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
    compiled = compiler.machine_code(module, machine, kernel.source)
    check(compiled, machine, kernel.source)
    return module, compiled


@entry(BACKEND)
@cached(1024)
def emit(kernel: Legal, machine: Target) -> CustomCall:
    """The custom call that is a kernel. Raises as `compiled_kernel`."""
    module, compiled = compiled_kernel(kernel, machine)
    return ptx_call(kernel.kernel, module, compiled, module.scratch)


def start(kernels: Sequence[Kernel | Legal], machine: Target) -> None:
    """Begin to compile kernels side by side; what is wrong with one is told when it is emitted."""
    start_all(kernels, lambda kernel: compiler.start(mosaic_gpu_module(kernel, machine)))


def compile(
    text: str, name: str, target: str, kernels: Sequence[Kernel | Legal], build: Callable[[str, str, str], Any]
) -> Any:  # fmt: skip
    """A program for a GPU: `build` compiles the module's text; the result also tells of its kernels."""
    return with_kernels(text, name, target, kernels, build, compiled_kernel)
