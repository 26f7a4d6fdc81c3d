"""What the printer makes of a kernel: the text of one Triton program, its launch, and what surrounds it."""

from __future__ import annotations

from dataclasses import dataclass

from ..lang.gpu.code import Module


@dataclass(frozen=True, kw_only=True)
class TritonModule(Module):
    """A kernel as a Triton program: `text` is TTIR with one public `tt.func @name`."""

    num_warps: int
    num_stages: int
    specialised: bool = False  # it asks for warps that copy and warps that compute
    divided: bool = False  # full blocks have a loop of their own
