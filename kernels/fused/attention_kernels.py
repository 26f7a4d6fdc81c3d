"""The kernels of attention: blocks of scores of queries against keys, forwards and backwards.

A kernel visits a block of queries and a block of keys at a time. Where a mask by position (causal, or a window) hides
a whole block, it is not visited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import lax
from tilewright import numpy as jnp

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.ir.types import Dtype, Shape
from ...core.tracing.trace import shape_of
from ...lang import cpu, triton
from ...lang.call.kernel_call import kernel_call
from ...lang.kernel.block_spec import ANY, VMEM, BlockSpec
from ...lang.ops.atomics import atomic_add
from ...lang.ops.basic import cdiv, ds, num_programs, program_id, when
from ...lang.ops.scaled_exp2 import scaled_exp2_p
from ...lang.targets.target import Target
from .base import gpu_family, like, product, work_dtype, zeros_first

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef

SCORES_BYTES = 2**26  # of scores in float32 that cells run side by side make
LOG2_E = math.log2(math.e)
LOW = -0.7 * 3.4028235e38  # the score of a key that does not count: a row of nothing else must not become nan


# Queries, keys, warps and stages of a cell for heads of 256 bytes: forwards, for dq, and for dk with dv.
GPU_BLOCKS = {
    "cuda:sm_80": ((128, 64, 8, 2), (64, 64, 8, 2), (64, 64, 8, 2)),
    "cuda:sm_90": ((128, 128, 8, 2), (128, 64, 8, 2), (64, 128, 8, 2)),
    "cuda:sm_100": ((128, 128, 8, 2), (128, 64, 8, 2), (64, 128, 8, 2)),
    "rocm:gfx942": ((128, 64, 4, 1), (64, 32, 4, 1), (32, 64, 4, 1)),
}
# On TPUs, queries and keys: backwards, forwards, and how many keys at most are one block forwards. `TPU_RUN`: how many
# queries' scores are in work at a time, so that some are multiplied while others pass through the vector units.
TPU_BLOCK, TPU_FORWARD, TPU_WHOLE, TPU_RUN = (512, 512), (1024, 1024), 2048, 128


@dataclass(frozen=True)
class Form:
    """What is fixed about a call. `window` is (left, right), None without bound; `start` the first query's position.

    `runs`: into how many runs, one after the other, a cell of the forward kernel cuts its queries.
    """

    scale: float
    causal: bool
    window: tuple[int | None, int | None]
    rows: int
    columns: int
    start: int = 0
    runs: int = 1
    params: Any = cpu.CompilerParams(SCORES_BYTES)

    @property
    def placed(self) -> bool:
        return self.causal or self.window != (None, None)


def tiles(target: Target, which: int, t: int, length: int, head_bytes: int, plain: bool) -> tuple[int, int, Any]:
    """Queries and keys per cell, and the compiler parameters; `which`: 0 forward, 1 for dq, 2 for dk and dv.

    `plain`: blocks are full, and scores are those of the products alone, but for masks by position.
    """
    if target.kind == "tpu":
        rows, columns = TPU_BLOCK if which else TPU_FORWARD
        rows = rows // 2 if not which and head_bytes > 256 else rows  # wider heads take more of VMEM and more code
        return min(rows, t), length if not which and length <= TPU_WHOLE else min(columns, length), None
    rows, columns, warps, stages = GPU_BLOCKS[gpu_family(target, GPU_BLOCKS)][which]
    for _ in range(max((head_bytes - 1).bit_length() - 8, 0)):  # wider heads take more of shared memory and registers
        longer = which == 2, rows > columns
        rows, columns = rows // 2 if any(longer) else rows, columns if longer == (False, True) else columns // 2
    if not plain:
        rows, columns = (rows // 2, columns) if which == 2 else (rows, columns // 2)
    return min(max(rows, 16), t), min(max(columns, 16), length), triton.CompilerParams(warps, stages, suggested=True)


def runs_of(target: Target, rows: int) -> int:
    """Into how many runs the forward kernel cuts a cell's queries."""
    return rows // TPU_RUN if target.kind == "tpu" and rows and rows % TPU_RUN == 0 else 1


def _where_seen(form: Form, t: int, length: int, first: Array, column: Array) -> Callable[[Callable[[], None]], Any]:
    """Runs what it decorates if a block's mask by position shows anything of it; queries that see no key see all."""
    left, right = form.window
    some = [first + form.rows > column] if form.causal else []
    if left is not None and left >= 0 and t - left <= length:
        some.append(column + form.columns > first - left)
    if right is not None and right >= 0:
        some.append(column < first + form.rows + right)
    if not some:
        return lambda run: run()
    seen = some[0]
    for one in some[1:]:
        seen = seen & one
    return when(seen)


def _scores(
    form: Form, q: Array, k: Array, extra: dict[str, Any], first: Array, column: ArrayLike, length: int, dtype: Dtype,
    turned: bool = False,
) -> Any:  # fmt: skip
    """A block of scores, keys along its first axis if `turned`.

    `first` and `column` are its place, `length` how many keys there are.
    """
    s = product(k, q, 1, 1, dtype) if turned else product(q, k, 1, 1, dtype)
    s = s if form.scale == 1 else s * form.scale
    if "bias" in extra:
        s = s + (extra["bias"].T if turned else extra["bias"]).astype(dtype)
    keep = []
    rows = lax.broadcasted_iota(jnp.int32, shape_of(s), int(turned)) + first
    columns = lax.broadcasted_iota(jnp.int32, shape_of(s), int(not turned)) + column
    left, right = form.window
    if form.causal:
        keep.append(rows >= columns)
    if left is not None:
        keep.append(columns >= rows - left)
    if right is not None:
        keep.append(columns <= rows + right)
    if "mask" in extra:
        keep.append((extra["mask"].T if turned else extra["mask"]) != 0)
    if "query_segments" in extra:
        same = extra["query_segments"][:, None] == extra["key_segments"][None, :]
        keep.append(same.T if turned else same)
    if "key_lengths" in extra:
        keep.append(columns < extra["key_lengths"])
    if "query_lengths" in extra:
        keep.append(rows < extra["query_lengths"])
    for kept in keep:
        s = jnp.where(kept, s, LOW)
    if length % form.columns:
        s = jnp.where(columns < length, s, -jnp.inf)
    return s


def _extra_specs(form: Form, extra: dict[str, Any], group: int, at: Callable[..., Any]) -> list[BlockSpec]:
    """`at(*ids)` gives batch, head of keys, head within its group, block of queries, block of keys."""
    specs = []
    for name, a in extra.items():
        shape = a.shape
        if name in ("bias", "mask"):
            sizes = (None, None, min(shape[2], form.rows), min(shape[3], form.columns))

            def index(*ids: Any, shape: Shape = shape) -> Any:
                b, h, g, i, j = at(*ids)
                here = (b, h * group + g, i, j)
                return tuple(0 if n == 1 else x for n, x in zip(shape, here, strict=True))

            specs.append(BlockSpec(sizes, index, fill=0))
        elif name in ("query_segments", "key_segments"):
            which, size = (3, form.rows) if name == "query_segments" else (4, form.columns)
            specs.append(BlockSpec((None, size), lambda *ids, which=which: (at(*ids)[0], at(*ids)[which]), fill=-1))
        else:
            specs.append(BlockSpec((None, None), lambda *ids: (at(*ids)[0], 0)))
    return specs


def _runs(form: Form) -> list[Any]:
    """The runs of queries of a cell, as indices of its first axis."""
    if form.runs == 1:
        return [...]
    size = form.rows // form.runs
    return [ds(i * size, size) for i in range(form.runs)]


def _own(name: str, ref: AnyRef, run: Any) -> Any:
    """The part of an extra that is a run's."""
    by_query = name == "query_segments" or (name in ("bias", "mask") and ref.shape[0] > 1)
    return ref[run if by_query else ...]


def _ahead(scores: Callable[[Any], Any], runs: list[Any], first: Array | None = None) -> Iterator[tuple[Any, Any]]:
    """Each run with its scores; those of the next are multiplied before the ones given are used."""
    coming = scores(runs[0]) if first is None else first
    for i, run in enumerate(runs):
        now, coming = coming, scores(runs[i + 1]) if i + 1 < len(runs) else None
        yield run, now


def sum_to(x: Operand, shape: Sequence[int]) -> Any:
    """The sums of an array over the axes along which a shape of the same rank has another size, which is 1."""
    axes = tuple(d for d, (a, b) in enumerate(zip(shape_of(x), shape, strict=True)) if a != b)
    return x.sum(axes, keepdims=True) if axes else x


Scores = Iterator[tuple[Any, Any]]  # of each run of queries
Gained = Callable[[Any], Any]  # what scales scores where they are exponents


def _late(form: Form, extra: dict[str, Any]) -> bool:
    """Whether scores are scaled where they are exponents: nothing is added to them, and each row has one unmasked."""
    return form.scale > 0 and not extra and form.window == (None, None)


def _shares(form: Form, late: bool, scores: Array, sums: Array) -> Any:
    """What shares of the rows scores are, given the logarithms of the rows' sums, spread to their shape."""
    if not late:
        return jnp.exp(scores - sums)
    scale, unit = (np.asarray(x, scores.dtype)[()] for x in (form.scale * LOG2_E, -LOG2_E))
    return scaled_exp2_p.bind(scores, scale, jnp.broadcast_to(sums * unit, shape_of(scores)))


def _attend(out: AnyRef, sums: AnyRef, v: AnyRef, scores: Scores, gained: Gained, work: Any) -> None:
    """The result of a cell that sees all keys."""
    for run, s in scores:
        top = s.max(-1, keepdims=True)
        p = jnp.exp(gained(s - top))
        total = p.sum(-1, keepdims=True)
        o = product(p.astype(v.dtype), v[...], 1, 0, work)
        out[run] = (o / total).astype(out.dtype)
        sums[run] = (gained(top) + jnp.log(total))[:, 0]


def _add_up(
    top: AnyRef, total: AnyRef, acc: AnyRef, v: AnyRef, scores: Scores, gained: Gained, work: Any
) -> None:
    """A block of keys more: the largest score until now, the sum of exponentials and that of values by them."""
    for run, s in scores:
        old = top[run]
        new = jnp.maximum(old, s.max(-1, keepdims=True))
        p, shrink = jnp.exp(gained(s - new)), jnp.exp(gained(old - new))
        top[run] = new
        total[run] = total[run] * shrink + p.sum(-1, keepdims=True)
        acc[run] = acc[run] * shrink + product(p.astype(v.dtype), v[...], 1, 0, work)


def forward(form: Form, q: Operand, k: Operand, v: ArrayLike, extra: dict[str, Any]) -> list[Any]:
    """Result, and the logarithm of the softmax sums (batch, heads, T)."""
    (batch, t, n, h), (_, length, heads, _) = shape_of(q), shape_of(k)
    group, work, names = n // heads, work_dtype(q, k, v), list(extra)
    blocks = cdiv(length, form.columns)

    late = _late(form, extra)
    scored = replace(form, scale=1.0) if late else form

    def gained(s: Array) -> Any:
        return s * form.scale if late else s

    def body(q: AnyRef, k: AnyRef, v: AnyRef, *rest: Any) -> None:
        out, sums, *state = rest[len(names) :]
        first, column = program_id(3) * form.rows + form.start, program_id(4) * form.columns
        runs = _runs(form)

        def scores(run: Any) -> Any:
            given = {n: _own(n, ref, run) for n, ref in zip(names, rest, strict=False)}
            start = first if run is ... else first + run.start
            return _scores(scored, q[run], k[...], given, start, column, length, work)

        if not state:
            _attend(out, sums, v, _ahead(scores, runs), gained, work)
            return
        top, total, acc = state
        early = None if form.placed else scores(runs[0])

        @when(program_id(4) == 0)
        def _() -> None:
            top[...] = jnp.full(top.shape, -jnp.inf, work)
            total[...] = jnp.zeros(total.shape, work)
            acc[...] = jnp.zeros(acc.shape, work)

        @_where_seen(form, t, length, first, column)
        def _() -> None:
            _add_up(top, total, acc, v, _ahead(scores, runs, early), gained, work)

        @when(program_id(4) == num_programs(4) - 1)
        def _() -> None:
            out[...] = (acc[...] / total[...]).astype(out.dtype)
            sums[...] = (gained(top[...]) + jnp.log(total[...]))[:, 0]

    def at(b: Array, h: Array, g: Array, i: Array, j: Array) -> Any:
        return b, h, g, i, j

    query = BlockSpec((None, form.rows, None, h), lambda b, h, g, i, j: (b, i, h * group + g, 0))
    keys = BlockSpec((None, form.columns, None, h), lambda b, h, g, i, j: (b, j, h, 0), fill=0)
    row = BlockSpec((None, None, form.rows), lambda b, h, g, i, j: (b, h * group + g, i))
    state = [VMEM((form.rows, 1), work), VMEM((form.rows, 1), work), VMEM((form.rows, h), work)] if blocks > 1 else []
    return kernel_call(
        body, [like(q), like(q, (batch, n, t), work)], grid=(batch, heads, group, cdiv(t, form.rows), blocks),
        in_specs=[query, keys, keys, *_extra_specs(form, extra, group, at)], out_specs=[query, row],
        scratch_shapes=state, name="attention", compiler_params=form.params,
    )(q, k, v, *extra.values())  # fmt: skip


def backward_of_rows(
    form: Form, q: Operand, k: Operand, v: Operand, extra: dict[str, Any], sums: Operand, delta: Operand, ct: Operand
) -> list[Any]:
    """dq, dk, dv and, with a bias, its cotangent; blocks of queries run one after the other and add up.

    Where one block has all queries of a head, there is nothing to add to.
    """
    (batch, t, n, h), (_, length, heads, _) = shape_of(q), shape_of(k)
    group, work, names = n // heads, work_dtype(q, k, v), list(extra)
    biased, alone = "bias" in extra, group == cdiv(t, form.rows) == 1

    def add(out: AnyRef, x: Array) -> None:
        if alone:
            out[...] = x.astype(out.dtype)
        else:
            out[...] += x

    def body(
        q: AnyRef, k: AnyRef, v: AnyRef, sums: AnyRef, delta: AnyRef, ct: AnyRef, *rest: Any
    ) -> None:
        given = {name: ref[...] for name, ref in zip(names, rest, strict=False)}
        outs = rest[-4:] if biased else rest[-3:]
        s = _scores(form, q[...], k[...], given, program_id(3) * form.rows + form.start, 0, length, work)
        p = jnp.exp(s - sums[...][:, None])
        dp = product(ct[...], v[...], 1, 1, work)
        ds = p * (dp - delta[...][:, None])
        add(outs[2], product(p.astype(v.dtype), ct[...], 0, 0, work))
        if biased:
            add(outs[3], sum_to(ds, shape_of(given["bias"])))
        ds = (ds * form.scale).astype(q.dtype)
        outs[0][...] = product(ds, k[...], 1, 0, work).astype(outs[0].dtype)
        add(outs[1], product(ds, q[...], 0, 0, work))

    def at(b: Array, h: Array, g: Array, i: Array) -> Any:
        return b, h, g, i, 0

    query = BlockSpec((None, form.rows, None, h), lambda b, h, g, i: (b, i, h * group + g, 0), fill=0)
    keys = BlockSpec((None, length, None, h), lambda b, h, g, i: (b, 0, h, 0))
    row = BlockSpec((None, None, form.rows), lambda b, h, g, i: (b, h * group + g, i), fill=0)
    more = _extra_specs(form, extra, group, at)
    summed = [like(k, dtype=work), like(v, dtype=work)]
    summed_specs = [keys, keys]
    if biased:
        # By batch element and head, so that the cells of a block follow each other; summed further outside.
        summed.append(like(q, (batch, n, *shape_of(extra["bias"])[2:]), work))
        summed_specs += _extra_specs(form, {"bias": summed[-1]}, group, at)
    first = 6 + len(names)
    zeros = [] if alone else [jnp.zeros(a.shape, a.dtype) for a in summed]
    made = kernel_call(
        lambda *refs: body(*refs[:first], *refs[first + len(zeros) :]), [like(q), *summed],
        grid=(batch, heads, group, cdiv(t, form.rows)),
        in_specs=[query, keys, keys, row, row, query, *more, *summed_specs[: len(zeros)]],
        out_specs=[query, *summed_specs], input_output_aliases={first + i: 1 + i for i in range(len(zeros))},
        name="attention_backward", compiler_params=cpu.CompilerParams(SCORES_BYTES),
    )(q, k, v, sums, delta, ct, *extra.values(), *zeros)  # fmt: skip
    return made


# ---------------------------------------------------------------------------- backwards, by blocks of both


def backward_of_queries(
    form: Form, q: Operand, k: Operand, v: Operand, extra: dict[str, Any], sums: Operand, delta: Operand, ct: Operand
) -> list[Any]:
    """dq and, with a bias, the cotangents of the scores: for each block of queries, the blocks of keys in order."""
    (batch, t, n, h), (_, length, heads, _) = shape_of(q), shape_of(k)
    group, work, names, biased = n // heads, work_dtype(q, k, v), list(extra), "bias" in extra
    late = _late(form, extra)
    scored = replace(form, scale=1.0) if late else form

    def body(
        q: AnyRef, k: AnyRef, v: AnyRef, sums: AnyRef, delta: AnyRef, ct: AnyRef, *rest: Any
    ) -> None:
        dq, *scores, acc = rest[len(names) :]
        first, column = program_id(3) * form.rows, program_id(4) * form.columns
        own = q[...], sums[...], delta[...], ct[...]
        zeros_first(4, acc)

        def run() -> None:
            given = {name: ref[...] for name, ref in zip(names, rest, strict=False)}
            queries, total, shift, cts = own
            keys = k[...]
            s = _scores(scored, queries, keys, given, first, column, length, work)
            p = _shares(form, late, s, total[:, None])
            ds = p * (product(cts, v[...], 1, 1, work) - shift[:, None])
            if biased:
                scores[0][...] = ds
            acc[...] += product(ds.astype(q.dtype), keys, 1, 0, work)

        run() if biased else _where_seen(form, t, length, first, column)(run)

        @when(program_id(4) == num_programs(4) - 1)
        def _() -> None:
            dq[...] = (acc[...] * form.scale).astype(dq.dtype)

    def at(b: Array, h: Array, g: Array, i: Array, j: Array) -> Any:
        return b, h, g, i, j

    query = BlockSpec((None, form.rows, None, h), lambda b, h, g, i, j: (b, i, h * group + g, 0), fill=0)
    keys = BlockSpec((None, form.columns, None, h), lambda b, h, g, i, j: (b, j, h, 0), fill=0)
    row = BlockSpec((None, None, form.rows), lambda b, h, g, i, j: (b, h * group + g, i), fill=0)
    outs, specs = [like(q)], [query]
    if biased:
        outs.append(like(q, (batch, n, t, length), work))
        specs.append(BlockSpec((None, None, form.rows, form.columns),
                               lambda b, h, g, i, j: (b, h * group + g, i, j)))  # fmt: skip
    return kernel_call(
        body, outs, grid=(batch, heads, group, cdiv(t, form.rows), cdiv(length, form.columns)),
        in_specs=[query, keys, keys, row, row, query, *_extra_specs(form, extra, group, at)], out_specs=specs,
        scratch_shapes=[VMEM((form.rows, h), work)], name="attention_dq", compiler_params=form.params,
    )(q, k, v, sums, delta, ct, *extra.values())  # fmt: skip


def backward_of_keys(
    form: Form, q: Operand, k: Operand, v: Operand, extra: dict[str, Any], sums: Operand, delta: Operand, ct: Operand,
    added: bool = False,
) -> list[Any]:  # fmt: skip
    """dk and dv: for each block of keys, the heads of its group and their blocks of queries in order.

    `added`: dq too, in float32 and not yet scaled, which the program instances of all keys add to atomically.
    """
    (batch, t, n, h), (_, length, heads, _) = shape_of(q), shape_of(k)
    group, work, names, late = n // heads, work_dtype(q, k, v), list(extra), _late(form, extra)
    scored = replace(form, scale=1.0) if late else form

    def body(
        q: AnyRef, k: AnyRef, v: AnyRef, sums: AnyRef, delta: AnyRef, ct: AnyRef, *rest: Any
    ) -> None:
        dk, dv, *dq, k_acc, v_acc = rest[len(names) + added :]
        first, column = program_id(4) * form.rows, program_id(2) * form.columns
        keys, values = k[...], v[...]

        @when((program_id(3) == 0) & (program_id(4) == 0))
        def _() -> None:
            k_acc[...] = jnp.zeros(k_acc.shape, work)
            v_acc[...] = jnp.zeros(v_acc.shape, work)

        @_where_seen(form, t, length, first, column)
        def _() -> None:
            given = {name: ref[...] for name, ref in zip(names, rest, strict=False)}
            queries, cts = q[...], ct[...]
            s = _scores(scored, queries, keys, given, first, column, length, work, True)
            p = _shares(form, late, s, sums[...][None, :])
            v_acc[...] += product(p.astype(v.dtype), cts, 1, 0, work)
            slopes = p * (product(values, cts, 1, 1, work) - delta[...][None, :])
            shifts = slopes.astype(q.dtype)
            k_acc[...] += product(shifts, queries, 1, 0, work)
            if added:  # turned, so that the product has as many rows as heads are wide
                place = (program_id(0), ds(first, form.rows), program_id(1) * group + program_id(3), slice(None))
                inside = lax.broadcasted_iota(jnp.int32, (form.rows, h), 0) < t - first if t % form.rows else None
                atomic_add(dq[0], place, product(keys, shifts, 0, 0, work).T, mask=inside, sem="relaxed")

        @when((program_id(3) == num_programs(3) - 1) & (program_id(4) == num_programs(4) - 1))
        def _() -> None:
            dk[...] = (k_acc[...] * form.scale).astype(dk.dtype)
            dv[...] = v_acc[...].astype(dv.dtype)

    def at(b: Array, h: Array, j: Array, g: Array, i: Array) -> Any:
        return b, h, g, i, j

    query = BlockSpec((None, form.rows, None, h), lambda b, h, j, g, i: (b, i, h * group + g, 0), fill=0)
    keys = BlockSpec((None, form.columns, None, h), lambda b, h, j, g, i: (b, j, h, 0), fill=0)
    row = BlockSpec((None, None, form.rows), lambda b, h, j, g, i: (b, h * group + g, i), fill=0)
    whole = BlockSpec(memory_space=ANY)
    zeros = [jnp.zeros(shape_of(q), work)] * added
    operands = [q, k, v, sums, delta, ct, *extra.values(), *zeros]
    return kernel_call(
        body, [like(k), like(v), *map(like, zeros)],
        grid=(batch, heads, cdiv(length, form.columns), group, cdiv(t, form.rows)),
        in_specs=[query, keys, keys, row, row, query, *_extra_specs(form, extra, group, at), *[whole] * added],
        out_specs=[keys, keys, *[whole] * added], scratch_shapes=[VMEM((form.columns, h), work)] * 2,
        input_output_aliases={len(operands) - 1: 2} if added else {},
        name="attention_backward" if added else "attention_dkv", compiler_params=form.params,
    )(*operands)  # fmt: skip
