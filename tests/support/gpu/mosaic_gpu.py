"""Operands of kernels for warpgroups, and what is printed of them."""

import numpy as np

import tilewright as tw
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_gpu import mosaic_gpu_module

RNG = np.random.default_rng(0)


def floats(*shape, dtype="float16"):
    return RNG.standard_normal(shape).astype(tw.numpy.dtype(dtype))


def printed(f, *args, target="cuda:sm_90"):
    """The module of the one kernel of a function."""
    types = [tw.ShapeDtypeStruct(x.shape, x.dtype) for x in args]
    (kernel,) = kernels_of(tw.compile(f, *types, stop="program"))
    return mosaic_gpu_module(kernel, target_of(target))
