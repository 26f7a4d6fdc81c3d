"""NumPy's functions on our arrays: the values are NumPy's, and the result is ours where the function is."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.calls.numpy_calls import FAMILIES
from tests.support.comparing import flat, tolerance
from tilewright import numpy as tnp
from tilewright.core.support.errors import ImmutableArrayError, TracerArrayConversionError
from tilewright.core.tracing.trace import Value

CASES = [
    pytest.param(family, name, args, kwargs, id=f"{family}-{number}-{name}")
    for family, cases in FAMILIES.items()
    for number, (name, args, kwargs) in enumerate(cases)
    if any(isinstance(x, (np.ndarray, tuple, list)) for x in args)
]


def ours(x):
    if isinstance(x, np.ndarray):
        return tnp.asarray(x)
    return type(x)(map(ours, x)) if type(x) in (list, tuple) else x


def leaves(x):
    return [y for v in x for y in leaves(v)] if isinstance(x, (tuple, list)) else [x]


@pytest.mark.law
@pytest.mark.parametrize("family,name,args,kwargs", CASES)
@pytest.mark.filterwarnings("ignore")
def test_values(family, name, args, kwargs):
    function = getattr(np.linalg if family == "linalg" else np, name)
    with np.errstate(all="ignore"):
        expected = flat(function(*args, **kwargs))
        found = flat(function(*map(ours, args), **kwargs))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        t = max(tolerance(a.dtype), tolerance(b.dtype))
        np.testing.assert_allclose(a, b, rtol=t, atol=t, equal_nan=True)


X = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
HERE = {
    "ufunc": lambda x: np.sin(x),
    "two operands": lambda x: (np.add(x, X), np.add(X, x), np.maximum(2.0, x)),
    "operators with NumPy on the left": lambda x: (X + x, X[0, 0] * x, np.float64(2) ** x, np.asarray(2.0) < x),
    "gufunc": lambda x: np.matmul(x, X.T),
    "two results": lambda x: (*np.divmod(x, 2), *np.modf(x)),
    "dtype of a ufunc": lambda x: np.add(x, 1, dtype=np.float16),
    "reduce": lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1, keepdims=True), np.hypot.reduce(x)),
    "accumulate, outer, reduceat": lambda x: (
        np.maximum.accumulate(x, axis=1), np.multiply.outer(x, X[0]), np.add.reduceat(x, [0, 1]),
    ),
    "where": lambda x: np.where(x > 2, x, X),
    "concatenate": lambda x: (np.concatenate([x, X], axis=1), np.stack((X, x)), np.append(X, x)),
    "clip": lambda x: (np.clip(x, 2, 4), np.clip(x, a_min=2, a_max=None), np.clip(x, min=3, max=4)),
    "keywords": lambda x: (np.sum(x, axis=0, keepdims=True), np.std(x, ddof=1), np.max(x, initial=9)),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, X),
    "linalg": lambda x: np.linalg.norm(x, axis=1),
    "like": lambda x: (np.zeros(3, like=x), np.asarray([1.0, 2.0], like=x), np.ones_like(x)),
    "bool": lambda x: (np.allclose(x, X), np.array_equal(X, x)),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("name", HERE)
def test_runs_here_and_under_transformations(name):
    expected = [np.asarray(v) for v in leaves(HERE[name](X))]
    for f in (HERE[name], tw.jit(HERE[name])):
        found = leaves(f(tnp.asarray(X)))
        assert all(isinstance(v, tw.Array) for v in found)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-3 if a.dtype == np.float16 else 1e-5)


def test_derivatives_and_batches():
    def f(x):
        return np.sum(np.exp(x) * np.where(x > 2, x, 0))

    x = tnp.asarray(X)
    np.testing.assert_allclose(tw.grad(f)(x), np.where(X > 2, np.exp(X) * (X + 1), 0), rtol=1e-5)
    np.testing.assert_allclose(tw.vmap(f)(x), [f(row) for row in X], rtol=1e-5)


def test_what_we_have_not_runs_in_numpy():
    x = tnp.asarray(X)
    for found, expected in (
        (np.real_if_close(x), np.real_if_close(X)),
        (np.add(x, 1, casting="unsafe"), np.add(X, 1)),
        (np.zeros_like(x, order="F"), np.zeros_like(X, order="F")),
        (np.frompyfunc(lambda v: v + 1, 1, 1)(x), X + 1),
        (np.vectorize(lambda v: v + 1)(x), X + 1),
    ):
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-5, atol=1e-5)
    assert np.array2string(x) == np.array2string(X) and np.shape(x) == (2, 3)
    with pytest.raises(TracerArrayConversionError):
        tw.jit(lambda v: np.real_if_close(v))(x)


def test_nothing_writes_into_our_arrays():
    x = tnp.asarray(X)
    for call in (
        lambda: np.sin(x, out=x),
        lambda: np.sin(X, out=x),
        lambda: np.add.reduce(x, out=x[0]),
        lambda: np.add.at(x, 0, 1.0),
        lambda: np.sum(x, 0, None, x[0]),
        lambda: np.clip(x, 1, 2, x),
        lambda: np.concatenate([x, x], out=x),
        lambda: np.copyto(x, X),
        lambda: np.put(x, 0, 1),
        lambda: np.putmask(x, X > 2, 0),
        lambda: np.fill_diagonal(x, 1),
        lambda: np.place(x, X > 2, 0),
    ):
        with pytest.raises(ImmutableArrayError, match="x.at"):
            call()
    assert x.tolist() == X.tolist()


def test_numpy_writes_into_its_own():
    x, host = tnp.asarray(X), X.copy()
    assert np.sin(x, out=host) is host
    np.testing.assert_allclose(host, np.sin(X), rtol=1e-6)
    np.copyto(host, x)
    host += x
    host[:] = host * 1
    assert type(host) is np.ndarray and host.tolist() == (2 * X).tolist()
    np.add.at(host, [0, 0], x[0])
    assert host[0].tolist() == (4 * X[0]).tolist()
    assert np.sum(x, axis=0, out=host[1]).tolist() == X.sum(0).tolist()


def test_other_classes_with_the_protocols_are_asked():
    class Theirs:
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return "ufunc"

        def __array_function__(self, function, types, args, kwargs):
            return "function"

    x = tnp.asarray(X)
    assert np.add(x, Theirs()) == "ufunc" and np.concatenate([x, Theirs()]) == "function"


def test_arrays_of_jax_beside_ours():
    jax = pytest.importorskip("jax")
    out = np.add(tnp.asarray(X), jax.numpy.asarray(X))
    assert isinstance(out, Value) and out.tolist() == (2 * X).tolist()
    assert isinstance(np.concatenate([tnp.asarray(X), jax.numpy.asarray(X)]), Value)
