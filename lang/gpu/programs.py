"""The kernels of one program: compiled side by side, and told of by the program that has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...core.support.errors import TilewrightError
from ..kernel.kernel import Kernel
from ..legalize import Legal
from ..targets.target import Target, target_of
from .code import Compiled
from .resources import resources


def start_all[K: Kernel | Legal](kernels: Sequence[K], start: Callable[[K], object]) -> None:
    """Begin to compile kernels side by side; what is wrong with one is told when it is emitted."""
    for kernel in dict.fromkeys(kernels):
        try:
            start(kernel)
        except TilewrightError:
            continue


def with_kernels(
    text: str, name: str, target: str, kernels: Sequence[Kernel | Legal], build: Callable[[str, str, str], Any],
    compiled_kernel: Callable[[Any, Target], tuple[Any, Compiled]],
) -> Any:  # fmt: skip
    """A program for a GPU: `build` compiles the module's text; the result also tells of its kernels."""
    machine = target_of(target)
    compiled = tuple(compiled_kernel(kernel, machine)[1] for kernel in dict.fromkeys(kernels))
    binary = build(text, target, name)
    return replace(binary, resources=tuple(resources(c, machine) for c in compiled), kernels=compiled)
