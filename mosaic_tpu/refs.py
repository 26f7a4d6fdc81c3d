"""Refs of a body: memrefs, with how the accesses of the body are placed in them."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.types import RefType
from .text import ANY, SMEM, Mem, Shape
from .values import physical


@dataclass
class Ref:
    """A Ref of the body: a memref whose leading `lead` axes have size 1, then the Ref's physical shape."""

    type: RefType
    mem: Mem
    lead: int = 0

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
