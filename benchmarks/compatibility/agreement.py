"""Every public function of arrays against jax: values, dtypes, weak types and two derivatives, over dtypes and shapes.

    python -m benchmarks.compatibility.agreement                  all namespaces
    python -m benchmarks.compatibility.agreement lax scipy.special
    python -m benchmarks.compatibility.agreement numpy --variants int8 batch --names "nan*" median
    python -m benchmarks.compatibility.agreement numpy --of types            shapes and dtypes alone: quick
    python -m benchmarks.compatibility.agreement scipy.special --of forward --variants odd equal

Each call of `tests/support/calls/surface_calls.py` is made with its arrays as they are and in other dtypes (those of 64
bits with these enabled), without axes, without elements, with one axis more, with infinities, NaN and zeros in them,
and with all arrays equal. Of decompositions what is determined is compared. Where jax gives an answer, ours is held
against it. What differs from jax's, but not from NumPy's or SciPy's, is counted; what differs without a reason in
`docs/differences.json` is printed, and the exit status is 1; entries there that no call needed are printed too. Values
are computed by NumPy, so that nothing is compiled on our side, unless `--of compiled` is asked for. What jax answers is
kept in the cache folder, or the one of `--kept`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tilewright as tw
from tests.support.calls.linalg_calls import same
from tests.support.calls.more_calls import MORE
from tests.support.calls.surface_calls import CALLS
from tilewright.tuning.store import default_path

from .answers import QUESTIONS, Answer, Call, attribute, kept, of_jax, of_ours, once

TOLERANCE = {"bfloat16": 3e-2, "float16": 4e-3, "float32": 2e-4, "complex64": 2e-4, "float64": 1e-5, "complex128": 1e-5}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], np.float32)
EQUAL = np.array([3.0, -3.0, 0.5, 6.0, -0.5, 20.0, 0.0, 1e-10], np.float32)


def _cast(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x.astype(dtype) if x.dtype == np.float32 else x


def _integers(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Floats and integers in an integer type; what it does not have is wrapped around."""
    return lambda x: x.astype(np.int64).astype(dtype) if x.dtype in (np.float32, np.int32) else x


def _resized(values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.resize(values, x.shape).astype(x.dtype) if x.dtype.kind == "f" else x


# What becomes of every array of a call.
VARIANTS: dict[str, Callable[[np.ndarray], Any]] = {
    "as it is": lambda x: x,
    **{name: _cast(getattr(ml_dtypes, name, name)) for name in ("bfloat16", "float16", "bool", "complex64")},
    **{name: _integers(name) for name in ("int8", "uint8", "int16", "int32", "uint32")},
    **{name: _cast(name) for name in ("float64", "complex128")},
    **{name: _integers(name) for name in ("int64", "uint64")},
    "batch": lambda x: np.stack([x, np.flip(x)]),
    "0-d": lambda x: x.reshape(-1)[:1].reshape(()),
    "empty": lambda x: x[:0],
    "odd": _resized(SPECIAL),
    "equal": _resized(EQUAL),
    "a number": lambda x: x.reshape(-1)[0].item() if x.dtype.kind in "fiu" else x,
}  # fmt: skip
SPACES = [*dict.fromkeys([*CALLS, *MORE])]
WIDE = ("float64", "complex128", "int64", "uint64")  # with types of 64 bits enabled


_FILE = Path(__file__).resolve().parents[2] / "docs" / "differences.json"


@dataclass(frozen=True)
class Difference:
    """Answers that differ on purpose: of which functions, of which variants of arrays (all), in what, and why."""

    names: tuple[str, ...]
    why: str
    given: tuple[str, ...] = tuple(VARIANTS)
    how: str = ""  # "values", "types", "raises", "derivatives", or all of these

    def covers(self, name: str, variant: str, found: str) -> bool:
        return self.is_of(name) and variant in self.given and found.startswith(self.how)

    def is_of(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.names)


def accepted() -> list[Difference]:
    """The entries of `docs/differences.json`."""
    entries: list[dict[str, Any]] = json.loads(_FILE.read_text())
    found: list[dict[str, Any]] = [{k: tuple(v) if isinstance(v, list) else v for k, v in e.items()} for e in entries]
    return [Difference(**entry) for entry in found]


def _varied(value: Any, change: Callable[[np.ndarray], Any]) -> Any:
    if isinstance(value, np.ndarray):
        return change(value) if value.dtype.kind in "fcb" or value.ndim else value
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [change(v) for v in value]
    return value


def as_origin(ours: Answer, call: Call) -> bool:
    """Whether our answer has the values of NumPy's or SciPy's function of the name, or is refused by both."""
    try:
        f = attribute(importlib.import_module(call.space), call.name)
    except (ImportError, AttributeError):
        return False
    try:
        found = [np.asarray(x) for x in tw.tree.leaves(call.facts(np, f(*call.args, **call.kwargs)))]
    except Exception:
        return bool(ours.error)
    if len(found) != len(ours.arrays) or any(a.dtype.kind not in "biufc" for a in found):
        return False
    return all(a.shape == b.shape and np.all(_close(b, a)) for a, b in zip(found, ours.arrays, strict=True))


def _close(a: Any, b: Any, times: int = 1) -> Any:
    room = times * TOLERANCE.get(str(a.dtype), 0)
    return np.isclose(_widest(a), _widest(b), rtol=room, atol=room, equal_nan=True)


def _widest(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _of_types(ours: Answer, theirs: Answer, question: str) -> bool:
    """Whether results are of the same types; Python's numbers are arrays where they come out of a compiled function."""
    if len(ours.types) != len(theirs.types):
        return False
    numbers = question == "compiled"
    return all(a == b or numbers and type(b) is str for a, b in zip(ours.types, theirs.types, strict=True))


def difference(ours: Answer, theirs: Answer, question: str = "values") -> str | None:
    """How an answer differs from jax's; None where it does not, or jax has none."""
    if theirs.error:
        return None
    if question == "compiled" and ours.error.startswith("TracerArrayConversionError"):
        return None  # a shape that depends on values
    if ours.error:
        return f"raises: jax answers, ours raises {ours.error}"
    if not _of_types(ours, theirs, question):
        return f"types: jax {theirs.types}, ours {ours.types}"
    room = 10 if question in ("forward", "reverse") else 1
    for n, (a, b) in enumerate(zip(ours.arrays, theirs.arrays, strict=True)):
        if not np.all(_close(b, a, room)):
            wrong = ~_close(b, a, room)
            what = "derivatives" if room > 1 else "values"
            return f"{what}: jax {b[wrong][:4]}, ours {a[wrong][:4]}, of result {n} at {np.flatnonzero(wrong)[:4]}"
    return None


def calls(space: str, variants: Sequence[str], names: Sequence[str] = ("*",)) -> Iterator[tuple[str, str, Call]]:
    """The calls of a namespace whose names fit a pattern, in each variant, and what they are called in messages."""
    rows = [*((*call, same) for call in CALLS.get(space, ())), *MORE.get(space, ())]
    for n, (name, args, kwargs, facts) in enumerate(rows):
        for variant in variants if any(fnmatchcase(name, pattern) for pattern in names) else ():
            change = VARIANTS[variant]
            try:
                changed = tuple(_varied(a, change) for a in args)
            except (ValueError, IndexError, TypeError):
                continue
            yield f"{space}.{name} #{n} [{variant}]", variant, Call(space, name, changed, kwargs, facts)


def of_both(jax: Any, question: str, variant: str, call: Call, store: Any) -> tuple[Answer, Answer]:
    """Our answer to a call, and jax's; with types of 64 bits where the variant has them."""
    wide = variant in WIDE
    with jax.enable_x64(wide), tw.config(enable_x64=wide), np.errstate(all="ignore"):
        of = "values" if question == "compiled" else question
        key = (of, wide, call.space, call.name, call.args, call.kwargs, call.facts)
        theirs = once(store, key, lambda: of_jax(jax, of, call))
        return (theirs if theirs.error else of_ours(question, call)), theirs


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    import jax

    parser = argparse.ArgumentParser(prog="python -m benchmarks.compatibility.agreement")
    parser.add_argument("spaces", nargs="*", default=SPACES, help="namespaces")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--names", nargs="*", default=["*"], help="patterns of the functions' names")
    parser.add_argument("--of", choices=QUESTIONS, default="values", help="what the calls are asked for")
    folder = default_path().parent / "agreement"
    parser.add_argument("--kept", type=Path, default=folder, help="the folder of jax's answers")
    options = parser.parse_args(argv)
    count = original = unexplained = 0
    reasons, needed = accepted(), set[Difference]()
    warnings.simplefilter("ignore")
    with kept(options.kept, jax.__version__) as store:
        for space in options.spaces:
            for what, variant, call in calls(space, options.variants, options.names):
                ours, theirs = of_both(jax, options.of, variant, call, store)
                count += not theirs.error
                with np.errstate(all="ignore"):
                    found = difference(ours, theirs, options.of)
                    if found and not found.startswith(("types", "derivatives")) and as_origin(ours, call):
                        original += 1
                        continue
                held = {variant, "batch"} if options.of == "batched" else {variant}
                why = {d for d in reasons for v in held if found and d.covers(f"{space}.{call.name}", v, found)}
                needed |= why
                if found and not why:
                    unexplained += 1
                    print(f"{what}: {found}", flush=True)
    for entry in idle(reasons, needed, options) if options.of == "values" else ():
        print(f"no call differs as docs/differences.json has it: {entry.names}, {entry.why}")
    print(f"{count} calls that jax answers, {original} answered as by NumPy or SciPy, {len(needed)} other reasons to "
          f"differ, {unexplained} unexplained differences")  # fmt: skip
    return int(unexplained > 0)


def idle(reasons: list[Difference], needed: set[Difference], options: argparse.Namespace) -> list[Difference]:
    """The reasons to differ that no call needed, of those whose calls were all made."""
    every = [f"{space}.{row[0]}" for table in (CALLS, MORE) for space, rows in table.items() for row in rows]
    made = [call for space in options.spaces for _, _, call in calls(space, ["as it is"], options.names)]
    done = {f"{call.space}.{call.name}" for call in made}
    left = [d for d in reasons if d not in needed and "derivative" not in d.how and {*d.given} <= {*options.variants}]
    return [d for d in left if done.issuperset(filter(d.is_of, every))]


if __name__ == "__main__":
    sys.exit(main())
