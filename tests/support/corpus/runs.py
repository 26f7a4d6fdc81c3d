"""The kernels of the corpus by name, their sizes as parameters, their operands and their derivatives."""

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support.corpus.kit import Size
from tilewright import numpy as tnp
from tilewright.core.support import pytree

NAMES = (
    "saxpy", "transpose", "softmax", "layer_norm", "matmul_loop", "matmul_grid", "batched_matmul", "fused_matmul",
    "reduction", "cumsum", "conv1d", "conv2d", "stencil", "embedding", "block_sparse_matmul", "grouped_matmul",
    "histogram", "flash_attention", "selective_scan", "dropout", "int8_matmul", "int4_matmul", "in_place", "async_copy",
)  # fmt: skip

KERNELS = {name: importlib.import_module(f"tests.support.corpus.{name}") for name in NAMES}


def over_sizes(names: Any, which: slice = slice(None), usual: slice = slice(None)) -> Any:
    """Parametrized by kernel, size, and mode where the kernel has several; what is not `usual` is behind `targets`."""
    cases = []
    for name in names:
        kernel = KERNELS[name]
        sizes = kernel.SIZES[which]
        for size in sizes:
            marks = () if size in sizes[usual] else pytest.mark.targets
            for mode in getattr(kernel, "MODES", ({},)):
                label = "-".join([name, repr(size), *(f"{k}={v}" for k, v in mode.items())])
                cases.append(pytest.param(kernel, size, mode, id=label, marks=marks))
    return pytest.mark.parametrize(("kernel", "size", "mode"), cases)


SMOOTH = [name for name in NAMES if KERNELS[name].DIFFERENTIABLE]


def operands(kernel: ModuleType, size: Size) -> tuple[Any, ...]:
    return kernel.make(np.random.default_rng(sum(map(ord, repr(size)))), *size.dims)


def close(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    got, expected = pytree.leaves(got), pytree.leaves(expected)
    assert len(got) == len(expected)
    for g, e in zip(got, expected):
        g, e = np.asarray(g), np.asarray(e)
        assert g.shape == e.shape
        scale = max(1.0, float(np.abs(e).max(initial=0))) if e.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance * scale)


class Split:
    """A kernel of its differentiable arguments alone, the others fixed, and the scalar function tested with it."""

    def __init__(self, kernel: ModuleType, size: Size, mode: dict[str, Any]):
        self.kernel, self.size, self.mode = kernel, size, mode
        self.all = operands(kernel, size)
        self.places = kernel.DIFFERENTIABLE
        self.xs = tuple(self.all[i] for i in self.places)
        rng = np.random.default_rng(len(kernel.__name__))
        self.vs = tuple(rng.standard_normal(x.shape).astype(x.dtype) for x in self.xs)
        outs = pytree.leaves(self.reference(np, *self.xs))
        self.weights = [rng.standard_normal(np.shape(o)).astype(np.float32) for o in outs]

    def full(self, xs: Any) -> list[Any]:
        given = dict(zip(self.places, xs))
        return [given.get(i, x) for i, x in enumerate(self.all)]

    def call(self, *xs: Any) -> Any:
        return self.kernel.call(*self.full(xs), **self.size.blocks, **self.mode)

    def reference(self, np: Any, *xs: Any) -> Any:
        return self.kernel.reference(np, *self.full(xs), **self.mode)

    def weighted(self, outs: Any) -> Any:
        return sum((w * o).sum() for w, o in zip(self.weights, pytree.leaves(outs)))

    def loss(self, *xs: Any) -> Any:
        return self.weighted(self.call(*xs))

    def reference_loss(self, *xs: Any) -> Any:
        return self.weighted(self.reference(tnp, *xs))

    @property
    def every(self) -> tuple[int, ...]:
        return tuple(range(len(self.xs)))

    def slope(self) -> float:
        """The derivative of the loss along `vs`, by central differences of the reference in float64."""
        eps = 1e-4
        points = [[x.astype(np.float64) + s * eps * v for x, v in zip(self.xs, self.vs)] for s in (1, -1)]
        ahead, behind = (self.weighted(self.reference(np, *p)) for p in points)
        return float(ahead - behind) / (2 * eps)


def tolerance(kernel: ModuleType) -> float:
    return getattr(kernel, "TOLERANCE", 1e-5)
