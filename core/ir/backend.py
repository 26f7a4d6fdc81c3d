"""What layers above hand to this one, once, when the package is imported (`src/tilewright/compiler/pipeline.py`).

    Backend        compiles and runs Programs, and holds arrays
    Interceptors   what acts on a bind before a trace records it, or on the types that it records

Both are in `runtime`, and nothing replaces them later.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..support.errors import NonFiniteError
from .primitive import Primitive
from .program import Eqn, Program
from .types import ArrayType, Type

Params = dict[str, Any]


class Backend(Protocol):
    """What compiles and runs Programs on the devices of this process."""

    array_methods: type  # the operators and methods of arrays, which tracers have too

    def evaluate(self, primitive: Primitive, args: Sequence[Any], params: Params) -> Any:
        """Apply one primitive to concrete values."""
        ...

    def array(self, array: np.ndarray, type: ArrayType, owned: bool) -> Any:
        """An array of a NumPy array, whose dtype is the type's; `owned`: nobody else writes to it."""
        ...

    def devices(self) -> Sequence[Any]:
        """The devices of all processes."""
        ...

    def target(self) -> Any:
        """The target (of `lang`) that the default device is."""
        ...

    def platform(self) -> str:
        """The platform of the default device: `cpu`, `cuda`, `rocm` or `tpu`."""
        ...

    def lower(
        self, program: Program, name: str, donated: Sequence[int] = (), keep_unused: bool = False, place: Any = None,
        tiled: bool = True, platform: str | None = None,
    ) -> Any:  # fmt: skip
        """A Program as a module, with `text`; `place`: shardings or None, of each input and of each result.

        `tiled`: standard operations may become kernels. `platform`: one that need not be here.
        """
        ...

    def compile(self, module: Any, device: Any, flags: Sequence[tuple[str, Any]] = ()) -> Any:
        """A module's executable, with `as_text`, `cost_analysis` and `memory_analysis`."""
        ...

    def compiler_ir(self, module: Any, dialect: str) -> Any:
        """A module as an object of the compiler's library."""
        ...

    def runner(self, executable: Any, result: str, unflatten: Any) -> Callable[..., Any]:
        """A function from the arguments' buffers to results of a form: one, tuple, list, or tree (by `unflatten`)."""
        ...

    def buffers(self, values: Sequence[Any], types: Sequence[Any], kept: bool = True) -> Sequence[Any]:
        """The buffers of arrays, numbers and NumPy arrays of the types given; `kept`: of equal numbers one for all."""
        ...

    def beside(self, first: Any, numbers: Sequence[Any]) -> Sequence[Any]:
        """The buffers of Python numbers on each of the devices of an array."""
        ...

    def held(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """Kinds and buffers of values that are all arrays of this backend; None where one is not."""
        ...

    def kinds(self, values: Sequence[Any]) -> list[Any] | None:
        """Kinds of values that are arrays of this backend or NumPy arrays; None where `kind_of` has to find one."""
        ...

    def located(self, program: Program, values: Sequence[Any], error: NonFiniteError) -> NonFiniteError:
        """The error that a Program's result is not finite, with the equation that first gave such a value."""
        ...

    def fast_path(
        self, arity: int, plain: bool, operator: bool = False
    ) -> tuple[types.CodeType, dict[str, Any]] | None:
        """Code for a function that `core/jit/dispatch_cache.py` dispatches, called on so many operands.

        `operator`: it is never called on another number of them, nor by keyword.
        """
        ...


class MutableRefs(Protocol):
    """Acts where an operand is a mutable array: `lang/frontend/mutable_arrays.py`."""

    def bind_refs(self, primitive: Primitive, args: Sequence[Any], params: Params) -> Any:
        """Bind a primitive some of whose operands are Refs."""
        ...

    def over_values(
        self, fun: Callable[..., Any], args: Sequence[Any], chosen: Sequence[bool]
    ) -> tuple[Callable[..., Any], Sequence[Any], Sequence[int]]:
        """A function of Refs as one of the arrays in them; its operands, and which of them were Refs."""
        ...


class OpaqueValues(Protocol):
    """Acts where an operand or a result may be of a client's own type: `core/random/key_lowering.py`."""

    def evaluate(self, primitive: Primitive, args: Sequence[Any], params: Params) -> Any:
        """Evaluate a primitive by the parts of such values."""
        ...


class VaryingAxes(Protocol):
    """Acts on each device of a mesh: `core/primitives/spmd/varying_axes.py`."""

    def align(self, primitive: Primitive, args: Sequence[Any], params: Params) -> Sequence[Any]:
        """Operands that all vary along the same axes of the mesh."""
        ...

    def varied(self, primitive: Primitive, types: Sequence[Any], outs: Sequence[Any], params: Params) -> list[Any]:
        """The types of an equation's results, with the axes along which they vary."""
        ...


class ShardedTypes(Protocol):
    """Acts where types have shardings, or a result's is asked for: `core/sharding/sharding_in_types.py`."""

    def type_of_result(self, primitive: Primitive, types: Sequence[Type], params: Params) -> Any:
        """The type of a primitive's result, or of each."""
        ...

    def transposed(self, eqn: Eqn, cts: Any, args: Sequence[Any]) -> Any:
        """The cotangents of an equation's operands."""
        ...

    def whole(self, ndim: int) -> Any:
        """The sharding that the type of an array shows which no axis of the mesh in force splits."""
        ...

    def placed(self, out_sharding: Any, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The result of a function with the sharding asked for."""
        ...


class Interceptors(NamedTuple):
    """What acts on binds, in the order in which a bind meets it."""

    mutable_refs: MutableRefs
    opaque_values: OpaqueValues
    varying_axes: VaryingAxes
    sharded_types: ShardedTypes
