"""`jax.extend.core`: jaxprs, primitives, and what is being traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .....core.ir.array import DTypeLike
from .....core.ir.program import NO_EFFECTS as no_effects
from .....core.ir.program import Effect, Effects, Eqn, Literal, Var
from .....core.ir.typeof import Scalar, Value
from .....core.ir.types import ArrayType, as_dtype
from .....core.ir.verifier import check_program
from .....core.support.errors import ProgramError as JaxprTypeError
from .....core.tracing.trace import typeof
from ....avals import mapped_aval, unmapped_aval
from ....jaxprs import ClosedJaxpr, Jaxpr, jaxpr_as_fun, jaxprs_in_params, new_jaxpr_eqn, subjaxprs
from ....missing import not_adapted
from ....primitive import Primitive
from ....traces import (
    TraceTag,
    axis_names,
    find_top_trace,
    get_opaque_trace_state,
    set_current_trace,
    take_current_trace,
    under_jit,
    under_vmap,
)

JaxprEqn = Eqn
array_types: set[Any] = {*Scalar, np.ndarray, Value}
unsafe_am_i_under_a_jit_DO_NOT_USE = under_jit
unsafe_am_i_under_a_vmap_DO_NOT_USE = under_vmap
unsafe_get_axis_names_DO_NOT_USE = axis_names


class AbstractToken:
    """The type of a token, which no value of a Program has: effects order equations."""


Token = AbstractToken


class DropVar(Var):  # type: ignore[misc]
    """A result that nothing uses: Programs name these as any other."""

    __slots__ = ()


class DebugInfo:
    """What a function is called in messages; the messages here name the user's lines instead."""

    def __init__(self, *args: Any, **fields: Any):
        self.args = args
        vars(self).update(fields)


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether an axis with a name is mapped over here."""
    return bool(axis_names())


def gensym(suffix: str = "") -> Any:
    """A function that makes a new Var of a type."""
    return Var


def valid_jaxtype(x: Any) -> bool:
    """Whether something can be an argument of a traced function."""
    try:
        typeof(x)
    except TypeError:
        return False
    return True


def primal_dtype_to_tangent_dtype(dtype: DTypeLike) -> Any:
    """The dtype of a tangent."""
    return ArrayType((), as_dtype(dtype)).tangent().dtype


def check_jaxpr(jaxpr: Any) -> None:
    """Raise `ProgramError` where a jaxpr breaks the rules of the language."""
    check_program(jaxpr)


def concrete_or_error(force: Any, value: Any, context: str = "") -> Any:
    """A value made a Python one by `force`; an error that says so where it is traced."""
    return value if force is None else force(value)


__all__ = [
    "AbstractToken", "ClosedJaxpr", "DebugInfo", "DropVar", "Effect", "Effects", "Jaxpr", "JaxprEqn", "JaxprTypeError",
    "Literal", "Primitive", "Token", "TraceTag", "Var", "array_types", "check_jaxpr", "concrete_or_error",
    "find_top_trace", "gensym", "get_opaque_trace_state", "jaxpr_as_fun", "jaxprs_in_params", "mapped_aval",
    "new_jaxpr_eqn", "no_effects", "nonempty_axis_env_DO_NOT_USE", "primal_dtype_to_tangent_dtype",
    "set_current_trace", "subjaxprs", "take_current_trace", "unmapped_aval", "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.extend.core", submodules=("primitives",))
