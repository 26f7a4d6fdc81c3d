"""Compiled complex functions on the axes, and of what is not finite: NumPy's values, which are C's."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp

LARGE = {"complex64": 1.8446743e19, "complex128": 1.3407807929942594e154}  # whose square overflows
NAMES = "exp exp2 log log1p log2 log10 sqrt cosh sinh tanh cos sin tan acos acosh asin asinh atan atanh".split()


def same(found, wanted):
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), rtol=3e-6, atol=1e-7)


@pytest.mark.law
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_values_on_the_axes_and_beyond_what_is_finite(name, dtype):
    large = 1.5 if name == "exp2" else LARGE[dtype]  # its phase is of a rounded product
    parts = [0.0, -0.0, 1.5, -1.5, large, -large, np.inf, -np.inf, np.nan]
    z = np.array([complex(x, y) for x in parts for y in parts])
    z = z[~np.isfinite(z) | (np.abs(z) < 3)]
    with np.errstate(all="ignore"), tw.enable_x64(True):
        found, wanted = np.asarray(tw.jit(getattr(tnp, name))(z.astype(dtype))), getattr(np, name)(z)
    same(found, wanted)
    for part in ("real", "imag") if name != "sinh" else ():  # whose real part is 0 of either sign on the imaginary axis
        a, b = getattr(found, part), getattr(wanted, part)
        zeros = np.isfinite(z) & (b == 0)
        np.testing.assert_array_equal(np.signbit(a)[zeros], np.signbit(b)[zeros])


def test_expm1_beyond_what_numpy_computes():
    z = np.array([complex(x, y) for x in (-np.inf, np.inf) for y in (np.inf, np.nan)], np.complex64)
    same(np.asarray(tw.jit(tnp.expm1)(z)), np.array([-1, -1, complex(np.inf, np.nan), complex(np.inf, np.nan)]))
