"""Symbolic sizes: what is said of them holds of every number, and what is not known is an error that says so."""

import itertools
import random

import pytest

from tilewright.core.ir.symbolic.dim import evaluated, is_symbolic, max_dim, min_dim
from tilewright.core.ir.symbolic.scope import SymbolicScope, parse, symbolic_shape
from tilewright.core.ir.symbolic.solve import solved, undetermined
from tilewright.core.support.errors import ExportError, InconclusiveDimensionError, ShapeError

ENDS = tuple(itertools.product((1, 2, 3, 5, 8, 12), repeat=2))


def drawn(rng, b, t, depth=2):
    """A size and the same computation on numbers, drawn at random."""
    if depth == 0 or rng.random() < 0.2:
        k = rng.randint(-4, 9)
        return rng.choice([(b, lambda x, y: x), (t, lambda x, y: y), (k, lambda x, y: k)])
    (left, f), (right, g) = drawn(rng, b, t, depth - 1), drawn(rng, b, t, depth - 1)
    k = rng.randint(1, 5)
    kind = rng.choice(("+", "-", "*", "//", "%", "max", "min", "//b"))
    return {
        "+": lambda: (left + right, lambda x, y: f(x, y) + g(x, y)),
        "-": lambda: (left - right, lambda x, y: f(x, y) - g(x, y)),
        "*": lambda: (left * right, lambda x, y: f(x, y) * g(x, y)),
        "//": lambda: (left // k, lambda x, y: f(x, y) // k),
        "%": lambda: (left % k, lambda x, y: f(x, y) % k),
        "//b": lambda: (left // b, lambda x, y: f(x, y) // x),
        "max": lambda: (max_dim(left, right), lambda x, y: max(f(x, y), g(x, y))),
        "min": lambda: (min_dim(left, right), lambda x, y: min(f(x, y), g(x, y))),
    }[kind]()


def test_arithmetic_comparisons_and_text_hold_of_all_numbers():
    rng, decided = random.Random(0), 0
    for _ in range(60):
        scope = SymbolicScope(["t >= 2", "t <= 12"])
        b, t = symbolic_shape("b, t", scope=scope)
        size, numbers = drawn(rng, b, t)
        other, others = drawn(rng, b, t)
        assert parse(str(size), scope) == size
        low, high = scope.bounds(size)
        is_least = scope.is_positive(size - other)
        decided += is_least is not None
        for x, y in ENDS:
            if y < 2:
                continue
            value = evaluated(size, {"b": x, "t": y})
            assert value == numbers(x, y) and low <= value <= high
            if is_least is not None:
                assert (value >= others(x, y)) == is_least
            if size == other:
                assert value == others(x, y)
    assert decided > 20  # it is no use if it never decides


def test_normal_forms_are_equal_and_hashed_alike():
    b, t = symbolic_shape("b, t")
    assert (b + t) ** 2 == b * b + 2 * b * t + t * t and hash(b * t) == hash(t * b)
    assert (b * t) // b == t and (6 * b) % 3 == 0 and -(-b // 1) == b
    assert b - b == 0 and not is_symbolic(b - b) and b != t and b != 3
    assert (b * t + 2 * b) // b == t + 2 and divmod(4 * b + 3, 4) == (b, 3)


def test_what_is_not_known_names_the_constraint_that_decides_it():
    (b,) = symbolic_shape("b")
    with pytest.raises(InconclusiveDimensionError, match=r"whether b >= 8 is not known") as caught:
        assert b >= 8
    assert "constraints=['b >= 8']" in caught.value.remedy
    (b,) = symbolic_shape("b", constraints=["b >= 8"])
    assert b >= 8 and b > 7 and not b < 8
    for use in (int, float, range, lambda d: [0] * d, lambda d: "abc"[d]):
        with pytest.raises(InconclusiveDimensionError, match="the size b is used as a number"):
            use(b)
    with pytest.raises(ShapeError, match="two scopes"):
        b + symbolic_shape("b")[0]
    for text in ("b +", "b(3)", "3.5", "b/2"):
        with pytest.raises(ShapeError, match="is not a size"):
            symbolic_shape(text)
    (b, t) = symbolic_shape("b, t", constraints=["mod(b, 4) == 0", "t == 2*b"])
    assert b % 4 == 0 and (b // 4) * 4 - b <= 0 and t == 2 * b


def test_sizes_are_solved_for_or_the_argument_at_fault_is_named():
    b, t = symbolic_shape("b, t")
    assert solved([("x", 2 * b + 1, 7), ("y", b * t, 12), ("z", t, 4)]) == {"b": 3, "t": 4}
    assert undetermined([b * t]) == ["b", "t"] and undetermined([b * t, b]) == ["t"] and not undetermined([b * t, b, t])
    for sizes, message in (
        ([("x.shape[0]", 2 * b + 1, 6)], r"x.shape\[0\] is 6, and was exported as 2\*b \+ 1"),
        ([("x", b, 0)], "x is 0, and was exported as b"),
        ([("x", b, 3), ("y", b, 4)], "y is 4, and was exported as b, where b = 3"),
        ([("x", 3, 4)], "x is 4, and was exported as 3"),
    ):
        with pytest.raises(ExportError, match=message):
            solved(sizes)
