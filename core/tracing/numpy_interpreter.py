"""The NumPy evaluator of core primitives: each primitive's `numpy` rule is its meaning."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir.array import ArrayLike
from ..ir.binding import EvalTrace, under
from ..ir.primitive import Primitive
from ..ir.program import Eqn, Program, run
from ..ir.types import ArrayType, RefType, is_key
from ..support.errors import UnsupportedError
from .trace import typeof

Rule = Callable[..., Any]
_replaced: ContextVar[Mapping[Primitive, Rule]] = ContextVar("tilewright_replaced", default=MappingProxyType({}))


@contextlib.contextmanager
def replacing(primitive: Primitive, rule: Rule) -> Iterator[None]:
    """Within it, a primitive has another NumPy meaning."""
    token = _replaced.set({**_replaced.get(), primitive: rule})
    try:
        yield
    finally:
        _replaced.reset(token)


def apply(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply one primitive to NumPy arrays; results have the dtypes that its typing rule gives."""
    types = [typeof(a) for a in args]
    arrays = [_stored(a, t) for a, t in zip(args, types, strict=True)]
    return _applied(primitive, arrays, params, primitive.typing(*types, **params))


def _applied(primitive: Primitive, arrays: Sequence[np.ndarray], params: dict[str, Any], expected: Any) -> Any:
    """A primitive's results as they are expected: a type, or several."""
    rule = _replaced.get().get(primitive, primitive.numpy)
    if rule is not None:
        with np.errstate(all="ignore"):
            out = rule(*arrays, **params)
    elif primitive.expand is not None:
        out = under(NUMPY, primitive.expand, *arrays, **params)
    else:
        raise UnsupportedError(
            f"{primitive.name} has neither a NumPy meaning nor an expansion", "give it a `numpy` rule"
        )
    if primitive.multiple:
        return [_typed(o, t) for o, t in zip(out, expected, strict=True)]
    return _typed(out, expected)


def _stored(value: ArrayLike, type: ArrayType) -> np.ndarray:
    dtype = type.dtype.storage if is_key(type.dtype) else type.dtype
    return np.asarray(value).astype(dtype, copy=False)


class NumpyTrace(EvalTrace):
    """Evaluates by NumPy meanings, whatever evaluator is installed."""

    __slots__ = ()

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return apply(primitive, args, params)


NUMPY = NumpyTrace(None)


def _typed(value: ArrayLike, type: ArrayType) -> Any:
    array = _stored(value, type)
    if array.shape != type.shape:
        raise AssertionError(f"a NumPy rule gave shape {array.shape}, its typing rule {type.shape}")
    return array


Observer = Callable[[Eqn, list[Any]], None]
_observer: ContextVar[Observer | None] = ContextVar("tilewright_observer", default=None)


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Within it, `evaluate` calls `observer(eqn, values)` before each equation, those of inner Programs too."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def evaluate(program: Program, *args: Any) -> list[Any]:
    """Run a Program on NumPy arrays, equation by equation."""
    observer = _observer.get()

    def bind(eqn: Eqn, values: list[Any]) -> Sequence[Any]:
        if observer is not None:
            observer(eqn, values)
        if _as_declared(eqn, values):
            types = [v.type for v in eqn.outputs]
            out = _applied(eqn.primitive, [*map(np.asarray, values)], eqn.params,
                           types if eqn.primitive.multiple else types[0])  # fmt: skip
        else:
            out = apply(eqn.primitive, values, eqn.params)
        return out if eqn.primitive.multiple else (out,)

    return run(program, bind, args)


def _as_declared(eqn: Eqn, values: Sequence[Any]) -> bool:
    """Whether operands are NumPy's and of the equation's own types: then its results are too, and need no typing."""
    for atom, value in zip(eqn.inputs, values, strict=True):
        type_ = atom.type
        if type(type_) not in (ArrayType, RefType) or not (type(value) is np.ndarray or isinstance(value, np.generic)):
            return False
        if value.shape != type_.shape or value.dtype != type_.dtype:
            return False
    return True
