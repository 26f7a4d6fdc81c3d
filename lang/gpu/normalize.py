"""Kernels as GPUs require them before their loop nest is planned: a static grid, desugared accesses, split copies.

A program reads `get` into registers and writes `swap` out of them, so a copy of a whole array in global memory would
spill. A `get` whose value goes to one `swap` or `addupdate`, with nothing in between, becomes a loop over its first
axis longer than 1; the remainder, and pieces that are still too large, are split further.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array, ArrayLike
from ...core.ir.passes import within
from ...core.ir.program import Eqn, Program, Var
from ...core.ir.types import FAR, RefType
from ...core.primitives.control_flow.while_loop import fori_loop
from ...core.primitives.elementwise.arithmetic import add_p, mul_p
from ...core.primitives.refs.state_primitives import Index, Span, access_shape, addupdate_p, get_p, swap_p
from ...core.tracing.trace import trace_program
from ..kernel.canonicalize import rename
from ..kernel.kernel import Kernel
from ..legalize import KernelPass, KernelPasses
from ..legalize.exponents import fold_exponents
from ..loopnest.plan import Limits
from ..targets.target import Target
from ..transforms.desugar import desugared
from ..transforms.dynamic_grid import static

if TYPE_CHECKING:
    from ...core.support.pytree import PyTree

GPU_LIMITS = Limits(power_of_two=True, adds=lambda dtype: dtype.itemsize >= 4 or str(dtype) == "float16")
LARGEST = 8192  # elements of a copy that are in registers at once
Place = tuple[Index, Sequence[Any]]  # an index and its dynamic entries


def split_copies(kernel: Kernel) -> Kernel:
    """The kernel with large copies within global memory as loops; itself where it has none."""
    body = _split(kernel.body)
    return kernel if body is kernel.body else kernel.replace(body=body)


def _split(program: Program) -> Program:
    used = Counter(a for e in program.eqns for a in (*e.inputs, *e.outputs) if type(a) is Var)
    used.update(a for a in program.outputs if type(a) is Var)
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        writes = eqn.primitive in (swap_p, addupdate_p)
        read = next((e for e in reversed(eqns) if e.effects), None) if writes else None
        if read is not None and _is_copy(read, eqn, used):
            eqns.remove(read)
            eqns += _loop(read, eqn)
        else:
            eqns.append(within(eqn, _split) if _distinct(eqn) else eqn)
    if all(a is b for a, b in zip(eqns, program.eqns, strict=False)) and len(eqns) == len(program.eqns):
        return program
    return program.replace(eqns=eqns)


def _distinct(eqn: Eqn) -> bool:
    """Whether an equation takes Refs, and none twice, so that those within it are different memory."""
    refs = [a for a in eqn.inputs if isinstance(a.type, RefType)]
    return bool(refs) and len(set(refs)) == len(refs)


def _is_copy(read: Eqn, write: Eqn, used: Counter[Var]) -> bool:
    """Whether two accesses are a large copy, and nothing else has their values."""
    if read.primitive is not get_p or write.inputs[1] not in read.outputs:
        return False
    index = write.params["index"]
    whole = not (read.params["masked"] or write.params["masked"] or index.takes or read.params["index"].takes)
    far = all(e.inputs[0].type.space in FAR for e in (read, write)) and read.inputs[0] is not write.inputs[0]
    alone = used[read.outputs[0]] == 2 and all(used[v] == 1 for v in write.outputs)  # as an output and, once, an input
    return whole and far and alone and math.prod(access_shape(index)) > LARGEST


def _loop(read: Eqn, write: Eqn) -> Sequence[Eqn]:
    """The equations that make the copy."""
    n, taken = len(read.inputs), (*read.inputs, write.inputs[0], *write.inputs[2:])

    def copy(*args: Any) -> list[Any]:
        def one(at: Place, to: Place) -> None:
            value = get_p.bind(args[0], *at[1], index=at[0], masked=False)
            write.primitive.bind(args[n], value, *to[1], index=to[0], masked=False)

        _each((read.params["index"], args[1:n]), (write.params["index"], args[n + 1 :]), one)
        return []

    made = rename(trace_program(copy, [a.type for a in taken], "copy"), taken)
    return [e.replace(source=write.source) for e in made.eqns]


def _each(at: Place, to: Place, one: Callable[[Place, Place], None]) -> None:
    """Call `one` for every piece of a copy."""
    shape = access_shape(at[0])
    if math.prod(shape) <= LARGEST:
        one(at, to)
        return
    axis = next(a for a, n in enumerate(shape) if n > 1)
    rows = max(LARGEST // math.prod(shape[axis + 1 :]), 1)
    rows = 1 << rows.bit_length() - 1
    count = shape[axis] // rows

    def iteration(i: Array, carry: PyTree) -> Any:
        _each(_part(at, axis, i * np.int32(rows), rows), _part(to, axis, i * np.int32(rows), rows), one)
        return carry

    fori_loop(0, count, iteration, ())
    if left := shape[axis] - count * rows:
        _each(_part(at, axis, np.int32(count * rows), left), _part(to, axis, np.int32(count * rows), left), one)


def _part(place: Place, axis: int, first: ArrayLike, count: int) -> Place:
    """Positions of an access along an axis of its result: `count` from the one at `first`."""
    index, operands = place
    entries, given, made, spans = [], iter(operands), [], -1
    for entry in index:
        start = next(given) if entry.start is None else np.int32(entry.start)
        spans += type(entry) is Span
        if type(entry) is Span and spans == axis:
            made.append(add_p.bind(start, mul_p.bind(first, np.int32(entry.stride))))
            entries.append(Span(None, count, entry.stride))
        else:
            entries.append(entry)
            made += [start] if entry.start is None else []
    return Index(entries), made


PASSES: KernelPasses = (
    KernelPass("static-grid", "static", lambda kernel, target: static(kernel, "a launch needs")),
    KernelPass("desugar", "desugared", lambda kernel, target: desugared(kernel, atomics=True, in_step=False)),
    KernelPass("split-copies", "split", lambda kernel, target: split_copies(kernel)),
    KernelPass("fold-exponents", "folded", lambda kernel, target: fold_exponents(kernel)),
)


def passes(kernel: Kernel, target: Target) -> tuple[KernelPasses, ...]:
    """The one list of passes of GPU backends."""
    return (PASSES,)
