"""Reverse mode: transposing a recorded linear map, equation by equation from the end."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..ir.array import ArrayLike
from ..ir.passes import eliminate_dead
from ..ir.primitive import OWN, Linear, Primitive, Zero
from ..ir.program import Eqn, Program, Var
from ..ir.types import ShardedType
from ..support import pytree
from ..support.errors import NoDerivativeError, UnsupportedError
from ..support.memo import cached
from ..support.runtime import runtime
from ..tracing.trace import eval_program, of_line, trace_program
from .cotangent_logs import collected, is_collecting
from .linearize import Known, LinearMap, linear_part
from .rule_helpers import instantiate
from .structural_primitives import add_tangents


def _type(atom: Any) -> type:
    return type(atom.type)


def transpose_map(linear: LinearMap, cotangents: Sequence[Any], wanted: Sequence[bool] | None = None) -> list[Any]:
    """Cotangents of the map's inputs (Zero where none), from those of its outputs; only the `wanted` ones, if given."""
    env: dict[Var, Any] = {}

    def accumulate(var: Var, ct: ArrayLike) -> None:
        if ct is not None and type(ct) is not Zero:
            env[var] = add_tangents(env[var], ct) if var in env else ct

    for var, ct in zip(linear.outputs, cotangents, strict=True):
        if type(var) is Var:
            accumulate(var, ct)
    for eqn in reversed(linear.eqns if wanted is None else _reached(linear, wanted)):
        cts = [env.pop(v, None) for v in eqn.outputs]
        if all(ct is None for ct in cts):
            continue
        if eqn.primitive.dce is not None:
            eqn, cts = _without_unused(eqn, cts)
        cts = [Zero(v.type.cotangent()) if ct is None else ct for v, ct in zip(eqn.outputs, cts, strict=True)]
        primitive = eqn.primitive
        if primitive.transpose is None:
            raise NoDerivativeError(
                f"{primitive.name} has no transpose, so no reverse-mode derivative",
                "use forward mode, or give the function a `custom_vjp`",
            )
        args = [a.value if type(a) is Known else Linear(a.type) for a in eqn.inputs]
        given = cts if primitive.multiple else cts[0]
        if primitive.varies is not OWN and ShardedType in map(_type, (*eqn.inputs, *eqn.outputs)):
            results = of_line(eqn.source, runtime.interceptors.sharded_types.transposed, eqn, given, args)
        else:
            results = of_line(eqn.source, primitive.transpose, given, *args, **eqn.params)
        for atom, ct in zip(eqn.inputs, results, strict=True):
            if type(atom) is Var:
                accumulate(atom, ct)
    return [env.get(v, Zero(v.type.cotangent())) if type(v) is Var else v for v in linear.inputs]


def _without_unused(eqn: Eqn, cts: list[Any]) -> tuple[Eqn, list[Any]]:
    """An equation without the results that have no cotangent and the operands that only these need.

    So nothing gets a cotangent of zeros, which are NaN when they are multiplied with an infinite slope.
    """
    types = tuple(a.type for a in eqn.inputs), tuple(v.type for v in eqn.outputs)
    used = tuple(ct is not None for ct in cts)
    found = _parts_in_use(eqn.primitive, tuple(eqn.params.items()), *types, used)
    if found is None:
        return eqn, cts
    inputs, outputs, params = found
    less = eqn.replace(inputs=[eqn.inputs[i] for i in inputs], outputs=[eqn.outputs[i] for i in outputs], params=params)
    return less, [cts[i] for i in outputs]


@cached(4096)
def _parts_in_use(
    primitive: Primitive, params: Sequence[Any], ins: Sequence[Any], outs: Sequence[Any], used: Sequence[Any]
) -> Any:
    """Positions of operands and results of an equation that are in use, and the parameters of one with these alone.

    None where that are all.
    """
    inputs, outputs = [Var(t) for t in ins], [Var(t) for t in outs]
    less = primitive.dce(used, Eqn(primitive, inputs, outputs, dict(params)))
    if len(less.inputs) == len(inputs) and len(less.outputs) == len(outputs):
        return None
    return [inputs.index(v) for v in less.inputs], [outputs.index(v) for v in less.outputs], less.params


def _reached(linear: LinearMap, wanted: Sequence[bool]) -> list[Eqn]:
    """The equations whose results depend on the inputs that are wanted."""
    live = {v for v, w in zip(linear.inputs, wanted, strict=True) if w}
    kept = []
    for eqn in linear.eqns:
        if any(type(a) is Var and a in live for a in eqn.inputs):
            live.update(eqn.outputs)
            kept.append(eqn)
    return kept


def transpose_program(program: Program, linear: tuple[bool, ...], nonzero: tuple[bool, ...] | None = None) -> Program:
    """The Program from non-linear inputs and nonzero cotangents of outputs to cotangents of the linear inputs.

    Raises:
      UnsupportedError: backward rules within it tell something (`core/transforms/cotangent_logs.py`), and that is asked
      for.
    """
    transposed, told = transpose_telling(program, linear, nonzero)
    if told is None:
        return transposed
    if is_collecting():
        raise UnsupportedError(f"`with_logs` of a rule within {program.name}: only calls and `jit` pass logs on",
                               "take the function out of the loop, the branch or the `checkpoint`")  # fmt: skip
    return _silent(transposed, told.num_leaves)


@cached(1024)
def _silent(program: Program, told: int) -> Program:
    return eliminate_dead(program.replace(outputs=program.outputs[:-told] if told else program.outputs))[0]


@cached(4096)
def transpose_telling(
    program: Program, linear: tuple[bool, ...], nonzero: tuple[bool, ...] | None = None
) -> tuple[Program, Any]:
    """The transposed Program, whose last outputs are what backward rules tell, and their structure; None if nothing."""
    nonzero = (True,) * len(program.outputs) if nonzero is None else nonzero
    known_types = [v.type for v, li in zip(program.inputs, linear, strict=True) if not li]
    ct_types = [a.type.cotangent() for a, nz in zip(program.outputs, nonzero, strict=True) if nz]

    def fun(*args: Any) -> list[Any]:
        known, given = iter(args[: len(known_types)]), iter(args[len(known_types) :])
        full = [Linear(v.type) if li else next(known) for v, li in zip(program.inputs, linear, strict=True)]
        _, part = linear_part(functools.partial(eval_program, program), full, linear)
        cts = [next(given) if nz else Zero(a.type.cotangent()) for a, nz in zip(program.outputs, nonzero, strict=True)]
        results, logs = collected(transpose_map, part, cts)
        leaves, structure = pytree.flatten(logs)
        told[:] = [structure] if logs else []
        return [*(instantiate(ct) for ct, li in zip(results, linear, strict=True) if li), *leaves]

    told: list[Any] = []
    transposed = trace_program(fun, [*known_types, *ct_types], f"transpose_{program.name}")
    return transposed, told[0] if told else None
