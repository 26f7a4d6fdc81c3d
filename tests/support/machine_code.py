"""Generated functions as functions of NumPy arrays."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.core.ir.types import ArrayType
from tilewright.cpu_backend.functions import FUNCTIONS
from tilewright.cpu_backend.llvm.builder import Builder, vector
from tilewright.cpu_backend.llvm.compile import missing, module_text
from tilewright.cpu_backend.lowering.kernel import Code, code_of
from tilewright.cpu_backend.machine.features import Features, features
from tilewright.cpu_backend.objects.loader import reason
from tilewright.cpu_backend.runtime.abi import OFFSETS, offset
from tilewright.cpu_backend.runtime.library import loaded
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.targets.target import CPU

needs_llvm = pytest.mark.skipif(
    bool(missing() or reason() or features().why), reason=str(missing() or reason() or features().why)
)
DTYPES = {"float": np.float32, "double": np.float64}


def elementwise(name: str, scalar: str, lanes: int, operands: int = 1) -> Callable[..., np.ndarray]:
    """A special function over arrays, `lanes` at a time (0: one by one)."""
    b = Builder("run", [("ptr", f"p{i}") for i in range(operands + 1)] + [("i64", "count")], features().names)
    b.linkage = ""
    *pointers, out, count = b.parameters
    with b.loop(0, count, lanes or 1) as loop:
        given = [b.load(b.offset(p, loop.index, scalar), vector(scalar, lanes)) for p in pointers]
        b.store(FUNCTIONS[name](b, *given), b.offset(out, loop.index, scalar))
    _, code = loaded(module_text([b]), None)
    kinds = [ctypes.c_void_p] * (operands + 1)
    run = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_int64)(code.symbols["run"])

    def call(*arrays: Any) -> np.ndarray:
        size = len(arrays[0])
        padded = [np.concatenate([np.asarray(a, DTYPES[scalar]), np.ones(-size % 16, DTYPES[scalar])]) for a in arrays]
        result = np.empty_like(padded[0])
        run(*(a.ctypes.data for a in padded), result.ctypes.data, len(result))
        return result[:size]

    call.code = code
    return call


def ulps(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest distance from a reference of more digits, in units of the last place."""
    with np.errstate(over="ignore"):
        exact = np.abs(wanted).astype(found.dtype)
    inside = np.isfinite(exact) & np.isfinite(found)
    assert (inside | (exact == np.abs(found)) | np.isnan(exact) & np.isnan(found)).all()
    found, wanted, exact = found[inside], wanted[inside], exact[inside]
    return float((np.abs(found.astype(wanted.dtype) - wanted) / np.spacing(exact).astype(wanted.dtype)).max())


# ---------------------------------------------------------------------------- kernels

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """Memory of some bytes between two pages that nothing may touch, next to the one before it or the one after it.

    With `shift` it starts as many bytes further from the page.
    """

    def __init__(self, size: int, high: bool, shift: int = 0):
        pages = max(-(-(size + shift) // PAGE), 1)
        self.memory = mmap.mmap(-1, (pages + 2) * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for at in (base, base + (pages + 1) * PAGE):
            assert not _libc.mprotect(at, PAGE, 0)
        self.start = PAGE + (pages * PAGE - size - shift if high else shift)
        self.address, self.size = base + self.start, size

    def fill(self, data: bytes) -> None:
        self.memory[self.start : self.start + self.size] = data

    def array(self, type_: ArrayType) -> np.ndarray:
        data = self.memory[self.start : self.start + self.size]
        return np.frombuffer(data, type_.dtype).reshape(type_.shape).copy()


def called(
    code: Code, arrays: Sequence[Any], high: bool = True, machine: Features | None = None, shift: int = 0
) -> list[np.ndarray]:
    """The results of a kernel's handler, called as XLA calls it, every buffer between guard pages.

    Results that may be in an operand's place are there.
    """
    assert code.launch.workers == 1
    _, found = loaded(code.text, None, machine)
    operands = [Guarded(t.nbytes, high, shift) for t in code.in_types]
    for one, array, type_ in zip(operands, arrays, code.in_types, strict=True):
        one.fill(np.ascontiguousarray(array, type_.dtype).tobytes())
    shared = {o: operands[i] for i, o in code.aliases}
    results = [shared.get(o) or Guarded(t.nbytes, high, shift) for o, t in enumerate(code.out_types)]
    for o, one in enumerate(results):
        if o not in shared:
            one.fill(b"\xff" * one.size)
    kept: list[Any] = []

    def block(values: dict[int, int], size: int) -> int:
        text = ctypes.create_string_buffer(size)
        for at, value in values.items():
            struct.pack_into("<Q", text, at, value)
        kept.append(text)
        return ctypes.addressof(text)

    data = offset("XLA_FFI_Buffer", "data")
    frame = {}
    for side, buffers in (("args", operands), ("rets", results)):
        pointers = [block({data: g.address}, 48) for g in buffers]
        listed = block({8 * i: p for i, p in enumerate(pointers)}, max(8 * len(pointers), 8))
        frame[OFFSETS["XLA_FFI_CallFrame"][side] + offset(f"XLA_FFI_{side.title()}", side)] = listed
    run = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(found.symbols["handler"])
    assert not run(block(frame, 160))
    count = code.launch.results
    return [g.array(t) for g, t in zip(results[:count], code.out_types, strict=False)]


def machine_code(kernel: Kernel, *arrays: Any, high: bool = True, machine: Features | None = None) -> list[np.ndarray]:
    """What a kernel's machine code gives; raises an `UnsupportedError` where there is none."""
    return called(code_of(kernel, CPU, machine, threads=1), arrays, high, machine)
