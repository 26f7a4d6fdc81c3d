"""The time of a training step of a model of optax, of flax and of equinox: the fastest of forty runs of ten steps.

    python -m tilewright.as_jax benchmarks/compatibility/client_steps.py      on this package
    python benchmarks/compatibility/client_steps.py                           on the real jax, in an environment that
                                                                              has it

Run the two in turn. Prints microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx  # type: ignore[import-not-found]
import flax.linen as nn  # type: ignore[import-not-found]
import jax
import jax.numpy as jnp
import optax  # type: ignore[import-not-found]

KEY = jax.random.key(0)
X, Y = jax.random.normal(KEY, (64, 32)), jax.random.normal(jax.random.key(1), (64, 4))


def fastest(step: Callable[..., Any], *state: Any) -> float:
    """Microseconds of a step."""
    state = step(*state)
    jax.block_until_ready(state)
    times = []
    for _ in range(40):
        start = time.perf_counter()
        for _ in range(10):
            state = step(*state)
        jax.block_until_ready(state)
        times.append((time.perf_counter() - start) / 10)
    return round(1e6 * min(times), 1)


def stepping(loss: Callable[[Any], Any], opt: Any) -> Callable[..., Any]:
    """A compiled step of an optimiser."""

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = opt.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    return step


def of_optax() -> float:
    params = {"a": jax.random.normal(KEY, (32, 64)) / 6, "b": jax.random.normal(KEY, (64, 4)) / 8}
    opt = optax.adamw(1e-3)
    step = stepping(lambda p: jnp.mean((jnp.tanh(X @ p["a"]) @ p["b"] - Y) ** 2), opt)
    return fastest(step, params, opt.init(params))


def of_flax() -> float:
    model = nn.Sequential([nn.Dense(64), nn.gelu, nn.Dense(64), nn.gelu, nn.Dense(4)])
    params, opt = model.init(KEY, X), optax.adam(1e-3)
    step = stepping(lambda p: jnp.mean((model.apply(p, X) - Y) ** 2), opt)
    return fastest(step, params, opt.init(params))


def of_equinox() -> float:
    model, opt = eqx.nn.MLP(32, 4, 64, 2, key=KEY), optax.adam(1e-3)

    @eqx.filter_jit
    def step(model: Any, state: Any) -> Any:
        grads = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(X) - Y) ** 2))(model)
        updates, state = opt.update(grads, state)
        return eqx.apply_updates(model, updates), state

    return fastest(step, model, opt.init(eqx.filter(model, eqx.is_array)))


if __name__ == "__main__":
    print({measure.__name__.removeprefix("of_"): measure() for measure in (of_optax, of_flax, of_equinox)})
