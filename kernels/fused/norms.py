"""RMS, layer and group norm, with an optional residual that is added first.

RMS norm: `x / sqrt(mean(x^2) + eps) * scale` (Zhang and Sennrich, 2019, arXiv:1910.07467). Layer norm:
`(x - mean) / sqrt(var + eps) * scale + shift` (Ba et al., 2016, arXiv:1607.06450). Group norm: the same over groups
of channels and all positions (Wu and He, 2018, arXiv:1803.08494). One kernel each: a row is read once, the sum with
the residual is a second result. The derivatives are those of the kernels: cotangents of `scale` and `shift`, which
all cells share, are sums over cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import lax
from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.support.errors import ShapeError
from ...core.tracing.trace import shape_of
from ...lang.kernel.block_spec import BlockSpec
from ...lang.ops.basic import cdiv
from ...lang.targets.target import Target, current_target
from ..cost import Cost
from .base import Operation, by_blocks, like, nbytes, row_fits, row_spec, row_tile, work_dtype


def _rms(x: Array, epsilon: float, axes: int = -1) -> Any:
    return x * lax.rsqrt((x * x).mean(axes, keepdims=True) + epsilon)


def _centred(x: Array, epsilon: float, axes: int | Sequence[int] = -1) -> Any:
    return _rms(x - x.mean(axes, keepdims=True), epsilon, axes)


def _checked(x: Array, vectors: tuple[Any, ...], residual: Array | None, what: str) -> int:
    """The length of rows; an error where an operand does not fit."""
    shape = shape_of(x)
    if not shape:
        raise ShapeError(f"{what} of a scalar", "give an array of rank 1 or more")
    for v in vectors:
        if v is not None and shape_of(v) != shape[-1:]:
            raise ShapeError(f"{what}: a vector {shape_of(v)} for rows of {shape[-1]}", "scale and shift are (n,)")
    if residual is not None and shape_of(residual) != shape:
        raise ShapeError(f"{what}: a residual {shape_of(residual)} for {shape}", "a residual has the operand's shape")
    return shape[-1]


def _normed(
    formula: Callable[..., Any], name: str, arrays: tuple[Any, ...], vectors: tuple[Any, ...], shapes: tuple[Any, Any],
    specs: tuple[BlockSpec, BlockSpec], grid: int,
) -> Any:  # fmt: skip
    """A norm of blocks of the arrays (x and maybe a residual), which with the vectors are seen in some shapes."""
    x, residual = arrays
    given = [(a if a is None else jnp.asarray(a).reshape(shape), spec)
             for group, shape, spec in zip((arrays, vectors), shapes, specs, strict=True) for a in group]  # fmt: skip

    def both(x: Array, residual: Any, scale: Array | None, shift: Array | None) -> list[Any]:
        total = x if residual is None else x + residual
        y = _affine(formula(total), scale, shift)
        return [y] if residual is None else [y, total]

    results = 1 if residual is None else 2
    outs = [like(x, shapes[0])] * results
    made = by_blocks(both, given, outs, [specs[0]] * results, grid, work_dtype(x), name)
    made = [y.reshape(shape_of(x)) for y in made]
    return made[0] if residual is None else tuple(made)


def _row_norm(
    formula: Callable[..., Any], name: str, x: Array, scale: Operand | None, shift: Operand | None, residual: Any,
    epsilon: float, target: Target,
) -> Any:  # fmt: skip
    n = _checked(x, (scale, shift), residual, name)
    m = math.prod(shape_of(x)[:-1])
    width = n * work_dtype(x).itemsize
    if not m or not n:
        return x if residual is None else (x, x + residual)
    if not row_fits(width, target):
        return _formula_call(formula, x, scale, shift, residual, epsilon)
    rows = row_tile(m, width, target)
    return _normed(lambda x: formula(x, epsilon), name, (x, residual), (scale, shift), ((m, n), (n,)),
                   (row_spec(rows, n), BlockSpec((n,), lambda i: (0,))), cdiv(m, rows))  # fmt: skip


def rms_norm(
    x: ArrayLike, scale: ArrayLike | None = None, *, residual: ArrayLike | None = None, epsilon: float = 1e-6,
    target: str | None = None,
) -> Any:  # fmt: skip
    """`x / sqrt(mean(x**2) + epsilon) * scale` of the last axis; with a residual, of `x + residual`, and that sum.

    >>> import numpy as np
    >>> print(np.asarray(rms_norm(np.array([[3., -3.]], np.float32))).round(3))
    [[ 1. -1.]]
    """
    x = jnp.asarray(x)
    return _row_norm(_rms, "rms_norm", x, scale, None, residual, epsilon, target)


def layer_norm(
    x: ArrayLike, scale: ArrayLike | None = None, shift: ArrayLike | None = None, *, residual: Any = None,
    epsilon: float = 1e-5, target: str | None = None,
) -> Any:  # fmt: skip
    """`(x - mean) / sqrt(var + epsilon) * scale + shift` over the last axis; with a residual as `rms_norm`.

    >>> import numpy as np
    >>> print(np.asarray(layer_norm(np.array([[1., 3.]], np.float32))).round(3))
    [[-1.  1.]]
    """
    x = jnp.asarray(x)
    return _row_norm(_centred, "layer_norm", x, scale, shift, residual, epsilon, target)


def group_norm(
    x: ArrayLike, scale: ArrayLike | None = None, shift: ArrayLike | None = None, *, groups: int, residual: Any = None,
    epsilon: float = 1e-5,
) -> Any:  # fmt: skip
    """Layer norm over all positions and the channels of each group: x is (batch, ..., C), scale and shift (C,).

    Raises:
      ShapeError: C is not a multiple of `groups`, or operands do not fit.

    >>> import numpy as np
    >>> print(np.asarray(group_norm(np.array([[[1., 5.], [3., 7.]]], np.float32), groups=2)).round(3))
    [[[-1. -1.]
      [ 1.  1.]]]
    """
    x = jnp.asarray(x)
    c = _checked(x, (scale, shift), residual, "group_norm")
    shape = shape_of(x)
    if groups < 1 or c % groups or len(shape) < 2:
        raise ShapeError(f"group_norm of {shape} in {groups} groups", "shapes are (batch, ..., C), groups divide C")
    if 0 in shape:
        return x if residual is None else (x, x + residual)
    batch, positions, work = shape[0], math.prod(shape[1:-1]), work_dtype(x)
    # The CPU makes a kernel of whole arrays: blocks of a group's channels would have short rows.
    if current_target().whole_arrays or not row_fits(positions * c // groups * work.itemsize):
        return group_norm_reference(x, scale, shift, groups=groups, residual=residual, epsilon=epsilon)
    split = (batch, positions, groups, c // groups)
    block = BlockSpec((None, positions, None, c // groups), lambda b, g: (b, 0, g, 0))
    shared = BlockSpec((None, c // groups), lambda b, g: (g, 0))
    return _normed(lambda x: _centred(x, epsilon, (0, 1)), "group_norm", (x, residual), (scale, shift),
                   (split, (groups, c // groups)), (block, shared), (batch, groups))  # fmt: skip


def _affine(y: Array, scale: Array | None, shift: Array | None) -> Any:
    y = y if scale is None else y * scale.astype(y.dtype)
    return y if shift is None else y + shift.astype(y.dtype)


def _formula_call(
    formula: Callable[..., Any], x: Array, scale: Array | None, shift: Array | None, residual: Any, epsilon: float
) -> Any:
    total = x.astype(work_dtype(x)) if residual is None else x.astype(work_dtype(x)) + residual.astype(work_dtype(x))
    y = _affine(formula(total, epsilon), scale, shift).astype(x.dtype)
    return y if residual is None else (y, total.astype(x.dtype))


def _reference(formula: Callable[..., Any], default: float) -> Any:
    def reference(
        x: Array, scale: Array | None = None, shift: Array | None = None, *, residual: Any = None,
        epsilon: float = default,
    ) -> Any:  # fmt: skip
        return _formula_call(formula, x, scale, shift, residual, epsilon)

    return reference


def group_norm_reference(
    x: ArrayLike, scale: ArrayLike | None = None, shift: ArrayLike | None = None, *, groups: int, residual: Any = None,
    epsilon: float = 1e-5,
) -> Any:  # fmt: skip
    shape = shape_of(x)
    split = shape[0], math.prod(shape[1:-1]), groups, shape[-1] // groups

    def formula(total: Array, epsilon: float) -> Any:
        return _centred(total.reshape(split), epsilon, (1, 3)).reshape(shape)

    return _formula_call(formula, x, scale, shift, residual, epsilon)


def _cost(x: Array, *vectors: Any, residual: Array | None = None, **options: Any) -> Cost:
    size = math.prod(shape_of(x))
    moved = (2 if residual is None else 4) * nbytes(x) + nbytes(*vectors)
    return Cost((6 + len(vectors)) * size, size // max(shape_of(x)[-1], 1), moved)


OPERATIONS = (
    Operation("rms_norm", rms_norm, _reference(_rms, 1e-6), _cost),
    Operation("layer_norm", layer_norm, _reference(_centred, 1e-5), _cost),
    Operation("group_norm", group_norm, group_norm_reference, _cost),
)
