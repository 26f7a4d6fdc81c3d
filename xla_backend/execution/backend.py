"""The part of `core/ir/backend.py` that XLA does: evaluate, compile, run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any

import numpy as np

from tilewright.numpy.protocols.array_methods import ArrayMethods

from ..arrays import fast_path_codegen
from ..arrays.array import Array
from ..arrays.transfer import copy, host_buffer, host_types, known_kinds
from ..devices.client import all_devices, as_device
from ..jaxlib import shim
from ..pipeline.stablehlo_module import Module
from . import dispatch
from .executable import Executable, compile_module

_OURS = frozenset({Array})
_KIND, _BUFFER = operator.attrgetter("_kind"), operator.attrgetter("_buffer")


def with_flags(module: Module, flags: Sequence[tuple[str, Any]]) -> Module:
    """A module with flags for XLA's compiler beside its own."""
    return replace(module, settings=(*module.settings, *flags)) if flags else module


class XlaBackend:
    """Programs by XLA on this process's devices."""

    array_methods = ArrayMethods
    evaluate = staticmethod(dispatch.evaluate)
    devices = staticmethod(all_devices)

    def compile(self, module: Module, device: Any = None, flags: Sequence[tuple[str, Any]] = ()) -> Executable:
        """The executable of a module, on the default device unless one is named, with flags of XLA's."""
        module = with_flags(module, flags)
        executable = compile_module(module, None if device is None else as_device(device))
        executable.pinned = device is not None
        return executable

    def compiler_ir(self, module: Module, dialect: str) -> Any:
        """A module as jaxlib's MLIR module, or as its computation in HLO."""
        return shim.computation(module.text) if dialect == "hlo" else shim.parsed(module.text)

    def runner(
        self, executable: Executable, result: str, unflatten: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """A function from buffers to Arrays, structured by `result`."""
        return dispatch.make_runner(executable, result, unflatten)

    def buffers(self, values: Sequence[Any], types: Sequence[Any], kept: bool = True) -> Sequence[Any]:
        """The buffers of values of known types, which are put on the device if they are not there."""
        return [
            x._buffer if type(x) is Array else copy(x, t) if type(x) is np.ndarray else host_buffer(x, t, kept)
            for x, t in zip(values, types, strict=True)
        ]

    def beside(self, first: Any, numbers: Sequence[Any]) -> Sequence[Any]:
        """Buffers of Python numbers on each device of an array."""
        return first._beside(numbers)

    def held(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """Kinds and buffers of values that are all Arrays; None where one is not."""
        return ([*map(_KIND, values)], [*map(_BUFFER, values)]) if _OURS.issuperset(map(type, values)) else None

    def kinds(self, values: Sequence[Any]) -> list[Any] | None:
        """Kinds of values that are Arrays or NumPy arrays of a dtype and shape met before; None where one is not."""
        return known_kinds(values, Array)

    def fast_path(
        self, arity: int, plain: bool, operator: bool = False
    ) -> tuple[CodeType, dict[str, Any]] | None:
        """Code for calls on `arity` Arrays, and its globals; None where there is nothing to gain."""
        names = {"Array": Array, "ndarray": np.ndarray, "types": host_types.get, "copy": copy}
        return (fast_path_codegen.fast_path(arity, plain, operator, not plain), names) if arity else None
