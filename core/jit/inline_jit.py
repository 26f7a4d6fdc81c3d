"""`inline_jit`: a function of several primitives that runs as one program when it is called on arrays.

Its calls are dispatched as those of `jit` are (core/jit/dispatch_cache.py); within a trace the function is simply
called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.binding import EVAL, current_trace
from ..support.call_errors import told
from ..support.config import current
from ..support.runtime import runtime
from ..tracing.trace import ProgramTrace, Tracer, Value
from .dispatch_cache import BOUND, KEPT, RUNS, array_key, bound_key, can_bind, dispatched, specialize
from .jit import Jit, Options

_functions = runtime.cache("inline_jit.functions", KEPT)


def _is_recorded() -> bool:
    """Whether what runs now becomes part of a Program, so that a program of its own would only add a call."""
    trace: Any = current_trace()
    if trace is EVAL:
        return False
    while trace is not None:
        if isinstance(trace, ProgramTrace):
            return True
        trace = trace.parent
    return False


def hashable(x: Any) -> Any:
    """A static argument as a key: lists become tuples, arrays of numbers nested tuples.

    Raises `TypeError` for a traced value: its derivative or its batch would be lost.
    """
    if isinstance(x, Tracer):
        raise TypeError("a traced value is no key")
    if isinstance(x, (list, tuple)):
        return tuple(hashable(v) for v in x)
    if isinstance(x, (np.ndarray, Value)):
        return hashable(np.asarray(x).tolist())
    if isinstance(x, slice):
        return (slice, x.start, x.stop, x.step)
    return x


class _Inlined:
    """What is behind a function of `inline_jit`: `function` is what is called."""

    def __init__(self, fun: Callable[..., Any], static: frozenset[str]):
        code = fun.__code__
        self._fun, self._static = told(fun, fun.__name__), static
        self._names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self._positional, self._positional_only = code.co_argcount, code.co_posonlyargcount
        self.function = functools.update_wrapper(dispatched(self, self.call, RUNS), fun)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function on any arguments."""
        if _is_recorded():
            return self._fun(*args, **kwargs)
        evaluating = current_trace() is EVAL
        if evaluating and args and not kwargs:
            run, values = self._found(args)
            if run is not None:
                return run(*runtime.backend.buffers(values, [x.aval for x in values]))
        names = self._names
        given = dict(zip(names, args, strict=False))
        if len(args) > self._positional or any(n in given or n not in names for n in kwargs):
            return self._fun(*args, **kwargs)  # which may raise Python's own error
        given.update(kwargs)
        moving = tuple(n for n in given if n not in self._static and given[n] is not None)
        try:
            fixed = tuple((n, type(v), hashable(v)) for n, v in given.items() if n in self._static or v is None)
            jitted = self._jitted(fixed, moving)
        except TypeError:  # what is traced or cannot be hashed is no static argument, and the function says so
            return self._fun(*args, **kwargs)
        operands = tuple(given[n] for n in moving)
        out = jitted.call(operands, {})
        if evaluating and moving[:1] == names[:1] and not kwargs:
            self._remember(args, jitted, operands)
        return out

    def _found(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """What a call by position runs, and on which of its arguments; generated code finds most of them itself."""
        first, *rest = args
        if not isinstance(first, Value):
            return None, ()
        if all(isinstance(x, Value) for x in rest):
            return RUNS.get(array_key(self, current(), args)), args
        if all(map(can_bind, rest)):
            return BOUND.get(bound_key(self, current(), first, rest)), (first,)
        return None, ()

    def _remember(self, args: tuple[Any, ...], jitted: Jit, operands: tuple[Any, ...]) -> None:
        """Keep what a call by position ran, if it can be told by its key."""
        first, *rest = args
        config = current()
        arrays = all(isinstance(x, Value) for x in args)
        if not isinstance(first, Value) or not (arrays or all(map(can_bind, rest))):
            return
        run = RUNS.get(array_key(jitted.known, config, operands))
        if run is None:
            return
        if arrays:
            RUNS.keep(array_key(self, config, args), run)
        else:
            numbers = runtime.backend.beside(first, operands[1:])
            bound = (lambda buffer: run(buffer, *numbers)) if numbers else run
            BOUND.keep(bound_key(self, config, first, rest), bound)
        specialize(self.function, len(args), plain=True)

    def _jitted(self, fixed: tuple[Any, ...], moving: tuple[str, ...]) -> Jit:
        """The function of the arguments that move, the others being as they are."""
        key = (self, fixed, moving)
        found = _functions.get(key)
        if found is not None:
            return found
        fun, statics = self._fun, {name: value for name, _, value in fixed}
        only_by_position = self._names[: self._positional_only]

        def run(*args: Any) -> Any:
            given = dict(zip(moving, args, strict=True)) | statics
            first = [given.pop(name) for name in only_by_position if name in given]
            return fun(*first, **given)

        run.__name__ = fun.__name__
        return _functions.keep(key, Jit(run, Options(), ours=True))


def inline_jit[F: Callable[..., Any]](*static: str) -> Callable[[F], F]:
    """Make a function of several primitives compile as one program when it is called eagerly.

    Arguments named in `static` are part of the key of the compiled program; the others are arrays,
    pytrees of arrays or None. Within a trace the function is simply called.
    """

    def decorate(fun: F) -> F:
        function: Any = _Inlined(fun, frozenset(static)).function
        if fun.__doc__:  # doctest looks for functions by the module of their globals, which the dispatcher's are not
            fun.__globals__.setdefault("__test__", {})[fun.__name__] = function
        return function

    return decorate
