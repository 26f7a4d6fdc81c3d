"""Large copies between Refs in far memory: piece by piece on GPUs, and the same as in one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.gpu.walker import check_all, check_triton, kernels_of
from tilewright import lang as tl
from tilewright.core.ir.passes import primitives_of
from tilewright.core.primitives.control_flow.scan import scan_p
from tilewright.lang import tpu
from tilewright.lang.gpu.normalize import LARGEST, split_copies
from tilewright.lang.transforms.desugar import desugared

FAR = tl.BlockSpec(memory_space=tl.ANY)


def far_kernel(body, shape, *others):
    out = [tw.ShapeDtypeStruct(s, "float32") for s in (shape, *others)]
    return lambda x: tl.kernel_call(body, out, in_specs=[FAR], out_specs=[FAR] * len(out))(x)


@st.composite
def copies(draw):
    """A shape, and a part of it: sizes, starts and strides."""
    sizes = draw(st.sampled_from([(9001,), (3, 5, 1030), (2, 8192), (37, 1, 400), (130, 131), (1, 20000)]))
    starts = [draw(st.integers(0, 3)) for _ in sizes]
    strides = [draw(st.integers(1, 2)) for _ in sizes]
    shape = tuple(a + (n - 1) * s + 1 for a, n, s in zip(starts, sizes, strides, strict=True))
    return sizes, shape, starts, strides, draw(st.booleans()), draw(st.booleans())


@settings(max_examples=8, deadline=None)
@given(copies())
def test_parts_of_far_memory_are_copied_and_added(drawn):
    sizes, shape, starts, strides, traced, added = drawn

    def body(x, o):
        first = tl.program_id(0) + np.int32(starts[0]) if traced else starts[0]
        part = x.at[tuple(tl.ds(a, n, s) for a, n, s in zip((first, *starts[1:]), sizes, strides, strict=True))]
        tpu.sync_copy(part, o)
        if added:
            o[...] += tl.load(part)

    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    call = tl.kernel_call(body, tw.ShapeDtypeStruct(sizes, "float32"), grid=1, in_specs=[FAR], out_specs=FAR)
    want = x[tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, sizes, strides, strict=True))]
    np.testing.assert_array_equal(call(x), want * (1 + added))
    assert check_all(check_triton, call, x) == 1
    ((kernel, _),) = kernels_of(call, x)
    large = np.prod(sizes) > LARGEST
    assert large and scan_p in primitives_of(split_copies(desugared(kernel)).body)


def test_what_overlaps_or_is_used_otherwise_is_read_at_once():
    """A copy within one Ref reads all before it writes; a value that is used twice is read once."""

    def body(x, o, p):
        o[...] = x[...]
        o[1:, :] = o[:-1, :]
        value = x[...]
        p[...] = value * 2
        o[0, :] = value[0]

    x = np.arange(9 * 1100, dtype="f").reshape(9, 1100)
    call = far_kernel(body, x.shape, x.shape)
    np.testing.assert_array_equal(call(x)[0], np.concatenate([x[:1], x[:-1]]))
    assert check_all(check_triton, call, x) == 1


def test_copies_in_loops_and_branches():
    def body(x, o):
        @tl.loop(0, 3)
        def _(i):
            tl.when(i != 1)(lambda: tpu.sync_copy(x.at[i], o.at[2 - i]))
            tl.when(i == 1)(lambda: tpu.sync_copy(x.at[0], o.at[1]))

    x = np.random.default_rng(0).standard_normal((3, 70, 130)).astype("f")
    call = far_kernel(body, x.shape)
    np.testing.assert_array_equal(call(x)[0], x[[2, 0, 0]])
    assert check_all(check_triton, call, x) == 1


@pytest.mark.targets
@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942"])
def test_whole_arrays_are_copied_without_spilling(target):
    x = tw.ShapeDtypeStruct((512, 1024), "float32")
    (used,) = tw.compile(far_kernel(lambda x, o: tpu.sync_copy(x, o), x.shape), x, target=target).resources
    assert used.spills == 0
