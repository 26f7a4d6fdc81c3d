"""How a kernel may be split over the devices of a mesh, from its index maps.

A grid axis may be split where every cell along it works for itself: the body does not ask for its number, and each
block that follows it does so along one dimension, block by block, to the array's end. Along an axis without carries
every output follows it too, so that each device computes its own part. Along one that carries sums alone each device
adds up its cells, the sums of the devices are added (`partial.py`), and what is made of them every device makes. What
the other dimensions hold every device needs whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..core.ir import Var
from ..core.rewrite import eliminate_dead
from ..core.types import ArrayType
from .analysis import analyse
from .kernel import Block, Kernel
from .partial import sums
from .plain import plain

Dims = tuple[int | None, ...]


@dataclass(frozen=True)
class Splits:
    """The grid axes that may be split, and for each dimension of each operand and result the one that it follows.

    Along the axes in `summed` the kernel adds up.
    """

    sizes: Mapping[int, int]
    ins: tuple[Dims, ...]
    outs: tuple[Dims, ...]
    summed: frozenset[int] = frozenset()


def splits(kernel: Kernel) -> Splits | str:
    """How a kernel may be split, or why it may not."""
    if kernel.prefetch or kernel.extents:
        return "its grid or its index maps follow prefetched numbers"
    if kernel.interpret:
        return "it is interpreted"
    stuck = _asked(kernel)
    followed = [_followed(kernel, block, stuck) for block in kernel.blocks]
    n, carry = len(kernel.inputs), analyse(kernel).carry
    for i, o in kernel.aliases:
        for a in {*followed[i], *followed[n + o]}:
            if a is not None and followed[i] != followed[n + o]:
                stuck.setdefault(a, f"{kernel.outputs[o].name} starts as an operand whose blocks lie otherwise")
    why = _whole_sums(kernel) if any(a not in stuck for a in carry) else ""
    for a, size in enumerate(kernel.grid):
        if size < 2:
            stuck.setdefault(a, "one cell")
        elif a in carry and why:
            stuck.setdefault(a, why)
        elif a in carry and any(a in dims for dims in followed[n:]):
            stuck.setdefault(a, "an output follows an axis along which sums are carried")
        elif a not in carry and not all(a in dims for dims in followed[n:]):
            stuck.setdefault(a, "not every output follows it")
    free = [a for a in range(len(kernel.grid)) if a not in stuck]
    if not free:
        reasons = "; ".join(f"axis {a} of its grid: {why}" for a, why in sorted(stuck.items()) if why != "one cell")
        return reasons or "its grid has one cell"
    kept = [tuple(a if a in free else None for a in dims) for dims in followed]
    return Splits({a: kernel.grid[a] for a in free}, tuple(kept[:n]), tuple(kept[n:]), frozenset(free) & {*carry})


def _asked(kernel: Kernel) -> dict[int, str]:
    """The axes whose number the body asks for, but to tell where a sum begins and ends."""
    phases = analyse(plain(kernel)).phases
    programs = [kernel.body] if phases is None else [phases.init, phases.main, phases.final]
    stuck = {}
    for program in programs:
        asked = {x for eqn in eliminate_dead(program)[0].eqns for x in eqn.inputs}
        stuck |= {a: "its body asks for its number" for a in range(len(kernel.grid)) if program.inputs[a] in asked}
    return stuck


def _followed(kernel: Kernel, block: Block, stuck: dict[int, str]) -> Dims:
    """The grid axis that each dimension of a block follows; `stuck` gets the axes that it keeps from being split."""
    if block.index_map is None:
        return (None,) * block.array.ndim
    ids = list(block.index_map.inputs[: len(kernel.grid)])
    computed = {a for eqn in block.index_map.eqns for a in eqn.inputs}
    dims = tuple(ids.index(o) if type(o) is Var and o in ids else None for o in block.index_map.outputs)
    for a, v in enumerate(ids):
        if v in computed:
            stuck.setdefault(a, f"the index map of {block.name} computes with it")
    for d, a in enumerate(dims):
        if a is None:
            continue
        if block.sizes[d] * kernel.grid[a] != block.array.shape[d]:
            stuck.setdefault(a, f"the blocks of {block.name} do not end where the array ends")
        elif block.element[d] or any(block.padding[d] if block.padding else ()):
            stuck.setdefault(a, f"the blocks of {block.name} overlap")
        elif dims.count(a) > 1:
            stuck.setdefault(a, f"two dimensions of {block.name} follow it")
    return dims


def _whole_sums(kernel: Kernel) -> str:
    """Why what a kernel carries cannot be summed over devices; "" if it can."""
    found = sums(kernel)
    return found if isinstance(found, str) else ""


def local(kernel: Kernel, parts: Mapping[int, int]) -> Kernel:
    """The kernel of one device, some of whose axes are split into parts."""
    grid = tuple(n // parts.get(a, 1) for a, n in enumerate(kernel.grid))

    def part(block: Block) -> Block:
        dims = _followed(kernel, block, {})
        pairs = zip(block.array.shape, dims, strict=True)
        shape = tuple(n if a is None else n // parts.get(a, 1) for n, a in pairs)
        return replace(block, array=ArrayType(shape, block.array.dtype))

    return kernel.replace(grid=grid, inputs=tuple(map(part, kernel.inputs)), outputs=tuple(map(part, kernel.outputs)))


def rule(kernel: Kernel, found: Splits) -> str:
    """Shardy's rule of the kernel: a split axis is a factor; what a block holds is one that stays whole."""
    sizes: list[int] = list(found.sizes.values())
    number = {a: i for i, a in enumerate(found.sizes)}
    whole: list[int] = []

    def tensor(block: Block, dims: Dims) -> str:
        texts = []
        for n, held, a in zip(block.array.shape, block.sizes, dims, strict=True):
            factors = [] if a is None else [number[a]]
            if a is None or held > 1:
                whole.append(len(sizes))
                factors.append(len(sizes))
                sizes.append(n if a is None else held)
            texts.append("".join(map(_symbol, factors)))
        return f"[{', '.join(texts)}]"

    ins = ", ".join(tensor(b, d) for b, d in zip(kernel.inputs, found.ins, strict=True))
    outs = ", ".join(tensor(b, d) for b, d in zip(kernel.outputs, found.outs, strict=True))
    shown = ", ".join(f"{_symbol(i)}={n}" for i, n in enumerate(sizes))
    kept = f" need_replication={{{', '.join(map(_symbol, whole))}}}" if whole else ""
    added = ", ".join(_symbol(number[a]) for a in sorted(found.summed))
    kept = f" reduction={{{added}}}{kept}" if added else kept
    return f"#sdy.op_sharding_rule<({ins})->({outs}) {{{shown}}}{kept}, custom>"


def _symbol(factor: int) -> str:
    letters = "ijklmnopqrstuvwxyz"
    return letters[factor] if factor < len(letters) else f"z_{factor - len(letters) + 1}"
