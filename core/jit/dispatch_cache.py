"""What a call of a function on arrays runs: one key for `jit`, `inline_jit`, operators and single primitives.

    key ::= (owner, configuration, kind of each operand ...)         in `Known.runs`, of functions of the user's
                                                                     in `RUNS`, of the package's own
          | (owner, configuration, kind of the first, then class and value of each Python value)    in `BOUND`

The *kind* of an array is its type; where it lies on a mesh, its type and how it lies, in one object. A *runner* takes
the operands' buffers. Configurations, types and kinds are interned, so a look-up compares identities, and
no two configurations share an entry: threads may each have their own. A function that is dispatched is a plain Python
function, because calling one costs a fifth of what calling an object with `__call__` does. Its code is replaced, after
the first call with a usable key, by code that the backend generates for that number of operands; everything
else takes the general path, `slow(args, kwargs)`.
"""

from __future__ import annotations

import builtins
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..ir.array import ArrayLike
from ..ir.binding import EVAL, _current
from ..support.config import _local
from ..support.runtime import Table, runtime
from ..tracing.trace import typeof

if TYPE_CHECKING:
    from ..support.settings import Config

ABSENT = object()  # the default of a positional argument in generated code
KEPT = 4096  # runners of the package's own functions, whose executables live as long as they
PATIENCE = 2.0  # seconds that a thread waits for another one's trace of the same function before making its own
_PLAIN = (int, float, bool, type(None), str)

ENTRIES: Table = runtime.cache("dispatch.entries", KEPT)
RUNS: Table = runtime.cache("dispatch.runs", KEPT)
BOUND: Table = runtime.cache("dispatch.bound", KEPT)


def can_bind(x: Any) -> bool:
    """Whether a Python value is told by its class and by itself (or its text, where it counts as false)."""
    if type(x) is complex:  # those with a part of 0 equal others that mean something else
        return bool(x == x and x.real and x.imag)
    return type(x) in _PLAIN and x == x and not (type(x) is str and x[:1] in ("", "'", '"'))


def kind_of(x: Any) -> Any:
    """What calls on an operand are dispatched by; of what is no array of the backend its type."""
    kind = getattr(x, "_kind", None)
    return typeof(x) if kind is None else kind


def placement(kinds: Sequence[Any]) -> tuple[Any, ...] | None:
    """The shardings of arrays of some kinds, None for those on one device; None where none lies on a mesh."""
    found = tuple([getattr(kind, "lies", None) for kind in kinds])  # types have none
    return found if any(found) else None


def array_key(owner: Any, config: Config, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The key of a call on arrays, as generated code makes it; numbers among them count as arrays on no mesh."""
    return (owner, config, *map(kind_of, operands))


def bound_key(owner: Any, config: Config, first: ArrayLike, rest: Sequence[Any]) -> tuple[Any, ...]:
    """The key of a call on an array and Python values, as generated code makes it."""
    parts: list[Any] = []
    for x in rest:
        parts += (type(x), x or repr(x))  # 0.0 and -0.0 are equal, their texts are not
    return (*array_key(owner, config, (first,)), *parts)


def _generic(*args: Any, **kwargs: Any) -> Any:
    return slow(args, kwargs)  # type: ignore[name-defined]  # noqa: F821  (a global of each function made below)


def dispatched(owner: Any, slow: Callable[[tuple[Any, ...], dict[str, Any]], Any], runs: Table) -> Any:
    """A function that runs what `runs` and `BOUND` have under the owner's keys, and else calls `slow`."""
    names = {
        "slow": slow, "owner": owner, "runs": runs.get, "bound": BOUND.get, "ABSENT": ABSENT, "EVAL": EVAL,
        "trace": _current.get, "local": _local.get, "runtime": runtime, "__builtins__": builtins,
    }  # fmt: skip
    return types.FunctionType(_generic.__code__, names)


def specialize(function: Callable[..., Any], arity: int, plain: bool = False, operator: bool = False) -> None:
    """Give a dispatched function the code for a number of operands.

    `plain`: Python values after the first, too. `operator`: it is never called on another number of operands.
    """
    found = runtime.backend.fast_path(arity, plain, operator)
    if found is not None and function.__code__ is not found[0]:
        function.__globals__.update(found[1])
        if not operator:  # more defaults than parameters are harmless, fewer are not: other threads may be calling
            function.__defaults__ = (ABSENT,) * max(arity, len(function.__defaults__ or ()))
        function.__code__ = found[0]


class Known:
    """What is known of one function: its traces and its runners, and which traces are being made.

    `ours`: the package's own functions share tables of entries, so that all of them combined
    keep no more than `KEPT`.
    """

    __slots__ = ("entries", "runs", "_making", "_lock")

    def __init__(self, ours: bool = False):
        self.entries: Table = ENTRIES if ours else runtime.cache("jit.entries", KEPT)
        self.runs: Table = RUNS if ours else runtime.cache("jit.runs", KEPT)
        self._making: dict[Any, tuple[int, threading.Event]] = {}
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget every trace and runner of this function."""
        for table in (self.entries, self.runs):
            for key in [key for key in list(table) if key[0] is self]:
                table.pop(key, None)

    def count(self) -> int:
        """The number of traces."""
        return sum(key[0] is self for key in list(self.entries))

    @contextmanager
    def making(self, key: Sequence[Any]) -> Iterator[None]:
        """Within, a trace is made. Another thread's of the same key is waited for before, but not for ever.

        No lock is held, since tracing runs the user's code, which may wait for what another thread holds.
        """
        me, done = threading.get_ident(), threading.Event()
        with self._lock:
            thread, under_way = self._making.get(key, (me, done))
            if under_way is done:
                self._making[key] = (me, done)
        if under_way is not done and thread != me:
            under_way.wait(PATIENCE)
        try:
            yield
        finally:
            done.set()
            with self._lock:
                if self._making.get(key, (me, None))[1] is done:
                    del self._making[key]
