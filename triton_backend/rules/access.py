"""Accesses to Refs, atomic updates, and what a program prints."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_bool, is_float, is_unsigned
from ...core.primitives.external.host_callback import debug_callback_p
from ...core.primitives.refs.state_primitives import Index, addupdate_p, get_p, split_operands, swap_p
from ...lang.ops.atomics import Sync, atomic_cas_p, atomic_rmw_p
from ...lang.ops.debug import Check
from ..atomics import STRICT, atomic_cas
from ..builders import INT8, both, convert, select, spread, wide
from ..refs import Memory, Ref
from ..text import Value
from .elementwise import Rule

if TYPE_CHECKING:
    from ..lower import Lowering

HOST = "a program on the device cannot call Python on the host"


def _get(e: Lowering, operands: Sequence[Any], out: ArrayType, index: Index, masked: bool = False) -> Value:
    ref, *rest = operands
    dynamic, mask, other = split_operands(index, rest, masked)
    if 0 in out.shape:
        return e.p.constant(0, out.dtype, out.shape)
    return ref.read(e.p, index, dynamic, mask, None if other is None else spread(e.p, other, out.shape))


def _swap(e: Lowering, operands: Sequence[Any], out: ArrayType, index: Index, masked: bool = False) -> Value:
    ref, value, *rest = operands
    dynamic, mask, _ = split_operands(index, rest, masked)
    old = value
    if 0 in out.shape:
        return value
    if e.wanted[0]:
        old = ref.read(e.p, index, dynamic, mask, value if masked else None)
    ref.write(e.p, value, index, dynamic, mask)
    return old


def _addupdate(e: Any, operands: Sequence[Any], outs: Sequence[Any], index: Index, masked: bool = False) -> list[Value]:
    ref, value, *rest = operands
    dynamic, mask, _ = split_operands(index, rest, masked)
    if 0 not in value.shape:
        ref.add(e.p, value, index, dynamic, mask)
    return []


def _memory(ref: Ref) -> Memory:
    assert isinstance(ref, Memory), "atomic updates are of memory"
    return ref


def _rmw(e: Lowering, operands: Sequence[Any], outs: Sequence[Any], index: Index, masked: bool, kind: str, wanted: bool,
         sync: Sync | None = None) -> list[Value]:  # fmt: skip
    ref, value, *rest = operands
    dynamic, mask, _ = split_operands(index, rest, masked)
    used = wanted and e.wanted[0]
    old = _memory(ref).update(e.p, kind, value, index, dynamic, mask, used, sync)
    return [old] if wanted else []


def _cas(e: Lowering, operands: Sequence[Any], outs: Sequence[Any], index: Index, masked: bool, wanted: bool,
         sync: Sync = STRICT) -> list[Value]:  # fmt: skip
    ref, expected, value, *rest = operands
    dynamic, mask, _ = split_operands(index, rest, masked)
    pointers, exist = _memory(ref).located(e.p, index, dynamic)
    old = atomic_cas(e.p, pointers, expected, value, both(e.p, exist, mask), sync)
    if mask is not None:
        old = select(e.p, mask, old, e.p.constant(0, old.dtype))
    return [old] if wanted else []


def _print(e: Lowering, operands: Sequence[Value], outs: Sequence[Any], text: str) -> list[Value]:
    """`tt.print` of each value; the text is its prefix."""
    p = e.p
    shown = [convert(p, x, INT8) if is_bool(x.dtype) else wide(p, x) for x in operands]
    signed = ", ".join("0" if is_float(x.dtype) or is_unsigned(x.dtype) else "1" for x in operands)
    prefix = " " + text.replace("\\", "").replace('"', "'").replace("\n", " ").strip() + ": "
    names, types = ", ".join(x.name for x in shown), ", ".join(x.type for x in shown)
    rest = f" : {names} : {types}" if shown else ""
    p.line(f'tt.print "{prefix}" {{hex = false, isSigned = array<i32{": " + signed if signed else ""}>}}{rest}')
    return []


def _callback(e: Lowering, operands: Sequence[Value], outs: Sequence[Any], callback: Any, ordered: bool) -> list[Value]:
    """What devices do by themselves: `debug_print`, and `debug_check` as an assertion."""
    function = getattr(callback, "function", None)
    text = getattr(function, "format", None)
    if text is not None:
        literal = "".join(part for part, *_ in string.Formatter().parse(text))
        return _print(e, operands, outs, literal)
    if not isinstance(function, Check):
        raise e.unsupported(debug_callback_p, f"{HOST}, but for `debug_print` and `debug_check`")
    said = function.text.replace("\\", "").replace('"', "'").replace("\n", " ")
    condition = spread(e.p, operands[0], operands[0].shape or (1,))
    e.p.line(f'tt.assert {condition.name}, "{said}" : {condition.type}')
    return []


RULES: dict[Primitive, Rule] = {
    get_p: _get, swap_p: _swap, addupdate_p: _addupdate, atomic_rmw_p: _rmw, atomic_cas_p: _cas,
    debug_callback_p: _callback,
}  # fmt: skip
