"""Outputs that are too large for the caches: stores that bypass them.

A bypassing store has no effect on what the caches hold, and does not read the line that it replaces. It faults where
its address is not aligned, so a cell that has any exists twice, and takes the other form for unaligned buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lang.analysis.index_maps import map_of
from ...lang.kernel.kernel import Block, Kernel
from ..llvm.builder import Builder, Value
from ..machine.features import caches
from .expression_graph import LINE, STORED, row_major

SHARE = 8 * 2**20  # bytes of a shared cache that one core's stores are taken to keep


def uncached() -> int:
    """Bytes from which an output does not stay in the caches: what a core has of a large shared one is a small part."""
    _, second, third = caches()
    return min(third // 2, max(4 * second, SHARE))


def streamed_outputs(kernel: Kernel, carry: Sequence[int], least: int) -> frozenset[int]:
    """The outputs of at least some bytes that every cell writes a part of its own of, in whole aligned lines."""
    first = kernel.splits[2]
    reads = {e.operand - first for e in kernel.body.effects if isinstance(e.operand, int) and e.kind == "read"}
    aliased = {o for _, o in kernel.aliases}
    return frozenset(
        o for o, block in enumerate(kernel.outputs)
        if block.array.nbytes >= least and o not in reads and o not in aliased and _own(kernel, block, carry)
        and _aligned(block)
    )  # fmt: skip


def _own(kernel: Kernel, block: Block, carry: Sequence[int]) -> bool:
    """Whether no cell that runs in order after another writes the same block."""
    fact = map_of(kernel, block)
    if fact is None or fact.affine is None:
        return False
    return all(any(dict(terms).get(axis) for terms in fact.affine.coefficients) for axis in carry)


def _aligned(block: Block) -> bool:
    """Whether a block's rows start at multiples of a line where the array does."""
    if str(block.array.dtype) not in STORED or not block.array.shape:
        return False
    size, strides = block.array.dtype.itemsize, row_major(block.array.shape)
    last = len(strides) - 1
    if any(stride * size % LINE for stride in strides[:-1]) or block.steps[last] * size % LINE and block.steps[last]:
        return False
    return last in block.seen


def with_streams(b: Builder, outputs: Sequence[int], architecture: str) -> list[Builder]:
    """The functions of a cell: itself where nothing is streamed, else with a form for buffers that are not aligned."""
    hint = ", !nontemporal !0"
    if not any(line.endswith(hint) for line in b.lines):
        return [b]
    stored, choice = Builder("stored", [], b.features), Builder(b.name, [(p.type, p.text[1:]) for p in b.parameters])
    stored.parameters, stored.slots = b.parameters, b.slots
    stored.lines = [_unaligned(line) if line.endswith(hint) else line for line in b.lines]
    b.name = "streamed"
    buffers = choice.parameters[0]
    together: Value | None = None
    for output in outputs:
        address = choice.load(choice.offset(buffers, output, "ptr"), "i64")
        together = address if together is None else choice.binary("or", together, address)
    assert together is not None
    aligned = choice.compare("eq", choice.binary("and", together, LINE - 1), 0)

    def run() -> None:
        choice.run_defined("streamed", *choice.parameters)
        if architecture == "x86-64":
            choice.run("llvm.x86.sse.sfence")

    choice.either(aligned, run, lambda: choice.run_defined("stored", *choice.parameters))
    return [b, stored, choice]


def _unaligned(line: str) -> str:
    """A streamed store as one of any address."""
    text = line[: line.rindex(", align")]
    return f"{text}, align 1"
