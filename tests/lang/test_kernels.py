"""Kernels run: interpreted, compiled and by a plain NumPy reference, all the same."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.corpus.called import kernel_of
from tests.support.corpus.corners import CORNERS
from tests.support.corpus.small import EXAMPLES, Example
from tilewright import lang as tl
from tilewright.core.support import pytree
from tilewright.core.tracing.numpy_interpreter import evaluate
from tilewright.xla_backend.kernels.cpu_lowering import lowered

by_name = pytest.mark.parametrize("example", EXAMPLES + CORNERS, ids=lambda e: e.name)


def check(example: Example, got: Any) -> None:
    expected = pytree.leaves(example.reference(*example.operands))
    got = pytree.leaves(got)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(np.asarray(g), e, rtol=example.tolerance, atol=example.tolerance)


@pytest.mark.law
@by_name
def test_interpreted_is_the_reference(example):
    leaves = pytree.leaves(tuple(example.operands))
    check(example, tl.interpret(kernel_of(example), *leaves))


@pytest.mark.law
@by_name
def test_lowered_is_the_reference(example):
    program = lowered(kernel_of(example)).program
    check(example, evaluate(program, *pytree.leaves(tuple(example.operands))))


@pytest.mark.law
@by_name
def test_compiled_is_the_reference(example):
    check(example, example.call()(*example.operands))


@pytest.mark.law
@by_name
def test_chunked_is_the_reference(example):
    """Under a budget of next to nothing, parallel axes are looped over."""
    kernel = kernel_of(example)
    stated = {**dict(kernel.settings), "compiler_params": tl.cpu.CompilerParams(intermediate_bytes=40)}
    program = lowered(replace(kernel, settings=tuple(stated.items()))).program
    check(example, evaluate(program, *pytree.leaves(tuple(example.operands))))
