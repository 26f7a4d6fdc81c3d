"""Products: split over the sum by atomics, stream-k, a pipeline within a body, two buffers by hand."""

import tilewright as tw
from tests.support.authors.kit import BF16, F32, Case, floats
from tilewright import lang as tl
from tilewright import numpy as tnp


def split(start, x, y, o):
    tl.atomic_add(o, (slice(None), slice(None)), tnp.dot(x[...], y[...], preferred_element_type="float32"))


def split_k(x, y, *, rows=4, columns=4, depth=4, **options):
    (m, k), n = x.shape, y.shape[1]
    out = tl.BlockSpec((rows, columns), lambda s, i, j: (i, j))
    return tl.kernel_call(
        split, tw.ShapeDtypeStruct((m, n), "float32"), name="split_k", grid=(k // depth, m // rows, n // columns),
        in_specs=[out, tl.BlockSpec((rows, depth), lambda s, i, j: (i, s)),
                  tl.BlockSpec((depth, columns), lambda s, i, j: (s, j))],
        out_specs=out, input_output_aliases={0: 0}, dimension_semantics=("parallel",) * 3, **options,
    )(tnp.zeros((m, n), "float32"), x, y)  # fmt: skip


def streamed(start, x, y, o, *, tiles, depths, each):
    """A worker takes `each` steps of all tiles' sums, one after the other; tiles that two share are added up."""
    worker, (rows, columns), depth = tl.program_id(0), o.shape[-2:], y.shape[0] // depths

    @tl.loop(0, each)
    def _(n):
        step = worker * each + n

        @tl.when(step < tiles[0] * tiles[1] * depths)
        def _():
            tile, k = step // depths, step % depths
            i, j = tile // tiles[1], tile % tiles[1]
            a = x[tl.ds(i * rows, rows), tl.ds(k * depth, depth)]
            b = y[tl.ds(k * depth, depth), tl.ds(j * columns, columns)]
            part = tnp.dot(a, b, preferred_element_type="float32")
            tl.atomic_add(o, (i, j, slice(None), slice(None)), part)


def stream_k(x, y, *, rows=4, columns=4, depth=4, workers=3, **options):
    (m, k), n = x.shape, y.shape[1]
    tiles, depths = (m // rows, n // columns), k // depth
    each = -(-tiles[0] * tiles[1] * depths // workers)
    far = tl.BlockSpec(memory_space=tl.ANY)
    made = tl.kernel_call(
        lambda *refs: streamed(*refs, tiles=tiles, depths=depths, each=each), name="stream_k", grid=(workers,),
        out_shape=tw.ShapeDtypeStruct((*tiles, rows, columns), "float32"), in_specs=[far, far, far], out_specs=far,
        input_output_aliases={0: 0}, dimension_semantics=("parallel",), **options,
    )(tnp.zeros((*tiles, rows, columns), "float32"), x, y)  # fmt: skip
    return made.transpose(0, 2, 1, 3).reshape(m, n)


def piped(x, y, o, total, *, rows, columns, depth):
    i, j = tl.program_id(0), tl.program_id(1)
    total[...] = tnp.zeros_like(total)

    def step(a, b):
        total[...] += tnp.dot(a[...], b[...], preferred_element_type="float32")

    tl.emit_pipeline(step, grid=(x.shape[1] // depth,), in_specs=[
        tl.BlockSpec((rows, depth), lambda k: (i, k)),
        tl.BlockSpec((depth, columns), lambda k: (k, j))])(x, y)  # fmt: skip
    o[...] = total[...].astype(o.dtype)


def pipelined(x, y, *, rows=4, columns=4, depth=4, **options):
    far = tl.BlockSpec(memory_space=tl.ANY)
    return tl.kernel_call(
        lambda *refs: piped(*refs, rows=rows, columns=columns, depth=depth), name="pipelined",
        out_shape=tw.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype), in_specs=[far, far],
        grid=(x.shape[0] // rows, y.shape[1] // columns), scratch_shapes=[tl.VMEM((rows, columns), "float32")],
        out_specs=tl.BlockSpec((rows, columns), lambda i, j: (i, j)), **options)(x, y)  # fmt: skip


def outer(x, o, *, rows, columns):
    def each_row(a, b):
        def each_piece(c, d):
            d[...] = tnp.tanh(c[...]) * 2

        piece = tl.BlockSpec((rows, columns), lambda j: (0, j))
        tl.emit_pipeline(each_piece, grid=(x.shape[1] // columns,), in_specs=[piece], out_specs=[piece])(a, b)

    row = tl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    tl.emit_pipeline(each_row, grid=(x.shape[0] // rows,), in_specs=[row], out_specs=[row])(x, o)


def nested_pipelines(x, *, rows=4, columns=4, **options):
    far = tl.BlockSpec(memory_space=tl.ANY)
    return tl.kernel_call(lambda *refs: outer(*refs, rows=rows, columns=columns), x, in_specs=[far], out_specs=far,
                          name="nested_pipelines", **options)(x)  # fmt: skip


def buffered(x, o, pieces, arrived, *, rows, count):
    """While a piece is squared and added, the next is on its way."""
    def copy(k):
        return tl.make_async_copy(x.at[tl.ds(k * rows, rows)], pieces.at[k % 2], arrived.at[k % 2])

    copy(0).start()
    o[...] = tnp.zeros_like(o)
    for k in range(count):
        if k + 1 < count:
            copy(k + 1).start()
        copy(k).wait()
        piece = pieces[k % 2]
        o[...] += (piece * piece).sum(axis=0, keepdims=True)


def double_buffer(x, *, rows=4, **options):
    n, d = x.shape
    return tl.kernel_call(
        lambda *refs: buffered(*refs, rows=rows, count=n // rows), tw.ShapeDtypeStruct((1, d), x.dtype),
        in_specs=[tl.BlockSpec(memory_space=tl.ANY)], name="double_buffer",
        scratch_shapes=[tl.VMEM((2, rows, d), x.dtype), tl.SemaphoreType.DMA((2,))], **options)(x)  # fmt: skip


def matrices(rng):
    return floats(rng, 8, 12), floats(rng, 12, 8)


def matmul(np, x, y):
    return x @ y


WIDE = {"rows": 128, "columns": 128, "depth": 128}
CASES = (
    Case("split_k", split_k, matmul, matrices, (BF16(256, 2048), BF16(2048, 256)), (0, 1), None, WIDE),
    Case("stream_k", stream_k, matmul, matrices, (F32(256, 1024), F32(1024, 256)), (0, 1), None,
         {"rows": 64, "columns": 128, "depth": 128, "workers": 24}),
    Case("pipelined", pipelined, matmul, matrices, (BF16(512, 1024), BF16(1024, 512)), (0, 1), None, WIDE),
    Case("nested_pipelines", nested_pipelines, lambda np, x: np.tanh(x) * 2, lambda rng: (floats(rng, 8, 8),),
         (F32(512, 1024),), (0,), None, {"rows": 8, "columns": 128}),
    Case("double_buffer", double_buffer, lambda np, x: (x * x).sum(0, keepdims=True), lambda rng: (floats(rng, 12, 8),),
         (F32(512, 512),), (0,), None, {"rows": 16}),
)  # fmt: skip
