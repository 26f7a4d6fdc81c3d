"""`RULES`: how each primitive that may stand in a body is printed; `UNSUPPORTED`: what this backend leaves to others.

What neither names is rewritten into others (`lang/legalize`) before the body comes here.
"""

from __future__ import annotations

from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import RARE_FLOATS
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_lin_p, while_p, while_vjp_p
from ...core.primitives.elementwise.arithmetic import pow_p
from ...core.primitives.elementwise.bitwise import clz_p, population_count_p
from ...core.primitives.elementwise.conversion import reduce_precision_p
from ...core.primitives.movement.shape import pad_p, rev_p, split_p
from ...core.primitives.special.functions import (
    igamma_grad_a_p,
    igamma_p,
    igammac_p,
    polygamma_p,
    regularized_incomplete_beta_p,
    zeta_p,
)
from ...lang.gpu.normalize import passes
from ...lang.legalize import GONE, REWRITES, Backend
from ...lang.legalize.opset import FAMILIES
from . import access, atomics, cond, contract, elementwise, reduce, shape

RULES: dict[Primitive, Any] = {
    **elementwise.RULES,
    **reduce.RULES,
    **shape.RULES,
    **contract.RULES,
    **cond.RULES,
    **access.RULES,
    **atomics.RULES,
}

_FACTORED = "it factors a matrix column by column; the target's solver library does it, outside of the kernel"
_MOVES = "it moves elements between the registers of threads at computed places; index a Ref there"
_REASONS: dict[str, str] = {
    "indexing": _MOVES,
    "reductions": "elements are combined along an axis by sums, products and extrema alone; make it of these",
    "complex numbers": "registers hold real numbers",
    "products and windows": "of these a warpgroup has products of two matrices alone; make it of these",
    "sparse matrices": "it reads elements at places that are in memory; gather them around the kernel",
    "linear algebra": _FACTORED,
    "transforms": "it exchanges elements along full axes; the target's library does it, outside of the kernel",
    "warpgroups": "only a kernel that is written for warpgroups, by `lang.mosaic_gpu.kernel`, has them",
    "other devices": "a program reaches the memory of its own device alone",
    "the world outside": "a program reaches the memory of its own device alone, and not the host",
}


# Families that may be rewritten into what there are rules for; of the others only what has a rule is taken.
_OPEN = (
    "arithmetic", "functions", "comparison and selection", "bits", "integers as hardware has them", "conversion",
    "shape", "random numbers", "memory", "control",
)  # fmt: skip
_LOOPS = ("here a loop is an axis of the grid, whose turns are copied ahead; make it one, or write the kernel for "
          "warpgroups, by `lang.mosaic_gpu.kernel`")  # fmt: skip
_BITS = "registers hold integers of any width in 32 bits; count bits around the kernel"
# Reasons of their own: what its rewriting would need, of which there is no rule, or what takes its place.
_BEYOND = {
    pow_p: "powers of integers are loops here; multiply",
    **dict.fromkeys((polygamma_p, zeta_p, igamma_p, igammac_p, igamma_grad_a_p, regularized_incomplete_beta_p),
                    "it is a series that is summed until it is exact enough; compute it around the kernel"),
    **dict.fromkeys((while_p, while_vjp_p, while_lin_p, scan_p), _LOOPS),
    **dict.fromkeys((population_count_p, clz_p), _BITS),
    reduce_precision_p: "numbers are rounded to dtypes alone; `x.astype(dtype)`",
    rev_p: "it turns the order of rows or columns around; let an index map read them so",
    pad_p: "rows and columns of registers are not cut or put together; let a block's `fill` stand past the end",
    split_p: "rows and columns of registers are not cut; read parts of the Ref",
}  # fmt: skip


def _refused() -> dict[Primitive, str]:
    """A reason for each primitive of the language that has no rule and is not made of others."""
    found = dict(_BEYOND)
    for family, entries in FAMILIES.items():
        for p in entries:
            made = family in _OPEN and (p in REWRITES or p.expand is not None) or p in GONE
            if p not in RULES and not made and p not in found:
                found[p] = _REASONS[family]
    return found


UNSUPPORTED: dict[Primitive, str] = _refused()
_WIDE = "numbers are computed in 32 bits"
UNSUPPORTED_DTYPES: dict[str, str] = {
    **dict.fromkeys(("float64", "int64", "uint64", "complex64", "complex128"), _WIDE),
    **dict.fromkeys(("int4", "uint4", "int2", "uint2"), "the least element that a GPU loads or stores is a byte"),
    **dict.fromkeys(RARE_FLOATS, "kernels have no conversion of it"),
}
BACKEND = Backend("a Mosaic GPU kernel", RULES, UNSUPPORTED, UNSUPPORTED_DTYPES, passes, exact=False)
