"""`MosaicModule`: a kernel in the Mosaic TPU dialect, as text, with what the custom call around it must say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.ir.types import ArrayType

if TYPE_CHECKING:
    from ..core.ir.program import Program


@dataclass(frozen=True)
class MosaicModule:
    """One kernel, lowered.

    `text` is MLIR, not serialised. The call takes `in_types` and gives `out_types`, row-major; `aliases` are
    (operand, result) pairs that share memory. `prepare` makes the call's operands from the kernel's; `finish` makes
    the kernel's results from the kernel's operands followed by the call's results; None: nothing to do.
    `vmem_limit` is in bytes (None: the compiler's default). `has_communication`: it copies to other devices, or signals
    them, and `collective_id` is the number of the barrier semaphore.
    """

    name: str
    text: str
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    prepare: Program | None = None
    finish: Program | None = None
    flops: int = 0
    transcendentals: int = 0
    bytes_accessed: int = 0
    vmem_limit: int | None = None
    needs_layout_passes: bool = True
    has_communication: bool = False
    collective_id: int | None = None
