"""`jax.core`: types, traces and jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...core.ir.binding import EVAL, using
from ...core.ir.program import Atom
from ...core.support.runtime import runtime
from ...core.tracing.trace import Tracer, ensure_compile_time_eval, typeof
from ..avals import AbstractValue, ShapedArray
from ..jaxprs import eval_jaxpr
from ..missing import not_adapted
from ..traces import Trace

Value = Any
# What tensorflow_probability adds a subclass of NumPy's arrays to; these are taken as they are.
pytype_aval_mappings: dict[type, Any] = runtime.part("as_jax.types", {np.ndarray: typeof})
ParamDict = dict[str, Any]


@contextmanager
def eval_context() -> Iterator[None]:
    """Within a `with` block, operations are evaluated at once."""
    with using(EVAL):
        yield


__all__ = [
    "AbstractValue", "Atom", "ParamDict", "ShapedArray", "Trace", "Tracer", "Value", "ensure_compile_time_eval",
    "eval_context", "eval_jaxpr", "pytype_aval_mappings",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.core")
