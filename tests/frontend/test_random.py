"""Random numbers: the values of jax.random (recorded in tests/support/data/random.json), keys under transformations."""

import itertools
import json

import numpy as np
import pytest

import tilewright as tw
from tests.support.paths import DATA
from tilewright import random
from tilewright.core.ir.binding import under
from tilewright.core.support import errors
from tilewright.core.tracing.numpy_interpreter import NUMPY

ROWS = json.loads((DATA / "random.json").read_text())
# Samplers whose value is a bit pattern, a comparison or a place; the others go through transcendental functions.
EXACT = {
    "key", "split", "fold_in", "bits", "uniform", "bernoulli", "randint", "rademacher", "permutation", "choice",
    "categorical", "poisson", "binomial", "geometric",
}  # fmt: skip


def argument(x):
    return np.array(x["array"], x["dtype"]) if isinstance(x, dict) else tuple(x) if isinstance(x, list) else x


def call(row):
    key = random.key(row["seed"])
    if row["name"] in ("key", "split", "fold_in"):
        made = {"key": [], "split": [3], "fold_in": [12345]}[row["name"]]
        return random.key_data(getattr(random, row["name"])(key, *made) if made else key)
    kwargs = {k: argument(v) for k, v in row["kwargs"].items()}
    return getattr(random, row["name"])(key, *map(argument, row["args"]), **kwargs)


def test_keys_of_the_evaluator_by_numpy():
    draw = lambda: random.uniform(random.split(random.key(7))[0], (3,))  # noqa: E731
    np.testing.assert_array_equal(under(NUMPY, draw), draw())


def called(row):
    return json.dumps([row["name"], row["args"], row["kwargs"]])


CALLS = [list(rows) for _, rows in itertools.groupby(sorted(ROWS, key=called), called)]  # each with several seeds


@pytest.mark.law
@pytest.mark.parametrize("rows", [pytest.param(rows, id=f"{rows[0]['name']}-{i}") for i, rows in enumerate(CALLS)])
def test_values_are_those_of_jax(rows):
    for row in rows:
        name = row["name"]
        found = np.asarray(call(row))
        shown = f"{name}{row['args']}{row['kwargs']} of seed {row['seed']}"
        if "dtype" in row:
            assert str(found.dtype) == row["dtype"], shown
        expected = np.array(row["value"])
        if found.dtype.kind == "c":
            expected = expected[..., 0] + 1j * expected[..., 1]
        assert found.shape == expected.shape, shown
        if name in EXACT:
            np.testing.assert_array_equal(found.astype(expected.dtype), expected, err_msg=shown)
        elif name == "normal" and str(found.dtype) == "float32":
            np.testing.assert_array_max_ulp(found, expected.astype(np.float32), 1)
        else:
            coarse = str(found.dtype) in ("bfloat16", "float16")
            wide = np.complex128 if found.dtype.kind == "c" else np.float64
            rtol = 1e-2 if coarse else 2e-5
            np.testing.assert_allclose(found.astype(wide), expected, rtol=rtol, atol=1e-6, err_msg=shown)


def test_raw_keys_give_the_same_values_in_kind():
    raw, typed = random.PRNGKey(3), random.key(3)
    assert raw.shape == (2,) and str(raw.dtype) == "uint32"
    np.testing.assert_array_equal(random.split(raw, 4), random.key_data(random.split(typed, 4)))
    np.testing.assert_array_equal(random.fold_in(raw, 1), random.key_data(random.fold_in(typed, 1)))
    np.testing.assert_array_equal(random.normal(raw, (3,)), random.normal(typed, (3,)))
    np.testing.assert_array_equal(random.key_data(random.wrap_key_data(raw)), raw)


def test_keys_pass_through_transformations():
    keys = random.split(random.key(0), 3)
    each = np.stack([random.uniform(k, (4,)) for k in keys])
    np.testing.assert_array_equal(tw.vmap(lambda k: random.uniform(k, (4,)))(keys), each)
    np.testing.assert_array_equal(tw.jit(lambda ks: tw.vmap(lambda k: random.uniform(k, (4,)))(ks))(keys), each)
    _, scanned = tw.lax.scan(lambda c, k: (c, random.uniform(k, (4,))), 0, keys)
    np.testing.assert_array_equal(scanned, each)
    np.testing.assert_array_equal(tw.lax.map(lambda k: random.uniform(k, (4,)), keys), each)
    chosen = tw.lax.cond(True, lambda k: random.split(k)[0], lambda k: k, keys[1])
    np.testing.assert_array_equal(random.key_data(chosen), random.key_data(random.split(keys[1])[0]))


def test_a_loop_carries_a_key():
    def body(i, state):
        key, total = state
        key, sub = random.split(key)
        return key, total + random.uniform(sub)

    key, total = tw.lax.fori_loop(0, 3, body, (random.key(5), 0.0))
    expected_key, expected = random.key(5), 0.0
    for _ in range(3):
        expected_key, sub = random.split(expected_key)
        expected += float(random.uniform(sub))
    np.testing.assert_array_equal(random.key_data(key), random.key_data(expected_key))
    np.testing.assert_allclose(total, expected, rtol=1e-6)


def test_keys_are_moved_as_arrays():
    keys = random.split(random.key(0), (2, 3))
    words = np.asarray(random.key_data(keys))

    @tw.jit
    def moved(keys):
        turned = tw.lax.transpose(keys, (1, 0))
        joined = tw.lax.concatenate([turned, tw.lax.rev(turned, (0,))], 1)
        return random.key_data(tw.lax.reshape(joined, (12,))[2:7])

    turned = words.transpose(1, 0, 2)
    expected = np.concatenate([turned, turned[::-1]], 1).reshape(12, 2)[2:7]
    np.testing.assert_array_equal(moved(keys), expected)


def test_binomial_counts_at_the_ends_of_its_parameters_are_found():
    """A share of -0 is 0; none of infinitely many trials is looked for, which took minutes."""
    n, p = np.array([[6, np.inf, -np.inf, np.nan]], np.float32), np.array([[-0.0], [0.0], [1.0]], np.float32)
    rows = [[0, np.inf, np.nan, np.nan], [0, np.inf, np.nan, np.nan], [6, np.inf, np.nan, np.nan]]
    np.testing.assert_array_equal(random.binomial(random.key(0), n, p), rows)


def test_the_gradient_of_a_gamma_sample_is_implicit():
    # In the limit of many draws d E[x] / d alpha = 1, as E[x] = alpha.
    key = random.key(1)
    slope = tw.grad(lambda a: tw.numpy.mean(random.gamma(key, a, (4000,))))(2.0)
    assert abs(float(slope) - 1.0) < 0.05
    slope = tw.grad(lambda m: random.normal(key, (3,)).sum() * m)(2.0)
    np.testing.assert_allclose(slope, np.sum(random.normal(key, (3,))), rtol=1e-6)


@pytest.mark.parametrize(
    "bad, error",
    [
        (lambda: random.normal(3), errors.ArgumentTypeError),
        (lambda: random.normal(random.split(random.key(0))), errors.ShapeError),
        (lambda: random.key(1.5), errors.DtypeError),
        (lambda: random.key(2**70), errors.IntegerOverflowError),
        (lambda: random.uniform(random.key(0), (2,), "int32"), errors.DtypeError),
        (lambda: random.bits(random.key(0), (2,), "int32"), errors.DtypeError),
        (lambda: random.randint(random.key(0), (2,), np.zeros(3, int), 4), errors.ShapeError),
        (lambda: random.choice(random.key(0), 3, (5,), replace=False), errors.ArgumentError),
        (lambda: random.fold_in(random.key(0), -1), errors.IntegerOverflowError),
        (lambda: random.key(0) + 1, errors.DtypeError),
    ],
)
def test_bad_arguments_have_named_errors(bad, error):
    with pytest.raises(error):
        bad()


# The mean and the standard deviation of samplers by inversion, and the least value that their distribution has.
MOMENTS = {
    "exponential": (1.0, 1.0, 0.0),
    "gumbel": (np.euler_gamma, np.pi / 6**0.5, -np.inf),
    "logistic": (0.0, np.pi / 3**0.5, -np.inf),
    "rayleigh": ((np.pi / 2) ** 0.5, (2 - np.pi / 2) ** 0.5, 0.0),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", MOMENTS)
def test_moments_and_support_of_samplers_by_inversion(name, dtype):
    mean, deviation, least = MOMENTS[name]
    draw, count = getattr(random, name), 20_000
    made = draw(random.key(0), *[1.0] * (name == "rayleigh"), shape=(count,), dtype=dtype)
    assert str(made.dtype) == dtype
    found = np.asarray(made).astype(np.float64)
    assert np.isfinite(found).all() and found.min() >= least
    assert abs(found.mean() - mean) < 4 * deviation / count**0.5
    assert abs(found.std() / deviation - 1) < 0.03
    assert found.max() > mean + 4 * deviation


def test_bounds_of_one_element_may_have_more_axes():
    for bounds in ({"minval": np.zeros(1, np.float32)}, {"maxval": np.ones((1, 1), np.float32)}):
        rank = max(np.ndim(b) for b in bounds.values())
        found = tw.random.uniform(tw.random.key(0), (), **bounds)
        assert found.shape == (1,) * rank and float(found.ravel()[0]) == float(tw.random.uniform(tw.random.key(0)))
