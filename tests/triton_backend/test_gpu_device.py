"""On a GPU: the corpus against its references, by XLA and by launches, and arrays to and fro. `make test-gpu`."""

import functools

import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus.runs import NAMES, operands, over_sizes
from tilewright import numpy as tnp
from tilewright.core.support import pytree
from tilewright.interop import arrays
from tilewright.interop.driver import driver
from tilewright.interop.foreign import DeviceArray
from tilewright.xla_backend.devices import client

pytestmark = pytest.mark.device
TOLERANCE = 5e-3  # products of float32 are of tf32


@pytest.fixture(autouse=True)
def gpu():
    problem = client.gpu_problem()
    if problem is not None:
        pytest.skip(problem.what)
    return tw.devices("gpu")[0]


def close(got, expected):
    for g, e in zip(pytree.leaves(got), pytree.leaves(expected), strict=True):
        g, e = np.asarray(g), np.asarray(e)
        scale = max(1.0, float(np.abs(e).max(initial=0))) if e.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(g, e, rtol=TOLERANCE, atol=TOLERANCE * scale)


@over_sizes(NAMES)
def test_the_corpus_in_a_program(kernel, size, mode):
    given = operands(kernel, size)
    got = tw.jit(functools.partial(kernel.call, **size.blocks, **mode))(*given)
    assert all(x.device.platform == "gpu" for x in pytree.leaves(got))
    close(got, kernel.reference(np, *given, **mode))


def on_device(x):
    """A NumPy array in memory of a GPU."""
    found = driver()
    found.enter(0)
    x = np.ascontiguousarray(x)
    copy = DeviceArray(x.shape, x.dtype, 0)
    found.upload(copy.pointer, x, 0)
    return copy


def from_device(x):
    """An array in memory of a GPU as NumPy's."""
    out = np.empty(x.shape, x.dtype)
    driver()._check("cuMemcpyDtoH", out.ctypes.data, x.pointer, out.nbytes)
    return out


@over_sizes(NAMES, slice(1))
def test_the_corpus_by_launches(kernel, size, mode):
    given = operands(kernel, size)
    got = arrays.call(functools.partial(kernel.call, **size.blocks, **mode))(*map(on_device, given))
    close(pytree.map(from_device, got), kernel.reference(np, *given, **mode))


def test_arrays_go_to_and_fro(gpu):
    x = tnp.arange(12.0).reshape(3, 4)
    assert x.device == gpu
    back = tw.device_put(x, "cpu")
    assert back.device.platform == "cpu" and tw.device_put(back, gpu).device == gpu
    np.testing.assert_array_equal(np.asarray(x), np.asarray(back))
    close(tw.jit(lambda x: tnp.sort(x @ x.T))(x), np.sort(np.asarray(back) @ np.asarray(back).T))


def test_a_callback_from_the_gpu():
    seen = []
    tw.jit(lambda x: tw.debug.callback(lambda v: seen.append(float(v)), x.sum()))(tnp.ones(5))
    tw.effects_barrier()
    assert seen == [5.0]
