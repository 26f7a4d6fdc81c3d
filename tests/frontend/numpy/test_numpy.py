"""`tilewright.numpy` against NumPy: every call of `numpy_calls.py`, dtypes by JAX's rule of 32 bits."""

import numpy as np
import pytest

from tests.support.calls.numpy_calls import FAMILIES
from tests.support.comparing import flat, tolerance
from tilewright import numpy as jnp
from tilewright.core.ir.types import canonical_dtype

CASES = [
    pytest.param(family, name, args, kwargs, id=f"{family}-{number}-{name}")
    for family, cases in FAMILIES.items()
    for number, (name, args, kwargs) in enumerate(cases)
]
# NumPy keeps narrow dtypes or answers in double precision where JAX's rule says otherwise.
OTHER_KINDS = {"bitwise_count", "histogram", "histogram_bin_edges", "take", "digitize"}


@pytest.mark.law
@pytest.mark.parametrize("family,name,args,kwargs", CASES)
@pytest.mark.filterwarnings("ignore")
def test_against_numpy(family, name, args, kwargs):
    ours, theirs = (jnp.linalg, np.linalg) if family == "linalg" else (jnp, np)
    given = (ours.sum, *args[1:]) if name == "apply_over_axes" else args
    with np.errstate(all="ignore"):
        expected = flat(getattr(theirs, name)(*args, **kwargs))
    found = flat(getattr(ours, name)(*given, **kwargs))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert a.dtype == canonical_dtype(a.dtype) or name in ("shape", "ndim", "size")
        if name not in OTHER_KINDS:
            assert a.dtype.kind == b.dtype.kind or {a.dtype.kind, b.dtype.kind} <= set("iufb")
        t = tolerance(a.dtype)
        np.testing.assert_allclose(a, b, rtol=t, atol=t, equal_nan=True)
