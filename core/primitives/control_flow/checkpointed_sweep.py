"""Reverse sweep of a loop whose number of iterations is computed, from checkpoints in memory of a fixed size.

    tape     the states of the iterations that are run backwards next: one block of consecutive iterations
    stack    states on entry to blocks, in order of time

The first sweep does not know when the loop ends (Wang, Moin, Iaccarino 2009; Stumm, Walther 2010). It keeps a state
every `stride` iterations; where there is no room for one more, it drops every other and doubles the stride. From then
on the number of iterations is known. The last block is recomputed from the last state on the stack, and run backwards
from the tape. On the way further states are kept in the free slots, at the positions of binomial checkpointing
(Griewank, Walther 2000): with f free slots, C(f + r, f) blocks after a state are each recomputed at most r times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.primitive import AxisInfo
from ...support.errors import ArgumentError
from ...transforms.structural_primitives import moved
from ..elementwise.arithmetic import div_p, max_p, min_p
from ..elementwise.comparison import select_n_p
from ..elementwise.conversion import convert_element_type
from ..movement.dynamic_slice import dynamic_index_in_dim, dynamic_update_index_in_dim
from ..movement.shape import iota

CHECKPOINTS = 64  # states that are kept where no other number is asked for
LEAST = 4

State = Sequence[Any]
Loop = Callable[[Callable[[Any], Any], Callable[[Any], Any], Any], Any]  # `while_loop`


@dataclass(frozen=True)
class Room:
    """How many states are kept: on the tape, on the stack, and on the stack at most in the first sweep."""

    tape: int
    stack: int
    online: int


def room_for(checkpoints: int | None) -> Room:
    """The room that a number of checkpoints makes."""
    total = CHECKPOINTS if checkpoints is None else checkpoints
    tape = total // 2
    stack = total - tape
    return Room(tape, stack, max(2, stack // 4 * 2))


def check_checkpoints(checkpoints: Any) -> int | None:
    """The number of checkpoints that a caller asks for.

    Raises:
      ArgumentError: not an integer from 4.
    """
    if checkpoints is None:
        return None
    if isinstance(checkpoints, bool) or not isinstance(checkpoints, (int, np.integer)) or checkpoints < LEAST:
        raise ArgumentError(f"the checkpoints of a loop are {checkpoints!r}", f"pass an integer from {LEAST}")
    return int(checkpoints)


class ArrayStore:
    """Slots for states as arrays with one more leading axis, which loops carry."""

    @staticmethod
    def empty(state: State, size: int) -> tuple[Any, ...]:
        return tuple(moved(AxisInfo(size), x, None, 0) for x in state)

    @staticmethod
    def put(slots: State, index: Any, state: State) -> tuple[Any, ...]:
        return tuple(dynamic_update_index_in_dim(s, x, index, 0, allow_negative_indices=False)
                     for s, x in zip(slots, state, strict=True))

    @staticmethod
    def get(slots: State, index: Any) -> tuple[Any, ...]:
        return tuple(dynamic_index_in_dim(s, index, 0, False, allow_negative_indices=False) for s in slots)


def _int(value: int) -> Any:
    return np.int32(value)


def _split(loop: Loop, free: Any, blocks: Any) -> Any:
    """How many of `blocks` blocks (at least 2) to advance before the next state is kept, with `free` slots left."""
    f, n = convert_element_type(free, np.float32), convert_element_type(blocks, np.float32)
    one = np.float32(1)

    def short(c: Any) -> Any:
        return c[1] < n

    def again(c: Any) -> Any:
        r = c[0] + one
        return r, c[1] * (f + r) / r

    r, _ = loop(short, again, (one, f + one))
    found = convert_element_type(n * r / (f + r), np.int32)
    return min_p.bind(max_p.bind(found, _int(1)), blocks - _int(1))


def reverse_sweep(
    loop: Loop,
    going: Callable[[State], Any],
    advance: Callable[[State], State],
    back: Callable[[State, State], State],
    state: State,
    cotangents: State,
    room: Room,
    store: Any = ArrayStore,
) -> State:
    """Run a loop backwards: `back(state, cotangents)` takes the state that an iteration starts from.

    `going` says whether there is one more iteration, `advance` runs it, `loop` binds a `while_loop`.
    """
    block = _int(room.tape)

    def advance_by(count: Any, state: State) -> State:
        return loop(lambda c: c[0] < count, lambda c: (c[0] + _int(1), tuple(advance(c[1]))), (_int(0), state))[1]

    def first_sweep(c: Any) -> Any:
        n, stride, used, state, stack = c
        full = used >= _int(room.online)
        left = select_n_p.bind(full, _int(0), _int(room.online // 2))
        _, stack = loop(lambda c: c[0] < left,
                        lambda c: (c[0] + _int(1), store.put(c[1], c[0], store.get(c[1], c[0] + c[0]))),
                        (_int(0), stack))  # fmt: skip
        used = select_n_p.bind(full, used, left)
        stride = select_n_p.bind(full, stride, stride + stride)
        stack = store.put(stack, used, state)
        taken, state = loop(lambda c: (c[0] < stride) & going(c[1]),
                            lambda c: (c[0] + _int(1), tuple(advance(c[1]))), (_int(0), state))  # fmt: skip
        return n + taken, stride, used + _int(1), state, stack

    state = tuple(state)
    start = _int(0), block, _int(0), state, store.empty(state, room.stack)
    n, stride, used, _, stack = loop(lambda c: going(c[3]), first_sweep, start)

    def last_block(c: Any) -> Any:
        end, used, positions, stack, tape, cts = c

        def descend(c: Any) -> Any:
            at, used, positions, stack, state = c
            blocks = div_p.bind(end - at + (block - _int(1)), block)
            skipped = block * _split(loop, _int(room.stack) - used, blocks)
            state, at = advance_by(skipped, state), at + skipped
            positions = dynamic_update_index_in_dim(positions, at, used, 0)
            return at, used + _int(1), positions, store.put(stack, used, state), state

        at = dynamic_index_in_dim(positions, used - _int(1), 0, keepdims=False)
        at, used, positions, stack, state = loop(
            lambda c: (end - c[0] > block) & (c[1] < _int(room.stack)), descend,
            (at, used, positions, stack, store.get(stack, used - _int(1))))  # fmt: skip
        skipped = block * div_p.bind(end - at - _int(1), block)
        state, at = advance_by(skipped, state), at + skipped
        _, _, tape = loop(lambda c: c[0] < end - at,
                          lambda c: (c[0] + _int(1), tuple(advance(c[1])), store.put(c[2], c[0], c[1])),
                          (_int(0), state, tape))  # fmt: skip
        _, cts = loop(lambda c: c[0] > _int(0),
                      lambda c: (c[0] - _int(1), tuple(back(store.get(tape, c[0] - _int(1)), c[1]))),
                      (end - at, cts))  # fmt: skip
        last = dynamic_index_in_dim(positions, used - _int(1), 0, keepdims=False)
        used = used - convert_element_type(last >= at, np.int32)
        return at, used, positions, stack, tape, cts

    positions = iota(np.int32, room.stack) * stride
    init = n, used, positions, stack, store.empty(state, room.tape), tuple(cotangents)
    return loop(lambda c: c[0] > _int(0), last_block, init)[-1]
