"""What the backward pass stores and what it computes again, under the names of `jax.ad_checkpoint`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .core.api.transformations import program_of
from .core.ir.program import Program
from .core.ir.types import is_inexact
from .core.primitives.custom.checkpoint import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    inlined,
    name_p,
    remat,
)
from .core.support import pytree
from .core.transforms.linearize import linearized


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """The values that reverse mode of `f` stores between its passes: the type of each, and where it comes from.

    >>> from tilewright import numpy as tnp
    >>> saved_residuals(tnp.sin, tnp.ones(3))
    [(ArrayType(f32[3]), 'output of cos from ...')]
    """
    program, _ = program_of(f, args, kwargs)
    program = inlined(program)
    paths = [f"from the argument {name}" for name in _argument_names(f, args, kwargs)]
    parts = linearized(program, tuple(is_inexact(t.dtype) for t in program.in_types))
    outputs = parts.primal.outputs
    atoms = {"in": parts.primal.inputs, "out": outputs, "stored": outputs[len(program.outputs) :]}
    found = (atoms[kind][i] for kind, i in parts.residuals)
    last = len(paths)
    order = sorted(found, key=lambda atom: atoms["in"].index(atom) if atom in atoms["in"] else last)
    return [(atom.type, _origin(atom, parts.primal, paths)) for atom in order]


def _argument_names(f: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    """The name of each array among a function's arguments, as `params['w']`."""
    try:
        bound = inspect.signature(f).bind_partial(*args).arguments
    except (TypeError, ValueError):  # a function of C, which does not tell its parameters
        bound = {f"args[{i}]": x for i, x in enumerate(args)}
    named = [*bound.items(), *sorted(kwargs.items())]
    return [f"{name}{pytree.keystr(path)}" for name, x in named for path, _ in pytree.leaves_with_path(x)]


def _origin(atom: Any, program: Program, inputs: list[str]) -> str:
    """Where a value of a Program comes from, given where its inputs do."""
    if atom in program.inputs:
        return inputs[program.inputs.index(atom)]
    eqn = next((e for e in program.eqns if atom in e.outputs), None)
    if eqn is None:
        return "a constant"
    if eqn.primitive is name_p:
        return f"named {eqn.params['name']!r}" + ("" if eqn.source is None else f" from {eqn.source}")
    inner = eqn.params.get("program")
    if isinstance(inner, Program) and len(inner.outputs) == len(eqn.outputs):
        outside = [_origin(a, program, inputs) for a in eqn.inputs]
        return _origin(inner.outputs[eqn.outputs.index(atom)], inner, outside)
    return f"output of {eqn.primitive.name}" + ("" if eqn.source is None else f" from {eqn.source}")


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the values that reverse mode of `f` stores between its passes.

    >>> from tilewright import numpy as tnp
    >>> print_saved_residuals(lambda x: tnp.sin(x) * 2.0, tnp.ones(3))
    f32[3] output of cos from ...
    """
    for type_, origin in saved_residuals(f, *args, **kwargs):
        print(f"{type_.show()} {origin}")


__all__ = [
    "Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_policies",
    "print_saved_residuals", "remat", "saved_residuals",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
