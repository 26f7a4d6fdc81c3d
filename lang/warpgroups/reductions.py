"""Reductions under the names that Pallas gives them for Hopper and Blackwell: methods of arrays, as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.ir.array import Array
from .common import thread_cell

_OF_ONES = {"sum": 4.0, "prod": 1.0, "max": 1.0, "min": 1.0}


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(x: Array, axis: int | None = None, keepdims: bool = False, *, accumulator_ilp: int | None = None) -> Any:
        thread_cell(name)
        return getattr(x, name)(axis, keepdims=keepdims)

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = (
        f"`x.{name}(axis, keepdims=keepdims)` of an array in a kernel for warpgroups; `accumulator_ilp` is a hint.\n\n"
        ">>> import numpy as np\n>>> import tilewright as tw\n>>> from tilewright.lang import mosaic_gpu as plgpu\n"
        f">>> def body(x, o):\n...     o[...] = plgpu.{name}(x[...], axis=1)\n"
        '>>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((2,), "float32"), interpret=True)\n'
        f'>>> call(np.ones((2, 4), "float32")).tolist()\n[{_OF_ONES[name]}, {_OF_ONES[name]}]'
    )
    return reduce


sum: Callable[..., Any]
prod: Callable[..., Any]
max: Callable[..., Any]
min: Callable[..., Any]
sum, prod, max, min = map(_reduction, ("sum", "prod", "max", "min"))
