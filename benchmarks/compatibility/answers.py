"""What a call answers when it is asked for values, for types alone, in a batch, or for two derivatives.

Every question is put to jax and to this package by the same function. Answers of jax are kept on disk, by what was
called and with which arguments, so that they are computed once.
"""

from __future__ import annotations

import hashlib
import importlib
import shelve
from collections.abc import Callable, MutableMapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tests.support.calls.surface_calls import Of
from tilewright.core.ir.binding import under
from tilewright.core.tracing.numpy_interpreter import NUMPY


@dataclass(frozen=True)
class Answer:
    """What a call gave: arrays, their dtypes and whether these are weak; or an error."""

    arrays: tuple[Any, ...] = ()
    types: tuple[Any, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Call:
    """A function of either library by its name, the arguments, and what of the results is determined."""

    space: str
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    facts: Callable[..., Any]

    def by(self, library: Any) -> tuple[Callable[..., list[Any]], list[int]]:
        """The leaves of the results as a function of the arguments that are arrays of floats, and their places."""
        f = attribute(importlib.import_module(f"{library.__name__}.{self.space}"), self.name)
        given = _made(library, self.args)
        places = [i for i, a in enumerate(given) if isinstance(a, np.ndarray) and np.issubdtype(a.dtype, np.inexact)]

        def call(*arrays: Any) -> list[Any]:
            full = list(given)
            for i, x in zip(places, arrays, strict=False):
                full[i] = x
            out = library.tree.leaves(self.facts(library.numpy, f(*full, **self.kwargs)))
            return [x for x in out if not isinstance(x, str)]

        return call, places


def attribute(module: Any, name: str) -> Callable[..., Any]:
    """What a dotted name means in a module."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _made(library: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with what each library makes of its own."""
    lax = importlib.import_module(f"{library.__name__}.lax")
    return tuple(a.make(lax) if isinstance(a, Of) else library.numpy.sum if a is np.sum else a for a in args)


def values(library: Any, call: Call) -> list[Any]:
    """The results."""
    return call.by(library)[0]()


def batched(library: Any, call: Call) -> list[Any]:
    """The results of a batch of two: the arrays, and the same in reverse order."""
    f, places = call.by(library)
    arrays = [np.stack([call.args[i], np.flip(call.args[i])]) for i in places]
    return library.vmap(lambda *xs: _numbers(library, f(*xs)))(*arrays) if arrays else []


def forward(library: Any, call: Call) -> list[Any]:
    """The first and second derivative by each array of floats along a direction, by `jvp`."""

    def of(f: Callable[[Any], Any], x: Any) -> list[Any]:
        def slope(x: Any) -> Any:
            return library.jvp(f, (x,), (along(x),))[1]

        return [*slope(x), *library.jvp(slope, (x,), (along(x),))[1]]

    return _by_each(library, call, of)


def reverse(library: Any, call: Call) -> list[Any]:
    """The gradient of a sum of the results by each array of floats, and the gradient of a sum of that."""

    def of(f: Callable[[Any], Any], x: Any) -> list[Any]:
        def total(x: Any) -> Any:
            return sum(library.numpy.real(y * along(y)).sum() for y in f(x))

        slope = library.grad(total)
        return [slope(x), library.grad(lambda x: library.numpy.real(slope(x) * along(x)).sum())(x)]

    return _by_each(library, call, of)


def along(x: Any) -> Any:
    """A direction in the space of arrays like this one: positive numbers that are not the same."""
    return (np.cos(np.arange(np.size(x))) + 1.5).reshape(np.shape(x)).astype(x.dtype)


def _numbers(library: Any, out: list[Any]) -> list[Any]:
    return [x for x in out if hasattr(x, "dtype") and library.dtypes.issubdtype(x.dtype, np.number)]


def _by_each(library: Any, call: Call, of: Callable[..., Any]) -> list[Any]:
    """What a program gives for each array of floats, the others being constants."""
    f, places = call.by(library)
    given = [call.args[i] for i in places]

    def alone(n: int) -> Callable[[Any], list[Any]]:
        def g(x: Any) -> list[Any]:
            out = f(*given[:n], x, *given[n + 1 :])
            return [y for y in out if hasattr(y, "dtype") and library.dtypes.issubdtype(y.dtype, np.inexact)]

        return g

    return [y for n, x in enumerate(given) for y in library.jit(of, static_argnums=0)(alone(n), x)]


# What a call is asked for. Of "types" nothing is computed, and what is "compiled" is held against jax's values.
QUESTIONS = {"values": values, "types": values, "compiled": values, "batched": batched, "forward": forward,
             "reverse": reverse}  # fmt: skip


def of_jax(jax: Any, question: str, call: Call) -> Answer:
    """jax's answer."""

    def ask() -> list[Any]:
        return QUESTIONS[question](jax, call)

    try:
        out = jax.eval_shape(ask) if question == "types" else ask()
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {error}")
    return _answer([] if question == "types" else out, out)


def of_ours(question: str, call: Call) -> Answer:
    """Our answer: by NumPy, so that nothing is compiled, unless that is the question."""

    def ask() -> list[Any]:
        return QUESTIONS[question](tw, call)

    try:
        out = [] if question == "types" else tw.jit(ask)() if question == "compiled" else under(NUMPY, ask)
        try:
            types = tw.eval_shape(ask)
            if out:  # numbers stay numbers
                types = [y if hasattr(x, "dtype") else x for x, y in zip(out, types, strict=True)]
        except tw.errors.JAXTypeError:  # its shape depends on values
            types = ask()
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {error}".partition("\n")[0])
    return _answer(out, types)


def _answer(out: list[Any], types: list[Any]) -> Answer:
    return Answer(tuple(np.asarray(x) for x in out if not str(getattr(x, "dtype", "")).startswith("key")),
                  tuple(map(_type, types)))  # fmt: skip


def _type(x: Any) -> Any:
    """What is compared of a result beside its values; whether a bool is weak is of no consequence."""
    if not hasattr(x, "dtype"):
        return type(x).__name__
    return str(x.dtype), np.shape(x), bool(getattr(x, "weak_type", False)) and str(x.dtype) != "bool"


def kept(folder: Path, version: str) -> Any:
    """The answers of a version of jax in a folder, to be closed in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    return closing(shelve.open(str(folder / f"jax-{version}")))  # noqa: SIM115


def once(store: MutableMapping[str, Answer], key: tuple[Any, ...], make: Callable[[], Answer]) -> Answer:
    """The answer under a key, made where there is none."""
    name = hashlib.sha256(_told(key).encode()).hexdigest()
    if name not in store:
        store[name] = make()
    return store[name]


def _told(x: Any) -> str:
    """A text that is the same in every process for the same arguments."""
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{x.shape}{x.tobytes().hex()}"
    if isinstance(x, tuple | list):
        return f"({','.join(map(_told, x))})"
    if isinstance(x, dict):
        return _told([*x.items()])
    if isinstance(x, Of):
        return _told(x.make)
    code = getattr(x, "__code__", x)
    if hasattr(code, "co_code"):
        return _told((code.co_code, code.co_names, code.co_consts))
    return getattr(x, "__qualname__", None) or repr(x)
