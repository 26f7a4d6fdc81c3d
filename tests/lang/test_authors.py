"""Kernels as their authors write them: compiled and interpreted as in plain operations, derived and batched."""

import pytest

from tests.support.authors import EVERY, forms

each = pytest.mark.parametrize("case", EVERY, ids=lambda c: c.name)


@pytest.mark.law
@each
def test_compiled_and_interpreted(case):
    forms.compiled(case)
    forms.interpreted(case)


@pytest.mark.law
@each
def test_gradients_and_batches(case):
    forms.batched_gradient(case)
