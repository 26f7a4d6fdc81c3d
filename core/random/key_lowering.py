"""`physicalize`: the pass that puts in place of values without a form of their own what they are made of.

A random key array of shape `s` becomes a uint32 array of shape `s + (words,)`. `random_wrap` and
`random_unwrap` then mean nothing, other key primitives become their expansions, and a primitive that
only moves elements becomes itself batched over the last axis. A value of an opaque type (`core/ir/extension_types.py`)
becomes its parts, one after another, and a client's primitive on it its expansion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.array import Array
from ..ir.binding import EVAL, under
from ..ir.extension_types import flat_parts, from_parts, is_opaque
from ..ir.passes import substitute
from ..ir.primitive import AxisInfo, Primitive
from ..ir.program import Eqn, Literal, Program, Var, subprograms
from ..ir.types import UINT32, ArrayType, is_key
from ..primitives.elementwise.comparison import eq_p, ne_p
from ..primitives.elementwise.conversion import convert_element_type_p
from ..primitives.keys import threefry
from ..primitives.movement.shape import broadcast_in_dim
from ..primitives.reduction.reduce import reduce_and_p, reduce_or_p
from ..support.errors import UnsupportedError
from ..support.memo import cached
from ..support.runtime import runtime
from ..tracing.trace import ProgramTrace, eval_program, shape_of, trace_program, tracer_of, typeof
from ..transforms.batching import batched
from ..transforms.structural_primitives import moveaxis

Parts = Sequence[Any]  # of one value: itself where it has a form of its own

# By whether keys are changed too: what a Program became.
_done = {True: runtime.weak_cache("keys.physicalize"), False: runtime.weak_cache("keys.take_apart")}


def holds_keys(type: ArrayType) -> bool:
    """Whether values of a type are (references to) random keys."""
    return is_key(getattr(type, "dtype", UINT32))


def _changes(type: ArrayType, keys: bool) -> bool:
    return is_opaque(type) or (keys and holds_keys(type))


def _types(type: Any, keys: bool) -> list[Any]:
    """The types of what a value becomes."""
    if is_opaque(type):
        return [t for part in type.part_types() for t in _types(part, keys)]
    if keys and isinstance(type, ArrayType) and is_key(type.dtype):
        return [ArrayType((*type.shape, type.dtype.words), UINT32)]
    return [type]


def _eqn_changes(eqn: Eqn, keys: bool) -> bool:
    if any([_changes(a.type, keys) for a in (*eqn.inputs, *eqn.outputs)]):
        return True
    return any(physicalize(p, keys) is not p for _, p in subprograms(eqn))


def physicalize(program: Program, keys: bool = True) -> Program:
    """The same Program without opaque types (and, unless `keys` is False, without random keys) anywhere in it.

    Itself if it has none.
    """
    done = _done[keys]
    found = done.get(program, program)
    if found is program:
        found = _physicalize(program, keys)
        # None for itself: a value that is its key would keep it for ever.
        done[program] = None if found is program else found
        done[found] = None
    return program if found is None else found


def _physicalize(program: Program, keys: bool) -> Program:
    changing = [_eqn_changes(eqn, keys) for eqn in program.eqns]
    if not any(changing) and not any([_changes(v.type, keys) for v in (*program.inputs, *program.constants)]):
        return program
    trace = ProgramTrace(None, program.name)
    env: dict[Var, Parts] = {}  # Var of the old program -> Vars or Literals of the new one
    for var in program.inputs:
        env[var] = [trace.new_input(t)._var for t in _types(var.type, keys)]
    constants: list[Var] = []
    values: list[Any] = []
    for var, value in zip(program.constants, program.values, strict=True):
        env[var] = [Var(t) for t in _types(var.type, keys)]
        constants += env[var]
        values += [_words(x) if keys and holds_keys(typeof(x)) else x for x in flat_parts(var.type, value)]
    for eqn, changes in zip(program.eqns, changing, strict=True):
        if changes:
            _physical_eqn(trace, eqn, env, keys)
        else:
            trace.eqns.append(substitute(eqn, {a: env[a][0] for a in eqn.inputs if a in env}))
    outputs = [new for a in program.outputs for new in _became(a, env)]
    trace.done = True
    constants += [var for var, _ in trace.constants.values()]
    values += [value for _, value in trace.constants.values()]
    return Program(trace.inputs, trace.eqns, outputs, constants, values, program.name)


def _became(atom: Literal | Var, env: dict[Var, Parts]) -> Parts:
    return env.get(atom, [atom]) if type(atom) is Var else [atom]


def _words(value: Any) -> Any:
    return under(EVAL, threefry.random_unwrap_p.bind, value)


def _physical_eqn(trace: ProgramTrace, eqn: Eqn, env: dict[Var, Parts], keys: bool) -> None:
    """Append to `trace` what an equation means over the parts of its values."""

    def value_of(new: Literal | Var) -> Any:
        return tracer_of(trace, new) if type(new) is Var else new.value

    start = len(trace.eqns)
    values = [[value_of(new) for new in _became(a, env)] for a in eqn.inputs]
    outs = iter(under(trace, _meaning, eqn, values, keys))
    for i in range(start, len(trace.eqns)):
        trace.eqns[i] = trace.eqns[i].replace(source=eqn.source)
    for var in eqn.outputs:
        env[var] = [trace.atom(next(outs)) for _ in _types(var.type, keys)]


def _meaning(eqn: Eqn, values: Sequence[Parts], keys: bool) -> Sequence[Any]:
    """The outputs of an equation, part by part, given the parts of its operands; binds on the current trace."""
    primitive, params = eqn.primitive, eqn.params
    flat = [x for parts in values for x in parts]
    if any([is_opaque(a.type) for a in (*eqn.inputs, *eqn.outputs)]):
        if primitive.recounted is not None:
            params = primitive.recounted(params, [len(parts) for parts in values])
        elif primitive.expand is not None:
            return _of_client(eqn, flat, keys)
        else:
            raise UnsupportedError(f"{primitive.name} of values of a client's own type",
                                   "apply a primitive that takes them", eqn.source)  # fmt: skip
    elif primitive in (threefry.random_wrap_p, threefry.random_unwrap_p, threefry.random_clone_p):
        return flat
    elif primitive in threefry.PRIMITIVES:
        return _expanded(eqn, flat)
    if primitive.recounted is not None or any(True for _ in subprograms(eqn)):
        out = primitive.bind(*flat, **{name: _physical_param(value, keys) for name, value in params.items()})
        return out if primitive.multiple else [out]
    if primitive in (eq_p, ne_p):
        return [_compared(primitive, flat)]
    opaque = primitive.batch is None and primitive.relation is None
    if opaque or not all(holds_keys(v.type) for v in eqn.outputs):
        raise UnsupportedError(
            f"{primitive.name} of random keys", "draw numbers from a key, or use `random.key_data`", eqn.source
        )
    return _batched(eqn, flat)


def _physical_param(value: Any, keys: bool) -> Any:
    if isinstance(value, Program):
        return physicalize(value, keys)
    if isinstance(value, tuple) and any(isinstance(v, Program) for v in value):
        return tuple(_physical_param(v, keys) for v in value)
    return value


def _of_client(eqn: Eqn, parts: Parts, keys: bool) -> Sequence[Any]:
    """The expansion of a client's primitive, which sees objects of the client's own class."""
    primitive = eqn.primitive

    def expand(*given: Any) -> list[Any]:
        rest = iter(given)
        out = primitive.expand(*[from_parts(a.type, rest) for a in eqn.inputs], **eqn.params)  # type: ignore[misc]
        outs = out if primitive.multiple else [out]
        return [x for var, value in zip(eqn.outputs, outs, strict=True) for x in _parts_of(var.type, value)]

    types = [t for a in eqn.inputs for t in _types(a.type, False)]
    return eval_program(physicalize(trace_program(expand, types, primitive.name), keys), *parts)


def _parts_of(type: Any, value: Any) -> list[Any]:
    """The parts of what an expansion gave, in the dtypes that its type says; a value that another one made stays."""
    if is_opaque(type) and is_opaque(getattr(value, "aval", None)):
        return [value]
    return [_cast(x, t) for x, t in zip(flat_parts(type, value), _types(type, False), strict=True)]


def _cast(x: Array, type: ArrayType) -> Any:
    found = typeof(x)
    if not isinstance(type, ArrayType) or (found.dtype, found.weak_type) == (type.dtype, type.weak_type):
        return x
    return convert_element_type_p.bind(x, new_dtype=type.dtype, weak_type=type.weak_type)


def _expanded(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
    primitive = eqn.primitive

    def expand(*args: Any) -> list[Any]:
        out = primitive.expand(*args, **eqn.params)  # type: ignore[misc]
        return list(out) if primitive.multiple else [out]

    program = trace_program(expand, [a.type for a in eqn.inputs], primitive.name)
    return eval_program(physicalize(program), *values)


def _compared(primitive: Primitive, values: list[Any]) -> Any:
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


# ---------------------------------------------------------------------------- evaluation


@cached(4096)
def _taken_apart(primitive: Primitive, types: Sequence[Any], params: Sequence[Any]) -> tuple[Program, Program]:
    """The Program of one equation, and that over parts."""
    program = trace_program(lambda *args: primitive.bind(*args, **dict(params)), types, primitive.name)
    return program, physicalize(program, keys=False)


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Evaluate a primitive that may take or give values of opaque types, by their parts."""
    types = tuple(map(typeof, args))
    program, apart = _taken_apart(primitive, types, tuple(params.items()))
    if apart is program:
        return runtime.backend.evaluate(primitive, args, params)
    flat = (x for t, value in zip(types, args, strict=True) for x in flat_parts(t, value))
    outs = iter(eval_program(apart, *flat))
    return [from_parts(t, outs) for t in program.out_types]
