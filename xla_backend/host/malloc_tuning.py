"""Keeping freed memory of the process for reuse, which makes large arrays on the CPU several times faster.

XLA:CPU allocates every output afresh. By default glibc gives large blocks back to the kernel when they
are freed, so each new array pays a page fault for every 4 KiB. Three settings of `mallopt` stop that: a
single arena (the allocations come from worker threads, whose own arenas would not share), no `mmap` for
large blocks, and no trimming. A fourth eases the lock of the one arena: blocks of up to 80 bytes are freed
into lists without it, larger ones are not, since the lists are merged under the lock whenever a large block
is requested. (Operations on 1000 elements took 0.77 of the baseline's time with this, 0.81 without lists, 0.87
with lists of up to 160 bytes, all running ahead.)

What is kept is bounded: programs on large arrays call `about_to_use` with the bytes that they need. It looks
now and then how much memory is resident and not in use, and gives it back beyond a share of what the process
may have, or where what is needed would not fit beside it. It also has the heap that is about to grow in huge
pages: its first use then costs a fault for every 2 MiB. The heap is never much longer than what was needed.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

from ...core.support.config import current
from ...core.support.memo import once
from ...core.support.runtime import runtime
from ..jaxlib import shim
from . import memory_limit

SETTINGS = {
    "M_ARENA_MAX": (-8, 1),
    "M_MMAP_MAX": (-4, 0),
    "M_TRIM_THRESHOLD": (-1, -1),  # never
    "M_MXFAST": (1, 80),
}
LARGE = 1 << 20  # bytes of a program's results and temporary memory from which on it says what it needs
PROBED = 8 << 20  # and from which on the heap is made to have room for it
SLACK = 1 << 16  # bytes that alignment and headers may take beside
AHEAD = 64 << 20  # bytes by which the heap grows beyond what is needed, so that it does so seldom
LOOK_EVERY = 64 << 20  # bytes needed between two looks at what is kept
FULL = 0.85  # share of the memory that the process may have at which what is kept goes, whatever the bound


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]  # fmt: skip


@once
def _glibc() -> Any:
    """The C library if it is a glibc that reports its free lists (2.33 or later), else None."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version.restype = ctypes.c_char_p
        library.mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
        library.malloc_trim.argtypes = library.malloc.argtypes = (ctypes.c_size_t,)
        library.free.argtypes = (ctypes.c_void_p,)
        library.sbrk.argtypes = (ctypes.c_ssize_t,)
        library.malloc.restype = library.sbrk.restype = ctypes.c_void_p
        library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        library.mallinfo2.restype = _Mallinfo
        return library if library.gnu_get_libc_version() else None
    except (OSError, AttributeError):
        return None


class _FreeMemory:
    """What is known of the memory that is kept; `library` is None while the settings are not in force."""

    def __init__(self) -> None:
        self.library: Any = None
        self.status = "not set yet (set when the first device is used)"
        self.available = 0  # bytes that the process may have
        self.bound = 0  # bytes that may be kept
        self.apart = 0  # bytes resident, not in use and not the heap's to give back: code, other libraries' memory
        self.look_every = LOOK_EVERY
        self.needed = 0  # bytes since the last look
        self.advised = 0  # the end of the part of the heap that is in huge pages, or was not given them

    def begin(self, library: Any, share: float) -> None:
        self.available = memory_limit.available()
        self.bound = int(self.available * share)
        self.look_every = min(LOOK_EVERY, max(self.bound // 4, LARGE))
        self.advised = library.sbrk(0)
        self.library = library
        self.apart = self.beside()

    def resident(self) -> int:
        """Bytes of memory that the process alone has."""
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
        return (int(resident) - int(shared)) * mmap.PAGESIZE

    def beside(self) -> int:
        """Bytes resident that no block in use has."""
        return self.resident() - self.library.mallinfo2().uordblks

    def unused(self, untouched: int = 0) -> int:
        """Bytes resident that the heap keeps; `untouched` of the blocks in use are not resident."""
        return max(self.beside() + untouched - self.apart, 0)

    def look(self, need: int) -> None:
        """Give back what is kept if it is too much, or if the need would not fit beside it."""
        self.needed = 0
        unused = self.unused()
        if unused > self.bound or (unused > need // 4 and self.resident() + need > FULL * self.available):
            self.give_back()
            self.apart = self.beside()  # not the heap's to give back, or between blocks in use

    def give_back(self) -> bool:
        given = self.library.malloc_trim(0) == 1
        self.advised = min(self.advised, self.library.sbrk(0))  # the end of the heap went with the rest
        return given

    def make_room(self, need: int) -> None:
        """Have the block that is needed next in huge pages where the heap must grow for it; it is not touched."""
        library = self.library
        block = library.malloc(need + SLACK)
        if library.sbrk(0) > self.advised:
            library.free(block)
            block = library.malloc(need + AHEAD)
            end = library.sbrk(0)
            first = -(-self.advised // mmap.PAGESIZE) * mmap.PAGESIZE
            if end > first:
                library.madvise(first, end - first, mmap.MADV_HUGEPAGE)
            if need >= LOOK_EVERY and self.unused(untouched=need) >= need:
                library.malloc_trim(0)  # enough is kept, but in pieces that do not serve
            self.advised = library.sbrk(0)
        library.free(block)  # what is freed at the end of the heap stays there


_kept = runtime.part("memory.kept", _FreeMemory())


def about_to_use(need: int) -> None:
    """Note that a program, or an array from the host, is about to take so many bytes."""
    if _kept.library is None:
        return
    _kept.needed += need
    if _kept.needed >= _kept.look_every:
        _kept.look(need)
    if need >= PROBED:
        _kept.make_room(need)


def keep_freed_memory() -> bool:
    """Apply the settings if the configuration asks for them; tell whether they are in force."""
    library, settings = _glibc(), current()
    if not settings.cpu_keep_memory:
        _kept.status = "off (cpu_keep_memory is False)"
    elif library is None:
        _kept.status = "off (the C library is not glibc, 2.33 or later)"
    else:
        refused = [name for name, (option, value) in SETTINGS.items() if library.mallopt(option, value) != 1]
        if refused:
            _kept.status = f"off ({', '.join(refused)} refused by mallopt)"
        else:
            _kept.begin(library, settings.cpu_keep_share)
            _kept.status = f"on (up to {_kept.bound >> 20:,} MiB of freed memory are kept for reuse)"
        return not refused
    return False


def trim() -> bool:
    """Give the memory kept for reuse back to the system; tell whether any was."""
    shim.collect_garbage()
    library = _glibc()
    if _kept.library is not None:
        return _kept.give_back()
    return library is not None and library.malloc_trim(0) == 1


def status() -> str:
    """One line on the memory setting, as `tilewright doctor` prints it."""
    return _kept.status
