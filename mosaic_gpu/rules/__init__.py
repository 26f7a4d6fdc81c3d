"""`RULES`: how each primitive that may stand in a body is printed; `UNSUPPORTED`: what this backend leaves to others.

What neither names is rewritten into others (`lang/legalize`) before the body comes here.
"""

from __future__ import annotations

from typing import Any

from ...core.primitive import Primitive
from ...core.primitives.elementwise import pow_p
from ...core.primitives.special import (
    igamma_grad_a_p,
    igamma_p,
    igammac_p,
    polygamma_p,
    regularized_incomplete_beta_p,
    zeta_p,
)
from ...lang.gpu.plan import forms
from ...lang.language import FAMILIES
from ...lang.legalize import GONE, REWRITES, Backend
from . import access, atomics, contract, control, elementwise, reduce, shape

RULES: dict[Primitive, Any] = {
    **elementwise.RULES,
    **reduce.RULES,
    **shape.RULES,
    **contract.RULES,
    **control.RULES,
    **access.RULES,
    **atomics.RULES,
}

_FACTORED = "it works through a whole matrix column by column; the target's solver library does it, around the kernel"
_MOVES = "it moves elements between the registers of threads at computed places"
_LEFT = "the warps that compute have no rule for it"
_REASONS: dict[str, str] = {
    "indexing": _MOVES,
    "reductions": "elements are combined along an axis by sums, products and extrema alone",
    "complex numbers": "registers hold real numbers",
    "products and windows": "of these a warpgroup has products of two matrices alone",
    "linear algebra": _FACTORED,
    "warpgroups": "only a kernel that is written for warpgroups, by `lang.mosaic_gpu.kernel`, has them",
    "other devices": "a program reaches the memory of its own device alone",
    "the world outside": "a program reaches the memory of its own device alone, and not the host",
}


# Families that may be rewritten into what there are rules for; of the others only what has a rule is taken.
_OPEN = (
    "arithmetic", "functions", "comparison and selection", "bits", "integers as hardware has them", "conversion",
    "shape", "random numbers", "memory", "control",
)  # fmt: skip
# What its rewriting would need, none of which there is a rule for: loops, parts put together, padding.
_BEYOND = {
    pow_p: "it has no rule for integers",
    **dict.fromkeys((polygamma_p, zeta_p, igamma_p, igammac_p, igamma_grad_a_p, regularized_incomplete_beta_p),
                    "it is a series that is summed until it is exact enough"),
}  # fmt: skip


def _refused() -> dict[Primitive, str]:
    """A reason for each primitive of the language that has no rule and is not made of others."""
    found = dict(_BEYOND)
    for family, entries in FAMILIES.items():
        for p in entries:
            made = family in _OPEN and (p in REWRITES or p.expand is not None) or p in GONE
            if p not in RULES and not made:
                found[p] = _REASONS.get(family, _LEFT)
    return found


UNSUPPORTED: dict[Primitive, str] = _refused()
_WIDE = "numbers are computed in 32 bits"
UNSUPPORTED_DTYPES: dict[str, str] = {
    **dict.fromkeys(("float64", "int64", "uint64", "complex64", "complex128"), _WIDE),
    **dict.fromkeys(("int4", "uint4", "int2", "uint2"), "the least element that a GPU loads or stores is a byte"),
}
BACKEND = Backend("a Mosaic GPU kernel", RULES, UNSUPPORTED, UNSUPPORTED_DTYPES, forms, exact=False)
