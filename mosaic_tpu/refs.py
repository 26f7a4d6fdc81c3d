"""Refs of a body: memrefs, with how the accesses of the body are placed in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.ir.types import RefType
from .text import ANY, SMEM, SSA, Mem, Shape
from .values import physical


@dataclass(frozen=True)
class Past:
    """A block that may reach past the end of its array: whether it does, the axes with how many elements each has
    before the end, and what is loaded after."""

    reaches: SSA
    limits: tuple[tuple[int, SSA], ...]
    fill: Any


@dataclass
class Ref:
    """A Ref of the body: a memref with `lead` leading axes, then the Ref's physical shape.

    The leading axes have size 1, or the Ref is at the place `at` of them.
    """

    type: RefType
    mem: Mem
    lead: int = 0
    past: Past | None = None
    at: tuple[SSA, ...] = ()
    barrier: bool = False  # the semaphore that kernels share, no scratch

    @property
    def in_smem(self) -> bool:
        return self.mem.space == SMEM

    @property
    def is_far(self) -> bool:
        return self.mem.space == ANY

    @property
    def shape(self) -> Shape:
        """The physical shape."""
        return physical(self.type.shape)
