"""Atomics: one core runs its cells one after the other, so an atomic is a read, an operation and a write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType
from ...core.primitives.elementwise.comparison import eq_p, select_n_p
from ...core.primitives.refs.state_primitives import split_operands
from ...lang.ops.atomics import COMBINE, atomic_cas_p, atomic_rmw_p
from ..body import Body, Rule
from ..values import Value
from .elementwise import RULES as ELEMENTWISE
from .vector_memory import read, write


def _rmw(b: Body, xs: list[Any], outs: Sequence[ArrayType], **params: Any) -> list[Value]:
    ref, value = xs[:2]
    index, kind = params["index"], params["kind"]
    dynamic, mask, _ = split_operands(index, xs[2:], params["masked"])
    type_ = ArrayType(value.shape, value.dtype)
    old = read(b, ref, index, dynamic, mask, None, type_)
    new = ELEMENTWISE[COMBINE[kind]](b, [old, value], type_) if kind in COMBINE else value
    write(b, ref, new, index, dynamic, mask)
    return [old] if params["wanted"] else []


def _cas(b: Body, xs: list[Any], outs: Sequence[ArrayType], **params: Any) -> list[Value]:
    ref, expected, value = xs[:3]
    index = params["index"]
    dynamic, mask, _ = split_operands(index, xs[3:], params["masked"])
    type_ = ArrayType(value.shape, value.dtype)
    old = read(b, ref, index, dynamic, mask, None, type_)
    same = ELEMENTWISE[eq_p](b, [old, expected], ArrayType(value.shape, bool))
    write(b, ref, ELEMENTWISE[select_n_p](b, [same, old, value], type_), index, dynamic, mask)
    return [old] if params["wanted"] else []


RULES: dict[Primitive, Rule] = {atomic_rmw_p: _rmw, atomic_cas_p: _cas}
