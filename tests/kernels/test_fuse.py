"""Fusion changes how a Program is computed, never what: fused = plain, whatever the operations, tiles and target.

Interpreted cell by cell and compiled, for programs written out below and for random ones, at tiles that are drawn.
"""

import math
from importlib.util import find_spec

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import tilewright as tw
from tests.support import fusion_programs as programs
from tests.support.fusing import check_fused, close, drawn_tiles, names, ones, small_tiles, traced
from tests.support.paths import GOLDEN
from tilewright import errors, lax, nn, random
from tilewright import numpy as tnp
from tilewright.core.ir.axis_relation import POINTWISE, Loops, Monoid, Reduced, pointwise
from tilewright.core.ir.primitive import NAMED, Primitive
from tilewright.core.ir.verifier import check_program
from tilewright.core.primitives.elementwise.arithmetic import add_p
from tilewright.core.tracing.numpy_interpreter import evaluate
from tilewright.core.tracing.trace import eval_program
from tilewright.kernels import TEMPLATES
from tilewright.kernels.cost import bytes_moved
from tilewright.kernels.fuse import forget, fuse, plan, plan_text
from tilewright.kernels.fuse.plan import Planner
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import TARGETS as TARGET_TABLE
from tilewright.lang.targets.target import target_of
from tilewright.lang.verify.verify import verify

TARGETS = ("cpu", "cuda:sm_90", "rocm:gfx942", "tpu:v5e")


# ---------------------------------------------------------------------------- programs written out


@pytest.mark.law
@pytest.mark.parametrize("name", programs.CASES)
def test_fused_is_plain_at_ragged_tiles(name):
    function, args = programs.case(name)
    check_fused(traced(function, *args), args, tiles=small_tiles)


@pytest.mark.law
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["softmax_grad", "layer_norm_grad", "mlp_grad", "attention"])
def test_fused_is_plain_at_the_tiles_of_targets(name, target):
    function, args = programs.case(name)
    check_fused(traced(function, *args), args, target, interpreted=False)


@pytest.mark.parametrize("name, count", [
    ("chain", 1), ("softmax", 1), ("softmax_grad", 1), ("layer_norm", 1), ("log_softmax", 1), ("two_outputs", 1),
    ("bias_gelu", 1), ("dequantised", 1), ("residual", 1), ("prologue", 1), ("mean_and_variance", 1),
    ("cross_entropy", 1),
])  # fmt: skip
def test_what_belongs_together_is_one_kernel(name, count):
    function, args = programs.case(name)
    fusion = plan(traced(function, *args), "tpu:v5e")
    assert len(fusion.kernels) == count and not fusion.glue
    assert [e.primitive.name for e in fusion.program.eqns] == ["kernel_call"] * count


# ---------------------------------------------------------------------------- random programs


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.data())
def test_random_programs_interpreted(data):
    function, args = programs.random_program(data)
    program = traced(function, *args)
    check_fused(program, args, data.draw(st.sampled_from(TARGETS)), drawn_tiles(data), compiled=False, kernels=False)


@hypothesis.settings(max_examples=12)
@hypothesis.given(st.data())
def test_random_programs_and_their_gradients_compiled(data):
    function, args = programs.random_program(data, differentiable=True)

    def total(*xs):
        return sum(tnp.sum(y * y) for y in function(*xs))

    program = traced(tw.value_and_grad(total, tuple(range(len(args)))), *args)
    check_fused(program, args, data.draw(st.sampled_from(TARGETS)), drawn_tiles(data), interpreted=False)


def test_sums_of_what_a_kernel_makes_anew_keep_their_loops():
    """A spread number is made in every kernel that reads it, under the loops that are there."""

    def f(x):
        weights = tnp.ones(x.shape, "float32")
        shares = weights / weights.sum()
        return shares, (x * shares).sum()

    check_fused(traced(f, ones(512)), [ones(512)], target="cuda:sm_90")


def test_bodies_of_loops_and_branches_are_fused():
    def body(x):
        def step(c, t):
            return tnp.tanh(c * 2 + t), tnp.sum(c * c, -1)

        c, ys = lax.scan(step, x, tnp.stack([x, x]))
        c = lax.cond(tnp.sum(c) > 0, lambda v: tnp.exp(v) - 1, lambda v: v * v + v, c)
        return lax.while_loop(lambda v: tnp.max(v) > 0.5, lambda v: v * 0.5 + v * 0.1, c), ys

    x = ones(6, 5) + 0.25  # whose sum is far from 0, where the branch changes
    fusion = check_fused(traced(body, x), (x,), tiles=small_tiles)
    assert {"scan", "cond", "while"} <= set(names(fusion.program)) and len(fusion.inner) >= 4
    assert sum(bool(f.kernels) for f in fusion.inner) >= 4


def test_calls_are_inlined_and_custom_rules_kept():
    @tw.custom_vjp
    def clipped(x):
        return x * 2

    clipped.defvjp(lambda x: (clipped(x), None), lambda _, ct: (tnp.clip(ct, -0.1, 0.1),))

    @tw.jit
    def inner(x):
        return clipped(x) + 1

    program = traced(tw.grad(lambda x: tnp.sum(inner(inner(x)) ** 2)), ones(4, 6))
    fusion = check_fused(program, (ones(4, 6),), tiles=small_tiles)
    assert set(names(fusion.program)) == {"kernel_call"}


def test_a_function_with_a_transpose_of_its_own_runs_what_it_runs_alone():
    rows = tw.ShapeDtypeStruct((1024, 512), "bfloat16")
    for softmax in (nn.fused.softmax, nn.fused.log_softmax):
        program = traced(lambda x, ct, softmax=softmax: tw.vjp(softmax, x)[1](ct), rows, rows)
        found = [kernel.name for kernel in kernels_of(fuse(program, "cuda:sm_90"))]
        assert found == [softmax.__name__, f"{softmax.__name__}_cotangent"]


@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e"])
def test_indices_of_rows_are_made_where_they_are_used(target):
    table, ids = tw.ShapeDtypeStruct((4096, 128), "float32"), tw.ShapeDtypeStruct((512,), "int32")
    of_rows = traced(lambda x, ids: x.at[ids].add(1.0)[ids], table, ids)
    assert not list(kernels_of(fuse(of_rows, target)))
    kept = traced(lambda x, ids: (x[ids * 2 + 1], ids * 2 + 1), table, ids)
    assert len(list(kernels_of(fuse(kept, target)))) == 1


def test_checkpointed_functions_are_fused_inside():
    f = tw.checkpoint(lambda x: tnp.sin(tnp.sin(x) * 2))
    program = traced(tw.grad(lambda x: tnp.sum(f(x))), ones(4, 6))
    check_fused(program, (ones(4, 6),), tiles=small_tiles)


def test_effects_keep_their_order():
    seen = []

    def speak(x):
        y = tnp.tanh(x) * 2
        tw.io_callback(lambda v: seen.append(("first", float(v))), None, y[0, 0], ordered=True)
        z = tnp.exp(y) + x
        tw.io_callback(lambda v: seen.append(("second", float(v))), None, z[0, 0], ordered=True)
        return z

    x = ones(4, 6)
    program = fuse(traced(speak, x), "tpu:v5e")
    assert names(program).count("io_callback") == 2 and "kernel_call" in names(program)
    tw.block_until_ready(tw.jit(lambda v: eval_program(program, v))(x))
    assert [s[0] for s in seen] == ["first", "second"]


def tripled(**traits):
    """A user's operation with the name of another one."""
    return Primitive("neg", typing=lambda x: x, numpy=lambda x: x * 3, expand=lambda x: add_p.bind(x, add_p.bind(x, x)),
                     **traits)  # fmt: skip


def test_an_operation_of_the_users_is_fused_by_its_relation_and_stays_outside_without():
    x = ones(5, 7)
    for triple, glue in ((tripled(relation=pointwise, kind=POINTWISE), ()), (tripled(), ("neg",))):
        fusion = plan(traced(lambda x, p=triple: tnp.sum(tnp.exp(p.bind(x)), -1), x), "tpu:v5e", small_tiles)
        assert tuple(name for name, _ in fusion.glue) == glue
        close([evaluate(fusion.program, x)[0]], [np.exp(x * 3).sum(-1)])


def test_a_reduction_of_the_users_takes_its_monoid_along():
    """Ragged, cut, and kept from cell to cell: the sum of squares' roots, of elements joined by `hypot`."""
    hypot = Monoid("hypot", lambda dtype: dtype.type(0), lambda a, b: tnp.sqrt(a * a + b * b))

    def relation(ins, outs, *, axes):
        loops = Loops()
        rows = loops.axes(ins[0].shape)
        kept = tuple(a for i, a in enumerate(rows) if i not in axes)
        return loops.relation([rows], [kept], {f: Reduced(hypot) for i in axes for f in rows[i]})

    norm = Primitive(
        "norm", typing=lambda x, *, axes: x.with_shape(n for i, n in enumerate(x.shape) if i not in axes),
        numpy=lambda x, *, axes: np.sqrt((x * x).sum(axes)), relation=relation, axes={"axes": NAMED},
    )  # fmt: skip
    x = ones(9, 7)
    fusion = plan(traced(lambda x: norm.bind(tnp.exp(x), axes=(0,)) + 1, x), "cuda:sm_90", lambda loops: (4, 3))
    (one,) = fusion.kernels
    assert one.loops.carry and not fusion.glue and all(f.verdict == "proved" for f in verify(one.kernel))
    close([evaluate(fusion.program, x)[0]], [np.sqrt((np.exp(x) ** 2).sum(0)) + 1])


def test_random_keys_stay_outside():
    def drop(key, x):
        mask = random.bernoulli(key, 0.5, x.shape)
        return tnp.where(mask, tnp.tanh(x) * 2, 0.0)

    key, x = random.key(1), ones(4, 6)
    program = traced(drop, key, x)
    fused = fuse(program, "tpu:v5e", small_tiles)
    assert "kernel_call" in names(fused)
    close([tw.jit(lambda *xs: eval_program(fused, *xs)[0])(key, x)], [drop(key, x)])


# ---------------------------------------------------------------------------- what values and shapes there are


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "bias_gelu", "mean_and_variance", "columns"])
def test_nan_and_infinities_stay_where_they_are(name):
    function, args = programs.case(name)
    x = np.array(args[0])
    x[0, 0], x[2, 1] = np.nan, np.inf
    check_fused(traced(function, x, *args[1:]), (x, *args[1:]), tiles=small_tiles)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), ()])
def test_empty_arrays_and_scalars(shape):
    x = np.ones(shape, np.float32)

    def function(x):
        return tnp.tanh(x * 2 + 1), tnp.sum(x * x), tnp.sum(x) / 3

    check_fused(traced(function, x), (x,), kernels=False)


def test_scalars_beside_arrays():
    def function(x, s, i):
        return x * s + tnp.float32(2) * s, (x > s) & (i == 3), tnp.sum(x * s) * s

    args = (ones(5, 7), np.float32(1.5), np.int32(3))
    check_fused(traced(function, *args), args, tiles=small_tiles)


def test_ranks_above_what_anyone_uses():
    x = ones(2, 1, 3, 2, 1, 2, 3, 2, 1, 2)

    def function(x):
        y = tnp.exp(x - tnp.max(x, (2, 9), keepdims=True))
        return y / tnp.sum(y, (2, 9), keepdims=True), tnp.sum(y, tuple(range(9)))

    check_fused(traced(function, x), (x,), tiles=small_tiles, interpreted=False)


def test_shapes_that_depend_on_data_are_an_error():
    with pytest.raises(errors.ConcretizationError):
        tw.compile(lambda x: tnp.exp(x[x > 0]) * 2, ones(8), target="tpu:v5e", stop="kernels")


# ---------------------------------------------------------------------------- split contractions


def layer(x, y, b):
    return tw.nn.gelu(tnp.tanh(x) @ y + b)


@pytest.mark.law
@pytest.mark.parametrize("k", [2048, 2000, 2112])  # 32 steps; a ragged one; 33 in runs of 5
@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942", "tpu:v5p"])
def test_a_long_sum_with_few_cells_is_split_over_the_cores(k, target):
    rng = np.random.default_rng(k)
    x, y, b = (rng.standard_normal(s).astype(np.float32) * 0.1 for s in ((8, k), (k, 9), (9,)))
    fusion = check_fused(traced(layer, x, y, b), (x, y, b), target)
    split, *_ = [q for q in kernels_of(fusion.program) if q.name.startswith("contract_split")]
    assert split.out_types[0].shape[0] > 1
    (total,) = [one for one in fusion.kernels if "reduce_sum" in one.operations]
    assert "tanh" in total.operations  # what comes after the product is in the kernel of the sum
    check_fused(traced(tw.grad(lambda *a: tnp.sum(layer(*a) ** 2), (0, 1, 2)), x, y, b), (x, y, b), target)


@pytest.mark.parametrize("target", ["cpu", "tpu:v5e", "tpu:v6e"])
def test_one_core_splits_nothing(target):
    program = traced(layer, *(tw.ShapeDtypeStruct(s, "float32") for s in ((8, 65536), (65536, 9), (9,))))
    names = [q.name for q in kernels_of(fuse(program, target))]
    assert len(names) == 1 and not names[0].startswith("contract_split")


def test_what_keeps_the_cores_at_work_is_not_split():
    program = traced(lambda x, y: x @ y, *(tw.ShapeDtypeStruct((1024, 1024), "bfloat16"),) * 2)
    assert not any(q.name.startswith("contract_split") for q in kernels_of(fuse(program, "cuda:sm_90")))


@pytest.mark.parametrize("n", [512, 500])
def test_cells_that_read_the_same_too_often_are_made_larger_and_share_their_sums(n):
    """Half of the processors have a cell either way; the roofline says that the split product takes less time."""
    rng = np.random.default_rng(n)
    x, y, b = (rng.standard_normal(s).astype(np.float32) * 0.01 for s in ((n, 4096), (4096, 512), (512,)))
    program = traced(layer, x, y, b)
    fusion = check_fused(program, (x, y, b), "rocm:gfx942", interpreted=False)
    (split,) = [q for q in kernels_of(fusion.program) if q.name.startswith("contract_split")]
    (product,) = [e for e in program.eqns if e.primitive.name == "dot_general"]
    types = [a.type for a in product.inputs]
    machine = target_of("rocm:gfx942")
    loops = TEMPLATES[product.primitive].loops(types, product.params)
    assert math.prod(loops.cut((32,) * 3).counts[:2]) > machine.units / 2  # there are tiles with cells enough
    alone = Planner(program, machine).alone(product)
    flops, moved = 2 * math.prod(loops.sizes), bytes_moved(split) + 2 * split.out_types[0].nbytes
    assert machine.seconds(flops, moved) < machine.seconds(flops, alone)


# ---------------------------------------------------------------------------- tiles, targets, determinism


def test_wrong_tiles_are_refused():
    x = ones(64, 128)
    program = traced(lambda x: tnp.tanh(x) * 2, x)
    (kernel,) = plan(program, "cuda").kernels
    for tiles, words in [((4,), "one positive size"), ((0, 8), "one positive size")]:
        with pytest.raises(errors.ArgumentError, match=words):
            fuse(program, "cuda", {kernel.kernel.name: tiles})
    wide = traced(lambda x: tnp.tanh(x) * 2, tw.ShapeDtypeStruct((4096, 8192), "float32"))
    with pytest.raises(errors.ArgumentError, match="would hold"):
        fuse(wide, "tpu:v5e", {kernel.kernel.name: (4096, 8192)})
    with pytest.raises(errors.ArgumentError, match="would hold"):
        fuse(wide, "tpu:v5e", lambda loops: loops.sizes)
    rows = traced(lambda x: x / tnp.sum(x, -1, keepdims=True), x)
    with pytest.raises(errors.ArgumentError, match="full size"):
        fuse(rows, "cuda", lambda loops: (8, 8))
    with pytest.raises(errors.ArgumentError, match="no target named"):
        fuse(program, "abacus")


def test_tiles_of_a_kernel_that_is_not_there_are_refused():
    program = traced(tnp.tanh, ones(64, 64))
    (kernel,) = plan(program, "cuda").kernels
    with pytest.raises(errors.ArgumentError, match=f"'rows'(.|\\s)*the fused kernels are {kernel.kernel.name}"):
        fuse(program, "cuda", {"rows": (8, 64)})


def test_tiles_by_name():
    x = ones(64, 128)
    program = traced(lambda x: tnp.tanh(x) * 2, x)
    (kernel,) = plan(program, "cuda").kernels
    (changed,) = plan(program, "cuda", {kernel.kernel.name: (16, 64)}).kernels
    assert changed.tiles == (16, 64) and changed.kernel.grid == (4, 2)


@pytest.mark.parametrize("target, n, dtype, columns", [
    ("cuda:sm_90", 4096, "bfloat16", 256), ("cuda:sm_90:h200", 8192, "float16", 256),
    ("cuda:sm_90", 2048, "bfloat16", 128),  # wide blocks would be too few
    ("cuda:sm_90", 4096, "float32", 128), ("cuda:sm_80", 4096, "bfloat16", 128), ("cuda:sm_100", 4096, "bfloat16", 128),
])  # fmt: skip
def test_products_have_wide_blocks_where_these_fill_the_device(target, n, dtype, columns):
    square = tw.ShapeDtypeStruct((n, n), dtype)
    (kernel,) = plan(traced(lambda x, y: x @ y, square, square), target).kernels
    assert kernel.kernel.outputs[0].shape == (128, columns)


@pytest.mark.parametrize("equation, x, w, blocks", [
    ("btd,dn->btn", (1, 4096, 4096), (4096, 4096), [(128, 64), (64, 256)]),
    ("btd,bdn->btn", (1, 4096, 4096), (1, 4096, 4096), [(128, 64), (64, 256)]),
    ("btd,dhk->bthk", (4, 4096, 4096), (4096, 32, 128), [(128, 64), (64, 128)]),
    ("bthk,hkd->btd", (1, 4096, 32, 128), (32, 128, 4096), [(128, 64), (64, 256)]),
])  # fmt: skip
def test_products_with_axes_of_one_element_and_of_heads_are_of_matrices(equation, x, w, blocks):
    given = [tw.ShapeDtypeStruct(shape, "bfloat16") for shape in (x, w)]
    program = traced(lambda x, w: tnp.einsum(equation, x, w), *given)
    (kernel,) = kernels_of(fuse(program, "cuda:sm_90"))
    assert [block.shape for block in kernel.inputs] == blocks


@pytest.mark.parametrize("name", ["softmax_grad", "mlp_grad", "attention"])
def test_the_same_program_gives_the_same_kernels(name):
    function, args = programs.case(name)
    one = plan(traced(function, *args), "cuda")
    forget()
    two = plan(traced(function, *args), "cuda")
    assert str(one.program) == str(two.program)
    assert [k.kernel for k in one.kernels] == [k.kernel for k in two.kernels]


def test_plans_are_remembered_by_structure_lines_and_tiles():
    def function(x):
        return tnp.tanh(x) * 2

    x = ones(64, 128)
    one = plan(traced(function, x), "cuda")
    assert plan(traced(function, x), "cuda") is one
    assert plan(traced(lambda x: tnp.tanh(x) * 2, x), "cuda") is not one  # another line
    assert plan(traced(function, x), "tpu") is not one and plan(traced(function, x[:32]), "cuda") is not one
    assert plan(traced(function, x), "cuda", {one.kernels[0].kernel.name: (16, 64)}) is not one
    forget()
    assert plan(traced(function, x), "cuda") is not one


@pytest.mark.parametrize("name", programs.SHOWN)
def test_programs_traced_anew_are_looked_up(name):
    function, args = programs.SHOWN[name]
    one, two = (plan(tw.compile(lambda *xs: function(*xs), *args, stop="program"), "tpu") for _ in range(2))
    assert one is two


def test_remembered_plans_take_the_constants_of_the_program():
    def scaled(x, by):
        return tw.compile(lambda x: tnp.tanh(x) * tnp.asarray(by), x, stop="transformed")

    x = ones(4, 6)
    for by in (ones(6), ones(6) + 3):
        program = scaled(x, by)
        assert len(program.values) == 1
        fused = fuse(program, "tpu")
        check_program(fused)
        close([eval_program(fused, x)[0]], [np.tanh(x) * by])


def test_the_cpu_takes_tiles_where_asked():
    function, args = programs.case("softmax_grad")
    plain = tw.compile(function, *args, stop="kernels")
    assert not list(kernels_of(plain))
    assert list(kernels_of(tw.compile(function, *args, stop="kernels", tiles=True)))
    expected = tw.jit(function)(*args)
    close([tw.compile(function, *args, tiles=True)(*args)], [expected])
    close([tw.compile(function, *args, tiles=small_tiles)(*args)], [expected])
    with tw.config(cpu_tiles=True):
        assert list(kernels_of(tw.compile(function, *args, stop="kernels")))
        close([tw.jit(function)(*args)], [expected])


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("cuda:sm_90", marks=pytest.mark.skipif(not find_spec("triton"), reason="needs tilewright[cuda]")),
        "tpu:v5e",
    ],
)
def test_device_modules_call_the_kernels(target):
    function, args = programs.case("softmax_grad")
    assert tw.compile(function, *args, target=target, stop="module").count("stablehlo.custom_call") >= 1


# ---------------------------------------------------------------------------- proofs


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", programs.SHOWN)
def test_every_kernel_of_the_programs_shown_is_proved(name, target):
    function, args = programs.SHOWN[name]
    for one in plan(traced(function, *args), target).every_kernel:
        assert all(f.verdict == "proved" for f in verify(one.kernel, strict=True))


@pytest.mark.parametrize("target", sorted(TARGET_TABLE.keys() - {"cpu"}))
@pytest.mark.parametrize("name", programs.SHOWN)
def test_the_programs_shown_are_planned_for_every_target(name, target):
    function, args = programs.SHOWN[name]
    account = plan(traced(function, *args), target, explained=True).account
    assert account.bytes_after < 0.6 * account.bytes_before


def test_strict_kernels_take_fused_ones():
    function, args = programs.case("cross_entropy_grad")
    expected = tw.jit(function)(*args)
    with tw.config(strict_kernels=True):
        close(tw.compile(function, *args, tiles=small_tiles)(*args), expected)


# ---------------------------------------------------------------------------- accounts


@pytest.mark.parametrize("name", programs.SHOWN)
@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e"])
def test_plans_are_as_recorded(name, target, request):
    function, args = programs.SHOWN[name]
    fusion = plan(traced(function, *args), target, explained=True)
    text = plan_text(fusion, f"{name} on {target}") + "\n"
    path = GOLDEN / f"fuse_{name}.{target.split(':')[0]}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.exists(), f"no golden text {path.name}: run with --update-golden"
    assert text == path.read_text()


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90", "cuda:sm_100", "rocm:gfx942", "tpu:v5e", "tpu:v6e"])
def test_a_transformer_step_moves_at_most_half_the_bytes(target):
    function, args = programs.SHOWN["transformer_step"]
    account = plan(traced(function, *args), target, explained=True).account
    assert account.bytes_after <= 0.5 * account.bytes_before


def test_a_transformer_step_that_keeps_many_processors_busy_moves_at_most_half_the_bytes():
    function, (p, x, labels) = programs.SHOWN["transformer_step"]
    x, labels = (tw.ShapeDtypeStruct((2 * t.shape[0], *t.shape[1:]), t.dtype) for t in (x, labels))
    account = plan(traced(function, p, x, labels), "rocm:gfx942", explained=True).account
    assert account.bytes_after <= 0.5 * account.bytes_before


def test_explain_is_a_table_too():
    function, args = programs.SHOWN["softmax"]
    (row,) = tw.explain(function, *args, target="tpu:v5e").table
    assert row["kernel"] == "rows_max_exp_sum" and row["bytes"] == 2 * args[0].size * 4
    assert "exp" in row["operations"] and len(row["loops"]) == len(row["tiles"])


# ---------------------------------------------------------------------------- loops of their own


def cut(loops):
    """Tiles that leave more cells than one: loops that go step by step do, long ones that carry in ten parts."""
    sizes = loops.sizes
    found = [max(n // 2, 1) if i not in loops.carry else n if n < 100 else n // 10 for i, n in enumerate(sizes)]
    return tuple(1 if i in loops.single else sizes[i] if i in loops.whole else t for i, t in enumerate(found))


def pooled(x):
    return tnp.tanh(lax.reduce_window(tnp.exp(x), -np.inf, lax.max, (2, 3), (2, 3), "VALID")) * 2


S = tw.ShapeDtypeStruct
IRREGULAR = {
    "cumsum": (lambda x: tnp.cumsum(tnp.exp(x), -1) + 1, (S((2048, 65536), "float32"),), ones(6, 30000)),
    "cumsum, reversed": (lambda x: lax.cumsum(x * 2, 1, True) * x, (S((2048, 65536), "float32"),), ones(6, 30000)),
    "gather": (lambda x, i: tnp.sqrt(x.at[i].get(mode="clip") + 2) * 3,
               (S((4096, 1024), "float32"), S((256,), "int32")), ones(6, 5), np.array([5, 0, 9, 2], np.int32)),
    "gather of what is computed": (lambda x, i: tnp.exp(x).at[i].get(mode="clip") + 1,
                                   (S((4096, 1024), "float32"), S((256,), "int32")), ones(6, 2),
                                   np.array([5, 0, 3], np.int32)),
    "window": (pooled, (S((2048, 3072), "float32"),), ones(8, 12)),
}  # fmt: skip


def standing_in(fusion):
    """The one kernel with an operation that has loops of its own."""
    (one,) = [k for k in fusion.kernels if k.operations[0] in ("cumsum", "gather", "reduce_window_max")]
    return one


@pytest.mark.law
@pytest.mark.parametrize("name", IRREGULAR)
def test_loops_of_their_own_with_their_neighbours_are_one_kernel(name):
    function, large, *args = IRREGULAR[name]
    program = traced(function, *args)
    fusion = plan(program, "cuda:sm_90", cut)
    made = standing_in(fusion)
    assert not fusion.glue
    operands = [np.ones(t.shape, t.dtype) for t in made.kernel.in_types]
    close(evaluate(made.plain, *operands), interpret(made.kernel, *operands))
    expected = tw.jit(function)(*args)
    close(evaluate(fusion.program, *args), [expected])
    close(tw.jit(lambda *xs: eval_program(fusion.program, *xs))(*args), [expected])

    found = plan(traced(function, *large), "cuda:sm_90", explained=True)
    one = standing_in(found)
    assert one.bytes == bytes_moved(one.kernel) and len(one.operations) > 2 and not found.glue
    assert 10 * found.account.bytes_after < 9 * found.account.bytes_before
    other = tuple(t if i in one.loops.single else max(t // 2, 1) for i, t in enumerate(one.tiles))
    asked = standing_in(plan(traced(function, *large), "cuda:sm_90", {one.kernel.name: other}))
    assert asked.tiles == other and asked.kernel.grid != one.kernel.grid


def test_sorts_stay_outside_and_say_why():
    found = plan(traced(lambda x: tnp.sort(x * 2) + 1, S((64, 128), "float32")), "cuda:sm_90", explained=True)
    assert found.glue == (("sort", "written out in a kernel, its network takes a compiler minutes; XLA has its own"),)


@pytest.mark.parametrize("target, shape, why", [
    ("cuda:sm_90", (4, 2**20), "1 cells of a kernel would run at once, on 132 processors"),
    ("tpu:v5e", (2048, 65536), "XLA has code of its own for it on a TPU"),
])  # fmt: skip
def test_loops_of_their_own_that_stay_outside_say_why(target, shape, why):
    found = plan(traced(IRREGULAR["cumsum"][0], S(shape, "float32")), target, explained=True)
    assert [b.reason for b in found.boundaries if why in b.reason]
