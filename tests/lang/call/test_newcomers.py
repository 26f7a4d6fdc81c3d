"""Calls that do not fit: each is an error of the catalogue that names the user's line and what to write."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright.core.support.call_errors import public
from tilewright.errors import (
    ArgumentError,
    ArgumentTypeError,
    BlockRankError,
    ConcretizationError,
    KernelBodyError,
    OutOfBoundsError,
)

F32 = np.float32
OUT = tw.ShapeDtypeStruct((8,), F32)
X = np.arange(8, dtype=F32)
SPEC = tl.BlockSpec((4,), lambda i: (i,))


def copied(x, o):
    o[...] = x[...]


def call(body=copied, *args, **options):
    return tl.kernel_call(body, OUT, **{"grid": 2, "in_specs": [SPEC], "out_specs": SPEC} | options)(*(args or (X,)))


def places(index_map):
    return call(in_specs=[tl.BlockSpec((4,), index_map)])


OUTSIDE = {  # of bodies
    "BlockSpec": (lambda: tl.BlockSpec((4,), index_maps=copied), ArgumentTypeError, "index_maps is like index_map"),
    "GridSpec": (lambda: tl.GridSpec(grids=2), ArgumentTypeError, "grids is like grid; call it as GridSpec(grid=()"),
    "tpu": (lambda: tl.tpu.CompilerParams(dimension_semantic=()), ArgumentTypeError, "is like dimension_semantics"),
    "triton": (lambda: tl.triton.CompilerParams(num_warp=4), ArgumentTypeError, "num_warp is like num_warps"),
    "cutlass": (lambda: tl.cutlass.CompilerParams(stage=4), ArgumentTypeError, "stage is like stages"),
    "mosaic": (lambda: tl.mosaic_gpu.CompilerParams(num_stage=4), ArgumentTypeError, "num_stage is like num_stages"),
    "cpu": (lambda: tl.cpu.CompilerParams(bytes=4), ArgumentTypeError, "call it as CompilerParams(intermediate_bytes"),
    "cost": (lambda: tl.CostEstimate(flop=3), ArgumentTypeError, "flop is like flops"),
    "modes": (lambda: tl.InterpretParams(detect_race=True), ArgumentTypeError, "is like detect_races"),
    "prefetch": (lambda: tl.PrefetchScalarGridSpec(grid=2), ArgumentTypeError, "missing 1 required positional"),
    "prefetch -1": (lambda: tl.PrefetchScalarGridSpec(-1), ArgumentError, "how many of the first operands"),
    "warps": (lambda: tl.triton.CompilerParams(num_warps="4"), ArgumentTypeError, "num_warps is '4'"),
    "bytes": (lambda: tl.tpu.CompilerParams(vmem_limit_bytes="64M"), ArgumentTypeError, "vmem_limit_bytes is '64M'"),
    "flag": (lambda: tl.mosaic_gpu.CompilerParams(persistent=1), ArgumentTypeError, "give True or False"),
    "space": (lambda: tl.BlockSpec((4,), memory_space="vmem"), ArgumentTypeError, "memory_space is 'vmem'"),
    "index map": (lambda: tl.BlockSpec((4,), (0,)), ArgumentTypeError, "the index map is (0,)"),
    "scratch without a dtype": (lambda: tl.VMEM((4,)), ArgumentTypeError, "VMEM((4,)) is no scratch"),
    "scratch of a number": (lambda: tl.VMEM(4, F32), ArgumentTypeError, "give a shape and a dtype: `VMEM((8, 128)"),
    "negative scratch": (lambda: tl.SMEM((-4,), F32), ArgumentTypeError, "SMEM((-4,), "),
    "semaphores": (lambda: tl.SemaphoreType.DMA("2"), ArgumentTypeError, "say how many there are"),
    "nothing": (lambda: tl.kernel_call(), ArgumentTypeError, "call it as kernel_call(body, out_shape=Ellipsis"),
    "no body": (lambda: tl.kernel_call(OUT, copied), ArgumentTypeError, "give a function of Refs, then `out_shape`"),
    "debug": (lambda: call(debug="yes"), ArgumentTypeError, "debug is 'yes'"),
    "strict": (lambda: call(strict="no"), ArgumentTypeError, "strict is 'no'"),
    "grid_spec": (lambda: tl.kernel_call(copied, OUT, grid_spec={}), ArgumentTypeError, "grid_spec is {}"),
    "aliases": (lambda: call(input_output_aliases=(0, 0)), ArgumentTypeError, "`{0: 0}`"),
    "names as aliases": (lambda: call(input_output_aliases={"x": 0}), ArgumentTypeError, "`{0: 0}`"),
    "by name": (lambda: tl.kernel_call(copied, OUT)(x=X), ArgumentTypeError, "in the order of the body's Refs"),
    "interpret": (lambda: tl.interpret(copied, X), ArgumentTypeError, "interpret=True"),
    "map of None": (lambda: places(lambda i: None), BlockRankError, "its index map gives None"),
    "map of a slice": (lambda: places(lambda i: slice(i, 4)), BlockRankError, "give a block index, an integer"),
    "map of elements": (lambda: places(lambda i: i * 4), OutOfBoundsError, "an index counts blocks, not elements"),
}
IN_BODIES = {
    "when of two": (lambda x, o: tl.when(tl.program_id(0) == 0, copied), ArgumentTypeError, "as @when(condition)"),
    "when of Refs": (lambda x, o: tl.when(True)(copied), ArgumentTypeError, "above a function of no arguments"),
    "when of nothing": (lambda x, o: tl.when(tl.program_id(0) == 0)(None), ArgumentTypeError, "None is no function"),
    "make_async_copy": (lambda x, o: tl.make_async_copy(x, o), ArgumentTypeError, "copy(src_ref, dst_ref, sem)"),
    "async_copy": (lambda x, o: tl.async_copy(x, o), ArgumentTypeError, "missing 1 required positional"),
    "atomic_add": (lambda x, o: tl.atomic_add(o, x[...]), ArgumentTypeError, "atomic_add(ref, idx, val, *, mask=None"),
    "program_id": (lambda x, o: tl.program_id(), ArgumentTypeError, "call it as program_id(axis)"),
    "program_id by name": (lambda x, o: tl.program_id("i"), ArgumentTypeError, "an axis is a Python integer"),
    "loop": (lambda x, o: tl.loop(0, 4, lambda i: None), ArgumentTypeError, "call it as @loop(lower, upper, *"),
    "run_scoped": (lambda x, o: tl.run_scoped(tl.VMEM((4,), F32)), ArgumentTypeError, "give the function, then a type"),
    "pipeline": (lambda x, o: tl.emit_pipeline(copied, x, o), ArgumentTypeError, "emit_pipeline(body, *, grid=()"),
    "ds": (lambda x, o: x[tl.ds()], ArgumentTypeError, "dslice(start, size=None, stride=None)"),
    "uniform": (lambda x, o: tl.stateful_uniform(), ArgumentTypeError, "missing 1 required positional"),
    "signal": (lambda x, o: tl.semaphore_signal(), ArgumentTypeError, "semaphore_signal(sem, inc=1"),
    "check": (lambda x, o: tl.debug_check(x[0] > 0), ArgumentTypeError, "debug_check(condition, message)"),
    "store": (lambda x, o: tl.store(o), ArgumentError, "write store(ref, index, value)"),
    "a name as an index": (lambda x, o: x["rows"], ArgumentTypeError, "index with integers, slices"),
    "at set": (lambda x, o: o.at[0].set(1.0), KernelBodyError, "write `ref[index] = value`"),
    "at add": (lambda x, o: o.at[0].add(1.0), KernelBodyError, "write `ref[index] += value`"),
    "a format": (lambda x, o: print(f"{x[0]:.2f}"), ConcretizationError, "show it with `debug.print`"),
    "a kernel": (lambda x, o: o.__setitem__(..., tl.kernel_call(copied, OUT)(x[...])), KernelBodyError, "pipeline`"),
}  # fmt: skip


def refused(wrong, error, words):
    with pytest.raises(error) as caught:
        wrong()
    assert words in str(caught.value) and "test_newcomers.py" in str(caught.value), str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("name", OUTSIDE)
def test_calls_that_do_not_fit(name):
    refused(*OUTSIDE[name])


@pytest.mark.parametrize("name", IN_BODIES)
def test_calls_in_bodies_that_do_not_fit(name):
    body, error, words = IN_BODIES[name]
    refused(lambda: tl.kernel_call(body, OUT, grid=1)(X), error, words)


def test_an_error_within_a_function_stays_what_it_is():
    @public
    def add(x, y):
        return x + y

    assert add(1, y=2) == 3
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        add(1, "a")
    assert not isinstance(caught.value, tw.errors.TilewrightError)
    assert str(1.5) == f"{tw.numpy.float32(1.5):.1f}" and tw.lang.VMEM(np.array([2, 3]), F32).shape == (2, 3)
