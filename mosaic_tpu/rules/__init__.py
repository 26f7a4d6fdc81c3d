"""What each operation of a kernel becomes, family by family."""

from ...core.primitive import Primitive
from ..body import Rule
from . import (
    atomics,
    contract,
    control,
    conv,
    elementwise,
    far,
    index,
    memory,
    reduce,
    shape,
    sort,
    special,
    window,
    world,
)

RULES: dict[Primitive, Rule] = {
    **elementwise.RULES, **special.RULES, **shape.RULES, **reduce.RULES, **contract.RULES, **conv.RULES, **index.RULES,
    **memory.RULES, **atomics.RULES, **far.RULES, **control.RULES, **sort.RULES, **window.RULES, **world.RULES,
}  # fmt: skip
UNSUPPORTED: dict[Primitive, str] = world.UNSUPPORTED
