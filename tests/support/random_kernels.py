"""Kernels drawn at random, right and wrong ones, and what is true of each by brute force.

A kernel has an output of two axes, perhaps a batch axis that bodies do not see, and perhaps an axis of the grid that is
summed over. Maps are affine, reversed, modular or read a prefetched table; blocks are ragged, with a fill, a mask or
neither; sums go to the output or to scratch, set where a predicate holds. Most are right; each part may be wrong.

`python -m tests.support.random_kernels 5000` draws as many, and prints what became of them and which break the law.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright as tw
from tests.support.gpu.walker import check_mosaic, check_triton
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType, MemorySpace, RefType
from tilewright.core.primitives.refs.state_primitives import addupdate_p, get_p, numpy_index, split_operands, swap_p
from tilewright.core.tracing.numpy_interpreter import evaluate, observing
from tilewright.core.tracing.trace import eval_program, trace_program
from tilewright.errors import (
    BlockTilingError,
    KernelError,
    OutOfBoundsError,
    PaddingError,
    RaceError,
    ResourceError,
    UncoveredOutputError,
    UninitializedError,
    UnsupportedError,
)
from tilewright.lang.call.primitive import kernel_call_p
from tilewright.lang.interpret.interpreter import block_index, interpret
from tilewright.lang.kernel.block_spec import BlockAxis
from tilewright.lang.kernel.canonicalize import normalize
from tilewright.lang.kernel.kernel import ID, Block, Kernel, trace_map
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.transforms.desugar import desugared
from tilewright.lang.verify.verify import Finding, verify

F32 = np.dtype(np.float32)
Steps = Callable[..., Any]


@dataclass
class Drawn:
    """A kernel, its operands, and what was drawn, in words."""

    kernel: Kernel
    arrays: list[np.ndarray]
    words: list[str] = field(default_factory=list)
    unset: Callable[[tuple[int, ...]], bool] = lambda ids: False  # whether a cell adds to scratch that it does not set


class Draw:
    """The choices that make one kernel."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.words: list[str] = []
        self.sizes()
        self.maps()

    def one(self, what: str, choices: Sequence[Any], odds: Sequence[float] | None = None) -> Any:
        weights = np.asarray([1.0] * len(choices) if odds is None else odds)
        found = choices[self.rng.choice(len(choices), p=weights / weights.sum())]
        self.words.append(f"{what}={found}")
        return found

    def sizes(self) -> None:
        """The shapes, the blocks and the grid."""
        rng = self.rng
        large = self.one("tiles", (False, True), (2, 1))  # as TPUs have them
        self.block = (8, 128) if large else tuple(int(n) for n in rng.integers(1, 6, 2))
        counts = [int(n) for n in rng.integers(1, 4, 2)]
        ragged = [self.one(f"ragged{d}", (False, True), (2, 1)) for d in range(2)]
        self.shape = tuple(
            b * c - (int(rng.integers(1, b)) if cut and b > 1 else 0)
            for b, c, cut in zip(self.block, counts, ragged, strict=True)
        )
        self.counts = [-(-n // b) for n, b in zip(self.shape, self.block, strict=True)]
        self.batch = self.one("batch", (0, 2), (4, 1))
        self.depth = self.one("depth", (0, 1, 2, 3), (2, 1, 2, 1))  # cells that are summed over; 0: no such axis
        names = ["row", "column", *(["batch"] if self.batch else []), *(["depth"] if self.depth else [])]
        if self.one("order", ("last", "any"), (6, 1)) == "any":
            names = [names[i] for i in rng.permutation(len(names))]
        self.names = names
        wrong = self.one("count", ("right", "less", "more"), (12, 1, 1))
        off = {"right": 0, "less": -1, "more": 1}[wrong]
        size = {"row": max(self.counts[0] + off, 1), "column": self.counts[1], "batch": self.batch, "depth": self.depth}
        self.grid = tuple(size[name] for name in names)
        kinds = [
            self.one(f"semantics of {n}", ("arbitrary", "parallel"), (1, 1 if n != "depth" else 0.1)) for n in names
        ]
        self.semantics = tuple(kinds) if self.one("declared", (False, True)) else None

    def step(self, what: str, count: int, inputs: bool) -> tuple[Steps, bool]:
        """From an id to a block's number along one axis, and whether it reads the table."""
        kind = self.one(
            what, ("same", "back", "turn", "half", "next", "table"), (10, 2, 2, 0.4, 0.4, 2 if inputs else 0.3)
        )
        turn = int(self.rng.integers(1, 4))
        return {
            "same": (lambda i, t: i, False),
            "back": (lambda i, t: np.int32(count - 1) - i, False),
            "turn": (lambda i, t: (i + np.int32(turn)) % np.int32(count), False),
            "half": (lambda i, t: i // np.int32(2), False),
            "next": (lambda i, t: i + np.int32(1), False),
            "table": (lambda i, t: t[i], True),
        }[kind]

    def maps(self) -> None:
        rng = self.rng
        most = max(*self.grid, *self.counts)
        within = self.one("table", ("within", "past"), (10, 1)) == "within"
        self.table = rng.permutation(np.arange(most) % (min(self.counts) if within else most + 1)).astype(np.int32)
        self.prefetch = [ArrayType(self.table.shape, "int32")]

    # ------------------------------------------------------------ blocks

    def placed(self, what: str, inputs: bool, deep: int | None = None) -> Any:
        """An index map: rows, columns, the batch first; with `deep` that axis follows the depth."""
        at = {name: k for k, name in enumerate(self.names)}
        steps = [
            self.step(f"{what} {name}", n, inputs)[0] for name, n in zip(("row", "column"), self.counts, strict=True)
        ]

        def index_map(*args: Any) -> list[Any]:
            ids, (table,) = args[: len(self.grid)], args[len(self.grid) :]
            found = [step(ids[at[name]], table) for step, name in zip(steps, ("row", "column"), strict=True)]
            if deep is not None:
                found[deep] = ids[at["depth"]] if self.depth else np.int32(0)
            return ([ids[at["batch"]]] if self.batch else []) + found

        return trace_map(self.grid, self.prefetch, index_map)

    def make(self, name: str, shape: Sequence[int], block: Sequence[int], index_map: Any, fill: Any = None,
             windows: bool = False) -> Block:  # fmt: skip
        lead = (self.batch,) if self.batch else ()
        rows, columns = block
        axes = BlockAxis(rows, False, windows, (1, 1) if windows else (0, 0)), BlockAxis(columns)
        axes = (*(BlockAxis(1, True) for _ in lead), *axes)
        return Block(name, ArrayType((*lead, *shape), F32), axes, index_map, MemorySpace.VMEM, fill)

    def kernel(self) -> Drawn:
        rng = self.rng
        rows, columns = self.block
        at = {name: k for k, name in enumerate(self.names)}
        fill = self.one("fill", (None, 0.0, 1.0), (2, 2, 1))
        kind = self.one("operand", ("tile", "row sums", "windows", "product"), (4, 2, 1, 2))
        length = int(rng.integers(1, 5)) if rows != 8 else 128
        total = length * max(self.depth, 1) - (int(rng.integers(1, length)) if length > 1 and self.one(
            "ragged depth", (False, True), (3, 1)) else 0)  # fmt: skip
        self.limit = total
        shape, block, deep = self.shape, self.block, None
        if kind == "row sums" or kind == "product":
            shape, block, deep = (self.shape[0], total), (rows, length), 1
        inputs = [self.make("x", shape, block, self.placed("x", True, deep), fill)]
        if kind == "windows":
            steps = inputs[0].index_map
            scaled = trace_map(self.grid, self.prefetch, lambda *args: self.scaled(steps, args, rows))
            inputs = [self.make("x", shape, (rows + 2, columns), scaled, fill, True)]
        if kind == "product":
            there = (total, self.shape[1]), (length, columns)
            inputs.append(self.make("y", *there, self.placed("y", True, 0), fill))
        output = self.make("o", self.shape, self.block, self.placed("o", False))
        held = self.one("sums in", ("output", "scratch", "nothing"), (2, 2, 1)) if self.depth else self.one(
            "values in", ("nothing", "scratch"), (3, 1))  # fmt: skip
        masked = self.one("mask", ("no", "and", "or", "twice", "load"), (3, 1, 1, 1, 1))
        set_where = self.one("set where", ("first", "not after", "and", "or", "data", "once", "late", "never"),
                             (4, 2, 2, 2, 1, 0.3, 0.3, 0.3))  # fmt: skip
        stored_where = self.one("stored where", ("always", "last", "not before"), (2, 2, 1))
        body = self.body(kind, held, masked, set_where, stored_where, at)
        scratch = [RefType(ArrayType(self.block, F32), MemorySpace.VMEM)]
        types: list[Any] = [ID] * len(self.grid) + [RefType(t, MemorySpace.SMEM) for t in self.prefetch]
        types += [b.ref_type for b in (*inputs, output)] + scratch
        program = normalize(trace_program(lambda *refs: body(refs) or [], types, "drawn"))
        made = Kernel("drawn", self.grid, tuple(self.prefetch), tuple(inputs), (output,), tuple(scratch), program, (),
                      self.semantics)  # fmt: skip
        arrays = [self.table, *(rng.integers(-4, 5, b.array.shape).astype("f") for b in inputs)]

        def unset(ids: tuple[int, ...]) -> bool:
            i, j, k = (np.int32(ids[at[name]]) for name in ("row", "column", "depth"))
            return not self.started(set_where, i, j, k, self.table)

        return Drawn(made, arrays, self.words, unset if held == "scratch" and self.depth else lambda ids: False)

    def scaled(self, index_map: Any, args: Any, rows: int) -> list[Any]:
        *lead, row, column = eval_program(index_map, *args)
        return [*lead, row * np.int32(rows), column]

    # ------------------------------------------------------------ the body

    def body(self, kind: str, held: str, masked: str, set_where: str, stored_where: str, at: dict[str, int]) -> Any:
        rows, columns = self.block
        n = len(self.grid)

        def value(x: Any, y: Any, i: Any, j: Any, k: Any) -> Any:
            if kind == "windows":
                return x[1:-1, :] + x[:-2, :] * 2 if masked == "no" else self.hidden(x[1:-1, :], masked, i, j)
            if masked == "load" and kind == "tile":
                return tl.load(x, mask=self.inside(i, j, "and", x.shape), other=0)
            found = x[...]
            if kind == "tile":
                return self.hidden(found, masked, i, j)
            limit = self.limit
            if masked != "no":
                place = k * found.shape[1] + tnp.arange(found.shape[1])[None, :]
                found = tnp.where(place < limit, found, 0)
            if kind == "row sums":
                return tnp.broadcast_to(tnp.sum(found, axis=1, keepdims=True), self.block)
            other = y[...]
            if masked in ("and", "twice"):
                place = k * other.shape[0] + tnp.arange(other.shape[0])[:, None]
                other = tnp.where(place < limit, other, 0)
            return found @ other

        def run(refs: Any) -> None:
            ids, (table, x, *rest) = refs[:n], refs[n:]
            y, o, s = (rest[0] if kind == "product" else None), rest[-2], rest[-1]
            i, j = ids[at["row"]], ids[at["column"]]
            k = ids[at["depth"]] if self.depth else np.int32(0)
            found = value(x, y, i, j, k)
            if held == "nothing":
                o[...] = found
                return
            into = o if held == "output" else s
            if not self.depth:
                into[...] = found
                o[...] = into[...] * 2
                return
            tl.when(self.started(set_where, i, j, k, table))(lambda: into.__setitem__(..., tnp.zeros(self.block, F32)))
            into[...] += found
            if into is s:
                last = np.int32(self.depth - 1)
                done = {"last": k == last, "not before": ~(k < last)}.get(stored_where)
                if done is None:
                    o[...] = s[...]
                else:
                    tl.when(done)(lambda: o.__setitem__(..., s[...]))

        return run

    def started(self, where: str, i: Any, j: Any, k: Any, table: Any) -> Any:
        """Where sums are set to zero."""
        return {
            "first": lambda: k == 0, "not after": lambda: ~(k > 0), "and": lambda: (k == 0) & (i >= 0),
            "or": lambda: (k == 0) | (j < 0), "data": lambda: (k == 0) | (table[0] > 100),
            "once": lambda: (k == 0) & (j == 0), "late": lambda: k == 1, "never": lambda: k < 0,
        }[where]()  # fmt: skip

    def inside(self, i: Any, j: Any, how: str, shape: Sequence[int]) -> Any:
        row = i * self.block[0] + tnp.arange(shape[0])[:, None]
        column = j * self.block[1] + tnp.arange(shape[1])[None, :]
        if how == "or":
            return ~((row >= self.shape[0]) | (column >= self.shape[1]))
        return (row < self.shape[0]) & (column < self.shape[1])

    def hidden(self, x: Any, how: str, i: Any, j: Any) -> Any:
        if how == "no" or how == "load":
            return x
        if how == "twice":
            row = i * self.block[0] + tnp.arange(self.block[0])[:, None]
            column = j * self.block[1] + tnp.arange(self.block[1])[None, :]
            return tnp.where(row < self.shape[0], tnp.where(column < self.shape[1], x, 0), 0)
        return tnp.where(self.inside(i, j, how, self.block), x, 0)


# ---------------------------------------------------------------------------- what is true


def visits(drawn: Drawn, block: Block) -> list[tuple[int, ...]]:
    """The block that each cell sees, in grid order."""
    table = drawn.arrays[:1]
    return [block_index(block, ids, table) for ids in np.ndindex(*drawn.kernel.grid)]


def lies_within(block: Block, index: Sequence[int]) -> bool:
    for d, (i, step, size, n) in enumerate(zip(index, block.steps, block.sizes, block.array.shape, strict=True)):
        low, high = block.padding[d]
        start = i * step - low
        if not (-low <= start and start + size <= n + high if block.element[d] else 0 <= start < n):
            return False
    return True


def parallel_axes(kernel: Kernel) -> list[int]:
    return [a for a, s in enumerate(kernel.semantics or ()) if s == "parallel" and kernel.grid[a] > 1]


def races(drawn: Drawn) -> bool:
    """Whether cells of a parallel axis share a block of the output, or a block is entered again."""
    kernel = drawn.kernel
    seen = visits(drawn, kernel.outputs[0])
    owner: dict[tuple[int, ...], tuple[int, ...]] = {}
    for ids, index in zip(np.ndindex(*kernel.grid), seen, strict=True):
        mine = tuple(ids[a] for a in parallel_axes(kernel))
        if owner.setdefault(index, mine) != mine:
            return True
    runs = [index for t, index in enumerate(seen) if not t or index != seen[t - 1]]
    return len(set(runs)) != len(runs)


def carries(drawn: Drawn) -> bool:
    """Whether the first cell of some parallel ids adds to scratch that another cell has set."""
    axes = parallel_axes(drawn.kernel)
    first: dict[tuple[int, ...], tuple[int, ...]] = {}
    for ids in np.ndindex(*drawn.kernel.grid):
        first.setdefault(tuple(ids[a] for a in axes), ids)
    return bool(axes) and any(drawn.unset(ids) for ids in first.values())


CARRIED = re.compile(r"carries values .*: cell \((.*?)\) reads \S*\[(.*?)\], which cell \((.*?)\) was the last")


def shown_to_race(drawn: Drawn, message: str) -> bool:
    """Whether the cells that a refusal names do what it says: one reads an element of scratch, before it writes it,
    that the other was the last to write, and they differ on a parallel axis. Found by running the cells in order."""
    found = CARRIED.search(message)
    assert found, message
    reader, element, writer = (tuple(int(n) for n in part.split(",") if n.strip()) for part in found.groups())
    kernel = desugared(drawn.kernel)
    scratch = np.zeros(kernel.scratch[0].shape, F32)
    owner = np.full(scratch.shape, -1)
    seen: list[tuple[int, ...]] = []
    cells = list(np.ndindex(*kernel.grid))

    def observe(eqn: Any, values: list[Any]) -> None:
        if eqn.primitive not in (get_p, swap_p, addupdate_p) or values[0] is not scratch:
            return
        dynamic, mask, _ = split_operands(eqn.params["index"], values[1 + (eqn.primitive is not get_p) :],
                                          eqn.params.get("masked", False))  # fmt: skip
        reached = np.zeros(scratch.shape, bool)
        reached[numpy_index(eqn.params["index"], dynamic, scratch.shape, mask is not None, "")] = (
            True if mask is None else mask)  # fmt: skip
        if eqn.primitive is not swap_p and reached[element] and running == reader and owner[element] >= 0:
            seen.append(cells[owner[element]])
        if eqn.primitive is not get_p:
            owner[reached] = cells.index(running)

    with observing(observe):
        for running in cells:
            blocks = [np.zeros(b.shape, b.array.dtype) for b in kernel.blocks]
            evaluate(kernel.body, *map(np.int32, running), drawn.arrays[0].copy(), *blocks, scratch)
    apart = any(reader[a] != writer[a] for a in parallel_axes(kernel))
    return apart and writer in seen


def same(one: Sequence[np.ndarray], two: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, two, strict=True))


REFUSED = (UnsupportedError, KernelError, BlockTilingError, ResourceError)
WRITTEN = ("wholly written", "padding unread", "written before it is read")


def judged(drawn: Drawn) -> tuple[Exception | None, list[Finding]]:
    """What `verify` says: its error, or None and the findings."""
    try:
        return None, verify(drawn.kernel)
    except (OutOfBoundsError, RaceError, PaddingError, UninitializedError, UncoveredOutputError) as error:
        return error, []


def proved(findings: Sequence[Finding], *what: str) -> bool:
    return all(f.verdict == "proved" for f in findings if f.what in what)


def check(drawn: Drawn, forms: bool = True) -> str:
    """Hold the verdict on a kernel against what is true, and its forms against each other; gives what became of it."""
    with tw.config(debug_checks=False):
        return _check(drawn, forms)


def _check(drawn: Drawn, forms: bool) -> str:
    kernel, arrays = drawn.kernel, drawn.arrays
    raised, findings = judged(drawn)
    error = "" if raised is None else type(raised).__name__
    outside = {b.name for b in kernel.blocks if not all(lies_within(b, i) for i in visits(drawn, b))}
    if error == "OutOfBoundsError":
        assert outside, "refused as out of bounds, and nothing is"
        return error
    for f in findings:
        assert f.what != "in bounds" or f.verdict != "proved" or f.operand not in outside, f"{f} is wrong"
    if outside:
        return "unknown, and out of bounds"
    told = [f for f in findings if f.what == "carried along no parallel axis" and f.verdict == "unknown"]
    assert error or told or not carries(drawn), "scratch is carried along a parallel axis, and nothing says so"
    raced = races(drawn)
    assert not (not error and raced and proved(findings, "free of races")), "races, and is proved free of them"
    plain = interpret(kernel, *arrays, params=InterpretParams())
    zeros = interpret(kernel, *arrays, params=InterpretParams(uninitialized_memory="zero"))
    leaks = not same(plain, zeros)
    apart = parallel_axes(kernel) and any(
        not same(plain, interpret(kernel, *arrays, params=InterpretParams(random_seed=seed))) for seed in range(3)
    )
    if error == "RaceError":
        if "carries values" in str(raised):
            assert shown_to_race(drawn, str(raised)), f"the cells that it names do not race: {raised}"
            return f"{error} on scratch"
        assert raced, "refused for a race, and there is none"
        return error
    if error:
        assert leaks, f"refused as {error}, and nothing unspecified comes out"
        return error
    if raced:
        return "unknown, and races"
    assert not (leaks and proved(findings, *WRITTEN)), "what nothing has written comes out, and it is proved not to"
    assert not (apart and not leaks and proved(findings, "carried along no parallel axis")), (
        "carried along a parallel axis"
    )
    if leaks or apart:
        return "unknown, and unspecified"
    sure = "proved" if all(f.verdict == "proved" for f in findings) else "unknown"
    if not forms:
        return f"{sure}, and right"
    compiled = tw.jit(lambda *given: kernel_call_p.bind(*given, kernel=kernel))(*arrays)
    assert same([np.asarray(x) for x in compiled], plain), "compiled and interpreted differ"
    checks = ((check_triton, "cuda:sm_90"), (check_mosaic, "tpu:v5e"))
    refused = [target for one, target in checks if not walked(one, drawn, target)]
    return f"{sure}, and right" + (f", refused by {' and '.join(refused)}" if refused else "")


def walked(one: Any, drawn: Drawn, target: str) -> bool:
    """Whether a target takes the kernel; what it makes of it is walked and compared."""
    try:
        one(drawn.kernel, *drawn.arrays, target=target)
    except REFUSED:
        return False
    return True


def main(count: int) -> None:
    """Hold the law on kernels 0 to `count`: prints each that breaks it, and how many there are of each kind."""
    found: Counter[str] = Counter()
    for seed in range(count):
        with tw.config(debug_checks=False):
            drawn = Draw(seed).kernel()
        try:
            found[check(drawn)] += 1
        except Exception as error:  # whatever it is, it is told
            found["broken"] += 1
            print(f"seed {seed}: {error!r}; drawn: {', '.join(drawn.words)}", flush=True)
        if seed % 100 == 99:
            tw.clear_caches()
    print("\n".join(f"{n:5}  {what}" for what, n in found.most_common()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
