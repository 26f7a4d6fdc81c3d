"""Factors of small matrices as kernels: against the library's, and as programs for GPUs and TPUs."""

import functools
import importlib.util

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tests.support.gpu.walker import check_all, check_mosaic, check_triton
from tilewright import numpy as jnp
from tilewright.core.support.errors import DtypeError, ShapeError
from tilewright.kernels.fused import OPERATIONS
from tilewright.kernels.fused.batched_factorizations import small_cholesky, small_inverse, small_solve_triangular

X = np.random.default_rng(0).standard_normal((2, 3, 5, 5)).astype("float32")
P = X @ X.swapaxes(-1, -2) + np.eye(5, dtype="float32")
SOLVES = [dict(zip(("lower", "transpose", "unit_diagonal"), f)) for f in np.ndindex(2, 2, 2)]
CALLS = {
    "small_cholesky": (P, {}), "small_inverse": (P, {}), "small_lu": (X, {}), "small_qr": (X[..., :3], {}),
    **{f"small_solve_triangular-{i}": (X / 5 + np.eye(5, dtype="float32"), o) for i, o in enumerate(SOLVES)},
}  # fmt: skip
TARGETS = {"cuda:sm_90": (check_triton, "triton"), "tpu:v5e": (check_mosaic, "libtpu")}


def call(name):
    """Our function and its reference, with operands."""
    a, options = CALLS[name]
    operation = OPERATIONS[name.partition("-")[0]]
    args = [a, X[..., :2]] if name.startswith("small_solve") else [a]
    return operation, [functools.partial(f, **options) for f in (operation.function, operation.reference)], args


def leaves(out):
    return tw.tree.leaves(out)


def close(found, expected):
    for f, e in zip(leaves(found), leaves(expected), strict=True):
        assert f.dtype == e.dtype and f.shape == e.shape
        np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-5)


@pytest.mark.law
@pytest.mark.parametrize("name", [n for n in CALLS if n[-1] not in "1245"])
def test_as_the_library(name):
    operation, (ours, theirs), args = call(name)
    args, expected = list(map(jnp.asarray, args)), by_numpy(theirs, *args)
    close(tw.jit(ours)(*args), expected)  # the CPU's way
    ours = functools.partial(ours, target="cuda:sm_90")  # in a GPU's blocks, on the CPU
    close(tw.jit(ours)(*args), expected)
    assert operation.cost(*args).flops > 0
    if name[-1] not in "0367":

        def loss(f):
            return lambda *a: sum(jnp.sum(jnp.sin(y)) for y in leaves(f(*a)) if y.dtype == np.float32)

        close(tw.jit(tw.grad(loss(ours)))(*args), by_numpy(tw.grad(loss(theirs)), *args))


@pytest.mark.law
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CALLS)
def test_walked_and_compiled_for_targets(name, target):
    _, (ours, _), args = call(name)
    walk, compiler = TARGETS[target]
    f = functools.partial(ours, target=target)
    assert check_all(walk, f, *args, rtol=1e-3) == 1
    if importlib.util.find_spec(compiler) and name[-1] not in "12456":
        assert tw.compile(f, *args, target=target).resources


def test_pivots_equal_and_zero():
    a = np.array([[[0, 1], [0, 2]], [[1, 1], [-1, 3]], [[np.nan, 1], [1, 1]]], "float32")
    target = {"target": "tpu:v5e"}
    factors, pivots, order = OPERATIONS["small_lu"].function(a, **target)
    assert factors.tolist()[:2] == [[[0, 1], [0, 2]], [[1, 1], [-1, 4]]]
    assert pivots.tolist()[:2] == [[0, 1], [0, 1]] and order.tolist()[:2] == [[0, 1], [0, 1]]
    assert np.isnan(factors[2]).any()
    assert np.isnan(small_cholesky(-P[0], **target)).all() and np.isnan(small_inverse(-P[0], **target)).all()
    q, r = OPERATIONS["small_qr"].function(np.zeros((1, 3, 2), "float32"), **target)
    np.testing.assert_array_equal(q[0], np.eye(3)[:, :2])
    np.testing.assert_array_equal(r, 0)


@pytest.mark.parametrize("error, text, call", [
    (ShapeError, "65 rows", lambda: small_cholesky(np.eye(65))),
    (ShapeError, "square", lambda: small_inverse(np.ones((2, 3)))),
    (ShapeError, "columns", lambda: OPERATIONS["small_qr"].function(np.ones((2, 3)))),
    (DtypeError, "complex64", lambda: small_cholesky(np.eye(2, dtype="complex64"))),
    (ShapeError, "right-hand", lambda: small_solve_triangular(np.eye(2), np.ones((3, 1)))),
])  # fmt: skip
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)
