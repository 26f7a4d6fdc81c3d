"""Kernels whose blocks are in clusters; `wrong` names a mistake that one of them makes."""

from tests.support.gpu.warpgroup_kernels import copied_out, like
from tilewright import lang as tl
from tilewright import lax
from tilewright.lang import mosaic_gpu as plgpu


def shared(a, b, size=64, cluster=(2, 2), stages=2, wrong="", **options):
    """A product on Hopper: blocks of a cluster share rows of `a` along "y" and columns of `b` along "x"."""
    (m, k), n, (rows, columns) = a.shape, b.shape[1], cluster

    def matmul(a, b, o, a_tiles, b_tiles, o_tile, full, empty):
        x, y, wg = lax.axis_index("x"), lax.axis_index("y"), lax.axis_index("wg")
        mine = tl.ds((lax.axis_index("i") * rows + x) * size, size)
        others = tl.ds((lax.axis_index("j") * columns + y) * size, size)

        @tl.when(wg == 1)
        def _():
            @tl.loop(0, k // size)
            def _(t):
                slot, depth = lax.rem(t, stages), tl.ds(t * size, size)

                @tl.when(t >= stages)
                def _():
                    plgpu.barrier_wait(empty.at[slot])

                plgpu.copy_gmem_to_smem(a.at[mine, depth], a_tiles.at[slot], full.at[slot], collective_axes="y")
                plgpu.copy_gmem_to_smem(b.at[depth, others], b_tiles.at[slot], full.at[slot],
                                        collective_axes=("x",))  # fmt: skip

        @tl.when(wg == 0)
        def _():
            def multiply(acc):
                @tl.loop(0, k // size)
                def _(t):
                    slot = lax.rem(t, stages)
                    plgpu.barrier_wait(full.at[slot])
                    plgpu.wgmma(acc, a_tiles.at[slot], b_tiles.at[slot])
                    plgpu.wgmma_wait(0)
                    plgpu.barrier_arrive(empty.at[slot])

                o_tile[...] = acc[...].astype(o.dtype)

            tl.run_scoped(multiply, plgpu.ACC((size, size)))
            copied_out(o_tile, o.at[mine, others])

    freed = plgpu.ClusterBarrier(collective_axes=("x", "y"), num_barriers=stages)
    return plgpu.kernel(
        matmul, out_type=like((m, n), a.dtype), grid=(m // size // rows, n // size // columns), grid_names=("i", "j"),
        cluster=cluster, cluster_names=("x", "y"), num_threads=2, thread_name="wg", scratch_types=[
            plgpu.SMEM((stages, size, size), a.dtype), plgpu.SMEM((stages, size, size), a.dtype),
            plgpu.SMEM((size, size), a.dtype), plgpu.Barrier(num_arrivals=2, num_barriers=stages),
            plgpu.Barrier(num_barriers=stages) if wrong == "own barriers" else freed,
        ], **options,
    )(a, b)  # fmt: skip


def paired(a, b, columns=64, depth=64, stages=2, pairs=1, wrong="", **options):
    """A product on Blackwell of pairs of blocks, some in a cluster: 128 rows of each, and the columns of both."""
    (m, k), n, rows = a.shape, b.shape[1], 256
    part = plgpu.CopyPartition.PARTITIONED

    def matmul(a, b, o, a_tiles, b_tiles, o_tile, sums, full, empty, made):
        i, x = lax.axis_index("i") * pairs + lax.axis_index("pair"), lax.axis_index("x")
        width = tl.ds(lax.axis_index("j") * 2 * columns, 2 * columns)
        first = x == (1 if wrong == "the second starts" else 0)

        @plgpu.warp_map
        def _(warp):
            @tl.when(warp == 0)
            def _():
                @tl.loop(0, k // depth)
                def _(t):
                    slot, along = lax.rem(t, stages), tl.ds(t * depth, depth)

                    @tl.when(t >= stages)
                    def _():
                        plgpu.barrier_wait(empty.at[slot])

                    plgpu.copy_gmem_to_smem(a.at[tl.ds(i * rows, rows), along], a_tiles.at[slot], full.at[slot],
                                            collective_axes="x", leader_tracked=part(0))  # fmt: skip
                    plgpu.copy_gmem_to_smem(b.at[along, width], b_tiles.at[slot], full.at[slot],
                                            collective_axes="x", leader_tracked=part(1))  # fmt: skip

            @tl.when((warp == 1) & first)
            def _():
                @tl.loop(0, k // depth)
                def _(t):
                    slot = lax.rem(t, stages)
                    if wrong not in ("no wait", "the second starts"):
                        plgpu.barrier_wait(full.at[slot])
                    plgpu.tcgen05_mma(sums, a_tiles.at[slot], b_tiles.at[slot], empty.at[slot], accumulate=t > 0,
                                      collective_axis="x")  # fmt: skip

                plgpu.tcgen05_commit_arrive(made, collective_axis="x" if wrong != "one block" else None)

        plgpu.barrier_wait(made)
        o_tile[...] = plgpu.async_load_tmem(sums).astype(o.dtype)
        plgpu.wait_load_tmem()
        copied_out(o_tile, o.at[tl.ds((i * 2 + x) * 128, 128), width])

    return plgpu.kernel(
        matmul, out_type=like((m, n), a.dtype), grid=(m // rows // pairs, n // columns // 2), grid_names=("i", "j"),
        cluster=(pairs, 2), cluster_names=("pair", "x"), scratch_types=[
            plgpu.SMEM((stages, 128, depth), a.dtype), plgpu.SMEM((stages, depth, columns), a.dtype),
            plgpu.SMEM((128, 2 * columns), a.dtype), plgpu.TMEM((128, 2 * columns), "float32", collective=True),
            plgpu.Barrier(num_arrivals=2, num_barriers=stages),
            plgpu.Barrier(num_barriers=stages, orders_tensor_core=True), plgpu.Barrier(orders_tensor_core=True),
        ], **options,
    )(a, b)  # fmt: skip
