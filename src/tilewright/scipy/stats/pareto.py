"""The Pareto distribution of numbers from `loc + scale` on, whose density falls with the power `b + 1`.

>>> from tilewright.scipy import stats
>>> round(float(stats.pareto.pdf(2.0, 1.0)), 3), round(float(stats.pareto.cdf(2.0, 1.0)), 3)
(0.25, 0.5)
"""

from __future__ import annotations

from ... import lax
from .family import INF, Family, log1mexp, positive

_D = Family(__name__, "b", positive, (1.0, INF), 2.0, weak="logcdf")
logpdf = _D.function("logpdf", lambda y, b: lax.log(b) - (b + 1) * lax.log(y))
pdf = _D.function("pdf", lambda y, b: lax.log(b) - (b + 1) * lax.log(y))
cdf = _D.function("cdf", lambda y, b: -lax.expm1(-b * lax.log(y)))
logcdf = _D.function("logcdf", lambda y, b: log1mexp(-b * lax.log(y)))
sf = _D.function("sf", lambda y, b: lax.exp(-b * lax.log(y)))
logsf = _D.function("logsf", lambda y, b: -b * lax.log(y))
ppf = _D.function("ppf", lambda q, b: lax.exp(-lax.log1p(-q) / b))
