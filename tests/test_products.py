"""Products whose left operand lies by columns: the forms that the CPU is given them in change no value."""

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax

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
