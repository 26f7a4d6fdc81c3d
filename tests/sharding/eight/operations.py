"""Operations on whole arrays that stay local on a mesh, or need one small collective, and their values."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.equivalence import draws
from tilewright import lax, ops
from tilewright import numpy as tnp
from tilewright.sharding import NamedSharding, P

MESH = tw.make_mesh((4, 2), ("x", "y"))
ROWS, COLUMNS, BOTH = P(("x", "y")), P(None, ("x", "y")), P("x", "y")
(X,) = draws((16, 16))
J = np.arange(16, dtype=np.int32) * 5 % 16
SQUARES = np.eye(3, dtype=np.float32) * 4 + draws((16, 3, 3), seed=1)[0]
IMAGES, FILTERS, TILES = draws((8, 6, 6, 4), (3, 3, 4, 8), (2, 16, 8, 2), seed=2)
NAMES = ("NHWC", "HWIO", "NHWC")


def placed(x, spec):
    return tw.device_put(x, NamedSharding(MESH, spec))


def slope(f):
    return tw.grad(lambda x: (f(x) ** 2).sum())


def pooled(x):
    return lax.reduce_window(x.reshape(16, 4, 4, 1), -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def pooling(x):
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


LOCAL = {
    "gradient of sort": (slope(lambda x: tnp.sort(x, 1) * tnp.arange(16)), X, ROWS),
    "gradient of top_k": (slope(lambda x: lax.top_k(x, 4)[0]), X, ROWS),
    "gradient of take_along_axis": (slope(lambda x: tnp.take_along_axis(x, J[:, None], 1)), X, ROWS),
    "gradient of take": (slope(lambda x: tnp.take(x, J, 0)), X, COLUMNS),
    "gradient of max pooling": (slope(pooled), X, ROWS),
    "gradient of max pooling along tiled windows": (slope(pooling), TILES, P(None, "x", "y")),
    "at.add of columns": (lambda x: tnp.asarray(x).at[J].add(1.0), X, COLUMNS),
    "at.set under vmap": (tw.vmap(lambda a: a.at[3].set(0.0)), X, ROWS),
    "dynamic_update_slice under vmap": (
        lambda x: tw.vmap(lambda a, j: lax.dynamic_update_slice(a, tnp.ones(1), (j,)))(x, J), X, ROWS),
    "segment_sum of columns": (lambda x: ops.segment_sum(x, J // 2, 8), X, COLUMNS),
    "solve": (lambda a: tnp.linalg.solve(a, tnp.ones((16, 3, 1))), SQUARES, ROWS),
    "cholesky": (lambda a: tnp.linalg.cholesky(a @ a.mT), SQUARES, ROWS),
    "eigh": (lambda a: tnp.linalg.eigh(a @ a.mT)[0], SQUARES, ROWS),
    "qr": (lambda a: abs(tnp.linalg.qr(a)[1]), SQUARES, ROWS),
    "irfft of rfft": (lambda x: tnp.fft.irfft(tnp.fft.rfft(x)), X, ROWS),
    "cumsum of columns": (lambda x: tnp.cumsum(x, 0), X, COLUMNS),
    "convolution by output channels": (
        lambda w: lax.conv_general_dilated(IMAGES, w, (1, 1), "SAME", dimension_numbers=NAMES),
        FILTERS, P(None, None, None, ("x", "y"))),
}  # fmt: skip


def collectives(f, *args):
    return [(c.kind, c.bytes) for c in tw.explain(f, *args).communication.collectives]


@pytest.mark.law
@pytest.mark.parametrize("name", LOCAL)
def test_operation_is_local(name):
    f, x, spec = LOCAL[name]
    split = placed(x, spec)
    assert collectives(f, split) == []
    np.testing.assert_allclose(tw.jit(f)(split), f(x), rtol=1e-4, atol=1e-4)


def test_filter_gradient_of_a_convolution_is_one_all_reduce():
    def loss(w, x):
        return (lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=NAMES) ** 2).sum()

    split = placed(IMAGES, ROWS)
    ((kind, _),) = collectives(tw.grad(loss), FILTERS, split)
    assert kind == "all-reduce"
    np.testing.assert_allclose(tw.jit(tw.grad(loss))(FILTERS, split), tw.grad(loss)(FILTERS, IMAGES), rtol=1e-4)


JOINED = {
    "segment_max of rows": lambda x: ops.segment_max(x, J // 2, 8),
    "segment_min of rows": lambda x: ops.segment_min(x, J // 2 - 1, 8),
    "diagonal": tnp.diagonal,
    "trace": tnp.trace,
    "histogram": lambda x: tnp.histogram(x, 4)[0],
}


@pytest.mark.law
@pytest.mark.parametrize("spec", [ROWS, BOTH, P("x")], ids=str)
@pytest.mark.parametrize("name", JOINED)
def test_operation_joins_results_alone(name, spec):
    f, split = JOINED[name], placed(X, spec)
    found = collectives(f, split)
    assert {kind for kind, _ in found} == {"all-reduce"} and all(size < X.nbytes for _, size in found)
    np.testing.assert_allclose(tw.jit(f)(split), f(tnp.asarray(X)), rtol=1e-5)


SCANS = (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)


@pytest.mark.law
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("spec", [P("x"), P(("y", "x")), BOTH], ids=str)
@pytest.mark.parametrize("scan", SCANS, ids=lambda scan: scan.__name__)
def test_scan_along_a_split_axis_exchanges_totals_once(scan, spec, reverse):
    def f(x):
        return scan(x, axis=0, reverse=reverse)

    split = placed(X, spec)
    ((kind, nbytes),) = collectives(f, split)
    assert kind == "all-gather" and nbytes < X.nbytes
    np.testing.assert_allclose(tw.jit(f)(split), f(X), rtol=1e-3, atol=1e-4)


@pytest.mark.law
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("scan", SCANS, ids=lambda scan: scan.__name__)
def test_scan_along_an_axis_that_the_devices_do_not_divide(scan, dtype, reverse):
    def f(x):
        return scan(x, axis=0, reverse=reverse)

    if dtype == "int32" and scan is lax.cumlogsumexp:
        pytest.skip("of floats alone")
    ragged = (3 * X[:13, :5]).astype(dtype)
    split = placed(ragged, BOTH)
    assert [kind for kind, _ in collectives(f, split)] == ["all-gather"]
    assert tw.jit(f).lower(split).compile().as_text().count("all-gather(") == 1  # XLA adds none
    np.testing.assert_allclose(tw.jit(f)(split), tw.jit(f)(ragged), rtol=1e-3, atol=1e-4)


SORTED, UNEVEN = draws((32, 16), (30, 16), seed=3)


@pytest.mark.parametrize("spec", [P("x"), BOTH, P("y", "x")], ids=str)
@pytest.mark.parametrize("x", [SORTED, UNEVEN, SORTED[:, :5]], ids=lambda x: "by".join(map(str, x.shape)))
def test_sort_along_a_split_axis(x, spec):
    """Where sizes divide, the devices exchange rows for columns and back, and the result is split as before."""
    split, f = placed(x, spec), tw.jit(lambda x: tnp.sort(x, 0))
    found = f(split)
    np.testing.assert_array_equal(found, np.sort(x, 0))
    if x is SORTED:
        text = f.lower(split).compile().as_text()
        assert "all-to-all(" in text and "all-gather(" not in text and found.sharding.spec == spec
    np.testing.assert_array_equal(tw.jit(lambda x: tnp.argsort(x, 0))(split), np.argsort(x, 0))


def rows_at(x, j=J):
    return x[tnp.arange(16), j]


OUTSIDE = np.where(J % 3 == 0, np.int32(40), J)  # some of the indices leave the array
SELECTED = {
    "at.add along the split axes": lambda x: x.at[tnp.arange(16), J].add(1.0),
    "at.set along the split axes": lambda x: x.at[tnp.arange(16), J].set(2.0),
    "at.mul with indices outside": lambda x: x.at[OUTSIDE].mul(3.0),
    "at.max with clipped indices": lambda x: x.at[OUTSIDE].max(0.5, mode="clip"),
    "at.add with bytes as indices": lambda x: x.at[J.astype(np.uint8)].add(1.0),
    "elements": rows_at,
    "elements outside": lambda x: x.at[tnp.arange(16), OUTSIDE].get(mode="fill", fill_value=7.0),
    "elements clipped": lambda x: x.at[tnp.arange(16), OUTSIDE].get(mode="clip"),
    "gradient of elements": slope(rows_at),
    "take of some rows": lambda x: tnp.take(x, J[:4], 0),
}


@pytest.mark.law
@pytest.mark.parametrize("spec", [ROWS, COLUMNS, BOTH, P("x"), P("y", "x")], ids=str)
@pytest.mark.parametrize("name", SELECTED)
def test_indices_along_a_split_axis(name, spec):
    f, split = SELECTED[name], placed(X, spec)
    assert all(size < X.nbytes // 2 for _, size in collectives(f, split))  # the operand is never gathered
    np.testing.assert_allclose(tw.jit(f)(split), f(tnp.asarray(X)), rtol=1e-5)


def test_scatter_keeps_the_split_of_its_operand():
    split = placed(X, BOTH)
    assert collectives(lambda x: x.at[tnp.arange(16), J].add(1.0), split) == []
    assert tw.jit(lambda x: x.at[J].set(0.0))(split).sharding.spec == BOTH


@pytest.mark.parametrize("f", [lax.lgamma, lax.erf_inv, lax.asinh, lambda x: lax.polygamma(1.0, x)],
                         ids=("lgamma", "erf_inv", "asinh", "polygamma"))  # fmt: skip
def test_special_function_keeps_its_split(f):
    split = placed(np.float32(0.1) + abs(X) / 8, BOTH)
    found = tw.jit(f)(split)
    assert found.sharding.spec == BOTH and collectives(f, split) == []
    np.testing.assert_allclose(found, f(np.asarray(split)), rtol=1e-4)
