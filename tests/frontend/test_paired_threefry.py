"""`threefry_partitionable=False`: the values of the reference with that option off."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp
from tilewright import random

# Of random.key(7): bits of five elements, and of two by three.
BITS = {
    "uint8": ([191, 40, 160, 11, 191], [[191, 40, 160], [11, 191, 86]]),
    "uint16": ([38825, 14744, 55624, 27928, 48643], [[38825, 14744, 55624], [27928, 48643, 29727]]),
    "uint32": (
        [276534068, 861967409, 2793701230, 1641862660, 2900896126],
        [[276534068, 861967409, 1905761346], [1641862660, 2900896126, 1402713516]],
    ),
    "uint64": (
        [15389220101028177230, 4551668408390860801, 4976136016726341877, 15335110304450349829, 3876142258045400788],
        [[11540969374370099495, 2060001533756319063, 3168341539746512918],
         [4882821326356894563, 8806864989783642627, 17303821704956394618]],
    ),
}  # fmt: skip
PARTS = [[276534068, 861967409], [1905761346, 1641862660], [2900896126, 1402713516]]


@pytest.fixture(autouse=True)
def _paired():
    with tw.threefry_partitionable(False):
        yield


@pytest.mark.parametrize("dtype", BITS)
def test_bits(dtype):
    with tw.enable_x64(True):
        odd, even = (random.bits(random.key(7), shape, dtype) for shape in ((5,), (2, 3)))
    assert (odd.tolist(), even.tolist()) == BITS[dtype] and odd.dtype == dtype
    assert random.bits(random.key(7), (0,), "uint8").shape == (0,)


def test_parts_of_keys():
    key = random.key(7)
    assert random.key_data(random.split(key, 3)).tolist() == PARTS
    assert random.key_data(random.split(key, (2, 1))).tolist() == [[[966301609, 989289821]], [[1948237315, 1058547403]]]
    assert random.key_data(random.fold_in(key, 5)).tolist() == [3583082021, 1947592014]
    assert random.split(random.PRNGKey(7), 3).tolist() == PARTS
    assert random.key_data(random.split(random.key(7, impl="rbg"), 3)).tolist() == [2 * part for part in PARTS]


def test_samplers():
    key = random.key(7)
    np.testing.assert_allclose(random.normal(key, (3,)), [-0.75546646, -0.18615817, -0.11654735], rtol=1e-6)
    np.testing.assert_allclose(random.gamma(key, 2.0, (2,)), [0.7725513, 4.565907], rtol=1e-6)
    assert random.permutation(key, 7).tolist() == [5, 0, 2, 3, 4, 1, 6]
    assert random.randint(key, (4,), 0, 1000).tolist() == [270, 143, 743, 632]


def test_under_transformations_and_beside_the_other_form():
    keys = random.split(random.key(3), 4)
    for f in (lambda k: random.bits(k, (3,), "uint8"), lambda k: random.key_data(random.split(k)), random.normal):
        assert tw.vmap(f)(keys).tolist() == [f(k).tolist() for k in keys]
    drawn = tw.jit(lambda k: random.bits(k, (5,)))
    paired = drawn(random.key(7)).tolist()
    assert paired == BITS["uint32"][0]
    with tw.threefry_partitionable(True):
        assert drawn(random.key(7)).tolist() != paired
    assert tnp.all(random.uniform(random.key(0), (1000,)) < 1)
    with pytest.raises(tw.errors.ArgumentError, match="2\\^32"):
        tw.eval_shape(lambda: random.bits(random.key(0), (1 << 32,)))


def test_a_key_is_used_once():
    with tw.debug_key_reuse(True), pytest.raises(tw.errors.KeyReuseError):
        tw.jit(lambda k: random.bits(k) + random.bits(k))(random.key(0))
