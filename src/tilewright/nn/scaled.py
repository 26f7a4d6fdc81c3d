"""Products in formats of a byte or less, with a scale for each block of the contracted axis.

Formats: `mxfp8`, elements e4m3 and a power of two for each 32 (OCP Microscaling Formats specification, 2023), and
`nvfp4`, elements e2m1, an e4m3 for each 16, and one float32 for the whole. A block's scale is the least for which no
element is past the format's range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .. import lax
from ..core.primitives.contraction.dot_general import canonical_dimension_numbers, free_axes
from ..core.primitives.contraction.scaled_dot import exact_dtype, unscaled
from ..core.primitives.custom.custom_derivatives import custom_vjp
from ..core.support.errors import ArgumentError, ShapeError
from ..numpy import abs as absolute
from ..numpy import astype, ceil, clip, exp2, expand_dims, log2, ones, pad, reshape, transpose, where
from ..numpy import max as largest
from ..numpy.util import Array, ArrayLike, DTypeLike, dtype_argument, dtype_of, shape_of, value


@dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """How an operand is quantised: its elements' dtype, that of the scales, how many elements share one."""

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None
    infer_only: bool = False


_FORMATS = {
    "mxfp8": (32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu),
    "nvfp4": (16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn),
}


def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """How `scaled_dot_general` quantises an operand: "mxfp8", or "nvfp4" with a float32 scale for the whole operand.

    >>> get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode not in _FORMATS:
        raise ArgumentError(f"there is no format {mode!r}", f"one of {sorted(_FORMATS)}")
    if mode == "mxfp8" and global_scale is not None:
        raise ArgumentError("mxfp8 has no scale for the full operand", "leave global_scale None")
    if mode == "nvfp4" and global_scale is None:
        global_scale = ones((1,), np.float32)
    return BlockScaleConfig(mode, *_FORMATS[mode], global_scale)


def scaled_matmul(
    lhs: ArrayLike, rhs: ArrayLike, lhs_scales: ArrayLike, rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:  # fmt: skip
    """(B, M, K) times (B, N, K), each times its scales (B, M, K / block) and (B, N, K / block): (B, M, N).

    Sums are kept in float32. Raises `ShapeError` where the scales do not fit.

    >>> from tilewright import numpy as tnp
    >>> a, b = tnp.array([1.0, 2, 3]).reshape(1, 1, 3), tnp.array([4.0, 5, 6]).reshape(1, 1, 3)
    >>> scaled_matmul(a, b, tnp.full((1, 1, 1), 0.5), tnp.full((1, 1, 1), 0.5)).tolist()
    [[[8.0]]]
    """
    x, y = value(lhs, "scaled_matmul"), value(rhs, "scaled_matmul")
    if len(shape_of(x)) != 3 or len(shape_of(y)) != 3:
        raise ShapeError(f"scaled_matmul of shapes {shape_of(x)} and {shape_of(y)}", "(B, M, K) and (B, N, K)")
    given = (x, value(lhs_scales)), (y, value(rhs_scales))
    x, y = (unscaled(*operand, exact_dtype(*given)) for operand in given)
    product = lax.dot_general(x, y, (((2,), (2,)), ((0,), (0,))), preferred_element_type=np.float32)
    return astype(product, dtype_argument(preferred_element_type))


def _quantised(x: Any, config: BlockScaleConfig) -> tuple[Any, Any]:
    """An operand (B, rows, K) in the format, and its scales (B, rows, blocks); K is filled up to whole blocks."""
    block, most = config.block_size, float(ml_dtypes.finfo(config.data_type).max)
    x = astype(pad(x, [(0, 0), (0, 0), (0, -shape_of(x)[2] % block)]), np.float32)
    blocks = reshape(x, (*shape_of(x)[:2], -1, block))
    scale = largest(absolute(blocks), -1) / most
    if config.mode == "mxfp8":
        scale = where(scale > 0, exp2(clip(ceil(log2(where(scale > 0, scale, 1.0))), -127, 127)), 2.0**-127)
        used = scale
    else:
        room = float(ml_dtypes.finfo(config.scale_type).max)
        scale = astype(clip(scale / config.global_scale, 0.0, room), config.scale_type)
        used = astype(scale, np.float32) * config.global_scale
    scaled = blocks / expand_dims(where(used == 0, 1.0, used), -1)
    elements = astype(clip(scaled, -most, most), config.data_type)
    return reshape(elements, shape_of(x)), astype(scale, config.scale_type)


def _product(x: Any, y: Any, configs: Sequence[BlockScaleConfig], dtype: DTypeLike) -> Any:
    """(B, M, K) times (B, N, K), both quantised along K."""
    (a, a_scale), (b, b_scale) = (_quantised(v, config) for v, config in zip((x, y), configs, strict=True))
    out = scaled_matmul(a, b, a_scale, b_scale, np.float32)
    for config in configs:
        out = out if config.global_scale is None else out * config.global_scale
    return astype(out, dtype)


def scaled_dot_general(
    lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: Any, preferred_element_type: DTypeLike = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None, implementation: str | None = None,
) -> Array:  # fmt: skip
    """`lax.dot_general` of operands that are quantised on the way, and so are those of its derivative.

    `configs` says how, for the left operand, the right one and the cotangent (see `get_scaled_dot_general_config`);
    with None nothing is quantised. `implementation` is not used. Quantising counts as the identity for derivatives.

    >>> from tilewright import numpy as tnp
    >>> configs = [get_scaled_dot_general_config("mxfp8")] * 3
    >>> scaled_dot_general(tnp.ones((2, 64)), tnp.ones((64, 1)), (((1,), (0,)), ((), ())), configs=configs).tolist()
    [[64.0], [64.0]]
    """
    x, y = value(lhs, "scaled_dot_general"), value(rhs, "scaled_dot_general")
    out = dtype_argument(preferred_element_type)
    if configs is None:
        return lax.dot_general(x, y, dimension_numbers, preferred_element_type=out)
    if len(configs) != 3:
        raise ArgumentError(f"scaled_dot_general got {len(configs)} configs", "one for each operand and the cotangent")
    (lc, rc), (lb, rb) = canonical_dimension_numbers(dimension_numbers, len(shape_of(x)), len(shape_of(y)))
    lf, rf = free_axes(len(shape_of(x)), lc, lb), free_axes(len(shape_of(y)), rc, rb)
    sizes = [[shape_of(x)[a] for a in axes] for axes in (lb, lf)] + [[shape_of(y)[a] for a in rf]]

    def flat(v: Any, *parts: Sequence[int]) -> Any:
        shape = [math.prod(shape_of(v)[a] for a in part) for part in parts]
        return reshape(transpose(v, [a for part in parts for a in part]), shape)

    found = _with_derivative(tuple(configs), out)(flat(x, lb, lf, lc), flat(y, rb, rf, rc))
    return reshape(found, [n for part in sizes for n in part])


def _with_derivative(configs: Sequence[BlockScaleConfig], out: Any) -> Any:
    """The product of (B, M, K) and (B, N, K) whose derivative is made of such products."""
    left, right, back = configs

    @custom_vjp
    def product(x: Any, y: Any) -> Any:
        return _product(x, y, (left, right), out)

    def turned(v: Any) -> Any:
        return transpose(v, (0, 2, 1))

    def backward(residuals: Any, ct: Any) -> Any:
        x, y = residuals
        to_x = _product(ct, turned(y), (back, right), dtype_of(x))
        return to_x, _product(turned(ct), turned(x), (back, left), dtype_of(y))

    product.defvjp(lambda x, y: (product(x, y), (x, y)), backward)
    return product


__all__ = ["BlockScaleConfig", "get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"]
