"""Calls of functions of foreign libraries, and of Python functions that work on the program's own memory.

    ffi_call(*args; call, result_types, vmap_method)            `call` is a `ForeignCall`
    buffer_callback(*args; call, callback, result_types, ...)   `callback(context, *results, *args)`, of buffers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...ir.axis_relation import FREE
from ...ir.primitive import AxisInfo, Primitive
from ...ir.program import CALLBACK, NO_EFFECTS, Effects
from ...ir.types import ArrayType
from ...support.errors import ShapeError, plural
from .host_callback import batch_by_method, no_derivative

Layouts = tuple[tuple[int, ...] | None, ...]  # of each array its axes, from the slowest to the fastest; None: in order
TYPED = 4  # the version of custom calls that are made by XLA's typed foreign function interface


@dataclass(frozen=True)
class ForeignCall:
    """What is called, and how: its name, its attributes as text, layouts, (operand, result) pairs that share memory."""

    target: str
    attributes: str = "{}"
    effect: bool = False
    aliases: tuple[tuple[int, int], ...] = ()
    in_layouts: Layouts | None = None
    out_layouts: Layouts | None = None
    version: int = TYPED

    def batched(self) -> ForeignCall:
        """The call of arrays that have one more axis, in front."""
        return replace(self, in_layouts=_wider(self.in_layouts), out_layouts=_wider(self.out_layouts))

    def check(self, types: Sequence[ArrayType], results: Sequence[ArrayType]) -> None:
        """Raise `ShapeError` for aliases or layouts that do not fit the arrays."""
        for i, o in self.aliases:
            if not (0 <= i < len(types) and 0 <= o < len(results)):
                raise ShapeError(f"{self.target}: operand {i} and result {o} share memory, of {len(types)} operands "
                                 f"and {plural(len(results), 'result')}", "number both from 0")  # fmt: skip
            if (types[i].shape, types[i].dtype) != (results[o].shape, results[o].dtype):
                raise ShapeError(f"{self.target}: operand {i}, {types[i].show()}, and result {o}, {results[o].show()}, "
                                 "share memory", "alias arrays of one shape and dtype")  # fmt: skip
        for what, layouts, arrays in (("input", self.in_layouts, types), ("output", self.out_layouts, results)):
            if layouts is None:
                continue
            fits = len(layouts) == len(arrays) and all(
                layout is None or sorted(layout) == list(range(t.ndim))
                for layout, t in zip(layouts, arrays, strict=True)
            )
            if not fits:
                raise ShapeError(f"{self.target}: the {what} layouts {layouts} of {[t.show() for t in arrays]}",
                                 "one for each array: None, or its axes from the slowest to the fastest")  # fmt: skip


def _wider(layouts: Layouts | None) -> Layouts | None:
    if layouts is None:
        return None
    return tuple(None if layout is None else (0, *(d + 1 for d in layout)) for layout in layouts)


def _typing(*types: Any, call: ForeignCall, result_types: Sequence[ArrayType], **_: Any) -> list[ArrayType]:
    call.check(types, result_types)
    return list(result_types)


def _effects(*types: Any, call: ForeignCall, **_: Any) -> Effects:
    return frozenset({CALLBACK}) if call.effect else NO_EFFECTS


def _batch(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def rule(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return batch_by_method(primitive(), axis, args, dims, params, {"call": params["call"].batched()})

    return rule


ffi_call_p: Primitive = Primitive(
    "ffi_call", _typing, jvp=no_derivative("ffi_call"), batch=_batch(lambda: ffi_call_p), effects=_effects,
    multiple=True, work=FREE,
)  # fmt: skip
buffer_callback_p: Primitive = Primitive(
    "buffer_callback", _typing, jvp=no_derivative("buffer_callback"), batch=_batch(lambda: buffer_callback_p),
    effects=_effects, multiple=True, work=FREE,
)  # fmt: skip
