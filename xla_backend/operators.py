"""The operators of `Array`: each one compiled whole, and found by the types of its operands.

`core/operators.py` says what an operator means; on arrays outside of any transformation its meaning is
jitted, so that one that takes several primitives (`%`, or `+` of unlike dtypes) still runs as one
program. What is left of a call here is two identity checks and one look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import config as config_module
from ..core.config import _local
from ..core.jit import Jit, Options
from ..core.operators import _OPERANDS, BINARY, COMPARISONS, UNARY, declined
from ..core.trace import EVAL, Value, _current, typeof
from .array import Array
from .transfer import SCALARS_KEPT, host_buffer

_PYTHON = (float, int, bool, complex)
# A Python number on the right means something else than an array there: a known exponent.
_STATIC_RIGHT = ("__pow__",)


class _State:
    """What is known under the current configuration: buffers of Python numbers, and each operator's runners."""

    __slots__ = ("config", "scalars", "operators")

    def __init__(self) -> None:
        self.config: Any = None
        self.scalars: dict[Any, Any] = {}
        self.operators: list[_Operator] = []

    def switch(self, config: Any) -> None:
        self.config = config
        self.scalars = {}
        for op in self.operators:
            op.runs = {}


_state = _State()


class _Operator:
    """One operator: its function, jitted, and the runners by the operands' types."""

    __slots__ = ("name", "plain", "jitted", "runs")

    def __init__(self, name: str, function: Callable[..., Any]):
        self.name = name
        self.plain = getattr(Value, name)
        self.jitted = Jit(function, Options())
        self.runs: dict[Any, Callable[..., Any]] = {}
        _state.operators.append(self)

    def slow(self, x: Array, *rest: Any) -> Any:
        """The first call on operands of some types, or one under a transformation."""
        config = config_module.current()
        if _current.get() is not EVAL or config.disable_jit:
            return self.plain(x, *rest)
        if _state.config is not config:
            _state.switch(config)
        for y in rest:
            if not isinstance(y, _OPERANDS):
                return declined(self.name, y)
            if type(y) in _PYTHON and self.name in _STATIC_RIGHT:
                return self.plain(x, *rest)
        out = self.jitted.call((x, *rest), {})
        types: Any = tuple(typeof(v) for v in (x, *rest))
        run = self.jitted._state.flat.get(types if rest else types[0])
        if run is not None:
            self._keep(run, x, *rest)
        return out

    def _keep(self, run: Callable[..., Any], x: Array, y: Any = None) -> None:
        if y is None:
            self.runs[x.aval] = run
        elif type(y) is Array:
            self.runs[x.aval, y.aval] = run
        elif type(y) in _PYTHON and y == y:
            self.runs[x.aval, type(y)] = run
            if len(_state.scalars) >= SCALARS_KEPT:
                _state.scalars.clear()
            _state.scalars[type(y), y or repr(y)] = host_buffer(y, typeof(y))  # type: ignore[arg-type]


def _binary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    op, state, trace, local, config = _Operator(name, function), _state, _current.get, _local.get, config_module
    slow = op.slow

    def method(self: Any, other: Any) -> Any:
        if trace() is EVAL and (local() or config._global) is state.config:
            kind = type(other)
            try:
                if kind is Array:
                    run = op.runs[self.aval, other.aval]
                    buffer = other._buffer
                else:
                    run = op.runs[self.aval, kind]
                    buffer = state.scalars[kind, other or repr(other)]  # -0.0 and 0.0 are equal, their texts are not
            except (KeyError, TypeError, ValueError):
                return slow(self, other)
            return run(self._buffer, buffer)
        return slow(self, other)

    method.__name__ = method.__qualname__ = name
    return method


def _unary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    op, state, trace, local, config = _Operator(name, function), _state, _current.get, _local.get, config_module
    slow = op.slow

    def method(self: Any) -> Any:
        if trace() is EVAL and (local() or config._global) is state.config:
            try:
                run = op.runs[self.aval]
            except KeyError:
                return slow(self)
            return run(self._buffer)
        return slow(self)

    method.__name__ = method.__qualname__ = name
    return method


def _named(name: str, function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    """An operator's meaning as a function of its own name, on its operands in either order."""

    def operator(*operands: Any) -> Any:
        return function(*(reversed(operands) if swapped else operands))

    operator.__name__ = operator.__qualname__ = name
    return operator


def install() -> None:
    """Give `Array` its operators."""
    for name, function in BINARY.items():
        setattr(Array, f"__{name}__", _binary(f"__{name}__", _named(name, function)))
        setattr(Array, f"__r{name}__", _binary(f"__r{name}__", _named(f"r{name}", function, swapped=True)))
    for name, function in COMPARISONS.items():
        setattr(Array, f"__{name}__", _binary(f"__{name}__", _named(name, function)))
    for name, function in UNARY.items():
        if name != "pos":  # the array itself
            setattr(Array, f"__{name}__", _unary(f"__{name}__", _named(name, function)))


def clear() -> None:
    """Forget what the operators compiled."""
    _state.config = None
