"""The Python array API standard: inspection, what its suite found, and other libraries' paths for arrays of any kind.

The suite itself runs from a checkout of it: `python -m benchmarks.compatibility.array_api`.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from tests.support.paths import ROOT
from tilewright import errors
from tilewright import numpy as tnp

INFO = tnp.__array_namespace_info__()


def test_arrays_and_tracers_tell_their_namespace():
    assert tnp.ones(2).__array_namespace__() is tnp
    assert tnp.ones(2).__array_namespace__(api_version="2024.12") is tnp
    tw.jit(lambda x: [x, x.__array_namespace__(api_version=tnp.__array_api_version__)][0])(1.0)
    with pytest.raises(errors.ArgumentError, match="1999.12"):
        tnp.ones(2).__array_namespace__(api_version="1999.12")


def test_inspection():
    assert INFO.capabilities() == {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}
    assert INFO.default_device() in INFO.devices() and tw.devices()[0] in INFO.devices()
    for x64, integral, real in ((False, "int32", "float32"), (True, "int64", "float64")):
        with tw.enable_x64(x64):
            assert INFO.default_dtypes()["indexing"] == integral and INFO.default_dtypes()["real floating"] == real
            assert list(INFO.dtypes(kind="real floating")) == ["float32", "float64"][: 1 + x64]
            assert INFO.dtypes(kind=("bool", "complex floating")).keys() == {
                "bool", "complex64", *["complex128"][: x64],
            }  # fmt: skip
            assert len(INFO.dtypes()) == 9 + 4 * x64
            for name, dtype in INFO.dtypes().items():
                assert tnp.empty(1, dtype=dtype, device=INFO.devices()[-1]).dtype == name
    with pytest.raises(errors.ArgumentError, match="of kind 'text'"):
        INFO.dtypes(kind="text")


def test_what_the_suite_found():
    nothing = tnp.array([], int)
    assert tnp.take(tnp.ones((2, 0)), nothing, 1).shape == (2, 0)
    assert tnp.take(tnp.ones((0, 3)), tnp.ones((2, 0), int), 0).shape == (2, 0, 3)
    assert tnp.repeat(tnp.ones(0), nothing).shape == (0,)
    with pytest.raises(IndexError, match="from an axis of size 0"):
        tnp.take(tnp.ones(0), tnp.array([0]))
    for kind in (IndexError, ValueError):
        with pytest.raises(kind, match="axis -4 is out of range"):
            tnp.expand_dims(tnp.ones((2, 2)), -4)
    with pytest.raises(ValueError, match="nonzero of an array of shape ()"):
        tnp.nonzero(tnp.array(1))
    for shape, gone in (((0,), (0, 3)), ((0, 3), (0,)), ((2, 0), (0,))):  # masks without elements along an axis
        assert tnp.ones((2, 3))[np.ones(shape, bool)].shape == gone == np.ones((2, 3))[np.ones(shape, bool)].shape
    with pytest.raises(IndexError, match="or no elements"):
        tnp.ones((2, 3))[np.ones((0, 2), bool)]
    assert tnp.unique_all(tnp.array(3)).inverse_indices.shape == ()
    assert tnp.unique_inverse(tnp.ones((2, 2))).inverse_indices.shape == (2, 2)
    assert type(tnp.meshgrid(np.ones(2), np.ones(3))) is tuple is type(tnp.broadcast_arrays(1, 2))
    x = tnp.ones(2)
    here = x.to_device(x.device, stream=None)
    assert here.committed and here.to_device(here.device) is here and x.to_device(None) is x
    with pytest.raises(errors.UnsupportedError, match="stream"):
        x.to_device(x.device, stream=1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("jit", [True, False])
def test_zeros_have_the_signs_of_numpys(dtype, jit):
    """Quotients, remainders and signs that are 0; -1 // inf and 1 // -inf are -1."""
    ends = np.array([0.0, -0.0, 1.5, -1.5, 3.0, -3.0, np.inf, -np.inf, np.nan], dtype)
    with tw.enable_x64(True), np.errstate(all="ignore"):
        x, y = (a.ravel() for a in np.meshgrid(ends, ends[2:]))
        for name, given in (("floor_divide", (x, y)), ("remainder", (x, y)), ("divmod", (x, y)), ("sign", (ends,))):
            f = getattr(tnp, name)
            found, wanted = (tw.jit(f) if jit else f)(*given), getattr(np, name)(*given)
            for a, b in zip(tw.tree.leaves(found), tw.tree.leaves(wanted), strict=True):
                np.testing.assert_array_equal(a, b)
                number = ~np.isnan(b)
                np.testing.assert_array_equal(np.signbit(a)[number], np.signbit(b)[number], err_msg=name)
        assert str(tnp.sign(np.array([complex(-0.0, -0.0)]))[0]) == "0j"


def test_a_remainder_of_zero_has_the_derivative_of_others():
    remainder, quotient = tw.grad(tnp.remainder, (0, 1)), tw.grad(tnp.floor_divide, (0, 1))
    assert remainder(3.0, 1.5) == (1.0, -2.0) and remainder(3.0, -1.5)[0] == 1.0 and remainder(3.0, 2.0) == (1.0, -1.0)
    assert quotient(3.0, 1.5) == quotient(0.0, 2.0) == quotient(1.0, 0.0) == (0.0, 0.0)


def test_running_products_of_small_integers_are_wide():
    for name in ("int8", "uint8", "bool"):
        found = tnp.cumulative_prod(tnp.ones(3, name), include_initial=True)
        assert found.dtype == tnp.cumulative_sum(tnp.ones(3, name)).dtype and found.shape == (4,)


SUITE = """
import pytest
pytestmark = pytest.mark.filterwarnings("ignore")

def test_add(): assert 1 + 1 == 2
def test_setitem(): assert False
def test_other(): assert False
def test_flaky(): pytest.skip("flaky")
"""
OPTIONS = "def pytest_addoption(parser):\n    parser.addoption('--max-examples')\n" \
          "    parser.addoption('--disable-deadline', action='store_true')\n"  # fmt: skip


def run(*command, **environment):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environment}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("failing", [True, False])
def test_the_script_counts_by_reason(tmp_path, failing):
    folder = tmp_path / "array_api_tests"
    folder.mkdir()
    (tmp_path / "conftest.py").write_text(OPTIONS)
    (folder / "test_few.py").write_text(SUITE if failing else SUITE.replace("def test_other(): assert False", ""))
    done = run("-m", "benchmarks.compatibility.array_api", str(tmp_path), "--examples", "1")
    assert done.returncode == failing, done.stdout + done.stderr
    assert f"1 passed, {int(failing)} failed, 1 fail as expected, 1 skipped" in done.stdout
    assert "expected, 1: arrays do not change" in done.stdout and "skipped, 1: flaky" in done.stdout


LIBRARIES = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
import tilewright as tw
from tilewright import numpy as tnp

tw.config.update("enable_x64", True)
x = np.random.default_rng(0).random((20, 3))
calls = {}
try:
    from scipy import integrate, signal, special, stats
    calls["scipy"] = [
        lambda x: special.softmax(x, axis=1), lambda x: special.gammaln(x), lambda x: special.xlogy(x, x),
        lambda x: special.entr(x), lambda x: stats.skew(x, axis=0), lambda x: stats.moment(x, 2, axis=0),
        lambda x: stats.gmean(x, axis=0), lambda x: stats.ttest_1samp(x, 0.3, axis=0).statistic,
        lambda x: stats.entropy(x, axis=0), lambda x: signal.detrend(x, axis=0),
        lambda x: integrate.trapezoid(x, axis=0), lambda x: integrate.simpson(x, axis=0),
    ]
except ImportError: pass
try:
    import sklearn
    from sklearn import metrics
    from sklearn.decomposition import PCA
    sklearn.set_config(array_api_dispatch=True)
    calls["sklearn"] = [
        lambda x: abs(PCA(2, svd_solver="full").fit(x).transform(x)),
        lambda x: tnp.asarray(metrics.mean_squared_error(x[:, 0], x[:, 1])),
    ]
except ImportError: pass
try:
    import array_api_compat as compat
    xp = compat.array_namespace(tnp.asarray(x))
    assert xp is tnp and compat.device(xp.ones(2)) == tw.devices()[0]
except ImportError: pass

for library, functions in calls.items():
    for n, f in enumerate(functions):
        ours, theirs = f(tnp.asarray(x)), f(x)
        assert isinstance(ours, tw.Array), (library, n)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, err_msg=f"{library} {n}")
    print("ran", library, len(functions))
"""


def test_other_libraries_compute_with_arrays_of_ours():
    pytest.importorskip("scipy")
    done = run("-c", LIBRARIES, SCIPY_ARRAY_API="1")
    assert done.returncode == 0 and "ran scipy 12" in done.stdout, done.stderr
