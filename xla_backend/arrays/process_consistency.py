"""Cross-process equality check, broadcast and barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.support.runtime import runtime
from ...core.tracing.trace import Tracer, typeof
from ..devices.coordination import group, processes_of
from ..host.digest import digest
from .array import Array, as_array


def everyone() -> tuple[int, ...]:
    """The numbers of all processes."""
    return tuple(range(runtime.process_count))


def described(x: Any) -> str:
    """Type and values of an array of this process, in few letters."""
    type: Any = typeof(x)
    bits = x if isinstance(x, np.ndarray) else as_array(x)._bits()
    return f"{type.show()} {digest(np.ascontiguousarray(bits).reshape(-1).view(np.uint8).data)[:12]}"


def check_equal(leaves: Sequence[Any], places: Sequence[Any]) -> None:
    """Hold values that `device_put` is to bring to meshes of several processes against those of the others.

    Raises:
      ProcessMismatchError: another process puts other values.
    """
    found: dict[tuple[int, ...], list[str]] = {}
    for x, place in zip(leaves, places, strict=True):
        sharding = place.placed("device_put to") if hasattr(place, "placed") else None
        global_mesh = None if sharding is None or isinstance(x, Tracer) else getattr(sharding.mesh, "flat", None)
        members = () if global_mesh is None else processes_of(global_mesh)
        if members and not (type(x) is Array and x._placed is not None and processes_of(x._placed.mesh.flat)):
            found.setdefault(members, []).append(f"{described(x)} by {getattr(sharding, 'spec', None)}")
    for members, texts in found.items():
        about = {str(n): text for n, text in enumerate(texts)}
        group.step(f"device_put of {len(texts)} arrays", about, members)


def barrier(name: str) -> None:
    """Wait until every process has come to the barrier of this name.

    Raises:
      ProcessMismatchError: another process does something else meanwhile.
    """
    if runtime.process_count > 1:
        group.step(f"the barrier {name!r}", {}, everyone())


def gathered(what: str, text: str) -> list[str]:
    """The texts that all processes give, in their order, all of them in a step of this name."""
    if runtime.process_count == 1:
        return [text]
    number = group.step(what, {}, everyone())
    group.read[everyone()].append(key := f"gathered/{number}")
    found = group.exchange(key, text, everyone(), what)
    return [found[p] for p in everyone()]
