"""What is known of the integer functions of a cell's ids: index maps, and the predicates of `when`.

    Fact ::= axes, table, affine     over the grid axes the function depends on (no others are listed)

A function of sums and constant multiples of ids is `affine`, derived symbolically. Any other
that reads ids alone is enumerated in NumPy over the axes it depends on, which is exact (and fitted, so
that a map such as `(2 * i) // 2` is affine too). What reads prefetched data is not known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Literal, Program, Var, run, subprograms
from ...core.ir.types import RefType, is_bool, is_integer
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.elementwise.arithmetic import add_p, mul_p, neg_p, sub_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.support.memo import cached
from ...core.tracing.numpy_interpreter import apply, evaluate

MAX_CELLS = 2**22


@dataclass(frozen=True, eq=False)
class Affine:
    """`const[d] + sum(coefficients[d][axis] * id[axis])` for each result `d`."""

    const: tuple[int, ...]
    coefficients: tuple[dict[int, int], ...]


@dataclass(frozen=True, eq=False)
class Fact:
    """What is known of a function of the ids.

    `axes`: the grid axes it depends on. `table[ids of those axes][d]`: its results, None where there are
    too many cells. `affine`: its closed form, None where it has none.
    """

    axes: tuple[int, ...]
    table: np.ndarray | None
    affine: Affine | None


def dependencies(program: Program, n_ids: int) -> dict[Var, frozenset[Any]]:
    """For each Var, the ids it depends on (numbers), and "data" where it depends on a Ref's content or a constant."""
    found: dict[Var, frozenset[Any]] = {v: frozenset({"data"}) for v in program.constants}
    for i, var in enumerate(program.inputs):
        found[var] = frozenset({i} if i < n_ids else {"data"})
    for eqn in program.eqns:
        union: frozenset[Any] = frozenset().union(*(found[a] for a in eqn.inputs if type(a) is Var))
        if eqn.effects:
            union |= {"data"}
        for var in eqn.outputs:
            found[var] = union
    return found


def needs_of(program: Program, n_ids: int) -> frozenset[Any]:
    """What the outputs of a Program depend on, as `dependencies` has it."""
    found = dependencies(program, n_ids)
    return frozenset().union(*(found[a] for a in program.outputs if type(a) is Var))


def slice_of(program: Program, atoms: Sequence[Any]) -> Program:
    """The part of a Program that computes these atoms."""
    live = {a for a in atoms if type(a) is Var}
    kept = []
    for eqn in reversed(program.eqns):
        if any(v in live for v in eqn.outputs):
            live.update(a for a in eqn.inputs if type(a) is Var)
            kept.append(eqn)
    return Program(program.inputs, kept[::-1], atoms, program.constants, program.values, program.name)


# ---------------------------------------------------------------------------- closed form


class _Form:
    """A symbolic integer: constant and coefficients of the inputs."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int, terms: dict[int, int]):
        self.const, self.terms = const, {k: v for k, v in terms.items() if v}


class _NotAffine(Exception):
    pass


def _add(a: _Form, b: _Form, sign: int = 1) -> _Form:
    terms = dict(a.terms)
    for k, v in b.terms.items():
        terms[k] = terms.get(k, 0) + sign * v
    return _Form(a.const + sign * b.const, terms)


def _mul(a: _Form, b: _Form) -> _Form:
    if a.terms and b.terms:
        raise _NotAffine
    scalar, form = (a.const, b) if not a.terms else (b.const, a)
    return _Form(scalar * form.const, {k: scalar * v for k, v in form.terms.items()})


_SYMBOLIC: dict[Primitive, Callable[..., _Form]] = {
    add_p: _add,
    sub_p: lambda a, b: _add(a, b, -1),
    mul_p: _mul,
    neg_p: lambda a: _add(_Form(0, {}), a, -1),
}


def _bind_form(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
    forms = [v if type(v) is _Form else _Form(int(v), {}) if np.ndim(v) == 0 else None for v in values]
    if None in forms:
        raise _NotAffine
    if eqn.primitive is jit_p:
        return run(eqn.params["program"], _bind_form, forms)
    if eqn.primitive is convert_element_type_p and is_integer(eqn.params["new_dtype"]):
        return forms
    if eqn.primitive in _SYMBOLIC:
        return [_SYMBOLIC[eqn.primitive](*forms)]
    raise _NotAffine


def closed_form(program: Program) -> list[_Form] | None:
    """The results of a Program as constants and multiples of its inputs; None where they are not that."""
    if any(isinstance(v.type, RefType) for v in program.inputs) and any(e.effects for e in program.eqns):
        return None
    args = [_Form(0, {i: 1}) for i in range(len(program.inputs))]
    try:
        outs = run(program, _bind_form, args)
        return [o if type(o) is _Form else _Form(int(o), {}) for o in outs]
    except (_NotAffine, TypeError):
        return None


# ---------------------------------------------------------------------------- enumeration


def _bind_table(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
    if eqn.primitive is jit_p:
        return run(eqn.params["program"], _bind_table, values)
    if any(True for _ in subprograms(eqn)):
        raise _NotAffine
    out = apply(eqn.primitive, values, eqn.params)
    return out if eqn.primitive.multiple else (out,)


def _evaluate(program: Program, ids: list[np.ndarray], count: int) -> list[np.ndarray]:
    """Results for all cells at once, or cell by cell where the Program is not elementwise."""
    rest = [None] * (len(program.inputs) - len(ids))
    try:
        outs = run(program, _bind_table, [*ids, *rest])
    except Exception:  # any rule may refuse arrays where it was typed for scalars
        rows = [evaluate(program, *(i[c] if i.ndim else i for i in ids), *rest) for c in range(count)]
        outs = [np.stack([r[k] for r in rows]) for k in range(len(program.outputs))]
    return [np.broadcast_to(np.asarray(o), (count,)) for o in outs]


def enumerate_over(program: Program, grid: Sequence[int], axes: Sequence[int]) -> np.ndarray | None:
    """The results at every cell of the listed axes, ids of the others 0: an array [*sizes, results]."""
    sizes = [grid[a] for a in axes]
    count = math.prod(sizes)
    if count > MAX_CELLS:
        return None
    known = dict(zip(axes, np.indices(sizes, np.int32).reshape(len(sizes), count), strict=True))
    ids = [known[a] if a in known else np.zeros(count, np.int32) for a in range(len(grid))]
    outs = _evaluate(program, ids, count)
    columns = [o.astype(np.int64) for o in outs]
    return np.stack(columns, -1).reshape(*sizes, len(outs)) if outs else np.zeros((*sizes, 0), np.int64)


def _fit(table: np.ndarray, axes: Sequence[int]) -> Affine | None:
    """The closed form of a table, if it is affine."""
    n = table.shape[-1]
    if table.size == 0 and n:
        return Affine((0,) * n, ({},) * n)
    first = table[(0,) * len(axes)]
    model = np.broadcast_to(first, table.shape).copy()
    coefficients: list[dict[int, int]] = [{} for _ in range(n)]
    for k, axis in enumerate(axes):
        size = table.shape[k]
        step = table[tuple(1 if j == k else 0 for j in range(len(axes)))] - first if size > 1 else np.zeros(n, np.int64)
        shape = [1] * len(axes) + [n]
        shape[k] = size
        model += (np.arange(size)[:, None] * step).reshape(shape)
        for d in range(n):
            if step[d]:
                coefficients[d][axis] = int(step[d])
    return Affine(tuple(map(int, first)), tuple(coefficients)) if (model == table).all() else None


def _table_of(form: Affine, grid: Sequence[int], axes: Sequence[int]) -> np.ndarray | None:
    sizes = [grid[a] for a in axes]
    if any([type(n) is not int for n in sizes]) or math.prod(sizes) > MAX_CELLS:
        return None
    out = np.zeros((*sizes, len(form.const)), np.int64) + np.asarray(form.const, np.int64)
    for d, terms in enumerate(form.coefficients):
        for axis, coefficient in terms.items():
            shape = [1] * len(axes)
            shape[axes.index(axis)] = grid[axis]
            out[..., d] += (coefficient * np.arange(grid[axis])).reshape(shape)
    return out


@cached(4096)
def facts(program: Program, grid: tuple[int, ...]) -> Fact | None:
    """What is known of a Program's integer outputs as functions of the ids, its first inputs; None if data."""
    n = len(grid)
    forms = closed_form(program) if not any(is_bool(t.dtype) for t in program.out_types) else None
    if forms is not None:
        if any(k >= n for f in forms for k in f.terms):
            return None
        # An axis of size 1 has one id, 0.
        terms = [{k: v for k, v in f.terms.items() if grid[k] != 1} for f in forms]
        axes = tuple(sorted(set(itertools.chain.from_iterable(terms))))
        form = Affine(tuple(f.const for f in forms), tuple(terms))
        return Fact(axes, _table_of(form, grid, axes), form)
    used = needs_of(program, n)
    if "data" in used:
        return None
    axes = tuple(a for a in sorted(used) if grid[a] != 1)
    table = enumerate_over(slice_of(program, program.outputs), grid, axes)
    if table is None:
        return Fact(axes, None, None)
    form = _fit(table, axes)
    if form is not None and table.size:  # drop axes that the result does not depend on
        kept = tuple(a for a in axes if any(a in c for c in form.coefficients))
        table = table[tuple(slice(None) if a in kept else 0 for a in axes)]
        axes = kept
    return Fact(axes, table, form)


@cached(4096)
def facts_of(program: Program, atoms: tuple[Any, ...], grid: tuple[int, ...]) -> Fact | None:
    """What is known of some integer values of a Program."""
    return facts(slice_of(program, atoms), grid)


def predicate(program: Program, atom: Var, grid: tuple[int, ...]) -> np.ndarray | None:
    """The integer (or boolean) value of an atom of a body at every cell, as an array that broadcasts to the grid.

    None if it is not known.
    """
    if type(atom) is Literal:
        return np.full((1,) * len(grid), np.int64(atom.value))
    found = facts_of(program, (atom,), grid)
    if found is None or found.table is None:
        return None
    shape = [grid[a] if a in found.axes else 1 for a in range(len(grid))]
    return found.table[..., 0].reshape(shape)
