"""Branches, loops, and calls that only matter to transformations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program
from ...core.ir.types import ArrayType, is_bool, is_integer
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.custom.checkpoint import checkpoint_p, optimization_barrier_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p, linear_call_p
from .. import vector_layout
from ..body import Body, Rule
from ..text import SSA, Shape
from ..values import Value, physical, wide
from .shape import axis_of, replaced, window


def carried(type: ArrayType) -> tuple[Shape | None, str]:
    """The representation of a region's values: scalars of integers and booleans, else vectors of words."""
    if not type.shape and (is_integer(type.dtype) or is_bool(type.dtype)):
        return None, "i32"
    element = wide(type.dtype)
    return physical(type.shape), "i32" if element == "i1" else element


def pack(b: Body, x: Value, type: ArrayType) -> SSA:
    """A value in its representation within a region."""
    if carried(type)[0] is None:
        form = b.scalar(x)
        return b.w.op("arith.extui", [form], None, "i32") if form.element == "i1" else form
    return vector_layout.as_words(b.w, b.vector(x))


def unpack(b: Body, x: SSA, type: ArrayType) -> Value:
    """What `pack` undoes."""
    if is_bool(type.dtype):
        if x.shape is None:
            return Value(type, scalar=_nonzero(b, x))
        return Value(type, vector=vector_layout.as_mask(b.w, x, "i1"))
    return Value(type, scalar=x) if x.shape is None else Value(type, vector=x)


def _nonzero(b: Body, x: SSA) -> SSA:
    return b.w.op("arith.cmpi", [x, b.int_constant(0)], None, "i1", "predicate = 1 : i64")


# ---------------------------------------------------------------------------- branches


def _cond(b: Body, xs: list[Any], outs: Sequence[ArrayType], branches: tuple[Program, ...]) -> list[Value]:
    index, operands = xs[0], xs[1:]
    if index.known is not None:
        return b.inline(branches[min(max(int(index.known), 0), len(branches) - 1)], operands)
    form = b.scalar(index)
    # Representations made in a branch must not be used outside of it: each branch has its own values.
    return _choose(b, form, operands, outs, branches)


def fresh(operands: Sequence[Any]) -> list[Any]:
    """Values whose forms, once made, stay within a region."""
    return [
        Value(x.type, x.vector, x.narrow, x.scalar, x.multiple, x.known) if isinstance(x, Value) else x
        for x in operands
    ]


def _choose(b: Body, form: SSA, operands: Sequence[Any], outs: Sequence[ArrayType],
            branches: tuple[Program, ...]) -> list[Value]:  # fmt: skip
    if form.element == "i1" or len(branches) == 2:
        taken = form if form.element == "i1" else \
            b.w.op("arith.cmpi", [form, b.int_constant(1)], None, "i1", "predicate = 5 : i64")  # fmt: skip
        first, rest, at = branches[1], branches[:1], None
    else:
        at = form
        taken = b.w.op("arith.cmpi", [form, b.int_constant(1)], None, "i1", "predicate = 2 : i64")
        first, rest = branches[0], branches[1:]
        at = b.w.op("arith.subi", [form, b.int_constant(1)], None, "i32")

    def then(_: Any) -> list[SSA]:
        return [pack(b, v, t) for v, t in zip(b.inline(first, fresh(operands)), outs, strict=True)]

    def otherwise(_: Any) -> list[SSA]:
        if at is None or len(rest) == 1:
            found = b.inline(rest[0], fresh(operands))
        else:
            found = _choose(b, at, fresh(operands), outs, rest)
        return [pack(b, v, t) for v, t in zip(found, outs, strict=True)]

    regions = f"{b.w.region([], then)}, {b.w.region([], otherwise)}"
    made = b.w.ops("scf.if", [taken], [carried(t) for t in outs], regions=regions)
    return [unpack(b, x, t) for x, t in zip(made, outs, strict=True)]


# ---------------------------------------------------------------------------- loops


def _while(b: Body, xs: list[Any], outs: Sequence[ArrayType], cond_program: Program, body_program: Program,
           cond_nconsts: int, body_nconsts: int, **_: Any) -> list[Value]:  # fmt: skip
    n = cond_nconsts + body_nconsts
    cond_consts, body_consts, init = xs[:cond_nconsts], xs[cond_nconsts:n], xs[n:]
    forms = [carried(t) for t in outs]
    start = [pack(b, x, t) for x, t in zip(init, outs, strict=True)]

    def going(args: list[SSA]) -> list[SSA]:
        state = [unpack(b, a, t) for a, t in zip(args, outs, strict=True)]
        (more,) = b.inline(cond_program, [*fresh(cond_consts), *state])
        return [b.scalar(more), *args]

    passed: set[int] = set()

    def step(args: list[SSA]) -> list[SSA]:
        state = [unpack(b, a, t) for a, t in zip(args, outs, strict=True)]
        after = b.inline(body_program, [*fresh(body_consts), *state])
        after = [pack(b, v, t) for v, t in zip(after, outs, strict=True)]
        passed.update(_passed_on(args, after))
        return after

    regions = f"{b.w.region(forms, going, 'scf.condition')}, {b.w.region(forms, step)}"
    made = b.w.ops("scf.while", _laid_out(b, start, passed), forms, regions=regions)
    return [unpack(b, x, t) for x, t in zip(made, outs, strict=True)]


def loop(b: Body, count: int, start: Sequence[SSA], step: Any) -> list[SSA]:
    """`for i in range(count): state = step(i, state)`, with vectors and scalars for state."""
    forms = [(x.shape, x.element) for x in start]
    bounds = [b.int_constant(n) for n in (0, count, 1)]
    passed: set[int] = set()

    def body(args: list[SSA]) -> list[SSA]:
        after = step(args[0], args[1:])
        passed.update(_passed_on(args[1:], after))
        return after

    region = b.w.region([(None, "i32"), *forms], body)
    return b.w.ops("scf.for", [*bounds, *_laid_out(b, start, passed)], forms, regions=region)


def _passed_on(args: Sequence[SSA], after: Sequence[SSA]) -> set[int]:
    """The places of a loop's state that an iteration hands on to another place, and those places."""
    return {n for i, x in enumerate(after) for j, a in enumerate(args) if x == a and i != j for n in (i, j)}


def _laid_out(b: Body, start: Sequence[SSA], which: set[int]) -> list[SSA]:
    """What a loop starts with, some of it as vectors of which libtpu does not know that all rows or lanes are alike.

    It takes such a layout for that of the state, which values of later iterations do not have ("Invalid relayout").
    """
    return [_xor_zeros(b, x) if i in which and x.shape and len(x.shape) > 1 else x for i, x in enumerate(start)]


def _xor_zeros(b: Body, x: SSA) -> SSA:
    """The same vector of words: its bits, and zeros that are made of the numbers of its rows and lanes."""
    assert x.shape is not None
    rank = len(x.shape)
    rows, lanes = (vector_layout.iota(b.w, x.shape, axis) for axis in (rank - 2, rank - 1))
    numbers = b.w.op("arith.ori", [rows, lanes], x.shape, "i32")
    zeros = b.w.op("arith.shrui", [numbers, b.w.constant(31, "i32", x.shape)], x.shape, "i32")
    bits = x if x.element == "i32" else b.w.op("tpu.bitcast", [x], x.shape, "i32")
    found = b.w.op("arith.xori", [bits, zeros], x.shape, "i32")
    return found if x.element == "i32" else b.w.op("tpu.bitcast", [found], x.shape, x.element)


UNROLLED = 4  # loops of at most so many iterations are unrolled


def _scan(b: Body, xs: list[Any], outs: Sequence[ArrayType], program: Program, length: int, reverse: bool,
          num_consts: int, num_carry: int, unroll: int) -> list[Value]:  # fmt: skip
    n = num_consts + num_carry
    consts, init, stacked = xs[:num_consts], xs[num_consts:n], xs[n:]
    types, item_types = list(outs[:num_carry]), list(outs[num_carry:])
    items = [vector_layout.as_words(b.w, b.vector(x)) for x in stacked]

    def turn(i: Any, state: Sequence[Value], ys: Sequence[SSA]) -> tuple[list[Value], list[SSA]]:
        rows = [_item(b, x, v, i) for x, v in zip(stacked, items, strict=True)]
        after = b.inline(program, [*fresh(consts), *state, *rows])
        stored = [_stored(b, y, t, v, i) for y, t, v in zip(ys, item_types, after[num_carry:], strict=True)]
        return after[:num_carry], stored

    def empty(type: ArrayType) -> SSA:
        element = wide(type.dtype)
        return b.w.constant(0, "i32" if element == "i1" else element, physical(type.shape))

    ys = [empty(t) for t in item_types]
    if length <= UNROLLED:
        state: Sequence[Value] = init
        for k in reversed(range(length)) if reverse else range(length):
            state, ys = turn(k, state, ys)
        return [*state, *(unpack(b, y, t) for y, t in zip(ys, item_types, strict=True))]

    def step(i: SSA, args: list[SSA]) -> list[SSA]:
        place = b.scalar_op("arith.subi", b.int_constant(length - 1), i) if reverse else i
        state = [unpack(b, a, t) for a, t in zip(args, types, strict=False)]
        after, stored = turn(place, state, args[num_carry:])
        return [*(pack(b, v, t) for v, t in zip(after, types, strict=True)), *stored]

    made = loop(b, length, [*(pack(b, x, t) for x, t in zip(init, types, strict=True)), *ys], step)
    return [unpack(b, x, t) for x, t in zip(made, outs, strict=True)]


def _item(b: Body, x: Value, v: SSA, i: Any) -> Value:
    """`x[i]`."""
    assert v.shape is not None
    axis = axis_of(len(x.shape), 0)
    sizes = [1 if d == axis else n for d, n in enumerate(v.shape)]
    row = window(b, v, [i if d == axis else 0 for d in range(len(sizes))], sizes)
    type = ArrayType(x.shape[1:], x.dtype)
    row = vector_layout.reshape(b.w, row, physical(type.shape))
    return Value(type, vector=vector_layout.as_mask(b.w, row, wide(x.dtype)))


def _stored(b: Body, ys: SSA, type: ArrayType, value: Value, i: Any) -> SSA:
    """Stacked results with row `i` replaced."""
    assert ys.shape is not None
    axis = axis_of(len(type.shape), 0)
    row = vector_layout.reshape(b.w, vector_layout.as_words(b.w, b.vector(value)),
                        tuple(1 if d == axis else n for d, n in enumerate(ys.shape)))  # fmt: skip
    return replaced(b, ys, row, [i if d == axis else 0 for d in range(len(ys.shape))])


# ---------------------------------------------------------------------------- calls


def _inlined(b: Body, xs: list[Any], outs: Sequence[Any], *, program: Program, **_: Any) -> list[Any]:
    return b.inline(program, xs)


def _barrier(b: Body, xs: list[Any], outs: Sequence[Any]) -> list[Any]:
    return xs


RULES: dict[Primitive, Rule] = {
    cond_p: _cond,
    while_p: _while,
    scan_p: _scan,
    optimization_barrier_p: _barrier,
    **dict.fromkeys((jit_p, custom_jvp_call_p, custom_vjp_call_p, linear_call_p, checkpoint_p), _inlined),
}
