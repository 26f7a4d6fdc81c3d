"""How a kernel may be split over the devices of a mesh, from its index maps.

A grid axis may be split where every output follows it along one dimension, block by block: each device computes its
own part of the results. An axis that carries sums alone may be split too: each device adds up its cells, and the sums
of the devices are added (`lang/transforms/split_reduction.py`). An operand's index map decides how it is split: where
each cell's elements are next to those of the previous cell, each device takes its part of them and a halo of its
neighbours' (`per_device.py`). Any other operand is replicated.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...core.ir.passes import eliminate_dead
from ...core.ir.program import Var
from ...core.primitives.refs.state_primitives import get_p
from ...core.support.memo import cached
from ..analysis.affine import dependencies, facts_of
from ..analysis.facts import analyse
from ..kernel.kernel import Block, Kernel
from ..transforms.desugar import desugared
from ..transforms.split_reduction import sums
from ..verify.communication import communicates
from .custom_rule import Partition

if TYPE_CHECKING:
    from ...core.support.pytree import PyTree

Keys = tuple[Hashable | None, ...]


@dataclass(frozen=True, eq=False)
class Dim:
    """A dimension of a block that follows a grid axis: from cell to cell it goes on by `step` elements.

    Cell i sees the elements from `low` to `high`: of every cell, or where they are ints, counted from `step * i`.
    """

    axis: int
    step: Fraction
    low: Any
    high: Any

    @property
    def adjacent(self) -> bool:
        """Whether the cells' elements are adjacent, the first cell's at the beginning."""
        return type(self.low) is int and self.low == 0 and self.high == self.step


Dims = tuple[Dim | None, ...]


@dataclass(frozen=True)
class Splits:
    """What may be split: grid axes, or the names of a user's rule; and what each dimension follows of these.

    Along those in `summed` the kernel adds up. What has a rule is split where sizes divide, or else, where `fills` says
    which value pads each operand, anywhere but where `exact` has the multiple that each part's size must be. Those in
    `first` are split as operands are, before those of results.
    """

    sizes: Mapping[Hashable, int]
    ins: tuple[Keys, ...]
    outs: tuple[Keys, ...]
    summed: frozenset[Hashable] = frozenset()
    rule: Partition | None = None
    fills: tuple[Any, ...] | None = None
    first: frozenset[Hashable] = frozenset()
    exact: Mapping[Hashable, int] = field(default_factory=dict)

    def splits_into(self, key: Hashable, parts: int) -> bool:
        """Whether what has this name can be split into so many parts."""
        size, divided = self.sizes[key], self.rule is not None and self.fills is None
        if divided or key in self.exact:
            return size % (parts * self.exact.get(key, 1)) == 0
        return size >= parts


@cached(512)
def splits(kernel: Kernel) -> Splits | str:
    """How a kernel may be split, or why it may not."""
    if kernel.interpret:
        return "it is interpreted"
    if kernel.symbolic:
        return "its sizes are symbolic"
    if communicates(kernel):
        return "it speaks of devices"
    stuck: dict[int, str] = {a: "its size is computed" for a in kernel.computed}
    ins, outs = dims_of(kernel)
    for block, dims in zip(kernel.outputs, outs, strict=True):
        _fix_output(kernel, block, dims, stuck)
    for i, o in kernel.aliases:
        for a, b in zip(ins[i], outs[o], strict=True):
            if a is not b and not (a and b and a.axis == b.axis and a.adjacent and b.adjacent and a.step == b.step):
                for dim in (a, b):
                    if dim is not None:
                        why = f"{kernel.outputs[o].name} starts as an operand whose blocks lie otherwise"
                        stuck.setdefault(dim.axis, why)
    carry = analyse(kernel).carry
    followed = [{d.axis for d in dims if d is not None} for dims in outs]
    why = _unsummable(kernel) if any(a not in stuck for a in carry) else ""
    given = {d.axis for dims in ins for d in dims if d is not None}
    for a, size in enumerate(kernel.grid):
        if size < 2:
            stuck.setdefault(a, "one cell")
        elif a in carry and a not in given:
            stuck.setdefault(a, "no operand follows it")
        elif a in carry and why:
            stuck.setdefault(a, why)
        elif a in carry and any(a in axes for axes in followed):
            stuck.setdefault(a, "an output follows an axis along which sums are carried")
        elif a not in carry and not all(a in axes for axes in followed):
            stuck.setdefault(a, "not every output follows it")
    free = [a for a in range(len(kernel.grid)) if a not in stuck]
    if not free:
        reasons = "; ".join(f"axis {a} of its grid: {why}" for a, why in sorted(stuck.items()) if why != "one cell")
        return reasons or "its grid has one cell"

    def keys(dims: Dims) -> Keys:
        return tuple(d.axis if d is not None and d.axis in free else None for d in dims)

    told = [tuple(a if a in free else None for a in axes) for axes in _read_at(kernel)]
    return Splits({a: kernel.grid[a] for a in free}, (*told, *map(keys, ins)), tuple(map(keys, outs)),
                  frozenset(free) & {*carry})  # fmt: skip


def ruled(rule: Partition, in_types: Sequence[Any], out_types: Sequence[Any]) -> Splits:
    """What may be split by a rule, for operands and results of some types."""
    return Splits(rule.sizes(in_types, out_types), rule.ins, rule.outs, frozenset(rule.summed), rule)


def _read_at(kernel: Kernel) -> list[list[int | None]]:
    """For each dimension of what is prefetched, the grid axis at whose number index maps read it.

    Each device needs all of it; but where it is split, so should be that axis.
    """
    found: list[list[int | None]] = [[None] * t.ndim for t in kernel.prefetch]
    for program in [b.index_map for b in kernel.blocks if b.index_map is not None]:
        ids, refs = program.inputs[: len(kernel.grid)], program.inputs[len(kernel.grid) :]
        for eqn in program.eqns:
            if eqn.primitive is not get_p or eqn.inputs[0] not in refs:
                continue
            dims = found[refs.index(eqn.inputs[0])]
            for d, given in zip(eqn.params["index"].dynamic, eqn.inputs[1:]):
                if given in ids and ids.index(given) not in dims:
                    dims[d] = ids.index(given)
    return found


def _unsummable(kernel: Kernel) -> str:
    """Why what a kernel carries cannot be summed over devices; "" if it can."""
    found = sums(kernel)
    return found if isinstance(found, str) else ""


# ---------------------------------------------------------------------------- what dimensions follow


@cached(512)
def dims_of(kernel: Kernel) -> tuple[tuple[Dims, ...], tuple[Dims, ...]]:
    """The grid axis that each dimension of each input and output follows."""
    carry = analyse(kernel).carry
    return (tuple(_dims(kernel, b, carry) for b in kernel.inputs),
            tuple(_dims(kernel, b, carry) for b in kernel.outputs))  # fmt: skip


def _dims(kernel: Kernel, block: Block, carry: PyTree) -> Dims:
    found: list[Dim | None] = []
    for d in range(block.array.ndim):
        dim = None if block.index_map is None or 0 in block.sizes else _dim(kernel, block, d, carry)
        found.append(None if dim and any(o and o.axis == dim.axis for o in found) else dim)
    return tuple(found)


def _dim(kernel: Kernel, block: Block, d: int, carry: PyTree) -> Dim | None:
    assert block.index_map is not None
    fact = facts_of(block.index_map, (block.index_map.outputs[d],), kernel.grid)
    if fact is None or not fact.axes:
        return None
    unit, size, n = block.steps[d], block.sizes[d], block.array.shape[d]
    before = block.padding[d][0]
    if fact.affine is not None:
        by = {a: k * unit for a, k in fact.affine.coefficients[0].items()}
        axis = max(by, key=lambda a: (by[a] > 0, a not in carry, by[a] * kernel.grid[a]))
        ends = [k * (kernel.grid[a] - 1) for a, k in by.items() if a != axis]
        first = fact.affine.const[0] * unit - before
        low, high = first + sum(e for e in ends if e < 0), first + sum(e for e in ends if e > 0) + size
        return Dim(axis, Fraction(by[axis]), low, high) if by[axis] > 0 else None
    if fact.table is None or len(fact.axes) > 1:
        return None
    axis, at = min(fact.axes), fact.table[..., 0] * unit - before
    return Dim(axis, Fraction(-(-n // unit) * unit, kernel.grid[axis]), at, at + size)


def _fix_output(kernel: Kernel, block: Block, dims: Dims, stuck: dict[int, str]) -> None:
    """The axes that an output keeps from being split."""
    if block.index_map is None:
        return
    needs = dependencies(block.index_map, len(kernel.grid))
    for d, (atom, dim) in enumerate(zip(block.index_map.outputs, dims, strict=True)):
        fits = dim is not None and dim.adjacent and dim.step * kernel.grid[dim.axis] >= block.array.shape[d]
        for a in needs[atom] if type(atom) is Var else ():
            if a != "data" and kernel.grid[a] > 1 and not (fits and dim is not None and dim.axis == a):
                stuck.setdefault(a, f"the index map of {block.name} computes with it")


# ---------------------------------------------------------------------------- where the number of a cell is needed


def needs_cell_number(kernel: Kernel) -> set[int]:
    """The axes whose number in the whole grid is needed, but to tell where a sum begins and ends."""
    phases = None if kernel.extents else analyse(desugared(kernel)).phases
    programs = [kernel.body] if phases is None else [phases.init, phases.main, phases.final]
    found: set[Any] = set()
    for program in programs + [p for _, p in kernel.extents]:
        used = {x for eqn in eliminate_dead(program)[0].eqns for x in eqn.inputs} | {*program.outputs}
        found |= {a for a in range(len(kernel.grid)) if program.inputs[a] in used}
    for block, dims in zip(kernel.blocks, sum(dims_of(kernel), ()), strict=True):
        if block.index_map is None:
            continue
        needs = dependencies(block.index_map, len(kernel.grid))
        for atom, dim in zip(block.index_map.outputs, dims, strict=True):
            own = dim.axis if dim is not None and type(dim.low) is int else None
            if type(atom) is Var:
                found |= needs[atom] - {own, "data"}
    return found


# ---------------------------------------------------------------------------- Shardy's rule


def rule_text(found: Splits, in_types: Sequence[Any], out_types: Sequence[Any]) -> str:
    """Shardy's rule of a kernel: what may be split is a factor; any other dimension is one that stays whole."""
    sizes: list[int] = list(found.sizes.values())
    number = {a: i for i, a in enumerate(found.sizes)}
    whole: list[int] = []

    def tensor(shape: tuple[int, ...], keys: Keys) -> str:
        texts = []
        for n, a in zip(shape, keys, strict=True):
            if a is None:
                whole.append(len(sizes))
                sizes.append(n)
            texts.append(_symbol(whole[-1] if a is None else number[a]))
        return f"[{', '.join(texts)}]"

    ins = ", ".join(tensor(t.shape, k) for t, k in zip(in_types, found.ins, strict=True))
    outs = ", ".join(tensor(t.shape, k) for t, k in zip(out_types, found.outs, strict=True))
    shown = ", ".join(f"{_symbol(i)}={n}" for i, n in enumerate(sizes))
    kept = f" need_replication={{{', '.join(map(_symbol, whole))}}}" if whole else ""
    added = ", ".join(_symbol(number[a]) for a in found.sizes if a in found.summed)
    kept = f" reduction={{{added}}}{kept}" if added else kept
    return f"#sdy.op_sharding_rule<({ins})->({outs}) {{{shown}}}{kept}, custom>"


def _symbol(factor: int) -> str:
    letters = "ijklmnopqrstuvwxyz"
    return letters[factor] if factor < len(letters) else f"z_{factor - len(letters) + 1}"
