"""Grids whose sizes are traced: compiled = interpreted = a loop, batches, derivatives, bounds."""

import functools

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    DifferentiationError,
    KernelError,
    OutOfBoundsError,
)
from tilewright.lang.autodiff.jvp_vjp import derivative_plan
from tilewright.lang.kernel.kernel import UNBOUNDED
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.verify.verify import verify

F32 = np.float32
RNG = np.random.default_rng(7)
x = RNG.standard_normal((10, 8)).astype(F32)
y = RNG.standard_normal((8, 6)).astype(F32)
start = RNG.standard_normal((10, 8)).astype(F32)


def struct(*shape):
    return tw.ShapeDtypeStruct(shape, F32)


def rows(n, x, start, **options):
    """Blocks of rows, the rest as it was; a parallel axis."""

    def body(x_ref, _, o_ref):
        o_ref[...] = tnp.sin(x_ref[...]) * 2

    spec = tl.BlockSpec((3, 4), lambda i, j: (i, j))
    return tl.kernel_call(body, struct(10, 8), grid=(n, 2), in_specs=[spec, spec], out_specs=spec,
                          input_output_aliases={1: 0}, **options)(x, start)  # fmt: skip


def rows_reference(n, x, start):
    return tnp.where(np.arange(10)[:, None] < 3 * n, tnp.sin(x) * 2, start)


def products(n, x, y, **options):
    """The first n blocks of the sum of a matrix product; a carry."""

    def body(x_ref, y_ref, o_ref):
        @tl.when(tl.program_id(1) == 0)
        def _():
            o_ref[...] = tnp.zeros((5, 6), F32)

        o_ref[...] += x_ref[...] @ y_ref[...]

    specs = [tl.BlockSpec((5, 2), lambda i, k: (i, k)), tl.BlockSpec((2, 6), lambda i, k: (k, 0))]
    out = tl.BlockSpec((5, 6), lambda i, k: (i, 0))
    return tl.kernel_call(body, struct(10, 6), grid=(2, n), in_specs=specs, out_specs=out, **options)(x, y)


def products_reference(n, x, y):
    return (x * (np.arange(8) < 2 * n)) @ y


def running(n, x, start, **options):
    """A carry that no sum is, along the traced axis, which the other operand ignores."""

    def body(x_ref, start_ref, o_ref, state):
        @tl.when(tl.program_id(0) == 0)
        def _():
            state[...] = start_ref[...]

        state[...] = tnp.tanh(state[...] + x_ref[...])

        @tl.when(tl.program_id(0) == tl.num_programs(0) - 1)
        def _():
            o_ref[...] = state[...]

    row = tl.BlockSpec((1, 8), lambda t: (t, 0))
    first = tl.BlockSpec((1, 8), lambda t: (0, 0))
    return tl.kernel_call(body, struct(1, 8), grid=(n,), in_specs=[row, first], out_specs=first,
                          scratch_shapes=[tl.VMEM((1, 8), F32)])(x, start)  # fmt: skip


def running_reference(n, x, start):
    state = start[:1]
    for t in range(10):
        state = tnp.where(t < n, tnp.tanh(state + x[t : t + 1]), state)
    return state


def tiled(n, x, y, **options):
    """A traced axis over rows with an inner sum: a guard around additive carries."""

    def body(x_ref, y_ref, o_ref, total):
        @tl.when(tl.program_id(1) == 0)
        def _():
            total[...] = tnp.zeros((5, 6), F32)

        total[...] += x_ref[...] @ y_ref[...]

        @tl.when(tl.program_id(1) == 3)
        def _():
            o_ref[...] = tnp.exp(total[...])

    specs = [tl.BlockSpec((5, 2), lambda i, k: (i, k)), tl.BlockSpec((2, 6), lambda i, k: (k, 0))]
    out = tl.BlockSpec((5, 6), lambda i, k: (i, 0))
    return tl.kernel_call(body, struct(10, 6), grid=(n, 4), in_specs=specs, out_specs=out,
                          scratch_shapes=[tl.VMEM((5, 6), F32)], **options)(x, y)  # fmt: skip


def tiled_reference(n, x, y):
    return tnp.where(np.arange(10)[:, None] < 5 * n, tnp.exp(x @ y), 0)


# name: kernel, reference, its operands, sizes, rows of the output that are written at size n
CASES = {
    "rows": (rows, rows_reference, (x, start), (0, 1, 3, 4), lambda n: 10),
    "products": (products, products_reference, (x, y), (1, 2, 4), lambda n: 10),
    "running": (running, running_reference, (x, start), (1, 5, 10), lambda n: 1),
    "tiled": (tiled, tiled_reference, (x, y), (0, 1, 2), lambda n: 5 * n),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def near(got, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.law
@cases
def test_compiled_and_interpreted_are_the_reference_by_one_program(case):
    kernel, reference, operands, sizes, written = case
    call = tw.jit(kernel)
    for n in sizes:
        expected = reference(n, *operands)[: written(n)]
        near(call(tnp.asarray(n), *operands)[: written(n)], expected)
        near(kernel(tnp.asarray(n), *operands, interpret=True)[: written(n)], expected)
    assert call._cache_size() == 1


@pytest.mark.law
@cases
def test_vmap_over_sizes_is_a_loop(case):
    kernel, reference, operands, sizes, written = case
    ns = np.asarray(sizes)
    for call in (tw.jit(tw.vmap(kernel, (0, None, None))),
                 tw.vmap(functools.partial(kernel, interpret=True), (0, None, None))):  # fmt: skip
        got = call(ns, *operands)
        for n, one in zip(sizes, got):
            near(np.asarray(one)[: written(n)], reference(n, *operands)[: written(n)])


@pytest.mark.law
@cases
def test_vmap_over_operands_at_one_size(case):
    kernel, reference, operands, sizes, written = case
    n = sizes[-2]
    stacked = [np.stack([a, -a]) for a in operands]
    got = tw.jit(tw.vmap(kernel, (None, 0, 0)))(n, *stacked)
    for i in range(2):
        near(got[i][: written(n)], reference(n, *(s[i] for s in stacked))[: written(n)])


def loss(f, weights, rows):
    return lambda n, *operands: (f(n, *operands)[:rows] * weights[:rows]).sum()


@pytest.mark.law
@cases
def test_gradients_are_those_of_the_reference(case):
    kernel, reference, operands, sizes, written = case
    for n in sizes[-2:]:
        weights = RNG.standard_normal(reference(n, *operands).shape).astype(F32)
        places = (1, 2)
        got = tw.jit(tw.grad(loss(kernel, weights, written(n)), places))(n, *operands)
        expected = tw.grad(loss(reference, weights, written(n)), places)(n, *operands)
        for g, e in zip(got, expected):
            near(g, e, 1e-4)


@pytest.mark.law
@cases
def test_jvp_is_that_of_the_reference(case):
    kernel, reference, operands, sizes, written = case
    n = sizes[-2]
    for f in (tw.jit(kernel), functools.partial(kernel, interpret=True)):
        _, got = tw.jvp(lambda *a, f=f: f(tnp.asarray(n), *a), operands, operands)
        _, expected = tw.jvp(lambda *a: reference(n, *a), operands, operands)
        near(got[: written(n)], expected[: written(n)], 1e-4)


@pytest.mark.law
@cases
def test_hessian_vector_product_is_that_of_the_reference(case):
    kernel, reference, operands, sizes, written = case
    n = sizes[-2]
    weights = RNG.standard_normal(reference(n, *operands).shape).astype(F32)

    def product(f):
        g = tw.grad(lambda m, *a: tnp.sin(loss(f, weights, written(n))(m, *a)), (1, 2))
        return lambda m, *a: tw.jvp(lambda *b: g(m, *b), a, a)[1]

    for got, expected in zip(tw.jit(product(kernel))(n, *operands), product(reference)(n, *operands)):
        near(got, expected, 2e-4)


@pytest.mark.law
@cases
def test_vmap_of_the_gradient_over_sizes_is_a_loop(case):
    kernel, reference, operands, sizes, written = case
    sizes = sizes[-2:]
    weights = RNG.standard_normal(reference(sizes[0], *operands).shape).astype(F32)
    over = tw.jit(tw.vmap(tw.grad(loss(kernel, weights, written(sizes[0])), 1), (0, None, None)))
    for size, got in zip(sizes, over(np.asarray(sizes), *operands)):
        near(got, tw.grad(loss(reference, weights, written(sizes[0])), 1)(size, *operands), 1e-4)


def kernel_of(f, *args):
    (found,) = kernels_of(tw.make_jaxpr(f)(*args))
    return found


def test_the_derivative_of_a_guarded_sum_stays_additive():
    kernel = kernel_of(tiled, 1, x, y)
    assert [p.kind for p in derivative_plan(kernel)] == ["independent"] * 2
    kernel = kernel_of(running, 1, x, start)
    assert [p.kind for p in derivative_plan(kernel)] == ["sweep"] * 2


# ---------------------------------------------------------------------------- bounds and errors


def gathered(n, ids, x, bound=None, **options):
    """Rows that data names, over and over: no index map bounds the grid."""

    def body(ids_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * 3

    spec = tl.BlockSpec((1, 8), lambda i, ids: (ids[i % 5], 0))
    size = n if bound is None else tl.dynamic(n, bound)
    grid_spec = tl.PrefetchScalarGridSpec(1, (size,), [spec], spec)
    return tl.kernel_call(body, struct(10, 8), grid_spec=grid_spec, **options)(ids, x)


IDS = np.array([3, 1, 8, 0, 2], np.int32)


def test_a_size_that_nothing_bounds():
    kernel = kernel_of(gathered, 1, IDS, x)
    assert kernel.grid == (UNBOUNDED,)
    assert "grid=(traced,)" in repr(kernel)
    for f in (tw.jit(gathered), functools.partial(gathered, interpret=True)):
        near(f(tnp.asarray(3), IDS, x)[IDS[:3]], 3 * x[IDS[:3]])
    with pytest.raises(DifferentiationError, match=r"kernel body: axis 0 .* needs a static bound") as caught:
        tw.grad(lambda x: gathered(tnp.asarray(3), IDS, x).sum())(x)
    assert "lang.dynamic(size, bound=n)" in str(caught.value)


def test_a_stated_bound_makes_it_differentiable():
    assert kernel_of(functools.partial(gathered, bound=5), 1, IDS, x).grid == (5,)
    got = tw.jit(tw.grad(lambda x, n: gathered(n, IDS, x, bound=5)[IDS].sum()))(x, 3)
    expected = np.zeros_like(x)
    expected[IDS[:3]] = 3
    near(got, expected)


@pytest.mark.parametrize(
    ("index_map", "bound"),
    [
        (lambda i: (i, 0), 4),
        (lambda i: (i + 1, 0), 3),
        (lambda i: (2 * i, 0), 2),
        (lambda i: (3 - i, 0), 4),
        (lambda i: (0, i), 1),
        (lambda i: (0, 0), UNBOUNDED),
        (lambda i: (i // 2, 0), UNBOUNDED),
    ],
)
def test_operands_bound_a_traced_size(index_map, bound):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...].sum(keepdims=True)

    def f(n, x):
        out = tl.BlockSpec((1, 1), lambda i: (0, 0))
        return tl.kernel_call(body, struct(1, 1), grid=n, in_specs=[tl.BlockSpec((3, 8), index_map, fill=0)],
                              out_specs=out)(x)  # fmt: skip

    assert kernel_of(f, 1, x).grid == (bound,)


def test_windows_bound_a_traced_size():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[0:1] + x_ref[2:3]

    def f(n, x):
        window = tl.BlockSpec((tl.Element(3, (1, 1)), 8), lambda i: (i, 0))
        return tl.kernel_call(body, struct(12, 8), grid=n, in_specs=[window],
                              out_specs=tl.BlockSpec((1, 8), lambda i: (i, 0)))(x)  # fmt: skip

    assert kernel_of(f, 1, x).grid == (10,)


def test_a_size_past_the_operands_is_an_error_when_interpreted_and_stops_there_compiled():
    with pytest.raises(OutOfBoundsError, match=r"kernel body: axis 0 of the grid \(traced<=4, 2\) has size 9"):
        rows(tnp.asarray(9), x, start, interpret=True)
    near(tw.jit(rows)(9, x, start), rows_reference(4, x, start))


def test_a_negative_size_runs_no_cell():
    near(tw.jit(rows)(-1, x, start), start)
    near(rows(tnp.asarray(-1), x, start, interpret=True), start)


def test_the_number_of_cells_is_traced():
    def body(o_ref):
        o_ref[...] = tnp.full((1,), tl.num_programs(0) * 10 + tl.num_programs(1))

    def f(n, **options):
        return tl.kernel_call(body, tw.ShapeDtypeStruct((1,), np.int32), grid=(n, 2),
                              out_specs=tl.BlockSpec((1,), lambda i, j: (0,)), **options)()  # fmt: skip

    assert int(tw.jit(f)(4)[0]) == 42
    assert int(f(tnp.asarray(4), interpret=True)[0]) == 42


def test_what_is_proved_and_what_is_not():
    found = {(f.what, f.operand): f.verdict for f in verify(kernel_of(tiled, 1, x, y))}
    assert found["in bounds", "x_ref"] == found["free of races", "o_ref"] == "proved"
    assert found["wholly written", "o_ref"] == "unknown"
    with pytest.raises(KernelError, match="wholly written is not proved: the size of a grid axis is traced"):
        with tw.config(strict_kernels=True):
            tiled(tnp.asarray(1), x, y)


@pytest.mark.parametrize("size", [1.5, np.zeros(2, np.int32), None, "3"])
def test_sizes_that_are_none(size):
    with pytest.raises(ArgumentTypeError, match="grid sizes are ints, or integer scalars"):
        rows(size, x, start)


def test_bounds_that_are_none():
    for bound in (0, -1, 2.5):
        with pytest.raises(ArgumentError, match="dynamic: bound is"):
            tl.dynamic(3, bound)


def test_explain_and_visualize():
    text = str(tw.explain(rows, 3, x, start))
    assert "kernel body: at most 8 cells (traced<=4 parallel, 2 parallel)" in text
    assert "any number of cells (traced in order)" in str(tw.explain(gathered, 3, IDS, x))
    with pytest.raises(ArgumentError, match="traced sizes"):
        tl.visualize(rows, 3, x, start)


def test_a_size_is_not_needed_on_a_target_that_takes_the_bound():
    from tilewright.lang.transforms.dynamic_grid import static

    kernel = kernel_of(rows, 1, x, start)
    bounded = static(kernel, "it needs")
    assert bounded.grid == (4, 2) and not bounded.extents
    for n in (0, 2, 4):
        near(tl.interpret(bounded, np.int32(n), x, start)[0], rows_reference(n, x, start))
