"""`checkify`: a function with checks as one that returns what they found beside its results.

The function is traced, and its Program walked once more: each equation is bound again, and what it can fail with, as
the chosen kinds of errors say, is computed beside it. Programs within (loops, branches, calls) become Programs that
give their code and payload before their outputs, by `checked`. Of several failures the first in the order of the
Program counts, in a loop the one of the first turn. A failure changes no value and stops nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api.transformations import as_array
from ..ir.array import Array, ArrayLike
from ..ir.binding import is_evaluating
from ..ir.passes import primitives_of
from ..ir.program import Eqn, Program, subprograms
from ..ir.program import run as through
from ..ir.types import RefType, is_inexact
from ..jit.jit import jit
from ..primitives.control_flow.subprograms import close
from ..primitives.elementwise.arithmetic import add_p
from ..primitives.elementwise.comparison import eq_p, ne_p, select_n_p
from ..primitives.elementwise.conversion import stop_gradient_p
from ..support import pytree
from ..support.errors import ArgumentError, ArgumentTypeError, CheckError, FailedCheckError, UnsupportedError
from ..support.memo import cached
from ..tracing.trace import bind_eqn, shape_of, trace_program, typeof
from ..transforms.structural_primitives import spread
from .automatic_checks import AUTOMATIC, check_nans
from .check_primitive import ZERO, Error, Site, check_p, first_of, site
from .control_flow_checks import RULES

Kinds = frozenset[type[CheckError]]


class Walk:
    """What was found so far of the checks of one Program: the sites, the code and the payload."""

    def __init__(self, errors: Kinds):
        self.errors = errors
        self.sites: list[Site] = []
        self.code: Any = None
        self.payload: list[Any] = []

    @property
    def state(self) -> list[Any]:
        """The code and the payload; nothing where nothing can fail."""
        return [self.code, *self.payload] if self.sites else []

    def fresh(self) -> Walk:
        """One that has found nothing, for the same kinds of errors."""
        return Walk(self.errors)

    def checked(self, program: Program) -> Checked:
        """A Program within, with its checks made part of it."""
        return checked(program, self.errors)

    def sites_of(self, program: Program) -> tuple[Site, ...]:
        """The user's checks in a Program, for `lang/transforms/checkify.py`."""
        return checked(program, self.errors & user_checks).sites

    def summary(self) -> Checked:
        """The sites alone."""
        return Checked(tuple(self.sites))

    def take(self, inner: Checked, outs: Sequence[Any]) -> Sequence[Any]:
        """Add what a checked Program found, and give its own outputs."""
        if inner.sites:
            self.add(inner.sites, outs[0], outs[1 : inner.width])
        return outs[inner.width :]

    def run(self, program: Program, args: Sequence[Any]) -> list[Any]:
        """Bind a Program's equations again, with their checks."""
        return through(program, self.equation, args)

    def checked_run(self, program: Program, args: Sequence[Any]) -> list[Any]:
        """What was found and what the Program gives, in one list; only the sites stay here, no traced value."""
        outs = self.run(program, args)
        found = [*self.state, *outs]
        self.code, self.payload = None, []
        return found

    def equation(self, eqn: Eqn, values: list[Any]) -> Sequence[Any]:
        primitive = eqn.primitive
        if primitive is check_p:
            self.discharge(values[0], values[1:], eqn.params["sites"])
            return []
        rule = primitive.checked or RULES.get(primitive)
        if rule is not None:
            outs = rule(self, eqn, values)
            if outs is not None:
                return outs
        asked = not self.errors.isdisjoint(user_checks) and rule is None
        if asked and any(check_p in primitives_of(inner) for _, inner in subprograms(eqn)):
            raise UnsupportedError(
                f"a check within {primitive.name} cannot be made part of the program", "check before it or after it",
                eqn.source)  # fmt: skip
        for check in AUTOMATIC.get(primitive, ()):
            check(self, eqn, values)
        outs = bind_eqn(eqn, values)
        check_nans(self, eqn, outs)
        return outs

    # ------------------------------------------------------------ adding what may fail

    def fail(self, kind: type[CheckError], failed: Array, text: str, eqn: Eqn, *values: Any) -> None:
        """One more place that can fail: `failed` is a boolean scalar."""
        if kind in self.errors:
            found, payload = site(kind, text, eqn.source, values)
            self.add((found,), select_n_p.bind(failed, ZERO, np.int32(1)), payload)

    def add(self, sites: Sequence[Site], code: ArrayLike | None, payload: Sequence[Any]) -> None:
        """What some more sites found, as their own code and payload."""
        if not sites:
            return
        code = _shifted(code, len(self.sites))
        self.code = code if self.code is None else select_n_p.bind(ne_p.bind(self.code, ZERO), code, self.code)
        self.payload += [stop_gradient_p.bind(x) if is_inexact(typeof(x).dtype) else x for x in payload]
        self.sites += sites

    def discharge(self, code: ArrayLike, payload: Sequence[Any], sites: Sequence[Site]) -> None:
        """A check reported at its first failing element, if its kind is enabled."""
        if not any(s.kind in self.errors for s in sites):
            return
        shape = shape_of(code)
        for number, s in enumerate(sites, 1):
            if s.kind not in self.errors:
                dropped = eq_p.bind(code, spread(np.int32(number), shape))
                code = select_n_p.bind(dropped, code, spread(ZERO, shape))
        self.add(sites, *first_of(code, payload))


def _shifted(code: Array, by: int) -> Any:
    """A code among sites of which `by` more come before."""
    return select_n_p.bind(ne_p.bind(code, ZERO), ZERO, add_p.bind(code, np.int32(by))) if by else code


@dataclass(frozen=True, eq=False)
class Checked:
    """A Program that returns code and payload of some sites before its outputs; unchanged without sites."""

    sites: tuple[Site, ...]
    program: Any = None
    constants: tuple[Any, ...] = ()  # operands before the Program's own

    @property
    def width(self) -> int:
        """How many outputs the code and the payload are."""
        return 1 + sum(len(s.types) for s in self.sites) if self.sites else 0


@cached(1024)
def checked(program: Program, errors: Kinds) -> Checked:
    """A Program with its checks made part of it."""
    walk = Walk(errors)
    made, constants = close(
        trace_program(lambda *args: walk.checked_run(program, args), program.in_types, program.name))
    return Checked(tuple(walk.sites), made, tuple(constants))


# ---------------------------------------------------------------------------- the function

user_checks: Kinds = frozenset({FailedCheckError})


def checkify(f: Callable[..., Any], errors: Iterable[type[CheckError]] = user_checks) -> Callable[..., Any]:
    """A function that returns `(error, f(...))`: what the checks in it found, and its result.

    `errors` says what counts: `user_checks` (calls of `check`), `nan_checks`, `div_checks`, `index_checks`, unions of
    these such as `float_checks`, `automatic_checks` and `all_checks`. The function may be compiled, differentiated and
    batched; the checks within may be in loops, branches, kernels and functions with custom derivatives.

    Raises:
      ArgumentTypeError: `f` is no function.
      ArgumentError: `errors` holds something else than kinds of errors.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> from tilewright.experimental import checkify
    >>> error, out = tw.jit(checkify.checkify(tnp.log, checkify.nan_checks))(-1.0)
    >>> error.get()
    'nan generated by primitive: log.'
    """
    if not callable(f):
        raise ArgumentTypeError(f"checkify takes a function, got {f!r}", "pass a callable")
    kinds = frozenset(errors)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, CheckError)):
            raise ArgumentError(f"errors of checkify hold {kind!r}", "pass sets such as `checkify.user_checks`")

    @functools.wraps(f, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        out_tree: Any = None

        def flat() -> list[Any]:
            nonlocal out_tree
            outs, out_tree = pytree.flatten(f(*args, **kwargs))
            return outs

        program = trace_program(flat, [], getattr(f, "__name__", "checkify"))
        walk = Walk(kinds)

        def run() -> list[Any]:
            return walk.checked_run(program, [])

        mutable = any(isinstance(v.type, RefType) for v in program.constants)
        found = jit(run)() if mutable and is_evaluating() else run()
        w = len(found) - len(program.outputs)
        error = Error(found[0], found[1:w], tuple(walk.sites)) if w else Error(None, (), ())
        return error, out_tree.unflatten([as_array(x) for x in found[w:]])

    return wrapper
