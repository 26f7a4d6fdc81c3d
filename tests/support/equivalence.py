"""Two functions that mean the same agree under every composition of transformations."""

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import numpy as tnp
from tilewright.core.ir.binding import under
from tilewright.core.tracing.numpy_interpreter import NUMPY


def scalar(f: Callable[..., Any]) -> Callable[..., Any]:
    """A smooth scalar of a function's outputs, so that every output has a part in the gradient."""

    def total(*args: Any) -> Any:
        leaves = tw.tree.leaves(f(*args))
        return sum(tnp.sum(tnp.sin(x) * (i + 1.0)) for i, x in enumerate(leaves))

    return total


def every(n: int) -> tuple[int, ...]:
    return tuple(range(n))


TRANSFORMS: dict[str, Callable[[Callable[..., Any], int], Callable[..., Any]]] = {
    "value": lambda f, n: f,
    "jit": lambda f, n: tw.jit(f),
    "jvp": lambda f, n: lambda *xs: tw.jvp(f, xs, tuple(x * 0.5 + 1.0 for x in xs)),
    "grad": lambda f, n: tw.grad(scalar(f), every(n)),
    "jit_grad": lambda f, n: tw.jit(tw.grad(scalar(f), every(n))),
    "grad_jit": lambda f, n: tw.grad(scalar(tw.jit(f)), every(n)),
    "grad_of_one": lambda f, n: lambda *xs: [tw.grad(scalar(f), i)(*xs) for i in range(n)],
    "jvp_of_grad": lambda f, n: lambda *xs: tw.jvp(tw.grad(scalar(f), every(n)), xs, xs),
    "grad_of_grad": lambda f, n: tw.grad(scalar(tw.grad(scalar(f), every(n))), every(n)),
    "vmap": lambda f, n: lambda *xs: tw.vmap(f)(*map(twice, xs)),
    "vmap_one": lambda f, n: lambda *xs: tw.vmap(f, in_axes=(0, *(None,) * (n - 1)))(twice(xs[0]), *xs[1:]),
    "vmap_grad": lambda f, n: lambda *xs: tw.vmap(tw.grad(scalar(f), every(n)))(*map(twice, xs)),
    "grad_vmap": lambda f, n: lambda *xs: tw.grad(scalar(tw.vmap(f)), every(n))(*map(twice, xs)),
    "jit_grad_vmap_jit": lambda f, n: (
        lambda *xs: tw.jit(tw.grad(scalar(tw.vmap(tw.jit(f))), every(n)))(*map(twice, xs))
    ),
}
FORWARD = ("value", "jit", "jvp", "vmap", "vmap_one")
SOME = ("jvp", "grad", "grad_vmap")  # for variants of what is tested under all elsewhere


def twice(x: Any) -> Any:
    return tnp.stack([x, 0.5 * x - 0.25])


def agree(name: str, f: Callable[..., Any], g: Callable[..., Any], *args: Any) -> None:
    """Assert that two functions agree under one of `TRANSFORMS`, the second one computed in NumPy.

    What has no `jit` of its own is computed operation by operation, in NumPy, and compiled as one program.
    """
    first, second = (TRANSFORMS[name](h, len(args)) for h in (f, g))
    expected = tw.tree.leaves(by_numpy(second, *args))
    results = [tw.tree.leaves((first if "jit" in name else tw.jit(first))(*args))]
    if "jit" not in name:
        results.append(tw.tree.leaves(under(NUMPY, first, *args)))
    for found in results:
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-3, atol=1e-4)


def draws(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.5, 1.5, s).astype(np.float32) for s in shapes]
