"""What each operation of a kernel becomes, family by family; what is not here is rewritten before (`lang/legalize`)."""

from ...core.primitive import Primitive
from ...lang.legalize import Backend
from ..body import Rule
from ..forms import forms
from ..values import UNSUPPORTED_DTYPES
from . import (
    atomics,
    contract,
    control,
    elementwise,
    far,
    index,
    memory,
    reduce,
    rewrites,
    shape,
    sort,
    world,
)

RULES: dict[Primitive, Rule] = {
    **elementwise.RULES, **shape.RULES, **reduce.RULES, **contract.RULES, **index.RULES,
    **memory.RULES, **atomics.RULES, **far.RULES, **control.RULES, **sort.RULES, **world.RULES,
}  # fmt: skip
UNSUPPORTED: dict[Primitive, str] = world.UNSUPPORTED
BACKEND = Backend("a TPU kernel", RULES, UNSUPPORTED, UNSUPPORTED_DTYPES, forms, rewrites=rewrites.REWRITES)
