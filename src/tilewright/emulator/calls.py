"""What a program does around the custom call that is a kernel: prepare, call, finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.support.errors import EmulationError
from ..core.tracing.numpy_interpreter import evaluate
from .hopper import run_hopper
from .mosaic import run_mosaic
from .ttir import run_ttir
from .values import poison

Arrays = list[np.ndarray]


def call(module: Any, operands: Sequence[np.ndarray], run: Callable[[Arrays], Arrays]) -> list[Any]:
    """The results of an emitted kernel. `run` takes operands, then results as they start, and gives the results."""
    taken = list(operands)
    if module.prepare is not None:
        taken = [np.array(a) for a in evaluate(module.prepare, *operands)]
    types = [(a.shape, a.dtype) for a in taken]
    wanted = [(t.shape, t.dtype) for t in module.in_types]
    if types != wanted:
        raise EmulationError(f"the call takes {wanted}, and is given {types}")
    outs = [poison(t.shape, t.dtype) for t in module.out_types]
    for i, o in module.aliases:
        if types[i] != (outs[o].shape, outs[o].dtype):
            raise EmulationError(f"operand {i} and result {o} share memory, and are of other types")
        outs[o] = taken[i]
    results = run([*taken, *outs])
    for number, array in enumerate(results):
        if array.dtype == bool and (array.view(np.uint8) > 1).any():
            raise EmulationError(f"a byte of the boolean result {number} is neither 0 nor 1")
    return results if module.finish is None else evaluate(module.finish, *operands, *results)


def run_triton(module: Any, operands: Arrays, order: Any = None, races: bool = True) -> list[Any]:
    """The results of a `TritonModule`; `order` is a generator by which programs run in a random order."""
    count = len(module.out_types)

    def run(buffers: Arrays) -> Arrays:
        after = run_ttir(module.text, module.grid, buffers, order, races)
        return after[len(after) - count :]

    return call(module, operands, run)


def run_mosaic_tpu(
    module: Any, operands: Arrays, order: Any = None, core: Any = None, names: Sequence[str] = ()
) -> list[Any]:
    """The results of a `MosaicModule`; `order` is a generator by which parallel cells run in a random order.

    `core` and `names`: of one of several devices, as `run_mosaic` takes them.
    """
    count = len(module.out_types)

    def run(buffers: Arrays) -> Arrays:
        after = run_mosaic(module.text, buffers, count, order, core, names)
        return after[len(after) - count :]

    return call(module, operands, run)


def run_mosaic_gpu(module: Any, operands: Arrays, order: Any = None, eager: bool = False) -> list[Any]:
    """The results of a `MosaicGpuModule`; `eager`: copies land at once, else as late as they may."""
    first = len(module.in_types)

    def run(buffers: Arrays) -> Arrays:
        return run_hopper(module.text, [*buffers, np.zeros(module.scratch, np.uint8)], order, eager)[first:-1]

    return call(module, operands, run)
