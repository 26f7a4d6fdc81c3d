"""Kernels drawn at random as machine code equal the interpreter; `random_kernels` draws more of them."""

from __future__ import annotations

import pytest

from tests.cpu_backend.random_kernels import outcome
from tests.support.machine_code import needs_llvm
from tilewright.cpu_backend.machine.features import features

pytestmark = needs_llvm
AVX2 = features().without("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx512vnni", "avx512bf16")


def held(seeds, machine=None):
    found = [outcome(seed, machine) for seed in seeds]
    assert not [f for f in found if f.startswith("WRONG")]
    assert found.count("equal") > len(found) // 2


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_drawn_kernels(first):
    held(range(first, first + 20))


@pytest.mark.skipif(features().architecture != "x86-64", reason="of x86-64")
def test_drawn_kernels_without_avx512():
    held(range(60, 80), AVX2)


@pytest.mark.targets
@pytest.mark.parametrize("first", range(1000, 6000, 100))
def test_many_drawn_kernels(first):
    held(range(first, first + 100))
