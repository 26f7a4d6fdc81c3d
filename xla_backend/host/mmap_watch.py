"""Keeping the process below the number of memory mappings that Linux allows it.

A program compiled for the CPU takes four to six mappings, and a process may have 65,530 by default
(`vm.max_map_count`). XLA ends the process where it gets no more, so compiled programs are forgotten before.
"""

from __future__ import annotations

import gc
from pathlib import Path

from ...core.support.errors import CompileError
from ...core.support.memo import once
from ...core.support.runtime import runtime

PER_PROGRAM = 8  # mappings that a program may take, with some to spare
LOOK_EVERY = 64  # programs at most from one count to the next: others may map memory too
FORGET_AT = 0.5  # share of the allowed mappings at which compiled programs are forgotten
REFUSE_AT = 0.98  # share from which on nothing more is compiled


class _Watch:
    """How many programs may still come before the mappings are counted again, and at how many they are forgotten."""

    def __init__(self) -> None:
        self.programs_left = 0
        self.forget_at = 0


_watch = runtime.part("mappings", _Watch())


@once
def allowed() -> int:
    """The mappings that a process may have; 0 where the system does not say."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return 0


def mapped() -> int:
    """The mappings that this process has."""
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def about_to_load() -> None:
    """Make room for one more compiled program; CompileError where the caller's own programs leave none."""
    _watch.programs_left -= 1
    if _watch.programs_left >= 0 or not allowed():
        return
    most, now = allowed(), mapped()
    forget_at = max(_watch.forget_at, int(FORGET_AT * most))
    if now >= forget_at:
        runtime.clear_caches()
        gc.collect()
        now = mapped()
        _watch.forget_at = forget_at = max(int(FORGET_AT * most), (now + most) // 2)
    if now >= REFUSE_AT * most:
        gc.collect()  # programs of functions that nothing refers to any more
        now = mapped()
    if now >= REFUSE_AT * most:
        raise CompileError(
            f"this process has {now:,} memory mappings of the {most:,} that it may have: no program more fits",
            "let go of compiled functions and executables that are no longer used, or raise `vm.max_map_count`",
        )
    room = min(forget_at, int(REFUSE_AT * most)) - now
    _watch.programs_left = min(LOOK_EVERY, max(0, room) // PER_PROGRAM)
