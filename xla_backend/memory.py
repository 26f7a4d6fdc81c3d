"""Keeping freed memory of the process for reuse, which makes large arrays on the CPU several times faster.

XLA:CPU allocates every output afresh. By default glibc gives large blocks back to the kernel when they
are freed, so each new array pays a page fault for every 4 KiB. Three settings of `mallopt` stop that: a
single arena (the allocations come from worker threads, whose own arenas would not share), no `mmap` for
large blocks, and no trimming. The process then keeps its peak memory until `trim` gives it back. A fourth
eases the lock of the one arena: blocks of up to 80 bytes are freed into lists without it, larger ones are not,
since the lists are merged under the lock whenever a large block is asked for. (Operations on 1000 elements
took 0.77 of the peer's time with this, 0.81 without lists, 0.87 with lists of up to 160 bytes, all running ahead.)

The heap that is to come is asked for in huge pages: its first use then costs a fault for every 2 MiB.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path
from typing import Any

from ..core.caches import once
from ..core.config import current
from . import shim

SETTINGS = {
    "M_ARENA_MAX": (-8, 1),
    "M_MMAP_MAX": (-4, 0),
    "M_TRIM_THRESHOLD": (-1, -1),  # never
    "M_MXFAST": (1, 80),
}
HUGE_PAGE = 2 << 20


@once
def _glibc() -> Any:
    """The C library if it is glibc, else None."""
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
        return library if library.gnu_get_libc_version() else None
    except (OSError, AttributeError):
        return None


def _reserved() -> int:
    """How many bytes of heap to ask for at once: half the machine's memory, none where address space is counted."""
    import resource  # which Windows lacks

    limits = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    limited = any(limit != resource.RLIM_INFINITY for limit in limits)
    try:
        strict = Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    except OSError:
        strict = True
    return 0 if limited or strict else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _ask_for_huge_pages(library: Any) -> bool:
    """Make the heap longer, touching none of it, and ask for it in huge pages; tell whether the kernel agreed."""
    start = library.sbrk(0)
    library.free(library.malloc(_reserved()))  # what is freed at the end of the heap stays there
    end = library.sbrk(0)
    first = -(-start // HUGE_PAGE) * HUGE_PAGE
    return end > first and library.madvise(first, end - first, mmap.MADV_HUGEPAGE) == 0


_status = "not set yet (set when the first device is used)"


def keep_freed_memory() -> bool:
    """Apply the settings if the configuration asks for them; tell whether they are in force."""
    global _status
    library = _glibc()
    if not current().cpu_keep_memory:
        _status = "off (cpu_keep_memory is False)"
    elif library is None:
        _status = "off (the C library is not glibc)"
    else:
        refused = [name for name, (option, value) in SETTINGS.items() if library.mallopt(option, value) != 1]
        if refused:
            _status = f"off ({', '.join(refused)} refused by mallopt)"
        else:
            pages = ", in huge pages" if _ask_for_huge_pages(library) else ""
            _status = f"on (freed memory is kept for reuse{pages})"
        return not refused
    return False


def trim() -> bool:
    """Give the memory kept for reuse back to the system; tell whether any was."""
    shim.collect_garbage()
    library = _glibc()
    given = library is not None and library.malloc_trim(0) == 1
    if given and _status.startswith("on"):
        _ask_for_huge_pages(library)  # the end of the heap went with the rest
    return given


def status() -> str:
    """One line on the memory setting, as `tilewright doctor` prints it."""
    return _status
