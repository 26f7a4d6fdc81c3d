"""`call_exported(*args; exported)`: the flat results of an `Exported` (`tilewright.export`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.primitive import AxisInfo, Primitive
from ...ir.types import ArrayType
from ...support.errors import NoDerivativeError, UnsupportedError


def _typing(*types: Any, exported: Any) -> list[ArrayType]:
    return list(exported.typing(types))


def _no_batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int], *, exported: Any) -> Any:
    raise UnsupportedError(f"{exported.fun_name}, an exported function, under `vmap`: its program is fixed",
                           "export it with a symbolic size of the batch, or call it by `lax.map`")  # fmt: skip


def _no_derivative(primals: Sequence[Any], tangents: Sequence[Any], *, exported: Any) -> Any:
    raise NoDerivativeError(f"{exported.fun_name}, an exported function, has no derivative of forward mode",
                            "use reverse mode, for which it was serialised with `vjp_order`")  # fmt: skip


call_exported_p: Primitive = Primitive("call_exported", _typing, jvp=_no_derivative, batch=_no_batch, multiple=True)
