"""Types that clients define: to transformations a value is one, with a type of its own; what compiles sees its parts.

A value of such a type is an object of a class of the client's, which `opaque_types` names. While a function is traced a
tracer stands for it, and only primitives that the client makes take it. `core/random/key_lowering.py` puts the parts in
its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from ..support.errors import OpaqueValueError
from ..support.runtime import runtime
from .types import Type, is_inexact

# By the class of a value, what gives its type.
opaque_types: dict[type, Callable[[Any], Any]] = runtime.part("opaque.types", {})
# By the class of a pytree of a client's, what gives a tree like one of its values, of the axis that `vmap` maps of each
# leaf (None: none), from the value and the axis that is given for it: of arguments, and of results.
mapped_types: dict[type, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = (
    runtime.part("mapped.types", {}))  # fmt: skip


class MappingSpec:
    """How a value of an opaque type is mapped by `vmap`, in place of an axis's number."""


class OpaqueSpec:
    """How a value of an opaque type is split over the devices of a mesh, in place of a PartitionSpec."""

    def part_specs(self) -> Sequence[Any]:
        """A PartitionSpec for each array that a value is made of."""
        raise NotImplementedError

    def tangent(self) -> Any:
        """The spec of tangents."""
        raise NotImplementedError


class OpaqueType:
    """The type of values of a client's own; a client derives from it (by an adapter) and says the rest."""

    vary: frozenset[Any] = frozenset()
    placed: Any = None
    weak_type = False

    def part_types(self) -> Sequence[Any]:
        """The types of the arrays that a value is made of; they may be opaque themselves."""
        raise NotImplementedError

    def take_apart(self, value: Any) -> Sequence[Any]:
        """The parts of a value."""
        raise NotImplementedError

    def put_together(self, *parts: Any) -> Any:
        """The value of some parts."""
        raise NotImplementedError

    def tangent(self) -> Any:
        """The type of tangents."""
        raise NotImplementedError

    def cotangent(self) -> Any:
        """The type of cotangents."""
        return self.tangent()

    def zero_tangent(self) -> Any:
        """The zero of a type of tangents."""
        raise NotImplementedError

    def add_tangents(self, x: Any, y: Any) -> Any:
        """The sum of two values of a type of tangents."""
        raise NotImplementedError

    def leading_mapping(self) -> MappingSpec:
        """The mapping that loops use: what 0 is to an array."""
        raise NotImplementedError

    def mapped_element(self, spec: Any, size: Any) -> Any:
        """The type of one element of a value that is mapped so."""
        raise NotImplementedError

    def stacked_type(self, spec: Any, size: Any) -> Any:
        """The type of so many values, mapped so."""
        raise NotImplementedError

    def shard(self, mesh: Any, manual_axes: Any, check_vma: bool, spec: Any) -> Any:
        """The type of a device's part of a value, of which the function within sees some axes."""
        raise NotImplementedError

    def unshard(self, mesh: Any, check_vma: bool, spec: Any) -> Any:
        """The type of the value that parts make."""
        raise NotImplementedError

    def mapping_at(self, dim: Any) -> Any:
        """A mapping, of which 0 is the leading one."""
        if not isinstance(dim, int):
            return dim
        if dim:
            raise OpaqueValueError(f"a value of type {self.show()} is mapped over axis {dim}", "give a MappingSpec")
        return self.leading_mapping()

    def without_axis(self, axis: Any, size: int | None = None) -> Any:
        return self.mapped_element(self.mapping_at(axis), size)

    def with_axis(self, axis: Any, size: int, lies: Any = None) -> Any:
        return self.stacked_type(self.mapping_at(axis), size)

    def along(self, axis: Any) -> None:
        return None

    def remapped(self, x: Any, src: Any, dst: Any) -> Any:
        """A value that is mapped by `src` (None: not at all), to be mapped by `dst`."""
        if src is None or self.mapping_at(src) != self.mapping_at(dst):
            raise OpaqueValueError(
                f"a value of type {self.show()} is mapped by {src!r}, and {dst!r} was asked for",
                "let the primitive that makes it map it so")  # fmt: skip
        return x

    def attribute(self, x: Any, name: str) -> Any:
        """What a tracer of this type has under a name of the client's; an `AttributeError` where there is nothing.

        Of an operator, `_add` say, it is a function of the tracer too.
        """
        raise AttributeError(name)

    def strong(self) -> OpaqueType:
        return self

    @property
    def plain(self) -> OpaqueType:
        return self

    def show(self, short: bool = True) -> str:
        return repr(self)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size"):
            raise OpaqueValueError(f"a value of type {self.show()} was used as an array",
                                   "apply a primitive that takes values of this type")  # fmt: skip
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def is_opaque(type_: Type) -> TypeGuard[OpaqueType]:
    return isinstance(type_, OpaqueType)


def has_values(tangent: Any) -> bool:
    """Whether a type of tangents has other values than zero."""
    return is_opaque(tangent) or is_inexact(getattr(tangent, "dtype", None))


def differentiable(type_: Any) -> bool:
    """Whether values of a type have tangents other than zero."""
    return has_values(type_.tangent() if is_opaque(type_) else type_)


def flat_parts(type_: Any, value: Any) -> list[Any]:
    """The arrays that a value is made of, to the last."""
    if not is_opaque(type_):
        return [value]
    pairs = zip(type_.part_types(), type_.take_apart(value), strict=True)
    return [x for t, part in pairs for x in flat_parts(t, part)]


def from_parts(type_: Any, parts: Any) -> Any:
    """The value of a type made of the next parts of an iterator."""
    return type_.put_together(*[from_parts(t, parts) for t in type_.part_types()]) if is_opaque(type_) else next(parts)
