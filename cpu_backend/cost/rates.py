"""Rates of this machine that costs are estimated with: measured once by small generated functions, kept on disk.

    Rates ::= name=number, ...        bytes a second, and fused multiply-adds a second of one core

A file is named by the processor's model, features and caches, so a folder shared by machines has one for each. Of
several repetitions the fastest counts, in CPU time of the measuring thread: other processes only make one slower.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from ...core.support.errors import ConfigError
from ...core.support.memo import once
from ...core.support.runtime import runtime
from ..llvm.builder import Builder, vector
from ..llvm.compile import module_text, object_of
from ..lowering.products import BYTES, added, grouped
from ..machine.features import caches, features
from ..objects.loader import Loaded, load
from ..objects.store import Store

VERSION = 2  # of the measurement: part of the name of what is kept
FAR_BYTES = 2**26  # of each array that is read from memory
REPEATS = 7
SUMS = 12  # independent chains of multiply-adds: more than their latency times the units of any processor
ROUNDS = 20_000  # of each chain
_known: dict[str, Rates] = runtime.part("cpu.rates", {})


@dataclass(frozen=True)
class Rates:
    """What one core does in a second: bytes that it reads and writes, and fused multiply-adds of float32.

    `read`: memory that is read. `copy`: read and written, an array each. `in_place`: read and written, the same array.
    `streamed`: as `copy`, by stores that pass the caches by. `near`: as `copy`, in half of the second cache.
    `bytes`: multiply-adds of int8, summed in int32.
    """

    read: float
    copy: float
    in_place: float
    streamed: float
    near: float
    fma: float
    bytes: float

    def text(self) -> str:
        """The rates as the setting `cpu_rates` takes them.

        >>> Rates(1e10, 1e10, 1e10, 1e10, 4e10, 9e10, 3e11).text()
        'read=1e+10,copy=1e+10,in_place=1e+10,streamed=1e+10,near=4e+10,fma=9e+10,bytes=3e+11'
        """
        return ",".join(f"{f.name}={value:.4g}" for f, value in zip(fields(self), astuple(self), strict=True))


NAMES = tuple(f.name for f in fields(Rates))


def parsed(text: str) -> Rates:
    """The rates that a text gives, each by its name.

    Raises a `ConfigError` unless every rate is there once, as a positive number.

    >>> parsed("read=1e10,copy=1e10,in_place=1e10,streamed=1e10,near=4e10,fma=9e10,bytes=3e11").near
    40000000000.0
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        try:
            found[name] = float(number) if name not in found else 0.0
        except ValueError:
            found[name] = 0.0
    if sorted(found) != sorted(NAMES) or not all(0 < value < float("inf") for value in found.values()):
        example = ",".join(f"{name}=1e10" for name in NAMES)
        raise ConfigError(f"cpu_rates is {text!r}", f"give each rate once, by a positive number: {example!r}")
    return Rates(**found)


def rates(forced: str, store: Store | None) -> Rates:
    """The rates that a setting gives, those that are kept, or those measured now.

    Raises a `ConfigError` for a setting that does not parse; a `CompileError` or a `VersionError` where the functions
    that measure have no code.
    """
    if forced:
        return parsed(forced)
    name = name_of_machine()
    if name not in _known:
        kept = None if store is None else store.load(name)
        found = None if kept is None else _kept(kept)
        if found is None:
            found = measured()
            if store is not None:
                store.store(name, found.text().encode())
        _known[name] = found
    return _known[name]


def _kept(data: bytes) -> Rates | None:
    try:
        return parsed(data.decode())
    except (UnicodeDecodeError, ConfigError):
        return None


@once
def name_of_machine() -> str:
    """The name of this machine's file: a digest of the processor's model, its features and caches."""
    parts = (str(VERSION), _model(), features().digest, str(caches()))
    return "cpu-rates-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


# ---------------------------------------------------------------------------- measuring


def measured() -> Rates:
    """The rates of this machine, in under a second."""
    code = load(object_of(module_text([*map(_pass, _PASSES), *map(_multiply_adds, _SUMS)]), features()))
    near = caches()[1] // 4 // 4096 * 4096  # of each of two arrays
    source, target = (_aligned(FAR_BYTES) for _ in range(2))
    far = FAR_BYTES // 4
    read = _seconds(code, "read", source, target, far)
    copy = _seconds(code, "copy", source, target, far)
    streamed = _seconds(code, "streamed", source, target, far)
    in_place = _seconds(code, "copy", source, source, far)
    rounds = max(FAR_BYTES // near, 1)
    near_copy = _seconds(code, "copy", source, target, near // 4, rounds)
    fma, bytes_ = (_seconds(code, name, source, target, ROUNDS) for name in _SUMS)
    vectors = SUMS * ROUNDS * features().lanes
    return Rates(
        FAR_BYTES / read, 2 * FAR_BYTES / copy, 2 * FAR_BYTES / in_place, 2 * FAR_BYTES / streamed,
        2 * near * rounds / near_copy, vectors / fma, vectors * _group() / bytes_,
    )  # fmt: skip


def _aligned(size: int) -> np.ndarray:
    """Ones, each page written."""
    whole = np.ones(size // 4 + 16, np.float32)
    skip = -whole.ctypes.data % 64 // 4
    return whole[skip : skip + size // 4]


def _seconds(code: Loaded, name: str, source: np.ndarray, target: np.ndarray, count: int, calls: int = 1) -> float:
    """The least CPU time of so many calls."""
    run: Callable[..., None] = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        code.symbols[name]
    )
    best = float("inf")
    for _ in range(REPEATS):
        start = time.thread_time_ns()
        for _ in range(calls):
            run(source.ctypes.data, target.ctypes.data, count)
        best = min(best, time.thread_time_ns() - start)
    return max(best, 1) * 1e-9


_PASSES = ("read", "copy", "streamed")
_UNROLL = 8  # vectors in a turn of a loop


def _pass(name: str) -> Builder:
    """A pass over `count` elements of float32: their sum, or each of them multiplied and added to."""
    b, lanes = _function(name), features().lanes
    source, target, count = b.parameters
    type_ = vector("float", lanes)
    sums = [b.constant(0, type_)] * _UNROLL if name == "read" else []
    with b.loop(0, count, _UNROLL * lanes, sums, empty=False) as loop:
        for u in range(_UNROLL):
            at = loop.index + u * lanes
            x = b.load(b.offset(source, at, "float"), type_, 4 * lanes)
            if name == "read":
                loop.next[u] = loop.carried[u] + x
            else:
                y = b.fma(x, 0.5, 0.5)
                b.store(y, b.offset(target, at, "float"), 4 * lanes, streamed=name == "streamed")
    for total in loop.out:
        b.store(total, target, 4 * lanes)
    return b


_SUMS = ("multiply_adds", "byte_products")


def _group() -> int:
    return grouped(features().names, features().bits, np.dtype("int32"), *BYTES)


def _multiply_adds(name: str) -> Builder:
    """`count` rounds of multiply-adds in independent chains, of float32 or of bytes."""
    b, lanes = _function(name), features().lanes
    source, target, count = b.parameters
    x = b.load(source, vector("float" if name == "multiply_adds" else "i32", lanes), 4 * lanes)
    with b.loop(0, count, 1, [x] * SUMS, empty=False) as loop:
        loop.next = [
            b.fma(total, x, x) if name == "multiply_adds" else added(b, _group(), total, x, x) for total in loop.carried
        ]
    for total in loop.out:
        b.store(total, target, 4 * lanes)
    return b


def _function(name: str) -> Builder:
    b = Builder(name, [("ptr", "source"), ("ptr", "target"), ("i64", "count")], features().names)
    b.linkage = ""
    return b
