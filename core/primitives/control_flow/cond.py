"""Branches: `cond` and `switch`, one primitive that runs one of several Programs.

cond(index, *operands; branches) -> outputs of branches[index]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.dataflow import Body, flows
from ...ir.extension_types import is_opaque
from ...ir.passes import substitute
from ...ir.primitive import OWN, AxisInfo, Linear, Primitive, Zero
from ...ir.program import Effects, Eqn, Program, Var
from ...ir.types import INT32, ArrayType, VaryingType, is_bool, is_inexact, is_integer, is_key
from ...support.config import current
from ...support.errors import ArgumentError, ArgumentTypeError
from ...support.memo import cached
from ...tracing.numpy_interpreter import evaluate
from ...tracing.trace import eval_program, shape_of, trace_program, typeof
from ...transforms.batching import batch_program
from ...transforms.jvp import jvp_program
from ...transforms.linearize import Purpose, linearized, purpose
from ...transforms.rule_helpers import zeros
from ...transforms.structural_primitives import moved
from ...transforms.transpose import transpose_program
from ..elementwise.arithmetic import max_p, min_p
from ..elementwise.comparison import eq_p, ne_p, select_n_p
from ..elementwise.conversion import convert_element_type_p, stop_gradient_p
from ..keys.threefry import random_wrap_p
from ..movement.shape import broadcast_in_dim_p
from .subprograms import (
    check_match,
    chosen,
    flat_arguments,
    hoisted,
    immutable,
    joined,
    keep_inputs,
    known,
    prune,
    recounted,
    reduced,
    shifted,
    trace_body,
    with_output_types,
)

if TYPE_CHECKING:
    from ...support.pytree import PyTree, PyTreeDef

Branches = tuple[Program, ...]


def _typing(index: ArrayType, *operands: Any, branches: Branches) -> list[Any]:
    return branches[0].out_types


def _bodies(eqn: Eqn) -> list[Body]:
    return [Body(branch, flows(eqn.inputs[1:], branch.inputs), flows(eqn.outputs, branch.outputs))
            for branch in eqn.params["branches"]]  # fmt: skip


def _effects(index: ArrayType, *operands: Any, branches: Branches) -> Effects:
    return frozenset().union(*(shifted(b.effects, 1) for b in branches))


def bind_cond(index: ArrayLike, operands: Sequence[Any], branches: Sequence[Program]) -> list[Any]:
    """Bind branches that may hold constants."""
    closed, constants = hoisted(branches)
    return cond_p.bind(index, *constants, *operands, branches=tuple(closed))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, branches: Branches) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents[1:])
    given = [t for t in tangents[1:] if type(t) is not Zero]
    present = _any(jvp_program(b, nonzero)[1] for b in branches)
    derived = [jvp_program(b, nonzero, present)[0] for b in branches]
    outs = bind_cond(primals[0], [*primals[1:], *given], derived)
    n = len(branches[0].outputs)
    rest = iter(outs[n:])
    return outs[:n], [
        next(rest) if p else Zero(t.tangent()) for t, p in zip(branches[0].out_types, present, strict=True)
    ]


def _any(flags: Any) -> tuple[bool, ...]:
    return tuple(any(column) for column in zip(*flags, strict=True))


@cached(1024)
def _linearized(
    branches: Branches, nonzero: tuple[bool, ...], why: Purpose
) -> tuple[list[Program], list[Program], tuple[bool, ...]]:
    """Branches that also give their residuals, in shared slots; their linear Programs; which tangents they give.

    The linear Programs all take operands, outputs, slots and nonzero tangents. For each `why` they may be others.
    """
    present = _any(linearized(b, nonzero).out_nonzero for b in branches)
    parts = [linearized(b, nonzero, present) for b in branches]
    n = len(present)
    slots, places = _share_slots([p.primal.out_types[n:] for p in parts])
    primal = [_with_slots(p.primal, n, slots, place) for p, place in zip(parts, places, strict=True)]
    types = [*branches[0].in_types, *primal[0].out_types]
    linear = [_linear_branch(p, len(nonzero), n, types, place) for p, place in zip(parts, places, strict=True)]
    return primal, linear, present


def _linearize(primals: Sequence[Any], nonzero: tuple[bool, ...], *, branches: Branches) -> Any:
    index, operands = primals[0], primals[1:]
    primal, linear_branches, present = _linearized(branches, tuple(nonzero[1:]), purpose())
    results = bind_cond(index, operands, primal)

    def linear(*tangents: Any) -> list[Any]:
        given = [t for t in tangents[1:] if type(t) is not Zero]
        found = iter(bind_cond(index, [*operands, *results, *given], linear_branches))
        return [next(found) if p else Zero(t.tangent()) for t, p in zip(branches[0].out_types, present, strict=True)]

    return results[: len(present)], linear


def _share_slots(residuals: Sequence[Sequence[Any]]) -> tuple[list[Any], list[list[int]]]:
    """Slots that every branch's residuals fit in: of each type as many as the branch with the most needs."""
    slots: list[Any] = []
    places = []
    for types in residuals:
        free = list(range(len(slots)))
        place = []
        for t in types:
            i = next((i for i in free if slots[i] == t.strong()), None)
            if i is None:
                i = len(slots)
                slots.append(t.strong())
            else:
                free.remove(i)
            place.append(i)
        places.append(place)
    return slots, places


def _filler(type: ArrayType) -> Any:
    if is_key(type.dtype):
        words = ArrayType((*type.shape, type.dtype.words), np.dtype(np.uint32))
        return random_wrap_p.bind(zeros(words), impl=type.dtype)
    return zeros(type)


def _with_slots(program: Program, n: int, slots: Sequence[Any], place: Sequence[int]) -> Program:
    def fun(*args: Any) -> list[Any]:
        results = eval_program(program, *args)
        filled = dict(zip(place, results[n:], strict=True))
        return [*results[:n], *(filled[i] if i in filled else _filler(t) for i, t in enumerate(slots))]

    types = [*program.out_types[:n], *slots]
    return with_output_types(trace_program(fun, program.in_types, program.name), types)


def _linear_branch(part: Any, n_in: int, n_out: int, types: Sequence[Any], place: Sequence[int]) -> Program:
    inputs = [Var(t) for t in types]
    start = {"in": 0, "out": n_in}
    env: dict[Any, Any] = {}
    for var, (kind, i) in zip(part.linear.inputs, part.residuals, strict=False):
        env[var] = inputs[n_in + n_out + place[i] if kind == "stored" else start[kind] + i]
    eqns = [substitute(e, env) for e in part.linear.eqns]
    outputs = [env.get(a, a) if type(a) is Var else a for a in part.linear.outputs]
    tangents = part.linear.inputs[len(part.residuals) :]
    return part.linear.replace(inputs=(*inputs, *tangents), eqns=eqns, outputs=outputs)


def _transpose(cts: Sequence[Any], index: Array, *operands: Any, branches: Branches) -> list[Any]:
    linear = tuple(isinstance(a, Linear) for a in operands)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    given = [ct for ct in cts if type(ct) is not Zero]
    transposed = [transpose_program(b, linear, nonzero) for b in branches]
    residuals = [a for a in operands if not isinstance(a, Linear)]
    found = iter(bind_cond(index, [*residuals, *given], transposed))
    return [None, *(next(found) if li else None for li in linear)]


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, branches: Branches) -> Any:
    index, operands = (
        args[0],
        [moved(axis, x, d, 0) if d is not None else x for x, d in zip(args[1:], dims[1:], strict=True)],
    )
    in_dims = tuple(None if d is None else 0 for d in dims[1:])
    if dims[0] is None:
        forced = _any([d is not None for d in batch_program(b, axis, in_dims)[1]] for b in branches)
        batched = [batch_program(b, axis, in_dims, forced)[0] for b in branches]
        return bind_cond(index, operands, batched), [0 if f else None for f in forced]
    # Which branch differs along the batch: run all and select.
    programs = [batch_program(b, axis, in_dims, True)[0] for b in branches]
    if len(branches) == 1:
        found = eval_program(programs[0], *operands)
        return found, [0] * len(found)
    which = moved(axis, index, dims[0], 0)
    given = list(zip(operands, in_dims, strict=True))
    results = [
        eval_program(p, *(x if d is None else _where_taken(which, i, x) for x, d in given))
        for i, p in enumerate(programs)
    ]
    if len(branches) == 2:
        which = ne_p.bind(which, np.int32(0))
    outs, out_dims = [], []
    given_by = zip(*(b.outputs for b in branches), strict=True)
    for column, outputs in zip(zip(*results, strict=True), given_by, strict=True):
        operand = _forwarded(outputs, branches)
        if operand is not None and in_dims[operand] is None:  # the same whichever branch is taken
            outs.append(operands[operand])
            out_dims.append(None)
        else:
            outs.append(_select(which, column))
            out_dims.append(0)
    return outs, out_dims


def _forwarded(outputs: Sequence[Any], branches: Branches) -> int | None:
    """Which operand all branches give as one of their results, if they do."""
    places = {next((i for i, v in enumerate(b.inputs) if v is out), None)
              for b, out in zip(branches, outputs, strict=True)}  # fmt: skip
    return places.pop() if len(places) == 1 else None


def _where_taken(which: Array, number: int, x: Array) -> Any:
    """A batch of an operand of a branch, with derivatives where that is taken: elsewhere they may be NaN, which no zero
    undoes."""
    if is_opaque(typeof(x)) or not is_inexact(typeof(x).dtype):
        return x
    taken = eq_p.bind(which, np.int32(number))
    return _select(taken, (stop_gradient_p.bind(x), x))


def _select(which: Array, cases: Sequence[Any]) -> Any:
    shape = shape_of(cases[0])
    if len(shape) > 1:
        which = broadcast_in_dim_p.bind(which, shape=shape, broadcast_dimensions=(0,))
    return select_n_p.bind(which, *cases)


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn | None:
    pruned = [prune(b, used) for b in eqn.params["branches"]]
    needed = _any(flags for _, flags in pruned) if eqn.inputs[1:] else ()
    branches = tuple(keep_inputs(program, needed) for program, _ in pruned)
    outputs = [v for v, u in zip(eqn.outputs, used, strict=True) if u]
    return reduced(eqn, [eqn.inputs[0], *chosen(eqn.inputs[1:], needed)], outputs, branches=branches)


def _numpy(index: Operand, *operands: Any, branches: Branches) -> list[Any]:
    return evaluate(branches[min(max(int(index), 0), len(branches) - 1)], *operands)


cond_p: Primitive = Primitive(
    "cond",
    _typing,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    dce=_dce,
    effects=_effects,
    bodies=_bodies,
    choice=True,
    numpy=_numpy,
    recounted=recounted(), multiple=True, varies=OWN,
)


# ---------------------------------------------------------------------------- functions

_NONE = object()
_BRANCH_REMEDY = "make every branch return the same structure, shapes and dtypes, e.g. with `.astype`"


def _traced_branches(
    functions: Sequence[Callable[..., Any]], names: Sequence[str], in_tree: PyTreeDef, types: Sequence[Any],
    index: Operand,
) -> Any:  # fmt: skip
    traced = [trace_body(f, in_tree, types, name) for f, name in zip(functions, names, strict=True)]
    first, out_tree = traced[0]
    for (program, structure), name in zip(traced[1:], names[1:], strict=True):
        check_match(
            "the outputs of branches",
            _BRANCH_REMEDY,
            (out_tree, first.out_types),
            (structure, program.out_types),
            (f"in {names[0]}", f"in {name}"),
            "output",
        )
    out_types = [joined(column) for column in zip(*(p.out_types for p, _ in traced), strict=True)]
    vary = typeof(index).vary  # devices that take other branches have other values
    if vary:
        out_types = [VaryingType(t, t.vary | vary) for t in out_types]
    return [with_output_types(p, out_types) for p, _ in traced], out_tree


def _branch(
    index: Operand, functions: Sequence[Callable[..., Any]], names: Sequence[str], operands: Sequence[Any]
) -> Any:
    leaves, in_tree, types = flat_arguments(operands)
    branches, out_tree = _traced_branches(functions, names, in_tree, types, index)
    return out_tree.unflatten(bind_cond(index, leaves, branches))


def _check_callable(name: str, *functions: Any) -> None:
    for f in functions:
        if not callable(f):
            raise ArgumentTypeError(
                f"{name} takes functions as branches, got {f!r}", "pass a callable, such as a lambda"
            )


def cond(
    pred: ArrayLike,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: PyTree = _NONE,
    linear: Any = None,
) -> Any:
    """`true_fun(*operands)` where the scalar `pred` is true, else `false_fun(*operands)`; only one runs.

    Under `vmap` with a batched `pred` both run and the results are selected. Raises `ControlFlowTypeError`
    where the branches return different structures, shapes or dtypes.

    >>> from tilewright import lax
    >>> print(lax.cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 3.0))
    4.0
    """
    if operand is not _NONE:
        if operands:
            raise ArgumentError("cond was given operands both by position and as `operand=`", "pass them by position")
        operands = (operand,)
    if not callable(true_fun) and len(operands) == 2 and callable(false_fun) and callable(operands[1]):
        # The older form: cond(pred, true_operand, true_fun, false_operand, false_fun).
        on_true, on_false, pair = false_fun, operands[1], (true_fun, operands[0])
        return cond(pred, lambda a, b: on_true(a), lambda a, b: on_false(b), *pair)
    _check_callable("cond", true_fun, false_fun)
    type_ = typeof(pred)
    if type_.shape != ():
        raise ArgumentTypeError(
            f"the predicate of cond is a scalar, got {type_.show()}", "use `numpy.where`, or reduce it"
        )
    if current().disable_jit and known(pred) is not None:
        return (true_fun if bool(known(pred)) else false_fun)(*immutable(operands))
    if not is_bool(type_.dtype):
        pred = ne_p.bind(pred, np.zeros((), type_.dtype)[()])
    index = convert_element_type_p.bind(pred, new_dtype=INT32, weak_type=False)
    return _branch(index, (false_fun, true_fun), ("false_fun", "true_fun"), operands)


def switch(index: ArrayLike, branches: Sequence[Callable[..., Any]], *operands: Any, operand: PyTree = _NONE) -> Any:
    """`branches[index](*operands)`; an index outside the range is clamped into it.

    Raises `ControlFlowTypeError` where the branches return different structures, shapes or dtypes.

    >>> from tilewright import lax
    >>> print(lax.switch(2, [lambda x: x, lambda x: 2 * x, lambda x: x * x], 3.0))
    9.0
    """
    if operand is not _NONE:
        operands = (operand,)
    branches = tuple(branches)
    if not branches:
        raise ArgumentError("switch needs at least one branch, got none", "pass a sequence of functions")
    _check_callable("switch", *branches)
    type_ = typeof(index)
    if type_.shape != () or not is_integer(type_.dtype):
        raise ArgumentTypeError(f"the index of switch is an integer scalar, got {type_.show()}", "pass an integer")
    if len(branches) == 1:
        return branches[0](*immutable(operands))
    if current().disable_jit and known(index) is not None:
        return branches[min(max(int(known(index)), 0), len(branches) - 1)](*immutable(operands))
    index = convert_element_type_p.bind(index, new_dtype=INT32, weak_type=False)
    index = min_p.bind(max_p.bind(index, np.int32(0)), np.int32(len(branches) - 1))
    return _branch(index, branches, [f"branch {i}" for i in range(len(branches))], operands)


PRIMITIVES = (cond_p,)

__all__ = [
    "cond", "cond_p", "switch",
]  # fmt: skip
