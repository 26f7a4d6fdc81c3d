"""`jax.numpy`'s names over the primitives of the core: those that each module here lists in its `__all__`."""

import sys as _sys

from ..core.operators import install_methods as _install_methods
from ..core.primitives.shape import broadcast_shapes
from ..core.trace import Value as ndarray
from . import fft, linalg
from . import methods as _methods  # gives arrays their methods
from . import protocol as _protocol
from .arithmetic import *
from .bessel import *
from .calculus import *
from .contract import *
from .create import *
from .cumulative import *
from .dtypes import *
from .dtypes import bool_ as bool
from .edit import *
from .elementwise import *
from .functional import *
from .grids import *
from .index import *
from .io import *
from .join import *
from .matrices import *
from .nanreductions import *
from .pad import *
from .quantiles import *
from .reductions import *
from .repeat import *
from .select import *
from .sets import *
from .shape import *
from .sorting import *
from .spaces import *
from .statistics import *
from .ufunc_object import *
from .ufuncs import *

e, pi, inf, nan = 2.718281828459045, 3.141592653589793, float("inf"), float("nan")
euler_gamma = 0.5772156649015329
newaxis = None

_install_methods(_protocol.methods(_sys.modules[__name__]))
