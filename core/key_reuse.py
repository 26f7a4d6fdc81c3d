"""Whether a random key is used twice: the check behind `debug_key_reuse`.

A key is used up by what draws bits from it, splits it or looks at its words; `fold_in` and `clone` do not. A Program is
walked once: each key variable stands for the key that it was made from (by moving, slicing or naming it), and a second
use of the same key, or of a part and the whole of it, raises. What a loop's body uses of what it does not change counts
as often as the loop turns.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

from .errors import KeyReuseError
from .ir import Eqn, Literal, Program, Var, subprograms
from .keys import holds_keys
from .primitives import random
from .primitives.cond import cond_p
from .primitives.loops import while_p
from .primitives.scan import scan_p
from .runtime import runtime
from .value import Value

_SINKS = (random.random_bits_p, random.random_split_p, random.random_unwrap_p)
_SOURCES = (random.random_fold_in_p, random.random_clone_p, random.random_wrap_p, random.random_seed_p)
Place = tuple[Any, ...]  # the variable that a key came from, and the steps to it


def _fault(what: str, source: Any = None) -> KeyReuseError:
    return KeyReuseError(f"a random key is used twice: {what}", "`random.split` it, or `random.clone` it where that is "
                         "what you want", source)  # fmt: skip


class _Walk:
    """The keys of one Program, and those of them that are used up."""

    def __init__(self) -> None:
        self.places: dict[Var, Place] = {}
        self.used: dict[Place, Any] = {}

    def place(self, atom: Any) -> Place:
        return self.places.get(atom, (atom,))

    def use(self, atom: Any, source: Any, times: int = 1) -> None:
        if type(atom) is Literal:
            return
        place = self.place(atom)
        for other in self.used:
            n = min(len(other), len(place))
            if other[:n] == place[:n]:
                raise _fault(f"first at {self.used[other]}, then again", source)
        if times > 1:
            raise _fault(f"the loop around it turns {times if times < 1 << 30 else 'many'} times", source)
        self.used[place] = source

    def equation(self, eqn: Eqn) -> None:
        if eqn.primitive in _SINKS:
            self.use(eqn.inputs[0], eqn.source)
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
        primitive, params = eqn.primitive, eqn.params
        if primitive is cond_p:
            branches = [consumed(p) for _, p in subprograms(eqn)]
            for i in sorted(set().union(*branches)):
                self.use(eqn.inputs[i + 1], eqn.source)
        elif primitive is while_p:
            self.inner(eqn, params["body_program"], 1 << 30, params["body_nconsts"])
        elif primitive is scan_p:
            for _, inner in subprograms(eqn):
                self.inner(eqn, inner, params.get("length", 1), params.get("num_consts", 0))
        else:
            for _, inner in subprograms(eqn):
                self.inner(eqn, inner)

    def inner(self, eqn: Eqn, program: Program, times: int = 1, consts: int | None = None) -> None:
        """A Program whose last inputs are the equation's last: `times` over, for the first `consts` of them."""
        shift = len(eqn.inputs) - len(program.inputs)
        for i in sorted(consumed(program)):
            repeated = times if consts is None or i < consts else 1
            if shift + i >= 0:
                self.use(eqn.inputs[shift + i], eqn.source, repeated)


def consumed(program: Program) -> frozenset[int]:
    """The inputs of a Program whose keys it uses up. Raises `KeyReuseError` where it uses one twice."""
    walk = _Walk()
    for eqn in program.eqns:
        walk.equation(eqn)
    roots = {place[0] for place in walk.used}
    return frozenset(i for i, var in enumerate(program.inputs) if var in roots)


# Keys that are values and were used up: by address, as long as they live.
_used: dict[int, Any] = runtime.part("key_reuse.used", {})


def use(keys: Sequence[Any], by: str) -> None:
    """Note that arrays of keys are used up. Raises `KeyReuseError` for one that was before."""
    for key in keys:
        if not isinstance(key, Value) or not holds_keys(key.aval):
            continue
        known = _used.get(id(key))
        if known is not None and known[0]() is key:
            raise _fault(f"by {known[1]}, then by {by}")
        forget = functools.partial(_forget, id(key))
        _used[id(key)] = (weakref.ref(key, forget), by)


def _forget(address: int, _: Any) -> None:
    _used.pop(address, None)
