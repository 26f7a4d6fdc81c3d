"""`jax.lax`'s names: the primitives of the core and the functions over them, by their families' `__all__`."""

from typing import TYPE_CHECKING

from ..core.associative import *
from ..core.later import later as _later
from ..core.primitives.checkpoint import *
from ..core.primitives.collective import *
from ..core.primitives.compare import *
from ..core.primitives.cond import *
from ..core.primitives.contract import *
from ..core.primitives.conv import *
from ..core.primitives.convert import *
from ..core.primitives.cumulative import *
from ..core.primitives.elementwise import *
from ..core.primitives.gather import *
from ..core.primitives.indexed import *
from ..core.primitives.loops import *
from ..core.primitives.positions import *
from ..core.primitives.reduce import *
from ..core.primitives.scan import *
from ..core.primitives.scatter import *
from ..core.primitives.shape import *
from ..core.primitives.slicing import *
from ..core.primitives.sort import *
from ..core.primitives.special import *
from ..core.primitives.window import *

if TYPE_CHECKING:
    from ..core.mesh import with_sharding_constraint
    from ..core.primitives.accuracy import AccuracyMode, Tolerance
    from ..core.primitives.algorithms import (
        ConvGeneralDilatedDimensionNumbers,
        DotAlgorithm,
        DotAlgorithmPreset,
        PrecisionLike,
    )
    from ..core.primitives.fft import FftType, fft, fft_p
    from ..core.primitives.hidden import rng_uniform, rng_uniform_p
    from ..core.primitives.philox import RandomAlgorithm, rng_bit_generator
    from ..core.primitives.scaled import scaled_dot
    from ..core.primitives.solves import custom_linear_solve, custom_root
    from ..core.primitives.staged import (
        after_all,
        broadcast_like,
        create_token,
        empty,
        platform_dependent,
        shape_as_value,
        stage,
    )
    from . import linalg
    from .composites import composite
    from .ragged import RaggedDotDimensionNumbers, ragged_dot, ragged_dot_general
    from .ragged_exchange import ragged_all_to_all

# What few programs use: a module of the core, and its names.
_FAMILIES = {
    "fft": ("FftType", "fft", "fft_p"),
    "hidden": ("rng_uniform", "rng_uniform_p"),
    "philox": ("RandomAlgorithm", "rng_bit_generator"),
    "staged": ("after_all", "broadcast_like", "create_token", "empty", "platform_dependent", "shape_as_value",
               "stage"),
    "accuracy": ("AccuracyMode", "Tolerance"),
    "algorithms": ("ConvGeneralDilatedDimensionNumbers", "DotAlgorithm", "DotAlgorithmPreset", "PrecisionLike"),
    "scaled": ("scaled_dot",),
    "solves": ("custom_linear_solve", "custom_root"),
}
_RARE = {name: f"..core.primitives.{module}:{name}" for module, names in _FAMILIES.items() for name in names}

_OWN = {"linalg": ".linalg", "composite": ".composites:composite"}
_OWN |= {"ragged_all_to_all": ".ragged_exchange:ragged_all_to_all"}
_OWN |= {"with_sharding_constraint": "..core.mesh:with_sharding_constraint"}
_OWN |= {name: f".ragged:{name}" for name in ("RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general")}

__getattr__, __dir__, __all__ = _later(__name__, _OWN | _RARE)
