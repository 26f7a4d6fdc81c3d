"""Products of matrices that are split over devices, with the communication going on meanwhile.

    all_gather_matmul:      y = [x_0; x_1; ...] @ w             rows of x go round, each device multiplies what it has
    matmul_reduce_scatter:  y = (x_0 @ w_0 + x_1 @ w_1 + ...)[mine]    sums of rows go round, each device adds its own

The algorithms are those of Wang et al., "Overlap Communication with Dependent Computation via Decomposition" (2023).
The derivative of each is the other one, and the sum over devices of products of rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import lax
from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike
from ...core.ir.types import ArrayType
from ...core.primitives.custom.custom_derivatives import custom_vjp
from ...core.primitives.spmd.varying_axes import mesh_axes
from ...core.support.errors import ShapeError
from ...core.tracing.trace import shape_of
from ...lang.call.kernel_call import kernel_call
from ...lang.kernel.block_spec import VMEM, BlockSpec
from ...lang.ops.basic import num_programs, program_id, when
from ...lang.ops.dma import SemaphoreType, semaphore_wait
from ...lang.ops.emit_pipeline import emit_pipeline
from ...lang.tpu import CompilerParams
from ..fused.base import dtype_of, work_dtype
from .ring import FAR, Ring, alike, all_pass, chosen, copied, passed_on, size_of, tile

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef

_SEMAPHORES = [SemaphoreType.DMA, SemaphoreType.DMA, SemaphoreType.DMA((2,)), SemaphoreType.REGULAR]


def _check(name: str, x: Array, w: Array) -> None:
    if len(shape_of(x)) != 2 or len(shape_of(w)) != 2 or shape_of(x)[1] != shape_of(w)[0]:
        raise ShapeError(f"{name} of arrays of shapes {shape_of(x)} and {shape_of(w)}",
                         "give a matrix (rows, k) and a matrix (k, columns)")  # fmt: skip


def _dot(x: Array, w: Array) -> Any:
    return lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=work_dtype(x, w))


def _product(kernel: Callable[..., Any], ring: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """A product of two ways, with its derivative: a function of x, w, the axis, the way and the barrier's number."""

    @functools.partial(custom_vjp, nondiff_argnums=(2, 3, 4))
    def product(x: Array, w: Array, axis_name: Hashable, way: str, collective_id: int) -> Any:
        out = kernel(x, w, axis_name, collective_id) if way == "kernel" else ring(x, w, axis_name)
        return out.astype(dtype_of(x))

    product.defvjp(lambda x, w, *how: (product(x, w, *how), (x, w)), backward)
    return product


# ---------------------------------------------------------------------------- a product within a kernel


def _tiles(m: int, k: int, n: int) -> tuple[int, int, int]:
    return tile(m, 256, 16), tile(k, 512, 128), tile(n, 256, 128)


def _multiply(
    x: AnyRef, w: AnyRef, out: AnyRef, total: AnyRef, dims: tuple[int, int, int],
    start: AnyRef | None = None,
) -> None:  # fmt: skip
    """`out = x @ w`, of Refs in HBM, block by block; plus `start`, a Ref like `out`."""
    m, k, n = dims
    bm, bk, bn = _tiles(m, k, n)

    def body(x: AnyRef, w: AnyRef, *rest: Any) -> None:
        *held, out, total = rest

        @when(program_id(2) == 0)
        def _() -> None:
            total[...] = held[0][...].astype(total.dtype) if held else jnp.zeros(total.shape, total.dtype)

        total[...] += _dot(x[...], w[...]).astype(total.dtype)

        @when(program_id(2) == num_programs(2) - 1)
        def _() -> None:
            out[...] = total[...].astype(out.dtype)

    block = BlockSpec((bm, bn), lambda i, j, _: (i, j))
    given = [] if start is None else [start]
    run = emit_pipeline(
        body, grid=(m // bm, n // bn, k // bk), out_specs=[block],
        in_specs=[BlockSpec((bm, bk), lambda i, _, c: (i, c)), BlockSpec((bk, bn), lambda _, j, c: (c, j)),
                  *(block for _ in given)],
    )  # fmt: skip
    run(x, w, *given, out, scratches=[total])


# ---------------------------------------------------------------------------- all-gather, then product


def _gather_kernel(x: Any, w: Any, axis_name: Hashable, collective_id: int) -> Any:
    (m, k), n, count = shape_of(x), shape_of(w)[1], size_of(axis_name)
    bm, _, bn = _tiles(m, k, n)
    work = work_dtype(x, w)

    def body(
        x: Any, w: Any, out: Any, buffers: Any, local: Any, send: Any, receive: Any, free: Any, total: Any
    ) -> None:  # fmt: skip
        ring = Ring(axis_name)
        copied(x, buffers.at[0], local)
        ring.meet()
        all_pass(ring, buffers, send, receive, free,
                 lambda _, slot, place: _multiply(buffers.at[slot], w, out.at[place], total, (m, k, n)))  # fmt: skip

    out, _ = kernel_call(
        body, [ArrayType((count, m, n), work), ArrayType((2, m, k), dtype_of(x))], in_specs=[FAR, FAR],
        out_specs=[FAR, FAR], scratch_shapes=[*_SEMAPHORES, VMEM((bm, bn), work)], name="all_gather_matmul",
        compiler_params=CompilerParams(collective_id=collective_id),
    )(x, w)  # fmt: skip
    return out.reshape(count * m, n)


def _gather_ring(x: Array, w: Array, axis_name: Hashable) -> Any:
    count, m = size_of(axis_name), shape_of(x)[0]
    here, held = lax.axis_index(axis_name), x
    out = jnp.zeros((count * m, shape_of(w)[1]), work_dtype(x, w))
    for step in range(count):
        after = passed_on(held, axis_name) if step < count - 1 else None
        start = (here + count - step) % count * m
        out = lax.dynamic_update_slice(out, _dot(held, w), (start, np.int32(0)))
        held = after
    return out


def _summed_products(x: Any, ct: Array, axis_name: Hashable) -> Any:
    """`all_gather(x).T @ ct`, the rows of x going round."""
    count, m = size_of(axis_name), shape_of(x)[0]
    here, held, total = lax.axis_index(axis_name), x, None
    for step in range(count):
        held = passed_on(held, axis_name) if step else x
        rows = lax.dynamic_slice(ct, ((here + count - step) % count * m, np.int32(0)), (m, shape_of(ct)[1]))
        one = _dot(held.T, rows)
        total = one if total is None else total + one
    return total


def _gather_backward(axis_name: Hashable, way: str, collective_id: int, saved: Any, ct: Any) -> Any:
    x, w = saved
    dx = _scatter_product(ct, w.T, axis_name, way, collective_id)
    return dx.astype(dtype_of(x)), _summed_products(x, ct, axis_name).astype(dtype_of(w))


_gather_product = _product(_gather_kernel, _gather_ring, _gather_backward)


def all_gather_matmul(
    x: ArrayLike, w: ArrayLike, axis_name: Hashable, *, way: str | None = None, collective_id: int = 0
) -> Any:
    """`all_gather(x) @ w` within a `shard_map`: x is (m, k), a device's rows; w (k, n); the result (devices * m, n).

    While a device multiplies the rows that it has, they go on to the next one. `way` is "kernel" (copies of its own,
    as TPUs have them), "ring" (`ppermute`), or None: the kernel on TPUs where it copies whole tiles, else the ring.
    `collective_id` numbers the barrier of the kernel: kernels that may run at one time need different ones.
    The algorithm is that of Wang et al. (2023). Raises a `ShapeError` for operands that are no matrices that fit, and
    an `UnboundAxisError` outside of a `shard_map`.

    >>> import numpy as np, tilewright as tw
    >>> mesh = tw.make_mesh((1,), ("x",))
    >>> f = tw.shard_map(lambda x, w: all_gather_matmul(x, w, "x"), mesh=mesh, in_specs=(tw.P("x"), tw.P(None, "x")),
    ...                  out_specs=tw.P(None, "x"))
    >>> print(f(np.ones((2, 3), np.float32), np.ones((3, 1), np.float32)).ravel())
    [3. 3.]
    """
    _check("all_gather_matmul", x, w)
    way = chosen("all_gather_matmul", axis_name, way, *shape_of(x), shape_of(w)[1])
    return _gather_product(*alike(axis_name, x, w), axis_name, way, collective_id)


def all_gather_matmul_reference(x: Any, w: Any, axis_name: Any) -> Any:
    """The product of what every device gathers."""
    return _dot(lax.all_gather(x, axis_name, tiled=True), w).astype(dtype_of(x))


# ---------------------------------------------------------------------------- product, then reduce-scatter


def _scatter_kernel(x: Array, w: Array, axis_name: Hashable, collective_id: int) -> Any:
    count = size_of(axis_name)
    (rows, k), n = shape_of(x), shape_of(w)[1]
    m = rows // count
    bm, _, bn = _tiles(m, k, n)
    work = work_dtype(x, w)

    def body(
        x: AnyRef, w: AnyRef, out: AnyRef, mine: AnyRef, arrived: AnyRef, send: AnyRef,
        receive: AnyRef, free: AnyRef, total: AnyRef,
    ) -> None:  # fmt: skip
        ring = Ring(axis_name)
        ring.meet()
        copy: Any = None
        for step in range(count):
            slot, last = step % 2, step == count - 1
            if copy is not None:
                copy.wait()  # what was sent is away, and what the device before has summed is here
            start = arrived.at[1 - slot] if step else None
            goal = out if last else mine.at[slot]
            _multiply(x.at[ring.behind(step + 1)], w, goal, total, (m, k, n), start)
            if step and step + 1 < count - 1:
                ring.release(free)
            if not last:
                if step >= 2:
                    semaphore_wait(free, 1)
                copy = ring.copy(mine.at[slot], arrived.at[slot], send, receive.at[slot])
                copy.start()

    two = ArrayType((2, m, n), work)
    out, _, _ = kernel_call(
        body, [ArrayType((m, n), work), two, two], in_specs=[FAR, FAR], out_specs=[FAR, FAR, FAR],
        scratch_shapes=[*_SEMAPHORES[1:], VMEM((bm, bn), work)], name="matmul_reduce_scatter",
        compiler_params=CompilerParams(collective_id=collective_id),
    )(x.reshape(count, m, k), w)  # fmt: skip
    return out


def _scatter_ring(x: Array, w: Array, axis_name: Hashable) -> Any:
    count = size_of(axis_name)
    m, here, total = shape_of(x)[0] // count, lax.axis_index(axis_name), None
    for step in range(count):
        start = (here + 2 * count - 1 - step) % count * m
        one = _dot(lax.dynamic_slice(x, (start, np.int32(0)), (m, shape_of(x)[1])), w)
        total = one if total is None else passed_on(total, axis_name) + one
    return total


def _scatter_backward(axis_name: Hashable, way: str, collective_id: int, saved: Any, ct: Any) -> Any:
    x, w = saved
    dx = _gather_product(ct, w.T, axis_name, way, collective_id)
    return dx.astype(dtype_of(x)), _summed_products(ct, x, axis_name).T.astype(dtype_of(w))


_scatter_product = _product(_scatter_kernel, _scatter_ring, _scatter_backward)


def matmul_reduce_scatter(
    x: ArrayLike, w: ArrayLike, axis_name: Hashable, *, way: str | None = None, collective_id: int = 0
) -> Any:
    """`psum_scatter(x @ w)` within a `shard_map`: of a device's x (rows, k) and w (k, n), (rows / devices, n).

    The sums of some rows go from device to device, each of which adds its product while the sum before is on its way.
    `way` and `collective_id` are as in `all_gather_matmul`. The algorithm is that of Wang et al. (2023). Raises a
    `ShapeError` for operands that are no matrices that fit, or rows that the devices do not divide, and an
    `UnboundAxisError` outside of a `shard_map`.

    >>> import numpy as np, tilewright as tw
    >>> mesh = tw.make_mesh((1,), ("x",))
    >>> f = tw.shard_map(lambda x, w: matmul_reduce_scatter(x, w, "x"), mesh=mesh,
    ...                  in_specs=(tw.P(None, "x"), tw.P("x")), out_specs=tw.P("x"))
    >>> print(f(np.ones((2, 3), np.float32), np.ones((3, 1), np.float32)).ravel())
    [3. 3.]
    """
    _check("matmul_reduce_scatter", x, w)
    sizes = shape_of(x)[0] // mesh_axes().get(axis_name, 1), shape_of(x)[1], shape_of(w)[1]
    way = chosen("matmul_reduce_scatter", axis_name, way, *sizes)
    if shape_of(x)[0] % size_of(axis_name):
        raise ShapeError(f"matmul_reduce_scatter of {shape_of(x)[0]} rows over {size_of(axis_name)} devices",
                         "give a number of rows that the devices divide")  # fmt: skip
    return _scatter_product(*alike(axis_name, x, w), axis_name, way, collective_id)


def matmul_reduce_scatter_reference(x: Any, w: Any, axis_name: Any) -> Any:
    """The sum over devices of their products, a part of the rows on each."""
    return lax.psum_scatter(_dot(x, w), axis_name, tiled=True).astype(dtype_of(x))
