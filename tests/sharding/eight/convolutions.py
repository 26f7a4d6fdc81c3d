"""Convolutions on a mesh: space with halos, groups, taps; values, and what is moved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.equivalence import draws
from tilewright import lax
from tilewright.sharding import NamedSharding, P

MESH = tw.make_mesh((4, 2), ("x", "y"))
IMAGES, FILTERS, DEPTHWISE = draws((4, 16, 8, 8), (3, 3, 8, 8), (3, 3, 1, 16), seed=2)
NAMES = ("NHWC", "HWIO", "NHWC")


def placed(x, *spec):
    return tw.device_put(x, NamedSharding(MESH, P(*spec)))


def convolved(x, w, strides=(1, 1), padding="SAME", **options):
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=NAMES, **options)


def grouped(x, w):
    return convolved(x, w, feature_group_count=8)


def slopes(f):
    return tw.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))


def kinds(f, *args):
    return sorted({c.kind for c in tw.explain(f, *args).communication.collectives})


def assert_same(f, far, near):
    for found, wanted in zip(tw.tree.leaves(tw.jit(f)(*far)), tw.tree.leaves(f(*near)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * max(1, abs(np.asarray(wanted)).max()))


MOVED = {
    "space": (convolved, FILTERS, (None, "x"), ["permute"]),
    "space of strided windows": (lambda x, w: convolved(x, w, (2, 2)), FILTERS, (None, "x"), ["permute"]),
    "space of both axes": (convolved, FILTERS, (None, "x", "y"), ["permute"]),
    "examples and space": (convolved, FILTERS, ("x", "y"), ["permute"]),
    "groups": (grouped, DEPTHWISE, (None, None, None, "x"), []),
    "space of groups": (grouped, DEPTHWISE, (None, "x"), ["permute"]),
    "gradients by space": (slopes(convolved), FILTERS, (None, "x"), ["all-reduce", "permute"]),
    "gradients by groups": (slopes(grouped), DEPTHWISE, (None, None, None, "x"), []),
    "gradients of strided windows": (
        slopes(lambda x, w: convolved(x, w, (2, 2))), FILTERS, (None, "x"), ["all-reduce", "permute"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_convolution_moves_halos_and_sums_alone(name):
    f, w, spec, moved = MOVED[name]
    filters = placed(w, *spec) if w is DEPTHWISE and len(spec) == 4 else placed(w)
    far = placed(IMAGES, *spec), filters
    assert kinds(f, *far) == moved
    assert_same(f, far, (IMAGES, w))


def test_convolution_of_each_row_is_local():
    def f(x):
        return tw.vmap(lambda a: tw.numpy.convolve(a, a[:5]))(x)

    rows = IMAGES.reshape(64, 64)
    assert kinds(f, placed(rows, ("x", "y"))) == []
    assert_same(f, (placed(rows, ("x", "y")),), (rows,))


@settings(max_examples=2, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_convolution_and_its_gradients(data):
    def some(*values):
        return data.draw(st.sampled_from(values))

    groups = some(1, 2, 4)
    x = IMAGES[:, : some(9, 13, 16), : some(5, 8)]
    w = draws((some(1, 2, 5), some(1, 3), 8 // groups, 8), seed=groups)[0]
    strides, padding = (some(1, 2, 3), 1), [(some(-1, 0, 2), some(0, 1)), (some(0, 3), some(1, 2))]
    dilations = {"lhs_dilation": (some(1, 2), 1), "rhs_dilation": (1, some(1, 2))}

    def f(x, w):
        return convolved(x, w, strides, padding, feature_group_count=groups, **dilations)

    specs = [some((None, "x", "y"), ("y", "x"), (None, None, "y", "x"), (None, ("x", "y"))) for _ in range(2)]
    far = placed(x, *specs[0]), placed(w, *specs[1])
    assert_same(f, far, (x, w))
    assert_same(slopes(f), far, (x, w))
