"""Operators: NumPy's values, JAX's promotion, and what is refused."""

import operator
import subprocess
import sys

import numpy as np
import pytest

from tilewright import config, jit, make_jaxpr
from tilewright import numpy as tnp
from tilewright.core.support.errors import DtypeError, ImmutableArrayError, ShapeError

INTEGERS = np.array([-7, -3, -1, 1, 2, 5], np.int32)
DIVISORS = np.array([2, -2, 3, -3, 5, 4], np.int32)


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod lt le gt ge eq ne".split())
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_values_are_those_of_numpy(name, dtype):
    function, x, y = getattr(operator, name), INTEGERS.astype(dtype), DIVISORS.astype(dtype)
    expected = function(x, y)
    for found in (function(tnp.asarray(x), y), function(x, tnp.asarray(y)), jit(function)(x, y)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_bits(name):
    function, y = getattr(operator, name), np.abs(DIVISORS)
    np.testing.assert_array_equal(function(tnp.asarray(INTEGERS), y), function(INTEGERS, y))


def test_zero_divisors():
    x, zero = tnp.asarray([3, -3]), tnp.asarray([0, 0])
    np.testing.assert_array_equal(x % zero, [0, 0])
    assert np.isnan(tnp.asarray(1.0) % 0.0) and np.isinf(tnp.asarray(1.0) // 0.0)


WEAK = [
    ("int32", 2.5, "float32", True), ("int8", 3, "int8", False), ("bfloat16", 2.0, "bfloat16", False),
    ("float16", 1j, "complex64", False), ("bool", 2, "int32", True), ("uint8", True, "uint8", False),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "number", "result", "weak"), WEAK)
def test_numbers_are_weak(dtype, number, result, weak):
    x = tnp.ones(3, dtype)
    for out in (x + number, number + x):
        assert str(out.dtype) == result and out.weak_type == weak


def test_booleans_add_and_multiply_as_logic():
    x = tnp.asarray([True, False, True])
    assert (x + x).dtype == bool and (x * x).dtype == bool
    with pytest.raises(DtypeError):
        x - x


def test_shapes_broadcast_and_mismatches_are_named():
    x, y = tnp.ones((2, 1)), tnp.ones(3)
    assert (x + y).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"\(3,\).*\(4,\)|\(4,\).*\(3,\)"):
        tnp.ones(3) + tnp.ones(4)
    with config(numpy_rank_promotion="raise"), pytest.raises(ShapeError, match="rank"):
        tnp.ones((2, 3)) + tnp.ones(3)


def test_integer_powers_are_products():
    names = [e.primitive.name for e in make_jaxpr(lambda x: (x**2, x**3, x**-1, x**0.5))(1.0).eqns]
    assert names == ["square", "integer_pow", "integer_pow", "pow"]


def test_divmod_round_and_matmul():
    x = tnp.asarray([7.5, -7.5])
    quotient, rest = divmod(x, 2.0)
    np.testing.assert_array_equal(quotient, [3.0, -4.0])
    np.testing.assert_array_equal(rest, [1.5, 0.5])
    np.testing.assert_array_equal(round(tnp.asarray([0.124, 2.5, 3.5]), 1), np.float32([0.1, 2.5, 3.5]))
    np.testing.assert_array_equal(tnp.eye(2) @ x, x)


def test_other_types_are_left_to_python():
    x = tnp.ones(3)
    assert x.__add__("a") is NotImplemented
    with pytest.raises(TypeError):
        x + "a"


def test_assignment_says_what_to_write():
    with pytest.raises(ImmutableArrayError, match="at"):
        tnp.ones(3)[0] = 1.0


def test_iteration_and_length():
    assert [float(v) for v in tnp.arange(3.0)] == [0.0, 1.0, 2.0] and len(tnp.ones((4, 2))) == 4
    with pytest.raises(TypeError):
        len(tnp.asarray(1.0))


def test_numpy_imports_what_it_needs_within_an_operator():
    code = (
        "import numpy as np, tilewright as tw\n"
        "x = tw.numpy.arange(3.0) == np.ones(3, np.float32)\n"
        "mask = np.array([False])\n"
        "for _ in range(3): assert not (x == mask).tolist()[1] and repr(mask)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-800:]


def test_operands_that_tell_their_array():
    class Variable:
        def __jax_array__(self):
            return tnp.arange(3.0)

    x = tnp.ones(3)
    for f in (lambda x, v: x + v, lambda x, v: v.__jax_array__() * x + v):
        assert f(x, Variable()).tolist() == jit(lambda x, f=f: f(x, Variable()))(x).tolist()
    assert (x - Variable()).tolist() == [1, 0, -1] and (x == Variable()).tolist() == [False, True, False]
