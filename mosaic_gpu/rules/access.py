"""Accesses to Refs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType
from ...core.primitives.refs.state_primitives import Index, access_shape, addupdate_p, get_p, split_operands, swap_p
from ...lang.legalize import Unfit
from ..refs import Memory
from .atomics import Update, update

if TYPE_CHECKING:
    from ..lower import Lowering


def _plain(masked: bool) -> None:
    if masked:
        raise Unfit("an access under a mask: choose by `where`, or let a block's `fill` stand past the end")


def _get(e: Lowering, operands: list[Any], out: ArrayType, index: Index, masked: bool = False) -> Any:
    _plain(masked)
    ref, *rest = operands
    return ref.read(e, index, split_operands(index, rest, masked)[0])


def _swap(e: Lowering, operands: list[Any], out: ArrayType, index: Index, masked: bool = False) -> Any:
    _plain(masked)
    ref, value, *rest = operands
    dynamic = split_operands(index, rest, masked)[0]
    old = ref.read(e, index, dynamic) if e.wanted[0] else value
    ref.write(e, index, dynamic, value)
    return old


def _addupdate(e: Lowering, operands: list[Any], outs: list[Any], index: Index, masked: bool = False) -> list[Any]:
    _plain(masked)
    ref, value, *rest = operands
    dynamic = split_operands(index, rest, masked)[0]
    if isinstance(ref, Memory) and ref.meeting:
        one = Update("add", value.dtype, False, ("relaxed", "gpu"))
        update(e, one, [value], None, access_shape(index), *ref.addresses(e, index, dynamic))
    else:
        ref.add(e, index, dynamic, value)
    return []


RULES: dict[Primitive, Callable[..., Any]] = {get_p: _get, swap_p: _swap, addupdate_p: _addupdate}
