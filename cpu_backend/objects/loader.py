"""Object files in executable memory: written, then made executable and no longer writable.

Of the C library an object may call what `ALLOWED` names, nothing else.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.support.errors import CompileError
from ..machine.features import features
from . import elf

ALLOWED = frozenset({"malloc", "free", "memcpy", "memset", "sched_yield"})
_MACH_O = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe")
_COFF = (b"\x64\x86", b"\x64\xaa")


@dataclass(frozen=True)
class Loaded:
    """Code in memory, which stays as long as this does; `symbols` are the addresses of what is seen from outside.

    `data` is the object that it was loaded from.
    """

    data: bytes
    memory: Any
    symbols: Mapping[str, int]


def format_of(data: bytes) -> str:
    """Which kind of object file some bytes are: ELF, Mach-O, COFF or unknown."""
    if data[:4] == b"\x7fELF":
        return "ELF"
    if data[:4] in _MACH_O:
        return "Mach-O"
    return "COFF" if data[:2] in _COFF and len(data) > 20 else "unknown"


def reason() -> str | None:
    """Why objects cannot be loaded on this system; None where they can."""
    if platform.system() != "Linux":
        return f"the loader takes ELF files on Linux; {platform.system()} has another kind"
    return None


def load(data: bytes) -> Loaded:
    """An object file as code that can be called; raises a `CompileError` for what cannot be loaded here."""
    kind = format_of(data)
    if kind != "ELF":
        raise elf.refuse(f"it is a {kind} file, and this system has ELF")
    if reason() is not None:
        raise elf.refuse(str(reason()))
    image = elf.read(data, ALLOWED)
    if image.architecture != features().architecture:
        raise elf.refuse(f"it is for {image.architecture}, and this machine is {features().architecture}")
    library = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, len(image.data), prot=mmap.PROT_READ | mmap.PROT_WRITE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for name, place in image.outside.items():
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None
        elf.stub(image, place, address)
    elf.relocate(image, base)
    memory[:] = bytes(image.data)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if library.mprotect(base, len(image.data), mmap.PROT_READ | mmap.PROT_EXEC):
        raise CompileError("the system does not let memory become executable", "the kernel is computed by XLA instead")
    if image.architecture == "aarch64":
        _clear_cache(library, base, len(image.data))
    return Loaded(data, memory, {name: base + place for name, place in image.symbols.items()})


def _clear_cache(library: Any, base: int, size: int) -> None:
    """Make instructions that were written as data visible as instructions."""
    try:
        clear = library.__clear_cache
    except AttributeError:
        clear = getattr(ctypes.CDLL("libgcc_s.so.1"), "__clear_cache")
    clear(ctypes.c_void_p(base), ctypes.c_void_p(base + size))
