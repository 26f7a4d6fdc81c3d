"""Fused operations: each with its kernels, its derivative, its cost and a plain reference in one file."""

from . import adamw, attention, batched_factorizations, cross_entropy, mlp, norms, rotary, softmax
from .base import Operation

_MODULES = (softmax, norms, attention, cross_entropy, mlp, rotary, adamw, batched_factorizations)
OPERATIONS: dict[str, Operation] = {o.name: o for module in _MODULES for o in module.OPERATIONS}
