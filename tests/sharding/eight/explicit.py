"""Shardings in the types of arrays: axes of the type `Explicit`."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import lax, nn, random
from tilewright import numpy as tnp
from tilewright.as_jax.aliases import TypeNames
from tilewright.core.support.errors import ArgumentError, ControlFlowTypeError, MeshError, ShardingTypeError
from tilewright.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    P,
    auto_axes,
    explicit_axes,
    reshard,
    use_abstract_mesh,
    use_mesh,
    with_sharding_constraint,
)

MESH = tw.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
MIXED = tw.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
AUTO = tw.make_mesh((4, 2), ("x", "y"))
X, W = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), np.linspace(0, 2, 24, dtype=np.float32).reshape(4, 6)


def put(value, *spec, mesh=MESH):
    return tw.device_put(value, NamedSharding(mesh, P(*spec)))


A, B = put(X, "x", "y"), put(W, "y")


def shown(x):
    return tw.typeof(x).show()


def halved(x):
    return lax.custom_linear_solve(lambda v: v * 2, x, lambda _, b: b / 2, symmetric=True)


CALLS = {
    "pointwise": (lambda x: tnp.sin(x) * 2 + x, "f32[8@x,4@y]"),
    "with a whole one": (lambda x: x + tnp.ones((8, 4)), "f32[8@x,4@y]"),
    "with one that is split in part": (lambda x: x + reshard(x, P("x", None)), "f32[8@x,4@y]"),
    "reduction": (lambda x: x.sum(0), "f32[4@y]"),
    "position": (lambda x: tnp.argmax(x, 0), "i32[4@y]"),
    "transposition": (lambda x: x.T, "f32[4@y,8@x]"),
    "axes merged": (lambda x: x.reshape(32), "f32[32@(x,y)]"),
    "axis cut": (lambda x: x.reshape(4, 2, 4), "f32[4@x,2,4@y]"),
    "broadcast": (lambda x: tnp.broadcast_to(x, (3, 8, 4)), "f32[3,8@x,4@y]"),
    "part": (lambda x: x[:, :2], "f32[8@x,2@y]"),
    "part of one": (lambda x: x[0], "f32[4@y]"),
    "part that the axis divides": (lambda x: x[2:6], "f32[4@x,4@y]"),
    "part that the axis does not divide": (lambda x: x[1:6], "f32[5,4@y]"),
    "every second": (lambda x: x[::2], "f32[4@x,4@y]"),
    "rolled": (lambda x: tnp.roll(x, 1, 0), "f32[8,4@y]"),
    "padded to what the axis does not divide": (lambda x: tnp.pad(x, ((1, 1), (0, 0))), "f32[10,4@y]"),
    "scan over a split axis": (lambda x: lax.scan(lambda c, r: (c + 1, r * c), 0.0, x)[1], "f32[8,4@y]"),
    "where what is meant is told": (lambda x: reshard(tnp.roll(x, 1, 0), P("x", "y")), "f32[8@x,4@y]"),
    "padding": (lambda x: tnp.pad(x, ((0, 8), (0, 0))), "f32[16@x,4@y]"),
    "joined": (lambda x: tnp.concatenate([x, x]), "f32[16@x,4@y]"),
    "selection": (lambda x: tnp.where(x > 0, x, 0.0), "f32[8@x,4@y]"),
    "softmax": (lambda x: nn.softmax(x, -1), "f32[8@x,4@y]"),
    "product": (lambda x: x @ tnp.asarray(W), "f32[8@x,6]"),
    "product that is told": (lambda x: tnp.matmul(x, W, out_sharding=P(None, "y")), "f32[8,6@y]"),
    "product by groups": (lambda x: lax.ragged_dot(x, tnp.stack([W, -W]), np.int32([3, 5]), out_sharding=P("x")),
                          "f32[8@x,6]"),
    "zeros like it": (tnp.zeros_like, "f32[8@x,4@y]"),
    "batched": (lambda x: tw.vmap(lambda row: row * 2)(x), "f32[8@x,4@y]"),
    "batched product": (lambda x: tw.vmap(tnp.dot)(*[reshard(x, P("x", None))] * 2), "f32[8@x]"),
    "scan": (lambda x: lax.scan(lambda c, r: (c + 1, r * c), 0.0, reshard(x, P(None, "y")))[1], "f32[8,4@y]"),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2 + 1, x), "f32[8@x,4@y]"),
    "branch": (lambda x: lax.cond(True, lambda x: x, lambda x: x * 2, x), "f32[8@x,4@y]"),
    "gradient": (tw.grad(lambda x: tnp.sum(tnp.matmul(x, W, out_sharding=P("x")) ** 2)), "f32[8@x,4@y]"),
    "gradient by the other": (lambda x: tw.grad(lambda w: tnp.sum(tnp.matmul(x, w, out_sharding=P("x")) ** 2))(
        reshard(tnp.asarray(W), P("y"))), "f32[4@y,6]"),
    "gradient of checkpoint": (tw.grad(tw.checkpoint(lambda x: tnp.sum(tnp.sin(x @ tnp.asarray(W))))), "f32[8@x,4@y]"),
    "gradient of relu": (tw.grad(lambda x: nn.relu(x).sum()), "f32[8@x,4@y]"),
    "each device's part": (tw.shard_map(lambda a: lax.psum(a, "y"), in_specs=P("x", "y"), out_specs=P("x")),
                           "f32[8@x,2]"),
    "indices": (lambda x: x.at[tnp.arange(4)].get(out_sharding=P("x")), "f32[4@x,4]"),
    "function with a rule for vmap": (tw.custom_batching.sequential_vmap(tnp.sin), "f32[8@x,4@y]"),
    "linear solve": (halved, "f32[8@x,4@y]"),
    "gradient of a linear solve": (tw.grad(lambda x: halved(x).sum()), "f32[8@x,4@y]"),
    "root": (lambda x: lax.custom_root(lambda y: y**3 - x, x, lambda _, x: tnp.cbrt(x),
                                       lambda g, y: y / g(tnp.ones_like(y))), "f32[8@x,4@y]"),
    "left to the compiler": (auto_axes(lambda x: x.T @ x, out_sharding=P("y", None)), "f32[4@y,4]"),
}  # fmt: skip


EAGERLY = ("pointwise", "every second", "product that is told", "batched product", "gradient", "left to the compiler")


def reference(name):
    if name == "each device's part":
        return X[:, :2] + X[:, 2:]
    f = CALLS[name][0]
    with use_mesh(AUTO):  # on a mesh that no type tells of
        return np.asarray(by_numpy(f, X))


@pytest.mark.law
@pytest.mark.parametrize("name", CALLS)
def test_types_tell_how_results_lie(name):
    f, wanted = CALLS[name]
    expected = reference(name)
    with use_mesh(MESH):
        for g in (f, tw.jit(f)) if name in EAGERLY else (tw.jit(f),):
            out = g(A)
            assert shown(out) == wanted and out.sharding.spec == tw.typeof(out).sharding.spec
            np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-5, atol=1e-5)
        assert tw.make_jaxpr(f)(A).out_types[0].show() == wanted
        assert tw.eval_shape(f, A).sharding.spec == out.sharding.spec.trimmed()


ERRORS = {
    "contracts axes that are sharded on both sides": lambda: A @ B,
    "split by 'y' along two of its axes": lambda: tnp.einsum("bd,bf->bdf", A, A),
    "conflicting operand shardings": lambda: A + reshard(A, P("y")),
    "needs a full axis that is sharded": lambda: tnp.sort(A, 0),
    "cuts an axis where 'x' does not": lambda: A.reshape(2, 4, 4),
    "it must match the type": lambda: with_sharding_constraint(A, P("x")),
    "the output sharding is unknown": lambda: tw.io_callback(np.sin, tw.ShapeDtypeStruct((8, 4), np.float32), A),
}


@pytest.mark.parametrize("message", ERRORS)
def test_where_nothing_follows_it_is_said(message):
    with use_mesh(MESH), pytest.raises(ShardingTypeError, match=message) as caught:
        tw.jit(ERRORS[message])()
    assert caught.value.remedy and "explicit.py" in str(caught.value.source)


def test_arrays_on_two_meshes():
    other = tw.make_mesh((8,), ("q",), axis_types=(AxisType.Explicit,))
    with pytest.raises(MeshError, match="and on Mesh"):
        tw.device_put(X, NamedSharding(other, P("q"))) + A


def test_branches_give_one_type():
    with use_mesh(MESH), pytest.raises(ControlFlowTypeError, match="8@x"):
        lax.cond(True, lambda x: x, lambda x: reshard(x, P()), A)


def test_a_step_of_training_keeps_how_parameters_lie():
    def loss(w, x):
        return tnp.mean((tnp.einsum("bd,df->bf", x, w, out_sharding=P("x")) - 1) ** 2)

    with use_mesh(MESH):
        step = tw.jit(lambda w, x: w - 0.1 * tw.grad(loss)(w, x))
        w = B
        for _ in range(3):
            w = step(w, A)
        assert shown(w) == "f32[4@y,6]" and step._cache_size() <= 2
    expected = W
    for _ in range(3):
        expected = expected - 0.1 * 2 / 48 * X.T @ (X @ expected - 1)
    np.testing.assert_allclose(np.asarray(w), expected, rtol=1e-5)


def test_arrays_are_made_where_they_are_to_lie():
    with use_mesh(MESH):
        made = [tnp.zeros((8, 4), out_sharding=P("x")), random.normal(random.key(0), (8, 4), out_sharding=P("x")),
                lax.broadcasted_iota("float32", (8, 4), 0, out_sharding=P("x")), tw.device_put(X, P("x"))]  # fmt: skip
        assert [shown(x) for x in made] == ["f32[8@x,4]"] * 4
        np.testing.assert_array_equal(made[1], random.normal(random.key(0), (8, 4)))
        assert with_sharding_constraint(A, P("x", "y")) is A


def test_axes_of_both_types():
    x = put(X, "x", "y", mesh=MIXED)
    assert shown(x) == "f32[8@x,4]"
    with use_mesh(MIXED):
        out = tw.jit(lambda x: with_sharding_constraint(x * 2, P("x", "y")))(x)
        assert shown(out) == "f32[8@x,4]" and out.sharding.spec == P("x", "y")
    np.testing.assert_array_equal(out, 2 * X)


def test_explicit_axes_within_automatic_ones():
    seen = []

    def f(x):
        seen.append(shown(x))
        return x * 2

    with use_mesh(AUTO):
        out = tw.jit(explicit_axes(f, in_sharding=P("x")))(X)
    assert seen == ["f32[8@x,4]"] and shown(out) == "f32[8,4]"
    np.testing.assert_array_equal(out, 2 * X)
    with pytest.raises(ArgumentError, match="without a mesh in force"):
        explicit_axes(f)(X)


def test_types_without_a_mesh_in_force():
    assert shown(tnp.sin(A)) == "f32[8@x,4@y]" and shown(A._kind.left(A) * 2) == "f32[8,4]"
    assert A.sharding.update(spec=P("x")) is NamedSharding(MESH, P("x"))
    with pytest.raises(TypeError, match="takes no"):
        A.sharding.update(axes="x")
    nowhere = tw.typeof(tnp.ones(3)).sharding
    assert nowhere.spec == P(None) and nowhere.spec.index(None) == 0
    assert random.normal(random.key(0), (3,), out_sharding=nowhere).shape == (3,)
    assert tw.jit(tnp.sin).lower(tw.ShapeDtypeStruct((3,), "float32", sharding=nowhere)).as_text()
    assert tw.typeof(A).sharding.mesh is MESH.abstract_mesh
    assert str(tw.typeof(A)) == "float32[8@x,4@y]"
    assert TypeNames.update(tw.typeof(A), dtype="int32").show() == "i32[8@x,4@y]"
    struct = tw.ShapeDtypeStruct((8, 4), "float32", sharding=NamedSharding(MESH, P("x")))
    assert tw.make_jaxpr(lambda x: x + 1)(struct).out_types[0].show() == "f32[8@x,4]"


@pytest.mark.parametrize("mesh", [MESH, AUTO], ids=["explicit", "auto"])
def test_what_gives_no_result_is_done_once(mesh, capfd):
    seen = []

    def f(x):
        tw.debug.print("the sum is {}", x.sum())
        tw.debug.inspect_array_sharding(x * 2, callback=lambda s: seen.append(s.spec))
        return x

    with use_mesh(mesh):
        tw.jit(f)(put(X, "x", mesh=mesh)).block_until_ready()
    tw.effects_barrier()
    assert capfd.readouterr().out.count("the sum is") == 1 and seen == [P("x")]


def test_an_axis_of_one_device_splits_nothing():
    mesh = tw.make_mesh((8, 1), ("x", "one"), axis_types=(AxisType.Explicit,) * 2)
    x = put(X, None, "one", mesh=mesh)
    assert np.array_equal(x[0, ::2], X[0, ::2]) and np.array_equal(tnp.squeeze(x[:, 1:2], 1), X[:, 1])


@pytest.mark.parametrize("mesh", [MESH, AUTO], ids=["explicit", "auto"])
def test_what_is_made_under_a_mesh_lies_on_all_of_it(mesh):
    before, function = tnp.ones(3), tw.jit(lambda x: x * 2)
    makers = [
        lambda: tnp.zeros((8, 4)), lambda: tnp.ones((512, 512)), lambda: tnp.arange(8), lambda: tnp.asarray(X),
        lambda: tnp.array([1.0, 2.0]), lambda: tnp.full(8, 3.0), lambda: tnp.eye(4), lambda: random.key(0),
        lambda: random.normal(random.key(0), (8, 4)), lambda: tnp.sin(X),
        lambda: tw.jit(tnp.zeros, static_argnums=0)(3), lambda: function(X), lambda: function(before),
        lambda: before + 1, lambda: tnp.add(X, 1),
    ]  # fmt: skip
    plain = [make() for make in makers]
    assert {len(x.devices()) for x in plain} == {1}
    with tw.set_mesh(mesh):
        for make, expected in zip(makers, plain, strict=True):
            for _ in range(2):
                x = make()
                assert x.sharding.mesh is mesh and x.sharding.is_fully_replicated and len(x.devices()) == 8
            if x.dtype != plain[7].dtype:
                np.testing.assert_array_equal(x, expected)
        assert len(tw.device_put(X).devices()) == 1
        assert tnp.add(put(X, "x", mesh=mesh), tnp.ones((8, 4))).sharding.spec[0] == "x"
    assert len(tnp.zeros((8, 4)).devices()) == len(function(X).devices()) == 1


def test_a_callback_is_given_whole_arrays_and_gives_them():
    x = put(X, "x")

    def doubled(a):
        assert a.shape == X.shape
        return np.asarray(a) * 2

    found = tw.jit(lambda x: tw.pure_callback(doubled, tw.ShapeDtypeStruct(x.shape, x.dtype), x))(x)
    np.testing.assert_array_equal(found, X * 2)
    assert found.sharding.is_fully_replicated


@pytest.mark.parametrize("seen", [{"axis_names": {"y"}}, {}], ids=["along one axis", "along all axes"])
def test_vmap_of_a_shard_map_keeps_the_split_of_the_mapped_axis(seen):
    x = np.arange(64, dtype=np.float32).reshape(8, 4, 2)

    def rows(x):
        return lax.psum(x, "y") * x

    with use_mesh(MESH):
        f = tw.vmap(tw.shard_map(rows, in_specs=P("y"), out_specs=P("y"), **seen))
        split = reshard(x, P("x", "y"))
        assert tw.typeof(f(split)).sharding.spec == P("x", "y", None)
        found = f(split), tw.grad(lambda x: f(x).sum())(split)
        wanted = f(reshard(x, P(None, "y"))), tw.grad(lambda x: f(x).sum())(reshard(x, P(None, "y")))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg", "threefry2x32"])
def test_keys_of_every_generator_have_an_entry_for_each_of_their_dimensions(impl):
    line = tw.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    key = random.key(0, impl=impl)
    with tw.set_mesh(line):
        found = random.key(0, impl=impl)
        words = random.key_data(found)
        assert (found.sharding.spec, words.sharding.spec) == (P(), P(None))
        assert random.wrap_key_data(words, impl=impl).sharding.spec == random.fold_in(found, 3).sharding.spec == P()
        keys = reshard(random.split(found, 8), P("x"))
        assert (keys.sharding.spec, random.key_data(keys).sharding.spec) == (P("x"), P("x", None))
        np.testing.assert_array_equal(random.key_data(keys), random.key_data(random.split(key, 8)))
        drawn = random.normal(found, (8, 2), out_sharding=P("x"))
        assert drawn.sharding.spec == P("x", None)
    np.testing.assert_array_equal(drawn, random.normal(key, (8, 2)))


def test_a_result_has_an_entry_for_each_dimension():
    mesh = tw.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with use_mesh(mesh):
        ids = tw.device_put(np.arange(8) // 2, P("x"))
        made = tw.jit(lambda i: tw.ops.segment_sum(i, i, 4, out_sharding=P()))(ids)
        assert made.sharding.spec is reshard(ids, P()).sharding.spec is P(None)


def test_what_is_mapped_over_stays_split():
    mesh = tw.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2, devices=tw.devices()[:4])
    with use_mesh(mesh):
        a = tw.device_put(np.ones((4, 2, 3), np.float32), P("x", "y", None))
        i = tw.device_put(np.ones((4, 2, 2), np.int32), P("x", "y", None))
        taken = tw.jit(tw.vmap(lambda a, i: a.at[i].get(out_sharding=P("y", None))))(a, i)
        assert taken.sharding.spec is P("x", "y", None, None)
        product = tw.vmap(lambda a: tnp.einsum("ij,kj->ik", a, a, out_sharding=P(None, "y")), out_axes=2)
        assert tw.jit(product)(a).sharding.spec is P(None, "y", "x")
        rows, w = tw.device_put(X[:4, :4], P("x", None)), tw.device_put(X[:4, :4], P(None, "y"))
        slopes = tw.vmap(tw.grad(lambda x, w: tnp.tanh(x @ w).sum(), (0, 1)), in_axes=(0, None))
        for run in (slopes, tw.jit(slopes)):
            assert [g.sharding.spec for g in run(rows, w)] == [P("x", None), P("x", None, "y")]
        assert tw.jit(tw.vmap(lambda x: tnp.zeros(3), out_axes=1))(rows).sharding.spec is P(None, "x")


def test_replicated_arrays_of_several_ranks():
    mesh = tw.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with use_mesh(mesh):
        assert tnp.ones((2, 3, 4)).sharding.spec is P(None, None, None)
        assert tw.device_put(tnp.ones(8), P("x")).sharding.spec is P("x")


def test_the_devices_in_the_grid_of_another_mesh():
    flat = AbstractMesh((8,), ("a",), AxisType.Explicit)

    @tw.jit
    def f(x):
        with use_abstract_mesh(flat):
            return reshard(x, P("a", None)) * 2

    found = f(A)
    assert found.sharding.mesh.flat == MESH.flat and found.sharding.spec == P("a", None)
    np.testing.assert_array_equal(found, 2 * np.asarray(A))
