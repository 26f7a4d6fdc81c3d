"""Gated MLPs, `(act(x @ gate) * (x @ up)) @ down`: SiLU for SwiGLU, GELU for GeGLU (Shazeer, 2020, arXiv:2002.05202).

One kernel makes both products of a block and their gated product, so that neither is stored; its derivative makes them
again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import lax
from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.primitives.custom.custom_derivatives import custom_jvp, linear_call
from ...core.support.errors import ShapeError
from ...core.tracing.trace import shape_of
from ...lang import triton
from ...lang.call.kernel_call import kernel_call
from ...lang.kernel.block_spec import VMEM, BlockSpec
from ...lang.ops.basic import cdiv, num_programs, program_id, when
from ...lang.targets.target import Target, current_target
from ..cost import Cost
from .base import Operation, as_rows, dtype_of, gpu_family, like, nbytes, product, row_tile, work_dtype, zeros_first

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef

# Rows, columns, depth, warps and stages of a cell with two products of 2-byte elements.
GPU_BLOCKS = {
    "cuda:sm_80": (128, 64, 64, 8, 3),
    "cuda:sm_90": (128, 128, 64, 8, 3),
    "cuda:sm_100": (128, 128, 64, 8, 3),
    "rocm:gfx942": (128, 64, 32, 4, 2),
}


def _silu(x: Array) -> Any:
    return x * lax.logistic(x)


def _silu_slope(x: Array) -> Any:
    s = lax.logistic(x)
    return s * (1 + x * (1 - s))


def _bent(x: Array) -> Any:
    return jnp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))


def _gelu(x: Array) -> Any:
    return 0.5 * x * (1 + _bent(x))


def _gelu_slope(x: Array) -> Any:
    t = _bent(x)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x)


def _tiles(m: int, n: int, d: int, results: int, itemsize: int, work: Any, target: Target
           ) -> tuple[int, int, int, Any]:  # fmt: skip
    """Rows, columns and depth of a cell, and the compiler parameters."""
    if not target.gpu:
        return row_tile(m, d * work.itemsize, target), row_tile(n, d * work.itemsize, target), d, None
    rows, columns, depth, warps, stages = GPU_BLOCKS[gpu_family(target, GPU_BLOCKS)]
    columns //= results  # what makes the results of both products is in registers too
    params = triton.CompilerParams(warps, stages, suggested=True)
    return min(rows, m), min(columns, n), min(depth * 2 // max(itemsize, 2), d), params


def _gated(
    finish: Callable[..., Sequence[Any]], name: str, results: int, target: Target, x: Array, gate: Array, up: Array,
    *more: Any,
) -> list[Any]:  # fmt: skip
    """`finish(x @ gate, x @ up, *more)` by blocks of the results, which are like `x` with the columns of `gate`."""
    (m, d), n = shape_of(x), shape_of(gate)[1]
    work = work_dtype(x, gate)
    rows, columns, depth, params = _tiles(m, n, d, results, dtype_of(x).itemsize, work, current_target(target))
    fill = 0 if d % depth else None

    def body(x: AnyRef, gate: AnyRef, up: AnyRef, *rest: Any) -> None:
        others, outs, sums = rest[: len(more)], rest[len(more) : len(more) + results], rest[len(more) + results :]

        def store(*products: Any) -> None:
            for out, made in zip(outs, finish(*products, *(r[...].astype(work) for r in others)), strict=True):
                out[...] = made.astype(out.dtype)

        if not sums:
            store(product(x[...], gate[...], 1, 0, work), product(x[...], up[...], 1, 0, work))
            return

        zeros_first(2, *sums)
        left = x[...]
        sums[0][...] += product(left, gate[...], 1, 0, work)
        sums[1][...] += product(left, up[...], 1, 0, work)

        @when(program_id(2) == num_programs(2) - 1)
        def _() -> None:
            store(*(total[...] for total in sums))

    weights = BlockSpec((depth, columns), lambda i, j, k: (k, j), fill=fill)
    block = BlockSpec((rows, columns), lambda i, j, k: (i, j))
    return kernel_call(
        body, [like(x, (m, n))] * results, grid=(cdiv(m, rows), cdiv(n, columns), cdiv(d, depth)),
        in_specs=[BlockSpec((rows, depth), lambda i, j, k: (i, k), fill=fill), weights, weights, *[block] * len(more)],
        out_specs=[block] * results, scratch_shapes=[VMEM((rows, columns), work)] * 2 if depth < d else [], name=name,
        compiler_params=params,
    )(x, gate, up, *more)  # fmt: skip


def _hidden(activation: Callable[..., Any], slope: Callable[..., Any], name: str, target: Target) -> Any:
    """`act(x @ gate) * (x @ up)`, whose derivative makes both products again."""

    def slopes(g: Array, u: Array, ct: Array) -> tuple[Any, Any]:
        return ct * u * slope(g), ct * activation(g)

    def pulled(primals: Sequence[Any], ct: Array) -> list[Any]:
        """The cotangents of both products."""
        return _gated(slopes, f"{name}_backward", 2, target, *primals, ct)

    @custom_jvp
    def call(x: Array, gate: Array, up: Array) -> Any:
        return _gated(lambda g, u: [activation(g) * u], name, 1, target, x, gate, up)[0]

    def forward(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (x, gate, up), (dx, dgate, dup), work = primals, tangents, work_dtype(*primals[:2])
        ones = jnp.ones((shape_of(x)[0], shape_of(gate)[1]), dtype_of(x))
        by_gate, by_up = pulled(primals, ones)
        return (by_gate * (product(dx, gate, 1, 0, work) + product(x, dgate, 1, 0, work))
                + by_up * (product(dx, up, 1, 0, work) + product(x, dup, 1, 0, work))).astype(dtype_of(x))  # fmt: skip

    def backward(primals: Sequence[Any], ct: Array) -> tuple[Any, Any, Any]:
        x, gate, up = primals
        work = work_dtype(x, gate)
        by_gate, by_up = pulled(primals, ct)
        dx = product(by_gate, gate.T, 1, 0, work) + product(by_up, up.T, 1, 0, work)
        return dx.astype(dtype_of(x)), *(product(x.T, ct, 1, 0, work).astype(dtype_of(gate)) for ct in (by_gate, by_up))

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        return call(*primals), linear_call(forward, backward, primals, tangents)

    call.defjvp(rule)
    return call


def _checked(x: Array, gate: Array, up: Array, down: Array, what: str) -> None:
    shapes = [shape_of(a) for a in (x, gate, up, down)]
    s, g, u, o = shapes
    if not s or len(g) != 2 or g != u or len(o) != 2 or s[-1] != g[0] or o[0] != g[1]:
        raise ShapeError(f"{what} of {shapes}", "shapes are (..., d), (d, n), (d, n), (n, o)")


def _mlp(activation: Callable[[Any], Any], slope: Callable[[Any], Any], name: str) -> tuple[Any, Any]:
    def function(x: Operand, gate: Operand, up: Operand, down: Operand, *, target: str | None = None) -> Any:
        x, gate, up, down = (jnp.asarray(a) for a in (x, gate, up, down))
        _checked(x, gate, up, down, name)
        leading = shape_of(x)[:-1]
        if 0 in (*shape_of(x), *shape_of(gate)):
            return reference(x, gate, up, down)
        hidden = _hidden(activation, slope, name, target)(as_rows(x), gate, up)
        work = work_dtype(x, down)
        return product(hidden, down, 1, 0, work).astype(x.dtype).reshape(*leading, shape_of(down)[1])

    def reference(x: Array, gate: Array, up: Array, down: Array) -> Any:
        work = work_dtype(x, gate)
        rows = x.reshape(math.prod(shape_of(x)[:-1]), shape_of(x)[-1])
        hidden = (activation(product(rows, gate, 1, 0, work)) * product(rows, up, 1, 0, work)).astype(x.dtype)
        return product(hidden, down, 1, 0, work).astype(x.dtype).reshape(*shape_of(x)[:-1], shape_of(down)[1])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{name}: `(act(x @ gate) * (x @ up)) @ down`, (..., d), (d, n), (d, n), (n, o).

    Raises ShapeError where the shapes do not fit.

    >>> import numpy as np
    >>> x = np.ones((2, 3), np.float32)
    >>> {name}(x, np.ones((3, 4), np.float32), np.ones((3, 4), np.float32), np.ones((4, 3), np.float32)).shape
    (2, 3)
    """
    return function, reference


def cost(x: Operand, gate: ArrayLike, up: ArrayLike, down: ArrayLike) -> Cost:
    rows, (d, n) = math.prod(shape_of(x)[:-1]), shape_of(gate)
    hidden = rows * n
    out = rows * shape_of(down)[1]
    moved = nbytes(x, gate, up, down) + 2 * hidden * x.dtype.itemsize + out * x.dtype.itemsize
    return Cost(hidden * (4 * d + 4 + 2 * shape_of(down)[1]), hidden, moved)


swiglu: Any
swiglu, _swiglu_reference = _mlp(_silu, _silu_slope, "swiglu")
geglu: Any
geglu, _geglu_reference = _mlp(_gelu, _gelu_slope, "geglu")

OPERATIONS = (
    Operation("swiglu", swiglu, _swiglu_reference, cost),
    Operation("geglu", geglu, _geglu_reference, cost),
)
