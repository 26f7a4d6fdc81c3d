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
    "jraph": """
import jax, jax.numpy as jnp, jraph
graph = jraph.GraphsTuple(
    nodes=jnp.arange(3.0)[:, None], senders=jnp.array([0, 1, 2]), receivers=jnp.array([1, 2, 0]),
    edges=jnp.ones((3, 1)), n_node=jnp.array([3]), n_edge=jnp.array([3]), globals=jnp.zeros((1, 1)))
net = jraph.GraphNetwork(
    update_edge_fn=lambda edges, senders, receivers, globals_: edges * senders,
    update_node_fn=lambda nodes, sent, received, globals_: nodes + received)
assert jax.jit(net)(graph).nodes.ravel().tolist() == [2.0, 1.0, 3.0]
padded = jraph.pad_with_graphs(jraph.batch([graph, graph]), n_node=8, n_edge=8, n_graph=3)
assert jraph.get_node_padding_mask(padded).sum() == 6
""",
    "dm_pix": """
import jax, jax.numpy as jnp, dm_pix as pix
image = jax.random.uniform(jax.random.key(0), (8, 8, 3))
assert jnp.allclose(pix.flip_left_right(image), image[:, ::-1])
blurred = jax.jit(lambda x: pix.gaussian_blur(pix.adjust_brightness(x, 0.1), sigma=1.0, kernel_size=3))(image)
assert blurred.shape == (8, 8, 3)
assert pix.random_crop(jax.random.key(1), image, (4, 4, 3)).shape == (4, 4, 3)
assert pix.psnr(image, image * 0.9).shape == ()
""",
    "rlax": """
import jax, jax.numpy as jnp, rlax
q, action = jnp.array([[1.0, 2.0], [0.5, 0.0]]), jnp.array([0, 1])
td = jax.vmap(rlax.q_learning)(q, action, jnp.ones(2), jnp.full(2, 0.9), q)
assert jnp.allclose(td, jnp.array([1 + 0.9 * 2 - 1, 1 + 0.9 * 0.5 - 0]))
returns = rlax.lambda_returns(jnp.ones(4), jnp.full(4, 0.9), jnp.zeros(4), 1.0)
assert jnp.allclose(returns[-2], 1.9)
assert rlax.epsilon_greedy(0.1).sample(jax.random.key(0), q[0]).shape == ()
""",
    "tinygp": """
import jax, jax.numpy as jnp, tinygp
x = jnp.linspace(0, 3, 20)
y = jnp.sin(x)
def loss(params):
    kernel = jnp.exp(params["amplitude"]) * tinygp.kernels.ExpSquared(jnp.exp(params["scale"]))
    return -tinygp.GaussianProcess(kernel, x, diag=0.01).log_probability(y)
params = {"amplitude": jnp.float32(0.0), "scale": jnp.float32(0.0)}
value, grads = jax.jit(jax.value_and_grad(loss))(params)
along = (loss({**params, "scale": 0.01}) - loss({**params, "scale": -0.01})) / 0.02
assert jnp.allclose(grads["scale"], along, rtol=0.05, atol=0.05)
gp = tinygp.GaussianProcess(tinygp.kernels.Matern32(1.0), x, diag=0.01)
assert jnp.allclose(gp.condition(y, x).gp.mean, y, atol=0.1)
""",
    "flowjax": """
import jax, jax.numpy as jnp, jax.random as jr
from flowjax.bijections import Affine, RationalQuadraticSpline
from flowjax.distributions import Normal, StandardNormal, Transformed
from flowjax.flows import masked_autoregressive_flow
moved = Transformed(StandardNormal(), Affine(1.0, 2.0))
assert jnp.allclose(moved.log_prob(0.3), Normal(1.0, 2.0).log_prob(0.3), rtol=1e-5)
flow = masked_autoregressive_flow(
    jr.key(0), base_dist=Normal(jnp.zeros(2)), transformer=RationalQuadraticSpline(knots=4, interval=4), flow_layers=2)
samples = flow.sample(jr.key(1), (5,))
assert samples.shape == (5, 2) and flow.log_prob(samples).shape == (5,)
""",
    "jaxlie": """
import jax, jax.numpy as jnp, jaxlie
turn = jaxlie.SO3.exp(jnp.array([0.0, 0.0, jnp.pi / 2]))
assert jnp.allclose(turn @ jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0]), atol=1e-6)
assert jnp.allclose((turn.inverse() @ turn).log(), 0, atol=1e-6)
pose = jaxlie.SE3.from_rotation_and_translation(turn, jnp.ones(3))
slope = jaxlie.manifold.grad(lambda pose: jnp.sum(pose.log() ** 2))(pose)
assert slope.shape == (6,) and jax.vmap(jaxlie.SE3.exp)(jnp.zeros((4, 6))).wxyz_xyz.shape == (4, 7)
""",
    "e3nn_jax": """
import jax, jax.numpy as jnp, e3nn_jax as e3nn
x = e3nn.normal("2x0e + 1o", jax.random.key(0), (4,))
assert e3nn.tensor_product(x, x).irreps.dim == 25 and x.irreps.dim == 5
angles = (0.1, 0.2, 0.3)
harmonics = jax.jit(lambda v: e3nn.spherical_harmonics("1o + 2e", v, normalize=True))
v = e3nn.IrrepsArray("1o", jnp.array([1.0, 2.0, 3.0]))
turned = harmonics(v).transform_by_angles(*angles)
assert jnp.allclose(harmonics(v.transform_by_angles(*angles)).array, turned.array, atol=1e-4)
""",
    "penzai": """
import jax, jax.numpy as jnp
from penzai import pz
from penzai.models import simple_mlp
mlp = simple_mlp.MLP.from_config(name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[3, 8, 2])
x = pz.nx.wrap(jnp.ones((4, 3))).tag("batch", "features")
y = jax.jit(lambda x: mlp(x))(x)
assert dict(y.named_shape) == {"batch": 4, "features": 2}
assert jnp.allclose(pz.nx.nmap(jnp.sin)(x).unwrap("batch", "features"), jnp.sin(1.0))
""",
    "jmp": """
import jax, jax.numpy as jnp, jmp
policy = jmp.get_policy("params=float32,compute=float16,output=float32")
scale = jmp.DynamicLossScale(jnp.float32(2.0**8))
def loss(w, x):
    w, x = policy.cast_to_compute((w, x))
    return scale.scale(policy.cast_to_output((w * x).sum()))
grads = scale.unscale(jax.grad(loss)(jnp.ones(3), jnp.arange(3.0)))
assert jnp.allclose(grads, jnp.arange(3.0)) and jmp.all_finite(grads)
assert scale.adjust(jnp.bool_(False)).loss_scale == 2.0**7
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
