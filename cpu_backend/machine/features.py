"""Features of the processor that code may rely on: read from the machine, never assumed."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from ...core.support.memo import once

ARCHITECTURES = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}
# Names of LLVM beside those of /proc/cpuinfo, where they differ. What is not listed is not used.
_X86 = {
    "avx": "avx", "avx2": "avx2", "fma": "fma", "f16c": "f16c", "bmi1": "bmi", "bmi2": "bmi2", "avx512f": "avx512f",
    "avx512bw": "avx512bw", "avx512dq": "avx512dq", "avx512vl": "avx512vl", "avx512cd": "avx512cd",
    "avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16", "avx_vnni": "avxvnni", "amx_tile": "amx-tile",
    "amx_int8": "amx-int8", "amx_bf16": "amx-bf16", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "popcnt": "popcnt",
    "ssse3": "ssse3", "pni": "sse3", "abm": "lzcnt",
}  # fmt: skip
_ARM = {"asimd": "neon", "asimdhp": "fullfp16", "asimddp": "dotprod", "bf16": "bf16", "i8mm": "i8mm"}
_FULL_512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")


@dataclass(frozen=True)
class Features:
    """An architecture, and the features of a processor by LLVM's names; `why` says what keeps code from running."""

    architecture: str
    names: frozenset[str]
    why: str | None = None

    @property
    def bits(self) -> int:
        """The width of a vector register that code is written for."""
        if self.architecture == "aarch64":
            return 128
        return 512 if self.names.issuperset(_FULL_512) else 256

    @property
    def lanes(self) -> int:
        """Lanes of 4 bytes."""
        return self.bits // 32

    @property
    def cpu(self) -> str:
        """The processor as code generation is tuned for; what may be used is said by `attributes` alone."""
        if self.architecture == "aarch64":
            return "generic"
        return "x86-64-v4" if self.bits == 512 else "x86-64-v3"

    @property
    def attributes(self) -> str:
        found = [f"+{n}" for n in sorted(self.names)]
        return ",".join([*found, "-prefer-256-bit"] if self.bits == 512 else found)

    @property
    def digest(self) -> str:
        """The features as an object's header names them."""
        return hashlib.sha256(f"{self.architecture} {self.attributes}".encode()).hexdigest()

    def without(self, *names: str) -> Features:
        """The same with some features off."""
        return replace(self, names=self.names - set(names))


def _flags() -> set[str]:
    """The processor's own names of its features."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


@once
def features() -> Features:
    """Those of this machine."""
    machine = platform.machine().lower()
    architecture = ARCHITECTURES.get(machine)
    if architecture is None:
        return Features(machine, frozenset(), f"there is no code generation for processors of the kind {machine}")
    if architecture == "aarch64":
        flags = {"asimd"} if platform.system() == "Darwin" else _flags()
        names = frozenset(llvm for flag, llvm in _ARM.items() if flag in flags)
        why = None if "neon" in names else "the processor has no vector unit that is known"
        return Features(architecture, names, why)
    names = frozenset(llvm for flag, llvm in _X86.items() if flag in _flags())
    if not names.issuperset(_FULL_512):
        names = frozenset(n for n in names if not n.startswith("avx512"))
    lacking = [n for n in ("avx2", "fma", "f16c", "bmi2") if n not in names]
    return Features(architecture, names, f"the processor has no {', '.join(lacking)}" if lacking else None)


def _sysctl(name: str) -> int:
    try:
        found = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=True)
        return int(found.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


_SIZES = {"K": 2**10, "M": 2**20, "G": 2**30}


@once
def caches() -> tuple[int, int, int]:
    """Bytes of the data caches of a core, nearest first; usual sizes where the system does not say."""
    found = {1: 0, 2: 0, 3: 0}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / n).read_text().strip() for n in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size[-1] in _SIZES:
            found[int(level)] = int(size[:-1]) * _SIZES[size[-1]]
    if not found[1] and platform.system() == "Darwin":
        found = {1: _sysctl("hw.perflevel0.l1dcachesize"), 2: _sysctl("hw.perflevel0.l2cachesize"), 3: 0}
    usual = {1: 32 * 2**10, 2: 2**20, 3: 2**24}
    first, second, third = (found[k] or usual[k] for k in (1, 2, 3))
    return first, second, third


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
