"""Shardings that a program names are kept, or refused."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax, nn, random
from tilewright import numpy as tnp
from tilewright.core.support.errors import ArgumentError, MeshError, TracerArrayConversionError, UnsupportedError
from tilewright.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    P,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
    make_array_from_callback,
    make_array_from_single_device_arrays,
    reshard,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
    with_sharding_constraint,
)

EXPLICIT = tw.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
AUTO = tw.make_mesh((4, 2), ("x", "y"))
BOTH = pytest.mark.parametrize("mesh", [EXPLICIT, AUTO], ids=["explicit", "auto"])
X, W = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), np.linspace(0, 2, 24, dtype=np.float32).reshape(4, 6)


def put(value, *spec, mesh=EXPLICIT):
    return tw.device_put(value, NamedSharding(mesh, P(*spec)))


def shown(x):
    return tw.typeof(x).show()


def kinds(f, *args):
    return [c.kind for c in tw.explain(f, *args).communication.collectives]


# ---------------------------------------------------------------------------- arrays that are made


INITIALIZERS = {
    "zeros": nn.initializers.zeros, "ones": nn.initializers.ones, "constant": nn.initializers.constant(2),
    "uniform": nn.initializers.uniform(), "normal": nn.initializers.normal(),
    "truncated_normal": nn.initializers.truncated_normal(), "he_normal": nn.initializers.he_normal(),
    "glorot_uniform": nn.initializers.glorot_uniform(), "orthogonal": nn.initializers.orthogonal(),
    "delta_orthogonal": nn.initializers.delta_orthogonal(),
}  # fmt: skip


@pytest.mark.law
@BOTH
@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers(mesh, name):
    init, shape = INITIALIZERS[name], (8, 4, 4) if name == "delta_orthogonal" else (8, 4)
    with set_mesh(mesh):
        made = init(random.key(0), shape, np.float32, out_sharding=P("x"))
        assert made.sharding.shard_shape(shape)[0] == 2
        np.testing.assert_allclose(made, init(random.key(0), shape, np.float32), rtol=1e-6)


@BOTH
def test_structs_with_shardings(mesh):
    rows = NamedSharding(mesh, P("x"))
    struct = tw.ShapeDtypeStruct((8, 4), np.float32, sharding=rows)
    with set_mesh(mesh):
        bare = tw.ShapeDtypeStruct((8, 4), np.float32, sharding=P("x"))
        assert bare.sharding is rows and bare == struct
        assert tw.jit(lambda x: x * 2).lower(bare).compile().output_shardings.spec[0] == "x"
    with pytest.raises(ArgumentError, match="without a mesh in force"):
        tw.ShapeDtypeStruct((8, 4), np.float32, sharding=P("x"))
    with use_mesh(mesh.abstract_mesh):
        assert tw.ShapeDtypeStruct((8, 4), np.float32, sharding=P("x")).sharding.mesh is mesh.abstract_mesh


@BOTH
def test_arrays_like_others(mesh):
    rows = NamedSharding(mesh, P("x"))
    struct, array = tw.ShapeDtypeStruct((8, 4), np.float32, sharding=rows), put(X, "x", mesh=mesh)
    for like in (struct, array):
        makers = (tnp.zeros_like, tnp.ones_like, tnp.empty_like, lambda x: tnp.full_like(x, 3),
                  lambda x: lax.full_like(x, 3), lambda x: lax.broadcast_like(np.arange(4.0), array))  # fmt: skip
        for make in makers:
            assert make(like).sharding.is_equivalent_to(rows, 2)
            assert tw.jit(lambda: make(like))().sharding.is_equivalent_to(rows, 2)  # noqa: B023
    assert tnp.zeros_like(struct, shape=(3,)).shape == (3,)
    there = SingleDeviceSharding(tw.devices()[3])
    assert tnp.ones_like(tw.ShapeDtypeStruct((3,), np.float32, sharding=there)).devices() == {tw.devices()[3]}
    nowhere = NamedSharding(mesh.abstract_mesh, P("x"))
    with pytest.raises(MeshError, match="has no devices"):
        tnp.zeros_like(tw.ShapeDtypeStruct((8, 4), np.float32, sharding=nowhere))


@BOTH
def test_specs_of_results_are_spelt_as_those_of_operands(mesh):
    for spec in (P(), P(None), P(None, None), P("x"), P("x", None)):
        out = tw.jit(lambda x: x * 2)(tw.device_put(X, NamedSharding(mesh, spec)))
        wanted = P(*spec, *(None,) * (2 - len(spec))) if mesh is EXPLICIT else spec
        assert out.sharding.spec is wanted
        assert tw.jit(lambda x: x, out_shardings=NamedSharding(mesh, spec))(X).sharding.spec is spec
    assert P() is not P(None) and P() != P(None) and len({P(), P(None), P(None, None)}) == 3
    with set_mesh(mesh):
        assert tnp.zeros((8, 4)).sharding.spec is (P(None, None) if mesh is EXPLICIT else P())
    assert P("x", None, "y").count(None) == 1 and P("x").update(partitions=("y",), unreduced={"x"}).unreduced == {"x"}
    with pytest.raises(TypeError, match="takes no"):
        P("x").update(mesh=mesh)


# ---------------------------------------------------------------------------- buffers and devices


@pytest.mark.parametrize("place", [None, NamedSharding(AUTO, P("x"))], ids=["one device", "mesh"])
def test_an_array_that_has_a_copy_is_donated(place):
    def made():
        return tw.device_put(tnp.arange(1000.0) + 1, place)

    copies = {"copy": lambda x: x.copy(), "device_put": lambda x: tw.device_put(x, may_alias=False),
              "numpy.copy": tnp.copy, "array": tnp.array}  # fmt: skip
    double = tw.jit(lambda x: x * 2, donate_argnums=0)
    for name, copy in copies.items():
        x = made()
        other = copy(x)
        double(x).block_until_ready()
        assert x.is_deleted() and not other.is_deleted(), name
        np.testing.assert_array_equal(other, np.arange(1000.0) + 1)
        with pytest.raises(tw.errors.DeletedArrayError):
            copy(x)


@BOTH
def test_meshes_of_one_set_of_devices_in_two_orders(mesh):
    kinds_of_axes = mesh.axis_types
    back = Mesh(np.array(tw.devices())[::-1].reshape(4, 2), ("x", "y"), axis_types=kinds_of_axes)
    a, b = put(X, "x", mesh=mesh), put(X, "x", mesh=back)
    calls = [lambda: a + b, lambda: tw.jit(lambda a, b: a + b)(a, b), lambda: tw.jit(lambda a: a + b)(a),
             lambda: tw.jit(lambda a: a + 1, out_shardings=b.sharding)(a),
             lambda: tw.shard_map(lambda x: x, mesh=back, in_specs=P("x"), out_specs=P("x"))(a)]  # fmt: skip
    for call in calls:
        with pytest.raises(MeshError, match="in different orders") as caught:
            call()
        assert "devices 7, 6, 5" in str(caught.value) and caught.value.remedy
    np.testing.assert_array_equal(a + tw.device_put(b, a.sharding), 2 * X)
    other = tw.make_mesh((2, 4), ("a", "b"))  # the same order: one program may name both
    if mesh is AUTO:
        np.testing.assert_array_equal(a + put(X, "a", mesh=other), 2 * X)


# ---------------------------------------------------------------------------- deferred sums


def test_a_sum_of_one_operand_stays_open():
    open_x = P("y", unreduced={"x"})

    def column_sums(a):
        return tnp.einsum("ab->b", a, out_sharding=open_x)

    with set_mesh(EXPLICIT):
        a = put(X, "x", "y")
        assert kinds(column_sums, a) == [] and shown(column_sums(a)) == "f32[4@y]{U:x}"
        np.testing.assert_allclose(reshard(column_sums(a), P("y")), X.sum(0), rtol=1e-6)
        parts = [np.asarray(s.data).sum() for s in column_sums(a).addressable_shards]
        np.testing.assert_allclose(parts, X.reshape(4, 2, 2, 2).sum((1, 3)).reshape(-1), rtol=1e-6)
        total = lax.reduce_sum(a, (0, 1), out_sharding=P(unreduced={"x", "y"}))
        assert shown(total) == "f32[]{U:(x,y)}"
        np.testing.assert_allclose(reshard(total, P()), X.sum(), atol=1e-5)
        slope = tw.grad(lambda a: (reshard(column_sums(a * a), P("y")) * tnp.arange(4.0)).sum())
        np.testing.assert_allclose(slope(a), 2 * X * np.arange(4.0), rtol=1e-6)
        by_columns = tw.vmap(lambda c: tnp.einsum("a->", c, out_sharding=P(unreduced={"x"})), in_axes=1)
        assert shown(tw.jit(by_columns)(reshard(a, P("x", None)))) == "f32[4]{U:x}"
        assert shown(tw.jit(column_sums)(a.astype(tnp.bfloat16))) == "bf16[4@y]{U:x}"


def test_linear_algebra_and_order_statistics_of_explicit_operands():
    square, columns = np.eye(6, dtype=np.float32) * 2, np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    with set_mesh(EXPLICIT):
        b, rows = put(columns, "x"), put(X, "x", None)
        solve = tw.vmap(tnp.linalg.solve, in_axes=(None, 0))
        for f in (solve, tw.jit(solve)):
            assert shown(f(square, b)) == "f32[8@x,6]"
            np.testing.assert_allclose(f(square, b), columns / 2, rtol=1e-6)
        assert kinds(solve, square, b) == []
        assert shown(tw.grad(lambda b: (solve(square, b) ** 2).sum())(b)) == "f32[8@x,6]"
        assert shown(tw.grad(lambda a: (solve(a, b) ** 2).sum())(tnp.asarray(square))) == "f32[6,6]"
        for f in (lambda x: tnp.percentile(x, 50, axis=1), lambda x: tnp.median(x, 1)):
            assert shown(f(rows)) == "f32[8@x]"
            np.testing.assert_allclose(f(rows), np.median(X, 1), rtol=1e-6)
        flat = put(np.arange(96.0, dtype=np.float32), "x")
        assert float(tnp.percentile(flat, 50, out_sharding=P())) == 47.5
        assert shown(tnp.searchsorted(tnp.arange(4.0), flat)) == "i32[96@x]"


# ---------------------------------------------------------------------------- shard_map over some of the axes


def over_x(f, mesh=EXPLICIT):
    return tw.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})


def test_the_mesh_within_shard_map():
    seen = []

    def f(x):
        seen.append((get_abstract_mesh(), get_mesh(), tw.typeof(x)))
        return x

    for mesh in (AUTO, EXPLICIT):
        rest = mesh.axis_types[1]
        over_x(f, mesh=mesh)(put(X, "x", "y", mesh=mesh))
        inside, concrete, type_ = seen.pop()
        assert inside.manual_axes == ("x",) and inside.axis_types == (AxisType.Manual, rest)
        assert concrete.devices.shape == (4, 2) and concrete.manual_axes == ("x",)
        assert type_.show() == ("f32[2,4@y]{V:x}" if mesh is EXPLICIT else "f32[2,4]{V:x}")
        tw.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
        assert seen.pop()[0].are_all_axes_manual
        nested = over_x(lambda x: tw.shard_map(f, in_specs=P(None, "y"), out_specs=P(None, "y"))(x), mesh=mesh)
        np.testing.assert_array_equal(nested(X), X)
        assert seen.pop()[0].are_all_axes_manual
    assert get_abstract_mesh().empty


def test_names_of_meshes():
    def inside():
        return get_abstract_mesh(), get_mesh()

    typed = AUTO.abstract_mesh.update(axis_types=EXPLICIT.axis_types)
    assert typed is EXPLICIT.abstract_mesh and AUTO.update(axis_names=("a", "b")).shape == {"a": 4, "b": 2}
    assert typed.update(axis_sizes=(2, 2), axis_names=("p", "q")).shape_tuple == (("p", 2), ("q", 2))
    assert AUTO(inside)() == (AUTO.abstract_mesh, AUTO) and AUTO(inside).__name__ == "inside"
    with use_abstract_mesh(typed):
        assert inside() == (typed, typed)
    with set_mesh(AUTO), use_abstract_mesh(typed):
        assert inside() == (typed, EXPLICIT)
    with pytest.raises(TypeError, match="no AbstractMesh"):
        use_abstract_mesh(AUTO)


def test_programs_of_meshes_for_platforms_that_are_not_here():
    traced = tw.jit(lambda x: x * 2).trace(put(X, "x", mesh=AUTO))
    lowered = traced.lower(lowering_platforms=("tpu",))
    assert '{"x"}' in lowered.as_text()
    with pytest.raises(UnsupportedError, match="lowered for tpu"):
        lowered.compile()
    here = traced.lower(lowering_platforms=("cpu",)).compile()(put(X, "x", mesh=AUTO))
    np.testing.assert_array_equal(here, 2 * X)
    with pytest.raises(UnsupportedError, match="platforms"):
        traced.lower(lowering_platforms=("cpu", "tpu"))
    with pytest.raises(ArgumentError, match="there is no platform"):
        traced.lower(lowering_platforms=("abacus",))


C = tnp.asarray(np.linspace(0, 1, 4, dtype=np.float32))
BODIES = {
    "pointwise": (lambda x: tnp.sin(x) * 2 + C, "f32[8@x,4@y]"),
    "product": (lambda x: x @ tnp.asarray(W), "f32[8@x,6]"),
    "softmax": (lambda x: nn.softmax(x, -1), "f32[8@x,4@y]"),
    "transposition": (lambda x: (x.T * 2).T, "f32[8@x,4@y]"),
    "sum": (lambda x: x.sum(1, keepdims=True) + x, "f32[8@x,4@y]"),
    "psum": (lambda x: lax.psum(x, "x") + x, "f32[8@x,4@y]"),
    "pmax": (lambda x: lax.pmax(lax.stop_gradient(x), "x") * x, "f32[8@x,4@y]"),
    "ppermute": (lambda x: lax.ppermute(x, "x", [(0, 1), (1, 2), (2, 3), (3, 0)]), "f32[8@x,4@y]"),
    "gather": (lambda x: lax.all_gather(x, "x").sum(0) + x, "f32[8@x,4@y]"),
    "tiled gather and scatter": (lambda x: lax.psum_scatter(lax.all_gather(x, "x", tiled=True), "x", tiled=True),
                                 "f32[8@x,4@y]"),
    "exchange": (lambda x: lax.all_to_all(tnp.tile(x, (2, 1)), "x", 0, 0, tiled=True)[:2], "f32[8@x,4@y]"),
    "place": (lambda x: x * lax.axis_index("x"), "f32[8@x,4@y]"),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: tnp.sin(c) + x, x), "f32[8@x,4@y]"),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), tnp.zeros_like(x[0]), x)[1], "f32[8@x,4@y]"),
    "branch": (lambda x: lax.cond(True, lambda x: x * 3, lambda x: x, x), "f32[8@x,4@y]"),
    "checkpoint": (tw.checkpoint(lambda x: tnp.sin(tnp.cos(x))), "f32[8@x,4@y]"),
    "inner jit": (tw.jit(lambda x: tnp.tanh(x) + 1), "f32[8@x,4@y]"),
    "batched": (tw.vmap(lambda r: r * r), "f32[8@x,4@y]"),
    "resharded": (lambda x: reshard(x, P(None, None)) * 2, "f32[8@x,4]"),
    "resharded by a sharding of the mesh outside": (lambda x: reshard(x, NamedSharding(EXPLICIT, P("y"))),
                                                    "f32[8@(x,y),4]"),
    "gradient": (lambda x: tw.grad(lambda x: (tnp.sin(x) ** 2).sum())(x), "f32[8@x,4@y]"),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_explicit_axes_within_shard_map_over_others(name):
    body, wanted = BODIES[name]
    plain = {"resharded": lambda x: 2 * x, "resharded by a sharding of the mesh outside": lambda x: x}.get(name)
    plain = plain or over_x(body, mesh=AUTO)

    def slope(f):
        return tw.jit(tw.grad(lambda x: (f(x) ** 2).sum()))

    expected, falling = plain(X), slope(plain)(X)
    with set_mesh(EXPLICIT):
        a = put(X, "x", "y")
        for f in (over_x(body), tw.jit(over_x(body))):
            assert shown(f(a)) == wanted
            np.testing.assert_allclose(f(a), expected, rtol=1e-5, atol=1e-5)
        found = slope(over_x(body))(a)
        assert shown(found) == "f32[8@x,4@y]"
    np.testing.assert_allclose(found, falling, rtol=1e-4, atol=1e-4)


def test_nothing_is_gathered_within_shard_map_over_other_axes():
    a, w = put(X, "x", "y"), put(X, None, "y")
    assert kinds(over_x(lambda x: tnp.sin(x) * 2), a) == []
    assert kinds(over_x(lambda x: tnp.sin(x) * w[:2]), a) == []  # a captured array keeps its sharding, too


def test_constraints_within_shard_map_over_other_axes():
    def f(x):
        return with_sharding_constraint(x * 2, P(None, "y"))

    out = tw.jit(over_x(f, mesh=AUTO))(put(X, "x", mesh=AUTO))
    assert out.sharding.spec == P("x", "y")
    np.testing.assert_array_equal(out, 2 * X)
    out = tw.jit(over_x(f))(put(X, "x", "y"))
    assert shown(out) == "f32[8@x,4@y]"


OPEN = P(P.UNCONSTRAINED, "y")


@pytest.mark.parametrize("named", [
    lambda s, x: tw.jit(lambda x: x, in_shardings=s)(x), lambda s, x: tw.jit(lambda x: x, out_shardings=s)(x),
    lambda s, x: tw.jit(lambda x: x).lower(tw.ShapeDtypeStruct(x.shape, x.dtype, sharding=s)),
    lambda s, x: tw.device_put(x, s), lambda s, x: make_array_from_callback(x.shape, s, lambda i: x[i]),
    lambda s, x: tw.shard_map(lambda x: x, mesh=s.mesh, in_specs=s.spec, out_specs=P())(x),
], ids=["arguments", "results", "structs", "device_put", "callback", "shard_map"])  # fmt: skip
def test_a_sharding_that_is_left_to_the_compiler_is_refused_where_one_is_needed(named):
    with pytest.raises(ArgumentError, match="UNCONSTRAINED, 'y'"):
        named(NamedSharding(AUTO, OPEN), np.zeros((8, 4), np.float32))


@pytest.mark.parametrize("kind", ["device memory", ""])
def test_a_kind_of_memory_that_the_devices_lack(kind):
    for make in (lambda: NamedSharding(AUTO, P("x"), memory_kind=kind), NamedSharding(AUTO, P("x")).with_memory_kind):
        with pytest.raises(ArgumentError, match=f"memory_kind='{kind}'.*\n.*\n.*pinned_host"):
            make(*([kind] if make.__name__ == "with_memory_kind" else []))


def test_a_device_that_is_named_within_a_program():
    with pytest.warns(UserWarning, match="CpuDevice.id=3. of a traced value does nothing"):
        tw.jit(lambda x: tw.device_put(x, tw.devices()[3]))(np.ones(2))


def test_parts_of_an_array_that_are_traced():
    with pytest.raises(TracerArrayConversionError, match="make_array_from_single_device_arrays"):
        tw.jit(lambda x: make_array_from_single_device_arrays((8,), NamedSharding(AUTO, P("x")), [x] * 8))(np.ones(2))
