"""What calls are asked for when they are held against jax, and that its answers are kept."""

import importlib.util

import numpy as np
import pytest

from benchmarks.compatibility.agreement import calls, difference
from benchmarks.compatibility.answers import QUESTIONS, Answer, Call, along, kept, of_jax, of_ours, once
from tests.support.calls.linalg_calls import same

X = np.array([[0.5, -1.0], [2.0, 3.0]], np.float32)
SQUARE = Call("numpy", "square", (X,), {}, same)


def test_calls_by_the_patterns_of_names():
    found = [(call.name, variant) for _, variant, call in calls("nn", ["as it is", "int8"], ["relu*", "celu"])]
    assert {name for name, _ in found} == {"relu", "relu6", "celu"} and {v for _, v in found} == {"as it is", "int8"}


def test_two_derivatives_forwards_and_backwards():
    t = along(X)
    forward, reverse = (of_ours(question, SQUARE).arrays for question in ("forward", "reverse"))
    np.testing.assert_allclose(forward, [2 * X * t, 2 * t * t], rtol=1e-6)
    np.testing.assert_allclose(reverse, [2 * X * t, 2 * t * t], rtol=1e-6)


def test_types_alone_are_those_of_values():
    call = Call("numpy", "divmod", (np.int8([7, 8]), 3), {}, same)
    types, values = of_ours("types", call), of_ours("values", call)
    assert types == Answer((), values.types) and values.types == (("int8", (2,), False),) * 2


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
@pytest.mark.parametrize("question", QUESTIONS)
def test_jax_is_asked_the_same(question):
    import jax

    theirs = of_jax(jax, "values" if question == "compiled" else question, SQUARE)
    assert theirs.types and not theirs.error and difference(of_ours(question, SQUARE), theirs, question) is None


def test_answers_are_kept_by_their_arguments(tmp_path):
    for _ in range(2):
        with kept(tmp_path, "1.0") as store:
            for key in (("sum", X), ("sum", X + 1), ("sum", X.astype(np.float64)), ("sum", [X, np.sum])):
                once(store, key, lambda: Answer(error="made"))
            assert len(store) == 4
            assert once(store, ("sum", X.copy()), lambda: Answer(error="again")) == Answer(error="made")
