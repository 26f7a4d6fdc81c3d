"""Functions of tilewright inside programs of jax: each transformation gives what it gives of jax's own function."""

import functools
import importlib.util

import numpy as np
import pytest

if importlib.util.find_spec("jax") is None:
    pytest.skip("jax is not installed", allow_module_level=True)

import jax
import jax.numpy as jnp

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.core.support.errors import DtypeError, NonArrayArgumentError, UnsupportedError
from tilewright.interop import jax as tj


def rng(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def agree(found, wanted, tolerance=2e-5):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for f, w in zip(jax.tree.leaves(found), jax.tree.leaves(wanted)):
        assert isinstance(f, jax.Array) and f.dtype == w.dtype
        np.testing.assert_allclose(f, w, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------- functions, here and in jax


def matmul_body(x, y, out):
    @tl.when(tl.program_id(2) == 0)
    def _():
        out[...] = tnp.zeros_like(out[...])

    out[...] += tnp.tanh(x[...]) @ y[...]


def blocked_matmul(x, y):
    (m, k), n = x.shape, y.shape[1]
    return tl.kernel_call(
        matmul_body,
        out_shape=tw.ShapeDtypeStruct((m, n), "float32"),
        grid=(m // 4, 1, k // 2),
        in_specs=[tl.BlockSpec((4, 2), lambda i, j, s: (i, s)), tl.BlockSpec((2, n), lambda i, j, s: (s, j))],
        out_specs=tl.BlockSpec((4, n), lambda i, j, s: (i, j)),
    )(x, y)


def layer_norm(x, s):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * s


def cumulative(x, y):
    def step(c, row):
        return c * tnp.cos(row) + row, c.sum()

    return lax.scan(step, x[0], y)


def cumulative_jax(x, y):
    return jax.lax.scan(lambda c, row: (c * jnp.cos(row) + row, c.sum()), x[0], y)


def attention(q, k):
    return jax.nn.dot_product_attention(q[None, :, None], k[None, :, None], k[None, :, None], is_causal=True)[0]


def attention_here(q, k):
    q, k = q[None, :, None], k[None, :, None]
    return nn.dot_product_attention(q, k, k, is_causal=True, implementation="fused")[0]


# name -> ours, jax's, the arguments' shapes, whether it has a forward-mode derivative
FUNCTIONS = {
    "elementwise": (lambda x, y: tnp.exp(-tnp.sin(x)) * y, lambda x, y: jnp.exp(-jnp.sin(x)) * y, [(3, 4), (4,)], True),
    "kernel": (blocked_matmul, lambda x, y: jnp.tanh(x) @ y, [(8, 4), (4, 3)], True),
    "jitted": (tw.jit(lambda x, y: (x @ y, x.sum())), lambda x, y: (x @ y, x.sum()), [(3, 4), (4, 5)], True),
    "scan": (cumulative, cumulative_jax, [(1, 3), (4, 3)], True),
    "softmax": (
        lambda x, y: nn.fused.softmax(x @ y), lambda x, y: jax.nn.softmax(x @ y), [(3, 4), (4, 5)], True,
    ),
    "layer norm": (nn.layer_norm, layer_norm, [(5, 8), (8,)], True),
    "attention": (attention_here, attention, [(6, 4), (6, 4)], False),
}  # fmt: skip
CASES = pytest.mark.parametrize("name", FUNCTIONS)


def made(name):
    ours, theirs, shapes, forward = FUNCTIONS[name]
    return tj.call(ours), theirs, [rng(*s, seed=i) for i, s in enumerate(shapes)], forward


def loss(f):
    return lambda *args: sum((jnp.cos(y) * y).sum() for y in jax.tree.leaves(f(*args)))


@pytest.mark.law
@CASES
def test_value(name):
    ours, theirs, args, _ = made(name)
    wanted = jax.jit(theirs)(*args)
    agree(ours(*args), wanted)
    agree(jax.jit(ours)(*args), wanted)


@pytest.mark.law
@CASES
def test_grad(name):
    ours, theirs, args, _ = made(name)
    wanted = jax.jit(jax.grad(loss(theirs), (0, 1)))(*args)
    agree(jax.grad(loss(ours), (0, 1))(*args), wanted)
    ways = [jax.grad(f, (0, 1)) for f in (loss(ours), jax.checkpoint(loss(ours)))]
    agree(jax.jit(lambda *args: [way(*args) for way in ways])(*args), [wanted, wanted])


@pytest.mark.law
@CASES
def test_vmap(name):
    ours, theirs, args, _ = made(name)
    batched = [jnp.stack([args[0], args[0] + 1, args[0] * 2], axis=-1), args[1]]
    axes = (args[0].ndim, None)
    agree(jax.vmap(ours, axes)(*batched), jax.jit(jax.vmap(theirs, axes))(*batched))
    grads = [jax.jit(jax.vmap(jax.grad(loss(f), (0, 1)), axes))(*batched) for f in (ours, theirs)]
    agree(*grads)


@pytest.mark.law
@CASES
def test_forward_mode(name):
    ours, theirs, args, forward = made(name)
    if not forward:  # its rule is a `custom_vjp`
        with pytest.raises(TypeError, match="forward"):
            jax.jvp(ours, tuple(args), tuple(args))
        return
    agree(*(jax.jit(lambda *xs: jax.jvp(f, xs, xs))(*args) for f in (ours, theirs)))  # noqa: B023  # used at once
    agree(*(jax.jit(jax.hessian(loss(f)))(*args) for f in (ours, theirs)), 2e-4)


def test_within_scan_and_cond():
    w = rng(4, 4) * 0.3

    def run(f, w):
        def step(carry, x):
            carry = jax.lax.cond(x.sum() > 0, f, lambda c, w: c, carry, w)
            return carry, carry.sum()

        return loss(lambda w: jax.lax.scan(step, rng(2, 4), rng(5, 3, seed=1)))(w)

    ours, theirs = tj.call(lambda x, w: tnp.tanh(x @ w)), lambda x, w: jnp.tanh(x @ w)
    agree(jax.value_and_grad(run, 1)(ours, w), jax.value_and_grad(run, 1)(theirs, w))


def test_is_one_equation_and_a_private_function():
    f = tj.call(blocked_matmul)
    x, y = rng(8, 4), rng(4, 3)
    jaxpr = jax.make_jaxpr(lambda x, y: f(f(x, y) @ y.T, y))(x, y)
    assert [e.primitive.name for e in jaxpr.eqns].count("tilewright") == 2
    text = jax.jit(lambda x, y: f(f(x, y) @ y.T, y)).lower(x, y).as_text()
    assert text.count("func.func private @tilewright_blocked_matmul") == 1 and "custom_call" not in text


def test_traced_once_for_each_kind_of_arguments():
    count = []

    def f(x):
        count.append(x.shape)
        return x + 1

    g = tj.call(f)
    for _ in range(3):
        g(jnp.ones(3)), jax.jit(lambda x: g(x) * 2)(jnp.ones(3)), g(jnp.ones(4))
    assert count == [(3,), (4,)]
    with jax.enable_x64(True):
        assert g(jnp.ones(3)).dtype == jnp.float64
    assert g(jnp.ones(3)).dtype == jnp.float32 and len(count) == 3


def test_pytrees_and_types():
    f = tj.call(lambda d, *, scale: {"double": d["x"] * 2, "rest": (d["n"] + 1, d["x"].sum() * scale), "none": None})
    out = f({"x": rng(3), "n": 3}, scale=jnp.bfloat16(2))
    agree(out["double"], rng(3) * 2)
    assert out["none"] is None and out["rest"][0].weak_type and int(out["rest"][0]) == 4
    grads = jax.grad(lambda x, n: f({"x": x, "n": n}, scale=2.0)["rest"][1], allow_int=True, argnums=(0, 1))(
        rng(3), jnp.arange(3)
    )
    agree(grads[0], jnp.full(3, 2.0))
    assert grads[1].dtype == jax.dtypes.float0
    agree(tj.call(lambda x: (x, x > 0))(rng(3)), (rng(3), rng(3) > 0))


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "uint32", "bool", "complex64", "float8_e4m3fn", "int4"])
def test_dtypes(dtype):
    x = jnp.ones((2, 3), dtype)
    out = jax.jit(tj.call(lambda x: (x, tnp.stack([x, x]))))(x)
    assert out[0].dtype == out[1].dtype == x.dtype and out[1].shape == (2, 2, 3)


def test_closed_over_arrays_of_either_library():
    ours, theirs = tnp.arange(3.0), jnp.arange(3.0)
    f = tj.call(lambda x: x * ours + theirs)
    agree(jax.jit(f)(jnp.ones(3)), 2 * theirs)
    grad = jax.grad(lambda y: tj.call(lambda x: tnp.sin(y) * x * ours)(theirs).sum())
    agree(jax.jit(grad)(theirs), jnp.cos(theirs) * theirs * theirs)


def test_our_arrays_go_in():
    x = tnp.arange(3.0)
    assert isinstance(tj.call(tnp.sin)(x), jax.Array)
    agree(tj.call(tnp.sin)(x), jnp.sin(jnp.arange(3.0)))


def test_errors():
    f = tj.call(lambda *args: args[0])
    with pytest.raises(NonArrayArgumentError, match="'relu'"):
        f(jnp.ones(3), "relu")
    with pytest.raises(DtypeError, match="key_data"):
        f(jax.random.key(0))
    with pytest.raises(DtypeError, match="key_data"):
        tj.call(lambda: tw.random.key(0))()
    with pytest.raises(UnsupportedError, match="effects"):
        tj.call(lambda x: tw.debug.print("{}", x) or x)(jnp.ones(3))
    with pytest.raises(UnsupportedError, match="pure_callback"):
        tj.call(lambda x: tw.pure_callback(np.sin, x, x))(jnp.ones(3))
    agree(tj.call(functools.partial(nn.softmax, axis=0))(jnp.ones((2, 1))), jnp.full((2, 1), 0.5))


def test_errors_within_jit_name_the_line_of_the_user():
    f = tj.call(lambda x: tw.pure_callback(np.sin, x, x))
    with pytest.raises(UnsupportedError, match=r"at: .*test_interop_jax.py:\d+"):
        jax.jit(f)(jnp.ones(3))


def test_registered_arrays_enter_functions_of_jax():
    x = tnp.arange(4.0)
    with pytest.raises(ValueError, match="__jax_array__"):
        jnp.sin(x)
    tj.register_arrays()
    tj.register_arrays()
    agree(jnp.sin(x), jnp.sin(jnp.arange(4.0)))
    agree(jax.jit(lambda a, b: a @ b)(x, jnp.ones(4)), jnp.float32(6))
    agree(jax.grad(lambda v: (v * v).sum())(x), 2 * jnp.arange(4.0))
    assert jax.tree.leaves(x)[0].unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert tw.tree.leaves({"a": x})[0] is x  # the package's own trees are not touched


def test_static_arguments():
    """Block sizes are known while tracing, one trace for each; traced they are refused with the remedy."""
    traces = []

    def double(x, rows=32, *, kind="twice"):
        traces.append((rows, kind))
        block = tl.BlockSpec((rows,), lambda i: (i,))

        def body(x, o):
            o[...] = x[...] * (2 if kind == "twice" else 3)

        out = tw.ShapeDtypeStruct(x.shape, x.dtype)
        return tl.kernel_call(body, out, grid=tl.cdiv(x.shape[0], rows), in_specs=[block], out_specs=block)(x)

    f = tj.call(static_argnames=("rows", "kind"))(double)
    x = jnp.ones(64)
    for _ in range(2):
        agree(f(x, rows=16), 2 * x)
        agree(jax.jit(lambda x: f(x, rows=8, kind="thrice"))(x), 3 * x)
    agree(f(x, 64), 2 * x)
    assert traces == [(16, "twice"), (8, "thrice"), (64, "twice")]
    with pytest.raises(tw.errors.ArgumentError, match="'row', which double does not take"):
        tj.call(double, static_argnames="row")
    with pytest.raises(tw.errors.NonHashableStaticArgumentError, match="hashable"):
        f(x, rows=[16])
    with pytest.raises(tw.errors.ArgumentTypeError, match="static_argnames"):
        tj.call(double)(x, rows=16)


@pytest.mark.parametrize("transform", [jax.jit, jax.grad])
def test_a_kernel_under_a_transformation_of_jax_names_call(transform):
    spec = tl.BlockSpec((8,), lambda i: (i,))

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    kernel = tl.kernel_call(body, tw.ShapeDtypeStruct((16,), "float32"), grid=2, in_specs=[spec], out_specs=spec)
    with pytest.raises(tw.errors.TracerArrayConversionError, match="jax is tracing") as raised:
        transform(lambda x: kernel(x)[0])(jnp.ones(16))
    assert "interop.jax.call(f)" in raised.value.remedy
