"""The names that kernel authors know from Pallas for TPUs. All of them run on every target."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.primitives.convert import bitcast_convert_type, convert_element_type
from ..core.primitives.elementwise import div_p, mul_p, neg_p, rem_p, sub_p
from ..core.primitives.nary import unary
from ..core.primitives.shape import concatenate
from ..core.primitives.slicing import dynamic_slice
from ..core.rules import like
from ..core.trace import shape_of
from ..core.types import INT32, MemorySpace
from .block import ANY, HBM, SEMAPHORE, SMEM, VMEM, PrefetchScalarGridSpec
from .copies import AsyncCopyDescriptor, SemaphoreType, async_copy, make_async_copy, sync_copy
from .devices import DeviceIdType
from .modes import InterpretParams
from .numerics import stochastic_round
from .ops import load, store
from .pipeline import emit_pipeline
from .prng import prng_random_bits, prng_seed, stateful_bernoulli, stateful_bits, stateful_normal, stateful_uniform
from .remote import async_remote_copy, get_barrier_semaphore, make_async_remote_copy, semaphore_signal


class GridDimensionSemantics(enum.Enum):
    """How the cells along a grid axis may run."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


PARALLEL, CORE_PARALLEL, SUBCORE_PARALLEL, ARBITRARY = GridDimensionSemantics


@dataclass(frozen=True)
class CompilerParams:
    """What the TPU compiler is told. Only `dimension_semantics` says something about the kernel itself.

    `backward`: what the kernels of its gradient are told instead; None: the same.
    """

    dimension_semantics: Sequence[Any] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: bool = False
    flags: Mapping[str, Any] | None = None
    internal_scratch_in_bytes: int | None = None
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    backward: CompilerParams | None = None

    def __post_init__(self) -> None:
        # Part of a Kernel, so every field is made hashable.
        for name in ("dimension_semantics", "allow_input_fusion"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        if self.flags is not None:
            object.__setattr__(self, "flags", tuple(sorted(self.flags.items())))


def roll(x: Any, shift: Any, axis: int) -> Any:
    """An array with its elements moved along an axis by `shift` (may be traced), those past the end to the start."""
    shape = shape_of(x)
    n = shape[axis]
    shift = np.int32(int(shift) % n) if isinstance(shift, (int, np.integer)) else convert_element_type(shift, INT32)
    start = rem_p.bind(sub_p.bind(np.int32(n), rem_p.bind(shift, np.int32(n))), np.int32(n))
    starts = [start if d == axis % len(shape) else np.int32(0) for d in range(len(shape))]
    return dynamic_slice(concatenate([x, x], axis % len(shape)), starts, shape, allow_negative_indices=False)


def _inverse(x: Any, **params: Any) -> Any:
    return div_p.bind(like(x, 1.0), x)


approx_reciprocal_p = unary(
    "approx_reciprocal", ("float", "complex"), lambda x, full_range: 1 / x,
    lambda t, out, x, full_range: neg_p.bind(mul_p.bind(t, mul_p.bind(out, out))), expand=_inverse,
)  # fmt: skip
PRIMITIVES = (approx_reciprocal_p,)


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """`1 / x`, of floats or complex numbers; `approx` allows a target to give fewer digits.

    Without `full_range` a target may go wrong where x or the result is 0, infinite, NaN or subnormal.
    """
    return approx_reciprocal_p.bind(x, full_range=bool(full_range)) if approx else _inverse(x)


def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of an array as another dtype of the same width."""
    return bitcast_convert_type(x, dtype)


__all__ = [
    "ANY", "ARBITRARY", "AsyncCopyDescriptor", "CORE_PARALLEL", "CompilerParams", "DeviceIdType",
    "GridDimensionSemantics", "HBM", "InterpretParams", "MemorySpace", "PARALLEL", "PrefetchScalarGridSpec",
    "SEMAPHORE", "SMEM", "SUBCORE_PARALLEL", "SemaphoreType", "VMEM", "async_copy", "async_remote_copy", "bitcast",
    "emit_pipeline", "get_barrier_semaphore", "load", "make_async_copy", "make_async_remote_copy", "prng_random_bits",
    "prng_seed", "reciprocal", "roll", "semaphore_signal", "stateful_bernoulli", "stateful_bits", "stateful_normal",
    "stateful_uniform", "stochastic_round", "store", "sync_copy",
]  # fmt: skip
