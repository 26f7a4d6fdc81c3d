"""The names by which code written for jaxprs finds what this package's classes have: a mixin for each class.

`add` gives them to the classes, and `remove` takes them away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.ir.binding import Trace
from ..core.ir.primitive import Primitive
from ..core.ir.program import Eqn, Program
from ..core.ir.types import ArrayType, VaryingType
from ..core.jit.stages import Traced
from ..core.sharding.mesh import Mesh, NamedSharding
from ..core.support.errors import Source
from ..core.support.runtime import runtime
from ..xla_backend.arrays.array import Array, deleted
from ..xla_backend.devices.jaxlib_shardings import hlo_sharding
from .avals import ManualAxes
from .jaxprs import replaced_eqn, view


class TypeNames(ArrayType):
    def update(self, **changes: Any) -> ArrayType:
        """The type with another shape, dtype or weak type."""
        fields = {name: changes.get(name, getattr(self, name)) for name in ("shape", "dtype", "weak_type")}
        kept = self.placed if fields["shape"] == self.shape else None
        return VaryingType(ArrayType(**fields, sharding=changes.get("sharding", kept)), self.vary)

    @property
    def vma(self) -> frozenset[Any]:
        return self.vary

    @property
    def mat(self) -> ManualAxes:
        return ManualAxes(self.vary)

    def strip_weak_type(self) -> ArrayType:
        return self.strong()

    def to_tangent_aval(self) -> ArrayType:
        return self.tangent()

    def to_ct_aval(self) -> ArrayType:
        return self.cotangent()

    def at_least_vspace(self) -> ArrayType:
        return self.tangent()

    # As clients' own types are asked, which may be made of arrays.
    def lo_ty(self) -> list[ArrayType]:
        return [self]

    def lower_val(self, value: Any) -> list[Any]:
        return [value]

    def raise_val(self, value: Any) -> Any:
        return value

    def dec_rank(self, size: Any, axis: int | None) -> ArrayType:
        return self if axis is None else self.without_axis(axis)

    def inc_rank(self, size: Any, axis: int | None) -> ArrayType:
        return self if axis is None else self.with_axis(axis, size)

    def leading_axis_spec(self) -> int:
        return 0


class PrimitiveNames(Primitive):
    @property
    def multiple_results(self) -> bool:
        return self.multiple

    @property
    def call_primitive(self) -> bool:
        return False

    @property
    def map_primitive(self) -> bool:
        return False

    def bind_with_trace(self, trace: Any, args: Sequence[Any], *rest: Any) -> Any:
        """Apply it under another trace than the current one; the parameters come last."""
        return trace.run(self, args, rest[-1])

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        return dict(params)


class TraceNames(Trace):
    @property
    def main(self) -> Trace:
        return self


class EqnNames(Eqn):
    @property
    def invars(self) -> list[Any]:
        return list(self.inputs)

    @property
    def outvars(self) -> list[Any]:
        return list(self.outputs)

    @property
    def source_info(self) -> Any:
        return UNKNOWN if self.source is None else self.source

    def replace(self, **changes: Any) -> Eqn:
        """A copy with parts of it changed, under jax's names or ours."""
        return replaced_eqn(self, changes)


class ProgramNames(Program):
    @property
    def jaxpr(self) -> Program:
        return self

    @property
    def consts(self) -> list[Any]:
        return list(self.values)

    @property
    def literals(self) -> list[Any]:
        return list(self.values)

    @property
    def invars(self) -> list[Any]:
        return list(self.inputs)

    @property
    def outvars(self) -> list[Any]:
        return list(self.outputs)

    @property
    def constvars(self) -> list[Any]:
        return list(self.constants)

    @property
    def in_avals(self) -> list[Any]:
        return self.in_types

    @property
    def out_avals(self) -> list[Any]:
        return self.out_types


class _UnknownSource(Source):
    """The line of an equation that no line of the user's made."""

    __slots__ = ()

    def __str__(self) -> str:
        return "unknown"


UNKNOWN = _UnknownSource(_UnknownSource.__str__.__code__, 0)


class SourceNames(Source):
    @property
    def traceback(self) -> None:  # lines are kept, not stacks
        return None

    @property
    def name_stack(self) -> str:
        return self.scope


class ArrayNames(Array):
    @property
    def _committed(self) -> bool:
        return self.committed

    @property
    def _value(self) -> np.ndarray:
        return np.asarray(self)

    @property
    def _npy_value(self) -> None:  # the values of an array are not kept on the host
        return None

    def _fully_replicated_shard(self) -> Any:
        return self.addressable_data(0)

    def _check_if_deleted(self) -> None:
        if self.is_deleted():
            raise deleted(self.aval)


class MeshNames(Mesh):
    @property
    def _flat_devices_tuple(self) -> tuple[Any, ...]:
        return tuple(self.flat)

    @property
    def _flat_devices_set(self) -> set[Any]:
        return {*self.flat}


class ShardingNames(NamedSharding):
    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        return tuple(self.mesh.flat)

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return hlo_sharding(self, num_dimensions)

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        self.check_rank(tuple(aval_shape))


_MIXINS = (ArrayNames, MeshNames, ShardingNames, TypeNames, PrimitiveNames, TraceNames, EqnNames, ProgramNames,
           SourceNames)  # fmt: skip
# The class that each name is for, the name, and what it is there.
ALIASES: list[tuple[Any, str, Any]] = [
    *((mixin.__base__, name, value) for mixin in _MIXINS for name, value in vars(mixin).items() if name[:2] != "__"),
    (Traced, "jaxpr", property(lambda traced: view(traced.program))),
]
_before: list[tuple[Any, str, Any]] = runtime.part("as_jax.before", [])  # what classes had under these names
_ABSENT = object()


def present() -> bool:
    """Whether the classes have the names."""
    return bool(_before)


def add() -> None:
    """Give the names to the classes, unless they have them."""
    if not present():
        _before.extend((owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in ALIASES)
        for owner, name, value in ALIASES:
            setattr(owner, name, value)


def remove() -> None:
    """Put back what the classes had before `add`."""
    while _before:
        owner, name, value = _before.pop()
        delattr(owner, name) if value is _ABSENT else setattr(owner, name, value)
