"""StableHLO lowering: one table from primitives to rules, family by family."""

from typing import Any

from ...core.primitive import Primitive
from . import (
    callback,
    contract,
    control,
    conv,
    custom,
    custom_call,
    elementwise,
    index,
    jit,
    linalg,
    random,
    reduce,
    shape,
    sort,
    window,
)

RULES: dict[Primitive, Any] = {
    **jit.RULES,
    **elementwise.RULES,
    **reduce.RULES,
    **shape.RULES,
    **index.RULES,
    **sort.RULES,
    **contract.RULES,
    **conv.RULES,
    **window.RULES,
    **random.RULES,
    **control.RULES,
    **custom.RULES,
    **callback.RULES,
    **custom_call.RULES,
    **linalg.RULES,
}
