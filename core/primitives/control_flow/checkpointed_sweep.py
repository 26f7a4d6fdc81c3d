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
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.primitive import AxisInfo
from ...support.errors import ArgumentError
from ...transforms.structural_primitives import moved
from ..elementwise.arithmetic import div_p, max_p, min_p
from ..elementwise.comparison import select_n_p
from ..elementwise.conversion import convert_element_type
from ..movement.dynamic_slice import dynamic_index_in_dim, dynamic_update_index_in_dim

if TYPE_CHECKING:
    from ...support.pytree import PyTree

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


def check_checkpoints(checkpoints: int | None) -> int | None:
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

    def __init__(self, size: int):
        self.size = size

    def empty(self, state: State) -> State:
        return tuple(moved(AxisInfo(self.size), x, None, 0) for x in state)

    def put(self, slots: State, index: ArrayLike, state: State) -> State:
        return tuple(dynamic_update_index_in_dim(s, x, index, 0, allow_negative_indices=False)
                     for s, x in zip(slots, state, strict=True))  # fmt: skip

    def get(self, slots: State, index: ArrayLike) -> State:
        return tuple(dynamic_index_in_dim(s, index, 0, False, allow_negative_indices=False) for s in slots)


def _int(value: int) -> Any:
    return np.int32(value)


def _split(loop: Loop, free: Array, blocks: Operand) -> Any:
    """How many of `blocks` blocks (at least 2) to advance before the next state is kept, with `free` slots left."""
    # Under `vmap` elements that are done, which may have no free slot, run it too.
    f = convert_element_type(max_p.bind(free, _int(1)), np.float32)
    n, one = convert_element_type(blocks, np.float32), np.float32(1)

    def short(c: Sequence[Any]) -> Any:
        return (c[1] < n) & (c[0] < np.float32(2**16))

    def again(c: Sequence[Any]) -> Any:
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
    stores: tuple[Any, Any] | None = None,
) -> State:
    """Run a loop backwards: `back(state, cotangents)` takes the state that an iteration starts from.

    `going` says whether there is one more iteration, `advance` runs it, `loop` binds a `while_loop`. States are kept in
    two `stores`: the stack, each with the number of its iteration before it, and the tape.
    """
    block, one, zero = _int(room.tape), _int(1), _int(0)
    on_stack, on_tape = stores or (ArrayStore(room.stack), ArrayStore(room.tape))

    def run(carry: PyTree, more: Callable[[Any, State], Any], keep: Callable[..., Any] | None = None) -> Any:
        """Advance while `more(iterations, state)`; `keep` puts each state before it."""

        def step(c: Sequence[Any]) -> Any:
            count, state, kept = c
            kept = kept if keep is None else keep(kept, count, state)
            return count + one, tuple(advance(state)), kept

        return loop(lambda c: more(c[0], c[1]), step, (zero, *carry))

    def first_sweep(c: Sequence[Any]) -> Any:
        n, stride, used, state, stack = c
        full = used >= _int(room.online)
        left = select_n_p.bind(full, zero, _int(room.online // 2))
        _, stack = loop(lambda c: c[0] < left,
                        lambda c: (c[0] + one, on_stack.put(c[1], c[0], on_stack.get(c[1], c[0] + c[0]))),
                        (zero, stack))  # fmt: skip
        used = select_n_p.bind(full, used, left)
        stride = select_n_p.bind(full, stride, stride + stride)
        stack = on_stack.put(stack, used, (n, *state))
        taken, state, _ = run((state, ()), lambda count, state: (count < stride) & going(state))
        return n + taken, stride, used + one, state, stack

    def last_block(c: Sequence[Any]) -> Any:
        end, used, stack, tape, cts = c

        def descend(c: Sequence[Any]) -> Any:
            at, used, stack, state = c
            blocks = div_p.bind(end - at + (block - one), block)
            skipped = block * _split(loop, _int(room.stack) - used, blocks)
            _, state, _ = run((state, ()), lambda count, _: count < skipped)
            at = at + skipped
            return at, used + one, on_stack.put(stack, used, (at, *state)), state

        last, *state = on_stack.get(stack, used - one)
        at, used, stack, state = loop(
            lambda c: (end - c[0] > block) & (c[1] < _int(room.stack)), descend, (last, used, stack, tuple(state)))
        skipped = block * div_p.bind(end - at - one, block)
        _, state, _ = run((state, ()), lambda count, _: count < skipped)
        at = at + skipped
        _, _, tape = run((state, tape), lambda count, _: count < end - at, on_tape.put)
        _, cts = loop(lambda c: c[0] > zero,
                      lambda c: (c[0] - one, tuple(back(on_tape.get(tape, c[0] - one), c[1]))), (end - at, cts))
        last, *_ = on_stack.get(stack, used - one)
        return at, used - convert_element_type(last >= at, np.int32), stack, tape, cts

    state = tuple(state)
    start = zero, block, zero, state, on_stack.empty((zero, *state))
    n, _, used, _, stack = loop(lambda c: going(c[3]), first_sweep, start)
    init = n, used, stack, on_tape.empty(state), tuple(cotangents)
    return loop(lambda c: c[0] > zero, last_block, init)[-1]
