"""Every public function of arrays against jax: values, dtypes, weak types and two derivatives, over dtypes and shapes.

    python -m benchmarks.agreement                  all namespaces
    python -m benchmarks.agreement lax scipy.special
    python -m benchmarks.agreement numpy --variants int8 batch

Each call of `tests/support/surface_calls.py` is made with its arrays as they are and in other dtypes (those of 64 bits
with these enabled), without axes, without elements, with one axis more, and with infinities, NaN and zeros in them. Of
decompositions what is determined is compared. Where jax gives an answer, ours is held against it. What
differs from jax's, but not from NumPy's or SciPy's, is counted; what differs without a reason in
`docs/differences.json` is printed, and the exit status is 1; entries there that no call
needed are printed too. Values are computed by NumPy, so that nothing is compiled on our side.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tilewright as tw
from tests.support.linalg_calls import same
from tests.support.more_calls import MORE
from tests.support.surface_calls import CALLS, Of
from tilewright.core.evaluate import NUMPY
from tilewright.core.trace import under

TOLERANCE = {"bfloat16": 3e-2, "float16": 4e-3, "float32": 2e-4, "complex64": 2e-4, "float64": 1e-5, "complex128": 1e-5}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], np.float32)


def _cast(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x.astype(dtype) if x.dtype == np.float32 else x


def _integers(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Floats and integers in an integer type; what it does not have is wrapped around."""
    return lambda x: x.astype(np.int64).astype(dtype) if x.dtype in (np.float32, np.int32) else x


def _odd(x: np.ndarray) -> np.ndarray:
    """An array whose floats are at the ends of what there is."""
    return np.resize(SPECIAL, x.shape).astype(x.dtype) if x.dtype.kind == "f" else x


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
    "odd": _odd,
    "a number": lambda x: x.reshape(-1)[0].item() if x.dtype.kind in "fiu" else x,
}  # fmt: skip
SPACES = [*dict.fromkeys([*CALLS, *MORE])]
WIDE = ("float64", "complex128", "int64", "uint64")  # with types of 64 bits enabled


_FILE = Path(__file__).resolve().parent.parent / "docs" / "differences.json"


@dataclass(frozen=True)
class Difference:
    """Answers that differ on purpose: of which functions, of which variants of arrays (all), in what, and why."""

    names: tuple[str, ...]
    why: str
    given: tuple[str, ...] = tuple(VARIANTS)
    how: str = ""  # "values", "types", "raises", or all of these

    def covers(self, name: str, variant: str, found: str) -> bool:
        return self.is_of(name) and variant in self.given and found.startswith(self.how)

    def is_of(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.names)


def accepted() -> list[Difference]:
    """The entries of `docs/differences.json`."""
    entries: list[dict[str, Any]] = json.loads(_FILE.read_text())
    found: list[dict[str, Any]] = [{k: tuple(v) if isinstance(v, list) else v for k, v in e.items()} for e in entries]
    return [Difference(**entry) for entry in found]


@dataclass(frozen=True)
class Answer:
    """What a call gave: arrays, their dtypes and whether these are weak; or an error."""

    arrays: tuple[Any, ...] = ()
    types: tuple[Any, ...] = ()
    error: str = ""


def _varied(value: Any, change: Callable[[np.ndarray], Any]) -> Any:
    if isinstance(value, np.ndarray):
        return change(value) if value.dtype.kind in "fcb" or value.ndim else value
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [change(v) for v in value]
    return value


def _function(library: Any, space: str, name: str) -> Callable[..., Any]:
    return _function_of(importlib.import_module(f"{library.__name__}.{space}"), name)


def _function_of(module: Any, name: str) -> Callable[..., Any]:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _made(library: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with what each library makes of its own."""
    lax = importlib.import_module(f"{library.__name__}.lax")
    return tuple(a.make(lax) if isinstance(a, Of) else library.numpy.sum if a is np.sum else a for a in args)


def _type(x: Any) -> Any:
    """What is compared of a result beside its values; whether a bool is weak is of no consequence."""
    if not hasattr(x, "dtype"):
        return type(x).__name__
    return str(x.dtype), np.shape(x), bool(getattr(x, "weak_type", False)) and str(x.dtype) != "bool"


def _leaves(library: Any, out: Any) -> list[Any]:
    return [x for x in library.tree.leaves(out) if not isinstance(x, str)]


def _answer(out: list[Any], types: list[Any]) -> Answer:
    return Answer(tuple(np.asarray(x) for x in out if not str(getattr(x, "dtype", "")).startswith("key")),
                  tuple(map(_type, types)))  # fmt: skip


def of_jax(jax: Any, f: Callable[..., Any], args: Any, kwargs: Any, facts: Any = same) -> Answer:
    try:
        out = _leaves(jax, facts(jax.numpy, f(*_made(jax, args), **kwargs)))
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {error}")
    return _answer(out, out)


def of_ours(f: Callable[..., Any], args: Any, kwargs: Any, facts: Any = same) -> Answer:
    given = _made(tw, args)

    def call() -> Any:
        return facts(tw.numpy, f(*given, **kwargs))

    try:
        out = _leaves(tw, under(NUMPY, call))
        try:
            types = _leaves(tw, tw.eval_shape(call))
            types = [y if hasattr(x, "dtype") else x for x, y in zip(out, types, strict=True)]  # numbers stay numbers
        except tw.errors.JAXTypeError:  # its shape depends on values
            types = _leaves(tw, call())
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {error}".partition("\n")[0])
    return _answer(out, types)


def as_origin(ours: Answer, space: str, name: str, args: Any, kwargs: Any, facts: Any = same) -> bool:
    """Whether our answer has the values of NumPy's or SciPy's function of the name, or is refused by both."""
    try:
        f = _function_of(importlib.import_module(space), name)
    except (ImportError, AttributeError):
        return False
    try:
        found = [np.asarray(x) for x in tw.tree.leaves(facts(np, f(*args, **kwargs)))]
    except Exception:
        return bool(ours.error)
    if len(found) != len(ours.arrays) or any(a.dtype.kind not in "biufc" for a in found):
        return False
    return all(a.shape == b.shape and _close(b, a) for a, b in zip(found, ours.arrays, strict=True))


def _close(a: Any, b: Any) -> bool:
    room = TOLERANCE.get(str(a.dtype), 0)
    return np.allclose(_widest(a), _widest(b), rtol=room, atol=room, equal_nan=True)


def _widest(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def difference(ours: Answer, theirs: Answer) -> str | None:
    """How an answer differs from jax's; None where it does not, or jax has none."""
    if theirs.error:
        return None
    if ours.error:
        return f"raises: jax answers, ours raises {ours.error}"
    if ours.types != theirs.types:
        return f"types: jax {theirs.types}, ours {ours.types}"
    for a, b in zip(ours.arrays, theirs.arrays, strict=True):
        if not _close(b, a):
            room = TOLERANCE.get(str(b.dtype), 0)
            wrong = ~np.isclose(_widest(a), _widest(b), rtol=room, atol=room, equal_nan=True)
            return f"values: jax {b[wrong][:4]}, ours {a[wrong][:4]}"
    return None


def calls(space: str, variants: Any) -> Iterator[tuple[str, str, str, Any, Any, Any]]:
    """Every call of a namespace in each variant: what it is called in messages, its parts, and what is compared."""
    rows = [*((*call, same) for call in CALLS.get(space, ())), *MORE.get(space, ())]
    for n, (name, args, kwargs, facts) in enumerate(rows):
        for variant in variants:
            change = VARIANTS[variant]
            try:
                changed = tuple(_varied(a, change) for a in args)
            except (ValueError, IndexError, TypeError):
                continue
            yield f"{space}.{name} #{n} [{variant}]", name, variant, changed, kwargs, facts


def of_both(jax: Any, space: str, name: str, variant: str, *call: Any) -> tuple[Answer, Answer]:
    """Our answer to a call, and jax's; with types of 64 bits where the variant has them."""
    wide = variant in WIDE
    with jax.enable_x64(wide), tw.config(enable_x64=wide), np.errstate(all="ignore"):
        theirs = of_jax(jax, _function(jax, space, name), *call)
        return (theirs if theirs.error else of_ours(_function(tw, space, name), *call)), theirs


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    import jax

    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement")
    parser.add_argument("spaces", nargs="*", default=SPACES, help="namespaces")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    options = parser.parse_args(argv)
    count = original = unexplained = 0
    reasons, needed = accepted(), set[Difference]()
    warnings.simplefilter("ignore")
    for space in options.spaces:
        for what, name, variant, args, kwargs, facts in calls(space, options.variants):
            ours, theirs = of_both(jax, space, name, variant, args, kwargs, facts)
            count += not theirs.error
            with np.errstate(all="ignore"):
                found = difference(ours, theirs)
                if found and not found.startswith("types") and as_origin(ours, space, name, args, kwargs, facts):
                    original += 1
                    continue
            why = {d for d in reasons if found and d.covers(f"{space}.{name}", variant, found)}
            needed |= why
            if found and not why:
                unexplained += 1
                print(f"{what}: {found}", flush=True)
    every = [f"{space}.{row[0]}" for table in (CALLS, MORE) for space, rows in table.items() for row in rows]
    done = {name for name in every if name.startswith(tuple(f"{space}." for space in options.spaces))}
    idle = [d for d in reasons if d not in needed and {*d.given} <= {*options.variants}]
    for entry in (d for d in idle if done.issuperset(filter(d.is_of, every))):
        print(f"no call differs as docs/differences.json has it: {entry.names}, {entry.why}")
    print(f"{count} calls that jax answers, {original} answered as by NumPy or SciPy, {len(needed)} other reasons to "
          f"differ, {unexplained} unexplained differences")  # fmt: skip
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
