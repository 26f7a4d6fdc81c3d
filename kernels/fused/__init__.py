"""Fused operations: each with its kernels, its derivative, its cost and a plain reference in one file."""

from . import cross_entropy as _cross_entropy
from .operation import Operation

OPERATIONS: dict[str, Operation] = {o.name: o for module in (_cross_entropy,) for o in module.OPERATIONS}
