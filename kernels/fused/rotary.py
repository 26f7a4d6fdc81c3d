"""Rotary position embedding: pairs of features turned by angles that grow with the position.

`(a, b) -> (a cos - b sin, b cos + a sin)` with a and b the two halves of the last axis and the angle
`position * base^(-2 i / H)` (Su et al., 2021, arXiv:2104.09864). A rotation's transpose is the rotation back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tilewright import lax
from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.primitives.custom.custom_derivatives import linear_call
from ...core.support.errors import ShapeError
from ...core.tracing.trace import shape_of
from ...lang.call.kernel_call import kernel_call
from ...lang.kernel.block_spec import BlockSpec
from ...lang.ops.basic import cdiv
from ...lang.targets.target import Target
from ..cost import Cost
from .base import Operation, like, nbytes, row_tile, work_dtype

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef


def _angles(positions: Array, half: int, base: float, work: Any) -> Any:
    steps = lax.broadcasted_iota(work, (1, half), 1)
    return positions.astype(work)[:, None] * jnp.exp(steps * work.type(-math.log(base) / half))


def _rotated(x: Array, angles: Array, sign: int) -> Any:
    """x (..., heads, H) turned by angles (..., H / 2), whose functions all heads share."""
    a, b = jnp.split(x, 2, -1)
    cos, sin = (f[..., None, :] for f in (jnp.cos(angles), sign * jnp.sin(angles)))
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def _run(positions: Array, x: Array, base: float, sign: int, target: Target) -> Any:
    """x as (batch, T, heads, H), positions (batch or 1, T)."""
    batch, t, heads, h = shape_of(x)
    work = work_dtype(x)
    rows = row_tile(t, heads * h * work.itemsize, target)

    def body(positions: AnyRef, x: AnyRef, out: AnyRef) -> None:
        angles = _angles(positions[...], h // 2, base, work)
        out[...] = _rotated(x[...].astype(work), angles, sign).astype(out.dtype)

    shared = shape_of(positions)[0] == 1
    block = BlockSpec((None, rows, heads, h), lambda b, i: (b, i, 0, 0))
    return kernel_call(
        body, like(x), grid=(batch, cdiv(t, rows)),
        in_specs=[BlockSpec((None, rows), lambda b, i: (0 if shared else b, i)), block], out_specs=block, name="rotary",
    )(positions, x)  # fmt: skip


def _checked(x: Array, positions: Array | None) -> tuple[Any, Any]:
    x = jnp.asarray(x)
    if len(shape_of(x)) != 4 or shape_of(x)[-1] % 2:
        raise ShapeError(f"rotary embedding of {shape_of(x)}", "the shape is (batch, T, heads, H) with H even")
    batch, t = shape_of(x)[:2]
    positions = jnp.arange(t)[None, :] if positions is None else jnp.asarray(positions)
    positions = positions.reshape(1, *shape_of(positions)) if len(shape_of(positions)) == 1 else positions
    if shape_of(positions) not in ((1, t), (batch, t)):
        raise ShapeError(f"rotary embedding: positions {shape_of(positions)} for {shape_of(x)}", "(T,) or (batch, T)")
    return x, positions


def rotary_embedding(
    x: ArrayLike, positions: ArrayLike | None = None, *, base: float = 10000.0, target: str | None = None
) -> Any:
    """x (batch, T, heads, H) with each pair of features i and i + H/2 turned by `position * base**(-2 i / H)`.

    `positions` are (T,) or (batch, T), by default 0 to T - 1; they have no derivative.

    >>> import numpy as np
    >>> print(np.asarray(rotary_embedding(np.ones((1, 1, 1, 2), np.float32))))
    [[[[1. 1.]]]]
    """
    x, positions = _checked(x, positions)
    if 0 in shape_of(x):
        return x
    return linear_call(
        lambda p, x: _run(p, x, base, 1, target), lambda p, ct: _run(p, ct, base, -1, target), positions, x
    )


def reference(x: Operand, positions: Any = None, *, base: float = 10000.0) -> Any:
    x, positions = _checked(x, positions)
    work, half = work_dtype(x), shape_of(x)[-1] // 2
    flat = _angles(positions.reshape(-1), half, base, work).reshape(*shape_of(positions), half)
    return _rotated(x.astype(work), flat, 1).astype(x.dtype)


def cost(x: ArrayLike, *args: Any, **options: Any) -> Cost:
    size = math.prod(shape_of(x))
    angles = shape_of(x)[1] * shape_of(x)[-1] // 2
    return Cost(3 * size + angles, 3 * angles, 2 * nbytes(x))


OPERATIONS = (Operation("rotary_embedding", rotary_embedding, reference, cost),)
