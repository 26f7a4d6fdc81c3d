"""Kernels run: interpreted, compiled and by a plain NumPy reference, all the same."""

from typing import Any

import numpy as np
import pytest

from tests.support.corpus.corners import CORNERS
from tests.support.corpus.small import EXAMPLES, Example
from tilewright import lang as tl
from tilewright.core.evaluate import evaluate
from tilewright.xla_backend.kernel import kernel_program

by_name = pytest.mark.parametrize("example", EXAMPLES + CORNERS, ids=lambda e: e.name)


def kernel_of(example: Example) -> tl.Kernel:
    """The Kernel that an example's call makes."""
    from tilewright.core import tree
    from tilewright.core.trace import trace_program, typeof

    leaves, structure = tree.flatten(tuple(example.operands))
    call = example.call()
    program = trace_program(lambda *xs: tree.leaves(call(*structure.unflatten(xs))), [typeof(x) for x in leaves])
    return program.eqns[-1].params["kernel"]


def check(example: Example, got: Any) -> None:
    from tilewright.core import tree

    expected = tree.leaves(example.reference(*example.operands))
    got = tree.leaves(got)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(np.asarray(g), e, rtol=example.tolerance, atol=example.tolerance)


@by_name
def test_interpreted_is_the_reference(example):
    from tilewright.core import tree

    leaves = tree.leaves(tuple(example.operands))
    check(example, tl.interpret(kernel_of(example), *leaves))


@by_name
def test_lowered_is_the_reference(example):
    from tilewright.core import tree

    program = kernel_program(kernel_of(example))
    check(example, evaluate(program, *tree.leaves(tuple(example.operands))))


@by_name
def test_compiled_is_the_reference(example):
    check(example, example.call()(*example.operands))


@by_name
def test_chunked_is_the_reference(example, monkeypatch):
    """Under a budget of next to nothing, parallel axes are looped over."""
    from tilewright.core import tree
    from tilewright.xla_backend import chunks
    from tilewright.xla_backend import kernel as lowering

    for module in (chunks, lowering):
        monkeypatch.setattr(module, "budget_of", lambda kernel: 40)
    program = lowering.lowered.__wrapped__(kernel_of(example)).program
    check(example, evaluate(program, *tree.leaves(tuple(example.operands))))
