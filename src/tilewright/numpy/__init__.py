"""`jax.numpy`'s names over the primitives of the core: those that each module here lists in its `__all__`."""

import sys as _sys
from typing import TYPE_CHECKING

from ..core.arrays.operators import install_methods as _install_methods
from ..core.primitives.movement.shape import broadcast_shapes
from ..core.support.lazy_imports import later as _later
from ..core.support.lazy_imports import members as _members
from ..core.tracing.trace import Value as ndarray
from .arithmetic import *
from .contract import *
from .create import *
from .cumulative import *
from .dtypes import *
from .dtypes import bool_ as bool
from .elementwise import *
from .functional import *
from .index import *
from .join import *
from .manipulation.pad import *
from .manipulation.repeat import *
from .matrices import *
from .numerics.calculus import *
from .protocols import array_function as _protocol
from .protocols import array_methods as _methods  # gives arrays their methods
from .protocols.binary_ufuncs import *
from .protocols.ufunc import *
from .reductions import *
from .select import *
from .shape import *
from .sorting import *
from .statistics.quantiles import *

e, pi, inf, nan = 2.718281828459045, 3.141592653589793, float("inf"), float("nan")
euler_gamma = 0.5772156649015329
newaxis = None
__array_api_version__ = "2025.12"

if TYPE_CHECKING:
    from . import fft, linalg
    from .bessel import *
    from .grids import *
    from .io import *
    from .manipulation.insert_delete import *
    from .numerics.polynomials import *
    from .protocols.inspection import __array_namespace_info__
    from .sets import *
    from .spaces import *
    from .statistics.histograms import *
    from .statistics.nanreductions import *

# What few programs use: each module with its names.
_LATER = {
    "bessel": "i0",
    "manipulation.insert_delete": "delete insert",
    "grids": "c_ index_exp indices meshgrid mgrid ogrid r_ s_",
    "protocols.inspection": "__array_namespace_info__",
    "io": "array_repr array_str get_printoptions load printoptions save savez set_printoptions",
    "statistics.nanreductions": "nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "numerics.polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots",
    "sets": "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse unique_values",
    "spaces": "bartlett blackman geomspace hamming hanning kaiser linspace logspace",
    "statistics.histograms": "corrcoef cov histogram histogram2d histogram_bin_edges histogramdd",
}
__getattr__, __dir__, __all__ = _later(__name__, {"fft": ".fft", "linalg": ".linalg"} | _members(_LATER))

_install_methods(_protocol.methods(_sys.modules[__name__]))
