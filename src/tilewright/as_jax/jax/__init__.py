"""`jax` itself: the names of this package, and the adapted modules of jax's insides, each when it is asked for."""

from __future__ import annotations

import sys

from ... import config as config
from ..facade import facade
from ..jaxprs import make_jaxpr as make_jaxpr
from ..table import PACKAGE
from .version import __version__ as __version__
from .version import __version_info__ as __version_info__

__getattr__ = facade("jax")


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(sys.modules[PACKAGE])})
