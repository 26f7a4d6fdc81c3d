"""Products whose left operand lies by columns: the forms that the CPU is given them in change no value."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp

# Shapes of both operands, contracted axes, batch axes.
FORMS = {
    "left": ((6, 5), (6, 4), ((0,), (0,)), ((), ())),
    "left, right by rows": ((6, 5), (4, 6), ((0,), (1,)), ((), ())),
    "as the right one": ((6, 16), (6, 2), ((0,), (0,)), ((), ())),
    "as the right one, right by rows": ((6, 16), (2, 6), ((0,), (1,)), ((), ())),
    "a vector on the right": ((6, 16), (6,), ((0,), (0,)), ((), ())),
    "batched": ((3, 6, 5), (3, 6, 4), ((1,), (1,)), ((0,), (0,))),
    "batched, as the right one": ((3, 6, 16), (6, 3, 2), ((1,), (0,)), ((0,), (1,))),
    "two axes": ((2, 3, 4, 5), (2, 3, 7), ((0, 1), (0, 1)), ((), ())),
    "two axes, batch in the middle": ((2, 3, 4, 5), (3, 2, 4, 7), ((1, 2), (0, 2)), ((0,), (1,))),
    "two axes apart": ((2, 3, 4, 5), (2, 7, 3), ((0, 1), (0, 2)), ((), ())),
    "two axes after the free one": ((2, 3, 4, 5), (7, 2, 3), ((0, 1), (1, 2)), ((), ())),
    "batch after the contracted axes": ((2, 3, 4, 5), (3, 4, 2, 7), ((1, 2), (0, 1)), ((0,), (2,))),
    "two axes, as the right one": ((2, 3, 4, 5), (2, 3, 2), ((0, 1), (0, 1)), ((), ())),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_product_changes_no_value(form):
    one, other, contracted, batch = FORMS[form]
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(one, np.float32), rng.standard_normal(other, np.float32)
    meaning: Any = lax.dot_general_p.numpy
    wide = meaning(
        x.astype(np.float64), y.astype(np.float64), dimension_numbers=(contracted, batch), precision=None,
        preferred_element_type=None)  # fmt: skip
    found = tw.jit(lambda x, y: lax.dot_general(x, y, (contracted, batch)))(x, y)
    np.testing.assert_allclose(np.asarray(found), wide, rtol=1e-5, atol=1e-5)


@given(data=st.data(), batch=st.integers(0, 2), summed=st.integers(1, 2), free=st.integers(0, 2))
def test_products_of_transposed_operands(data, batch, summed, free):
    """In whatever order the axes lie before a transpose and after it, the product is that of the transposed array."""
    names = "abcdef"[: batch + summed + free]
    sizes = {name: data.draw(st.integers(1, 5)) for name in names}
    stored, shown = (data.draw(st.permutations(names)) for _ in range(2))
    rng = np.random.default_rng(len(names))
    x = rng.standard_normal([sizes[a] for a in stored], dtype=np.float32)
    y = rng.standard_normal([*(sizes[a] for a in names[: batch + summed]), 3], dtype=np.float32)
    order = [stored.index(a) for a in shown]
    left = [shown.index(a) for a in names[: batch + summed]]
    numbers = ((left[batch:], range(batch, batch + summed)), (left[:batch], range(batch)))
    found = tw.jit(lambda x, y: lax.dot_general(tnp.transpose(x, order), y, numbers))(x, y)
    kept = "".join(a for a in shown if a in names[batch + summed :])
    expected = np.einsum(f"{''.join(stored)},{names[: batch + summed]}z->{names[:batch]}{kept}z", x, y)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-5)
