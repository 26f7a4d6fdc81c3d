"""Kernels as custom calls of machine code of this CPU: compiled, kept on disk, and known to XLA by name."""

from __future__ import annotations

from typing import Any

from ..core.ir.program import Program
from ..core.support.errors import TilewrightError
from ..core.tracing.trace import trace_program
from ..cpu_backend.llvm.compile import missing
from ..cpu_backend.lowering.kernel import Code, code_of
from ..cpu_backend.lowering.refusal import refuse
from ..cpu_backend.machine.features import features
from ..cpu_backend.objects.loader import reason
from ..cpu_backend.runtime.library import capsule, loaded
from ..lang.cpu import CompilerParams
from ..lang.kernel.kernel import Kernel
from ..lang.targets.compiler_params import params_of
from ..lang.targets.target import CPU, CustomCall
from ..xla_backend.host.disk_cache import disk_cache
from ..xla_backend.jaxlib import ffi_registry

TYPED = 4  # the version of custom calls whose handlers are typed


def wanted(kernel: Kernel) -> bool:
    """Whether the author of a kernel asks for machine code."""
    return params_of(kernel, CompilerParams).route == "machine_code"


def call_of(kernel: Kernel) -> CustomCall:
    """The custom call that is a kernel.

    Raises an `UnsupportedError`, a `CompileError` or a `VersionError` where there is no machine code of it here.
    """
    why = features().why or reason() or missing()
    if why is not None:
        raise refuse(why)
    code = code_of(kernel, CPU)
    name, found = loaded(code.text, disk_cache())
    if not ffi_registry.is_registered(name, "cpu"):
        ffi_registry.register(name, capsule(found.symbols["handler"]), "cpu", 1)
    return CustomCall(name, "{}", code.in_types, code.out_types, TYPED, (), None, _results(kernel, code), kernel.name)


def _results(kernel: Kernel, code: Code) -> Program | None:
    """What drops the workspace from the results."""
    first, count = len(code.in_types), len(kernel.outputs)
    if len(code.out_types) == count:
        return None
    types = [*code.in_types, *code.out_types]
    return trace_program(lambda *arrays: list(arrays[first : first + count]), types, kernel.name)


class Calls:
    """The calls of a program's kernels; `refused` has the reason for each that XLA computes though it is asked for."""

    def __init__(self) -> None:
        self.refused: dict[Kernel, str] = {}

    def __call__(self, kernel: Kernel) -> Any:
        if not wanted(kernel):
            return kernel
        try:
            return call_of(kernel)
        except TilewrightError as error:
            self.refused[kernel] = error.what
            return kernel

    def told(self, kernel: Kernel, route: str) -> str:
        """A kernel's route in words, with the reason why it is not machine code where that is asked for."""
        if not wanted(kernel):
            return route
        why = self.refused.get(kernel)
        return f"machine code of this CPU, {route}" if why is None else f"{route}; not machine code: {why}"
