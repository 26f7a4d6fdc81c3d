"""Optimisers and layers: each against the reference's on the same numbers, and what they are for, a small training."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp
from tilewright import tree
from tilewright.core.support import errors
from tilewright.example_libraries import optimizers, stax

RULES = {
    "sgd": (0.1,), "momentum": (0.1, 0.9), "nesterov": (0.1, 0.9), "adagrad": (0.1,), "rmsprop": (0.1,),
    "rmsprop_momentum": (0.1,), "adam": (0.1,), "adamax": (0.1,), "sm3": (0.1,),
}  # fmt: skip
START = {"w": np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3), "b": np.float32([0.5, 0.0])}


def steps(library, name, namespace):
    """Parameters after some steps down a bowl, by one library's rule."""
    init, update, params = getattr(library, name)(*RULES[name])
    state = init({k: namespace.asarray(v) for k, v in START.items()})
    for i in range(5):
        state = update(i, {k: 2 * v for k, v in params(state).items()}, state)
    return {k: np.asarray(v) for k, v in params(state).items()}


@pytest.mark.law
@pytest.mark.parametrize("name", RULES)
def test_optimisers_step_as_the_reference(name):
    theirs = pytest.importorskip("jax.example_libraries.optimizers")
    jnp = pytest.importorskip("jax.numpy")
    found, expected = steps(optimizers, name, tnp), steps(theirs, name, jnp)
    for key in START:
        np.testing.assert_allclose(found[key], expected[key], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name, args", [
    ("constant", (0.1,)), ("exponential_decay", (0.1, 3, 0.5)), ("inverse_time_decay", (0.1, 3, 0.5, True)),
    ("polynomial_decay", (0.1, 3, 0.01, 2.0)), ("piecewise_constant", ([2, 4], [1.0, 0.5, 0.1])),
])  # fmt: skip
def test_schedules(name, args):
    theirs = getattr(pytest.importorskip("jax.example_libraries.optimizers"), name)(*args)
    ours = getattr(optimizers, name)(*args)
    np.testing.assert_allclose([float(ours(i)) for i in range(6)], [float(theirs(i)) for i in range(6)], rtol=1e-6)


def test_states_are_trees_and_are_unpacked():
    opt = optimizers.adam(0.1)
    state = opt.init_fn(START)
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    assert tree.flatten(again)[1] == tree.flatten(state)[1]
    assert tw.jit(opt.update_fn)(0, START, state).tree_def == state.tree_def
    with pytest.raises(errors.TreeError, match="gradients of structure"):
        opt.update_fn(0, {"w": START["w"]}, state)
    with pytest.raises(errors.ArgumentTypeError, match="no JoinPoint"):
        optimizers.pack_optimizer_state([1.0])


NETWORK = {
    "dense": (lambda s: s.serial(s.Dense(5), s.Tanh, s.Dense(2), s.LogSoftmax), (-1, 3)),
    "branches": (lambda s: s.serial(s.FanOut(2), s.parallel(s.Dense(3), s.Identity), s.FanInSum), (-1, 3)),
    "images": (lambda s: s.serial(
        s.Conv(4, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu, s.MaxPool((2, 2), (2, 2)), s.AvgPool((2, 2)),
        s.Flatten, s.Dense(2)), (-1, 6, 6, 1)),
    "upwards": (lambda s: s.ConvTranspose(3, (3, 3), (2, 2), "SAME"), (-1, 4, 4, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORK)
def test_networks_compute_as_the_reference(name):
    theirs = pytest.importorskip("jax.example_libraries.stax")
    make, shape = NETWORK[name]
    init, apply = make(stax)
    out, params = init(tw.random.key(0), shape)
    x = np.random.default_rng(0).standard_normal((2, *shape[1:]), dtype=np.float32)
    found = apply(params, x)
    assert out == (-1, *found.shape[1:])
    expected = make(theirs)[1](tree.map(np.asarray, params), x)
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-4, atol=1e-5)


def test_a_network_learns():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 2), dtype=np.float32)
    wanted = (x[:, :1] * x[:, 1:] > 0).astype(np.float32)
    init, apply = stax.serial(stax.Dense(16), stax.Relu, stax.Dense(1))
    opt = optimizers.adam(optimizers.exponential_decay(0.05, 50, 0.5))

    def loss(params):
        return tnp.mean((apply(params, x) - wanted) ** 2)

    @tw.jit
    def step(i, state):
        return opt.update_fn(i, tw.grad(loss)(opt.params_fn(state)), state)

    state = opt.init_fn(init(tw.random.key(0), (-1, 2))[1])
    before = float(loss(opt.params_fn(state)))
    for i in range(60):
        state = step(i, state)
    assert float(loss(opt.params_fn(state))) < 0.2 * before


def test_dropout_needs_a_key():
    init, apply = stax.Dropout(0.5)
    with pytest.raises(errors.ArgumentError, match="no key"):
        apply((), np.ones(3, np.float32))
    kept = np.asarray(apply((), np.ones(100, np.float32), rng=tw.random.key(0)))
    assert set(kept.tolist()) == {0.0, 2.0}
