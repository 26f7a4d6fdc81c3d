"""Programs compiled for a device that need not be here: what comes of them, and which module compiles for which family.

A family's module (`xla_backend/devices/cuda_plugin.py`, `xla_backend/devices/tpu_plugin.py`) has `compile(text, target,
name) -> Binary`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...core.support.errors import UnsupportedError
from ...lang.targets.target import Resources


@dataclass(frozen=True)
class Binary:
    """A program compiled for `target`: prints, serialises and reports its kernels' resources; runs on the target.

    `here` gives what runs it on a device of this process, None where there is no such device.
    """

    name: str
    target: str
    module: str  # the StableHLO text it was compiled from
    executable: Any  # the compiler's own object; None where there is no compiler for what surrounds the kernels
    resources: tuple[Resources, ...] = ()
    kernels: tuple[Any, ...] = ()  # the machine code of each kernel that has a separate compiler
    here: Callable[[], Callable[..., Any] | None] = lambda: None

    @property
    def _compiled(self) -> Any:
        if self.executable is None:
            raise UnsupportedError(
                f"{self.name} for {self.target} is its kernels alone: there is no XLA compiler for {self.target} among "
                "this package's extras, so the operations around them are not compiled",
                "`.kernels` holds the machine code of each kernel, `.module` the StableHLO of the program")  # fmt: skip
        return self.executable

    def as_text(self) -> str:
        """The program after the compiler's passes."""
        return "\n".join(m.to_string() for m in self._compiled.hlo_modules())

    def __str__(self) -> str:
        return self.module if self.executable is None else self.as_text()

    def __repr__(self) -> str:
        return f"<{self.name} compiled for {self.target}: {sum(not r.left_to_xla for r in self.resources)} kernels>"

    def serialize(self) -> bytes:
        """The machine code and what is needed to load it, as the target's runtime takes it."""
        return self._compiled.serialize()

    def cost_analysis(self) -> Any:
        """The compiler's own estimates (kernels count through the cost they state)."""
        return self._compiled.cost_analysis()

    def memory_analysis(self) -> Any:
        """The bytes of arguments, outputs, temporary memory and code."""
        return self._compiled.get_compiled_memory_stats()

    @functools.cached_property
    def _loaded(self) -> Callable[..., Any] | None:
        return self.here()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._loaded is not None:
            return self._loaded(*args, **kwargs)
        raise UnsupportedError(
            f"{self.name} was compiled for {self.target}, which is not a device of this process",
            "serialise it and run it on a machine that has one, or compile without `target` to run here")  # fmt: skip
