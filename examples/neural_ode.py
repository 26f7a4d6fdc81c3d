"""Learn a differential equation from its paths with equinox and diffrax, written for jax and run on this package.

    python examples/neural_ode.py                     (needs diffrax, equinox, optax; see `tilewright clients`)

The paths are those of a damped pendulum. A network stands for its right side; the gradient goes through the solver
(Chen et al., "Neural Ordinary Differential Equations", 2018). Only the first two lines of code are of this package.
"""

import tilewright.as_jax

tilewright.as_jax.install()

import argparse  # noqa: E402
import sys  # noqa: E402

import diffrax  # noqa: E402
import equinox  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

TIMES = jnp.linspace(0.0, 4.0, 41)


def pendulum(t, y, args):
    """The angle and its speed change by the speed, and by weight and friction."""
    return jnp.stack([y[1], -2.0 * jnp.sin(y[0]) - 0.2 * y[1]])


def path(right_side, start):
    """The states at TIMES from a start, by Tsitouras' method of order 5 in adaptive steps."""
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(right_side), diffrax.Tsit5(), t0=0.0, t1=TIMES[-1], dt0=0.1, y0=start,
        saveat=diffrax.SaveAt(ts=TIMES), stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
    )  # fmt: skip
    return found.ys


def train(steps):
    """The network, and the loss of every step."""
    keys = jax.random.split(jax.random.key(0), 2)
    starts = jax.random.uniform(keys[0], (16, 2), minval=-1.5, maxval=1.5)
    seen = jax.jit(jax.vmap(lambda s: path(pendulum, s)))(starts)
    network = equinox.nn.MLP(2, 2, width_size=32, depth=2, activation=jnp.tanh, key=keys[1])
    optimiser = optax.adam(5e-3)

    @equinox.filter_value_and_grad
    def loss(network, count):
        found = jax.vmap(lambda s: path(lambda t, y, args: network(y), s))(starts)
        return jnp.mean((found[:, :count] - seen[:, :count]) ** 2)

    @equinox.filter_jit
    def step(network, state, count):
        value, grads = loss(network, count)
        updates, state = optimiser.update(grads, state)
        return equinox.apply_updates(network, updates), state, value

    state, losses = optimiser.init(equinox.filter(network, equinox.is_array)), []
    for i in range(steps):  # a tenth of each path first, which is easier
        network, state, value = step(network, state, 5 if i < steps // 5 else len(TIMES))
        losses.append(float(value))
    return network, losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    network, losses = train(parser.parse_args().steps)
    start = jnp.array([1.0, 0.0])
    worst = jnp.abs(path(lambda t, y, args: network(y), start) - path(pendulum, start)).max()
    print(f"loss {losses[0]:.3f} to {losses[-1]:.5f}; a new path is followed to within {float(worst):.3f}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
