"""Hashes of random keys lie apart from what repeats their words, and nowhere else."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax, random
from tilewright import numpy as tnp

COLUMN, TALL = (4, 1), (4, 3)
BARRIERS = {  # how many there are in the module
    "a draw": (lambda key: random.normal(key, TALL), 0),
    "a draw in a program of its own": (lambda key: tw.jit(random.uniform)(key) + 1, 0),
    "a column that is repeated": (lambda key: tnp.ones(TALL) * random.bernoulli(key, 0.5, COLUMN), 1),
    "the column as its axis": (lambda key: random.uniform(key, COLUMN)[:, 0] + 1, 0),
    "a draw by words of another": (lambda key: random.uniform(random.split(key)[0], TALL), 1),
    "repeated after a call": (lambda key: tnp.broadcast_to(tw.jit(tnp.sin)(random.uniform(key)), TALL), 1),
    "in a loop": (lambda key: lax.fori_loop(0, 2, lambda i, k: random.split(k)[1], key), 0),
}


@pytest.mark.law
@pytest.mark.parametrize("what", BARRIERS)
def test_barriers_are_in_front_of_what_repeats_words(what):
    f, count = BARRIERS[what]
    key = random.PRNGKey(3)
    assert tw.jit(f).lower(key).as_text().count("optimization_barrier") == count
    np.testing.assert_allclose(tw.jit(f)(key), f(key), rtol=1e-6)
