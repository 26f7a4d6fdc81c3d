"""Random numbers in kernels: a pure function of seed, cell and draw."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import DtypeError, KernelBodyError

F32, I32, U32 = np.float32, np.int32, np.uint32
SPEC = tl.BlockSpec((2, 64), lambda i: (i, 0))
both = pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])


def threefry(key, x):
    """The hash in plain Python integers."""
    m = 2**32 - 1
    ks = (key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = (x[0] + ks[0]) & m, (x[1] + ks[1]) & m
    for group in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = (a + b) & m
            b = (((b << r) | (b >> (32 - r))) & m) ^ a
        a, b = (a + ks[(group + 1) % 3]) & m, (b + ks[(group + 2) % 3] + group + 1) & m
    return a, b


def key_of(*words):
    key = (0, len(words))
    for place, word in enumerate(words):
        key = threefry(key, (place, word))
    # The words are the key of the next step, the word itself the counter.
    return key


def draw(seed, cell, number, size):
    key = key_of(seed, cell)
    pairs = [threefry(key, (number, i)) for i in range(size)]
    return np.array([a ^ b for a, b in pairs], U32)


def call(body, dtype=F32, grid=3, **options):
    options = {"in_specs": [None], "out_specs": SPEC, "grid": grid} | options
    return tl.kernel_call(body, tw.ShapeDtypeStruct((2 * grid, 64), dtype), **options)


@both
def test_bits_are_the_hash(interpret):
    def body(seed_ref, o_ref):
        tl.prng_seed(seed_ref[0])
        tl.stateful_bits((3,))
        o_ref[...] = tl.stateful_bits((2, 64))

    out = np.asarray(call(body, U32, interpret=interpret)(np.array([9], I32)))
    for cell in range(3):
        np.testing.assert_array_equal(out[2 * cell : 2 * cell + 2].ravel(), draw(9, cell, 1, 128))


@both
def test_pallas_form_is_the_same_bits(interpret):
    def body(seed_ref, o_ref):
        tl.tpu.prng_seed(seed_ref[0])
        o_ref[...] = tl.tpu.prng_random_bits((2, 64))

    out = np.asarray(call(body, I32, interpret=interpret)(np.array([-1], I32)))
    np.testing.assert_array_equal(out[:2].ravel().view(U32), draw(2**32 - 1, 0, 0, 128))


DRAWS = {
    "uniform": lambda: tl.stateful_uniform((2, 64), minval=-1.0, maxval=3.0),
    "bfloat16": lambda: tl.stateful_uniform((2, 64), "bfloat16").astype(F32),
    "normal": lambda: tl.stateful_normal((2, 64)),
    "bernoulli": lambda: tl.stateful_bernoulli(0.3, (2, 64)).astype(F32),
    "counter": lambda: tl.counter_uniform((2, 64), 5, tl.program_id(0)),
    "counter_normal": lambda: tl.counter_normal((2, 64), 5, tl.program_id(0)),
    "counter_bernoulli": lambda: tl.counter_bernoulli(0.5, (2, 64), tl.program_id(0)).astype(F32),
    "loop": lambda: lax.fori_loop(0, 4, lambda i, s: s + tl.stateful_uniform((2, 64)), tnp.zeros((2, 64), F32)),
}
MOMENTS = {  # mean and standard deviation
    "uniform": (1.0, 4 / 12**0.5), "bfloat16": (0.5, 1 / 12**0.5), "normal": (0.0, 1.0), "bernoulli": (0.3, 0.21**0.5),
    "counter": (0.5, 1 / 12**0.5), "counter_normal": (0.0, 1.0), "counter_bernoulli": (0.5, 0.5),
    "loop": (2.0, (4 / 12) ** 0.5),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("name", DRAWS)
def test_distributions(name):
    def body(seed_ref, o_ref):
        tl.prng_seed(seed_ref[0])
        o_ref[...] = DRAWS[name]()

    seed = np.array([3], I32)
    compiled = np.asarray(call(body, grid=40)(seed))
    np.testing.assert_allclose(compiled, call(body, grid=40, interpret=True)(seed), rtol=1e-4, atol=1e-5)
    mean, deviation = MOMENTS[name]
    assert abs(compiled.mean() - mean) < 5 * deviation / compiled.size**0.5
    assert abs(compiled.std() - deviation) < 0.05 * max(deviation, 0.1) + 0.02
    if "bernoulli" not in name:
        assert len(np.unique(compiled)) > (100 if name == "bfloat16" else 0.95 * compiled.size)


def test_the_order_of_cells_does_not_matter():
    def body(seed_ref, o_ref):
        tl.prng_seed(seed_ref[0])
        o_ref[...] = tl.stateful_uniform((2, 64))

    seed = np.array([3], I32)
    shuffled = call(body, interpret=tl.InterpretParams(random_seed=1))(seed)
    np.testing.assert_array_equal(shuffled, call(body)(seed))


def dropout(seed_ref, x_ref, o_ref):
    tl.prng_seed(seed_ref[0])
    o_ref[...] = tnp.where(tl.stateful_bernoulli(0.7, x_ref.shape), x_ref[...] / 0.7, 0.0)


def test_dropout_has_its_mask_in_the_gradient_and_under_vmap():
    x = np.random.default_rng(0).standard_normal((6, 64)).astype(F32)
    seed = np.array([1], I32)
    run = tl.kernel_call(dropout, tw.ShapeDtypeStruct((6, 64), F32), grid=3, in_specs=[None, SPEC], out_specs=SPEC)
    y = np.asarray(run(seed, x))
    assert 0.2 < (y == 0).mean() < 0.4
    gradient = tw.grad(lambda x: tnp.sum(run(seed, x)))(x)
    np.testing.assert_allclose(gradient, np.where(y == 0, 0, 1 / 0.7), rtol=1e-6)
    batched = tw.vmap(lambda x: run(seed, x))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(batched, np.stack([y, 2 * y]), rtol=1e-6)


def test_no_seed():
    def body(seed_ref, o_ref):
        o_ref[...] = tl.stateful_uniform((2, 64))

    with pytest.raises(KernelBodyError, match="before `prng_seed`"):
        call(body)(np.array([3], I32))


def test_seed_of_floats():
    def body(seed_ref, o_ref):
        tl.prng_seed(seed_ref[0])
        o_ref[...] = tl.stateful_uniform((2, 64))

    with pytest.raises(DtypeError, match="seed 0 of prng_seed is f32"):
        call(body)(np.array([3], F32))


def test_outside_a_kernel():
    with pytest.raises(KernelBodyError, match="outside a kernel"):
        tl.prng_seed(1)
