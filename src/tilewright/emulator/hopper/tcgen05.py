"""Blackwell's products and accesses of tensor memory.

What a thread stores there is seen by products once it has waited for its stores, has fenced, and a barrier has told of
it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...core.support.errors import EmulationError, RaceError
from .accesses import store_shared
from .swizzles import matrix_places
from .values import KINDS, LANES, WARP, Loaded, number, product


def allocate(g: Any, text: str, slot: Any) -> None:
    if len(g.warps()) != 1:
        raise EmulationError("tensor memory is taken by one warp")
    g.b.tensor.take(number(r"\], (\d+);", text))
    store_shared(g, f"st.shared.b32 {text}", slot, np.asarray(0, np.int32))


def release(g: Any, text: str, address: Any) -> None:
    needs_order(g, "tensor memory is given back")
    memory, (w,) = g.b.tensor, g.warps()
    taken = memory.grains(0, memory.columns)
    memory.settled(taken, 0)
    memory.order.writing(taken, g.clocks[w], g.agent(w), int(g.clocks[w][g.agent(w)]), False, "tcgen05.dealloc")
    g.b.tensor.give_back(number(r"\$0, (\d+);", text))


def ordered(g: Any, text: str, *args: Any) -> None:
    g.after = g.after or "after" in text
    if "wait::ld" in text:
        for one in g.loading:
            one.ready = True
        g.loading = []
    for w in g.warps():
        mine = g.b.tensor.open[w]
        if "wait::st" in text:
            mine[mine == 2] = 1
        if "before" in text:
            mine[mine == 1] = 0


def needs_order(g: Any, what: str) -> None:
    if not g.after:
        raise EmulationError(f"{what} after a barrier, without tcgen05.fence::after_thread_sync")


def place(g: Any, text: str, address: Any, what: str) -> tuple[int, int, int]:
    """The warp that loads or stores, the first column and how many."""
    needs_order(g, f"a {what} of tensor memory")
    columns = number(r"\.x(\d+)\.b32", text)
    (w,) = g.warps()
    at = g.same(address)
    row, first = at >> 16, at & 0xFFFF
    if row != WARP * w or first + columns > g.b.tensor.columns:
        raise EmulationError(f"warp {w} {what}s row {row}, columns {first} to {first + columns} of tensor memory")
    return w, first, columns


def load(g: Any, text: str, address: Any) -> Any:
    w, first, columns = place(g, text, address, "load")
    memory, grains = g.b.tensor, g.b.tensor.grains(first, columns, w)
    memory.settled(grains, 1)
    if (memory.order.written[grains] == 0).any():
        raise RaceError("race: a load reads tensor memory before anything is written there")
    agent = g.agent(w)
    memory.order.reading(grains, g.clocks[w], agent, int(g.clocks[w][agent]), False, "a load")
    memory.open[w, first : first + columns] = np.maximum(memory.open[w, first : first + columns], 1)
    rows = slice(WARP * w, WARP * w + WARP)
    value = np.zeros((columns, LANES), np.float32)
    value[:, rows] = memory.value[rows, first : first + columns].T
    found = [Loaded(v) for v in value.view(np.int32)]
    g.loading += found
    return found


def store(g: Any, text: str, address: Any, *words: Any) -> None:
    w, first, columns = place(g, text, address, "store")
    memory, grains = g.b.tensor, g.b.tensor.grains(first, columns, w)
    agent = g.agent(w)
    memory.order.writing(grains, g.clocks[w], agent, int(g.clocks[w][agent]), False, "a store")
    rows = slice(WARP * w, WARP * w + WARP)
    for i, word in enumerate(words):
        bits = np.ascontiguousarray(g.lanes(word)).astype(np.int32)[rows]
        memory.value.view(np.int32)[rows, first + i] = bits
    memory.open[w, first : first + columns] = 2


def add_product(g: Any, text: str, *args: Any) -> None:
    needs_order(g, "a product")
    blocks = [b for b in g.b.cluster.blocks if b.rank >> 1 == g.b.rank >> 1] if "cta_group::2" in text else [g.b]
    if len(blocks) != number(r"cta_group::(\d)", text) or blocks[0] is not g.b:
        raise EmulationError(f"a product of two blocks that block {g.b.rank} of {len(g.b.cluster.blocks)} starts")
    for lane in g.each():
        to, left, right, form, more = [int(g.lanes(a)[lane]) for a in args]
        n, rows = (form >> 17 & 63) << 3, (form >> 24 & 31) << 4
        known = KINDS[re.findall(r"kind::(\w+)", text)[0]]
        kinds = [np.dtype(known[form >> shift & 7]) for shift in (7, 10)]
        if (
            form & 0x70 != (0x20 if kinds[0].kind in "iu" else 0x10)
            or rows != 128 * len(blocks)
            or n % (16 * len(blocks))
            or not 0 < n <= 256
        ):
            raise EmulationError(f"a product of the form {form:#x}")
        if to >> 16:
            raise EmulationError(f"sums of a product from row {to >> 16} on")
        clock, found = g.clocks[lane // WARP], []
        for block in blocks:  # each has its rows of the left operand and of the sums, and a part of the right operand
            memory, result = block.tensor, block.tensor.grains(to, n)
            memory.order.writing(result, clock, g.products, g.committed + 1, False, "a product", more=bool(more))
            memory.settled(result, 0)
            own = (
                _inside(g, block, left, clock)
                if "[$1]" in text
                else _places(g, block, left, 128, form >> 15, kinds[0], clock)
            )
            found.append((block, own, _places(g, block, right, n // len(blocks), form >> 16, kinds[1], clock)))

        def make(found: Any = found, first: int = to, n: int = n, more: int = more, kinds: Any = kinds) -> None:
            b = np.concatenate([_operand(block, at, kinds[1]) for block, _, at in found])
            for block, at, _ in found:
                made = product(_operand(block, at, kinds[0]), b)
                sums = block.tensor.value.view(made.dtype)[:, first : first + n]
                sums[...] = made + sums if more else made

        g.open.append(make)


def _inside(g: Any, block: Any, left: int, clock: Any) -> tuple[int, int]:
    """The columns of a left operand in tensor memory: 32 bytes of each row."""
    grains = block.tensor.grains(left & 0xFFFF, 8)
    block.tensor.settled(grains, 0)
    block.tensor.order.reading(grains, clock, g.products, g.committed + 1, False, "a product")
    return left & 0xFFFF, 8


def _places(g: Any, block: Any, d: int, long: int, turned: int, dtype: Any, clock: Any) -> Any:
    """Where an operand is in a block's shared memory."""
    if d >> 46 & 7 != 1 or d >> 61 & 7 != 2:
        raise EmulationError("a matrix that is not swizzled by 128 bytes")
    plain = (d & ((1 << 62) - 1) & ~(7 << 46) & ~(7 << 61)) | 1 << 62
    places = matrix_places(plain, long, 32 // dtype.itemsize, bool(turned & 1), dtype.itemsize)
    grains = block.shared.grains(places, dtype.itemsize)
    block.shared.multiplied(grains)
    block.shared.reading(grains, clock, g.products, g.committed + 1, True, "a product")
    return places


def _operand(block: Any, at: Any, dtype: Any) -> Any:
    if not isinstance(at, tuple):
        return block.shared.get(at, dtype)
    first, words = at
    return np.ascontiguousarray(block.tensor.value[:, first : first + words]).view(dtype)


def commit(g: Any, text: str, address: Any, mask: Any = None) -> None:
    g.committed += 1
    made, done, at = g.open, g.committed, g.same(address)
    g.open = []
    g.queue.append(made)
    if mask is not None and g.same(mask) >> len(g.b.cluster.blocks):
        raise EmulationError(f"products are told of to blocks {g.same(mask):#b} of {len(g.b.cluster.blocks)}")
    blocks = [g.b] if mask is None else [b for b in g.b.cluster.blocks if g.same(mask) >> b.rank & 1]
    clock = g.clocks[g.each()[0] // WARP].copy()
    for block in blocks:
        barrier = g.b.other(block, at, clock, g.agent(g.each()[0] // WARP)).barrier(at)
        barrier.seen("the tensor cores")

        def land(barrier: Any = barrier) -> None:
            while any(one is made for one in g.queue):
                for make in g.queue.pop(0):
                    make()
            clock[g.products] = done
            barrier.products = True
            barrier.arrive(clock)

        g.b.cluster.pending.append((barrier, land, "products"))
        if g.b.cluster.eager:
            g.b.cluster.land(barrier)


def relinquish(g: Any, text: str, *args: Any) -> None:
    g.b.tensor.closed = True


PTX = (
    ("tcgen05.alloc", allocate), ("tcgen05.relinquish", relinquish), ("tcgen05.dealloc", release),
    ("tcgen05.mma", add_product), ("tcgen05.commit", commit), ("tcgen05.ld", load), ("tcgen05.st", store),
    ("tcgen05", ordered),
)  # fmt: skip
