"""Special functions made of the primitives: gamma and beta, entropies, the normal distribution, Bessel functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ... import lax
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError
from ...numpy.arithmetic import copysign
from ...numpy.bessel import i0, i1
from ...numpy.create import arange, asarray
from ...numpy.dtypes import finfo
from ...numpy.elementwise import where3
from ...numpy.reductions import sum as _sum
from ...numpy.util import (
    Array,
    ArrayLike,
    astype,
    dtype_of,
    inline_jit,
    is_complex,
    promote_dtypes_inexact,
    promote_inexact,
    shape_of,
    strong,
    value,
    weak_of_numbers,
)

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _unary(name: str, function: Any, doc: str, at: float, gives: float) -> Any:
    def special(x: ArrayLike) -> Array:
        return function(*promote_dtypes_inexact(value(x, name)))

    special.__name__ = special.__qualname__ = name
    special.__doc__ = f"""{doc}

    >>> from tilewright.scipy import special
    >>> round(float(special.{name}({at})), 3)
    {gives}
    """
    return special


erf: Any = _unary("erf", lax.erf, "The error function.", 0.0, 0.0)
erfc: Any = _unary("erfc", lax.erfc, "`1 - erf(x)`.", 0.0, 1.0)
erfinv: Any = _unary("erfinv", lax.erf_inv, "The inverse of `erf`.", 0.0, 0.0)
gammaln: Any = _unary("gammaln", lax.lgamma, "The logarithm of the magnitude of the gamma function.", 3.0, 0.693)


# Lanczos' approximation of the gamma function with g = 7: P. Godfrey's coefficients, "A note on the computation of the
# convergent Lanczos complex gamma approximation", 2001.
_LANCZOS = (
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def _complex_loggamma(z: Array) -> Array:
    """The principal branch, by Lanczos' approximation on the right and reflection on the left half plane."""
    below = lax.lt(lax.imag(z), 0)
    upper = where3(below, lax.conj(z), z)
    left = lax.lt(lax.real(z), 0.5)
    y = where3(left, 1 - upper, upper) - 1
    series: Any = 0.99999999999980993
    for k, c in enumerate(_LANCZOS, 1):
        series = series + c / (y + k)
    t = y + 7.5
    right = (y + 0.5) * lax.log(t) - t + _HALF_LOG_2PI + lax.log(series)
    # log sin(pi z) = -i pi z + log(1 - exp(2 pi i z)) - log 2 + i pi / 2 in the upper half plane
    turn = np.asarray(1j * math.pi, dtype_of(z))
    turned = where3(left, upper, 0.25) * turn
    sine = -turned + lax.log(1 - lax.exp(2 * turned)) - math.log(2) + turn / 2
    out = where3(left, math.log(math.pi) - sine - right, right)
    real = lax.real(z)
    pole = lax.bitwise_and(lax.eq(lax.imag(z), 0), lax.bitwise_and(lax.le(real, 0), lax.eq(real, lax.floor(real))))
    return where3(pole, np.asarray(complex(np.nan, np.nan), dtype_of(z))[()], where3(below, lax.conj(out), out))


def loggamma(x: ArrayLike) -> Array:
    """The logarithm of the gamma function: its principal branch; nan for negative numbers that are not complex.

    >>> from tilewright.scipy import special
    >>> round(float(special.loggamma(3.0)), 3)
    0.693
    """
    (z,) = promote_dtypes_inexact(value(x, "loggamma"))
    if is_complex(dtype_of(z)):
        return _complex_loggamma(z)
    return where3(lax.gt(z, 0), gammaln(z), math.nan)


digamma: Any = _unary("digamma", lax.digamma, "The derivative of `gammaln`.", 1.0, -0.577)
expit: Any = _unary("expit", lax.logistic, "The logistic function `1 / (1 + exp(-x))`.", 0.0, 0.5)
i0e: Any = _unary("i0e", lax.bessel_i0e, "`exp(-|x|) * i0(x)`.", 0.0, 1.0)
i1e: Any = _unary("i1e", lax.bessel_i1e, "`exp(-|x|) * i1(x)`.", 0.0, 0.0)


@custom_jvp
def _logit(x: Any) -> Array:
    return lax.log(x / (1 - x))


@_logit.defjvp
def _logit_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (dx,) = primals, tangents
    return logit(x), dx / (x * (1 - x))


@inline_jit()
def logit(x: ArrayLike) -> Array:
    """`log(x / (1 - x))`.

    >>> from tilewright.scipy import special
    >>> float(special.logit(0.5))
    0.0
    """
    (x,) = promote_dtypes_inexact(value(x, "logit"))
    return weak_of_numbers(_logit(x), x)


def _times_log(log: Callable[[Any], Array], offset: int) -> Callable[[Any, Any], Array]:
    """`x * log(y)`, 0 where `x` is 0 and `y` a number; its derivatives are those of the product there too."""

    @custom_jvp
    def product(x: Array, y: Array) -> Array:
        nothing = lax.bitwise_and(lax.eq(x, 0), lax.eq(y, y))
        return where3(nothing, 0.0, x * log(where3(nothing, 1.0, y)))

    def by_log(t: Any, out: Any, x: Array, y: Any) -> Array:
        inside = y + offset
        neither = lax.bitwise_and(lax.eq(x, 0), lax.eq(inside, 0))
        return t * (x / where3(neither, 1.0, inside))

    product.defjvps(lambda t, out, x, y: t * log(y), by_log)
    return product


_xlogy, _xlog1py = _times_log(lax.log, 0), _times_log(lax.log1p, 1)


@inline_jit()
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """`x * log(y)`, 0 where `x` is 0.

    >>> from tilewright.scipy import special
    >>> float(special.xlogy(0., 0.))
    0.0
    """
    return _xlogy(*promote_inexact(x, y))


@inline_jit()
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """`x * log1p(y)`, 0 where `x` is 0.

    >>> from tilewright.scipy import special
    >>> float(special.xlog1py(0., -1.))
    0.0
    """
    return _xlog1py(*promote_inexact(x, y))


@custom_jvp
def _entr(x: Array) -> Array:
    below = lax.lt(x, 0)
    safe = where3(below, 1.0, x)
    return where3(below, -np.inf, lax.neg(_xlogy(safe, safe)))


def _entr_slope(t: Any, out: Any, x: Array) -> Array:
    below = lax.lt(x, 0)
    return t * where3(below, np.nan, -1 - lax.log(where3(below, 1.0, x)))


_entr.defjvps(_entr_slope)


@inline_jit()
def entr(x: ArrayLike) -> Array:
    """`-x * log(x)`, 0 at 0 and -inf below.

    >>> from tilewright.scipy import special
    >>> float(special.entr(1.))
    -0.0
    """
    return _entr(*promote_dtypes_inexact(value(x, "entr")))


@inline_jit()
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """`p * log(p / q)`, 0 where `p` is 0 and inf outside of the domain.

    >>> from tilewright.scipy import special
    >>> float(special.rel_entr(1., 1.))
    0.0
    """
    p, q = promote_inexact(p, q)
    both = lax.bitwise_and(lax.gt(p, 0), lax.gt(q, 0))
    safe_p, safe_q = where3(both, p, 1.0), where3(both, q, 1.0)
    inside = safe_p * lax.log(safe_p / safe_q)
    zero = lax.bitwise_and(lax.eq(p, 0), lax.ge(q, 0))
    known = lax.bitwise_and(lax.eq(p, p), lax.eq(q, q))
    return weak_of_numbers(where3(both, inside, where3(zero, 0.0, where3(known, np.inf, np.nan))), p, q)


@inline_jit()
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """`p * log(p / q) - p + q`.

    >>> from tilewright.scipy import special
    >>> float(special.kl_div(1., 1.))
    0.0
    """
    p, q = promote_inexact(p, q)
    entropy = rel_entr(p, q)
    outside = lax.eq(entropy, math.inf)
    return weak_of_numbers(entropy + where3(outside, 0.0, q - p), p, q)


# What Stirling's formula for log(gamma(x)) lacks, over 1 / x and in powers of 1 / x^2 (DLMF 5.11.1).
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


def _stirling(x: Any) -> Any:
    return polynomial(1 / (x * x), _STIRLING) / x


def _betaln(a: Array, b: Any) -> Any:
    """By Stirling's formula where one is large, so that no large logarithms cancel.

    A. R. DiDonato, A. H. Morris, "Algorithm 708: Significant digit computation of the incomplete beta function ratios",
    ACM Transactions on Mathematical Software 18, 1992.
    """
    low, high = lax.min(a, b), lax.max(a, b)
    large = (high >= 8) & (low > 0)
    infinite = large & lax.eq(high, math.inf)
    x, y = where3(large, low, 1.0), where3(large, lax.min(high, 1e30), 8.0)
    direct_a, direct_b = where3(large, 1.0, a), where3(large, 1.0, b)
    direct = lax.lgamma(direct_a) + lax.lgamma(direct_b) - lax.lgamma(direct_a + direct_b)
    total = x + y
    rest = _stirling(y) - _stirling(total)
    one = lax.lgamma(x) + rest + x - x * lax.log(total) + (y - 0.5) * lax.log1p(-x / total)
    both = x >= 8
    z = where3(both, x, 8.0)
    logs = (z - 0.5) * lax.log(z / (z + y)) - y * lax.log1p(z / y) - 0.5 * lax.log(y)
    two = _HALF_LOG_2PI + _stirling(z) + rest + logs
    return where3(infinite, -math.inf, where3(large, where3(both, two, one), direct))


@inline_jit()
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the magnitude of the beta function.

    >>> from tilewright.scipy import special
    >>> float(special.betaln(1., 1.))
    0.0
    """
    return _betaln(*promote_inexact(a, b))


@inline_jit()
def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function.

    >>> from tilewright.scipy import special
    >>> float(special.gammasgn(-0.5))
    -1.0
    """
    (x,) = promote_dtypes_inexact(value(x, "gammasgn"))
    floor = lax.floor(x)
    odd = lax.ne(lax.rem(floor, 2), 0)
    below = where3(lax.eq(floor, x), np.nan, where3(odd, -1.0, 1.0))

    sign = where3(lax.gt(x, 0), 1.0, where3(lax.eq(x, 0), copysign(1.0, x), below))
    return strong(astype(where3(lax.eq(x, x), sign, np.nan), dtype_of(x)))


@inline_jit()
def gamma(x: ArrayLike) -> Array:
    """The gamma function, of complex numbers too.

    >>> from tilewright.scipy import special
    >>> round(float(special.gamma(4.)), 3)
    6.0
    """
    (x,) = promote_dtypes_inexact(value(x, "gamma"))
    if is_complex(dtype_of(x)):
        return lax.exp(_complex_loggamma(x))
    return gammasgn(x) * lax.exp(lax.lgamma(x))


@inline_jit()
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function.

    >>> from tilewright.scipy import special
    >>> float(special.beta(1., 1.))
    1.0
    """
    a, b = promote_inexact(a, b)
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * lax.exp(betaln(a, b))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """The product of the integers up to `n`, in floating point.

    >>> from tilewright.scipy import special
    >>> round(float(special.factorial(4.)), 3)
    24.0
    """
    if exact:
        raise ArgumentError("factorial(exact=True)", "results are floats; use Python's `math.factorial`")
    return _factorial(n)


@inline_jit()
def _factorial(n: Any) -> Array:
    (n,) = promote_dtypes_inexact(value(n, "factorial"))
    return where3(lax.lt(n, 0), 0.0, lax.exp(lax.lgamma(n + 1)))


@inline_jit()
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The Pochhammer symbol `gamma(z + m) / gamma(z)`.

    >>> from tilewright.scipy import special
    >>> round(float(special.poch(3., 2.)), 3)
    12.0
    """
    z, m = promote_inexact(z, m)
    return where3(lax.eq(m, 0), 1.0, lax.exp(lax.lgamma(z + m) - lax.lgamma(z)) * gammasgn(z + m) * gammasgn(z))


@inline_jit("d")
def multigammaln(a: ArrayLike, d: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension `d`.

    >>> from tilewright.scipy import special
    >>> round(float(special.multigammaln(3., 1)), 3)
    0.693
    """
    (a,) = promote_dtypes_inexact(value(a, "multigammaln"))
    steps = arange(d, dtype=dtype_of(a)) / 2
    rank = len(shape_of(a))
    terms = lax.lgamma(lax.expand_dims(a, (rank,)) - lax.expand_dims(steps, range(rank)))
    return _sum(terms, -1) + d * (d - 1) / 4 * math.log(math.pi)


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function.

    >>> from tilewright.scipy import special
    >>> float(special.gammainc(1., 0.))
    0.0
    """
    return lax.igamma(*promote_inexact(a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function.

    >>> from tilewright.scipy import special
    >>> float(special.gammaincc(1., 0.))
    1.0
    """
    return lax.igammac(*promote_inexact(a, x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function.

    >>> from tilewright.scipy import special
    >>> float(special.betainc(1., 1., 0.5))
    0.5
    """
    return lax.betainc(*promote_inexact(a, b, x))


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Hurwitz zeta function, Riemann's for `q` absent.

    >>> from tilewright.scipy import special
    >>> round(float(special.zeta(2.)), 3)
    1.645
    """
    return lax.zeta(*promote_inexact(x, 1.0 if q is None else q))


@inline_jit()
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The derivative number `n` of the digamma function.

    >>> from tilewright.scipy import special
    >>> round(float(special.polygamma(1, 1.)), 3)
    1.645
    """
    n, x = promote_inexact(n, x)
    return lax.polygamma(n, x)


# The sum of (k + 1) u^k / (k + 2)!: of the derivative of (exp(u) - 1) / u.
_BOX = tuple([(k + 1) / math.factorial(k + 2) for k in range(14)][::-1])


def _box(log: Callable[[Any], Array], offset: int) -> Callable[[Any, Any], Array]:
    """`(y**power - 1) / power` of `y = x + offset`, whose logarithm is `log(x)`, and its limit for the power 0."""

    @custom_jvp
    def transformed(x: Any, power: Array) -> Array:
        zero = lax.eq(power, 0)
        return where3(zero, log(x), lax.expm1(power * log(x)) / where3(zero, 1.0, power))

    def by_power(t: Any, out: Any, x: Any, power: Array) -> Array:
        logs = log(x)
        near = abs(power * logs) < 0.5
        series = logs * logs * polynomial(where3(near, power * logs, 0.0), _BOX)
        whole = power * out + 1  # y**power
        gap = where3(lax.eq(whole, 0), 0.0, whole * logs) - out
        return t * where3(near, series, gap / where3(lax.eq(power, 0), 1.0, power))

    transformed.defjvps(lambda t, out, x, power: t * lax.pow(x + offset, power - 1), by_power)
    return transformed


_boxcox, _boxcox1p = _box(lax.log, 0), _box(lax.log1p, 1)


@inline_jit()
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """`(x**lmbda - 1) / lmbda`, `log(x)` at 0.

    >>> from tilewright.scipy import special
    >>> float(special.boxcox(1., 2.))
    0.0
    """
    return _boxcox(*promote_inexact(x, lmbda))


@inline_jit()
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """`boxcox(1 + x, lmbda)`, exact near zero.

    >>> from tilewright.scipy import special
    >>> float(special.boxcox1p(0., 2.))
    0.0
    """
    return _boxcox1p(*promote_inexact(x, lmbda))


@inline_jit()
def ndtr(x: ArrayLike) -> Array:
    """The normal distribution function.

    >>> from tilewright.scipy import special
    >>> float(special.ndtr(0.))
    0.5
    """
    x = strong(*promote_dtypes_inexact(value(x, "ndtr")))
    w = x * math.sqrt(0.5)
    size = lax.abs(w)
    # Near zero erf keeps its digits, in the tails erfc does.
    tail = where3(lax.gt(w, 0), 2.0 - lax.erfc(size), lax.erfc(size))
    return 0.5 * where3(lax.lt(size, math.sqrt(0.5)), 1.0 + lax.erf(w), tail)


# Of the quotient of polynomials for the middle, the tails and the far tails: M. J. Wichura, "Algorithm AS 241: The
# percentage points of the normal distribution", Applied Statistics 37, 1988; the highest power first.
_MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
_TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """A polynomial by Horner's rule, the highest power's coefficient first."""
    out: Any = x * 0 + coefficients[0]
    for c in coefficients[1:]:
        out = out * x + c
    return out


def _quotient(x: Any, parts: Sequence[Sequence[float]]) -> Any:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


@custom_jvp
def _ndtri(p: Array) -> Array:
    centre = p - 0.5
    middle = lax.le(abs(centre), 0.425)
    inner = centre * _quotient(0.180625 - centre * centre, _MIDDLE)
    legal = (p > 0) & (p < 1)
    root = lax.sqrt(-lax.log(where3(legal & ~middle, where3(centre < 0, p, 1 - p), 0.05)))
    near = lax.le(root, 5.0)
    size = where3(near, _quotient(root - 1.6, _TAIL), _quotient(where3(near, 5.0, root) - 5.0, _FAR))
    out = where3(middle, inner, where3(centre < 0, -size, size))
    edge = where3(lax.eq(p, 0), -math.inf, where3(lax.eq(p, 1), math.inf, math.nan))
    return where3(legal, out, edge)


_ndtri.defjvps(lambda t, out, p: t * lax.exp(0.5 * out * out + _HALF_LOG_2PI))


@inline_jit()
def ndtri(p: ArrayLike) -> Array:
    """The inverse of `ndtr`.

    >>> from tilewright.scipy import special
    >>> float(special.ndtri(0.5))
    0.0
    """
    (p,) = promote_dtypes_inexact(value(p, "ndtri"))
    return astype(_ndtri(_float32_or_more(strong(p))), dtype_of(p))


def _float32_or_more(x: Any) -> Any:
    """A number whose dtype has the range and the digits that the coefficients of approximations need."""
    return lax.convert_element_type(x, np.float32) if dtype_of(x).itemsize == 2 else x


@inline_jit()
def erfcinv(y: ArrayLike) -> Array:
    """The inverse of `erfc`, from 0 to 2; NaN elsewhere. Real numbers only; it keeps its digits for tiny `y`.

    >>> from tilewright.scipy import special
    >>> round(float(special.erfcinv(0.5)), 3)
    0.477
    """
    (y,) = promote_dtypes_inexact(value(y, "erfcinv"))
    return astype(-math.sqrt(0.5) * _ndtri(0.5 * _float32_or_more(strong(y))), dtype_of(y))


_MILLS_TERMS = 8  # of the series in the derivative: the next one is below a rounding error at the bounds below


def _far_below(dtype: Any) -> Any:
    """Where the asymptotic series takes over."""
    return np.asarray(-20.0 if dtype.itemsize == 8 else -10.0).astype(dtype)[()]


def _mills_series(x: Array, terms: int) -> Array:
    """The sum of `(-1)**n (2n - 1)!! / x**(2n)` up to `terms`: `ndtr(x)` is it times the density over `-x`."""
    squared = x * x
    series = term = value(np.ones((), dtype_of(x))[()])
    for n in range(1, terms + 1):
        term = term * (-(2 * n - 1)) / squared
        series = series + term
    return series


def _log_ndtr_value(x: Array, series_order: int) -> Array:
    low, high = _far_below(dtype_of(x)), 8.0 if dtype_of(x).itemsize == 8 else 5.0
    upper = lax.neg(ndtr(lax.neg(x)))
    middle = lax.log(ndtr(lax.max(x, low)))
    far = lax.min(x, low)
    below = -0.5 * (far * far) - lax.log(-far) - _HALF_LOG_2PI + lax.log(_mills_series(far, series_order))
    return where3(lax.gt(x, high), upper, where3(lax.gt(x, low), middle, below))


def _log_ndtr_jvp(series_order: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Array, Array]:
    # The density over the distribution function. Far below zero both vanish, and their difference to `-x`, which is
    # the second derivative, is lost in rounding: there it is the series.
    ((x,), (t,)) = primals, tangents
    result, low = _log_ndtr(x, series_order), _far_below(dtype_of(x))
    above = lax.gt(x, low)
    near, far = where3(above, x, low), where3(above, low, x)
    ratio = lax.exp(-0.5 * (near * near) - _log_ndtr(near, series_order) - _HALF_LOG_2PI)
    last = -1 / float(finfo(dtype_of(x)).eps)  # below it the series is 1
    inner = lax.max(far, last)
    below = where3(far < last, lax.neg(far), lax.neg(inner) / _mills_series(inner, _MILLS_TERMS))
    return result, t * where3(above, ratio, below)


_log_ndtr = custom_jvp(_log_ndtr_value, nondiff_argnums=(1,))
_log_ndtr.defjvp(_log_ndtr_jvp)


@inline_jit("series_order")
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """The logarithm of `ndtr`, by its asymptotic series far below zero.

    >>> from tilewright.scipy import special
    >>> round(float(special.log_ndtr(0.)), 3)
    -0.693
    """
    (x,) = promote_dtypes_inexact(value(x, "log_ndtr"))
    if not isinstance(series_order, int) or not 0 <= series_order <= 30:
        raise ArgumentError(f"series_order={series_order!r}", "an integer from 0 to 30")
    return _log_ndtr(x, series_order)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose `k` of `N` things, in floating point.

    >>> from tilewright.scipy import special
    >>> round(float(special.comb(4., 2.)), 3)
    6.0
    """
    return _comb(N, k, repetition)


@inline_jit("repetition")
def _comb(N: Any, k: Any, repetition: bool) -> Array:
    N, k = promote_inexact(N, k)
    dtype = dtype_of(N)
    N, k = _float32_or_more(N), _float32_or_more(k)
    nothing = lax.bitwise_and(lax.eq(N, 0), lax.eq(k, 0))  # is chosen in one way
    N = where3(nothing, 0.0, N + k - 1) if repetition else N
    valid = lax.bitwise_and(lax.ge(k, 0), lax.ge(N, k))
    few = where3(valid, N, 1.0), where3(valid, k, 0.0)
    result = lax.exp(-_betaln(few[0] - few[1] + 1, few[1] + 1)) / (few[0] + 1)
    result = where3(valid, result, 0.0)
    return lax.convert_element_type(result, dtype) if dtype.itemsize == 2 else result


@public
def bernoulli(n: int) -> Array:
    """The Bernoulli numbers from 0 to `n`.

    >>> from tilewright.scipy import special
    >>> special.bernoulli(2).shape
    (3,)
    """

    numbers: list[Fraction] = []
    for m in range(n + 1):  # sum over k of C(m + 1, k) B_k = 0
        total = sum((Fraction(math.comb(m + 1, k)) * b for k, b in enumerate(numbers)), Fraction(0))
        numbers.append(Fraction(1) if m == 0 else -total / (m + 1))
    return asarray([float(b) for b in numbers])


__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "digamma", "entr", "erf", "erfc", "erfcinv",
    "erfinv", "expit", "factorial", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e",
    "kl_div", "log_ndtr", "loggamma", "logit", "multigammaln", "ndtr", "ndtri", "poch", "polygamma", "rel_entr",
    "xlog1py", "xlogy", "zeta",
]  # fmt: skip
