"""The TTIR printer: values, single operations, regions and the module around them, as text.

A `Value` has the logical shape that the kernel's author sees. In the text every axis of a tensor is padded to a power
of two; what the padding holds is not specified, so whoever combines elements along an axis masks it (`values.py`).
Values of rank 0 are scalars, not tensors. Signs are no part of an MLIR integer type: rules look at the dtype.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.ir.types import INT32, is_bool, is_float, is_key
from ..lang.ops.basic import next_power_of_2 as power

ELEMENTS = {
    "bool": "i1", "bfloat16": "bf16", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
    **{f"float{b}": f"f{b}" for b in (16, 32, 64)},
    **{f"{sign}int{b}": f"i{b}" for b in (8, 16, 32, 64) for sign in ("", "u")},
}  # fmt: skip


def element(dtype: Any) -> str:
    """The MLIR element type of a dtype; random keys are words."""
    return "i32" if is_key(dtype) else ELEMENTS[str(dtype)]


def stored(dtype: Any) -> str:
    """The element type in memory, where a boolean is a byte."""
    return "i8" if is_bool(dtype) else element(dtype)


@dataclass(frozen=True)
class Value:
    """An SSA value: its name, logical shape, dtype; `pointer` where its elements are pointers to that dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    pointer: bool = False

    @property
    def padded(self) -> tuple[int, ...]:
        return tuple(map(power, self.shape))

    @property
    def type(self) -> str:
        return spell(self.shape, self.dtype, self.pointer)


def spell(shape: Sequence[int], dtype: Any, pointer: bool = False) -> str:
    """The MLIR type of values of a logical shape."""
    of = f"!tt.ptr<{stored(dtype)}>" if pointer else element(dtype)
    return f"tensor<{''.join(f'{power(n)}x' for n in shape)}{of}>" if shape else of


def number(value: Any, dtype: Any) -> str:
    """A scalar as the body of an attribute, with its exact bits."""
    one = np.asarray(value).astype(dtype)
    if is_bool(dtype):
        return "true" if one else "false"
    if is_float(dtype):
        text = f"{float(one):.6e}"
        exact = np.isfinite(one) and np.asarray(float(text)).astype(dtype).tobytes() == one.tobytes()
        return text if exact else "0x" + one.tobytes()[::-1].hex().upper()
    signed = one.reshape(1).view(f"i{one.dtype.itemsize}")[0]
    return str(int(signed))


Body = Callable[..., Sequence[Value]]
# Operations that do nothing but give a result.
PURE = (
    "arith.", "math.", "tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans",
    "tt.gather", "tt.join", "tt.addptr", "tt.bitcast", "tt.make_range", "tt.get_program_id", "tt.fp_to_fp",
    "tt.extern_elementwise", "tt.dot",
)  # fmt: skip
_PURE_LINE = re.compile(rf"\s*(%\w+) = (?:{'|'.join(map(re.escape, PURE))})")
_NAME = re.compile(r"%\w+")


class Printer:
    """Prints one function. What depends on nothing (constants, ranges) is printed once, at its top."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.top: list[str] = []
        self.known: dict[Any, Value] = {}
        self.numbers: dict[str, Any] = {}  # scalar constants, by name
        self.truths: dict[str, Value] = {}  # booleans, by the name of the integer that was made of them
        self.closed = False  # within the body of a reduction, which sees nothing from outside
        self.cuts: dict[Any, tuple[Value, int, int]] = {}  # slices, by name and shape: of what, along which axis, from
        self.dots: dict[str, tuple[str, str]] = {}  # products that start from zero: the text around where they start
        self.once_used: set[str] = set()  # names of products that one operation uses
        self.made: dict[str, str] = {}  # names of results, by what they are of
        self.made_at_top: dict[str, str] = {}
        self.counter = 0

    def fresh(self) -> str:
        self.counter += 1
        return f"%{self.counter - 1}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    def op(self, text: str, shape: Sequence[int], dtype: Any, pointer: bool = False) -> Value:
        """Print `%n = text`, whose result is of the given shape and dtype, unless it is known already."""
        pure = text.startswith(PURE)
        name = self.made.get(text) if pure else None
        if name is None:
            name = self.fresh()
            self.line(f"{name} = {text}")
            if pure:
                self.made[text] = name
        return Value(name, tuple(shape), dtype, pointer)

    def same(self, name: str, *operands: Value, dtype: Any = None, attributes: str = "") -> Value:
        """An operation all of whose operands are of one type, which it names; by default the result's too."""
        first = operands[0]
        names = ", ".join(o.name for o in operands)
        text = f"{name} {names}{attributes} : {first.type}"
        return self.op(text, first.shape, first.dtype if dtype is None else dtype)

    # ------------------------------------------------------------ what depends on nothing

    @contextlib.contextmanager
    def at_top(self) -> Iterator[None]:
        """Within it, lines go to the top of the function."""
        outer, self.lines, self.made = (self.lines, self.made), self.top, self.made_at_top
        try:
            yield
        finally:
            self.lines, self.made = outer

    def once(self, key: Any, make: Callable[[], Value]) -> Value:
        """A value of operations without operands from the body, printed once at the top."""
        found = self.known.get(key)
        if found is None:
            if self.lines is self.top or self.closed:
                return self.known.setdefault(key, make())
            with self.at_top():
                found = make()
            self.known[key] = found
        return found

    def constant(self, value: Any, dtype: Any, shape: Sequence[int] = ()) -> Value:
        """A number, spread over a shape."""
        text, type_ = number(value, dtype), spell(shape, dtype)
        if not shape:
            body = text if is_bool(dtype) else f"{text} : {type_}"
        else:
            body = f"dense<{text}> : {type_}"
        padded = tuple(map(power, shape))
        found = self.once(("constant", body, padded), lambda: self.op(f"arith.constant {body}", padded, dtype))
        if not shape:
            self.numbers[found.name] = value
        return Value(found.name, tuple(shape), dtype)

    # ------------------------------------------------------------ regions

    def inside(self, body: Callable[[], None]) -> list[str]:
        """The lines that `body` prints, indented."""
        outer = self.lines, self.made, self.once_used
        self.lines, self.made, self.once_used = [], {} if self.closed else dict(self.made), set()
        body()
        inner = self.lines
        self.lines, self.made, self.once_used = outer
        return ["  " + line for line in inner]

    def _results(self, name: str, values: Sequence[Value]) -> list[Value]:
        return [Value(f"{name}#{i}", v.shape, v.dtype, v.pointer) for i, v in enumerate(values)]

    def _yield(self, values: Sequence[Value]) -> None:
        if values:
            self.line(f"scf.yield {_names(values)} : {_types(values)}")

    def several(self, text: str, types: Sequence[Any]) -> list[Value]:
        """Print `%n:k = text`, an operation of several results."""
        name = self.fresh()
        self.line(f"{name}:{len(types)} = {text}")
        return [Value(f"{name}#{i}", t.shape, t.dtype) for i, t in enumerate(types)]

    def loop(
        self, count: int | Value, init: Sequence[Value], body: Body, first: int | Value = 0, stages: int | None = None,
        specialised: bool = False,
    ) -> list[Value]:
        """`scf.for` from `first` to `count` (int32): `body(i, *carried) -> carried`; gives what is carried last.

        `stages` is how many turns the compiler has in flight; `specialised`: it divides the work of a turn among warps.
        """
        low, high = (self.constant(x, INT32) if isinstance(x, int) else x for x in (first, count))
        step = self.constant(1, INT32)
        i = Value(self.fresh(), (), INT32)
        carried = [Value(self.fresh(), v.shape, v.dtype, v.pointer) for v in init]
        name = self.fresh()
        head = f"scf.for {i.name} = {low.name} to {high.name} step {step.name}"
        lines = self.inside(lambda: self._yield(list(body(i, *carried))))
        if init:
            pairs = ", ".join(f"{c.name} = {v.name}" for c, v in zip(carried, init, strict=True))
            head = f"{name}:{len(init)} = {head} iter_args({pairs}) -> ({_types(init)})"
        known = [] if stages is None else [f"tt.num_stages = {stages} : i32"]
        known += ["tt.warp_specialize"] if specialised else []
        told = f" {{{', '.join(known)}}}" if known else ""
        self.lines += [f"{head}  : i32 {{", *lines, f"}}{told}"]
        return self._results(name, init)

    def branch(self, condition: Value, taken: Callable[[], Sequence[Value]], other: Callable[[], Sequence[Value]]
               ) -> list[Value]:  # fmt: skip
        """`scf.if`: two ways to make values of the same types."""
        found: list[Sequence[Value]] = []

        def region(body: Callable[[], Sequence[Value]]) -> Callable[[], None]:
            def run() -> None:
                found.append(list(body()))
                self._yield(found[-1])

            return run

        yes, no = self.inside(region(taken)), self.inside(region(other))
        results, name = found[0], self.fresh()
        head = f"scf.if {condition.name}"
        if results:
            head = f"{name}:{len(results)} = {head} -> ({_types(results)})"
        rest = ["} else {", *no] if no or results else []
        self.lines += [f"{head} {{", *yes, *rest, "}"]
        return self._results(name, results)

    def repeat(self, init: Sequence[Value], test: Callable[..., tuple[Value, Sequence[Value]]], body: Body
               ) -> list[Value]:  # fmt: skip
        """`scf.while`: `test(*state) -> going, state`, `body(*state) -> state`."""
        before = [Value(self.fresh(), v.shape, v.dtype) for v in init]
        after = [Value(self.fresh(), v.shape, v.dtype) for v in init]
        name = self.fresh()

        def tested() -> None:
            going, state = test(*before)
            self.line(f"scf.condition({going.name}) {_names(state)} : {_types(state)}")

        first = self.inside(tested)
        second = self.inside(lambda: self._yield(list(body(*after))))
        pairs = ", ".join(f"{c.name} = {v.name}" for c, v in zip(before, init, strict=True))
        types = f"({_types(init)})"
        arguments = ", ".join(f"{v.name}: {v.type}" for v in after)
        self.lines += [
            f"{name}:{len(init)} = scf.while ({pairs}) : {types} -> {types} {{", *first, "} do {",
            f"^bb0({arguments}):", *second, "}",
        ]  # fmt: skip
        return self._results(name, init)

    def combine(self, name: str, operands: Sequence[Value], shape: Sequence[int], attributes: str, body: Body
                ) -> list[Value]:  # fmt: skip
        """`tt.reduce` or `tt.scan`: `body(*a, *b)` combines the elements of two places."""
        scalars = [Value(self.fresh(), (), o.dtype) for o in (*operands, *operands)]
        result = self.fresh()

        def region() -> None:
            outs = list(body(*scalars))
            self.line(f"{name}.return {_names(outs)} : {_types(outs)}")

        known, self.known, self.closed = self.known, {}, True
        lines = self.inside(region)
        self.known, self.closed = known, False
        head = ", ".join(f"{v.name}: {v.type}" for v in scalars)
        outs = [Value("", tuple(shape), o.dtype) for o in operands]
        many = f":{len(outs)}" if len(outs) > 1 else ""
        types = outs[0].type if len(outs) == 1 else f"({_types(outs)})"
        self.lines += [
            f'{result}{many} = "{name}"({_names(operands)}) <{{{attributes}}}> ({{', f"^bb0({head}):", *lines,
            f"}}) : ({_types(operands)}) -> {types}",
        ]  # fmt: skip
        if len(outs) == 1:
            return [Value(result, tuple(shape), operands[0].dtype)]
        return self._results(result, outs)

    # ------------------------------------------------------------ the module

    def module(self, name: str, arguments: Sequence[Value]) -> str:
        """The module whose one function has the printed body."""
        head = ", ".join(f"{a.name}: {a.type} {{tt.divisibility = 16 : i32}}" for a in arguments)
        lines = (*needed([*self.top, *self.lines]), "tt.return")
        body = numbered("\n".join("    " + line for line in lines))
        return f"module {{\n  tt.func public @{name}({head}) attributes {{noinline = false}} {{\n{body}\n  }}\n}}\n"


def needed(lines: Sequence[str]) -> list[str]:
    """Lines without the operations whose results nobody uses."""
    used: set[str] = set()
    kept = []
    for line in reversed(lines):
        made = _PURE_LINE.match(line)
        if made is None or made[1] in used:
            used.update(_NAME.findall(line))
            kept.append(line)
    return kept[::-1]


def numbered(text: str) -> str:
    """A text with its values numbered in the order they appear in."""
    names: dict[str, str] = {}
    return re.sub(r"%\d+\b", lambda m: names.setdefault(m[0], f"%{len(names)}"), text)


def _names(values: Sequence[Value]) -> str:
    return ", ".join(v.name for v in values)


def _types(values: Sequence[Value]) -> str:
    return ", ".join(v.type for v in values)
