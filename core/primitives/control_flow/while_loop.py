"""`while_loop` and `fori_loop`.

while(*cond_consts, *body_consts, *carry; cond_program, body_program, cond_nconsts, body_nconsts) -> *carry
cond_program: *cond_consts, *carry -> bool        body_program: *body_consts, *carry -> *carry

`checkpoints`, a further parameter where the caller states it, is for reverse mode (`while_vjp.py`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike
from ...ir.dataflow import Body, flows
from ...ir.passes import primitives_of
from ...ir.primitive import OWN, AxisInfo, Linear, Primitive, Zero
from ...ir.program import Effects, Eqn, Program, Var
from ...ir.types import ArrayType, VaryingType, is_float, is_integer
from ...support import pytree as tree
from ...support.config import current
from ...support.errors import ArgumentTypeError, ControlFlowTypeError, DifferentiationError, TracerBoolError
from ...support.memo import cached
from ...tracing.numpy_interpreter import evaluate
from ...tracing.trace import Tracer, eval_program, shape_of, trace_program, typeof
from ...transforms.batching import batch_flat, batch_program
from ...transforms.jvp import jvp_program
from ...transforms.linearize import Purpose, linearized, purpose
from ...transforms.rule_helpers import instantiate
from ...transforms.structural_primitives import moved
from ..elementwise.comparison import lt_p, select_n_p
from ..elementwise.conversion import convert_element_type
from ..movement.shape import broadcast_in_dim_p
from ..reduction.reduce import reduce_or_p
from ..spmd import collective
from ..spmd.varying_axes import ordered, pmax_invariant_p, pmin_invariant_p, psum_invariant_p
from .checkpointed_sweep import check_checkpoints, reverse_sweep, room_for
from .loop_adjoint import (
    LoopAdjoint,
    check_repeatable,
    counted_up,
    full_carry,
    iterations,
    loop_adjoint,
    silenced,
)
from .scan import CARRY_REMEDY, cut, scan
from .subprograms import (
    check_match,
    chosen,
    close,
    convert,
    flat_arguments,
    immutable,
    keep_inputs,
    known,
    loop_of,
    prune,
    prune_loop,
    recounted,
    reduced,
    settle,
    shifted,
    trace_body,
    unchanged,
    with_output_types,
)

if TYPE_CHECKING:
    from ...support.pytree import PyTree

Flags = tuple[bool, ...]
# What all devices of a mesh take part in.
EXCHANGES = frozenset((*collective.PRIMITIVES, psum_invariant_p, pmax_invariant_p, pmin_invariant_p))


def _typing(*types: Any, body_program: Program, **_: Any) -> list[Any]:
    return body_program.out_types


def _effects(
    *types: Any, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int, **_: Any
) -> Effects:
    return cond_program.effects | shifted(body_program.effects, cond_nconsts)


def bind_while(
    cond: Program, body: Program, cond_consts: Sequence[Any], body_consts: Sequence[Any], init: Sequence[Any],
    **how: Any,
) -> list[Any]:  # fmt: skip
    """Bind Programs that may hold constants; `how` is `checkpoints`, where it is stated."""
    cond, cond_values = close(cond)
    body, body_values = close(body)
    return while_p.bind(
        *cond_values,
        *cond_consts,
        *body_values,
        *body_consts,
        *init,
        cond_program=cond,
        body_program=body,
        cond_nconsts=len(cond_values) + len(cond_consts),
        body_nconsts=len(body_values) + len(body_consts),
        **how,
    )


# ---------------------------------------------------------------------------- derivatives


@cached(1024)
def _jvp_programs(
    cond: Program, body: Program, nonzero: Flags, body_nconsts: int
) -> tuple[Program, Program, Flags]:
    """The condition and body over (consts, carry, tangents of carry), and which of the carry have tangents."""
    consts_nz, carry_nz = nonzero[:body_nconsts], nonzero[body_nconsts:]
    while True:
        derived, present = jvp_program(body, (*consts_nz, *carry_nz), carry_nz)
        if present == carry_nz:
            break
        carry_nz = present
    n = len(body.inputs)
    consts, carry = derived.inputs[:body_nconsts], derived.inputs[body_nconsts:n]
    tangents = derived.inputs[n:]
    consts_t, carry_t = tangents[: sum(consts_nz)], tangents[sum(consts_nz) :]
    body_t = derived.replace(inputs=(*consts, *consts_t, *carry, *carry_t))
    cond_t = cond.replace(inputs=(*cond.inputs, *(Var(v.type) for v in carry_t)))
    return cond_t, body_t, carry_nz


def _pushforward(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    cond_program: Program,
    body_program: Program,
    cond_nconsts: int,
    body_nconsts: int,
    **how: Any,
) -> tuple[list[Any], list[Any]]:
    nonzero = tuple(type(t) is not Zero for t in tangents[cond_nconsts:])
    cond, body, carry_nz = _jvp_programs(cond_program, body_program, nonzero, body_nconsts)
    cond_consts, body_consts, carry = cut(primals, cond_nconsts, body_nconsts)
    _, consts_t, carry_t = cut(tangents, cond_nconsts, body_nconsts)
    given = [t for t in consts_t if type(t) is not Zero]
    outs = bind_while(
        cond, body, cond_consts, [*body_consts, *given], [*carry, *map(instantiate, chosen(carry_t, carry_nz))], **how
    )
    rest = iter(outs[len(carry) :])
    types = body_program.out_types
    return outs[: len(carry)], [next(rest) if nz else Zero(t.tangent()) for t, nz in zip(types, carry_nz, strict=True)]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return _pushforward(primals, tangents, **params)


def _linearize(primals: Sequence[Any], nonzero: Flags, **params: Any) -> Any:
    # The linear map runs the whole loop again with tangents: a while loop stores nothing.
    if (active := _reverse_only(nonzero, **params)) is not None:
        return while_p.bind(*primals, **params), functools.partial(_linear, primals, tuple(nonzero), active, params)
    separate = purpose() is Purpose.SEPARATE
    outs = _known_part(primals, nonzero, **params) if separate else while_p.bind(*primals, **params)
    return outs, lambda *tangents: _pushforward(primals, tangents, **params)[1]


def _reverse_only(
    nonzero: Flags, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int, **_: Any
) -> Flags | None:
    """Which of the carry has tangents, where the body has rules for reverse mode alone; None where it has others."""
    try:
        _jvp_programs(cond_program, body_program, tuple(nonzero[cond_nconsts:]), body_nconsts)
        return None
    except DifferentiationError:
        wanted = tuple(nonzero[cond_nconsts:])
        return loop_adjoint(cond_program, body_program, cond_nconsts, body_nconsts, wanted).active


def _linear(
    primals: Sequence[Any], nonzero: Flags, active: Flags, params: dict[str, Any], *tangents: Any
) -> list[Any]:
    """The tangents of a loop as one operation, which has a transpose and no value."""
    found = iter(while_lin_p.bind(*primals, *map(instantiate, chosen(tangents, nonzero)), nonzero=nonzero,
                                  active=active, **params))  # fmt: skip
    return [next(found) if a else Zero(t.tangent())
            for a, t in zip(active, params["body_program"].out_types, strict=True)]  # fmt: skip


def _known_part(
    primals: Sequence[Any], nonzero: Flags, cond_program: Program, body_program: Program, cond_nconsts: int,
    body_nconsts: int, **how: Any,
) -> list[Any]:  # fmt: skip
    """The loop without what its body does with the operands that are not known."""
    _, consts_nz, _ = cut(nonzero, cond_nconsts, body_nconsts)
    _, _, carry_nz = _jvp_programs(cond_program, body_program, tuple(nonzero[cond_nconsts:]), body_nconsts)
    body = linearized(body_program, (*consts_nz, *carry_nz)).primal
    body = with_output_types(body.replace(outputs=body.outputs[: len(carry_nz)]), body_program.out_types)
    return bind_while(cond_program, body, *cut(primals, cond_nconsts, body_nconsts), **how)


def _transpose(
    cts: Sequence[Any], *args: Any, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int,
    **how: Any,
) -> list[Any]:  # fmt: skip
    wanted = tuple(isinstance(a, Linear) for a in args)
    return _cotangents(cts, [*map(_filled, args)], wanted, cond_program, body_program, cond_nconsts, body_nconsts,
                       **how)  # fmt: skip


def _cotangents(
    cts: Sequence[Any], args: Sequence[Any], wanted: Flags, cond_program: Program, body_program: Program,
    cond_nconsts: int, body_nconsts: int, **how: Any,
) -> list[Any]:  # fmt: skip
    """The cotangents of the wanted operands of a loop, None of the others."""
    check_repeatable(cond_program, body_program)
    given = tuple(type(ct) is not Zero for ct in cts)
    if cond_program.out_types[0].vary:
        back = loop_adjoint(cond_program, body_program, cond_nconsts, body_nconsts, wanted[cond_nconsts:]).back
        if not primitives_of(back).isdisjoint(EXCHANGES):
            cond_program, body_program = _in_step(cond_program, body_program, cond_nconsts)
            found = _cotangents(cts, [*args[:cond_nconsts], *args], ((False,) * cond_nconsts) + wanted, cond_program,
                                body_program, cond_nconsts, cond_nconsts + body_nconsts, **how)  # fmt: skip
            return found[cond_nconsts:]
    found = iter(while_vjp_p.bind(
        *args, *chosen(cts, given), cond_program=cond_program, body_program=body_program,
        cond_nconsts=cond_nconsts, body_nconsts=body_nconsts, given=given, wanted=wanted[cond_nconsts:], **how,
    ))  # fmt: skip
    return [next(found) if w else None for w in wanted]


def _in_step(cond: Program, body: Program, cond_nconsts: int) -> tuple[Program, Program]:
    """A loop whose number of iterations differs between devices, with the largest number on all of them.

    A sum over devices in an iteration needs all of them. Those that are done keep their values.
    """
    axes = ordered(cond.out_types[0].vary)

    def any_left(*args: Any) -> list[Any]:
        (going,) = eval_program(cond, *args)
        return [lt_p.bind(np.int32(0), pmax_invariant_p.bind(convert_element_type(going, np.int32), axes=axes))]

    def step(*args: Any) -> list[Any]:
        cond_consts, rest = cut(args, cond_nconsts)
        carry = rest[len(rest) - len(body.outputs) :]
        (going,) = eval_program(cond, *cond_consts, *carry)
        new = eval_program(body, *rest)
        return [x if x is y else select_n_p.bind(going, x, y) for x, y in zip(carry, new, strict=True)]

    types = [*cond.in_types[:cond_nconsts], *body.in_types]
    stepped = with_output_types(trace_program(step, types, body.name), body.out_types)
    return trace_program(any_left, cond.in_types, cond.name), stepped


def _filled(x: ArrayLike | Linear) -> Any:
    """An operand; zeros for one that the loop is linear in, whose value nothing reads."""
    return instantiate(Zero(x.type)) if isinstance(x, Linear) else x


# ---------------------------------------------------------------------------- batching and dead code


@cached(1024)
def _batched(
    cond: Program, body: Program, axis: AxisInfo, flags: Flags, cond_nconsts: int, body_nconsts: int
) -> tuple[Program, Program, Flags, bool]:
    """Batched condition and body, which of the carry is batched, and whether the condition is."""
    cond_b, body_b, carry_b = cut(flags, cond_nconsts, body_nconsts)

    def dims(part: Sequence[bool]) -> tuple[int | None, ...]:
        return tuple(0 if b else None for b in part)

    while True:
        new_body, out = batch_program(body, axis, dims([*body_b, *carry_b]), tuple(carry_b))
        new_cond, (pred,) = batch_program(cond, axis, dims([*cond_b, *carry_b]))
        grown = [d is not None or (pred is not None and x is not y)  # elements that are done keep what may change
                 for d, x, y in zip(out, body.inputs[body_nconsts:], body.outputs, strict=True)]  # fmt: skip
        if grown == carry_b:
            return new_cond, new_body, tuple(carry_b), pred is not None
        carry_b = grown


@cached(1024)
def _masked(cond: Program, body: Program, cond_nconsts: int, body_nconsts: int) -> tuple[Program, Program]:
    """Run while any element goes on; the elements that are done keep their values."""

    def any_left(*args: Any) -> list[Any]:
        return [reduce_or_p.bind(*eval_program(cond, *args), axes=(0,))]

    def step(*args: Any) -> list[Any]:
        cond_consts, body_consts, carry = cut(args, cond_nconsts, body_nconsts)
        (going,) = eval_program(cond, *cond_consts, *carry)
        kept = []
        for old, new in zip(carry, eval_program(body, *body_consts, *carry), strict=True):
            if new is old:
                kept.append(old)
                continue
            shape = shape_of(old)
            which = going if len(shape) == 1 else broadcast_in_dim_p.bind(going, shape=shape, broadcast_dimensions=(0,))
            kept.append(select_n_p.bind(which, old, new))
        return kept

    carry_types = body.in_types[body_nconsts:]
    types = [*cond.in_types[:cond_nconsts], *body.in_types]
    stepped = with_output_types(trace_program(step, types, body.name), carry_types)
    return trace_program(any_left, cond.in_types, cond.name), stepped


def _batch(
    axis: AxisInfo,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    cond_program: Program,
    body_program: Program,
    cond_nconsts: int,
    body_nconsts: int,
    **how: Any,
) -> Any:
    flags = tuple(d is not None for d in dims)
    cond, body, carry_b, masked = _batched(cond_program, body_program, axis, flags, cond_nconsts, body_nconsts)
    operands = _moved(axis, args, dims, (*flags[: cond_nconsts + body_nconsts], *carry_b))
    consts, fixed, carry = cut(operands, cond_nconsts, body_nconsts)
    outs = bind_while(*_masked_parts(cond, body, masked, consts, fixed, carry), **how)
    return outs, [0 if b else None for b in carry_b]


def _moved(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], flags: Sequence[bool]) -> list[Any]:
    return [moved(axis, x, d, 0) if f else x for x, d, f in zip(args, dims, flags, strict=True)]


def _masked_parts(
    cond: Program, body: Program, masked: bool, cond_consts: list[Any], body_consts: list[Any], carry: list[Any]
) -> tuple[Program, Program, list[Any], list[Any], list[Any]]:
    """What a batched loop is bound with; where the condition is batched too, elements that are done keep their values.

    The constants of the condition are then the first ones of the body too.
    """
    if masked:
        values, cond, body = _lift(cond, body, cond_consts)
        cond, body = _masked(cond, body, len(values), len(body_consts))
        cond_consts, body_consts = values, [*values, *body_consts]
    return cond, body, cond_consts, body_consts, carry


def _lift(cond: Program, body: Program, cond_consts: Sequence[Any]) -> tuple[list[Any], Program, Program]:
    """The condition without constants, which the masked body is going to evaluate too."""
    cond, values = close(cond)
    return [*values, *cond_consts], cond, body


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn | None:
    params = eqn.params
    cond, body = params["cond_program"], params["body_program"]
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    _, cond_live = prune(cond, [True])
    pruned, live, carry = prune_loop(body, [a or b for a, b in zip(used, cond_live[nc:], strict=True)], nb)
    cond_kept, body_kept = [*cond_live[:nc], *carry], [*live[:nb], *carry]
    inputs = [*chosen(eqn.inputs[:nc], cond_live[:nc]), *chosen(eqn.inputs[nc:], body_kept)]
    return reduced(
        eqn,
        inputs,
        chosen(eqn.outputs, carry),
        cond_program=keep_inputs(cond, cond_kept),
        body_program=keep_inputs(pruned, body_kept),
        cond_nconsts=sum(cond_live[:nc]),
        body_nconsts=sum(live[:nb]),
    )


def _numpy(
    *args: Any, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int, **_: Any
) -> list[Any]:
    cond_consts, body_consts, carry = cut(args, cond_nconsts, body_nconsts)
    while evaluate(cond_program, *cond_consts, *carry)[0]:
        carry = evaluate(body_program, *body_consts, *carry)
    return carry


def _bodies(eqn: Eqn) -> list[Body]:
    ins, n, m = eqn.inputs, eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test, body = eqn.params["cond_program"], eqn.params["body_program"]
    given = [*flows(body.inputs[m:], body.outputs), *flows(eqn.outputs, body.outputs)]
    return [Body(test, flows((*ins[:n], *ins[n + m :]), test.inputs), [], None),
            Body(body, flows(ins[n:], body.inputs), given, None)]  # fmt: skip


while_p: Primitive = Primitive(
    "while",
    _typing,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    dce=_dce,
    effects=_effects,
    bodies=_bodies,
    numpy=_numpy,
    recounted=recounted("cond_nconsts", "body_nconsts"), multiple=True, varies=OWN,
)

# ---------------------------------------------------------------------------- reverse mode


def _vjp_typing(*types: Any, body_program: Program, wanted: Flags, **_: Any) -> list[Any]:
    return [t.cotangent() for t in chosen(body_program.in_types, wanted)]


def _vjp_effects(*types: Any, cond_program: Program, body_program: Program, **_: Any) -> Effects:
    return frozenset(e for e in cond_program.effects | body_program.effects if e.kind == "axis")


def _vjp_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, cond_program: Program, body_program: Program,
    cond_nconsts: int, body_nconsts: int, given: Flags, wanted: Flags, **how: Any,
) -> Any:  # fmt: skip
    """The reverse sweep of the loop that carries tangents too.

    Its cotangents of tangents are those of this loop's primals, and its cotangents of primals their tangents.
    """
    n = cond_nconsts + len(wanted)
    nonzero = tuple(w or type(t) is not Zero for w, t in zip(wanted, tangents[cond_nconsts:n], strict=True))
    cond, body, carry_nz = _jvp_programs(cond_program, body_program, nonzero, body_nconsts)
    cond_consts, body_consts, carry, cts = cut(primals, cond_nconsts, body_nconsts, len(given))
    _, consts_t, carry_t, cts_t = cut(tangents, cond_nconsts, body_nconsts, len(given))
    consts_nz = nonzero[:body_nconsts]
    first = [None if type(t) is Zero else t for t in _placed(cts_t, given, None)]
    second = chosen(_placed(cts, given, None), carry_nz)
    consts_w, carry_w = wanted[:body_nconsts], wanted[body_nconsts:]
    groups = (consts_w, chosen(consts_w, consts_nz), carry_w, chosen(carry_w, carry_nz))
    outs = while_vjp_p.bind(
        *cond_consts, *body_consts, *map(instantiate, chosen(consts_t, consts_nz)),
        *carry, *map(instantiate, chosen(carry_t, carry_nz)), *(ct for ct in (*first, *second) if ct is not None),
        cond_program=cond, body_program=body, cond_nconsts=cond_nconsts, body_nconsts=body_nconsts + sum(consts_nz),
        given=tuple(ct is not None for ct in (*first, *second)), wanted=tuple(w for g in groups for w in g), **how,
    )  # fmt: skip
    found_t, found, carry_found_t, carry_found = cut(outs, *map(sum, groups[:3]))
    return [*found, *carry_found], [*found_t, *carry_found_t]


def _placed(values: Sequence[Any], flags: Sequence[bool], rest: bool | None) -> list[Any]:
    """Values where flags are set, and `rest` elsewhere."""
    given = iter(values)
    return [next(given) if f else rest for f in flags]


def _vjp_linearize(primals: Sequence[Any], nonzero: Flags, **params: Any) -> Any:
    outs = while_vjp_p.bind(*primals, **params)
    return outs, lambda *tangents: _vjp_jvp(primals, tangents, **params)[1]


def _vjp_transpose(cts: Sequence[Any], *args: Any, given: Flags, wanted: Flags, **params: Any) -> list[Any]:
    """Of what is linear in cotangents: the loop's tangents. In operands: the derivative along `cts` is symmetric."""
    start, n = params["cond_nconsts"], params["cond_nconsts"] + len(wanted)
    linear, operands = [isinstance(a, Linear) for a in args], [_filled(a) for a in args]
    zeros = [Zero(typeof(x).tangent()) for x in operands]
    along = [z if ct is None or type(ct) is Zero else ct
             for z, ct in zip(zeros[start:n], _placed(cts, wanted, None), strict=True)]  # fmt: skip
    results: list[Any] = [None] * len(args)
    if any(linear[n:]):
        _, pushed = _pushforward(operands[:n], [*zeros[:start], *along], **params)
        results[n:] = [t if li else None for t, li in zip(chosen(pushed, given), linear[n:], strict=True)]
    of, known = tuple(linear[start:n]), [not li for li in linear[n:]]
    if any(of) and any(known):
        directions = [z if li else t for z, t, li in zip(zeros[start:n], along, of, strict=True)]
        found = iter(_vjp_jvp(
            [*operands[:n], *chosen(operands[n:], known)], [*zeros[:start], *directions, *chosen(zeros[n:], known)],
            given=tuple(_placed(known, given, False)), wanted=of, **params)[1])  # fmt: skip
        results[start:n] = [next(found) if li else None for li in of]
    return results


def _vjp_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, given: Flags, wanted: Flags,
               **params: Any) -> Any:  # fmt: skip
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    n = nc + len(wanted)
    if all(d is None for d in dims[:n]):  # states are the same for each element
        expanded = functools.partial(_vjp_expand, given=given, wanted=wanted, **params)
        return batch_flat(expanded, axis, args, dims)
    flags = tuple(d is not None or w for d, w in zip(dims[:n], (*(False,) * nc, *wanted), strict=True))
    cond, body, carry_b, masked = _batched(params["cond_program"], params["body_program"], axis, flags, nc, nb)
    operands = _moved(axis, args[:n], dims[:n], (*flags[: nc + nb], *carry_b))
    cond_consts, body_consts, carry = cut(operands, nc, nb)
    cond, body, cond_consts, body_consts, carry = _masked_parts(cond, body, masked, cond_consts, body_consts, carry)
    cond, cond_values = close(cond)
    body, body_values = close(body)
    more = len(body_values) + len(body_consts) - nb
    cts = _placed(_moved(axis, args[n:], dims[n:], (True,) * len(args[n:])), given, None)
    still = tuple(g and b for g, b in zip(given, carry_b, strict=True))  # others depend on nothing that is wanted
    outs = while_vjp_p.bind(
        *cond_values, *cond_consts, *body_values, *body_consts, *carry, *chosen(cts, still),
        **params | {"cond_program": cond, "body_program": body, "cond_nconsts": len(cond_values) + len(cond_consts),
                    "body_nconsts": len(body_values) + len(body_consts), "given": still,
                    "wanted": (*(False,) * more, *wanted)})  # fmt: skip
    return outs, [0] * len(outs)


def _vjp_dce(used: Sequence[bool], eqn: Eqn) -> Eqn | None:
    if not any(used):
        return None
    wanted = tuple(bool(u) for u in _placed(used, eqn.params["wanted"], False))
    return reduced(eqn, eqn.inputs, chosen(eqn.outputs, used), wanted=wanted)


def _vjp_recounted(params: dict[str, Any], widths: Sequence[int]) -> dict[str, Any]:
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    n = nc + len(params["wanted"])

    def spread(flags: Sequence[bool], counts: Sequence[int]) -> Flags:
        return tuple(f for f, width in zip(flags, counts, strict=True) for _ in range(width))

    return params | {"cond_nconsts": sum(widths[:nc]), "body_nconsts": sum(widths[nc : nc + nb]),
                     "wanted": spread(params["wanted"], widths[nc:n]),
                     "given": spread(params["given"], widths[nc + nb : n])}  # fmt: skip


def _vjp_start(
    adjoint: LoopAdjoint, cts: Sequence[Any], given: Flags, wanted: Flags, body: Program, nb: int
) -> list[Any]:
    """The cotangents that the sweep starts with: of what is carried, and zeros for those of the constants."""
    places = _placed(cts, given, None)
    carried = [Zero(t.cotangent()) if ct is None else ct for ct, t in zip(places, body.in_types[nb:], strict=True)]
    sums = [Zero(t.cotangent()) for t in chosen(body.in_types[:nb], wanted[:nb])]
    return [instantiate(ct) for ct in (*chosen(carried, adjoint.active), *sums)]


def _vjp_expand(
    *args: Any, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int, given: Flags,
    wanted: Flags, checkpoints: int | None = None,
) -> list[Any]:  # fmt: skip
    adjoint = loop_adjoint(cond_program, body_program, cond_nconsts, body_nconsts, wanted)
    cond_consts, body_consts, init, cts = cut(args, cond_nconsts, body_nconsts, len(given))
    start = _vjp_start(adjoint, cts, given, wanted, body_program, body_nconsts)

    def going(state: Sequence[Any]) -> Any:
        return eval_program(silenced(cond_program), *cond_consts, *full_carry(init, adjoint.state, state))[0]

    def advance(state: Sequence[Any]) -> list[Any]:
        return eval_program(adjoint.step, *body_consts, *full_carry(init, adjoint.state, state))

    def back(carry: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return eval_program(adjoint.back, *body_consts, *carry, *cts)

    state = tuple(chosen(init, adjoint.state))
    if adjoint.counted:
        found = _counted_sweep(adjoint, going, advance, back, init, state, start)
    else:
        found = reverse_sweep(while_loop, going, advance, lambda s, c: back(full_carry(init, adjoint.state, s), c),
                              state, start, room_for(checkpoints))  # fmt: skip
    carried, sums = cut(found, sum(adjoint.active))
    places = _placed(carried, adjoint.active, None)
    return [*sums, *chosen(places, wanted[body_nconsts:])]


def _counted_sweep(
    adjoint: LoopAdjoint, going: Callable[..., Any], advance: Callable[..., Any], back: Callable[..., Any],
    init: Sequence[Any], state: PyTree, start: Sequence[Any],
) -> Sequence[Any]:  # fmt: skip
    """The sweep of a loop whose iterations backwards read only counters: nothing is kept, and nothing run again."""
    one = np.int32(1)
    if adjoint.bounds is not None:
        number = iterations(*(init[k] for k in adjoint.bounds))
    else:
        number, _ = while_loop(lambda c: going(c[1]), lambda c: (c[0] + one, tuple(advance(c[1]))), (one - one, state))

    def carry_at(at: Array) -> list[Any]:
        return [counted_up(x, at, step) if (step := adjoint.counters.get(k)) else x for k, x in enumerate(init)]

    def turn(c: Sequence[Any]) -> Any:
        return c[0] - one, tuple(back(carry_at(c[0] - one), c[1]))

    return while_loop(lambda c: c[0] > np.int32(0), turn, (number, tuple(start)))[1]


def _vjp_numpy(*args: Any, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int,
               given: Flags, wanted: Flags, **_: Any) -> list[Any]:  # fmt: skip
    adjoint = loop_adjoint(cond_program, body_program, cond_nconsts, body_nconsts, wanted)
    cond_consts, body_consts, carry, cts = cut(args, cond_nconsts, body_nconsts, len(given))
    found = _vjp_start(adjoint, cts, given, wanted, body_program, body_nconsts)
    states = []
    while evaluate(cond_program, *cond_consts, *carry)[0]:
        states.append(carry)
        carry = evaluate(body_program, *body_consts, *carry)
    for carry in reversed(states):
        found = evaluate(adjoint.back, *body_consts, *carry, *found)
    carried, sums = cut(found, sum(adjoint.active))
    return [*sums, *chosen(_placed(carried, adjoint.active, None), wanted[body_nconsts:])]


while_vjp_p: Primitive = Primitive(
    "while_vjp",
    _vjp_typing,
    jvp=_vjp_jvp,
    linearize=_vjp_linearize,
    transpose=_vjp_transpose,
    batch=_vjp_batch,
    dce=_vjp_dce,
    effects=_vjp_effects,
    numpy=_vjp_numpy,
    expand=_vjp_expand,
    recounted=_vjp_recounted, multiple=True, varies=OWN,
)


# ---------------------------------------------------------------------------- tangents in reverse mode alone


def _lin_typing(*types: Any, body_program: Program, active: Flags, **_: Any) -> list[Any]:
    return [t.tangent() for t in chosen(body_program.out_types, active)]


def _lin_transpose(cts: Sequence[Any], *args: Any, nonzero: Flags, active: Flags, **params: Any) -> list[Any]:
    n = len(nonzero)
    types = params["body_program"].out_types
    given = iter(cts)
    carried = [next(given) if a else Zero(t.cotangent()) for a, t in zip(active, types, strict=True)]
    found = _cotangents(carried, args[:n], nonzero, **params)
    return [*(None for _ in range(n)), *chosen(found, nonzero)]


def _lin_forward(*args: Any, **params: Any) -> Any:
    raise DifferentiationError(
        "forward-mode differentiation (jvp, jacfwd, linearize) of a loop whose body calls a `custom_vjp` function",
        "use reverse mode (grad, vjp, jacrev), or give the function a `custom_jvp` rule",
    )


while_lin_p: Primitive = Primitive(
    "while_lin", _lin_typing, jvp=_lin_forward, transpose=_lin_transpose, numpy=_lin_forward, expand=_lin_forward,
    multiple=True, varies=OWN,
)  # fmt: skip
PRIMITIVES = (while_p, while_vjp_p, while_lin_p)


# ---------------------------------------------------------------------------- functions


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: PyTree, *, checkpoints: int | None = None
) -> Any:
    """Apply `body_fun` to a value for as long as `cond_fun` of it is true.

    The value is a pytree that keeps its structure, shapes and dtypes, else `ControlFlowTypeError` names the
    leaf. Under `vmap` the loop runs until every element is done. Reverse mode keeps at most `checkpoints` values (64
    unless stated; an integer from 4, else `ArgumentError`) and recomputes those in between.

    >>> from tilewright import lax
    >>> print(lax.while_loop(lambda x: x < 100.0, lambda x: 2.0 * x, 3.0))
    192.0
    """
    if not callable(cond_fun) or not callable(body_fun):
        raise ArgumentTypeError(f"while_loop takes two functions, got {cond_fun!r} and {body_fun!r}", "pass callables")
    how = {} if check_checkpoints(checkpoints) is None else {"checkpoints": check_checkpoints(checkpoints)}
    if current().disable_jit:
        init_val = immutable(init_val, True)
        with contextlib.suppress(TracerBoolError):  # within `vmap` no one truth value says whether to go on:
            while cond_fun(init_val):  # what is left of the loop is traced
                init_val = immutable(body_fun(init_val), True)
            return init_val
    leaves, structure, types = flat_arguments(init_val)
    in_tree = tree.treedef_tuple([structure])
    found: dict[str, Any] = {}

    def trace(types: list[Any]) -> tuple[Program, list[Any]]:
        program, found["tree"] = trace_body(body_fun, in_tree, types, "while_loop")
        return program, program.out_types

    body, types = settle(trace, types)
    check_match(
        f"the carry of {loop_of(body_fun, 'while_loop')} on entry and as returned",
        CARRY_REMEDY,
        (structure, types),
        (found["tree"], body.out_types),
        ("on entry", "as returned"),
        "carry",
    )
    cond, cond_tree = trace_body(cond_fun, in_tree, types, "while_loop")
    vary = cond.out_types[0].vary if cond.out_types else frozenset()
    if any(not vary <= t.vary for t in types):  # devices take other numbers of turns: all that they carry differs
        body, types = settle(trace, [VaryingType(t, t.vary | vary) for t in types])
        cond, cond_tree = trace_body(cond_fun, in_tree, types, "while_loop")
    shown = [t.plain.show() for t in cond.out_types]
    if cond_tree.num_nodes != 1 or shown != ["bool[]"]:
        raise ControlFlowTypeError(
            f"the condition of while_loop returns {', '.join(shown) or 'nothing'}, not bool[]",
            "return one boolean scalar, such as `x < n`",
        )
    leaves = [convert(x, t) for x, t in zip(leaves, types, strict=True)]
    body = with_output_types(body, types)
    outs = bind_while(cond, body, [], [], leaves, **how)
    return structure.unflatten(unchanged(leaves, outs, body.inputs, body.outputs))


def _bound(x: ArrayLike) -> int | None:
    if getattr(x, "symbolic", False):
        return x
    value = known(x)
    if value is None or isinstance(value, Tracer) or np.asarray(value) != int(value):
        return None
    return int(value)


def _counter_dtype(lower: Any, upper: ArrayLike) -> ArrayType:
    types = [typeof(lower), typeof(upper)]
    for t in types:
        if t.shape != () or not (is_integer(t.dtype) or is_float(t.dtype)):
            raise ArgumentTypeError(f"the bounds of fori_loop are integer scalars, got {t.show()}", "pass integers")
    weak = all(t.weak_type for t in types)
    dtypes = {t.dtype for t in types if weak or not t.weak_type}
    if len(dtypes) > 1 or is_float(types[0].dtype) != is_float(types[1].dtype):
        raise ArgumentTypeError(
            f"the bounds of fori_loop have dtypes {sorted(str(t.dtype) for t in types)}", "give them one dtype"
        )
    return ArrayType((), dtypes.pop(), weak)


def fori_loop(
    lower: Any, upper: ArrayLike, body_fun: Callable[[Any, Any], Any], init_val: PyTree, *,
    unroll: int | bool | None = None, checkpoints: int | None = None,
) -> Any:  # fmt: skip
    """Apply `value = body_fun(i, value)` for `i` from `lower` up to, but without, `upper`: integers, or two floats.

    With bounds known while tracing it is a `scan`; else a `while_loop`, which `checkpoints` is for. Errors as theirs.

    >>> from tilewright import lax
    >>> print(lax.fori_loop(0, 5, lambda i, x: x + i, 0))
    10
    """
    if not callable(body_fun):
        raise ArgumentTypeError(f"fori_loop takes a function, got {body_fun!r}", "pass body_fun(i, value)")
    check_checkpoints(checkpoints)
    counter = _counter_dtype(lower, upper)
    first, last = _bound(lower), _bound(upper)
    if first is not None and last is not None:
        if current().disable_jit:
            init_val = immutable(init_val, True)
            for i in range(first, last):
                init_val = immutable(body_fun(convert(i, counter), init_val), True)
            return init_val

        def turn(carry: PyTree, _: object) -> tuple[Any, None]:
            i, value = carry
            return (i + 1, body_fun(i, value)), None

        turn.traces_for, turn.loop = (body_fun, "fori"), "fori_loop"
        start = convert(first, counter)
        carry, _ = scan(
            turn, (start, init_val), None, length=max(last - first, 0), unroll=1 if unroll is None else unroll
        )
        return carry[1]
    if unroll is not None and unroll is not False and unroll != 1:
        raise ArgumentTypeError(f"fori_loop with unroll={unroll} and bounds that are traced", "make the bounds static")

    def going(carry: PyTree) -> Any:
        return lt_p.bind(carry[0], carry[1])

    def step(carry: PyTree) -> Any:
        i, end, value = carry
        return i + 1, end, body_fun(i, value)

    step.traces_for, step.loop = (body_fun, "fori while"), "fori_loop"
    going.traces_for = (_typing, "fori")
    bounds = convert(lower, counter), convert(upper, counter)
    return while_loop(going, step, (*bounds, init_val), checkpoints=checkpoints)[2]


__all__ = [
    "fori_loop", "while_loop", "while_p", "while_vjp_p",
]  # fmt: skip
