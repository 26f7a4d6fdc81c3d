"""Softmax and log-softmax of rows: `exp(x - max) / sum(exp(x - max))`, and its logarithm.

A kernel reads each row once. The tangent of softmax is `y * (t - sum(y * t))`, its own transpose; that of log-softmax
`t - sum(exp(y) * t)`, with the transpose `t - exp(y) * sum(t)`. All are kernels of the result y, so x need not be kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.primitives.custom.custom_derivatives import custom_jvp, linear_call
from ...core.tracing.trace import shape_of
from ...lang.ops.basic import cdiv
from ...lang.targets.target import Target
from ..cost import Cost
from .base import Operation, as_rows, by_blocks, dtype_of, like, nbytes, row_fits, row_spec, row_tile, work_dtype


def _softmax(x: Array) -> Any:
    power = jnp.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def _log_softmax(x: Array) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - jnp.log(jnp.exp(shifted).sum(-1, keepdims=True))


def _softmax_tangent(y: Array, t: Array) -> Any:
    return y * (t - (y * t).sum(-1, keepdims=True))


def _log_softmax_tangent(y: Array, t: Array) -> Any:
    return t - (jnp.exp(y) * t).sum(-1, keepdims=True)


def _log_softmax_cotangent(y: Array, ct: Array) -> Any:
    return ct - jnp.exp(y) * ct.sum(-1, keepdims=True)


def _on_rows(formula: Callable[..., Any], name: str, target: Target, *arrays: Any) -> Any:
    """A formula of whole rows, as a kernel over blocks of them where they fit, computed in float32 at least."""
    m, n = shape_of(arrays[0])
    work = work_dtype(*arrays)
    if not row_fits(n * work.itemsize, target):
        return formula(*(a.astype(work) for a in arrays)).astype(dtype_of(arrays[0]))

    rows = row_tile(m, n * work.itemsize, target)
    spec = row_spec(rows, n)
    (out,) = by_blocks(
        lambda *blocks: [formula(*blocks)], [(a, spec) for a in arrays], [like(arrays[0])], [spec], cdiv(m, rows), work,
        name,
    )  # fmt: skip
    return out


def _with_tangent(
    formula: Callable[..., Any], tangent: Callable[..., Any], cotangent: Callable[..., Any], name: str
) -> Callable[[Any], Any]:
    def make(target: Target) -> Any:
        @custom_jvp
        def call(x: Array) -> Any:
            return _on_rows(formula, name, target, x)

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            y = call(*primals)
            forward = functools.partial(_on_rows, tangent, f"{name}_tangent", target)
            backward = functools.partial(_on_rows, cotangent, f"{name}_cotangent", target)
            return y, linear_call(forward, backward, y, *tangents)

        call.defjvp(rule)
        return call

    return make


_SOFTMAX = _with_tangent(_softmax, _softmax_tangent, _softmax_tangent, "softmax")
_LOG_SOFTMAX = _with_tangent(_log_softmax, _log_softmax_tangent, _log_softmax_cotangent, "log_softmax")


def _apply(make: Callable[..., Any], x: Operand, axis: int, target: Target) -> Any:
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.float32)
    if 0 in shape_of(x):
        return x
    moved = jnp.moveaxis(x, axis, -1)
    return jnp.moveaxis(make(target)(as_rows(moved)).reshape(shape_of(moved)), -1, axis)


def softmax(x: ArrayLike, axis: int = -1, *, target: str | None = None) -> Any:
    """`exp(x) / sum(exp(x))` over one axis, without overflow; sums in float32 at least.

    >>> import numpy as np
    >>> print(np.asarray(softmax(np.zeros(2, np.float32))))
    [0.5 0.5]
    """
    return _apply(_SOFTMAX, x, axis, target)


def log_softmax(x: ArrayLike, axis: int = -1, *, target: str | None = None) -> Any:
    """The logarithm of `softmax` over one axis.

    >>> import numpy as np
    >>> print(np.asarray(log_softmax(np.zeros(1, np.float32))))
    [0.]
    """
    return _apply(_LOG_SOFTMAX, x, axis, target)


def _along_axis(formula: Callable[[Any], Any]) -> Callable[..., Any]:
    def reference(x: Array, axis: int = -1) -> Any:
        moved = jnp.moveaxis(x, axis, -1).astype(work_dtype(x))
        return jnp.moveaxis(formula(moved), -1, axis).astype(x.dtype)

    return reference


def _cost(x: Array, axis: int = -1) -> Cost:
    size = math.prod(shape_of(x))
    return Cost(4 * size, size, 2 * nbytes(x))


OPERATIONS = (
    Operation("softmax", softmax, _along_axis(_softmax), _cost),
    Operation("log_softmax", log_softmax, _along_axis(_log_softmax), _cost),
)
