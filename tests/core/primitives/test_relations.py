"""Each relation agrees with its operation: an operand's element reaches only the results that are related to it."""

import itertools
import math

import numpy as np
import pytest

from tests.support.cases import Case
from tests.support.laws import CASES, as_list, operands
from tilewright import lax
from tilewright.core.api.transformations import vmap
from tilewright.core.ir.axis_relation import EFFECT, Loops, Parallel, Reduced, Whole, Window, pointwise, relate
from tilewright.core.ir.binding import under
from tilewright.core.ir.primitive import NAMED, Primitive
from tilewright.core.ir.program import Eqn, Var
from tilewright.core.ir.types import THREEFRY, ArrayType, is_bool, is_inexact, is_key
from tilewright.core.primitives.catalogue import ALL
from tilewright.core.primitives.contraction.conv import conv_general_dilated_p
from tilewright.core.primitives.contraction.coo_matmul import coo_matmul_p
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.core.primitives.control_flow.cond import cond_p
from tilewright.core.primitives.control_flow.jit_primitive import jit_p
from tilewright.core.primitives.control_flow.scan import scan_p
from tilewright.core.primitives.control_flow.while_loop import while_lin_p, while_p, while_vjp_p
from tilewright.core.primitives.custom import custom_derivative_primitives
from tilewright.core.primitives.custom.checkpoint import checkpoint_p, optimization_barrier_p
from tilewright.core.primitives.elementwise import arithmetic, comparison
from tilewright.core.primitives.external.host_callback import pure_callback_p
from tilewright.core.primitives.keys import threefry
from tilewright.core.primitives.linalg.lu import lu_solve_p
from tilewright.core.primitives.linalg.triangular import triangular_solve_p
from tilewright.core.primitives.movement import index_functions, shape
from tilewright.core.primitives.movement.sort import sort_p, top_k_p
from tilewright.core.primitives.reduction.reduce import (
    AND,
    MAXIMUM,
    MINIMUM,
    OR,
    PRODUCT,
    SUM,
    XOR,
    argmax_p,
    reduce_p,
    reduce_sum_p,
)
from tilewright.core.primitives.reduction.reduce_window import reduce_window_p, reduce_window_sum_p
from tilewright.core.primitives.special.cumulative import cumsum_p
from tilewright.core.primitives.spmd import collective
from tilewright.core.support.errors import UnsupportedError
from tilewright.core.tracing.numpy_interpreter import NUMPY, apply
from tilewright.lang.cost.estimate import eqn_cost, estimate_cost

POINTS = 4  # of each operand are poisoned


def equation(case):
    """The case as an equation of variables."""
    found = case.primitive.typing(*case.types, **case.params)
    results = found if case.primitive.multiple else [found]
    return Eqn(case.primitive, [Var(t) for t in case.types], [Var(t) for t in results], case.params, frozenset())


RELATED = [pytest.param(c, id=str(c)) for c in CASES if c.primitive.relation is not None]


def coordinates(sizes, axes, shape):
    """For each factor that the axes of an array follow: the factor's coordinate at every element, as an array."""
    found = {}
    for d, (axis, n) in enumerate(zip(axes, shape, strict=True)):
        position = np.arange(n)
        for f in reversed(axis):
            size = n if len(axis) == 1 else sizes[f]
            found[f] = (position % size).reshape([-1 if i == d else 1 for i in range(len(shape))])
            position = position // size
    return found


def related(relation, operand, point, operand_shape, result, shape):
    """Where a result may depend on an operand's element at a point."""
    theirs = coordinates(relation.sizes, relation.operands[operand], operand_shape)
    mine = coordinates(relation.sizes, relation.results[result], shape)
    found = np.ones(shape, bool)
    for f in theirs.keys() & mine.keys():
        at = int(np.broadcast_to(theirs[f], operand_shape)[point])
        here, kind = mine[f], relation.kinds[f]
        if isinstance(kind, Parallel):
            found &= here == at
        elif isinstance(kind, Whole):
            found &= (here >= at) if kind.forward else True
        else:
            assert isinstance(kind, Window)
            first = here * kind.stride - kind.low
            found &= (first <= at) & (at <= here * kind.stride + kind.high) & ((at - first) % kind.dilation == 0)
    return found


def poisoned(x, point):
    """An array with another value at one point, or where a mask says."""
    out = np.array(x)
    if is_bool(out.dtype):
        out[point] = ~out[point]
    elif is_inexact(out.dtype):
        out[point] = np.nan
    else:
        out[point] = out[point] + 1
    return out


@pytest.mark.law
@pytest.mark.parametrize("case", RELATED)
def test_axes_have_the_sizes_of_their_factors(case):
    eqn = equation(case)
    relation = relate(eqn)
    assert relation is relate(eqn), "a relation is computed once for its types"
    atoms = [*zip(relation.operands, case.types, strict=True),
             *zip(relation.results, [v.type for v in eqn.outputs], strict=True)]  # fmt: skip
    windows = relation.of_kind(Window)
    for axes, t in atoms:
        assert len(axes) == t.ndim
        for axis, n in zip(axes, t.shape, strict=True):
            assert windows & {*axis} or math.prod(relation.sizes[f] for f in axis) == n
    for f in relation.of_kind(Reduced):
        assert not any(f in axis for axes in relation.results for axis in axes)


@pytest.mark.law
@pytest.mark.parametrize("case", RELATED)
def test_poison_reaches_related_results_only(case):
    eqn, args = equation(case), operands(case)
    relation = relate(eqn)
    before = as_list(apply(case.primitive, args, case.params))
    for i, x in enumerate(args):
        count = x.size
        for flat in sorted({int(k) for k in np.linspace(0, count - 1, POINTS)} if count else ()):
            point = np.unravel_index(flat, x.shape)
            after = as_list(apply(case.primitive, [*args[:i], poisoned(x, point), *args[i + 1 :]], case.params))
            for k, (old, new) in enumerate(zip(before, after, strict=True)):
                changed = ~((old == new) | ((old != old) & (new != new)))
                assert not (changed & ~related(relation, i, point, x.shape, k, old.shape)).any()


def needed(kind, places):
    """The operand's positions along a factor that the results' places along it need."""
    if isinstance(kind, Parallel):
        return places
    each = (range(p * kind.stride - kind.low, p * kind.stride + kind.high + 1, kind.dilation) for p in places)
    return [q for one in each for q in one]


@pytest.mark.law
@pytest.mark.parametrize("case", RELATED)
def test_a_half_needs_its_half_and_a_halo_only(case):
    eqn, args = equation(case), operands(case)
    relation = relate(eqn)
    whole = as_list(apply(case.primitive, args, case.params))
    loops = [f for f, k in enumerate(relation.kinds) if isinstance(k, (Parallel, Window)) and relation.sizes[f] > 1]
    for f, low in itertools.product(loops, (True, False)):
        half = relation.sizes[f] // 2
        places = range(half) if low else range(half, relation.sizes[f])
        given = []
        for x, axes in zip(args, relation.operands, strict=True):
            at = coordinates(relation.sizes, axes, x.shape).get(f)
            outside = None if at is None else ~np.isin(at, list(needed(relation.kinds[f], places)))
            given.append(x if outside is None else poisoned(x, np.broadcast_to(outside, x.shape)))
        found = as_list(apply(case.primitive, given, case.params))
        for old, new, axes in zip(whole, found, relation.results, strict=True):
            at = coordinates(relation.sizes, axes, old.shape).get(f)
            if at is not None:
                mine = np.broadcast_to(np.isin(at, list(places)), old.shape)
                assert (((old == new) | ((old != old) & (new != new))) | ~mine).all()


MEANING = [(m, d) for m in (SUM, PRODUCT) for d in ("int32", "uint8", "float32", "complex64")]
MEANING += [(m, d) for m in (MAXIMUM, MINIMUM) for d in ("int32", "uint8", "bool", "float32")]
MEANING += [(m, d) for m in (AND, OR, XOR) for d in ("int32", "uint8", "bool")]


@pytest.mark.parametrize(("monoid", "dtype"), MEANING, ids=lambda x: getattr(x, "name", x))
def test_neutral_elements_are_neutral(monoid, dtype):
    values = np.array([0, 1, 3]).astype(dtype)
    neutral = monoid.neutral(np.dtype(dtype))
    assert np.asarray(neutral).dtype == dtype
    for a, b in itertools.permutations((values, np.full_like(values, neutral))):
        np.testing.assert_array_equal(np.asarray(monoid.combine(a, b)), values)


CONTROL = "its Programs may do anything: readers look inside"
MEMBERS = "it joins members of named axes, which are no axes of its operands"
# Operations without a relation, and why.
OPAQUE = {
    **dict.fromkeys((jit_p, cond_p, while_p, while_vjp_p, while_lin_p, scan_p, checkpoint_p), CONTROL),
    **dict.fromkeys(custom_derivative_primitives.PRIMITIVES, CONTROL),
    **dict.fromkeys(set(collective.PRIMITIVES), MEMBERS),
    optimization_barrier_p: "its operands have shapes of their own, and it must keep them together",
    coo_matmul_p: "the indices say which row of a result an element adds to, and which row it reads",
    pure_callback_p: "a function of the user's, in Python",
}


def test_only_the_listed_operations_are_opaque():
    assert {p for p in ALL if p.relation is None and p.kind is not EFFECT} == OPAQUE.keys()


def test_what_a_relation_implies_is_not_said_again():
    """A batching rule next to a relation is there because parameters hold sizes, or because nothing is to be moved."""
    own = {p for p in ALL if p.batch is not None and p.relation is not None}
    assert own == {
        reduce_p, reduce_window_p,  # starts that differ along the batch
        dot_general_p, conv_general_dilated_p,  # a batch axis where it lies, and groups
        shape.broadcast_in_dim_p, shape.reshape_p, shape.transpose_p,  # their parameters are the result's axes
        shape.pad_p,  # values that differ along the batch
        *index_functions.PRIMITIVES,  # batches of positions
        triangular_solve_p, lu_solve_p,  # right sides of one matrix stay beside each other
    }  # fmt: skip


F = "float32"
X = ArrayType((4, 6), F)
SAME = {"window_dimensions": (1, 3), "window_strides": (1, 1), "padding": ((0, 0), (1, 1)), "base_dilation": (1, 1),
        "window_dilation": (1, 1)}  # fmt: skip
COSTS = [
    (arithmetic.add_p, [X, X], {}, (24, 0)),
    (arithmetic.exp_p, [X], {}, (0, 24)),
    (arithmetic.integer_pow_p, [X], {"y": 3}, (24, 0)),
    (comparison.select_n_p, [ArrayType((4, 6), "bool"), X, X], {}, (0, 0)),
    (shape.transpose_p, [X], {"permutation": (1, 0)}, (0, 0)),
    (reduce_sum_p, [X], {"axes": (0,)}, (24, 0)),
    (argmax_p, [X], {"axes": (1,), "index_dtype": np.dtype("int32")}, (24, 0)),
    (cumsum_p, [X], {"axis": 1, "reverse": True}, (24, 0)),
    (sort_p, [X, X], {"dimension": 1, "is_stable": True, "num_keys": 1}, (24, 0)),
    (top_k_p, [X], {"k": 2, "axis": 1}, (24, 0)),
    (reduce_window_sum_p, [X], SAME, (72, 0)),
    # 2 * batch 3 * rows 4 * columns 5 * contracted 6
    (dot_general_p, [ArrayType((3, 4, 6), F), ArrayType((3, 6, 5), F)],
     {"dimension_numbers": (((2,), (1,)), ((0,), (0,))), "precision": None, "preferred_element_type": None}, (720, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("primitive", "types", "params", "cost"), COSTS, ids=[str(c[0]) for c in COSTS])
def test_costs_are_those_counted_by_hand(primitive, types, params, cost):
    assert eqn_cost(equation(Case(primitive, tuple(types), params))) == cost


def test_convolutions_cost_their_taps():
    f = lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID")  # noqa: E731
    found = estimate_cost(f, np.ones((2, 3, 8), F), np.ones((5, 3, 3), F))
    assert found.flops == 2 * 2 * 5 * 6 * 3 * 3  # batch, features, places, input features, taps


def test_loops_and_branches_cost_what_runs():
    x = np.ones(8, F)
    assert estimate_cost(lambda x: lax.fori_loop(0, 5, lambda i, x: x * 2 + 1, x), x).flops >= 5 * 2 * 8
    scanned = estimate_cost(lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, length=7)[0], x)
    assert scanned.flops == 7 * 8
    branches = estimate_cost(lambda x: lax.cond(x[0] > 0, lambda x: x * 2, lambda x: x * 2 + x * 3, x), x)
    alone = estimate_cost(lambda x: x * 2 + x * 3, x)
    assert alone.flops <= branches.flops < alone.flops + 8


@pytest.mark.law
@pytest.mark.parametrize("case", RELATED)
def test_costs_are_not_negative_and_grow_with_the_batch(case):
    eqn = equation(case)
    flops, transcendentals = eqn_cost(eqn)
    work = case.primitive.work
    empty = any(0 in t.shape for t in (*case.types, *(v.type for v in eqn.outputs)))
    computes = work.flops or work.transcendentals
    assert flops >= 0 and transcendentals >= 0
    assert empty or bool(flops or transcendentals) == bool(computes)


# What is computed from blocks of the operands along a parallel factor, or from parts of a reduced one.
CUT = [c for c in CASES if c.primitive.relation is not None and not {"shape", "new_sizes", "limit_indices", "sizes",
                                                                     "slice_sizes"} & c.params.keys()]  # fmt: skip


def block(x, axes, sizes, factor, part):
    """The part of an array along a factor."""
    for d, axis in enumerate(axes):
        if factor in axis:
            split = x.shape[:d] + tuple(sizes[f] for f in axis) + x.shape[d + 1 :]
            at = d + axis.index(factor)
            x = x.reshape(split)[(slice(None),) * at + (part,)]
            x = x.reshape(x.shape[:d] + (math.prod(x.shape[d : d + len(axis)]),) + x.shape[d + len(axis) :])
    return x


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if is_inexact(a.dtype):
        np.testing.assert_allclose(a.astype(np.complex128), b.astype(np.complex128), rtol=2e-2 if a.dtype.itemsize < 4
                                   else 1e-5, atol=1e-2 if a.dtype.itemsize < 4 else 1e-5)  # fmt: skip
    else:
        np.testing.assert_array_equal(a, b)


def by_parameter(case, factor):
    """Whether a parameter holds the factor's size: the groups of a convolution."""
    return factor == 0 and max(case.params.get(f"{k}_group_count", 1) for k in ("feature", "batch")) > 1


@pytest.mark.law
@pytest.mark.parametrize("case", [pytest.param(c, id=str(c)) for c in CUT])
def test_parts_make_the_whole(case):
    args = operands(case)
    relation = relate(equation(case))
    whole = as_list(apply(case.primitive, args, case.params))
    for f, kind in enumerate(relation.kinds):
        cut = [i for i, axes in enumerate(relation.operands) if any(f in axis for axis in axes)]
        if relation.sizes[f] < 2 or not cut or not isinstance(kind, (Parallel, Reduced)) or by_parameter(case, f):
            continue
        if isinstance(kind, Reduced) and len(cut) < len(args):
            continue  # the taps of a convolution: its windows move with them
        half = relation.sizes[f] // 2
        parts = [
            as_list(apply(case.primitive, [block(x, axes, relation.sizes, f, part) for x, axes in
                                           zip(args, relation.operands, strict=True)], case.params))
            for part in (slice(0, half), slice(half, None))
        ]  # fmt: skip
        for k, out in enumerate(whole):
            if isinstance(kind, Reduced):
                same(out, under(NUMPY, kind.monoid.combine, parts[0][k], parts[1][k]))
            else:
                for found, part in zip(parts, (slice(0, half), slice(half, None)), strict=True):
                    same(block(out, relation.results[k], relation.sizes, f, part), found[k])


# ---------------------------------------------------------------------------- random keys

WORDS = np.arange(6, dtype="uint32").reshape(3, 2)
KEYED = [
    (threefry.random_bits_p, {"bit_width": 32, "shape": (4,)}, []),
    (threefry.random_split_p, {"shape": (2,)}, []),
    (threefry.random_fold_in_p, {}, [np.arange(3, dtype="uint32")]),
    (threefry.random_clone_p, {}, []),
    (threefry.random_unwrap_p, {}, []),
]


@pytest.mark.parametrize(("primitive", "params", "more"), KEYED, ids=[str(k[0]) for k in KEYED])
def test_each_key_reaches_its_own_results_only(primitive, params, more):
    def results(words):
        keys = threefry.random_wrap_p.bind(words, impl=THREEFRY)
        out = primitive.bind(keys, *more, **params)
        return np.asarray(threefry.random_unwrap_p.bind(out) if is_key(out.dtype) else out)

    other = WORDS.copy()
    other[1, 0] = 99
    changed = results(WORDS) != results(other)
    assert changed[1].any() and not changed[[0, 2]].any()
    types = [ArrayType((3,), THREEFRY), *(ArrayType(x.shape, x.dtype) for x in more)]
    relation = relate(equation(Case(primitive, tuple(types), params)))
    assert relation.results[0][0] == relation.operands[0][0] == (0,)
    assert isinstance(relation.kinds[0], Parallel)


# ---------------------------------------------------------------------------- a primitive of one's own


def test_a_primitive_with_a_relation_can_be_batched():
    def relation(ins, outs, *, axis):
        loops = Loops()
        axes = loops.axes(ins[0].shape)
        return loops.relation([axes], [axes], dict.fromkeys(axes[axis], Whole()))

    rules = {"typing": lambda x, *, axis: x, "expand": lambda x, *, axis: lax.cumsum(x, axis) - x}
    before_p = Primitive("before", **rules, relation=relation, axes={"axis": NAMED})
    x = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
    for dim in range(3):
        found = vmap(lambda x: before_p.bind(x, axis=1), in_axes=dim)(x)
        rows = [before_p.bind(row, axis=1) for row in np.moveaxis(x, dim, 0)]
        np.testing.assert_array_equal(np.asarray(found), np.stack(rows))
    silent_p = Primitive("before", **rules, relation=relation)
    with pytest.raises(UnsupportedError, match="before has no batching rule"):
        vmap(lambda x: silent_p.bind(x, axis=0))(x)


def test_operands_of_a_pointwise_primitive_may_be_scalars():
    add3_p = Primitive("add3", lambda x, y, z: max((x, y, z), key=lambda t: t.ndim), relation=pointwise,
                       expand=lambda x, y, z: arithmetic.add_p.bind(arithmetic.add_p.bind(x, y), z))  # fmt: skip
    x, y, z = np.ones((2, 3), F), np.arange(2, dtype=F), np.float32(3)
    found = vmap(add3_p.bind, in_axes=(0, 0, None))(x, y, z)
    np.testing.assert_array_equal(np.asarray(found), x + y[:, None] + z)
