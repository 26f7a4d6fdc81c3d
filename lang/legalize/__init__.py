"""Bodies in the part of the language that a backend has rules for.

A `Backend` says of each primitive of the language that it has a rule for it, or the reason why no body may hold it
there. What it says nothing of is rewritten here into others: by `REWRITES`, which serve every target, or by the
primitive's own `expand`. So special functions, windows, convolutions, powers of integers, positions of extrema and
random keys are written once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.caches import cached
from ...core.errors import Source, UnsupportedError
from ...core.ir import Eqn, Program, Var
from ...core.keys import physicalize
from ...core.primitive import Primitive
from ...core.primitives.random import random_clone_p, random_unwrap_p, random_wrap_p
from ...core.primitives.shape import broadcast_in_dim
from ...core.rewrite import primitives_of, within
from ...core.trace import trace_program
from ...core.types import ArrayType
from ..atomics import atomic_cas_p, atomic_rmw_p
from ..kernel import Kernel
from ..normalize import replaced
from ..plain import RULES as PLAIN
from . import integers, position, special, windows

Rewrite = Callable[..., Any]
REWRITES: dict[Primitive, Rewrite] = {
    **special.REWRITES, **windows.REWRITES, **integers.REWRITES, **position.REWRITES,
}  # fmt: skip
KEYS = frozenset({random_wrap_p, random_unwrap_p, random_clone_p})  # keys become their words
# Gone before a body is printed: what `plain` takes out, where a target has nothing of the kind, and keys.
GONE = frozenset(PLAIN) - {atomic_rmw_p, atomic_cas_p} | KEYS


@dataclass(frozen=True, eq=False)
class Backend:
    """What a target makes of the language: how it prints primitives, and the reasons for what it refuses.

    `rules` and `refused` are the backend's tables; `dtypes` are those that no body may hold there, each with its
    reason. `place` is where its kernels run, as errors say it.
    """

    place: str
    rules: Mapping[Primitive, Any]
    refused: Mapping[Primitive, str]
    dtypes: Mapping[str, str]

    @functools.cached_property
    def plain(self) -> frozenset[Primitive]:
        """What is never rewritten."""
        return frozenset(self.rules) - integers.TOTAL

    def way(self, primitive: Primitive) -> str:
        """What becomes of a primitive: it is "printed", "rewritten" or "refused"."""
        if primitive in self.rules:
            return "printed"
        return "refused" if primitive in self.refused or not self._rewritten(primitive) else "rewritten"

    def _rewritten(self, primitive: Primitive) -> bool:
        return primitive in REWRITES or primitive in GONE or primitive.expand is not None

    def rewrite(self, eqn: Eqn, numbers: Mapping[Var, Any]) -> Rewrite | None:
        """What an equation is rewritten by, where some variables are known numbers; None: it stays."""
        primitive = eqn.primitive
        if primitive in self.refused:
            return None
        found = integers.total(eqn, numbers)
        if found is not None or primitive in self.rules:
            return found
        return REWRITES.get(primitive, primitive.expand)

    def refusal(self, kernel: str, primitive: Primitive, source: Source | None, reason: str = "") -> UnsupportedError:
        """The error for a primitive that a body may not hold, in general or (with a reason) as it stands there."""
        without = "it has no rule there, and no `expand` rule that makes it of others"
        reason = reason or self.refused.get(primitive, without)
        return UnsupportedError(
            f"kernel {kernel}: {primitive} cannot run in {self.place}: {reason}",
            "take it out of the kernel, or do it around the kernel call", source)  # fmt: skip


def legalize(program: Program, backend: Backend) -> Program:
    """The Program, inner ones included, in what a backend has rules for; what it refuses stays as it is."""
    program = physicalize(program)
    if primitives_of(program) <= backend.plain:
        return program
    eqns = [within(e, lambda inner: legalize(inner, backend)) for e in program.eqns]
    if any(new is not old for new, old in zip(eqns, program.eqns, strict=True)):
        program = program.replace(eqns=eqns)
    numbers = integers.known(program)
    return replaced(program, lambda eqn: _meaning(eqn, numbers, backend))


def _meaning(eqn: Eqn, numbers: Mapping[Var, Any], backend: Backend) -> Program | None:
    """What stands for an equation; None: the equation itself."""
    rewrite = backend.rewrite(eqn, numbers)
    if rewrite is None:
        return None
    empty = not eqn.effects and all(isinstance(v.type, ArrayType) and not v.type.size for v in eqn.outputs)

    def rewritten(*args: Any) -> list[Any]:
        if empty:
            return [broadcast_in_dim(np.zeros((), v.type.dtype)[()], v.type.shape, ()) for v in eqn.outputs]
        out = rewrite(*args, **eqn.params)
        return list(out) if eqn.primitive.multiple else [out]

    made = legalize(trace_program(rewritten, [a.type for a in eqn.inputs], eqn.primitive.name), backend)
    return made.replace(eqns=[e.replace(source=eqn.source) for e in made.eqns])


@cached(1024)
def legal(kernel: Kernel, backend: Backend) -> Kernel:
    """The kernel with its body and index maps in what a backend has rules for; itself if they are."""
    body = legalize(kernel.body, backend)
    maps = [b.index_map and legalize(b.index_map, backend) for b in kernel.blocks]
    if body is kernel.body and all(m is b.index_map for m, b in zip(maps, kernel.blocks, strict=True)):
        return kernel
    blocks = [replace(b, index_map=m) for b, m in zip(kernel.blocks, maps, strict=True)]
    n = len(kernel.inputs)
    return kernel.replace(body=body, inputs=tuple(blocks[:n]), outputs=tuple(blocks[n:]))
