"""What the primitives that hold Programs share: tracing their bodies, matching types, sharing constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import ArrayLike
from ...ir.passes import eliminate_dead, hoist
from ...ir.program import Atom, Effect, Effects, Eqn, Program, Var
from ...ir.promotion import promote_types
from ...ir.types import ArrayType, Type, VaryingType
from ...support import pytree
from ...support.call_errors import of_call
from ...support.config import current
from ...support.errors import ControlFlowTypeError
from ...support.runtime import runtime
from ...tracing.array_conversion import as_array
from ...tracing.trace import Value, axis_environment, trace_program, typeof
from ..elementwise.conversion import convert_element_type_p
from ..spmd.varying_axes import ordered, pvary, pvary_p

if TYPE_CHECKING:
    from ...support.pytree import PyTreeDef

# ---------------------------------------------------------------------------- tracing


# What loops call their functions with; branches are called with the operands.
_GIVEN = {"scan": ("carry", "x"), "fori_loop": ("i", "value"), "while_loop": ("value",), "map": ("x",)}
_traced = runtime.weak_cache("structured.trace_body")


def trace_body(fun: Callable[..., Any], in_tree: PyTreeDef, types: Sequence[Type], name: str) -> tuple[Program, Any]:
    """A user's function as a Program over flat values, with the structure of its result.

    A function that closes over no array is traced once for each set of types. A wrapper made anew at each
    call says by an attribute `traces_for = (function, role)` whose trace it makes.
    """
    owner, role = getattr(fun, "traces_for", (fun, ""))
    key = (role, in_tree, tuple(types), axis_environment(), current())
    try:
        cache = _traced.setdefault(owner, {})
        found = cache.get(key)
    except TypeError:  # neither hashable nor weakly referable
        cache, found = {}, None
    if found is None:
        out_tree: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            args = in_tree.unflatten(leaves)
            try:
                results, structure = pytree.flatten(fun(*args))
            except TypeError as error:
                loop = loop_of(fun, name)
                given = _GIVEN.get(loop, ("x",) * len(args))
                of_call(error, loop, owner, len(given), f"it is called as f({', '.join(given)})")
                raise
            out_tree.append(structure)
            return results

        program = trace_program(flat, types, getattr(fun, "__name__", name))
        found = program, out_tree[0]
        if not program.constants:
            cache[key] = found
    return found


def loop_of(fun: Callable[..., Any], name: str) -> str:
    """The loop that a user wrote: that of a wrapper which another loop is made with tells by an attribute `loop`."""
    return getattr(fun, "loop", name)


def hoisted(programs: Sequence[Program]) -> tuple[list[Program], list[Any]]:
    """Programs without constants, which all take the same leading operands instead; and those operands."""
    values: dict[int, Any] = {}
    for program in programs:
        values.update((id(x), x) for x in program.values)
    closed = []
    for program in programs:
        own = {id(x): var for var, x in zip(program.constants, program.values, strict=True)}
        leading = [own.get(i) or Var(typeof(x)) for i, x in values.items()]
        closed.append(
            program.replace(inputs=(*leading, *program.inputs), constants=(), values=()) if values else program
        )
    return closed, list(values.values())


def close(program: Program) -> tuple[Program, list[Any]]:
    """One Program without constants, and the operands to pass before its own."""
    return hoist(program)


def permuted(program: Program, inputs: Sequence[Var], outputs: Sequence[Atom]) -> Program:
    """The same equations with inputs and outputs in another order (outputs may also be dropped or repeated)."""
    return program.replace(inputs=tuple(inputs), outputs=tuple(outputs))


def prune(program: Program, used: Sequence[bool]) -> tuple[Program, list[bool]]:
    """A Program without the outputs not used; gives which inputs it still needs, and keeps all of them."""
    return eliminate_dead(program, used)


def prune_loop(
    body: Program, carry: Sequence[bool], first: int, more: Sequence[bool] = ()
) -> tuple[Program, list[bool], list[bool]]:
    """A loop's body without the outputs not used, `carry` and `more`; which inputs, and what of the carry, it needs.

    The carry is input from the number `first` on: what an output of it needs, another iteration has to compute.
    """
    grown = list(carry)
    while True:
        used = grown
        pruned, live = prune(body, [*used, *more])
        grown = [a or b for a, b in zip(used, live[first : first + len(used)], strict=True)]
        if grown == used:
            return pruned, live, used


def keep_inputs(program: Program, kept: Sequence[bool]) -> Program:
    return program.replace(inputs=tuple(v for v, k in zip(program.inputs, kept, strict=True) if k))


def chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The values whose flag is set."""
    return [v for v, f in zip(values, flags, strict=True) if f]


def reduced(eqn: Eqn, inputs: Sequence[Atom], outputs: Sequence[Var], **changes: Any) -> Eqn:
    """An equation with fewer operands or results, its effects found anew."""
    params = eqn.params | changes
    effects = eqn.primitive.effects(*(a.type for a in inputs), **params)  # type: ignore[misc]
    return eqn.replace(inputs=tuple(inputs), outputs=tuple(outputs), params=params, effects=effects)


def recounted(*counts: str) -> Callable[..., dict[str, Any]]:
    """The rule `recounted` of a primitive whose operands come in groups, all but the last of which parameters count."""

    def rule(params: dict[str, Any], widths: Sequence[int]) -> dict[str, Any]:
        params, start = dict(params), 0
        for name in counts:
            n = params[name]
            params[name] = sum(widths[start : start + n])
            start += n
        return params

    return rule


def shifted(effects: Effects, offset: int, start: int = 0) -> Effects:
    """Effects of an inner Program as those of its equation: input `i >= start` is operand `i + offset`."""
    return frozenset(
        Effect(e.kind, e.operand + offset) if isinstance(e.operand, int) and e.operand >= start else e for e in effects
    )


# ---------------------------------------------------------------------------- types


def same_type(a: Type, b: Type) -> bool:
    return a is b or _bare(a) == _bare(b)


def _bare(type: Type) -> Type:
    return type.unvarying.strong() if isinstance(type, ArrayType) else type.strong()


def convert(x: Any, type: Type) -> Any:
    """A value as exactly this type; only dtype and weakness may differ."""
    if typeof(x) == type or not isinstance(type, ArrayType):
        return x
    if type.vary != typeof(x).vary:
        x = pvary(x, type.vary)
        if typeof(x) == type:
            return x
    return convert_element_type_p.bind(x, new_dtype=type.dtype, weak_type=type.weak_type)


def unchanged(init: Sequence[Any], last: Sequence[Any], before: Sequence[Var], after: Sequence[Atom]) -> list[Any]:
    """The last carry of a loop, with the first one itself where the body hands it on as it is."""
    return [x if old is new and isinstance(x, Value) else out
            for x, out, old, new in zip(init, last, before, after, strict=True)]  # fmt: skip


def with_output_types(program: Program, types: Sequence[Type]) -> Program:
    """A Program whose outputs are converted to these types, which differ in dtype or weakness only."""
    if all(a.type == t for a, t in zip(program.outputs, types, strict=True)):
        return program

    eqns, outputs = list(program.eqns), list(program.outputs)
    for i, (atom, wanted) in enumerate(zip(program.outputs, types, strict=True)):
        if atom.type != wanted and isinstance(wanted, ArrayType):
            missing = wanted.vary - atom.type.vary
            if missing:
                outputs[i] = new = Var(VaryingType(atom.type, wanted.vary))
                eqns.append(Eqn(pvary_p, [atom], [new], {"axes": ordered(missing)}))
                if new.type == wanted:
                    continue
                atom = new
            outputs[i] = new = Var(wanted)
            params = {"new_dtype": wanted.dtype, "weak_type": wanted.weak_type}
            eqns.append(Eqn(convert_element_type_p, [atom], [new], params))
    return program.replace(eqns=eqns, outputs=outputs)


def _with_input_types(program: Program, start: int, types: Sequence[Type]) -> Program:
    """A Program with inputs of these types from position `start` on; they differ from its own in weakness only."""
    inputs, eqns = list(program.inputs), []
    for i, wanted in enumerate(types, start):
        old = inputs[i]
        if old.type != wanted and isinstance(old.type, ArrayType):
            inputs[i] = new = Var(wanted)
            params = {"new_dtype": old.type.dtype, "weak_type": old.type.weak_type}
            eqns.append(Eqn(convert_element_type_p, [new], [old], params))
    return program.replace(inputs=inputs, eqns=[*eqns, *program.eqns])


def joined(types: Sequence[Type]) -> Type:
    """One type for several that differ in weakness only: as weak as the first, which is what jax does."""
    found = types[0]
    vary = frozenset().union(*(t.vary for t in types if isinstance(t, ArrayType)))
    return VaryingType(found, vary) if isinstance(found, ArrayType) and vary else found


def _settled(given: Type, found: Type) -> Type:
    if isinstance(given, ArrayType) and isinstance(found, ArrayType) and given.weak_type and given.shape == found.shape:
        dtype, weak = promote_types([given, found])
        settled = ArrayType(given.shape, dtype, weak and dtype == given.dtype, sharding=given.placed)
        return VaryingType(settled, given.vary | found.vary)
    if isinstance(given, ArrayType) and isinstance(found, ArrayType) and not found.vary <= given.vary:
        return VaryingType(given, given.vary | found.vary)
    return given


def settle(
    trace: Callable[[list[Type]], tuple[Program, list[Type]]], types: Sequence[Type], start: int = 0
) -> tuple[Program, list[Type]]:
    """Trace a loop body until the types of its carry are stable.

    `trace(types)` gives the Program, whose inputs from `start` on are the carry, and the types it returns for the
    carry. A weakly typed value takes the type that the body returns for it, as `0` does when the body adds a float; a
    dtype taken so is strong. Where weakness alone differs, the body is not traced again.
    """
    types = list(types)
    for _ in range(4):
        program, found = trace(types)
        if len(found) != len(types):
            break
        wanted = [_settled(t, f) for t, f in zip(types, found, strict=True)]
        if [t.strong() for t in wanted] == [t.strong() for t in types]:
            return _with_input_types(program, start, wanted), wanted
        types = wanted
    return program, types


def _paths(structure: PyTreeDef, name: str) -> list[str]:
    pairs = pytree.leaves_with_path(structure.unflatten(range(structure.num_leaves)))
    return [name + pytree.keystr(path) for path, _ in pairs]


def check_match(
    what: str,
    remedy: str,
    given: tuple[Any, Sequence[Type]],
    found: tuple[Any, Sequence[Type]],
    names: tuple[str, str],
    leaf: str,
) -> None:
    """Raise unless two (structure, types) agree but for weakness; the message lists each leaf that differs."""
    if given[0] != found[0]:
        raise ControlFlowTypeError(f"{what} differ in structure: {names[0]} {given[0]}, {names[1]} {found[0]}", remedy)
    paths = _paths(given[0], leaf)
    differing = [
        f"{path} is {a.show()} {names[0]} and {b.show()} {names[1]}"
        for path, a, b in zip(paths, given[1], found[1], strict=True)
        if not same_type(a, b)
    ]
    if differing:
        raise ControlFlowTypeError(f"{what} differ in type: {'; '.join(differing)}", remedy)


def known(x: ArrayLike) -> Any:
    """The concrete value of something, or None while it is only traced."""
    concrete = getattr(x, "concrete", None)
    return concrete() if concrete is not None else x


def immutable(args: Any, numbers: bool = False) -> Any:
    """A pytree with copies of its NumPy arrays, which a function that runs in Python could change in place.

    With `numbers`, Python's numbers are made arrays too, as a loop carries them.
    """
    writable = (np.ndarray, np.generic, bool, int, float, complex) if numbers else (np.ndarray, np.generic)
    return pytree.map(lambda x: as_array(x) if isinstance(x, writable) else x, args)


def flat_arguments(args: Any) -> tuple[list[Any], Any, list[Type]]:
    """The leaves, structure and types of a pytree of arrays."""
    leaves, structure = pytree.flatten(args)
    return leaves, structure, [typeof(x) for x in leaves]
