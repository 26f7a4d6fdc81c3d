"""How a kernel may be split over the devices of a mesh, from its index maps.

A grid axis may be split where every cell along it works for itself: it is no carry axis, the body does not ask for its
number, and each block that follows it does so along one dimension, block by block, to the array's end. Every output
follows it, so that each device computes its own part. What the other dimensions hold every device needs whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.ir import Var
from ..core.types import ArrayType
from .analysis import analyse
from .kernel import Block, Kernel

Dims = tuple[int | None, ...]


@dataclass(frozen=True)
class Splits:
    """The grid axes that may be split, and for each dimension of each operand and result the one that it follows."""

    sizes: Mapping[int, int]
    ins: tuple[Dims, ...]
    outs: tuple[Dims, ...]


def splits(kernel: Kernel) -> Splits | None:
    """How a kernel may be split; None if it may not."""
    if kernel.prefetch or kernel.extents or kernel.aliases or kernel.interpret:
        return None
    ids = kernel.body.inputs[: len(kernel.grid)]
    asked = {a for eqn in kernel.body.eqns for a in eqn.inputs}
    free = {a for a, v in enumerate(ids) if v not in asked and kernel.grid[a] > 1} - set(analyse(kernel).carry)
    followed = []
    for block in kernel.blocks:
        dims, stuck = _followed(kernel, block)
        free -= stuck
        followed.append(dims)
    n = len(kernel.inputs)
    free = {a for a in free if all(a in dims for dims in followed[n:])}
    if not free:
        return None
    kept = [tuple(a if a in free else None for a in dims) for dims in followed]
    return Splits({a: kernel.grid[a] for a in sorted(free)}, tuple(kept[:n]), tuple(kept[n:]))


def _followed(kernel: Kernel, block: Block) -> tuple[Dims, set[int]]:
    """The grid axis that each dimension of a block follows, and the axes that this block keeps from being split."""
    if block.index_map is None:
        return (None,) * block.array.ndim, set()
    ids = list(block.index_map.inputs[: len(kernel.grid)])
    computed = {a for eqn in block.index_map.eqns for a in eqn.inputs}
    dims = tuple(ids.index(o) if type(o) is Var and o in ids else None for o in block.index_map.outputs)
    stuck = {a for a, v in enumerate(ids) if v in computed}
    for d, a in enumerate(dims):
        if a is None:
            continue
        whole = block.sizes[d] * kernel.grid[a] == block.array.shape[d]
        if not whole or block.element[d] or dims.count(a) > 1 or any(block.padding[d] if block.padding else ()):
            stuck.add(a)
    return dims, stuck


def local(kernel: Kernel, found: Splits, parts: Mapping[int, int]) -> Kernel:
    """The kernel of one device, some of whose axes are split into parts."""
    grid = tuple(n // parts.get(a, 1) for a, n in enumerate(kernel.grid))
    ins = tuple(_part(b, dims, parts) for b, dims in zip(kernel.inputs, found.ins, strict=True))
    outs = tuple(_part(b, dims, parts) for b, dims in zip(kernel.outputs, found.outs, strict=True))
    return kernel.replace(grid=grid, inputs=ins, outputs=outs)


def _part(block: Block, dims: Sequence[int | None], parts: Mapping[int, int]) -> Block:
    shape = tuple(n if a is None else n // parts.get(a, 1) for n, a in zip(block.array.shape, dims, strict=True))
    return replace(block, array=ArrayType(shape, block.array.dtype))


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
    return f"#sdy.op_sharding_rule<({ins})->({outs}) {{{shown}}}{kept}, custom>"


def _symbol(factor: int) -> str:
    letters = "ijklmnopqrstuvwxyz"
    return letters[factor] if factor < len(letters) else f"z_{factor - len(letters) + 1}"
