"""What can be wrong with a kernel, found before it runs: proved, refuted, or unknown.

Refuted raises an error that names operand, block, cell and bound. Maps that read prefetched data, and
grids too large to enumerate whose maps have no closed form, are unknown. Each of `CHECKS` gives findings of one kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.ir.array import Operand
from ...core.ir.program import Effect
from ...core.ir.types import FAR
from ...core.support.config import current
from ...core.support.errors import (
    InputWriteError,
    KernelError,
    OutOfBoundsError,
    PaddingError,
    RaceError,
    UncoveredOutputError,
    UninitializedError,
    UnsupportedError,
    plural,
)
from ..analysis.affine import Fact
from ..analysis.disjoint_parts import disjoint_axes
from ..analysis.facts import Analysis, analyse
from ..analysis.index_maps import block_count, cell_at, distinct, linear_index, map_of, runs_again
from ..analysis.loop_carried import only_atomic, writes
from ..analysis.poison_lattice import POISON, TAINTED
from ..analysis.ranges import wrong_places
from ..analysis.uninitialized import Leak
from ..analysis.write_conflicts import write_conflict
from ..kernel.kernel import Block, Kernel, ragged_axes
from ..transforms.desugar import desugared
from .communication import alone
from .misuse import check_aliases, check_semaphores
from .race_witness import Witness, witness

MAX_ELEMENTS, MAX_BLOCKS = 1 << 20, 4096  # of an output whose windows are followed


@dataclass(frozen=True)
class Finding:
    """One fact about a kernel: `verdict` is "proved" or "unknown" (what is refuted is an error)."""

    what: str
    operand: str
    verdict: str
    why: str = ""


def verify(kernel: Kernel, strict: bool | None = None) -> list[Finding]:
    """Check a kernel; gives what was proved and what stays unknown, raises on what is refuted.

    With `strict` (None: as the configuration `strict_kernels` says) what is unknown is an error too.
    """
    kernel = alone(kernel)
    if kernel.cells == 0:
        _nothing_written(kernel)
        return []
    known = analyse(kernel)
    findings = None
    try:
        findings = _findings(known)
    except KernelError:
        if known.kernel is kernel:
            raise
    if findings is None:  # said of an equal kernel: say it of the lines of this one
        findings = _findings(Analysis(kernel))
    unknown = [f for f in findings if f.verdict == "unknown"]
    if unknown and (current().strict_kernels if strict is None else strict):
        f = unknown[0]
        raise kernel.error(KernelError, f"operand {f.operand}: {f.what} is not proved: {f.why}",
                           "leave `strict` out, or write the kernel so that it can be proved")  # fmt: skip
    return findings


def _findings(known: Analysis) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(known)]


def _nothing_written(kernel: Kernel) -> None:
    """A grid without cells writes no output: each is empty, or starts as an operand."""
    aliased = {o for _, o in kernel.aliases}
    for o, block in enumerate(kernel.outputs):
        if o not in aliased and 0 not in block.array.shape:
            raise kernel.error(UncoveredOutputError, f"the grid {kernel.grid_text} has no cells, and nothing writes "
                               f"output {block.name} of {block.array.show()}",
                               "give every axis of the grid a size, or alias the output to an operand")  # fmt: skip


_ALLOWED = frozenset({"read", "write", "accumulate", "callback", "ordered", "check", "device"})


def _language(known: Analysis) -> Sequence[Finding]:
    """A body acts on Refs, on the host and by checks, on nothing else; and on no input but to read it."""
    kernel = known.kernel
    for eqn in kernel.body.eqns:
        if any(e.kind not in _ALLOWED for e in eqn.effects):
            raise kernel.error(UnsupportedError, f"{eqn.primitive} is outside the kernel language",
                               "move it out of the body", eqn.source)  # fmt: skip
    ids, first, end = kernel.splits[:3]
    aliased = {first + i: kernel.outputs[o].name for i, o in kernel.aliases}
    for effect in kernel.body.effects:
        if effect.kind in ("write", "accumulate") and isinstance(effect.operand, int) and ids <= effect.operand < end:
            _refuse_write(kernel, effect.operand, aliased.get(effect.operand))
    return ()


def _refuse_write(kernel: Kernel, position: int, output: str | None) -> None:
    ids, first, _ = kernel.splits[:3]
    ref = kernel.body.inputs[position]
    name = _ref_name(kernel, position)
    shown = kernel.prefetch[position - ids] if position < first else kernel.inputs[position - first].array
    remedy = f"store to {output}, the output that it is aliased to" if output is not None else (
        "store to scratch, or alias the operand to an output (`input_output_aliases`) and store to that")  # fmt: skip
    raise kernel.error(InputWriteError, f"its body writes to {name} of {shown.show()}, which is an input",
                       remedy, next(e.source for e in kernel.body.eqns if writes(e, ref)))  # fmt: skip


def _bounds(known: Analysis) -> Iterator[Finding]:
    """Each cell's blocks are at least partly in bounds."""
    return (_bounds_of(known.kernel, block) for block in known.kernel.blocks)


def _bounds_of(kernel: Kernel, block: Block) -> Finding:
    fact = map_of(kernel, block)
    if fact is None:
        return Finding("in bounds", block.name, "unknown", "the index map reads prefetched data")
    if fact.table is None:
        if fact.affine is None:
            return Finding("in bounds", block.name, "unknown", "the grid has too many cells to enumerate")
        return _bounds_affine(kernel, block, fact)
    for d, (axis, n) in enumerate(zip(block.axes, block.array.shape, strict=True)):
        wrong = ~axis.fits(axis.start(fact.table[..., d]), n)
        if wrong.any() and (n or axis.element):  # an element window stays within its stated padding
            position = np.argwhere(wrong)[0]
            _out_of_bounds(kernel, block, cell_at(kernel, fact.axes, position), fact.table[tuple(position)], d)
    return Finding("in bounds", block.name, "proved")


def _bounds_affine(kernel: Kernel, block: Block, fact: Fact) -> Finding:
    assert fact.affine is not None
    for d, n in enumerate(block.array.shape):
        terms = fact.affine.coefficients[d]
        past = block.axes[d].count(n)
        for sign in (1, -1):  # the cells with the largest and the smallest index
            ids = tuple(kernel.grid[a] - 1 if sign * terms.get(a, 0) > 0 else 0 for a in range(len(kernel.grid)))
            index = [
                c + sum(k * ids[a] for a, k in t.items())
                for c, t in zip(fact.affine.const, fact.affine.coefficients, strict=True)
            ]
            if index[d] < 0 or (n and index[d] >= past):
                _out_of_bounds(kernel, block, ids, index, d)
    return Finding("in bounds", block.name, "proved")


def _reads_of_maps(known: Analysis) -> Iterator[Finding]:
    """No index map reads a prefetched operand outside of it."""
    kernel = known.kernel
    for block in kernel.blocks:
        for position, place in () if block.index_map is None else wrong_places(kernel, block.index_map):
            name, shape = _ref_name(kernel, position), kernel.body.inputs[position].type.shape
            if place is None:
                yield Finding("index map reads in bounds", block.name, "proved")
                continue
            if place.sure and not kernel.extents:
                n = shape[place.axis]
                raise kernel.error(OutOfBoundsError, f"operand {block.name}: in cell {place.cell} its index map reads "
                                   f"{name} at {place.first} along axis {place.axis}, which has {plural(n, 'element')}",
                                   f"keep the place from 0 to {n - 1}, or pass a longer "
                                   "operand", place.eqn.source or kernel.source)  # fmt: skip
            yield Finding("index map reads in bounds", block.name, "unknown",
                          f"a place along axis {place.axis} of {name} is not known to lie within")  # fmt: skip


def _out_of_bounds(kernel: Kernel, block: Block, cell: tuple[int, ...], index: Operand, axis: int) -> None:
    n, cut = block.array.shape[axis], block.axes[axis]
    (low, high), start = cut.padding, cut.start(int(index[axis]))
    wanted = f"keep block indices along axis {axis} from 0 to {max(cut.count(n) - 1, 0)}: the grid is "
    counts = "" if cut.step == 1 or not 0 <= int(index[axis]) < n else "; an index counts blocks, not elements"
    padded = f", with {low} before it and {high} after it: indices count from the first of those" if low or high else ""
    raise kernel.error(
        OutOfBoundsError, f"operand {block.name} of {block.array.show()}: in cell {cell} the index map gives block "
        f"{tuple(int(i) for i in index)}; along axis {axis} that is elements {start} to {start + cut.size - 1}, but "
        f"the operand has {n}{padded}", f"{wanted}{kernel.grid_text}{counts}")  # fmt: skip


def _outputs(known: Analysis) -> Iterator[Finding]:
    """Each output is written without races, and wholly."""
    for number, block in enumerate(known.kernel.outputs):
        yield _order(known.kernel, block)
        yield coverage(known, number, block)


def _order(kernel: Kernel, block: Block) -> Finding:
    """Each output block is written in one run of cells, and by no two cells of a parallel axis."""
    number = kernel.outputs.index(block)
    if block.space in FAR or only_atomic(kernel, number):
        meet = tuple(a for a in kernel.long_axes if a not in disjoint_axes(kernel, number))
        if not meet:
            return Finding("free of races", block.name, "proved")
        why = f"cells reach parts of it by themselves, which may overlap along grid axes {meet}"
        return Finding("free of races", block.name, "unknown", why)
    fact = map_of(kernel, block)
    if fact is None or fact.table is None:
        return Finding("free of races", block.name, "unknown", "the index map is not known")
    met = write_conflict(kernel, fact)
    if met is not None:
        raise kernel.error(
            RaceError, f"cells {met.cells[0]} and {met.cells[1]} both write block {met.index} of output {block.name}, "
            f"and axis {met.axes[0]} of the grid {kernel.grid_text}, on which they differ, is declared parallel",
            f'declare axis {met.axes[0]} "arbitrary", let the index map of {block.name} tell the two cells apart, or '
            'update it by atomic operations of the scope "gpu" alone')  # fmt: skip
    if block.index_map is not None and any(block.element):
        return Finding("free of races", block.name, "unknown", "blocks that begin at any element may overlap")
    again = runs_again(kernel, fact)
    if again is not None:
        raise kernel.error(RaceError, f"cell {again} of the grid {kernel.grid_text} comes back to a block of output "
                           f"{block.name} that earlier cells have left",
                           "put the grid axes that the output's index map ignores last, so that the cells of a block "
                           "are one run")  # fmt: skip
    return Finding("free of races", block.name, "proved")


def _places(known: Analysis) -> Iterator[Finding]:
    """Unmasked accesses at computed indices are in bounds."""
    kernel = known.kernel
    for position, place in known.places:
        name = _ref_name(kernel, position)
        if place is None:
            yield Finding("places in bounds", name, "proved")
            continue
        if place.sure and not kernel.extents and not kernel.interpret:  # interpreted, the access itself says it
            shape = kernel.body.inputs[position].type.shape
            raise kernel.error(
                OutOfBoundsError, f"in cell {place.cell} its body accesses {name}, of which it sees {shape}, from "
                f"{place.first} along axis {place.axis}: that is not within the {shape[place.axis]} elements there",
                "keep the place within the block, or mask the access: `load(ref, index, mask=..., "
                "other=...)`", place.eqn.source)  # fmt: skip
        why = f"a place along axis {place.axis} is not known to lie within"
        yield Finding("places in bounds", name, "unknown", why)


def _ref_name(kernel: Kernel, position: int) -> str:
    ids, first, _, scratch, _ = kernel.splits
    if position < first:
        return f"prefetched operand {position - ids - len(kernel.computed)}"
    return kernel.blocks[position - first].name if position < scratch else f"scratch {kernel.scratch_name(position)}"


def _memory(known: Analysis) -> Iterator[Finding]:
    """No output depends on poison: neither on ragged tails of operands, nor on unwritten memory."""
    for number, leak in known.leaks.ragged.items():
        yield _padding(known.kernel, known.kernel.inputs[number], leak)
    yield from _unwritten(known.kernel, known.leaks.unwritten)


def _shown(leak: Leak) -> str:
    """Where what is unspecified comes out first."""
    if leak.witness is None:
        return ""
    element = "" if leak.witness.element is None else f"{list(leak.witness.element)}"
    return f"{element} in cell {leak.witness.cell}"


def _past(kernel: Kernel, block: Block, leak: Leak) -> int:
    """The axis along which the block of the cell that shows it ends past its operand."""
    axes, fact = ragged_axes(block), map_of(kernel, block)
    if leak.witness is None or fact is None or fact.table is None:
        return axes[0]
    index = fact.table[tuple(leak.witness.cell[a] for a in fact.axes)]
    ends = index * np.array(block.steps) + np.array(block.sizes)
    return next((d for d in axes if ends[d] > block.array.shape[d]), axes[0])


def _padding(kernel: Kernel, block: Block, leak: Leak) -> Finding:
    if leak.level == TAINTED:
        d = _past(kernel, block, leak)
        raise kernel.error(
            PaddingError, f"operand {block.name} of {block.array.show()} ends within a block of {block.sizes} along "
            f"axis {d}, and what the block holds past the end reaches output {leak.output}{_shown(leak)}: it is "
            "unspecified",
            f"give {block.name} a `BlockSpec(..., fill=0)`, or mask it: `where(place < {block.array.shape[d]}, x, "
            "0)`", leak.eqn and leak.eqn.source)  # fmt: skip
    why = "what lies past its end may reach an output: `fill=` says what it is"
    return Finding("padding unread", block.name, *(("unknown", why) if leak.level else ("proved",)))


def _unwritten(kernel: Kernel, leak: Leak) -> Iterator[Finding]:
    name = "a copy that nothing has waited for"
    if leak.read is not None:
        shown = kernel.body.inputs[leak.read].type.array.show()
        name = f"{'output ' * (leak.read < kernel.splits[3])}{_ref_name(kernel, leak.read)} of {shown}"
    if leak.level >= POISON and not kernel.interpret:  # interpreted, poison shows it
        raise kernel.error(UninitializedError, f"{name} is read, or added to, before anything is written there, and "
                           f"what it holds reaches output {leak.output}{_shown(leak)}: it is unspecified",
                           "set it in the first cell that sees it, `@when(program_id(axis) == 0)`, or wait for the "
                           "copy", leak.eqn and leak.eqn.source)  # fmt: skip
    if leak.level:
        why = f"{name} may be read before it is written" if leak.output else "there are too many cells to follow"
        yield Finding("written before it is read", leak.output or kernel.name, "unknown", why)


def _carries(known: Analysis) -> Iterator[Finding]:
    """No axis along which scratch stays live is declared parallel."""
    given, semantics = known.kernel, known.kernel.semantics
    if semantics is None or "parallel" not in semantics:
        return
    kernel = desugared(given)
    time = analyse(kernel)
    for number, ref in enumerate(kernel.body.inputs[kernel.splits[3] :]):
        shown, position = kernel.scratch[number].array.show(), kernel.splits[3] + number
        name = given.scratch_name(given.body.inputs.index(ref)) if ref in given.body.inputs else str(number)
        sure = time.carry_of(position, hopeful=True)
        carried = [axis for axis in time.carry_of(position) if semantics[axis] == "parallel"]
        shows = witness(kernel, ref, [a for a, s in enumerate(semantics) if s == "parallel"]) if carried else None
        for axis in carried if shows is None else ():
            why = "data decides where it is overwritten" if axis not in sure else "it may be read before it is set"
            yield Finding("carried along no parallel axis", f"scratch {name}", "unknown",
                          f"{why} along axis {axis}, which is declared parallel")  # fmt: skip
        if shows is not None:
            raise _carried(kernel, f"scratch {name} of {shown}", name, shows)


def _carried(kernel: Kernel, scratch: str, name: str, shows: Witness) -> RaceError:
    """What to say of scratch that parallel cells share, as two of them show."""
    assert kernel.semantics is not None
    pairs = enumerate(zip(shows.reader, shows.writer, kernel.semantics, strict=True))
    axis = next(a for a, (r, w, s) in pairs if r != w and s == "parallel")
    source = shows.write.source
    return kernel.error(
        RaceError, f"{scratch} carries values from cell to cell along axis {axis} of the grid "
        f"{kernel.grid_text}, which is declared parallel: cell {shows.reader} reads {name}{list(shows.element)}, which "
        f"cell {shows.writer} was the last to write{'' if source is None else f' (line {source.line})'}",
        f'declare axis {axis} "arbitrary", or overwrite the scratch in every cell before it is read',
        shows.read.source)  # fmt: skip


def _sequences(known: Analysis) -> Sequence[Finding]:
    """Semaphores and aliased operands whose misuse is sure."""
    check_semaphores(known.kernel)
    check_aliases(known.kernel)
    return ()


def _blocks_of(kernel: Kernel, fact: Fact, cells: np.ndarray | None) -> np.ndarray:
    """The numbers of the blocks of an output that some cells (None: all) see."""
    assert fact.table is not None
    numbers = linear_index(fact.table)
    if cells is None:
        return numbers
    others = tuple(axis for axis in range(len(kernel.grid)) if axis not in fact.axes)
    return numbers[np.broadcast_to(cells.any(axis=others), numbers.shape)]


def _missing(block: Block, fact: Fact, numbers: np.ndarray) -> str:
    """The first block that no cell writes."""
    assert fact.table is not None
    rows = fact.table.reshape(-1, block.array.ndim)
    seen = {tuple(r) for r in rows[np.isin(linear_index(fact.table).reshape(-1), numbers)].tolist()}
    counts = [-(-n // s) for n, s in zip(block.array.shape, block.sizes, strict=True)]
    first = next((index for index in np.ndindex(*counts) if index not in seen), None)
    return "" if first is None else f", not block {first}"


def _enough(kernel: Kernel, fact: Fact, blocks: int) -> str:
    """What writes more blocks: more cells, another index map, or the body where both reach them all."""
    if math.prod(kernel.grid) < blocks:
        return "enlarge the grid"
    if fact.table is not None and distinct(linear_index(fact.table)).size < blocks:
        return "have the index map give other cells other blocks"
    return "store in the other cells too"


def coverage(known: Analysis, number: int, block: Block) -> Finding:
    """Whether an output is wholly written, or starts as an operand; an `UncoveredOutputError` where it is not."""
    kernel = known.kernel
    if 0 in block.array.shape or block.loose:
        return Finding("wholly written", block.name, "proved")
    aliased = any(o == number for _, o in kernel.aliases)
    _, _, inputs, _, _ = kernel.splits
    if not aliased and not any(Effect(k, inputs + number) in kernel.body.effects for k in ("write", "accumulate")):
        raise kernel.error(UncoveredOutputError, f"its body never writes output {block.name} of {block.array.show()}",
                           f"store to it, `{block.name}[...] = value`, or leave it out of `out_shape`")  # fmt: skip
    fact = map_of(kernel, block)
    if aliased:
        return Finding("wholly written", block.name, "proved", "it starts as an operand")
    if fact is None or fact.table is None:
        return Finding("wholly written", block.name, "unknown", "the index map is not known")
    if any(axis in kernel.computed for axis in fact.axes):
        return Finding("wholly written", block.name, "unknown", "the size of a grid axis is traced")
    if any(block.element):
        return _windows(known, number, block, fact)
    wanted = block_count(block)
    numbers = distinct(_blocks_of(kernel, fact, known.written(inputs + number)))
    if numbers.size < wanted:
        missing = _missing(block, fact, numbers)
        raise kernel.error(
            UncoveredOutputError, f"the cells of the grid {kernel.grid_text} write {numbers.size} of the {wanted} "
            f"blocks of output {block.name} of {block.array.show()} (blocks of {block.sizes}){missing}",
            f"{_enough(kernel, fact, wanted)}, or alias the output to an operand that holds the rest")  # fmt: skip
    if distinct(_blocks_of(kernel, fact, known.filled(inputs + number))).size < wanted:
        return Finding("wholly written", block.name, "unknown", "no cell is known to store to the whole of some block")
    return Finding("wholly written", block.name, "proved")


def _windows(known: Analysis, number: int, block: Block, fact: Fact) -> Finding:
    """Whether blocks that begin at any element are all of an output."""
    kernel, position = known.kernel, known.kernel.splits[2] + number
    reached = _reached(kernel, block, fact, known.written(position))
    if reached is None:
        return Finding("wholly written", block.name, "unknown", "there are too many elements or blocks to follow")
    if not reached.all():
        first = tuple(int(i[0]) for i in np.nonzero(~reached))
        raise kernel.error(
            UncoveredOutputError, f"no cell of the grid {kernel.grid_text} writes a block that holds element {first} "
            f"of output {block.name} of {block.array.show()} (blocks of {block.sizes}, by their first elements)",
            "have the index map give the first elements of blocks that are all of it, or enlarge the grid")  # fmt: skip
    filled = _reached(kernel, block, fact, known.filled(position))
    if filled is None or not filled.all():
        return Finding("wholly written", block.name, "unknown", "no cell is known to store to the whole of some block")
    return Finding("wholly written", block.name, "proved")


def _reached(kernel: Kernel, block: Block, fact: Fact, cells: np.ndarray | None) -> np.ndarray | None:
    """The elements of an output that the blocks of some cells (None: all) hold; None where that is too much to tell."""
    assert fact.table is not None
    numbers = distinct(_blocks_of(kernel, fact, cells))
    if block.array.size > MAX_ELEMENTS or numbers.size > MAX_BLOCKS:
        return None
    seen = fact.table[np.isin(linear_index(fact.table), numbers)]
    out = np.zeros(block.array.shape, bool)
    for index in np.unique(seen.reshape(-1, block.array.ndim), axis=0):
        starts = [(a.start(int(i)), a.size) for i, a in zip(index, block.axes, strict=True)]
        out[tuple(slice(max(start, 0), max(start + n, 0)) for start, n in starts)] = True
    return out


CHECKS: tuple[Callable[[Analysis], Iterable[Finding]], ...] = (
    _language, _reads_of_maps, _bounds, _outputs, _carries, _sequences, _places, _memory,
)  # fmt: skip
