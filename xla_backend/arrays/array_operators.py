"""The operators of `Array`: each one compiled whole, and found by the types of its operands.

`core/arrays/operators.py` says what an operator means; on arrays outside of any transformation its meaning is jitted,
so that one that takes several primitives (`%`, or `+` of unlike dtypes) still runs as one program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.operators import _OPERANDS, BINARY, COMPARISONS, UNARY, declined
from ...core.ir.binding import EVAL, _current
from ...core.jit.dispatch_cache import BOUND, RUNS, array_key, bound_key, can_bind, dispatched
from ...core.jit.jit import Jit, Options
from ...core.support.config import current
from ...core.tracing.trace import Value
from . import fast_path_codegen
from .array import Array

_PYTHON = (float, int, bool, complex)
# A number on the right means something else than an array there: a known exponent.
_STATIC_RIGHT = ("__pow__",)


class _Operator:
    """One operator: its meaning under a transformation (`plain`), and its function, jitted."""

    __slots__ = ("name", "plain", "jitted")

    def __init__(self, name: str, function: Callable[..., Any]):
        self.name = name
        self.plain = getattr(Value, name)
        self.jitted = Jit(function, Options(), ours=True)

    def method(self, arity: int) -> Any:
        """The function that `Array` is to have under the operator's name."""
        made = dispatched(self.jitted.known, self.slow, RUNS)
        made.__globals__["Array"] = Array
        made.__code__ = fast_path_codegen.fast_path(arity, True, True)
        made.__name__ = made.__qualname__ = self.name
        return made

    def slow(self, given: tuple[Any, ...], _: dict[str, Any]) -> Any:
        """The first call on operands of some types, or one under a transformation."""
        x, *rest = given
        config = current()
        if _current.get() is not EVAL or config.disable_jit:
            return self.plain(x, *rest)
        for y in rest:
            if not isinstance(y, _OPERANDS):
                return self.plain(x, y) if hasattr(y, "__jax_array__") else declined(self.name, y)
            if self.name in _STATIC_RIGHT and isinstance(y, (*_PYTHON, np.integer)):
                return self.plain(x, *rest)
        out = self.jitted.call(given, {})
        if rest and type(rest[0]) in _PYTHON and can_bind(rest[0]):
            self._bind(config, x, rest[0])
        return out

    def _bind(self, config: Any, x: Any, y: Any) -> None:
        """Keep what runs on arrays like x beside the Python number y."""
        owner = self.jitted.known
        run = RUNS.get(array_key(owner, config, (x, y)))
        if run is not None:
            (number,) = x._beside((y,))
            BOUND.keep(bound_key(owner, config, x, (y,)), lambda buffer: run(buffer, number))


def _named(name: str, function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    """An operator as a named function of its operands, in either order."""

    def operator(*operands: Any) -> Any:
        return function(*(reversed(operands) if swapped else operands))

    operator.__name__ = operator.__qualname__ = name
    return operator


def _give(name: str, function: Callable[..., Any], arity: int) -> None:
    setattr(Array, f"__{name}__", _Operator(f"__{name}__", function).method(arity))


def install() -> None:
    """Give `Array` its operators."""
    for name, function in BINARY.items():
        _give(name, _named(name, function), 2)
        _give(f"r{name}", _named(f"r{name}", function, swapped=True), 2)
    for name, function in COMPARISONS.items():
        _give(name, _named(name, function), 2)
    for name, function in UNARY.items():
        if name != "pos":  # the array itself
            _give(name, _named(name, function), 1)
