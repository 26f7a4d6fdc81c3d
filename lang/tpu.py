"""The names that kernel authors know from Pallas for TPUs. All of them run on every target."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array, ArrayLike, Operand
from ..core.ir.primitive import Primitive
from ..core.ir.types import INT32, MemorySpace
from ..core.primitives.elementwise.arithmetic import div_p, mul_p, neg_p, rem_p, sub_p
from ..core.primitives.elementwise.bitwise import and_p
from ..core.primitives.elementwise.builders import unary
from ..core.primitives.elementwise.comparison import eq_p, ne_p, select_n_p
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.dynamic_slice import dynamic_slice
from ..core.primitives.movement.shape import concatenate, iota_p
from ..core.primitives.refs.ref_views import AnyRef, view
from ..core.primitives.spmd.collective import axis_index
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, ArgumentTypeError
from ..core.tracing.trace import shape_of
from ..core.transforms.rule_helpers import like
from .kernel.block_spec import ANY, HBM, SEMAPHORE, SMEM, VMEM, PrefetchScalarGridSpec
from .kernel.missing_names import TPU, absent_from
from .ops.basic import load, store, when
from .ops.dma import (
    AsyncCopyDescriptor,
    SemaphoreType,
    async_copy,
    make_async_copy,
    semaphore_read,
    semaphore_wait,
    sync_copy,
)
from .ops.emit_pipeline import emit_pipeline
from .ops.interpret_params import (
    InterpretParams,
    force_tpu_interpret_mode,
    reset_tpu_interpret_mode_state,
    set_tpu_interpret_mode,
)
from .ops.low_precision import bitcast, pack_elementwise, stochastic_round, unpack_elementwise
from .ops.mesh_axes import DeviceIdType
from .ops.prng import prng_random_bits, prng_seed, stateful_bernoulli, stateful_bits, stateful_normal, stateful_uniform
from .ops.remote_dma import async_remote_copy, get_barrier_semaphore, make_async_remote_copy, semaphore_signal
from .targets.compiler_params import Params
from .targets.tpu_info import ChipVersion, CoreMesh, TpuInfo, get_tpu_info, get_tpu_info_for_chip, is_tpu_device


class GridDimensionSemantics(enum.Enum):
    """How the cells along a grid axis may run."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


class SideEffectType(enum.Enum):
    """What a kernel does besides giving results, for `CompilerParams(has_side_effects=)`."""

    PURE = "pure"
    DATAFLOW_SIDE_EFFECTING = "dataflow"
    SIDE_EFFECTING = "side_effecting"


PARALLEL, CORE_PARALLEL, SUBCORE_PARALLEL, ARBITRARY = GridDimensionSemantics
TensorCoreMesh = CoreMesh


@public
def create_tensorcore_mesh(
    axis_name: str, devices: Sequence[Any] | None = None, num_cores: int | None = None
) -> TensorCoreMesh:
    """The cores of the target, or `num_cores` of them, with a name for their axis.

    `devices` are for programs that state them. Raises `ArgumentError` for both.

    >>> from tilewright.lang import tpu
    >>> tpu.create_tensorcore_mesh("core", num_cores=2).shape
    {'core': 2}
    """
    if devices is not None and num_cores is not None:
        raise ArgumentError("create_tensorcore_mesh is given devices and num_cores", "give one of the two")
    return TensorCoreMesh(num_cores, axis_name)


@public
@dataclass(frozen=True)
class CompilerParams(Params):
    """Parameters of the TPU compiler. Only `dimension_semantics` states a property of the kernel itself.

    `vmem_limit_bytes` and `collective_id` are forwarded; the others exist for programs that state them, and change
    nothing.

    `backward`: the parameters of the kernels of its gradient; None: the same.
    """

    dimension_semantics: Sequence[Any] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: bool | SideEffectType = False
    flags: Mapping[str, Any] | None = None
    internal_scratch_in_bytes: int | None = None
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    serialization_format: int = 1
    skip_device_barrier: bool = False
    allow_collective_id_without_custom_barrier: bool = False
    shape_invariant_numerics: bool = True
    use_tc_tiling_on_sc: bool | None = None
    needs_layout_passes: bool = True
    fuse_transposed_lhs_in_matmul: bool = False
    opt_level: Any = None
    backward: CompilerParams | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.flags is not None:
            object.__setattr__(self, "flags", tuple(sorted(self.flags.items())))


@public
def roll(
    x: ArrayLike, shift: ArrayLike, axis: int, *, stride: int | None = None, stride_axis: int | None = None
) -> Any:
    """An array with its elements moved along an axis by `shift` (may be traced), those past the end to the start.

    With a `stride`, what is at place `i` along `stride_axis` is moved by `i * stride` more. Raises `ArgumentError` for
    one of the two alone, and for two axes that are one.

    >>> from tilewright import lax, numpy as jnp
    >>> from tilewright.lang import tpu
    >>> tpu.roll(jnp.arange(4), 1, 0)
    Array([3, 0, 1, 2], dtype=int32)
    """
    if (stride is None) != (stride_axis is None):
        raise ArgumentError(f"roll: stride is {stride}, stride_axis {stride_axis}", "give both, or none")
    x = _roll(x, shift, axis)
    if stride is None or stride_axis is None:
        return x
    shape = shape_of(x)
    if axis % len(shape) == stride_axis % len(shape):
        raise ArgumentError(f"roll: axis and stride_axis are both {axis}", "give two axes")
    places = iota_p.bind(dtype=INT32, shape=shape, dimension=stride_axis % len(shape))
    left, step = rem_p.bind(mul_p.bind(places, like(places, stride)), like(places, shape[axis])), 1
    while step < shape[axis]:  # by each power of two that is in the distance
        moved = ne_p.bind(and_p.bind(left, like(left, step)), like(left, 0))
        x = select_n_p.bind(moved, x, _roll(x, step, axis))
        step *= 2
    return x


def _roll(x: Operand, shift: ArrayLike, axis: int) -> Any:
    shape = shape_of(x)
    n = shape[axis]
    shift = np.int32(int(shift) % n) if isinstance(shift, (int, np.integer)) else convert_element_type(shift, INT32)
    start = rem_p.bind(sub_p.bind(np.int32(n), rem_p.bind(shift, np.int32(n))), np.int32(n))
    starts = [start if d == axis % len(shape) else np.int32(0) for d in range(len(shape))]
    return dynamic_slice(concatenate([x, x], axis % len(shape)), starts, shape, allow_negative_indices=False)


def _inverse(x: Array, **params: Any) -> Any:
    return div_p.bind(like(x, 1.0), x)


approx_reciprocal_p: Primitive = unary(
    "approx_reciprocal", ("float", "complex"), lambda x, full_range: 1 / x,
    lambda t, out, x, full_range: neg_p.bind(mul_p.bind(t, mul_p.bind(out, out))), expand=_inverse,
)  # fmt: skip
PRIMITIVES = (approx_reciprocal_p,)


@public
def reciprocal(x: ArrayLike, *, approx: bool = False, full_range: bool = True) -> Any:
    """`1 / x`, of floats or complex numbers; `approx` allows a target to give fewer digits.

    Without `full_range` a target may go wrong where x or the result is 0, infinite, NaN or subnormal.

    >>> from tilewright import lax, numpy as jnp
    >>> from tilewright.lang import tpu
    >>> tpu.reciprocal(jnp.array([2.0, 4.0]), approx=True)
    Array([0.5 , 0.25], dtype=float32)
    """
    return approx_reciprocal_p.bind(x, full_range=bool(full_range)) if approx else _inverse(x)


def with_memory_space_constraint(x: ArrayLike, memory_space: Any) -> Any:
    """The array itself: a BlockSpec gives the memory space of a kernel's operand, and XLA chooses the rest.

    Raises `ArgumentTypeError` for what is no memory space.

    >>> from tilewright import lax, numpy as jnp
    >>> from tilewright.lang import tpu
    >>> tpu.with_memory_space_constraint(jnp.ones(2), tpu.HBM)
    Array([1., 1.], dtype=float32)
    """
    if not isinstance(memory_space, MemorySpace):
        raise ArgumentTypeError(f"with_memory_space_constraint: {memory_space!r} is no memory space", "give `HBM`, say")
    return x


def annotate(ref: AnyRef, *, no_store: bool = False, no_bank_conflict: bool = False, no_hazard: bool = False,
             no_hazard_no_deps: bool = False) -> Any:  # fmt: skip
    """The Ref, or part of one, itself: what is said of its accesses are hints, which no target reads.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(x, o):
    ...     o[...] = tl.tpu.annotate(x, no_hazard=True)[...]
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((3,), "int32"))(tnp.arange(3)))
    [0 1 2]
    """
    return view(ref)


def run_on_first_core(core_axis_name: str) -> Callable[[Callable[[], Any]], None]:
    """Decorator: run a function of no arguments on the first core along an axis of the mesh only; it acts by Refs.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax
    >>> from tilewright.lang import tpu
    >>> @tl.kernel(out_type=tw.ShapeDtypeStruct((1,), "int32"), mesh=tpu.TensorCoreMesh(axis_name="core", num_cores=2))
    ... def call(o):
    ...     @tpu.run_on_first_core("core")
    ...     def _():
    ...         o[0] = lax.axis_index("core") + 7
    >>> call().tolist()
    [7]
    """
    return when(eq_p.bind(axis_index(core_axis_name), np.int32(0)))


if not TYPE_CHECKING:  # checkers report missing names themselves
    __getattr__ = absent_from("lang.tpu", TPU)

__all__ = [
    "ANY", "ARBITRARY", "AsyncCopyDescriptor", "CORE_PARALLEL", "ChipVersion", "CompilerParams", "DeviceIdType",
    "GridDimensionSemantics", "HBM", "InterpretParams", "MemorySpace", "PARALLEL", "PrefetchScalarGridSpec",
    "SEMAPHORE", "SMEM", "SUBCORE_PARALLEL", "SemaphoreType", "SideEffectType", "TensorCoreMesh", "TpuInfo", "VMEM",
    "annotate", "async_copy", "async_remote_copy", "bitcast", "create_tensorcore_mesh", "emit_pipeline",
    "force_tpu_interpret_mode",
    "get_barrier_semaphore", "get_tpu_info", "get_tpu_info_for_chip", "is_tpu_device", "load", "make_async_copy",
    "make_async_remote_copy", "pack_elementwise", "prng_random_bits", "prng_seed", "reciprocal",
    "reset_tpu_interpret_mode_state", "roll", "run_on_first_core", "semaphore_read", "semaphore_signal",
    "semaphore_wait", "set_tpu_interpret_mode", "stateful_bernoulli", "stateful_bits", "stateful_normal",
    "stateful_uniform", "stochastic_round", "store", "sync_copy", "unpack_elementwise", "with_memory_space_constraint",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
