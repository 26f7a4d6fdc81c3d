"""What is worked out about kernels: closed forms, carry axes, lowered forms; and kernels inside other things."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus.called import kernel_of
from tests.support.corpus.corners import CORNERS
from tests.support.corpus.small import EXAMPLES, rand
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.types import is_inexact
from tilewright.lang.analysis.affine import facts
from tilewright.lang.analysis.facts import analyse
from tilewright.lang.autodiff.jvp_vjp import derivative_plan, jvp_kernel, strategy
from tilewright.lang.autodiff.reduction_kernels import pieces, route_of
from tilewright.lang.autodiff.scan_kernels import Sweep
from tilewright.lang.kernel.kernel import trace_map
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.transforms.vmap import batched_kernel
from tilewright.lang.verify.verify import verify
from tilewright.xla_backend.kernels.cpu_lowering import lowered

by_name = {e.name: e for e in EXAMPLES}


def kernel(name):
    return kernel_of(by_name[name])


@pytest.mark.parametrize("index_map, const, coefficients", [
    (lambda i, j: (i, j), (0, 0), ({0: 1}, {1: 1})),
    (lambda i, j: (2 * i + 3 * j + 1, 5), (1, 5), ({0: 2, 1: 3}, {})),
    (lambda i, j: (3 - i, -j + 4), (3, 4), ({0: -1}, {1: -1})),
    (lambda i, j: ((2 * i) // 2, (i + j) - i), (0, 0), ({0: 1}, {1: 1})),
])  # fmt: skip
def test_closed_forms(index_map, const, coefficients):
    fact = facts(trace_map((4, 5), (), lambda *ids: list(index_map(*ids))), (4, 5))
    assert fact.affine.const == const
    assert fact.affine.coefficients == coefficients


def test_maps_without_a_closed_form_are_enumerated():
    fact = facts(trace_map((6, 5), (), lambda i, j: [i // 3, i % 3]), (6, 5))
    assert fact.axes == (0,) and fact.affine is None
    np.testing.assert_array_equal(fact.table, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])


def test_a_large_affine_grid_is_not_enumerated():
    grid = (2**20, 2**20)
    fact = facts(trace_map(grid, (), lambda i, j: [i, j]), grid)
    assert fact.table is None and fact.affine.coefficients == ({0: 1}, {1: 1})


@pytest.mark.parametrize("name, carry, additive", [
    ("saxpy_ragged", (), True), ("matmul", (2,), True), ("matmul_batched", (3,), True), ("matmul_fused", (2,), True),
    ("column_sum", (0,), True), ("two_outputs", (1,), True), ("blocked_cumsum", (0,), False),
    ("flash_attention", (2,), False), ("several_states", (0, 1), False), ("linear_recurrence", (1,), False),
])  # fmt: skip
def test_carry_axes(name, carry, additive):
    assert analyse(kernel(name)).carry == carry
    assert (analyse(kernel(name)).phases is not None) == additive


@pytest.mark.parametrize("name, operand, axes, exact", [
    ("matmul", 0, (0, 2), True), ("matmul", 1, (1, 2), True), ("windows", 0, (0,), False),
    ("embedding", 0, (0,), False),
])  # fmt: skip
def test_routes_of_cotangents(name, operand, axes, exact):
    made = kernel(name)
    route = route_of(made, made.inputs[operand])
    assert (route.axes, route.exact) == (axes, exact)


@pytest.mark.parametrize("name, kinds", [
    ("matmul_fused", dict.fromkeys("xyb", "independent")), ("flash_attention", dict.fromkeys("qkv", "sweep")),
    ("windows", {"x": "scatter"}), ("embedding", {"table": "scatter"}), ("histogram", {"x": "none"}),
])  # fmt: skip
def test_kinds_of_derivatives(name, kinds):
    assert {p.operand: p.kind for p in derivative_plan(kernel(name))} == kinds


@pytest.mark.law
@pytest.mark.parametrize("name", [e.name for e in EXAMPLES])
def test_verified_clean(name):
    found = verify(kernel(name))
    assert all(f.verdict in ("proved", "unknown") for f in found)
    # Data says where the first four go; of the last, rows are stored in a loop.
    if name not in ("embedding", "scatter_rows", "take_rows", "histogram", "linear_recurrence"):
        assert all(f.verdict == "proved" for f in found), found


def test_a_gridded_matmul_is_one_contraction():
    """The parallel axes are free axes of the contraction, the steps over k are contracted: nothing is moved."""
    program = lowered(kernel("matmul")).program
    assert [e.primitive.name for e in program.eqns] == ["reshape", "reshape", "dot_general", "reshape"]
    assert program.eqns[2].params["dimension_numbers"] == (((2, 3), (0, 1)), ((), ()))


def test_the_backward_of_a_matmul_is_two_contractions():
    call = by_name["matmul"].call()
    x, y = by_name["matmul"].operands
    gradient = tw.jit(tw.grad(lambda x, y: call(x, y).sum(), (0, 1)))
    found = [e.primitive.name for k in kernels_of(tw.make_jaxpr(gradient)(x, y)) for e in lowered(k).program.eqns]
    assert found.count("dot_general") == 3 and not {"while", "scan", "transpose"} & set(found)
    assert gradient.lower(x, y).as_text().count("dot_general") == 2  # the forward one is not needed for a sum


def test_windows_are_not_gathered():
    names = {e.primitive.name for e in lowered(kernel("windows")).program.eqns}
    assert "gather" not in names and "dynamic_slice" not in names


def test_equal_kernels_are_one():
    assert kernel("matmul") == kernel("matmul") and hash(kernel("matmul")) == hash(kernel("matmul"))
    assert kernel("matmul") != kernel("matmul_fused")


def test_it_prints():
    text = repr(kernel("matmul_fused"))
    assert "grid=(4, 4, 2)" in text and "block (4,8)" in text and "dot_general" in text


# ---------------------------------------------------------------------------- inside other things


def doubler(x):
    spec = tl.BlockSpec((4,), lambda i: i)

    def body(x_ref, o_ref):
        o_ref[...] = tnp.sin(x_ref[...]) * 2

    return tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), grid=2, in_specs=[spec], out_specs=spec)(x)


def plain(x):
    return tnp.sin(x) * 2


X = rand(8)


@pytest.mark.law
@pytest.mark.parametrize("wrap", [
    lambda f: lambda x: lax.scan(lambda c, _: (f(c), c.sum()), x, None, length=3)[0],
    lambda f: tw.checkpoint(lambda x: f(f(x))),
    lambda f: tw.jit(lambda x: f(tw.jit(f)(x))),
    lambda f: lambda x: lax.cond(x.sum() > 100, lambda x: x, f, x),
    lambda f: lambda x: tw.vmap(f)(tnp.stack([x, x + 1])).sum(axis=0),
    lambda f: lambda x: lax.map(f, tnp.stack([x, x + 1])).sum(axis=0),
    lambda f: lambda x: tw.jvp(f, (x,), (x,))[1],
    lambda f: lambda x: tw.vjp(f, x)[1](x)[0],
    lambda f: lambda x: tw.linearize(f, x)[1](x),
], ids=["scan", "checkpoint", "jit", "cond", "vmap", "map", "jvp", "vjp", "linearize"])  # fmt: skip
def test_inside(wrap):
    mine, theirs = wrap(doubler), wrap(plain)
    np.testing.assert_allclose(mine(X), theirs(X), rtol=1e-5, atol=1e-5)
    a, b = (tw.grad(lambda x, f=f: (f(x) ** 2).sum())(X) for f in (mine, theirs))
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_jacobians():
    np.testing.assert_allclose(tw.jacfwd(doubler)(X), tw.jacfwd(plain)(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tw.jacrev(doubler)(X), tw.jacrev(plain)(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        tw.hessian(lambda x: doubler(x).sum())(X), tw.hessian(lambda x: plain(x).sum())(X), rtol=1e-4, atol=1e-5
    )


def test_half_precision_with_a_wide_accumulator():
    x, y = (tnp.asarray(a).astype(tnp.bfloat16) for a in (rand(16, 32), rand(32, 16)))

    def body(x_ref, y_ref, o_ref, acc_ref):
        @tl.when(tl.program_id(2) == 0)
        def _():
            acc_ref[...] = tnp.zeros(acc_ref.shape, acc_ref.dtype)

        acc_ref[...] += tnp.dot(x_ref[...], y_ref[...], preferred_element_type=np.float32)

        @tl.when(tl.program_id(2) == 3)
        def _():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    call = tl.kernel_call(
        body, tw.ShapeDtypeStruct((16, 16), tnp.bfloat16), grid=(2, 2, 4),
        in_specs=[tl.BlockSpec((8, 8), lambda i, j, k: (i, k)), tl.BlockSpec((8, 8), lambda i, j, k: (k, j))],
        out_specs=tl.BlockSpec((8, 8), lambda i, j, k: (i, j)), scratch_shapes=[tl.VMEM((8, 8), np.float32)],
    )  # fmt: skip
    wide = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
    np.testing.assert_allclose(np.asarray(call(x, y), np.float32), wide, rtol=2e-2, atol=2e-2)
    dx = tw.grad(lambda x: call(x, y).astype(np.float32).sum())(x)
    assert dx.dtype == tnp.bfloat16
    expected = np.broadcast_to(np.asarray(y, np.float32).sum(1), (16, 32))
    np.testing.assert_allclose(np.asarray(dx, np.float32), expected, rtol=3e-2, atol=3e-2)


def test_operands_keep_their_names():
    assert [b.name for b in kernel("pytrees").inputs] == ["pair['a']", "pair['b'][0]"]


@pytest.mark.law
@pytest.mark.parametrize("example", EXAMPLES + CORNERS, ids=lambda e: e.name)
def test_derived_kernels_are_verified_clean(example):
    """jvp, forward, backward and batched kernels are in bounds, wholly written and free of races too."""
    made = kernel_of(example)
    active = tuple(i for i, b in enumerate(made.inputs) if is_inexact(b.array.dtype))
    rows = (False,) * len(made.prefetch) + (True,) * len(made.inputs)
    derived = [jvp_kernel(made, active), batched_kernel(made, 3, rows)]
    plan = strategy(made, active)
    if isinstance(plan, Sweep):
        derived += [plan.forward, plan.backward]
    else:
        wanted = tuple(made.splits[1] + i for i in active)
        derived += [plan.forward, *(p.kernel for stage in plan.stages if stage.given for p in pieces(stage, wanted))]
    for one in derived:
        verify(one)


def part(x, o):
    o[0] = x[...].sum()


def parts(x, o):
    o[0], o[1:4] = x[...].sum(), x[1:4]


def by_branches(x, o):
    o[0] = x[0]

    @tl.when(tl.program_id(0) == 0)
    def _():
        o[1:] = x[1:]


@pytest.mark.parametrize("body, verdict", [(part, "unknown"), (parts, "proved"), (by_branches, "unknown")])
def test_a_block_is_wholly_written_by_the_parts_that_are_stored(body, verdict):
    def call(x, **options):
        spec = tl.BlockSpec((4,), lambda i: (i,))
        struct = tw.ShapeDtypeStruct((8,), "float32")
        return tl.kernel_call(body, struct, grid=2, in_specs=[spec], out_specs=spec, **options)(x)

    x = np.ones(8, np.float32)
    (found,) = kernels_of(tw.make_jaxpr(call)(x))
    assert {f.verdict for f in verify(found) if f.what == "wholly written"} == {verdict}
    if verdict == "unknown":
        with pytest.raises(tw.errors.KernelError, match="wholly written is not proved"):
            call(x, strict=True)
