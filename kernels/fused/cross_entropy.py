"""Cross entropy of integer labels, and of a linear layer without ever holding its logits.

`loss = logsumexp(logits) - logits[label]`, `dlogits = softmax(logits) - onehot(label)`. For `logits = x @ w` the
gradients are `dx = dlogits @ w.T` and `dw = x.T @ dlogits`, both sums over blocks of logits, which are made, used
and dropped. Where the loss is one number its cotangent only scales, so that one pass gives value and gradient (the
observation of Hsu et al., Liger Kernel, 2024, arXiv:2410.10989); blocks of the vocabulary with a running maximum
and sum (Milakov and Gimelshein, 2018, arXiv:1805.02867) where a row of logits does not fit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import lax
from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.ir.types import Dtype
from ...core.primitives.custom.custom_derivatives import custom_vjp
from ...core.support.errors import ArgumentError, ShapeError
from ...core.tracing.trace import shape_of
from ...lang import cpu
from ...lang.call.kernel_call import kernel_call
from ...lang.kernel.block_spec import VMEM, BlockSpec
from ...lang.ops.basic import cdiv, num_programs, program_id, when
from ...lang.targets.target import Target, current_target
from ..cost import Cost
from .base import (
    Operation,
    as_rows,
    dtype_of,
    like,
    nbytes,
    product,
    row_fits,
    row_spec,
    row_tile,
    vector_spec,
    with_backward,
    work_dtype,
    zeros_first,
)

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef, RefTracer
    from ...core.support.pytree import PyTree

LOGITS_BYTES = 2**26  # of logits in float32 that one cell of the one-pass form makes
GPU_LOGITS_BYTES = 2**29  # of those of a run of rows on a GPU, where products of matrices make them
TPU_COLUMNS = 512  # of a cell on a TPU where the matrix and its gradient do not both fit
COLUMNS = 4096  # of a cell where a row of logits does not fit
REDUCTIONS = ("mean", "sum", "none")


def _hit(logits: Array, labels: Array, first: ArrayLike = 0) -> Any:
    """Where the labels are among the columns of a block that starts at column `first`."""
    columns = lax.broadcasted_iota(jnp.int32, shape_of(logits), 1) + first
    return columns == labels[:, None]


def _statistics(logits: Array, hit: Array) -> tuple[Any, Any, Any, Any]:
    """Exponentials, their sum, the logarithm of the true sum, and the logit of the label, by row."""
    top = logits.max(-1, keepdims=True)
    power = jnp.exp(logits - top)
    total = power.sum(-1, keepdims=True)
    return power, total, (jnp.log(total) + top)[:, 0], jnp.where(hit, logits, 0).sum(-1)


# ------------------------------------------------------------------------------------------- of logits


def _tile(m: int, n: int, target: Target) -> tuple[int, int]:
    """Rows and columns of a cell: whole rows where they fit."""
    target = current_target(target)
    columns = n if row_fits(n * 4, target) else COLUMNS
    return row_tile(m, columns * 4, target), columns


def _reset(top: AnyRef, total: AnyRef, chosen: AnyRef) -> None:
    top[...] = jnp.full(top.shape, -jnp.inf, top.dtype)
    total[...] = jnp.zeros(total.shape, total.dtype)
    chosen[...] = jnp.zeros(chosen.shape, chosen.dtype)


def _meet(
    logits: Array, labels: Array, first: Array, size: int, top: AnyRef, total: AnyRef, chosen: RefTracer
) -> None:
    """A block of logits, which starts at column `first` of `size`, against what is known of its rows."""
    hit = _hit(logits, labels, first)
    if size % shape_of(logits)[1]:
        inside = lax.broadcasted_iota(jnp.int32, shape_of(logits), 1) + first < size
        logits = jnp.where(inside, logits, -jnp.inf)
    old = top[...]
    new = jnp.maximum(old, logits.max(-1))
    total[...] = total[...] * jnp.exp(old - new) + jnp.exp(logits - new[:, None]).sum(-1)
    top[...] = new
    chosen[...] += jnp.where(hit, logits, 0).sum(-1)


def _by_columns(
    block: Callable[[], Any], labels: AnyRef, columns: int, size: int, loss: AnyRef, sums: AnyRef,
    state: Sequence[Any],
) -> None:  # fmt: skip
    """A row by blocks of so many of its columns: each against the running maximum, sum and chosen logit."""
    when(program_id(1) == 0)(lambda: _reset(*state))
    _meet(block(), labels[...], program_id(1) * columns, size, *state)

    @when(program_id(1) == num_programs(1) - 1)
    def _() -> None:
        top, total, chosen = state
        lse = top[...] + jnp.log(total[...])
        loss[...] = lse - chosen[...]
        sums[...] = lse


def _blocks_body(
    logits: AnyRef, labels: AnyRef, loss: AnyRef, sums: AnyRef, *state: Any, size: int
) -> None:
    columns = shape_of(logits)[1]
    _by_columns(lambda: logits[...].astype(sums.dtype), labels, columns, size, loss, sums, state)


def _forward(logits: AnyRef, labels: AnyRef, loss: AnyRef, sums: AnyRef) -> None:
    x = logits[...].astype(sums.dtype)
    _, _, total, chosen = _statistics(x, _hit(x, labels[...]))
    loss[...] = total - chosen
    sums[...] = total


def _backward(logits: AnyRef, labels: AnyRef, sums: AnyRef, ct: AnyRef, out: AnyRef) -> None:
    x = logits[...].astype(sums.dtype)
    share = jnp.exp(x - sums[...][:, None])
    hit = _hit(x, labels[...], program_id(1) * shape_of(x)[1])
    out[...] = ((share - hit) * ct[...][:, None]).astype(out.dtype)


def _run_forward(logits: Array, labels: Array, target: str | None) -> list[Any]:
    (m, n), work = shape_of(logits), work_dtype(logits)
    rows, columns = _tile(m, n, target)
    blocked = columns < n
    body = functools.partial(_blocks_body, size=n) if blocked else _forward
    block, vector = BlockSpec((rows, columns), lambda i, j: (i, j)), vector_spec(rows)
    return kernel_call(
        body, [like(logits, (m,), work)] * 2, grid=(cdiv(m, rows), cdiv(n, columns)), in_specs=[block, vector],
        out_specs=[vector, vector], scratch_shapes=[VMEM((rows,), work)] * 3 if blocked else [], name="cross_entropy",
    )(logits, labels)  # fmt: skip


def _run_backward(logits: Array, labels: Array, sums: Array, ct: Array, dtype: Dtype, target: str | None) -> Any:
    (m, n) = shape_of(logits)
    rows, columns = _tile(m, n, target)
    block, vector = BlockSpec((rows, columns), lambda i, j: (i, j)), vector_spec(rows)
    return kernel_call(
        _backward, like(logits, dtype=dtype), grid=(cdiv(m, rows), cdiv(n, columns)),
        in_specs=[block, vector, vector, vector], out_specs=block, name="cross_entropy_backward",
    )(logits, labels, sums, ct)  # fmt: skip


def _logits_vjp(target: Target) -> Any:
    def backward(ct: Array, logits: Array, labels: Array, loss: Array, sums: Array) -> Any:
        return _run_backward(logits, labels, sums, ct, dtype_of(logits), target), None

    return with_backward(lambda logits, labels: _run_forward(logits, labels, target), backward)


def _flat_labels(labels: Array, leading: tuple[int, ...], what: str) -> Any:
    labels = jnp.asarray(labels)
    if shape_of(labels) != leading:
        raise ShapeError(f"{what}: labels {shape_of(labels)} for rows {leading}", "give one label for each row")
    if not jnp.issubdtype(dtype_of(labels), jnp.integer):
        raise ArgumentError(f"{what}: labels of dtype {dtype_of(labels)}", "labels are numbers of classes, integers")
    return labels.reshape(math.prod(leading)).astype(jnp.int32)


def cross_entropy(logits: ArrayLike, labels: ArrayLike, *, target: str | None = None) -> Any:
    """`logsumexp(logits) - logits[label]` of the last axis: (..., V) and integers (...) give (...) in float32 or wider.

    A label out of range counts as no class: the row's loss is its logsumexp.

    >>> import numpy as np
    >>> print(np.asarray(cross_entropy(np.zeros((1, 4), np.float32), np.array([2]))).round(4))
    [1.3863]
    """
    logits = jnp.asarray(logits)
    leading = shape_of(logits)[:-1]
    flat = _flat_labels(labels, leading, "cross_entropy")
    if 0 in shape_of(logits):
        return cross_entropy_reference(logits, flat.reshape(leading))
    return _logits_vjp(target)(as_rows(logits), flat).reshape(leading)


def cross_entropy_reference(logits: Operand, labels: Operand) -> Any:
    logits = logits.astype(work_dtype(logits))
    hit = labels[..., None] == lax.broadcasted_iota(jnp.int32, shape_of(logits), len(shape_of(logits)) - 1)
    top = lax.stop_gradient(logits.max(-1, keepdims=True, initial=-jnp.inf))
    return (jnp.log(jnp.exp(logits - top).sum(-1)) + top[..., 0]) - jnp.where(hit, logits, 0).sum(-1)


def cross_entropy_cost(logits: ArrayLike, labels: ArrayLike) -> Cost:
    size = math.prod(shape_of(logits))
    rows = size // max(shape_of(logits)[-1], 1)
    return Cost(5 * size, size + rows, nbytes(logits, labels) + rows * work_dtype(logits).itemsize)


# ------------------------------------------------------------------------------------ of a linear layer


def _value_body(
    x: AnyRef, labels: AnyRef, w: AnyRef, loss: AnyRef, sums: AnyRef, *state: Any, size: int
) -> None:
    _by_columns(
        lambda: product(x[...], w[...], 1, 0, sums.dtype), labels, shape_of(w)[1], size, loss, sums, state
    )


def _by_chunks(step: Callable[..., Any], init: PyTree, rows: int, *arrays: Any) -> Any:
    """`lax.scan` over runs of rows; the last is filled up with zeros, the labels with no class."""
    m = shape_of(arrays[0])[0]
    count = cdiv(m, rows)
    if count == 1:
        return step(init, arrays)

    def cut(a: Array) -> Any:
        rest = shape_of(a)[1:]
        empty = -1 if jnp.issubdtype(dtype_of(a), jnp.integer) else 0
        more = jnp.full((count * rows - m, *rest), empty, dtype_of(a))
        return jnp.concatenate([a, more]).reshape(count, rows, *rest)

    last, made = lax.scan(step, init, [cut(a) for a in arrays])
    return last, [a.reshape(count * rows, *shape_of(a)[2:])[:m] for a in made]


def _value(x: Array, w: Array, labels: Array, rows: int, columns: int | None) -> list[Any]:
    """Loss and logsumexp of every row; without `columns`, products of matrices make the logits of some rows."""
    if columns is None:

        def step(carry: PyTree, given: Sequence[Any]) -> Any:
            x, labels = given
            return carry, _run_forward(product(x, w, 1, 0, work_dtype(x, w)), labels, None)

        return _by_chunks(step, (), rows, x, labels)[1]
    (m, d), n = shape_of(x), shape_of(w)[1]
    work, vector = work_dtype(x, w), vector_spec(rows)
    return kernel_call(
        functools.partial(_value_body, size=n), [like(x, (m,), work)] * 2, grid=(cdiv(m, rows), cdiv(n, columns)),
        in_specs=[row_spec(rows, d), vector, BlockSpec((d, columns), lambda i, j: (0, j), fill=0)],
        out_specs=[vector, vector], scratch_shapes=[VMEM((rows,), work)] * 3, name="linear_cross_entropy",
        compiler_params=cpu.CompilerParams(LOGITS_BYTES),
    )(x, labels, w)  # fmt: skip


def _pass_body(
    x: AnyRef, labels: AnyRef, weights: AnyRef, w: AnyRef, start: AnyRef, loss: AnyRef, dx: AnyRef,
    dw: AnyRef,
) -> None:  # fmt: skip
    """Everything of a block of whole rows of logits; `dw` sums over the cells."""
    logits = product(x[...], w[...], 1, 0, loss.dtype)
    hit = _hit(logits, labels[...])
    power, total, lse, chosen = _statistics(logits, hit)
    loss[...] = lse - chosen
    weight = weights[...][:, None]
    delta = (power * (weight / total) - jnp.where(hit, weight, 0)).astype(x.dtype)
    dx[...] = product(delta, w[...], 1, 1, dw.dtype).astype(dx.dtype)
    dw[...] += product(x[...], delta, 0, 0, dw.dtype)


def _one_pass(x: Array, w: Array, labels: Array, weights: Array, rows: int, columns: int | None) -> list[Any]:
    """Loss of every row, and the gradients of the sum of the losses times the weights."""
    if columns is None:

        def step(dw: Array, given: Sequence[Any]) -> Any:
            x, labels, weights = given
            logits = product(x, w, 1, 0, dw.dtype)
            loss, sums = _run_forward(logits, labels, None)
            delta = _run_backward(logits, labels, sums, weights, dtype_of(x), None)
            return dw + product(x, delta, 0, 0, dw.dtype), [loss, product(delta, w, 1, 1, dw.dtype).astype(dtype_of(x))]

        dw, (loss, dx) = _by_chunks(step, jnp.zeros(shape_of(w), work_dtype(x, w)), rows, x, labels, weights)
        return [loss, dx, dw]
    (m, d), n = shape_of(x), shape_of(w)[1]
    work, row, vector = work_dtype(x, w), row_spec(rows, d, fill=0), vector_spec(rows, fill=0)
    whole = BlockSpec((d, n), lambda i: (0, 0))
    return kernel_call(
        _pass_body, [like(x, (m,), work), like(x), like(w, dtype=work)], grid=cdiv(m, rows),
        in_specs=[row, vector, vector, whole, whole], out_specs=[vector, row, whole], input_output_aliases={4: 2},
        name="linear_cross_entropy_pass", compiler_params=cpu.CompilerParams(rows * n * 4),
    )(x, labels, weights, w, jnp.zeros((d, n), work))  # fmt: skip


def _delta(x: AnyRef, labels: AnyRef, weights: AnyRef, sums: AnyRef, w: AnyRef, j: Array) -> Any:
    """The cotangent of a block of logits, from the known logsumexp; 0 past the ends, where the weight is 0 or w is."""
    logits = product(x[...], w[...], 1, 0, sums.dtype)
    hit = _hit(logits, labels[...], j * shape_of(w)[1])
    return ((jnp.exp(logits - sums[...][:, None]) - hit) * weights[...][:, None]).astype(x.dtype)


def _dx_body(
    x: AnyRef, labels: AnyRef, weights: AnyRef, sums: AnyRef, w: AnyRef, dx: AnyRef, total: RefTracer
) -> None:
    j = program_id(1)
    zeros_first(1, total)
    total[...] += product(_delta(x, labels, weights, sums, w, j), w[...], 1, 1, total.dtype)

    @when(j == num_programs(1) - 1)
    def _() -> None:
        dx[...] = total[...].astype(dx.dtype)


def _dw_body(x: AnyRef, labels: AnyRef, weights: AnyRef, sums: AnyRef, w: AnyRef, dw: AnyRef) -> None:
    zeros_first(1, dw)
    dw[...] += product(x[...], _delta(x, labels, weights, sums, w, program_id(0)), 0, 0, dw.dtype)


def _tiled_gradients(
    x: Array, w: Array, labels: Array, weights: Array, sums: Array, rows: int, columns: int
) -> tuple[Any, Any]:
    """The gradients where a row of logits does not fit: each block of logits is made twice."""
    (m, d), n = shape_of(x), shape_of(w)[1]
    work, grid = work_dtype(x, w), (cdiv(m, rows), cdiv(n, columns))

    def specs(turned: bool) -> list[BlockSpec]:
        def at(i: Array, j: Array) -> tuple[Any, Any]:
            return (j, i) if turned else (i, j)

        vector = BlockSpec((rows,), lambda i, j: (at(i, j)[0],), fill=0)
        return [BlockSpec((rows, d), lambda i, j: (at(i, j)[0], 0), fill=0), vector, vector, vector,
                BlockSpec((d, columns), lambda i, j: (0, at(i, j)[1]), fill=0)]  # fmt: skip

    params = cpu.CompilerParams(LOGITS_BYTES)
    args = (x, labels, weights, sums, w)
    dx = kernel_call(
        _dx_body, like(x), grid=grid, in_specs=specs(False), out_specs=row_spec(rows, d),
        scratch_shapes=[VMEM((rows, d), work)], name="linear_cross_entropy_dx", compiler_params=params,
    )(*args)  # fmt: skip
    dw = kernel_call(
        _dw_body, like(w, dtype=work), grid=grid[::-1], in_specs=specs(True),
        out_specs=BlockSpec((d, columns), lambda j, i: (0, j)), name="linear_cross_entropy_dw", compiler_params=params,
    )(*args)  # fmt: skip
    return dx, dw


def _gradients(
    x: Array, w: Array, labels: Array, weights: Array, rows: int, columns: int | None, sums: Any = None
) -> Any:
    """Loss of every row, and the gradients of their sum times the weights; `sums` where the logsumexps are known."""
    if columns is None or columns >= shape_of(w)[1]:
        return _one_pass(x, w, labels, weights, rows, columns)
    loss = None
    if sums is None:
        loss, sums = _value(x, w, labels, rows, columns)
    return loss, *_tiled_gradients(x, w, labels, weights, sums, rows, columns)


def _total_vjp(rows: int, columns: int | None) -> Any:
    """The sum of the losses times weights, its gradients made in the same pass."""

    @custom_vjp
    def call(x: Array, w: Array, labels: Array, weights: Array) -> Any:
        return (_value(x, w, labels, rows, columns)[0] * weights).sum()

    def forward(x: Array, w: Array, labels: Array, weights: Array) -> Any:
        loss, dx, dw = _gradients(x, w, labels, weights, rows, columns)
        return (loss * weights).sum(), (dx, dw.astype(dtype_of(w)), loss)

    def backward(residuals: PyTree, ct: ArrayLike) -> Any:
        dx, dw, loss = residuals
        return (dx * ct).astype(dtype_of(dx)), (dw * ct).astype(dtype_of(dw)), None, loss * ct

    call.defvjp(forward, backward)
    return call


def _rows_vjp(rows: int, columns: int | None) -> Any:
    """The loss of each row; the backward pass makes the logits again."""

    def backward(ct: Any, x: Any, w: Any, labels: Any, loss: Any, sums: Any) -> Any:
        _, dx, dw = _gradients(x, w, labels, ct, rows, columns, sums)
        return dx, dw.astype(dtype_of(w)), None

    return with_backward(lambda x, w, labels: _value(x, w, labels, rows, columns), backward)


def linear_cross_entropy(
    x: ArrayLike, w: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None, reduction: str = "mean",
    rows: int | None = None, columns: int | None = None,
) -> Any:  # fmt: skip
    """`cross_entropy(x @ w, labels)` that never holds the logits: (..., d), (d, V) and integers (...).

    `weights`, one for each row, scale the losses; 'mean' divides by their sum, 'none' gives one loss for each row.
    `rows` and `columns` are the block of logits made at once (by default whole rows, up to 64 MiB, on a GPU 512 MiB, on
    a TPU what fits). Reverse mode only.

    Raises:
      ArgumentError: an unknown reduction. ShapeError: shapes that do not fit.

    >>> import numpy as np
    >>> x, w = np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)
    >>> print(round(float(linear_cross_entropy(x, w, np.array([0, 1]))), 4))
    1.3863
    """
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"linear_cross_entropy: reduction {reduction!r}", f"one of {', '.join(REDUCTIONS)}")
    x, w = jnp.asarray(x), jnp.asarray(w)
    if len(shape_of(w)) != 2 or not shape_of(x) or shape_of(x)[-1] != shape_of(w)[0]:
        raise ShapeError(f"linear_cross_entropy of {shape_of(x)} and {shape_of(w)}", "shapes are (..., d) and (d, V)")
    leading, n = shape_of(x)[:-1], shape_of(w)[1]
    flat = _flat_labels(labels, leading, "linear_cross_entropy")
    size = math.prod(leading)
    if not size or not n or not shape_of(w)[0]:
        return linear_cross_entropy_reference(x, w, jnp.asarray(labels), weights=weights, reduction=reduction)
    target, d = current_target(), shape_of(w)[0]
    if columns is None and target.gpu:
        rows = min(rows or max(GPU_LOGITS_BYTES // (4 * n), 8), size)
    elif target.kind == "tpu":
        columns = min(columns or (n if 16 * d * n <= target.block_bytes else TPU_COLUMNS), n)
        rows = min(rows or row_tile(size, 4 * max(columns, d), target, arrays=6), size)
    else:
        columns = min(columns or n, n)
        rows = min(rows or max(LOGITS_BYTES // (4 * columns), 8), size)
    if reduction == "none":
        loss = _rows_vjp(rows, columns)(as_rows(x), w, flat).reshape(leading)
        return loss if weights is None else loss * weights
    work = work_dtype(x, w)
    scale = jnp.ones((size,), work) if weights is None else jnp.asarray(weights).reshape(size).astype(work)
    if reduction == "mean":
        scale = scale / scale.sum()
    return _total_vjp(rows, columns)(as_rows(x), w, flat, scale)


def linear_cross_entropy_reference(
    x: ArrayLike, w: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None, reduction: str = "mean",
    rows: Any = None, columns: Any = None,
) -> Any:  # fmt: skip
    logits = lax.dot_general(x, w, (((len(shape_of(x)) - 1,), (0,)), ((), ())), preferred_element_type=work_dtype(x, w))
    loss = cross_entropy_reference(logits, labels)
    scale = jnp.ones_like(loss) if weights is None else weights
    if reduction == "none":
        return loss * scale
    total = (loss * scale).sum()
    return total if reduction == "sum" else total / scale.sum()


def linear_cross_entropy_cost(x: ArrayLike, w: ArrayLike, labels: ArrayLike, **options: Any) -> Cost:
    size = math.prod(shape_of(x)[:-1])
    logits = size * shape_of(w)[1]
    return Cost(logits * (2 * shape_of(w)[0] + 5), logits + size, nbytes(x, w, labels) + 4 * size)


OPERATIONS = (
    Operation("cross_entropy", cross_entropy, cross_entropy_reference, cross_entropy_cost),
    Operation("linear_cross_entropy", linear_cross_entropy, linear_cross_entropy_reference, linear_cross_entropy_cost),
)
