"""What `core/jit.py` asks of a backend, by XLA: lower, compile, run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from ..core.caches import cached
from ..core.ir import Program
from . import dispatch
from .array import Array
from .client import as_device
from .executable import Executable, compile_module
from .module import Module
from .placed import lower_for
from .transfer import host_buffer

# A call on arrays alone: identity checks, one look-up by their types, and the runner. What is not an
# array is told apart by its class, since raising AttributeError for it would take longer than the call.
_TRAMPOLINE = """
def call({parameters}/, *rest, **kwargs):
    if {arrays} and trace() is EVAL and (local() or config_module._global) is state.config:
        run = runs.get({key})
        if run is not None and not rest and not kwargs:
            return run({operands})
    return slow((*[a for a in ({names},) if a is not ABSENT], *rest), kwargs)
"""


@cached()
def _trampoline_code(arity: int) -> CodeType:
    names = [f"a{i}" for i in range(arity)]
    source = _TRAMPOLINE.format(
        parameters="".join(f"{n}=ABSENT, " for n in names),
        arrays=" and ".join(f"type({n}) is Array" for n in names),
        key=", ".join(f"{n}.aval" for n in names) if arity == 1 else f"({', '.join(f'{n}.aval' for n in names)})",
        operands=", ".join(f"{n}._buffer" for n in names),
        names=", ".join(names),
    )
    found: dict[str, Any] = {"ABSENT": None}
    exec(compile(source, "<tilewright trampoline>", "exec"), found)
    return found["call"].__code__


class XlaBackend:
    """Programs by XLA on this process's devices."""

    def lower(self, program: Program, name: str, donated: Sequence[int] = (), keep_unused: bool = False) -> Module:
        """The module of a Program."""
        return lower_for(None, program, name, donated, keep_unused)

    def compile(self, module: Module, device: Any = None) -> Executable:
        """The executable of a module, on the default device unless one is named."""
        return compile_module(module, None if device is None else as_device(device))

    def runner(self, executable: Executable, result: str, unflatten: Any = None) -> Callable[..., Any]:
        """A function from buffers to Arrays put together as `result` says."""
        return dispatch.make_runner(executable, result, unflatten)

    def buffers(self, values: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
        """The buffers of values of known types, which are put on the device if they are not there."""
        return [x._buffer if type(x) is Array else host_buffer(x, t) for x, t in zip(values, types, strict=True)]

    def trampoline(self, arity: int) -> tuple[CodeType, dict[str, Any]] | None:
        """Code for calls on `arity` Arrays, and its globals; None where there is nothing to gain."""
        return (_trampoline_code(arity), {"Array": Array}) if arity else None
