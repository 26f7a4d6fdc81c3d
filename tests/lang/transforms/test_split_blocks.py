"""Kernels on smaller blocks: whichever way a kernel is cut in parts, the interpreter gives what it gave before."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.authors import EVERY, shared
from tests.support.authors.forms import loss
from tests.support.corpus.runs import close
from tests.support.gpu.walker import check_mosaic, check_triton, kernels_of
from tests.support.random_kernels import Draw, judged
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.tracing.numpy_interpreter import evaluate
from tilewright.lang.analysis.dead_stores import read_late
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.transforms.split_blocks import smaller

PLAIN = InterpretParams()
CASES = {c.name: c for c in (*EVERY, *shared.cases())}


def anywhere(array, axis):
    """Axes of any size may be cut."""
    return 1


def ways_of(kernel, parts=2):
    found = smaller(kernel, anywhere, parts)
    return [] if isinstance(found, str) else list(found)


def check_parts(kernel, arrays, parts=2):
    """Hold every way to cut a kernel against the kernel; gives how many there are."""
    ways = ways_of(kernel, parts)
    if ways:
        wanted = interpret(kernel, *arrays, params=PLAIN)
    for way in ways:
        got = interpret(way.kernel, *arrays, params=PLAIN)
        close(got if way.finish is None else evaluate(way.finish, *got), wanted, 2e-5)
    return len(ways)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_parts_of_a_drawn_kernel_give_what_it_gives(seed, parts):
    with tw.config(debug_checks=False):
        drawn = Draw(seed).kernel()
        raised, findings = judged(drawn)
        if raised is None and all(f.verdict == "proved" for f in findings if f.what == "in bounds"):
            check_parts(drawn.kernel, drawn.arrays, parts)


@functools.cache
def derived(name):
    """The kernels of a case's gradient, each with its operands."""
    case = CASES[name]
    arrays = case.operands()
    call = loss(case.call, case.plain(np, *arrays))
    return [(k, a) for k, a in kernels_of(tw.grad(call, case.derived), *arrays) if "_bwd" in k.name]


@pytest.mark.parametrize("name, ways", [("conv1d", 2), ("flash_attention", 2), ("k_means", 1), ("selective_scan", 1),
                                        ("embedding", 1), ("int4_matmul", 4), ("block_sparse_matmul", 2)])  # fmt: skip
def test_parts_of_a_gradient_give_what_it_gives(name, ways):
    assert sum(check_parts(*one) for one in derived(name)) >= ways


def test_what_lacks_the_axis_is_summed_or_made_alike():
    """Along the queries of attention, those of the keys and values add up; along the values', statistics are alike."""
    (kernel, _), = derived("flash_attention")
    summed = [way.finish for way in ways_of(kernel) if way.finish is not None]
    assert any("reduce_sum" in str(finish) for finish in summed)


@pytest.mark.parametrize("check", [check_triton, check_mosaic])
def test_programs_for_devices_of_parts_are_right(check):
    kernel, arrays = derived("conv1d")[0]
    check(ways_of(kernel)[0].kernel, *arrays)


def one_kernel(body, *arrays, **options):
    shape = options.pop("out", arrays[0])
    ((kernel, operands),) = kernels_of(lambda *xs: tl.kernel_call(body, shape, **options)(*xs), *arrays)
    return kernel, operands


X = np.arange(32, dtype=np.float32).reshape(4, 8)


def scan(x, o):
    o[...] = tnp.cumsum(x[...], axis=1)


def sorts(x, o):
    o[...] = tnp.sort(x[...], axis=0)


def tells(x, o):
    tl.debug_print("{}", x[0, 0])
    o[...] = x[...]


def of_whole(x, o):
    o[...] = x[...] / tnp.sum(x[...], axis=1, keepdims=True)


@pytest.mark.parametrize("body, axes", [(scan, [0]), (sorts, [1]), (tells, []), (of_whole, [0])])
def test_only_axes_that_the_body_treats_alike_are_cut(body, axes):
    kernel, operands = one_kernel(body, X)
    cut = [next(d for d in range(2) if way.kernel.inputs[0].sizes[d] < X.shape[d])
           for way in ways_of(kernel)]  # fmt: skip
    assert sorted(cut) == axes
    assert check_parts(kernel, operands) == len(axes)


def test_positions_count_from_the_start_of_the_whole():
    def body(x, o):
        o[...] = x[...] + tnp.arange(8, dtype=np.float32)[None, :]

    kernel, operands = one_kernel(body, X)
    assert check_parts(kernel, operands, 4) == 2  # of 4 rows and of 8 columns, in 4 parts each


def test_no_part_lies_past_the_end_of_its_array():
    block = tl.BlockSpec((4, 8), lambda i: (i, 0), fill=0)
    kernel, operands = one_kernel(lambda x, o: o.__setitem__(..., x[...] * 2), np.ones((6, 8), np.float32), grid=2,
                                  in_specs=[block], out_specs=block)  # fmt: skip
    assert all(way.kernel.inputs[0].sizes[0] == 4 for way in ways_of(kernel))
    check_parts(kernel, operands)


def test_reads_stand_before_what_needs_them_and_after_what_they_follow():
    def body(x, o):
        first, second = x[0, :], x[1, :]
        o[0, :] = first
        held = o[0, :]
        o[0, :] = second
        o[1, :] = held + second

    kernel, operands = one_kernel(body, X[:2])
    late = kernel.replace(body=read_late(kernel.body))
    close(interpret(late, *operands, params=PLAIN), interpret(kernel, *operands, params=PLAIN), 0)
    order = [e.primitive.name for e in late.body.eqns]
    assert order[:2] == ["get", "swap"]
    aliased = read_late(kernel.body, frozenset(kernel.body.inputs[:1]))
    assert [e.primitive.name for e in aliased.eqns][:3] == ["get", "get", "swap"]
