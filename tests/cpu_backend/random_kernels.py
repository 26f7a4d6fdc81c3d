"""Kernels drawn at random, as machine code against the interpreter, with guard pages around every buffer.

A kernel has blocks of up to three axes, ragged or not, of some dtype, perhaps a grid axis along which it carries sums
in scratch or in its output, perhaps an operand that is written in place, and a body of drawn steps. Numbers are small
integers, so that results are equal bit for bit, but where a step is not exact.

`python -m tests.cpu_backend.random_kernels --count 5000` draws as many, and prints what became of them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright as tw
from tests.support.machine_code import machine_code
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.program import Program
from tilewright.core.tracing.trace import trace_program, typeof
from tilewright.cpu_backend.machine.features import Features
from tilewright.errors import TilewrightError, UnsupportedError
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.ops.interpret_params import InterpretParams

DTYPES = {"float32": 8, "bfloat16": 2, "float16": 2, "int32": 3, "int8": 1, "uint8": 1, "float64": 1}
Step = Callable[["Body"], Any]


@dataclass
class Body:
    """What steps have made so far, and what they may use: the ids, and scratch of a block's shape."""

    values: list[Any]
    ids: tuple[Any, ...]
    scratch: Any

    def pick(self, number: int) -> Any:
        return self.values[-1 - number % len(self.values)]


def small(x: Any) -> Any:
    """Whole numbers brought between 0 and 15."""
    kind = np.dtype(x.dtype).kind
    return x & np.asarray(15, x.dtype) if kind in "iu" else x - tnp.floor(x / 16) * 16


def together(x: Any, y: Any) -> tuple[Any, Any]:
    """Two values of shapes that fit each other; the first one twice if they do not."""
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return x, x
    return x, y


def along(x: Any, axis: int) -> int:
    return axis % len(x.shape)


@dataclass
class Draw:
    """The choices that make one kernel, from a seed."""

    seed: int
    words: list[str] = field(default_factory=list)
    exact: bool = True

    def __post_init__(self) -> None:
        """Draw shapes, blocks and the grid."""
        self.rng = np.random.default_rng(self.seed)
        odds = np.array(list(DTYPES.values()), float)
        self.dtype = tnp.dtype(list(DTYPES)[self.rng.choice(len(odds), p=odds / odds.sum())])
        rank = self.of(1, 2, 2, 2, 3)
        self.block = tuple(self.of(1, 2, 3, 5, 8) for _ in range(rank - 1)) + (self.of(1, 2, 4, 7, 16, 19, 33, 64, 70),)
        counts = [self.of(1, 2, 3) for _ in range(rank)]
        self.shape = tuple(
            b * c - (int(self.rng.integers(b)) if self.of(False, False, True) else 0)
            for b, c in zip(self.block, counts, strict=True)
        )
        self.counts = [-(-n // b) for n, b in zip(self.shape, self.block, strict=True)]
        self.depth = self.of(1, 1, 2, 3)
        self.steps = [self.step() for _ in range(self.of(1, 2, 3, 4, 6))]

    def of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    # ------------------------------------------------------------ steps

    def step(self) -> Step:
        kinds = (self.unary, self.unary, self.binary, self.binary, self.reduction, self.reduction, self.cumulative,
                 self.taken, self.scattered, self.product, self.loop, self.branch, self.kept, self.moved, self.smooth)
        kind = self.of(*kinds)
        name, made = kind(int(self.rng.integers(8)), int(self.rng.integers(3)))
        self.words.append(name)
        return made

    def unary(self, a: int, axis: int) -> tuple[str, Step]:
        m = self.of(2, 3, 5)
        rules: dict[str, Callable[[Any], Any]] = {
            "negative": lambda x: -x, "square": lambda x: small(x * x), "triple": lambda x: small(x * 3 + 1),
            "every": lambda x: tnp.where(lax.broadcasted_iota("int32", x.shape, along(x, axis)) % m == 0, x, 1),
            "halved": lambda x: tnp.maximum(x, 2).astype("int32").astype(x.dtype), "low": lambda x: tnp.minimum(x, 3),
        }  # fmt: skip
        name = self.of(*rules)
        return name, lambda s: rules[name](s.pick(a))

    def binary(self, a: int, axis: int) -> tuple[str, Step]:
        c = int(self.rng.integers(8))
        rules: dict[str, Callable[[Any, Any], Any]] = {
            "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: small(x * y),
            "max": tnp.maximum, "min": tnp.minimum, "where": lambda x, y: tnp.where(x > y, x, y + 1),
        }  # fmt: skip
        name = self.of(*rules)
        return name, lambda s: small(rules[name](*together(s.pick(a), s.pick(c))))

    def reduction(self, a: int, axis: int) -> tuple[str, Step]:
        name = self.of("sum", "max", "min", "argmax")
        kept = self.of(True, True, False)

        def made(s: Body) -> Any:
            x = s.pick(a)
            found = getattr(tnp, name)(x, axis=along(x, axis), keepdims=kept or len(x.shape) == 1)
            return small(found.astype(x.dtype))

        return f"{name} {axis}", made

    def cumulative(self, a: int, axis: int) -> tuple[str, Step]:
        name, back = self.of("cumsum", "cummax", "cummin"), self.of(False, True)

        def made(s: Body) -> Any:
            x = s.pick(a)
            return small(getattr(lax, name)(x, axis=along(x, axis), reverse=back))

        return f"{name} {axis}", made

    def taken(self, a: int, axis: int) -> tuple[str, Step]:
        k, mode = self.of(1, 3, 5), self.of("clip", "clip", "fill")
        way = self.of("take", "take_along", "slice")

        def made(s: Body) -> Any:
            x = s.pick(a)
            at = along(x, axis)
            n = x.shape[at]
            if way == "slice":
                start = s.ids[0] % n if s.ids else 0
                return lax.dynamic_slice_in_dim(x, start, max(n - k, 1), at)
            if way == "take_along":
                return tnp.take_along_axis(x, lax.broadcasted_iota("int32", x.shape, at) * k % n, at)
            found = tnp.take(x, tnp.arange(n + 1, dtype="int32") * k % (n + 1), axis=at, mode=mode)
            return tnp.where(found == found, found, 1) if mode == "fill" else found

        return f"{way} {mode} {axis}", made

    def scattered(self, a: int, axis: int) -> tuple[str, Step]:
        k, how = self.of(0, 1, 3), self.of("add", "set")

        def made(s: Body) -> Any:
            x = s.pick(a)
            at = along(x, axis)
            n = x.shape[at]
            index = (slice(None),) * at + (tnp.arange(n, dtype="int32") * k % n,)
            return small(getattr(x.at[index], how)(x * 2))

        return f"scatter {how} {axis}", made

    def product(self, a: int, axis: int) -> tuple[str, Step]:
        turned = self.of(False, True)

        def made(s: Body) -> Any:
            x = s.pick(a)
            if len(x.shape) != 2:
                return x + 1
            z = x % 4 if np.dtype(x.dtype).kind in "iu" else x - tnp.floor(x / 4) * 4
            wide = "int32" if np.dtype(x.dtype).kind in "iu" else "float32" if x.dtype.itemsize < 8 else "float64"
            found = tnp.dot(z.T, z, preferred_element_type=wide) if turned else tnp.dot(
                z, z.T, preferred_element_type=wide)  # fmt: skip
            return small(found).astype(x.dtype)

        return f"product {turned}", made

    def loop(self, a: int, axis: int) -> tuple[str, Step]:
        turns, computed, kind = self.of(0, 1, 3), self.of(False, True), self.of("fori", "while", "scan")

        def made(s: Body) -> Any:
            x = s.pick(a)
            if kind == "scan":
                c, ys = lax.scan(lambda c, row: (small(c + row), c - row), x[0], x)
                return small(ys + c)
            end = s.ids[0] + turns if computed and s.ids else turns
            if kind == "fori":
                return lax.fori_loop(0, end, lambda i, c: small(c + x * (i + 1).astype(x.dtype)), x)
            return lax.while_loop(lambda c: c[0] < end, lambda c: (c[0] + 1, small(c[1] * 2 + x)), (np.int32(0), x))[1]

        return f"{kind} {computed}", made

    def branch(self, a: int, axis: int) -> tuple[str, Step]:
        m = self.of(2, 3)

        def made(s: Body) -> Any:
            x = s.pick(a)
            which = s.ids[-1] % m == 0 if s.ids else True
            total = lambda x: tnp.sum(x, axis=0, keepdims=True, dtype=x.dtype)  # noqa: E731
            return lax.cond(which, lambda x: small(x + total(x)), lambda x: x * 1, x)

        return "branch", made

    def kept(self, a: int, axis: int) -> tuple[str, Step]:
        """Values through scratch: written, added to by rows or at indices, read whole, a part or masked."""
        how = self.of("all", "row", "indexed", "shifted")

        def made(s: Body) -> Any:
            ref, x = s.scratch, s.pick(a)
            n = ref.shape[0]
            ref[...] = x if x.shape == ref.shape else tnp.ones(ref.shape, ref.dtype)
            if how == "row":
                at = s.ids[0] % n if s.ids else 0
                ref[tl.ds(at, 1)] += ref[tl.ds(0, 1)] * 2
            elif how == "indexed":
                ref[tnp.arange(n + 1, dtype="int32") * 3 % n] += tnp.ones((n + 1, *ref.shape[1:]), ref.dtype)
            elif how == "shifted" and n > 1:
                ref[tl.ds(1, n - 1)] = ref[tl.ds(0, n - 1)]
            return small(ref[...])

        return f"scratch {how}", made

    def moved(self, a: int, axis: int) -> tuple[str, Step]:
        rules: dict[str, Callable[[Any, int], Any]] = {
            "reverse": lambda x, at: tnp.flip(x, at), "roll": lambda x, at: tnp.roll(x, 1, at),
            "pad": lambda x, at: tnp.pad(x, [(1, 0) if d == at else (0, 0) for d in range(len(x.shape))])[
                tuple(slice(0, n) for n in x.shape)],
            "transpose": lambda x, at: tnp.swapaxes(x, at, -1), "flat": lambda x, at: tnp.flip(x.reshape(-1)).reshape(
                x.shape), "stride": lambda x, at: x[(slice(None),) * at + (slice(None, None, 2),)],
            "twice": lambda x, at: tnp.concatenate([x, x + 1], at),
        }  # fmt: skip
        name = self.of(*rules)

        def made(s: Body) -> Any:
            x = s.pick(a)
            return rules[name](x, along(x, axis))

        return f"{name} {axis}", made

    def smooth(self, a: int, axis: int) -> tuple[str, Step]:
        rules: dict[str, Callable[[Any], Any]] = {
            "exp": lambda x: tnp.exp(x * -0.125), "quotient": lambda x: x / (tnp.abs(x) + 1), "tanh": tnp.tanh,
            "root": lambda x: tnp.sqrt(tnp.abs(x)), "log": lambda x: tnp.log(tnp.abs(x) + 1),
        }  # fmt: skip
        name = self.of(*rules)
        if np.dtype(self.dtype).kind in "iu":
            return "double", lambda s: s.pick(a) * 2
        self.exact = False
        return name, lambda s: rules[name](s.pick(a))

    # ------------------------------------------------------------ the kernel

    def kernel(self) -> tuple[Kernel, list[np.ndarray]]:
        """The kernel and its operands; raises an error where what was drawn is not a right kernel."""
        rank, fill = len(self.shape), self.of(0, 0, None) if self.exact else 0
        order = [int(i) for i in self.rng.permutation(rank)] if self.of(False, True) else list(range(rank))
        carried = self.of("scratch", "output") if self.depth > 1 else "nothing"
        alias = self.depth == 1 and self.of(False, False, True)
        scale = self.of(False, True)
        self.words += [f"order {order}", f"carried {carried}", f"alias {alias}", f"fill {fill}", f"depth {self.depth}"]
        back = self.of(False, True)

        def at(*ids: Any) -> list[Any]:
            found = [ids[order.index(d)] for d in range(rank)]
            return [self.counts[0] - 1 - found[0], *found[1:]] if back else found

        grid = (*(self.counts[d] for d in order), *([self.depth] if self.depth > 1 else []))
        spec = tl.BlockSpec(self.block, lambda *ids: tuple(at(*ids)), fill=None if alias else fill)
        row = tl.BlockSpec((1,) * (rank - 1) + self.block[-1:], lambda *ids: (0,) * (rank - 1) + (at(*ids)[-1],),
                           fill=fill)  # fmt: skip
        out = tl.BlockSpec(self.block, lambda *ids: tuple(at(*ids)))

        def body(x_ref: Any, row_ref: Any, o_ref: Any, kept_ref: Any, sum_ref: Any) -> None:
            ids = tuple(tl.program_id(d) for d in range(len(grid)))
            x = x_ref[...]
            state = Body([x + row_ref[...] if scale else x, x], ids, kept_ref)
            for step in self.steps:
                state.values.append(step(state))
            found = state.values[-1]
            if found.shape != self.block:
                found = tnp.max(found) + x * 0
            if carried == "nothing":
                o_ref[...] = found.astype(self.dtype)
                return
            into = o_ref if carried == "output" else sum_ref
            tl.when(ids[-1] == 0)(lambda: into.__setitem__(..., tnp.zeros(self.block, self.dtype)))
            into[...] += found.astype(self.dtype)
            if carried == "scratch":
                tl.when(ids[-1] == self.depth - 1)(lambda: o_ref.__setitem__(..., into[...]))

        scratch = [tl.VMEM(self.block, self.dtype)] * 2
        call = tl.kernel_call(
            body, out_shape=tw.ShapeDtypeStruct(self.shape, self.dtype), grid=grid, in_specs=[spec, row], out_specs=out,
            scratch_shapes=scratch, input_output_aliases={0: 0} if alias else {})  # fmt: skip
        low = 0 if np.dtype(self.dtype).kind == "u" else -4
        arrays = [
            self.rng.integers(low, 5, s).astype(self.dtype) for s in (self.shape, (1,) * (rank - 1) + self.shape[-1:])
        ]
        program: Program = trace_program(lambda *xs: [call(*xs)], [typeof(a) for a in arrays])
        return next(e.params["kernel"] for e in program.eqns if "kernel" in e.params), arrays


# ---------------------------------------------------------------------------- the law


def differing(drawn: Draw, found: Sequence[Any], wanted: Sequence[Any], other: Sequence[Any]) -> str:
    """Where results differ that do not depend on what is unspecified, in words."""
    few = drawn.dtype.itemsize == 2
    for f, w, o in zip(found, wanted, other, strict=True):
        f, w, o = (x.astype(np.float64) for x in (f, w, o))
        known = ~np.isnan(w) & (w == o)
        scale = max(float(np.abs(w[known]).max(initial=0)), 1.0)
        limit = 0.0 if drawn.exact else (2e-2 if few else 2e-5) * scale
        wrong = known & ~(np.abs(f - w) <= limit)
        if wrong.any():
            place = tuple(int(i[0]) for i in np.nonzero(wrong))
            return f"{int(wrong.sum())} of {wrong.size} differ, at {place}: {f[place]}, not {w[place]}"
    return ""


def outcome(seed: int, machine: Features | None = None) -> str:
    """What became of a drawn kernel: equal, refused with the reason, or WRONG with what differs."""
    drawn = Draw(seed)
    with tw.config(enable_x64=drawn.dtype == np.float64, debug_checks=False):
        try:
            kernel, arrays = drawn.kernel()
        except TilewrightError as error:
            return f"not a valid kernel: {type(error).__name__}"
        wanted, other = (
            interpret(kernel, *arrays, params=InterpretParams(uninitialized_memory=how)) for how in ("nan", "zero")
        )
        try:
            found = machine_code(kernel, *arrays, high=bool(seed % 2), machine=machine)
        except UnsupportedError as error:
            return f"refused: {error.what}"
        except Exception as error:  # of any kind: which seed it is has to be said
            text = str(error)[:200].replace("\n", " ")
            return f"WRONG {type(error).__name__} {text}; {drawn.words}"
        wrong = differing(drawn, found, wanted, other)
        return f"WRONG {wrong}; {drawn.dtype} {drawn.shape} in {drawn.block}: {drawn.words}" if wrong else "equal"


def drawn_apart(seeds: range) -> list[tuple[int, str]]:
    """The outcomes of seeds in a process of their own, up to one at which that dies, which is WRONG."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writer, "w") as out:
            for seed in seeds:
                out.write(f"{outcome(seed)}\n")
                out.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        found = list(zip(seeds, (line.rstrip("\n") for line in lines), strict=False))
    _, status = os.waitpid(child, 0)
    if len(found) < len(seeds):
        found.append((seeds[len(found)], f"WRONG the process died: status {status}"))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--first", type=int, default=0)
    given = options.parse_args()
    found: Counter[str] = Counter()
    seed, end = given.first, given.first + given.count
    while seed < end:
        for number, what in drawn_apart(range(seed, min(seed + 200, end))):
            seed = number + 1
            found["WRONG" if what.startswith("WRONG") else what.split(";")[0]] += 1
            if what.startswith("WRONG"):
                print(number, what, flush=True)
    for what, count in found.most_common():
        print(f"{count:6} {what}")
    sys.exit(bool(found["WRONG"]))


if __name__ == "__main__":
    main()
