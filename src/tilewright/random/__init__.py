"""Random numbers from explicit keys, with the values of JAX's default generator.

key = random.key(0)
key, subkey = random.split(key)
x = random.normal(subkey, (3,))

Exponential, Gumbel, logistic, Pareto, Rayleigh and Weibull values of half precision are not JAX's: they are drawn in
float32 and rounded, as a logarithm of few bits has no tail and wrong moments.
"""

from collections.abc import Callable

from ..core.ir.array import Array as Key
from .basic import (
    bernoulli,
    bits,
    categorical,
    choice,
    gumbel,
    normal,
    permutation,
    rademacher,
    randint,
    truncated_normal,
    uniform,
)
from .continuous import (
    ball,
    beta,
    cauchy,
    chisquare,
    dirichlet,
    double_sided_maxwell,
    exponential,
    f,
    gamma,
    generalized_normal,
    laplace,
    loggamma,
    logistic,
    lognormal,
    maxwell,
    multivariate_normal,
    orthogonal,
    pareto,
    rayleigh,
    t,
    triangular,
    wald,
    weibull_min,
)
from .discrete import binomial, geometric, multinomial, poisson
from .key import PRNGKey, clone, fold_in, key, key_data, key_dtype, key_impl, split, wrap_key_data

__all__ = [
    "Key", "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice",
    "clone", "dirichlet", "double_sided_maxwell", "exponential", "f", "fold_in", "gamma", "generalized_normal",
    "geometric", "gumbel", "key", "key_data", "key_dtype", "key_impl", "laplace", "loggamma", "logistic", "lognormal",
    "maxwell", "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto", "permutation", "poisson",
    "rademacher", "randint", "rayleigh", "split", "t", "triangular", "truncated_normal", "uniform", "wald",
    "weibull_min", "wrap_key_data",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
