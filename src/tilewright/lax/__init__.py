"""`jax.lax`'s names: the primitives of the core and the functions over them, by their families' `__all__`."""

from typing import TYPE_CHECKING

from ..core.api.associative_scan import *
from ..core.primitives.contraction.conv import *
from ..core.primitives.contraction.dot_general import *
from ..core.primitives.control_flow.cond import *
from ..core.primitives.control_flow.scan import *
from ..core.primitives.control_flow.while_loop import *
from ..core.primitives.custom.checkpoint import *
from ..core.primitives.elementwise.arithmetic import *
from ..core.primitives.elementwise.comparison import *
from ..core.primitives.elementwise.conversion import *
from ..core.primitives.movement.dynamic_slice import *
from ..core.primitives.movement.gather_dimension_numbers import *
from ..core.primitives.movement.gather_functions import *
from ..core.primitives.movement.gather_scatter import *
from ..core.primitives.movement.scatter_functions import *
from ..core.primitives.movement.shape import *
from ..core.primitives.movement.sort import *
from ..core.primitives.reduction.reduce import *
from ..core.primitives.reduction.reduce_window import *
from ..core.primitives.special.cumulative import *
from ..core.primitives.special.functions import *
from ..core.primitives.spmd.collective import *
from ..core.support.lazy_imports import later as _later

if TYPE_CHECKING:
    from ..core.primitives.contraction.dot_algorithms import (
        ConvGeneralDilatedDimensionNumbers,
        DotAlgorithm,
        DotAlgorithmPreset,
        PrecisionLike,
    )
    from ..core.primitives.contraction.fft import FftType, fft, fft_p
    from ..core.primitives.contraction.scaled_dot import scaled_dot
    from ..core.primitives.custom.implicit_solves import custom_linear_solve, custom_root
    from ..core.primitives.elementwise.accuracy import AccuracyMode, Tolerance
    from ..core.primitives.external.staging import (
        after_all,
        broadcast_like,
        create_token,
        empty,
        platform_dependent,
        shape_as_value,
        stage,
    )
    from ..core.primitives.rng.philox import RandomAlgorithm, rng_bit_generator
    from ..core.primitives.rng.stateful_rng import rng_uniform, rng_uniform_p
    from ..core.sharding.mesh import with_sharding_constraint
    from . import linalg
    from .composites import composite
    from .ragged import RaggedDotDimensionNumbers, ragged_dot, ragged_dot_general
    from .ragged_exchange import ragged_all_to_all

# What few programs use: a module of the core, and its names.
_FAMILIES = {
    "contraction.fft": ("FftType", "fft", "fft_p"),
    "rng.stateful_rng": ("rng_uniform", "rng_uniform_p"),
    "rng.philox": ("RandomAlgorithm", "rng_bit_generator"),
    "external.staging": (
        "after_all", "broadcast_like", "create_token", "empty", "platform_dependent", "shape_as_value", "stage",
    ),
    "elementwise.accuracy": ("AccuracyMode", "Tolerance"),
    "contraction.dot_algorithms": (
        "ConvGeneralDilatedDimensionNumbers", "DotAlgorithm", "DotAlgorithmPreset", "PrecisionLike",
    ),
    "contraction.scaled_dot": ("scaled_dot",),
    "custom.implicit_solves": ("custom_linear_solve", "custom_root"),
}  # fmt: skip
_RARE = {name: f"..core.primitives.{module}:{name}" for module, names in _FAMILIES.items() for name in names}

_OWN = {"linalg": ".linalg", "composite": ".composites:composite"}
_OWN |= {"ragged_all_to_all": ".ragged_exchange:ragged_all_to_all"}
_OWN |= {"with_sharding_constraint": "..core.sharding.mesh:with_sharding_constraint"}
_OWN |= {name: f".ragged:{name}" for name in ("RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general")}

__getattr__, __dir__, __all__ = _later(__name__, _OWN | _RARE)
