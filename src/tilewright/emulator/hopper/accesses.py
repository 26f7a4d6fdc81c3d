"""What threads do with shared and global memory, and with each other's registers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...core.support.errors import EmulationError
from .cluster import BASE
from .group import Group
from .values import COMBINED, HALF, LANES, WARP, number

WORDS = {"u32": np.uint32, "s32": np.int32, "b32": np.uint32, "f32": np.float32, **HALF}  # of red and atom


def by_warp(g: Group, at: Any, size: int, write: bool, what: str) -> None:
    for w in g.warps():
        lanes = slice(WARP * w, WARP * w + WARP)
        live = at[lanes][g.mask[lanes]]
        shared, clock = g.b.shared, g.clocks[w]
        agent = g.agent(w)
        check = shared.writing if write else shared.reading
        check(shared.grains(live.reshape(-1), size), clock, agent, int(clock[agent]), False, what)


def store_shared(g: Group, text: str, address: Any, value: Any, *more: Any) -> None:
    at = g.lanes(address).astype(np.int64)
    size = number(r"\.b(\d+) ", text) // 8
    by_warp(g, at, size * (1 + len(more)), True, "a thread")
    for i, one in enumerate((value, *more)):
        values = np.ascontiguousarray(g.lanes(one))
        values = values.astype(f"i{size}") if size < 4 else values
        g.b.shared.put(at[g.mask] + 4 * i, values[g.mask])


def load_shared(g: Group, text: str, address: Any) -> Any:
    kind = re.search(r"ld.shared.([bsu])(\d+)", text)
    assert kind is not None
    size = int(kind[2]) // 8
    at = np.where(g.mask, g.lanes(address), BASE).astype(np.int64)
    by_warp(g, at, size, False, "a thread")
    if size == 4:
        return g.b.shared.get(at, np.float32 if text.endswith("f32") else np.int32)
    return g.b.shared.get(at, f"{'i' if kind[1] == 's' else 'u'}{size}").astype(np.int32)


def load_two(g: Group, text: str, address: Any) -> tuple[Any, Any]:
    at = np.where(g.mask, g.lanes(address), BASE).astype(np.int64)
    if np.any(at % 8):
        raise EmulationError("a load of 8 bytes from a place that is not a multiple of 8")
    by_warp(g, at, 8, False, "a thread")
    first, second = (g.b.shared.get(at + n, np.float32 if "f32" in text else np.int32) for n in (0, 4))
    return first, second


def store_matrices(g: Group, text: str, address: Any, *words: Any) -> None:
    if not g.mask.all():
        raise EmulationError("stmatrix in part of a warpgroup")
    at = g.lanes(address).astype(np.int64)
    if np.any(at % 16):
        raise EmulationError("stmatrix to a place that is not a multiple of 16")
    by_warp(g, at, 16, True, "stmatrix")
    for k, word in enumerate(words):
        rows = np.ascontiguousarray(g.lanes(word)).astype(np.int32).reshape(4, 8, 4).view(np.uint8)
        for w in range(4):
            places = at[32 * w + 8 * k : 32 * w + 8 * k + 8]
            g.b.shared.bytes[places[:, None] + np.arange(16)] = rows[w].reshape(8, 16)


def combine(g: Group, text: str, address: Any, *values: Any) -> Any:
    """red and atom: lanes that meet at a place one by one; of two that are told by a sign (`n`) each takes its own."""
    ways = re.findall(r"(@!?n )?(red|atom)\.relaxed\.\w+\.(global|shared::cta)\.(\w+)\.(?:noftz\.)?(\w+) ", text)
    given = [np.ascontiguousarray(g.lanes(v)) for v in values]
    at, live, old = g.lanes(address).astype(np.int64), g.each(), np.zeros(LANES, given[0].dtype)
    apart = np.unique(at[live]).size == live.size
    for lanes in [live] if apart else live[:, None]:
        first = given[0][lanes].view(np.int32) < 0 if len(ways) > 1 else np.ones(lanes.size, bool)
        for (_, _, space, kind, type_), mine in zip(ways, (lanes[first], lanes[~first])):
            if mine.size:
                held = update(g, space, kind, np.dtype(WORDS[type_]), mine, at[mine], [v[mine] for v in given])
                old[mine] = held.view(old.dtype) if held.itemsize == old.itemsize else 0
    return old if "atom" in text else None


def update(g: Group, space: str, kind: str, dtype: Any, lanes: Any, at: Any, words: Any) -> Any:
    """What some lanes find at places of which no two are the same, and replace."""
    operands = [w.astype(np.int16).view(dtype) if dtype.itemsize == 2 else w.view(dtype) for w in words]
    shared = "shared" in space
    held = shared_words(g, lanes, at, dtype) if shared else g.memory.load(at, dtype)
    new = operands[-1] if kind == "exch" else np.where(held == operands[0], operands[-1], held) if (
        kind == "cas") else COMBINED[kind](held, operands[0])  # fmt: skip
    (g.b.shared.put if shared else g.memory.store)(at, new.astype(dtype))
    return held


def shared_words(g: Group, lanes: Any, at: Any, dtype: Any) -> Any:
    """What shared memory holds, which threads are about to update."""
    for w in np.unique(lanes // WARP):
        grains, agent = g.b.shared.grains(at[lanes // WARP == w], dtype.itemsize), g.agent(w)
        g.b.shared.updating(grains, g.clocks[w], agent, int(g.clocks[w][agent]))
    return g.b.shared.get(at, dtype)


def shuffle(g: Group, text: str, x: Any) -> Any:
    step = re.search(r"\$1, (\d+), 0x1f", text)
    assert step is not None
    lanes = np.arange(LANES)
    return g.lanes(x)[lanes // 32 * 32 if ".idx" in text else lanes ^ int(step[1])]


PTX = (
    ("red", combine),
    ("atom", combine),
    (".reg .pred", combine),
    ("stmatrix", store_matrices),
    ("st.shared", store_shared),
    ("ld.shared.v2", load_two),
    ("ld.shared", load_shared),
    ("shfl.sync", shuffle),
)
