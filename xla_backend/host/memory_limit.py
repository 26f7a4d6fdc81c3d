"""The memory limit of this process: the machine's memory, its control group's limit or its resource limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

UNLIMITED = 1 << 60  # what a group of version 1 has for no limit is beyond this


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) < UNLIMITED else None  # "max": no limit


def _mounts(root: Path) -> dict[str, tuple[str, Path]]:
    """The mounted trees of control groups that limit memory: kind -> the group at its top, and where it is."""
    found: dict[str, tuple[str, Path]] = {}
    try:
        lines = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return found
    for line in lines:  # id parent major:minor top place options ... - kind device options
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" or (kind[0] == "cgroup" and "memory" in kind[2].split(",")):
            found[kind[0]] = (fields[3], root / fields[4].lstrip("/"))
    return found


def _groups(top: str, place: Path, own: str) -> Iterator[Path]:
    """The folders of a process's group and of those around it, as far as they are mounted here."""
    inner = own[len(top) :] if own.startswith(top) else own  # a container sees its own group as the top
    path = place / inner.lstrip("/")
    while path != place and place in path.parents:
        yield path
        path = path.parent
    yield place


def group_limit(root: Path = Path("/")) -> int | None:
    """The bytes that control groups, of version 2 or 1, leave this process; None where they do not limit it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    mounts, found = _mounts(root), []
    for line in lines:  # number:controllers:group
        number, controllers, own = [*line.split(":", 2), "", ""][:3]
        if number == "0" and "cgroup2" in mounts:
            found += [
                _number(p / name) for p in _groups(*mounts["cgroup2"], own) for name in ("memory.max", "memory.high")
            ]
        elif "memory" in controllers.split(",") and "cgroup" in mounts:
            found += [_number(p / "memory.limit_in_bytes") for p in _groups(*mounts["cgroup"], own)]
    return min((n for n in found if n is not None), default=None)


def own_limit() -> int | None:
    """The bytes that the process's own limits leave it; None where there are none."""
    import resource  # which Windows lacks

    limits = [resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((n for n in limits if n != resource.RLIM_INFINITY), default=None)


def available() -> int:
    """The bytes of memory that this process may have at most."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(machine, *(n for n in (group_limit(), own_limit()) if n is not None), machine)
