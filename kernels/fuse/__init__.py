"""Fusion: a Program as kernel calls and what stays between them.

    inline calls -> plan (which equations are one loop nest, by the bytes they move) -> kernels

Loops and branches stay, the Programs in them are fused.
"""

from .fusion import Account, Boundary, FusedKernel, Fusion, forget, fuse, plan
from .report import kernel_lines, plan_lines, plan_text

__all__ = [
    "Account", "Boundary", "FusedKernel", "Fusion", "forget", "fuse", "kernel_lines", "plan", "plan_lines", "plan_text",
]  # fmt: skip
