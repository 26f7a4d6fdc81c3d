"""`compiler_params`: the options of each backend's compiler, a class for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ...core.support.errors import ArgumentTypeError
from ..kernel.kernel import Kernel


class Params:
    """The options that all backends have, fields or not.

    `dimension_semantics`: as `kernel_call` takes them. `backward`: those of the kernels of the gradient.
    """

    dimension_semantics: Any = None
    backward: Any = None

    def __post_init__(self) -> None:
        """Make lists hashable, as part of a Kernel; raise an `ArgumentTypeError` for a number or truth that is none."""
        for field in fields(self):  # type: ignore[arg-type]
            value, kinds = getattr(self, field.name), _KINDS.get(str(field.type).removesuffix(" | None"))
            if value is not None and kinds and not isinstance(value, kinds[0]):
                raise ArgumentTypeError(f"CompilerParams: {field.name} is {value!r}", f"give {kinds[1]}")
            if isinstance(value, Sequence) and not isinstance(value, str):
                object.__setattr__(self, field.name, tuple(value))


_KINDS: dict[str, tuple[Any, str]] = {"int": ((int, np.integer), "an int"), "bool": ((bool, np.bool_), "True or False")}


def stated(kernel: Kernel) -> Params | None:
    """The `compiler_params` of a kernel."""
    return dict(kernel.settings).get("compiler_params")


def params_of[T: Params](kernel: Kernel, kind: type[T]) -> T:
    """The parameters of a class that a kernel has, or the defaults."""
    found = stated(kernel)
    return found if isinstance(found, kind) else kind()
