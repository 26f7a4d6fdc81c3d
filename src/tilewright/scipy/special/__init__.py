"""`jax.scipy.special`: special functions of arrays."""

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
__getattr__, __dir__, __all__ = _later(__name__, _members(_LATER))
