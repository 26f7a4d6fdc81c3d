"""Every template on the operands that go wrong: NaN and infinities, nothing, one number, and nine axes.

Each at tiles that cut every axis that may be cut, against the NumPy meaning of the primitive.
"""

import numpy as np
import pytest

import tilewright as tw
from tests.support.cases import Case
from tests.support.laws import CASES, as_list, operands
from tests.support.templates import close, interpreted
from tilewright.core.ir.primitive import AxisInfo
from tilewright.core.ir.program import Literal
from tilewright.core.ir.types import ArrayType, is_float, is_key
from tilewright.core.primitives.contraction.conv import conv_general_dilated_p
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.core.primitives.elementwise import arithmetic as elementwise
from tilewright.core.primitives.elementwise.comparison import ge_p
from tilewright.core.primitives.keys import threefry
from tilewright.core.primitives.movement import dynamic_slice, shape, sort
from tilewright.core.primitives.movement import index_functions as index
from tilewright.core.primitives.reduction import reduce
from tilewright.core.primitives.reduction import reduce_window as w
from tilewright.core.primitives.special import cumulative
from tilewright.core.tracing.numpy_interpreter import apply
from tilewright.core.tracing.trace import trace_program, typeof
from tilewright.core.transforms.batching import batch_program
from tilewright.kernels import TEMPLATES

FIRST = {case.primitive: case for case in reversed(CASES) if case.primitive in TEMPLATES}
OF_FLOATS = [c for c in CASES if c.primitive in TEMPLATES and any(is_float(t.dtype) for t in c.types)]
FLOATS = {case.primitive: case for case in reversed(OF_FLOATS)}
I32, F32 = np.dtype(np.int32), np.dtype(np.float32)


def every(table):
    return pytest.mark.parametrize("primitive", list(table), ids=str)


def ragged(loops):
    """Two cells or more along every loop that may be cut, the last one ragged where that can be."""
    tiles = []
    for i, n in enumerate(loops.sizes):
        odd = [t for t in range(1, n) if n % t]
        tiles.append(1 if i in loops.single else max(n, 1) if i in loops.whole or n < 2 else (odd or [1])[-1])
    return tuple(tiles) if loops.shared is None or loops.sizes[loops.shared] < 2 else (*tiles, 2)


def check(case, args, compiled=False):
    """A template is what its primitive means, or where it is wanted what that is compiled to."""
    template = TEMPLATES[case.primitive]
    tiles = ragged(template.loops([typeof(a) for a in args], case.params))
    with np.errstate(all="ignore"):
        wanted = apply(case.primitive, args, case.params)
        close(interpreted(template, args, tiles, case.params), wanted, case)
    if compiled:
        wanted = case.primitive.bind(*args, **case.params)
    close(template(*args, tiles=tiles, **case.params), wanted, case)


# ---------------------------------------------------------------------------- NaN and infinities


# A user's monoid need not be one at infinity: that of the case has no identity there.
NAN_ALONE = {w.reduce_window_p}


@pytest.mark.law
@every(FLOATS)
@pytest.mark.parametrize("place", [0, -1])
def test_nan_and_infinities(primitive, place):
    """One of them at a time, first or last in each operand of floats."""
    case = FLOATS[primitive]
    for value in (np.nan,) if primitive in NAN_ALONE else (np.nan, np.inf, -np.inf):
        args = [np.array(a) for a in operands(case)]
        for a, t in zip(args, case.types, strict=True):
            if is_float(t.dtype) and a.size:
                a.reshape(-1)[place] = value
        check(case, args, compiled=True)


# ---------------------------------------------------------------------------- nine axes, and batches of nothing


def check_program(program, args, case):
    """The equations of a Program, each as its template and by its meaning."""
    env = dict(zip(program.inputs, args, strict=True)) | dict(zip(program.constants, program.values, strict=True))
    for eqn in program.eqns:
        given = [np.asarray(a.value, a.type.dtype) if isinstance(a, Literal) else env[a] for a in eqn.inputs]
        one = Case(eqn.primitive, tuple(map(typeof, given)), eqn.params, tolerance=case.tolerance)
        if eqn.primitive in TEMPLATES:
            check(one, given)
        env.update(zip(eqn.outputs, as_list(apply(eqn.primitive, given, eqn.params)), strict=True))


def batched(case, sizes):
    """A case as a Program over operands with more axes in front, and those operands."""
    program = trace_program(
        lambda *xs: as_list(case.primitive.bind(*xs, **case.params)), list(case.types), case.primitive.name
    )
    args = operands(case)
    for n in sizes:
        program, _ = batch_program(program, AxisInfo(n), (0,) * len(args))
        args = [np.broadcast_to(a, (n, *a.shape)).copy() for a in args]
    return program, args


BATCHED = {p: c for p, c in FIRST.items() if c.types and (p.batch or p.relation)}


@pytest.mark.law
@every(BATCHED)
def test_nine_axes(primitive):
    """Axes are put in front, as vmap does, until an operand has nine."""
    case = BATCHED[primitive]
    missing = 9 - max(t.ndim for t in case.types)
    program, args = batched(case, ((3, 1, 2) + (1,) * missing)[:missing])
    check_program(program, args, case)


@pytest.mark.law
@every(BATCHED)
def test_batches_of_nothing(primitive):
    program, args = batched(BATCHED[primitive], (0, 2))
    check_program(program, args, BATCHED[primitive])


# ---------------------------------------------------------------------------- one number, and nothing

SUMS = (reduce.reduce_sum_p, reduce.reduce_prod_p, reduce.reduce_max_p, reduce.reduce_min_p)
BITS = (reduce.reduce_and_p, reduce.reduce_or_p, reduce.reduce_xor_p)
WINDOWS = (w.reduce_window_sum_p, w.reduce_window_max_p, w.reduce_window_min_p)
ADD = trace_program(lambda a, b: [elementwise.add_p.bind(a, b)], [ArrayType((), F32)] * 2, "add")
SQUARE = trace_program(lambda a: [elementwise.mul_p.bind(a, a)], [ArrayType((), F32)], "square")
NUMBERS = {"precision": None, "preferred_element_type": None}
NONE = {"window_dimensions": (), "window_strides": (), "padding": ()}
DILATIONS = {"base_dilation": (), "window_dilation": ()}
PLACES = {"indices_are_sorted": False, "unique_indices": False, "mode": index.GatherScatterMode.FILL_OR_DROP}
GATHER = PLACES | {"dimension_numbers": index.GatherDimensionNumbers((), (), ()), "fill_value": None}
SCATTER = PLACES | {"dimension_numbers": index.ScatterDimensionNumbers((), (), ())}
SPACE = {"window_strides": (1,), "padding": ((1, 1),), "lhs_dilation": (1,), "rhs_dilation": (1,)}
CONV = next(c for c in CASES if c.primitive is conv_general_dilated_p).params | SPACE


def t(*shape, dtype=F32):
    return ArrayType(shape, dtype)


def scattered(primitive):
    return (t(), t(0, dtype=I32), t()), SCATTER | ({"update": SQUARE} if primitive is index.scatter_apply_p else {})


# primitive -> operands without axes and parameters; None: it takes an axis
SCALAR = {
    **{p: ((t(),), {"axes": ()}) for p in SUMS},
    **{p: ((t(dtype=I32),), {"axes": ()}) for p in BITS},
    reduce.reduce_p: ((t(), t()), {"computation": ADD, "dimensions": ()}),
    dot_general_p: ((t(), t()), NUMBERS | {"dimension_numbers": (((), ()), ((), ()))}),
    **{p: ((t(),), NONE | DILATIONS) for p in WINDOWS},
    w.reduce_window_p: ((t(), t()), NONE | DILATIONS | {"computation": ADD}),
    w.select_and_gather_add_p: ((t(), t()), NONE | DILATIONS | {"select_prim": ge_p}),
    w.select_and_scatter_add_p: ((t(), t()), NONE | {"select_prim": ge_p}),
    shape.transpose_p: ((t(),), {"permutation": ()}),
    shape.broadcast_in_dim_p: ((t(),), {"shape": (), "broadcast_dimensions": ()}),
    shape.reshape_p: ((t(),), {"new_sizes": (), "dimensions": None}),
    shape.squeeze_p: ((t(),), {"dimensions": ()}),
    shape.rev_p: ((t(),), {"dimensions": ()}),
    shape.slice_p: ((t(),), {"start_indices": (), "limit_indices": (), "strides": None}),
    shape.pad_p: ((t(), t()), {"padding_config": ()}),
    dynamic_slice.dynamic_slice_p: ((t(),), {"slice_sizes": ()}),
    dynamic_slice.dynamic_update_slice_p: ((t(), t()), {}),
    index.gather_p: ((t(), t(0, dtype=I32)), GATHER | {"slice_sizes": ()}),
    **{p: scattered(p) for p in TEMPLATES if p.name.startswith("scatter")},
    **{p: None for p in (*cumulative.PRIMITIVES, *sort.PRIMITIVES, reduce.argmax_p, reduce.argmin_p, shape.iota_p,
                         shape.concatenate_p, shape.split_p, conv_general_dilated_p)},
}  # fmt: skip
POINTWISE = {p for p, template in TEMPLATES.items() if template.family == "elementwise" or p is threefry.threefry2x32_p}
KEYED = set(threefry.PRIMITIVES) & set(TEMPLATES) - POINTWISE  # over keys: below


def drawn(types):
    rng = np.random.default_rng(1)
    return [np.asarray(rng.uniform(1, 3, t.shape)).astype(t.dtype) for t in types]


def test_the_tables_have_every_template():
    assert set(SCALAR) | POINTWISE | KEYED == set(TEMPLATES)
    assert set(TEMPLATES) - set(BATCHED) == KEYED | {shape.iota_p}


@pytest.mark.law
@every([p for p in TEMPLATES if p in POINTWISE or SCALAR.get(p)])
def test_one_number(primitive):
    if primitive in POINTWISE:
        case = FIRST[primitive]
        types = [ArrayType((), t.dtype) for t in case.types]
        if any(len(t.shape) for t in case.types) and primitive.name == "bitcast_convert_type":
            types = types[:1]
        check(Case(primitive, tuple(types), case.params, tolerance=case.tolerance), drawn(types))
        return
    types, params = SCALAR[primitive]
    check(Case(primitive, types, params), drawn(types), compiled=True)


PAIR = {"window_dimensions": (2, 2), "window_strides": (1, 1), "padding": ((1, 1), (0, 0)), "base_dilation": (1, 1),
        "window_dilation": (1, 1)}  # fmt: skip
LINE = {"axis": 0, "reverse": False}
ROWS = {"dimension_numbers": index.GatherDimensionNumbers((1,), (0,), (0,))}
EMPTY = [
    *(Case(p, (t(0, 3),), {"axes": (0,)}) for p in SUMS[:2]),
    *(Case(p, (t(0, 3, dtype=I32),), {"axes": (0,)}) for p in BITS),
    *(Case(p, (t(3, 0),), {"axes": (0,)}) for p in SUMS),
    Case(reduce.reduce_p, (t(3, 0), t()), {"computation": ADD, "dimensions": (1,)}),
    *(Case(p, (t(0, 3),), {"axes": (1,), "index_dtype": I32}) for p in (reduce.argmax_p, reduce.argmin_p)),
    *(Case(dot_general_p, (t(*a), t(*b)), NUMBERS | {"dimension_numbers": (((1,), (0,)), ((), ()))})
      for a, b in [((3, 0), (0, 5)), ((0, 4), (4, 3)), ((3, 4), (4, 0)), ((0, 0), (0, 0))]),
    *(Case(conv_general_dilated_p, (t(*a), t(*b)), CONV)
      for a, b in [((2, 0, 3), (3, 0, 2)), ((0, 2, 3), (3, 2, 2)), ((2, 2, 0), (3, 2, 2)), ((2, 2, 3), (0, 2, 2))]),
    Case(conv_general_dilated_p, (t(2, 0, 3), t(4, 0, 2)), CONV | {"feature_group_count": 2}),
    Case(conv_general_dilated_p, (t(4, 2, 0), t(4, 2, 2)), CONV | {"batch_group_count": 2}),
    *(Case(p, (t(0, 3),), PAIR) for p in WINDOWS),
    Case(w.reduce_window_p, (t(0, 3), t()), PAIR | {"computation": ADD}, operands=(np.zeros((0, 3), F32), F32.type(0))),
    *(Case(p, (t(0, 2),), LINE) for p in cumulative.PRIMITIVES),
    *(Case(p, (t(3, 0),), LINE | {"reverse": True}) for p in cumulative.PRIMITIVES),
    Case(sort.sort_p, (t(0, 3),), {"dimension": 0, "is_stable": True, "num_keys": 1}),
    Case(sort.top_k_p, (t(3, 4),), {"k": 0, "axis": 1}),
    Case(shape.transpose_p, (t(3, 0, 2),), {"permutation": (2, 0, 1)}),
    Case(shape.reshape_p, (t(0, 3),), {"new_sizes": (5, 0), "dimensions": None}),
    Case(shape.squeeze_p, (t(0, 1),), {"dimensions": (1,)}),
    Case(shape.broadcast_in_dim_p, (t(0),), {"shape": (3, 0), "broadcast_dimensions": (1,)}),
    Case(shape.iota_p, (), {"dtype": F32, "shape": (3, 0), "dimension": 0}),
    Case(shape.rev_p, (t(0, 3),), {"dimensions": (0, 1)}),
    Case(shape.slice_p, (t(3, 4),), {"start_indices": (3, 0), "limit_indices": (3, 4), "strides": (1, 2)}),
    Case(shape.pad_p, (t(0, 3), t()), {"padding_config": ((2, 1, 1), (0, 1, 2))}),
    Case(shape.concatenate_p, (t(0, 3), t(0, 3)), {"dimension": 0}),
    Case(shape.split_p, (t(0, 3),), {"sizes": (0, 0), "axis": 0}),
    Case(dynamic_slice.dynamic_slice_p, (t(3, 4), t(dtype=I32), t(dtype=I32)), {"slice_sizes": (2, 0)}),
    Case(dynamic_slice.dynamic_update_slice_p, (t(3, 4), t(0, 2), t(dtype=I32), t(dtype=I32))),
    Case(index.gather_p, (t(3, 4), t(0, 1, dtype=I32)), GATHER | ROWS | {"slice_sizes": (1, 4)}),
    *(Case(p, (t(3, 4), t(0, 1, dtype=I32), t(0, 4)), SCATTER | scattered(p)[1] | {
        "dimension_numbers": index.ScatterDimensionNumbers((1,), (0,), (0,))})
      for p in TEMPLATES if p.name.startswith("scatter")),
]  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("case", EMPTY, ids=str)
def test_nothing(case):
    check(case, operands(case) if case.operands else drawn(case.types))


@pytest.mark.law
@pytest.mark.parametrize("case", EMPTY, ids=str)
@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e"])
def test_nothing_has_tiles_on_a_device(case, target):
    types = [t.strong() for t in case.types]
    assert TEMPLATES[case.primitive].build(*types, target=target, **case.params).kernels


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 1, 2, 1, 1, 2, 1, 1, 3)], ids=str)
def test_keys(shape):
    """Of one key, none, and keys along nine axes."""
    key = tw.random.key(7)
    keys = tw.random.split(key, shape) if shape else key
    seeds = np.arange(np.prod(shape, dtype=int), dtype=np.uint32).reshape(shape)
    for primitive, args, params in [
        (threefry.random_bits_p, (keys,), {"bit_width": 32, "shape": (3,)}),
        (threefry.random_bits_p, (keys,), {"bit_width": 8, "shape": ()}),
        (threefry.random_split_p, (keys,), {"shape": (3,)}),
        (threefry.random_fold_in_p, (keys, seeds), {}),
        (threefry.random_seed_p, (seeds,), {"impl": key.dtype}),
    ]:
        template, expected = TEMPLATES[primitive], primitive.bind(*args, **params)
        found = template(*args, tiles=ragged(template.loops([typeof(a) for a in args], params)), **params)
        if is_key(expected.dtype):
            found, expected = tw.random.key_data(found), tw.random.key_data(expected)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
