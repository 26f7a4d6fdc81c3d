"""What a kernel says of its form for Hopper GPUs: warps that copy beside warps that compute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompilerParams:
    """A kernel whose parameters are of this class is compiled by Mosaic GPU, where there is a choice.

    `num_stages`: how many turns of a loop are copied ahead at most; None: as many as shared memory holds, 8 at most.
    `consumers`: how many warpgroups (128 threads) compute, each with its part of the rows of a block; None: 2 where the
    rows can be divided. `backward`: what the kernels of its gradient are told instead; None: the same.

    >>> CompilerParams(num_stages=4).num_stages
    4
    """

    num_stages: int | None = None
    consumers: int | None = None
    backward: object | None = None


__all__ = ["CompilerParams"]
