"""Edge cases in which NumPy, SciPy or JAX say what holds: masks, filling, NaN, dtypes, calls that are refused."""

import copy
from typing import NamedTuple

import numpy as np
import pytest
import scipy.special

import tilewright as tw
from tilewright import errors, image, lax, nn, random
from tilewright import numpy as jnp
from tilewright.scipy import fft, linalg, signal, special, stats
from tilewright.scipy.cluster.vq import vq
from tilewright.scipy.spatial.transform import Rotation

NAN = np.nan


@pytest.mark.parametrize("name", ["sum", "nansum", "max", "nanmin", "mean", "var", "nanvar", "all"])
def test_the_mask_of_a_reduction_is_of_booleans(name):
    initial = {"initial": 0.0} if name in ("max", "nanmin") else {}
    with pytest.raises(errors.ArgumentError, match="where"):
        getattr(jnp, name)(jnp.ones(3), where=jnp.arange(3), **initial)


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "nancumsum", "cumulative_sum"])
def test_sums_and_products_of_truth_values(name):
    x = np.array([0.1, 0.2, 0.0], np.float32)
    got = getattr(jnp, name)(x, dtype=bool)
    assert got.dtype == bool
    np.testing.assert_array_equal(got, getattr(np, name)(x, dtype=bool))


def test_ramps_of_64_bits_are_computed_in_them():
    x = np.array([2**53 - 2, 4], np.uint64)
    with tw.enable_x64(True):
        np.testing.assert_array_equal(jnp.pad(x, 3, mode="linear_ramp"), np.pad(x, 3, mode="linear_ramp"))


def test_a_number_is_the_shape_of_a_vector():
    assert jnp.broadcast_shapes(2, (3, 1)) == np.broadcast_shapes(2, (3, 1))


def test_a_sum_begins_with_a_truth_value():
    assert bool(jnp.sum(jnp.zeros(3), dtype=bool, initial=True)) is True


@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_nan_that_is_left_out_is_not_in_the_derivative(name):
    got = tw.grad(getattr(jnp, name))(jnp.array([NAN, 1.0, 2.0]))
    np.testing.assert_allclose(got, [0.0, -0.5, 0.5])


def test_a_variance_has_the_dtype_that_is_asked_for():
    for function in (jnp.var, jnp.std, jnp.nanvar):
        assert function(jnp.ones(3), dtype="complex64").dtype == np.complex64


def test_covariance_of_columns():
    matrix, vector = np.arange(6.0).reshape(3, 2) ** 2, np.array([1.0, 5.0, 2.0])
    for given in [(matrix[:1], None), (vector, None), (matrix, vector), (vector, matrix)]:
        expected = np.cov(*given, rowvar=False, ddof=0)
        np.testing.assert_allclose(jnp.cov(*given, rowvar=False, ddof=0), expected, rtol=1e-6)
    with pytest.raises(errors.ArgumentError, match="int32"):
        jnp.cov(matrix, dtype=int)


def test_a_mask_of_as_many_elements_has_another_shape():
    mask = np.array([[True], [False], [True]])
    assert jnp.place(jnp.zeros((1, 3)), mask, 2.0, inplace=False).tolist() == [[2.0, 0.0, 2.0]]


def test_spacing():
    x = np.array([-1.0, 1.0, 3e38, 1e-38, NAN], np.float32)
    np.testing.assert_array_equal(jnp.spacing(x), np.spacing(x))
    least = np.finfo(np.float32).smallest_subnormal
    np.testing.assert_array_equal(jnp.spacing(np.array([0.0, -0.0, -1e-40], np.float32)), [least, -least, -least])
    half = np.array([-1.0, 1.0, 0.0, 6e-6], np.float16)
    np.testing.assert_array_equal(jnp.spacing(half), np.spacing(half))


def test_unique_counts_only_what_it_keeps():
    values, counts = jnp.unique(jnp.array([1, 2, 2, 3, 3, 3]), size=2, return_counts=True)
    assert values.tolist() == [1, 2] and counts.tolist() == [1, 2]


def test_unique_merges_nan():
    rows = np.array([[NAN, 1], [NAN, 1], [2, NAN]], np.float32)
    np.testing.assert_array_equal(jnp.unique(rows, axis=0), [[2, NAN], [NAN, 1]])
    assert jnp.unique(rows, axis=0, equal_nan=False).shape == (3, 2)
    values, counts = jnp.unique(jnp.array([3, NAN, 1, NAN, 2], "bfloat16"), return_counts=True)
    np.testing.assert_array_equal(values.astype("float32"), [1, 2, 3, NAN])
    assert counts.tolist() == [1, 1, 1, 2]


def test_what_fills_sets_up():
    a, b, none = jnp.array([1, 2, 2, 3]), jnp.array([2, 3]), jnp.zeros(0, int)
    common, first, second = jnp.intersect1d(a, b, size=4, return_indices=True)
    assert common.tolist() == [2, 3, 2, 2] and first.tolist() == [1, 3, 4, 4] and second.tolist() == [0, 1, 2, 2]
    assert jnp.setxor1d(a, b, size=3).tolist() == [1, 1, 1]
    assert jnp.setxor1d(b, b, size=2).tolist() == jnp.setxor1d(none, none, size=2).tolist() == [0, 0]
    assert jnp.setdiff1d(a, b, size=2).tolist() == [1, 0]
    assert jnp.setdiff1d(none, b, size=2, fill_value=5).tolist() == [5, 5]
    assert jnp.nonzero(jnp.array([0, 3, 4]), fill_value=-1)[0].tolist() == [1, 2]


def test_a_difference_keeps_the_dtype_of_what_it_is_of():
    a, b = jnp.array([1, 5], "int16"), jnp.array([2.0])
    assert jnp.setdiff1d(a, b).dtype == jnp.setdiff1d(a, b, size=2).dtype == np.int16


class Pair(NamedTuple):
    """A tuple that multiplies in its own way."""

    value: float

    def __rmul__(self, other):
        return "its own"


def test_a_tuple_with_a_product_of_its_own_multiplies():
    assert jnp.ones(3) * Pair(2.0) == "its own"
    assert tw.eval_shape(lambda x: [x, x * Pair(2.0) == "its own"][:1], jnp.ones(3))
    with pytest.raises(errors.ArgumentTypeError):
        jnp.ones(3) * (1, 2, 3)


def test_vectorize_checks_how_it_is_called():
    product = jnp.vectorize(jnp.dot, signature="(n,m),(m,k)->(n,k)")
    with pytest.raises(TypeError):
        product(jnp.ones((2, 2)))
    with pytest.raises(TypeError):
        jnp.vectorize(lambda x: (x, x), signature="()->()")(1.0)
    with pytest.raises(TypeError):
        jnp.vectorize(jnp.add, excluded={1.5})
    with pytest.raises(ValueError):
        jnp.vectorize(jnp.add, excluded={-1})
    absent = jnp.vectorize(lambda x, y: x if y is None else x + y)
    assert absent(jnp.arange(3), None).tolist() == [0, 1, 2]
    with pytest.raises(ValueError):
        jnp.vectorize(lambda x, y: x, signature="(),()->()")(1, None)


def test_rank_promotion_is_refused_everywhere():
    with tw.numpy_rank_promotion("raise"):
        for function in (jnp.logical_and, jnp.vectorize(jnp.add)):
            with pytest.raises(errors.ShapeError):
                function(jnp.ones((2, 3)), jnp.ones(3))
        assert jnp.add.outer(jnp.ones((2, 3)), jnp.ones(3)).shape == (2, 3, 3)


def test_properties_of_ufuncs_are_read_only():
    for name in ("nin", "nout", "nargs", "identity"):
        with pytest.raises(AttributeError):
            setattr(jnp.add, name, None)


def test_the_dtype_of_a_type():
    for kind in (np.float32, float, "float32", np.dtype("float32"), jnp.float32, 1.0, jnp.ones(2)):
        assert lax.dtype(kind) == np.float32


def test_pieces_that_overlap_are_those_of_the_last_condition():
    x, conditions = np.arange(4), [np.array([1, 1, 0, 0], bool), np.array([1, 0, 0, 1], bool)]
    np.testing.assert_array_equal(jnp.piecewise(x, conditions, [5, 6, 7]), np.piecewise(x, conditions, [5, 6, 7]))


@pytest.mark.parametrize("places", [1, -1, np.array([2, -3]), np.array([1, 1]), 3])
def test_insert_at_traced_places(places):
    x, values = np.arange(6).reshape(2, 3), np.array([9, 8])
    for axis in (None, 1):
        got = tw.jit(lambda i, axis=axis: jnp.insert(x, i, values, axis=axis))(places)
        np.testing.assert_array_equal(got, np.insert(x, places, values, axis=axis))


@pytest.mark.parametrize("dtype", ("uint8", "uint32", "int8"))
def test_insert_at_places_of_any_integer_type(dtype):
    places = np.array([0, 0, 1, 0])
    np.testing.assert_array_equal(jnp.insert(np.float32(1), places.astype(dtype), 7.0), np.insert(1.0, places, 7.0))


def test_the_diagonal_of_tri_may_be_traced():
    np.testing.assert_array_equal(tw.jit(lambda k: jnp.tri(3, 4, k))(1), np.tri(3, 4, 1))
    with pytest.raises(OverflowError):
        jnp.tri(3, k=2**31)


def test_trapezoid_of_distances_that_vary():
    rng = np.random.default_rng(0)
    y = rng.random((3, 4, 5))
    for shape in [(3, 3, 5), (1, 5)]:
        dx = rng.random(shape)
        np.testing.assert_allclose(jnp.trapezoid(y, dx=dx, axis=1), np.trapezoid(y, dx=dx, axis=1), rtol=1e-5)
    assert jnp.trapezoid(y, dx=np.full((3, 5), 2.0), axis=1).shape == (3, 5)


def test_interpolation_between_points_that_lie_close():
    x = jnp.exp(jnp.linspace(-90.0, -20.0, 5))
    assert jnp.isfinite(tw.grad(lambda z: jnp.sum(jnp.interp(z, z, jnp.ones(5))))(x)).all()
    points = np.array([0.0, 1.0])
    np.testing.assert_allclose(jnp.interp(2.5, points, points, period=-2), np.interp(2.5, points, points, period=-2))


def test_grids_of_slices_without_an_end_or_of_none():
    assert jnp.ogrid[:].shape == jnp.mgrid[()].shape == (0,) and jnp.ogrid[()] == []
    assert jnp.mgrid[2:].tolist() == np.mgrid[2:].tolist() == [0, 1]


def test_numbers_that_are_refused():
    with pytest.raises(ValueError, match="complex"):
        jnp.arange(1 + 1j)
    with pytest.raises(TypeError):
        jnp.array(3, [("a", "<i4")])
    with pytest.raises(ValueError):
        np.arange(3) in jnp.arange(3)  # noqa: B015


def test_a_list_with_a_traced_complex_number_is_complex():
    assert bool(tw.jit(lambda x: jnp.iscomplexobj([x, 2]))(1j))


def test_empty_arrays_and_lists_in_nn():
    for function in (nn.softmax, nn.log_softmax):
        assert function(jnp.zeros((0, 3)), axis=0).shape == (0, 3)
    assert nn.initializers.orthogonal()(random.key(0), (0, 3)).shape == (0, 3)
    assert nn.one_hot([0, 2], 3).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_variance_that_rounding_makes_negative_is_none():
    assert jnp.isfinite(nn.standardize(jnp.full(3, -11.0 + 3e-6))).all()


def test_products_with_logarithms_of_nan():
    for function in (special.xlogy, special.xlog1py):
        assert jnp.isnan(function(0.0, NAN)) and function(0.0, -0.5) == 0


@pytest.mark.parametrize("call", [
    lambda: special.bessel_jn(jnp.ones((2, 3)), v=2),
    lambda: special.multigammaln(jnp.full((2, 3), 4.0), 2),
    lambda: special.sph_harm_y(jnp.array([2, 1]), jnp.array([1, 0]), jnp.ones(2), jnp.ones(2), n_max=2),
    lambda: vq(jnp.ones((4, 2)), jnp.ones((3, 2))),
    lambda: Rotation.from_quat(jnp.ones((2, 4))).inv().as_rotvec(),
])  # fmt: skip
def test_functions_of_scipy_keep_to_one_rank(call):
    with tw.numpy_rank_promotion("raise"):
        call()


def test_special_functions_at_their_edges():
    ends, points = np.array([0.0, 1.0, 2.0, np.inf]), np.array([0.0, 0.5, 1.0])
    given = np.meshgrid(ends, ends, points)
    np.testing.assert_allclose(special.betainc(*given), scipy.special.betainc(*given), rtol=5e-6)
    x = np.array([NAN, -np.inf, -1.5, -2.0, -0.0, np.inf])
    np.testing.assert_array_equal(special.gammasgn(x), scipy.special.gammasgn(x))
    assert np.isnan(special.gamma(np.array([0, -1 + 0j, -5 + 0j]))).all()
    np.testing.assert_allclose(special.comb(jnp.zeros(2), jnp.array([0.0, 4.0]), repetition=True), [1, 0], rtol=2e-6)
    assert stats.binom.logpmf(0, 0, 0.8) == 0 == stats.binom.logpmf(3, 3, 1.0)


def test_least_squares_without_full_rank_have_no_residuals_in_numpy():
    for a in (np.zeros((3, 2)), np.eye(3)[:, :2]):
        expected = np.linalg.lstsq(a, np.ones((3, 2)))
        for got, want in zip(jnp.linalg.lstsq(a, np.ones((3, 2)), numpy_resid=True), expected, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-6)


def test_one_right_hand_side_for_a_stack_of_matrices():
    a, b = np.stack([np.eye(4) * k for k in (1.0, 2.0, 4.0)]), np.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(
        linalg.cho_solve((np.sqrt(a), True), b), b / np.array([1, 2, 4])[:, None, None], rtol=1e-5
    )
    with pytest.raises(errors.ArgumentError):
        linalg.convolution_matrix(jnp.array(5.0), 3)


def test_padding_keeps_a_weak_type():
    x = lax.full((2,), 1.0)
    for mode in ("constant", "edge", "mean", "linear_ramp"):
        assert jnp.pad(x, 1, mode).weak_type
        assert not jnp.pad(jnp.ones(2), 1, mode).weak_type


def test_masks_and_indices_of_axes_without_elements():
    x = np.arange(12).reshape(3, 4)
    for shape in [(0,), (0, 4), (3, 0)]:
        mask = np.zeros(shape, bool)
        assert jnp.asarray(x)[mask].shape == x[mask].shape
    with pytest.raises(IndexError):
        tw.jit(lambda i: jnp.zeros((2, 0))[0, i])(0)


def test_a_traced_value_is_copied():
    for function in (copy.copy, copy.deepcopy):
        assert tw.jit(function)(jnp.arange(3)).tolist() == [0, 1, 2]


def test_spectra_and_sums_promote_nothing():
    x = np.random.default_rng(0).random((2, 3, 64), np.float32)
    with tw.numpy_rank_promotion("raise"), tw.numpy_dtype_promotion("strict"):
        transformed = signal.stft(x, nperseg=16)[2]
        np.testing.assert_allclose(signal.istft(transformed, nperseg=16)[1], x, atol=1e-5)
        signal.csd(x, x, nperseg=16)
        for kind in (1, 2, 3, 4):
            fft.dctn(x, kind)
        assert jnp.isfinite(special.logsumexp(jnp.array([1 + 1j, 2.0])))


def test_an_image_keeps_its_dtype():
    x = jnp.ones((4, 4))
    with tw.numpy_rank_promotion("raise"), tw.numpy_dtype_promotion("strict"):
        for dtype in ("float16", "complex64"):
            moved = image.scale_and_translate(x.astype(dtype), (2, 2), (0, 1), jnp.ones(2), jnp.ones(2), "linear")
            assert moved.dtype == dtype
        image.resize(x, (3, 3), "cubic-pytorch")
        expected = np.linalg.eigvalsh(np.eye(3) + np.eye(3, k=1) + np.eye(3, k=-1))
        np.testing.assert_allclose(
            linalg.eigh_tridiagonal(jnp.ones(3), jnp.ones(2), eigvals_only=True), expected, atol=1e-6
        )


def test_the_derivative_of_a_product_of_real_by_complex_numbers_is_real():
    x, y = jnp.arange(3.0), jnp.arange(3.0) + 2j
    np.testing.assert_allclose(tw.jacobian(lambda x: lax.dot(x, y).real)(x), y.real)
    np.testing.assert_allclose(tw.grad(lambda x: lax.dot(y, x).imag)(x), y.imag)


def test_padding_is_left_out_of_windows_whose_start_is_not_neutral():
    x = jnp.ones(3)
    for operation, expected in ((lax.add, [3, 3, 2]), (lambda a, b: a * b * 2, [4, 4, 2])):
        windows = lambda x, operation=operation: lax.reduce_window(x, 1.0, operation, (2,), (1,), "SAME")  # noqa: E731
        assert windows(x).tolist() == tw.jvp(windows, (x,), (x,))[0].tolist() == expected


def test_start_indices_and_padding_are_checked():
    for start in (1.5, True):
        with pytest.raises(TypeError):
            lax.dynamic_slice(jnp.ones(3), (start,), (1,))
    with pytest.raises(ValueError):
        lax.conv_general_dilated(jnp.ones((1, 1, 4)), jnp.ones((1, 1, 2)), (1,), (3,))
    assert all(type(n) is int for pair in lax.padtype_to_pads(np.array([3]), (2,), (1,), "SAME") for n in pair)


def test_sinc_at_infinities():
    assert jnp.sinc(jnp.array([-np.inf, np.inf])).tolist() == [0, 0]
    assert jnp.sinc(jnp.array([complex(np.inf, 1.5)])).tolist() == [0]
    assert not jnp.isfinite(jnp.sinc(jnp.array([complex(1.5, np.inf)]))).any()


@pytest.mark.parametrize("dims", [(0, None), (None, 0)])
def test_a_batch_of_no_convolutions(dims):
    shapes = [(0, *shape) if d == 0 else shape for d, shape in zip(dims, [(1, 3, 4), (2, 3, 1)], strict=True)]
    convolved = tw.vmap(lambda x, kernel: lax.conv(x, kernel, (1,), "SAME"), dims)
    assert convolved(*map(jnp.zeros, shapes)).shape == (0, 1, 2, 4)


def test_a_seed_beyond_64_bits_overflows():
    with pytest.raises(OverflowError):
        random.key(2**63)


def test_polar_factors_of_matrices_close_to_singular_and_close_to_zero():
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(100, 100)))[0] for _ in range(2))
    factor = np.asarray(lax.linalg.qdwh(((u * np.geomspace(1, 1e-7, 100)) @ v).astype(np.float32))[0])
    np.testing.assert_allclose(factor.T @ factor, np.eye(100), atol=5e-6)
    tiny = np.diag([np.finfo(np.float32).tiny, 0])
    assert lax.linalg.qdwh(jnp.asarray(tiny, "float32"))[0].tolist() == [[1, 0], [0, 0]]


def test_logsumexp_of_complex_numbers():
    a, b = np.array([1 + 1j, 2 - 0.5j], np.complex64), np.array([2.0, 3.0], np.float32)
    for weights in (None, b):
        total = np.sum(np.exp(a) * (1 if weights is None else weights))
        np.testing.assert_allclose(special.logsumexp(a, b=weights), np.log(total), rtol=1e-5)
        size, sign = special.logsumexp(a, b=weights, return_sign=True)
        assert size.dtype == np.float32
        np.testing.assert_allclose(np.exp(size) * sign, total, rtol=1e-5)


def test_logaddexp_of_complex_numbers_does_not_overflow():
    a = np.array([96, 224, -200, 3 + 1j, 1 + 3j, -np.inf, 0], np.complex64)
    b = np.array([1, 2, -100, 2 - 1j, 1 + 3j, 2, np.pi * 1j], np.complex64)
    wide = np.array([96, 224, -100, np.log(np.exp(3 + 1j) + np.exp(2 - 1j)), 1 + np.log(2) + 3j, 2])
    found = np.asarray(jnp.logaddexp(a, b))
    np.testing.assert_allclose(found[:6], wide, rtol=1e-5, atol=1e-6)
    assert found[6].real < -14  # log of about zero
    both = np.asarray(jnp.logaddexp(b, a))
    np.testing.assert_allclose(both[:6], wide, rtol=1e-5, atol=1e-6)
    turned = jnp.logaddexp(np.complex64(3j), np.complex64(1 + 3.5j))
    np.testing.assert_allclose(turned, np.log(np.exp(3j) + np.exp(1 + 3.5j)), rtol=1e-5)
