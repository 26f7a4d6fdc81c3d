"""Two processes of two devices, or as many as there are: arrays, programs, `multihost_utils`, checkpoints.

Run by `test_processes.py`, through `tilewright launch`; the first argument is a folder, the second "save" or "restore".
"""

import sys

import ml_dtypes
import numpy as np

import tilewright as tw
from tilewright import checkpoints, lax, random
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    AddressableError,
    ArgumentError,
    BatchAxisError,
    ConfigError,
    MeshError,
    ProcessError,
    ProcessMismatchError,
    ShapeError,
    UnsupportedError,
)
from tilewright.experimental import multihost_utils as mh
from tilewright.sharding import Mesh, NamedSharding, P

X = np.arange(48, dtype=np.float32).reshape(8, 6)


def raises(kind, text, f):
    try:
        f()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


def whole(x):
    return mh.process_allgather(x, tiled=True)


def devices():
    me, count = tw.process_index(), tw.process_count()
    assert tw.process_indices() == list(range(count)) and tw.distributed.is_initialized()
    assert tw.device_count() == count * tw.local_device_count() and tw.default_backend() == "cpu"
    assert [d.process_index for d in tw.local_devices()] == [me] * tw.local_device_count()
    assert [d.local_hardware_id for d in tw.local_devices()] == list(range(tw.local_device_count()))
    assert {d.process_index for d in tw.local_devices(process_index=1 - me)} == {1 - me}
    raises(ArgumentError, "process_index=9", lambda: tw.local_devices(9))
    assert tnp.arange(3).device == tw.local_devices()[0] and float(tw.jit(tnp.sum)(tnp.arange(3))) == 3
    raises(ProcessError, "a second time", tw.distributed.initialize)
    raises(ConfigError, "already", lambda: tw.config.update("num_cpu_devices", 7))


def arrays(mesh):
    a = tw.device_put(X, NamedSharding(mesh, P("x")))
    assert not a.is_fully_addressable and "spec=P('x',)" in repr(a) == str(a)
    for _ in range(2):  # beside what lies on no mesh
        np.testing.assert_array_equal(whole(a * 2.0 + tnp.ones(6)), X * 2 + 1)
    with tw.set_mesh(mesh):
        made = tnp.arange(6.0)
        assert made.sharding.mesh is mesh and float(tw.jit(lambda u, v: (u * v).sum())(a, made)) == (X * made).sum()
    raises(AddressableError, "only a part", lambda: np.asarray(a))
    raises(AddressableError, "only a part", lambda: a.tolist())
    assert len(a.global_shards) == mesh.size and len(a.addressable_shards) == tw.local_device_count()
    for s in a.global_shards:
        here = s.device.process_index == tw.process_index()
        assert np.array_equal(s.data, X[s.index]) if here else s.data is None
    for dtype in (ml_dtypes.bfloat16, np.int8, bool, ml_dtypes.float8_e4m3fn):
        for s in tw.device_put(X.astype(dtype), NamedSharding(mesh, P("x"))).addressable_shards:
            assert s.data.dtype == dtype and np.array_equal(np.asarray(s.data), X.astype(dtype)[s.index])
    assert np.array_equal(whole(a), X) and np.array_equal(whole(a.T), X.T) and float(a.sum()) == X.sum()
    assert np.array_equal(np.asarray(tw.device_put(a, NamedSharding(mesh, P()))), X)
    assert np.array_equal(whole(tw.reshard(a, NamedSharding(mesh, P(None, "x")))), X)
    assert np.array_equal(whole(tw.device_put(X[:7], NamedSharding(mesh, P("x"))) * 2), X[:7] * 2)  # padded
    other = NamedSharding(Mesh(mesh.devices[::-1], ("x",)), P("x"))
    raises(MeshError, "another order", lambda: tw.device_put(a, other))
    raises(ProcessMismatchError, "device_put", lambda: tw.device_put(X + tw.process_index(), NamedSharding(mesh, P())))
    f = tw.jit(lambda x, s: x * s, donate_argnums=0)
    b = f(a, np.float32(3))  # an argument of each process's own
    assert np.array_equal(whole(b), X * 3) and a.is_deleted()
    own = tw.jit(lambda x, s: x - s)  # an argument that is another one in each process
    raises(ProcessMismatchError, "the first call of <lambda>", lambda: own(b, np.float32(tw.process_index())))
    raises(ProcessMismatchError, "argument 1", lambda: tw.jit(lambda x, s: x / s)(b, X + tw.process_index()))
    part = tw.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    assert np.array_equal(np.asarray(part(b)), (X * 3).reshape(mesh.size, -1, 6).sum(0))
    g = tw.jit(tw.grad(lambda x: (x**2).sum()))
    assert np.array_equal(whole(g(b)), X * 6)
    with tw.debug_nans():
        raises(FloatingPointError, "NaN", lambda: tnp.log(-b))


def parts(mesh):
    me, count = tw.process_index(), tw.process_count()
    rows = 8 // count
    mine = X[me * rows : (me + 1) * rows]
    make = tw.make_array_from_process_local_data
    for spec, local in ((P("x"), mine), (P(None), X), (P("x", None), X)):
        shape = None if local is mine else X.shape
        assert np.array_equal(whole(make(NamedSharding(mesh, spec), local, shape)), X)
    turns = NamedSharding(Mesh(mesh.devices.reshape(count, -1).T.reshape(-1), ("x",)), P("x"))  # in turns
    held = np.concatenate([X[s] for s in sorted(i[0] for i in turns.addressable_devices_indices_map((8, 6)).values())])
    assert np.array_equal(whole(make(turns, held)), X)
    raises(ShapeError, "is local", lambda: make(turns, held[:1], X.shape))
    a = mh.host_local_array_to_global_array({"x": mine}, mesh, P("x"))["x"]
    assert a.shape == X.shape and np.array_equal(whole(a), X)
    back = mh.global_array_to_host_local_array(a, mesh, P("x"))
    assert back.is_fully_addressable and np.array_equal(back, mine)
    raises(MeshError, "rectangle", lambda: turns.mesh.local_mesh)


def utilities():
    me, count = tw.process_index(), tw.process_count()
    mh.sync_global_devices("here")
    assert mh.process_allgather(np.int32(me)).tolist() == list(range(count))
    assert mh.process_allgather({"a": X + me})["a"].shape == (count, 8, 6)
    joined = mh.process_allgather(X[:1] + me, tiled=True)
    assert np.array_equal(joined, np.concatenate([X[:1] + p for p in range(count)]))
    sent = mh.broadcast_one_to_all({"a": X + me, "k": random.key(me), "z": np.float32(-0.0)})
    assert np.array_equal(sent["a"], X) and np.signbit(sent["z"])
    assert np.array_equal(random.key_data(sent["k"]), random.key_data(random.key(0)))
    assert mh.broadcast_one_to_all(np.int32(me), is_source=me == count - 1) == count - 1
    raises(ArgumentError, "the sources", lambda: mh.broadcast_one_to_all(X, is_source=True))
    mh.assert_equal({"a": X})
    raises(ProcessMismatchError, "my text: process 1 from process 0, at ['b']",
           lambda: mh.assert_equal({"a": X, "b": me}, "my text"))  # fmt: skip
    raises(ProcessMismatchError, "barrier", lambda: mh.sync_global_devices(f"{me}"))


def mapped():
    """`pmap`: each process passes the elements of its own devices, and gets their results."""
    me, count, n = tw.process_index(), tw.process_count(), tw.local_device_count()
    every = np.arange(float(count * n), dtype=np.float32)
    mine = every[me * n :][:n]
    total = tw.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    for given in (mine, tnp.asarray(mine), total(mine) * 0 + mine):
        found = total(given)
        assert found.is_fully_addressable and found.tolist() == [every.sum()] * n
        assert [s.device.process_index for s in found.addressable_shards] == [me] * n
    shifted = tw.pmap(lambda x, b, *, k: (lax.pshuffle(x, "i", np.roll(range(count * n), 1)) * b + k, lax.pmax(x, "i")),
                      axis_name="i", in_axes=(1, None), out_axes=(1, None))  # fmt: skip
    table, keys = np.stack([mine, mine + 100]), np.zeros(n, np.float32)
    rolled, most = shifted(table, 2.0, k=keys)
    assert np.array_equal(rolled, 2 * np.stack([np.roll(every, 1), np.roll(every, 1) + 100])[:, me * n :][:, :n])
    assert np.array_equal(most, [every[-1], every[-1] + 100])
    assert tw.pmap(lambda x: x + lax.axis_index("i"), "i")(mine[:1] * 0).tolist() == [me]  # one element of each process
    assert tw.pmap(lambda x, p: x**p, static_broadcasted_argnums=1)(mine, 2).tolist() == (mine**2).tolist()
    there = tw.pmap(lambda x: lax.psum(x, "i"), "i", devices=tw.devices()[::-1])
    assert there(mine).tolist() == [every.sum()] * n
    slope = tw.pmap(tw.grad(lambda w, x: lax.pmean(w * x, "i")), "i", in_axes=(None, 0), out_axes=None)
    np.testing.assert_allclose(slope(np.float32(3), mine), every.mean())
    raises(UnsupportedError, "several processes", lambda: tw.grad(lambda x: total(x).sum())(mine))
    raises(UnsupportedError, "several processes", lambda: tw.jit(total)(mine))
    raises(BatchAxisError, "axis_size=3", lambda: tw.pmap(lambda x: x, axis_size=3)(mine))
    raises(MeshError, f"there are {count * n} devices", lambda: total(np.ones(n + 1)))


def state(mesh):
    keys = random.split(random.key(3), 4)
    return {
        "w": tw.device_put(X, NamedSharding(mesh, P("x"))), "b": tw.device_put(X[0], NamedSharding(mesh, P())),
        "h": tw.device_put(X.astype(ml_dtypes.bfloat16)[:7], NamedSharding(mesh, P("x"))),
        "k": tw.device_put(keys, NamedSharding(mesh, P("x"))), "step": 5,
    }  # fmt: skip


def save(folder, mesh):
    saved = state(mesh)
    checkpoints.save(f"{folder}/5", saved, notes="together").wait()
    raises(ArgumentError, "already", lambda: checkpoints.save(f"{folder}/5", saved))
    elsewhere = f"{folder}/{tw.process_index()}"
    raises(ProcessMismatchError, "the checkpoint", lambda: checkpoints.save(elsewhere, saved))
    failing = f"{folder}/5/manifest.json/no"  # a file where a folder should be
    raises(OSError, "by process 0", lambda: checkpoints.save(failing, saved).wait())


def restore(folder, mesh):
    manifest = checkpoints.check(checkpoints.latest(folder))
    assert manifest.notes == "together" and len({p.file for p in manifest.leaves["['w']"].pieces}) == 2
    found, want = checkpoints.restore(f"{folder}/5", state(mesh)), state(mesh)
    assert found["step"] == 5
    for name in ("w", "b", "h"):
        assert found[name].sharding is want[name].sharding and np.array_equal(whole(found[name]), whole(want[name]))
    assert np.array_equal(whole(random.key_data(found["k"])), whole(random.key_data(want["k"])))


def main():
    folder, what = sys.argv[1:]
    tw.distributed.initialize()
    mesh = tw.make_mesh((tw.device_count(),), ("x",))
    if what == "save":
        devices()
        arrays(mesh)
        parts(mesh)
        utilities()
        mapped()
        save(folder, mesh)
    else:
        restore(folder, mesh)
    print("all right", flush=True)


if __name__ == "__main__":
    main()
