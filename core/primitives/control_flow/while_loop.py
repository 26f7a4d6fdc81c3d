"""`while_loop` and `fori_loop`.

while(*cond_consts, *body_consts, *carry; cond_program, body_program, cond_nconsts, body_nconsts) -> *carry
cond_program: *cond_consts, *carry -> bool        body_program: *body_consts, *carry -> *carry
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.primitive import OWN, AxisInfo, Primitive, Zero
from ...ir.program import Effects, Eqn, Program, Var
from ...ir.types import ArrayType, VaryingType, is_float, is_integer
from ...support import pytree as tree
from ...support.config import current
from ...support.errors import ArgumentTypeError, ControlFlowTypeError, DifferentiationError, TracerBoolError
from ...support.memo import cached
from ...tracing.numpy_interpreter import evaluate
from ...tracing.trace import Tracer, eval_program, shape_of, trace_program, typeof
from ...transforms.batching import batch_program
from ...transforms.jvp import jvp_program
from ...transforms.linearize import Purpose, linearized, purpose
from ...transforms.rule_helpers import instantiate
from ...transforms.structural_primitives import moved
from ..elementwise.comparison import lt_p, select_n_p
from ..movement.shape import broadcast_in_dim_p
from ..reduction.reduce import reduce_or_p
from .scan import CARRY_REMEDY, cut, scan
from .subprograms import (
    check_match,
    chosen,
    close,
    convert,
    flat_arguments,
    keep_inputs,
    known,
    loop_of,
    prune,
    recounted,
    reduced,
    settle,
    shifted,
    trace_body,
    unchanged,
    with_output_types,
)

Flags = tuple[bool, ...]


def _typing(*types: Any, body_program: Program, **_: Any) -> list[Any]:
    return body_program.out_types


def _effects(
    *types: Any, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int
) -> Effects:
    return cond_program.effects | shifted(body_program.effects, cond_nconsts)


def bind_while(
    cond: Program, body: Program, cond_consts: Sequence[Any], body_consts: Sequence[Any], init: Sequence[Any]
) -> list[Any]:
    """Bind Programs that may hold constants."""
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
) -> tuple[list[Any], list[Any]]:
    nonzero = tuple(type(t) is not Zero for t in tangents[cond_nconsts:])
    cond, body, carry_nz = _jvp_programs(cond_program, body_program, nonzero, body_nconsts)
    cond_consts, body_consts, carry = cut(primals, cond_nconsts, body_nconsts)
    _, consts_t, carry_t = cut(tangents, cond_nconsts, body_nconsts)
    given = [t for t in consts_t if type(t) is not Zero]
    outs = bind_while(
        cond, body, cond_consts, [*body_consts, *given], [*carry, *map(instantiate, chosen(carry_t, carry_nz))]
    )
    rest = iter(outs[len(carry) :])
    types = body_program.out_types
    return outs[: len(carry)], [next(rest) if nz else Zero(t.tangent()) for t, nz in zip(types, carry_nz, strict=True)]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return _pushforward(primals, tangents, **params)


def _linearize(primals: Sequence[Any], nonzero: Flags, **params: Any) -> Any:
    # The linear map runs the whole loop again with tangents: a while loop stores nothing.
    separate = purpose() is Purpose.SEPARATE
    outs = _known_part(primals, nonzero, **params) if separate else while_p.bind(*primals, **params)
    return outs, lambda *tangents: _pushforward(primals, tangents, **params)[1]


def _known_part(
    primals: Sequence[Any], nonzero: Flags, cond_program: Program, body_program: Program, cond_nconsts: int,
    body_nconsts: int,
) -> list[Any]:  # fmt: skip
    """The loop without what its body does with the operands that are not known."""
    _, consts_nz, _ = cut(nonzero, cond_nconsts, body_nconsts)
    _, _, carry_nz = _jvp_programs(cond_program, body_program, tuple(nonzero[cond_nconsts:]), body_nconsts)
    body = linearized(body_program, (*consts_nz, *carry_nz)).primal
    body = with_output_types(body.replace(outputs=body.outputs[: len(carry_nz)]), body_program.out_types)
    return bind_while(cond_program, body, *cut(primals, cond_nconsts, body_nconsts))


def _transpose(cts: Any, *args: Any, **params: Any) -> Any:
    raise DifferentiationError(
        "reverse-mode differentiation of `while_loop`, or of `fori_loop` with bounds that are traced: the number of "
        "steps is not known, so their values cannot be stored",
        "use `scan`, or `fori_loop` with static bounds; or give the function a `custom_vjp`; or use forward mode",
    )


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
) -> Any:
    flags = tuple(d is not None for d in dims)
    cond, body, carry_b, masked = _batched(cond_program, body_program, axis, flags, cond_nconsts, body_nconsts)
    consts = cond_nconsts + body_nconsts
    flags = (*flags[:consts], *carry_b)
    operands = [moved(axis, x, d, 0) if f else x for x, d, f in zip(args, dims, flags, strict=True)]
    cond_consts, body_consts, carry = cut(operands, cond_nconsts, body_nconsts)
    if masked:
        values, cond, body = _lift(cond, body, cond_consts)
        cond, body = _masked(cond, body, len(values), body_nconsts)
        cond_consts, body_consts = values, [*values, *body_consts]
    outs = bind_while(cond, body, cond_consts, body_consts, carry)
    return outs, [0 if b else None for b in carry_b]


def _lift(cond: Program, body: Program, cond_consts: Sequence[Any]) -> tuple[list[Any], Program, Program]:
    """The condition without constants, which the masked body is going to evaluate too."""
    cond, values = close(cond)
    return [*values, *cond_consts], cond, body


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn | None:
    params = eqn.params
    cond, body = params["cond_program"], params["body_program"]
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    _, cond_live = prune(cond, [True])
    carry = [a or b for a, b in zip(used, cond_live[nc:], strict=True)]
    while True:
        pruned, live = prune(body, carry)
        grown = [a or b for a, b in zip(carry, live[nb:], strict=True)]
        if grown == carry:
            break
        carry = grown
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


def _numpy(*args: Any, cond_program: Program, body_program: Program, cond_nconsts: int, body_nconsts: int) -> list[Any]:
    cond_consts, body_consts, carry = cut(args, cond_nconsts, body_nconsts)
    while evaluate(cond_program, *cond_consts, *carry)[0]:
        carry = evaluate(body_program, *body_consts, *carry)
    return carry


while_p = Primitive(
    "while",
    _typing,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    dce=_dce,
    effects=_effects,
    numpy=_numpy,
    recounted=recounted("cond_nconsts", "body_nconsts"), multiple=True, varies=OWN,
)
PRIMITIVES = (while_p,)


# ---------------------------------------------------------------------------- functions


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Apply `body_fun` to a value for as long as `cond_fun` of it is true.

    The value is a pytree that keeps its structure, shapes and dtypes, else `ControlFlowTypeError` names the
    leaf. Under `vmap` the loop runs until every element is done. Forward mode only.

    >>> from tilewright import lax
    >>> print(lax.while_loop(lambda x: x < 100.0, lambda x: 2.0 * x, 3.0))
    192.0
    """
    if not callable(cond_fun) or not callable(body_fun):
        raise ArgumentTypeError(f"while_loop takes two functions, got {cond_fun!r} and {body_fun!r}", "pass callables")
    if current().disable_jit:
        value = init_val
        with contextlib.suppress(TracerBoolError):  # within `vmap` no one truth value says whether to go on
            while cond_fun(value):
                value = body_fun(value)
            return value
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
    outs = bind_while(cond, body, [], [], leaves)
    return structure.unflatten(unchanged(leaves, outs, body.inputs, body.outputs))


def _bound(x: Any) -> int | None:
    if getattr(x, "symbolic", False):
        return x
    value = known(x)
    if value is None or isinstance(value, Tracer) or value != int(value):
        return None
    return int(value)


def _counter_dtype(lower: Any, upper: Any) -> ArrayType:
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
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: int | bool | None = None
) -> Any:
    """Apply `value = body_fun(i, value)` for `i` from `lower` up to, but without, `upper`: integers, or two floats.

    With bounds known while tracing it is a `scan` and has reverse mode; else a `while_loop`. Errors as theirs.

    >>> from tilewright import lax
    >>> print(lax.fori_loop(0, 5, lambda i, x: x + i, 0))
    10
    """
    if not callable(body_fun):
        raise ArgumentTypeError(f"fori_loop takes a function, got {body_fun!r}", "pass body_fun(i, value)")
    counter = _counter_dtype(lower, upper)
    first, last = _bound(lower), _bound(upper)
    if first is not None and last is not None:
        if current().disable_jit:
            for i in range(first, last):
                init_val = body_fun(np.asarray(i, counter.dtype), init_val)
            return init_val

        def turn(carry: Any, _: Any) -> tuple[Any, None]:
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

    def going(carry: Any) -> Any:
        return lt_p.bind(carry[0], carry[1])

    def step(carry: Any) -> Any:
        i, end, value = carry
        return i + 1, end, body_fun(i, value)

    step.traces_for, step.loop = (body_fun, "fori while"), "fori_loop"
    going.traces_for = (_typing, "fori")
    return while_loop(going, step, (convert(lower, counter), convert(upper, counter), init_val))[2]


__all__ = [
    "fori_loop", "while_loop", "while_p",
]  # fmt: skip
