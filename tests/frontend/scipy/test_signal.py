"""`scipy.fft` and `scipy.signal` against SciPy: values, dtypes, derivatives, batches, and what bad input does."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import tilewright as tw
from tilewright import numpy as jnp
from tilewright.core.support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from tilewright.scipy import fft, signal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 6))


@pytest.fixture(autouse=True)
def wide():
    with tw.config(enable_x64=True):
        yield


def check(found, expected, tolerance=1e-10, note=""):
    found = [np.asarray(v) for v in (found if isinstance(found, (list, tuple)) else [found])]
    expected = [np.asarray(v) for v in (expected if isinstance(expected, (list, tuple)) else [expected])]
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape and f.dtype == e.dtype, note
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance, err_msg=note)


# ---------------------------------------------------------------------------- cosine transforms

COSINES = [
    (name, dict(type=kind, norm=norm, **more)) for name in ("dct", "idct") for kind in (1, 2, 3, 4)
    for norm, more in ((None, {}), ("ortho", {"axis": 1}), ("forward", {"n": 5, "axis": 1}), (None, {"n": 7}))
]  # fmt: skip
COSINES += [
    (name, more) for name in ("dctn", "idctn")
    for more in ({}, {"s": (-1, 4), "axes": (0, 2)}, {"axes": (1,), "type": 3, "norm": "ortho"})
]  # fmt: skip


def cosines(module, x):
    return [getattr(module, name)(x, **more) for name, more in COSINES]


def test_cosine_transforms_and_their_derivatives():
    transformed = lambda x: cosines(fft, x)  # noqa: E731
    found, tangents = tw.jit(lambda x, t: tw.jvp(transformed, (x,), (t,)))(X, X[::-1].copy())
    for (name, more), f, t, e, d in zip(COSINES, found, tangents, cosines(scipy.fft, X), cosines(scipy.fft, X[::-1]),
                                        strict=True):  # fmt: skip
        check([f, t], [e, d], note=f"{name} {more}")


def test_cosine_transforms_of_other_dtypes():
    check(fft.dct(X.astype(np.float32)), scipy.fft.dct(X.astype(np.float32)), 1e-5)
    assert fft.dct(jnp.arange(4)).dtype == np.float64 and fft.dct(jnp.ones(4, jnp.bfloat16)).dtype == np.float32
    check(fft.dct(X + 1j * X[::-1]), scipy.fft.dct(X + 1j * X[::-1]))
    check(fft.idct(fft.dct(X[0, 0, :1])), X[0, 0, :1])
    check(tw.vmap(lambda x: fft.dct(x, norm="ortho"), 1, 1)(X), scipy.fft.dct(X, norm="ortho"))
    assert fft.dct(jnp.zeros((0, 3))).shape == (0, 3)


# ---------------------------------------------------------------------------- convolutions


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_convolutions(kind):
    a, b = RNG.standard_normal((5, 6)), RNG.standard_normal((2, 3))
    square = RNG.standard_normal((4, 4))
    a, b, square = (v * (1 + 0.5j) if kind == "complex" else v for v in (a, b, square))
    pairs = [(a, b), (b, a), (a[0], b[0]), (b[0], a[0]), (a, square[:, :2]), (square, square)]
    modes = ("full", "same", "valid")
    one = ("convolve", "correlate", "fftconvolve")
    calls = [(n, {"mode": m}, p) for n in one for m in modes for p in pairs]
    calls += [(n, {"mode": m, "method": "fft"}, pairs[0]) for n in one[:2] for m in modes]
    planes = [p for p in pairs if p[0].ndim == 2]
    calls += [(n, {"mode": m}, p) for n in ("convolve2d", "correlate2d") for m in modes for p in planes]
    calls += [("fftconvolve", {"mode": m, "axes": 1}, (a, np.concatenate([b, b, b[:1]]))) for m in modes]
    found = tw.jit(lambda: [getattr(signal, n)(*map(jnp.asarray, p), **k) for n, k, p in calls])()
    for (n, k, p), f in zip(calls, found, strict=True):
        if n == "correlate" and k["mode"] == "valid" and p[0].size < p[1].size:
            e = scipy.signal.convolve(p[0], p[1].conj()[(slice(None, None, -1),) * p[1].ndim], "valid")
        else:
            e = getattr(scipy.signal, n)(*p, **k)
        check(f, e, note=f"{n} {k} {p[0].shape} {p[1].shape}")


def test_convolutions_in_batches_and_their_gradients():
    a, b = RNG.standard_normal((3, 6)), RNG.standard_normal((3, 2))
    for method in ("direct", "fft"):
        f = lambda a, b: signal.convolve(a, b, "same", method)  # noqa: E731, B023
        found = tw.jit(tw.vmap(f))(a, b)
        check(found, np.stack([scipy.signal.convolve(x, y, "same") for x, y in zip(a, b, strict=True)]))
        _, pull = tw.vjp(f, a[0], b[0])
        ct = RNG.standard_normal(6)
        forward = np.sum(ct * (scipy.signal.convolve(a[1], b[0], "same") + scipy.signal.convolve(a[0], b[1], "same")))
        np.testing.assert_allclose(sum(np.sum(np.asarray(g) * t) for g, t in zip(pull(ct), (a[1], b[1]))), forward)
    assert signal.convolve(jnp.arange(3), jnp.arange(2)).dtype == np.float64


# ---------------------------------------------------------------------------- trends and spectra

Y = RNG.standard_normal((2, 40, 3))
DETREND = [{"axis": 1}, {"axis": 1, "type": "constant"}, {"axis": 1, "bp": [10, 11, 30]}, {}, {"axis": 0}]


@pytest.mark.parametrize("keywords", DETREND, ids=str)
def test_detrend(keywords):
    check(signal.detrend(Y, **keywords), scipy.signal.detrend(Y, **keywords))


SPECTRA = [
    ("stft", {"nperseg": 8}),
    ("stft", {"nperseg": 9, "noverlap": 7, "nfft": 16, "boundary": "even", "fs": 3.0}),
    ("stft", {"nperseg": 8, "window": "hamming", "boundary": "odd", "padded": False, "detrend": "linear"}),
    ("stft", {"nperseg": 8, "boundary": "constant", "return_onesided": False}),
    ("stft", {"window": np.hanning(11), "nperseg": None, "boundary": None}),
    ("welch", {"nperseg": 8, "fs": 2.0}),
    ("welch", {"nperseg": 9, "average": "median", "scaling": "spectrum", "detrend": False}),
    ("welch", {"nperseg": 40}),
    ("welch", {"nperseg": 8, "window": ("kaiser", 4.0), "noverlap": 0, "return_onesided": False}),
]


@pytest.mark.law
@pytest.mark.parametrize("name,keywords", SPECTRA, ids=lambda x: str(x)[:40])
def test_spectra(name, keywords):
    x, axis = (Y, 1) if name == "welch" else (Y[0], 0)
    check(getattr(signal, name)(x, axis=axis, **keywords), getattr(scipy.signal, name)(x, axis=axis, **keywords), 1e-9)


def test_cross_spectra_and_complex_signals():
    for keywords in ({"nperseg": 8}, {"nperseg": 9, "average": "median", "nfft": 12}):
        expected = scipy.signal.csd(Y[0], Y[1], axis=0, **keywords)
        check(signal.csd(Y[0], Y[1], axis=0, **keywords), expected, 1e-9)
    check(signal.csd(Y[0, :, 0], Y[1, :30, 0], nperseg=8), scipy.signal.csd(Y[0, :, 0], Y[1, :30, 0], nperseg=8), 1e-9)
    z = Y[0, :, 0] + 1j * Y[1, :, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(signal.welch(z, nperseg=8), scipy.signal.welch(z, nperseg=8), 1e-9)
        assert [v.shape for v in signal.welch(Y[0, :, 0], nperseg=100)] == [(21,), (21,)]
    f, p = tw.jit(lambda x: signal.welch(x, nperseg=8))(Y[0, :, 0].astype(np.float32))
    assert f.dtype == p.dtype == np.float32


INVERSES = [{"nperseg": 8}, {"nperseg": 9, "noverlap": 6}, {"nperseg": 8, "window": "hamming"}]


@pytest.mark.parametrize("keywords", INVERSES, ids=str)
def test_istft_is_the_inverse(keywords):
    x = Y[0, :, 0]
    _, _, z = scipy.signal.stft(x, **keywords)
    check(signal.istft(z, **keywords), scipy.signal.istft(z, **keywords), 1e-9)
    _, _, z = signal.stft(Y, axis=1, **keywords)  # (2, frequencies, 3, segments)
    _, again = signal.istft(z, time_axis=-1, freq_axis=1, **keywords)
    np.testing.assert_allclose(np.asarray(again)[..., :40], np.moveaxis(Y, 1, -1), atol=1e-9)
    back = lambda x: signal.istft(signal.stft(x, **keywords)[2], **keywords)[1][:40]  # noqa: E731
    t = RNG.standard_normal(40)
    check(tw.jit(lambda x, t: tw.jvp(back, (x,), (t,)))(x, t), [x, t], 1e-9)


def test_spectra_of_nothing():
    assert [v.shape for v in signal.welch(jnp.zeros((2, 0)))] == [(2, 0), (2, 0)]


@pytest.mark.parametrize("call,error", [
    (lambda x: fft.dct(x, type=5), ArgumentError),
    (lambda x: fft.dct(x[:1], type=1), ArgumentError),
    (lambda x: fft.dct(x, norm="both"), ArgumentError),
    (lambda x: fft.dct(x, n=0), ArgumentError),
    (lambda x: fft.dctn(x, s=(2, 2), axes=(0,)), ArgumentError),
    (lambda x: signal.convolve(x, x[None]), ShapeError),
    (lambda x: signal.convolve(x, x, mode="all"), ArgumentError),
    (lambda x: signal.convolve(x, x, method="slow"), ArgumentError),
    (lambda x: signal.convolve(x, x[:0]), ShapeError),
    (lambda x: signal.fftconvolve(x, x[:0]), ShapeError),
    (lambda x: signal.convolve(x[None, :], x[:2, None], mode="valid"), ShapeError),
    (lambda x: signal.fftconvolve(x[None], jnp.stack([x] * 2), axes=2), ArgumentError),
    (lambda x: signal.fftconvolve(jnp.stack([x] * 3), jnp.stack([x] * 2), axes=1), ShapeError),
    (lambda x: signal.convolve2d(x, x), ShapeError),
    (lambda x: signal.convolve2d(x[None], x[None], boundary="wrap"), UnsupportedError),
    (lambda x: signal.detrend(x, type="square"), ArgumentError),
    (lambda x: signal.detrend(x, bp=100), ArgumentError),
    (lambda x: signal.detrend(x, overwrite_data=True), UnsupportedError),
    (lambda x: signal.welch(x, nperseg=0), ArgumentError),
    (lambda x: signal.welch(x, nperseg=4, noverlap=4), ArgumentError),
    (lambda x: signal.welch(x, nperseg=4, nfft=3), ArgumentError),
    (lambda x: signal.welch(x, scaling="loud"), ArgumentError),
    (lambda x: signal.welch(x, average="mode"), ArgumentError),
    (lambda x: signal.welch(x, window="door", nperseg=4), ArgumentError),
    (lambda x: signal.welch(x, window=np.ones((2, 2))), ShapeError),
    (lambda x: signal.welch(x, window=np.ones(60)), ShapeError),
    (lambda x: signal.csd(x, x[None]), ShapeError),
    (lambda x: signal.stft(x, nperseg=4, boundary="wall"), ArgumentError),
    (lambda x: signal.stft(x, nperseg=4, detrend=1), ArgumentError),
    (lambda x: signal.istft(x), ShapeError),
    (lambda x: signal.istft(x[None], freq_axis=-1), ArgumentError),
])  # fmt: skip
def test_bad_input(call, error):
    with pytest.raises(error):
        call(jnp.arange(8.0))


def test_signatures_are_those_of_jax():
    jax = pytest.importorskip("jax")
    for module, reference in ((fft, jax.scipy.fft), (signal, jax.scipy.signal)):
        assert {n for n in dir(reference) if n[0] != "_"} == set(module.__all__)
        for name in module.__all__:
            a, b = (inspect.signature(getattr(m, name)).parameters.values() for m in (module, reference))
            assert [(p.name, p.default) for p in a] == [(p.name, p.default) for p in b], name


def test_complex_where_real_is_needed():
    with pytest.raises(DtypeError):
        jnp.fft.rfft(X + 1j)


def test_cross_spectra_of_nothing_have_no_frequencies():
    for x, y in (((2, 0), (1, 3)), ((3,), (0,))):
        ours, theirs = (f(np.ones(x), np.ones(y)) for f in (signal.csd, scipy.signal.csd))
        assert [v.shape for v in ours] == [v.shape for v in theirs]
