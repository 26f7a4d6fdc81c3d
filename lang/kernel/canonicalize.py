"""Bodies in the form that analyses expect: no calls around Ref accesses, `r[i] = r[i] + u` as `r[i] += u`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ...core.ir.passes import eliminate_dead, substitute, within
from ...core.ir.program import Atom, Eqn, Program, Var
from ...core.ir.types import ArrayType, RefType
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.custom.checkpoint import checkpoint_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p
from ...core.primitives.elementwise.arithmetic import add_any_p, add_p
from ...core.primitives.movement.shape import broadcast_in_dim_p
from ...core.primitives.refs.state_primitives import access_shape, addupdate_p, get_p, swap_p
from .traverse import equation

_CALLS = (jit_p, custom_jvp_call_p, checkpoint_p)


def touches_refs(eqn: Eqn) -> bool:
    """Whether an equation takes Refs."""
    return any(isinstance(a.type, RefType) for a in eqn.inputs)


def normalize(program: Program) -> Program:
    """Inline calls that take Refs, make accumulations explicit, drop what nothing uses, in loops too."""
    program = inline_calls(program, lambda e: e.primitive in _CALLS and touches_refs(e))
    eqns = [within(e, normalize) if touches_refs(e) else e for e in program.eqns]
    program = program.replace(eqns=accumulations(eqns, program.outputs))
    return eliminate_dead(program)[0]


def inline_calls(program: Program, wanted: Callable[[Eqn], bool]) -> Program:
    """The Program with the calls in it that are wanted replaced by their equations, variables renamed."""
    return replaced(program, lambda e: inline_calls(e.params["program"], wanted) if wanted(e) else None)


def replaced(program: Program, meaning: Callable[[Eqn], Program | None]) -> Program:
    """The Program with the equations of a Program in place of each equation that `meaning` gives one for."""
    found = list(map(meaning, program.eqns))
    if all(inner is None for inner in found):
        return program
    eqns: list[Eqn] = []
    constants, values = list(program.constants), list(program.values)
    env: dict[Var, Atom] = {}
    for eqn, inner in zip(program.eqns, found, strict=True):
        eqn = substitute(eqn, env)
        if inner is None:
            eqns.append(eqn)
            continue
        inner = rename(inner, eqn.inputs)
        constants += inner.constants
        values += inner.values
        eqns += inner.eqns
        env.update(zip(eqn.outputs, inner.outputs, strict=True))
    outputs = [env.get(a, a) if type(a) is Var else a for a in program.outputs]
    return program.replace(eqns=eqns, outputs=outputs, constants=constants, values=values)


def rename(program: Program, inputs: Sequence[Atom]) -> Program:
    """A Program with new variables throughout, its inputs replaced by the given atoms."""
    env: dict[Var, Atom] = dict(zip(program.inputs, inputs, strict=True))
    env.update((v, Var(v.type)) for v in program.constants)
    eqns = []
    for eqn in program.eqns:
        eqn = substitute(eqn, env)
        outs = [Var(v.type) for v in eqn.outputs]
        env.update(zip(eqn.outputs, outs, strict=True))
        eqns.append(eqn.replace(outputs=tuple(outs)))
    read = [env.get(a, a) if type(a) is Var else a for a in program.outputs]
    kept = [v for v in inputs if type(v) is Var]
    constants = [env[v] for v in program.constants]
    return Program(tuple(dict.fromkeys(kept)), eqns, read, constants, program.values, program.name)  # type: ignore[arg-type]


def accumulations(eqns: Sequence[Eqn], outputs: Sequence[Atom]) -> list[Eqn]:
    """`g = r[i]; v = g + u; swap(r[i], v)` as `r[i] += u`, where nothing else reads g, v or touches r between."""
    uses = Counter(a for e in eqns for a in e.inputs if type(a) is Var)
    uses.update(a for a in outputs if type(a) is Var)
    made = {v: i for i, e in enumerate(eqns) for v in e.outputs}
    out: list[Eqn | None] = list(eqns)
    extra: dict[int, list[Eqn]] = {}
    for j, eqn in enumerate(eqns):
        found = _accumulation(eqns, j, made, uses)
        if found is not None:
            (h, i), addend = found
            out[h] = out[i] = None
            value, before = _spread(addend, eqn)
            extra[j] = before
            out[j] = equation(addupdate_p, (eqn.inputs[0], value, *eqn.inputs[2:]), eqn.params, eqn)
    return [e for j, one in enumerate(out) if one is not None for e in (*extra.get(j, ()), one)]


def _accumulation(eqns: Sequence[Eqn], j: int, made: dict[Var, int], uses: Counter[Var]) -> Any:
    swap = eqns[j]
    if swap.primitive is not swap_p or uses[swap.outputs[0]] or swap.params.get("masked"):
        return None
    ref, value = swap.inputs[:2]
    i = made.get(value) if type(value) is Var and uses[value] == 1 else None
    if i is None or eqns[i].primitive not in (add_p, add_any_p):
        return None
    for mine, other in (eqns[i].inputs, eqns[i].inputs[::-1]):
        h = made.get(mine) if type(mine) is Var and uses[mine] == 1 else None
        if h is None or eqns[h].primitive is not get_p or eqns[h].inputs[0] is not ref:
            continue
        same = eqns[h].params["index"] == swap.params["index"] and _same(eqns[h].inputs[1:], swap.inputs[2:])
        untouched = all(ref not in e.inputs for e in eqns[h + 1 : j])
        if same and untouched and not eqns[h].params.get("masked"):
            return (h, i), other
    return None


def _same(a: Sequence[Atom], b: Sequence[Atom]) -> bool:
    return len(a) == len(b) and all(x is y or (type(x) is type(y) and type(x) is not Var and x.key == y.key)
                                    for x, y in zip(a, b, strict=True))  # fmt: skip


def _spread(addend: Atom, swap: Eqn) -> tuple[Atom, list[Eqn]]:
    """The addend at the shape of the access, for a scalar's broadcast was implied."""
    shape = access_shape(swap.params["index"])
    if addend.type.shape == shape:
        return addend, []
    var = Var(ArrayType(shape, swap.inputs[0].type.dtype))
    params = {"shape": shape, "broadcast_dimensions": ()}
    return var, [Eqn(broadcast_in_dim_p, [addend], [var], params, source=swap.source)]
