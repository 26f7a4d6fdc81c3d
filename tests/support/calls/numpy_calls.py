"""Calls of `tilewright.numpy` that NumPy answers too: name, arguments, keywords, family by family.

Arrays are given as NumPy's; the test hands them to both libraries as they are.
"""

import numpy as np

_rng = np.random.default_rng(0)


def f(*shape, low=-2.0, high=2.0, dtype=np.float32):
    return _rng.uniform(low, high, shape).astype(dtype)


def i(*shape, low=-5, high=6, dtype=np.int32):
    return _rng.integers(low, high, shape).astype(dtype)


def b(*shape):
    return _rng.integers(0, 2, shape).astype(bool)


def c(*shape):
    return (f(*shape) + 1j * f(*shape)).astype(np.complex64)


NAN = np.array([[1.0, np.nan, 3.0, -2.0], [np.nan, np.nan, np.nan, np.nan], [0.5, 2.0, -np.inf, np.inf]], np.float32)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.5, -2.5], np.float32)
F34, F345, I34, B34, C34 = f(3, 4), f(3, 4, 5), i(3, 4), b(3, 4), c(3, 4)
POS = f(3, 4, low=0.1, high=3.0)
LINE = np.linspace(-1, 1, 12, dtype=np.float32)
WAVES = np.stack([np.sin(4 * LINE), np.cos(3 * LINE)], 1)
UNIT = f(3, 4, low=-0.9, high=0.9)

UNARY = [
    *(
        (name, (F34,), {})
        for name in (
            "exp exp2 expm1 sin cos tan sinh cosh tanh arctan arcsinh cbrt floor ceil rint trunc abs "
            "absolute fabs sign positive "
            "square reciprocal deg2rad rad2deg degrees radians sinc real imag conj conjugate angle "
            "signbit spacing i0 negative "
            "isfinite isinf isnan isposinf isneginf isreal iscomplex nan_to_num logical_not atan asinh"
        ).split()
    ),
    *((name, (POS,), {}) for name in "log log2 log10 log1p sqrt".split()),
    *((name, (UNIT,), {}) for name in "arcsin arccos arctanh asin acos atanh".split()),
    *((name, (POS + 1,), {}) for name in "arccosh acosh".split()),
    *(
        (name, (I34,), {})
        for name in "abs sign square invert bitwise_not bitwise_count negative floor exp isnan logical_not real".split()
    ),
    *(
        (name, (C34,), {})
        for name in "exp log sqrt abs angle conj real imag isfinite sign square sin tanh isreal iscomplex".split()
    ),
    *(
        (name, (SPECIAL,), {})
        for name in (
            "floor ceil rint trunc sign signbit isfinite isinf isnan nan_to_num isposinf modf frexp abs reciprocal"
        ).split()
    ),
    ("nan_to_num", (SPECIAL,), dict(nan=1.0, posinf=5.0, neginf=-5.0)),
    ("round", (F34,), {}),
    ("round", (F34, 2), {}),
    ("round", (F34 * 100, -1), {}),
    ("around", (F34, 1), {}),
    ("angle", (C34,), dict(deg=True)),
    ("modf", (F34,), {}),
    ("frexp", (F34,), {}),
    ("unwrap", (f(10, low=0, high=9),), {}),
    ("invert", (B34,), {}),
    ("sinc", (np.array([0.0, 0.5, 1.0], np.float32),), {}),
]

BINARY = [
    *(
        (name, (F34, f(4)), {})
        for name in (
            "add subtract multiply divide true_divide floor_divide mod remainder fmod divmod maximum "
            "minimum fmax fmin arctan2 atan2 "
            "hypot copysign equal not_equal less less_equal greater greater_equal logical_and "
            "logical_or logical_xor logaddexp "
            "logaddexp2 heaviside isclose nextafter"
        ).split()
    ),
    *(
        (name, (I34, i(4, low=1, high=6)), {})
        for name in (
            "add subtract multiply divide floor_divide mod remainder fmod divmod maximum minimum gcd "
            "lcm bitwise_and bitwise_or "
            "bitwise_xor left_shift power equal less logical_and"
        ).split()
    ),
    *((name, (B34, b(4)), {}) for name in "add multiply bitwise_and logical_xor maximum equal bitwise_or".split()),
    *((name, (C34, c(4)), {}) for name in "add subtract multiply divide equal".split()),
    ("right_shift", (I34, np.int32(1)), {}),
    ("bitwise_right_shift", (i(3, low=0, high=100, dtype=np.uint8), np.uint8(2)), {}),
    ("left_shift", (I34, np.int32(2)), {}),
    ("power", (POS, f(4)), {}),
    ("power", (F34, 3), {}),
    ("power", (F34, -2), {}),
    ("float_power", (i(3, low=1, high=5), i(3, low=-2, high=3)), {}),
    ("pow", (POS, 0.5), {}),
    ("ldexp", (F34, i(4)), {}),
    ("fmax", (SPECIAL, SPECIAL[::-1].copy()), {}),
    ("fmin", (SPECIAL, SPECIAL[::-1].copy()), {}),
    ("maximum", (SPECIAL, SPECIAL[::-1].copy()), {}),
    ("hypot", (SPECIAL, SPECIAL[::-1].copy()), {}),
    ("logaddexp", (SPECIAL, SPECIAL[::-1].copy()), {}),
    ("copysign", (SPECIAL, SPECIAL[::-1].copy()), {}),
    ("isclose", (SPECIAL, SPECIAL), dict(equal_nan=True)),
    ("isclose", (F34, F34 + np.float32(1e-3)), dict(rtol=1e-2)),
    ("allclose", (F34, F34), {}),
    ("array_equal", (F34, F34), {}),
    ("array_equal", (NAN, NAN), dict(equal_nan=True)),
    ("array_equiv", (F34, F34[None]), {}),
    ("clip", (F34, -1, 1), {}),
    ("clip", (F34,), dict(min=0.0)),
    ("clip", (I34,), dict(max=2)),
    ("where", (B34, F34, f(4)), {}),
    ("where", (F34 > 0, 1, 0), {}),
    ("floor_divide", (f(5, low=-9, high=9), np.float32(-2)), {}),
]

_OVER_AXES = [dict(), dict(axis=0), dict(axis=-1, keepdims=True), dict(axis=(0, 2))]
REDUCTIONS = [
    *(
        (name, (F345,), kw)
        for name in "sum prod max min mean var std any all ptp amax amin".split()
        for kw in _OVER_AXES
    ),
    *(
        (name, (F345,), kw)
        for name in "argmax argmin".split()
        for kw in (dict(), dict(axis=1), dict(axis=0, keepdims=True))
    ),
    *(
        (name, (NAN,), kw)
        for name in ("nansum nanprod nanmax nanmin nanmean nanvar nanstd").split()
        for kw in (dict(), dict(axis=0), dict(axis=1, keepdims=True))
    ),
    *((name, (NAN[::2],), dict(axis=1)) for name in "nanargmax nanargmin".split()),
    *((name, (I34,), dict(axis=1)) for name in "sum prod max min mean var any all argmax nansum count_nonzero".split()),
    *((name, (B34,), dict(axis=1)) for name in "sum mean any all max count_nonzero".split()),
    *((name, (C34,), dict(axis=1)) for name in "sum prod mean var std max min".split()),
    *((name, (F34,), dict(axis=1, initial=1.0, where=B34)) for name in "sum prod max min".split()),
    *(
        (name, (F34,), dict(axis=0, where=np.array([[True], [False], [True]])))
        for name in "mean var std any all".split()
    ),
    ("sum", (F34,), dict(dtype=np.int32)),
    ("sum", (i(4, dtype=np.int8),), {}),
    ("sum", (i(4, low=0, high=9, dtype=np.uint8),), {}),
    ("mean", (F34,), dict(dtype=np.float16)),
    ("var", (F34,), dict(ddof=1)),
    ("std", (F34,), dict(axis=0, ddof=2)),
    ("var", (F34,), dict(correction=1)),
    ("average", (F34,), {}),
    ("average", (F34,), dict(axis=1, weights=f(4, low=0.1))),
    ("average", (F34,), dict(weights=POS, axis=0, returned=True)),
    ("average", (I34,), dict(axis=0, keepdims=True)),
    *((name, (F34,), kw) for name in "cumsum cumprod nancumsum nancumprod".split() for kw in (dict(), dict(axis=1))),
    ("cumsum", (I34,), dict(axis=0)),
    ("cumsum", (B34,), dict(axis=0)),
    ("nancumsum", (NAN,), dict(axis=0)),
    ("cumulative_sum", (F34,), dict(axis=1, include_initial=True)),
    ("cumulative_prod", (f(4),), {}),
    ("median", (F34,), {}),
    ("median", (F345,), dict(axis=(0, 1), keepdims=True)),
    ("median", (NAN,), dict(axis=1)),
    ("nanmedian", (NAN,), dict(axis=0)),
    ("quantile", (F34, np.array([0.1, 0.5, 0.9], np.float32)), dict(axis=0)),
    *(
        ("quantile", (F34, np.float32(0.3)), dict(axis=1, method=m))
        for m in ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")
    ),
    ("quantile", (F34, np.float32(0.4)), dict(axis=1, method="inverted_cdf", weights=POS)),
    ("percentile", (F345, np.float32(30)), dict(axis=(0, 2), keepdims=True)),
    ("nanquantile", (NAN[::2], np.float32(0.4)), {}),
    ("nanpercentile", (NAN[:2], np.array([20, 70], np.float32)), dict(axis=0)),
    ("cov", (F34,), {}),
    ("cov", (F34, f(3, 4)), dict(bias=True)),
    ("cov", (F34,), dict(rowvar=False, ddof=0)),
    ("cov", (F34,), dict(fweights=i(4, low=1, high=4), aweights=f(4, low=0.2))),
    ("corrcoef", (F34,), {}),
    ("histogram", (f(20),), {}),
    ("histogram", (f(20),), dict(bins=4, range=(-1, 1), density=True)),
    ("histogram", (f(20), np.array([-2, -1, 0.5, 2], np.float32)), dict(weights=f(20, low=0))),
    ("histogram_bin_edges", (f(20), 5), {}),
    ("histogram2d", (f(20), f(20)), dict(bins=3)),
    ("histogramdd", (f(20, 2),), dict(bins=(2, 3))),
    ("bincount", (i(10, low=0),), {}),
    ("bincount", (i(10, low=0),), dict(weights=f(10), minlength=8)),
    ("trapezoid", (F34,), {}),
    ("trapezoid", (F34,), dict(x=np.arange(3, dtype=np.float32) ** 2, axis=0)),
    ("diff", (F34,), {}),
    ("diff", (F34,), dict(n=2, axis=0)),
    ("diff", (F34,), dict(prepend=0.0, append=F34[:, :1])),
    ("diff", (B34,), {}),
    ("ediff1d", (f(5),), dict(to_begin=9.0, to_end=np.array([1.0, 2.0], np.float32))),
    ("gradient", (F34,), {}),
    ("gradient", (F34, 2.0), dict(axis=1)),
    ("gradient", (f(5), np.array([0, 1, 3, 4, 9], np.float32)), {}),
    ("interp", (f(6), np.array([-1, 0, 0.5, 1], np.float32), f(4)), {}),
    ("interp", (f(6), np.array([-1, 0, 0.5, 1], np.float32), f(4)), dict(left=-7.0, right=7.0)),
    ("interp", (f(6), np.array([0, 0.4, 0.9, 1.2], np.float32), f(4)), dict(period=1.5)),
]

SHAPES = [
    ("reshape", (F34, (2, 6)), {}),
    ("reshape", (F34, -1), {}),
    ("reshape", (F34, (6, -1)), dict(order="F")),
    ("ravel", (F34,), {}),
    ("ravel", (F34, "F"), {}),
    ("transpose", (F345,), {}),
    ("transpose", (F345, (1, 0, 2)), {}),
    ("permute_dims", (F345, (2, 0, 1)), {}),
    ("matrix_transpose", (F345,), {}),
    ("moveaxis", (F345, 0, -1), {}),
    ("moveaxis", (F345, (0, 1), (2, 0)), {}),
    ("swapaxes", (F345, 0, 2), {}),
    ("rollaxis", (F345, 2), {}),
    ("rollaxis", (F345, 0, 3), {}),
    ("expand_dims", (F34, (0, -1)), {}),
    ("squeeze", (F34[None, :, None],), {}),
    ("squeeze", (F34[None],), dict(axis=0)),
    ("broadcast_to", (f(4), (2, 3, 4)), {}),
    ("broadcast_arrays", (f(3, 1), f(4)), {}),
    ("atleast_1d", (f(),), {}),
    ("atleast_2d", (f(3),), {}),
    ("atleast_3d", (F34,), {}),
    ("atleast_3d", (f(3),), {}),
    ("flip", (F34,), {}),
    ("flip", (F34, 1), {}),
    ("fliplr", (F34,), {}),
    ("flipud", (F34,), {}),
    ("rot90", (F34,), {}),
    ("rot90", (F345,), dict(k=3, axes=(1, 2))),
    ("rot90", (F34, 2), {}),
    ("roll", (F34, 2), {}),
    ("roll", (F34, (1, -2)), dict(axis=(0, 1))),
    ("roll", (F34, -1), dict(axis=1)),
    ("repeat", (F34, 2), {}),
    ("repeat", (F34, 3), dict(axis=1)),
    ("repeat", (F34, np.array([1, 0, 2])), dict(axis=0)),
    ("tile", (F34, 2), {}),
    ("tile", (F34, (2, 1, 3)), {}),
    ("resize", (F34, (5, 4)), {}),
    ("trim_zeros", (np.array([0, 0, 1, 2, 0], np.float32),), {}),
    ("concatenate", ([F34, f(2, 4)],), {}),
    ("concatenate", ([F34, I34],), dict(axis=None)),
    ("concat", ([F34, F34],), dict(axis=1)),
    ("stack", ([F34, F34],), dict(axis=-1)),
    ("hstack", ([F34, F34],), {}),
    ("hstack", ([f(2), f(3)],), {}),
    ("vstack", ([f(4), F34],), {}),
    ("dstack", ([F34, F34],), {}),
    ("column_stack", ([f(3), F34],), {}),
    ("unstack", (F34,), dict(axis=1)),
    ("block", ([[F34, f(3, 2)], [f(1, 4), f(1, 2)]],), {}),
    ("append", (F34, f(2)), {}),
    ("append", (F34, f(1, 4)), dict(axis=0)),
    ("split", (F34, 2), dict(axis=1)),
    ("split", (f(9), [2, 5]), {}),
    ("array_split", (f(7), 3), {}),
    ("hsplit", (F34, 2), {}),
    ("vsplit", (f(4, 2), 2), {}),
    ("dsplit", (f(1, 2, 4), 2), {}),
    ("delete", (F34, 1), dict(axis=0)),
    ("delete", (f(6), [0, 3]), {}),
    ("delete", (f(6), slice(1, 4)), {}),
    ("insert", (f(5), 2, 9.0), {}),
    ("insert", (F34, 1, f(4)), dict(axis=0)),
    ("insert", (f(5), [0, 3], f(2)), {}),
    ("insert", (F34, [1, 2], f(3, 2)), dict(axis=1)),
    ("insert", (F34, 1, f(3)), dict(axis=1)),
    ("insert", (F345, 2, f(4)), dict(axis=2)),
    ("insert", (F345, -1, f(2, 1, 5)), dict(axis=1)),
    ("insert", (F34, 1, f(2, 3)), dict(axis=1)),
    ("insert", (F34, [1], f(3, 2)), dict(axis=1)),
    ("insert", (f(4), np.array([True, False, True, False]), 7.0), {}),
    *(
        ("pad", (F34, ((1, 2), (0, 3))), dict(mode=m))
        for m in "constant edge reflect symmetric wrap linear_ramp maximum mean median minimum".split()
    ),
    ("pad", (F34, 5), dict(mode="reflect")),
    ("pad", (F34, 2), dict(mode="reflect", reflect_type="odd")),
    ("pad", (F34, 2), dict(mode="symmetric", reflect_type="odd")),
    ("pad", (F34, 1), dict(constant_values=((1, 2), (3, 4)))),
    ("pad", (I34, (1, 2)), dict(mode="linear_ramp", end_values=9)),
    ("pad", (F34, 2), dict(mode="mean", stat_length=2)),
    ("pad", (F34, 1), dict(constant_values=5.0)),
    ("diag", (f(3),), dict(k=1)),
    ("diag", (F34, -1), {}),
    ("diagflat", (f(2, 2),), {}),
    ("diagonal", (F345,), dict(offset=1, axis1=1, axis2=2)),
    ("diagonal", (F34, -1), {}),
    ("tril", (F345,), dict(k=1)),
    ("triu", (F34, -1), {}),
    ("vander", (f(3),), {}),
    ("vander", (f(3), 4), dict(increasing=True)),
    ("meshgrid", (f(3), f(2)), {}),
    ("meshgrid", (f(3), f(2)), dict(indexing="ij", sparse=True)),
    ("packbits", (b(3, 10),), dict(axis=1)),
    ("packbits", (b(9),), dict(bitorder="little")),
    ("unpackbits", (i(2, 3, low=0, high=256, dtype=np.uint8),), dict(axis=0)),
    ("unpackbits", (i(3, low=0, high=256, dtype=np.uint8),), dict(count=-3, bitorder="little")),
    ("apply_over_axes", (np.sum, F345, (0, 2)), {}),
    ("shape", (F34,), {}),
    ("ndim", (F34,), {}),
    ("size", (F34,), dict(axis=1)),
    ("astype", (F34, np.int32), {}),
    ("copy", (F34,), {}),
]

CREATION = [
    ("zeros", ((2, 3), np.float32), {}),
    ("ones", (3, np.int32), {}),
    ("full", ((2, 2), 7, np.float32), {}),
    ("full", ((2, 3), f(3)), {}),
    ("zeros_like", (I34,), {}),
    ("ones_like", (F34,), dict(dtype=np.int32)),
    ("full_like", (F34, 2), dict(shape=(2,))),
    ("arange", (5,), {}),
    ("arange", (1, 9, 3), {}),
    ("arange", (5, 0, -2), {}),
    ("arange", (0.0, 1.0, 0.25), {}),
    ("arange", (3.5,), {}),
    ("linspace", (0, 1, 5), {}),
    ("linspace", (0.0, 3.0, 4), dict(endpoint=False, retstep=True)),
    ("linspace", (f(3), f(3), 4), dict(axis=1)),
    ("linspace", (0, 10, 5), dict(dtype=np.int32)),
    ("logspace", (0, 2, 4), {}),
    ("logspace", (0, 3, 4), dict(base=2.0, endpoint=False)),
    ("geomspace", (1.0, 100.0, 3), {}),
    ("eye", (3,), {}),
    ("eye", (2, 4, 1, np.int32), {}),
    ("identity", (2, np.float32), {}),
    ("tri", (3, 4, 1), {}),
    ("indices", ((2, 3),), {}),
    ("hanning", (5,), {}),
    ("hamming", (5,), {}),
    ("blackman", (5,), {}),
    ("bartlett", (5,), {}),
    ("kaiser", (5, 3.0), {}),
    ("tril_indices", (3, 1), {}),
    ("triu_indices", (3,), dict(k=-1, m=4)),
    ("tril_indices_from", (F34,), {}),
    ("diag_indices", (3,), {}),
    ("fromfunction", (lambda x, y: x * 2 + y, (2, 3)), {}),
    ("array", ([[1, 2], [3, 4]],), dict(ndmin=3)),
    ("asarray", ([1.5, 2],), {}),
    ("array", (True,), {}),
    ("frombuffer", (b"abcd", np.uint8), {}),
]

INDEXING = [
    ("take", (F34, i(2, 3, low=0, high=3)), dict(axis=0)),
    ("take", (F34, np.array([-1, 2])), dict(axis=1)),
    ("take", (F34, 5), {}),
    ("take", (F34, np.array([7, -9])), dict(axis=1, mode="clip")),
    ("take", (F34, np.array([7, -9])), dict(axis=1, mode="wrap")),
    ("take_along_axis", (F34, i(3, 2, low=-4, high=4)), dict(axis=1)),
    ("take_along_axis", (F34, i(1, 4, low=0, high=3)), dict(axis=0)),
    ("choose", (i(4, low=0, high=3), [f(4), f(4), f(4)]), {}),
    ("choose", (i(4, low=-5, high=9), [f(4), f(4)]), dict(mode="wrap")),
    ("choose", (i(4, low=-5, high=9), [f(4), f(4)]), dict(mode="clip")),
    ("select", ([B34, ~B34 & (F34 > 0)], [F34, -F34]), dict(default=7)),
    ("nonzero", (I34,), {}),
    ("flatnonzero", (I34,), {}),
    ("argwhere", (B34,), {}),
    ("extract", (B34, F34), {}),
    ("compress", (np.array([True, False, True]), F34), dict(axis=0)),
    ("unravel_index", (i(4, low=0, high=12), (3, 4)), {}),
    ("ravel_multi_index", ((i(4, low=0, high=3), i(4, low=0, high=4)), (3, 4)), {}),
    ("ravel_multi_index", ((i(4, low=-9, high=9), i(4, low=-9, high=9)), (3, 4)), dict(mode="clip")),
    ("ravel_multi_index", ((i(4, low=-9, high=9), i(4, low=-9, high=9)), (3, 4)), dict(mode="wrap", order="F")),
    ("ix_", (np.array([0, 2]), np.array([True, False, True, True])), {}),
    ("sort", (F345,), dict(axis=1)),
    ("sort", (NAN,), {}),
    ("sort", (I34,), dict(axis=None)),
    ("sort", (C34,), {}),
    ("argsort", (F345,), dict(axis=0)),
    ("argsort", (i(20),), dict(stable=True)),
    ("lexsort", ((i(9, low=0, high=3), i(9, low=0, high=3)),), {}),
    ("sort_complex", (f(4),), {}),
    ("searchsorted", (np.sort(f(9)), f(3, 4)), {}),
    ("searchsorted", (np.array([1, 2, 2, 3]), np.array([0, 2, 3, 5])), dict(side="right")),
    ("searchsorted", (np.array([1, 2, np.nan], np.float32), SPECIAL), {}),
    ("searchsorted", (np.array([3, 1, 2]), 2), dict(sorter=np.array([1, 2, 0]))),
    ("digitize", (f(6), np.array([-1, 0, 1], np.float32)), {}),
    ("digitize", (f(6), np.array([1, 0, -1], np.float32)), dict(right=True)),
    ("unique", (i(9),), {}),
    ("unique", (i(9),), dict(return_index=True, return_inverse=True, return_counts=True)),
    ("unique", (i(6, 2, low=0, high=2),), dict(axis=0)),
    ("union1d", (i(4), i(4)), {}),
    ("intersect1d", (i(6), i(6)), {}),
    ("setdiff1d", (i(6), i(6)), {}),
    ("setxor1d", (i(6), i(6)), {}),
    ("isin", (I34, i(4)), {}),
    ("isin", (i(9), i(80)), dict(invert=True)),
    (
        "piecewise",
        (
            f(4),
            [np.array([True, False, False, True]), np.array([False, True, False, False])],
            [1.0, lambda x: x * 2, -3.0],
        ),
        {},
    ),
    ("apply_along_axis", (lambda v: v.cumsum(), 1, F345), {}),
]

CONTRACTIONS = [
    ("dot", (F34, f(4)), {}),
    ("dot", (F34, f(4, 2)), {}),
    ("dot", (F345, f(2, 5, 3)), {}),
    ("dot", (F34, 2.0), {}),
    ("matmul", (F34, f(4, 2)), {}),
    ("matmul", (f(2, 3, 4), f(4, 5)), {}),
    ("matmul", (f(2, 1, 3, 4), f(5, 4, 2)), {}),
    ("matmul", (f(4), f(3, 4, 2)), {}),
    ("matmul", (f(3, 2, 4), f(4)), {}),
    ("matmul", (I34, i(4, 2)), {}),
    ("matmul", (f(1, 2, 3), f(4, 3, 2)), {}),
    ("vdot", (C34, c(3, 4)), {}),
    ("vecdot", (F34, f(4)), {}),
    ("vecdot", (C34, c(3, 4)), {}),
    ("matvec", (F34, f(4)), {}),
    ("vecmat", (f(3), F34), {}),
    ("inner", (F34, f(2, 4)), {}),
    ("outer", (f(3), F34), {}),
    ("tensordot", (F345, f(5, 4, 2)), dict(axes=([1, 2], [1, 0]))),
    ("tensordot", (F34, f(4, 2)), dict(axes=1)),
    ("tensordot", (f(2), f(3)), dict(axes=0)),
    ("kron", (f(2, 2), f(3)), {}),
    ("kron", (f(2, 3), f(3, 2)), {}),
    ("cross", (f(4, 3), f(4, 3)), {}),
    ("cross", (f(3, 4), f(3, 4)), dict(axis=0)),
    ("trace", (F345,), dict(offset=1, axis1=0, axis2=2)),
    ("trace", (I34,), {}),
    *(
        ("einsum", (text, *args), {})
        for text, args in [
            ("ij,jk->ik", (F34, f(4, 2))),
            ("ij,jk", (F34, f(4, 2))),
            ("ij->ji", (F34,)),
            ("ij->", (F34,)),
            ("ii->i", (f(3, 3),)),
            ("ii", (f(3, 3),)),
            ("bij,bjk->bik", (f(2, 3, 4), f(2, 4, 5))),
            ("...ij,jk->...ik", (f(2, 3, 4), f(4, 5))),
            ("ij,ij->i", (F34, F34)),
            ("i,j->ij", (f(3), f(4))),
            ("ij,jk,kl->il", (F34, f(4, 5), f(5, 2))),
            ("bqhd,bkhd->bhqk", (f(2, 3, 2, 4), f(2, 5, 2, 4))),
            ("ij,k->j", (F34, f(2))),
            ("iij,j->i", (f(3, 3, 2), f(2))),
            ("...i,...i->...", (f(2, 3), f(3))),
            ("ab,bc,ca->", (F34, f(4, 5), f(5, 3))),
            ("ij,j", (I34, i(4))),
        ]
    ),
    ("einsum", (F34, [0, 1], f(4, 2), [1, 2], [0, 2]), {}),
    *(("convolve", (f(6), f(3), m), {}) for m in ("full", "same", "valid")),
    *(("convolve", (f(3), f(6), m), {}) for m in ("full", "same", "valid")),
    *(("correlate", (f(6), f(4), m), {}) for m in ("full", "same", "valid")),
    *(("correlate", (f(3), f(6), m), {}) for m in ("full", "same", "valid")),
    ("polyval", (f(4), f(3)), {}),
    ("polyfit", (LINE, np.sin(4 * LINE), 3), {}),
    ("polyfit", (LINE, WAVES, 2), dict(w=2 + LINE)),
    ("polyfit", (LINE, np.sin(4 * LINE), 2), dict(full=True)),
    ("polyfit", (LINE, WAVES, 2), dict(cov=True)),
    ("polyfit", (LINE, np.sin(4 * LINE), 2), dict(cov="unscaled")),
    ("roots", (np.array([2.0, 1.0, 3.0, -1.0], np.float32),), {}),
    ("roots", (np.array([0.0, 1.0, 0.5j, 0.25, 0.0, 0.0], np.complex64),), {}),
    ("polyadd", (f(2), f(4)), {}),
    ("polysub", (f(2), f(4)), {}),
    ("polymul", (f(2), f(4)), {}), ("polymul", (np.ones(2, np.float32), np.zeros(0, np.float32)), {}),
    ("polyder", (f(5), 2), {}),
    ("polyint", (f(3), 2), dict(k=[1.0, 2.0])),
    ("polydiv", (f(5), f(2)), {}),
    ("poly", (f(3),), {}),
]

LINALG = [
    *(
        ("norm", (F34,), kw)
        for kw in (
            dict(),
            dict(ord=1),
            dict(ord=np.inf),
            dict(ord=-1),
            dict(axis=1),
            dict(axis=0, ord=3, keepdims=True),
            dict(axis=1, ord=0),
            dict(ord=-np.inf, axis=1),
            dict(axis=(0, 1), ord="fro", keepdims=True),
        )
    ),
    ("norm", (C34,), {}),
    ("norm", (F345,), dict(axis=(0, 2), ord=1)),
    ("vector_norm", (F345,), dict(axis=(0, 1), ord=3)),
    ("matrix_norm", (F345,), dict(ord=1)),
    ("matrix_power", (f(3, 3), 5), {}),
    ("matrix_power", (f(2, 3, 3), 0), {}),
    ("multi_dot", ([f(2, 3), f(3, 4), f(4, 5), f(5)],), {}),
    ("outer", (f(2), f(3)), {}),
    ("cross", (f(2, 3), f(2, 3)), {}),
    ("diagonal", (F345,), dict(offset=1)),
    ("trace", (F345,), {}),
    ("matmul", (F34, f(4, 2)), {}),
    ("vecdot", (F34, f(3, 4)), {}),
    ("tensordot", (F34, f(4, 2)), dict(axes=1)),
    ("matrix_transpose", (F345,), {}),
]

FAMILIES = {
    "unary": UNARY,
    "binary": BINARY,
    "reductions": REDUCTIONS,
    "shapes": SHAPES,
    "creation": CREATION,
    "indexing": INDEXING,
    "contractions": CONTRACTIONS,
    "linalg": LINALG,
}
