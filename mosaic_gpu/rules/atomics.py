"""Atomic updates of memory: one instruction for each element, by the thread that has it.

Sources: the PTX ISA, on red, atom and fence. Extrema of floats are those of their bits: signed ones for what is not
negative, unsigned ones (reversed) for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import Dtype, is_float
from ...core.primitives.refs.state_primitives import Index, access_shape, split_operands
from ...lang.legalize import Unfit
from ...lang.ops.atomics import Sync, atomic_cas_p, atomic_rmw_p
from ..refs import Register, Space
from ..text import Int, Printer
from ..values import Fragment, Lazy, Product, computed

if TYPE_CHECKING:
    from ..lower import Lowering

STRICT: Sync = ("acq_rel", "gpu")
_BITS = {"and": "and.b32", "or": "or.b32", "xor": "xor.b32", "xchg": "exch.b32", "cas": "cas.b32"}


@dataclass(frozen=True)
class Update:
    """What is done to elements of a dtype; `wanted`: whether what was there is given."""

    kind: str
    dtype: Any
    wanted: bool
    sync: Sync

    def __post_init__(self) -> None:
        half = self.kind == "add" and str(self.dtype) in ("float16", "bfloat16") and not self.wanted
        if self.dtype.itemsize != 4 and not half:
            raise Unfit(f"atomic_{self.kind} of {self.dtype}: they are on 32 bits, additions on float16 and bfloat16 "
                        "too, if their results are not used; convert before")  # fmt: skip

    def put(self, p: Printer, space: Space, address: str, numbers: Sequence[str]) -> str:
        """Update one element; gives what was there before if that is wanted."""
        dtype, kind = self.dtype, self.kind
        way = "atom" if self.wanted or kind in ("xchg", "cas") else "red"
        head, pointer = f".relaxed.{self.sync[1]}.{space[0]}", space[1:]
        if dtype.itemsize == 2:
            short = "f16" if str(dtype) == "float16" else "bf16"
            word = p.pure(f"arith.bitcast {p.pure(f'arith.truncf {numbers[0]} : f32 to {short}')} : {short} to i16")
            p.asm(f"red{head}.add.noftz.{short} [$0], $1;", f"{pointer[0]},h", [address, word], [pointer[1], "i16"])
            return ""
        plain = kind == "add" and is_float(dtype)
        bits = is_float(dtype) and not plain
        given = [p.pure(f"arith.bitcast {x} : f32 to i32") for x in numbers] if bits else list(numbers)
        letter, type_ = ("f", "f32") if plain else ("r", "i32")
        old, first = ("$0, ", 1) if way == "atom" else ("", 0)
        value = ", ".join(f"${first + 1 + i}" for i in range(len(given)))
        rest = f"{old}[${first}], {value};"
        if bits and kind in ("max", "min"):
            other = "min" if kind == "max" else "max"
            text = (f"{{ .reg .pred n; setp.lt.s32 n, {value}, 0; @n {way}{head}.{other}.u32 {rest} "
                    f"@!n {way}{head}.{kind}.s32 {rest} }}")  # fmt: skip
        else:
            sign = "u" if kind == "add" or dtype.kind == "u" else "s"
            text = f"{way}{head}.{'add.f32' if plain else _BITS.get(kind, f'{kind}.{sign}32')} {rest}"
        letters = [f"={letter}"] * first + [pointer[0]] + [letter] * len(given)
        found = p.asm(text, ",".join(letters), [address, *given], [pointer[1], *[type_] * len(given)], [type_] * first)
        if not self.wanted:
            return ""
        return p.pure(f"arith.bitcast {found[0]} : i32 to f32") if bits else found[0]


def update(e: Lowering, one: Update, values: Sequence[Any], mask: Any, shape: tuple[int, ...], space: Space,
           at: Callable[[Sequence[Int]], tuple[Any, str | None]]) -> Any:  # fmt: skip
    """Update a part of memory; gives what was there before if that is wanted.

    `at` tells of a place the address, and whether it exists (None: it does).
    """
    p, (order, scope) = e.p, one.sync
    values = [e.settled(x) if isinstance(x, Product) else x for x in values]
    given = values if mask is None else [*values, mask]
    layout = e.layout(shape, None, e.joined(given, shape))
    owner, (rows, cols) = e.owner(layout), e.extent(layout)
    if one.wanted and owner is not None and shape:
        raise Unfit(f"what was there before atomic_{one.kind} of {shape}: update a number or a whole matrix, or leave "
                    "the result")  # fmt: skip
    if order in ("release", "acq_rel"):
        p.asm(f"fence.acq_rel.{scope};")

    def act(r: int, j: int) -> str:
        numbers = [e.element(x, layout, r, j) for x in values]
        address, inside = at(e.place(layout, r, j))
        tests = [owner, inside, None if mask is None else e.element(mask, layout, r, j)]
        test = reduce(lambda a, b: b if a is None else a if b is None else p.pure(f"arith.andi {a}, {b} : i1"), tests)
        if not one.wanted:
            with nullcontext() if test is None else p.when(test):
                return one.put(p, space, address, numbers)
        if test is None:
            return one.put(p, space, address, numbers)
        type_ = computed(one.dtype)
        put, none = lambda: [one.put(p, space, address, numbers)], lambda: [p.constant(0, type_)]
        return p.branch(test, [type_], put, none)[0]

    old = [[act(r, j) for j in range(cols)] for r in range(rows)]
    if not one.wanted:
        return None
    if order in ("acquire", "acq_rel"):
        p.asm(f"fence.acq_rel.{scope};")
    return Fragment(layout, one.dtype, old) if shape else _told(e, old[0][0], owner, one.dtype)


def _told(e: Lowering, number: str, owner: str | None, dtype: Dtype) -> Lazy:
    """A number that one thread has, in all of them."""
    p, base, type_ = e.p, e.keep(16), computed(dtype)
    at, letter = p.name(p.add(base, p.mul(e.warp, 4)) if e.by_warps else base), "f" if type_ == "f32" else "r"
    e.gather()
    with nullcontext() if owner is None else p.when(owner):
        p.asm("st.shared.b32 [$0], $1;", f"r,{letter}", [at, number], ["i32", type_])
    e.gather()
    (found,) = p.asm("ld.shared.b32 $0, [$1];", f"={letter},r", [at], ["i32"], [type_])
    return Lazy((), dtype, lambda p, place: found, fixed=True)


def _atomic(e: Any, operands: list[Any], outs: list[Any], index: Index, masked: bool, wanted: bool, kind: str = "cas",
            sync: Sync | None = None) -> list[Any]:  # fmt: skip
    ref, *rest = operands
    count = 2 if kind == "cas" else 1
    values, (dynamic, mask, _) = rest[:count], split_operands(index, rest[count:], masked)
    if isinstance(ref, Register):
        raise Unfit(f"atomic_{kind} of what is in registers: update a result, or shared memory")
    one = Update(kind, values[0].dtype, wanted and e.wanted[0], sync or STRICT)
    old = update(e, one, values, mask, access_shape(index), *ref.addresses(e, index, dynamic))
    return [values[-1] if old is None else old] if wanted else []


RULES: dict[Primitive, Callable[..., Any]] = {atomic_rmw_p: _atomic, atomic_cas_p: _atomic}
