"""`jax.lax`'s names: the primitives of the core and the functions over them, by their families' `__all__`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.api.associative_scan import *
from ..core.primitives.contraction.conv import *
from ..core.primitives.contraction.dot_general import *
from ..core.primitives.control_flow.cond import *
from ..core.primitives.control_flow.scan import *
from ..core.primitives.control_flow.while_loop import *
from ..core.primitives.custom.checkpoint import *
from ..core.primitives.elementwise.arithmetic import *
from ..core.primitives.elementwise.bitwise import *
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
from .examples import add_examples as _add_examples

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
    from .horner import one_minus_square, polynomial
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
_OWN |= {name: f".horner:{name}" for name in ("one_minus_square", "polynomial")}
_OWN |= {"ragged_all_to_all": ".ragged_exchange:ragged_all_to_all"}
_OWN |= {"with_sharding_constraint": "..core.sharding.mesh:with_sharding_constraint"}
_OWN |= {name: f".ragged:{name}" for name in ("RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general")}

if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(__name__, _OWN | _RARE)

__all__ = [
    "AccuracyMode", "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "DotAlgorithm", "DotAlgorithmPreset",
    "DotDimensionNumbers", "FftType", "GatherDimensionNumbers", "GatherScatterMode", "Precision", "PrecisionLike",
    "RaggedDotDimensionNumbers", "RandomAlgorithm", "RoundingMethod", "ScatterDimensionNumbers", "Tolerance", "abs",
    "abs_p", "acos", "acos_p", "acosh", "acosh_p", "add", "add_p", "after_all", "all_gather", "all_gather_p",
    "all_to_all", "all_to_all_p", "and_p", "approx_max_k", "approx_min_k", "argmax", "argmax_p", "argmin", "argmin_p",
    "asin", "asin_p", "asinh", "asinh_p", "associative_scan", "atan", "atan2", "atan2_p", "atan_p", "atanh", "atanh_p",
    "axis_index", "axis_index_p", "axis_size", "batch_matmul", "bessel_i0e", "bessel_i0e_p", "bessel_i1e",
    "bessel_i1e_p", "betainc", "bitcast_convert_type", "bitcast_convert_type_p", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "broadcast", "broadcast_in_dim", "broadcast_in_dim_p", "broadcast_like",
    "broadcast_shapes", "broadcast_to_rank", "broadcasted_iota", "cbrt", "cbrt_p", "ceil", "ceil_p", "clamp", "clamp_p",
    "clz", "clz_p", "collapse", "complex", "complex_p", "composite", "concatenate", "concatenate_p", "cond", "cond_p",
    "conj", "conj_p", "conv", "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local",
    "conv_general_dilated_p", "conv_general_dilated_patches", "conv_general_permutations", "conv_transpose",
    "conv_with_general_padding", "convert_element_type", "convert_element_type_p", "copy_p", "cos", "cos_p", "cosh",
    "cosh_p", "create_token", "cumlogsumexp", "cumlogsumexp_p", "cummax", "cummax_p", "cummin", "cummin_p", "cumprod",
    "cumprod_p", "cumsum", "cumsum_p", "custom_linear_solve", "custom_root", "digamma", "digamma_p", "div", "div_p",
    "dot", "dot_general", "dot_general_p", "dtype", "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim",
    "dynamic_slice_p", "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim",
    "dynamic_update_slice_p", "empty", "eq", "eq_p", "erf", "erf_inv", "erf_inv_p", "erf_p", "erfc", "erfc_p", "exp",
    "exp2", "exp2_p", "exp_p", "expand_dims", "expm1", "expm1_p", "fft", "fft_p", "floor", "floor_p", "fori_loop",
    "full", "full_like", "gather", "gather_p", "ge", "ge_p", "gt", "gt_p", "igamma", "igamma_grad_a", "igamma_grad_a_p",
    "igamma_p", "igammac", "igammac_p", "imag", "imag_p", "index_in_dim", "index_take", "integer_pow", "integer_pow_p",
    "iota", "iota_p", "is_finite", "is_finite_p", "le", "le_p", "lgamma", "lgamma_p", "linalg", "log", "log1p",
    "log1p_p", "log2", "log_p", "logistic", "logistic_p", "lt", "lt_p", "map", "max", "max_p", "min", "min_p", "mul",
    "mul_p", "mulhi", "mulhi_p", "ne", "ne_p", "neg", "neg_p", "nextafter", "nextafter_p", "not_p", "one_minus_square",
    "optimization_barrier", "optimization_barrier_p", "or_p", "pad", "pad_p", "padtype_to_pads", "pbroadcast", "pcast",
    "platform_dependent", "pmax", "pmax_p", "pmean", "pmin", "pmin_p", "polygamma", "polygamma_p", "polynomial",
    "population_count", "population_count_p", "pow", "pow_p", "ppermute", "ppermute_p", "pshuffle", "psum", "psum_p",
    "psum_scatter", "pswapaxes", "pvary", "ragged_all_to_all", "ragged_dot", "ragged_dot_general", "random_gamma_grad",
    "real", "real_p", "reciprocal", "reduce", "reduce_and", "reduce_and_p", "reduce_max", "reduce_max_p", "reduce_min",
    "reduce_min_p", "reduce_or", "reduce_or_p", "reduce_p", "reduce_precision", "reduce_precision_p", "reduce_prod",
    "reduce_prod_p", "reduce_sum", "reduce_sum_p", "reduce_window", "reduce_window_max_p", "reduce_window_min_p",
    "reduce_window_p", "reduce_window_sum_p", "reduce_xor", "reduce_xor_p", "regularized_incomplete_beta_p", "rem",
    "rem_p", "reshape", "reshape_p", "rev", "rev_p", "rng_bit_generator", "rng_uniform", "rng_uniform_p", "round",
    "round_p", "rsqrt", "rsqrt_p", "scaled_dot", "scan", "scan_p", "scatter", "scatter_add", "scatter_add_p",
    "scatter_apply", "scatter_max", "scatter_max_p", "scatter_min", "scatter_min_p", "scatter_mul", "scatter_mul_p",
    "scatter_p", "scatter_sub", "scatter_sub_p", "select", "select_and_gather_add_p", "select_and_scatter_add_p",
    "select_n", "select_n_p", "shape_as_value", "shift_left", "shift_left_p", "shift_right_arithmetic",
    "shift_right_arithmetic_p", "shift_right_logical", "shift_right_logical_p", "sign", "sign_p", "sin", "sin_p",
    "sinh", "sinh_p", "slice", "slice_in_dim", "slice_p", "sort", "sort_key_val", "sort_p", "split", "split_p", "sqrt",
    "sqrt_p", "square", "square_p", "squeeze", "squeeze_p", "stack", "stage", "stop_gradient", "stop_gradient_p", "sub",
    "sub_p", "switch", "tan", "tan_p", "tanh", "tanh_p", "tile", "top_k", "top_k_p", "transpose", "transpose_p",
    "unstack", "while_loop", "while_p", "while_vjp_p", "with_sharding_constraint", "xor_p", "zeta", "zeta_p",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy

_add_examples(globals())
