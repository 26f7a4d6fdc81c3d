"""`jax.scipy.stats`: distributions, a module each, and statistics of samples."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.support.lazy_imports import later as _later

if TYPE_CHECKING:
    from . import (
        bernoulli,
        beta,
        betabinom,
        binom,
        cauchy,
        chi2,
        dirichlet,
        expon,
        gamma,
        gennorm,
        geom,
        gumbel_l,
        gumbel_r,
        laplace,
        logistic,
        multinomial,
        multivariate_normal,
        nbinom,
        norm,
        pareto,
        poisson,
        t,
        truncnorm,
        uniform,
        vonmises,
        wrapcauchy,
    )
    from .density import gaussian_kde
    from .samples import ModeResult, mode, rankdata, sem

_DISTRIBUTIONS = """bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom gumbel_l gumbel_r
    laplace logistic multinomial multivariate_normal nbinom norm pareto poisson t truncnorm uniform vonmises
    wrapcauchy"""
_OTHERS = {"gaussian_kde": ".density:gaussian_kde"} | {
    name: f".samples:{name}" for name in ("ModeResult", "mode", "rankdata", "sem")
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, {name: f".{name}" for name in _DISTRIBUTIONS.split()} | _OTHERS)

__all__ = [
    "ModeResult", "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma",
    "gaussian_kde", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "mode", "multinomial",
    "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "rankdata", "sem", "t", "truncnorm", "uniform",
    "vonmises", "wrapcauchy",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
