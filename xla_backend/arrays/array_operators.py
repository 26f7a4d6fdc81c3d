"""The operators of `Array`: each one compiled whole, and found by the types of its operands.

`core/arrays/operators.py` says what an operator means; on arrays outside of any transformation its meaning is jitted,
so that one that takes several primitives (`%`, or `+` of unlike dtypes) still runs as one program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.numpy.protocols.array_methods import ArrayMethods

from ...core.arrays import operators
from ...core.ir.binding import EVAL, _current
from ...core.jit.dispatch_cache import BOUND, RUNS, array_key, bound_key, can_bind, dispatched, specialize
from ...core.jit.jit import Jit, Options
from ...core.support.config import current

if TYPE_CHECKING:
    from ...core.support.settings import Config

_PYTHON = (float, int, bool, complex)
# A number on the right means something else than an array there: a known exponent.
_STATIC_RIGHT = ("__pow__",)


class _Operator:
    """One operator: its meaning under a transformation (`traced`), and its function, jitted."""

    __slots__ = ("name", "traced", "jitted", "method")

    def __init__(self, name: str, function: Callable[..., Any]):
        self.name = name
        self.traced = getattr(ArrayMethods, name)
        self.jitted = Jit(function, Options(), ours=True)
        self.method = dispatched(self.jitted.known, self.slow, RUNS)
        self.method.__name__ = self.method.__qualname__ = name

    def slow(self, given: tuple[Any, ...], _: dict[str, Any]) -> Any:
        """The first call on operands of some types, or one under a transformation."""
        x, *rest = given
        config = current()
        if _current.get() is not EVAL or config.disable_jit:
            return self.traced(x, *rest)
        for y in rest:
            if not isinstance(y, operators.OPERANDS):
                return self.traced(x, y) if hasattr(y, "__jax_array__") else operators.declined(self.name, y)
            if self.name in _STATIC_RIGHT and isinstance(y, (*_PYTHON, np.integer)):
                return self.traced(x, *rest)
        specialize(self.method, len(given), plain=True, operator=True)
        out = self.jitted.call(given, {})
        if rest and type(rest[0]) in _PYTHON and can_bind(rest[0]):
            self._bind(config, x, rest[0])
        return out

    def _bind(self, config: Config, x: Any, y: Any) -> None:
        """Keep what runs on arrays like x beside the Python number y."""
        owner = self.jitted.known
        run = RUNS.get(array_key(owner, config, (x, y)))
        if run is not None:
            (number,) = x._beside((y,))
            BOUND.keep(bound_key(owner, config, x, (y,)), lambda buffer: run(buffer, number))


def _compiled(name: str, function: Callable[..., Any], swapped: bool = False) -> Any:
    """The method of arrays for an operator."""

    def operator(*operands: Any) -> Any:
        return function(*(reversed(operands) if swapped else operands))

    operator.__name__ = operator.__qualname__ = name
    return _Operator(f"__{name}__", operator).method


def _both(name: str, function: Callable[..., Any]) -> tuple[Any, Any]:
    """A binary operator, and the one that Python calls on its right operand."""
    return _compiled(name, function), _compiled(f"r{name}", function, swapped=True)


class CompiledOperators(ArrayMethods):
    """The methods of arrays, with operators that run compiled."""

    __slots__ = ()

    __add__, __radd__ = _both("add", operators.add)
    __sub__, __rsub__ = _both("sub", operators.subtract)
    __mul__, __rmul__ = _both("mul", operators.multiply)
    __truediv__, __rtruediv__ = _both("truediv", operators.true_divide)
    __floordiv__, __rfloordiv__ = _both("floordiv", operators.floor_divide)
    __mod__, __rmod__ = _both("mod", operators.remainder)
    __divmod__, __rdivmod__ = _both("divmod", operators.divmod_)
    __pow__, __rpow__ = _both("pow", operators.power)
    __matmul__, __rmatmul__ = _both("matmul", operators.matmul)
    __and__, __rand__ = _both("and", operators.bitwise_and)
    __or__, __ror__ = _both("or", operators.bitwise_or)
    __xor__, __rxor__ = _both("xor", operators.bitwise_xor)
    __lshift__, __rlshift__ = _both("lshift", operators.left_shift)
    __rshift__, __rrshift__ = _both("rshift", operators.right_shift)

    __eq__ = _compiled("eq", operators.equal)
    __ne__ = _compiled("ne", operators.not_equal)
    __lt__ = _compiled("lt", operators.less)
    __le__ = _compiled("le", operators.less_equal)
    __gt__ = _compiled("gt", operators.greater)
    __ge__ = _compiled("ge", operators.greater_equal)

    __neg__ = _compiled("neg", operators.negative)
    __abs__ = _compiled("abs", operators.absolute)
    __invert__ = _compiled("invert", operators.invert)
