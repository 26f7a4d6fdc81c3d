"""StableHLO of branches and loops.

Bodies are printed in place and capture what they do not change; only a loop's carry, its counter and its
stacked outputs travel through the `while`. Where a body has ordered effects, the token that orders them
(`Emitter.token`) travels too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.program import ORDERED, Program
from ...core.ir.types import BOOL, INT32, ArrayType
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from .emit import Emitter, Operand, integers

COUNTER = ArrayType((), INT32)


def _cond(e: Emitter, operands: list[Operand], outs: list[Any], *, branches: tuple[Program, ...]) -> list[Operand]:
    index, arguments = operands[0], operands[1:]
    ordered = any(ORDERED in b.effects for b in branches)
    before = e.token if ordered else None
    given: list[Sequence[Operand]] = []

    def branch(program: Program) -> Callable[[list[Operand]], Sequence[Operand]]:
        def body(_: list[Operand]) -> list[Operand]:
            e.token = before if ordered else e.token
            given.append(e.inline(program, arguments))
            return [*given[-1], *([e.token] if ordered else [])]

        return body

    regions = ", ".join(e.region([], branch(b)) for b in branches)
    results = e.ops("stablehlo.case", [index], [*outs, *([before.type] if before else [])], regions=regions)
    if ordered:
        e.token = results.pop()
    # XLA:CPU shares a buffer between an operand and its copy that all branches forward, and may overwrite it too soon.
    columns = zip(results, *given, strict=True)
    return [Operand(x.name, out.type) if all([x.name == y.name for y in same]) else out for out, x, *same in columns]


def _loop(
    e: Emitter,
    init: Sequence[Operand],
    going: Callable[[list[Operand]], Operand],
    step: Callable[[list[Operand]], Sequence[Operand]],
    ordered: bool,
) -> list[Operand]:
    """A `while` over some operands; the token joins them where the loop is ordered."""
    state = [*init, *([e.token] if ordered else [])]

    def condition(args: list[Operand]) -> list[Operand]:
        return [going(args[: len(init)])]

    def body(args: list[Operand]) -> list[Operand]:
        if ordered:
            e.token = args[-1]
        return [*step(args[: len(init)]), *([e.token] if ordered else [])]

    types = [o.type for o in state]
    regions = f"{e.region(types, condition)}, {e.region(types, body)}"
    results = e.ops("stablehlo.while", state, types, regions=regions)
    if ordered:
        e.token = results.pop()
    return results


def _while(
    e: Emitter,
    operands: list[Operand],
    outs: list[Any],
    *,
    cond_program: Program,
    body_program: Program,
    cond_nconsts: int,
    body_nconsts: int,
    **_: Any,
) -> list[Operand]:
    n = cond_nconsts + body_nconsts
    cond_consts, body_consts, carry = operands[:cond_nconsts], operands[cond_nconsts:n], operands[n:]
    return _loop(
        e,
        carry,
        lambda args: e.inline(cond_program, [*cond_consts, *args])[0],
        lambda args: e.inline(body_program, [*body_consts, *args]),
        ORDERED in (cond_program.effects | body_program.effects),
    )


# ---------------------------------------------------------------------------- scan


def _starts(e: Emitter, i: Operand, rank: int) -> list[Operand]:
    zero = e.constant(0, COUNTER)
    return [i, *[zero] * (rank - 1)]


def _item(e: Emitter, x: Operand, i: Operand) -> Operand:
    """`x[i]`."""
    type_ = x.type.with_shape(x.shape[1:])
    row = x.type.with_shape((1, *x.shape[1:]))
    cut = e.op(
        "stablehlo.dynamic_slice", [x, *_starts(e, i, len(x.shape))], row, f"slice_sizes = {integers(row.shape)}"
    )
    return e.op("stablehlo.reshape", [cut], type_)


def _store(e: Emitter, buffer: Operand, value: Operand, i: Operand) -> Operand:
    """`buffer` with row `i` replaced."""
    row = e.op("stablehlo.reshape", [value], value.type.with_shape((1, *value.shape)))
    starts = _starts(e, i, len(buffer.shape))
    return e.op("stablehlo.dynamic_update_slice", [buffer, row, *starts], buffer.type)


def _scan(
    e: Emitter,
    operands: list[Operand],
    outs: list[Any],
    *,
    program: Program,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    unroll: int,
) -> list[Operand]:
    n = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], operands[num_consts:n], operands[n:]

    def turn(i: Operand, carry: Sequence[Operand], ys: Sequence[Operand]) -> tuple[list[Operand], list[Operand]]:
        place = e.op("stablehlo.subtract", [e.constant(length - 1, COUNTER), i], COUNTER) if reverse else i
        results = e.inline(program, [*consts, *carry, *(_item(e, x, place) for x in xs)])
        stored = [_store(e, y, v, place) for y, v in zip(ys, results[num_carry:], strict=True)]
        return results[:num_carry], stored

    def step(state: list[Operand]) -> list[Operand]:
        i, carry, ys = state[0], state[1 : 1 + num_carry], state[1 + num_carry :]
        for k in range(unroll):
            at = i if k == 0 else e.op("stablehlo.add", [i, e.constant(k, COUNTER)], COUNTER)
            carry, ys = turn(at, carry, ys)
        return [e.op("stablehlo.add", [i, e.constant(unroll, COUNTER)], COUNTER), *carry, *ys]

    def going(state: list[Operand]) -> Operand:
        limit = e.constant(whole, COUNTER)
        compare = "comparison_direction = #stablehlo<comparison_direction LT>"
        return e.op("stablehlo.compare", [state[0], limit], ArrayType((), BOOL), compare)

    ys = [e.constant(np.zeros((), t.dtype), t) for t in outs[num_carry:]]
    known = type(length) is int
    unroll = unroll if known else 1
    whole = length - length % unroll
    if not known or whole > unroll:
        state = _loop(e, [e.constant(0, COUNTER), *carry, *ys], going, step, ORDERED in program.effects)
        carry, ys = state[1 : 1 + num_carry], state[1 + num_carry :]
    else:
        whole = 0
    for k in range(whole, length) if known else ():
        carry, ys = turn(e.constant(k, COUNTER), carry, ys)
    return [*carry, *ys]


RULES = {cond_p: _cond, while_p: _while, scan_p: _scan}
