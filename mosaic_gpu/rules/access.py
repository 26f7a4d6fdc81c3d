"""Accesses to Refs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.primitive import Primitive
from ...core.primitives.ref import Index, addupdate_p, get_p, split_operands, swap_p
from ...core.types import ArrayType
from ..values import Unfit


def _plain(masked: bool) -> None:
    if masked:
        raise Unfit("an access under a mask")


def _get(e: Any, operands: list[Any], out: ArrayType, index: Index, masked: bool = False) -> Any:
    _plain(masked)
    ref, *rest = operands
    return ref.read(e, index, split_operands(index, rest, masked)[0])


def _swap(e: Any, operands: list[Any], out: ArrayType, index: Index, masked: bool = False) -> Any:
    _plain(masked)
    ref, value, *rest = operands
    dynamic = split_operands(index, rest, masked)[0]
    old = ref.read(e, index, dynamic) if e.wanted[0] else value
    ref.write(e, index, dynamic, value)
    return old


def _addupdate(e: Any, operands: list[Any], outs: list[Any], index: Index, masked: bool = False) -> list[Any]:
    _plain(masked)
    ref, value, *rest = operands
    ref.add(e, index, split_operands(index, rest, masked)[0], value)
    return []


RULES: dict[Primitive, Callable[..., Any]] = {get_p: _get, swap_p: _swap, addupdate_p: _addupdate}
