"""The laws every primitive obeys, over the tables of tests/support/cases; `test_drawn_laws.py` has drawn ones.

One law compares the compiled primitive with its NumPy meaning, the others are stated in `tests/support/laws.py`.
"""

import numpy as np
import pytest

from tests.support import laws
from tests.support.laws import CASES, ELSEWHERE, batchable, differentiable
from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.catalogue import ALL

PARAMS = [pytest.param(c, id=str(c)) for c in CASES]
DIFFERENTIABLE = [pytest.param(c, id=str(c)) for c in CASES if differentiable(c)]
BATCHABLE = [pytest.param(c, id=str(c)) for c in CASES if batchable(c)]


def test_every_primitive_has_a_case():
    covered = {c.primitive.name for c in CASES} | set(ELSEWHERE)
    assert {p.name for p in ALL} - covered == set()


def test_names_are_unique():
    names = [p.name for p in ALL]
    assert len(names) == len(set(names))


@pytest.mark.law
@pytest.mark.parametrize("case", PARAMS)
def test_compiled_is_the_numpy_meaning(case):
    laws.compiled_is_the_numpy_meaning(case)


@pytest.fixture
def numpy_evaluator():
    with laws.numpy_meaning():
        yield


@pytest.mark.law
@pytest.mark.parametrize("case", DIFFERENTIABLE)
def test_jvp_is_the_finite_difference(case, numpy_evaluator):
    laws.jvp_is_the_finite_difference(case)


@pytest.mark.law
@pytest.mark.parametrize("case", DIFFERENTIABLE)
def test_vjp_is_the_transpose_of_jvp(case, numpy_evaluator):
    laws.vjp_is_the_transpose_of_jvp(case)


@pytest.mark.law
@pytest.mark.parametrize("case", BATCHABLE)
def test_vmap_is_a_loop(case, numpy_evaluator):
    laws.vmap_is_a_loop(case)


@pytest.mark.law
@pytest.mark.parametrize("case", [p for p in DIFFERENTIABLE if batchable(p.values[0])])
def test_vmap_of_jvp_is_jvp_of_vmap(case, numpy_evaluator):
    laws.vmap_of_jvp_is_jvp_of_vmap(case)


def test_types_are_interned():
    assert ArrayType((2, 3), "float32") is ArrayType([2, 3], np.float32)
