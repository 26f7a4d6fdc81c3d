"""Sample a posterior by Hamiltonian Monte Carlo with blackjax, written for jax and run on this package.

    python examples/hamiltonian.py                    (needs blackjax; `tilewright clients` says how to install it)

A regression with unknown slope, offset and noise: the No-U-Turn sampler of Hoffman and Gelman (2014), its step size and
masses found by blackjax's window adaptation. Only the first two lines of code are of this package.
"""

import tilewright.as_jax

tilewright.as_jax.install()

import argparse  # noqa: E402
import sys  # noqa: E402

import blackjax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

SLOPE, OFFSET, NOISE, POINTS = 2.0, -1.0, 0.5, 100


def data():
    draw = np.random.default_rng(0)
    x = draw.uniform(-2, 2, POINTS).astype(np.float32)
    return x, (SLOPE * x + OFFSET + NOISE * draw.standard_normal(POINTS)).astype(np.float32)


X, Y = data()


def log_density(position):
    """The logarithm of the posterior, but for a constant: wide normal priors on everything."""
    prior = -0.5 * sum((v / 10.0) ** 2 for v in position.values())
    errors = (Y - position["slope"] * X - position["offset"]) / jnp.exp(position["log_noise"])
    return prior - 0.5 * (errors**2).sum() - POINTS * position["log_noise"]


def sampled(seed, count, warm_up=300):
    """Samples of the posterior, by name."""
    first, second = jax.random.split(jax.random.key(seed))
    start = {"slope": 0.0, "offset": 0.0, "log_noise": 0.0}
    (state, parameters), _ = blackjax.window_adaptation(blackjax.nuts, log_density).run(first, start, warm_up)
    kernel = blackjax.nuts(log_density, **parameters).step

    @jax.jit
    def chain(state, keys):
        return jax.lax.scan(lambda state, key: (kernel(key, state)[0],) * 2, state, keys)[1].position

    return {name: np.asarray(v) for name, v in chain(state, jax.random.split(second, count)).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1000)
    found = sampled(0, parser.parse_args().samples)
    found["noise"] = np.exp(found.pop("log_noise"))
    near = True
    for name, true in (("slope", SLOPE), ("offset", OFFSET), ("noise", NOISE)):
        mean, deviation = found[name].mean(), found[name].std()
        near &= abs(mean - true) < 4 * deviation
        print(f"{name:>6}: {mean:6.3f} +- {deviation:.3f} (in truth {true})")
    return 0 if near else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
