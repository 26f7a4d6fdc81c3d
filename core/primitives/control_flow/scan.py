"""`scan`: a loop of known length that carries values and maps over the leading axis of arrays.

scan(*consts, *init, *xs; program, length, reverse, num_consts, num_carry, unroll) -> *carry, *ys
program: *consts, *carry, *x -> *carry, *y
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.dataflow import Body, flows
from ...ir.extension_types import is_opaque
from ...ir.primitive import OWN, AxisInfo, Linear, Primitive, Zero
from ...ir.program import Effects, Eqn, Literal, Program
from ...ir.types import ArrayType, RefType, as_size
from ...support import pytree
from ...support.config import current
from ...support.errors import ArgumentError, ArgumentTypeError, ShapeError
from ...support.memo import cached
from ...tracing.numpy_interpreter import evaluate
from ...tracing.trace import eval_program, shape_of, trace_program, typeof
from ...transforms.batching import batch_program
from ...transforms.jvp import jvp_program
from ...transforms.linearize import Purpose, linearized, purpose
from ...transforms.rule_helpers import instantiate, zeros
from ...transforms.structural_primitives import add_tangents, moved
from ...transforms.transpose import transpose_program
from ..movement.shape import concatenate, expand_dims, index_in_dim
from .subprograms import (
    check_match,
    chosen,
    close,
    convert,
    flat_arguments,
    immutable,
    keep_inputs,
    loop_of,
    permuted,
    prune,
    prune_loop,
    recounted,
    reduced,
    settle,
    trace_body,
    unchanged,
    with_output_types,
)

if TYPE_CHECKING:
    from ...support.pytree import PyTree, PyTreeDef

Flags = tuple[bool, ...]


def _stacked(type: ArrayType, length: int) -> Any:
    return type.with_axis(0, length)


def _typing(*types: Any, program: Program, length: int, num_carry: int, **_: Any) -> list[Any]:
    outs = program.out_types
    return [*outs[:num_carry], *(_stacked(t, length) for t in outs[num_carry:])]


def _effects(*types: Any, program: Program, **_: Any) -> Effects:
    return program.effects


def cut(values: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Split a list into pieces of these lengths, and what is left."""
    pieces, start = [], 0
    for n in counts:
        pieces.append(list(values[start : start + n]))
        start += n
    return [*pieces, list(values[start:])]


def bind_scan(program: Program, consts: Sequence[Any], init: Sequence[Any], xs: Sequence[Any], **how: Any) -> list[Any]:
    """Bind a body that may hold constants; `how` is length, reverse and unroll."""
    program, values = close(program)
    return scan_p.bind(
        *values, *consts, *init, *xs, program=program, num_consts=len(values) + len(consts), num_carry=len(init), **how
    )


# ---------------------------------------------------------------------------- derivatives


def _grown(find: Callable[[Flags], Sequence[bool]], flags: Flags, num_consts: int, num_carry: int) -> Flags:
    """Extend flags of the inputs until those of the carry hold after a turn of the loop too."""
    while True:
        consts, carry, xs = cut(flags, num_consts, num_carry)
        after = find(flags)
        grown = (*consts, *(a or bool(b) for a, b in zip(carry, after, strict=False)), *xs)
        if grown == flags:
            return flags
        flags = grown


@cached(1024)
def _jvp_body(program: Program, nonzero: Flags, num_consts: int, num_carry: int) -> tuple[Program, Flags, Flags]:
    flags = _grown(lambda f: jvp_program(program, f)[1], nonzero, num_consts, num_carry)
    carry_flags = flags[num_consts : num_consts + num_carry]
    ys = len(program.outputs) - num_carry
    derived, present = jvp_program(program, flags, (*carry_flags, *(False,) * ys))
    n = len(program.inputs)
    consts, carry, xs = cut(derived.inputs[:n], num_consts, num_carry)
    consts_t, carry_t, xs_t = cut(derived.inputs[n:], sum(flags[:num_consts]), sum(carry_flags))
    outs, ys_out, rest = cut(derived.outputs, num_carry, ys)
    outs_t, ys_t = cut(rest, sum(carry_flags))
    body = permuted(derived, [*consts, *consts_t, *carry, *carry_t, *xs, *xs_t], [*outs, *outs_t, *ys_out, *ys_t])
    return body, flags, present


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, num_consts: int, num_carry: int, **how: Any
) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    body, flags, present = _jvp_body(program, nonzero, num_consts, num_carry)
    given = cut([instantiate(t) if f else None for t, f in zip(tangents, flags, strict=True)], num_consts, num_carry)
    consts_t, carry_t, xs_t = ([t for t in part if t is not None] for part in given)
    consts, carry, xs = cut(primals, num_consts, num_carry)
    results = bind_scan(body, [*consts, *consts_t], [*carry, *carry_t], [*xs, *xs_t], **how)
    ys = len(program.outputs) - num_carry
    outs, outs_t, ys_out, ys_t = cut(results, num_carry, len(carry_t), ys)
    return [*outs, *ys_out], _spread([*outs_t, *ys_t], present, program, num_carry, how["length"])


def _spread(given: Sequence[Any], present: Sequence[bool], program: Program, num_carry: int, length: int) -> list[Any]:
    types = [*program.out_types[:num_carry], *(_stacked(t, length) for t in program.out_types[num_carry:])]
    rest = iter(given)
    return [next(rest) if p else Zero(t.tangent()) for t, p in zip(types, present, strict=True)]


class _Split:
    """A loop body split for linearisation: what to compute before the loop, in it, and in the linear loop.

    `before`: consts -> residuals that do not change from turn to turn. `body`: the loop, giving residuals as
    further ys. `linear`: consts (fixed residuals, tangents of consts), carry and xs (tangents, stored residuals).
    `fixed` and `stored` say where each residual of the linear loop comes from.
    """

    __slots__ = ("flags", "present", "before", "body", "linear", "fixed", "stored")

    def __init__(self, program: Program, nonzero: Flags, num_consts: int, num_carry: int):
        ys = len(program.outputs) - num_carry
        self.flags = _grown(lambda f: linearized(program, f).out_nonzero, nonzero, num_consts, num_carry)
        parts = linearized(program, self.flags, (*self.flags[num_consts : num_consts + num_carry], *(False,) * ys))
        self.present = parts.out_nonzero
        primal, linear = parts.primal, parts.linear
        n = len(program.outputs)
        source = {"in": primal.inputs, "out": primal.outputs[:n], "stored": primal.outputs[n:]}
        atoms = [source[kind][i] for kind, i in parts.residuals]
        consts, _, xs = cut(primal.inputs, num_consts, num_carry)
        fixed_eqns, fixed_vars = _invariant(primal, consts)
        hoisted: dict[Any, int] = {}
        stored_atoms: dict[Any, int] = {}
        fixed, stored, fixed_inputs, stored_inputs = [], [], [], []
        for atom, var in zip(atoms, linear.inputs, strict=False):
            if type(atom) is Literal:
                fixed.append(("literal", atom.value))
            elif atom in consts:
                fixed.append(("const", consts.index(atom)))
            elif atom in fixed_vars:
                fixed.append(("before", hoisted.setdefault(atom, len(hoisted))))
            elif atom in xs:
                stored.append(("xs", xs.index(atom)))
            elif atom in primal.outputs[num_carry:n]:
                stored.append(("ys", primal.outputs[num_carry:n].index(atom)))
            else:
                stored.append(("stored", stored_atoms.setdefault(atom, len(stored_atoms))))
            (fixed_inputs if len(fixed) > len(fixed_inputs) else stored_inputs).append(var)
        self.fixed, self.stored = fixed, stored
        before = Program(consts, fixed_eqns, list(hoisted), primal.constants, primal.values, "invariant")
        self.before, _ = prune(before, [True] * len(hoisted))
        self.body = primal.replace(outputs=(*primal.outputs[:n], *stored_atoms))
        consts_t, carry_t, xs_t = cut(
            linear.inputs[len(atoms) :],
            sum(self.flags[:num_consts]),
            sum(self.flags[num_consts : num_consts + num_carry]),
        )
        self.linear = permuted(linear, [*fixed_inputs, *consts_t, *carry_t, *xs_t, *stored_inputs], linear.outputs)


def _invariant(program: Program, consts: Sequence[Any]) -> tuple[list[Eqn], set[Any]]:
    """The equations without effects that depend on the loop's constants only, and what they bind."""
    known = {*consts, *program.constants}
    found: set[Any] = set()
    eqns = []
    for eqn in program.eqns:
        if not eqn.effects and all(type(a) is Literal or a in known for a in eqn.inputs):
            known.update(eqn.outputs)
            found.update(eqn.outputs)
            eqns.append(eqn)
    return eqns, found | set(program.constants)


@cached(1024)
def _split(program: Program, nonzero: Flags, num_consts: int, num_carry: int, why: Purpose) -> _Split:
    return _Split(program, nonzero, num_consts, num_carry)


def _linearize(
    primals: Sequence[Any], nonzero: Flags, *, program: Program, num_consts: int, num_carry: int, **how: Any
) -> Any:
    parts = _split(program, tuple(nonzero), num_consts, num_carry, purpose())
    consts, carry, xs = cut(primals, num_consts, num_carry)
    fixed = eval_program(parts.before, *consts) if parts.before.outputs else []
    results = bind_scan(parts.body, consts, carry, xs, **how)
    n = len(program.outputs)
    source = {"const": consts, "before": fixed, "xs": xs, "ys": results[num_carry:n], "stored": results[n:]}
    fixed_values = [x if kind == "literal" else source[kind][x] for kind, x in parts.fixed]
    stored_values = [source[kind][i] for kind, i in parts.stored]

    def linear(*tangents: Any) -> list[Any]:
        given = [instantiate(t) if f else None for t, f in zip(tangents, parts.flags, strict=True)]
        consts_t, carry_t, xs_t = ([t for t in part if t is not None] for part in cut(given, num_consts, num_carry))
        outs = bind_scan(parts.linear, [*fixed_values, *consts_t], carry_t, [*xs_t, *stored_values], **how)
        return _spread(outs, parts.present, program, num_carry, how["length"])

    return results[:n], linear


@cached(1024)
def _dependent(program: Program, flags: Flags) -> Flags:
    """Which outputs depend on the marked inputs: a carry that starts at a known zero becomes linear this way."""
    live = {v for v, f in zip(program.inputs, flags, strict=True) if f}
    for eqn in program.eqns:
        if any(a in live for a in eqn.inputs):
            live.update(eqn.outputs)
    return tuple(a in live for a in program.outputs)


@cached(1024)
def _known_part(program: Program, linear: Flags, num_consts: int, num_carry: int) -> Program:
    """The body's non-linear carry on its own: gives its value on entry to each turn as ys."""
    consts, carry, _ = cut(linear, num_consts, num_carry)
    kept, _ = prune(program, [not li for li in carry] + [False] * (len(program.outputs) - num_carry))
    body = keep_inputs(kept, [not li for li in linear])
    return body.replace(outputs=(*body.outputs, *body.inputs[consts.count(False) :][: carry.count(False)]))


@cached(1024)
def _transposed_body(program: Program, linear: Flags, live: Flags, num_consts: int, num_carry: int) -> Program:
    """known consts; cts of carry, sums for linear consts; cts of live ys, known carry, xs -> that carry; cts of xs."""
    consts_li, carry_li, xs_li = cut(linear, num_consts, num_carry)
    outputs = [a for a, li in zip(program.outputs, carry_li, strict=False) if li] + list(program.outputs[num_carry:])
    transposed = transpose_program(program.replace(outputs=outputs), linear, (*(True,) * sum(carry_li), *live))
    n_known = [part.count(False) for part in (consts_li, carry_li, xs_li)]
    n_linear = [sum(part) for part in (consts_li, carry_li, xs_li)]

    def body(*args: Any) -> list[Any]:
        known_c, ct_carry, sums, ct_ys, known_k, known_x = cut(
            args, n_known[0], n_linear[1], n_linear[0], sum(live), n_known[1]
        )
        cts = eval_program(transposed, *known_c, *known_k, *known_x, *ct_carry, *ct_ys)
        new_sums, new_carry, ct_xs = cut(cts, n_linear[0], n_linear[1])
        return [*new_carry, *map(add_tangents, sums, new_sums), *ct_xs]

    types = program.in_types
    consts_t, carry_t, xs_t = cut(list(zip(types, linear, strict=True)), num_consts, num_carry)

    def of(pairs: Sequence[Any], wanted: bool) -> list[Any]:
        return [t.cotangent() if li else t for t, li in pairs if li is wanted]

    ct_ys = [t.cotangent() for t in chosen(program.out_types[num_carry:], live)]
    in_types = [
        *of(consts_t, False),
        *of(carry_t, True),
        *of(consts_t, True),
        *ct_ys,
        *of(carry_t, False),
        *of(xs_t, False),
    ]
    return trace_program(body, in_types, f"transpose_{program.name}")


def _transpose(
    cts: Sequence[Any], *args: Any, program: Program, num_consts: int, num_carry: int, reverse: bool, **how: Any
) -> list[Any]:
    given = tuple(isinstance(a, Linear) for a in args)
    linear = _grown(lambda f: _dependent(program, f), given, num_consts, num_carry)
    consts, carry, xs = cut(args, num_consts, num_carry)
    carry_li = linear[num_consts : num_consts + num_carry]
    known_consts, known_xs = ([a for a in part if not isinstance(a, Linear)] for part in (consts, xs))
    known_carry = [a for a, li in zip(carry, carry_li, strict=True) if not li]
    if known_carry:
        # The loop also carries what is not linear, such as a counter: run that part forward first.
        forward = _known_part(program, linear, num_consts, num_carry)
        n = len(known_carry)
        known_carry = bind_scan(forward, known_consts, known_carry, known_xs, reverse=reverse, **how)[n:]
    ct_carry = [instantiate(ct) for ct, li in zip(cts, carry_li, strict=False) if li]
    live = tuple(type(ct) is not Zero for ct in cts[num_carry:])
    sums = [zeros(a.type.cotangent()) for a in consts if isinstance(a, Linear)]  # type: ignore[arg-type]
    body = _transposed_body(program, linear, live, num_consts, num_carry)
    results = bind_scan(
        body,
        known_consts,
        [*ct_carry, *sums],
        [*chosen(cts[num_carry:], live), *known_carry, *known_xs],
        reverse=not reverse,
        **how,
    )
    out_carry, out_sums, out_xs = cut(results, len(ct_carry), len(sums))
    found = iter([*out_sums, *out_carry, *out_xs])
    results = [next(found) if li else None for li in linear]
    return [ct if li else None for ct, li in zip(results, given, strict=True)]


# ---------------------------------------------------------------------------- batching and dead code


def _batch(
    axis: AxisInfo,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    program: Program,
    num_consts: int,
    num_carry: int,
    **how: Any,
) -> Any:
    ys = len(program.outputs) - num_carry

    def dims_of(flags: Flags) -> tuple[int | None, ...]:
        return tuple(0 if f else None for f in flags)

    flags = _grown(
        lambda f: [d is not None for d in batch_program(program, axis, dims_of(f))[1]],
        tuple(d is not None for d in dims),
        num_consts,
        num_carry,
    )
    forced = (*flags[num_consts : num_consts + num_carry], *(False,) * ys)
    body, out_dims = batch_program(program, axis, dims_of(flags), forced)
    place = [0] * (num_consts + num_carry) + [1] * (len(args) - num_consts - num_carry)
    operands = [moved(axis, x, d, p) if f else x for x, d, f, p in zip(args, dims, flags, place, strict=True)]
    consts, carry, xs = cut(operands, num_consts, num_carry)
    outs = bind_scan(body, consts, carry, xs, **how)
    return outs, [None if d is None else int(i >= num_carry) for i, d in enumerate(out_dims)]


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn | None:
    params = eqn.params
    program, nc, nk = params["program"], params["num_consts"], params["num_carry"]
    ys = list(used[nk:])
    pruned, live, carry = prune_loop(program, used[:nk], nc, ys)
    kept = [*live[:nc], *carry, *live[nc + nk :]]
    outputs = chosen(eqn.outputs, [*carry, *ys])
    return reduced(
        eqn,
        chosen(eqn.inputs, kept),
        outputs,
        program=keep_inputs(pruned, kept),
        num_consts=sum(live[:nc]),
        num_carry=sum(carry),
    )


def _numpy(
    *args: Any, program: Program, length: int, reverse: bool, num_consts: int, num_carry: int, unroll: int
) -> list[Any]:
    consts, carry, xs = cut(args, num_consts, num_carry)
    types = program.out_types[num_carry:]
    ys = [np.zeros((length, *t.shape), t.dtype) for t in types]
    for i in reversed(range(length)) if reverse else range(length):
        outs = evaluate(program, *consts, *carry, *(x[i] for x in xs))
        carry = outs[:num_carry]
        for y, value in zip(ys, outs[num_carry:], strict=True):
            y[i] = value
    return [*carry, *ys]


def _bodies(eqn: Eqn) -> list[Body]:
    body, n, m = eqn.params["program"], eqn.params["num_consts"], eqn.params["num_carry"]
    taken = flows(eqn.inputs[: n + m], body.inputs[: n + m]) + flows(eqn.inputs[n + m :], body.inputs[n + m :], 1)
    given = flows(body.inputs[n : n + m], body.outputs[:m]) + flows(eqn.outputs[:m], body.outputs[:m])
    return [Body(body, taken, given + flows(eqn.outputs[m:], body.outputs[m:], 1), eqn.params["length"])]


scan_p: Primitive = Primitive(
    "scan",
    _typing,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    dce=_dce,
    effects=_effects,
    bodies=_bodies,
    runs=lambda types, *, length, **_: length,
    numpy=_numpy,
    recounted=recounted("num_consts", "num_carry"),
    multiple=True, varies=OWN,
)
PRIMITIVES = (scan_p,)


# ---------------------------------------------------------------------------- functions

CARRY_REMEDY = "make the body return a carry of the structure, shapes and dtypes it was given, e.g. with `.astype`"


def _length(leaves: Sequence[Any], length: int | None) -> int:
    leaves = [x for x in leaves if not is_opaque(typeof(x))]
    for x in leaves:
        if isinstance(typeof(x), RefType):
            raise ArgumentTypeError(f"scan maps over a Ref of {typeof(x).show()}",
                                    "close over it, and map over indices: `ref[i]` with `xs=arange(n)`")  # fmt: skip
        if not shape_of(x):
            raise ShapeError(
                f"scan maps over the leading axis of xs, but one of them has type {typeof(x).show()}",
                "give it a leading axis, or close over it",
            )
    sizes = {shape_of(x)[0] for x in leaves}
    if length is not None:
        try:
            length = as_size(length)
        except TypeError:
            raise ArgumentTypeError(
                f"the length of scan is a static integer, got {length!r}", "pass a Python int, or use `while_loop`"
            ) from None
        if length < 0:
            raise ArgumentError(f"the length of scan is {length}", "pass a length of at least 0")
    if len(sizes) > 1:
        shapes = ", ".join(typeof(x).show() for x in leaves)
        raise ShapeError(
            f"the xs of scan have leading axes of different sizes: {shapes}", "give them equal leading axes"
        )
    if not sizes and length is None:
        raise ArgumentError("scan was given neither xs nor a length", "pass `length=`")
    if sizes and length is not None and length not in sizes:
        raise ArgumentError(f"scan was given length={length} but xs of leading axis {sizes.pop()}", "drop `length`")
    return sizes.pop() if sizes else length  # type: ignore[return-value]


def scan(
    f: Callable[..., Any],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Carry a value along the leading axis of arrays by `carry, y = f(carry, x)`; gives the last carry and all `y`.

    `init`, `xs` and the results are pytrees; `length` is needed where `xs` is None. `unroll` is the number
    of steps in one turn of the compiled loop, 0 or True for all of them. Raises `ControlFlowTypeError` where `f`
    returns a carry of another type, naming the leaf.

    >>> from tilewright import lax, numpy as jnp
    >>> total, sums = lax.scan(lambda c, x: (c + x, c + x), 0.0, jnp.arange(4.0))
    >>> print(total, sums)
    6.0 [0. 1. 3. 6.]
    """
    if not callable(f):
        raise ArgumentTypeError(f"scan takes a function, got {f!r}", "pass f(carry, x) -> (carry, y)")
    init_leaves, init_tree, init_types = flat_arguments(init)
    x_leaves, x_tree, x_types = flat_arguments(xs)
    n = _length(x_leaves, length)
    whole = unroll is True or (unroll == 0 and unroll is not False)
    unroll_ = max(n, 1) if whole else int(unroll) or 1
    if unroll_ < 1:
        raise ArgumentError(f"the unroll of scan is {unroll}", "pass an integer from 0, or a bool")
    if current().disable_jit and n:
        return _run(f, init, x_leaves, x_tree, n, reverse)
    in_tree = pytree.treedef_tuple([init_tree, x_tree])
    items = [t.without_axis(0, n) for t in x_types]
    found: dict[str, Any] = {}

    def trace(types: list[Any]) -> tuple[Program, list[Any]]:
        program, out_tree = trace_body(f, in_tree, [*types, *items], "scan")
        children = pytree.treedef_children(out_tree)
        if len(children) != 2 or out_tree != pytree.treedef_tuple(children):
            raise ArgumentTypeError(
                f"the function of scan returns a pair (carry, y), got {out_tree}", "return (carry, y)"
            )
        found["carry"], found["ys"] = children
        return program, program.out_types[: children[0].num_leaves]

    program, types = settle(trace, init_types)
    check_match(
        f"the carry of {loop_of(f, 'scan')} on entry and as returned",
        CARRY_REMEDY,
        (init_tree, types),
        (found["carry"], program.out_types[: found["carry"].num_leaves]),
        ("on entry", "as returned"),
        "carry",
    )
    k = len(types)
    program = with_output_types(program, [*types, *program.out_types[k:]])
    leaves = [convert(x, t) for x, t in zip(init_leaves, types, strict=True)]
    outs = bind_scan(program, [], leaves, x_leaves, length=n, reverse=bool(reverse), unroll=unroll_)
    last = unchanged(leaves, outs[:k], program.inputs[:k], program.outputs[:k])
    return found["carry"].unflatten(last), found["ys"].unflatten(outs[k:])


def _run(
    f: Callable[..., Any], init: PyTree, leaves: Sequence[Any], x_tree: PyTreeDef, n: int, reverse: bool
) -> tuple[Any, Any]:
    """The loop in Python, as `disable_jit` asks."""
    carry, ys = immutable(init, True), []
    for i in reversed(range(n)) if reverse else range(n):
        carry, y = f(carry, x_tree.unflatten([index_in_dim(x, i, 0, keepdims=False) for x in leaves]))
        carry = immutable(carry, True)
        ys.append(immutable(y))
    if reverse:
        ys.reverse()
    return carry, pytree.map(lambda *column: concatenate([expand_dims(y, (0,)) for y in column], 0), *ys)


__all__ = [
    "scan", "scan_p",
]  # fmt: skip
