"""Names of Pallas's Mosaic GPU that are not here, each with the reason and what to write instead."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from ...core.errors import NotAdaptedNameError

_COMPILER = "is of a compiler that is not used here", "write what it does in operations of this module"
_DEVICES = "reaches the memory of other devices, which a kernel for warpgroups does not", (
    "exchange arrays around the kernel (`lax.psum`, `lax.ppermute`)")  # fmt: skip
_MEMORY = "puts into tensor memory what products with scales or of sparse operands read, which there are none of", (
    "scale the operands or the sums, in registers")  # fmt: skip
_SEMAPHORES = "counts in global memory, where nothing orders blocks here", (
    "let warpgroups and the blocks of a cluster meet at a Barrier or a ClusterBarrier")  # fmt: skip
_CANCEL = "takes over the place in the grid of a block that has not started; here each block has its own one", (
    "divide the grid by `nd_loop` or `dynamic_scheduling_loop`")  # fmt: skip
_LAYOUT = "is a part of a layout, which follows here from how a value is used", "leave it out"

# A pattern of names, what they are, and the remedy; the first that fits counts.
REFUSED: list[tuple[str, tuple[str, str]]] = [
    ("inline_mgpu", _COMPILER),
    ("RefType", _COMPILER),
    ("ShapeDtypeStruct", _COMPILER),
    ("Transform", _COMPILER),
    ("TraceScope", _COMPILER),
    ("print_layout", _LAYOUT),
    ("Tiling", _LAYOUT),
    ("Replicated", _LAYOUT),
    ("multimem_*", _DEVICES),
    ("multicast_ref", _DEVICES),
    ("remote_ref", _DEVICES),
    ("PeerMemRef", _DEVICES),
    ("cluster_ref", ("is the memory of another block of the cluster, which copies alone reach",
                     "copy by `copy_gmem_to_smem(..., collective_axes=...)`")),
    ("async_store_smem", ("stores in the memory of another block of the cluster, which copies alone reach",
                          "copy by `copy_gmem_to_smem(..., collective_axes=...)`")),
    ("*emaphore*", _SEMAPHORES),
    ("*ncel*", _CANCEL),
    ("async_copy_*", _MEMORY),
    ("format_tcgen05_sparse_metadata", _MEMORY),
    ("RefUnion", ("gives several Refs one memory, whose races would not be found", "use memory again by `reshape`")),
    ("PipelinePipeline", ("overlaps one pipeline with the next one", "let one pipeline have both grids")),
    ("WarpMesh", ("is a mesh of the warps of a warpgroup", "run a function on each of them: `warp_map`")),
    ("as_torch_kernel", ("makes a kernel one of torch's functions", "use `interop.torch.call`")),
    ("barrier_test", ("tells whether a phase is over without a wait, which differs from run to run",
                      "wait for it: `barrier_wait`")),
    ("mma", ("is the product of GPUs before Hopper", "use `wgmma` or `tcgen05_mma`, or `jax.numpy.dot` in a "
             "`pallas_call`")),
    ("wait_gmem_to_smem", ("is for GPUs before Hopper, whose copies have no barriers", "wait at the copy's Barrier")),
]  # fmt: skip


def refused(module: str, name: str) -> Any:
    """Raise for a name that a module does not have: an `AttributeError`, with the reason for one of Pallas's."""
    for pattern, (what, remedy) in REFUSED:
        if fnmatchcase(name, pattern):
            raise NotAdaptedNameError(f"{module}.{name} is not here: it {what}", remedy)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


__all__ = ["REFUSED", "refused"]
