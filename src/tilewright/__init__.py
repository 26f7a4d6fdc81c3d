"""Tilewright: kernels in Python that run compiled, differentiate, batch and tune, and the array framework made of them.

    import tilewright as tw
    from tilewright import lang as tl, numpy as tnp

Names and meaning are JAX's wherever JAX has the thing.
"""

from ._version import __version__, check_jaxlib

check_jaxlib()

from . import compile as _compile  # noqa: E402
from . import flatten_util, lang, lax, nn, numpy, random, scipy, tree, tree_util  # noqa: E402
from . import runtime as _runtime  # noqa: E402
from .compile import compile  # noqa: E402
from .core import errors  # noqa: E402
from .core.api import (  # noqa: E402
    ShapeDtypeStruct,
    eval_shape,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linear_transpose,
    linearize,
    make_jaxpr,
    value_and_grad,
    vjp,
    vmap,
)
from .core.config import config  # noqa: E402
from .core.jit import jit  # noqa: E402
from .core.primitive import Primitive  # noqa: E402
from .core.primitives import callback as _callback  # noqa: E402
from .core.primitives.callback import io_callback, pure_callback  # noqa: E402
from .core.primitives.checkpoint import checkpoint, checkpoint_policies, remat  # noqa: E402
from .core.primitives.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp  # noqa: E402
from .core.primitives.convert import stop_gradient  # noqa: E402
from .core.trace import ensure_compile_time_eval, named_scope, typeof  # noqa: E402
