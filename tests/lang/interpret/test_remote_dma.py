"""Kernels that copy to other devices: devices interpreted together, races and deadlocks by name, what is refused."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.rings import exchange, gather, sums, traced
from tilewright import lang as tl
from tilewright.core.support.errors import (
    DeadlockError,
    DifferentiationError,
    KernelBodyError,
    MeshAxisError,
    RaceError,
    SemaphoreError,
    UnsupportedError,
)
from tilewright.core.tracing.trace import on_each_device
from tilewright.lang.interpret.multi_device import interpret_all_devices
from tilewright.lang.transforms.spmd_exchange import exchanged

LINE, GRID = [("x", 4)], [("x", 4), ("y", 2)]
CAREFUL = tl.InterpretParams(detect_races=True, random_seed=7)
MODES = [None, tl.InterpretParams(dma_execution_mode="eager"), CAREFUL]


def arrays(devices, *shape):
    return np.random.default_rng(0).standard_normal((devices, *shape)).astype(np.float32)


def run(f, mesh, given, params=None):
    return [out[0] for out in interpret_all_devices(traced(f, mesh, given[0]), [[a] for a in given], params)]


@pytest.mark.parametrize("params", MODES, ids=["on_wait", "eager", "careful"])
def test_devices_interpreted_together(params):
    x = arrays(8, 2, 3).reshape(4, 2, 2, 3)
    for n, out in enumerate(run(lambda a: gather(a, 4), GRID, x.reshape(8, 2, 3), params)):
        np.testing.assert_array_equal(out, x[:, n % 2])
    x = arrays(4, 4, 3)
    np.testing.assert_array_equal(run(lambda a: exchange(a, 4), LINE, x, params), x.transpose(1, 0, 2))
    np.testing.assert_allclose(run(lambda a: sums(a, 4), LINE, x, params), [x.sum(0)] * 4, rtol=1e-5)


WRONG = [
    ("not started", DeadlockError, "device 0 .*waits for 24 bytes on semaphore send"),
    ("no barrier", DeadlockError, "device 3 .*waits until semaphore .* holds 1; it holds 0"),
    ("left over", SemaphoreError, "device 0 .*ends while semaphore .* holds 1"),
    ("sending", RaceError, "writes element .* of o, which a copy to device 1 .*may still be sending"),
    ("too soon", RaceError, "writes element .* of o, to which a copy from device .*may still be under way"),
    ("not sent", SemaphoreError, "a copy to device .* under way that nothing waited for"),
    ("not received", RaceError, "reads element .* may still be under way"),
]


@pytest.mark.parametrize("wrong, error, words", WRONG, ids=[w[0] for w in WRONG])
def test_what_goes_wrong_is_named(wrong, error, words):
    with pytest.raises(error, match="(?s)" + words) as found:
        run(lambda a: gather(a, 4, wrong=wrong, interpret=True), LINE, arrays(4, 2, 3))
    assert "rings.py:" in str(found.value)


def test_a_slot_that_is_written_while_it_is_read():
    with pytest.raises(RaceError, match="copies to element .* of slots of device .*nothing orders|may still be"):
        run(lambda a: sums(a, 4, free=False), LINE, arrays(4, 2, 3))


def test_devices_that_may_not_have_entered():
    def kernel(x):
        def body(x, o, send, receive):
            copy = tl.make_async_remote_copy(x, o, send, receive, tl.program_id(0), tl.DeviceIdType.LOGICAL)
            copy.start()
            copy.wait()

        return tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), grid=1, in_specs=[FAR], out_specs=FAR,
                              scratch_shapes=[tl.SemaphoreType.DMA] * 2)(x)  # fmt: skip

    with pytest.raises(SemaphoreError, match="a copy to device 0 .*, which has left the kernel"):  # all send to it
        run(kernel, LINE, arrays(4, 2))
    x = arrays(4, 2)
    np.testing.assert_array_equal(run(lambda a: gather(a, 4, wrong="unmet"), LINE, x), [x] * 4)
    with pytest.raises(RaceError, match="may not have entered"):
        run(lambda a: gather(a, 4, wrong="unmet"), LINE, x, tl.InterpretParams(detect_races=True))


FAR = tl.BlockSpec(memory_space=tl.ANY)


def test_names_of_devices():
    x = arrays(8, 3)
    for name in (lambda p, axis: (p, 1), lambda p, axis: {axis: p, "y": 1}, lambda p, axis: {("x", "y"): 2 * p + 1}):
        kernel = traced(lambda a, name=name: gather(a, 4, name=name), GRID, x[0])
        texts = [str(e) for e in kernel.body.eqns if e.primitive.name == "remote_start"]
        assert len(texts) == 3 and "axes=('x', 'y')" in texts[0]
    kernel = traced(lambda a: gather(a, 4), GRID, x[0])
    assert "axes=('x',)" in str(next(e for e in kernel.body.eqns if e.primitive.name == "remote_start"))
    for name, words in ((lambda p, axis: (p, 1, 1), "has 3 places"), (lambda p, axis: {"z": p}, "names the axis 'z'")):
        with pytest.raises(MeshAxisError, match=words):
            traced(lambda a, name=name: gather(a, 4, name=name), GRID, x[0])


def test_what_is_refused():
    x = arrays(4, 16, 128)

    def alone(x, o, send, receive):
        tl.make_async_remote_copy(x, o, send, receive, 0).start()

    scratch = [tl.SemaphoreType.DMA] * 2
    with pytest.raises(KernelBodyError, match="not called within a `shard_map`"):
        tl.kernel_call(alone, tw.ShapeDtypeStruct(x.shape, x.dtype), scratch_shapes=scratch)(x)
    with on_each_device(LINE), pytest.raises(KernelBodyError, match="output o, whose block moves"):
        block = tl.BlockSpec((1, 16, 128), lambda i: (i, 0, 0))
        tl.kernel_call(alone, tw.ShapeDtypeStruct(x.shape, x.dtype), grid=4, in_specs=[block], out_specs=block,
                       scratch_shapes=scratch)(x)  # fmt: skip
    kernel = traced(lambda a: gather(a, 4), LINE, x[0])
    with pytest.raises(KernelBodyError, match="interpreted on one device"):
        tl.interpret(kernel, x[0])
    mesh = tw.sharding.AbstractMesh((4,), ("x",))
    given = tw.ShapeDtypeStruct((64, 128), "float32", sharding=tw.NamedSharding(mesh, tw.P("x")))

    def on_mesh(f):
        return tw.shard_map(f, mesh=mesh, in_specs=tw.P("x"), out_specs=tw.P("x"))

    with pytest.raises(DifferentiationError, match="exchanges data with other devices"):
        tw.explain(on_mesh(tw.grad(lambda a: gather(a, 4).sum())), given)
    with pytest.raises(UnsupportedError, match="is batched"):
        tw.explain(on_mesh(tw.vmap(lambda a: gather(a, 4))), given)

    def differently(x, o, send, receive):
        @tl.when(tw.lax.axis_index("x") == 1)
        def _():
            tl.make_async_remote_copy(x, o, send, receive, 0).start()

    call = tl.kernel_call(differently, tw.ShapeDtypeStruct((16, 128), "float32"), scratch_shapes=scratch)
    with pytest.raises(UnsupportedError, match="that devices may take differently"):
        exchanged(traced(call, LINE, x[0, :, :]))
    with pytest.raises(UnsupportedError, match="that devices may take differently"):
        tw.compile(on_mesh(call), given, target="cuda:sm_90", stop="emit")


def test_on_gpus_copies_to_other_devices_are_collectives_of_xla():
    mesh = tw.sharding.AbstractMesh((4,), ("x",))
    given = tw.ShapeDtypeStruct((64, 128), "float32", sharding=tw.NamedSharding(mesh, tw.P("x")))
    f = tw.shard_map(lambda a: gather(a, 4), mesh=mesh, in_specs=tw.P("x"), out_specs=tw.P("x"))
    told = "kernel gather is computed by XLA: cuda:sm_90 refused it: it copies to other devices"
    with pytest.warns(RuntimeWarning, match=told):
        found = tw.compile(f, given, target="cuda:sm_90", stop="emit")
    assert str(found).count("ppermute[") == 6  # each value, and the place where it goes
    with pytest.warns(RuntimeWarning, match=told):
        assert told in str(tw.explain(f, given, target="cuda:sm_90"))
