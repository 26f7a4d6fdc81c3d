"""Copies between global and shared memory, by the copy engine.

    copy_gmem_to_smem(src, *at, dst, *at, bar, *at, [predicate]; src, dst, bar, shared)
    copy_smem_to_gmem(src, *at, dst, *at, [predicate]; src, dst, commit, reduction)
    commit_group(), wait_group(; n, read_only), commit_smem()

A copy to shared memory announces its bytes at a barrier and arrives there; a copy to global memory belongs to a group
of its warpgroup. Places of global memory past its ends are zeros when they are read, and dropped when written. `shared`
says which part of a collective copy each block of a cluster does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.ir.array import Operand
from ...core.ir.types import ArrayType, MemorySpace
from ...core.primitives.refs.state_primitives import access_shape
from ...core.support.errors import ArgumentError, DtypeError, ShapeError
from ..ops import atomics
from ..ops.dma import BOTH, operands_of, operation
from .common import GLOBAL, acting, check_index, check_one, check_space, condition, ordered_on, split, thread_cell
from .specs import Mesh

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive
    from ...core.primitives.refs.ref_views import AnyRef


REDUCTIONS = ("add", "min", "max", "and", "or", "xor")


class CopyPartition:
    """The part that each block of a pair copies, where the first block's barrier tracks both (`leader_tracked`)."""

    PARTITIONED: ClassVar[Any]  # its part along an axis, `PARTITIONED(0)`
    REPLICATED: ClassVar[Any]  # all of it


@dataclass(frozen=True)
class _Partitioned(CopyPartition):
    axis: int


@dataclass(frozen=True)
class _Replicated(CopyPartition):
    pass


CopyPartition.PARTITIONED, CopyPartition.REPLICATED = _Partitioned, _Replicated()


@dataclass(frozen=True)
class Shared:
    """A collective copy of several blocks of a cluster, along some of its axes.

    `leader`: whether the first block's barrier tracks all copies, each to its own block; else each block copies
    its part of the first axis to all of them, whose barriers tell of theirs. `axis`: along which the source is divided
    among the blocks, if it is.
    """

    axes: tuple[int, ...]
    blocks: int
    leader: bool
    axis: int | None


def _check(what: str, types: Sequence[Any], src: Any, dst: Any, load: bool, shared: Shared | None = None) -> None:
    (source, _), (target, _) = split(types, src, dst)[0]
    for name, type_, index, far in (("the source", source, src, load), ("the destination", target, dst, not load)):
        check_space(what, name, type_, *(GLOBAL if far else (MemorySpace.SMEM,)))
        check_index(what, name, index)
    a, b = ArrayType(access_shape(src), source.dtype), ArrayType(access_shape(dst), target.dtype)
    wanted = list(a.shape)
    if shared is not None and shared.axis is not None:
        if not 0 <= shared.axis < len(wanted) or wanted[shared.axis] % shared.blocks:
            raise ShapeError(f"{what} of {a.show()} by {shared.blocks} blocks, divided along axis {shared.axis}",
                             "let the number of blocks divide it")  # fmt: skip
        wanted[shared.axis] //= shared.blocks if shared.leader else 1
    if tuple(wanted) != b.shape:
        raise ShapeError(f"{what} of {a.show()} to {b.show()}", "copy between parts of one shape" if shared is None
                         or not shared.leader else f"each block has {tuple(wanted)} of it")  # fmt: skip
    if a.dtype != b.dtype:
        raise DtypeError(f"{what} of {a.show()} to {b.show()}", "a copy changes no dtype; load, cast and store")


def _load_typing(*types: Any, src: Any, dst: Any, bar: Any, shared: Shared | None) -> list[Any]:
    _check("copy_gmem_to_smem", types, src, dst, True, shared)
    check_one("copy_gmem_to_smem", split(types, src, dst, bar)[0][2][0], bar)
    return []


def _store_typing(*types: Any, src: Any, dst: Any, commit: bool, reduction: str | None) -> list[Any]:
    _check("copy_smem_to_gmem", types, src, dst, False)
    return []


def _store_numpy(*operands: Any, commit: bool, **params: Any) -> list[Any]:
    acting("store", "src", "dst", predicated=True)(*operands, **params)
    return acting("commit_group")() if commit else []


def said(name: str) -> Any:
    return operation(name, lambda **params: [], ordered_on(), acting(name))


copy_gmem_to_smem_p: Primitive = operation(
    "copy_gmem_to_smem", _load_typing, ordered_on(src=("read",), dst=("write",), bar=BOTH),
    acting("load", "src", "dst", "bar", predicated=True),
)  # fmt: skip
copy_smem_to_gmem_p: Primitive = operation(
    "copy_smem_to_gmem", _store_typing, ordered_on(src=("read",), dst=("write",)), _store_numpy
)
commit_group_p: Any
wait_group_p: Any
commit_smem_p: Any
commit_group_p, wait_group_p, commit_smem_p = map(said, ("commit_group", "wait_group", "commit_smem"))
PRIMITIVES = (copy_gmem_to_smem_p, copy_smem_to_gmem_p, commit_group_p, wait_group_p, commit_smem_p)


def copy_gmem_to_smem(
    src: AnyRef, dst: AnyRef, barrier: AnyRef | None = None, *,
    collective_axes: Any = None, leader_tracked: Any = None, oob_mode: Any = None, predicate: Any = None,
) -> None:  # fmt: skip
    """Start a copy of a part of global memory to shared memory; wait at `barrier` for its completion.

    The copy is one arrival at the barrier. `src` and `dst` are Refs, or parts of them (`ref.at[...]`), of one shape and
    dtype; out-of-bounds elements of `src` are zeros, whatever `oob_mode` is. All blocks of a cluster along
    `collective_axes` start the copy, and each of them gets all of it; with `leader_tracked`, a `CopyPartition`, its
    part or all of it, and the first block's barrier alone tracks both copies. Raises a `KernelBodyError`
    for Refs in other memories, a `ShapeError`, a `DtypeError`, and an `ArgumentError` for axes that are no cluster's.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def double(x, o, tile, arrived):
    ...     plgpu.copy_gmem_to_smem(x, tile, arrived)
    ...     plgpu.barrier_wait(arrived)
    ...     o[...] = tile[...] * 2
    >>> call = plgpu.kernel(double, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.SMEM((4,), "float32"), plgpu.Barrier()])
    >>> call(np.ones(4, "float32")).tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    cell = thread_cell("copy_gmem_to_smem")
    if barrier is None:
        raise ArgumentError("copy_gmem_to_smem without a barrier", "give the barrier at which its end is told")
    operands, indices = operands_of(src=src, dst=dst, bar=barrier)
    shared = _shared(cell.made["mesh"].mesh, collective_axes, leader_tracked)
    copy_gmem_to_smem_p.bind(*operands, *condition("copy_gmem_to_smem", predicate), **indices, shared=shared)


def _shared(mesh: Mesh, names: Any, leader: Any) -> Shared | None:
    """How the blocks along some axes of a cluster share a copy; None for a single block."""
    if leader is not None and (names is None or not isinstance(leader, CopyPartition)):
        raise ArgumentError(f"copy_gmem_to_smem: leader_tracked is {leader!r}, collective_axes {names!r}",
                            "give a CopyPartition, and the axis of the cluster")  # fmt: skip
    axes = () if names is None else mesh.cluster_axes("copy_gmem_to_smem", names)
    blocks = len(mesh.offsets(axes))
    if blocks == 1:
        return None
    axis = 0 if leader is None else getattr(leader, "axis", None)
    return Shared(axes, blocks, leader is not None, axis)


def copy_smem_to_gmem(
    src: AnyRef, dst: AnyRef, predicate: Any = None, *, commit_group: bool = True,
    reduction_op: str | None = None,
) -> None:  # fmt: skip
    """Start a copy of a part of shared memory to global memory; `wait_smem_to_gmem` waits for its completion.

    What this warpgroup stored in `src` must have been made known by `commit_smem`. `commit_group` ends the group of
    copies that share one wait; with `reduction_op` ("add", "min", "max", "and", "or", "xor") the source is
    combined with what is there. Raises as `copy_gmem_to_smem`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def ones(o, tile):
    ...     tile[...] = np.ones(4, "float32")
    ...     plgpu.commit_smem()
    ...     plgpu.copy_smem_to_gmem(tile, o)
    ...     plgpu.wait_smem_to_gmem(0)
    >>> call = plgpu.kernel(ones, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.SMEM((4,), "float32")])
    >>> call().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thread_cell("copy_smem_to_gmem")
    if reduction_op is not None and reduction_op not in REDUCTIONS:
        raise ArgumentError(f"copy_smem_to_gmem: reduction_op is {reduction_op!r}",
                            f"give one of {', '.join(REDUCTIONS)}, or None")  # fmt: skip
    operands, indices = operands_of(src=src, dst=dst)
    given = condition("copy_smem_to_gmem", predicate)
    copy_smem_to_gmem_p.bind(*operands, *given, **indices, commit=bool(commit_group), reduction=reduction_op)


def commit_smem_to_gmem_group() -> None:
    """End a group of copies to global memory that were started with `commit_group=False`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def halves(o, tile):
    ...     tile[...] = np.ones(4, "float32")
    ...     plgpu.commit_smem()
    ...     for start in (0, 2):
    ...         half = tl.ds(start, 2)
    ...         plgpu.copy_smem_to_gmem(tile.at[half], o.at[half], commit_group=False)
    ...     plgpu.commit_smem_to_gmem_group()
    ...     plgpu.wait_smem_to_gmem(0)
    >>> call = plgpu.kernel(halves, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.SMEM((4,), "float32")])
    >>> call().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thread_cell("commit_smem_to_gmem_group")
    commit_group_p.bind()


def wait_smem_to_gmem(n: int, wait_read_only: bool = False) -> None:
    """Wait until at most the last `n` groups of this warpgroup's copies to global memory are under way.

    With `wait_read_only` their source has been read, and may be written again, but the copies may not have arrived.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def rows(o, tile):
    ...     for i in range(2):
    ...         plgpu.wait_smem_to_gmem(0, wait_read_only=True)  # the tile may be written again
    ...         tile[...] = np.full(2, i, "float32")
    ...         plgpu.commit_smem()
    ...         plgpu.copy_smem_to_gmem(tile, o.at[i])
    ...     plgpu.wait_smem_to_gmem(0)
    >>> call = plgpu.kernel(rows, out_type=tw.ShapeDtypeStruct((2, 2), "float32"), interpret=True,
    ...                     scratch_types=[plgpu.SMEM((2,), "float32")])
    >>> call().tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    thread_cell("wait_smem_to_gmem")
    wait_group_p.bind(n=count_of("wait_smem_to_gmem", n), read_only=bool(wait_read_only))


def commit_smem() -> None:
    """Make what this warpgroup stored in shared memory known to copies and products that start after this.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def ones(o, tile, *, commit):
    ...     tile[...] = np.ones(4, "float32")
    ...     if commit:
    ...         plgpu.commit_smem()
    ...     plgpu.copy_smem_to_gmem(tile, o)
    ...     plgpu.wait_smem_to_gmem(0)
    >>> def run(commit):
    ...     return plgpu.kernel(lambda o, tile: ones(o, tile, commit=commit), interpret=True,
    ...                         out_type=tw.ShapeDtypeStruct((4,), "float32"),
    ...                         scratch_types=[plgpu.SMEM((4,), "float32")])()
    >>> run(commit=True).tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> run(commit=False)
    Traceback (most recent call last):
        ...
    tilewright.core.support.errors.RaceError: ...
    """
    thread_cell("commit_smem")
    commit_smem_p.bind()


def count_of(what: str, n: int) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ArgumentError(f"{what}: n is {n!r}", "give how many may still be under way, 0 or more")
    return n


def _update(kind: str) -> Callable[[Any, Any], None]:
    name = f"atomic_{kind}"
    update = getattr(atomics, name)

    def apply(ref: AnyRef, val: Operand) -> None:
        thread_cell(name)
        update(ref, None, val)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = (
        f"`lang.{name}` on a Ref or a part of one (`ref.at[...]`): blocks may update one place.\n\n"
        ">>> import numpy as np\n>>> import tilewright as tw\n>>> from tilewright.lang import mosaic_gpu as plgpu\n"
        ">>> def body(x, o, total):\n...     total[0] = np.int32(6)\n"
        f"...     plgpu.{name}(total.at[0], x[0])\n...     o[...] = total[...]\n"
        '>>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((1,), "int32"), interpret=True,\n'
        '...                     scratch_types=[plgpu.SMEM((1,), "int32")])\n'
        f">>> call(np.int32([3])).tolist()\n[{atomics.LEFT[kind]}]"
    )
    return apply


atomic_add: Callable[..., None]
atomic_max: Callable[..., None]
atomic_min: Callable[..., None]
atomic_and: Callable[..., None]
atomic_or: Callable[..., None]
atomic_xor: Callable[..., None]
atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor = map(
    _update, ("add", "max", "min", "and", "or", "xor")
)

__all__ = ["atomic_add", "atomic_and", "atomic_max", "atomic_min", "atomic_or", "atomic_xor"]
