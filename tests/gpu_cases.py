"""Kernels that are compiled for GPUs in the tests, by name: the corpus, and templates of the standard operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.test_corpus import KERNELS, operands
from tests.test_laws import CASES
from tilewright.core import tree
from tilewright.core.trace import trace_program, typeof
from tilewright.kernels import TEMPLATES
from tilewright.lang.extent import static
from tilewright.lang.kernel import Kernel
from tilewright.lang.target import Target
from tilewright.targets import kernels_of


def kernels_in(function: Callable[..., Any], types: Sequence[Any], name: str = "f") -> list[Kernel]:
    """The kernels that a function calls, their grids static."""
    program = trace_program(lambda *xs: tree.leaves(function(*xs)), types, name)
    return [static(k, "a launch needs") for k in kernels_of(program)]


def corpus(which: slice = slice(None)) -> Iterator[tuple[str, Kernel]]:
    """The kernels of the corpus, by name, size and mode."""
    for name, module in KERNELS.items():
        for size in module.SIZES[which]:
            types = [typeof(x) for x in operands(module, size)]
            for number, mode in enumerate(getattr(module, "MODES", ({},))):
                call = functools.partial(module.call, **size.blocks, **mode)
                label = f"{name}-{size!r}" + (f"-mode{number}" if number else "")
                for i, kernel in enumerate(kernels_in(call, types, name)):
                    yield label + (f"-kernel{i}" if i else ""), kernel


TEMPLATE_CASES = {case.primitive.name: case for case in reversed(CASES) if case.primitive in TEMPLATES}


def template(name: str, machine: Target) -> Kernel:
    """The kernel of a template at the target's default tiles, for its first case."""
    case = TEMPLATE_CASES[name]
    return TEMPLATES[case.primitive].kernel(*case.types, target=machine, **case.params)
