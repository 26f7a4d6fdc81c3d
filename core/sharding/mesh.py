"""Meshes: devices with named axes, and how an array lies on one.

    Mesh          ::= devices in a grid, a name for each axis of it
    AbstractMesh  ::= the names and sizes alone, for programs that are planned or compiled without devices
    PartitionSpec ::= for each dimension of an array the axes that split it, the first the slowest; None: none
    NamedSharding ::= mesh, spec and kind of memory

All of them are interned: equal ones are one object, so that comparing them, as each call of a program does, compares
addresses. A dimension whose size its axes do not divide is held padded: each device has `ceil(size / parts)` elements.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir.array import Array, ArrayLike
from ..ir.primitive import OWN, AxisInfo, Primitive
from ..ir.types import with_sharding
from ..jit.jit import flat_shardings
from ..support import pytree
from ..support.config import config, current
from ..support.errors import (
    ArgumentError,
    ArgumentTypeError,
    MeshAxisError,
    MeshError,
    ShapeError,
    ShardingTypeError,
    UnsupportedError,
    plural,
)
from ..support.memo import cached
from ..support.runtime import runtime
from ..tracing.trace import axis_environment, typeof
from ..transforms.rule_helpers import linear_jvp
from .axis_types import AbstractDevice, AxisType, checked_names, checked_sizes, checked_types, kind_of
from .notebook_display import DeviceGrid

_interned: dict[Any, Any] = runtime.part("mesh.interned", {})  # compared by identity, so none may be forgotten
MEMORY_KINDS = ["device", "pinned_host", "unpinned_host"]  # of any device


class _Axes:
    """The named axes that meshes of both kinds have."""

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]
    explicit: frozenset[Any]  # the names of the axes that types tell of
    shape: Mapping[Any, int]

    def has_axes(self, mesh: _Axes) -> bool:
        """Whether another mesh has these axes, whatever devices it has or names the kind of."""
        return (mesh.shape_tuple, mesh.axis_types) == (self.shape_tuple, self.axis_types)

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes)

    @property
    def empty(self) -> bool:
        return not self.axis_names

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def are_all_axes_auto(self) -> bool:
        return all(t is AxisType.Auto for t in self.axis_types)

    @property
    def are_all_axes_explicit(self) -> bool:
        return all(t is AxisType.Explicit for t in self.axis_types)

    @property
    def are_all_axes_manual(self) -> bool:
        return all(t is AxisType.Manual for t in self.axis_types)

    def parts(self, axes: Sequence[Any]) -> int:
        """Into how many parts some axes split."""
        return math.prod(self.shape[a] for a in axes)

    def sharding(self, spec: PartitionSpec) -> NamedSharding:
        """How an array lies on it that a spec splits."""
        return NamedSharding(self, spec)  # type: ignore[arg-type]  (both kinds of meshes are)

    def mapped(self, axes: frozenset[Any]) -> Any:
        """The mesh within a `shard_map` over some axes: they have the type `Manual`."""
        return self.update_axis_types(dict.fromkeys(axes, AxisType.Manual))

    @property
    def decided_by_types(self) -> bool:
        """Whether types decide the sharding of all values: no axis is left to the compiler."""
        return AxisType.Auto not in self.axis_types

    def _typed(self, types: tuple[AxisType, ...]) -> None:
        """Take the types of the axes, once these are known."""
        self.axis_types = types
        self.shape = MappingProxyType(dict(self.shape_tuple))
        self.explicit = frozenset(self._of_type(AxisType.Explicit))

    def _of_type(self, wanted: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is wanted)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Manual)

    def _changed(self, changes: Mapping[Any, AxisType]) -> tuple[AxisType, ...]:
        return tuple(changes.get(n, t) for n, t in zip(self.axis_names, self.axis_types, strict=True))

    def _show(self) -> str:
        sizes = ", ".join(f"{n!r}: {s}" for n, s in self.shape_tuple)
        return sizes if self.are_all_axes_auto else f"{sizes}, axis_types={self.axis_types}"

    def __enter__(self) -> Any:
        _entered().append(stack := contextlib.ExitStack())
        stack.enter_context(config(mesh=self))
        return self

    def __exit__(self, *error: Any) -> None:
        _entered().pop().close()

    def __call__[F: Callable[..., Any]](self, f: F) -> F:
        """A decorator: within calls of the function this is the mesh in force."""

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return f(*args, **kwargs)

        return call  # type: ignore[return-value]


def _entered() -> list[contextlib.ExitStack]:
    return runtime.parts.setdefault("mesh.entered", [])


def _given(*pairs: tuple[Any, Any]) -> list[Any]:
    """Of each pair the first, or the second where that is None."""
    return [old if new is None else new for new, old in pairs]


class AbstractMesh(_Axes):
    """The axes of a mesh without devices: `AbstractMesh((32, 32), ("data", "model"))`.

    Programs are planned and explained for one of any size; what runs needs a `Mesh`.

    >>> AbstractMesh((32, 32), ("data", "model")).size
    1024
    """

    abstract_device: AbstractDevice | None

    def __new__(
        cls, axis_sizes: Sequence[Any], axis_names: Hashable | None = None, axis_types: Sequence[Any] | None = None, *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:  # fmt: skip
        if axis_names is None:  # pairs (name, size)
            axis_names, axis_sizes = [n for n, _ in axis_sizes], [s for _, s in axis_sizes]
        names = checked_names(axis_names, axis_sizes)
        key = (cls, names, checked_sizes(axis_sizes), checked_types(axis_types, names), abstract_device)
        found = _interned.get(key)
        if found is None:
            found = object.__new__(cls)
            found.axis_names, found.axis_sizes, types, found.abstract_device = key[1:]
            found._typed(types)
            found = _interned.setdefault(key, found)
        return found

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def update(
        self, axis_sizes: Sequence[int] | None = None, axis_names: Any = None, axis_types: Sequence[Any] | None = None,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:  # fmt: skip
        """The mesh with other sizes, names or types of its axes; None leaves them as they are.

        >>> AbstractMesh((4, 2), ("x", "y")).update(axis_sizes=(2, 2)).size
        4
        """
        given = _given((axis_sizes, self.axis_sizes), (axis_names, self.axis_names), (axis_types, self.axis_types))
        return AbstractMesh(*given, abstract_device=abstract_device or self.abstract_device)

    def update_axis_types(self, changes: Mapping[Any, AxisType]) -> AbstractMesh:
        """The mesh with other types of some axes."""
        return self.update(axis_types=self._changed(changes))

    @property
    def flat(self) -> tuple[Any, ...]:
        """The devices, of which there are none."""
        raise MeshError(f"{self} has no devices", "use a `Mesh`, as `make_mesh` gives it, for what runs")

    def __reduce__(self) -> Any:
        return (_abstract_mesh, (self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device))

    def __repr__(self) -> str:
        device = "" if self.abstract_device is None else f", abstract_device={self.abstract_device}"
        return f"AbstractMesh({self._show()}{device})"


def _abstract_mesh(sizes: Any, names: Any, types: Any, device: AbstractDevice | None) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


class Mesh(_Axes):
    """Devices in a grid whose axes have names.

    `devices` is an array (or nested sequence) of devices, with an axis for each of `axis_names`. In a `with` block it
    is the mesh that a bare `PartitionSpec` means.

    Raises:
      ArgumentError: names that do not fit the grid, a device that is there twice.

    >>> import tilewright as tw
    >>> Mesh(tw.devices()[:1], ("x",)).shape["x"]
    1
    """

    devices: np.ndarray

    def __new__(cls, devices: Any, axis_names: Hashable, axis_types: Sequence[Any] | None = None) -> Mesh:
        grid = np.array(devices, dtype=object)
        names = checked_names(axis_names, grid.shape)
        flat = tuple(grid.flat)
        types = checked_types(axis_types, names)
        key = (cls, flat, checked_sizes(grid.shape), names, types)
        found = _interned.get(key)
        if found is None:
            for d in flat:
                if not hasattr(d, "platform"):
                    raise ArgumentTypeError(f"a mesh of {d!r}, which is no device", "pass elements of `devices()`")
            if len(set(flat)) != len(flat):
                raise ArgumentError(f"a mesh of {flat} has a device twice", "name each device once")
            grid.flags.writeable = False
            found = object.__new__(cls)
            found.devices, found.axis_names, found.axis_sizes = grid, names, grid.shape
            found._typed(types)
            found = _interned.setdefault(key, found)
        return found

    def update(
        self, devices: Any = None, axis_names: Hashable | None = None, axis_types: Sequence[Any] | None = None
    ) -> Mesh:
        """The mesh with other devices, or other names or types of its axes; None leaves them as they are."""
        return Mesh(*_given((devices, self.devices), (axis_names, self.axis_names), (axis_types, self.axis_types)))

    def update_axis_types(self, changes: Mapping[Any, AxisType]) -> Mesh:
        """The mesh with other types of some axes."""
        return self.update(axis_types=self._changed(changes))

    @property
    def flat(self) -> tuple[Any, ...]:
        """The devices in the order of the grid."""
        return tuple(self.devices.flat)

    @property
    def device_ids(self) -> np.ndarray:
        return np.vectorize(lambda d: d.id, otypes=[int])(self.devices)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes without the devices, of which the kind of the first stays."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=kind_of(self.flat))

    @property
    def local_devices(self) -> list[Any]:
        return [d for d in self.flat if d.process_index == runtime.process_index]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that is made of this process's devices.

        Raises:
          MeshError: they are no rectangle of it.
        """
        mine = np.vectorize(lambda d: d.process_index == runtime.process_index, otypes=[bool])(self.devices)
        places = np.argwhere(mine)
        box = tuple(slice(a, b + 1) for a, b in zip(places.min(0), places.max(0), strict=True)) if len(places) else ()
        if not len(places) or not mine[box].all():
            raise MeshError(f"the devices of process {runtime.process_index} are no rectangle of {self}",
                            "order the devices so that each process has one")  # fmt: skip
        return Mesh(self.devices[box], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        return len(self.local_devices) < self.size

    def __reduce__(self) -> Any:
        return (Mesh, (self.devices, self.axis_names, self.axis_types))

    def __repr__(self) -> str:
        return f"Mesh({self._show()})"


AnyMesh = Mesh | AbstractMesh


# ---------------------------------------------------------------------------- specs


class _Unconstrained:
    """In a `PartitionSpec`: how this dimension is split is left to the compiler."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """For each dimension the mesh axes that split it: a name, a tuple of names, or None. Also called `P`.

    Dimensions past its end are not split. `P.UNCONSTRAINED` leaves one to the compiler. Along the axes `unreduced` each
    device holds a part of the value, which is the sum of the parts. Along `reduced` all hold the value, and the
    cotangent is unreduced (`core/sharding/unreduced_axes.py`).

    Raises:
      MeshAxisError: an axis is named twice.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    >>> PartitionSpec("x", None) is PartitionSpec(("x",), ())
    True
    >>> PartitionSpec("x", unreduced={"y"})
    P('x', unreduced={'y'})
    """

    __slots__ = ("entries", "dims", "unreduced", "reduced")
    UNCONSTRAINED = UNCONSTRAINED
    entries: tuple[Any, ...]
    dims: tuple[Any, ...]  # a tuple of names, or UNCONSTRAINED, for each dimension
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __new__(cls, *entries: Any, unreduced: Collection[Any] = (), reduced: Collection[Any] = ()) -> PartitionSpec:
        dims, open_, closed = tuple(map(_names_in, entries)), _set_of(unreduced), _set_of(reduced)
        found = _interned.get((cls, dims, open_, closed))
        if found is None:
            found = object.__new__(cls)
            found.dims, found.unreduced, found.reduced = dims, open_, closed
            found.entries = tuple((d or None) if d is UNCONSTRAINED or len(d) != 1 else d[0] for d in dims)
            used = (*found.axes, *open_, *closed)
            for name in used:
                if used.count(name) > 1:
                    raise MeshAxisError(f"{found} names the axis {name!r} twice",
                                        "an axis splits one dimension, or is `unreduced` or `reduced`")  # fmt: skip
            found = _interned.setdefault((cls, dims, open_, closed), found)
        return found

    @property
    def marked(self) -> frozenset[Any]:
        """The axes along which it is unreduced or reduced."""
        return self.unreduced | self.reduced

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The entries of the dimensions alone."""
        return self.entries

    def with_dims(self, *dims: Any) -> PartitionSpec:
        """The spec of other dimensions that is unreduced and reduced along the same axes."""
        return PartitionSpec(*dims, unreduced=self.unreduced, reduced=self.reduced)

    @property
    def dual(self) -> PartitionSpec:
        """The spec of cotangents: unreduced where it is reduced, and the reverse."""
        return PartitionSpec(*self.dims, unreduced=self.reduced, reduced=self.unreduced) if self.marked else self

    @property
    def axes(self) -> tuple[Any, ...]:
        """The axes that split anything, in the order of the dimensions."""
        return tuple(name for d in self.dims if d is not UNCONSTRAINED for name in d)

    def placed(self, what: str = "a PartitionSpec") -> NamedSharding:
        """The sharding by this spec over the mesh in force."""
        if current().mesh is None:
            raise ArgumentError(f"{what}: {self} without a mesh in force", "use NamedSharding(mesh, spec), or set_mesh")
        return NamedSharding(current().mesh, self)

    def in_types(self) -> NamedSharding | None:
        """What types show of it, over the mesh in force."""
        return self.placed().explicit

    def trimmed(self) -> PartitionSpec:
        """The spec without the dimensions at its end that nothing splits."""
        dims = self.dims
        while dims and not dims[-1]:
            dims = dims[:-1]
        return self.with_dims(*dims)

    def padded(self, ndim: int) -> tuple[Any, ...]:
        """The axes of each of `ndim` dimensions."""
        return self.dims + ((),) * (ndim - len(self.dims))

    def index(self, entry: Any) -> int:
        """The first dimension that has an entry."""
        return self.entries.index(entry)

    def count(self, entry: Any) -> int:
        """The number of dimensions that have an entry."""
        return self.entries.count(entry)

    def update(self, **changes: Any) -> PartitionSpec:
        """The spec with other `partitions`, `unreduced` or `reduced`."""
        fields = {name: changes.pop(name, getattr(self, name)) for name in ("partitions", "unreduced", "reduced")}
        if changes:
            remedy = "partitions, unreduced or reduced"
            raise ArgumentTypeError(f"PartitionSpec.update takes no {sorted(changes)}", remedy)
        return PartitionSpec(*fields.pop("partitions"), **fields)

    def __iter__(self) -> Iterator[Any]:
        if self.marked:  # entries that are taken out of it would make another spec
            raise ArgumentError(f"iteration over {self}, whose dimensions are not all of it", "use `spec.partitions`")
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: Any) -> Any:
        return self.entries[index]

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self, *other)

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other, *self)

    def __reduce__(self) -> Any:
        return (_spec, (self.entries, self.unreduced, self.reduced))

    def __repr__(self) -> str:
        marks = [f"{name}={{{', '.join(sorted(map(repr, axes)))}}}"
                 for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced)) if axes]  # fmt: skip
        return f"P({', '.join([*map(repr, self.entries), *marks])})" if marks else f"P{self.entries!r}"


P = PartitionSpec


def _spec(entries: tuple[Any, ...], unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*entries, unreduced=unreduced, reduced=reduced)


def _set_of(names: Collection[Any]) -> frozenset[Any]:
    if not isinstance(names, (set, frozenset, tuple, list)) or None in names:
        raise ArgumentTypeError(f"a PartitionSpec that is unreduced or reduced along {names!r}", "a set of axes' names")
    return frozenset(names)


def _names_in(entry: str | Sequence[str] | None) -> Any:
    if entry is None:
        return ()
    if entry is UNCONSTRAINED:
        return entry
    names = tuple(entry) if isinstance(entry, (tuple, list)) else (entry,)
    if len(names) > 1 and any(isinstance(name, (tuple, list)) for name in names):
        raise ArgumentError(f"a PartitionSpec with {entry!r}, a tuple within a tuple", "name the axes in one tuple")
    try:
        hash(names)
    except TypeError:
        raise ArgumentTypeError(f"a PartitionSpec with {entry!r}", "names of axes, tuples of them, or None") from None
    return names


# ---------------------------------------------------------------------------- shardings


class NamedSharding(DeviceGrid):
    """How an array lies on the devices of a mesh.

    Raises:
      MeshAxisError: the spec names an axis that the mesh has not.

    >>> import tilewright as tw
    >>> mesh = Mesh(tw.devices()[:1], ("x",))
    >>> NamedSharding(mesh, PartitionSpec("x")).shard_shape((8, 2))
    (8, 2)
    """

    __slots__ = ("mesh", "spec", "kind", "raws", "__weakref__")
    mesh: Any
    spec: PartitionSpec
    kind: str | None  # of memory; None: that in which the devices compute
    raws: dict[int, Any]  # the backend's own object, for each number of dimensions

    def __new__(cls, mesh: AnyMesh, spec: PartitionSpec, memory_kind: str | None = None) -> NamedSharding:
        kind = None if memory_kind == "device" else memory_kind
        key = (cls, mesh, spec, kind)
        found = _interned.get(key)
        if found is None:
            _check_sharding(mesh, spec)
            _check_memory(mesh, kind)
            found = object.__new__(cls)
            found.mesh, found.spec, found.kind, found.raws = mesh, spec, kind, {}
            found = _interned.setdefault(key, found)
        return found

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory: "device" is that in which the devices compute; None over a mesh without devices."""
        return self.kind or (None if isinstance(self.mesh, AbstractMesh) else "device")

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    def device_set(self) -> set[Any]:
        return set(self.mesh.flat)

    @property
    def addressable_devices(self) -> set[Any]:
        return set(self.mesh.local_devices)

    _addressable_device_assignment = addressable_devices  # orbax asks for it

    @property
    def is_fully_addressable(self) -> bool:
        return not self.mesh.is_multi_process

    @property
    def is_fully_replicated(self) -> bool:
        return self.mesh.parts((*self.spec.axes, *self.spec.unreduced)) == 1

    def placed(self, what: str = "") -> NamedSharding:
        """The sharding itself; of a spec, or over the axes of the mesh in force, that over the mesh in force."""
        mesh = current().mesh
        if mesh is None or mesh is self.mesh:
            return self
        within = bool(mesh.manual_axes) and mesh.shape_tuple == self.mesh.shape_tuple  # within a `shard_map` over it
        if within or isinstance(self.mesh, AbstractMesh) and mesh.has_axes(self.mesh):
            return NamedSharding(mesh, self.spec, self.kind)
        return self

    def constrain(self, x: Array) -> Any:
        """A value that lies so, within a program or outside of one; over a mesh without axes nothing is said."""
        if self.mesh.empty:
            return x
        if self.placed() is not self:
            return self.placed().constrain(x)
        self.check_rank(typeof(x).shape)
        seen = [axis[0] for axis in axis_environment() if len(axis) == 3 and axis[0] in self.spec.axes]
        if seen:
            raise MeshAxisError(f"{self.spec} shards a value along {seen}, within a `shard_map` in which each "
                                "device has its own part along them", "leave them out of the spec")  # fmt: skip
        return constraint_p.bind(x, sharding=self)

    def update(self, **changes: Any) -> NamedSharding:
        """It with another mesh, spec or kind of memory."""
        fields = {name: changes.pop(name, getattr(self, name)) for name in ("mesh", "spec", "memory_kind")}
        if changes:
            raise ArgumentTypeError(f"NamedSharding.update takes no {sorted(changes)}", "mesh, spec or memory_kind")
        return NamedSharding(**fields)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, kind)

    def with_spec(self, spec: Any) -> NamedSharding:
        spec = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)
        return NamedSharding(self.mesh, spec, self.kind)

    @property
    def explicit(self) -> NamedSharding | None:
        """What types tell of it: its part along axes of the type `Explicit`; None where nothing."""
        axes = self.mesh.explicit
        dims = [() if d is UNCONSTRAINED else tuple(n for n in d if n in axes) for d in self.spec.dims] if axes else ()
        spec = self.spec.with_dims(*dims).trimmed()
        return NamedSharding(self.mesh, spec) if spec.dims or spec.marked else None

    def in_types(self) -> NamedSharding | None:
        """What types show of it, over the devices of the mesh in force."""
        return self.placed().explicit

    def of_type(self, ndim: int) -> NamedSharding:
        """It as a type of `ndim` dimensions shows it: without devices, an entry for each dimension."""
        dims = self.spec.padded(ndim)
        return NamedSharding(self.mesh.abstract_mesh, self.spec.with_dims(*[d or None for d in dims]))

    def parts(self, ndim: int) -> tuple[int, ...]:
        """Into how many parts each of `ndim` dimensions is split."""
        return tuple(1 if d is UNCONSTRAINED else self.mesh.parts(d) for d in self.spec.padded(ndim))

    def check_decided(self, what: str) -> None:
        """Raise an `ArgumentError` where the spec leaves a dimension to the compiler."""
        if UNCONSTRAINED in self.spec.dims:
            raise ArgumentError(f"{self.spec} of {what} leaves a dimension to the compiler",
                                "name its axes or None; `with_sharding_constraint` takes UNCONSTRAINED")  # fmt: skip

    def check_rank(self, shape: Sequence[int]) -> None:
        """Raise a `ShapeError` where the spec is longer than a shape."""
        if len(self.spec) > len(shape):
            raise ShapeError(
                f"{self.spec} has {plural(len(self.spec), 'entry')}, for an array of shape {tuple(shape)}",
                "one entry for each dimension, or fewer",
            )

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part that a device holds, padding included."""
        self.check_rank(global_shape)
        return tuple(-(-s // n) for s, n in zip(global_shape, self.parts(len(global_shape)), strict=True))

    def padded_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of all the parts together: `global_shape` where the axes divide it."""
        shard, parts = self.shard_shape(global_shape), self.parts(len(global_shape))
        return tuple(s * n for s, n in zip(shard, parts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """For each device the slices of the array that it holds; of padding none.

        Raises:
          UnsupportedError: an unreduced array, of which a device holds a part of the value instead.
        """
        if self.spec.unreduced:
            raise UnsupportedError(f"what each device holds of an array on {self}: parts of its value, which are to be "
                                   "summed, are no slices of it", "`reshard` it, or make it by `reshard`")  # fmt: skip
        return dict(zip(self.mesh.flat, indices(self, tuple(global_shape)), strict=True))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """The same for the devices of this process."""
        local = self.addressable_devices
        return {d: i for d, i in self.devices_indices_map(global_shape).items() if d in local}

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether arrays of `ndim` dimensions lie the same under both."""
        if self is other:
            return True
        shape = tuple(self.mesh.size for _ in range(ndim))
        same = isinstance(other, NamedSharding) and self.kind == other.kind
        if not same and self.mesh.size == 1 and hasattr(other, "device_set"):
            return other.is_equivalent_to(self, ndim)
        return same and self.devices_indices_map(shape) == other.devices_indices_map(shape)

    def __reduce__(self) -> Any:
        return (NamedSharding, (self.mesh, self.spec, self.kind))

    def __repr__(self) -> str:
        kind = f", memory_kind={self.kind}" if self.kind else ""
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{kind})"


ShardingLike = NamedSharding | PartitionSpec | None  # a spec: over the mesh in force


def _check_sharding(mesh: AbstractMesh | Mesh, spec: PartitionSpec) -> None:
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise ArgumentTypeError(f"a sharding over {mesh!r}, which is not a mesh", "make one by `make_mesh`")
    if not isinstance(spec, PartitionSpec):
        raise ArgumentTypeError(f"a sharding by {spec!r}, which is not a PartitionSpec", "write P('x', None)")
    for name in (*spec.axes, *spec.marked):
        if name not in mesh.shape:
            raise MeshAxisError(f"{spec} names the axis {name!r}, which {mesh} does not have",
                                "name one of the mesh's axes")  # fmt: skip
    if spec.marked and not mesh.are_all_axes_explicit:
        raise UnsupportedError(f"{spec} over {mesh}: `unreduced` and `reduced` need a mesh whose axes are all Explicit",
                               "give all axes of the mesh the type `AxisType.Explicit`")  # fmt: skip


def _check_memory(mesh: AbstractMesh | Mesh, kind: str | None) -> None:
    if kind is None:
        return
    here = mesh.local_devices if isinstance(mesh, Mesh) else ()
    kinds = sorted(m.kind for m in here[0].addressable_memories()) if here else MEMORY_KINDS
    if kind not in kinds:
        raise ArgumentError(f"memory_kind={kind!r} of an array on {mesh}", f"one of its devices': {kinds}")


@cached(4096)
def indices(sharding: NamedSharding, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], ...]:
    """For each position of the mesh the slices of an array that its device holds."""
    mesh, dims = sharding.mesh, sharding.spec.padded(len(shape))
    size = sharding.shard_shape(shape)
    found = []
    for place in np.ndindex(*mesh.axis_sizes):
        at = dict(zip(mesh.axis_names, place, strict=True))
        index = []
        for length, step, axes in zip(shape, size, dims, strict=True):
            part = 0
            for name in () if axes is UNCONSTRAINED else axes:
                part = part * mesh.shape[name] + at[name]
            start = min(part * step, length)
            index.append(slice(start, min(start + step, length)) if axes else slice(None))
        found.append(tuple(index))
    return tuple(found)


# ---------------------------------------------------------------------------- within a program


def batched_spec(dims: Sequence[Any], at: int, axis: AxisInfo) -> PartitionSpec:
    """A spec for arrays with one more axis, which `spmd_axis_name` splits or the compiler decides about."""
    names = () if axis.spmd is None else axis.spmd if isinstance(axis.spmd, tuple) else (axis.spmd,)
    taken = [n for d in dims if d is not UNCONSTRAINED for n in d if n in names]
    if taken:
        raise MeshAxisError(
            f"vmap over spmd_axis_name={axis.spmd!r} of a value that {taken[0]!r} splits already",
            "leave the axis out of the specs within the mapped function",
        )
    return PartitionSpec(*dims[:at], names or UNCONSTRAINED, *dims[at:])


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, sharding: NamedSharding) -> Any:
    (x,), (d,) = args, dims
    t: Any = typeof(x)
    assert d is not None
    inner = sharding.spec.padded(t.ndim - 1)
    if sharding.mesh.explicit and axis.spmd is None:  # the type tells how the new axis lies, or what is mapped over
        lies = t.placed.spec.padded(t.ndim)[d] if t.placed else axis.lies.spec.padded(1)[0] if axis.lies else ()
        taken = not sharding.spec.marked.union(*inner).isdisjoint(lies)
        spec = PartitionSpec(*inner[:d], () if taken else lies, *inner[d:])
    else:
        spec = batched_spec(inner, d, axis)
    return constraint_p.bind(x, sharding=sharding.with_spec(sharding.spec.with_dims(*spec.dims))), d


# A value that is to lie on a mesh as a sharding says.
constraint_p: Primitive = Primitive(
    "sharding_constraint",
    typing=lambda x, *, sharding: with_sharding(x.plain, sharding) if sharding.mesh.explicit else x,
    jvp=linear_jvp(lambda: constraint_p), batch=_batch, places=OWN, numpy=lambda x, *, sharding: x,
    transpose=lambda ct, x, *, sharding: [constraint_p.bind(ct, sharding=sharding)],
)  # fmt: skip


def with_sharding_constraint(x: ArrayLike, shardings: Any) -> Any:
    """A pytree whose arrays lie on a mesh as `shardings` says: a sharding, a spec, or a prefix tree of them and None.

    In a compiled program it guides the compiler, which inserts the communication that is needed; outside of one the
    arrays are brought there. A bare spec is over the mesh in force (`use_mesh`).

    Raises:
      ArgumentError: a bare `PartitionSpec` without a mesh in force.
      MeshAxisError: a spec with an axis that the mesh has not.
      ShapeError: a spec longer than its array's shape.

    >>> import tilewright as tw
    >>> mesh = tw.make_mesh((1,), ("x",))
    >>> f = tw.jit(lambda v: with_sharding_constraint(v + 1.0, NamedSharding(mesh, P("x"))))
    >>> f(tw.numpy.zeros(2)).sharding.mesh
    Mesh('x': 1)
    """
    leaves, treedef = pytree.flatten(x)
    found = flat_shardings(shardings, x, "shardings of with_sharding_constraint")
    return treedef.unflatten([v if s is None else _guided(v, s) for v, s in zip(leaves, found, strict=True)])


def _guided(x: Array, sharding: NamedSharding) -> Any:
    """A value that lies so along axes that the compiler decides about; along others its type is held against that."""
    if not sharding.mesh.explicit:
        return sharding.constrain(x)
    t: Any = typeof(x)
    given, wanted = (PartitionSpec() if s is None else s.spec.trimmed() for s in (t.placed, sharding.explicit))
    if given != wanted:
        raise ShardingTypeError(
            f"with_sharding_constraint({sharding.spec}) of a value of type {t.show()}: along axes of the type Explicit "
            "it must match the type", "use `sharding.reshard` to bring the value there",
        )  # fmt: skip
    return x if sharding.mesh.are_all_axes_explicit else sharding.constrain(x)
