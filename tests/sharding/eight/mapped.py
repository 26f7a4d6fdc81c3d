"""`shard_map` and `pmap`: values, derivatives and batches equal those of the function on the whole, or of `vmap`."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tests.support.collectives import CASES
from tests.support.equivalence import draws
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    BatchAxisError,
    MeshAxisError,
    MeshError,
    ShapeError,
    TreeError,
    UnboundAxisError,
    UnsupportedError,
)
from tilewright.core.tracing.numpy_interpreter import evaluate
from tilewright.sharding import AxisType, Mesh, NamedSharding, P, use_mesh

MESH = tw.make_mesh((4, 2), ("x", "y"))
CUBE = tw.make_mesh((2, 2, 2), ("x", "y", "z"))
(X,) = draws((8, 8))
(W,) = draws((8, 8), seed=3)


def mapped(f, ins, outs, mesh=MESH, **how):
    return tw.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, **how)


# Two meshes with an axis `i` of size 4: alone, and beside another one, with its devices in another order.
FOUR_ROWS = Mesh(MESH.devices[:, 0], ("x",))
FOUR = [Mesh(MESH.devices[:, 0], ("i",)), Mesh(MESH.devices[::-1].T, ("j", "i"))]


def over_devices(f, x, mesh=FOUR[1]):
    return mapped(lambda part: f(part[0])[None], P("i"), P("i"), mesh)(x)


@pytest.mark.law
@pytest.mark.parametrize("name", CASES)
def test_collectives_are_those_of_vmap(name):
    f, x, expected = CASES[name]
    # On devices, under one more vmap; and the NumPy meaning of the program, which batches it.
    pair = np.stack([x, 2 * x], 1)
    both = np.stack([expected(x), expected(2 * x)], 1)
    for run in (lambda x: over_devices(f, x), lambda x: over_devices(f, x, FOUR[0])):
        found = tw.jit(lambda x, pair, run=run: (run(x), tw.vmap(run, 1, 1)(pair)))(x, pair)
        np.testing.assert_allclose(found[0], expected(x), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1], both, rtol=1e-5, atol=1e-6)
    program = tw.make_jaxpr(lambda x: over_devices(f, x))(x)
    np.testing.assert_allclose(evaluate(program, x)[0], expected(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("pmax", "pmin", "broadcast")])
def test_gradients_of_collectives_are_those_of_vmap(name):
    f, x, expected = CASES[name]
    weights = np.asarray(draws(np.shape(expected(x)), seed=1)[0])
    tangent = draws(x.shape, seed=2)[0]

    def derivatives(run):
        gradient = tw.grad(lambda x: tnp.sum(run(x) * weights))
        return lambda x: (gradient(x), tw.jvp(run, (x,), (tangent,))[1])

    found = tw.jit(derivatives(lambda x: over_devices(f, x)))(x)
    for a, b in zip(found, by_numpy(derivatives(tw.vmap(f, axis_name="i")), x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


GROUPS = [[0, 1], [3, 2]]


def uneven(a):
    return lax.psum(a, "x", axis_index_groups=[[0], [1, 2, 3]])



@pytest.mark.parametrize(
    "f, expected",
    [
        (lambda a: lax.psum(a, "x", axis_index_groups=GROUPS), lambda p: [p[0] + p[1]] * 2 + [p[2] + p[3]] * 2),
        (lambda a: lax.pmax(a, "x", axis_index_groups=GROUPS), lambda p: [p[:2].max(0)] * 2 + [p[2:].max(0)] * 2),
        (
            lambda a: lax.all_gather(a, "x", axis_index_groups=GROUPS).sum(0),
            lambda p: [p[0] + p[1]] * 2 + [p[2] + p[3]] * 2,
        ),
        (lambda a: lax.pbroadcast(a > 0, "x", 1) * 1.0 + 0 * a, lambda p: [(p[1] > 0) * 1.0] * 4),
        (lambda a: lax.psum(tnp.ones(()), "x") + a, lambda p: list(p + 4)),
        (lambda a: lax.all_gather(a, ("x", "y"), tiled=True)[:2] + 0 * a, lambda p: [p[0]] * 4),
    ],
)
def test_groups_and_several_axes(f, expected):
    parts = np.stack(expected(np.asarray(X).reshape(4, 2, 8)))
    found = mapped(f, P("x"), P("x"), check_vma=False)(X)
    np.testing.assert_allclose(found, parts.reshape(8, 8), rtol=1e-5)


def test_partly_manual_and_nested():
    part = tw.jit(mapped(lambda a: lax.psum(a, "x"), P("x"), P(), axis_names={"x"}))
    far = tw.device_put(X, NamedSharding(MESH, P("x", "y")))
    np.testing.assert_allclose(part(far), np.asarray(X).reshape(4, 2, 8).sum(0), rtol=1e-5)
    both = np.stack([X, X])
    batched = tw.vmap(part, spmd_axis_name="y")(both)
    np.testing.assert_allclose(batched, both.reshape(2, 4, 2, 8).sum(1), rtol=1e-5)

    def outer(a):
        here = lax.axis_index("x")
        return mapped(lambda b: lax.psum(b, "y") + lax.axis_index("x") + here, P(None, "y"), P())(a)

    found = mapped(outer, P("x"), P("x"), axis_names={"x"})(X)
    wanted = X[:, :4] + X[:, 4:] + 2 * (np.arange(8)[:, None] // 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    slope = tw.grad(lambda a: mapped(outer, P("x"), P("x"), axis_names={"x"})(a).sum())(X)
    np.testing.assert_allclose(slope, 1, rtol=1e-6)


@pytest.mark.parametrize("order", ["xyz", "zxy"])
def test_three_maps_within_each_other(order):
    """Each sees its own axis and those around it, and values of each level meet in the innermost one."""
    a, b, c = order
    w = np.linspace(-1, 1, 4, dtype=np.float32)

    def level(f, name, ins, out):
        return mapped(f, ins, out, CUBE, axis_names={name})

    def whole(w, v):
        def outer(w, v):
            top = lax.psum(v * lax.axis_index(a), a) + v  # differs along a

            def middle(w, v, top):
                mean = lax.pmean(top * v, b)  # along a

                def inner(w, v, mean):
                    far = lax.ppermute(v, c, [(0, 1), (1, 0)])
                    return tnp.sin(mean * far) * w.sum() + lax.psum(v, (b, c)) * lax.axis_index(a)

                return level(inner, c, (P(c), P(None, None, c), P(None, None, c)), P(None, None, c))(w, v, mean)

            return level(middle, b, (P(), P(None, b), P(None, b)), P(None, b))(w, v, top)

        return level(outer, a, (P(), P(a)), P(a))(w, v)

    def plain(w, v):
        v = v.reshape(2, 2, 2, 2, 2, 4)  # a and a part of it, b, c
        w = w.reshape(2, 2)
        top = v[1:2] + v
        mean = (top * v).mean(2, keepdims=True)
        far = v[:, :, :, :, ::-1]
        number = tnp.arange(2.0).reshape(2, 1, 1, 1, 1, 1)
        return (tnp.sin(mean * far) * w.sum(1)[:, None] + v.sum((2, 4), keepdims=True) * number).reshape(4, 4, 8)

    v = np.linspace(-1, 1, 128, dtype=np.float32).reshape(4, 4, 8)
    both = [tw.value_and_grad(lambda w, v, f=f: tnp.sum(f(w, v) ** 2), (0, 1)) for f in (whole, plain)]
    found, wanted = (tw.tree.leaves(out) for out in (tw.jit(both[0])(w, v), by_numpy(both[1], w, v)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_maps_beside_each_other_in_different_orders_are_refused():
    def inside(first, second, a):
        inner = mapped(lambda a: lax.psum(a, second), P(second), P(), CUBE, axis_names={second})
        return mapped(inner, P(), P(), CUBE, axis_names={first})(a)

    def both(*order):
        return mapped(lambda a: inside("y", "z", a) + inside(*order, a), P(), P(), CUBE, axis_names={"x"})(X)

    np.testing.assert_allclose(both("y", "z"), 2 * (X[:4] + X[4:]), rtol=1e-5)
    with pytest.raises(UnsupportedError, match="in different orders"):
        both("z", "y")


def test_one_axis_at_a_time():
    def columns(a):
        return lax.psum(a, "y") * 2

    both = tw.smap(tw.smap(columns, in_axes=-1, out_axes=None, axis_name="y"), in_axes=0, out_axes=0, axis_name="x")
    with use_mesh(MESH):
        np.testing.assert_allclose(both(X), 2 * (X[:, :4] + X[:, 4:]), rtol=1e-5)
        np.testing.assert_allclose(tw.grad(lambda x: tnp.sum(both(x) ** 2))(X), np.tile(4 * both(X), 2), rtol=1e-5)
        for axes, error in [({"in_axes": 3}, AxisError), ({"in_axes": "x"}, ArgumentTypeError), ({}, ArgumentError)]:
            with pytest.raises(error):
                tw.smap(columns, **axes, out_axes=0, axis_name="x")(X)
        with pytest.raises(ArgumentTypeError, match="one axis"):
            tw.smap(columns, in_axes=0, out_axes=0, axis_name=("x", "y"))


def test_types_tell_how_arguments_lie():
    mesh = tw.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    far = tw.device_put(X, NamedSharding(mesh, P("x", "y")))
    with use_mesh(mesh):
        rows = tw.smap(lambda a, n: lax.psum(a, "x") * n, out_axes=None, axis_name="x")(far, 2.0)
        parts = tw.shard_map(lambda a: a + lax.axis_index("y"), out_specs=P("x", "y"))(far)
    np.testing.assert_allclose(rows, 2 * X.reshape(4, 2, 8).sum(0), rtol=1e-5)
    np.testing.assert_allclose(parts, X + np.arange(8) // 4, rtol=1e-6)


def block(w, x):
    """A layer with loops, a branch and recomputation in it."""
    def step(c, k):
        c = tw.checkpoint(lambda c: tnp.tanh(c @ w) + k)(c)
        return lax.cond(k > 0.5, lambda c: 2 * c, lambda c: c, c), None

    return lax.scan(step, x, np.float32([0, 1, 0]))[0]


def test_gradients_by_shared_values_are_sums_over_the_devices():
    def loss(w, x):
        return tnp.sum(tnp.sin(block(w, x)))

    parts = mapped(lambda w, x: lax.psum(loss(w, x), ("x", "y")), (P(), P(("x", "y"))), P())
    inside = mapped(tw.grad(lambda w, x: lax.psum(loss(w, x), ("x", "y"))), (P(), P(("x", "y"))), P())
    local = mapped(tw.grad(loss), (P(), P(("x", "y"))), P())  # without psum in it: w is shared
    own = mapped(lambda w, x: lax.psum(tw.grad(loss)(lax.pcast(w, ("x", "y"), to="varying"), x), ("x", "y")),
                 (P(), P(("x", "y"))), P())  # fmt: skip
    wanted = by_numpy(tw.grad(loss, (0, 1)), W, X)
    found = tw.jit(lambda w, x: [*tw.grad(parts, (0, 1))(w, x), inside(w, x), local(w, x), own(w, x)])(W, X)
    for one, right in zip(found, [*wanted, *[wanted[0]] * 3], strict=True):
        np.testing.assert_allclose(one, right, rtol=2e-4, atol=1e-4)


def test_second_derivatives():
    def loss(w, x):
        return tnp.sum(tnp.sin(x @ w))

    parts = mapped(lambda w, x: lax.psum(loss(w, x), "x"), (P(), P("x")), P())
    first, second = (tw.jit(tw.hessian(lambda s, f=f: f(s * W, X)))(0.5) for f in (parts, loss))
    np.testing.assert_allclose(first, second, rtol=2e-3)


def test_products_split_over_two_axes():
    def f(x, w):  # the contraction is split along y
        return mapped(lambda x, w: lax.psum(x @ w, "y"), (P("x", "y"), P("y")), P("x"))(x, w)

    np.testing.assert_allclose(f(X, W), X @ W, rtol=1e-4, atol=1e-5)
    for n in (0, 1):
        wanted = by_numpy(tw.grad(lambda x, w: tnp.sum(tnp.sin(x @ w)), n), X, W)
        found = tw.jit(tw.grad(lambda x, w: tnp.sum(tnp.sin(f(x, w))), n))(X, W)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    # A replicated result that is said to be equal on all devices.
    equal = mapped(lambda x: lax.all_gather(x, "x", tiled=True), P("x"), P(), check_vma=False)
    np.testing.assert_allclose(tw.grad(lambda x: tnp.sum(equal(x) * W))(X), W, rtol=1e-5)


@pytest.mark.parametrize("tiled", [True, False])
@pytest.mark.parametrize("axes", ["x", ("x", "y")])
def test_gathers_after_which_all_devices_have_the_same(axes, tiled):
    def gather(a):
        out = lax.all_gather(a, axes, axis=1, tiled=tiled, to="invarying")
        assert not tw.typeof(out).vary
        return out

    wanted = X if tiled else X.reshape(8, 4 if axes == "x" else 8, -1)
    f = mapped(gather, P(None, axes), P())
    np.testing.assert_array_equal(f(X), wanted)
    step = tw.jit(tw.grad(lambda x: tnp.sum(tnp.sin(f(x)))))
    np.testing.assert_allclose(step(X), np.cos(X), rtol=1e-5)
    text = step.lower(X).compile().as_text()  # the transpose of the gather communicates nothing
    assert "all-reduce" not in text and "reduce-scatter" not in text
    np.testing.assert_allclose(tw.vmap(tw.grad(lambda x: tnp.sum(f(x) ** 2)))(np.stack([X, W])), 2 * np.stack([X, W]),
                               rtol=1e-5)  # fmt: skip


def test_closed_over_values_and_custom_derivatives():
    @tw.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, ct: (3 * x * ct,))

    def loss(c):
        return tnp.sum(mapped(lambda a: f(a * c), P("x"), P("x"))(X))

    np.testing.assert_allclose(loss(2.0), np.sum(4 * X * X), rtol=1e-4)
    np.testing.assert_allclose(tw.grad(loss)(2.0), np.sum(3 * X * 2 * X), rtol=1e-4)
    with use_mesh(MESH):
        np.testing.assert_array_equal(tw.shard_map(lambda a: -a, in_specs=P("y"), out_specs=P("y"))(X), -X)


def test_pmap():
    x = draws((8, 3))[0]
    def share(x, s):
        return x / lax.psum(x, "i") * s, lax.psum(x, "i")

    f = tw.pmap(share, axis_name="i", in_axes=(0, None), out_axes=(0, None))
    part, total = f(x, 2.0)
    np.testing.assert_allclose(part, 2 * x / x.sum(0), rtol=1e-5)
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-5)
    np.testing.assert_allclose(tw.pmap(lambda x: x + 1, in_axes=1, out_axes=1)(x.T), x.T + 1, rtol=1e-6)
    triple = tw.pmap(lambda k, x: x * k, static_broadcasted_argnums=0)
    np.testing.assert_allclose(triple(3, x[:2]), 3 * x[:2], rtol=1e-6)
    with pytest.raises(MeshError, match="there are 8"):
        tw.pmap(lambda x: x)(np.ones(9))
    with pytest.raises(BatchAxisError, match="sizes"):
        tw.pmap(lambda x, y: x)(np.ones(4), np.ones(5))
    with pytest.raises(BatchAxisError, match="axis 0 of an argument of shape"):
        tw.pmap(lambda x, y: x * y)(np.ones(4), 5)


@pytest.mark.parametrize(
    "error, text, call",
    [
        (MeshAxisError, "may differ", lambda: mapped(lambda a: a, P("x"), P())(X)),
        (MeshAxisError, "'q'", lambda: mapped(lambda a: a, P("q"), P())(X)),
        (MeshAxisError, "axis_names", lambda: mapped(lambda a: a, P("y"), P("y"), axis_names={"x"})(X)),
        (MeshAxisError, "'q'", lambda: mapped(lambda a: a, P(), P(), axis_names={"q"})(X)),
        (MeshAxisError, "within one", lambda: mapped(mapped(lambda a: a, P(), P(), axis_names={"x"}), P(), P())(X)),
        (ShapeError, "split 4 ways", lambda: mapped(lambda a: a, P("x"), P("x"))(X[:6])),
        (ShapeError, "each dimension", lambda: mapped(lambda a: a.sum(), P("x"), P("x"))(X)),
        (TreeError, r"in_specs=\(P\('x',\),\) .* 1 spec for 2 arguments \(a, b\)",
         lambda: mapped(lambda a, b: a, (P("x"),), P("x"))(X, X)),
        (TreeError, "out_specs=.* 2 specs for 1 result", lambda: mapped(lambda a: (a,), P("x"), (P("x"), P()))(X)),
        (TreeError, r"arguments: .* at \[0\]: expected a dict with the keys 'u', got a dict with the keys 'v'",
         lambda: mapped(lambda a: a["v"], ({"u": P("x")},), P("x"))({"v": X})),
        (UnboundAxisError, "shard_map", lambda: lax.psum(X, "x")),
        (ArgumentTypeError, "by keyword", lambda: mapped(lambda a: a, P("x"), P("x"))(a=X)),
        (ArgumentError, "without a mesh", lambda: tw.shard_map(lambda a: a, in_specs=P(), out_specs=P())(X)),
        (ArgumentError, "groups of one size", lambda: mapped(uneven, P("x"), P("x"))(X)),
        (ArgumentError, "to='varying'", lambda: mapped(lambda a: lax.pcast(a, "x", to="other"), P("x"), P("x"))(X)),
        (ArgumentError, "all_gather to 'other'",
         lambda: mapped(lambda a: lax.all_gather(a, "x", to="other"), P("x"), P("x"))(X)),
        (UnsupportedError, "to 'invarying'", lambda: mapped(lambda a: lax.all_gather(
            a, "x", axis_index_groups=GROUPS, to="invarying"), P("x"), P("x"))(X)),
    ],
)  # fmt: skip
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)


def test_branches_and_loops_that_differ_between_devices():
    def f(a):
        here = lax.axis_index("x")
        b = lax.cond(here > 1, lambda: 1.0, lambda: 0.0)
        c, _ = lax.while_loop(lambda s: s[1] < here, lambda s: (s[0] * 2, s[1] + 1), (1.0, 0))
        return a * 0 + b + c

    np.testing.assert_array_equal(mapped(f, P("x"), P("x"))(X)[::2, 0], [1, 2, 5, 9])
    with pytest.raises(MeshAxisError, match="may differ"):
        mapped(lambda: lax.cond(lax.axis_index("x") > 1, lambda: 1.0, lambda: 0.0), (), P())()


def test_custom_vjp_of_a_value_that_devices_share():
    """Its gradient is the sum over the devices; one that the rule has summed itself stays."""
    x, w = draws((16, 8), (8,))

    def of(backward):
        @tw.custom_vjp
        def f(x, w):
            return tnp.sum(tnp.sin(x * w))

        def both(saved, ct):
            x, w = saved
            one = ct * tnp.cos(x * w)
            return one * w, backward((one * x).sum(0))

        f.defvjp(lambda x, w: (f(x, w), (x, w)), both)
        return f

    wanted = tw.grad(lambda x, w: tnp.sum(tnp.sin(x * w)), (0, 1))(x, w)
    for backward in (lambda ct: ct, lambda ct: lax.psum(ct, "x")):
        f = of(backward)
        split = mapped(lambda x, w, f=f: lax.psum(f(2 * x / 2, w), "x"), (P("x"), P()), P())
        for a, b in zip(tw.grad(split, (0, 1))(x, w), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_types_show_the_axes_along_which_values_vary():
    seen = []

    def f(x):
        for value in (x, lax.psum(x, "y"), lax.psum(x, ("x", "y"))):
            type_ = tw.typeof(value)
            seen.append((str(type_), sorted(type_.manual_axis_type.varying)))
        return x

    mapped(f, (P("x", "y"),), P("x", "y"))(X)
    assert seen == [("float32[2,4]{V:(x,y)}", ["x", "y"]), ("float32[2,4]{V:x}", ["x"]), ("float32[2,4]", [])]


def test_constraints_along_axes_that_each_device_sees_a_part_of():
    def f(x):
        return lax.with_sharding_constraint(x, NamedSharding(MESH, P("x")))

    for seen in ({"x"}, {"x", "y"}):
        with pytest.raises(MeshAxisError, match="shards a value along .*'x'.*own part"):
            tw.jit(tw.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names=seen))(X)
    free = tw.shard_map(f, mesh=MESH, in_specs=P("y"), out_specs=P("y"), axis_names={"y"})
    np.testing.assert_array_equal(tw.jit(free)(X), X)


def test_ordered_callbacks_of_each_device():
    seen = []

    def f(x):
        tw.io_callback(lambda x: seen.append(("first", x.item())), (), x[0, 0], ordered=True)
        tw.io_callback(lambda x: seen.append(("second", x.item())), (), x[0, 0], ordered=True)
        return x + 1

    def both(x):
        found = mapped(f, P("x"), P("x"), FOUR_ROWS)(x)
        tw.io_callback(lambda: seen.append("end"), (), ordered=True)
        return found

    found = tw.jit(both)(X[:4])
    tw.effects_barrier()
    np.testing.assert_array_equal(found, X[:4] + 1)
    seen.remove("end")
    assert sorted(seen) == sorted((n, x) for n in ("first", "second") for x in X[:4, 0].tolist())
    assert all(seen.index(("first", x)) < seen.index(("second", x)) for x in X[:4, 0].tolist())


def test_a_permutation_that_can_be_read_once_is_refused():
    with pytest.raises(ArgumentTypeError, match="empty when it is read again"):
        mapped(lambda x: lax.ppermute(x, "x", zip(range(4), range(4))), P("x"), P("x"))(X)


@pytest.mark.parametrize("types", [(AxisType.Explicit, AxisType.Auto), (AxisType.Explicit, AxisType.Explicit)], ids=str)
def test_maps_within_each_other_against_the_order_of_the_mesh(types):
    def f(a):
        return tw.smap(tnp.sin, in_axes=1, out_axes=1, axis_name="x")(a * 2)

    with use_mesh(tw.make_mesh((4, 2), ("x", "y"), axis_types=types)):
        found = tw.smap(f, in_axes=0, out_axes=0, axis_name="y")(tw.device_put(X, P("y")))
    np.testing.assert_allclose(found, np.sin(X * 2), rtol=1e-5)


class Unhashable:
    def __hash__(self):
        raise ValueError


@pytest.mark.parametrize("known", [object(), Unhashable(), "text", (2, np.sin), {"a": len, "b": 3}, None], ids=type)
def test_values_that_are_no_arrays_pass_where_specs_are_none(known):
    seen = []

    def f(given, x, scale):
        seen.append(given)
        return x * scale

    g = mapped(f, (None, P("x"), None), P("x"))
    for run in (g, lambda *args: tw.jit(lambda x, scale: g(args[0], x, scale))(*args[1:])):
        np.testing.assert_array_equal(run(known, X, np.float32(2)), X * 2)
    assert seen == [known]
    g(known, X, np.float32(3))
    assert len(seen) == 1
    np.testing.assert_array_equal(tw.grad(lambda x: g(known, x, 2.0).sum())(X), np.full_like(X, 2))


def test_known_integers_are_shapes_where_specs_are_none():
    g = mapped(lambda n, x: x[:n], (None, P("x")), P("x"))
    assert g(1, X).shape == (4, 8) and g(2, X).shape == (8, 8)
