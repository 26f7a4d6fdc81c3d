"""Calls of every public function on arrays outside of `numpy` and `linalg`: of a namespace, name, arguments, keywords.

Arrays are NumPy's. Namespaces are those below the package, and jax's of the same name take the same calls.
"""

import numpy as np

from tests.support.calls.numpy_calls import FAMILIES as NUMPY

_rng = np.random.default_rng(1)


def _f(*shape, low=-2.0, high=2.0):
    return _rng.uniform(low, high, shape).astype(np.float32)


def _each(names, *args, **kwargs):
    return [(name, args, kwargs) for name in names.split()]


X, Y, POS, UNIT = _f(2, 3), _f(2, 3), _f(2, 3, low=0.2, high=3), _f(2, 3, low=-0.9, high=0.9)
PROB = _f(2, 3, low=0.1, high=0.9)
Q = _f(2, 3, low=0.2, high=2)
Z = (X + 1j * Y).astype(np.complex64)
N, J, BITS = np.array([[3, -1, 7], [0, 2, 5]], np.int32), np.array([[1, 2, 3], [4, 0, 6]], np.int32), X > 0
COUNTS = np.array([[0, 1, 3], [2, 5, 4]], np.int32)
ROW, IDS, KEY = _f(6), np.array([0, 2, 1, 0, 2, 2], np.int32), np.array([0, 7], np.uint32)
IMAGE, FILTER, SQUARE = _f(1, 2, 6, 5), _f(3, 2, 2, 2), _f(3, 3)
SPD = (SQUARE @ SQUARE.T + 2 * np.eye(3)).astype(np.float32)
SIZES = np.array([2, 0, 4], np.int32)


def _gather(xp):
    return xp.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))


def _scatter(xp):
    return xp.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,),
    scatter_dims_to_operand_dims=(0,))


class Of:
    """An argument that each library makes of its own `lax`."""

    def __init__(self, make):
        self.make = make


LAX = [
    *_each("abs asinh atan bessel_i0e bessel_i1e cbrt ceil cos cosh erf erfc exp exp2 expm1 floor is_finite logistic "
           "neg one_minus_square reciprocal round sign sin sinh square tan tanh stop_gradient", X),
    *_each("digamma lgamma log log1p log2 rsqrt sqrt", POS),
    *_each("acos asin atanh erf_inv", UNIT), *_each("acosh", POS + 1), *_each("conj imag real abs exp", Z),
    *_each("bitwise_not clz population_count", N),
    *_each("add atan2 complex div eq ge gt le lt max min mul ne nextafter rem sub", X, Y),
    *_each("igamma igammac igamma_grad_a random_gamma_grad pow", POS, Q), ("zeta", (POS + 1.5, Q), {}),
    ("polygamma", (np.array([[0, 1, 2], [3, 1, 0]], np.float32), POS), {}),
    *_each("bitwise_and bitwise_or bitwise_xor mulhi", N, J),
    *_each("shift_left shift_right_arithmetic shift_right_logical", N, J),
    ("betainc", (POS, Q, PROB), {}), ("clamp", (-1.0, X, 1.0), {}), ("integer_pow", (X, 3), {}),
    ("select", (BITS, X, Y), {}), ("select_n", (BITS, X, Y), {}), ("broadcast", (X, (2,)), {}),
    ("broadcast_in_dim", (X, (2, 4, 3), (0, 2)), {}), ("broadcast_shapes", ((2, 3), (2, 3)), {}),
    ("broadcast_to_rank", (X,), dict(rank=3)), ("broadcasted_iota", (np.int32, (2, 3), 1), {}),
    ("collapse", (X, 0, 2), {}), ("concatenate", ([X, Y], 0), {}), ("convert_element_type", (X, np.int32), {}),
    ("bitcast_convert_type", (X, np.int32), {}), ("expand_dims", (X, (0,)), {}), ("full", ((2,), 1.5), {}),
    ("full_like", (X, 2.0), {}), ("iota", (np.int32, 4), {}), ("pad", (X, 0.0, [(1, 0, 1), (0, -1, 0)]), {}),
    ("reshape", (X, (3, 2)), {}), ("rev", (X, (1,)), {}), ("slice", (X, (0, 1), (2, 3)), {}),
    ("slice_in_dim", (X, 0, 2), dict(axis=1)), ("split", (X, (1, 2)), dict(axis=1)), ("squeeze", (X[None], (0,)), {}),
    ("stack", ([X, Y],), {}), ("tile", (X, (2, 1)), {}), ("transpose", (X, (1, 0)), {}), ("unstack", (X,), {}),
    ("broadcast_like", (X[0], X), {}), ("argmax", (X, 1, np.int32), {}), ("argmin", (X, 0, np.int32), {}),
    *_each("reduce_sum reduce_max reduce_min reduce_prod", X, (0,)),
    *_each("reduce_and reduce_or reduce_xor", BITS, (1,)),
    *_each("cumsum cumprod cummax cummin cumlogsumexp", X, 1), ("reduce_precision", (X, 5, 4), {}), ("sort", (X,), {}),
    ("sort_key_val", (X, Y), {}), *_each("top_k approx_max_k approx_min_k", X, 2),
    ("dynamic_slice", (X, (0, 1), (1, 2)), {}), ("dynamic_slice_in_dim", (X, 1, 1), {}),
    ("dynamic_index_in_dim", (X, 1), {}),
    ("dynamic_update_slice", (X, Y[:1], (1, 0)), {}), ("dynamic_update_slice_in_dim", (X, Y[:1], 1, 0), {}),
    ("dynamic_update_index_in_dim", (X, Y[0], 1, 0), {}), ("index_in_dim", (X, 1), {}),
    ("index_take", (X, (np.array([1, 0, 1], np.int32),), (0,)), {}),
    ("gather", (X, np.array([[1], [0]], np.int32), Of(_gather), (1, 3)), {}),
    *_each("scatter scatter_add scatter_max scatter_min scatter_mul scatter_sub", X, np.array([[1]], np.int32), Y[:1],
    Of(_scatter),
           unique_indices=True),
    ("batch_matmul", (X[None], Y.T[None]), {}), ("dot", (X, Y.T), {}), ("dot_general", (X, Y, (((1,), (1,)), ((0,),
    (0,)))), {}),
    ("conv", (IMAGE, FILTER, (1, 1), "SAME"), {}), ("conv_with_general_padding", (IMAGE, FILTER, (1, 2), ((0, 1),
    (1, 0)), None, None), {}),
    ("conv_general_dilated", (IMAGE, FILTER, (2, 1), "VALID"), dict(rhs_dilation=(1, 2))),
    ("conv_general_dilated_patches", (IMAGE, (2, 2), (1, 1), "VALID"), {}),
    ("conv_general_dilated_local", (IMAGE, _f(3, 8, 5, 4), (1, 1), "VALID", (2, 2)), {}),
    ("conv_transpose", (IMAGE, FILTER, (2, 2), "SAME"), dict(dimension_numbers=("NCHW", "OIHW", "NCHW"))),
    ("ragged_dot", (_f(6, 3), _f(3, 3, 2), SIZES), {}),
]  # fmt: skip

NN = [
    *_each("celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid log_softmax "
           "logmeanexp logsumexp mish relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus "
           "sparse_sigmoid squareplus standardize swish tanh", _f(2, 4)),
    ("log1mexp", (POS,), {}), ("one_hot", (IDS, 3), {}), ("gelu", (X,), dict(approximate=False)),
    ("softmax", (X,), dict(axis=0, where=BITS)),
    ("dot_product_attention", (_f(1, 3, 2, 4), _f(1, 5, 2, 4), _f(1, 5, 2, 4)), {}),
]  # fmt: skip

SPECIAL = [
    *_each("digamma gammaln gamma i0 i0e i1 i1e erf erfc erfcx dawsn expit ndtr log_ndtr entr loggamma gammasgn "
           "spence sici fresnel exp1 expi factorial", POS),
    *_each("erf erfc erfcx dawsn expit ndtr log_ndtr entr i0 i1 i0e i1e sici fresnel expi wofz gammasgn", X),
    *_each("logit ndtri", PROB),
    ("erfinv", (UNIT,), {}), ("erfcinv", (PROB,), {}),
    *_each("beta betaln gammainc gammaincc xlogy xlog1py rel_entr kl_div owens_t boxcox boxcox1p", POS, Q),
    ("comb", (6.0, COUNTS), {}), ("poch", (POS, COUNTS), {}), ("betainc", (POS, Q, PROB), {}),
    ("hyp1f1", (POS, Q, UNIT), {}), ("hyp2f1", (POS, Q, POS + 1, PROB / 2), {}), ("expn", (J + 1, POS), {}),
    ("polygamma", (J % 3, POS), {}), ("zeta", (POS + 1.5, Q), {}), ("multigammaln", (POS + 2, 2), {}),
    ("logsumexp", (X,), dict(axis=1)), ("softmax", (X,), dict(axis=1)), ("log_softmax", (X,), dict(axis=0)),
    ("bernoulli", (4,), {}), ("sph_harm_y", (np.array([2, 1]), np.array([1, 0]), ROW[:2], ROW[2:4]), dict(n_max=2)),
    ("lpmn", (2, 2, np.array([0.3, -0.5], np.float32)), {}),
    ("lpmn_values", (2, 2, np.array([0.3, -0.5], np.float32), True), {}),
]  # fmt: skip

_PDF, _CDF, _TAILS = "logpdf pdf ", "cdf logcdf ", "sf logsf "


def _dist(name, functions, *args, **kwargs):
    return [(f"{name}.{f}", args, kwargs) for f in functions.split()]


SIMPLEX = np.array([0.2, 0.3, 0.5], np.float32)
STATS = [
    *_dist("bernoulli", "pmf logpmf cdf", J % 2, PROB), *_dist("bernoulli", "ppf", PROB, PROB),
    *_dist("beta", _PDF + _CDF + _TAILS, PROB, POS, Q), *_dist("betabinom", "pmf logpmf", COUNTS, 6.0, POS, Q),
    *_dist("binom", "pmf logpmf", COUNTS, 6.0, PROB), *_dist("cauchy", _PDF + _CDF + _TAILS, X, Y, POS),
    *_dist("cauchy", "ppf isf", PROB), *_dist("chi2", _PDF + _CDF + _TAILS, POS, Q),
    *_dist("dirichlet", "pdf logpdf", SIMPLEX, POS[0]), *_dist("expon", _PDF + _CDF + _TAILS, POS),
    *_dist("expon", "ppf", PROB),
    *_dist("gamma", _PDF + _CDF + _TAILS, POS, Q), *_dist("gennorm", _PDF + "cdf", X, POS),
    *_dist("geom", "pmf logpmf", J, PROB),
    *_dist("gumbel_l", _PDF + _CDF + _TAILS, X, Y, POS), *_dist("gumbel_l", "ppf", PROB),
    *_dist("gumbel_r", _PDF + _CDF + _TAILS, X, Y, POS), *_dist("gumbel_r", "ppf", PROB),
    *_dist("laplace", _PDF + "cdf", X, Y, POS),
    *_dist("logistic", _PDF + "cdf sf", X, Y, POS), *_dist("logistic", "ppf isf", PROB),
    *_dist("multinomial", "pmf logpmf", np.array([1, 2, 3]), 6, SIMPLEX),
    *_dist("multivariate_normal", "pdf logpdf", X, Y[0], SPD),
    *_dist("nbinom", "pmf logpmf", COUNTS, POS, PROB), *_dist("norm", _PDF + _CDF + _TAILS, X, Y, POS),
    *_dist("norm", "ppf isf", PROB),
    *_dist("pareto", _PDF + _CDF + _TAILS, POS + 1, Q), *_dist("pareto", "ppf", PROB, Q),
    *_dist("poisson", "pmf logpmf cdf", COUNTS, POS),
    *_dist("poisson", "entropy", POS), *_dist("t", _PDF, X, POS),
    *_dist("truncnorm", _PDF + _CDF + _TAILS, UNIT, -1.0, 2.0),
    *_dist("uniform", _PDF + "cdf", X, -1.0, 2.0), *_dist("uniform", "ppf", PROB), *_dist("vonmises", _PDF, X, POS),
    *_dist("wrapcauchy", _PDF, X, PROB), ("mode", (N,), {}), ("rankdata", (X,), {}), ("sem", (X,), {}),
]  # fmt: skip

FFT = [
    *_each("rfft rfft2 rfftn ihfft", X), *_each("fft ifft hfft irfft fft2 ifft2 fftn ifftn irfft2 irfftn", Z),
    *((name, (Z, 4), dict(norm="ortho")) for name in ("fft", "ifft", "irfft", "hfft")),
    *_each("fftfreq rfftfreq", 5, 0.5), *_each("fftshift ifftshift", X),
]  # fmt: skip

OTHERS = {
    "ops": _each("segment_sum segment_prod segment_max segment_min", ROW, IDS, 3),
    "image": [
        *(("resize", (_f(4, 5, 2), (3, 7, 2), method), {}) for method in ("nearest", "linear", "cubic", "lanczos3")),
        ("scale_and_translate", (_f(4, 5), (3, 7),
        (0, 1), np.array([0.7, 1.3], np.float32), np.array([0.2, -0.5], np.float32), "linear"), {}),
    ],
    "scipy.fft": [*_each("dct idct", X), *_each("dctn idctn", X), ("dct", (X,), dict(norm="ortho", axis=0))],
    "scipy.signal": [
        *_each("convolve correlate fftconvolve", X, Y[:, :2]), *_each("convolve2d correlate2d", X, Y[:, :2]),
        ("detrend", (X,), {}),
        ("welch", (_f(16),), dict(nperseg=8)), ("csd", (_f(16), _f(16)), dict(nperseg=8)),
        ("stft", (_f(16),), dict(nperseg=8)),
    ],
    "scipy.integrate": [("trapezoid", (X,), {})],
    "scipy.cluster.vq": [("vq", (X, Y), {})],
    "scipy.ndimage": [("map_coordinates", (SQUARE, [PROB, PROB], 1), {})],
    "random": [
        *((name, (KEY,), dict(shape=(4,))) for name in (
            "normal uniform exponential gumbel laplace logistic cauchy rademacher maxwell double_sided_maxwell bits"
        ).split()),
        ("randint", (KEY, (4,), 0, 9), {}), ("truncated_normal", (KEY, -1.0, 1.0, (4,)), {}),
        ("bernoulli", (KEY, PROB), {}),
        *_each("beta f", KEY, POS, Q, (2, 3)),
        *_each("gamma loggamma chisquare poisson t pareto rayleigh wald lognormal", KEY, POS, (2, 3)),
        ("binomial", (KEY, 6.0, PROB, (2, 3)), {}), ("geometric", (KEY, PROB), {}), ("dirichlet", (KEY, POS), {}),
        ("categorical", (KEY, X), {}), ("choice", (KEY, 5, (3,)), dict(replace=False)), ("permutation", (KEY, X), {}),
        ("multivariate_normal", (KEY, Y[0], SPD), {}), ("multinomial", (KEY, 6.0, SIMPLEX), {}),
        ("orthogonal", (KEY, 3), {}),
        ("triangular", (KEY, -1.0, 0.2, 1.0, (4,)), {}), ("weibull_min", (KEY, POS, Q, (2, 3)), {}),
        ("ball", (KEY, 3), {}),
        ("generalized_normal", (KEY, 1.5, (4,)), {}), ("split", (KEY,), {}), ("fold_in", (KEY, 3), {}),
    ],
}  # fmt: skip

_ORDER = np.array([[2, 0, 1], [1, 2, 0]], np.int32)
MORE = [  # what NumPy answers otherwise, or changes in place
    *_each("argpartition partition", X, 1), *_each("bitwise_invert", N), ("bitwise_left_shift", (J, J), {}),
    *_each("diag_indices_from triu_indices_from", SQUARE), *_each("iscomplexobj isrealobj", X), ("top_k", (X, 2), {}),
    ("fill_diagonal", (SQUARE, 2.0), dict(inplace=False)), ("place", (X, BITS, Y), dict(inplace=False)),
    ("put", (X, np.array([0, 4]), ROW[:2]), dict(inplace=False)),
    ("put_along_axis", (X, _ORDER, Y, 1), dict(inplace=False)),
    *_each("unique_all unique_counts unique_inverse unique_values", N), ("mask_indices", (3, np.triu), {}),
]  # fmt: skip

CALLS = {
    "numpy": [call for family, calls in NUMPY.items() if family != "linalg" for call in calls] + MORE,
    "numpy.linalg": NUMPY["linalg"],
    "lax": LAX, "nn": NN, "scipy.special": SPECIAL, "scipy.stats": STATS, "numpy.fft": FFT, **OTHERS,
}  # fmt: skip

# Functions whose laws are tested in other files (those of linalg: linalg_calls.py), questions, types, conversions.
ELSEWHERE = {
    "numpy": (
        "ComplexWarning array_repr array_str bool_ broadcast_shapes can_cast cdouble character complex128 complex64 "
        "complex_ complexfloating csingle double dtype einsum_path empty empty_like finfo flexible float16 float32 "
        "float64 float_ floating from_dlpack fromfile fromiter frompyfunc fromstring generic get_printoptions iinfo "
        "inexact int16 int32 int64 int8 int_ integer isdtype isscalar issubdtype iterable load ndarray number object_ "
        "printoptions promote_types result_type save savez set_printoptions signedinteger single ufunc uint uint16 "
        "uint32 uint64 uint8 unsignedinteger vectorize"
    ),
    "numpy.linalg": (
        "cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_rank pinv qr slogdet solve svd svdvals "
        "tensorinv tensorsolve"
    ),
    "lax": (
        "AccuracyMode ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers DotAlgorithm DotAlgorithmPreset "
        "DotDimensionNumbers FftType GatherDimensionNumbers GatherScatterMode Precision PrecisionLike "
        "RaggedDotDimensionNumbers RandomAlgorithm RoundingMethod ScatterDimensionNumbers Tolerance after_all "
        "all_gather all_to_all associative_scan axis_index axis_size composite cond conv_dimension_numbers "
        "custom_linear_solve custom_root empty fft fori_loop map optimization_barrier pbroadcast platform_dependent "
        "pmax pmean pmin ppermute pshuffle psum psum_scatter pswapaxes ragged_dot_general reduce reduce_window "
        "rng_bit_generator rng_uniform scaled_dot scan scatter_apply stage switch while_loop with_sharding_constraint "
        "conv_general_permutations polynomial precv psend ragged_all_to_all"
    ),
    "nn": "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
    "scipy.stats": "gaussian_kde",
    "image": "ResizeMethod",
    "scipy.signal": "istft",
    "random": "Key PRNGKey clone key key_data key_dtype wrap_key_data",
}
# Calls whose results depend in size on the values, or that want an array of ours.
UNEVEN = {("numpy", name) for name in "trim_zeros roots fill_diagonal place put put_along_axis".split()}
# Calls whose derivatives are not those of differences at these points, and why.
NOT_SMOOTH = {
    ("numpy", "nan_to_num"): "NaN among the operands",
    ("numpy", "mod"): "a quotient that is whole",
    ("numpy", "mean"): "computed in half precision",
    ("numpy", "quantile"): "the nearest of two elements",
    ("lax", "stop_gradient"): "its derivative is 0 by intent",
    ("lax", "reduce_precision"): "steps",
    ("scipy.stats", "dirichlet.pdf"): "outside of the simplex the density is 0",
    ("scipy.stats", "dirichlet.logpdf"): "outside of the simplex the density is 0",
}
