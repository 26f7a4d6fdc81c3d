"""Arrays that a body makes of Python numbers: scalars become literals, small arrays are computed in the body.

`tnp.float32(2)` and `tnp.array([1, 2, 3])` depend on nothing that the kernel is given, so that they are arrays before
the body is traced to its end. What a body captures from outside stays an error: it is an operand.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from ...core.ir.passes import substitute
from ...core.ir.program import Atom, Eqn, Literal, Program, Var
from ...core.ir.types import INT32, ArrayType, is_bool, is_inexact, is_key
from ...core.primitives.elementwise.arithmetic import add_p, mul_p
from ...core.primitives.elementwise.comparison import eq_p, ne_p, select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.shape import iota_p
from ...core.support.errors import KernelBodyError, Source
from ...core.tracing.trace import Tracer, trace_program
from ...core.transforms.structural_primitives import spread

LARGEST = 64  # elements of an array that a body computes
PACKAGE = __name__.split(".")[0]  # whose functions capture nothing of a user's


def _captured(function: Any, seen: set[int]) -> Iterator[Any]:
    """What a function reads from outside: what it closes over, its defaults and the globals that it names."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        found = [function.func, *function.args, *function.keywords.values()]
    elif isinstance(function, MethodType):
        found = [function.__func__, function.__self__]
    elif isinstance(function, FunctionType):
        if str(function.__module__).split(".")[0] == PACKAGE:
            return
        cells = (c for c in function.__closure__ or () if c is not None)
        found = [c.cell_contents for c in cells if _filled(c)] + list(function.__defaults__ or ())
        found += [*(function.__kwdefaults__ or {}).values(), getattr(function, "__wrapped__", None)]
        found += [function.__globals__.get(name) for name in function.__code__.co_names]
    elif isinstance(function, (list, tuple)):
        found = list(function)
    elif isinstance(function, dict):
        found = list(function.values())
    else:
        yield function
        return
    for one in found:
        yield from _captured(one, seen)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _computed(value: np.ndarray) -> Any:
    """A small array as operations: its commonest element everywhere, the others put in their places."""
    shape, dtype = value.shape, value.dtype
    if is_bool(dtype):
        return ne_p.bind(_computed(value.astype(np.int32)), spread(np.int32(0), shape))
    if dtype.itemsize < 4:  # selected in 32 bits, which every target has
        return convert_element_type(_computed(value.astype(np.float32 if is_inexact(dtype) else np.int32)), dtype)
    place: Any = None
    for axis, n in enumerate(shape):
        step = int(np.prod(shape[axis + 1 :], dtype=np.int64))
        if n == 1:
            continue
        term = iota_p.bind(dtype=INT32, shape=shape, dimension=axis)
        term = term if step == 1 else mul_p.bind(term, spread(np.int32(step), shape))
        place = term if place is None else add_p.bind(place, term)
    flat = value.reshape(-1)
    bits = [x.tobytes() for x in flat]
    commonest = Counter(bits).most_common(1)[0][0]
    out = spread(flat[bits.index(commonest)], shape)
    for at, x in enumerate(flat):
        if bits[at] != commonest:
            here = eq_p.bind(place, spread(np.int32(at), shape))
            out = select_n_p.bind(here, out, spread(x, shape))
    return out


def inlined(program: Program, body: Callable[..., Any], who: str) -> Program:
    """A Program with the arrays that its function made in place; what it captured raises a `KernelBodyError`."""
    if not program.constants:
        return program
    captured = {id(x) for x in _captured(body, set())}
    env: dict[Var, Atom] = {}
    before: list[Eqn] = []
    for var, value in zip(program.constants, program.values, strict=True):
        source = next((e.source for e in program.eqns if var in e.inputs), None)
        type_: Any = var.type
        if isinstance(value, Tracer) or is_key(type_.dtype):
            _refuse(who, "a traced array" if isinstance(value, Tracer) else "an array", type_, source)
        if type_.shape and (id(value) in captured or type_.size > LARGEST):
            _refuse(who, "an array", type_, source)
        known = np.asarray(value).astype(type_.dtype, copy=False)
        if not type_.shape:
            env[var] = Literal(known[()], type_)
            continue
        made = trace_program(lambda known=known: [_computed(known)], [])
        env[var] = made.outputs[0]
        before += [e.replace(source=source) for e in made.eqns]
    eqns = [*before, *(substitute(e, env) for e in program.eqns)]
    outputs = [env.get(a, a) if type(a) is Var else a for a in program.outputs]
    return program.replace(eqns=eqns, outputs=outputs, constants=(), values=())


def _refuse(who: str, kind: str, type_: ArrayType, source: Source | None) -> None:
    one = "BlockSpec()" if not type_.shape else f"BlockSpec({tuple(type_.shape)}, lambda *_: {(0,) * type_.ndim})"
    raise KernelBodyError(
        f"{who} closes over {kind} of type {type_.show()}",
        f"pass it to the kernel as an operand, with a BlockSpec: the array in the call, `{one}` in `in_specs`, a "
        f"parameter of the body, which reads it `[...]` (arrays of up to {LARGEST} elements may be made in the body)",
        source)  # fmt: skip
