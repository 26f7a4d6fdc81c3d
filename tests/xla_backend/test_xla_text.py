"""What XLA makes of programs, as its own text says: a new jaxlib may change it, and no value with it."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax, random

pytestmark = pytest.mark.xla_text


def hlo(f, *shapes):
    return tw.jit(f).lower(*(tw.ShapeDtypeStruct(s, "float32") for s in shapes)).compile().as_text()


@pytest.mark.parametrize("m, n", [(64, 64), (64, 256), (256, 64), (256, 256)])
def test_a_transposed_left_matrix_is_laid_out_once(m, n):
    """One pass writes it by rows, and XLA's own product reads that."""
    text = hlo(lambda x, y: x.T @ y, (128, m), (128, n))
    entry = text[text.index("ENTRY") :]
    assert "lhs_contracting_dims={0}" not in text
    assert entry.count("fusion(") + entry.count(" dot(") <= (2 if m < 4 * n else 3)


def test_long_columns_are_multiplied_as_they_are():
    assert "lhs_contracting_dims={0}" in hlo(lambda x, y: x.T @ y, (100_000, 8), (100_000, 8))


def test_executables_hold_no_places_of_the_text():
    text = hlo(lambda x, y: (x.T @ y).sum() + lax.fori_loop(0, 3, lambda i, v: v * 2, y).max(), (8, 4), (8, 5))
    assert "source_line" not in text


def test_keys_that_are_split_many_times_are_not_hashed_again_for_each_sample():
    def draws(key):
        samples = []
        for _ in range(8):
            key, own = random.split(key)
            samples.append(random.bits(own, (3,)))
        return samples

    unit = tw.jit(draws).lower(random.key(0))
    assert unit.compile().as_text().count(" shift-left(") <= 2.5 * unit.as_text().count("shift_left")


def test_a_loop_of_few_samples_is_one_function():
    def walk(key):
        def step(carry, _):
            key, x = carry
            key, own = random.split(key)
            return (key, x + random.normal(own, (2,))), None

        return lax.scan(step, (key, np.zeros(2)), None, length=9)[0][1]

    assert "barrier" not in tw.jit(walk).lower(random.key(0)).as_text()
