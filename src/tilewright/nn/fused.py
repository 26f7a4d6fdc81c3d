"""Operations as one kernel or a few, with derivatives of their own: see `tilewright.kernels.fused`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..core.tracing.trace import shape_of
from ..kernels.fused import OPERATIONS
from ..kernels.fused.adamw import init as adamw_init
from ..lang.targets.target import current_target
from ..tuning.autotuned import autotune
from ..tuning.space import powers_of_two

__all__ = [
    "adamw", "adamw_init", "cross_entropy", "dot_product_attention", "geglu", "group_norm", "layer_norm",
    "linear_cross_entropy", "log_softmax", "rms_norm", "rotary_embedding", "softmax", "swiglu",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy


def _blocks(rows: int, columns: int) -> list[dict[str, Any]]:
    """The function's own choice, and blocks of rows; of columns too where the compiler does not take whole arrays."""
    sizes = powers_of_two(16, rows)
    if current_target().whole_arrays:
        return [{}, *({"rows": r} for r in sizes)]
    return [{}, *({"rows": r, "columns": c} for r in sizes for c in powers_of_two(16, columns))]


_KERNELS_OWN = ("target", "rows", "columns")  # options that say how a kernel is cut


def _operation(name: str, tuned: Callable[[Any], Any] = lambda function: function) -> Any:
    """An operation by its kernel; by its plain formula where a size is symbolic, which no kernel can be cut for."""
    function, reference = tuned(OPERATIONS[name].function), OPERATIONS[name].reference

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if any([type(d) is not int for x in args for d in getattr(x, "shape", ())]):
            return reference(*args, **{n: value for n, value in options.items() if n not in _KERNELS_OWN})
        return function(*args, **options)

    return call


adamw: Any
cross_entropy: Any
geglu: Any
group_norm: Any
adamw, cross_entropy, geglu, group_norm = map(_operation, ("adamw", "cross_entropy", "geglu", "group_norm"))
layer_norm: Any
log_softmax: Any
rms_norm: Any
layer_norm, log_softmax, rms_norm = map(_operation, ("layer_norm", "log_softmax", "rms_norm"))
rotary_embedding: Any
softmax: Any
swiglu: Any
rotary_embedding, softmax, swiglu = map(_operation, ("rotary_embedding", "softmax", "swiglu"))

dot_product_attention: Any = _operation(
    "dot_product_attention",
    autotune(lambda query, key, *args, **options: _blocks(shape_of(query)[1], shape_of(key)[1])),
)
linear_cross_entropy: Any = _operation(
    "linear_cross_entropy",
    autotune(lambda x, w, *args, **options: _blocks(math.prod(shape_of(x)[:-1]), shape_of(w)[1])),
)
