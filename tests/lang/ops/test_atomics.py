"""Atomic operations: compiled = interpreted = one element after the other in plain Python."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tests.support.gpu.walker import check_mosaic, check_triton, kernels_of
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support import pytree
from tilewright.core.support.errors import DifferentiationError, DtypeError, KernelBodyError
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend import triton_module

I32, F32 = np.int32, np.float32
rng = np.random.default_rng(0)
KINDS = {
    "add": lambda a, b: a + b, "max": max, "min": min, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b, "xchg": lambda a, b: b,
}  # fmt: skip
both = pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])


def shape(*sizes, dtype=I32):
    return tw.ShapeDtypeStruct(sizes, dtype)


def plain(kind, start, places, values, mask):
    """What the Ref holds after, and what each element found."""
    held, old = start.copy(), np.zeros_like(values)
    for at in np.ndindex(values.shape):
        if mask[at]:
            old[at] = held[places[at]]
            held[places[at]] = KINDS[kind](held[places[at]], values[at])
    return held, old


@pytest.mark.law
@both
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_positions_named_twice(kind, masked, interpret):
    start = rng.integers(0, 100, (6,)).astype(I32)
    places = rng.integers(0, 6, (10,)).astype(I32)
    values = rng.integers(0, 100, (10,)).astype(I32)
    mask = rng.random(10) < 0.6 if masked else np.ones(10, bool)
    atomic = getattr(tl, f"atomic_{kind}")

    def body(start_ref, places_ref, values_ref, mask_ref, held_ref, old_ref):
        held_ref[...] = start_ref[...]
        old_ref[...] = atomic(held_ref, (places_ref[...],), values_ref[...], mask=mask_ref[...] if masked else None)

    call = tl.kernel_call(body, [shape(6), shape(10)], interpret=interpret)
    held, old = call(start, places, values, mask)
    expected = plain(kind, start, places, values, mask)
    np.testing.assert_array_equal(held, expected[0])
    np.testing.assert_array_equal(old, expected[1])


@pytest.mark.law
@both
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [np.s_[...], np.s_[1], np.s_[1:3, 2], np.s_[::2, 1:]])
def test_parts(kind, index, interpret):
    start = rng.integers(0, 100, (4, 5)).astype(I32)
    values = rng.integers(0, 100, start[index].shape).astype(I32)

    def body(start_ref, values_ref, held_ref, old_ref):
        held_ref[...] = start_ref[...]
        old_ref[...] = getattr(tl, f"atomic_{kind}")(held_ref, index, values_ref[...])

    held, old = tl.kernel_call(body, [shape(4, 5), shape(*values.shape)], interpret=interpret)(start, values)
    expected = start.copy()
    expected[index] = np.vectorize(KINDS[kind])(start[index], values)
    np.testing.assert_array_equal(held, expected)
    np.testing.assert_array_equal(old, start[index])


@both
@pytest.mark.parametrize("kind", ["add", "max", "min", "xchg"])
def test_unused_results(kind, interpret):
    """The forms that need no order take another path."""
    start = rng.standard_normal(6).astype(F32)
    places = rng.integers(0, 6, (10,)).astype(I32)
    values = rng.standard_normal(10).astype(F32)

    def body(start_ref, places_ref, values_ref, held_ref):
        held_ref[...] = start_ref[...]
        getattr(tl, f"atomic_{kind}")(held_ref, (places_ref[...],), values_ref[...])

    held = tl.kernel_call(body, shape(6, dtype=F32), interpret=interpret)(start, places, values)
    expected = plain(kind, start, places, values, np.ones(10, bool))[0]
    np.testing.assert_allclose(held, expected, rtol=1e-5)


def histogram(x_ref, o_ref):
    @tl.when(tl.program_id(0) == 0)
    def _():
        o_ref[...] = tnp.zeros(8, I32)

    tl.atomic_add(o_ref, (x_ref[...],), 1)


@both
@pytest.mark.parametrize("size, block", [(64, 16), (1, 4), (13, 5)])
def test_histogram(size, block, interpret):
    x = rng.integers(0, 8, (size,)).astype(I32)

    def body(x_ref, o_ref):
        i = tl.program_id(0)

        @tl.when(i == 0)
        def _():
            o_ref[...] = tnp.zeros(8, I32)

        tl.atomic_add(o_ref, (x_ref[...],), 1, mask=i * block + tnp.arange(block) < size)

    spec = tl.BlockSpec((block,), lambda i: (i,), fill=0)
    call = tl.kernel_call(body, shape(8), grid=tl.cdiv(size, block), in_specs=[spec], interpret=interpret)
    np.testing.assert_array_equal(call(x), np.bincount(x, minlength=8))


@pytest.mark.parametrize("where", ["top", "branch", "loop"])
def test_parallel_cells_may_share_what_is_only_updated_atomically(where):
    x = rng.integers(0, 8, (32,)).astype(I32)

    def body(x_ref, zero_ref, o_ref):
        if where == "top":
            tl.atomic_add(o_ref, (x_ref[...],), 1)
        if where == "branch":
            tl.when(x_ref[0] >= 0)(lambda: [tl.atomic_add(o_ref, (x_ref[...],), 1)] and None)
        if where == "loop":
            lax.fori_loop(0, 8, lambda k, c: tl.atomic_add(o_ref, (x_ref[k],), 1) * 0 + c, 0)

    call = tl.kernel_call(
        body, shape(8), grid=4, in_specs=[tl.BlockSpec((8,), lambda i: (i,)), None], input_output_aliases={1: 0},
        compiler_params=tl.tpu.CompilerParams(dimension_semantics=("parallel",)))  # fmt: skip
    np.testing.assert_array_equal(call(x, np.zeros(8, I32)), np.bincount(x, minlength=8))


@both
def test_compare_and_swap(interpret):
    def body(x_ref, o_ref, old_ref):
        o_ref[...] = x_ref[...]
        old_ref[0] = tl.atomic_cas(o_ref.at[1], 5, 7)
        old_ref[1] = tl.atomic_cas(o_ref.at[2], 5, 7)

    out, old = tl.kernel_call(body, [shape(3), shape(2)], interpret=interpret)(np.array([1, 5, 6], I32))
    np.testing.assert_array_equal(out, [1, 7, 6])
    np.testing.assert_array_equal(old, [5, 6])


def scatter_sum(x_ref, places_ref, o_ref):
    o_ref[...] = tnp.zeros(5, F32)
    tl.atomic_add(o_ref, (places_ref[...],), x_ref[...] ** 2)


def test_derivatives_of_atomic_add():
    x = rng.standard_normal(8).astype(F32)
    places = rng.integers(0, 5, (8,)).astype(I32)
    weights = rng.standard_normal(5).astype(F32)
    call = tl.kernel_call(scatter_sum, shape(5, dtype=F32))
    np.testing.assert_allclose(
        tw.grad(lambda x: tnp.sum(call(x, places) * weights))(x), 2 * x * weights[places], rtol=1e-5
    )
    tangent = tw.jvp(lambda x: call(x, places), (x,), (np.ones_like(x),))[1]
    expected = np.zeros(5, F32)
    np.add.at(expected, places, 2 * x)
    np.testing.assert_allclose(tangent, expected, rtol=1e-5)


def test_batched():
    x = rng.integers(0, 8, (3, 32)).astype(I32)
    call = tl.kernel_call(histogram, shape(8), grid=4, in_specs=[tl.BlockSpec((8,), lambda i: (i,))])
    expected = np.stack([np.bincount(row, minlength=8) for row in x])
    np.testing.assert_array_equal(tw.vmap(call)(x), expected)


def test_no_derivative():
    def body(x_ref, o_ref):
        o_ref[...] = tnp.zeros(4, F32)
        tl.atomic_max(o_ref, ..., x_ref[...])

    call = tl.kernel_call(body, shape(4, dtype=F32))
    with pytest.raises(DifferentiationError, match="atomic_max"):
        tw.grad(lambda x: tnp.sum(call(x)))(np.ones(4, F32))


def test_wrong_dtypes():
    def body(x_ref, o_ref):
        tl.atomic_or(o_ref, ..., x_ref[...])

    with pytest.raises(DtypeError, match="atomic_or of a Ref of float32"):
        tl.kernel_call(body, shape(4, dtype=F32))(np.ones(4, F32))


def test_not_a_ref():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        tl.atomic_add(x_ref[...], 0, 1)

    with pytest.raises((KernelBodyError, TypeError), match="not a Ref"):
        tl.kernel_call(body, shape(4, dtype=F32))(np.ones(4, F32))


def split_sum(x, **options):
    """Six cells of a parallel axis add to the same four elements."""

    def body(z, x, o):
        tl.atomic_add(o, (slice(None),), x[...] ** 2)

    out = tl.BlockSpec((4,), lambda s: (0,))
    return tl.kernel_call(
        body, shape(4, dtype=F32), grid=(6,), in_specs=[out, tl.BlockSpec((4,), lambda s: (s,))], out_specs=out,
        input_output_aliases={0: 0}, dimension_semantics=("parallel",), name="split_sum", **options,
    )(tnp.zeros(4), x)  # fmt: skip


def split_scan(x):
    """Each cell of the parallel axis folds its part in order, by a carry that is no sum, then adds it to the rest."""

    def body(z, x, o, state):
        @tl.when(tl.program_id(1) == 0)
        def _():
            state[...] = tnp.zeros_like(state)

        state[...] = tnp.sin(state[...]) + x[...]
        tl.atomic_add(o, (slice(None),), tnp.where(tl.program_id(1) == 2, state[...], 0.0))

        @tl.when(tl.program_id(1) == 2)
        def _():  # so that what is saved on entry to the next cell is known, though nothing reads it
            state[...] = tnp.zeros_like(state)

    out = tl.BlockSpec((4,), lambda s, t: (0,))
    return tl.kernel_call(
        body, shape(4, dtype=F32), grid=(2, 3), in_specs=[out, tl.BlockSpec((4,), lambda s, t: (3 * s + t,))],
        out_specs=out, input_output_aliases={0: 0}, dimension_semantics=("parallel", "arbitrary"), name="split_scan",
        scratch_shapes=[tl.VMEM((4,), F32)],
    )(tnp.zeros(4), x)  # fmt: skip


def folded(x):
    """`split_scan` without a kernel."""
    parts = []
    for part in tnp.reshape(x, (2, 3, 4)):
        state = tnp.zeros(4)
        for row in part:
            state = tnp.sin(state) + row
        parts.append(state)
    return parts[0] + parts[1]


V = np.linspace(0.1, 2, 24, dtype=F32)
TRANSFORMED = {
    "jvp": lambda f: lambda x: tw.jvp(f, (x,), (tnp.ones(24),)),
    "vjp": lambda f: lambda x: tw.vjp(f, x)[0],
    "value and gradient": lambda f: tw.value_and_grad(lambda x: tnp.sum(tnp.sin(f(x)))),
    "linearize": lambda f: lambda x: tw.linearize(f, x)[1](tnp.ones(24)),
    "gradient of rows": lambda f: lambda x: tw.grad(lambda x: tnp.sum(tnp.sin(tw.vmap(f)(tnp.stack([x, x])))))(x),
}


@pytest.mark.parametrize("transform", TRANSFORMED)
@pytest.mark.parametrize(
    ("call", "reference"), [(split_sum, lambda x: tnp.sum(tnp.reshape(x, (6, 4)) ** 2, axis=0)), (split_scan, folded)],
    ids=["sums", "carry"],
)  # fmt: skip
def test_atomic_updates_stay_atomic_in_derivatives(call, reference, transform):
    """Programs of a GPU that meet in an output add to it atomically, in each kernel of each derivative: walked."""
    made = TRANSFORMED[transform](call)
    wanted = by_numpy(TRANSFORMED[transform](reference), V)
    for got, expected in zip(pytree.leaves(tw.jit(made)(V)), pytree.leaves(wanted), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-5)
    found = kernels_of(made, V)
    for kernel, operands in found:
        check_triton(kernel, *operands)  # which refuses two programs that touch one element and are not both atomic
        text = triton_module(kernel, target_of("cuda:sm_90")).text
        assert ("tt.atomic_rmw" in text) == ("_bwd" not in kernel.name), kernel.name
        if "_bwd" not in kernel.name:
            assert kernel.semantics is not None and "parallel" in kernel.semantics
    assert any("_bwd" not in kernel.name for kernel, _ in found)


@pytest.mark.parametrize("semantics", [None, ("parallel", "parallel")], ids=["undeclared", "parallel"])
@pytest.mark.parametrize("order", ["split first", "split last"])
def test_blocks_of_an_aliased_output_may_be_left_and_entered_again(order, semantics):
    """Sums that are split over the outermost axis as over the innermost, alone and derived, on both walkers."""

    def body(z, x, o):
        tl.atomic_add(o, (slice(None),), x[...])

    def call(x):
        first = order == "split first"
        out = tl.BlockSpec((4,), (lambda s, i: (i,)) if first else (lambda i, s: (i,)))
        part = tl.BlockSpec((4,), (lambda s, i: (2 * s + i,)) if first else (lambda i, s: (2 * s + i,)))
        return tl.kernel_call(body, shape(8, dtype=F32), grid=(3, 2) if first else (2, 3), in_specs=[out, part],
                              out_specs=out, input_output_aliases={0: 0}, dimension_semantics=semantics,
                              )(tnp.zeros(8), x)  # fmt: skip

    want = V.reshape(3, 8).sum(axis=0)
    np.testing.assert_allclose(tw.jit(call)(V), want, rtol=1e-6)
    for made in (call, tw.value_and_grad(lambda x: tnp.sum(tnp.sin(call(x))))):
        for kernel, operands in kernels_of(made, V):
            check_triton(kernel, *operands)
            check_mosaic(kernel, *operands)


def test_what_an_output_holds_between_atomic_updates_is_saved_in_order():
    """The derivative needs what the output held on entry to a cell: the forward kernel's cells follow one another."""

    def body(z, x, o):
        tl.atomic_add(o, (slice(None),), x[...])
        o[...] = tnp.sin(o[...])

    out = tl.BlockSpec((4,), lambda s: (0,))

    def call(x):
        return tl.kernel_call(
            body, shape(4, dtype=F32), grid=(6,), in_specs=[out, tl.BlockSpec((4,), lambda s: (s,))], out_specs=out,
            input_output_aliases={0: 0}, dimension_semantics=("arbitrary",),
        )(tnp.zeros(4), x)  # fmt: skip

    def reference(x):
        total = tnp.zeros(4)
        for part in tnp.reshape(x, (6, 4)):
            total = tnp.sin(total + part)
        return total

    grad, expected = (tw.grad(lambda x, f=f: tnp.sum(f(x) ** 2)) for f in (call, reference))
    np.testing.assert_allclose(grad(V), expected(V), rtol=2e-4, atol=1e-6)
    for kernel, operands in kernels_of(grad, V):
        check_triton(kernel, *operands)
