"""The walk from a Python function to something that runs, stage by stage."""

from __future__ import annotations

import importlib
from typing import Any

from .core import convert, jit, trace
from .core.errors import ArgumentError
from .core.rewrite import eliminate_dead
from .xla_backend import array, dispatch, operators, placed
from .xla_backend.backend import XlaBackend

STAGES = ("program", "transformed", "kernels", "module", "executable")


def install() -> None:
    """Give the tracing layer what evaluates primitives, compiles Programs and holds arrays."""
    trace.set_evaluator(dispatch.evaluate)
    jit.set_backend(XlaBackend())
    convert.set_array_maker(array.from_host)
    operators.install()
    placed.set_kernels("gpu", lambda device: importlib.import_module(".targets", __package__).emitter(device))
    array.set_namespace(lambda: importlib.import_module("tilewright.numpy"))


def compile(f: Any, *args: Any, target: str | None = None, stop: str = "executable", **kwargs: Any) -> Any:
    """A function at one stage of compilation, for arguments given as arrays or by shape and dtype.

    `stop` is one of `program` (as traced, derivatives and batching done), `transformed` (dead code gone), `kernels`
    (kernel calls and glue; the same on the CPU, where XLA fuses what is outside kernels), `module` (the text
    given to the target's compiler) and `executable` (which can be called). Every stage prints as text.

    Raises:
      ArgumentError: an unknown stage or target.

    >>> from tilewright import ShapeDtypeStruct
    >>> print(compile(lambda x: x + 1.0, ShapeDtypeStruct((3,), "float32"), stop="module").count("stablehlo.add"))
    1
    """
    if stop not in STAGES:
        raise ArgumentError(f"there is no stage named {stop!r}", f"one of {', '.join(STAGES)}")
    wrapper = f if hasattr(f, "__jit__") else jit.jit(f)
    traced = wrapper.trace(*args, **kwargs)
    if stop == "program":
        return traced.jaxpr
    if stop in ("transformed", "kernels"):
        return eliminate_dead(traced.jaxpr)[0]
    if target not in (None, "cpu"):
        from .targets import compile_for

        return compile_for(str(target), traced.jaxpr, stop)
    lowered = traced.lower()
    return lowered.as_text() if stop == "module" else lowered.compile()
