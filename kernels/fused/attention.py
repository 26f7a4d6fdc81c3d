"""Scaled dot-product attention that never holds the scores of all queries.

`o = softmax(q @ k.T * scale + bias) @ v` by blocks of queries (Rabe and Staats, 2021, arXiv:2112.05682). With the row
sums' logarithm l kept, the backward pass makes the shares again, `p = exp(s - l)`, and with
`delta = sum(do * o)`: `dv = p.T @ do`, `ds = p * (do @ v.T - delta)`, `dq = ds @ k * scale`, `dk = ds.T @ q * scale`
(Dao et al., 2022, arXiv:2205.14135). Where a row of keys does not fit in fast memory the forward kernel visits blocks
of keys with a running maximum and sum. A causal mask lets a block of queries leave out the keys after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import lax
from tilewright import numpy as jnp

from ...core.errors import ArgumentError, ShapeError
from ...core.primitives.custom import custom_vjp
from ...core.trace import shape_of
from ...lang import cpu
from ...lang.block import VMEM, BlockSpec
from ...lang.call import kernel_call
from ...lang.ops import cdiv, num_programs, program_id, when
from ..cost import Cost
from .operation import Operation, like, nbytes, work_dtype

SCORES_BYTES = 2**26  # of scores in float32 that cells run side by side make
SEGMENTS = 8  # into how many runs of queries a call is cut
LOW = -0.7 * 3.4028235e38  # the score of a key that does not count: a row of nothing else must not become nan


@dataclass(frozen=True)
class Form:
    """What is fixed about a call. `window` is (left, right), None without bound; `start` the first query's position."""

    scale: float
    causal: bool
    window: tuple[int | None, int | None]
    rows: int
    columns: int
    start: int = 0

    @property
    def placed(self) -> bool:
        return self.causal or self.window != (None, None)


def _scores(form: Form, q: Any, k: Any, extra: dict[str, Any], first: Any, column: Any, length: int, dtype: Any) -> Any:
    """A block of scores; `first` and `column` are its place, `length` how many keys there are."""
    s = lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=dtype) * form.scale
    if "bias" in extra:
        s = s + extra["bias"].astype(dtype)
    keep = []
    rows = lax.broadcasted_iota(jnp.int32, shape_of(s), 0) + first
    columns = lax.broadcasted_iota(jnp.int32, shape_of(s), 1) + column
    left, right = form.window
    if form.causal:
        keep.append(rows >= columns)
    if left is not None:
        keep.append(columns >= rows - left)
    if right is not None:
        keep.append(columns <= rows + right)
    if "mask" in extra:
        keep.append(extra["mask"] != 0)
    if "query_segments" in extra:
        keep.append(extra["query_segments"][:, None] == extra["key_segments"][None, :])
    if "key_lengths" in extra:
        keep.append(columns < extra["key_lengths"])
    if "query_lengths" in extra:
        keep.append(rows < extra["query_lengths"])
    for kept in keep:
        s = jnp.where(kept, s, LOW)
    if length % form.columns:
        s = jnp.where(columns < length, s, -jnp.inf)
    return s


def _extra_specs(form: Form, extra: dict[str, Any], group: int, at: Any) -> list[BlockSpec]:
    """`at(*ids)` gives batch, head of keys, head within its group, block of queries, block of keys."""
    specs = []
    for name, a in extra.items():
        shape = a.shape
        if name in ("bias", "mask"):
            sizes = (None, None, min(shape[2], form.rows), min(shape[3], form.columns))

            def index(*ids: Any, shape: Any = shape) -> Any:
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


def _forward(form: Form, q: Any, k: Any, v: Any, extra: dict[str, Any]) -> list[Any]:
    """Result, and the logarithm of the softmax sums (batch, heads, T)."""
    (batch, t, n, h), (_, length, heads, _) = shape_of(q), shape_of(k)
    group, work, names = n // heads, work_dtype(q, k, v), list(extra)
    blocks = cdiv(length, form.columns)

    def body(q: Any, k: Any, v: Any, *rest: Any) -> None:
        given = {name: ref[...] for name, ref in zip(names, rest, strict=False)}
        out, sums, *state = rest[len(names) :]
        i, j = program_id(3), program_id(4)
        s = _scores(form, q[...], k[...], given, i * form.rows + form.start, j * form.columns, length, work)
        if not state:
            top = s.max(-1)
            p = jnp.exp(s - top[:, None])
            total = p.sum(-1)
            o = lax.dot_general(p.astype(v.dtype), v[...], (((1,), (0,)), ((), ())), preferred_element_type=work)
            out[...] = (o / total[:, None]).astype(out.dtype)
            sums[...] = top + jnp.log(total)
            return
        top, total, acc = state

        @when(j == 0)
        def _() -> None:
            top[...] = jnp.full(top.shape, -jnp.inf, work)
            total[...] = jnp.zeros(total.shape, work)
            acc[...] = jnp.zeros(acc.shape, work)

        old = top[...]
        new = jnp.maximum(old, s.max(-1))
        p, shrink = jnp.exp(s - new[:, None]), jnp.exp(old - new)
        top[...] = new
        total[...] = total[...] * shrink + p.sum(-1)
        o = lax.dot_general(p.astype(v.dtype), v[...], (((1,), (0,)), ((), ())), preferred_element_type=work)
        acc[...] = acc[...] * shrink[:, None] + o

        @when(j == num_programs(4) - 1)
        def _() -> None:
            out[...] = (acc[...] / total[...][:, None]).astype(out.dtype)
            sums[...] = top[...] + jnp.log(total[...])

    def at(b: Any, h: Any, g: Any, i: Any, j: Any) -> Any:
        return b, h, g, i, j

    query = BlockSpec((None, form.rows, None, h), lambda b, h, g, i, j: (b, i, h * group + g, 0))
    keys = BlockSpec((None, form.columns, None, h), lambda b, h, g, i, j: (b, j, h, 0), fill=0)
    row = BlockSpec((None, None, form.rows), lambda b, h, g, i, j: (b, h * group + g, i))
    state = [VMEM((form.rows,), work), VMEM((form.rows,), work), VMEM((form.rows, h), work)] if blocks > 1 else []
    return kernel_call(
        body, [like(q), like(q, (batch, n, t), work)], grid=(batch, heads, group, cdiv(t, form.rows), blocks),
        in_specs=[query, keys, keys, *_extra_specs(form, extra, group, at)], out_specs=[query, row],
        scratch_shapes=state, name="attention", compiler_params=cpu.CompilerParams(SCORES_BYTES),
    )(q, k, v, *extra.values())  # fmt: skip


def _backward(form: Form, q: Any, k: Any, v: Any, extra: dict[str, Any], sums: Any, delta: Any, ct: Any) -> list[Any]:
    """dq, dk, dv and, with a bias, its cotangent; blocks of queries run one after the other and add up."""
    (batch, t, n, h), (_, length, heads, _) = shape_of(q), shape_of(k)
    group, work, names = n // heads, work_dtype(q, k, v), list(extra)
    biased = "bias" in extra

    def body(q: Any, k: Any, v: Any, sums: Any, delta: Any, ct: Any, *rest: Any) -> None:
        given = {name: ref[...] for name, ref in zip(names, rest, strict=False)}
        outs = rest[-4:] if biased else rest[-3:]
        s = _scores(form, q[...], k[...], given, program_id(3) * form.rows + form.start, 0, length, work)
        p = jnp.exp(s - sums[...][:, None])
        dp = lax.dot_general(ct[...], v[...], (((1,), (1,)), ((), ())), preferred_element_type=work)
        ds = p * (dp - delta[...][:, None])
        outs[2][...] += lax.dot_general(
            p.astype(v.dtype), ct[...], (((0,), (0,)), ((), ())), preferred_element_type=work
        )
        if biased:
            axes = tuple(d for d in (0, 1) if shape_of(given["bias"])[d] != shape_of(ds)[d])
            outs[3][...] += ds.sum(axes, keepdims=True) if axes else ds
        ds = (ds * form.scale).astype(q.dtype)
        dq = lax.dot_general(ds, k[...], (((1,), (0,)), ((), ())), preferred_element_type=work)
        outs[0][...] = dq.astype(outs[0].dtype)
        outs[1][...] += lax.dot_general(ds, q[...], (((0,), (0,)), ((), ())), preferred_element_type=work)

    def at(b: Any, h: Any, g: Any, i: Any) -> Any:
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
    zeros = [jnp.zeros(a.shape, a.dtype) for a in summed]
    made = kernel_call(
        lambda *refs: body(*refs[:first], *refs[first + len(summed) :]), [like(q), *summed],
        grid=(batch, heads, group, cdiv(t, form.rows)),
        in_specs=[query, keys, keys, row, row, query, *more, *summed_specs], out_specs=[query, *summed_specs],
        input_output_aliases={first + i: 1 + i for i in range(len(summed))}, name="attention_backward",
        compiler_params=cpu.CompilerParams(SCORES_BYTES),
    )(q, k, v, sums, delta, ct, *extra.values(), *zeros)  # fmt: skip
    return made


def _cut(form: Form, t: int, length: int, extra: dict[str, Any]) -> list[tuple[Form, slice, slice]]:
    """Where it is causal, runs of queries, each with the keys that it sees: half the work."""
    step = cdiv(cdiv(t, SEGMENTS), form.rows) * form.rows
    if not form.causal or step >= t or form.columns < length:
        return [(form, slice(0, t), slice(0, length))]
    parts = []
    for first in range(0, t, step):
        end = min(first + step, t)
        seen = min(end, length)
        part = Form(form.scale, form.causal, form.window, min(form.rows, end - first), seen, first)
        parts.append((part, slice(first, end), slice(0, seen)))
    return parts


def _part_of(extra: dict[str, Any], rows: slice, columns: slice) -> dict[str, Any]:
    """Bias, mask and segments of a run of queries and of the keys that it sees."""
    found = {}
    for name, a in extra.items():
        shape = shape_of(a)
        if name in ("bias", "mask"):
            a = a[:, :, rows if shape[2] > 1 else slice(None), columns if shape[3] > 1 else slice(None)]
        elif name in ("query_segments", "key_segments"):
            a = a[:, rows if name == "query_segments" else columns]
        found[name] = a
    return found


def _after(x: Any, done: Sequence[Any]) -> Any:
    """`x`, once `done` are: runs that could be side by side would hold the scores of all of them.

    XLA:CPU drops barriers before it orders a program, so this is a choice that it cannot see to be always the same.
    """
    for y in done:
        x = jnp.where(y.max() > np.inf, jnp.zeros((), x.dtype), x)
    return x


def _vjp(form: Form, names: tuple[str, ...]) -> Any:
    """(output, logarithms of sums) of q, k, v and the extras; the second result has no derivative."""

    def all_runs(q: Any, k: Any, v: Any, extra: dict[str, Any]) -> tuple[Any, Any]:
        done: list[Any] = []
        for f, r, c in _cut(form, shape_of(q)[1], shape_of(k)[1], extra):
            run = _after(q[:, r], [d[0] for d in done[-1:]])
            done.append(_forward(f, run, k[:, c], v[:, c], _part_of(extra, r, c)))
        if len(done) == 1:
            return done[0][0], done[0][1]
        return jnp.concatenate([d[0] for d in done], 1), jnp.concatenate([d[1] for d in done], 2)

    @custom_vjp
    def call(q: Any, k: Any, v: Any, *extra: Any) -> Any:
        return all_runs(q, k, v, dict(zip(names, extra, strict=True)))[0]

    def forward(q: Any, k: Any, v: Any, *extra: Any) -> Any:
        out, sums = all_runs(q, k, v, dict(zip(names, extra, strict=True)))
        return out, (q, k, v, extra, out, sums)

    def backward(residuals: Any, ct: Any) -> Any:
        q, k, v, values, out, sums = residuals
        extra, work = dict(zip(names, values, strict=True)), work_dtype(q, k, v)
        delta = jnp.swapaxes((ct.astype(work) * out.astype(work)).sum(-1), 1, 2)
        dqs, dk, dv = [], jnp.zeros(shape_of(k), work), jnp.zeros(shape_of(v), work)
        dbias: Any = jnp.zeros(shape_of(extra["bias"]), work) if "bias" in extra else None
        # A row of scores at a time, of all keys.
        whole = Form(form.scale, form.causal, form.window, form.rows, shape_of(k)[1])
        for f, r, c in _cut(whole, shape_of(q)[1], shape_of(k)[1], extra):
            part, run = _part_of(extra, r, c), _after(q[:, r], [*dqs[-1:], dk, dv] if dqs else [])
            dq, dkp, dvp, *db = _backward(f, run, k[:, c], v[:, c], part, sums[:, :, r], delta[:, :, r], ct[:, r])
            dqs.append(dq)
            if c.stop == shape_of(k)[1]:
                dk, dv = dk + dkp, dv + dvp
            else:
                dk, dv = dk.at[:, c].add(dkp), dv.at[:, c].add(dvp)
            if dbias is not None:
                shape = shape_of(dbias)
                axes = tuple(d for d in (0, 1) if shape[d] != shape_of(db[0])[d])
                found = db[0].sum(axes, keepdims=True) if axes else db[0]
                dbias = dbias.at[:, :, r if shape[2] > 1 else slice(None), c if shape[3] > 1 else slice(None)].add(
                    found
                )
        rest = [dbias.astype(x.dtype) if name == "bias" and dbias is not None else None for name, x in extra.items()]
        dq = dqs[0] if len(dqs) == 1 else jnp.concatenate(dqs, 1)
        return dq, dk.astype(k.dtype), dv.astype(v.dtype), *rest

    call.defvjp(forward, backward)
    return call


def _four(x: Any, shape: tuple[int, ...], what: str) -> Any:
    x = jnp.asarray(x)
    x = x.reshape((1,) * (4 - len(shape_of(x))) + shape_of(x)) if len(shape_of(x)) < 4 else x
    if len(shape_of(x)) != 4 or any(a not in (1, b) for a, b in zip(shape_of(x), shape, strict=True)):
        raise ShapeError(f"attention: a {what} {shape_of(x)} for scores {shape}", "it broadcasts to (batch, N, T, S)")
    return x


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: float | None = None,
    is_causal: bool = False, query_seq_lengths: Any = None, key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None, query_segment_ids: Any = None,
    key_value_segment_ids: Any = None, rows: int | None = None, columns: int | None = None,
) -> Any:  # fmt: skip
    """`softmax(query @ key.T * scale + bias) @ value` by blocks: (batch, T, N, H), (batch, S, K, H), K divides N.

    `bias` and `mask` broadcast to (batch, N, T, S); lengths are (batch,); `local_window_size` keeps keys within (left,
    right) positions; segment ids, (batch, T) and (batch, S), keep keys of a query's own segment. `rows` and `columns`
    are the block of scores. Reverse mode only.

    Raises:
      ShapeError: operands that do not fit. ArgumentError: ids of one side only.

    >>> import numpy as np
    >>> q = np.ones((1, 2, 1, 4), np.float32)
    >>> dot_product_attention(q, q, q).shape
    (1, 2, 1, 4)
    """
    q, k, v = (jnp.asarray(x) for x in (query, key, value))
    if len(shape_of(q)) != 4 or len(shape_of(k)) != 4 or shape_of(k) != shape_of(v):
        raise ShapeError(f"attention of {shape_of(q)}, {shape_of(k)}, {shape_of(v)}",
                         "shapes are (batch, T, N, H), (batch, S, K, H), (batch, S, K, H)")  # fmt: skip
    (batch, t, n, h), (other, length, heads, width) = shape_of(q), shape_of(k)
    if batch != other or h != width or not heads or n % heads:
        raise ShapeError(f"attention of {shape_of(q)} and {shape_of(k)}", "batch and H are equal, K divides N")
    if (query_segment_ids is None) != (key_value_segment_ids is None):
        raise ArgumentError("attention was given segment ids of one side", "give those of queries and those of keys")
    if 0 in shape_of(q) or not length:
        return jnp.zeros(shape_of(q), q.dtype)
    shape, int32 = (batch, n, t, length), jnp.int32
    given = {
        "bias": None if bias is None else _four(bias, shape, "bias"),
        "mask": None if mask is None else _four(mask, shape, "mask").astype(int32),
        "query_segments": None if query_segment_ids is None else jnp.asarray(query_segment_ids).astype(int32),
        "key_segments": None if key_value_segment_ids is None else jnp.asarray(key_value_segment_ids).astype(int32),
        "query_lengths": None if query_seq_lengths is None else jnp.asarray(query_seq_lengths).astype(int32)[:, None],
        "key_lengths": None
        if key_value_seq_lengths is None
        else jnp.asarray(key_value_seq_lengths).astype(int32)[:, None],
    }
    extra = {name: a for name, a in given.items() if a is not None}
    columns = min(columns or length, length)
    rows = min(rows or min(max(SCORES_BYTES // (4 * columns * batch * n), 64), cdiv(t, SEGMENTS)), t)
    window: Any = local_window_size or (None, None)
    window = (window, window) if isinstance(window, int) else window
    form = Form(1 / math.sqrt(h) if scale is None else scale, is_causal, tuple(window), rows, columns)
    out = _vjp(form, tuple(extra))(q, k, v, *extra.values())
    if "query_lengths" in extra:
        inside = lax.broadcasted_iota(int32, (1, t, 1, 1), 1) < extra["query_lengths"][:, :, None, None]
        out = jnp.where(inside, out, jnp.zeros((), out.dtype))
    return out


def reference(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: float | None = None,
    is_causal: bool = False, query_seq_lengths: Any = None, key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None, query_segment_ids: Any = None,
    key_value_segment_ids: Any = None, **blocks: Any,
) -> Any:  # fmt: skip
    (_, t, n, h), (_, length, heads, _) = shape_of(query), shape_of(key)
    work = work_dtype(query, key, value)
    k, v = (jnp.repeat(x, n // heads, 2) for x in (key, value))
    s = jnp.einsum("btnh,bsnh->bnts", query, k, preferred_element_type=work) * (
        1 / math.sqrt(h) if scale is None else scale
    )
    s = s if bias is None else s + bias
    rows, columns = jnp.arange(t)[:, None], jnp.arange(length)[None, :]
    left, right = (
        (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size or (length, length)
    )
    keep = (columns >= rows - left) & (columns <= rows + right)
    keep = (keep & (rows >= columns) if is_causal else keep)[None, None]
    keep = keep if mask is None else keep & (mask != 0)
    if query_segment_ids is not None:
        keep = keep & (query_segment_ids[:, None, :, None] == key_value_segment_ids[:, None, None, :])
    if key_value_seq_lengths is not None:
        keep = keep & (columns < key_value_seq_lengths[:, None, None, None])
    if query_seq_lengths is not None:
        keep = keep & (rows < query_seq_lengths[:, None, None, None])
    s = jnp.where(keep, s, LOW)
    p = jnp.exp(s - lax.stop_gradient(s.max(-1, keepdims=True)))
    out = jnp.einsum("bnts,bsnh->btnh", (p / p.sum(-1, keepdims=True)).astype(query.dtype), v)
    if query_seq_lengths is not None:
        out = jnp.where(
            jnp.arange(t)[:, None, None] < query_seq_lengths[:, None, None, None], out, jnp.zeros((), out.dtype)
        )
    return out


def cost(query: Any, key: Any, value: Any, *args: Any, is_causal: bool = False, **options: Any) -> Cost:
    (b, t, n, h), s = shape_of(query), shape_of(key)[1]
    scores = b * n * t * s // (2 if is_causal else 1)
    return Cost(scores * (4 * h + 5), scores + b * n * t, nbytes(query, key, value, query))


OPERATIONS = (Operation("dot_product_attention", dot_product_attention, reference, cost),)
