"""`checkpoint`: recompute in the backward pass instead of storing; with policies for what to store all the same.

checkpoint(*args; program, prevent_cse, differentiated, policy) -> outputs of program
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...ir.array import ArrayLike
from ...ir.axis_relation import FREE, IDENTITY, pointwise
from ...ir.binding import is_evaluating
from ...ir.passes import eliminate_dead, substitute
from ...ir.primitive import OWN, AxisInfo, Linear, Primitive, Zero
from ...ir.program import Eqn, Program, Var
from ...support import pytree
from ...support.errors import ArgumentError
from ...support.memo import cached
from ...tracing.trace import trace_program, typeof
from ...transforms.batching import batch_program
from ...transforms.jvp import jvp_program
from ...transforms.linearize import Purpose, linearize_program, purpose
from ...transforms.rule_helpers import instantiate, linear_jvp
from ...transforms.structural_primitives import moved
from ...transforms.transpose import transpose_program
from ..contraction.conv import conv_general_dilated_p
from ..contraction.dot_general import dot_general_p
from ..control_flow import program_primitive
from ..control_flow.jit_primitive import jit_p
from ..control_flow.subprograms import chosen, close, immutable, keep_inputs, prune, recounted, reduced

if TYPE_CHECKING:
    from ...support.pytree import PyTree

Policy = Callable[..., Any] | None


@dataclass(frozen=True)
class Offloadable:
    """A policy's answer: store, and move from memory `src` to `dst` until it is needed.

    It is stored where it is made: XLA has one memory on the CPU, and a program here does not name others.
    """

    src: str
    dst: str


class _Answer:
    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return self._name


Saveable: _Answer
Recompute: _Answer
Saveable, Recompute = _Answer("Saveable"), _Answer("Recompute")
REMADE = "remade"  # the parameter of a primitive that has rules of its own: a function of the policy and the operands
KEPT = "kept by custom_remat"  # the name of values that are stored whatever the policy says

# ---------------------------------------------------------------------------- optimization_barrier


def _barrier_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    outs = optimization_barrier_p.bind(*primals)
    given = [t for t in tangents if type(t) is not Zero]
    found = iter(optimization_barrier_p.bind(*given) if given else ())
    return outs, [t if type(t) is Zero else next(found) for t in tangents]


def _barrier_transpose(cts: Sequence[Any], *args: Any) -> list[Any]:
    return [ct if isinstance(a, Linear) else None for ct, a in zip(cts, args, strict=True)]


optimization_barrier_p: Primitive = Primitive(
    "optimization_barrier",
    typing=lambda *types: [t for t in types],
    jvp=_barrier_jvp,
    transpose=_barrier_transpose,
    batch=lambda axis, args, dims: (optimization_barrier_p.bind(*args), dims),
    numpy=lambda *arrays: list(arrays),
    recounted=recounted(), multiple=True, varies=OWN,
)


def optimization_barrier(operand: PyTree) -> Any:
    """The same values, which the compiler computes before anything that uses the result.

    >>> from tilewright import lax
    >>> print(lax.optimization_barrier(2.0))
    2.0
    """
    leaves, structure = pytree.flatten(operand)
    return structure.unflatten(optimization_barrier_p.bind(*leaves)) if leaves else operand


# ---------------------------------------------------------------------------- names

name_p: Primitive = Primitive(
    "name",
    typing=lambda x, *, name: x,
    jvp=linear_jvp(lambda: name_p),
    transpose=lambda ct, x, *, name: [ct],
    numpy=lambda x, *, name: x,
    relation=pointwise,
    work=FREE,
    kind=IDENTITY,
)


def checkpoint_name(x: ArrayLike, name: str) -> Any:
    """The same values under a name that policies of `checkpoint` may refer to.

    >>> print(checkpoint_name(2.0, "activations"))
    2.0
    """
    return pytree.map(lambda leaf: name_p.bind(leaf, name=name), x)


# ---------------------------------------------------------------------------- policies


def everything_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Store every intermediate value."""
    return True


def nothing_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Store nothing: recompute all."""
    return False


def dots_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Store the results of contractions and convolutions."""
    return prim is dot_general_p or prim is conv_general_dilated_p


def dots_with_no_batch_dims_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Store the results of contractions without batch dimensions, as a layer's weights give."""
    return prim is dot_general_p and not any(params["dimension_numbers"][1])


def _name_of(prim: Primitive, params: dict[str, Any]) -> Any:
    return params["name"] if prim is name_p else None


@dataclass(frozen=True)
class SaveOnlyTheseNames:
    """A policy: the values of these names are stored."""

    saveable_names: frozenset[str]

    def __call__(self, prim: Primitive, *_: Any, **params: Any) -> bool:
        return _name_of(prim, params) in self.saveable_names


@dataclass(frozen=True)
class SaveAnyNamesButThese:
    """A policy: the values of all names but these are stored."""

    names: frozenset[str]

    def __call__(self, prim: Primitive, *_: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] not in self.names


@dataclass(frozen=True)
class SaveAndOffloadOnlyTheseNames:
    """A policy: the values of these names are stored, those of the second to be moved (see `Offloadable`)."""

    names_which_can_be_saved: frozenset[str]
    names_which_can_be_offloaded: frozenset[str]
    offload_src: str
    offload_dst: str

    def __call__(self, prim: Primitive, *_: Any, **params: Any) -> Any:
        name = _name_of(prim, params)
        if name in self.names_which_can_be_offloaded:
            return Offloadable(self.offload_src, self.offload_dst)
        return name in self.names_which_can_be_saved


def save_only_these_names(*names_which_can_be_saved: str) -> SaveOnlyTheseNames:
    """Store the values named so with `checkpoint_name`, and nothing else."""
    return SaveOnlyTheseNames(frozenset(names_which_can_be_saved))


def save_any_names_but_these(*names_not_to_save: str) -> SaveAnyNamesButThese:
    """Store every named value but these, and nothing that has no name."""
    return SaveAnyNamesButThese(frozenset(names_not_to_save))


def save_anything_except_these_names(*names_not_to_save: str) -> Callable[..., bool]:
    """Store everything but the values named so."""
    refused = frozenset(names_not_to_save)
    return lambda prim, *_, **params: _name_of(prim, params) not in refused


def save_from_both_policies(policy_1: Callable[..., bool], policy_2: Callable[..., bool]) -> Callable[..., bool]:
    """Store what either policy stores."""

    def policy(prim: Primitive, *avals: Any, **params: Any) -> Any:
        first = policy_1(prim, *avals, **params)
        return policy_2(prim, *avals, **params) if first is Recompute or not first else first

    return policy


def save_and_offload_only_these_names(
    *, names_which_can_be_saved: Sequence[str], names_which_can_be_offloaded: Sequence[str],
    offload_src: str, offload_dst: str,
) -> SaveAndOffloadOnlyTheseNames:  # fmt: skip
    """Store the values of two sets of names, those of the second to be moved (see `Offloadable`)."""
    saved, moved_out = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if saved & moved_out:
        raise ArgumentError(f"names both saved and offloaded: {sorted(saved & moved_out)}", "name each in one")
    return SaveAndOffloadOnlyTheseNames(saved, moved_out, offload_src, offload_dst)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable[..., Any]:
    """Store the results of contractions without batch dimensions, to be moved (see `Offloadable`)."""

    def policy(prim: Primitive, *avals: Any, **params: Any) -> Any:
        stores = dots_with_no_batch_dims_saveable(prim, *avals, **params)
        return Offloadable(offload_src, offload_dst) if stores else False

    return policy


def _stores(policy: Policy, eqn: Eqn) -> bool:
    if _name_of(eqn.primitive, eqn.params) == KEPT:
        return True
    if policy is None:
        return False
    answer = policy(eqn.primitive, *(a.type for a in eqn.inputs), **eqn.params)
    return answer is Saveable or type(answer) is Offloadable or (answer is not Recompute and bool(answer))


checkpoint_policies: SimpleNamespace = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    save_only_these_names=save_only_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_anything_except_these_names=save_anything_except_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    SaveOnlyTheseNames=SaveOnlyTheseNames,
    SaveAnyNamesButThese=SaveAnyNamesButThese,
    SaveAndOffloadOnlyTheseNames=SaveAndOffloadOnlyTheseNames,
)


# ---------------------------------------------------------------------------- the primitive


def bind_checkpoint(program: Program, args: Sequence[Any], **params: Any) -> list[Any]:
    """Bind a Program that may hold constants."""
    program, constants = close(program)
    return checkpoint_p.bind(*constants, *args, program=program, **params)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, **params: Any) -> Any:
    derived, present = jvp_program(program, tuple(type(t) is not Zero for t in tangents))
    outs = bind_checkpoint(derived, [*primals, *(t for t in tangents if type(t) is not Zero)], **params)
    n = len(program.outputs)
    rest = iter(outs[n:])
    return outs[:n], [
        next(rest) if p else Zero(a.type.tangent()) for a, p in zip(program.outputs, present, strict=True)
    ]


def _called(eqn: Eqn, policy: Policy) -> Program | None:
    """What stands for an equation in a Program to be differentiated under a policy: what it calls, or None."""
    if REMADE in eqn.params and policy is not None:
        remade = functools.partial(eqn.params[REMADE], policy)
        return inlined(trace_program(remade, [a.type for a in eqn.inputs], eqn.primitive.name), policy)
    if eqn.primitive is jit_p and not eqn.params["program"].constants:
        return inlined(eqn.params["program"], policy)
    return None


def _has_rules(program: Program) -> bool:
    return any(REMADE in e.params or (e.primitive is jit_p and _has_rules(e.params["program"])) for e in program.eqns)


def inlined(program: Program, policy: Policy = None) -> Program:
    """A Program with its `jit` calls replaced by what they call, so that a policy sees inside, and, given the policy,
    functions with custom rules (`custom_remat`) by the results of these."""
    eqns: list[Eqn] = []
    env: dict[Any, Any] = {}
    constants, values = list(program.constants), list(program.values)
    for eqn in program.eqns:
        eqn = substitute(eqn, env)
        inner = _called(eqn, policy)
        if inner is None:
            eqns.append(eqn)
            continue
        constants += inner.constants
        values += inner.values
        fresh = dict(zip(inner.inputs, eqn.inputs, strict=True))
        for e in inner.eqns:
            outputs = [Var(v.type) for v in e.outputs]
            eqns.append(substitute(e, fresh).replace(outputs=tuple(outputs)))
            fresh.update(zip(e.outputs, outputs, strict=True))
        for var, atom in zip(eqn.outputs, inner.outputs, strict=True):
            env[var] = fresh.get(atom, atom) if type(atom) is Var else atom
    outputs = [env.get(a, a) if type(a) is Var else a for a in program.outputs]
    return program.replace(eqns=eqns, outputs=outputs, constants=tuple(constants), values=tuple(values))


@cached(1024)
def _parts(
    program: Program, nonzero: tuple[bool, ...], policy: Policy, why: Purpose
) -> tuple[Program, Program, tuple[bool, ...]]:
    """The forward Program: inputs -> outputs and what the policy stores; the backward pass's Program:
    inputs, stored values and tangents -> tangents; and which tangents it gives."""
    if policy is not None or _has_rules(program):
        program = inlined(program, nothing_saveable if policy is None else policy)
    primal, linear, present, _ = linearize_program(program, nonzero)
    n = len(program.outputs)
    saved: list[Var] = []
    for eqn in primal.eqns:
        if _once(eqn) or _stores(policy, eqn):
            saved += eqn.outputs
    needed = _needed(primal, primal.outputs[n:], saved)
    forward, _ = eliminate_dead(primal.replace(outputs=(*primal.outputs[:n], *needed)))
    # Recompute: the saved values are inputs, and the equations that made them are gone.
    known = set(needed)
    eqns = [e for e in primal.eqns if not (e.outputs and known.issuperset(e.outputs)) and not _once(e)]
    env = {
        v: Var(v.type) for e in eqns for v in e.outputs if v in known
    }  # the other results of a partly saved equation
    eqns = [e.replace(outputs=tuple(env.get(v, v) for v in e.outputs)) for e in eqns]
    again = dict(zip(linear.inputs, primal.outputs[n:], strict=False))
    tangents = linear.inputs[len(primal.outputs) - n :]
    body = [substitute(e, again) for e in linear.eqns]
    outputs = [again.get(a, a) if type(a) is Var else a for a in linear.outputs]
    backward = Program(
        (*primal.inputs, *needed, *tangents),
        [*eqns, *body],
        outputs,
        (*primal.constants, *linear.constants),
        (*primal.values, *linear.values),
        f"checkpoint_{program.name}",
    )
    return forward, eliminate_dead(backward)[0], present


def _once(eqn: Eqn) -> bool:
    """Whether an equation acts on the world, so that it must not run again."""
    return any(e.kind not in ("read", "axis") for e in eqn.effects)


def _needed(primal: Program, residuals: Sequence[Any], saved: Sequence[Var]) -> list[Var]:
    """The saved values that recomputing the residuals would use."""
    allowed = set(saved)
    live = {a for a in residuals if type(a) is Var}
    found = [v for v in live if v in allowed]
    for eqn in reversed(primal.eqns):
        if any(v in live and v not in allowed for v in eqn.outputs):
            for a in eqn.inputs:
                if type(a) is Var and a not in live:
                    live.add(a)
                    if a in allowed:
                        found.append(a)
    order = {v: i for i, v in enumerate(saved)}
    return sorted(found, key=order.__getitem__)


def _linearize(
    primals: Sequence[Any],
    nonzero: Sequence[bool],
    *,
    program: Program,
    prevent_cse: bool,
    differentiated: bool,
    policy: Policy,
) -> Any:
    forward, backward, present = _parts(program, tuple(nonzero), policy, purpose())
    params = {"prevent_cse": prevent_cse, "policy": policy}
    results = bind_checkpoint(forward, primals, differentiated=False, **params)
    n = len(program.outputs)

    def linear(*tangents: Any) -> list[Any]:
        given = [instantiate(t) for t, nz in zip(tangents, nonzero, strict=True) if nz]
        found = iter(bind_checkpoint(backward, [*primals, *results[n:], *given], differentiated=True, **params))
        return [next(found) if p else Zero(a.type.tangent()) for a, p in zip(program.outputs, present, strict=True)]

    return results[:n], linear


def _transpose(cts: Sequence[Any], *args: Any, program: Program, **params: Any) -> list[Any]:
    linear = tuple(isinstance(a, Linear) for a in args)
    transposed = transpose_program(program, linear, tuple(type(ct) is not Zero for ct in cts))
    operands = [*(a for a, li in zip(args, linear, strict=True) if not li), *(ct for ct in cts if type(ct) is not Zero)]
    found = iter(bind_checkpoint(transposed, operands, **params))
    return [next(found) if li else None for li in linear]


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, program: Program, **params: Any) -> Any:
    operands = [x if d is None else moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True)]
    batched, out_dims = batch_program(program, axis, tuple(None if d is None else 0 for d in dims))
    return bind_checkpoint(batched, operands, **params), list(out_dims)


def _dce(used: Sequence[bool], eqn: Eqn) -> Eqn | None:
    program, live = prune(eqn.params["program"], used)
    return reduced(eqn, chosen(eqn.inputs, live), chosen(eqn.outputs, used), program=keep_inputs(program, live))


checkpoint_p: Primitive = program_primitive.holder(
    "checkpoint", jvp=_jvp, linearize=_linearize, transpose=_transpose, batch=_batch, dce=_dce, recounted=recounted(),
)  # fmt: skip
PRIMITIVES = (checkpoint_p, optimization_barrier_p, name_p)


# ---------------------------------------------------------------------------- the function


def checkpoint[**P, R](
    fun: Callable[P, R],
    *,
    prevent_cse: bool = True,
    policy: Policy = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | tuple[str, ...] = (),
    concrete: bool = False,
) -> Callable[P, R]:
    """A function whose intermediate values are computed again in the backward pass, not stored.

    `policy` (see `checkpoint_policies`) says what to store all the same. `prevent_cse` keeps the compiler
    from merging the two computations; it may be off inside `scan`. `static_argnums` and
    `static_argnames` are Python values.

    >>> import tilewright as tw
    >>> print(tw.grad(tw.checkpoint(lambda x: x * x * x))(2.0))
    12.0
    """
    if policy is not None and not callable(policy):
        raise ArgumentError(f"the policy of checkpoint is {policy!r}", "pass one of `checkpoint_policies`")
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    static_names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)

    function: Callable[..., Any] = fun

    @functools.wraps(fun, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fixed = {i % len(args) for i in static} if args else set()
        if is_evaluating():
            args = tuple(x if i in fixed else immutable(x) for i, x in enumerate(args))
            kwargs = {name: x if name in static_names else immutable(x) for name, x in kwargs.items()}
            return fun(*args, **kwargs)
        rest = [a for i, a in enumerate(args) if i not in fixed]
        kept = {name: kwargs.pop(name) for name in static_names if name in kwargs}
        leaves, in_tree = pytree.flatten((rest, kwargs))
        out_tree: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            given, named = in_tree.unflatten(values)
            given = iter(given)
            full = [args[i] if i in fixed else next(given) for i in range(len(args))]
            outs, structure = pytree.flatten(function(*full, **named, **kept))
            out_tree.append(structure)
            return outs

        program = trace_program(flat, [typeof(x) for x in leaves], getattr(fun, "__name__", "checkpoint"))
        outs = bind_checkpoint(program, leaves, prevent_cse=prevent_cse, differentiated=False, policy=policy)
        return out_tree[0].unflatten(outs)

    return wrapped


remat = checkpoint

__all__ = [
    "optimization_barrier", "optimization_barrier_p",
]  # fmt: skip
