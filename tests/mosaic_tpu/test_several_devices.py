"""Programs of several TPUs as they are emitted, emulated on all devices together; what is wrong with them is named."""

import inspect

import numpy as np
import pytest

import tilewright as tw
from tests.support import rings
from tilewright import lang as tl
from tilewright import lax
from tilewright.core.support.errors import DeadlockError, RaceError, SemaphoreError, UnsupportedError
from tilewright.kernels import collective
from tilewright.kernels.collective.attention import ring_attention_reference
from tilewright.sharding import AbstractMesh, P

MESH = AbstractMesh((2, 2), ("x", "y"))
NAMED = {"compiler_params": tl.tpu.CompilerParams(collective_id=3)}
RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


X = normal(32, 256)


def emulated(f, ins, out, *arrays):
    return tw.emulate(tw.shard_map(f, mesh=MESH, in_specs=ins, out_specs=out), *arrays, target="tpu:v5e:2x2")


def test_a_ring_and_what_is_around_it():
    def f(x):
        return 2 * rings.gather(x + 1, 2, **NAMED), lax.psum(x, "y")

    found, sums = emulated(f, P("x", "y"), (P("x", None, "y"), P("x")), X)
    np.testing.assert_allclose(found, 2 * np.concatenate([X.reshape(2, 16, 256) + 1] * 2), rtol=1e-6)
    np.testing.assert_allclose(sums, X[:, :128] + X[:, 128:], rtol=1e-6)


@pytest.mark.parametrize("name, ins, out, shapes", [
    pytest.param("all_gather_matmul", (P("x"), P(None, "x")), P(None, "x"), [(256, 256), (256, 256)],
                 marks=pytest.mark.targets),
    ("matmul_reduce_scatter", (P(None, "x"), P("x")), P("x"), [(256, 256), (256, 256)]),
])  # fmt: skip
def test_collective_products(name, ins, out, shapes):
    x, w = (normal(*s) for s in shapes)
    found = emulated(lambda *a: getattr(collective, name)(*a, "x"), ins, out, x, w)
    np.testing.assert_allclose(found, x @ w, rtol=2e-2, atol=0.5)


@pytest.mark.targets
def test_ring_attention():
    given, heads = [normal(1, 256, 4, 128) for _ in range(3)], P(None, "x", "y")
    found = emulated(lambda *a: collective.ring_attention(*a, "x"), (heads,) * 3, heads, *given)
    own = tw.shard_map(lambda *a: ring_attention_reference(*a, "x"), mesh=tw.make_mesh((1,), ("x",)),
                       in_specs=(P(None, "x"),) * 3, out_specs=P(None, "x"))  # fmt: skip
    np.testing.assert_allclose(found, own(*given), rtol=2e-2, atol=2e-2)


WRONG = {
    "unmet": (RaceError, "may not have entered the kernel yet"),
    "sending": (RaceError, "(?s)of o of device . .*may still be sent from there, by the copy started at .*rings.py:43"),
    "not sent": (SemaphoreError, r"ends while a copy to device 2 \(x=1, y=0\) is under way that nothing waited for"),
    "too soon": (RaceError, "nothing orders the two"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named_with_the_line(wrong):
    error, text = WRONG[wrong]
    with pytest.raises(error, match=text) as caught:
        emulated(lambda x: rings.gather(x, 2, wrong=wrong, **NAMED), P("x", "y"), P("x", None, "y"), X)
    lines, first = inspect.getsourcelines(rings.gather)
    assert caught.value.source.code.co_filename.endswith("rings.py")
    assert first <= caught.value.source.line < first + len(lines)


def waiting(barriers):
    """Each device signals the other along x, and waits for as many signals."""

    def body(x, o):
        barrier = tl.get_barrier_semaphore()
        tl.semaphore_signal(barrier, 1, device_id={"x": 1 - lax.axis_index("x")})
        tl.semaphore_wait(barrier, barriers)
        o[...] = x[...]

    return lambda x: tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), name="waiting", **NAMED)(x)


def test_devices_that_all_wait():
    np.testing.assert_array_equal(emulated(waiting(1), P("x"), P("x"), X), X)
    told = (r"(?s)no device can go on:.*device 1 \(x=0, y=1\), cell .* waits until semaphore barrier holds 2; it "
            r"holds 1, at .*test_several_devices.py")  # fmt: skip
    with pytest.raises(DeadlockError, match=told):
        emulated(waiting(2), P("x"), P("x"), X)


def test_a_kernel_of_all_devices_in_a_loop():
    def f(x):
        return lax.fori_loop(0, 2, lambda i, x: waiting(1)(x), x)

    with pytest.raises(UnsupportedError, match="kernel waiting, which is multi-device, is called in a"):
        emulated(f, P("x"), P("x"), X)
