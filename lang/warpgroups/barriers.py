"""Barriers of a kernel for warpgroups: phases that end, and waits for them.

    barrier_init(bar; arrivals, tensor, axes, leader)    says how many arrivals end a phase
    barrier_arrive(bar, *at, [predicate]; bar)           one arrival
    barrier_wait(bar, *at; bar)                          the n-th wait of a warpgroup is for the n-th phase
    set_max_registers(; n, action)                       a hint to the assembler

`axes` are those of the cluster along which an arrival counts at every block, or at the first alone (`leader`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.primitives.refs import ref_views as refs
from ...core.support.errors import ArgumentError
from ..ops.dma import BOTH, operands_of, operation
from .common import acting, at_barrier, condition, ordered_on, thread_cell
from .specs import Barrier, ClusterBarrier

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive
    from ...core.primitives.refs.ref_views import AnyRef


_CHANGED = ordered_on(bar=BOTH)
barrier_init_p: Primitive = operation("barrier_init", lambda bar, **_: [], _CHANGED, acting("define"))
barrier_arrive_p: Primitive = operation(
    "barrier_arrive", at_barrier("barrier_arrive"), _CHANGED, acting("arrive", "bar", predicated=True)
)
barrier_wait_p: Primitive
barrier_wait_p = operation("barrier_wait", at_barrier("barrier_wait"), _CHANGED, acting("await_phase", "bar"))
set_max_registers_p: Primitive = operation(
    "set_max_registers", lambda *, n, action: [], ordered_on(), lambda *, n, action: []
)
PRIMITIVES = (barrier_init_p, barrier_arrive_p, barrier_wait_p, set_max_registers_p)


def define(bar: AnyRef, spec: Barrier) -> None:
    """Say what ends a phase of some barriers, before any other use of them."""
    cell = thread_cell("Barrier")
    cell.made.setdefault("barriers", []).append((bar, spec))
    mesh, axes, leader = cell.made["mesh"].mesh, (), False
    if isinstance(spec, ClusterBarrier):
        axes, leader = mesh.cluster_axes("ClusterBarrier", spec.collective_axes), spec.leader_tracked
    arrivals = spec.num_arrivals * len(mesh.offsets(axes))
    barrier_init_p.bind(bar, arrivals=arrivals, tensor=spec.orders_tensor_core, axes=axes, leader=leader)


def spec_of(bar: AnyRef) -> Barrier | None:
    """What the author stated of a barrier, where that is known while the body is traced."""
    ref = refs.view(bar).ref
    return next((spec for known, spec in thread_cell("Barrier").made.get("barriers", ()) if known is ref), None)


def barrier_arrive(barrier: AnyRef, *, predicate: Any = None) -> None:
    """Arrive at a barrier: what this warpgroup did before is seen by who waits for the phase.

    Raises a `KernelBodyError` outside of kernels for warpgroups, and for what is no barrier.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def hand_over(o, tile, filled):
    ...     @tl.when(lax.axis_index("wg") == 0)
    ...     def _():
    ...         tile[...] = np.ones(4, "float32")
    ...         plgpu.barrier_arrive(filled)
    ...     @tl.when(lax.axis_index("wg") == 1)
    ...     def _():
    ...         plgpu.barrier_wait(filled)
    ...         o[...] = tile[...]
    >>> call = plgpu.kernel(hand_over, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True,
    ...                     num_threads=2, thread_name="wg",
    ...                     scratch_types=[plgpu.SMEM((4,), "float32"), plgpu.Barrier()])
    >>> call().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thread_cell("barrier_arrive")
    operands, indices = operands_of(bar=barrier)
    barrier_arrive_p.bind(*operands, *condition("barrier_arrive", predicate), **indices)


def barrier_wait(barrier: AnyRef) -> None:
    """Wait for the next phase of a barrier: a warpgroup's n-th wait is for the n-th phase.

    Raises as `barrier_arrive`; interpreted, a `DeadlockError` where no one ends the phase, and a `RaceError` where the
    barrier may be a phase further than the one that is waited for.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def turns(o, tile, filled, used):
    ...     @tl.when(lax.axis_index("wg") == 0)
    ...     def _():
    ...         for n in (1, 2):
    ...             tile[...] = np.full(4, n, "float32")
    ...             plgpu.barrier_arrive(filled)
    ...             plgpu.barrier_wait(used)
    ...     @tl.when(lax.axis_index("wg") == 1)
    ...     def _():
    ...         o[...] = np.zeros(4, "float32")
    ...         for _ in range(2):
    ...             plgpu.barrier_wait(filled)  # the first phase, then the second
    ...             o[...] += tile[...]
    ...             plgpu.barrier_arrive(used)
    >>> call = plgpu.kernel(turns, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True,
    ...                     num_threads=2, thread_name="wg",
    ...                     scratch_types=[plgpu.SMEM((4,), "float32"), plgpu.Barrier(), plgpu.Barrier()])
    >>> call().tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    thread_cell("barrier_wait")
    operands, indices = operands_of(bar=barrier)
    barrier_wait_p.bind(*operands, **indices)


def barrier_arrive_and_wait(barrier: AnyRef) -> None:
    """`barrier_arrive`, then `barrier_wait`: as many warpgroups as a barrier has arrivals meet there.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def exchange(o, tile, met):
    ...     wg = lax.axis_index("wg")
    ...     tile[wg] = wg + 1
    ...     plgpu.barrier_arrive_and_wait(met)
    ...     o[wg] = tile[1 - wg]
    >>> call = plgpu.kernel(exchange, out_type=tw.ShapeDtypeStruct((2,), "int32"), interpret=True, num_threads=2,
    ...                     thread_name="wg", scratch_types=[plgpu.SMEM((2,), "int32"), plgpu.Barrier(num_arrivals=2)])
    >>> call().tolist()
    [2, 1]
    """
    barrier_arrive(barrier)
    barrier_wait(barrier)


def set_max_registers(n: int, *, action: str) -> None:
    """Give up registers of this warpgroup's threads (`action="decrease"`) or take those given up ("increase").

    `n` is for each thread, a multiple of 8 from 24 to 240; it changes no value. Raises an `ArgumentError` for others.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl, lax
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def body(o):
    ...     @tl.when(lax.axis_index("wg") == 0)
    ...     def _():
    ...         plgpu.set_max_registers(40, action="decrease")
    ...     @tl.when(lax.axis_index("wg") == 1)
    ...     def _():
    ...         plgpu.set_max_registers(232, action="increase")
    ...         o[...] = np.ones(4, "float32")
    >>> call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True,
    ...                     num_threads=2, thread_name="wg")
    >>> call().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thread_cell("set_max_registers")
    if action not in ("increase", "decrease"):
        raise ArgumentError(f"set_max_registers: action is {action!r}", 'give "increase" or "decrease"')
    if not isinstance(n, int) or n % 8 or not 24 <= n <= 240:
        raise ArgumentError(f"set_max_registers: n is {n!r}", "give a multiple of 8 from 24 to 240")
    set_max_registers_p.bind(n=n, action=action)
