"""`autotune`: a function whose keyword configuration is chosen from what was measured."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import textwrap
import tokenize
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from ..core.ir.binding import is_evaluating
from ..core.ir.symbolic.dim import is_symbolic
from ..core.jit.jit import jit
from ..core.support import pytree
from ..core.support.errors import ArgumentError, ArgumentTypeError, NotTunedError
from ..core.support.version import JAXLIB, __version__
from ..core.tracing.trace import typeof
from . import measure
from .report import Report
from .space import Configuration, Space, check_kind, configurations, names_of
from .store import Problem, Store, as_text
from .tables import in_force, nearest, shipped

# What notes the calls of autotuned functions, while a program is looked through: see `program.py`.
watching: ContextVar[Callable[[Any, tuple[Any, ...], dict[str, Any]], object] | None] = ContextVar(
    "tilewright_tuning_watching", default=None
)


class Autotuned[**P, R]:
    """A function whose keyword configuration is chosen from what was measured; made by `autotune`."""

    space: Space
    key: Any
    reference: Any
    where: Callable[..., bool] | None
    tolerance: float | None
    memory: int | None
    required: bool

    def __init__(
        self, fun: Callable[P, R], space: Space, *, key: Any = None, reference: Any = None,
        tolerance: float | None = None, memory: int | None = None, required: bool = False, store: Store | None = None,
        where: Callable[..., bool] | None = None, timeout: float = 60.0,
    ):  # fmt: skip
        self.timeout = timeout
        self.fun, self.space, self.key, self.reference, self.where = fun, space, key, reference, where
        self.tolerance, self.memory, self.required, self._store = tolerance, memory, required, store
        self.chosen: dict[Problem, Configuration] = {}
        _check_names(fun, space)
        functools.update_wrapper(self, fun)

    @property
    def store(self) -> Store:
        return self._store or Store()

    def defaults(self) -> Configuration:
        """The configuration that the function's own defaults give."""
        parameters = inspect.signature(self.fun).parameters
        given = names_of(self.space)
        return {n: p.default for n, p in parameters.items() if n in given and p.default is not inspect.Parameter.empty}

    def problem(self, *args: Any, **kwargs: Any) -> Problem:
        """What the arguments are to the tuner: device, function, versions, dtypes and shapes."""
        leaves = pytree.leaves((args, kwargs))
        words = [x for x in leaves if isinstance(x, str)]  # what the function is to do: no arrays
        shapes, dtypes = measure.shapes_and_dtypes([typeof(x) for x in leaves if not isinstance(x, str)])
        extra = "".join([*words, "" if self.key is None else repr(self.key(*args, **kwargs))])
        return Problem(measure.device_name(), _identity(self.fun), f"{__version__}/{JAXLIB}", dtypes, shapes, extra)

    def best(self, *args: Any, **kwargs: Any) -> Configuration:
        """The configuration a call with these arguments uses: of symbolic sizes, which nobody measures, the defaults.

        Raises:
          NotTunedError: nothing was measured for such arguments, and that is `required`.
        """
        problem = self.problem(*args, **kwargs)
        if any(is_symbolic(size) for shape in problem.shapes for size in shape):
            return self.defaults()
        given = nearest(in_force(), problem) if in_force() else None
        if given is not None and self._fits(given[0]):
            return self._as_given(given[0])
        found = self.chosen.get(problem)
        if found is None:
            known = self.store.best(problem, self._fits, self.defaults()) or nearest(shipped(), problem)
            if self.required and (known is None or not known[1]):
                raise NotTunedError(
                    f"{self.fun.__name__} has no measurements for shapes {problem.shapes} ({problem.dtypes})",
                    f"call `{self.fun.__name__}.tune(...)` with such arguments first, or drop `required=True`",
                )
            found = self.chosen[problem] = self.defaults() if known is None else self._as_given(known[0])
        return found

    def _listed(self) -> dict[str, Configuration] | None:
        """The configurations of the space by their texts; None if it depends on the arguments."""
        if callable(self.space) or (isinstance(self.space, Mapping) and any(map(callable, self.space.values()))):
            return None
        return {as_text(c): c for c in configurations(self.space, (), {}, self.where)}

    def _fits(self, configuration: Configuration) -> bool:
        """Whether a configuration read from the store is one that the function takes."""
        listed = self._listed()
        if listed is not None:
            return as_text(configuration) in listed or configuration == self.defaults()
        parameters = inspect.signature(self.fun).parameters
        return any(p.kind is p.VAR_KEYWORD for p in parameters.values()) or parameters.keys() >= configuration.keys()

    def _as_given(self, configuration: Configuration) -> Configuration:
        """A configuration with its values as they are in the space: JSON has no tuples."""
        return (self._listed() or {}).get(as_text(configuration), configuration)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        watch = watching.get()
        if watch is not None:
            watch(self, args, kwargs)
        return self.fun(*args, **{**self.best(*args, **kwargs), **kwargs})

    def tune(
        self, *args: Any, budget: float | None = None, progress: bool = True, isolate: bool | None = None,
        around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None, **kwargs: Any,
    ) -> Report:  # fmt: skip
        """Measure the space on these arguments, for at most `budget` seconds, and keep every result.

        Configurations are compiled and run in worker processes, unless `isolate` is False or the device is a GPU, so
        that one that crashes, or takes longer than the time-out, is passed over. The choice differs from the defaults
        only if it was faster than they are beyond noise, timed alternately with them. `around` wraps the timed
        function of the arrays among the arguments: in its gradient, say. Ctrl-C ends the search and keeps its results.

        Raises:
          ArgumentError: within a transformation, a budget that is no time, no defaults.
          TuningError: no configuration works.
        """
        if not is_evaluating():
            raise ArgumentError(
                f"{self.fun.__name__}.tune was called inside a transformation", "tune on arrays, outside `jit`"
            )
        measure.check_budget(budget)
        self._check_defaults()
        from .session import searched

        problem = self.problem(*args, **kwargs)
        arrays, of = measure.closed(args, kwargs)

        def timed(function: Callable[..., Any]) -> Callable[..., Any]:
            return of(function) if around is None else around(of(function))

        wanted = jit(timed(self.reference or functools.partial(self.fun, **self.defaults())))(*arrays)
        try:
            report, kept = searched(
                self.fun.__name__, problem, self.store, configurations(self.space, args, kwargs, self.where),
                lambda c: timed(functools.partial(self.fun, **c)), arrays, wanted, default=self.defaults(),
                known=self._known(problem), tolerance=self.tolerance, memory=self.memory, timeout=self.timeout,
                isolate=isolate, budget=budget, progress=progress,
            )  # fmt: skip
        finally:
            self.chosen.clear()
        if not kept:  # a store that cannot be written: for this process at least
            self.chosen[problem] = report.best.configuration
        return report

    def _check_defaults(self) -> None:
        parameters = inspect.signature(self.fun).parameters
        for name in sorted(names_of(self.space) & parameters.keys()):
            if self.reference is None and parameters[name].default is inspect.Parameter.empty:
                raise ArgumentError(
                    f"{self.fun.__name__} has no default of {name!r}, so that there is nothing to compare results with",
                    f"give the parameter one, `{name}=...`, or pass `reference=` to autotune")  # fmt: skip

    def keep(self, configuration: Configuration, *args: Any, **kwargs: Any) -> bool:
        """Have calls with such arguments use a configuration from now on; whether the store has it."""
        problem = self.problem(*args, **kwargs)
        self.chosen.clear()
        kept = self.store.decide(problem, configuration)
        if not kept:
            self.chosen[problem] = configuration
        return kept

    def _known(self, problem: Problem) -> list[Configuration]:
        known = self.store.best(problem, self._fits)
        return [] if known is None else [self._as_given(known[0])]


class AutotuneDecorator(Protocol):
    """What `autotune` gives: a decorator."""

    def __call__[**P, R](self, fun: Callable[P, R], /) -> Autotuned[P, R]: ...


def _check_names(fun: Callable[..., Any], space: Space) -> None:
    """What a space chooses are parameters of the function."""
    if not callable(fun):
        raise ArgumentTypeError(f"autotune decorates a function, got {type(fun).__name__}",
                                'give a space first: `@autotune(space={"block": [64, 128]})`')  # fmt: skip
    check_kind(space)
    parameters = inspect.signature(fun).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in sorted(names_of(space)):
        if name not in parameters:
            raise ArgumentError(
                f"autotune: the space has {name!r}, which {fun.__name__} does not take",
                f"its parameters are {', '.join(parameters)}")  # fmt: skip


def _identity(fun: Callable[..., Any]) -> str:
    """The function's name and a digest of its code, so that measurements of another version are not used.

    Comments, docstrings and the layout of the source do not matter.
    """
    try:
        text = _code_of(textwrap.dedent(inspect.getsource(fun)))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # no file, or one that is not of this code
        text = fun.__code__.co_code.hex()
    return f"{fun.__module__}.{fun.__qualname__}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _code_of(source: str) -> str:
    """A source without comments and docstrings, in one layout."""
    module = ast.parse(source)
    for node in ast.walk(module):
        documented = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if documented and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(module)


def autotune(
    space: Space, *, where: Callable[..., bool] | None = None, key: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None, tolerance: float | None = None, memory: int | None = None,
    required: bool = False, store: Store | None = None, timeout: float = 60.0,
) -> AutotuneDecorator:  # fmt: skip
    """A decorator that chooses a function's keyword configuration (block sizes, say) from measurements.

    `space` gives the values to try: a dict of lists, a list of dicts, or a function of the arguments that gives
    either; `powers_of_two`, `divisors` and `permutations` make such lists, and `where` says of the parameters that it
    names whether the combination is valid. `key(*args)` adds what the best choice depends on beyond dtypes and shapes.
    Results are compared with `reference(*args)` (by default the function at its own defaults), to within `tolerance`
    of the largest element. Configurations that take longer than `timeout` seconds, or whose kernels hold more than
    `memory` bytes a cell, are refused. Nothing is measured until `.tune(*args)` is called; `required=True` makes a
    call without measurements a `NotTunedError`.

    Raises:
      ArgumentError: the space has what the function does not take. ArgumentTypeError: it is no space.

    >>> import tilewright as tw
    >>> @autotune(space={"block": [2, 4]})
    ... def double(x, *, block=2):
    ...     return x * 2
    >>> print(double(tw.numpy.ones((4,))), double.defaults())
    [2. 2. 2. 2.] {'block': 2}
    """
    options: Mapping[str, Any] = {
        "where": where, "key": key, "reference": reference, "tolerance": tolerance, "memory": memory,
        "required": required, "store": store, "timeout": timeout,
    }  # fmt: skip
    return lambda fun: Autotuned(fun, space, **options)
