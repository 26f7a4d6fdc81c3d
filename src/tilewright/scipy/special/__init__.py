"""`jax.scipy.special`: special functions of arrays."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.support.lazy_imports import later as _later
from ...core.support.lazy_imports import members as _members
from .basic import *

if TYPE_CHECKING:
    from .bessel import bessel_jn
    from .error import dawsn, erfcx, fresnel, wofz
    from .hypergeometric import hyp1f1, hyp2f1
    from .integrals import exp1, expi, expn, owens_t, sici, spence
    from .normalised import log_softmax, logsumexp, softmax
    from .spherical import lpmn, lpmn_values, sph_harm_y

_LATER = {
    "bessel": "bessel_jn",
    "error": "dawsn erfcx fresnel wofz",
    "hypergeometric": "hyp1f1 hyp2f1",
    "integrals": "exp1 expi expn owens_t sici spence",
    "normalised": "log_softmax logsumexp softmax",
    "spherical": "lpmn lpmn_values sph_harm_y",
}
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _members(_LATER))

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma", "entr",
    "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial", "fresnel", "gamma",
    "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "lpmn", "lpmn_values", "multigammaln", "ndtr", "ndtri", "owens_t",
    "poch", "polygamma", "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
