"""`HiType`: types of values that clients define, as the opaque types of this package (`core/ir/extension_types.py`).

A client's class says by methods of jax's names what its values are made of, what their tangents are and how they are
mapped; a method that it lacks is asked for only by the transformation that needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.ir.extension_types import MappingSpec, OpaqueSpec, OpaqueType, opaque_types
from ..core.support.errors import UnsupportedError


class aval_method:
    """A method of values that their type has."""

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun


class aval_property:
    """A property of values that their type has."""

    def __init__(self, fget: Callable[..., Any]):
        self.fget = fget


def _lacking(x: Any, method: str, what: str) -> UnsupportedError:
    return UnsupportedError(f"{what} needs the method `{method}` of {type(x).__name__}", "define it in the class")


class HiType(OpaqueType):
    """A type of a client's own."""

    def _lacks(self, method: str, what: str) -> UnsupportedError:
        return _lacking(self, method, what)

    # ------------------------------------------------------------ what a client defines

    def __hash__(self) -> int:
        raise self._lacks("__hash__", "the type")

    def __eq__(self, other: object) -> bool:
        raise self._lacks("__eq__", "the type")

    def lo_ty(self) -> Sequence[Any]:
        """The types of the arrays that a value is made of."""
        raise self._lacks("lo_ty", "compilation")

    def lower_val(self, hi_val: Any, /) -> Sequence[Any]:
        """The arrays that a value is made of."""
        raise self._lacks("lower_val", "compilation")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value of some arrays."""
        raise self._lacks("raise_val", "compilation")

    def to_tangent_aval(self) -> Any:
        """The type of tangents."""
        raise self._lacks("to_tangent_aval", "differentiation")

    def to_ct_aval(self) -> Any:
        """The type of cotangents, that of tangents."""
        return self.to_tangent_aval()

    def vspace_zero(self) -> Any:
        """The zero of a type of tangents."""
        raise self._lacks("vspace_zero", "a zero tangent")

    def vspace_add(self, x: Any, y: Any) -> Any:
        """The sum of two values of a type of tangents."""
        raise self._lacks("vspace_add", "a sum of tangents")

    def dec_rank(self, size: Any, spec: MappingSpec) -> Any:
        """The type of one of the values that a mapped one stands for."""
        raise self._lacks("dec_rank", "vmap")

    def inc_rank(self, size: Any, spec: MappingSpec) -> Any:
        """The type of so many values, mapped so."""
        raise self._lacks("inc_rank", "vmap")

    def leading_axis_spec(self) -> MappingSpec:
        """How loops map a value."""
        raise self._lacks("leading_axis_spec", "scan")

    def shard(self, mesh: Any, manual_axes: Any, check_vma: bool, spec: Any) -> Any:
        raise self._lacks("shard", "shard_map")

    def unshard(self, mesh: Any, check_vma: bool, spec: Any) -> Any:
        raise self._lacks("unshard", "shard_map")

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return type(self).__name__

    # ------------------------------------------------------------ under the names of this package

    def part_types(self) -> Sequence[Any]:
        return self.lo_ty()

    def take_apart(self, value: Any) -> Sequence[Any]:
        return self.lower_val(value)

    def put_together(self, *parts: Any) -> Any:
        return self.raise_val(*parts)

    def tangent(self) -> Any:
        return self.to_tangent_aval()

    def zero_tangent(self) -> Any:
        return self.vspace_zero()

    def add_tangents(self, x: Any, y: Any) -> Any:
        return self.vspace_add(x, y)

    def leading_mapping(self) -> MappingSpec:
        return self.leading_axis_spec()

    def mapped_element(self, spec: Any, size: Any) -> Any:
        return self.dec_rank(size, spec)

    def stacked_type(self, spec: Any, size: Any) -> Any:
        return self.inc_rank(size, spec)

    def show(self, short: bool = True) -> str:
        return self.str_short(short_dtypes=True)

    def attribute(self, x: Any, name: str) -> Any:
        found = getattr(self, name)
        if isinstance(found, aval_property):
            return found.fget(x)
        return functools.partial(found.fun, x) if isinstance(found, aval_method) else found


class HiPspec(OpaqueSpec):
    """How a client's value is split over the devices of a mesh."""

    def to_lo(self) -> Sequence[Any]:
        """A PartitionSpec for each array that the value is made of."""
        raise _lacking(self, "to_lo", "shard_map")

    def to_tangent_spec(self) -> Any:
        """The spec of tangents."""
        raise _lacking(self, "to_tangent_spec", "a derivative of shard_map")

    def to_ct_spec(self) -> Any:
        """The spec of cotangents, that of tangents."""
        return self.to_tangent_spec()

    def part_specs(self) -> Sequence[Any]:
        return self.to_lo()

    def tangent(self) -> Any:
        return self.to_tangent_spec()


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Say that objects of a class are values of the type that a function gives."""
    opaque_types[val_cls] = typeof_fn
