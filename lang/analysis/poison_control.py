"""How branches, loops, calls and asynchronous copies of a body are followed (`lang/analysis/poison_interp.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.program import Eqn, Program
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.custom.checkpoint import checkpoint_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p
from ...core.primitives.refs.state_primitives import access_shape
from ..ops.dma import dma_start_p, dma_wait_p, parts_of, semaphore_read_p, semaphore_signal_p, semaphore_wait_p
from .poison_interp import LATER, Follower, Rule, Value
from .poison_lattice import MAYBE, RAW, Copies, Copy, Level, doubted, either, flat, joined, most, tidy

UNROLLED = 1024  # equations of the turns of a loop that are followed one by one
TURNS = 8  # after so many turns what still changes is not known

CALLS = (jit_p, custom_jvp_call_p, custom_vjp_call_p, checkpoint_p)  # of a Program, which says all that they do

Memory = tuple[dict[int, Level], Copies]


def _idle(values: Sequence[Value]) -> bool:
    """Whether nothing unspecified goes in, and no memory."""
    return all(v.level is None and v.ref is None for v in values)


def _memory(f: Follower) -> Memory:
    return dict(f.levels), dict(f.copies)


def _joined(f: Follower, one: Memory, two: Memory) -> Memory:
    """The memory that is one of two; of copies that only one has under way it is not known what they bring."""
    levels = {p: joined(one[0][p], two[0][p]) for p in one[0]}
    if one[1] == two[1]:
        return levels, one[1]
    for copies in (one[1], two[1]):
        for started, _ in copies.values():
            for copy in started:
                if copy.ref in levels:
                    levels[copy.ref] = joined(levels[copy.ref], flat(MAYBE, len(f.type_of(copy.ref).shape)))
    return levels, {}


def _doubt(f: Follower, before: Memory) -> None:
    """Of what was written since it is not known whether it should have been."""
    for ref, level in f.levels.items():
        if level is not before[0][ref]:
            f.levels[ref] = joined(joined(level, before[0][ref]), flat(MAYBE, len(f.type_of(ref).shape)))


def _call(f: Follower, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    return f.run(eqn.params["program"], inputs)


def _cond(f: Follower, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    test, args, branches = inputs[0], inputs[1:], eqn.params["branches"]
    if _idle(inputs):
        return [Value() for _ in eqn.outputs]
    table = f.tables.get(eqn)
    if table is not None and f.ids is not None:
        which: Any = table[tuple(i if n > 1 else 0 for i, n in zip(f.ids, table.shape, strict=True))]
    else:
        which = None if test.level is not None else f.known(test)
    if which is not None:
        return f.run(branches[min(max(int(which), 0), len(branches) - 1)], args)
    before = _memory(f)
    after: Memory | None = None
    found: list[list[Value]] = []
    for branch in branches:
        f.levels, f.copies = dict(before[0]), dict(before[1])
        found.append(f.run(branch, args))
        after = _memory(f) if after is None else _joined(f, after, _memory(f))
    assert after is not None
    f.levels, f.copies = after
    outs = []
    for values, var in zip(zip(*found, strict=True), eqn.outputs, strict=True):
        level = values[0].level
        for value in values[1:]:
            level = either(level, value.level)
        rank = len(var.type.shape)
        outs.append(Value(level if test.level is None else most([level, flat(MAYBE, rank)], rank)))
    if test.level is not None:
        _doubt(f, before)
    return outs


# ---------------------------------------------------------------------------- loops


def _settled(f: Follower, values: Sequence[Value]) -> list[Value]:
    """The carry of a loop, scalars worked out at once so that no chain of them builds up."""
    for value in values:
        if value.ref is None and value.eqn is not None and not value.eqn.outputs[value.number].type.shape:
            f.known(value)
    return [Value(v.level, None if v.known is LATER else v.known) for v in values]


def _element(x: Value, number: int | None) -> Value:
    """What a turn of a loop sees of an operand that it goes through; None: any turn."""
    level = x.level
    if level is not None:
        if level.shape[0] == 1:
            level = level[0]
        else:
            level = level[number] if number is not None else doubted(level.max(axis=0))
    out = Value(tidy(level), LATER if number is not None else None)
    out.part = None if number is None else (x, number)
    return out


def _stacked(levels: Sequence[Level], rank: int) -> Level:
    if all(x is None for x in levels):
        return None
    rows = np.broadcast_arrays(*(np.zeros((1,) * (rank - 1), np.uint8) if x is None else x for x in levels))
    return tidy(np.stack(rows))


def _invariant(f: Follower, program: Program, consts: list[Value], carry: list[Value], xs: list[Value]
               ) -> tuple[list[Value], list[Value]]:  # fmt: skip
    """Follow any number of turns at once: gives the carry before a turn and what the turn gives.

    The memory is then as after a turn, and `f.before` as before one.
    """
    levels = [v.level for v in carry]
    for turn in range(2 * TURNS):
        before = _memory(f)
        outs = f.run(program, [*consts, *map(Value, levels), *xs])
        after = _memory(f)
        new = [either(a, v.level) for a, v in zip(levels, outs, strict=False)]
        level_memory, copies = _joined(f, before, after)
        same = all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in zip(
            [*levels, *before[0].values()], [*new, *level_memory.values()], strict=True))  # fmt: skip
        if same and copies == before[1]:
            f.before = before
            return [Value(x) for x in levels], outs
        if turn >= TURNS:
            new = [None if x is None else flat(MAYBE, x.ndim) for x in new]
            level_memory = {p: x if x is None or x.size == 1 else flat(MAYBE, x.ndim) for p, x in level_memory.items()}
        levels, f.levels, f.copies = new, level_memory, copies
    raise AssertionError("levels rise to what is not known")


def _scan(f: Follower, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    params = eqn.params
    program, n, m, length = params["program"], params["num_consts"], params["num_carry"], params["length"]
    if _idle(inputs):
        return [Value() for _ in eqn.outputs]
    consts, carry, xs = inputs[:n], inputs[n : n + m], inputs[n + m :]
    ranks = [len(v.type.shape) for v in eqn.outputs[m:]]
    if length * len(program.eqns) > UNROLLED:
        _, outs = _invariant(f, program, consts, carry, [_element(x, None) for x in xs])
        rows = [[v.level] for v in outs[m:]]
        carry = [Value(v.level) for v in outs[:m]]
    else:
        turns = range(length - 1, -1, -1) if params["reverse"] else range(length)
        rows = [[] for _ in ranks]
        for number in turns:
            outs = f.run(program, [*consts, *carry, *(_element(x, number) for x in xs)])
            carry = _settled(f, outs[:m])
            for row, value in zip(rows, outs[m:], strict=True):
                row.append(value.level)
        rows = [row[::-1] if params["reverse"] else row for row in rows]
    return [*carry, *(Value(_stacked(row, rank) if row else None) for row, rank in zip(rows, ranks, strict=True))]


def _while(f: Follower, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    params = eqn.params
    n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    if _idle(inputs):
        return [Value() for _ in eqn.outputs]
    test, body = params["cond_program"], params["body_program"]
    carry, turns = inputs[m:], 0
    while turns * (len(body.eqns) + 1) <= UNROLLED:
        (going,) = f.run(test, [*inputs[:n], *carry])
        known = None if going.level is not None else f.known(going)
        if known is None:
            break
        if not known:
            return list(carry)
        carry = _settled(f, f.run(body, [*inputs[n:m], *carry]))
        turns += 1
    start = _memory(f)
    carry, _ = _invariant(f, body, inputs[n:m], list(carry), [])
    f.levels, f.copies = f.before
    (going,) = f.run(test, [*inputs[:n], *carry])
    if going.level is not None:
        _doubt(f, start)
        carry = [Value(most([v.level, flat(MAYBE, r)], r)) for v, r in
                 ((v, len(o.type.shape)) for v, o in zip(carry, eqn.outputs, strict=True))]  # fmt: skip
    return list(carry)


# ---------------------------------------------------------------------------- copies


def _semaphore(f: Follower, ref: Value, index: Any, dynamic: Sequence[Value]) -> Any:
    """Which semaphore it is; None if that is not known."""
    at = [f.known(v) for v in dynamic]
    given = iter(at)
    return None if any(x is None for x in at) else (
        ref.ref, tuple(int(next(given)) if e.start is None else e.start for e in index))  # fmt: skip


def _start(f: Follower, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    params = eqn.params
    (src, src_at), (dst, dst_at), (sem, sem_at) = parts_of(inputs, **params)
    name = _semaphore(f, sem, params["sem"], sem_at)
    at = [f.known(v) for v in dst_at]
    rank = len(access_shape(params["dst"]))
    level = f.load(eqn, src.ref, params["src"], src_at)
    if params["add"]:
        level = most([level, f.load(eqn, dst.ref, params["dst"], dst_at)], rank)
    if name is None or any(x is None for x in at):  # it comes some time
        f.store(eqn, dst.ref, flat(MAYBE, rank), params["dst"], dst_at)
        return []
    nbytes = int(np.prod(access_shape(params["dst"]))) * f.type_of(dst.ref).dtype.itemsize
    packed = None if level is None else (level.tobytes(), level.shape)
    started, credit = f.copies.get(name, ((), 0))
    copy = Copy(nbytes, packed, dst.ref, params["dst"], tuple(map(int, at)), params["add"])
    f.copies[name] = ((*started, copy), credit)
    if f.counted:
        f.store(eqn, dst.ref, flat(RAW, rank), params["dst"], dst_at)
    return []


def _wait(f: Follower, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    _, (dst, _), (sem, sem_at) = parts_of(inputs, **eqn.params)
    name = _semaphore(f, sem, eqn.params["sem"], sem_at)
    nbytes = int(np.prod(access_shape(eqn.params["dst"]))) * f.type_of(dst.ref).dtype.itemsize
    if name is None:  # any of them may be what it waits for
        f.levels, f.copies = _joined(f, _memory(f), (f.levels, {}))
        return []
    started, credit = f.copies.get(name, ((), 0))
    while credit < nbytes and started:
        copy, started = started[0], started[1:]
        level = None if copy.level is None else np.frombuffer(copy.level[0], np.uint8).reshape(copy.level[1])
        f.store(eqn, copy.ref, level, copy.index, [Value(known=np.int32(i)) for i in copy.dynamic])
        credit += copy.nbytes
    left = max(credit - nbytes, 0)
    if started or left:
        f.copies[name] = (started, left)
    else:
        f.copies.pop(name, None)
    return []


def _nothing(f: Follower, eqn: Eqn, inputs: list[Value]) -> list[Value]:
    return [Value() for _ in eqn.outputs]


RULES: dict[Any, Rule] = {
    **dict.fromkeys(CALLS, _call), cond_p: _cond, scan_p: _scan, while_p: _while, dma_start_p: _start,
    dma_wait_p: _wait, semaphore_signal_p: _nothing, semaphore_wait_p: _nothing, semaphore_read_p: _nothing,
}  # fmt: skip
