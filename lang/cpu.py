"""Options of the CPU lowering of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError
from .targets.compiler_params import Params


@public
@dataclass(frozen=True)
class CompilerParams(Params):
    """`intermediate_bytes`: the most that an intermediate result of cells run side by side may take.

    Beyond it the cells run in a loop, as many side by side as fit. Without it the bound is some hundred MiB.
    `route`: "machine_code" has the kernel compiled to machine code of this CPU (`docs/cpu.md`), and computed by XLA,
    with the reason in the kernel's route, where that cannot be; "xla" has XLA compute it. Without it the setting
    `cpu_route` counts; where that is None too, the route that is estimated to be faster is taken.
    `backward`: those of the kernels of its gradient; None: the same.

    Raises an `ArgumentError` for another route.

    >>> CompilerParams(route="machine_code").route
    'machine_code'
    """

    intermediate_bytes: int | None = None
    backward: CompilerParams | None = None
    route: str | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        if self.route not in (None, "xla", "machine_code"):
            raise ArgumentError(f"CompilerParams: route is {self.route!r}", 'give "xla" or "machine_code"')


__all__ = ["CompilerParams"]
__dir__: Callable[[], list[str]] = __all__.copy
