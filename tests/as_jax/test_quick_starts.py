"""The first program of each library's own documentation, under `as_jax`; skipped where the library is not installed."""

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
