"""The stages of `jit` ahead of time: traced, lowered, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import tree
from .api import struct_of
from .errors import ArgumentTypeError
from .ir import Program
from .runtime import runtime
from .trace import typeof


class Traced:
    """A function traced for arguments of known types."""

    def __init__(self, function: Any, entry: Any, in_tree: Any, statics: Any):
        self._function, self._entry, self.in_tree, self._statics = function, entry, in_tree, statics

    @property
    def jaxpr(self) -> Program:
        """The Program."""
        return self._entry.closed

    program = jaxpr

    @property
    def out_tree(self) -> Any:
        return self._entry.out_tree

    @property
    def out_info(self) -> Any:
        """The shapes and dtypes of the result."""
        return self.out_tree.unflatten([struct_of(t) for t in self._entry.program.out_types])

    @property
    def call(self) -> tuple[str, tuple[int, ...], bool]:
        """How the compiled function is called: its name, the inputs that are donated, whether unused ones stay."""
        donated = tuple(i for i, d in enumerate(self._entry.donated) if d)
        return self._function._name, donated, self._function._options.keep_unused

    @property
    def device(self) -> Any:
        """The device that `jit` was told, None if none."""
        return self._function._options.device

    def compiled(self, executable: Any) -> Compiled:
        """What calls the backend's executable of the function."""
        backend = runtime.backend
        run = backend.runner(executable, self._entry.form, self.out_tree.unflatten)
        return Compiled(self, executable, run, backend.buffers)

    def lower(self) -> Lowered:
        """Print the Program for the backend."""
        return Lowered(self, self._function._module(self._entry))


class Lowered:
    """A function as the text of a module."""

    def __init__(self, traced: Traced, module: Any):
        self._traced, self._module = traced, module
        self.in_tree, self.out_tree = traced.in_tree, traced.out_tree

    @property
    def out_info(self) -> Any:
        """The shapes and dtypes of the result."""
        return self._traced.out_info

    def as_text(self, dialect: str | None = None) -> str:
        """The module's text."""
        return self._module.text

    __str__ = as_text

    def cost_analysis(self) -> dict[str, float]:
        """The backend's estimates of the compiled program."""
        return self.compile().cost_analysis()

    def compile(self) -> Compiled:
        """Compile for the device."""
        return self._traced.compiled(runtime.backend.compile(self._module, self._traced.device))


class Compiled:
    """A function compiled for arguments of known types; called without its static arguments."""

    def __init__(self, traced: Traced, executable: Any, run: Callable[..., Any], buffers: Callable[..., Any]):
        self._traced, self._executable, self._run, self._buffers = traced, executable, run, buffers
        self.in_tree, self.out_tree, self.out_info = traced.in_tree, traced.out_tree, traced.out_info
        entry = traced._entry
        self._types = entry.program.in_types[len(entry.constants) :]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs))
        if treedef != self.in_tree:
            raise ArgumentTypeError(
                f"compiled for arguments of structure {self.in_tree}, called with {treedef}",
                "call it with the structure it was lowered for, static arguments left out",
            )
        for x, expected in zip(leaves, self._types, strict=True):
            found: Any = typeof(x)
            if found.shape != expected.shape or (found.dtype != expected.dtype and not found.weak_type):
                raise ArgumentTypeError(
                    f"compiled for an argument of type {expected.show()}, called with {found.show()}",
                    "call it with the types it was lowered for",
                )
        return self._run(*self._buffers(leaves, self._types))

    def as_text(self) -> str:
        """The optimised program."""
        return self._executable.as_text()

    __str__ = as_text

    def cost_analysis(self) -> dict[str, float]:
        """Estimates such as `flops` and `bytes accessed`."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """The bytes of arguments, outputs, temporary memory and code."""
        return self._executable.memory_analysis()

    def runtime_executable(self) -> Any:
        """The backend's executable."""
        return self._executable
