"""Transformations compose in any order, with the values of NumPy and of finite differences."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.binding import under
from tilewright.core.tracing.numpy_interpreter import NUMPY

X = np.linspace(-1.0, 1.5, 6).astype(np.float32)
W = np.arange(12, dtype=np.float32).reshape(3, 4) / 7 - 0.5


def close(a, b, rtol=2e-5, atol=2e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


def f(x):
    return tnp.sum(tnp.sin(x) * x + tnp.exp(-x * x))


def df(x):
    return np.cos(x) * x + np.sin(x) - 2 * x * np.exp(-x * x)


def ddf(x):
    return -np.sin(x) * x + 2 * np.cos(x) + (4 * x * x - 2) * np.exp(-x * x)


JITS = {
    "plain": lambda g: g,
    "jit": tw.jit,
    "checkpoint": tw.checkpoint,
    "jit of checkpoint": lambda g: tw.jit(tw.checkpoint(g)),
}


@pytest.mark.parametrize("wrap", JITS.values(), ids=JITS)
@pytest.mark.parametrize("outer", JITS.values(), ids=JITS)
def test_grad_under_and_over_jit(wrap, outer):
    close(outer(tw.grad(wrap(f)))(X), df(X))


@pytest.mark.parametrize("wrap", JITS.values(), ids=JITS)
def test_second_derivatives_agree_in_every_order(wrap):
    g = wrap(f)
    expected = np.diag(ddf(X))
    for hessian in (
        tw.hessian(g),
        tw.jacfwd(tw.jacfwd(g)),
        tw.jacrev(tw.jacrev(g)),
        tw.jacrev(tw.jacfwd(g)),
        tw.jit(tw.hessian(g)),
    ):
        close(hessian(X), expected, 1e-4, 1e-4)


def test_hessian_vector_products_agree():
    v = np.cos(X)
    forward_over_reverse = tw.jvp(tw.grad(f), (X,), (v,))[1]
    reverse_over_forward = tw.grad(lambda x: tw.jvp(f, (x,), (v,))[1])(X)
    reverse_over_reverse = tw.grad(lambda x: tnp.vdot(tw.grad(f)(x), v))(X)
    for product in (forward_over_reverse, reverse_over_forward, reverse_over_reverse):
        close(product, ddf(X) * v, 1e-4, 1e-4)


def test_third_derivative():
    close(tw.grad(tw.grad(tw.grad(lambda x: x**4)))(2.0), 48.0)


@given(st.permutations(["jit", "vmap", "grad"]))
def test_jit_vmap_grad_commute(order):
    # grad of a scalar function; where vmap is inside, the sum keeps the output a scalar.
    def scalar(x):
        return tnp.sin(x) * x

    g, mapped = scalar, False
    for name in order:
        if name == "jit":
            g = tw.jit(g)
        elif name == "vmap":
            g, mapped = tw.vmap(g), True
        else:
            inner = g
            g = tw.grad(lambda x, inner=inner: tnp.sum(inner(x))) if mapped else tw.grad(inner)
    close(g(X), np.cos(X) * X + np.sin(X))


def test_vmap_axes_and_trees():
    def g(p, x):
        return {"y": p["w"] @ x, "n": tnp.sum(x)}

    xs = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    out = tw.vmap(g, in_axes=(None, 1), out_axes={"y": 1, "n": 0})({"w": W}, xs)
    close(out["y"], W @ xs)
    close(out["n"], xs.sum(0))
    both = tw.vmap(tw.vmap(lambda a, b: a * b, (None, 0)), (0, None))(X, X)
    close(both, np.outer(X, X))


def test_vmap_names_axes():
    def g(x):
        return x / lax.psum(x, "i"), lax.axis_index("i"), lax.pmax(x, "i"), lax.all_gather(x, "i")

    share, index, top, everyone = tw.vmap(g, axis_name="i")(X)
    close(share, X / X.sum(), 1e-4, 1e-4)
    assert np.asarray(index).tolist() == list(range(6))
    close(top, np.full(6, X.max()))
    close(everyone, np.tile(X, (6, 1)))
    close(tw.vmap(tw.jit(lambda x: x - lax.pmean(x, "i")), axis_name="i")(X), X - X.mean())


def test_linearize_and_transpose():
    y, lin = tw.linearize(f, X)
    close(y, f(X))
    close(lin(np.ones_like(X)), df(X).sum(), 1e-4)
    (xt,) = tw.linear_transpose(lambda x: W @ x, np.zeros(4, np.float32))(np.ones(3, np.float32))
    close(xt, W.T @ np.ones(3))


@pytest.mark.parametrize("around", [
    tw.jit, tw.checkpoint, tw.vmap,
    lambda f: lambda x: tw.jit(tw.jit(f))(x),
    lambda f: lambda x: lax.cond(x[0, 0] > 0, f, lambda x: 2 * x, x),
    lambda f: lambda x: lax.scan(lambda c, _: (f(c), c), x, None, length=2)[0],
    lambda f: lambda x: lax.fori_loop(0, 2, lambda i, c: f(c), x),
])  # fmt: skip
def test_transpose_of_a_jvp_is_the_vjp(around):
    x, ct = tnp.linspace(-1.0, 2.0, 6).reshape(2, 3), tnp.arange(6.0).reshape(2, 3) - 2.5
    inner = around(lambda x: tnp.sin(x) * x)
    f = lambda x: tnp.exp(inner(inner(x) + 1))  # noqa: E731
    expected = tw.vjp(f, x)[1](ct)[0]
    for g in (lambda t: tw.jvp(f, (x,), (t,))[1], tw.jit(lambda t: tw.jvp(f, (x,), (t,))[1])):
        np.testing.assert_allclose(tw.linear_transpose(g, x)(ct)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("around", [
    tw.jit, tw.checkpoint, lambda f: tw.jit(tw.jit(f)),
    lambda f: lambda x, t: lax.cond(x[0] > 0, f, lambda x, t: (x, t), x, t),
    lambda f: lambda x, t: lax.scan(lambda c, _: (f(*c), None), (x, t), None, length=1)[0],
])  # fmt: skip
def test_transposes_act_on_the_world_once_and_with_known_values(around):
    """What is printed of linear values is dropped; what else is printed comes once."""
    x, seen = tnp.arange(3.0) + 1, []

    def f(x, t):
        tw.debug.callback(lambda v: seen.append(("known", v.tolist())), x)
        tw.debug.callback(lambda v: seen.append(("linear", v.tolist())), t)
        return 2 * x, x * t

    def g(t):
        known, linear = around(f)(x, t)
        return known * linear

    for h in (g, tw.jit(g)):
        seen.clear()
        np.testing.assert_allclose(tw.linear_transpose(h, x)(tnp.ones(3))[0], 2 * np.square(x))
        tw.effects_barrier()
        assert seen == [("known", [1.0, 2.0, 3.0])]


def test_transposes_run_the_known_part_of_a_while_loop():
    x, seen = tnp.arange(3.0) + 1, []

    def body(c):
        tw.debug.callback(lambda v: seen.append(v.tolist()), c[1])
        tw.debug.callback(lambda v: seen.append(v.tolist()), c[2])
        return c[0] + 1, 2 * c[1], c[1] * c[2]

    def g(t):
        return lax.while_loop(lambda c: c[0] < 2, body, (0, x, t))[1] * t

    np.testing.assert_allclose(tw.linear_transpose(g, x)(tnp.ones(3))[0], 4 * x)
    tw.effects_barrier()
    assert seen == [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]


def test_vjp_of_a_tree_with_aux():
    y, pullback, aux = tw.vjp(lambda p: (p["a"] * p["b"], {"a": p["a"]}), {"a": 2.0, "b": 3.0}, has_aux=True)
    assert float(y) == 6.0 and float(aux["a"]) == 2.0
    (ct,) = pullback(1.0)
    assert (float(ct["a"]), float(ct["b"])) == (3.0, 2.0)


def test_value_and_grad_argnums_aux_and_kwargs():
    def g(x, y, *, scale):
        return scale * x * y, x + y

    (value, aux), (gx, gy) = tw.value_and_grad(g, argnums=(0, 1), has_aux=True)(2.0, 5.0, scale=3.0)
    assert (float(value), float(aux), float(gx), float(gy)) == (30.0, 7.0, 15.0, 6.0)


def test_python_control_flow_on_values_works_outside_jit():
    def g(x):
        return x * x if x > 0 else -x

    assert float(tw.grad(g)(3.0)) == 6.0
    assert float(tw.grad(g)(-3.0)) == -1.0


def test_complex_and_holomorphic():
    z = 1.0 + 2.0j
    assert np.allclose(complex(tw.grad(lambda z: z**3, holomorphic=True)(z)), 3 * z**2)
    close(tw.grad(lambda z: tnp.real(z * tnp.conj(z)))(3.0), 6.0)


def test_custom_jvp_and_vjp_inside_everything():
    @tw.custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda primals, tangents: (primals[0] ** 2, 10.0 * primals[0] * tangents[0]))

    @tw.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (7.0 * x * ct,))
    for function, slope in ((square, 10.0), (cube, 7.0)):
        for wrap in (lambda g: g, tw.jit):
            g = wrap(function)
            assert float(tw.grad(g)(2.0)) == 2 * slope
            close(tw.vmap(tw.grad(g))(X), slope * X)
            close(tw.jit(tw.vmap(tw.grad(g)))(X), slope * X)
            assert float(tw.grad(tw.grad(g))(2.0)) == slope


def test_control_flow_differentiates_and_batches():
    def g(x):
        def body(carry, t):
            carry = lax.cond(t > 0.5, lambda c: tnp.sin(c) * x, lambda c: c + x * t, carry)
            return carry, carry * t

        carry, ys = lax.scan(body, x, tnp.linspace(0.0, 1.0, 5))
        return carry + tnp.sum(ys)

    def reference(x):
        carry, total = x, 0.0
        for t in np.linspace(0.0, 1.0, 5):
            carry = np.sin(carry) * x if t > 0.5 else carry + x * t
            total += carry * t
        return carry + total

    h = 1e-5
    expected = (reference(X.astype(np.float64) + h) - reference(X.astype(np.float64) - h)) / (2 * h)
    close(tw.vmap(g)(X), reference(X), 1e-4)
    for derivative in (tw.grad(g), tw.jit(tw.grad(g)), tw.grad(tw.jit(g)), tw.grad(tw.checkpoint(g)), tw.jacfwd(g)):
        close(tw.vmap(derivative)(X), expected, 1e-3, 1e-3)
    looped = tw.grad(lambda x: lax.fori_loop(0, 4, lambda i, c: tnp.sin(c) + x, x))
    close(looped(0.5), tw.jacfwd(lambda x: functools.reduce(lambda c, _: tnp.sin(c) + x, range(4), x))(0.5))


def test_static_and_donated_arguments():
    @functools.partial(tw.jit, static_argnames=("n",), donate_argnums=(0,))
    def g(x, n):
        return x * n

    x = tnp.ones((4,))
    close(g(x, n=3), np.full(4, 3.0))
    assert x.is_deleted()


def test_eval_shape_and_make_jaxpr_do_not_compute():
    seen = []

    def g(x):
        seen.append(type(x).__name__)
        return x @ x.T

    out = tw.eval_shape(g, tw.ShapeDtypeStruct((3, 2), tnp.float32))
    assert out.shape == (3, 3) and out.dtype == np.float32
    assert seen == ["ProgramTracer"]
    assert [e.primitive.name for e in tw.make_jaxpr(g)(W).eqns] == ["transpose", "dot_general"]


def test_a_primitive_of_ones_own_has_every_power():
    from tilewright.core.ir.types import ArrayType

    def typing(x):
        return ArrayType(x.shape, x.dtype)

    triple = tw.Primitive(
        "triple",
        typing,
        jvp=lambda primals, tangents: (triple.bind(*primals), triple.bind(*tangents)),
        transpose=lambda ct, x: [triple.bind(ct)],
        batch=lambda axis, args, dims: (triple.bind(*args), dims[0]),
        numpy=lambda x: 3 * x,
        expand=lambda x: x * 3,
    )
    close(triple.bind(X), 3 * X)
    close(tw.jit(tw.vmap(tw.grad(lambda x: triple.bind(x) ** 2)))(X), 18 * X, 1e-5, 1e-5)


METHODS = "var std mean sum prod max min ptp argmax cumsum conj real imag T size ndim".split()


@pytest.mark.parametrize("wrap", [
    tw.jit, lambda f: lambda x: tw.jvp(f, (x,), (x,))[0], lambda f: lambda x: tw.vjp(f, x)[0],
    lambda f: lambda x: tw.vmap(f)(x[None])[0]], ids=["jit", "jvp", "vjp", "vmap"])  # fmt: skip
def test_methods_of_tracers_are_those_of_arrays(wrap):
    # A tracer's own attributes must not hide one: `var` once did.
    for name in METHODS:

        def call(x, name=name):
            found = getattr(x, name)
            return found() if callable(found) else found * tnp.ones(())

        x = tnp.asarray(X)
        close(wrap(call)(x), call(x), 1e-5, 1e-5)


def test_results_are_arrays_even_where_numbers_pass_through():
    value, slope = tw.value_and_grad(lambda x: x)(1.0)
    assert isinstance(value, tw.Array) and isinstance(slope, tw.Array)
    assert isinstance(tw.grad(lambda x: 3.0)(1.0), tw.Array)


def test_a_tracer_is_an_instance_of_array():
    seen = []
    tw.jit(lambda x: seen.append(isinstance(x, tw.Array)))(1.0)
    assert seen == [True] and not isinstance(np.ones(2), tw.Array) and not isinstance(1.0, tw.Array)


def test_hessian_through_a_kernel():
    from tilewright import lang as tl

    def body(x, o):
        e = tnp.exp(x[...] - x[...].max(-1, keepdims=True))
        o[...] = e / e.sum(-1, keepdims=True)

    spec = tl.BlockSpec((1, 4), lambda i: (i, 0))
    shape = tw.ShapeDtypeStruct((2, 4), "float32")
    kernel = tl.kernel_call(body, out_shape=shape, grid=2, in_specs=[spec], out_specs=spec)
    x = np.arange(8, dtype="f").reshape(2, 4) / 8

    def plain(x):
        e = tnp.exp(x)
        return e / e.sum(-1, keepdims=True)

    close(tw.hessian(lambda x: (kernel(x) ** 2).sum())(x), tw.hessian(lambda x: (plain(x) ** 2).sum())(x), 1e-4, 1e-4)


def test_settings_as_functions():
    with tw.enable_x64(True):
        assert tnp.zeros(2).dtype == np.float64
    with tw.disable_jit():
        assert tw.jit(lambda x: 1 if x > 0 else 2)(1.0) == 1
    assert tnp.zeros(2).dtype == np.float32 and not tw.config.disable_jit


def test_trees_take_the_keywords_of_jax():
    assert tw.tree.reduce(lambda a, b: a + b, (1, 2), initializer=3) == 6
    assert tw.tree_util.keystr(keys=tw.tree_util.tree_leaves_with_path({"a": 1})[0][0]) == "['a']"
    outer, inner = tw.tree.structure((0, 0)), tw.tree.structure({"a": 0})
    turned = tw.tree.transpose(outer_treedef=outer, inner_treedef=inner, pytree_to_transpose=({"a": 1}, {"a": 2}))
    assert turned == {"a": (1, 2)}
    with pytest.raises(tw.errors.TreeError, match="is not"):
        tw.tree.transpose(outer, inner, ({"a": 1, "b": 3}, {"a": 2}))
    assert tw.tree.broadcast(prefix_tree=1, full_tree={"a": 0, "b": 0}) == {"a": 1, "b": 1}
    found = tw.tree.leaves_with_path({"a": (1, 2)}, is_leaf=lambda path, _: len(path) == 1, is_leaf_takes_path=True)
    assert [leaf for _, leaf in found] == [(1, 2)]


@pytest.mark.parametrize("transform", [tw.jit, tw.grad, lambda f: lambda x: tw.vmap(f)(tnp.stack([x, x]))[0],
                                       lambda f: lambda x: tw.jvp(f, (x,), (1.0,))[0]])  # fmt: skip
def test_what_is_known_is_evaluated_and_what_is_traced_is_not(transform):
    seen = []

    def f(x):
        with tw.ensure_compile_time_eval():
            seen.append(float(tnp.sin(2.0) + 1))
            twice = tnp.tanh(x) * 2
        return twice * seen[-1]

    transform(f)(0.5)
    assert seen[-1] == pytest.approx(np.sin(2) + 1)
    np.testing.assert_allclose(tw.grad(f)(0.5), 2 * (np.sin(2) + 1) / np.cosh(0.5) ** 2, rtol=1e-6)
    np.testing.assert_allclose(tw.jit(f)(0.5), 2 * (np.sin(2) + 1) * np.tanh(0.5), rtol=1e-6)
def test_auxiliary_results_may_be_anything():
    mark = object()

    def f(x):
        return tnp.sum(x * x), {"name": "text", "mark": mark, "double": x * 2}

    x = np.arange(3.0, dtype=np.float32)
    for aux in (tw.grad(f, has_aux=True)(x)[1], tw.vjp(f, x, has_aux=True)[2],
                tw.jvp(f, (x,), (x,), has_aux=True)[2], tw.linearize(f, x, has_aux=True)[2]):  # fmt: skip
        assert aux["name"] == "text" and aux["mark"] is mark and np.allclose(aux["double"], 2 * x)


def test_callables_without_a_name_of_their_own_and_lists_of_axes():
    class Layer:
        __name__ = property(lambda self: 3)
        __call__ = staticmethod(lambda x: (x, x + 1))

    unnamed = Layer()
    x = np.arange(3.0, dtype=np.float32)
    assert np.allclose(tw.vmap(unnamed, out_axes=[0, 0])(x)[1], x + 1)
    assert np.allclose(tw.jacfwd(lambda y: unnamed(y)[0])(x), np.eye(3))


def test_pmap_maps_arguments_by_keyword():
    f = tw.pmap(lambda x, y: x - y)
    assert np.allclose(f(y=np.ones((1, 2)), x=np.zeros((1, 2))), -1)


def test_eval_shape_gives_back_shapes_and_axes_may_be_a_range():
    given = {"a": tw.ShapeDtypeStruct((2,), "float32")}
    assert tw.eval_shape(lambda: given) == given
    mixed = tw.eval_shape(lambda x: (x + 1, given["a"]), np.ones(3, np.float32))
    assert mixed[0].shape == (3,) and mixed[1] is given["a"]
    assert tnp.expand_dims(tnp.ones(3), range(2)).shape == (1, 1, 3) and tnp.ones((2, 3)).sum(axis=range(2)) == 6


def test_shardings_that_say_nothing():
    f = tw.jit(lambda x, y: x + y["a"], in_shardings=(None, {"a": None}), out_shardings=(None))
    assert f(1.0, {"a": 2.0}) == 3.0
    assert tw.jit(lambda x: f(x, {"a": x}))(2.0) == 4.0


def test_transposing_nodes_that_keep_the_structure_of_what_they_hold():
    @tw.tree_util.register_pytree_node_class
    class Keeper(dict):
        def tree_flatten(self):
            return tw.tree.flatten(dict(self))

        @classmethod
        def tree_unflatten(cls, structure, leaves):
            return cls(structure.unflatten(leaves))

    outer, inner = tw.tree.structure(Keeper(a=0, b=0)), tw.tree.structure([0, 0])
    assert tw.tree.transpose(outer, inner, Keeper(a=[1, 2], b=[3, 4])) == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]


def test_eval_shape_keeps_no_traced_value():
    with tw.checking_leaks():
        given = tw.ShapeDtypeStruct((2,), "int8")
        assert tw.eval_shape(lambda x: (x + 1, given), given) == (given, given)


# ---------------------------------------------------------------------------- what a pullback holds


def layer(w, x):
    return tnp.tanh(x["a"] @ w)


ARGS = tnp.asarray(W), {"a": tnp.ones((2, 3)), "b": (1.0, tnp.ones(2))}


def test_a_pullback_holds_arguments_as_they_are():
    _, pullback = tw.vjp(layer, *ARGS)
    w, (a, others) = pullback.args_res
    assert w is ARGS[0] and a is ARGS[1]["a"] and tw.tree.leaves(others) == []
    assert len(pullback.opaque_residuals) == 1 and pullback.out_nzs == (True,)
    assert len(tw.tree.leaves(pullback)) == 3


@pytest.mark.parametrize("saveable", [(False, True), (False, (True, False)), (False, {"a": True, "b": (True, False)})])
@pytest.mark.parametrize("compiled", [False, True])
def test_what_may_not_be_saved_is_put_back(saveable, compiled):
    keep = tw.jit if compiled else lambda f: f
    y, pullback = keep(lambda *args: tw.vjp(layer, *args, saveable_args=saveable))(*ARGS)
    assert len(tw.tree.leaves(pullback)) == 2
    with pytest.raises(tw.errors.DifferentiationError, match=r"what it reads of args\[0\]"):
        pullback(y)
    expected = tw.vjp(layer, *ARGS)[1](y)
    replaced = pullback.replace(args_res=[ARGS[0], pullback.args_res[1]])
    pullback.args_res[0] = ARGS[0]
    for found in (pullback(y), replaced(y)):
        tw.tree.map(close, found, expected)


def test_inputs_that_are_not_differentiated_by():
    _, pullback = tw.vjp(lambda x, y: (x * y, x + 1.0), 2.0, 3.0, in_nzs=(False, True))
    assert pullback.out_nzs == (True, False)
    assert [float(ct) for ct in pullback((1.0, 1.0))] == [0.0, 2.0]
    y, f_jvp = tw.linearize(lambda x, y: x["a"] * y, {"a": 3.0}, 4.0, in_nzs=(False, True))
    assert (y, f_jvp({"a": 1.0}, 10.0)) == (12.0, 30.0)
    with pytest.raises(tw.errors.TreeError, match="in_nzs holds"):
        tw.vjp(lambda x: x, 2.0, in_nzs=(1,))


def test_a_batched_value_shows_the_whole_batch():
    seen = []
    tw.vmap(lambda x: seen.append((x.val, x.batch_dim)), in_axes=1, out_axes=None)(X.reshape(2, 3))
    np.testing.assert_array_equal(seen[0][0], X.reshape(2, 3))
    assert seen[0][1] == 1


SHOWN = {
    "JitTracer(~float32[])": lambda f: tw.make_jaxpr(f)(2.0),
    "JitTracer(float32[2])": lambda f: tw.jit(f)(np.ones(2, np.float32)),
    "VmapTracer(aval=int32[], batched=int32[3])": lambda f: tw.vmap(f)(np.arange(3, dtype=np.int32)),
    "JVPTracer(primal=2.0, tangent=1.0)": lambda f: tw.jvp(f, (2.0,), (1.0,)),
    "GradTracer(primal=2.0, typeof(tangent)=f32[])": lambda f: tw.grad(f)(2.0),
    "GradTracer(primal=JitTracer(~float32[]), typeof(tangent)=f32[])": lambda f: tw.jit(tw.grad(f))(2.0),
}


@pytest.mark.parametrize("text", SHOWN)
def test_traced_values_print_as_jaxs(text):
    seen = []
    SHOWN[text](lambda x: (seen.append(str(x)), x)[1])
    assert seen == [text]


def test_transposes_are_pytrees_and_check_their_cotangents():
    transposed = tw.jit(lambda x: tw.linear_transpose(lambda y: 2 * y, x))(1.0)
    assert float(tw.jit(lambda t, ct: t(ct)[0])(transposed, 3.0)) == 6
    with pytest.raises(TypeError, match="linear_transpose of an input of type i32"):
        tw.linear_transpose(lambda x: 2.0 * x, 1)
    for f, ct in ((lambda x: [x, x], 1.0), (lambda x: tnp.stack([x, x]), 1.0), (lambda x: x, 1j)):
        with pytest.raises(TypeError):
            tw.linear_transpose(f, 1.0)(ct)
    with pytest.raises(TypeError, match="cotangent"):
        tw.vjp(lambda x: x, 1.0)[1](1j)


def test_jacrev_of_complex_outputs_has_to_be_asked_for():
    with pytest.raises(TypeError, match="jacrev of a function with an output of type c64"):
        tw.jacrev(tnp.sin)(1 + 2j)
    np.testing.assert_allclose(tw.jacrev(tnp.sin, holomorphic=True)(1 + 2j), np.cos(1 + 2j), rtol=1e-6)
    np.testing.assert_allclose(tw.jacrev(tnp.abs)(3 + 4j), 0.6 - 0.8j, rtol=1e-6)


def pair(a, b):
    return lax.sin(a), 2 * b


second = tw.jit(lambda a, b: 2 * b)
HOLDERS = {
    "jit": tw.jit(pair), "checkpoint": tw.checkpoint(pair), "vmap": tw.vmap(tw.jit(pair)),
    "cond": lambda a, b: lax.cond(b[0] < 1, pair, lambda a, b: (a, 2 * b), a, b),
    "scan": lambda a, b: lax.scan(lambda c, _: (pair(*c), None), (a, b), None, length=1)[0],
    "map": lambda a, b: lax.map(lambda x: pair(*x), (a, b)),
    "consts": lambda a, b: lax.scan(lambda c, _: (c, pair(a, b)), 0.0, None, length=1)[1],
    "an operand": lambda a, b: (a, second(a, b)),
    "an operand within": tw.jit(lambda a, b: (a, second(a, b))),
    "an operand in a loop": lambda a, b: lax.scan(lambda c, _: ((c[0], second(*c)), None), (a, b), None, length=1)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_not_used_has_no_part_in_a_gradient(name):
    def f(x):  # the slope of log is infinite at 0
        return lax.reduce_sum(HOLDERS[name](lax.log(x), x)[1].reshape(1), (0,))

    with np.errstate(all="ignore"):
        assert under(NUMPY, tw.grad(f), np.zeros(1, np.float32)) == [2]
        over = tw.grad(lambda x: tw.jvp(f, (x,), (x + 1,))[1])
        assert under(NUMPY, over, np.zeros(1, np.float32)) == [2]


@pytest.mark.parametrize("of", [tw.grad, tw.vmap, tw.hessian, tw.make_jaxpr, lambda f: tw.eval_shape(f, 1.0)])
def test_what_is_no_function_is_refused_at_once(of):
    with pytest.raises(tw.errors.ArgumentTypeError, match="takes a function, got None of type NoneType"):
        of(None)


@pytest.mark.parametrize("within", (lambda f: f, tw.jit), ids=("eager", "jit"))
def test_derivatives_by_unused_scalars_are_arrays(within):
    x, y = np.float32(1), np.float32(2)

    def derivatives(x, y):
        constant = tnp.float32(3)
        return (*tw.vjp(lambda x, y: y, x, y)[1](y), tw.jvp(lambda x: constant, (x,), (y,))[1],
                tw.linearize(lambda x: constant, x)[1](y))  # fmt: skip

    def doubled(x, y):
        return [d.at[...].multiply(2.0) for d in derivatives(x, y)]

    assert list(map(float, within(doubled)(x, y))) == [0.0, 4.0, 0.0, 0.0]
