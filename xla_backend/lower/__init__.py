"""StableHLO lowering: one table from primitives to rules, family by family."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

from ...core.caches import once
from ...core.primitive import Primitive
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
}


def rules() -> Mapping[Primitive, Any]:
    """The rules of every primitive that a program may hold by now.

    The kernel language is a good part of the start-up time: without it there are no kernels.
    """
    return _with_kernels() if f"{_LANG}.primitive" in sys.modules else RULES


_LANG = __package__.replace("xla_backend.lower", "lang")


@once
def _with_kernels() -> Mapping[Primitive, Any]:
    primitive, rule = importlib.import_module(f"{_LANG}.primitive"), importlib.import_module(".kernel", __package__)
    return RULES | {primitive.kernel_call_p: rule.kernel_call}
