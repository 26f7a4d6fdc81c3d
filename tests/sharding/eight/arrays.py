"""Arrays on meshes: putting, reading, resharding, eager operations and jit, sizes with remainders."""

import copy
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import numpy as tnp
from tilewright import random
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConfigError,
    DeletedArrayError,
    DtypeError,
    MeshAxisError,
    MeshError,
    ShapeError,
    TreeError,
)
from tilewright.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    P,
    SingleDeviceSharding,
    get_abstract_mesh,
    use_mesh,
    with_sharding_constraint,
)

MESH = tw.make_mesh((4, 2), ("x", "y"))
MESHES = [MESH, tw.make_mesh((8,), ("x",)), tw.make_mesh((2, 2, 2), ("x", "y", "z"))]
OTHER_ORDER = Mesh(MESH.devices[::-1], ("x", "y"))
X = np.arange(30, dtype=np.float32).reshape(10, 3)


def on(spec, mesh=MESH, **how):
    return NamedSharding(mesh, spec, **how)


@st.composite
def shardings(draw, ndim):
    mesh = draw(st.sampled_from(MESHES))
    places = [draw(st.integers(-1, ndim - 1)) for _ in mesh.axis_names]
    dims = [tuple(n for n, p in zip(mesh.axis_names, places) if p == d) for d in range(ndim)]
    return on(P(*dims), mesh)


def test_arrays_on_one_device_and_on_a_mesh_are_of_one_class():
    """The class tells nothing of where an array lies, nor does a call on one kind run what was compiled for another."""
    one, many = tnp.asarray(X), tw.device_put(X, on(P(None, None)))
    assert type(one) is type(many) is one.__class__ is many.__class__ is tw.Array
    f, g = tw.jit(lambda a, b: a - 2 * b), tw.jit(lambda tree: tree["a"] - 2 * tree["b"])
    for a, b in [(one, many), (many, one), (one, one), (many, many), (X, many), (one, X)] * 2:
        devices = 8 if a is many or b is many else 1
        for found in (f(a, b), g({"a": a, "b": b}), a - 2 * b, tnp.subtract(a, 2 * b), tw.lax.sub(a, b) - b):
            assert type(found) is tw.Array and np.array_equal(found, -X)
            assert found.is_fully_replicated and len(found.devices()) == devices


SHAPES = [(8, 8), (10, 3), (1, 5), (7, 16)]


@given(st.data())
@settings(max_examples=25)
def test_put_read_and_reshard(data):
    shape = data.draw(st.sampled_from(SHAPES))
    dtype = data.draw(st.sampled_from([np.float32, ml_dtypes.bfloat16]))  # resharded by the host, by a program
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    a, b = data.draw(shardings(2)), data.draw(shardings(2))
    y = tw.device_put(x, a)
    assert y.sharding is a and y.shape == shape and y.devices() == set(a.mesh.flat)
    np.testing.assert_array_equal(y, x)
    whole = np.full(shape, np.nan, dtype)
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(shard.data, x[shard.index])
        assert shard.data.device is shard.device
        whole[shard.index] = shard.data
    np.testing.assert_array_equal(whole, x)
    assert sum(s.replica_id == 0 and s.data.size for s in y.global_shards) == x.size or not y.is_fully_replicated
    np.testing.assert_array_equal(tw.reshard(y, b), x)
    if dtype is np.float32:
        np.testing.assert_array_equal(np.from_dlpack(y), x)


def test_shards_agree_with_the_sharding_of_jax():
    jax = pytest.importorskip("jax")
    names = ("x", "y")
    theirs = jax.sharding.AbstractMesh((4, 2), names)
    for spec in (("x",), (None, "y"), (("y", "x"),), ("y", "x"), ()):
        expected = jax.sharding.NamedSharding(theirs, jax.sharding.PartitionSpec(*spec)).shard_shape((16, 8))
        assert on(P(*spec)).shard_shape((16, 8)) == expected


OPERATIONS = {
    "flip": (lambda x: tnp.flip(x, 0), lambda x: x[::-1]),
    "sum": (lambda x: x.sum(0), lambda x: x.sum(0)),
    "cumsum": (lambda x: tnp.cumsum(x, 0), lambda x: x.cumsum(0)),
    "max": (lambda x: x.max(), lambda x: x.max()),
    "product": (lambda x: x.T @ x, lambda x: x.T @ x),
    "sort": (lambda x: tnp.sort(-x, 0), lambda x: np.sort(-x, 0)),
    "take": (lambda x: x[np.array([0, 2, 0])], lambda x: x[[0, 2, 0]]),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("spec", [P("x"), P(("x", "y")), P(None, "y")])
def test_sizes_with_remainders_are_padded(name, spec):
    f, expected = OPERATIONS[name]
    np.testing.assert_allclose(f(tw.device_put(X, on(spec))), expected(X), rtol=1e-6)


def test_an_argument_of_another_sharding_is_brought_and_never_read_as_it_lies():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    f = tw.jit(lambda a, b: a - b.T, in_shardings=(on(P("x", "y")), on(P("y", "x"))))
    for spec in (P("x", "y"), P("y", "x"), P(), P(None, ("x", "y"))):  # the first two have parts of one size
        for mesh in (MESH, OTHER_ORDER):
            out = f(tw.device_put(x, on(spec, mesh)), tw.device_put(x, on(spec, MESH)))
            np.testing.assert_array_equal(out, x - x.T)
    np.testing.assert_array_equal(f(x, x), x - x.T)
    compiled = tw.jit(lambda a: a + 1, in_shardings=on(P("x", "y"))).lower(x).compile()
    np.testing.assert_array_equal(compiled(tw.device_put(x, on(P("y", "x")))), x + 1)


def test_calls_again_on_arrays_that_lie_in_every_way():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    ways = [tw.device_put(x, on(P("x", "y"))), tw.device_put(x, on(P("y", "x"))), tnp.asarray(x), x]
    flat, asked = tw.jit(lambda a, b: a - b.T), tw.jit(lambda a, b: a - b.T, out_shardings=on(P("y")))
    nested = tw.jit(lambda t: {"out": t["a"] - t["b"].T})
    transposed = x.T
    for a in ways * 2:
        for b in ways:
            for out in (flat(a, b), asked(a, b), nested({"a": a, "b": b})["out"]):
                np.testing.assert_array_equal(out, x - transposed)
            assert asked(a, b).sharding is on(P("y"))
            np.testing.assert_array_equal(a * b - a, x * x - x)
    lying = ways[0]
    assert (lying + lying).sharding is lying.sharding
    with tw.config(enable_x64=True):
        assert tw.jit(lambda a: a * np.float64(2))(lying).dtype == np.float64
        np.testing.assert_array_equal(flat(lying, lying), x - transposed)
    dropped = tw.device_put(x, lying.sharding)
    dropped.delete()
    for call in (lambda: flat(lying, dropped), lambda: lying + dropped, lambda: nested({"a": dropped, "b": lying})):
        with pytest.raises(DeletedArrayError):
            call()


def test_results_lie_as_asked_or_as_propagated():
    a = tw.device_put(np.ones((8, 4), np.float32), on(P("x", "y")))
    assert (a * 2).sharding is a.sharding and tw.jit(lambda v: v.T)(a).sharding.spec is P("y", "x")
    assert tw.jit(lambda v: v + 1, out_shardings=on(P(None, "x")))(a).sharding is on(P(None, "x"))
    same, moved = tw.jit(lambda v: (v, v), out_shardings=(None, on(P())))(a)
    assert same.sharding is a.sharding and moved.is_fully_replicated
    with use_mesh(MESH):
        assert tw.jit(lambda v: with_sharding_constraint(v * 2, P("y")))(np.ones(4)).sharding is on(P("y"))
        assert get_abstract_mesh() is MESH.abstract_mesh
    np.testing.assert_array_equal(with_sharding_constraint(X, on(P("y"))), X)
    outs = {"a": None, "b": on(P())}
    pair = tw.jit(lambda v, w: {"a": v, "b": v + w}, in_shardings=(on(P("x")), None), out_shardings=outs)
    out = pair(X, tw.device_put(X, on(P("y"))))
    assert out["a"].sharding.spec is P("x") and out["b"].is_fully_replicated
    np.testing.assert_array_equal(out["b"], 2 * X)


def test_constraints_are_differentiated_and_batched():
    def f(v):
        return tnp.sum(tnp.sin(with_sharding_constraint(v, on(P("x")))))

    np.testing.assert_allclose(tw.grad(f)(X), np.cos(X), rtol=1e-6)
    both = tw.jit(tw.vmap(f, spmd_axis_name="y"))(np.stack([X, X]))
    np.testing.assert_allclose(both, np.sin(X).sum().repeat(2), rtol=1e-4)
    with pytest.raises(MeshAxisError, match="spmd_axis_name='x'"):
        tw.vmap(f, spmd_axis_name="x")(np.stack([X, X]))


def test_donation(capfd):
    a = tw.device_put(np.ones((8, 4), np.float32), on(P("x")))
    b = tw.jit(lambda v: v + 1, donate_argnums=0)(a)
    assert a.is_deleted() and not b.is_deleted()
    elsewhere = on(P("y"))
    uses = [
        lambda: a + 1, lambda: b * a, lambda: np.asarray(a), lambda: tw.device_put(a, elsewhere), lambda: a.copy(),
        lambda: tw.jit(lambda v: v, in_shardings=elsewhere)(a), lambda: tw.jit(lambda v, w: w - v)(b, a),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(DeletedArrayError, match="used after its buffer was donated"):
            use()
    with pytest.raises(DeletedArrayError, match="given the same array twice"):
        tw.jit(lambda v, w: v + w, donate_argnums=0)(b, b)
    assert tw.jit(lambda v, w, z: v + w + z, donate_argnums=2)(b, b, b + 1).shape == b.shape
    assert not capfd.readouterr().err  # XLA tells of it in lines of its own where it is asked to run


def calls(f):
    """How many functions of Python a call enters."""
    entered = 0

    def note(frame, event, argument):
        nonlocal entered
        entered += event == "call"

    sys.setprofile(note)
    try:
        f()
    finally:
        sys.setprofile(None)
    return entered


def test_calls_beside_python_numbers_are_looked_up():
    a = tw.device_put(X, on(P("x")))
    for f in (lambda v: v + 2.0, lambda v: 3 - v, lambda v: v > 4, lambda v: tnp.sum(v, 1)):
        np.testing.assert_allclose(f(a), f(a), rtol=0)
        assert f(a).sharding is f(a).sharding and calls(lambda f=f: f(a)) <= 8
    for number in (2.0, 5.0, -0.0, True, 7):  # each its own entry
        np.testing.assert_array_equal(a * number, X * np.float32(number))
        np.testing.assert_array_equal(a * number, X * np.float32(number))
    b = tw.device_put(X, on(P(None, "y")))
    np.testing.assert_array_equal(b + 2.0, X + 2)
    assert (a + 2.0).sharding is not (b + 2.0).sharding


def test_memory_kinds():
    far = tw.device_put(X, on(P("x"), memory_kind="pinned_host"))
    assert far.sharding.memory_kind == "pinned_host" and far.sharding != on(P("x"))
    assert on(P("x"), memory_kind="device") is on(P("x")) and on(P("x")).memory_kind == "device"
    assert NamedSharding(MESH.abstract_mesh, P("x")).memory_kind is None
    np.testing.assert_array_equal(far + 1, X + 1)
    np.testing.assert_array_equal(tw.device_put(tw.device_put(far, on(P("x"))), far.sharding), X)


@pytest.mark.parametrize("f", [
    lambda x: x[np.zeros(0, int)], lambda x: x[np.zeros(8, bool)], lambda x: tnp.unique(x),
    lambda x: tnp.unique(x, return_inverse=True)[1], lambda x: tnp.setdiff1d(x, x), lambda x: tw.lax.full_like(x, 0),
    lambda x: tnp.intersect1d(x, x, return_indices=True)[2],
])  # fmt: skip
def test_results_that_are_not_computed_of_an_array_are_on_its_devices(f):
    x = np.arange(8.0, dtype=np.float32)
    alone = tw.device_put(x, tw.devices()[3])
    assert f(alone).devices() == {tw.devices()[3]}
    split = tw.device_put(x, on(P("x")))
    assert f(split).devices() == set(tw.devices())
    np.testing.assert_array_equal(f(split), f(alone))


def test_arrays_of_parts():
    s = on(P("x"))
    np.testing.assert_array_equal(tw.make_array_from_callback((10, 3), s, lambda i: X[i]), X)
    parts = [tw.device_put(X[i], d) for d, i in s.devices_indices_map((10, 3)).items()]
    whole = tw.make_array_from_single_device_arrays((10, 3), s, parts[::-1])
    np.testing.assert_array_equal(whole, X)
    assert whole.sharding is s
    np.testing.assert_array_equal(tw.make_array_from_process_local_data(s, X), X)
    with pytest.raises(MeshError, match="one on each"):
        tw.make_array_from_single_device_arrays((10, 3), s, parts[:3])
    with pytest.raises(ShapeError, match="data_callback"):
        tw.make_array_from_callback((10, 3), s, lambda i: X)


def test_keys_copies_and_pickles():
    keys = random.split(random.key(0), 8)
    far = tw.device_put(keys, on(P("x")))
    np.testing.assert_array_equal(random.key_data(far), random.key_data(keys))
    draw = tw.vmap(lambda k: random.uniform(k, (2,)))
    np.testing.assert_array_equal(draw(far), draw(keys))
    a = tw.device_put(X, on(P("x")))
    np.testing.assert_array_equal(copy.deepcopy(a), X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a)), X)
    assert a.copy().sharding is a.sharding and not a.copy().is_deleted()
    tables = tw.jit(lambda v: v + a)
    np.testing.assert_array_equal(tables(X), 2 * X)  # an array on a mesh as a constant


def test_interned():
    assert P("x", None) is P(("x",), ()) and P("x") is not P("x", None)
    assert Mesh(MESH.devices, ("x", "y")) is MESH and MESH.abstract_mesh is MESH.abstract_mesh.update()
    assert on(P("x")).is_equivalent_to(on(P("x", None)), 2) and not on(P("x")).is_equivalent_to(on(P("y")), 2)
    assert pickle.loads(pickle.dumps(P("x", None))) is P("x", None)


@pytest.mark.parametrize(
    "error, text, call",
    [
        (MeshAxisError, "'q'", lambda: on(P("q"))),
        (MeshAxisError, "twice", lambda: P("x", ("y", "x"))),
        (ShapeError, "3 entries", lambda: tw.device_put(X, on(P("x", None, "y")))),
        (ShapeError, "3 entries", lambda: tw.ShapeDtypeStruct((8, 2), "int8", sharding=on(P("x", None, "y")))),
        (ShapeError, "3 entries", lambda: tw.jit(lambda v: v, out_shardings=on(P(None, None, "y")))(X)),
        (MeshError, "there are 8", lambda: tw.make_mesh((3, 3), ("x", "y"))),
        (ArgumentTypeError, "axis_types", lambda: AbstractMesh((2,), ("x",), axis_types=("explicit",))),
        (MeshError, "different devices", lambda: tw.device_put(X, on(P("x"))) + tw.device_put(X, on(P("x"), HALF))),
        (MeshError, "no devices", lambda: tw.device_put(X, on(P("x"), AbstractMesh((4,), ("x",))))),
        (ArgumentError, "without a mesh", lambda: with_sharding_constraint(X, P("x"))),
        (ArgumentTypeError, "prefix", lambda: tw.jit(lambda v: v, in_shardings=[on(P())] * 2)(X)),
        (ConfigError, "8 already", lambda: tw.config.update("num_cpu_devices", 4)),
        (ArgumentError, "'vram'", lambda: tw.device_put(X, NamedSharding(MESH, P("x"), memory_kind="vram"))),
        (ArgumentError, "'vram'", lambda: NamedSharding(MESH.abstract_mesh, P("x"), memory_kind="vram")),
        (ArgumentError, "a tuple within a tuple", lambda: P((("x", "y"), "z"))),
        (ArgumentError, "that is traced", lambda: tw.jit(lambda v: (tw.set_mesh(MESH), v)[1])(X)),
        (MeshAxisError, "manual axes", lambda: tw.set_mesh(MESH.update(axis_types=(AxisType.Manual,) * 2))),
        (
            DtypeError,
            "float32, int32",
            lambda: tw.make_array_from_single_device_arrays(
                (8,),
                on(P(("x", "y"))),
                [tw.device_put(np.ones(1, "float32" if i else "int32"), d) for i, d in enumerate(MESH.devices.flat)],
            ),
        ),
        (TreeError, "expected a list of length 1, got a leaf", lambda: tw.device_put(np.ones((64, 64)), ["x"])),
    ],
)
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)


HALF = Mesh(MESH.devices[:2, 0], ("x",))


def test_the_products_of_a_step_are_sent_no_transposes():
    mesh = tw.make_mesh((4, 2), ("x", "y"))
    x, *ws = (tw.device_put(tnp.ones((64, 64)), NamedSharding(mesh, s)) for s in (P("x"), *[P(None, "y")] * 3))

    def loss(ws, x):
        for w in ws:
            x = tnp.tanh(x @ w)
        return tnp.mean(x * x)

    text = tw.jit(lambda ws, x: [w - g for w, g in zip(ws, tw.grad(loss)(ws, x))]).lower(ws, x).compile().as_text()
    assert text.count(" all-gather(") == 2  # what the first and the second layer give, for the next one


@pytest.mark.parametrize("shape", [(0, 2), (-1, 2), ("4", 2), "42", (2.0, 2)], ids=str)
def test_sizes_that_no_mesh_has(shape):
    with pytest.raises(ArgumentError, match="a positive integer"):
        tw.make_mesh(shape, ("x", "y"))
    with pytest.raises(ArgumentError, match="a positive integer"):
        AbstractMesh(shape, ("x", "y"))


def test_iterating_leaves_elements_on_the_devices():
    far = tw.device_put(X, MESH.devices[2, 1])
    assert {row.device for row in far} == {far.device}
    split = tw.device_put(X, NamedSharding(MESH, P("x")))
    assert {d for row in split for d in row.devices()} <= {*MESH.devices.flat} and len(next(iter(split)).devices()) > 1
    np.testing.assert_array_equal([np.asarray(row) for row in split], X)


def test_results_keep_axes_of_one_device_in_their_spec():
    mesh = Mesh(MESH.devices[:1, :], ("x", "y"))
    split = tw.device_put(np.ones((2, 4)), NamedSharding(mesh, P("x", "y")))
    assert (split * 2).sharding.spec == tw.jit(lambda x: x + 1)(split).sharding.spec == P("x", "y")
    assert tw.jit(lambda x: x.T)(split).sharding.spec == P("y")


def test_sharding_on_a_mesh_of_one_device_is_that_of_the_device():
    device = MESH.devices[1, 0]
    one, other = NamedSharding(Mesh(np.array([device]), ("i",)), P("i")), tw.device_put(X, device).sharding
    assert one.is_equivalent_to(other, 2) and other.is_equivalent_to(one, 2)
    assert not one.is_equivalent_to(tw.device_put(X, MESH.devices[0, 0]).sharding, 2)


def test_parts_of_another_dtype_than_is_asked_for_are_refused():
    sharding = NamedSharding(Mesh(MESH.devices[:1, 0], ("i",)), P())
    with pytest.raises(DtypeError, match="parts of the dtype float32"):
        tw.make_array_from_single_device_arrays((10, 3), sharding, [tnp.asarray(X)], dtype=np.int32)


def test_arrays_like_one_on_another_device_and_shardings_of_one_device():
    device = MESH.devices[1, 1]
    far = tw.device_put(X, tw.device_put(X, device).sharding)
    assert far.device == tnp.zeros_like(far).device == tnp.full_like(far, 2).device == device
    np.testing.assert_array_equal(far + tnp.ones_like(far), X + 1)
    for like in (tnp.full_like, tw.lax.full_like):
        assert like(far, 2).device == like(far, 2, shape=(5,)).device == like(far, 2, "int32").device == device
    assert far[tnp.zeros(10, bool)].device == device
    split = tw.device_put(X, NamedSharding(MESH, P("x")))
    assert tw.lax.full_like(split, 2).sharding == split.sharding
    assert tw.lax.full_like(split, 2, shape=(5,)).shape == (5,)


def test_operations_run_where_committed_arrays_are_and_uncommitted_ones_follow():
    first, second, third = tw.devices()[:3]
    here, there, free = tw.device_put(tnp.ones(4), first), tw.device_put(tnp.ones(4), second), tnp.ones(4)
    on_mesh = tw.device_put(np.ones(4), NamedSharding(tw.make_mesh((4,), ("d",)), P("d")))
    with tw.default_device(third):
        elsewhere = tnp.ones(4)
        assert (free + 1).devices() == {third} and (there + free).devices() == {second}
    assert not free.committed and not elsewhere.committed and not (free + 1).committed and not free.copy().committed
    assert here.committed and there.committed and on_mesh.committed and here.copy().committed and here[0].committed
    for f in (tnp.add, tw.jit(lambda x, y: x * y)):
        for x, y in ((here, free), (free, there), (free, on_mesh)):
            result = f(x, y)
            assert result.committed and result.devices() == (x if x.committed else y).devices()
        assert f(free, elsewhere).devices() == {first} and not f(free, elsewhere).committed
        with pytest.raises(ArgumentError, match="on several devices: cpu:0, cpu:1"):
            f(here, there)
        with pytest.raises(MeshError, match="is committed to cpu:0, and computes on Mesh"):
            f(here, on_mesh)
    result = tw.jit(lambda x: x + 1, device=third)(there)
    assert result.devices() == {third} and result.committed


def test_committing_an_array_to_its_device_shares_memory_that_neither_loses():
    x = tnp.arange(4096.0)
    y = tw.device_put(x, tw.devices()[0])
    assert x.unsafe_buffer_pointer() == y.unsafe_buffer_pointer()
    tw.jit(lambda a: a + 1, donate_argnums=0)(x)
    x.delete()
    assert y[7] == 7
    assert tw.device_put(y, tw.devices()[0], may_alias=False).unsafe_buffer_pointer() != y.unsafe_buffer_pointer()


def test_a_function_of_a_device_runs_there_on_arrays_of_a_mesh_too():
    device = tw.devices()[1]
    x = tnp.arange(10.0).reshape(5, 2)
    run = tw.jit(lambda v: v @ v.T, device=device)
    result = run(tw.device_put(x, NamedSharding(MESH, P("x", "y"))))
    assert result.devices() == {device}
    np.testing.assert_array_equal(result, x @ x.T)
    with pytest.raises(MeshError, match="on the device cpu:1, and computes on a mesh"):
        tw.jit(lambda v: with_sharding_constraint(v, NamedSharding(MESH, P("x"))), device=device)(x)
    with pytest.raises(ArgumentError, match="to run on, with in_shardings"):
        tw.jit(lambda v: v, device=device, out_shardings=NamedSharding(MESH, P()))


def test_an_array_of_no_other_buffer_is_donated():
    split = NamedSharding(MESH, P("x"))
    put = tw.device_put(np.arange(4096.0, dtype="float32"), tw.devices()[0])
    brought = tw.jit(lambda v: v, in_shardings=split, out_shardings=split)(tnp.ones((8, 4)))
    for x in (put, brought):
        tw.jit(lambda v: v * 2, donate_argnums=0)(x)
        assert x.is_deleted()


def test_donated_array_that_lies_the_same_on_another_mesh_is_kept():
    split = tw.device_put(X, NamedSharding(MESH, P("x")))
    found = tw.device_put(split, NamedSharding(Mesh(MESH.devices, ("i", "j")), P("i")), donate=True)
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("order", ([0, 1, 4, 5, 2, 3, 6, 7], list(range(8))[::-1]))
def test_donated_array_whose_parts_stay_on_a_mesh_of_another_device_order(order):
    names, devices = ("i", "j"), np.array(tw.devices())
    mesh = Mesh(devices[order].reshape(4, 2), names)
    split = tw.device_put(np.arange(16), NamedSharding(Mesh(devices.reshape(4, 2), names), P("j")))
    found = tw.device_put(split, NamedSharding(mesh, P("j")), donate=True)
    np.testing.assert_array_equal(found, np.arange(16))


def test_an_array_moves_to_a_sharding_and_its_struct_names_only_a_sharding_that_was_named():
    sharding = NamedSharding(MESH, P("x"))
    assert tnp.asarray(X).to_device(sharding).device == sharding
    assert tw.ShapeDtypeStruct.like(tnp.asarray(X)).sharding is None
    for where in (sharding, SingleDeviceSharding(MESH.devices[1, 1])):
        assert tw.ShapeDtypeStruct.like(tw.device_put(X, where)).sharding == where
    device = MESH.devices[1, 1]
    assert tw.make_array_from_process_local_data(device, X).device == device


def test_meshes_of_a_kind_of_devices():
    mesh = AbstractMesh((2,), ("x",), abstract_device=AbstractDevice("TPU v5e", None, "tpu"))
    assert mesh is pickle.loads(pickle.dumps(mesh)) is not AbstractMesh((2,), ("x",))
    assert mesh.update(axis_sizes=(4,)).abstract_device.platform == "tpu"


def test_the_axes_of_a_mesh_keep_the_kind_of_its_devices():
    device = MESH.flat[0]
    kind = AbstractDevice(device.device_kind, None, device.platform)
    assert MESH.abstract_mesh.abstract_device == kind
    bare = AbstractMesh(MESH.axis_sizes, MESH.axis_names, MESH.axis_types)
    assert bare is not MESH.abstract_mesh and MESH.has_axes(bare) and not MESH.has_axes(bare.update(axis_sizes=(2, 4)))
    with tw.sharding.use_mesh(MESH):
        assert tw.sharding.get_abstract_mesh().abstract_device == kind
        for mesh in (bare, MESH.abstract_mesh):  # with devices or without, over the mesh in force
            y = tw.jit(lambda x, mesh=mesh: tw.lax.with_sharding_constraint(x, NamedSharding(mesh, P("x"))))(X)
            assert y.sharding.device_set == set(MESH.flat) and np.array_equal(y, X)
