"""Kernels in plain accesses: what the CPU lowering and the derivatives take.

What goes from device to device becomes an exchange (`spmd_exchange.py`), an asynchronous copy a copy where it starts; a
semaphore that nothing reads is dropped, an `atomic_add` with an unused result becomes `+=`, and scoped memory
scope starts as zeros. The meaning on one sequential machine is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...core.ir.passes import primitives_of, substitute, within
from ...core.ir.primitive import Primitive
from ...core.ir.program import Atom, Eqn, Literal, Program, Var, every_eqn
from ...core.ir.types import ArrayType, RefType, is_inexact
from ...core.primitives.elementwise.arithmetic import neg_p
from ...core.primitives.movement.shape import broadcast_in_dim_p
from ...core.primitives.refs.state_primitives import Index, Point, addupdate_p, get_p, swap_p, whole
from ...core.support.memo import cached
from ..analysis.facts import analyse
from ..kernel.canonicalize import normalize, touches_refs
from ..kernel.kernel import Kernel
from ..kernel.traverse import equation, inner_programs
from ..ops.atomics import atomic_cas_p, atomic_rmw_p, no_derivative
from ..ops.dma import dma_start_p, dma_wait_p, parts_of, semaphore_read_p, semaphore_signal_p, semaphore_wait_p
from ..ops.interpret_params import poison
from ..ops.run_scoped import undefine_p
from .spmd_exchange import exchanged

Context = tuple[Counter[Var], bool, bool]  # uses of each variable; at the top of the body; semaphores are read


def _atomic(eqn: Eqn, context: Context) -> list[Eqn]:
    used = context[0]
    if not eqn.outputs or used[eqn.outputs[0]]:
        return [eqn]
    if eqn.primitive is atomic_rmw_p and eqn.params["kind"] == "add":
        return [equation(addupdate_p, eqn.inputs, {k: eqn.params[k] for k in ("index", "masked")}, eqn)]
    return [equation(eqn.primitive, eqn.inputs, eqn.params | {"wanted": False}, eqn)]


def _copy(eqn: Eqn) -> list[Eqn]:
    (src, src_at), (dst, dst_at), _ = parts_of(eqn.inputs, **eqn.params)
    read = equation(get_p, [src, *src_at], {"index": eqn.params["src"], "masked": False}, eqn)
    put = addupdate_p if eqn.params["add"] else swap_p
    return [read, equation(put, [dst, read.outputs[0], *dst_at], {"index": eqn.params["dst"], "masked": False}, eqn)]


def _signal(sign: int) -> Callable[[Eqn, Context], list[Eqn]]:
    def rule(eqn: Eqn, context: Context) -> list[Eqn]:
        if not context[2] or not eqn.params.get("decrement", True):
            return []
        before = [equation(neg_p, [eqn.inputs[1]], {}, eqn)] if sign < 0 else []
        value = before[0].outputs[0] if before else eqn.inputs[1]
        inputs = [eqn.inputs[0], value, *eqn.inputs[2:]]
        return [*before, equation(addupdate_p, inputs, {"index": eqn.params["index"], "masked": False}, eqn)]

    return rule


def _read(eqn: Eqn, context: Context) -> list[Eqn]:
    made = equation(get_p, eqn.inputs, {"index": eqn.params["index"], "masked": False}, eqn)
    return [made.replace(outputs=eqn.outputs)]


def _undefine(eqn: Eqn, context: Context) -> list[Eqn]:
    # At the top of a body the zeros say that nothing is carried over from the cell before.
    if not context[1] and not eqn.params["zero"]:
        return []
    return _overwrite(eqn.inputs[0], np.zeros((), eqn.inputs[0].type.dtype)[()], eqn)


def _poison(eqn: Eqn, context: Context) -> list[Eqn]:
    dtype = eqn.inputs[0].type.dtype
    return _overwrite(eqn.inputs[0], np.zeros((), dtype)[()] if eqn.params["zero"] else poison((), dtype)[()], eqn)


def _overwrite(ref: Var, value: Any, like: Eqn) -> list[Eqn]:
    """One value stored to the whole of a Ref."""
    shape, dtype = ref.type.shape, ref.type.dtype
    one = Literal(value, ArrayType((), dtype))
    if not shape:
        return [equation(swap_p, [ref, one], {"index": whole(()), "masked": False}, like)]
    made = equation(broadcast_in_dim_p, [one], {"shape": shape, "broadcast_dimensions": ()}, like)
    return [made, equation(swap_p, [ref, made.outputs[0]], {"index": whole(shape), "masked": False}, like)]


ACCESSES = (get_p, swap_p, addupdate_p)
Rule = Callable[[Eqn, Context], list[Eqn]]
RULES: dict[Primitive, Rule] = {
    atomic_rmw_p: _atomic, atomic_cas_p: _atomic,
    dma_start_p: lambda eqn, _: [] if eqn.params["own"] else _copy(eqn),
    dma_wait_p: lambda eqn, _: _copy(eqn) if eqn.params["own"] else [],
    semaphore_signal_p: _signal(1), semaphore_wait_p: _signal(-1), semaphore_read_p: _read, undefine_p: _undefine,
}  # fmt: skip


def uses(program: Program, primitives: Any) -> bool:
    """Whether a Program has an equation of one of these primitives, inner Programs included."""
    return not primitives_of(program).isdisjoint(primitives)


def desugared_program(
    program: Program, top: bool, semaphores: bool, rules: Mapping[Primitive, Rule] = RULES
) -> Program:
    used = Counter(a for e in program.eqns for a in e.inputs if type(a) is Var)
    used.update(a for a in program.outputs if type(a) is Var)
    eqns: list[Eqn] = []

    def below(inner: Program) -> Program:
        return desugared_program(inner, False, semaphores, rules)

    for eqn in program.eqns:
        rule = rules.get(eqn.primitive)
        if rule is not None:
            eqns += rule(eqn, (used, top, semaphores))
        else:
            eqns.append(within(eqn, below) if touches_refs(eqn) else eqn)
    return program.replace(eqns=eqns)


def _pairs(program: Program) -> set[Var]:
    """The Refs among the inputs that are pairs of buffers which copies of the language's own making fill."""
    waits = [e for e in program.eqns if e.primitive is dma_wait_p and e.params["own"]]
    found = {parts_of(e.inputs, **e.params)[1][0] for e in waits}
    for eqn in program.eqns:
        for inner, given in inner_programs(eqn):
            below = _pairs(inner)
            found |= {a for a, v in zip(given, inner.inputs, strict=True) if v in below}
    return found.intersection(program.inputs)


def _one_buffer(program: Program, pairs: set[Any]) -> Program:
    """A Program with one buffer in place of each of some pairs: a copy that is made at its wait finds it free."""
    types = {v: RefType(v.type.array.with_shape((1, *v.type.shape[1:])), v.type.space) for v in pairs}
    env: dict[Any, Atom] = {v: Var(type) for v, type in types.items()}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        params, inputs = dict(eqn.params), eqn.inputs
        if not any(a in pairs for a in inputs):
            eqns.append(eqn)
            continue
        if eqn.primitive is swap_p and params["index"].is_whole(inputs[0].type.shape):  # what `undefine` has become
            value: Any = next(e for e in program.eqns if inputs[1] in e.outputs).inputs[0]
            eqns += _overwrite(env[inputs[0]], value.value, eqn)
            continue
        if eqn.primitive in ACCESSES:
            slot = 1 if eqn.primitive is get_p else 2
            inputs = (*inputs[:slot], *inputs[slot + 1 :])
            params["index"] = Index((Point(0), *params["index"][1:]))
        given: dict[Program, Any] = dict(inner_programs(eqn))

        def below(inner: Program, given: Mapping[str, Any] = given) -> Program:
            return _one_buffer(inner, {v for v, a in zip(inner.inputs, given[inner], strict=True) if a in pairs})

        eqns.append(substitute(within(eqn.replace(inputs=inputs, params=params), below), env))
    return program.replace(eqns=eqns, inputs=[env.get(v, v) for v in program.inputs])


@cached(1024)
def desugared(kernel: Kernel, atomics: bool = False, poisons: bool = False, in_step: bool = True) -> Kernel:
    """The kernel with direct accesses only; itself if it has no others.

    With `atomics`, atomic updates stay what they are; with `poisons`, Refs that are given up are overwritten by poison;
    without `in_step`, copies to other devices stay what they are.
    """
    rules = {k: v for k, v in RULES.items() if not (atomics and k in (atomic_rmw_p, atomic_cas_p))}
    if poisons:
        rules[undefine_p] = _poison
    kernel = exchanged(kernel) if in_step else kernel
    if not uses(kernel.body, rules):
        return kernel
    body = desugared_program(kernel.body, True, uses(kernel.body, {semaphore_read_p}), rules)
    pairs = _pairs(kernel.body)
    body = normalize(_one_buffer(body, pairs) if pairs else body)
    _, _, _, first, end = kernel.splits
    live = {a for e in body.eqns for a in e.inputs}
    kept = [k for k in range(end - first) if body.inputs[first + k] in live]
    inputs = (*body.inputs[:first], *(body.inputs[first + k] for k in kept))
    scratch = tuple(body.inputs[first + k].type for k in kept)
    return kernel.replace(body=body.replace(inputs=inputs), scratch=scratch)


def differentiable(kernel: Kernel) -> Kernel:
    """The kernel in plain accesses and atomic updates, to be differentiated; an error where one has no derivative."""
    _refuse(kernel.body)
    return desugared(kernel, atomics=True)


def in_order(kernel: Kernel) -> Kernel:
    """The kernel in plain accesses, whose cells follow one another where atomic updates let them meet in an output."""
    made = desugared(kernel)
    if kernel.semantics is None or not uses(kernel.body, (atomic_rmw_p, atomic_cas_p)):
        return made
    shared = [analyse(made).ignored(number) for number in range(len(made.outputs))]
    meet = {a for axes in shared for a in (range(len(made.grid)) if axes is None else axes)}
    return made.replace(semantics=tuple("arbitrary" if a in meet else s for a, s in enumerate(kernel.semantics)))


def _refuse(program: Program) -> None:
    for eqn in every_eqn(program):
        atomic = eqn.primitive is atomic_cas_p or (eqn.primitive is atomic_rmw_p and eqn.params["kind"] != "add")
        if atomic and is_inexact(eqn.inputs[0].type.dtype):
            raise no_derivative(f"atomic_{eqn.params.get('kind', 'cas')}", eqn.source)
