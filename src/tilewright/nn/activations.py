"""Activation functions, elementwise; each derivative at a kink is the one on the flat side."""

from __future__ import annotations

import math
from typing import Any

from .. import lax
from ..core.support.errors import ShapeError, plural
from ..numpy.elementwise import logaddexp, where3
from ..numpy.util import (
    Array,
    ArrayLike,
    astype,
    axis_of,
    default_float,
    default_int,
    dtype_of,
    inline_jit,
    is_bool,
    is_inexact,
    is_unsigned,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)


def _inexact(x: ArrayLike) -> Array:
    return promote_dtypes_inexact(value(x))[0]


def _weakly_inexact(x: ArrayLike) -> Array:
    """The argument as a float; integers become weak ones, as beside a Python float."""
    x = value(x)
    if is_inexact(dtype_of(x)):
        return x
    return lax.convert_element_type(x, default_float(), weak_type=True)


def _beside_number(x: ArrayLike) -> Array:
    """The argument as a float; booleans become weak ones, as beside a Python float, and integers strong ones."""
    return _weakly_inexact(x) if is_bool(dtype_of(x)) else _inexact(x)


def _number(x: ArrayLike, name: str) -> Array:
    """The argument as an array, booleans as weak integers, as beside a Python int."""
    x = value(x, name)
    return astype(x, default_int(), weak=True) if is_bool(dtype_of(x)) else x


@inline_jit()
def relu(x: ArrayLike) -> Array:
    """`max(x, 0)`, with derivative 0 at 0.

    >>> from tilewright import nn, numpy as jnp
    >>> nn.relu(jnp.array([-1., 2.]))
    Array([0., 2.], dtype=float32)
    """
    x = _number(x, "relu")
    return where3(lax.le(x, 0), 0, x)


@inline_jit()
def relu6(x: ArrayLike) -> Array:
    """`min(max(x, 0), 6)`.

    >>> from tilewright import nn, numpy as jnp
    >>> nn.relu6(jnp.array([-1., 7.]))
    Array([0., 6.], dtype=float32)
    """
    x = relu(_weakly_inexact(x))
    return where3(lax.ge(x, 6), 6, x)


def sigmoid(x: ArrayLike) -> Array:
    """`1 / (1 + exp(-x))`.

    >>> from tilewright import nn
    >>> float(nn.sigmoid(0.))
    0.5
    """
    return lax.logistic_p.bind(_inexact(x))


def softplus(x: ArrayLike) -> Array:
    """`log(1 + exp(x))` without overflow.

    >>> from tilewright import nn
    >>> float(nn.softplus(-200.))
    0.0
    """
    return logaddexp(_beside_number(x), 0.0)


@inline_jit()
def sparse_plus(x: ArrayLike) -> Array:
    """0 below -1, `x` above 1, and the parabola `(x + 1)**2 / 4` that joins them smoothly.

    >>> from tilewright import nn
    >>> float(nn.sparse_plus(0.))
    0.25
    """
    x = _weakly_inexact(x)
    return where3(lax.le(x, -1), 0.0, where3(lax.ge(x, 1), x, (x + 1.0) ** 2 / 4))


@inline_jit()
def sparse_sigmoid(x: ArrayLike) -> Array:
    """`clip((x + 1) / 2, 0, 1)`: the derivative of `sparse_plus`.

    >>> from tilewright import nn
    >>> float(nn.sparse_sigmoid(0.))
    0.5
    """
    x = _weakly_inexact(x)
    return lax.min(lax.max(x + 1.0, 0.0), 2.0) * 0.5


@inline_jit()
def soft_sign(x: ArrayLike) -> Array:
    """`x / (1 + |x|)`.

    >>> from tilewright import nn
    >>> float(nn.soft_sign(1.))
    0.5
    """
    x = _beside_number(x)
    return x / (lax.abs(x) + 1)


@inline_jit()
def silu(x: ArrayLike) -> Array:
    """`x * sigmoid(x)`, also called swish.

    >>> from tilewright import nn
    >>> float(nn.silu(0.))
    0.0
    """
    x = _inexact(x)
    return x * lax.logistic(x)


swish = silu


@inline_jit()
def log_sigmoid(x: ArrayLike) -> Array:
    """`log(sigmoid(x))` without overflow.

    >>> from tilewright import nn
    >>> float(nn.log_sigmoid(200.))
    -0.0
    """
    return lax.neg(logaddexp(lax.neg(_inexact(x)), 0.0))


@inline_jit()
def mish(x: ArrayLike) -> Array:
    """`x * tanh(softplus(x))`.

    >>> from tilewright import nn
    >>> float(nn.mish(0.))
    0.0
    """
    x = _beside_number(x)
    return x * lax.tanh(logaddexp(x, 0.0))


def _exp_below(x: Array) -> tuple[Array, Array]:
    """Where x is positive, and x with the positive part made harmless for `exp`."""
    positive = lax.gt(x, 0)
    return positive, where3(positive, 0.0, x)


@inline_jit()
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`x` above 0, `alpha * (exp(x) - 1)` below.

    >>> from tilewright import nn
    >>> float(nn.elu(2.))
    2.0
    """
    x = _weakly_inexact(x)
    positive, safe = _exp_below(x)
    return where3(positive, x, value(alpha) * lax.expm1(safe))


@inline_jit()
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`x` above 0, `alpha * (exp(x / alpha) - 1)` below: continuously differentiable.

    >>> from tilewright import nn
    >>> float(nn.celu(2.))
    2.0
    """
    x = _weakly_inexact(x)
    positive, safe = _exp_below(x)
    alpha = value(alpha)
    return where3(positive, x, alpha * _expm1(safe / alpha))


def _expm1(x: Any) -> Array:
    return lax.expm1(value(x))


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@inline_jit()
def selu(x: ArrayLike) -> Array:
    """`elu` scaled so that activations keep mean 0 and variance 1 (Klambauer et al., 2017).

    >>> from tilewright import nn
    >>> float(nn.selu(0.))
    0.0
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


@inline_jit("approximate")
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """`x * Phi(x)` with the normal distribution's Phi, or with a tanh in its place if `approximate`.

    Source: Hendrycks and Gimpel, 2016.

    >>> from tilewright import nn
    >>> float(nn.gelu(0.))
    0.0
    """
    x = strong(_inexact(x))
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * lax.integer_pow(x, 3))
        return x * (0.5 * (1.0 + lax.tanh(inner)))
    return 0.5 * x * lax.erfc(x * -math.sqrt(0.5))


@inline_jit("axis")
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Half of an axis gated by the sigmoid of the other half.

    >>> from tilewright import nn, numpy as jnp
    >>> nn.glu(jnp.array([2., 0.]))
    Array([1.], dtype=float32)
    """

    x = _inexact(x)
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    if n % 2:
        raise ShapeError(f"glu over an axis of {plural(n, 'element')}", "the axis has an even number of elements")
    first, second = lax.slice_in_dim(x, 0, n // 2, axis=axis), lax.slice_in_dim(x, n // 2, n, axis=axis)
    return first * lax.logistic(second)


@inline_jit()
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """`x` above 0, `negative_slope * x` below.

    >>> from tilewright import nn, numpy as jnp
    >>> nn.leaky_relu(jnp.array([-1., 2.]), 0.5)
    Array([-0.5,  2. ], dtype=float32)
    """
    x = _number(x, "leaky_relu")
    return where3(lax.ge(x, 0), x, value(negative_slope) * x)


@inline_jit()
def hard_tanh(x: ArrayLike) -> Array:
    """`clip(x, -1, 1)`.

    >>> from tilewright import nn, numpy as jnp
    >>> nn.hard_tanh(jnp.array([-3., 0.5]))
    Array([-1. ,  0.5], dtype=float32)
    """
    x = _number(x, "hard_tanh")
    if is_unsigned(dtype_of(x)):
        return where3(lax.gt(x, 1), 1, x)
    return where3(lax.gt(x, 1), 1, where3(lax.lt(x, -1), -1, x))


@inline_jit()
def hard_sigmoid(x: ArrayLike) -> Array:
    """`relu6(x + 3) / 6`.

    >>> from tilewright import nn
    >>> float(nn.hard_sigmoid(0.))
    0.5
    """
    return relu6(_weakly_inexact(x) + 3.0) / 6.0


@inline_jit()
def hard_silu(x: ArrayLike) -> Array:
    """`x * hard_sigmoid(x)`, also called hard swish.

    >>> from tilewright import nn
    >>> float(nn.hard_silu(3.))
    3.0
    """
    x = _weakly_inexact(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@inline_jit()
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """`(x + sqrt(x**2 + b)) / 2`.

    >>> from tilewright import nn
    >>> float(nn.squareplus(0.))
    1.0
    """
    x = _inexact(x)
    b = astype(b, dtype_of(x))
    return 0.5 * (x + lax.sqrt(x * x + b))


@inline_jit()
def log1mexp(x: ArrayLike) -> Array:
    """`log(1 - exp(-x))` for positive `x`, exact at both ends.

    Source: Maechler, 2012 ("Accurately computing log(1 - exp(-|a|))").

    >>> from tilewright import nn
    >>> float(nn.log1mexp(200.))
    -0.0
    """
    x = _inexact(x)
    small = lax.lt(x, math.log(2))
    near, far = where3(small, x, 1.0), where3(small, 1.0, x)
    rest = 0.0 - lax.expm1(-near)  # of -0 too it is 0, and not -0
    return where3(small, lax.log(rest), lax.log1p(-lax.exp(-far)))


def identity(x: ArrayLike) -> Array:
    """The argument itself, as an array.

    >>> from tilewright import nn
    >>> float(nn.identity(2.))
    2.0
    """
    return value(x)
