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
    random,
    reduce,
    shape,
    sort,
    window,
)


def _kernel_call(*args: Any, **params: Any) -> Any:
    # Imported by the first program that holds a kernel: the kernel language is a good part of the start-up time.
    from .kernel import kernel_call

    return kernel_call(*args, **params)


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
    "kernel_call": _kernel_call,
}
