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
from ..lang.mlir.text import Lines

ELEMENTS = {
    "bool": "i1", "bfloat16": "bf16", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
    **{f"float{b}": f"f{b}" for b in (16, 32, 64)},
    **{f"{sign}int{b}": f"i{b}" for b in (8, 16, 32, 64) for sign in ("", "u")},
}  # fmt: skip


def power(n: int) -> int:
    """The least power of two that is at least `n`, an extent."""
    return 1 << (n - 1).bit_length() if n else 1


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


class Printer(Lines):
    """Prints one function. What depends on nothing (constants, ranges) is printed once, at its top."""

    closed: bool
    made: dict[Any, Any]
    lines: list[str]

    def __init__(self) -> None:
        super().__init__()
        self.top: list[str] = []
        self.known: dict[Any, Value] = {}
        self.numbers: dict[str, Any] = {}  # scalar constants, by name
        self.truths: dict[str, Value] = {}  # booleans, by the name of the integer that was made of them
        self.closed = False  # within the body of a reduction, which sees nothing from outside
        self.cuts: dict[Any, tuple[Value, int, int]] = {}  # slices, by name and shape: of what, along which axis, from
        self.dots: dict[str, tuple[str, str]] = {}  # products that start from zero: the text around where they start
        self.once_used: set[str] = set()  # names of products that one operation uses
        self.made_at_top: dict[str, str] = {}

    def op(self, text: str, shape: Sequence[int], dtype: np.dtype[Any], pointer: bool = False) -> Value:
        """Print `%n = text`, whose result is of the given shape and dtype, unless it is known already."""
        pure = text.startswith(PURE)
        name = self.made.get(text) if pure else None
        if name is None:
            name = self.fresh()
            self.line(f"{name} = {text}")
            if pure:
                self.made[text] = name
        return Value(name, tuple(shape), dtype, pointer)

    def same(self, name: str, *operands: Value, dtype: np.dtype[Any] | None = None, attributes: str = "") -> Value:
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

    def constant(self, value: Any, dtype: np.dtype[Any], shape: Sequence[int] = ()) -> Value:
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

    @contextlib.contextmanager
    def region(self) -> Iterator[list[str]]:
        made, once_used = self.made, self.once_used
        self.made, self.once_used = {} if self.closed else made, set()
        try:
            with super().region() as lines:
                yield lines
        finally:
            self.made, self.once_used = made, once_used

    def several(self, text: str, types: Sequence[Any]) -> list[Value]:
        """Print `%n:k = text`, an operation of several results."""
        name = self.fresh()
        self.line(f"{name}:{len(types)} = {text}")
        return [Value(f"{name}#{i}", t.shape, t.dtype) for i, t in enumerate(types)]

    def loop(
        self, count: int | Value, init: Sequence[Value], body: Body, first: int | Value = 0, stages: int | None = None,
        specialised: bool = False,
    ) -> list[Value]:  # fmt: skip
        """`scf.for` from `first` to `count` (int32): `body(i, *carried) -> carried`; gives the last carried values.

        `stages` is the number of iterations in flight; `specialised`: warps divide the work of an iteration.
        """
        bounds = [self.constant(x, INT32).name if isinstance(x, int) else x.name for x in (first, count, 1)]
        options = [] if stages is None else [f"tt.num_stages = {stages} : i32"]
        options += ["tt.warp_specialize"] if specialised else []

        def run(i: str, *names: str) -> list[str]:
            return [v.name for v in body(Value(i, (), INT32), *_renamed(init, names))]

        attributes = f" {{{', '.join(options)}}}" if options else ""
        names = self.counted(bounds, *_named(init), run, "  : i32", attributes)
        return _renamed(init, names)

    def branch(self, condition: Value, taken: Callable[[], Sequence[Value]], other: Callable[[], Sequence[Value]]
               ) -> list[Value]:  # fmt: skip
        """`scf.if`: two ways to make values of the same types."""
        results: list[Value] = []

        def yes() -> tuple[list[str], list[str]]:
            results.extend(taken())
            return _named(results)

        return _renamed(results, self.branches(condition.name, yes, lambda: _named(other())))

    def loop_while(self, init: Sequence[Value], test: Callable[..., tuple[Value, Sequence[Value]]], body: Body
                   ) -> list[Value]:  # fmt: skip
        """`scf.while`: `test(*state) -> going, state`, `body(*state) -> state`."""

        def before(*names: str) -> tuple[str, list[str]]:
            going, state = test(*_renamed(init, names))
            return going.name, [v.name for v in state]

        names = self.repeat(*_named(init), before, lambda *names: [v.name for v in body(*_renamed(init, names))])
        return _renamed(init, names)

    def combine(self, name: str, operands: Sequence[Value], shape: Sequence[int], attributes: str, body: Body
                ) -> list[Value]:  # fmt: skip
        """`tt.reduce` or `tt.scan`: `body(*a, *b)` combines the elements of two places."""
        scalars = [Value(self.fresh(), (), o.dtype) for o in (*operands, *operands)]
        result = self.fresh()

        known, self.known, self.closed = self.known, {}, True
        with self.region() as lines:
            outs = list(body(*scalars))
            self.line(f"{name}.return {_names(outs)} : {_types(outs)}")
        self.known, self.closed = known, False
        head = ", ".join(f"{v.name}: {v.type}" for v in scalars)
        outs = [Value("", tuple(shape), o.dtype) for o in operands]
        many = f":{len(outs)}" if len(outs) > 1 else ""
        types = outs[0].type if len(outs) == 1 else f"({_types(outs)})"
        self.lines += [
            f'{result}{many} = "{name}"({_names(operands)}) <{{{attributes}}}> ({{', f"^bb0({head}):",
            *("  " + line for line in lines), f"}}) : ({_types(operands)}) -> {types}",
        ]  # fmt: skip
        if len(outs) == 1:
            return [Value(result, tuple(shape), operands[0].dtype)]
        return _renamed(outs, [f"{result}#{i}" for i in range(len(outs))])

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


def _renamed(values: Sequence[Value], names: Sequence[str]) -> list[Value]:
    """Values of the same types under other names."""
    return [Value(name, v.shape, v.dtype, v.pointer) for name, v in zip(names, values, strict=True)]


def _named(values: Sequence[Value]) -> tuple[list[str], list[str]]:
    return [v.name for v in values], [v.type for v in values]


def _names(values: Sequence[Value]) -> str:
    return ", ".join(v.name for v in values)


def _types(values: Sequence[Value]) -> str:
    return ", ".join(v.type for v in values)
