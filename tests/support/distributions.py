"""Every distribution with its functions, and points at which these are compared with SciPy's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

NAN, INF = np.nan, np.inf
ALL = "logpdf pdf cdf logcdf sf logsf"
SHARES = np.array([1e-9, 1e-6, 0.03, 0.4, 0.5, 0.9, 1.0, -0.1, 1.1, NAN])
LINE = np.array([-INF, -30.0, -4.0, -0.5, 0.0, 0.25, 3.0, 40.0, INF, NAN])
HALF = np.array([-INF, -1.0, 0.0, 1e-3, 0.5, 1.0, 3.0, 20.0, INF, NAN])
FINITE = HALF[HALF != INF]  # SciPy subtracts infinities
UNIT = np.array([-0.5, 0.0, 1e-3, 0.25, 0.5, 0.9, 1.0, 1.5, NAN])
COUNTS = np.array([-1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 2.5, 9.0, NAN])
REAL = [(0.3, 1.0), (-1.0, 2.5), (0.0, -1.0), (NAN, 1.0)]  # loc and scale, good ones first


@dataclass(frozen=True)
class Distribution:
    """`parameters`: of its shape, `loc` and `scale`, in SciPy's order; the first two sets are in the domain."""

    name: str
    functions: str
    at: np.ndarray
    parameters: list[tuple[float, ...]]
    middle: tuple[float, ...]  # where derivatives are finite
    inverses: str = ""
    whole: bool = False

    @property
    def fixed(self) -> int:
        """How many of the parameters, from the first on, have no derivative: whole ones, and those of `betainc`."""
        return 2 if self.name == "beta" else len(self.parameters[0]) - 1 if self.whole else 0


def continuous(name, functions, at, shapes, middle, inverses="", moves=True):
    places = REAL if moves else [()]
    sets = [(*s, *p) for s in shapes[:1] for p in places] + [(*s, *places[0]) for s in shapes[1:]]
    return Distribution(name, functions, at, sets, middle, inverses)


def whole(name, functions, shapes, inverses=""):
    return Distribution(name, functions, COUNTS, shapes, (), inverses, whole=True)


DISTRIBUTIONS = [
    continuous("norm", ALL, LINE, [()], (-2.0, 0.1, 1.5), "ppf isf"),
    continuous("cauchy", ALL, LINE, [()], (-2.0, 0.1, 1.5), "ppf isf"),
    continuous("laplace", "logpdf pdf cdf", LINE, [()], (-2.0, 0.1, 1.5)),
    continuous("logistic", "logpdf pdf cdf sf", LINE, [()], (-2.0, 0.1, 1.5), "ppf isf"),
    continuous("gumbel_l", ALL, LINE[1:-2], [()], (-2.0, 0.1, 1.5), "ppf"),
    continuous("gumbel_r", ALL, LINE[2:-1], [()], (-1.0, 0.1, 1.5), "ppf"),
    continuous("t", "logpdf pdf", LINE, [(2.5,), (30.0,), (0.0,), (-1.0,), (NAN,)], (-2.0, 0.1, 1.5)),
    continuous("gennorm", "logpdf pdf cdf", LINE, [(1.5,), (3.0,), (0.0,), (-1.0,)], (-2.0, 0.1, 1.5), moves=False),
    continuous("truncnorm", ALL, LINE, [(-1.0, 2.0), (0.5, 6.0), (-INF, 1.0), (2.0, 1.0)], (0.4, 1.1)),
    continuous("expon", ALL, HALF, [()], (0.5, 2.0), "ppf"),
    continuous("gamma", ALL, FINITE, [(2.5,), (0.4,), (30.0,), (0.0,), (-1.0,)], (0.5, 2.0)),
    continuous("chi2", ALL, FINITE, [(3.0,), (1.0,), (2.0,), (0.0,), (-1.0,)], (0.5, 2.0)),
    continuous("pareto", ALL, HALF, [(2.5,), (0.5,), (0.0,), (-1.0,)], (1.5, 4.0), "ppf"),
    continuous("beta", ALL, UNIT, [(2.0, 3.0), (0.5, 0.7), (1.0, 1.0), (0.0, 1.0), (1.0, -1.0)], (0.4, 0.6)),
    continuous("uniform", "logpdf pdf cdf", UNIT, [()], (0.4, 0.6), "ppf"),
    continuous("vonmises", "logpdf pdf", LINE[1:-2], [(2.0,), (50.0,), (0.0,), (-1.0,)], (-2.0, 1.0), moves=False),
    continuous("wrapcauchy", "logpdf pdf", HALF, [(0.4,), (0.95,), (0.0,), (1.0,), (NAN,)], (0.5, 6.0), moves=False),
    whole("bernoulli", "logpmf pmf cdf", [(0.3,), (0.5,), (0.0,), (1.0,), (-0.1,), (1.1,)], "ppf"),
    whole("binom", "logpmf pmf", [(5.0, 0.3), (9.0, 0.5), (5.0, 0.0), (5.0, 1.0), (5.0, 1.5), (-1.0, 0.5)]),
    whole("betabinom", "logpmf pmf", [(5.0, 1.5, 2.0), (9.0, 0.5, 0.5), (5.0, 0.0, 1.0), (5.0, 1.0, -1.0)]),
    whole("geom", "logpmf pmf", [(0.3,), (0.9,), (1.0,), (0.0,), (1.5,)]),
    whole("nbinom", "logpmf pmf", [(2.5, 0.3), (4.0, 0.9), (4.0, 1.0), (0.0, 0.5), (2.0, 0.0)]),
    whole("poisson", "logpmf pmf cdf", [(2.5,), (30.0,), (0.0,), (-1.0,)]),
]


def values(module: Any, one: Distribution, x: Any, q: Any, parameters: Any) -> list[Any]:
    """Every function of a distribution at points and shares, by parameters along another axis."""
    q = q[:6] if one.whole else q
    found = [getattr(module, f)(x, *parameters) for f in one.functions.split()]
    return found + [getattr(module, f)(q, *parameters) for f in one.inverses.split()]
