"""Every template, tiled: at least two cells on every axis that has two elements, tiles drawn, most of them ragged.

Interpreted and compiled against the NumPy meaning of the primitive; at whole-array tiles it is the primitive.
"""

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.cases.conv import case as conv
from tests.support.laws import as_list, differentiable, function_of, numpy_meaning, operands
from tests.support.templates import (
    CASES_OF,
    by_dtypes,
    by_form,
    by_kind,
    by_name,
    close,
    first_by,
    interpreted,
    is_elementwise,
)
from tilewright import jit, random
from tilewright.core.api.transformations import jvp, vjp, vmap
from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.core.primitives.elementwise.arithmetic import add_p
from tilewright.core.primitives.keys import threefry as r
from tilewright.core.primitives.reduction.reduce import reduce_max_p, reduce_sum_p
from tilewright.core.support.errors import ArgumentError
from tilewright.core.tracing.numpy_interpreter import apply
from tilewright.core.tracing.trace import typeof
from tilewright.kernels import GLUE, TEMPLATES, check_complete
from tilewright.lang.interpret.interpreter import parallel_axes
from tilewright.lang.targets.target import TARGETS
from tilewright.lang.verify.verify import verify

# Elementwise templates share one body; these have one operand and several, scalars, parameters, mixed dtypes.
SAMPLE = set(
    "neg exp tanh add mul div max pow integer_pow select_n clamp convert_element_type bitcast_convert_type "
    "reduce_precision and eq not complex real polygamma".split()
)
SAMPLED = tuple(c for c in CASES_OF if c.primitive.name in SAMPLE or not is_elementwise(c))
DIFFERENTIABLE = tuple(c for c in SAMPLED if differentiable(c) and str(c.types[0].dtype) == "float32")
DERIVED = first_by(by_form, DIFFERENTIABLE)


def draw_tiles(data, loops):
    """At least two cells along every loop that may be cut, and a ragged end wherever the size allows it."""
    tiles = []
    for i, n in enumerate(loops.sizes):
        if i in loops.single:
            tiles.append(1)
            continue
        if i in loops.whole or n < 2:
            tiles.append(max(n, 1))
            continue
        ragged = [t for t in range(1, n) if n % t]
        tiles.append(data.draw(st.sampled_from(ragged or [t for t in range(1, n)])))
    if loops.shared is None or loops.sizes[loops.shared] < 2:
        return tuple(tiles)
    return *tiles, data.draw(st.integers(2, -(-loops.sizes[loops.shared] // tiles[loops.shared])))


def settings(n):
    return hypothesis.settings(max_examples=n, deadline=None, derandomize=True, database=None,
                               suppress_health_check=list(hypothesis.HealthCheck))  # fmt: skip


def test_every_primitive_is_a_template_or_glue():
    check_complete()
    assert not set(TEMPLATES) & set(GLUE)
    assert all(len(reason) > 20 for reason in GLUE.values())


@pytest.mark.law
@pytest.mark.parametrize("case", first_by(by_dtypes))
def test_interpreted_tiles_are_the_primitive(case):
    template, args = TEMPLATES[case.primitive], operands(case)
    types = [typeof(a) for a in args]

    @settings(1)
    @hypothesis.given(st.data())
    def check(data):
        tiles = draw_tiles(data, template.loops(types, case.params))
        close(interpreted(template, args, tiles, case.params), expected, case)

    expected = apply(case.primitive, args, case.params)
    check()


# Blocks that data places or adds to, and those whose elements lie elsewhere in the result: only their values are laws.
UNPROVED = "gather dynamic_slice dynamic_update_slice rev slice concatenate split reduce reshape".split()
PROVED = tuple(c for c in CASES_OF if c.primitive.name not in UNPROVED and "scatter" not in c.primitive.name)


@pytest.mark.law
@pytest.mark.parametrize("case", first_by(by_kind, PROVED))
def test_tiles_are_proved(case):
    template = TEMPLATES[case.primitive]
    types = [typeof(a) for a in operands(case)]

    @settings(1)
    @hypothesis.given(st.data())
    def check(data):
        tiles = draw_tiles(data, template.loops(types, case.params))
        for kernel in template.build(*types, tiles=tiles, **case.params).kernels:
            assert all(f.verdict == "proved" for f in verify(kernel))

    check()


@pytest.mark.law
@pytest.mark.parametrize("case", first_by(by_kind, SAMPLED))
def test_compiled_tiles_are_the_primitive(case):
    template, args = TEMPLATES[case.primitive], operands(case)
    types = [typeof(a) for a in args]

    @settings(1)
    @hypothesis.given(st.data())
    def check(data):
        tiles = draw_tiles(data, template.loops(types, case.params))
        compiled = jit(lambda *args: template(*args, tiles=tiles, **case.params))
        close(compiled(*args), apply(case.primitive, args, case.params), case)

    check()


@pytest.mark.law
@pytest.mark.parametrize("case", first_by(by_name))
def test_a_whole_array_tile_is_the_primitive(case):
    template = TEMPLATES[case.primitive]
    types = [typeof(a) for a in operands(case)]
    kernel = template.kernel(*types, tiles=template.untiled(*types, **case.params), **case.params)
    assert kernel.cells <= 1
    names = [e.primitive.name for e in kernel.body.eqns if e.primitive.name not in ("get", "swap")]
    if all(np.prod(t.shape) for t in (*types, *template.results(types, case.params))):
        assert names == [case.primitive.name]


def tiled_function(case, data):
    """The template at drawn tiles as a function of the differentiated operands, the primitive alike, and those."""
    template, args = TEMPLATES[case.primitive], operands(case)
    types = [typeof(a) for a in args]
    tiles = draw_tiles(data, template.loops(types, case.params))
    mask = differentiable(case)
    plain, xs = function_of(case, args, mask, case.params)
    chosen = [i for i, m in enumerate(mask) if m]

    def tiled(*xs):
        full = list(args)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        outs = as_list(template(*full, tiles=tiles, **case.params))
        return [o for o in outs if np.issubdtype(o.dtype, np.inexact)]

    return tiled, plain, xs


def derivatives(f, xs, ts, cts):
    outs, pullback = vjp(f, *xs)
    return jvp(f, xs, ts)[1], pullback(cts(outs))


@pytest.mark.law
@pytest.mark.parametrize("case", DERIVED)
def test_derivatives_of_tiles_are_those_of_the_primitive(case):
    """Those of the tiles are one program, those of the primitive its meaning in NumPy."""

    @settings(1)
    @hypothesis.given(st.data())
    def check(data):
        tiled, plain, xs = tiled_function(case, data)
        rng = np.random.default_rng(0)
        ts = [rng.standard_normal(x.shape).astype(x.dtype) for x in xs]

        def cts(outs):
            rng = np.random.default_rng(1)
            return [rng.standard_normal(o.shape).astype(o.dtype) for o in outs]

        with numpy_meaning():
            tangents, cotangents = derivatives(plain, xs, ts, cts)
        found = jit(lambda xs, ts: derivatives(tiled, xs, ts, cts))(xs, ts)
        close([*found[0], *found[1]], [*tangents, *cotangents], case)

    check()


@pytest.mark.law
@pytest.mark.parametrize("case", DERIVED)
def test_vmap_of_tiles_is_that_of_the_primitive(case):
    @settings(1)
    @hypothesis.given(st.data())
    def check(data):
        tiled, plain, xs = tiled_function(case, data)
        stacked = [np.stack([x, x * np.asarray(0.5, x.dtype)]) for x in xs]
        with numpy_meaning():
            expected = vmap(plain)(*stacked)
        close(jit(vmap(tiled))(*stacked), expected, case)

    check()


# ---------------------------------------------------------------------------- random keys, targets, cost, errors


def test_keys_and_bits():
    key = random.key(3)
    keys = random.split(key, 5)
    words = np.arange(5, dtype=np.uint32)
    calls = [
        *((r.random_bits_p, (k,), t, {"bit_width": w, "shape": (5, 7)})
          for w in (8, 16, 32) for k, t in ((key, (2, 3)), (keys, (2, 2, 3)))),
        (r.random_split_p, (keys,), (2, 2), {"shape": (3,)}),
        (r.random_fold_in_p, (keys, words), (2,), {}),
        (r.random_fold_in_p, (key, words), (2,), {}),
        (r.random_seed_p, (words,), (2,), {"impl": key.dtype}),
    ]  # fmt: skip
    for primitive, args, tiles, params in calls:
        found, expected = TEMPLATES[primitive](*args, tiles=tiles, **params), primitive.bind(*args, **params)
        if found.dtype == key.dtype:
            found, expected = random.key_data(found), random.key_data(expected)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


MATMUL = {"dimension_numbers": (((1,), (0,)), ((), ())), "precision": None, "preferred_element_type": None}


def matrix(*shape):
    return ArrayType(shape, np.float32)


@pytest.mark.parametrize("target", [t for t in TARGETS if t != "cpu"])
def test_candidates_fit_the_target(target):
    for template, types, params in [
        (TEMPLATES[dot_general_p], (matrix(4000, 3000), matrix(3000, 5000)), MATMUL),
        (TEMPLATES[add_p], (matrix(4000, 3000),) * 2, {}),
        (TEMPLATES[reduce_sum_p], (matrix(4000, 3000),), {"axes": (1,)}),
    ]:
        found = template.candidates(*types, target=target, **params)
        assert len(found) > 1 and found[0] == template.default(*types, target=target, **params)
        for tiles in found:
            assert template.nest(types, params).fast_bytes(tiles, TARGETS[target]) <= TARGETS[target].block_bytes


@pytest.mark.parametrize("target", [t for t in TARGETS if t != "cpu"])
def test_convolutions_of_many_taps_or_groups_fit_the_target(target):
    """The gradient of the weights of a convolution, whose taps are an image, and one whose features are groups."""
    for case in (conv((64, 32, 58, 58), (128, 32, 56, 56), "weights"),
                 conv((8, 4096, 30, 30), (8192, 1, 3, 3), "depthwise", feature_group_count=4096)):  # fmt: skip
        template = TEMPLATES[case.primitive]
        tiles = template.default(*case.types, target=target, **case.params)
        assert template.nest(case.types, case.params).fast_bytes(tiles, TARGETS[target]) <= TARGETS[target].block_bytes
        loops = template.loops(case.types, case.params)
        assert all(t <= 8 for t in tiles[:2]) and loops.sizes[-1] >= tiles[-1] > 1


def test_cost_counts_each_visit_of_a_block():
    product = TEMPLATES[dot_general_p]
    cost = product.cost(matrix(64, 32), matrix(32, 48), tiles=(16, 16, 8), **MATMUL)
    # The left operand comes in once for each of 3 columns of blocks, the right one for each of 4 rows.
    assert cost.bytes == 4 * (3 * 64 * 32 + 4 * 32 * 48 + 64 * 48)
    assert cost.flops == 2 * 64 * 32 * 48 and cost.transcendentals == 0
    ragged = TEMPLATES[add_p].cost(matrix(5, 7), matrix(), tiles=(2, 3))
    assert ragged.bytes == 4 * (35 + 1 + 35)


def numbered(*numbers):
    return MATMUL | {"dimension_numbers": numbers}


SPLIT = [
    (matrix(5, 23), matrix(23, 7), MATMUL, (3, 4, 4), 4),  # 6 steps in 3 runs
    (matrix(5, 23), matrix(23, 7), MATMUL, (5, 7, 2), 5),  # 12 steps in runs of 3
    (matrix(5, 23), matrix(23, 7), MATMUL, (5, 7, 2), 7),  # 12 steps in 6 runs
    (matrix(5, 19), matrix(19, 7), MATMUL, (5, 7, 2), 3),  # 10 steps, the last run has 2 of 4
    (matrix(3, 2, 11), matrix(3, 11, 2), numbered(((1, 2), (2, 1)), ((0,), (0,))), (2, 1, 3), 4),
    (matrix(31), matrix(31), numbered(((0,), (0,)), ((), ())), (4,), 3),
]  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("dtypes", [("float32", None), ("bfloat16", None), ("bfloat16", "float32"), ("int32", None)])
@pytest.mark.parametrize("case", SPLIT, ids=lambda c: f"{c[0].shape}-{c[3]}-{c[4]}")
def test_a_split_contraction_is_the_contraction(case, dtypes):
    left, right, params, tiles, runs = case
    rng = np.random.default_rng(0)
    args = [
        rng.integers(-3, 4, t.shape).astype(np.dtype(getattr(ml_dtypes, dtypes[0], dtypes[0]))) for t in (left, right)
    ]
    product, params = TEMPLATES[dot_general_p], params | {"preferred_element_type": dtypes[1] and np.dtype(dtypes[1])}
    expected = np.asarray(apply(dot_general_p, args, params))
    built = product.build(*map(typeof, args), tiles=(*tiles, runs), **params)
    partial, total = built.kernels
    assert partial.outputs[0].array.shape[1:] == total.outputs[0].array.shape == expected.shape
    assert all(f.verdict == "proved" for k in built.kernels for f in verify(k))
    for found in (interpreted(product, args, (*tiles, runs), params), product(*args, tiles=(*tiles, runs), **params),
                  interpreted(product, args, (*tiles, runs), params, target="cuda:sm_90")):  # fmt: skip
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(found, np.float64), np.asarray(expected, np.float64))


def test_the_sum_of_a_contraction_with_few_cells_is_split_where_cores_would_idle():
    product = TEMPLATES[dot_general_p]
    long, square = (matrix(64, 65536), matrix(65536, 64)), (matrix(4096, 4096),) * 2
    yes, no = ("cuda:sm_90", "rocm:gfx942", "tpu:v5p"), ("tpu:v5e", "cpu")
    wanted = [*((t, long, True) for t in yes), *((t, long, False) for t in no), ("cuda:sm_90", square, False)]
    for target, types, split in wanted:
        tiles = product.default(*types, target=target, **MATMUL)
        assert (len(tiles) == 4) == split, target
        if split:
            machine, built = TARGETS[target], product.build(*types, target=target, **MATMUL)
            cells = built.kernels[0].cells // -(-65536 // tiles[2] // tiles[3])
            assert machine.units / 2 <= cells <= machine.units
            assert parallel_axes(built.kernels[0]) == tuple(range(len(built.kernels[0].grid) - 1))
            assert sum(len(t) == 4 for t in product.candidates(*types, target=target, **MATMUL)) >= 1
    cost = product.cost(matrix(8, 64), matrix(64, 8), tiles=(8, 8, 8, 4), **MATMUL)
    assert cost.bytes == 4 * (2 * 8 * 64 + 2 * 4 * 8 * 8 + 8 * 8)  # four partial results go out and come in


@pytest.mark.parametrize(
    "tiles, words", [((2,), "one positive size"), ((2, 2, 2), "one positive size"), ((0, 2), "one positive size")]
)
def test_wrong_tiles_are_refused(tiles, words):
    with pytest.raises(ArgumentError, match=words):
        TEMPLATES[add_p].kernel(matrix(4, 4), matrix(4, 4), tiles=tiles)


def test_tiles_too_large_for_a_target_are_refused():
    with pytest.raises(ArgumentError, match="holds"):
        TEMPLATES[add_p].kernel(matrix(4096, 4096), matrix(4096, 4096), tiles=(4096, 4096), target="cuda:sm_90")


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("primitive", [reduce_sum_p, reduce_max_p], ids=str)
def test_special_values_come_through(primitive, axes):
    x = np.ones((5, 7), np.float32)
    x[0, 3], x[3, 0], x[4, 6] = np.nan, np.inf, -np.inf
    found = TEMPLATES[primitive](x, tiles=(2, 3), axes=axes)
    np.testing.assert_array_equal(np.asarray(found), apply(primitive, [x], {"axes": axes}))
