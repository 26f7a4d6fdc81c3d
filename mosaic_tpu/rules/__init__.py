"""What each operation of a kernel becomes, family by family; what is not here is rewritten before (`lang/legalize`)."""

from ...core.ir.primitive import Primitive
from ...lang.legalize import Backend
from ..body import Rule
from ..kernel_variants import passes
from ..values import UNSUPPORTED_DTYPES
from . import (
    atomics,
    contract,
    control,
    dma,
    elementwise,
    host_effects,
    index,
    reduce,
    rewrites,
    shape,
    sort,
    vector_memory,
)

RULES: dict[Primitive, Rule] = {
    **elementwise.RULES, **shape.RULES, **reduce.RULES, **contract.RULES, **index.RULES,
    **vector_memory.RULES, **atomics.RULES, **dma.RULES, **control.RULES, **sort.RULES, **host_effects.RULES,
}  # fmt: skip
UNSUPPORTED: dict[Primitive, str] = host_effects.UNSUPPORTED
BACKEND = Backend("a TPU kernel", RULES, UNSUPPORTED, UNSUPPORTED_DTYPES, passes, rewrites=rewrites.REWRITES)
