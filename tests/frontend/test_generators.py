"""The generators beside threefry: the values of the reference (rbg draws as XLA's Philox does), batches, errors.

The `philox` keys are this package's own: their values are XLA's Philox of other states.
"""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import lax, random
from tilewright import numpy as tnp
from tilewright.core.ir.binding import under
from tilewright.core.tracing.numpy_interpreter import NUMPY
from tilewright.experimental.random import stateful_rng

# Of random.key(7): the words of split(key, 2)[1] and of fold_in(key, 5), and bits(key, (3,)).
KNOWN = {
    "threefry2x32": ([195045567, 4062205631], [3583082021, 1947592014], None),
    "rbg": (
        [195045567, 4062205631, 195045567, 4062205631],
        [3583082021, 1947592014, 3583082021, 1947592014],
        [3109483441, 1367189518, 2515982561],
    ),
    "unsafe_rbg": (
        [3848958661, 3271070264, 2639373597, 23941900],
        [3810769997, 2355009018, 1837142617, 748193193],
        [3109483441, 1367189518, 2515982561],
    ),
    "philox": ([826884411, 3574246451], [3735684410, 2435444633], [1038871220, 1379206275, 1594824942]),
}
IMPLS = pytest.mark.parametrize("impl", KNOWN)


def state(key, *rest):
    return np.array([*words(key), *rest], np.uint32)


def words(keys):
    return random.key_data(keys).tolist()


@IMPLS
def test_known_values(impl):
    key = random.key(7, impl=impl)
    split, folded, bits = KNOWN[impl]
    assert random.key_impl(key) == impl and key.dtype == random.key_dtype(impl)
    assert words(random.split(key, 3)[1]) == split and words(random.fold_in(key, 5)) == folded
    if bits:
        assert random.bits(key, (3,)).tolist() == bits
        assert random.bits(key, (3,), "uint8").tolist() == [b % 256 for b in bits]


@pytest.mark.law
@IMPLS
def test_batches_are_loops(impl):
    key = random.key(3, impl=impl)
    keys = random.split(key, (2, 2)).reshape(4)
    for f in (lambda k: random.bits(k, (3,)), lambda k: random.key_data(random.split(k)), lambda k: random.normal(k)):
        assert tw.vmap(f)(keys).tolist() == [f(k).tolist() for k in keys]
    folded = tw.vmap(lambda k, i: random.key_data(random.fold_in(k, i)), (None, 0))(key, tnp.arange(3))
    assert folded.tolist() == [words(random.fold_in(key, i)) for i in range(3)]
    assert tw.jit(random.normal)(key) == random.normal(key)
    assert tw.jit(lambda s: random.key_data(random.key(s, impl=impl)))(3).tolist() == words(key)


@pytest.mark.law
@IMPLS
def test_samples_look_as_they_should(impl):
    key = random.key(0, impl=impl)
    x = random.uniform(key, (20_000,))
    assert abs(float(x.mean()) - 0.5) < 0.01 and abs(float(x.var()) - 1 / 12) < 0.003
    assert sorted(random.permutation(key, 7).tolist()) == list(range(7))
    assert random.gamma(key, 2.0, (3,)).shape == (3,) and len(set(random.randint(key, (9,), 0, 1000).tolist())) > 5
    again = random.wrap_key_data(random.key_data(key), impl=impl)
    assert again == key and random.clone(key) == key and words(tnp.stack([key, again])[0]) == words(key)


def test_philox_hashes_counters_of_three_uses():
    """Bits, parts and folds are those of XLA's Philox from three states of the key's words."""
    key = random.wrap_key_data(np.array([256, 7], np.uint32), impl="philox")
    drawn = lax.rng_bit_generator(state(key, 0, 0), (9,))[1].tolist()
    assert random.bits(key, (9,)).tolist() == drawn and random.bits(key, (3, 2)).ravel().tolist() == drawn[:6]
    parts = lax.rng_bit_generator(state(key, 0, 1), (10,))[1].reshape(5, 2).tolist()
    assert words(random.split(key, 5)) == parts and words(random.split(key, (2, 2))) == [parts[:2], parts[2:4]]
    folded = lax.rng_bit_generator(state(key, 5, 2), (2,))[1].tolist()
    assert words(random.fold_in(key, 5)) == folded
    with tw.enable_x64(True):
        wide = random.bits(key, (2,), "uint64").tolist()
    assert wide == [drawn[0] + (drawn[1] << 32), drawn[2] + (drawn[3] << 32)]


def categories(dtype):
    return random.categorical(random.key(1), np.zeros(300, dtype), shape=(20_000,))


def choices(dtype):
    return random.choice(random.key(2), 300, (20_000,), p=np.full(300, 1 / 300, dtype))


@pytest.mark.parametrize("draw", [categories, choices])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_chooses_by_noise_of_single(draw, dtype):
    """Of 300 equal categories each is drawn about equally often: chi squared of 299 degrees is 299 +- 24."""
    counts = np.bincount(np.asarray(draw(np.dtype(getattr(ml_dtypes, dtype, dtype)))), minlength=300)
    assert abs(((counts - 20_000 / 300) ** 2 / (20_000 / 300)).sum() - 299) < 4 * 24


def test_the_default_generator_is_a_setting():
    with tw.default_prng_impl("rbg"):
        raw = random.PRNGKey(3)
        assert raw.tolist() == [0, 3, 0, 3] and random.split(raw).shape == (2, 4)
        assert random.key_impl(random.key(0)) == "rbg"
        assert random.normal(raw) == random.normal(random.key(3, impl="rbg"))
    assert random.key_impl(random.key(0)) == "threefry2x32"
    with pytest.raises(tw.errors.ArgumentTypeError, match="default_prng_impl"):
        random.normal(raw)
    with pytest.raises(tw.errors.ArgumentError, match="no random generator 'md5'"):
        random.key(0, impl="md5")
    with pytest.raises(tw.errors.ConfigError):
        tw.config.update("default_prng_impl", "md5")


def test_old_keys_may_be_typed_ones():
    with tw.enable_custom_prng():
        assert random.PRNGKey(3) == random.key(3)
    assert random.PRNGKey(3).tolist() == [0, 3]


# A state, a shape and dtype, an algorithm; the last word of the new state but one, and bits of the reference's.
STREAMS = [
    ([1, 2, 3, 4], (5,), "uint32", 0, 5, [512747620, 1298009047, 1267190206, 761827841, 1383286907]),
    ([1, 2, 3, 4], (3,), "uint16", 2, 4, [59492, 3031, 51646]),
    ([1, 2, 3, 4], (5,), "uint32", 1, 6, [1576285164, 2249660814, 740599976, 2425682526, 2436392515]),
    ([7, 8, 2**32 - 2, 2**32 - 1], (5,), "uint32", 1, 1, [116298906, 258048440, 1924557324, 278999500, 2550323360]),
    ([7, 8, 2**32 - 2, 2**32 - 1], (12,), "uint32", 2, 1, [
        3800397671, 3258488276, 2161361853, 2386998973, 4160284401, 836550360, 2189995417, 3762274168, 2915866093,
        3497140262, 2024991966, 1653878778]),
    ([1, 2, 3, 4], (0,), "int8", 0, 3, []),
]  # fmt: skip


@pytest.mark.parametrize("state,shape,dtype,algorithm,count,bits", STREAMS)
def test_rng_bit_generator(state, shape, dtype, algorithm, count, bits):
    new, found = lax.rng_bit_generator(np.array(state, np.uint32), shape, dtype, lax.RandomAlgorithm(algorithm))
    assert found.dtype == dtype and found.tolist() == bits and int(new[2]) == count and new[:2].tolist() == state[:2]


def test_wide_words_and_wide_states():
    with tw.enable_x64(True):
        _, bits = lax.rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (2,), "uint64")
        assert bits.tolist() == [0x4D5E0BD71E8FE864, 0x2D6892014B87C9BE]
        state, bits = lax.rng_bit_generator(np.array([1, 5], np.uint64), (3,))
        assert state.tolist() == [1, 6] and bits.tolist() == [578703075, 2627772353, 2538312612]
        assert random.bits(random.key(7, impl="rbg"), (1,), "uint64").tolist() == [5872034270353486769]


@pytest.mark.parametrize(
    "call",
    [
        lambda: lax.rng_bit_generator(np.zeros(3, np.uint32), (2,)),
        lambda: lax.rng_bit_generator(np.zeros(4, np.int32), (2,)),
        lambda: lax.rng_bit_generator(np.zeros(4, np.uint32), (2,), "float32"),
    ],
)
def test_bad_states_are_refused(call):
    with pytest.raises((tw.errors.ShapeError, tw.errors.DtypeError)):
        call()


def test_multinomial():
    key = random.key(1)
    found = random.multinomial(key, np.float32([5, 100]), np.float32([[0.1, 0.9, 0], [0.5, 0, 0.5]]))
    assert found.tolist() == [[0, 5, 0], [56, 0, 44]]
    many = tw.vmap(lambda k: random.multinomial(k, 30.0, np.float32([1, 1, 2])))(random.split(key, 500))
    assert set(many.sum(1).tolist()) == {30.0}
    np.testing.assert_allclose(many.mean(0), [7.5, 7.5, 15], atol=0.5)
    for shape, p in (((3,), np.ones((2, 2))), (None, 1.0)):
        with pytest.raises(tw.errors.ShapeError):
            random.multinomial(key, 1.0, p, shape=shape)


def test_a_generator_that_counts_its_draws():
    rng, key = stateful_rng(123), random.key(123)
    draw = tw.jit(rng.uniform)
    assert [float(draw()) for _ in range(2)] == [float(random.uniform(random.fold_in(key, n))) for n in range(2)]
    assert float(tw.jit(lambda rng: rng.normal(1.0, 2.0))(rng)) == 1 + 2 * float(random.normal(random.fold_in(key, 2)))
    assert rng.integers(5, 9, 40).min() >= 5 and rng.random((2, 3)).shape == (2, 3)
    keys = random.split(random.fold_in(key, 5), (3,))
    rows = tw.vmap(lambda rng, x: x + rng.uniform())(rng.split(3), np.ones(3, np.float32))
    assert rows.tolist() == [1 + float(random.uniform(random.fold_in(k, 0))) for k in keys]
    assert len({float(child.uniform()) for child in rng.spawn(3)}) == 3
    with pytest.raises(tw.errors.ShapeError, match="split"):
        rng.split(2).uniform()
    with pytest.raises(tw.errors.ArgumentError, match="without a seed"):
        tw.jit(lambda: stateful_rng().uniform())()
    assert float(stateful_rng().uniform()) != float(stateful_rng().uniform())


@pytest.mark.parametrize("low, high, dtype", [(1.0, 2.0, "float32"), (np.float16(-1), np.float16(1), "float16"),
                                              (3, 8, "int32")])  # fmt: skip
def test_numbers_without_a_key(low, high, dtype):
    draw = tw.jit(lambda low: (lax.rng_uniform(low, high, (50,)), lax.rng_uniform(low, high, (50,))))
    found = np.stack([*draw(low), lax.rng_uniform(low, high, (50,)), under(NUMPY, lax.rng_uniform, low, high, (50,))])
    assert found.dtype == dtype and found.min() >= low and found.max() <= high
    assert len({row.tobytes() for row in found}) == 4
    with pytest.raises(tw.errors.ShapeError):
        lax.rng_uniform(np.zeros(2), 1.0, (2,))
    with pytest.raises(tw.errors.UnsupportedError, match="batch"):
        tw.vmap(lambda a: lax.rng_uniform(a, 1.0, ()))(np.zeros(2, np.float32))
    with pytest.raises(tw.errors.NoDerivativeError):
        tw.grad(lambda a: lax.rng_uniform(a, 1.0, ()))(0.0)
    with pytest.raises(tw.errors.DtypeError):
        lax.rng_uniform(1j, 1.0, ())


def test_tokens_come_after_their_operands():
    token = tw.jit(lambda t, x: lax.after_all(t, x * 2))(lax.create_token(), 1.0)
    assert token.shape == (0,) and lax.after_all().shape == (0,)
    text = tw.jit(lambda x: lax.after_all(x)).lower(1.0).as_text()
    assert "optimization_barrier" in text
