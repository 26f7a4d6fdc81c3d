"""A `scan` over what is unreduced, or that stacks it, as one that carries it.

XLA keeps a value unreduced where a constraint says so. A loop that carries arrays, cuts slices of them and writes into
them in its body has a value for each of these constraints; what `scan` itself cuts and stacks has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.program import Eqn, Program
from ..primitives.control_flow.scan import bind_scan, cut, scan_p
from ..primitives.movement.dynamic_slice import dynamic_index_in_dim, dynamic_update_slice_in_dim
from ..primitives.movement.shape import expand_dims
from ..tracing.trace import eval_program, trace_program, typeof
from ..transforms.rule_helpers import zeros
from .unreduced_axes import spec_of


def carried(eqn: Eqn) -> Program | None:
    """The Program that does what a scan does; None where nothing that it cuts or stacks is unreduced."""
    if eqn.primitive is not scan_p:
        return None
    how: dict[str, Any] = dict(eqn.params)
    program, num_consts, num_carry = (how.pop(name) for name in ("program", "num_consts", "num_carry"))
    length, n = how["length"], num_consts + num_carry
    types = [a.type for a in eqn.inputs]
    held, cutting, stacking = map(_flags, (types[:num_consts], types[n:], [v.type for v in eqn.outputs[num_carry:]]))
    if not any((*held, *cutting, *stacking)):
        return None
    step = np.int32(-1 if how["reverse"] else 1)
    first = np.int32(length - 1 if how["reverse"] else 0)

    def run(*args: Any) -> list[Any]:
        consts, init, xs = cut(args, num_consts, num_carry)
        (open_consts, consts), (open_xs, xs) = _parted(consts, held), _parted(xs, cutting)
        results: Any = eqn.outputs[num_carry:]
        buffers = [zeros(v.type) for v, s in zip(results, stacking, strict=True) if s]
        counts = len(consts), 1, len(open_consts), len(open_xs), len(buffers), num_carry

        def body(*inner: Any) -> list[Any]:
            consts, (at,), open_consts, open_xs, buffers, carry, cells = cut(inner, *counts)
            items = [dynamic_index_in_dim(x, at, 0, False) for x in open_xs]
            given = *_joined(open_consts, consts, held), *carry, *_joined(items, cells, cutting)
            carry, ys = cut(eval_program(program, *given), num_carry)
            stacked, ys = _parted(ys, stacking)
            written = [dynamic_update_slice_in_dim(b, expand_dims(y, (0,)), at, 0)
                       for b, y in zip(buffers, stacked, strict=True)]  # fmt: skip
            return [at + step, *open_consts, *open_xs, *written, *carry, *ys]

        carry = [first, *open_consts, *open_xs, *buffers, *init]
        cells = [t.without_axis(0) for t, c in zip(types[n:], cutting, strict=True) if not c]
        inner = trace_program(body, [*map(typeof, (*consts, *carry)), *cells], program.name)
        _, _, _, written, carry, ys = cut(bind_scan(inner, consts, carry, xs, **how), *counts[1:])
        return [*carry, *_joined(written, ys, stacking)]

    return trace_program(run, types, program.name)


def _flags(types: Sequence[Any]) -> list[bool]:
    return [bool(spec_of(t).unreduced) for t in types]


def _parted(values: Sequence[Any], flags: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    """The values with a flag, and the others."""
    pairs = list(zip(values, flags, strict=True))
    return [v for v, f in pairs if f], [v for v, f in pairs if not f]


def _joined(flagged: Sequence[Any], others: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """Such values in their order again."""
    found, rest = iter(flagged), iter(others)
    return [next(found) if f else next(rest) for f in flags]
