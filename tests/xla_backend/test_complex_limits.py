"""Compiled complex functions of what is not finite: NumPy's values, which are C's."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp

LARGE = {"complex64": 1.8446743e19, "complex128": 1.3407807929942594e154}  # whose square overflows
# Where XLA's functions do not look at the sign of a zero, which says on which side of a cut the operand is.
ON_CUT = {
    "sqrt": lambda z: (z.imag == 0) & np.signbit(z.imag), "acos": lambda z: (z.imag == 0) & np.signbit(z.imag),
    "acosh": lambda z: (z.imag == 0) & np.signbit(z.imag), "asin": lambda z: (z.imag == 0) & np.signbit(z.imag),
    "atanh": lambda z: (z.imag == 0) & np.signbit(z.imag), "asinh": lambda z: (z.real == 0) & np.signbit(z.real),
    "atan": lambda z: (z.real == 0) & np.signbit(z.real),
}  # fmt: skip
NAMES = "exp exp2 log log1p log2 log10 sqrt cosh sinh tanh cos sin tan acos acosh asin asinh atan atanh".split()


def same(found, wanted):
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_values_that_are_not_finite(name, dtype):
    large = 1.5 if name == "exp2" else LARGE[dtype]  # its phase is of a rounded product
    parts = [0.0, -0.0, 1.5, -1.5, large, -large, np.inf, -np.inf, np.nan]
    z = np.array([complex(x, y) for x in parts for y in parts])
    z = z[~np.isfinite(z) & ~ON_CUT.get(name, lambda z: np.zeros(z.shape, bool))(z)]
    with np.errstate(all="ignore"), tw.enable_x64(True):
        same(np.asarray(tw.jit(getattr(tnp, name))(z.astype(dtype))), getattr(np, name)(z))


def test_expm1_beyond_what_numpy_computes():
    z = np.array([complex(x, y) for x in (-np.inf, np.inf) for y in (np.inf, np.nan)], np.complex64)
    same(np.asarray(tw.jit(tnp.expm1)(z)), np.array([-1, -1, complex(np.inf, np.nan), complex(np.inf, np.nan)]))
