"""`jax.core`: types, traces and jaxprs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...core.ir import Atom
from ...core.trace import EVAL, Tracer, ensure_compile_time_eval, using
from ..avals import AbstractValue, ShapedArray
from ..jaxprs import eval_jaxpr
from ..missing import not_adapted
from ..traces import Trace

Value = Any
ParamDict = dict[str, Any]


@contextmanager
def eval_context() -> Iterator[None]:
    """Within a `with` block, operations are evaluated at once."""
    with using(EVAL):
        yield


__all__ = [
    "AbstractValue", "Atom", "ParamDict", "ShapedArray", "Trace", "Tracer", "Value", "ensure_compile_time_eval",
    "eval_context", "eval_jaxpr",
]  # fmt: skip
__getattr__ = not_adapted("jax.core")
