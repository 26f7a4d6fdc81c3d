"""Calls of array functions with other shapes and dtypes than tests use, against jax in a process of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tests.support.calls.surface_calls import CALLS
from tilewright.errors import TilewrightError

from .baseline import Baseline, answered, call_by, unpacked
from .expressions import array
from .finding import Finding, minimized

DTYPES = ("float32", "float16", "bfloat16", "int8", "uint8", "int32", "uint32", "bool", "complex64")
SHAPES = ((), (0,), (1,), (3,), (1, 3), (2, 3), (2, 0), (3, 1, 2), (2, 3, 4))
TOLERANCE = {"bfloat16": 5e-2, "float16": 1e-2}
LISTED = json.loads((Path(__file__).parents[2] / "docs/differences.json").read_text())
DIFFERENT = [(name, entry["how"]) for entry in LISTED for name in entry["names"]]
RANDOM = ("random", "nn.initializers", "image")  # of these values are compared elsewhere


@dataclass(frozen=True)
class Call:
    """A function by its name, and its arguments: arrays as {"shape", "dtype", "seed"}, others as they are."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def data(self) -> dict[str, Any]:
        return {"name": self.name, "args": self.args, "kwargs": self.kwargs}


def plain(value: Any) -> bool:
    """Whether JSON has the value."""
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def drawable() -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """The listed calls whose arguments are arrays and plain values."""
    found = []
    for space, calls in CALLS.items():
        if not space.startswith(RANDOM):
            found += [(f"{space}.{n}", a, k) for n, a, k in calls
                      if all(plain(v) or isinstance(v, np.ndarray) for v in (*a, *k.values()))]  # fmt: skip
    return found


DRAWABLE = drawable()


def draw(seed: int) -> Call:
    """A listed call with one or more arrays of another shape or dtype."""
    of = random.Random(seed)
    name, args, kwargs = of.choice(DRAWABLE)

    def other(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return list(value) if isinstance(value, tuple) else value
        shape = of.choice(SHAPES) if of.random() < 0.5 else value.shape
        dtype = of.choice(DTYPES) if of.random() < 0.5 else str(value.dtype)
        return {"shape": list(shape), "dtype": dtype, "seed": of.randrange(100)}

    return Call(name, tuple(map(other, args)), {k: other(v) for k, v in kwargs.items()})


def smaller(call: Call) -> Iterator[Call]:
    """The call without a keyword, or with float32 or a vector in place of an array."""
    for key in call.kwargs:
        yield replace(call, kwargs={k: v for k, v in call.kwargs.items() if k != key})
    for n, value in enumerate(call.args):
        if isinstance(value, dict):
            for change in ({"dtype": "float32"}, {"shape": [3]}, {"shape": []}, {"seed": 0}):
                if value | change != value:
                    yield replace(call, args=(*call.args[:n], value | change, *call.args[n + 1 :]))


class Calls:
    """One call per seed."""

    def __init__(self, python: str | None):
        if python is None:
            raise SystemExit("calls are compared with jax: pass --baseline-python, an interpreter that has it")
        self.baseline = Baseline(python)

    def differs(self, call: Call) -> str | None:
        """How the answers differ; None if they do not, or if the difference is listed."""
        wanted = self.baseline.ask(call=call.data())
        raised: list[Exception] = []

        def run(call: Call) -> Any:
            try:
                return call_by(tw, call.data(), array)
            except Exception as error:
                raised.append(error)
                raise

        found = answered(run, call, tw.tree.leaves)
        if isinstance(found, str):
            outside = not isinstance(raised[0], TilewrightError)
            return None if not outside and (isinstance(wanted, str) or listed(call, "raises")) else found
        if isinstance(wanted, str) or listed(call):
            return None
        return difference([x | {"values": unpacked(x)} for x in found], wanted)

    def run(self, seed: int) -> Finding | None:
        call = draw(seed)
        if self.differs(call) is None:
            return None
        least = minimized(call, smaller, lambda c: self.differs(c) is not None)
        return Finding(seed, f"{least.name}: {self.differs(least)}", script(least))


def listed(call: Call, how: str = "") -> bool:
    """Whether some difference from jax, or one of a kind, is stated for the function."""
    return any(fnmatchcase(call.name, name) and kind.startswith(how) for name, kind in DIFFERENT)


def difference(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> str | None:
    """How the leaves of two results differ; None if they do not."""
    if len(found) != len(wanted):
        return f"{len(found)} results, wanted {len(wanted)}"
    for ours, theirs in zip(found, wanted, strict=True):
        for what in ("dtype", "shape"):
            if ours[what] != theirs[what]:
                return f"{what} {ours[what]}, wanted {theirs[what]}"
        near = TOLERANCE.get(ours["dtype"], 1e-3)
        far = ~np.isclose(ours["values"], theirs["values"], near, near, equal_nan=True)
        if far.any():
            return f"values {ours['values'][far][:4]}, wanted {theirs['values'][far][:4]}"
    return None


def script(call: Call) -> str:
    """A script that makes the call; with `jax` as its argument, by jax."""
    return "\n".join([
        "import sys", "", "from benchmarks.fuzzing.baseline import call_by",
        "from benchmarks.fuzzing.expressions import array", "", 'if sys.argv[1:] == ["jax"]:', "    import jax as lib",
        "else:", "    import tilewright as lib", "", f"call = {call.data()!r}", "print(call_by(lib, call, array))", "",
    ])  # fmt: skip
