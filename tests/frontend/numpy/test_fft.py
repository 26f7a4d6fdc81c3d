"""Fourier transforms against NumPy: values, dtypes, norms, axes, derivatives, batches, and what bad input does."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import lax
from tilewright import numpy as jnp
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError, UnsupportedError

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((2, 5, 3, 4))
COMPLEX = REAL + 1j * RNG.standard_normal(REAL.shape)
ONE = [{}, {"n": 6}, {"n": 3, "axis": 1}, {"n": 1}, {"axis": 0, "norm": "ortho"}, {"axis": -2, "norm": "forward"}]
MANY = [{}, {"s": (3, 4), "axes": (2, 0)}, {"axes": (1, 0), "norm": "ortho"}, {"axes": (3, 1), "norm": "forward"},
        {"s": (-1, 2), "axes": (0, 1), "norm": "backward"}]  # fmt: skip
CALLS = [(name, k) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for k in ONE]
CALLS += [(name + end, k) for name in ("fft", "ifft", "rfft", "irfft") for end in "2n" for k in MANY]
CALLS += [("fftn", {"axes": (2,)}), ("ifftn", {"axes": (0, 2, 1)}), ("rfftn", {"axes": (2, 1, 3)})]


def of_real(name):
    return name.startswith(("rfft", "ihfft"))


def results(xp, x, z, calls=CALLS):
    return [getattr(xp.fft, name)(x if of_real(name) else z, **keywords) for name, keywords in calls]


def check(found, expected, tolerance):
    for (name, keywords), f, e in zip(CALLS, found, expected, strict=True):
        f, e = np.asarray(f), np.asarray(e)
        assert f.dtype == e.dtype and f.shape == e.shape, (name, keywords)
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance, err_msg=f"{name} {keywords}")


@pytest.fixture
def wide():
    with tw.config(enable_x64=True):
        yield


@pytest.mark.parametrize("bits", [32, 64])
def test_as_numpy(bits, wide):
    x, z = REAL.astype(f"float{bits}"), COMPLEX.astype(f"complex{2 * bits}")
    expected = [e.astype(z.dtype if np.iscomplexobj(e) else x.dtype) for e in results(np, x, z)]
    check(tw.jit(lambda x, z: results(jnp, x, z))(x, z), expected, 1e-4 if bits == 32 else 1e-12)


def test_vmap_is_a_loop(wide):
    rows = [results(np, x, z) for x, z in ((REAL, COMPLEX), (2 * REAL[::-1], COMPLEX.conj()))]
    x, z = np.stack([REAL, 2 * REAL[::-1]], 2), np.stack([COMPLEX, COMPLEX.conj()], -1)
    found = by_numpy(tw.vmap(lambda x, z: results(jnp, x, z), in_axes=(2, 4)), x, z)
    check(found, [np.stack(parts) for parts in zip(*rows, strict=True)], 1e-12)


def test_derivatives_are_the_transform_itself(wide):
    """Transforms are linear; backwards, the real part of the pairing stays."""
    rng = np.random.default_rng(1)
    f = lambda x, z: results(jnp, x, z)  # noqa: E731
    tx, tz = REAL[::-1].copy(), COMPLEX[:, ::-1].copy()
    expected = results(np, tx, tz)
    check(by_numpy(lambda x, z: tw.jvp(f, (x, z), (tx, tz))[1], REAL, COMPLEX), expected, 1e-12)
    cts = [(rng.standard_normal(e.shape) + 1j * rng.standard_normal(e.shape)) for e in expected]
    cts = [c if np.iscomplexobj(e) else c.real for c, e in zip(cts, expected, strict=True)]
    cx, cz = by_numpy(lambda x, z, cts: tw.vjp(f, x, z)[1](cts), REAL, COMPLEX, cts)
    forward = sum(np.sum(c * e).real for c, e in zip(cts, expected, strict=True))
    np.testing.assert_allclose(np.sum(np.asarray(cx) * tx) + np.sum(np.asarray(cz) * tz).real, forward, rtol=1e-10)


@pytest.mark.parametrize("dtype,name,expected", [
    ("int32", "fft", "complex64"), ("bool", "rfft", "complex64"), ("bfloat16", "rfft", "complex64"),
    ("float16", "fft", "complex64"), ("uint8", "irfft", "float32"), ("int64", "fft", "complex128"),
    ("uint64", "rfft", "complex128"), ("int64", "hfft", "float64"), ("int64", "ihfft", "complex128"),
])  # fmt: skip
def test_eager_calls_and_dtypes(dtype, name, expected):
    x = np.array([3, 1, 0, 1])
    with tw.config(enable_x64=expected in ("complex128", "float64")):
        found = getattr(jnp.fft, name)(jnp.asarray(x, dtype))
    assert found.dtype == np.dtype(expected) and not found.weak_type
    reference = getattr(np.fft, name)(x if dtype != "bool" else x > 0)
    np.testing.assert_allclose(np.asarray(found), reference, rtol=1e-5, atol=1e-5)


def test_nothing_and_numbers():
    assert jnp.fft.fft(jnp.zeros((0, 4))).shape == (0, 4)
    assert jnp.fft.irfft(jnp.zeros((0, 3))).shape == (0, 4)
    assert jnp.fft.fftn(1.5, axes=()) == 1.5 + 0j
    assert jnp.fft.fft(jnp.zeros((0,)), n=2).tolist() == [0, 0]
    np.testing.assert_allclose(np.asarray(jnp.fft.fft(2.0 * jnp.ones(1))), [2 + 0j])


def test_lax_fft_names_its_transform():
    x = REAL.astype("float32")
    expected = np.fft.rfftn(x, axes=(-2, -1))
    for kind in ("RFFT", "rfft", lax.FftType.RFFT, 2):
        np.testing.assert_allclose(np.asarray(lax.fft(x, kind, (3, 4))), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("call,error,text", [
    (lambda x: jnp.fft.fft(x, n=0), ArgumentError, "0 data points"),
    (lambda x: jnp.fft.fft(x[:0]), ArgumentError, "0 data points"),
    (lambda x: jnp.fft.irfft(x[:1]), ArgumentError, "0 data points"),
    (lambda x: jnp.fft.fft(x, axis=1), ArgumentError, "axis 1"),
    (lambda x: jnp.fft.fft(x[0]), ArgumentError, "axis -1"),
    (lambda x: jnp.fft.fft(x, n=2.5), ArgumentTypeError, "n must be an integer"),
    (lambda x: jnp.fft.fft(x, norm="both"), ArgumentError, "norm='both'"),
    (lambda x: jnp.fft.hfft(x, norm="both"), ArgumentError, "norm='both'"),
    (lambda x: jnp.fft.fft([1.0, 2.0]), ArgumentTypeError, "list"),
    (lambda x: jnp.fft.rfft(x + 1j), DtypeError, "c64"),
    (lambda x: jnp.fft.fft2(x), ArgumentError, "axis -2"),
    (lambda x: jnp.fft.fftn(x, s=(2, 2), axes=(0,)), ArgumentError, "2 sizes for 1 axis"),
    (lambda x: jnp.fft.fftn(x[None], axes=(0, 0)), ArgumentError, "repeats"),
    (lambda x: jnp.fft.rfftn(x, axes=()), ArgumentError, "no axes"),
    (lambda x: lax.fft(x, "DCT", 3), ArgumentError, "fft_type='DCT'"),
    (lambda x: lax.fft(x, "FFT", 2), ShapeError, "last axes"),
    (lambda x: lax.fft(x, "FFT", (3, 3)), ShapeError, "2 axes"),
])  # fmt: skip
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call(jnp.ones(3))


def all_kinds(z):
    return jnp.fft.fftn(z), jnp.fft.rfft(z.real), jnp.fft.irfft(z), jnp.fft.ifft(z, axis=0)


@pytest.mark.parametrize("target,plugin", [("cuda:sm_90", "jax_cuda13_plugin"), ("tpu:v5e", "libtpu")])
@pytest.mark.targets
def test_compiled_for_devices_that_are_not_here(target, plugin):
    pytest.importorskip(plugin)
    assert tw.compile(all_kinds, tw.ShapeDtypeStruct((6, 8), "complex64"), target=target) is not None


@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942", "tpu:v5e"])
def test_printed_for_devices_that_are_not_here(target, wide):
    def printed(bits):
        return str(tw.compile(all_kinds, tw.ShapeDtypeStruct((6, 8), f"complex{bits}"), target=target, stop="module"))

    assert printed(64).count("stablehlo.fft") == 4
    if target.startswith("tpu"):
        with pytest.raises(UnsupportedError, match="TPU"):
            printed(128)
    else:
        assert printed(128).count("stablehlo.fft") == 4
