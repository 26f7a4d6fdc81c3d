"""Kernels written directly for the warpgroups of Hopper and Blackwell: what they state, operations, their meaning."""

from . import barriers, products, transfers, warps

PRIMITIVES = (*barriers.PRIMITIVES, *transfers.PRIMITIVES, *products.PRIMITIVES, *warps.PRIMITIVES)
