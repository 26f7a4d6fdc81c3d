"""`physicalize`: the pass that turns arrays of random keys into uint32 arrays of their words.

A key array of shape `s` becomes a uint32 array of shape `s + (words,)`. `random_wrap` and
`random_unwrap` then mean nothing, other key primitives become their expansions, and a primitive that
only moves elements becomes itself batched over the last axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import UnsupportedError
from .ir import Eqn, Literal, Program, Var, subprograms
from .linear import moveaxis
from .primitive import AxisInfo
from .primitives import random
from .primitives.compare import eq_p, ne_p
from .primitives.reduce import reduce_and_p, reduce_or_p
from .primitives.shape import broadcast_in_dim
from .rewrite import substitute
from .runtime import runtime
from .trace import EVAL, ProgramTrace, eval_program, shape_of, trace_program, tracer_of, under
from .types import UINT32, ArrayType, is_key
from .vmap import batched

_done = runtime.weak_cache("keys.physicalize")


def holds_keys(type: Any) -> bool:
    """Whether values of a type are (references to) random keys."""
    return is_key(getattr(type, "dtype", UINT32))


def physical_type(type: Any) -> Any:
    """The type of the words of a key array; any other type is itself."""
    if isinstance(type, ArrayType) and is_key(type.dtype):
        return ArrayType((*type.shape, type.dtype.words), UINT32)
    return type


def _eqn_has_keys(eqn: Eqn) -> bool:
    if any(holds_keys(a.type) for a in (*eqn.inputs, *eqn.outputs)):
        return True
    return any(physicalize(p) is not p for _, p in subprograms(eqn))


def physicalize(program: Program) -> Program:
    """The same Program without key types anywhere in it; itself if it has none."""
    found = _done.get(program, program)
    if found is program:
        found = _physicalize(program)
        # None for itself: a value that is its key would keep it for ever.
        _done[program] = None if found is program else found
        _done[found] = None
    return program if found is None else found


def _physicalize(program: Program) -> Program:
    keyed = [_eqn_has_keys(eqn) for eqn in program.eqns]
    if not any(keyed) and not any(holds_keys(v.type) for v in (*program.inputs, *program.constants)):
        return program
    trace = ProgramTrace(None, program.name)
    env: dict[Var, Any] = {}  # Var of the old program -> Var or Literal of the new one
    for var in program.inputs:
        env[var] = trace.new_input(physical_type(var.type))._var
    constants: list[Var] = []
    values: list[Any] = []
    for var, value in zip(program.constants, program.values, strict=True):
        env[var] = new = Var(physical_type(var.type))
        constants.append(new)
        values.append(_words(value) if holds_keys(var.type) else value)
    for eqn, has_keys in zip(program.eqns, keyed, strict=True):
        if has_keys:
            _physical_eqn(trace, eqn, env)
        else:
            trace.eqns.append(substitute(eqn, env))
    outputs = [env.get(a, a) if type(a) is Var else a for a in program.outputs]
    trace.done = True
    constants += [var for var, _ in trace.constants.values()]
    values += [value for _, value in trace.constants.values()]
    return Program(trace.inputs, trace.eqns, outputs, constants, values, program.name)


def _words(value: Any) -> Any:
    return under(EVAL, random.random_unwrap_p.bind, value)


def _physical_eqn(trace: ProgramTrace, eqn: Eqn, env: dict[Var, Any]) -> None:
    """Append to `trace` what an equation over keys means over their words."""

    def value_of(atom: Any) -> Any:
        if type(atom) is Literal:
            return atom.value
        new = env.get(atom, atom)
        return tracer_of(trace, new) if type(new) is Var else new.value

    start = len(trace.eqns)
    outs = under(trace, _meaning, eqn, [value_of(a) for a in eqn.inputs])
    for i in range(start, len(trace.eqns)):
        trace.eqns[i] = trace.eqns[i].replace(source=eqn.source)
    for var, out in zip(eqn.outputs, outs, strict=True):
        env[var] = trace.atom(out)


def _meaning(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
    """The outputs of an equation, given the words of its keys; binds on the current trace."""
    primitive, params = eqn.primitive, eqn.params
    if primitive in (random.random_wrap_p, random.random_unwrap_p, random.random_clone_p):
        return values
    if primitive in random.PRIMITIVES:
        return _expanded(eqn, values)
    if any(True for _ in subprograms(eqn)):
        out = primitive.bind(*values, **{name: _physical_param(value) for name, value in params.items()})
        return out if primitive.multiple else [out]
    if primitive in (eq_p, ne_p):
        return [_compared(primitive, values)]
    opaque = primitive.batch is None and primitive.relation is None
    if opaque or not all(holds_keys(v.type) for v in eqn.outputs):
        raise UnsupportedError(
            f"{primitive.name} of random keys", "draw numbers from a key, or use `random.key_data`", eqn.source
        )
    return _batched(eqn, values)


def _physical_param(value: Any) -> Any:
    if isinstance(value, Program):
        return physicalize(value)
    if isinstance(value, tuple) and any(isinstance(v, Program) for v in value):
        return tuple(_physical_param(v) for v in value)
    return value


def _expanded(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
    primitive = eqn.primitive

    def expand(*args: Any) -> list[Any]:
        out = primitive.expand(*args, **eqn.params)  # type: ignore[misc]
        return list(out) if primitive.multiple else [out]

    program = trace_program(expand, [a.type for a in eqn.inputs], primitive.name)
    return eval_program(_physicalize(program), *values)


def _compared(primitive: Any, values: list[Any]) -> Any:
    """Keys are equal if all their words are."""
    shape = max((shape_of(v) for v in values), key=len)
    x, y = (broadcast_in_dim(v, shape, (len(shape) - 1,)) if len(shape_of(v)) < len(shape) else v for v in values)
    fold = reduce_and_p if primitive is eq_p else reduce_or_p
    return fold.bind(primitive.bind(x, y), axes=(len(shape) - 1,))


def _batched(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
    """An equation that moves elements, done to all words at once: its own batching rule, last axis."""
    keys = [holds_keys(a.type) for a in eqn.inputs]
    dims = [a.type.ndim if k else None for a, k in zip(eqn.inputs, keys, strict=True)]
    words = next(a.type.dtype.words for a in eqn.outputs)
    outs, out_dims = batched(eqn.primitive, AxisInfo(words), values, dims, eqn.params)
    if not eqn.primitive.multiple:
        outs, out_dims = [outs], [out_dims]
    elif not isinstance(out_dims, (list, tuple)):
        out_dims = [out_dims] * len(outs)
    return [moveaxis(out, dim, len(shape_of(out)) - 1) for out, dim in zip(outs, out_dims, strict=True)]
