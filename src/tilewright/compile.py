"""The walk from a Python function to something that runs, stage by stage."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from .core import jit
from .core.config import config, current
from .core.errors import ArgumentError
from .core.ir import Program
from .core.rewrite import eliminate_dead
from .core.runtime import runtime
from .xla_backend import array, dispatch, operators, placed
from .xla_backend.backend import XlaBackend
from .xla_backend.module import Module

STAGES = ("program", "transformed", "kernels", "module", "executable")
_tiles: ContextVar[Any] = ContextVar("tilewright_tiles", default=None)


class TilingBackend(XlaBackend):
    """XLA, with kernels made of the standard operations: on the CPU where `tiles` or `cpu_tiles` ask for them."""

    def lower(self, program: Program, name: str, donated: Sequence[int] = (), keep_unused: bool = False) -> Module:
        """The module of a Program."""
        tiles = _tiles.get()
        tiled, asked = tiles is not None or current().cpu_tiles, None if tiles is True else tiles

        def prepare(device: Any, program: Program) -> tuple[Program, Any]:
            if device.platform == "cpu":
                return (_fuse()(program, "cpu", asked) if tiled else program), None
            targets = importlib.import_module(".targets", __package__)
            return targets.with_kernels(program, targets.machine_of(device), asked)[:2]

        return placed.lower_for(None, program, name, donated, keep_unused, prepare)


def _fuse() -> Any:
    """The fusion pass; imported when first used, since the templates are a good part of the start-up time."""
    return importlib.import_module(".kernels.fuse", __package__).fuse


def install() -> None:
    """Give the tracing layer what evaluates primitives, compiles Programs and holds arrays."""
    runtime.evaluator = dispatch.evaluate
    runtime.backend = TilingBackend()
    runtime.array_maker = array.from_host
    operators.install()
    for platform in ("gpu", "tpu"):
        placed.set_kernels(platform, lambda device: importlib.import_module(".targets", __package__).emitter(device))
    runtime.target_here = lambda: importlib.import_module(".targets", __package__).here()
    runtime.namespace = lambda: importlib.import_module("tilewright.numpy")


def compile(
    f: Any, *args: Any, target: str | None = None, stop: str = "executable", tiles: Any = None, **kwargs: Any
) -> Any:
    """A function at one stage of compilation, for arguments given as arrays or by shape and dtype.

    `stop` is one of `program` (as traced, derivatives and batching done), `transformed` (dead code gone), `kernels`
    (kernel calls and glue; on the CPU, where XLA fuses better, only if `tiles` are asked for), `module` (the text
    given to the target's compiler) and `executable` (which can be called). Every stage prints as text. `tiles` is True
    for the target's own, a function from a kernel's `Loops` to its tiles, or a mapping from kernel names to tiles.

    Raises:
      ArgumentError: an unknown stage or target; tiles that do not fit a kernel's loops or the target.

    >>> from tilewright import ShapeDtypeStruct
    >>> print(compile(lambda x: x + 1.0, ShapeDtypeStruct((3,), "float32"), stop="module").count("stablehlo.add"))
    1
    """
    if stop not in STAGES:
        raise ArgumentError(f"there is no stage named {stop!r}", f"one of {', '.join(STAGES)}")
    wrapper = f if hasattr(f, "__jit__") else jit.jit(f)
    with config(kernel_target=target or current().kernel_target):
        traced = wrapper.trace(*args, **kwargs)
    if stop == "program":
        return traced.jaxpr
    here = target in (None, "cpu")
    tiles = tiles or (here and current().cpu_tiles) or None
    asked = None if tiles is True else tiles
    if stop in ("transformed", "kernels"):
        from .lang.target import current_target

        machine = current_target(target)
        whole = stop == "transformed" or (machine.whole_arrays and not tiles)
        return eliminate_dead(traced.jaxpr)[0] if whole else _fuse()(traced.jaxpr, machine, asked)
    if not here:
        from . import targets

        made = targets.compile_for(str(target), traced.jaxpr, stop, asked)
        return targets.running_here(made, traced.lower) if stop == "executable" else made
    token = _tiles.set(tiles)
    try:
        lowered = traced.lower()
    finally:
        _tiles.reset(token)
    return lowered.as_text() if stop == "module" else lowered.compile()
