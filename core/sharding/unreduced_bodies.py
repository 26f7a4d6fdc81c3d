"""Unreduced arguments of a `shard_map`: dataflow analysis of its body.

A device has a part of such an argument, and the value is the sum of the parts. So until a `psum` the body may do to it
only what is linear (`unreduced_axes.py`), and a result that is still unreduced needs a spec that says so. Parts have
the type of any value that differs between devices (`core/primitives/spmd/varying_axes.py`): the analysis, a forward
one, tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dataflow import bodies, carried
from ..ir.program import Atom, Eqn, Program, subprograms
from ..ir.types import ArrayType
from ..primitives.spmd.collective import psum_p, psum_scatter_p
from ..primitives.spmd.varying_axes import psum_invariant_p, pvary_p
from ..support.errors import ShardingTypeError
from .unreduced_axes import Axes, axes_of_sum

NONE: Axes = frozenset()
REMEDY = "sum it over the devices first: `lax.psum`"
_SUMS = (psum_p, psum_invariant_p, psum_scatter_p)


def unreduced_results(program: Program, unreduced: Sequence[Axes]) -> list[Axes]:
    """The axes along which each result of a body is unreduced, its inputs being unreduced along `unreduced`.

    Raises:
      ShardingTypeError: an operation that is not linear in what is unreduced.
    """
    return _Walk(program, unreduced).results if any(unreduced) else [NONE] * len(program.outputs)


class _Walk:
    """Which variables are unreduced, and which the devices hold alike although their types vary (`pvary`)."""

    def __init__(self, program: Program, unreduced: Sequence[Axes], alike: Sequence[Axes] | None = None) -> None:
        self.parts: dict[Atom, Axes] = dict(zip(program.inputs, unreduced, strict=True))
        self.alike: dict[Atom, Axes] = dict(zip(program.inputs, alike or (), strict=alike is not None))
        for eqn in program.eqns:
            given = [self.parts.get(a, NONE) for a in eqn.inputs]
            if any(given):
                self.parts.update(zip(eqn.outputs, self.parts_of(eqn, given), strict=True))
            elif eqn.primitive is pvary_p or eqn.primitive.varies is None:
                differ = NONE.union(*map(self.differs, eqn.inputs))
                self.alike.update((v, _vary(v) - differ) for v in eqn.outputs)
        self.results = [self.parts.get(a, NONE) for a in program.outputs]

    def differs(self, atom: Atom) -> Axes:
        """The axes along which the devices' values differ."""
        return _vary(atom) - self.alike.get(atom, NONE)

    def parts_of(self, eqn: Eqn, given: Sequence[Axes]) -> Sequence[Axes]:
        primitive, types = eqn.primitive, [a.type for a in eqn.inputs]
        if primitive in _SUMS:
            return [given[0].difference(eqn.params["axes"])]
        if primitive.varies is not None and not NONE.union(*given).isdisjoint(eqn.params.get("axes", ())):
            raise _error(eqn, "it moves parts between the devices")
        if any(True for _ in subprograms(eqn)):
            return self.within(eqn)
        plain = tuple(t.unvarying if isinstance(t, ArrayType) else t for t in types)
        split = [*map(self.differs, eqn.inputs)]
        found = axes_of_sum(primitive, types, plain, eqn.params, given, split, eqn.source)
        return [found] * len(eqn.outputs)

    def within(self, eqn: Eqn) -> Sequence[Axes]:
        """Through the Programs of a call, a loop or the branches of a `cond`."""
        found: dict[Atom, Axes] = {}
        left = {a for a in eqn.inputs if self.parts.get(a)}
        for body in bodies(eqn):
            taken = [a for a, _, _ in body.taken]
            left.difference_update(taken)
            alike = [_vary(a) - self.differs(a) for a in taken]
            parts = _Walk(body.program, [self.parts.get(a, NONE) for a in taken], alike).parts
            found |= {a: parts.get(a, NONE) for a in carried(body)}
            for a, b, _ in body.given:
                if found.setdefault(a, parts.get(b, NONE)) != parts.get(b, NONE):
                    raise _error(eqn, "its branches, or a step of its loop and the values on entry, differ in that")
        if left:
            raise _error(eqn, "what it does is not known to be linear in it")
        return [found.get(v, NONE) for v in eqn.outputs]


def _vary(atom: Atom) -> Axes:
    return getattr(atom.type, "vary", NONE)


def _error(eqn: Eqn, what: str) -> ShardingTypeError:
    return ShardingTypeError(f"{eqn.primitive.name} of what is unreduced: {what}", REMEDY, eqn.source)
