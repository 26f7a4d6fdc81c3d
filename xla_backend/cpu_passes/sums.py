"""Sums that XLA:CPU is kept from giving to YNN.

YNN's kernel for a reduction takes 0.3 ms to make when it first runs: few rows added up to one are as fast in XLA's own
loop. And YNN's fusions of several reductions are wrong for 4096 rows and more (jaxlib 0.11.2 and 0.12.0.1; the gradient
of a layer norm of 4096 x 64 is off by 2, in jax too): programs that have such reductions use XLA's own loops for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .options import FEW_ELEMENTS

# One of XLA's options for a compilation, and its value.
OWN_LOOPS = ("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT")
SEVERAL, MANY_ROWS = 3, 4096  # from which on YNN may be wrong: reductions of a program, elements of a result of one
Reduction = tuple[tuple[int, ...], Sequence[int]]  # the shape of an array, and the axes that are reduced


def compiler_options(reductions: Sequence[Reduction], off: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The options to compile a program with, all of whose reductions are given."""
    few = bool(reductions) and all(map(_few_rows, reductions)) and "few_rows" not in off
    unsafe = len(reductions) >= SEVERAL and any(_rows(*r) >= MANY_ROWS for r in reductions)
    return (OWN_LOOPS,) if few or unsafe else ()


def _rows(shape: tuple[int, ...], axes: Sequence[int]) -> int:
    return math.prod(n for d, n in enumerate(shape) if d not in axes)


def _few_rows(reduction: Reduction) -> bool:
    shape, axes = reduction
    return len(shape) - 1 not in axes and math.prod(shape) <= FEW_ELEMENTS
