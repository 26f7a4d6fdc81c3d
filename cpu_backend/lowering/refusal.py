"""What keeps a kernel from being machine code here, as an error that the choice of routes understands."""

from __future__ import annotations

from ...core.support.errors import UnsupportedError


def refuse(what: str) -> UnsupportedError:
    return UnsupportedError(what, "XLA computes the kernel instead")
