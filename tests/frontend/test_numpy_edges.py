"""Edge cases in which NumPy or JAX say what holds: masks, filling, NaN, dtypes that are asked for, wrong calls."""

from typing import NamedTuple

import numpy as np
import pytest

import tilewright as tw
from tilewright import errors, lax
from tilewright import numpy as jnp

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
