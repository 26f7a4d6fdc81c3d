"""Initial values of parameters: functions of a key, a shape and a dtype.

`in_axis`, `out_axis` and `batch_axis` say which axes of a weight array are inputs, outputs and neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .. import lax, random
from ..core.ir.binding import with_out_sharding
from ..core.ir.types import is_complex
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError
from ..numpy.create import full
from ..numpy.create import ones as _ones
from ..numpy.create import zeros as _zeros
from ..numpy.shape import moveaxis
from ..numpy.util import Array, ArrayLike, DTypeLike, Value, astype, axes_of, default_float, dtype_argument

Axis = int | Sequence[int]


class Initializer(Protocol):
    """A function that makes an array from a random key, a shape and a dtype."""

    def __call__(self, key: Any, shape: Any, dtype: DTypeLike = None, out_sharding: Any = None) -> Array: ...


def _initializer(dtype: DTypeLike, draw: Callable[[Any, Any, Any], Array]) -> Initializer:
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike = None, out_sharding: Any = None) -> Array:
        if out_sharding is not None:
            return with_out_sharding(out_sharding, init, key, shape, dtype)
        chosen = dtype_argument(default if dtype is None else dtype) or default_float()
        return draw(key, tuple(shape), chosen)

    return init


@public
def zeros(key: ArrayLike, shape: Any, dtype: DTypeLike = None, out_sharding: Any = None) -> Array:
    """All zeros; the key is not used.

    >>> from tilewright import nn
    >>> nn.initializers.zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return _zeros(shape, dtype, out_sharding=out_sharding)


@public
def ones(key: ArrayLike, shape: Any, dtype: DTypeLike = None, out_sharding: Any = None) -> Array:
    """All ones; the key is not used.

    >>> from tilewright import nn
    >>> nn.initializers.ones(None, (2,))
    Array([1., 1.], dtype=float32)
    """
    return _ones(shape, dtype, out_sharding=out_sharding)


def constant(value: ArrayLike, dtype: DTypeLike = None) -> Initializer:
    """All one value.

    >>> from tilewright import nn
    >>> nn.initializers.constant(2.)(None, (2,))
    Array([2., 2.], dtype=float32)
    """
    return _initializer(dtype, lambda key, shape, dtype: full(shape, value, dtype))


def uniform(scale: Any = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """Uniform from 0 to `scale`.

    >>> from tilewright import nn, random
    >>> nn.initializers.uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return _initializer(
        dtype, lambda key, shape, dtype: random.uniform(key, shape, dtype) * _number(scale, dtype)
    )


def normal(stddev: Any = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """Normal with mean 0.

    >>> from tilewright import nn, random
    >>> nn.initializers.normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return _initializer(
        dtype, lambda key, shape, dtype: random.normal(key, shape, dtype) * _number(stddev, dtype)
    )


def truncated_normal(stddev: Any = 1e-2, dtype: DTypeLike = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """Normal with mean 0, cut off at `lower` and `upper` deviations.

    >>> from tilewright import nn, random
    >>> nn.initializers.truncated_normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def draw(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Array:
        return random.truncated_normal(key, lower, upper, shape, dtype) * _number(stddev, dtype)

    return _initializer(dtype, draw)


def _number(x: Any, dtype: DTypeLike) -> Any:
    """A factor in a dtype; one that is traced stays so."""
    return astype(x, dtype) if isinstance(x, Value) else np.asarray(x, dtype)[()]


def _root(x: Any) -> Any:
    return lax.sqrt(x) if isinstance(x, Value) else math.sqrt(x)


def _fans(shape: Sequence[int], in_axis: Axis, out_axis: Axis, batch_axis: Axis) -> tuple[float, float]:
    """How many inputs and outputs one unit has; axes named by neither are a receptive field."""
    rank = len(shape)
    if rank <= 1 and in_axis == -2:
        raise ArgumentError(f"variance scaling of a parameter of shape {tuple(shape)}, with the default in_axis",
                            "it needs at least two dimensions; say which are inputs by in_axis")  # fmt: skip
    ins, outs, batch = (axes_of(axis, rank) for axis in (in_axis, out_axis, batch_axis))
    sizes = [math.prod(shape[d] for d in axes) for axes in (ins, outs, batch)]
    field = math.prod(shape) / math.prod(sizes) if math.prod(sizes) else 0
    return sizes[0] * field, sizes[1] * field


_DENOMINATORS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: math.sqrt(fan_in * fan_out),
}
# The standard deviation of a normal distribution cut off at two deviations.
_TRUNCATED_STD = 0.87962566103423978


def _complex_uniform(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Array:
    """Uniform in the unit disk."""
    real = np.real(np.zeros((), dtype)).dtype
    radius_key, angle_key = random.split(key)
    radius = lax.sqrt(random.uniform(radius_key, shape, real))
    angle = random.uniform(angle_key, shape, real) * (2 * math.pi)
    return lax.complex(radius * lax.cos(angle), radius * lax.sin(angle))


def _complex_truncated_normal(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Array:
    """Complex normal of variance 1, its modulus cut off at 2."""
    real = np.real(np.zeros((), dtype)).dtype
    radius_key, angle_key = random.split(key)
    t = (1 - math.exp(-4)) * random.uniform(radius_key, shape, real)
    radius = lax.sqrt(-lax.log(1 - t))
    angle = random.uniform(angle_key, shape, real) * (2 * math.pi)
    return lax.complex(radius * lax.cos(angle), radius * lax.sin(angle))


@public
def variance_scaling(
    scale: Any, mode: str, distribution: str, in_axis: Axis = -2, out_axis: Axis = -1, batch_axis: Axis = (),
    dtype: DTypeLike = None,
) -> Initializer:  # fmt: skip
    """Values of variance `scale / n`, where n is the number of inputs, of outputs, or a mean of both.

    `mode` is 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg'; `distribution` is 'truncated_normal', 'normal'
    or 'uniform'.

    >>> from tilewright import nn, random
    >>> nn.initializers.variance_scaling(1., 'fan_in', 'normal')(random.key(0), (2, 3)).shape
    (2, 3)
    """
    if mode not in _DENOMINATORS:
        raise ArgumentError(f"there is no mode {mode!r} of variance_scaling", f"one of {', '.join(_DENOMINATORS)}")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ArgumentError(f"there is no distribution {distribution!r}", "one of truncated_normal, normal, uniform")

    def draw(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Array:
        variance = scale / max(_DENOMINATORS[mode](*_fans(shape, in_axis, out_axis, batch_axis)), 1e-30)
        if distribution == "normal":
            return random.normal(key, shape, dtype) * _number(_root(variance), dtype)
        if distribution == "uniform":
            if is_complex(dtype):
                return _complex_uniform(key, shape, dtype) * _number(_root(2 * variance), dtype)
            return random.uniform(key, shape, dtype, -1) * _number(_root(3 * variance), dtype)
        if is_complex(dtype):
            # The deviation of a complex normal cut off at modulus 2.
            return _complex_truncated_normal(key, shape, dtype) * _number(_root(variance) / 0.95311164380491208, dtype)
        return random.truncated_normal(key, -2, 2, shape, dtype) * _number(_root(variance) / _TRUNCATED_STD, dtype)

    return _initializer(dtype, draw)


_FAMILIES = {
    "glorot": ("fan_avg", 1.0, "Glorot and Bengio, 2010"),
    "lecun": ("fan_in", 1.0, "LeCun et al., 1998"),
    "he": ("fan_in", 2.0, "He et al., 2015"),
}


def _family(family: str, distribution: str) -> Callable[..., Initializer]:
    mode, scale, source = _FAMILIES[family]
    name = f"{family}_{distribution}"

    def make(in_axis: Axis = -2, out_axis: Axis = -1, batch_axis: Axis = (), dtype: DTypeLike = None) -> Initializer:
        kind = "truncated_normal" if distribution == "normal" else "uniform"
        return variance_scaling(scale, mode, kind, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""Variance scaling with scale {scale:g} and mode '{mode}', {distribution} ({source}).

    >>> from tilewright import nn, random
    >>> nn.initializers.{name}()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return make


glorot_uniform: Callable[..., Initializer]
glorot_normal: Callable[..., Initializer]
glorot_uniform, glorot_normal = _family("glorot", "uniform"), _family("glorot", "normal")
lecun_uniform: Callable[..., Initializer]
lecun_normal: Callable[..., Initializer]
lecun_uniform, lecun_normal = _family("lecun", "uniform"), _family("lecun", "normal")
he_uniform: Callable[..., Initializer]
he_normal: Callable[..., Initializer]
he_uniform, he_normal = _family("he", "uniform"), _family("he", "normal")
xavier_uniform: Callable[..., Initializer]
xavier_normal: Callable[..., Initializer]
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform: Callable[..., Initializer]
kaiming_normal: Callable[..., Initializer]
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: DTypeLike = None) -> Initializer:
    """Matrices with orthonormal rows or columns, uniform over all of them, scaled.

    >>> from tilewright import nn, random
    >>> nn.initializers.orthogonal()(random.key(0), (2, 2)).shape
    (2, 2)
    """

    def draw(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Array:
        if len(shape) < 2:
            raise ArgumentError(f"an orthogonal array of shape {shape}", "it needs at least two dimensions")
        if 0 in shape:
            return _zeros(shape, dtype)
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        size = (rows, columns) if rows > columns else (columns, rows)
        q = random.orthogonal(key, size[0], (), dtype, size[1])
        q = q if rows >= columns else lax.transpose(q, (1, 0))
        rest = [n for d, n in enumerate(shape) if d != column_axis % len(shape)]
        return _number(scale, dtype) * moveaxis(lax.reshape(q, (*rest, columns)), -1, column_axis)

    return _initializer(dtype, draw)


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: DTypeLike = None) -> Initializer:
    """Convolution kernels that are an orthogonal matrix at the centre and zero elsewhere (Xiao et al., 2018).

    The centre of an even number of elements is the first of the two in the middle.

    >>> from tilewright import nn, random
    >>> nn.initializers.delta_orthogonal()(random.key(0), (3, 2, 2)).shape
    (3, 2, 2)
    """

    def draw(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Array:
        if len(shape) not in (3, 4, 5):
            raise ArgumentError(f"a delta orthogonal kernel of shape {shape}", "it has 1 to 3 spatial dimensions")
        if shape[-1] < shape[-2]:
            raise ArgumentError(
                f"a delta orthogonal kernel of shape {shape}", "it needs at least as many outputs as inputs"
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        centre = tuple((n - 1) // 2 for n in shape[:-2])
        return _zeros(shape, dtype).at[centre].set(matrix)

    return _initializer(dtype, draw)


__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
    "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
