"""Gamma values and counts without loops: a normal value through an approximate quantile function.

Gamma values take the series of Goldstein (1973, algorithm 451 of the ACM) for the cube root of a chi-square quantile,
at a shape four larger, and four factors that lead back to theirs (Stuart, 1962). Counts of small mean are found in the
sums of their first probabilities, others by the normal approximation of Peizer and Pratt (1968).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import numpy as tnp
from ..core.ir.array import Array, ArrayLike, DTypeLike
from ..core.jit.jit import jit
from ..core.primitives.elementwise import arithmetic
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement import shape as shapes
from ..core.primitives.special import functions
from ..core.tracing.trace import dtype_of
from .basic import draw_normal, draw_uniform
from .key import finfo, split2, working_dtype

if TYPE_CHECKING:
    from ..core.primitives.elementwise.arithmetic import UnaryWithAccuracy
    from ..core.primitives.elementwise.builders import Unary


exp: UnaryWithAccuracy
log: UnaryWithAccuracy
log1p: UnaryWithAccuracy
sqrt: UnaryWithAccuracy
ceil: Unary
exp, log, log1p, sqrt, ceil = arithmetic.exp, arithmetic.log, arithmetic.log1p, arithmetic.sqrt, arithmetic.ceil

STEPS = 4  # from the shape whose quantiles are drawn down to the one asked for
# Of the powers of x / sqrt(nu), x a normal value and nu the degrees of freedom: polynomials in 1 / nu. The first
# number is 1, the limit of many degrees, where the series as published has 1.0000886.
QUANTILE = (
    (1.0, -0.2237368, -0.01513904),
    (0.4713941, 0.02607083, -0.008986007),
    (0.0001348028, 0.01128186, 0.02277679),
    (-0.008553069, -0.01153761, -0.01323293),
    (0.00312558, 0.005169654, -0.006950356),
    (-0.0008426812, 0.00253001, 0.001060438),
    (0.00009780499, -0.001450117, 0.001565326),
)
SMALL = 7.0  # means below it are those of few counts
COUNTS = 20


def _polynomial(coefficients: Sequence[Any], x: Any) -> Any:
    """The lowest power first."""
    total = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


@functools.partial(jit, static_argnums=(2, 3, 4))
def draw_gamma_near(key: ArrayLike, a: Any, shape: Any, dtype: DTypeLike, log_space: bool) -> Any:
    """Gamma values, or their logarithms, from one normal value each."""
    real = working_dtype(dtype)
    a = shapes.broadcast_to(convert_element_type(a, real), shape)
    for_normal, for_steps = split2(key)
    nu = 2 * (a + STEPS)
    t = draw_normal(for_normal, shape, real) / sqrt(nu)
    root = tnp.maximum(_polynomial([_polynomial(row, 1 / nu) for row in QUANTILE], t), float(finfo(real).tiny))
    steps = -log1p(-draw_uniform(for_steps, 0.0, 1.0, (STEPS, *shape), real))
    down = [shapes.index_in_dim(steps, i, 0, keepdims=False) / (a + i) for i in range(STEPS)]
    found = log(a + STEPS) + 3 * log(root) - functools.reduce(lambda x, y: x + y, down)
    return convert_element_type(found if log_space else exp(found), dtype)


@functools.partial(jit, static_argnums=(2, 3))
def draw_poisson_near(key: ArrayLike, lam: Any, shape: Any, dtype: DTypeLike) -> Any:
    """Counts of mean `lam` from one normal value each."""
    wide = np.dtype(dtype).itemsize > 4 or dtype_of(lam) == np.float64
    real = np.dtype(np.float64 if wide else np.float32)
    lam = shapes.broadcast_to(convert_element_type(lam, real), shape)
    z = draw_normal(key, shape, real)
    return convert_element_type(tnp.where(lam < SMALL, _by_sums(z, lam), _by_normal(z, lam)), dtype)


def _by_sums(z: Any, lam: Any) -> Any:
    """How many of the first sums of probabilities are below the normal distribution function at z."""
    u = 0.5 * functions.erfc(z * -(0.5**0.5))
    probability = total = exp(-lam)
    count = convert_element_type(total < u, dtype_of(z))
    for k in range(1, COUNTS - 1):
        probability = probability * (lam / k)
        total = total + probability
        count = count + convert_element_type(total < u, dtype_of(z))
    return count


def _by_normal(z: Any, lam: Any) -> Any:
    """The least integer whose normal score is z or more, next to where Cornish and Fisher's expansion has it."""
    root = sqrt(lam)
    guess = ceil(lam + root * z - 2 / 3 + z * z / 6 + z * (1 - z * z) / (72 * root) + 0.6)

    def reaches(count: Array) -> Any:
        return convert_element_type((count >= 0) & (_score(tnp.maximum(count, 0.0), lam) >= z), dtype_of(z))

    return tnp.maximum(guess + 1 - reaches(guess) - reaches(guess - 1), 0.0)


def _score(count: Any, lam: Any) -> Any:
    """The number at which the normal distribution function is the probability of up to so many."""
    y = (count + 0.5) / lam
    return (count - lam + 2 / 3 + 0.02 / (count + 1)) * sqrt((1 + _bend(y)) / lam)


def _bend(y: Any) -> Any:
    """(1 - y^2 + 2 y log y) / (1 - y)^2, near 1 by its series."""
    d = y - 1
    near = arithmetic.abs(d) < 0.25
    series = d * _polynomial([2 * (-1) ** k / ((k + 1) * (k + 2)) for k in range(1, 10)], d)
    y, d = tnp.where(near, 2.0, y), tnp.where(near, 1.0, d)
    return tnp.where(near, series, (1 - y * y + 2 * y * log(y)) / (d * d))
