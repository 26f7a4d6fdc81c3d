"""Whether a random key is used twice: the check behind `debug_key_reuse`.

A key is used up by what draws bits from it or splits it; `fold_in`, `clone` and `key_data` do not. A Program is
walked once: each key variable stands for the key that it was made from (by moving, slicing or naming it), and a second
use of the same key, or of a part and the whole of it, raises. What a loop's body uses of what it does not change counts
as often as the loop turns. Values are followed in the same way from one Program that runs to the next, where an
operation by itself is a Program of one equation.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.array import Array
from ..ir.dataflow import Body, Flow, bodies, carried
from ..ir.program import Eqn, Literal, Program, Var, subprograms
from ..ir.typeof import Value
from ..primitives.keys import threefry
from ..support.errors import KeyReuseError
from ..support.runtime import runtime
from .key_lowering import holds_keys

_SINKS = (threefry.random_bits_p, threefry.random_split_p, threefry.random_unwrap_p)
_SOURCES = (threefry.random_fold_in_p, threefry.random_clone_p, threefry.random_wrap_p, threefry.random_seed_p)
Place = tuple[Any, ...]  # the variable that a key came from, and the steps to it


def _fault(what: str, source: Any = None) -> KeyReuseError:
    return KeyReuseError(f"a random key is used twice: {what}", "`random.split` it, or `random.clone` it where that is "
                         "what you want", source)  # fmt: skip


class _Walk:
    """The keys of one Program, and those of them that are used up."""

    def __init__(self) -> None:
        self.places: dict[Var, Place] = {}
        self.used: dict[Place, Any] = {}

    def place(self, atom: Var) -> Place:
        return self.places.get(atom, (atom,))

    def use(self, place: Place, source: Any, times: int | None = 1) -> None:
        for other in self.used:
            if _meet(other, place):
                raise _fault(f"first at {self.used[other]}, then again", source)
        if times is None or times > 1:
            raise _fault(f"the loop around it runs {'many' if times is None else times} times", source)
        self.used[place] = source

    def equation(self, eqn: Eqn) -> None:
        if eqn.primitive in _SINKS:
            if type(eqn.inputs[0]) is not Literal:
                self.use(self.place(eqn.inputs[0]), eqn.source)
        elif any(True for _ in subprograms(eqn)):
            self.programs(eqn)
        elif eqn.primitive not in _SOURCES:
            keys = [a for a in eqn.inputs if holds_keys(a.type)]
            others = (a for a in eqn.inputs if not holds_keys(a.type))
            step = (eqn.primitive, repr(eqn.params), *(repr(a.value) if type(a) is Literal else a for a in others))
            for var in eqn.outputs:
                if len(keys) == 1 and holds_keys(var.type):
                    self.places[var] = (*self.place(keys[0]), step)

    def programs(self, eqn: Eqn) -> None:
        found = [(body, self.inner(body)) for body in _bodies(eqn)]
        if eqn.primitive.choice:
            places = {place for _, inner in found for place, _ in inner}
            for place in sorted(places, key=len):
                if not any(_meet(other, place) for other in places if len(other) < len(place)):
                    self.use(place, eqn.source)
            return
        for body, inner in found:
            once = {*carried(body), *(b for _, b, ahead in body.taken if ahead)}
            for place, var in inner:
                self.use(place, eqn.source, 1 if var in once else body.times)

    def inner(self, body: Body) -> list[tuple[Place, Var]]:
        """What a Program uses up of what it takes, and of which of its inputs that is."""
        given = {b: a for a, b, _ in body.taken if type(b) is Var}
        places = [place for place in _walked(body.program).used if type(given.get(place[0])) is Var]
        return [((*self.place(given[place[0]]), *(_told(given, step) for step in place[1:])), place[0])
                for place in places]  # fmt: skip


def _bodies(eqn: Eqn) -> list[Body]:
    """The Programs that run on an equation's keys; those of which nothing is known take its last operands."""
    found = bodies(eqn)
    if found:
        return [body for body in found if body.given or not eqn.outputs]
    return [Body(p, [Flow(a, b, 0) for a, b in zip(reversed(eqn.inputs), reversed(p.inputs), strict=False)], [])
            for _, p in subprograms(eqn)]  # fmt: skip


def _meet(one: Place, other: Place) -> bool:
    """Whether two places are the same, or one is a part of the other."""
    n = min(len(one), len(other))
    return one[:n] == other[:n]


def _told(given: dict[Var, Any], step: Sequence[Any]) -> tuple[Any, ...]:
    """A step by what its variables are outside of a Program: one that the Program makes itself is like no other."""
    return tuple(given.get(part, object()) if type(part) is Var else part for part in step)


def _walked(program: Program) -> _Walk:
    walk = _Walk()
    for eqn in program.eqns:
        walk.equation(eqn)
    return walk


def consumed(program: Program) -> frozenset[int]:
    """The inputs of a Program whose keys it uses up. Raises `KeyReuseError` where it uses one twice."""
    roots = {place[0] for place in _walked(program).used}
    return frozenset(i for i, var in enumerate(program.inputs) if var in roots)


# ---------------------------------------------------------------------------- keys that are values


class _Origin:
    """An array of keys with its own storage: which of its parts were consumed, and by what."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used: dict[Place, str] = {}


# Where keys that are values came from, an origin and the steps to them: by address, as long as they live.
_places: dict[int, Any] = runtime.part("key_reuse.places", {})


def ran(program: Program, values: Sequence[Any], results: Sequence[Any], by: str) -> None:
    """Note which keys a Program used up that ran on values. Raises `KeyReuseError` for one that was used up before."""
    walk = _walked(program)
    given = dict(zip(program.inputs, values, strict=True))
    told = {var: np.asarray(x).tobytes() for var, x in given.items() if not holds_keys(var.type)}
    known = {var: _place_of(x) for var, x in given.items() if isinstance(x, Value) and holds_keys(x.aval)}

    def absolute(place: Place) -> Place:
        return (*known[place[0]], *(_told(told, step) for step in place[1:]))

    for place in walk.used:
        if place[0] in known:
            origin, *steps = absolute(place)
            _use(origin, tuple(steps), by)
    for atom, result in zip(program.outputs, results, strict=True):
        place = walk.place(atom)
        if place[0] in known:
            _keep(result, absolute(place))


def _use(origin: _Origin, steps: Place, by: str) -> None:
    for other, first in origin.used.items():
        if _meet(other, steps):
            raise _fault(f"by {first}, then by {by}")
    origin.used[steps] = by


def _place_of(key: Array) -> Place:
    known = _places.get(id(key))
    if known is None or known[0]() is not key:
        known = _keep(key, (_Origin(),))
    return known[1]


def _keep(key: Array, place: Place) -> Any:
    known = _places[id(key)] = (weakref.ref(key, functools.partial(_forget, id(key))), place)
    return known


def _forget(address: int, _: object) -> None:
    _places.pop(address, None)
