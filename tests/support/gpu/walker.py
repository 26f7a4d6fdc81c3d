"""A kernel's emitted module, walked, against the kernel's meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.core.ir.program import Eqn, Program
from tilewright.core.support import pytree
from tilewright.core.tracing.numpy_interpreter import evaluate, observing
from tilewright.core.tracing.trace import trace_program, typeof
from tilewright.emulator.calls import run_mosaic_gpu, run_mosaic_tpu, run_triton
from tilewright.lang.call.primitive import kernel_call_p
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_gpu import mosaic_gpu_module
from tilewright.mosaic_tpu.lower import mosaic_module
from tilewright.triton_backend.lower import triton_module

_TF32 = re.compile(r"inputPrecision = tf32\b")
Check = Callable[..., list[np.ndarray]]


def tolerance(dtype: Any) -> float:
    """What sums in another order may differ by, relative to the largest value."""
    if np.dtype(dtype).kind in "biu":
        return 0.0
    return {8: 1e-12, 4: 2e-5, 2: 2e-2, 1: 0.15}[np.dtype(dtype).itemsize]


def compare(got: Sequence[np.ndarray], expected: Sequence[np.ndarray], name: str, rtol: float | None = None) -> None:
    """Values of the same shapes and dtypes, close as their dtypes allow; NaN equals NaN."""
    assert len(got) == len(expected), f"{name}: {len(got)} results, expected {len(expected)}"
    for number, (g, e) in enumerate(zip(got, expected)):
        assert (g.shape, g.dtype) == (e.shape, e.dtype), (
            f"{name}: result {number}: {g.dtype}{g.shape}, {e.dtype}{e.shape}"
        )
        limit = tolerance(e.dtype) if rtol is None else rtol
        if e.dtype.kind in "biu" or not _is_float(e.dtype):
            np.testing.assert_array_equal(g, e, f"{name}: result {number}")
            continue
        g, e = g.astype(np.float64), e.astype(np.float64)
        scale = max(1.0, float(np.abs(e[np.isfinite(e)]).max(initial=0)))
        np.testing.assert_allclose(g, e, rtol=limit, atol=limit * scale, err_msg=f"{name}: result {number}")


def _is_float(dtype: Any) -> bool:
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return True


def _operands(kernel: Kernel, arrays: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(a, t.dtype) for a, t in zip(arrays, kernel.in_types, strict=True)]


def check_triton(
    kernel: Kernel, *arrays: Any, target: str = "cuda:sm_90", order: np.random.Generator | None = None,
    races: bool = True, rtol: float | None = None, **overrides: Any,
) -> list[np.ndarray]:  # fmt: skip
    """Emit a kernel for Triton, walk it, and compare with the interpreter; gives the results.

    Products in TF32 are walked in float32, so that the comparison need not allow for their rounding.
    """
    module = triton_module(kernel, target_of(target), **overrides)
    module = replace(module, text=_TF32.sub("inputPrecision = ieee", module.text))
    operands = _operands(kernel, arrays)
    return _agreed(kernel, operands, run_triton(module, operands, order, races), rtol)


def check_hopper(
    kernel: Kernel, *arrays: Any, target: str = "cuda:sm_90", order: np.random.Generator | None = None,
    rtol: float | None = None, eager: bool = False, edit: Callable[[str], str] = str, units: int | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """Emit a kernel for Mosaic GPU, walk it, and compare with the interpreter; gives the results.

    `edit` changes the text first, to see that the walker finds what is wrong with it. `units`: how many multiprocessors
    the target is to have.
    """
    machine = target_of(target)
    module = mosaic_gpu_module(kernel, machine if units is None else replace(machine, units=units))
    module, operands = replace(module, text=edit(module.text)), _operands(kernel, arrays)
    return _agreed(kernel, operands, run_mosaic_gpu(module, operands, order, eager), rtol)


def check_mosaic(
    kernel: Kernel, *arrays: Any, target: str = "tpu:v5e", order: np.random.Generator | None = None,
    rtol: float | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """Emit a kernel for the TPU, walk it, and compare with the interpreter; gives the results."""
    module = mosaic_module(kernel, target_of(target))
    operands = _operands(kernel, arrays)
    return _agreed(kernel, operands, run_mosaic_tpu(module, operands, order), rtol)


def _agreed(kernel: Kernel, arrays: Sequence[Any], got: list[Any], rtol: float | None) -> list[np.ndarray]:
    results = [np.asarray(g) for g in got]
    expected = interpret(kernel, *arrays)
    try:
        compare(results, expected, kernel.name, rtol)
    except AssertionError:
        other = interpret(kernel, *arrays, params=InterpretParams(uninitialized_memory="zero"))
        defined = [(e == o) | ((e != e) & (o != o)) for e, o in zip(expected, other)]
        if all(d.all() for d in defined):
            raise
        kept = [np.where(d, g, e) for d, g, e in zip(defined, results, expected)]
        compare(kept, expected, f"{kernel.name}, where it does not read what nothing wrote", rtol)
    return results


def kernels_of(fun: Callable[..., Any], *args: Any) -> list[tuple[Kernel, list[np.ndarray]]]:
    """The kernels that a function calls on its way, each with its operands."""
    leaves, shape = pytree.flatten(args)

    def flat(*xs: Any) -> Any:
        return pytree.leaves(fun(*pytree.unflatten(shape, xs)))

    program: Program = trace_program(flat, [typeof(x) for x in leaves], getattr(fun, "__name__", "f"))
    found: list[tuple[Kernel, list[np.ndarray]]] = []

    def note(eqn: Eqn, values: list[Any]) -> None:
        if eqn.primitive is kernel_call_p:
            found.append((eqn.params["kernel"], [np.array(v) for v in values]))

    with observing(note):
        evaluate(program, *leaves)
    return found


def check_all(check: Check, fun: Callable[..., Any], *args: Any, **options: Any) -> int:
    """Check every kernel that a function calls; gives how many there were."""
    found = kernels_of(fun, *args)
    for kernel, arrays in found:
        check(kernel, *arrays, **options)
    return len(found)
