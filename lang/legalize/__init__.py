"""Bodies in the part of the language that a backend has rules for.

A `Backend` says of each primitive of the language that it has a rule for it, or the reason why no body may hold it
there. What it says nothing of is rewritten here into others: by `REWRITES`, which serve every target, or by the
primitive's own `expand`. So special functions, windows, convolutions, powers of integers, positions of extrema and
random keys are written once.

A backend is never handed another kernel than a `Legal` one: the pass `legalize` makes them, and `entry` does where a
backend is called by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate

import numpy as np

from ...core.ir.passes import primitives_of, within
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, Var, subprograms
from ...core.ir.types import ArrayType
from ...core.primitives.keys.threefry import random_clone_p, random_unwrap_p, random_wrap_p
from ...core.primitives.movement.shape import broadcast_in_dim
from ...core.random.key_lowering import physicalize
from ...core.support.errors import Source, UnsupportedError
from ...core.support.memo import cached
from ...core.tracing.trace import trace_program
from ..kernel.canonicalize import replaced
from ..kernel.kernel import Kernel
from ..ops.atomics import atomic_cas_p, atomic_rmw_p
from ..targets.target import Target
from ..transforms.desugar import RULES as PLAIN
from . import argmax, bits, integers, special, windows

Rewrite = Callable[..., Any]
REWRITES: dict[Primitive, Rewrite] = {
    **special.REWRITES, **windows.REWRITES, **integers.REWRITES, **argmax.REWRITES, **bits.REWRITES,
}  # fmt: skip
KEYS = frozenset({random_wrap_p, random_unwrap_p, random_clone_p})  # keys become their words
# Gone before a body is printed: what `plain` takes out, where a target has nothing of the kind, and keys.
GONE = frozenset(PLAIN) - {atomic_rmw_p, atomic_cas_p} | KEYS


class Unfit(Exception):
    """Why a kernel is not for a backend, and what to do; `source` is the line that it is about, if it is one."""

    def __init__(self, why: str, source: Source | None = None):
        super().__init__(why)
        self.source = source


@dataclass(frozen=True)
class KernelPass:
    """A pass from kernel to kernel: its name, the level that it gives, and its function of a kernel and a target."""

    name: str
    level: str
    run: Callable[[Kernel, Target], Kernel]


KernelPasses = tuple[KernelPass, ...]


def _no_passes(kernel: Kernel, target: Target) -> tuple[KernelPasses, ...]:
    return ((),)


@dataclass(frozen=True, eq=False)
class Backend:
    """What a target makes of the language: how it prints primitives, and the reasons for what it refuses.

    `rules` and `refused` are the backend's tables; `dtypes` are those that no body may hold there, each with its
    reason. `place` is where its kernels run, as errors say it. `passes` are the passes over a kernel before it is
    legalized: a list for each variant that may be printed on a target, the preferred one first. `lacks` decides by an
    equation's parameters that the rule of its primitive does not serve on some target, so that it is rewritten there. A
    backend that is not `exact` looks for kernels of a certain shape, and leaves operations out that this shape has no
    need of. `other` gives the table for a kernel that is written for another one than this. `rewrites` are the
    backend's own, asked first: what an equation is rewritten by, None where it is printed as it stands.
    """

    place: str
    rules: Mapping[Primitive, Any]
    refused: Mapping[Primitive, str]
    dtypes: Mapping[str, str]
    passes: Callable[[Kernel, Target], tuple[KernelPasses, ...]] = _no_passes
    lacks: Mapping[Primitive, Callable[[Mapping[str, Any], Target], bool]] = field(default_factory=dict)
    exact: bool = True
    other: Callable[[Kernel], Backend | None] = lambda kernel: None
    rewrites: Mapping[Primitive, Callable[[Eqn], Rewrite | None]] = field(default_factory=dict)

    @functools.cached_property
    def plain(self) -> frozenset[Primitive]:
        """What is never rewritten."""
        return frozenset(self.rules) - integers.TOTAL - frozenset(self.lacks) - frozenset(self.rewrites)

    def way(self, primitive: Primitive) -> str:
        """What becomes of a primitive: it is "printed", "rewritten" or "refused"."""
        if primitive in self.rules:
            return "printed"
        rewritten = primitive in REWRITES or primitive in GONE or primitive.expand is not None
        return "rewritten" if rewritten and primitive not in self.refused else "refused"

    def rewrite(self, eqn: Eqn, numbers: Mapping[Var, Any], target: Target | None = None) -> Rewrite | None:
        """What an equation is rewritten by, where some variables are known numbers; None: it stays."""
        primitive = eqn.primitive
        if primitive in self.refused:
            return None
        if primitive in self.rewrites and (own := self.rewrites[primitive](eqn)) is not None:
            return own
        found, lacks = integers.total(eqn, numbers), self.lacks.get(primitive)
        served = target is None or lacks is None or not lacks(eqn.params, target)
        if found is not None or primitive in self.rules and served:
            return found
        return REWRITES.get(primitive, primitive.expand)

    def refusal(self, kernel: str, primitive: Primitive, source: Source | None, reason: str = "") -> UnsupportedError:
        """The error for a primitive that a body may not hold, in general or (with a reason) as it stands there."""
        without = "it has no rule there, and no `expand` rule that makes it of others"
        reason = reason or self.refused.get(primitive, without)
        return UnsupportedError(
            f"kernel {kernel}: {primitive} cannot run in {self.place}: {reason}",
            "take it out of the kernel, or do it around the kernel call", source)  # fmt: skip


def legalize(program: Program, backend: Backend, target: Target | None = None) -> Program:
    """The Program, inner ones included, in what a backend has rules for; what it refuses stays as it is."""
    program = physicalize(program)
    if primitives_of(program) <= backend.plain:
        return program
    eqns = [within(e, lambda inner: legalize(inner, backend, target)) for e in program.eqns]
    if any(new is not old for new, old in zip(eqns, program.eqns, strict=True)):
        program = program.replace(eqns=eqns)
    numbers = integers.known(program)
    return replaced(program, lambda eqn: _meaning(eqn, numbers, backend, target))


def _meaning(eqn: Eqn, numbers: Mapping[Var, Any], backend: Backend, target: Target | None) -> Program | None:
    """What stands for an equation; None: the equation itself."""
    rewrite = backend.rewrite(eqn, numbers, target)
    if rewrite is None:
        return None
    empty = _empty(eqn)

    def rewritten(*args: Any) -> list[Any]:
        if empty:
            return [broadcast_in_dim(np.zeros((), v.type.dtype)[()], v.type.shape, ()) for v in eqn.outputs]
        out = rewrite(*args, **eqn.params)
        return list(out) if eqn.primitive.multiple else [out]

    try:
        made = trace_program(rewritten, [a.type for a in eqn.inputs], eqn.primitive.name)
    except UnsupportedError as error:  # at the author's line
        raise UnsupportedError(error.what, error.remedy, eqn.source) from None
    made = legalize(made, backend, target)
    return made.replace(eqns=[e.replace(source=eqn.source) for e in made.eqns])


def _empty(eqn: Eqn) -> bool:
    """Whether an equation gives arrays without elements alone."""
    return not eqn.effects and all(isinstance(v.type, ArrayType) and not v.type.size for v in eqn.outputs)


# ---------------------------------------------------------------------------- kernels


@dataclass(frozen=True, eq=False)
class Legal:
    """A kernel as a backend takes it: its body and its index maps hold what the backend has rules for, or refuses.

    `given` is the kernel as it was, `forms` are its variants after the passes, the preferred one first.
    """

    given: Kernel
    forms: tuple[Kernel, ...]
    backend: Backend

    @property
    def kernel(self) -> Kernel:
        """The form that is preferred."""
        return self.forms[0]

    @property
    def name(self) -> str:
        return self.given.name

    @property
    def source(self) -> Source | None:
        return self.given.source

    def check(self) -> None:
        """Raise `UnsupportedError` at the first equation that the backend has no rule for."""
        self._check(self.kernel.body, self.source)

    def _check(self, program: Program, source: Source | None) -> None:
        if not self.backend.exact or primitives_of(program) <= self.backend.rules.keys():
            return
        for eqn in program.eqns:
            here = eqn.source or source
            if eqn.primitive not in self.backend.rules and not _empty(eqn):
                raise self.backend.refusal(self.name, eqn.primitive, here)
            for _, inner in subprograms(eqn):
                self._check(inner, here)


@cached(1024)
def legal(kernel: Kernel, backend: Backend, target: Target) -> Legal:
    """A kernel in what a backend has rules for on a target."""
    backend = backend.other(kernel) or backend
    forms = [[kernel, *(made for _, made in _stages(kernel, passes, backend, target))][-1]
             for passes in backend.passes(kernel, target)]  # fmt: skip
    return Legal(kernel, tuple(forms), backend)


def stages(kernel: Kernel, backend: Backend, target: Target) -> Iterator[tuple[KernelPass, Kernel]]:
    """Each pass of a backend over a kernel, in its preferred variant, with what it gives; `legalize` is the last."""
    backend = backend.other(kernel) or backend
    return _stages(kernel, backend.passes(kernel, target)[0], backend, target)


def _stages(
    kernel: Kernel, passes: KernelPasses, backend: Backend, target: Target
) -> Iterator[tuple[KernelPass, Kernel]]:
    for one in (*passes, KernelPass("legalize", "legal", lambda kernel, target: _legal(kernel, backend, target))):
        kernel = one.run(kernel, target)
        yield one, kernel


def _legal(kernel: Kernel, backend: Backend, target: Target) -> Kernel:
    body = legalize(kernel.body, backend, target)
    maps = [b.index_map and legalize(b.index_map, backend, target) for b in kernel.blocks]
    if body is kernel.body and all(m is b.index_map for m, b in zip(maps, kernel.blocks, strict=True)):
        return kernel
    blocks = [replace(b, index_map=m) for b, m in zip(kernel.blocks, maps, strict=True)]
    n = len(kernel.inputs)
    return kernel.replace(body=body, inputs=tuple(blocks[:n]), outputs=tuple(blocks[n:]))


def entry[**P, T](backend: Backend) -> Callable[[Callable[Concatenate[Legal, P], T]], Callable[..., T]]:
    """Decorate a backend's function of a legal kernel and a target, so that it is given one, whatever it is called on.

    The pipeline calls it on a `Legal`; a kernel as it was written is legalised on the way.
    """

    def decorate(function: Callable[Concatenate[Legal, P], T]) -> Callable[..., T]:
        @functools.wraps(function)
        def called(kernel: Kernel | Legal, target: Target, *args: Any, **kwargs: Any) -> T:
            made = legal(kernel, backend, target) if isinstance(kernel, Kernel) else kernel
            return function(made, target, *args, **kwargs)  # type: ignore[arg-type]

        return called

    return decorate
