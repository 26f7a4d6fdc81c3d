"""Cells that may run at the same time stay so in derivatives: grids on GPUs, and what is carried along which axis."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.authors import products
from tests.support.corpus import flash_attention, grouped_matmul, selective_scan
from tests.support.corpus.kit import Size
from tests.support.gpu.walker import check_mosaic, check_triton, kernels_of
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.lang.analysis.disjoint_parts import disjoint_axes
from tilewright.lang.analysis.facts import analyse
from tilewright.lang.gpu.normalize import GPU_LIMITS
from tilewright.lang.legalize import legal
from tilewright.lang.loopnest.plan import plan
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend.rules import BACKEND

ROWS = ("parallel", "arbitrary")
FLASH = functools.partial(flash_attention.call, causal=True)
GROUPED = functools.partial(grouped_matmul.call, dimension_semantics=ROWS)
CASES = {
    "flash": (FLASH, flash_attention, Size(2, 8, 12, 4), (0, 1, 2)),
    "flash, undeclared": (functools.partial(FLASH, dimension_semantics=None), flash_attention, Size(2, 8, 12, 4), (0,)),
    "grouped": (GROUPED, grouped_matmul, Size(16, 3, 4, 8), (0, 1)),
    "grouped, undeclared": (grouped_matmul.call, grouped_matmul, Size(16, 3, 4, 8), (0, 1)),
    "scan": (selective_scan.call, selective_scan, selective_scan.SIZES[0], (0, 1, 2, 3, 4, 5)),
}  # fmt: skip


def planned(kernel):
    return plan(legal(kernel, BACKEND, target_of("cuda:sm_90")).kernel, GPU_LIMITS)


@pytest.mark.law
@pytest.mark.parametrize("budget", [2**30, 0], ids=["saved", "computed again"])
@pytest.mark.parametrize("name", CASES)
def test_derived_kernels_have_the_parallel_cells_of_the_plain_one(name, budget):
    call, module, size, places = CASES[name]
    arrays = module.make(np.random.default_rng(0), *size.dims)
    ((plain, _),) = [k for k in kernels_of(lambda *xs: call(*xs, **size.blocks), *arrays)]
    programs = planned(plain).programs
    assert programs > 1
    with tw.config(residual_bytes=budget):
        found = kernels_of(tw.grad(lambda *xs: tnp.sum(tnp.sin(call(*xs, **size.blocks))), places), *arrays)
    assert [k.name.endswith("_bwd") for k, _ in found] == [False, True]
    for kernel, operands in found:
        assert planned(kernel).programs == programs, kernel.name
        if not plain.prefetch:
            assert analyse(kernel).carry == tuple(range(len(plain.grid) - 1, len(kernel.grid)))
        check_triton(kernel, *operands)
        check_mosaic(kernel, *operands)


def test_cotangents_of_far_operands_are_added_by_parallel_cells():
    """A loop of branches over operands that stay where they are: nothing is read whole, and all workers run at once."""
    x, y = products.matrices(np.random.default_rng(0))
    gradient = tw.grad(lambda x, y: tnp.sum(tnp.sin(products.stream_k(x, y))), (0, 1))
    found = [(k, a) for k, a in kernels_of(gradient, x, y) if k.name.startswith("stream_k")]
    assert [k.name for k, _ in found] == ["stream_k", "stream_k_bwd"]  # the forward saves nothing
    for kernel, operands in found:
        made = planned(kernel)
        assert (made.programs, set(made.atomic)) == (3, {True})
        whole = [a.index for ref, each in made.used.items() for a in each if a.index.is_whole(ref.type.shape)]
        assert not whole, "a branch reads an operand whole"
        check_triton(kernel, *operands)
        check_mosaic(kernel, *operands)


# ---------------------------------------------------------------------------- far memory


FAR = tl.BlockSpec(memory_space=tl.ANY)


def rows(x, *, step=1, dtype=np.float32, **options):
    """Rows by program, in the way of kernels over pointers; `step` cells to a row."""

    def body(x_ref, o_ref):
        i = tl.program_id(0)
        at = tl.ds(i % step * (128 // step), 128 // step)
        tl.store(o_ref.at[i // step, at], tnp.tanh(tl.load(x_ref.at[i // step, at])))

    return tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, dtype), grid=(step * x.shape[0],), in_specs=[FAR],
                          out_specs=FAR, name="rows", **options)(x)  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"dimension_semantics": ("parallel",)}, {"dtype": "float16"}], ids=str)
def test_kernels_over_pointers_have_parallel_derivatives(options):
    x = np.random.default_rng(0).standard_normal((6, 128)).astype(options.get("dtype", "float32"))
    gradient = tw.grad(lambda x: tnp.sum(rows(x, **options).astype("float32") ** 2))
    found = kernels_of(gradient, x)
    assert [(k.name, planned(k).programs) for k, _ in found] == [("rows", 6), ("rows_bwd", 6)]
    for kernel, operands in found:
        check_triton(kernel, *operands)
        check_mosaic(kernel, *operands)
    y = np.tanh(x.astype("float64"))
    np.testing.assert_allclose(gradient(x), 2 * y * (1 - y * y), rtol=1e-2 if x.itemsize == 2 else 1e-5, atol=1e-2)
    text = str(tw.explain(lambda x: rows(x, **options), x))
    assert "proved: 5 of 6" in text
    assert ("cells along (0,), declared parallel, run concurrently" in text) == ("dimension_semantics" in options)


def test_cells_that_may_meet_in_far_memory_keep_their_order_and_it_is_told():
    text = str(tw.explain(functools.partial(rows, step=2), np.ones((3, 128), np.float32)))
    assert "reach parts of it by themselves, which may overlap along grid axes (0,)" in text
    assert "derivative of x_ref: a reverse sweep" in text


def test_a_kernel_without_a_grid_has_no_grid_axes_in_its_plan():
    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2.0

    x = np.ones((8, 128), np.float32)
    text = str(tw.explain(tl.kernel_call(double, out_shape=tw.ShapeDtypeStruct(x.shape, x.dtype)), x))
    assert "derivative of x_ref: independent cells, one program instance" in text and "axes ()" not in text


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_axes_are_told_apart_only_if_no_two_cells_meet(data):
    """Against every pair of cells, for one or two accesses at places that are affine in the ids."""
    grid = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 3)))
    shape = (40, 24)
    axis = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2), st.integers(1, 3))
    accesses = data.draw(st.lists(st.tuples(axis, axis), min_size=1, max_size=2))

    def places(ids, access):
        starts = [a * ids[0] + b * ids[1] + c for a, b, c, _ in access]
        return tuple(tl.ds(s, n) for s, (*_, n) in zip(starts, access, strict=True))

    def body(o):
        for access in accesses:
            o[places([tl.program_id(0), tl.program_id(1)], access)] = tnp.ones([n for *_, n in access])

    ((kernel, _),) = kernels_of(lambda: tl.kernel_call(body, tw.ShapeDtypeStruct(shape, "float32"), grid=grid,
                                                       out_specs=FAR, interpret=True)())  # fmt: skip
    reached = {}
    for ids in np.ndindex(*grid):
        here = np.zeros(shape, bool)
        for access in accesses:
            here[tuple(slice(p.start, p.start + p.size) for p in places(ids, access))] = True
        reached[ids] = here
    meet = {axis for a in reached for b in reached for axis in range(2)
            if a[axis] != b[axis] and (reached[a] & reached[b]).any()}  # fmt: skip
    assert not meet & set(disjoint_axes(kernel, 0))
    one = [k for k, n in enumerate(grid) if n > 1]
    if len(accesses) == 1 and len(one) == 1 and not meet:
        assert disjoint_axes(kernel, 0) == tuple(one)


# ---------------------------------------------------------------------------- what is carried along which axis


def carries(body, *, grid=(2, 3), scratch=(4,), semantics=None):
    """The axes along which the scratch of a kernel of one row a cell is live."""
    x = np.ones((*grid, 4), np.float32)
    spec = tl.BlockSpec((None, None, 4), lambda i, j: (i, j, 0))
    ((kernel, _),) = kernels_of(lambda x: tl.kernel_call(
        body, x, grid=grid, in_specs=[spec], out_specs=spec, scratch_shapes=[tl.VMEM(scratch, "float32")],
        dimension_semantics=semantics, interpret=True)(x), x)  # fmt: skip
    known, position = analyse(kernel), kernel.splits[3]
    return known.live(position), known.carry_of(position, hopeful=True)


def kept_then_set(x, o, s):
    j = tl.program_id(1)
    o[...] = x[...]

    @tl.when(j > 0)
    def _():
        o[...] = s[...]

    @tl.when(j == 0)
    def _():
        s[...] = tnp.zeros(4)

    s[...] += x[...]


def set_within(x, o, s):
    """Read in no first cell, and set there, in a branch within a branch."""

    @tl.when(tl.program_id(1) < 2)
    def _():
        @tl.when(tl.program_id(1) == 0)
        def _():
            s[...] = x[...]

    o[...] = s[...]


def part_is_left(x, o, s):
    s[:2] = x[:2]

    @tl.when(tl.program_id(1) > 0)
    def _():
        o[...] = s[...]

    o[...] = x[...]


def data_sets(x, o, s):
    @tl.when(x[0] > 0)
    def _():
        s[...] = x[...]

    o[...] = s[...]


def exchanged(x, o, s):
    o[...] = tl.swap(s, ..., x[...])


def only_stored(x, o, s):
    s[:2] = x[:2]
    o[...] = x[...]


@pytest.mark.parametrize(("body", "axes", "least"), [
    (kept_then_set, (1,), (1,)), (set_within, (1,), (1,)), (part_is_left, (0, 1), (0, 1)), (data_sets, (0, 1), ()),
    (exchanged, (0, 1), (0, 1)), (only_stored, (), ()),
], ids=lambda v: getattr(v, "__name__", None))  # fmt: skip
def test_where_scratch_is_live(body, axes, least):
    assert carries(body) == (axes, least)


def test_nothing_is_carried_along_what_is_declared_parallel():
    assert carries(data_sets, semantics=ROWS)[0] == (1,)


@pytest.mark.parametrize("size", [4, tl.Element(4)], ids=["blocks", "elements"])
def test_two_parallel_cells_that_write_one_block_are_refused(size):
    step = 4 if isinstance(size, tl.Element) else 1
    spec = tl.BlockSpec((size,), lambda i: (i // 2 * step,))

    def fill(o):
        o[...] = tnp.full(o.shape, 1.0)

    call = tl.kernel_call(
        fill, tw.ShapeDtypeStruct((8,), "float32"), grid=4, out_specs=spec, dimension_semantics=("parallel",)
    )
    with pytest.raises(tw.errors.RaceError, match=r"cells \(0,\) and \(1,\) both write block .* axis 0 .* parallel"):
        call()
    with tw.config(parallel_writes="order"):
        np.testing.assert_array_equal(call(), np.ones(8, np.float32))
