"""`Built`: the kernels that an operation became, and how its operands and results lie in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.primitives.shape import reshape_p
from ..core.trace import shape_of
from ..lang.kernel import Kernel


@dataclass(frozen=True)
class Built:
    """Kernels, each after the first on the results of the one before.

    `order`: which operand each input of the first is; `shapes`: those of the operation's results. Arrays go in and out
    as views of the same elements where a kernel has other shapes than the operation.
    """

    kernels: tuple[Kernel, ...]
    order: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    def run(self, call: Callable[..., Sequence[Any]], args: Sequence[Any]) -> list[Any]:
        """The operation's results, `call(kernel, *arrays)` giving those of a kernel."""
        values = [args[i] for i in self.order]
        for kernel in self.kernels:
            values = call(kernel, *(viewed(v, t.shape) for v, t in zip(values, kernel.in_types, strict=True)))
        return [viewed(v, shape) for v, shape in zip(values, self.shapes, strict=True)]


def viewed(x: Any, shape: tuple[int, ...]) -> Any:
    """An array in another shape of the same elements."""
    return x if shape_of(x) == shape else reshape_p.bind(x, new_sizes=shape, dimensions=None)
