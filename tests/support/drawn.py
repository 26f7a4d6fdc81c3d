"""Cases drawn at random, of shapes from one small pool: what the tables of cases state for a shape or two."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.support.cases import Case
from tests.support.laws import CASES
from tilewright.core.ir.axis_relation import POINTWISE
from tilewright.core.ir.types import ArrayType, as_dtype
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.core.primitives.movement import shape
from tilewright.core.primitives.reduction import reduce
from tilewright.core.primitives.special import cumulative

SHAPES = [(), (1,), (5,), (2, 3), (3, 1), (2, 1, 3), (0,), (2, 0)]
FLOATS = ["float32", "bfloat16"]
NUMBERS = [*FLOATS, "complex64", "int32"]
ELEMENTWISE = [
    c for c in CASES if c.primitive.kind == POINTWISE and c.operands is None and any(t.shape for t in c.types)
]
PREFIXES = [cumulative.cumsum_p, cumulative.cumprod_p, cumulative.cummax_p, cumulative.cumlogsumexp_p]
shapes, solid = st.sampled_from(SHAPES), st.sampled_from([s for s in SHAPES if s])


def typed(shape: tuple[int, ...], dtype: str) -> ArrayType:
    return ArrayType(shape, as_dtype(dtype))


def some(n: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Some of the numbers below n, ascending."""
    return st.sets(st.integers(0, n - 1)).map(sorted).map(tuple) if n else st.just(())


@st.composite
def elementwise(draw: Any) -> Case:
    """A case of the tables with its arrays in another shape; scalars stay scalars."""
    case = draw(st.sampled_from(ELEMENTWISE))
    new = draw(shapes)
    types = tuple(ArrayType(new, t.dtype, t.weak_type) if t.shape else t for t in case.types)
    return replace(case, types=types)


@st.composite
def reductions(draw: Any) -> Case:
    of, dtypes = draw(st.sampled_from([
        (reduce.reduce_sum_p, NUMBERS), (reduce.reduce_prod_p, NUMBERS), (reduce.reduce_max_p, FLOATS),
        (reduce.reduce_min_p, FLOATS),
    ]))  # fmt: skip
    whole = [s for s in SHAPES if of in (reduce.reduce_sum_p, reduce.reduce_prod_p) or 0 not in s]
    given = draw(st.sampled_from(whole))
    params = {"axes": draw(some(len(given)))}
    return Case(of, (typed(given, draw(st.sampled_from(dtypes))),), params)


@st.composite
def prefixes(draw: Any) -> Case:
    of, given = draw(st.sampled_from(PREFIXES)), draw(solid)
    params = {"axis": draw(st.integers(0, len(given) - 1)), "reverse": draw(st.booleans())}
    return Case(of, (typed(given, "float32"),), params, tolerance=1e-4)


@st.composite
def moved(draw: Any) -> Case:
    given, dtype = draw(shapes), draw(st.sampled_from(NUMBERS))
    rank = len(given)
    name = draw(st.sampled_from(["transpose", "rev", "broadcast", "squeeze", "concatenate"]))
    one = (typed(given, dtype),)
    if name == "transpose":
        return Case(shape.transpose_p, one, {"permutation": tuple(draw(st.permutations(range(rank))))})
    if name == "rev":
        return Case(shape.rev_p, one, {"dimensions": draw(some(rank))})
    if name == "squeeze":
        ones = tuple(d for d, n in enumerate(given) if n == 1)
        chosen = tuple(ones[i] for i in draw(some(len(ones))))
        return Case(shape.squeeze_p, one, {"dimensions": chosen})
    if name == "broadcast":
        at = draw(some(rank + 1).filter(lambda d: len(d) <= 1))
        new = list(given)
        for d in at:
            new.insert(d, 2)
        dims = tuple(d for d in range(len(new)) if d not in at)
        return Case(shape.broadcast_in_dim_p, one, {"shape": tuple(new), "broadcast_dimensions": dims})
    if not rank:
        return Case(shape.rev_p, one, {"dimensions": ()})
    axis = draw(st.integers(0, rank - 1))
    other = tuple(2 if d == axis else n for d, n in enumerate(given))
    return Case(shape.concatenate_p, (*one, typed(other, dtype)), {"dimension": axis})


@st.composite
def products(draw: Any) -> Case:
    """A product whose axes of batches, of the sum and of their own stand in any order."""
    batch, summed, left, right = (draw(st.integers(0, 1)) for _ in range(4))
    sizes = {"b": 2, "k": 3, "m": 2, "n": 4}
    names = [list("b" * batch + "k" * summed + own * count) for own, count in (("m", left), ("n", right))]
    lhs, rhs = (draw(st.permutations(n)) for n in names)
    places = [tuple(tuple([x.index(c)] if c in x else []) for x in (lhs, rhs)) for c in "kb"]
    types = tuple(typed(tuple(sizes[c] for c in x), "float32") for x in (lhs, rhs))
    params = {"dimension_numbers": tuple(places), "precision": None, "preferred_element_type": None}
    return Case(dot_general_p, types, params, tolerance=1e-4)


ANY = st.one_of(elementwise(), reductions(), prefixes(), moved(), products())
STRUCTURED = st.one_of(reductions(), prefixes(), moved(), products())
