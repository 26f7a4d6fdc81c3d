"""Products whose left operand lies by columns, on the CPU: as written and as XLA runs them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp


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
