"""Keeping freed memory of the process for reuse, which makes large arrays on the CPU several times faster.

XLA:CPU allocates every output afresh. By default glibc gives large blocks back to the kernel when they
are freed, so each new array pays a page fault for every 4 KiB. Three settings of `mallopt` stop that: a
single arena (the allocations come from worker threads, whose own arenas would not share), no `mmap` for
large blocks, and no trimming. The process then keeps its peak memory until `trim` gives it back. A fourth,
no lists of small blocks apart, keeps the lock of the one arena short: threads sleep on it a third as often.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

from ..core.config import current

SETTINGS = {
    "M_ARENA_MAX": (-8, 1),
    "M_MMAP_THRESHOLD": (-3, 2**31 - 1),
    "M_TRIM_THRESHOLD": (-1, 2**31 - 1),
    "M_MXFAST": (1, 0),
}


@functools.cache
def _glibc() -> Any:
    """The C library if it is glibc, else None."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version.restype = ctypes.c_char_p
        library.mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
        library.malloc_trim.argtypes = (ctypes.c_size_t,)
        return library if library.gnu_get_libc_version() else None
    except (OSError, AttributeError):
        return None


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
        _status = f"off ({', '.join(refused)} refused by mallopt)" if refused else "on (freed memory is kept for reuse)"
        return not refused
    return False


def trim() -> bool:
    """Give the memory kept for reuse back to the system; tell whether any was."""
    library = _glibc()
    return library is not None and library.malloc_trim(0) == 1


def status() -> str:
    """One line on the memory setting, as `tilewright doctor` prints it."""
    return _status
