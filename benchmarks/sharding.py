"""Programs over eight virtual CPU devices: calls, a training step on each device's part, resharding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Api, versus
from .harness import per_call as timed

DEVICES = 8
WIDTH, BATCH = 256, 64


def mesh_of(api: Api, *shape: int) -> Any:
    """A mesh of eight virtual devices, its axes named x, y, ..."""
    name = "num_cpu_devices" if api.name == "tilewright" else "jax_num_cpu_devices"
    api.config.update(name, DEVICES)
    return api.sharding.Mesh(np.array(api.devices()).reshape(shape), tuple("xyz"[: len(shape)]))


def placed(api: Api, mesh: Any, x: np.ndarray, *spec: Any) -> Any:
    return api.device_put(x, api.sharding.NamedSharding(mesh, api.sharding.PartitionSpec(*spec)))


def call(count: int) -> Callable[[Api], float]:
    """A jitted sum of `count` small arrays that lie on the mesh."""

    def measure(api: Api) -> float:
        mesh = mesh_of(api, DEVICES)
        args = [placed(api, mesh, np.ones(64, np.float32), "x") for _ in range(count)]
        f = api.jit(lambda *args: sum(args[1:], start=args[0]))
        return timed(lambda: f(*args), api.block_until_ready, calls=100)

    return measure


def eager(api: Api) -> float:
    mesh = mesh_of(api, DEVICES)
    a = placed(api, mesh, np.ones(64, np.float32), "x")
    return timed(lambda: a + a, api.block_until_ready, calls=100)


def tree(api: Api) -> float:
    """A jitted function of a dictionary of 20 arrays."""
    mesh = mesh_of(api, 4, 2)
    params = {f"w{i}": placed(api, mesh, np.ones((8, 8), np.float32), "x", "y") for i in range(20)}
    f = api.jit(lambda p: {name: 2 * v for name, v in p.items()})
    return timed(lambda: f(params), api.block_until_ready, calls=30)


def mapped_step(api: Api) -> float:
    """A step of gradient descent by `shard_map`: data split along x, the gradient summed by `psum`."""
    mesh, spec = mesh_of(api, DEVICES), api.sharding.PartitionSpec
    rng = np.random.default_rng(0)
    weights = [placed(api, mesh, rng.standard_normal((WIDTH, WIDTH), np.float32) * 0.05) for _ in range(3)]
    x = placed(api, mesh, rng.standard_normal((BATCH, WIDTH), np.float32), "x")

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = api.np.tanh(x @ w)
        return api.lax.pmean(api.np.mean(x * x), "x")

    def step(weights: Any, x: Any) -> Any:
        found, gradients = api.value_and_grad(loss)(weights, x)
        return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], found

    run = api.jit(api.shard_map(step, mesh=mesh, in_specs=(spec(), spec("x")), out_specs=(spec(), spec())))
    return timed(lambda: run(weights, x), api.block_until_ready, calls=5)


def global_step(api: Api) -> float:
    """The same in the global view: data split along x, weights along y, the compiler inserts the sums."""
    mesh = mesh_of(api, 4, 2)
    rng = np.random.default_rng(0)
    weights = [placed(api, mesh, rng.standard_normal((WIDTH, WIDTH), np.float32) * 0.05, None, "y") for _ in range(3)]
    x = placed(api, mesh, rng.standard_normal((BATCH, WIDTH), np.float32), "x")

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = api.np.tanh(x @ w)
        return api.np.mean(x * x)

    def step(weights: Any, x: Any) -> Any:
        return [w - 0.1 * g for w, g in zip(weights, api.grad(loss)(weights, x), strict=True)]

    run = api.jit(step)
    return timed(lambda: run(weights, x), api.block_until_ready, calls=5)


def reshard(api: Api) -> float:
    """One megabyte from rows along x to columns along y."""
    mesh = mesh_of(api, 4, 2)
    x = placed(api, mesh, np.ones((512, 512), np.float32), "x")
    to = api.sharding.NamedSharding(mesh, api.sharding.PartitionSpec(None, "y"))
    return timed(lambda: api.device_put(x, to), api.block_until_ready, calls=10)


def put(api: Api) -> float:
    """One megabyte of the host's memory in eight parts."""
    mesh = mesh_of(api, 4, 2)
    x = np.ones((512, 512), np.float32)
    return timed(lambda: placed(api, mesh, x, "x", "y"), api.block_until_ready, calls=10)


def read(api: Api) -> float:
    """A result of one megabyte in eight parts as one NumPy array."""
    mesh = mesh_of(api, 4, 2)
    x = placed(api, mesh, np.ones((512, 512), np.float32), "x", "y")
    f = api.jit(lambda x: x + 1)
    return timed(lambda: np.asarray(f(x)), lambda y: y, calls=10)


CASES = [
    versus("sharded a + b, eager", eager, 1.0),
    versus("sharded jit, 2 arguments", call(2), 1.0),
    versus("sharded jit, 8 arguments", call(8), 1.0),
    versus("sharded jit, a tree of 20", tree, 1.0),
    versus("shard_map training step", mapped_step, 1.0),
    versus("global-view training step", global_step, 1.0),
    versus("reshard 1 MB", reshard, 1.0),
    versus("put 1 MB in 8 parts", put, 1.0),
    versus("compute and read 1 MB in 8 parts", read, 1.0),
]
