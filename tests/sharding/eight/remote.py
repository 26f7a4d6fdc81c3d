"""Kernels that copy to other devices, on eight: compiled, and interpreted, they are what `lax`'s collectives are."""

import functools

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tests.support.rings import exchange, gather, sums
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import ExecutionError
from tilewright.kernels import collective
from tilewright.kernels.collective.attention import ring_attention_reference
from tilewright.kernels.collective.product import all_gather_matmul_reference, matmul_reduce_scatter_reference
from tilewright.sharding import P

MESH = tw.make_mesh((4, 2), ("x", "y"))
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((16, 8)).astype(np.float32)


def placed(f, ins, out):
    return tw.shard_map(f, mesh=MESH, in_specs=ins, out_specs=out)


def mapped(f, ins, out):
    return tw.jit(placed(f, ins, out))


@pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])
def test_rings_are_collectives(interpret):
    rows = P("x", "y")
    pairs = [
        (lambda x: gather(x, 4, interpret=interpret), lambda x: lax.all_gather(x, "x"), P("x", None, "y")),
        (lambda x: exchange(x, 4, interpret=interpret), lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True), rows),
        (lambda x: sums(x, 4, interpret=interpret), lambda x: lax.pvary(lax.psum(x, "x"), "x"), rows),
    ]
    for mine, theirs, out in pairs:
        np.testing.assert_allclose(mapped(mine, rows, out)(X), by_numpy(placed(theirs, rows, out), X), rtol=1e-5)


def test_what_goes_wrong_is_told_from_a_compiled_program():
    with pytest.raises(ExecutionError, match="(?s)may still be sending.*rings.py"):
        np.asarray(mapped(lambda x: gather(x, 4, interpret=True, wrong="sending"), P("x", "y"), P("x", None, "y"))(X))


def test_a_body_asks_for_its_device():
    def body(x, o):
        o[...] = x[...] + 10.0 * (lax.axis_index("x") + 1)

    f = mapped(tl.kernel_call(body, tw.ShapeDtypeStruct((4, 4), "float32")), P("x", "y"), P("x", "y"))
    np.testing.assert_allclose(f(X), X + 10.0 * (1 + np.arange(16)[:, None] // 4), rtol=1e-6)
    g = tw.grad(lambda x: tnp.sum(f(x) ** 2))(X)
    np.testing.assert_allclose(g, 2 * np.asarray(f(X)), rtol=1e-6)


W = RANDOM.standard_normal((8, 16)).astype(np.float32)
Q, K, V = RANDOM.standard_normal((3, 2, 16, 4, 8)).astype(np.float32)
CASES = {
    "all_gather_matmul": (
        collective.all_gather_matmul, all_gather_matmul_reference, (P("x"), P(None, ("x", "y"))), P(None, ("x", "y")),
        (X, W)),
    "matmul_reduce_scatter": (
        collective.matmul_reduce_scatter, matmul_reduce_scatter_reference, (P(None, "x"), P("x")), P("x"), (X, W)),
    "ring_attention": (
        functools.partial(collective.ring_attention, is_causal=True),
        functools.partial(ring_attention_reference, is_causal=True), P(None, "x", "y"), P(None, "x", "y"), (Q, K, V)),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("way", ["ring", "kernel"])
@pytest.mark.parametrize("name", CASES)
def test_collective_operations_are_their_references(name, way):
    function, reference, ins, out, arrays = CASES[name]
    mine = placed(lambda *a: function(*a, "x", way=way), ins, out)
    theirs = placed(lambda *a: reference(*a, "x"), ins, out)

    def both(f):
        gradients = tw.grad(lambda *a: tnp.sum(tnp.sin(f(*a))), tuple(range(len(arrays))))
        return lambda *a: (f(*a), gradients(*a))

    (value, found), (expected, wanted) = tw.jit(both(mine))(*arrays), by_numpy(both(theirs), *arrays)
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
