"""Layouts as hints, and what else changes no value: each gives its array as it is."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.ir.array import ArrayLike, DTypeLike, Index
from ...core.ir.types import MemorySpace, canonical_dtype
from ...core.primitives.movement.shape import iota_p
from ...core.primitives.refs import ref_views as refs
from ...core.support.errors import ArgumentError
from ..kernel.block_spec import BlockSpec as PlainSpec
from .common import GLOBAL, check_space, thread_cell

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef


@dataclass(frozen=True)
class BlockSpec(PlainSpec):
    """How one operand of a pipeline is cut, with hints on its layout in shared memory.

    `delay_release`: after how many more steps a block's memory is filled again, less than there are steps at once.
    `transforms` are hints. Along `collective_axes` of the cluster blocks read the same: each copies a part to all.

    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> plgpu.BlockSpec((64, 64), memory_space=plgpu.SMEM).memory_space
    <MemorySpace.SMEM: 'smem'>
    """

    transforms: Any = ()
    delay_release: int = 0
    collective_axes: Any = None
    oob_fill_mode: Any = None

    def __post_init__(self) -> None:
        space = getattr(self.memory_space, "value", None)
        if isinstance(space, MemorySpace):  # a name of this package's, which makes scratch when it is called
            object.__setattr__(self, "memory_space", space)
        super().__post_init__()
        if not isinstance(self.delay_release, int) or self.delay_release < 0:
            raise ArgumentError(f"BlockSpec: delay_release is {self.delay_release!r}", "give 0 or more steps")


class _Hint(enum.Enum):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def reduce(self, axes: Any) -> Any:
        """The layout of a reduction's result."""
        return self


class Layout(_Hint):
    """Names of layouts of arrays in registers. The layout here follows from what is computed."""

    WGMMA = "wgmma"
    WGMMA_8BIT = "wgmma_8bit"
    WGMMA_UPCAST_2X = "wgmma_upcast_2x"
    WGMMA_UPCAST_4X = "wgmma_upcast_4x"
    WGMMA_TRANSPOSED = "wgmma_transposed"
    WG_SPLAT = "wg_splat"
    WG_STRIDED = "wg_strided"
    TCGEN05 = "tcgen05"
    TCGEN05_TRANSPOSED = "tcgen05_transposed"
    TCGEN05_M64_COLLECTIVE = "tcgen05_m64_collective"
    TCGEN05_M64_COLLECTIVE_NATIVE = "tcgen05_m64_collective_native"
    TCGEN05_TMEM_NATIVE = "tcgen05_tmem_native"
    SMEM_GMEM_COPY = "smem_gmem_copy"
    TILED = "tiled"


class OOBFillMode(enum.IntEnum):
    """The elements of a copy out of bounds of global memory: always zeros here."""

    UNDEFINED = 0
    PROMISE_IN_BOUNDS = 1
    ZEROS = 2


class LoweringSemantics(enum.Enum):
    """At which level Pallas's compiler works; here it is always warpgroups."""

    Lane = "lane"
    Warpgroup = "warpgroup"


class TMEMLayout(_Hint):
    """Names of layouts of tensor memory."""

    SCALES_LAYOUT = "scales"
    SPARSE_METADATA_LAYOUT = "sparse_metadata"
    M64_COLLECTIVE_LAYOUT = "m64_collective"


def layout_cast(x: ArrayLike, new_layout: Any) -> Any:
    """The same array; the layout is a hint.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(x, o):
    ...     o[...] = plgpu.layout_cast(x[...], plgpu.Layout.WG_STRIDED)
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True)
    >>> call(np.ones(4, "float32")).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return x


def async_prefetch(
    ref: AnyRef, *, collective_axes: Any = None, leader_tracked: Any = None, predicate: Any = None
) -> None:
    """A hint that a part of global memory is copied soon, which is not used; raises for a Ref in other memory.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(x, o):
    ...     plgpu.async_prefetch(x)
    ...     o[...] = x[...]
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True)
    >>> call(np.ones(4, "float32")).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thread_cell("async_prefetch")
    check_space("async_prefetch", "the source", refs.view(ref).ref.aval, *GLOBAL)


def griddepcontrol_wait() -> None:
    """Wait for the kernel before this one: here a kernel starts when it has ended.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(x, o):
    ...     plgpu.griddepcontrol_wait()
    ...     o[...] = x[...]
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True)
    >>> call(np.ones(4, "float32")).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thread_cell("griddepcontrol_wait")


def griddepcontrol_launch_dependents() -> None:
    """A hint that the next kernel may start, which is not used: it starts when this one has ended.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(x, o):
    ...     plgpu.griddepcontrol_launch_dependents()
    ...     o[...] = x[...]
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True)
    >>> call(np.ones(4, "float32")).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thread_cell("griddepcontrol_launch_dependents")


def load(src: AnyRef, idx: Index = Ellipsis, *, layout: Any = None, optimized: bool = True) -> Any:
    """What a part of a Ref holds; `layout` and `optimized` are hints.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(x, o):
    ...     o[...] = plgpu.load(x, (0, slice(None)), layout=plgpu.Layout.WG_STRIDED)
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True)
    >>> call(np.ones((2, 4), "float32")).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thread_cell("load")
    return refs.read(refs.view(src, idx))


def store(dst: AnyRef, value: ArrayLike, *, optimized: bool = True) -> None:
    """Store an array in a Ref or a part of one (`ref.at[...]`); `optimized` is a hint.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(x, o):
    ...     plgpu.store(o.at[1], x[...], optimized=False)
    ...     plgpu.store(o.at[0], x[...] * 2)
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((2, 2), "float32"), interpret=True)
    >>> call(np.ones(2, "float32")).tolist()
    [[2.0, 2.0], [1.0, 1.0]]
    """
    thread_cell("store")
    refs.view(dst)[...] = value


def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int, *, layout: Any = None) -> Any:
    """Each element's place along an axis; `layout` is a hint.

    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(o):
    ...     o[...] = plgpu.broadcasted_iota("int32", (4,), 0)
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((4,), "int32"), interpret=True)
    >>> call().tolist()
    [0, 1, 2, 3]
    """
    return iota_p.bind(dtype=canonical_dtype(dtype), shape=tuple(shape), dimension=int(dimension))


def find_swizzle(minor_dim_bits: int, what: str = "") -> int:
    """The largest swizzle, in bytes, that rows of so many bits can have.

    >>> find_swizzle(64 * 16)
    128
    """
    for swizzle in (128, 64, 32, 16):
        if minor_dim_bits % (8 * swizzle) == 0:
            return swizzle
    named = f" of {what}" if what else ""
    raise ArgumentError(f"find_swizzle: rows{named} of {minor_dim_bits} bits", "give rows of a multiple of 16 bytes")
