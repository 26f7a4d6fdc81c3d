"""How products are issued: operands as matrices in shared memory or words in registers, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.ir.types import Dtype
from ..lang.legalize import Unfit
from . import ptx
from .mma_types import BYTES, KINDS, depth
from .text import Int
from .values import EIGHT, Fragment, Layout, Lazy, Product, Tile, halves, narrowed, word

WIDEST = 256  # columns of one instruction


def issue(e: Any, product: Product, start: Fragment | None) -> Fragment:
    """Begin a product, from zeros or from what is in registers; waits for nothing but its operands."""
    p, (a, b), (ca, cb) = e.p, product.operands, product.contracting
    (_, n), steps, kinds = product.shape, a.shape[ca] // depth(a.dtype), [KINDS[str(x.dtype)] for x in (a, b)]
    left = left_of(e, a, ca)
    right = right_of(e, b, cb)
    if start is not None and start.group is not None:  # what follows are the same registers
        start.group.fragments.remove(start)
        start.group = None
    e.take_turn()
    ptx.wgmma_fence(p)
    regs: list[list[str]] = []
    for block in range(e.rows // e.consumers // 64):
        acc = None
        if start is not None:
            rows = start.regs[2 * block : 2 * block + 2]
            acc = [rows[i // 2 % 2][2 * (i // 4) + i % 2] for i in range(n // 2)]
        for step in range(steps):
            operand, turned = left(block, step)
            matrix, other = right(step)
            acc = ptx.wgmma(p, acc, operand, matrix, n, (kinds[0].name, kinds[1].name), (turned, other))
        assert acc is not None
        regs += [[acc[4 * (j // 2) + 2 * h + j % 2] for j in range(n // 4)] for h in range(2)]
    product.made = Fragment(product.layout, product.dtype, regs)
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
        _turned(e, x)
        return lambda block, step: (_across(e, x, p.add(p.int("shrui", first, 6), block), step), True)
    layout = Layout(x.shape, 1 - contracting, contracting)
    if not halves(x.dtype):
        return left_of(e, staged(e, x, contracting), contracting)
    found = e.fragment(x, layout) if isinstance(x, Lazy) or x.layout.rows == layout.rows else None
    if found is None:
        return left_of(e, staged(e, x, contracting), contracting)
    if found.layout != layout:
        found = e.fragment(found, layout)

    def words(block: int, step: int) -> tuple[list[str], bool]:
        rows = found.regs[2 * block], found.regs[2 * block + 1]
        return [rows[i % 2][2 * step + i // 2] for i in range(4)], False

    return words


def right_of(e: Any, x: Any, contracting: int) -> Callable[[int], tuple[str, bool]]:
    """The right operand of an instruction, for a step of the sum."""
    tile = x if isinstance(x, Tile) else staged(e, x, contracting)
    if tile.axes[1] == contracting:
        return lambda step: (_along(e, tile, 0, step), False)
    _turned(e, tile)
    return lambda step: (_across(e, tile, 0, step), True)


def _turned(e: Any, tile: Tile) -> None:
    """Refuse a tile whose sum goes along its rows where the tensor cores do not take it."""
    if tile.dtype.itemsize not in e.turning:
        raise Unfit(f"an operand of {tile.dtype} that is summed along rows: the tensor cores take it summed along what "
                    "lies side by side in memory; transpose it beforehand")  # fmt: skip


def _along(e: Any, tile: Tile, row: Int, step: int) -> str:
    """The descriptor of a matrix whose sum goes along the columns of memory, from a row on."""
    p, (chunk, within) = e.p, divmod(step * BYTES, ptx.ROW)
    at = p.add(tile.address, p.mul(row, ptx.ROW))
    return e.matrix(p, at, chunk * tile.rows * ptx.ROW + within, 16, ptx.ATOM)


def _across(e: Any, tile: Tile, chunk: Int, step: int) -> str:
    """The descriptor of a matrix whose sum goes along the rows of memory, from a chunk of 128 bytes on."""
    p = e.p
    at = p.add(tile.address, p.mul(chunk, tile.rows * ptx.ROW))
    return e.matrix(p, at, step * depth(tile.dtype) * ptx.ROW, tile.rows * ptx.ROW, ptx.ATOM)


def staged(e: Any, x: Any, contracting: int) -> Tile:
    """A computed operand, written to shared memory by all that compute."""
    p, size = e.p, x.dtype.itemsize
    axes = (0, 1) if isinstance(x, Lazy) or x.layout.cols != 0 else (1, 0)
    if size not in e.turning:
        axes = (1 - contracting, contracting)
    rows, columns = (x.shape[a] for a in axes)
    if columns * size % ptx.ROW or rows % 8:
        raise Unfit(f"an operand of {x.shape} that is computed: take blocks whose columns are a multiple of "
                    f"{ptx.ROW // size}, and whose rows are one of 8")  # fmt: skip
    base = e.keep(rows * columns * size, ptx.ATOM)
    tile = e.tile(base, x.shape, x.dtype, axes)
    e.wait()
    e.gather()

    def put(place: Sequence[Int], bits: str, width: int = 32) -> None:
        at = e.address(tile, place)
        p.asm(f"st.shared.b{width} [$0], $1;", "r,r", [p.name(at), bits], ["i32", "i32"])

    if isinstance(x, Lazy):
        threads, per = 128 * e.consumers, 4 // size
        words = rows * columns // per
        if words % threads:
            raise Unfit(f"an operand of {x.shape} that {threads} threads compute: take blocks of a multiple of "
                        f"{threads * per} elements")  # fmt: skip
        own = p.add(p.mul(e.mine, 128), e.lane_of_group)
        for i in range(words // threads):
            at = p.add(own, i * threads)
            row, first = p.int("divui", at, columns // per), p.mul(p.int("remui", at, columns // per), per)
            places = [[row, p.add(first, j)] if axes[0] == 0 else [p.add(first, j), row] for j in range(per)]
            put(places[0], word(p, [x.at(p, place) for place in places], x.dtype))
    else:
        for r, line in enumerate(x.regs):
            for j, one in enumerate(line):
                bits = one if x.paired else word(p, [one], x.dtype) if size == 4 else _byte(p, one, x.dtype)
                put(e.place(x.layout, r, 2 * j if x.paired else j), bits, 32 if x.paired else 8 * size)
    ptx.fence_proxy(p)
    e.gather()
    return tile


def _byte(p: Any, x: str, dtype: Dtype) -> str:
    """The 8 bits of a number, low in an i32."""
    return narrowed(p, x, dtype) if str(dtype) in EIGHT else x
