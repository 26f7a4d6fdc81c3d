"""Programs in the style of libraries that need not be here, as they would be written for jax, under `as_jax`."""

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

PROGRAMS = {
    # Inverses and densities of transformed variables, found by walking the function's jaxpr, as oryx does it.
    "programs inverted": """
import jax, jax.numpy as jnp
from jax import lax
from jax.extend import core
from jax.extend.core import primitives as p

ildj_rules = {  # of an equation with one unknown operand: that operand, and the logarithm of its derivative's size
    p.exp_p: lambda out: (jnp.log(out), -jnp.log(out)),
    p.log_p: lambda out: (jnp.exp(out), out),
    p.tanh_p: lambda out: (jnp.arctanh(out), -jnp.log1p(-(out**2))),
    p.neg_p: lambda out: (-out, jnp.zeros_like(out)),
    p.logistic_p: lambda out: (jnp.log(out) - jnp.log1p(-out), -jnp.log(out) - jnp.log1p(-out)),
}
binary_rules = {
    p.add_p: lambda out, k, left: (out - k, jnp.zeros_like(out)),
    p.sub_p: lambda out, k, left: ((k - out) if left else (out + k), jnp.zeros_like(out)),
    p.mul_p: lambda out, k, left: (out / k, -jnp.log(jnp.abs(k)) * jnp.ones_like(out)),
    p.div_p: lambda out, k, left: ((k / out, jnp.log(jnp.abs(k)) - 2 * jnp.log(jnp.abs(out))) if left
                                   else (out * k, jnp.log(jnp.abs(k)) * jnp.ones_like(out))),
}

def inverse_and_ildj(f):
    def inverse(y):
        closed = jax.make_jaxpr(f)(y)
        return interpret(closed.jaxpr, closed.consts, [None], y)
    return inverse

def interpret(jaxpr, consts, args, y):  # of the arguments one is None: that which is looked for
    known = dict(zip(jaxpr.constvars, consts)) | {v: x for v, x in zip(jaxpr.invars, args) if x is not None}
    for eqn in jaxpr.eqns:  # what does not depend on the argument
        read = lambda a: a.val if isinstance(a, core.Literal) else known[a]
        if all(isinstance(a, core.Literal) or a in known for a in eqn.invars):
            out = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
            known.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    wanted, ildj = {jaxpr.outvars[0]: y}, jnp.zeros_like(y)
    for eqn in reversed(jaxpr.eqns):
        if eqn.outvars[0] not in wanted:
            continue
        out = wanted[eqn.outvars[0]]
        unknown = [a for a in eqn.invars if not isinstance(a, core.Literal) and a not in known]
        if eqn.primitive is p.jit_p:
            inner = eqn.params["jaxpr"]
            given = [None if a is unknown[0] else read(a) for a in eqn.invars]
            x, part = interpret(inner.jaxpr, inner.consts, given, out)
        elif eqn.primitive in ildj_rules:
            x, part = ildj_rules[eqn.primitive](out)
        else:
            left = eqn.invars[1] is unknown[0]
            k = read(eqn.invars[0] if left else eqn.invars[1])
            x, part = binary_rules[eqn.primitive](out, k, left)
        wanted[unknown[0]], ildj = x, ildj + part
    return wanted[jaxpr.invars[args.index(None)]], ildj

def inverse(f):
    return lambda y: inverse_and_ildj(f)(y)[0]

def log_prob(f, base):
    def density(y):
        x, ildj = inverse_and_ildj(f)(y)
        return base(x) + ildj
    return density

normal = lambda x: -0.5 * x**2 - 0.5 * jnp.log(2 * jnp.pi)
scale = jnp.asarray(0.5)
f = lambda x: jnp.exp(jax.jit(lambda z: 2.0 * z - scale)(x)) + 1.0
xs = jnp.linspace(-1.0, 1.0, 5)
assert jnp.allclose(inverse(f)(f(xs)), xs, atol=1e-5)
slope = jax.vmap(jax.grad(f))(xs)
assert jnp.allclose(inverse_and_ildj(f)(f(xs))[1], -jnp.log(jnp.abs(slope)), atol=1e-5)
lognormal = jax.jit(log_prob(jnp.exp, normal))
assert jnp.allclose(lognormal(2.0), jax.scipy.stats.norm.logpdf(jnp.log(2.0)) - jnp.log(2.0), atol=1e-6)
ys = jnp.linspace(-0.999, 0.999, 20001)
assert abs(jnp.trapezoid(jnp.exp(log_prob(jnp.tanh, normal)(ys)), ys) - 1) < 1e-2
gradient = jax.grad(lambda s: log_prob(lambda x: s * x, normal)(3.0))(2.0)
assert jnp.allclose(gradient, 9 / 8 - 1 / 2, atol=1e-5)
""",
    # A layer of attention whose weights and activations have logical axes, as maxtext lays them out.
    "attention with logical axes": """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

RULES = (("batch", "data"), ("heads", "tensor"), ("mlp", "tensor"), ("embed", None), ("length", None), ("kv", None))

def logical_to_mesh(axes):
    rules = dict(RULES)
    return P(*(rules.get(a) for a in axes))

def constrain(x, *axes):
    return jax.lax.with_sharding_constraint(x, logical_to_mesh(axes))

WEIGHTS = {"query": ("embed", "heads", "kv"), "key": ("embed", "heads", "kv"), "value": ("embed", "heads", "kv"),
           "out": ("heads", "kv", "embed"), "up": ("embed", "mlp"), "down": ("mlp", "embed")}
SIZES = {"embed": 16, "heads": 4, "kv": 8, "mlp": 32}

def init(key):
    keys = jax.random.split(key, len(WEIGHTS))
    shape = lambda axes: tuple(SIZES[a] for a in axes)
    return {n: jax.random.normal(k, shape(axes)) * 0.1 for k, (n, axes) in zip(keys, WEIGHTS.items())}

def layer(params, x):
    x = constrain(x, "batch", "length", "embed")
    q, k, v = (constrain(jnp.einsum("btd,dhk->bthk", x, params[n]), "batch", "length", "heads", "kv")
               for n in ("query", "key", "value"))
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / np.sqrt(SIZES["kv"])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = constrain(jax.nn.softmax(jnp.where(mask, scores, -1e9)), "batch", "heads", "length", "length2")
    x = x + jnp.einsum("bthk,hkd->btd", jnp.einsum("bhts,bshk->bthk", weights, v), params["out"])
    hidden = constrain(jax.nn.gelu(x @ params["up"]), "batch", "length", "mlp")
    return constrain(x + hidden @ params["down"], "batch", "length", "embed")

def loss(params, x):
    return jnp.mean(layer(params, x) ** 2)

key = jax.random.key(0)
x = jax.random.normal(jax.random.key(1), (4, 6, 16))
mesh = jax.make_mesh((2, 2), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2)
with jax.set_mesh(mesh):
    shardings = {n: NamedSharding(mesh, logical_to_mesh(axes)) for n, axes in WEIGHTS.items()}
    params = jax.jit(init, out_shardings=shardings)(key)
    batch = jax.device_put(x, NamedSharding(mesh, P("data")))
    step = jax.jit(jax.value_and_grad(loss), out_shardings=(None, shardings))
    value, grads = step(params, batch)
    assert grads["query"].sharding.is_equivalent_to(NamedSharding(mesh, P(None, "tensor", None)), 3)
    assert params["up"].addressable_shards[0].data.shape == (16, 16)

one = jax.make_mesh((1, 1), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[:1])
with jax.set_mesh(one):
    alone, alone_grads = jax.jit(jax.value_and_grad(loss))({n: np.asarray(w) for n, w in params.items()}, x)
assert jnp.allclose(np.asarray(value), np.asarray(alone), rtol=1e-5)
assert all(np.allclose(np.asarray(grads[n]), np.asarray(alone_grads[n]), atol=1e-5) for n in WEIGHTS)

# The same layer where the types of arrays tell how they lie.
explicit = jax.make_mesh((2, 2), ("data", "tensor"))
with jax.set_mesh(explicit):
    w = jax.device_put(np.asarray(params["query"]), logical_to_mesh(WEIGHTS["query"]))
    q = jnp.einsum("btd,dhk->bthk", jax.device_put(x, P("data")), w)
    assert str(jax.typeof(q)) == "float32[4@data,6,4@tensor,8]"
    back = jnp.einsum("bthk,dhk->btd", q, w, out_sharding=logical_to_mesh(("batch", "length", "embed")))
    assert jax.typeof(back).sharding.spec == P("data", None, None)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    environment = os.environ | {"TILEWRIGHT_NUM_CPU_DEVICES": "4", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "tilewright.as_jax", "-c", PROGRAMS[name]]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
