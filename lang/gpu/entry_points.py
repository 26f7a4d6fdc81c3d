"""The entry points of a GPU backend: emit one kernel, start to compile many, compile a program that calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...core.support.errors import TilewrightError
from ...core.support.memo import cached
from ..kernel.kernel import Kernel
from ..legalize import Backend, Legal, entry
from ..targets.target import CustomCall, Resources, Target, target_of
from .code import Compiled, resources
from .ptx_call import ptx_call

Source = Kernel | Legal


def emitter(
    backend: Backend, compiled_kernel: Callable[[Any, Target], tuple[Any, Compiled]]
) -> Callable[[Source, Target], CustomCall]:
    """`emit` of a backend whose modules state their `scratch` bytes."""

    @entry(backend)
    @cached(1024)
    def emit(kernel: Legal, machine: Target) -> CustomCall:
        """The custom call of a kernel. Raises as `compiled_kernel`."""
        module, compiled = compiled_kernel(kernel, machine)
        return ptx_call(kernel.kernel, module, compiled, max(module.scratch, 1))

    return emit


def starter(begin: Callable[[Any, Target], object]) -> Callable[[Sequence[Source], Target], None]:
    """`start` of a backend: `begin` starts to compile one kernel."""

    def start(kernels: Sequence[Source], machine: Target) -> None:
        """Start to compile kernels in parallel; errors are raised when a kernel is emitted."""
        for kernel in dict.fromkeys(kernels):
            try:
                begin(kernel, machine)
            except TilewrightError:
                continue

    return start


def linker(
    compiled_kernel: Callable[[Any, Target], tuple[Any, Compiled]],
    used: Callable[[Source, Compiled, Target], Resources] = lambda kernel, compiled, machine: resources(
        compiled, machine
    ),
) -> Callable[..., Any]:
    """`compile` of a backend; `used` gives the resources of a compiled kernel."""

    def compile(
        text: str, name: str, target: str, kernels: Sequence[Source], build: Callable[[str, str, str], Any]
    ) -> Any:  # fmt: skip
        """A program for a GPU: `build` compiles the module's text; the result also records its kernels."""
        machine = target_of(target)
        found = [(kernel, compiled_kernel(kernel, machine)[1]) for kernel in dict.fromkeys(kernels)]
        shown = tuple(used(kernel, compiled, machine) for kernel, compiled in found)
        return replace(build(text, target, name), resources=shown, kernels=tuple(compiled for _, compiled in found))

    return compile
