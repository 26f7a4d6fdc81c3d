"""A Program compiled for a device that need not be here: kernels by the device's backend, the rest by XLA."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from .core.errors import ArgumentError
from .core.ir import Program, subprograms
from .lang.kernel import Kernel
from .lang.target import CustomCall, target_of
from .xla_backend.module import lower

# Who lowers the kernels, and which module of xla_backend compiles the program.
BACKENDS = {"cuda": ("triton_backend", "cuda"), "rocm": ("triton_backend", "cuda"), "tpu": ("mosaic_tpu", "tpu")}


def kernels_of(program: Program) -> Iterator[Kernel]:
    """Every kernel that a Program calls."""
    for eqn in program.eqns:
        yield from (v for v in eqn.params.values() if isinstance(v, Kernel))
        for _, inner in subprograms(eqn):
            yield from kernels_of(inner)


def compile_for(target: str, program: Program, stop: str = "executable") -> Any:
    """The module's text (`stop="module"`), or what the device's compiler makes of it.

    Raises:
      ArgumentError: an unknown target.
    """
    machine = target_of(target)
    if machine.kind not in BACKENDS:
        raise ArgumentError(f"{target!r} is compiled for where it runs", "leave `target` out")
    lowering, family = BACKENDS[machine.kind]
    backend = importlib.import_module(f".{lowering}", __package__)
    if hasattr(backend, "start"):  # compiles several kernels side by side
        backend.start([k for k in kernels_of(program) if not k.interpret], machine)
    kernels: list[Kernel] = []

    def emit(kernel: Kernel) -> CustomCall:
        kernels.append(kernel)
        return backend.emit(kernel, machine)

    module = lower(program, program.name, platform=machine.kind, kernels=emit)
    if stop == "module":
        return module.text
    build = importlib.import_module(f".xla_backend.{family}", __package__).compile
    return backend.compile(module.text, program.name, target, kernels, build)
