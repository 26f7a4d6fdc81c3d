"""Cells that may run at the same time stay so in derivatives: grids on GPUs, and what is carried along which axis."""

import functools

import numpy as np
import pytest

import tilewright as tw
from tests.support.authors import products
from tests.support.corpus import flash_attention, grouped_matmul, selective_scan
from tests.support.corpus.kit import Size
from tests.support.walker import check_mosaic, check_triton, kernels_of
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.lang.analysis import analyse
from tilewright.lang.gpu.plan import plan
from tilewright.lang.legalize import legal
from tilewright.lang.target import target_of
from tilewright.triton_backend.rules import BACKEND

ROWS = ("parallel", "arbitrary")
FLASH = functools.partial(flash_attention.call, causal=True)
GROUPED = functools.partial(grouped_matmul.call, dimension_semantics=ROWS)
CASES = {
    "flash": (FLASH, flash_attention, Size(2, 8, 12, 4), (0, 1, 2)),
    "flash, undeclared": (functools.partial(FLASH, dimension_semantics=None), flash_attention, Size(2, 8, 12, 4), (0,)),
    "grouped": (GROUPED, grouped_matmul, Size(16, 3, 4, 8), (0, 1)),
    "scan": (selective_scan.call, selective_scan, selective_scan.SIZES[0], (0, 1, 2, 3, 4, 5)),
}  # fmt: skip


def planned(kernel):
    return plan(legal(kernel, BACKEND, target_of("cuda:sm_90")).kernel)


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
