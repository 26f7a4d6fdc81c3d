"""What the author of a kernel tells a compiler of it, `compiler_params`: a class for each compiler."""

from __future__ import annotations

from typing import Any

from .kernel import Kernel


class Params:
    """What all of these classes have, fields or not.

    `dimension_semantics`: as `kernel_call` takes them. `backward`: what the kernels of the gradient are told instead.
    """

    dimension_semantics: Any = None
    backward: Any = None


def stated(kernel: Kernel) -> Params | None:
    """What a kernel tells a compiler."""
    return dict(kernel.settings).get("compiler_params")


def params_of[T: Params](kernel: Kernel, kind: type[T]) -> T:
    """What a kernel tells the compiler of a class of parameters; where it tells it nothing, the defaults."""
    found = stated(kernel)
    return found if isinstance(found, kind) else kind()
