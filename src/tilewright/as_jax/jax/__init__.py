"""`jax` itself: the names of this package, and the adapted modules of jax's insides, each when it is asked for."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ... import config as config
from ...sharding import AxisType, Mesh
from ...sharding import make_mesh as own_make_mesh
from ..facade import facade
from ..jaxprs import make_jaxpr as make_jaxpr
from ..options import NAMES, option
from ..table import PACKAGE
from .version import __version__ as __version__
from .version import __version_info__ as __version_info__

__getattr__: Callable[..., Any] = facade("jax")
globals().update({name: option(name) for name in NAMES})


@functools.wraps(own_make_mesh)
def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None, **how: Any) -> Mesh:
    """As that of this package, with axes of the type `Explicit` where no types are given, as in jax."""
    return own_make_mesh(axis_shapes, axis_names, AxisType.Explicit if axis_types is None else axis_types, **how)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(sys.modules[PACKAGE])})
