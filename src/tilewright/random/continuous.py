"""Samplers of continuous distributions, made of uniform, normal and gamma ones."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..core.api.transformations import vmap
from ..core.ir.array import Array, ArrayLike, DTypeLike
from ..core.ir.binding import with_out_sharding
from ..core.ir.types import canonical_dtype
from ..core.jit.jit import jit
from ..core.primitives.contraction.dot_general import matmul
from ..core.primitives.control_flow.functions import while_loop
from ..core.primitives.custom.custom_derivatives import custom_jvp
from ..core.primitives.elementwise import arithmetic, comparison
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.linalg.cholesky import cholesky
from ..core.primitives.linalg.eigh import eigh
from ..core.primitives.linalg.matrices import diagonal, rows_of
from ..core.primitives.linalg.qr import qr
from ..core.primitives.linalg.svd import svd
from ..core.primitives.movement import shape as shapes
from ..core.primitives.reduction.reduce import reduce_max_p, reduce_sum_p
from ..core.primitives.special import functions
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, ShapeError
from ..core.tracing.trace import dtype_of, shape_of
from .approximate import draw_gamma_near
from .basic import _rademacher, constant, draw_normal, draw_uniform
from .generators import generator
from .key import METHODS, Shape, chosen, finfo, float_dtype, one_key, sample_shape, split2, working_dtype

if TYPE_CHECKING:
    from ..core.primitives.elementwise.arithmetic import UnaryWithAccuracy
    from ..core.primitives.elementwise.builders import Unary


exp: UnaryWithAccuracy
log: UnaryWithAccuracy
log1p: UnaryWithAccuracy
sqrt: UnaryWithAccuracy
neg: Unary
power: Callable[..., Array]
exp, log, log1p, sqrt, neg, power = (
    arithmetic.exp, arithmetic.log, arithmetic.log1p, arithmetic.sqrt, arithmetic.neg, arithmetic.pow,
)  # fmt: skip


def _to(dtype: DTypeLike, shape: Any, *parameters: Any) -> list[Any]:
    """Parameters in the dtype and shape of the sample."""
    return [shapes.broadcast_to(convert_element_type(p, dtype), shape) for p in parameters]


class Sampler(Protocol):
    """Values of a distribution without parameters."""

    __name__: str

    def __call__(
        self, key: ArrayLike, shape: Shape = (), dtype: DTypeLike = None, *, out_sharding: Any = None
    ) -> Array: ...


def _plain(name: str, doc: str, draw: Callable[..., Any]) -> Sampler:
    """A sampler without parameters from `draw(key, shape, dtype)`."""
    compiled = jit(draw, static_argnums=(1, 2))

    def sampler(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = None, *, out_sharding: None = None) -> Any:
        if out_sharding is not None:
            return with_out_sharding(out_sharding, sampler, key, shape, dtype)
        key = one_key(name, key)
        return compiled(key, sample_shape(name, shape), float_dtype(name, dtype))

    sampler.__name__ = sampler.__qualname__ = name
    sampler.__doc__ = f"""{doc}

    Raises `DtypeError` for a dtype that is not a float.

    >>> import tilewright as tw
    >>> tw.random.{name}(tw.random.key(0), (2,)).shape
    (2,)
    """
    return sampler


# ---------------------------------------------------------------------------- by inversion


def _draw_open(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Any:
    """Uniform values above 0 and below 1, of half precision in float32: logarithms are finite and reach their tails."""
    dtype = working_dtype(dtype)
    return draw_uniform(key, finfo(dtype).tiny, 1.0, shape, dtype)


def draw_exponential(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Any:
    u = draw_uniform(key, 0.0, 1.0, shape, working_dtype(dtype))
    return convert_element_type(neg(log1p(neg(u))), dtype)


def _laplace(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Any:
    u = draw_uniform(key, float(finfo(dtype).epsneg) - 1.0, 1.0, shape, dtype)
    return arithmetic.sign(u) * log1p(neg(arithmetic.abs(u)))


def _logistic(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Any:
    x = _draw_open(key, shape, dtype)
    return convert_element_type(log(x) - log1p(neg(x)), dtype)


def _cauchy(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Any:
    u = draw_uniform(key, finfo(dtype).eps, 1.0, shape, dtype)
    return arithmetic.tan(constant(dtype, np.pi) * (u - constant(dtype, 0.5)))


def draw_maxwell(key: ArrayLike, shape: Any, dtype: DTypeLike) -> Any:
    x = draw_normal(key, (*shape, 3), dtype)
    return sqrt(reduce_sum_p.bind(x * x, axes=(len(shape),)))


exponential: Sampler = _plain("exponential", "Exponential values, with density exp(-x) on x >= 0.", draw_exponential)
laplace: Sampler = _plain("laplace", "Laplace values, with density exp(-|x|) / 2.", _laplace)
logistic: Sampler = _plain("logistic", "Logistic values, with density exp(-x) / (1 + exp(-x))^2.", _logistic)
cauchy: Sampler = _plain("cauchy", "Cauchy values, with density 1 / (pi (x^2 + 1)).", _cauchy)
maxwell: Sampler = _plain("maxwell", "One-sided Maxwell values: lengths of standard normal 3-vectors.", draw_maxwell)


@public
def pareto(
    key: ArrayLike, b: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: None = None
) -> Array:
    """Pareto values, with density b / x^(b + 1) on x >= 1.

    >>> import tilewright as tw
    >>> bool(tw.random.pareto(tw.random.key(0), 2.0) >= 1)
    True
    """
    key = one_key("pareto", key)
    return _pareto(key, b, sample_shape("pareto", shape, b), float_dtype("pareto", dtype))


@functools.partial(jit, static_argnums=(2, 3))
def _pareto(key: ArrayLike, b: Any, shape: Any, dtype: DTypeLike) -> Any:
    (b,) = _to(dtype, shape, b)
    return exp(draw_exponential(key, shape, dtype) / b)


@public
def rayleigh(
    key: ArrayLike, scale: Any, shape: Shape | None = None, dtype: DTypeLike = None, *, out_sharding: None = None
) -> Array:
    """Rayleigh values, with density x exp(-x^2 / (2 scale^2)) / scale^2 on x >= 0.

    >>> from tilewright import random
    >>> x = random.rayleigh(random.key(0), 2.0, (4,))
    >>> x.shape, bool((x >= 0).all())
    ((4,), True)
    """
    key = one_key("rayleigh", key)
    return _rayleigh(key, scale, sample_shape("rayleigh", shape, scale), float_dtype("rayleigh", dtype))


@functools.partial(jit, static_argnums=(2, 3))
def _rayleigh(key: ArrayLike, scale: Any, shape: Any, dtype: DTypeLike) -> Any:
    (scale,) = _to(dtype, shape, scale)
    return scale * convert_element_type(sqrt(-2.0 * log(_draw_open(key, shape, dtype))), dtype)


@public
def weibull_min(key: ArrayLike, scale: Any, concentration: Any, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Weibull values: `scale` times an exponential value to the power 1 / concentration.

    >>> from tilewright import random
    >>> x = random.weibull_min(random.key(0), 1.0, 2.0, (4,))
    >>> x.shape, bool((x >= 0).all())
    ((4,), True)
    """
    key = one_key("weibull_min", key)
    dtype = float_dtype("weibull_min", dtype)
    return _weibull_min(key, scale, concentration, sample_shape("weibull_min", shape), dtype)


@functools.partial(jit, static_argnums=(3, 4))
def _weibull_min(key: ArrayLike, scale: Any, concentration: Any, shape: Any, dtype: DTypeLike) -> Any:
    shape = shapes.broadcast_shapes(shape, shape_of(scale), shape_of(concentration))
    scale, concentration = _to(dtype, shape, scale, concentration)
    return power(draw_exponential(key, shape, dtype), constant(dtype, 1) / concentration) * scale


@public
def triangular(
    key: ArrayLike, left: Any, mode: Any, right: Any, shape: Shape | None = None, dtype: DTypeLike = None, *,
    out_sharding: None = None,
) -> Array:  # fmt: skip
    """Values of the triangular density that rises from `left` to `mode` and falls to `right`.

    >>> from tilewright import random
    >>> x = random.triangular(random.key(0), 0.0, 1.0, 3.0, (4,))
    >>> x.shape, bool((x >= 0).all() and (x <= 3).all())
    ((4,), True)
    """
    key = one_key("triangular", key)
    shape = sample_shape("triangular", shape, left, mode, right)
    return _triangular(key, left, mode, right, shape, float_dtype("triangular", dtype))


@functools.partial(jit, static_argnums=(4, 5))
def _triangular(key: ArrayLike, left: Any, mode: Any, right: Any, shape: Any, dtype: DTypeLike) -> Any:
    left, mode, right = _to(dtype, shape, left, mode, right)
    u = draw_uniform(key, 0.0, 1.0, shape, dtype)
    rising = left + sqrt(u * (right - left) * (mode - left))
    falling = right - sqrt((constant(dtype, 1) - u) * (right - left) * (right - mode))
    return comparison.select(u < (mode - left) / (right - left), rising, falling)


# ---------------------------------------------------------------------------- from normals


@public
def lognormal(
    key: ArrayLike, sigma: Any = 1.0, shape: Shape | None = None, dtype: DTypeLike = None, *, out_sharding: None = None
) -> Array:
    """The exponential of normal values with standard deviation `sigma`.

    >>> from tilewright import random
    >>> x = random.lognormal(random.key(0), 0.5, (4,))
    >>> x.shape, bool((x > 0).all())
    ((4,), True)
    """
    key = one_key("lognormal", key)
    return _lognormal(key, sigma, sample_shape("lognormal", shape, sigma), float_dtype("lognormal", dtype))


@functools.partial(jit, static_argnums=(2, 3))
def _lognormal(key: ArrayLike, sigma: Any, shape: Any, dtype: DTypeLike) -> Any:
    (sigma,) = _to(dtype, shape, sigma)
    return exp(draw_normal(key, shape, dtype) * sigma)


@public
def wald(
    key: ArrayLike, mean: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: None = None
) -> Array:
    """Wald (inverse Gaussian) values of a given mean and shape parameter 1 (Michael, Schucany and Haas, 1976).

    >>> from tilewright import random
    >>> x = random.wald(random.key(0), 2.0, (4,))
    >>> x.shape, bool((x > 0).all())
    ((4,), True)
    """
    key = one_key("wald", key)
    return _wald(key, mean, sample_shape("wald", shape, mean), float_dtype("wald", dtype))


@functools.partial(jit, static_argnums=(2, 3))
def _wald(key: ArrayLike, mean: Any, shape: Any, dtype: DTypeLike) -> Any:
    (mean,) = _to(dtype, shape, mean)
    first, second = split2(key)
    v, z = draw_normal(first, shape, dtype), draw_uniform(second, 0.0, 1.0, shape, dtype)
    y, square = v * v, mean * mean
    x = mean + square * y / 2 - mean / 2 * sqrt(4 * mean * y + square * (y * y))
    return comparison.select(z <= mean / (mean + x), x, square / x)


@public
def double_sided_maxwell(key: ArrayLike, loc: Any, scale: Any, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Maxwell values with a random sign, scaled and moved; parameters' shape is appended to `shape`.

    >>> from tilewright import random
    >>> random.double_sided_maxwell(random.key(0), 1.0, 2.0, (4,)).shape
    (4,)
    """
    key = one_key("double_sided_maxwell", key)
    together = shapes.broadcast_shapes(shape_of(loc), shape_of(scale))
    shape = sample_shape("double_sided_maxwell", shape)
    dtype = float_dtype("double_sided_maxwell", dtype)
    return _double_sided_maxwell(key, loc, scale, (*(shape or together), *together), dtype)


@functools.partial(jit, static_argnums=(3, 4))
def _double_sided_maxwell(key: ArrayLike, loc: Any, scale: Any, shape: Any, dtype: DTypeLike) -> Any:
    loc, scale = _to(dtype, shape, loc, scale)
    first, second = split2(key)
    return _rademacher(second, shape, dtype) * draw_maxwell(first, shape, dtype) * scale + loc


@public
def multivariate_normal(
    key: ArrayLike, mean: Any, cov: Any, shape: Shape | None = None, dtype: DTypeLike = None, method: str = "cholesky",
    *, out_sharding: None = None,
) -> Array:  # fmt: skip
    """Normal vectors of a mean (..., n) and covariance (..., n, n), by its Cholesky factors or a root of it.

    `method` is 'cholesky', or 'eigh' or 'svd', which take a covariance that is only semidefinite. Raises `ShapeError`
    where the shapes do not fit.

    >>> import numpy as np, tilewright as tw
    >>> tw.random.multivariate_normal(tw.random.key(0), np.zeros(2), np.eye(2), (5,)).shape
    (5, 2)
    """
    key = one_key("multivariate_normal", key)
    if method not in ("cholesky", "eigh", "svd"):
        raise ArgumentError(f"multivariate_normal: method={method!r}", "one of 'cholesky', 'eigh', 'svd'")
    left, right = shape_of(mean), shape_of(cov)
    if not left or len(right) < 2 or right[-2:] != (left[-1], left[-1]):
        raise ShapeError(
            f"multivariate_normal: mean of shape {left}, cov of shape {right}", "give (..., n) and (..., n, n)"
        )
    lead = shapes.broadcast_shapes(left[:-1], right[:-2])
    shape = lead if shape is None else shapes.as_shape(shape, "multivariate_normal")
    if shapes.broadcast_shapes(shape, lead) != shape:
        raise ShapeError(f"multivariate_normal: shape {shape} does not end in {lead}", "prepend axes to that")
    return _multivariate_normal(key, mean, cov, shape, float_dtype("multivariate_normal", dtype), method)


@functools.partial(jit, static_argnums=(3, 4, 5))
def _multivariate_normal(key: ArrayLike, mean: Any, cov: Any, shape: Any, dtype: DTypeLike, method: str) -> Any:
    n = shape_of(mean)[-1]
    (mean,) = _to(dtype, (*shape, n), mean)
    factor = convert_element_type(_root(convert_element_type(cov, working_dtype(dtype)), method), dtype)
    factor = shapes.broadcast_to(factor, (*shape, n, n))
    z = draw_normal(key, (*shape, n), dtype)
    return mean + shapes.squeeze(matmul(factor, shapes.expand_dims(z, (len(shape) + 1,))), (len(shape) + 1,))


def _root(cov: Any, method: str) -> Any:
    """A matrix whose product with its transpose is the covariance."""
    if method == "cholesky":
        return cholesky(cov)
    if method == "eigh":
        vectors, values = eigh(cov)
    else:
        vectors, values, _ = svd(cov)
    return vectors * rows_of(sqrt(values), shape_of(cov)[-1])


@public
def orthogonal(
    key: ArrayLike, n: int, shape: Shape = (), dtype: DTypeLike = None, m: int | None = None, *,
    out_sharding: None = None,
) -> Array:  # fmt: skip
    """Matrices (..., n, m), real or complex, uniform among those with orthonormal rows or columns.

    >>> import tilewright as tw
    >>> tw.random.orthogonal(tw.random.key(0), 3).shape
    (3, 3)
    """
    key = one_key("orthogonal", key)
    n = operator.index(n)
    m = n if m is None else operator.index(m)
    return _orthogonal(key, n, m, sample_shape("orthogonal", shape), float_dtype("orthogonal", dtype, complex_too=True))


@functools.partial(jit, static_argnums=(1, 2, 3, 4))
def _orthogonal(key: ArrayLike, n: int, m: int, shape: Any, dtype: DTypeLike) -> Any:
    tall, wide = max(n, m), min(n, m)
    z = convert_element_type(draw_normal(key, (math.prod(shape), tall, wide), dtype), working_dtype(dtype))
    q, r = qr(z, full_matrices=False)
    q = convert_element_type(q * rows_of(arithmetic.sign(diagonal(r)), tall), dtype)  # the Q of a positive diagonal
    q = shapes.transpose(q, (0, 2, 1)) if n < m else q
    return shapes.reshape(q, (*shape, n, m))


# ---------------------------------------------------------------------------- gamma and its relatives


def _gamma_one(key: ArrayLike, alpha: Any, log_space: bool) -> Any:
    """One gamma value by rejection (Marsaglia and Tsang, 2000), with their boost for alpha < 1."""
    dtype = dtype_of(alpha)
    number = functools.partial(constant, dtype)
    large = alpha >= number(1)
    d = comparison.select(large, alpha, alpha + number(1)) - number(1 / 3)
    c = number(1 / 3) / sqrt(d)

    def rejected(state: Any) -> Any:
        _, x2, v, u = state
        slow = log(u) >= x2 * number(0.5) + d * ((number(1) - v) + log(v))
        return (u >= number(1) - number(0.0331) * (x2 * x2)) & slow

    def next_normal(state: Any) -> Any:
        key, subkey = split2(state[0])
        x = draw_normal(subkey, (), dtype)
        return key, x, number(1) + x * c

    def propose(state: Any) -> Any:
        key, for_x, for_u = split2(state[0], 3)
        _, x, v = while_loop(lambda s: s[2] <= number(0), next_normal, (for_x, number(0), number(-1)))
        return key, x * x, v * v * v, draw_uniform(for_u, 0.0, 1.0, (), dtype)

    key, subkey = split2(key)
    v = while_loop(rejected, propose, (key, number(0), number(1), number(2)))[2]
    if log_space:
        boost = neg(draw_exponential(subkey, (), dtype))
        plain = large | (boost == number(0))
        return log(d) + log(v) + comparison.select(plain, shapes.full_like(boost, 0), boost * (number(1) / alpha))
    boost = power(number(1) - draw_uniform(subkey, 0.0, 1.0, (), dtype), number(1) / alpha)
    return d * v * comparison.select(large, shapes.full_like(boost, 1), boost)


def _gamma_of(log_space: bool) -> Any:
    @custom_jvp
    def sample(key: ArrayLike, alpha: Any) -> Any:
        shape = shape_of(alpha)
        size = math.prod(shape)
        keys = generator(key).split(key, (size,))
        flat = vmap(functools.partial(_gamma_one, log_space=log_space))(keys, shapes.reshape(alpha, (size,)))
        return shapes.reshape(flat, shape)

    @sample.defjvp
    def sample_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Implicit differentiation: the distribution function of the sample at alpha stays what it was."""
        key, alpha = primals
        out = sample(key, alpha)
        x = exp(out) if log_space else out
        x = arithmetic.max(x, shapes.full_like(x, finfo(dtype_of(x)).tiny))
        density = exp((alpha - constant(dtype_of(x), 1)) * log(x) - x - functions.lgamma(alpha))
        slope = neg(functions.igamma_grad_a(alpha, x)) / density
        return out, tangents[1] * (slope / x if log_space else slope)

    return sample


_gamma_sample = {False: _gamma_of(False), True: _gamma_of(True)}


@functools.partial(jit, static_argnums=(2, 3, 4, 5))
def draw_gamma(
    key: ArrayLike, a: Any, shape: Any, dtype: DTypeLike, log_space: bool = False, method: str = "exact"
) -> Any:
    """Gamma values, or their logarithms."""
    if method == "approximate":
        return draw_gamma_near(key, a, shape, dtype, log_space)
    (a,) = _to(dtype, shape, a)
    return _gamma_sample[log_space](key, a)


@public
def gamma(
    key: Any, a: Any, shape: Shape | None = None, dtype: Any = None, *, method: str = "exact", out_sharding: None = None
) -> Array:
    """Gamma values, with density x^(a - 1) exp(-x) / Gamma(a); differentiable in `a`.

    `method='approximate'` draws them without a loop, from quantiles that are right to about 0.05 percent.

    >>> import tilewright as tw
    >>> bool(tw.random.gamma(tw.random.key(0), 2.0) > 0)
    True
    """
    key = one_key("gamma", key)
    method = chosen("gamma's method", method, METHODS)
    return draw_gamma(key, a, sample_shape("gamma", shape, a), float_dtype("gamma", dtype), False, method)


@public
def loggamma(
    key: Any, a: Any, shape: Shape | None = None, dtype: Any = None, *, method: str = "exact", out_sharding: None = None
) -> Array:
    """Logarithms of gamma values, which for small `a` do not underflow.

    >>> from tilewright import random
    >>> random.loggamma(random.key(0), 0.01, (4,)).shape
    (4,)
    """
    key = one_key("loggamma", key)
    method = chosen("loggamma's method", method, METHODS)
    return draw_gamma(key, a, sample_shape("loggamma", shape, a), float_dtype("loggamma", dtype), True, method)


@public
def beta(
    key: ArrayLike, a: Any, b: Any, shape: Shape | None = None, dtype: DTypeLike = None, *, method: str = "exact",
    out_sharding: None = None,
) -> Array:  # fmt: skip
    """Beta values, with density proportional to x^(a - 1) (1 - x)^(b - 1) on [0, 1].

    >>> from tilewright import random
    >>> x = random.beta(random.key(0), 2.0, 3.0, (4,))
    >>> x.shape, bool((x >= 0).all() and (x <= 1).all())
    ((4,), True)
    """
    key = one_key("beta", key)
    method = chosen("beta's method", method, METHODS)
    return _beta(key, a, b, sample_shape("beta", shape, a, b), float_dtype("beta", dtype), method)


@functools.partial(jit, static_argnums=(3, 4, 5))
def _beta(key: ArrayLike, a: Any, b: Any, shape: Any, dtype: DTypeLike, method: str) -> Any:
    logs = [draw_gamma(k, p, shape, dtype, True, method) for k, p in zip(split2(key), (a, b), strict=True)]
    top = arithmetic.max(*logs)
    first, second = (exp(v - top) for v in logs)
    return first / (first + second)


@public
def dirichlet(
    key: ArrayLike, alpha: Any, shape: Shape | None = None, dtype: DTypeLike = None, *, out_sharding: None = None
) -> Array:
    """Dirichlet vectors: positive, with sum 1; `alpha` is (..., n) and `shape` that of the batch.

    >>> import numpy as np, tilewright as tw
    >>> tw.random.dirichlet(tw.random.key(0), np.ones(3), (4,)).shape
    (4, 3)
    """
    key = one_key("dirichlet", key)
    full = shape_of(alpha)
    if not full:
        raise ShapeError("dirichlet: alpha is a scalar", "give an array whose last axis has the concentrations")
    shape = full[:-1] if shape is None else shapes.as_shape(shape, "dirichlet")
    if shapes.broadcast_shapes(shape, full[:-1]) != shape:
        raise ShapeError(f"dirichlet: shape {shape} does not end in {full[:-1]}", "prepend axes to alpha's batch shape")
    return _dirichlet(key, alpha, (*shape, full[-1]), float_dtype("dirichlet", dtype))


@functools.partial(jit, static_argnums=(2, 3))
def _dirichlet(key: ArrayLike, alpha: Any, shape: Any, dtype: DTypeLike) -> Any:
    logs = draw_gamma(key, alpha, shape, dtype, True)
    last = (len(shape) - 1,)
    top = shapes.expand_dims(reduce_max_p.bind(logs, axes=last), last)
    parts = exp(logs - shapes.broadcast_to(top, shape))
    total = shapes.expand_dims(reduce_sum_p.bind(parts, axes=last), last)
    return parts / shapes.broadcast_to(total, shape)


@public
def t(
    key: ArrayLike, df: Any, shape: Shape | None = None, dtype: DTypeLike = None, *, out_sharding: None = None
) -> Array:
    """Student's t values with `df` degrees of freedom.

    >>> from tilewright import random
    >>> random.t(random.key(0), 3.0, (4,)).shape
    (4,)
    """
    key = one_key("t", key)
    return _t(key, df, sample_shape("t", shape, df), float_dtype("t", dtype))


@functools.partial(jit, static_argnums=(2, 3))
def _t(key: ArrayLike, df: Any, shape: Any, dtype: DTypeLike) -> Any:
    (df,) = _to(dtype, shape, df)
    half = df / 2
    for_normal, for_gamma = split2(key)
    return draw_normal(for_normal, shape, dtype) * sqrt(half / draw_gamma(for_gamma, half, shape, dtype, False))


@public
def chisquare(
    key: ArrayLike, df: Any, shape: Shape | None = None, dtype: DTypeLike = None, *, method: str = "exact",
    out_sharding: None = None,
) -> Array:  # fmt: skip
    """Chi-square values with `df` degrees of freedom.

    >>> from tilewright import random
    >>> x = random.chisquare(random.key(0), 3.0, shape=(4,))
    >>> x.shape, bool((x > 0).all())
    ((4,), True)
    """
    key = one_key("chisquare", key)
    method = chosen("chisquare's method", method, METHODS)
    return draw_chisquare(key, df, sample_shape("chisquare", shape, df), float_dtype("chisquare", dtype), method)


@functools.partial(jit, static_argnums=(2, 3, 4))
def draw_chisquare(key: ArrayLike, df: Any, shape: Any, dtype: DTypeLike, method: str = "exact") -> Any:
    """Twice a gamma value of half the degrees."""
    (df,) = _to(dtype, shape, df)
    return exp(draw_gamma(key, df / 2, shape, dtype, True, method)) * 2


@public
def f(
    key: Any, dfnum: Any, dfden: Any, shape: Shape | None = None, dtype: DTypeLike = None, *, out_sharding: None = None
) -> Array:
    """F values: the ratio of two chi-square values, each by its degrees of freedom.

    >>> from tilewright import random
    >>> x = random.f(random.key(0), 3.0, 5.0, shape=(4,))
    >>> x.shape, bool((x > 0).all())
    ((4,), True)
    """
    key = one_key("f", key)
    return _f(key, dfnum, dfden, sample_shape("f", shape, dfnum, dfden), float_dtype("f", dtype))


@functools.partial(jit, static_argnums=(3, 4))
def _f(key: ArrayLike, dfnum: Any, dfden: Any, shape: Any, dtype: DTypeLike) -> Any:
    dfnum, dfden = _to(dtype, shape, dfnum, dfden)
    for_den, for_num = split2(key)
    den = draw_chisquare(for_den, dfden, shape, dtype) / dfden
    return draw_chisquare(for_num, dfnum, shape, dtype) / dfnum / den


@public
def generalized_normal(
    key: ArrayLike, p: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: None = None
) -> Array:
    """Values with density proportional to exp(-|x|^p).

    >>> from tilewright import random
    >>> random.generalized_normal(random.key(0), 1.5, (4,)).shape
    (4,)
    """
    key = one_key("generalized_normal", key)
    dtype = float_dtype("generalized_normal", dtype)
    return draw_generalized_normal(key, p, sample_shape("generalized_normal", shape), dtype)


@functools.partial(jit, static_argnums=(2, 3))
def draw_generalized_normal(key: ArrayLike, p: Any, shape: Any, dtype: DTypeLike) -> Any:
    """A gamma value to the power 1 / p, with a random sign."""
    (inverse,) = _to(dtype, shape, constant(dtype, 1) / convert_element_type(p, dtype))
    for_size, for_sign = split2(key)
    size = power(draw_gamma(for_size, inverse, shape, dtype, False), inverse)
    return _rademacher(for_sign, shape, canonical_dtype(dtype)) * size


@public
def ball(
    key: ArrayLike, d: int, p: float = 2, shape: Shape = (), dtype: Any = None, *, out_sharding: None = None
) -> Array:
    """Points uniform in the unit ball of the p-norm in `d` dimensions (Barthe, Guedon, Mendelson and Naor, 2005).

    >>> import tilewright as tw
    >>> tw.random.ball(tw.random.key(0), 3, shape=(5,)).shape
    (5, 3)
    """
    key = one_key("ball", key)
    return _ball(key, p, operator.index(d), sample_shape("ball", shape), float_dtype("ball", dtype))


@functools.partial(jit, static_argnums=(2, 3, 4))
def _ball(key: ArrayLike, p: Any, d: int, shape: Any, dtype: DTypeLike) -> Any:
    for_point, for_radius = split2(key)
    point = draw_generalized_normal(for_point, p, (*shape, d), dtype)
    (full,) = _to(dtype, (*shape, d), p)
    (small,) = _to(dtype, shape, p)
    total = reduce_sum_p.bind(power(arithmetic.abs(point), full), axes=(len(shape),))
    norm = power(total + draw_exponential(for_radius, shape, dtype), constant(dtype, 1) / small)
    return point / shapes.broadcast_to(shapes.expand_dims(norm, (len(shape),)), (*shape, d))
