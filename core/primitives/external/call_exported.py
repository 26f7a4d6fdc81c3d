"""Sizes as numbers of a program, and calls of functions that were exported.

    dimension(; size)                   the value of a symbolic size, an integer
    call_exported(*args; exported)      the flat results of an `Exported` (`tilewright.export`)
"""

from __future__ import annotations

from typing import Any

from ...ir.axis_relation import FREE
from ...ir.primitive import Primitive
from ...ir.types import ArrayType, scalar_type
from ...support.errors import NoDerivativeError, UnsupportedError
from ...support.runtime import runtime
from ...tracing.trace import is_evaluating


def _dimension(size: Any) -> Any:
    if is_evaluating():
        return int(size)  # an error that names it
    return dimension_p.bind(size=size)


dimension_p = Primitive("dimension", lambda *, size: scalar_type(1), work=FREE)
runtime.dimension = _dimension


def _typing(*types: Any, exported: Any) -> list[ArrayType]:
    return list(exported.typing(types))


def _no_batch(axis: Any, args: Any, dims: Any, *, exported: Any) -> Any:
    raise UnsupportedError(f"{exported.fun_name}, an exported function, under `vmap`: its program is fixed",
                           "export it with a symbolic size of the batch, or call it by `lax.map`")  # fmt: skip


def _no_derivative(primals: Any, tangents: Any, *, exported: Any) -> Any:
    raise NoDerivativeError(f"{exported.fun_name}, an exported function, has no derivative of forward mode",
                            "use reverse mode, for which it was serialised with `vjp_order`")  # fmt: skip


call_exported_p = Primitive("call_exported", _typing, jvp=_no_derivative, batch=_no_batch, multiple=True)
