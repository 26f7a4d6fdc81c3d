"""StableHLO lowering: one table from primitives' names to rules, family by family."""

from typing import Any

from . import (
    callback,
    contract,
    control,
    conv,
    custom,
    elementwise,
    index,
    jit,
    kernel,
    random,
    reduce,
    shape,
    sort,
    window,
)

RULES: dict[str, Any] = {
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
    **kernel.RULES,
}
