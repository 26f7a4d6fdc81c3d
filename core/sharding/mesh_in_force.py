"""The mesh in force: the one that a bare `PartitionSpec` means."""

from __future__ import annotations

import contextlib
from typing import Any

from ..ir.binding import is_evaluating
from ..support.config import config, current
from ..support.errors import ArgumentError, ArgumentTypeError, MeshAxisError
from .mesh import AbstractMesh, AnyMesh, Mesh, NamedSharding, PartitionSpec

EMPTY = AbstractMesh((), ())


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh in force, none outside of `use_mesh`; within `shard_map` its axes have the type `Manual`.

    >>> get_abstract_mesh().empty
    True
    """
    return EMPTY if current().mesh is None else current().mesh.abstract_mesh


def get_mesh() -> AnyMesh:
    """The mesh in force, an empty one outside of `use_mesh`.

    >>> import tilewright as tw
    >>> mesh = tw.make_mesh((1,), ("x",))
    >>> with tw.sharding.use_mesh(mesh):
    ...     get_mesh() == mesh
    True
    >>> get_mesh().empty
    True
    """
    return EMPTY if current().mesh is None else current().mesh


def everywhere() -> NamedSharding | None:
    """The sharding of what nobody splits: whole on each device of the mesh in force; None where it has no devices."""
    mesh = current().mesh
    return NamedSharding(mesh, PartitionSpec()) if isinstance(mesh, Mesh) and not mesh.manual_axes else None


def use_mesh(mesh: AnyMesh) -> contextlib.AbstractContextManager[Any]:
    """Within a `with` block, the mesh that a bare `PartitionSpec` means.

    >>> with use_mesh(AbstractMesh((4,), ("x",))):
    ...     get_abstract_mesh().shape["x"]
    4
    """
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise ArgumentTypeError(f"{mesh!r} is no mesh", "make one by `make_mesh`")
    return config(mesh=mesh)


def use_abstract_mesh(mesh: AbstractMesh) -> contextlib.AbstractContextManager[Any]:
    """Within a `with` block, the axes of the mesh in force; its devices stay if it has the same names and sizes.

    Raises:
      ArgumentTypeError: `mesh` is no AbstractMesh.

    >>> with use_abstract_mesh(AbstractMesh((4,), ("x",))):
    ...     get_abstract_mesh().axis_names
    ('x',)
    """
    if not isinstance(mesh, AbstractMesh):
        raise ArgumentTypeError(f"use_abstract_mesh({mesh!r}), which is no AbstractMesh", "pass `mesh.abstract_mesh`")
    now = current().mesh
    same = isinstance(now, Mesh) and now.shape_tuple == mesh.shape_tuple
    return config(mesh=now.update(axis_types=mesh.axis_types) if same else mesh)


class set_mesh:  # noqa: N801  (a function to its users)
    """Set the mesh that a bare `PartitionSpec` means: from here on, or in a `with` block until its end.

    Raises:
      ArgumentError: within a function that is traced, after which it would stay set.
      MeshAxisError: an axis of the type Manual, which only `shard_map` makes.
    """

    def __init__(self, mesh: AnyMesh | None):
        if not is_evaluating():
            raise ArgumentError("set_mesh within a function that is traced", "`with use_mesh(mesh):` there, or before")
        if mesh is not None:
            use_mesh(mesh)
            if mesh.manual_axes:
                raise MeshAxisError(f"set_mesh({mesh}), which contains manual axes", "leave those to `shard_map`")
        self._before = current().mesh
        config.update("mesh", mesh)

    def __enter__(self) -> Any:
        return current().mesh

    def __exit__(self, *error: Any) -> None:
        config.update("mesh", self._before)
