"""What kernels may hold: the table of those that work on blocks, which names that of those written for warpgroups."""

from __future__ import annotations

from dataclasses import replace

from ..lang.kernel.kernel import Kernel
from ..lang.legalize import Backend
from ..lang.warpgroups.specs import mesh_of
from .rules import BACKEND as BLOCKS
from .warpgroup_kernels.rules import BACKEND as WARPGROUPS


def _other(kernel: Kernel) -> Backend | None:
    return None if mesh_of(kernel) is None else WARPGROUPS


BACKEND = replace(BLOCKS, other=_other)
