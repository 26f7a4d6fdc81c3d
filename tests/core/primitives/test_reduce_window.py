"""Reductions over windows: the functions, and derivatives that the table of laws cannot state."""

import numpy as np
import pytest

import tilewright as tw
from tilewright.core.primitives.elementwise.arithmetic import add, max, mul
from tilewright.core.primitives.reduction.reduce_window import reduce_window
from tilewright.core.support import errors


def test_known_monoids_become_their_primitive():
    program = str(tw.make_jaxpr(lambda x: reduce_window(x, 0.0, add, (2,)))(np.ones(4, np.float32)))
    assert "reduce_window_sum" in program
    program = str(tw.make_jaxpr(lambda x: reduce_window(x, 1.0, add, (2,)))(np.ones(4, np.float32)))
    assert "reduce_window_sum" not in program


def test_sizes_and_padding_by_name():
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(reduce_window(x, 0.0, add, (2,), (2,), "SAME"), [1, 5, 4])
    np.testing.assert_array_equal(reduce_window(x, 0.0, add, (2,), (2,), "SAME_LOWER"), [0, 3, 7])
    np.testing.assert_array_equal(reduce_window(x, 0.0, add, (2,), (2,), "VALID"), [1, 5])


def test_pairs_of_arrays():
    x, y = np.array([3.0, 1.0, 2.0], np.float32), np.array([1, 2, 3], np.int32)
    low, total = reduce_window((x, y), (-np.inf, 0), lambda a, b: (max(a[0], b[0]), add(a[1], b[1])), (2,))
    np.testing.assert_array_equal(low, [3, 2])
    np.testing.assert_array_equal(total, [3, 5])


def test_a_generic_computation_has_derivatives():
    def products(x):
        return reduce_window(x, 1.0, lambda a, b: mul(a, b), (2,)).sum()

    x = np.array([2.0, 3.0, 5.0, 7.0], np.float32)
    np.testing.assert_allclose(tw.grad(products)(x), [3, 2 + 5, 3 + 7, 5])
    np.testing.assert_allclose(tw.jvp(products, (x,), (np.ones_like(x),))[1], 25)


def test_bad_arguments_have_named_errors():
    x = np.ones(4, np.float32)
    with pytest.raises(errors.ArgumentError):
        reduce_window(x, 0.0, add, (2,), padding="FULL")
    with pytest.raises(errors.ShapeError):
        reduce_window(x, 0.0, add, (2, 2))
    with pytest.raises(errors.ShapeError):
        reduce_window(x, 0.0, lambda a, b: a > b, (2,))
