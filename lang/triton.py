"""The names that kernel authors know from Pallas for GPUs. All of them run on every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.ir.array import ArrayLike
from ..core.ir.types import INT32, is_integer
from ..core.primitives.contraction.dot_general import dot as contract
from ..core.primitives.elementwise.arithmetic import tanh
from ..core.support.call_errors import public
from ..core.tracing.trace import typeof
from .kernel.missing_names import TRITON, absent_from
from .ops.atomics import atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or, atomic_xchg, atomic_xor
from .ops.basic import load, store
from .ops.inline_asm import elementwise_inline_asm, inline_asm
from .ops.low_precision import dot_scaled
from .targets.compiler_params import Params


@public
@dataclass(frozen=True)
class CompilerParams(Params):
    """Parameters of the Triton compiler: warps per program, and stages of software pipelining.

    `tensor_descriptors`: whether the copy engine (TMA) of sm_90 and later moves those blocks that it can, as tiles that
    tensor descriptors name, where else each element has a pointer. None: it reads matrices of 16-bit floats that go
    into a product of matrices as they are, and no others. Targets without the engine leave this unread.
    `backward`: the parameters of the kernels of its gradient; None: the same. `suggested`: another compiler may
    take the kernel where it is estimated to give faster code; these are then for Triton, should it be Triton.
    `warp_specialize`: on sm_90 and later, some warps copy what others compute with, in the innermost loop; where the
    compiler fails to divide them, the kernel is compiled as if it had not been asked for, and `explain` says why.
    """

    num_warps: int | None = None
    num_stages: int | None = None
    tensor_descriptors: bool | None = None
    backward: CompilerParams | None = None
    suggested: bool = False
    warp_specialize: bool | None = None


@public
def approx_tanh(x: ArrayLike) -> Any:
    """The hyperbolic tangent; a target may give fewer digits.

    >>> from tilewright import lax, numpy as jnp
    >>> from tilewright.lang import triton
    >>> triton.approx_tanh(jnp.array([0.0]))
    Array([0.], dtype=float32)
    """
    return tanh(x)


@public
def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The matrix product of two blocks, summed in float32 (integers: int32) unless `preferred_element_type` says so.

    >>> from tilewright import lax, numpy as jnp
    >>> from tilewright.lang import triton
    >>> triton.dot(jnp.ones((2, 3), "float16"), jnp.ones((3, 4), "float16")).dtype
    dtype('float32')
    """
    if preferred_element_type is None:
        dtype = typeof(a).dtype
        preferred_element_type = INT32 if is_integer(dtype) else None if dtype.itemsize >= 4 else "float32"
    return contract(a, b, precision=precision, preferred_element_type=preferred_element_type)


def debug_barrier() -> None:
    """Wait for all threads of the program: does nothing, as accesses of a cell already happen in their order.

    >>> import tilewright as tw
    >>> from tilewright import lang as tl, numpy as tnp
    >>> def body(x, o):
    ...     o[...] = x[...]
    ...     tl.triton.debug_barrier()
    >>> print(tl.kernel_call(body, tw.ShapeDtypeStruct((3,), "int32"))(tnp.arange(3)))
    [0 1 2]
    """


def max_contiguous(x: ArrayLike, values: ArrayLike) -> Any:
    """A hint that runs of `values` elements of `x` are contiguous; the value itself is unchanged.

    >>> max_contiguous(8, 4)
    8
    """
    return x


if not TYPE_CHECKING:  # checkers report missing names themselves
    __getattr__ = absent_from("lang.triton", TRITON)

__all__ = [
    "CompilerParams", "approx_tanh", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xchg", "atomic_xor", "debug_barrier", "dot", "dot_scaled",
    "elementwise_inline_asm", "inline_asm", "load", "max_contiguous", "store",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
