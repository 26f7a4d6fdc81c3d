"""Values that are sums over devices: unreduced, and reduced, whose cotangents are unreduced."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import checkpoints, export, lax, nn
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    MeshAxisError,
    ShardingTypeError,
    UnsupportedError,
)
from tilewright.sharding import AxisType, NamedSharding, P, make_array_from_callback, reshard, use_mesh

MESH = tw.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
X, W = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), np.linspace(0, 2, 24, dtype=np.float32).reshape(4, 6)
OPEN = P("x", unreduced={"y"})


@pytest.fixture(autouse=True)
def mesh():
    with use_mesh(MESH):
        yield


def shown(x):
    return tw.typeof(x).show()


def value(x):
    return np.asarray(reshard(x, P()))


def close(found, wanted):
    np.testing.assert_allclose(value(found), wanted, rtol=1e-4, atol=1e-4)


def kinds(f, *args):
    return [c.kind for c in tw.explain(f, *args).communication.collectives]


def opened():
    a, w = tw.device_put(X, P("x", "y")), tw.device_put(W, P("y"))
    return tnp.einsum("ij,jk->ik", a, w, out_sharding=OPEN)


OF_INTEGERS = {"sum": lambda s: s.sum(0), "negated": lambda s: -s, "scaled": lambda s: s * 2, "turned": lambda s: s.T,
               "as floats": lambda s: s.astype("float32"), "cut": lambda s: s[:, :2]}  # fmt: skip
NOT_OF_INTEGERS = {"and": lambda s: s & 1, "add": lambda s: s + 1, "squared": lambda s: s * s,
                   "narrowed": lambda s: s.astype("int8")}  # fmt: skip


@pytest.mark.parametrize("name", [*OF_INTEGERS, *NOT_OF_INTEGERS])
def test_open_sums_of_integers(name):
    a, w = np.arange(32).reshape(8, 4), np.arange(24).reshape(4, 6)
    s = tnp.einsum("ij,jk->ik", tw.device_put(a, P("x", "y")), tw.device_put(w, P("y")), out_sharding=OPEN)
    if name in OF_INTEGERS:
        np.testing.assert_array_equal(value(tw.jit(OF_INTEGERS[name])(s)), OF_INTEGERS[name](a @ w))
    else:
        with pytest.raises(ShardingTypeError):
            NOT_OF_INTEGERS[name](s)


CONTRACTIONS = {
    "einsum": lambda a, w: tnp.einsum("ij,jk->ik", a, w, out_sharding=OPEN),
    "transposed": lambda a, w: tnp.einsum("ij,jk->ki", a, w, out_sharding=P(None, "x", unreduced={"y"})).T,
    "matmul": lambda a, w: tnp.matmul(a, w, out_sharding=OPEN),
    "dot_general": lambda a, w: lax.dot_general(a, w, (((1,), (0,)), ((), ())), out_sharding=OPEN),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_a_sum_stays_open_until_it_is_made(name):
    f = CONTRACTIONS[name]
    a, w = tw.device_put(X, P("x", "y")), tw.device_put(W, P("y"))
    u = f(a, w)
    assert shown(u) == "f32[8@x,6]{U:y}" and u.sharding.spec.unreduced == {"y"} and not kinds(f, a, w)
    parts = [np.asarray(s.data) for s in u.addressable_shards]
    np.testing.assert_allclose(parts[0], X[:2, :2] @ W[:2], rtol=1e-5)  # a device adds up what it has
    np.testing.assert_allclose(sum(parts[:2]), (X @ W)[:2], rtol=1e-5)
    for spec in (P("x"), P("x", "y")):
        np.testing.assert_allclose(reshard(u, spec), X @ W, rtol=1e-5)
    assert kinds(lambda u: reshard(u, P("x")), u) == ["all-reduce"]


def test_a_sum_over_sizes_that_do_not_divide():
    a, b = (tw.device_put(x, P("x")) for x in (np.ones((6, 3), np.float32), np.ones((6, 2), np.float32)))
    u = tnp.einsum("ki,kj->ij", a, b, out_sharding=P(unreduced={"x"}))
    close(u, np.full((3, 2), 6.0))
    assert kinds(lambda a, b: tnp.einsum("ki,kj->ij", a, b, out_sharding=P(unreduced={"x"})), a, b) == []


def test_kernels_leave_sums_open():
    """Of products that become kernels too."""
    x, w = np.linspace(-1, 1, 512 * 64, dtype=np.float32).reshape(512, 64), np.ones((64, 32), np.float32)

    def loss(w, x):
        return tnp.sum(tnp.tanh(x @ w) ** 2)

    args = tw.device_put(w, P(reduced={"x"})), tw.device_put(x, P("x"))
    made = tw.compile(tw.grad(loss), *args, tiles=True)
    np.testing.assert_allclose(value(made(*args)), tw.grad(loss)(tnp.asarray(w), args[1]), rtol=1e-4, atol=1e-3)
    told = tw.explain(tw.grad(loss), *args, tiles=True).communication
    assert not told.collectives and told.split


LINEAR = {
    "sum": lambda u: u + u - 3 * u,
    "number": lambda u: 2 * u / 4,
    "negative": lambda u: -u,
    "product with what all have": lambda u: u * tnp.arange(6.0),
    "matrix product": lambda u: u @ tnp.ones((6, 3)),
    "shape": lambda u: u.reshape(8, 2, 3)[None].squeeze(0).T,
    "total": lambda u: u.sum(1) + u.mean(1),
    "part": lambda u: u[:, 1:3] + lax.dynamic_slice(u, (0, 2), (8, 2)),
    "dtype": lambda u: u.astype(np.complex64).real,
    "joined": lambda u: tnp.concatenate([u, tnp.flip(u, 1)], 1),
    "selected": lambda u: tnp.where(tnp.arange(6) > 2, u, 2 * u),
    "taken": lambda u: u[:, tnp.array([0, 2])],
    "carried": lambda u: lax.fori_loop(0, 3, lambda i, c: c + u, u),
    "scanned": lambda u: lax.scan(lambda c, r: (c + r, 2 * r), 0 * u[:, 0], u.T)[1],
    "scanned from the end": lambda u: lax.scan(lambda c, r: (c + r, c), 0 * u[:, 0], u.T, reverse=True),
    "branch": lambda u: lax.cond(tnp.arange(3)[1] > 0, lambda u: u + u, lambda u: u, u),
    "called": lambda u: tw.jit(lambda u: u + lax.stop_gradient(u))(u),
    "batched": lambda u: tw.vmap(lambda r: r + r)(u),
    "again": lambda u: tw.checkpoint(lambda u: 3 * u)(u),
}


def test_linear_operations_are_done_to_each_part():
    u = opened()

    def every(u):
        return [f(u) for f in LINEAR.values()]

    found, wanted = tw.jit(every)(u), tw.jit(every)(reshard(u, P()))
    for a, b in zip(tw.tree.leaves(found), tw.tree.leaves(wanted), strict=True):
        assert "{U:y}" in shown(a) and not tw.typeof(b).sharding.spec.unreduced
        close(a, b)
    assert not kinds(every, u)
    close(LINEAR["sum"](u), -X @ W)  # one operation at a time
    close(u.copy(), X @ W)


REFUSED = {
    "not linear": [tnp.sin, lambda u: u * u, lambda u: 1 / u, lambda u: u > 0, lambda u: u.max(1), tnp.abs,
                   lambda u: u.astype(np.int32), lambda u: tnp.einsum("ij,ij->i", u, u), nn.softmax],
    "added to each part": [lambda u: u + 1, lambda u: tnp.pad(u, 1), lambda u: tnp.where(tnp.arange(6) > 2, u, 0.0),
                           lambda u: u + reshard(u, P("x"))],
    "decomposed into operations": [lambda u: tnp.cumsum(u, 1)],
    "along different axes": [lambda u: reshard(u, P(unreduced={"y"})) + reshard(u, P(unreduced={"x", "y"}))],
    "sharded along the same axis": [lambda u: u * tw.device_put(np.ones((8, 6), np.float32), P("x", "y"))],
    "it must match the type": [lambda u: tw.sharding.with_sharding_constraint(u, P("x"))],
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_needs_the_value_is_refused(message):
    u = opened()
    for f in REFUSED[message]:
        with pytest.raises(ShardingTypeError, match=message) as caught:
            tw.eval_shape(f, u)
        assert "summed.py" in str(caught.value.source) and caught.value.remedy


SPECS = [P(), P("y", "x"), P("y", reduced={"x"}), P(unreduced={"x"}), P(unreduced={"y"}), P("y", unreduced={"x"}),
         P(unreduced={"x", "y"}), P(reduced={"y"}, unreduced={"x"})]  # fmt: skip


def test_from_every_way_to_lie_to_every_other():
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    placed = tw.jit(lambda x: [reshard(2 * x, spec) for spec in SPECS])(x)
    for a in placed:
        assert (value(a) == 2 * x).all()
    moved = tw.jit(lambda xs: [[reshard(3 * x, spec) for spec in SPECS] for x in xs])(placed)
    for row in moved:
        for a, spec in zip(row, SPECS, strict=True):
            assert tw.typeof(a).sharding.spec.trimmed() == spec
    sums = tw.jit(lambda moved: [[reshard(a, P()) for a in row] for row in moved])(moved)
    assert (np.asarray(sums) == 6 * x).all()


def test_at_the_boundary_of_programs():
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    given = [x, *(tw.device_put(x, s) for s in (P("x"), P(unreduced={"x"}), P(unreduced={"y"}), P(reduced={"x"})))]
    double = tw.jit(lambda x: x + x, in_shardings=P(unreduced={"x"}))
    outs = [tw.jit(lambda x: x + x, out_shardings=s) for s in (P(unreduced={"x"}), P("x", reduced={"y"}))]
    for a in given:
        assert all((value(f(a)) == 2 * x).all() for f in (double, *outs))
        assert (value(tw.device_put(a, P("y", unreduced={"x"}))) == x).all()
    assert shown(outs[0](x)) == "f32[8,4]{U:x}" and tnp.ones(3, out_sharding=P(unreduced={"x"})).sum().shape == ()
    assert value(tnp.ones_like(given[2])).sum() == 32


FUNCTIONS = {
    "product of both": lambda w, x: w.T @ tnp.tanh(w),
    "bias": lambda w, x: x @ W + w[0],
    "beside what is whole": lambda w, x: w * W + tnp.where(w > 1, w, 0.0),
    "normalised": lambda w, x: x @ (w / tnp.sqrt(w.var(0) + 1)),
    "rows and prefixes": lambda w, x: tnp.cumsum(w, 0)[tw.device_put(np.arange(8) % 4, P("x"))],
    "again": lambda w, x: tw.checkpoint(lambda w: nn.relu(x @ w))(w),
    "softmax": lambda w, x: tw.jit(lambda w: nn.softmax(x @ w) @ w.T)(w),
}


def test_cotangents_of_what_is_reduced_are_unreduced():
    x, w = tw.device_put(X, P("x")), tw.device_put(W, P(reduced={"x"}))

    def every(w, x):
        def total(w, f):
            return tnp.sum(reshard(f(w, x), P()) ** 2)

        return {name: tw.grad(total)(w, f) for name, f in FUNCTIONS.items()}

    found, wanted = tw.jit(every)(w, x), tw.jit(every)(reshard(w, P()), x)
    for name in FUNCTIONS:
        assert (shown(found[name]), shown(wanted[name])) == ("f32[4,6]{U:x}", "f32[4,6]"), name
        close(found[name], value(wanted[name]))

    def loss(w, x):
        return tnp.sum((x @ tnp.sin(w)) ** 2)

    assert kinds(tw.grad(loss), w, x) == [] and kinds(tw.grad(loss), reshard(w, P()), x) == ["all-reduce"]

    def twice(w, x):
        return tnp.sum(reshard(tw.grad(loss)(w, x), P()) ** 2)

    both = tw.jit(lambda w, x: [tw.grad(twice)(w, x), tw.grad(loss)(w, x)])
    found, wanted = both(w, x), both(reshard(w, P()), x)
    close(found[0], value(wanted[0]))
    close(tw.grad(loss)(w, x), value(wanted[1]))  # one operation at a time
    u = tw.device_put(W, P(unreduced={"x"}))
    slope = tw.grad(lambda u: tnp.sum(reshard(u + u, P()) ** 2))(u)
    assert shown(slope) == "f32[4,6]{R:x}"
    close(slope, 8 * W)
    assert shown(tw.jvp(lambda w: x @ w, (w,), (w,))[1]) == "f32[8@x,6]"
    assert shown(tw.vjp(lambda w: x @ w, w)[1](x @ w)[0]) == "f32[4,6]{U:x}"


def test_gradients_of_parts_of_a_batch_are_summed_once():
    """As the page on sharding has it: a loop over layers within one over parts of a batch, and one sum at the end."""
    def loss(w, x):
        return tnp.sum(lax.scan(lambda h, k: (tnp.tanh(h @ k), None), x, w)[0] ** 2)

    def step(w, xs, start, end):
        def one(total, x):
            return total + tw.grad(loss)(w, x), None

        total, _ = lax.scan(one, reshard(tnp.zeros_like(w), start), xs)
        return reshard(w, P()) - 0.01 * reshard(total, end)

    layers = np.stack([np.eye(4, dtype=np.float32) / 2] * 3) + np.linspace(0, 1, 48, dtype=np.float32).reshape(3, 4, 4)
    xs = tw.device_put(np.linspace(-1, 1, 160, dtype=np.float32).reshape(5, 8, 4), P(None, "x"))
    w = tw.device_put(layers, P(reduced={"x"}))
    once = tw.jit(lambda w, xs: step(w, xs, P(unreduced={"x"}), P()))
    np.testing.assert_allclose(once(w, xs), tw.jit(lambda w, xs: step(w, xs, P(), P()))(layers, xs), rtol=1e-5)
    text = once.lower(w, xs).compile().as_text()
    assert text.count(" all-reduce(") == 1 and kinds(once, w, xs) == ["all-reduce"]


A, B = np.arange(32, dtype=np.float32).reshape(4, 8) / 9, np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)


def test_parts_leave_shard_map_and_enter_it():
    a, b = tw.device_put(A, P(None, "x")), tw.device_put(B, P("x"))
    f = tw.shard_map(lambda a, b: lax.pcast(a @ b, "x", to="unreduced"), in_specs=(P(None, "x"), P("x")),
                     out_specs=P(unreduced={"x"}))  # fmt: skip
    u = f(a, b)
    assert shown(u) == "f32[4,4]{U:x}" and kinds(f, a, b) == []
    close(u, A @ B)

    def loss(a, b):
        return tnp.sum(reshard(f(a, b), P()) ** 2)

    wanted = tw.grad(lambda a, b: tnp.sum((a @ b) ** 2), (0, 1))(tnp.asarray(A), tnp.asarray(B))
    for found, want in zip(tw.jit(tw.grad(loss, (0, 1)))(a, b), wanted, strict=True):
        close(found, want)
    assert kinds(tw.grad(loss, (0, 1)), a, b) == ["all-reduce"]
    entering = {
        P(): (lambda u: lax.psum(u, "x"), A @ B), P("x"): (lambda u: lax.psum_scatter(u, "x", tiled=True), A @ B),
        P(unreduced={"x"}): (lambda u: u + u, 2 * A @ B),
    }  # fmt: skip
    for out, (body, want) in entering.items():
        g = tw.shard_map(body, in_specs=P(unreduced={"x"}), out_specs=out)
        for given in (u, A @ B):  # one that is whole is taken for a part, and zeros beside it
            close(tw.jit(g)(given), want)
        close(g(u), want)
    close(tw.vmap(g)(tnp.stack([u] * 3)), np.stack([2 * A @ B] * 3))
    total = tw.shard_map(lambda u: lax.psum(u, "x"), in_specs=P(unreduced={"x"}), out_specs=P())
    slope = tw.grad(lambda u: tnp.sum(total(u) ** 2))(u)
    assert shown(slope) == "f32[4,4]{R:x}"
    close(slope, 2 * A @ B)


def test_reduced_arguments_of_shard_map():
    def layer(x, w):
        return tnp.tanh(x @ w)

    f = tw.shard_map(layer, in_specs=(P("x"), P(reduced={"x"})), out_specs=P("x"))
    x = tw.device_put(X, P("x"))
    want = tw.grad(lambda w: tnp.sum(layer(X, w) ** 2))(tnp.asarray(W))
    slope = tw.grad(lambda w: tnp.sum(f(x, w) ** 2))
    for w, type, sums in ((tw.device_put(W, P(reduced={"x"})), "f32[4,6]{U:x}", []), (W, "f32[4,6]", ["all-reduce"])):
        found = tw.jit(slope)(w)
        assert shown(found) == type and kinds(slope, w) == sums
        close(found, want)
    g = tw.shard_map(tnp.sin, in_specs=P(), out_specs=P(reduced={"x"}))
    assert shown(g(W)) == "f32[4,6]{R:x}"
    close(tw.grad(lambda w: tnp.sum(reshard(g(w), P()) ** 2))(tnp.asarray(W)), np.sin(2 * W))
    for spec, how in ((P(unreduced={"x"}), "same on all"), (P(), "may differ")):
        with pytest.raises(MeshAxisError, match=how):
            tw.shard_map(lambda w: w, in_specs=P(reduced={"x"}) if spec == P() else P(), out_specs=spec)(W)
    with pytest.raises(ArgumentError, match="of which all devices hold"):
        tw.shard_map(lambda w: lax.pcast(w, "x", to="unreduced"), in_specs=P(), out_specs=P())(W)


def test_casts_to_reduced_values():
    """Each device has its part of the gradient, and one sum over the devices is taken where it is asked for."""
    def slope(w, x):
        return tw.grad(lambda w: tnp.sum(tnp.tanh(x @ w) ** 2))(lax.pcast(w, "x", to="reduced"))

    want = tw.grad(lambda w: tnp.sum(tnp.tanh(X @ w) ** 2))(tnp.asarray(W))
    parts = tw.shard_map(slope, in_specs=(P(), P("x")), out_specs=P(unreduced={"x"}))
    total = tw.shard_map(lambda w, x: lax.psum(slope(w, x), "x"), in_specs=(P(), P("x")), out_specs=P())
    for f, sums in ((parts, []), (total, ["all-reduce"])):
        assert kinds(f, W, tw.device_put(X, P("x"))) == sums
        close(tw.jit(f)(W, X), want)
    for body in (
        lambda w: lax.pcast(w * lax.axis_index("x"), "x", to="reduced"),
        lambda w: lax.pcast({"w": lax.pcast(w, "x")}, "x", to="reduced"),
    ):
        with pytest.raises(ArgumentError, match="to 'reduced', which differs"):
            tw.shard_map(body, in_specs=P(), out_specs=P("x"))(W)


def test_specs_of_parts():
    spec = P("x", unreduced={"y"})
    assert spec is P(("x",), unreduced=["y"]) and repr(spec) == "P('x', unreduced={'y'})" and spec.partitions == ("x",)
    assert tw.eval_shape(lambda u: u + u, tw.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(MESH, spec))
                         ).sharding.spec is spec  # fmt: skip
    for wrong, error in (
        (lambda: P("x", unreduced={"x"}), MeshAxisError), (lambda: P(unreduced={"x"}, reduced={"x"}), MeshAxisError),
        (lambda: P(unreduced="x"), ArgumentTypeError), (lambda: [*spec], ArgumentError),
        (lambda: NamedSharding(MESH, P(unreduced={"z"})), MeshAxisError),
        (lambda: NamedSharding(tw.make_mesh((8,), ("q",)), P(unreduced={"q"})), UnsupportedError),
    ):  # fmt: skip
        with pytest.raises(error):
            wrong()


def test_values_that_are_not_summed_are_not_shown(tmp_path):
    u = opened()
    assert "unreduced={'y'}" in repr(u) and "unreduced" in f"{u} {u.sum()}"
    for take in (
        np.asarray, tw.device_get, lambda u: float(u.sum()), lambda u: u.tolist(),
        lambda u: tw.device_put(u, tw.devices()[0]), lambda u: checkpoints.save(tmp_path / "c", {"u": u}).wait(),
        lambda u: make_array_from_callback(u.shape, u.sharding, lambda i: (X @ W)[i]),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match="summed"):
            take(u)


def test_exports_are_refused():
    with pytest.raises(UnsupportedError, match="export"):
        export.export(tw.jit(lambda u: u + u))(opened()).serialize()


@pytest.mark.parametrize("rows", [8, 6])
@pytest.mark.parametrize("axes", ["x", "y", "xy"])
def test_a_sum_over_several_split_axes_stays_open_along_those_that_are_asked_for(axes, rows):
    x = np.arange(rows * 12, dtype=np.int32).reshape(rows, 6, 2)
    asked = P(None, unreduced={*axes})
    found = tw.jit(lambda x: lax.reduce_sum(x, (0, 1), out_sharding=asked))(reshard(x, P("x", "y")))
    assert found.sharding.spec == asked
    np.testing.assert_array_equal(value(found), x.sum((0, 1)))


PARTS, WEIGHTS = P(None, None, unreduced={"y"}), np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)


def mapped(body, out_specs=None):
    return tw.shard_map(body, mesh=MESH, in_specs=PARTS, out_specs=out_specs or P(), axis_names={"x", "y"})


LINEAR_BODIES = {
    "itself": lambda v: v, "scaled": lambda v: v * 3 + v, "transposed": lambda v: v.T, "row sums": lambda v: v.sum(1),
    "product": lambda v: v @ WEIGHTS, "called": lambda v: tw.jit(lambda a: a - a[::-1])(v),
    "branches": lambda v: lax.cond(tnp.asarray(True), lambda a: a, lambda a: -a, v),
    "loop": lambda v: lax.scan(lambda c, k: (c * 2 + v, c[k]), v, np.arange(3))[0],
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR_BODIES)
def test_a_linear_body_may_be_summed_before_or_after(name):
    u, body = reshard(opened(), PARTS), LINEAR_BODIES[name]
    before = mapped(lambda v: body(lax.psum(v, "y")))(u)
    after = mapped(lambda v: lax.psum(body(v), "y"))(u)
    close(after, np.asarray(before))


@pytest.mark.parametrize("body", [
    tnp.sin, lambda v: v + 1, lambda v: v * v, lambda v: v + lax.axis_index("y"), lambda v: v * lax.axis_index("y"),
    lambda v: lax.all_gather(v, "y"), lambda v: lax.pmax(v, "y"), lambda v: tw.jit(tnp.exp)(v),
    lambda v: lax.cond(v.sum() > 0, lambda a: a, lambda a: -a, v), lambda v: v.argmax(),
    lambda v: lax.scan(lambda c, _: (c + v, None), tnp.zeros_like(v), None, length=2)[0],
    lambda v: lax.while_loop(lambda c: c.sum() < 3, lambda c: c + c, v),
])  # fmt: skip
def test_a_body_that_is_not_linear_in_parts_is_refused(body):
    with pytest.raises((ShardingTypeError, MeshAxisError)):
        mapped(lambda v: lax.psum(body(v), ("x", "y")))(reshard(opened(), PARTS))


def test_parts_do_not_leave_a_body_as_values():
    for spec in (P("y"), P(("x", "y"))):
        with pytest.raises(MeshAxisError, match="unreduced along 'y'"):
            mapped(lambda v: v, spec)(reshard(opened(), PARTS))
    close(mapped(lambda v: 2 * v, PARTS)(reshard(opened(), PARTS)), 2 * (X @ W))
