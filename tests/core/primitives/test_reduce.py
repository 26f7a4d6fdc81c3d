"""Reductions: what the laws do not say (zeros, ties, second derivatives, the generic reduce)."""

import numpy as np
import pytest

from tilewright import config, eval_shape, grad, hessian, jvp, lax, make_jaxpr, vmap
from tilewright.core.ir.binding import under
from tilewright.core.support.errors import ArgumentError, ShapeError
from tilewright.core.tracing.numpy_interpreter import NUMPY


def test_gradient_of_a_product_with_zeros():
    x = np.array([2.0, 0.0, 3.0], np.float32)
    np.testing.assert_array_equal(grad(lambda x: lax.reduce_prod(x, (0,)))(x), [0.0, 6.0, 0.0])
    np.testing.assert_array_equal(
        hessian(lambda x: lax.reduce_prod(x, (0,)))(x), [[0.0, 3.0, 0.0], [3.0, 0.0, 2.0], [0.0, 2.0, 0.0]]
    )


@pytest.mark.parametrize("fold", [lax.add, lax.mul, lambda a, b: a + 2 * b])
def test_a_fold_of_numbers_without_a_dtype_has_none(fold):
    for x in (lax.full((3,), 2.0), np.ones(3, np.float32)):
        for start in (0.0, np.float32(1)):
            found = eval_shape(lambda x, start=start: lax.reduce(x, start, fold, (0,)), x)
            assert found.weak_type == (not isinstance(x, np.ndarray) and isinstance(start, float))


def test_equal_maxima_share_the_gradient():
    x = np.array([1.0, 4.0, 4.0], np.float32)
    np.testing.assert_array_equal(grad(lambda x: lax.reduce_max(x, (0,)))(x), [0.0, 0.5, 0.5])


def test_second_derivative_of_cumulative_products():
    x = np.array([2.0, 0.0, 3.0], np.float32)
    second = hessian(lambda x: lax.cumprod(x)[2])(x)
    np.testing.assert_array_equal(second, [[0.0, 3.0, 0.0], [3.0, 0.0, 2.0], [0.0, 2.0, 0.0]])


def test_cumulative_log_sum_of_nothing():
    x = np.array([-np.inf, -np.inf, 0.0, 1.0], np.float32)
    np.testing.assert_allclose(lax.cumlogsumexp(x), np.logaddexp.accumulate(x), rtol=1e-6)
    assert np.isfinite(grad(lambda x: lax.cumlogsumexp(x)[3])(x)).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_log_sums_of_complex_exponentials_are_principal_values(reverse):
    z = np.array([0.1 + 5.2j, -0.1 + 3.8j, 0.6 - 2.8j, 0.1 - 5.1j], np.complex64)
    wanted = np.log(np.cumsum(np.exp(z.astype(np.complex128))))
    z, wanted = (np.flip(v) if reverse else v for v in (z, wanted))

    def sums(z):
        return lax.cumlogsumexp(z, reverse=reverse)

    for found in (sums(z), under(NUMPY, sums, z)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(jvp(sums, (z,), (np.ones_like(z),))[1], np.ones(4), rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "init", "primitive"),
    [(lax.add, 0.0, "reduce_sum"), (lax.mul, 1.0, "reduce_prod"), (lax.max, -np.inf, "reduce_max"),
     (lambda a, b: a + b, 0.0, "reduce_sum"), (lambda a, b: a + 2 * b, 0.0, "reduce")],
)  # fmt: skip
def test_standard_monoids_are_recognised(function, init, primitive):
    x = np.ones((2, 3), np.float32)
    program = make_jaxpr(lambda x: lax.reduce(x, np.float32(init), function, (1,)))(x)
    assert [e.primitive.name for e in program.eqns] == [primitive]


def test_reduce_starts_from_its_initial_value():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(lax.reduce(x, 10.0, lax.add, (1,)), x.sum(1) + 10)


def test_reduce_of_pairs_differentiates_and_batches():
    def statistics(x):
        return lax.reduce((x, x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))

    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
    total, product = vmap(statistics)(x)
    np.testing.assert_allclose(total, x.sum(1))
    np.testing.assert_allclose(product, x.prod(1))
    assert [out.shape for out in vmap(statistics)(np.zeros((0, 2, 3), np.float32))] == [(0, 3), (0, 3)]
    np.testing.assert_allclose(grad(lambda x: statistics(x)[1])(x[0]), [6.0, 3.0, 2.0])
    (_, out) = jvp(lambda x: statistics(x)[0], (x[0],), (x[0],))
    np.testing.assert_allclose(out, 6.0)


def test_reduce_that_closes_over_an_array_is_refused():
    outside = np.ones(3, np.float32)
    with pytest.raises(ArgumentError, match="from outside"):
        lax.reduce(outside, 0.0, lambda a, b: a + b * lax.reduce_sum(outside, (0,)), (0,))


def test_axis_out_of_range():
    with pytest.raises(ShapeError, match="axis 2"):
        lax.reduce_sum(np.ones((2, 3)), (2,))


def test_argmax_prefers_nan_then_the_first():
    x = np.array([1.0, np.nan, 3.0, np.nan], np.float32)
    assert int(lax.argmax(x, 0)) == 1 and int(lax.argmin(x, 0)) == 1
    assert int(lax.argmax(np.array([1, 3, 3]), 0)) == 1


@pytest.mark.parametrize("length", [1, 31, 33, 130, 1000])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_cumulative_sums(length, reverse):
    x = np.random.default_rng(0).integers(-9, 9, (2, length))
    with config(enable_x64=True):
        found = np.asarray(lax.cumsum(x, 1, reverse))
    expected = np.cumsum(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumsum(x, 1)
    np.testing.assert_array_equal(found, expected)
