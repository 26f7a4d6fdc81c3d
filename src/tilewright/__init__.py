"""Tilewright: kernels in Python that run compiled, differentiate and batch, and the array framework made of them.

    import tilewright as tw
    from tilewright import lang as tl, numpy as tnp

Names and meaning are JAX's wherever JAX has the thing.
"""
# ruff: noqa: E402

from .core.version import __version__, check_jaxlib

check_jaxlib()

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from . import compile as _compile
from . import errors, numpy, tree
from .compile import compile
from .core.api import (
    ShapeDtypeStruct,
    eval_shape,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linear_transpose,
    linearize,
    make_jaxpr,
    value_and_grad,
    vjp,
    vmap,
)
from .core.config import (
    config,
    debug_infs,
    debug_nans,
    default_device,
    default_matmul_precision,
    disable_jit,
    enable_x64,
    numpy_dtype_promotion,
    numpy_rank_promotion,
)
from .core.jit import jit
from .core.primitive import Primitive
from .core.primitives.callback import io_callback, pure_callback
from .core.primitives.checkpoint import checkpoint, checkpoint_policies, remat
from .core.primitives.convert import stop_gradient
from .core.primitives.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp
from .core.trace import ensure_compile_time_eval, named_scope, typeof
from .core.types import FLOAT0 as float0
from .runtime import (
    block_until_ready,
    clear_caches,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    effects_barrier,
    live_arrays,
    local_device_count,
    local_devices,
    process_count,
    process_index,
)
from .xla_backend.array import Array

_compile.install()

# What is imported when it is first used, so that a program pays only for what it needs: name -> module, attribute.
_LATER = {
    name: (f".{name}", None) for name in ("debug", "flatten_util", "lang", "lax", "nn", "random", "scipy", "tree_util")
}
_LATER |= {"tuning": (".tuning", None), "autotune": (".tuning", "autotune"), "tune": (".tuning", "tune")}
_LATER |= {"explain": (".explanation", "explain")}

if TYPE_CHECKING:
    from . import debug, flatten_util, lang, lax, nn, random, scipy, tree_util, tuning
    from .explanation import explain
    from .tuning import autotune, tune


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    module, attribute = _LATER[name]
    found = _import_module(module, __name__)
    return found if attribute is None else getattr(found, attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
