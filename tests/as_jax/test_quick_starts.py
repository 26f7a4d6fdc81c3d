"""A first program with each library, in the style of its documentation, under `as_jax`; skipped where it is absent."""

import importlib.util
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

PROGRAMS = {
    "optax": """
import jax, jax.numpy as jnp, optax
params = {"w": jnp.ones(2)}
solver = optax.adam(learning_rate=0.1)
state = solver.init(params)
xs, ys = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]), jnp.array([5.0, 6.0, 9.0])
loss = lambda params: jnp.mean(optax.l2_loss(xs @ params["w"], ys))
first = loss(params)
for _ in range(60):
    grads = jax.grad(loss)(params)
    updates, state = solver.update(grads, state, params)
    params = optax.apply_updates(params, updates)
assert loss(params) < first
""",
    "flax": """
import jax, jax.numpy as jnp, flax.linen as nn
from flax import nnx
class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.relu(nn.Dense(8)(x)))
model = MLP()
x = jnp.ones((4, 3))
variables = model.init(jax.random.key(0), x)
assert jax.jit(model.apply)(variables, x).shape == (4, 2)
grads = jax.grad(lambda v: model.apply(v, x).sum())(variables)
assert jnp.allclose(grads["params"]["Dense_0"]["bias"], 4.0)
layer = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
@nnx.jit
def step(layer, x):
    value, grads = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(layer)
    return value
assert step(layer, x) > 0
""",
    "equinox": """
import equinox as eqx, jax, jax.numpy as jnp
class Linear(eqx.Module):
    weight: jax.Array
    def __init__(self, size, key):
        self.weight = jax.random.normal(key, (size,))
    def __call__(self, x):
        return self.weight @ x
@eqx.filter_jit
@eqx.filter_grad
def gradient(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)
grads = gradient(Linear(3, jax.random.key(0)), jnp.ones((5, 3)), jnp.zeros(5))
assert grads.weight.shape == (3,)
mlp = eqx.nn.MLP(2, 1, 8, 2, key=jax.random.key(1))
assert eqx.filter_jit(mlp)(jnp.ones(2)).shape == (1,)
""",
    "haiku": """
import haiku as hk, jax, jax.numpy as jnp
forward = hk.transform(lambda x: hk.nets.MLP([8, 2])(x))
params = forward.init(jax.random.PRNGKey(0), jnp.ones((4, 3)))
assert jax.jit(forward.apply)(params, None, jnp.ones((4, 3))).shape == (4, 2)
""",
    "chex": """
import chex, jax, jax.numpy as jnp
@chex.dataclass
class Point:
    x: jax.Array
    y: jax.Array
moved = jax.tree.map(lambda v: v + 1, Point(x=jnp.zeros(2), y=jnp.ones(2)))
chex.assert_trees_all_close(moved.x, jnp.ones(2))
chex.assert_shape(moved.y, (2,))
""",
    "distrax": """
import distrax, jax, jax.numpy as jnp
normal = distrax.MultivariateNormalDiag(jnp.array([-1.0, 1.0]), jnp.array([0.5, 1.0]))
sample = normal.sample(seed=jax.random.PRNGKey(0))
assert jnp.isfinite(jax.jit(normal.log_prob)(sample))
""",
    "lineax": """
import jax, jax.numpy as jnp, lineax as lx
matrix = jnp.array([[4.0, 1.0], [1.0, 3.0]])
solution = lx.linear_solve(lx.MatrixLinearOperator(matrix), jnp.array([1.0, 2.0]))
assert jnp.allclose(matrix @ solution.value, jnp.array([1.0, 2.0]), atol=1e-5)
""",
    "optimistix": """
import jax, jax.numpy as jnp, optimistix as optx
found = optx.root_find(lambda y, args: y**2 - args, optx.Newton(rtol=1e-4, atol=1e-4), jnp.array(1.0), 2.0)
assert jnp.allclose(found.value, jnp.sqrt(2.0), atol=1e-3)
""",
    "jaxopt": """
import jax, jax.numpy as jnp, jaxopt
found = jaxopt.GradientDescent(lambda x: jnp.sum((x - 3.0) ** 2), maxiter=100).run(jnp.zeros(2))
assert jnp.allclose(found.params, 3.0, atol=1e-2)
""",
    "numpyro": """
import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
x = jax.random.normal(jax.random.key(0), (100, 2))
y = x @ jnp.array([1.0, -2.0]) + 0.1 * jax.random.normal(jax.random.key(1), (100,))
def model(x, y=None):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(2), 3.0).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ w, scale), obs=y)
mcmc = MCMC(NUTS(model), num_warmup=100, num_samples=100, progress_bar=False)
mcmc.run(jax.random.key(2), x, y)
assert jnp.allclose(mcmc.get_samples()["w"].mean(0), jnp.array([1.0, -2.0]), atol=0.1)
guide = AutoNormal(model)
svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
found = svi.run(jax.random.key(3), 300, x, y, progress_bar=False)
assert jnp.allclose(guide.median(found.params)["w"], jnp.array([1.0, -2.0]), atol=0.2)
""",
    "blackjax": """
import blackjax, jax, jax.numpy as jnp
from jax.scipy import stats
def log_density(x):
    return stats.norm.logpdf(x["place"], 1.0, 2.0).sum() + stats.norm.logpdf(x["other"])
warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
(state, parameters), _ = warmup.run(jax.random.key(0), {"place": jnp.zeros(2), "other": 0.0}, num_steps=200)
step = jax.jit(blackjax.nuts(log_density, **parameters).step)
def one(state, key):
    state, info = step(key, state)
    return state, (state.position["place"], info.acceptance_rate)
_, (places, accepted) = jax.lax.scan(one, state, jax.random.split(jax.random.key(1), 400))
assert jnp.abs(places.mean(0) - 1.0).max() < 0.7 and 0.5 < accepted.mean() <= 1
""",
    "diffrax": """
import diffrax, jax, jax.numpy as jnp
def decayed(rate):
    term = diffrax.ODETerm(lambda t, y, args: -args * y)
    controller = diffrax.PIDController(rtol=1e-5, atol=1e-5)
    return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 3.0, 0.1, jnp.array([2.0, 3.0]), args=rate,
                               stepsize_controller=controller).ys[-1]
assert jnp.allclose(decayed(1.0), jnp.array([2.0, 3.0]) * jnp.exp(-3.0), rtol=1e-3)
assert jnp.allclose(jax.grad(lambda rate: decayed(rate).sum())(1.0), -15 * jnp.exp(-3.0), rtol=1e-3)
""",
    "mctx": """
import jax, jax.numpy as jnp, mctx
def model(params, key, action, embedding):
    output = mctx.RecurrentFnOutput(
        reward=jnp.where(action == 1, 1.0, 0.0), discount=jnp.full(action.shape, 0.9),
        prior_logits=jnp.zeros((action.shape[0], 3)), value=jnp.zeros(action.shape[0]))
    return output, embedding
root = mctx.RootFnOutput(prior_logits=jnp.zeros((2, 3)), value=jnp.zeros(2), embedding=jnp.zeros((2, 1)))
search = jax.jit(lambda key: mctx.gumbel_muzero_policy(None, key, root, model, num_simulations=16, max_depth=4))
assert search(jax.random.key(0)).action.tolist() == [1, 1]
""",
    "ott": """
import jax, jax.numpy as jnp
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn
x, y = jax.random.normal(jax.random.key(0), (20, 2)), jax.random.normal(jax.random.key(1), (30, 2)) + 0.5
def cost(x):
    problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.1))
    return sinkhorn.Sinkhorn()(problem).reg_ot_cost
eps, along = 1e-2, jnp.ones_like(x) / 7
slope = (cost(x + eps * along) - cost(x - eps * along)) / (2 * eps)
assert jnp.allclose((jax.grad(cost)(x) * along).sum(), slope, rtol=0.05)
""",
}


@pytest.mark.parametrize("library", PROGRAMS)
def test_first_program(library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.as_jax", "-c", PROGRAMS[library]], capture_output=True, text=True,
        timeout=300, env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
