"""What an axis of a mesh is: its size, name and type; and of which kind the devices of a mesh without devices are."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from ..support.errors import ArgumentError, ArgumentTypeError


class AxisType(Enum):
    """What decides about shardings along an axis: the compiler (`Auto`), or types of arrays (`Explicit`).

    `Manual` axes are those of which a `shard_map` sees one place; a mesh that is made may name it, and means `Auto`.
    """

    Auto = "auto"
    Explicit = "explicit"
    Manual = "manual"

    def __repr__(self) -> str:
        return self.name


class AbstractDevice(NamedTuple):
    """The kind of the devices of an `AbstractMesh`, as `device.device_kind` and `device.platform` have them.

    >>> AbstractDevice("TPU v5e", None, "tpu").platform
    'tpu'
    """

    device_kind: str
    num_cores: int | None
    platform: str


def kind_of(devices: Sequence[Any]) -> AbstractDevice | None:
    """The kind of the first of some devices."""
    if not devices:
        return None
    first = devices[0]
    cores = {"tpu": "num_cores", "gpu": "core_count"}.get(first.platform, "")
    return AbstractDevice(first.device_kind, getattr(first, cores, None) if cores else None, first.platform)


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the axes of a mesh; raises an `ArgumentError` unless they are positive integers."""
    try:
        found = tuple(operator.index(n) for n in sizes)
    except TypeError:
        found = (0,)
    if not all(n > 0 for n in found):
        raise ArgumentError(f"a mesh of shape {sizes!r}", "give the size of each axis, a positive integer")
    return found


def checked_names(names: Sequence[str], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The names of the axes of a mesh; raises an `ArgumentError` unless each axis has one of its own."""
    names = (names,) if isinstance(names, str) else tuple(names)
    if len(names) != len(sizes):
        raise ArgumentError(f"a mesh of shape {tuple(sizes)} with axes named {names}", "give each axis one name")
    if len(set(names)) != len(names):
        raise ArgumentError(f"a mesh with axes named {names}", "give each axis a name of its own")
    return names


def checked_types(types: AxisType | Sequence[Any] | None, names: tuple[Any, ...]) -> tuple[AxisType, ...]:
    """The types of the axes of a mesh, of which one may stand for all.

    Raises:
      ArgumentTypeError: what is no `AxisType`.
      ArgumentError: another number of types than of axes.
    """
    types = AxisType.Auto if types is None else types
    found = (types,) * len(names) if isinstance(types, AxisType) else tuple(types)
    if not all(isinstance(t, AxisType) for t in found):
        raise ArgumentTypeError(f"axis_types={types!r} of a mesh with axes {names}", "give an AxisType for each axis")
    if len(found) != len(names):
        raise ArgumentError(f"axis_types={types!r} of a mesh with axes {names}", "give an AxisType for each axis")
    return found
