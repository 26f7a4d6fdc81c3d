"""How products are issued: operands as matrices in shared memory or words in registers, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import ptx
from .text import Int
from .values import Fragment, Layout, Lazy, Product, Tile, Unfit, pack

FLOAT32 = np.dtype(np.float32)
DEPTH = 16  # elements that one instruction sums over
WIDEST = 256  # columns of one instruction


def issue(e: Any, product: Product, start: Fragment | None) -> Fragment:
    """Begin a product, from zeros or from what is in registers; waits for nothing but its operands."""
    p, (a, b), (ca, cb) = e.p, product.operands, product.contracting
    (_, n), k, dtype = product.shape, product.operands[0].shape[ca], product.operands[0].dtype
    left = left_of(e, a, ca)
    right = right_of(e, b, cb)
    if start is not None and start.group is not None:  # what follows are the same registers
        start.group.fragments.remove(start)
        start.group = None
    ptx.wgmma_fence(p)
    regs: list[list[str]] = []
    for block in range(e.rows // e.consumers // 64):
        acc = None
        if start is not None:
            rows = start.regs[2 * block : 2 * block + 2]
            acc = [rows[i // 2 % 2][2 * (i // 4) + i % 2] for i in range(n // 2)]
        for step in range(k // DEPTH):
            operand, turned = left(block, step)
            matrix, other = right(step)
            acc = ptx.wgmma(p, acc, operand, matrix, n, str(dtype), (turned, other))
        assert acc is not None
        regs += [[acc[4 * (j // 2) + 2 * h + j % 2] for j in range(n // 4)] for h in range(2)]
    product.made = Fragment(product.layout, FLOAT32, regs)
    e.commit(product.made)
    return product.made


def left_of(e: Any, x: Any, contracting: int) -> Callable[[int, int], tuple[Any, bool]]:
    """The left operand of an instruction, for a block of 64 rows and a step of the sum."""
    p = e.p
    if isinstance(x, Tile) and x.shape[1 - contracting] == e.rows:
        part = e.rows // e.consumers
        first = p.mul(e.mine, part)
        if x.axes[1] == contracting:
            return lambda block, step: (_along(e, x, p.add(first, 64 * block), step), False)
        return lambda block, step: (_across(e, x, p.add(p.int("shrui", first, 6), block), step), True)
    layout = Layout(x.shape, 1 - contracting, contracting)
    found = e.fragment(x, layout) if isinstance(x, Lazy) or x.layout.rows == layout.rows else None
    if found is None:
        tile = staged(e, x)
        return left_of(e, tile, contracting)
    if found.layout != layout:
        found = e.fragment(found, layout)

    def words(block: int, step: int) -> tuple[list[str], bool]:
        rows = found.regs[2 * block], found.regs[2 * block + 1]
        return [rows[i % 2][2 * step + i // 2] for i in range(4)], False

    return words


def right_of(e: Any, x: Any, contracting: int) -> Callable[[int], tuple[str, bool]]:
    """The right operand of an instruction, for a step of the sum."""
    tile = x if isinstance(x, Tile) else staged(e, x)
    if tile.axes[1] == contracting:
        return lambda step: (_along(e, tile, 0, step), False)
    return lambda step: (_across(e, tile, 0, step), True)


def _along(e: Any, tile: Tile, row: Int, step: int) -> str:
    """The descriptor of a matrix whose sum goes along the columns of memory, from a row on."""
    p, (chunk, within) = e.p, divmod(step * DEPTH * 2, ptx.ROW)
    at = p.add(tile.address, p.mul(row, ptx.ROW), chunk * tile.rows * ptx.ROW + within)
    return e.matrix(p, at, 16, ptx.ATOM)


def _across(e: Any, tile: Tile, chunk: Int, step: int) -> str:
    """The descriptor of a matrix whose sum goes along the rows of memory, from a chunk of 64 columns on."""
    p = e.p
    at = p.add(tile.address, p.mul(chunk, tile.rows * ptx.ROW), step * DEPTH * ptx.ROW)
    return e.matrix(p, at, tile.rows * ptx.ROW, ptx.ATOM)


def staged(e: Any, x: Any) -> Tile:
    """A computed operand, written to shared memory by all that compute."""
    p = e.p
    axes = (0, 1) if isinstance(x, Lazy) or x.layout.cols != 0 else (1, 0)
    rows, columns = (x.shape[a] for a in axes)
    if columns % 64 or rows % 8:
        raise Unfit(f"an operand of {x.shape} that is computed: its columns are a multiple of 64, its rows of 8")
    base = e.keep(2 * rows * columns, ptx.ATOM)
    tile = e.tile(base, x.shape, x.dtype, axes)
    e.wait()
    e.gather()

    def put(place: Sequence[Int], word: str) -> None:
        at = e.address(tile, place)
        p.asm("st.shared.b32 [$0], $1;", "r,r", [p.name(at), word], ["i32", "i32"])

    if isinstance(x, Lazy):
        threads, pairs = 128 * e.consumers, rows * columns // 2
        if pairs % threads:
            raise Unfit(f"an operand of {x.shape} that {threads} threads compute")
        own = p.add(p.mul(e.mine, 128), e.lane_of_group)
        for i in range(pairs // threads):
            at = p.add(own, i * threads)
            row, column = p.int("divui", at, columns // 2), p.mul(p.int("remui", at, columns // 2), 2)
            put([row, column], pack(p, x.at(p, [row, column]), x.at(p, [row, p.add(column, 1)]), x.dtype))
    else:
        for r, line in enumerate(x.regs):
            for j, word in enumerate(line):
                put(e.place(x.layout, r, 2 * j), word)
    ptx.fence_proxy(p)
    e.gather()
    return tile
