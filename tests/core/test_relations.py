"""Each relation agrees with its operation: an operand's element reaches only the results that are related to it."""

import itertools
import math

import numpy as np
import pytest

from tests.core.test_laws import CASES, as_list, operands
from tilewright.core.evaluate import apply
from tilewright.core.ir import Eqn, Var
from tilewright.core.primitives.reduce import AND, MAXIMUM, MINIMUM, OR, PRODUCT, SUM, XOR
from tilewright.core.relation import Parallel, Reduced, Whole, Window, relate
from tilewright.core.types import is_bool, is_inexact

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
    """An array with another value at one point."""
    out = np.array(x)
    if is_bool(out.dtype):
        out[point] = ~out[point]
    elif is_inexact(out.dtype):
        out[point] = np.nan
    else:
        out[point] = out[point] + 1
    return out


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
