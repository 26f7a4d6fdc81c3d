"""Sums of few rows: XLA:CPU gives reductions to YNN, whose kernel for each takes 0.3 ms to make when it first runs.

Few rows added up to one are as fast in XLA's own loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .options import FEW_ELEMENTS

# One of XLA's options for a compilation, and its value.
OWN_LOOPS = ("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT")
Reduction = tuple[tuple[int, ...], Sequence[int]]  # the shape of an array, and the axes that are reduced


def compiler_options(reductions: Sequence[Reduction], off: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The options to compile a program with, all of whose reductions are given."""
    few = bool(reductions) and all(map(_few_rows, reductions))
    return (OWN_LOOPS,) if few and "few_rows" not in off else ()


def _few_rows(reduction: Reduction) -> bool:
    shape, axes = reduction
    return len(shape) - 1 not in axes and math.prod(shape) <= FEW_ELEMENTS
