"""`checkify` of primitives with subprograms: calls, branches, loops and functions with custom derivatives.

A rule takes the walk, the equation and its operands, binds the equation again with the checked Programs, adds what
these found to the walk and gives the outputs; None where nothing within can fail. A loop carries its failure, each
branch of a `cond` gives the sites of all, and rules of derivatives give no failures: those of the function count.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.array import ArrayLike
from ..ir.passes import rewritten
from ..ir.primitive import Primitive, Zero
from ..ir.program import Eqn, Program
from ..primitives.control_flow.cond import bind_cond, cond_p
from ..primitives.control_flow.jit_primitive import jit_p
from ..primitives.control_flow.scan import bind_scan, cut, scan_p
from ..primitives.control_flow.subprograms import convert, joined, settle, with_output_types
from ..primitives.control_flow.while_loop import bind_while, while_p
from ..primitives.custom.checkpoint import checkpoint_p
from ..primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p
from ..support.errors import DifferentiationError
from ..support.memo import cached
from ..tracing.trace import eval_program, trace_program, typeof
from .check_primitive import check_p, merged, no_failure

if TYPE_CHECKING:
    from .transform import Checked, Walk


def _call(walk: Walk, eqn: Eqn, values: Sequence[Any]) -> Any:
    inner = walk.checked(eqn.params["program"])
    if not inner.sites:
        return None
    params = eqn.params | {"program": inner.program}
    if "donated" in params:
        params["donated"] = ()  # what is checked may be read again
    return walk.take(inner, eqn.primitive.bind(*inner.constants, *values, **params))


# ---------------------------------------------------------------------------- branches


def _cond(walk: Walk, eqn: Eqn, values: Sequence[Any]) -> Any:
    inner = [walk.checked(b) for b in eqn.params["branches"]]
    if not any(c.sites for c in inner):
        return None
    branches, found = _branches(type(walk), walk.errors, tuple(inner))
    outs = bind_cond(values[0], values[1:], branches)
    return walk.take(found, outs)


@cached(1024)
def _branches(make: Callable[[Any], Any], errors: frozenset[Any], inner: tuple[Any, ...]) -> tuple[list[Program], Any]:
    """Branches that all give the sites of all of them."""
    made, summary = [], None
    for chosen in inner:

        def branch(*args: Any, chosen: Checked = chosen) -> list[Any]:
            nonlocal summary
            outs = eval_program(chosen.program, *chosen.constants, *args)
            state = make(errors)
            for each in inner:
                state.add(each.sites, *_parts(outs[: each.width] if each is chosen else no_failure(each.sites)))
            summary = state.summary()
            return [*state.state, *outs[chosen.width :]]

        types = chosen.program.in_types[len(chosen.constants) :]
        made.append(trace_program(branch, types, chosen.program.name))
    types = [joined(column) for column in zip(*(p.out_types for p in made), strict=True)]
    return [with_output_types(p, types) for p in made], summary


# ---------------------------------------------------------------------------- loops


def _scan(walk: Walk, eqn: Eqn, values: Sequence[Any]) -> Any:
    params = eqn.params
    inner = walk.checked(params["program"])
    if not inner.sites:
        return None
    consts, init, xs = cut(values, params["num_consts"], params["num_carry"])
    body, types = _scan_body(inner, len(consts))
    start = [convert(x, t) for x, t in zip(no_failure(inner.sites), types, strict=True)]
    how = {k: v for k, v in params.items() if k not in ("program", "num_consts", "num_carry")}
    return walk.take(inner, bind_scan(body, [*inner.constants, *consts], [*start, *init], xs, **how))


@cached(1024)
def _scan_body(inner: Checked, num_consts: int) -> tuple[Program, list[Any]]:
    """A body that carries a failure before what it carries, and the types of that."""
    k, w = len(inner.constants) + num_consts, inner.width

    def body(*args: Any) -> list[Any]:
        consts, old, rest = cut(args, k, w)
        outs = eval_program(inner.program, *consts, *rest)
        return [*merged(old, outs[:w]), *outs[w:]]

    consts, rest = inner.program.in_types[:k], inner.program.in_types[k:]

    def trace(types: list[Any]) -> tuple[Program, list[Any]]:
        program = trace_program(body, [*consts, *types, *rest], inner.program.name)
        return program, program.out_types[:w]

    body_program, types = settle(trace, [typeof(x) for x in no_failure(inner.sites)], k)
    return with_output_types(body_program, [*types, *body_program.out_types[w:]]), types


def _while(walk: Walk, eqn: Eqn, values: Sequence[Any]) -> Any:
    params = eqn.params
    cond, body = walk.checked(params["cond_program"]), walk.checked(params["body_program"])
    if not cond.sites and not body.sites:
        return None
    cond_consts, body_consts, carry = cut(values, params["cond_nconsts"], params["body_nconsts"])
    cond_consts, body_consts = [*cond.constants, *cond_consts], [*body.constants, *body_consts]
    entry = eval_program(cond.program, *cond_consts, *carry)
    state = walk.fresh()
    state.add(body.sites, *_parts(no_failure(body.sites)))
    state.add(cond.sites, *_parts(entry[: cond.width]))
    going, step, types = _while_programs(type(walk), walk.errors, cond, body, len(cond_consts), len(body_consts))
    start = [convert(x, t) for x, t in zip([entry[-1], *state.state], types, strict=True)]
    outs = bind_while(going, step, [], [*cond_consts, *body_consts], [*start, *carry])
    return walk.take(state.summary(), outs[1:])


def _parts(found: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    return (found[0], found[1:]) if found else (None, ())


@cached(1024)
def _while_programs(
    make: Callable[[Any], Any], errors: frozenset[Any], cond: Checked, body: Checked, n: int, m: int
) -> tuple[Program, Program, list[Any]]:
    """Condition and body that carry whether to go on, and a failure, before what the loop carries."""
    w = 1 + sum(len(s.types) for s in (*body.sites, *cond.sites))

    def step(*args: Any) -> list[Any]:
        cond_consts, body_consts, (_, *old), carry = cut(args, n, m, 1 + w)
        outs = eval_program(body.program, *body_consts, *carry)
        after = eval_program(cond.program, *cond_consts, *outs[body.width :])
        state = make(errors)
        state.add(body.sites, *_parts(outs[: body.width]))
        state.add(cond.sites, *_parts(after[: cond.width]))
        return [after[-1], *merged(old, state.state), *outs[body.width :]]

    consts = [*cond.program.in_types[:n], *body.program.in_types[:m]]
    carry = body.program.in_types[m:]

    def trace(types: list[Any]) -> tuple[Program, list[Any]]:
        program = trace_program(step, [*consts, *types, *carry], body.program.name)
        return program, program.out_types[: 1 + w]

    start = [cond.program.out_types[-1], *(typeof(x) for x in no_failure((*body.sites, *cond.sites)))]
    program, types = settle(trace, start, len(consts))
    program = with_output_types(program, [*types, *carry])
    going = trace_program(lambda *args: [args[0]], [*types, *carry], cond.program.name)
    return going, program, types


# ---------------------------------------------------------------------------- derivatives of the user's own


def _quiet(fun: Callable[..., Sequence[Any]], args: Sequence[Any]) -> list[Any]:
    """Call a flat function without its checks."""
    program = trace_program(fun, [typeof(x) for x in args], "rule")
    silent = rewritten(program, lambda p: p is check_p, lambda e: e.replace(params=e.params | {"debug": True}), {})
    return eval_program(silent, *args)


def _is_zero(x: ArrayLike | None) -> bool:
    return type(x) is Zero


def _filled(zeros: Sequence[Any], found: Any) -> list[Any]:
    """Values with the symbolic zeros among them back in place."""
    return [z if _is_zero(z) else next(found) for z in zeros]


class _Checked:
    """What the rules of a checked function share: its Program, and how many operands come before its own."""

    def __init__(self, inner: Checked, num_consts: int):
        self.inner = inner
        self.skip = len(inner.constants) + num_consts

    def found(self, primals: Sequence[Any]) -> list[Any]:
        """The code and payload at some operands."""
        return eval_program(self.inner.program, *primals)[: self.inner.width]

    def check_closed(self, nonzero: Sequence[bool]) -> None:
        if any(nonzero[: self.skip]):
            raise DifferentiationError(
                "a function with a derivative of its own closes over a value by which it is differentiated",
                "pass the value as an argument of the function, or use `closure_convert`")  # fmt: skip


class _CheckedJVP(_Checked):
    """The jvp rule of a checked `custom_jvp` function."""

    def __init__(self, inner: Checked, num_consts: int, rule: Callable[..., Any]):
        super().__init__(inner, num_consts)
        self.rule = rule

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        self.check_closed([not _is_zero(t) for t in tangents])
        own, given = primals[self.skip :], tangents[self.skip :]
        n, marks = len(own), [t if _is_zero(t) else None for t in given]
        derived: list[Any] = []

        def flat(*args: Any) -> list[Any]:
            outs, out_tangents = self.rule(args[:n], _filled(marks, iter(args[n:])))
            derived[:] = [t if _is_zero(t) else None for t in out_tangents]
            return [*outs, *(t for t in out_tangents if not _is_zero(t))]

        results = _quiet(flat, [*own, *(t for t in given if not _is_zero(t))])
        found, count = self.found(primals), len(derived)
        none = [Zero(typeof(x).tangent()) for x in found]
        return [*found, *results[:count]], [*none, *_filled(derived, iter(results[count:]))]


class _CheckedVJP(_Checked):
    """The forward rule of a checked `custom_vjp` function."""

    def __init__(self, inner: Checked, num_consts: int, fwd: Callable[..., Any]):
        super().__init__(inner, num_consts)
        self.fwd = fwd

    def __call__(self, primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        self.check_closed(nonzero)
        run: list[Any] = []

        def flat(*args: Any) -> list[Any]:
            outs, residuals, bwd = self.fwd(args, tuple(nonzero[self.skip :]))
            run[:] = len(outs), bwd
            return [*outs, *residuals]

        results = _quiet(flat, primals[self.skip :])
        count, bwd = run
        backward = functools.partial(self._backward, bwd)
        return [*self.found(primals), *results[:count]], results[count:], backward

    def _backward(self, bwd: Callable[..., Any], residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        cts, k = cts[self.inner.width :], len(residuals)
        marks = [ct if _is_zero(ct) else None for ct in cts]
        found: list[Any] = []

        def flat(*args: Any) -> list[Any]:
            outs = bwd(list(args[:k]), _filled(marks, iter(args[k:])))
            found[:] = [x if _is_zero(x) else None for x in outs]
            return [x for x in outs if not _is_zero(x)]

        results = _quiet(flat, [*residuals, *(ct for ct in cts if not _is_zero(ct))])
        before = [Zero(t.tangent()) for t in self.inner.program.in_types[: self.skip]]
        return [*before, *_filled(found, iter(results))]


def _custom_jvp(walk: Walk, eqn: Eqn, values: Sequence[Any]) -> Any:
    inner = walk.checked(eqn.params["program"])
    if not inner.sites:
        return None
    rule = _CheckedJVP(inner, eqn.params["num_consts"], eqn.params["rule"])
    outs = custom_jvp_call_p.bind(*inner.constants, *values, program=inner.program, rule=rule, num_consts=0,
                                  axes=eqn.params["axes"])  # fmt: skip
    return walk.take(inner, outs)


def _custom_vjp(walk: Walk, eqn: Eqn, values: Sequence[Any]) -> Any:
    inner = walk.checked(eqn.params["program"])
    if not inner.sites:
        return None
    fwd = _CheckedVJP(inner, eqn.params["num_consts"], eqn.params["fwd"])
    outs = custom_vjp_call_p.bind(*inner.constants, *values, program=inner.program, fwd=fwd, num_consts=0,
                                  axes=eqn.params["axes"])  # fmt: skip
    return walk.take(inner, outs)


RULES: dict[Primitive, Callable[[Any, Eqn, Sequence[Any]], Any]] = {
    jit_p: _call,
    checkpoint_p: _call,
    cond_p: _cond,
    scan_p: _scan,
    while_p: _while,
    custom_jvp_call_p: _custom_jvp,
    custom_vjp_call_p: _custom_vjp,
}
