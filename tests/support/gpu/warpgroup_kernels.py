"""Kernels written for the warpgroups of Hopper and Blackwell; `wrong` names a mistake that one of them makes."""

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.lang import mosaic_gpu as plgpu


def like(shape, dtype):
    return tw.ShapeDtypeStruct(shape, dtype)


def copied_out(tile, part, wrong=""):
    if wrong != "no commit":
        plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(tile, part)
    if wrong != "no wait for the store":
        plgpu.wait_smem_to_gmem(0)


def double_buffered(a, b, tile=(64, 64, 64), stages=2, wrong="", **options):
    """A product whose blocks are copied two steps ahead by the warpgroup that multiplies."""
    (m, k), n, (tm, tn, tk) = a.shape, b.shape[1], tile

    def matmul(a, b, o, a_tiles, b_tiles, o_tile, full):
        i, j = lax.axis_index("i"), lax.axis_index("j")

        def load(step, slot):
            plgpu.copy_gmem_to_smem(a.at[tl.ds(i * tm, tm), tl.ds(step * tk, tk)], a_tiles.at[slot], full.at[slot])
            plgpu.copy_gmem_to_smem(b.at[tl.ds(step * tk, tk), tl.ds(j * tn, tn)], b_tiles.at[slot], full.at[slot])

        for slot in range(stages):
            load(slot, slot)

        def multiply(acc):
            @tl.loop(0, k // tk)
            def _(step):
                slot = lax.rem(step, stages)
                if wrong != "no wait":
                    plgpu.barrier_wait(full.at[slot])
                if wrong == "one wait too many":
                    plgpu.barrier_wait(full.at[slot])
                plgpu.wgmma(acc, a_tiles.at[slot], b_tiles.at[slot])
                if wrong != "overwritten early":
                    plgpu.wgmma_wait(0)

                @tl.when(step + stages < k // tk)
                def _():
                    load(step + stages, slot)

            o_tile[...] = acc[...].astype(o.dtype)

        tl.run_scoped(multiply, plgpu.ACC((tm, tn)))
        copied_out(o_tile, o.at[tl.ds(i * tm, tm), tl.ds(j * tn, tn)], wrong)

    swizzled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    return plgpu.kernel(
        matmul, out_type=like((m, n), a.dtype), grid=(m // tm, n // tn), grid_names=("i", "j"),
        scratch_types=[
            plgpu.SMEM((stages, tm, tk), a.dtype, transforms=swizzled), plgpu.SMEM((stages, tk, tn), a.dtype),
            plgpu.SMEM((tm, tn), a.dtype), plgpu.Barrier(num_arrivals=2, num_barriers=stages),
        ], **options,
    )(a, b)  # fmt: skip


def pipelined(a, b, tile=(64, 64, 64), stages=3, delay=1, **options):
    """A product by `emit_pipeline`, the product of a step being made while the next one's is waited for."""
    (m, k), n, (tm, tn, tk) = a.shape, b.shape[1], tile

    def matmul(a, b, o, o_tile):
        i, j = lax.axis_index("i"), lax.axis_index("j")

        def multiply(acc):
            def step(_, a_tile, b_tile):
                plgpu.wgmma(acc, a_tile, b_tile)
                plgpu.wgmma_wait(delay)

            plgpu.emit_pipeline(
                step, grid=(k // tk,), max_concurrent_steps=stages,
                in_specs=[plgpu.BlockSpec((tm, tk), lambda t: (i, t), delay_release=delay),
                          plgpu.BlockSpec((tk, tn), lambda t: (t, j), delay_release=delay)],
            )(a, b)  # fmt: skip
            o_tile[...] = acc[...].astype(o.dtype)

        tl.run_scoped(multiply, plgpu.ACC((tm, tn)))
        copied_out(o_tile, o.at[tl.ds(i * tm, tm), tl.ds(j * tn, tn)])

    return plgpu.kernel(matmul, out_type=like((m, n), a.dtype), grid=(m // tm, n // tn), grid_names=("i", "j"),
                        scratch_types=[plgpu.SMEM((tm, tn), a.dtype)], **options)(a, b)  # fmt: skip


def specialised(a, b, tile=(64, 64, 64), stages=2, **options):
    """A product by a warpgroup that copies and two that multiply, each half of the rows."""
    (m, k), n, (tm, tn, tk) = a.shape, b.shape[1], tile

    def matmul(a, b, o, o_tile):
        i, j, wg = lax.axis_index("i"), lax.axis_index("j"), lax.axis_index("wg")
        half = tl.ds(wg * tm, tm)

        def step(_, a_tile, b_tile, carry):
            plgpu.wgmma(carry, a_tile.at[half], b_tile)
            plgpu.wgmma_wait(0)
            return carry

        def compute(pipeline):
            def multiply(acc):
                o_tile[half, :] = pipeline(acc)[...].astype(o.dtype)

            tl.run_scoped(multiply, plgpu.ACC((tm, tn)))
            copied_out(o_tile.at[half], o.at[tl.ds((2 * i + wg) * tm, tm), tl.ds(j * tn, tn)])

        plgpu.emit_pipeline_warp_specialized(
            step, grid=(k // tk,), memory_registers=40, wg_axis="wg", num_compute_wgs=2, max_concurrent_steps=stages,
            compute_context=compute,
            in_specs=[plgpu.BlockSpec((2 * tm, tk), lambda t: (i, t)), plgpu.BlockSpec((tk, tn), lambda t: (t, j))],
        )(a, b)  # fmt: skip

    return plgpu.kernel(
        matmul, out_type=like((m, n), a.dtype), grid=(m // tm // 2, n // tn), grid_names=("i", "j"), num_threads=3,
        thread_name="wg", scratch_types=[plgpu.SMEM((2 * tm, tn), a.dtype)], **options)(a, b)  # fmt: skip


def attention(q, k, v, rows=64, keys=64, stages=2, **options):
    """Attention of each head, with a running maximum and sum; q, k, v: (heads, length, width)."""
    (heads, length, width), dtype = q.shape, q.dtype

    def forward(q, k, v, o, q_tile, o_tile, arrived):
        h, i = lax.axis_index("h"), lax.axis_index("i")
        plgpu.copy_gmem_to_smem(q.at[h, tl.ds(i * rows, rows)], q_tile, arrived)
        plgpu.barrier_wait(arrived)

        def step(_, k_tile, v_tile, carry):
            sums, most, total = carry

            def scores(acc):
                plgpu.wgmma(acc, q_tile, plgpu.transpose_ref(k_tile, (1, 0)))
                return acc[...]

            def weighted(acc, weights):
                plgpu.wgmma(acc, weights.astype(dtype), v_tile)
                return acc[...]

            s = tl.run_scoped(scores, plgpu.ACC((rows, keys))) * width**-0.5
            new = tnp.maximum(most, tnp.max(s, axis=1))
            weights, old = tnp.exp(s - new[:, None]), tnp.exp(most - new)
            more = tl.run_scoped(lambda acc: weighted(acc, weights), plgpu.ACC((rows, width)))
            return sums * old[:, None] + more, new, total * old + tnp.sum(weights, axis=1)

        start = tnp.zeros((rows, width)), tnp.full((rows,), -1e30), tnp.zeros((rows,))
        spec = plgpu.BlockSpec((None, keys, width), lambda t: (h, t, 0))
        sums, _, total = plgpu.emit_pipeline(step, grid=(k.shape[1] // keys,), in_specs=[spec, spec],
                                             max_concurrent_steps=stages, init_carry=start)(k, v)  # fmt: skip
        o_tile[...] = (sums / total[:, None]).astype(dtype)
        copied_out(o_tile, o.at[h, tl.ds(i * rows, rows)])

    tile = plgpu.SMEM((rows, width), dtype)
    return plgpu.kernel(forward, out_type=like(q.shape, dtype), grid=(heads, length // rows), grid_names=("h", "i"),
                        scratch_types=[tile, tile, plgpu.Barrier()], **options)(q, k, v)  # fmt: skip


def blackwell(a, b, tile=(128, 64, 64), stages=2, wrong="", by_warps=False, **options):
    """A product in tensor memory: who copies, who multiplies, who takes the sums out; the first two may be warps."""
    (m, k), n, (tm, tn, tk) = a.shape, b.shape[1], tile
    turns = k // tk

    def matmul(a, b, o, a_tiles, b_tiles, o_tile, sums, full, used, made):
        i, j, wg = lax.axis_index("i"), lax.axis_index("j"), lax.axis_index("wg")

        def copies():
            @tl.loop(0, turns)
            def _(t):
                slot = lax.rem(t, stages)

                @tl.when(t >= stages)
                def _():
                    if wrong != "no wait for the product":
                        plgpu.barrier_wait(used.at[slot])

                plgpu.copy_gmem_to_smem(a.at[tl.ds(i * tm, tm), tl.ds(t * tk, tk)], a_tiles.at[slot], full.at[slot])
                plgpu.copy_gmem_to_smem(b.at[tl.ds(t * tk, tk), tl.ds(j * tn, tn)], b_tiles.at[slot], full.at[slot])

        def products():
            @tl.loop(0, turns)
            def _(t):
                slot = lax.rem(t, stages)
                plgpu.barrier_wait(full.at[slot])
                plgpu.tcgen05_mma(sums, a_tiles.at[slot], b_tiles.at[slot], used.at[slot], accumulate=t > 0)

            if wrong != "no arrival":
                plgpu.tcgen05_commit_arrive(made)

        if by_warps:

            @tl.when(wg == 0)
            def _():
                @plgpu.warp_map
                def _(warp):
                    tl.when(warp == 0)(copies)
                    tl.when(warp == 1)(products)
        else:
            tl.when(wg == 0)(copies)
            tl.when(wg == 1)(products)

        @tl.when(wg == (1 if by_warps else 2))
        def _():
            if wrong != "no wait for the sum":
                plgpu.barrier_wait(made)
            o_tile[...] = plgpu.async_load_tmem(sums).astype(o.dtype)
            copied_out(o_tile, o.at[tl.ds(i * tm, tm), tl.ds(j * tn, tn)], wrong)

    return plgpu.kernel(
        matmul, out_type=like((m, n), a.dtype), grid=(m // tm, n // tn), grid_names=("i", "j"),
        num_threads=2 if by_warps else 3, thread_name="wg",
        scratch_types=[
            plgpu.SMEM((stages, tm, tk), a.dtype), plgpu.SMEM((stages, tk, tn), a.dtype),
            plgpu.SMEM((tm, tn), a.dtype), plgpu.TMEM((tm, tn), "float32"),
            plgpu.Barrier(num_arrivals=2, num_barriers=stages),
            plgpu.Barrier(num_barriers=stages, orders_tensor_core=True), plgpu.Barrier(orders_tensor_core=True),
        ], **options,
    )(a, b)  # fmt: skip


def by_warps(a, b, **options):
    """The same, one warp of a warpgroup copies and another one multiplies."""
    return blackwell(a, b, by_warps=True, **options)


def persistent(a, b, tile=(64, 64, 64), stages=2, **options):
    """A product of all blocks by one block of threads, one after the other, whose pipeline has its memory from outside.

    The second result, which is None, and the sums that `run_state` carries are as Pallas's own kernels have them.
    """
    (m, k), n, (tm, tn, tk) = a.shape, b.shape[1], tile

    def matmul(a, b, o, nothing, o_tile):
        def pipeline(step):
            return plgpu.emit_pipeline(
                step, grid=(k // tk,), max_concurrent_steps=stages, init_carry=tnp.zeros((tm, tn)),
                in_specs=[plgpu.BlockSpec((tm, tk), lambda t: (0, t)), plgpu.BlockSpec((tk, tn), lambda t: (t, 0))],
            )  # fmt: skip

        def blocks(allocations):
            @plgpu.nd_loop((m // tm, n // tn), collective_axes="sm")
            def _(info):
                rows, columns = tl.ds(info.index[0] * tm, tm), tl.ds(info.index[1] * tn, tn)

                def step(_, a_tile, b_tile, sums):
                    return tl.run_state(lambda acc: plgpu.wgmma(acc, a_tile, b_tile))(plgpu.ACC.init(sums))

                sums = pipeline(step)(a.at[rows], b.at[:, columns], allocations=allocations)
                plgpu.wait_smem_to_gmem(0, wait_read_only=True)
                o_tile[...] = sums.astype(o.dtype)
                plgpu.commit_smem()
                plgpu.copy_smem_to_gmem(o_tile, o.at[rows, columns])

            plgpu.wait_smem_to_gmem(0)

        assert nothing is None
        tl.run_scoped(blocks, pipeline(None).get_allocations(a.at[tl.ds(0, tm)], b.at[:, tl.ds(0, tn)]))

    run = plgpu.kernel(matmul, out_type=(like((m, n), a.dtype), None), grid=(1,), grid_names=("sm",),
                       scratch_types=[plgpu.SMEM((tm, tn), a.dtype)], **options)  # fmt: skip
    return run(a, b)[0]


def probabilities(q, k, v, wrong="", **options):
    """Attention of one block on Blackwell: what is made of the first product goes back as the left of the second."""
    (rows, d), n = q.shape, len(k)

    def attend(q, k, v, o, q_tile, k_tile, v_tile, o_tile, scores, shares, sums, copied, made):
        for far, near in ((q, q_tile), (k, k_tile), (v, v_tile)):
            plgpu.copy_gmem_to_smem(far, near, copied)
        plgpu.barrier_wait(copied)
        plgpu.tcgen05_mma(scores, q_tile, plgpu.transpose_ref(k_tile, (1, 0)), made, accumulate=False)
        plgpu.barrier_wait(made)
        s = plgpu.async_load_tmem(scores) * d**-0.5
        plgpu.wait_load_tmem()
        p = tnp.exp(s - tnp.max(s, axis=1, keepdims=True))
        plgpu.async_store_tmem(shares, p.astype(q.dtype))
        if wrong != "no commit":
            plgpu.commit_tmem()
        plgpu.tcgen05_mma(sums, shares, v_tile, made, accumulate=False)
        if wrong != "no wait for products":
            plgpu.barrier_wait(made)
        found = plgpu.async_load_tmem(sums)
        plgpu.wait_load_tmem()
        o_tile[...] = (found / tnp.sum(p, axis=1, keepdims=True)).astype(o.dtype)
        copied_out(o_tile, o)

    return plgpu.kernel(
        attend, out_type=like((rows, d), q.dtype), scratch_types=[
            plgpu.SMEM((rows, d), q.dtype), plgpu.SMEM((n, d), q.dtype), plgpu.SMEM((n, d), q.dtype),
            plgpu.SMEM((rows, d), q.dtype), plgpu.TMEM((rows, n), "float32"),
            plgpu.TMEM((rows, n), q.dtype, packed=True), plgpu.TMEM((rows, d), "float32"),
            plgpu.Barrier(num_arrivals=3), plgpu.Barrier(orders_tensor_core=True),
        ], **options,
    )(q, k, v)  # fmt: skip
