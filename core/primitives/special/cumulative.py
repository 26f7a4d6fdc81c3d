"""Cumulative sums, products, extrema and log-sums of exponentials along one axis.

Compiled by a scan in a number of whole-array steps that grows as the logarithm of the length: XLA on the
CPU takes quadratic time for the same thing written as a `reduce_window`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import Loops, Relation, Whole
from ...ir.elementwise_typing import INEXACT, NUMBER, ORDERED, check_kind, widened
from ...ir.primitive import NAMED, Linear, Primitive
from ...ir.types import ArrayType, is_complex
from ...support.errors import ShapeError
from ...tracing.trace import shape_of, trace_program, typeof
from ...transforms.jvp import expanded_jvp
from ...transforms.rule_helpers import like, linear_jvp
from ...transforms.structural_primitives import moveaxis, spread
from ..control_flow.scan import bind_scan
from ..elementwise.arithmetic import add_p, exp_p, log_p, max_p, min_p, mul_p, sub_p
from ..elementwise.bitwise import and_p
from ..elementwise.comparison import eq_p, gt_p, lt_p, select_n_p
from ..elementwise.conversion import convert_element_type, real_p, stop_gradient_p
from ..movement.shape import as_axis, concatenate_p, expand_dims, index_in_dim, pad_p, reshape_p, slice_p

Combine = Callable[[Any, Any], Any]

# Measured on the CPU for 64 to 2^20 elements an axis: blocks of 2, 4, 8, 16, and doubling alone.
_BLOCK, _SHORT = 4, 32


def _cut(x: Array, axis: int, start: int, stop: int) -> Any:
    shape = shape_of(x)
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    stops = tuple(stop if i == axis else d for i, d in enumerate(shape))
    return slice_p.bind(x, start_indices=starts, limit_indices=stops, strides=None)


def scan_by_doubling(combine: Combine, x: ArrayLike, axis: int, reverse: bool) -> Any:
    """All prefixes (or suffixes) combined: each step doubles how far back an element reaches."""
    count, reach = shape_of(x)[axis], 1
    while reach < count:
        early, late = _cut(x, axis, 0, count - reach), _cut(x, axis, reach, count)
        if reverse:
            parts = [combine(early, late), _cut(x, axis, count - reach, count)]
        else:
            parts = [_cut(x, axis, 0, reach), combine(early, late)]
        x = concatenate_p.bind(*parts, dimension=axis)
        reach *= 2
    return x


def scan_by_blocks(combine: Combine, x: ArrayLike, axis: int, reverse: bool) -> Any:
    """All prefixes (or suffixes) combined: first within blocks, then over the blocks' totals, recursively."""
    shape = shape_of(x)
    count = shape[axis]
    if type(count) is not int:
        return _one_by_one(combine, x, axis, reverse)
    if count <= _SHORT:
        return scan_by_doubling(combine, x, axis, reverse)
    blocks = -(-count // _BLOCK)
    missing = blocks * _BLOCK - count
    if missing:
        # What fills the last block (the first one in reverse) is never read back.
        low, high = (missing, 0) if reverse else (0, missing)
        config = tuple((low, high, 0) if i == axis else (0, 0, 0) for i in range(len(shape)))
        x = pad_p.bind(x, like(x, 0), padding_config=config)
    rows = (*shape[:axis], blocks, *shape[axis + 1 :])
    split = reshape_p.bind(x, new_sizes=(*shape[:axis], blocks, _BLOCK, *shape[axis + 1 :]), dimensions=None)

    def column(k: int) -> Any:
        return reshape_p.bind(_cut(split, axis + 1, k, k + 1), new_sizes=rows, dimensions=None)

    order = range(_BLOCK - 1, -1, -1) if reverse else range(_BLOCK)
    within = [column(order[0])]
    for k in order[1:]:
        within.append(combine(within[-1], column(k)))
    totals = scan_by_blocks(combine, within.pop(), axis, reverse)
    columns = [_after(combine, totals, w, axis, reverse) for w in within] + [totals]
    single = (*shape[:axis], blocks, 1, *shape[axis + 1 :])
    columns = [reshape_p.bind(c, new_sizes=single, dimensions=None) for c in columns]
    joined = concatenate_p.bind(*(reversed(columns) if reverse else columns), dimension=axis + 1)
    whole = (*shape[:axis], blocks * _BLOCK, *shape[axis + 1 :])
    flat = reshape_p.bind(joined, new_sizes=whole, dimensions=None)
    return _cut(flat, axis, missing, missing + count) if reverse else _cut(flat, axis, 0, count)


def _one_by_one(combine: Combine, x: Array, axis: int, reverse: bool) -> Any:
    """All prefixes (or suffixes) combined in a loop, for a size that is not known."""
    rows = moveaxis(x, axis, 0)
    count = shape_of(rows)[0]
    at = count - 1 if reverse else 0
    first = index_in_dim(rows, at, 0, keepdims=False)
    rest = _cut(rows, 0, 0, count - 1) if reverse else _cut(rows, 0, 1, count)

    def step(*carried: Any) -> list[Any]:
        total = combine(carried[1], carried[0]) if reverse else combine(*carried)
        return [total, total]

    type_ = typeof(first)
    program = trace_program(step, [type_, type_], "cumulative")
    _, found = bind_scan(program, [], [first], [rest], length=count - 1, reverse=reverse, unroll=1)
    ends = [found, expand_dims(first, (0,))] if reverse else [expand_dims(first, (0,)), found]
    return moveaxis(concatenate_p.bind(*ends, dimension=0), 0, axis)


def _after(combine: Combine, totals: Array, within: Array, axis: int, reverse: bool) -> Any:
    """Each block's partial results combined with the total of all blocks before it."""
    n = shape_of(totals)[axis]
    if reverse:
        parts = [combine(_cut(totals, axis, 1, n), _cut(within, axis, 0, n - 1)), _cut(within, axis, n - 1, n)]
    else:
        parts = [_cut(within, axis, 0, 1), combine(_cut(totals, axis, 0, n - 1), _cut(within, axis, 1, n))]
    return concatenate_p.bind(*parts, dimension=axis)


def log_add_exp(a: ArrayLike, b: ArrayLike) -> Any:
    """log(exp a + exp b), -inf (and of derivative 0) where both are -inf; an infinity has all of the derivative."""
    dtype = typeof(a).dtype
    reals = [real_p.bind(x) if is_complex(dtype) else x for x in (a, b)]
    top = stop_gradient_p.bind(max_p.bind(*reals))
    infinite = eq_p.bind(top, like(top, np.inf))
    own = [select_n_p.bind(eq_p.bind(r, like(r, np.inf)), like(x, 0), x) for r, x in zip(reals, (a, b), strict=True)]
    a, b = (select_n_p.bind(infinite, x, like(x, 0)) for x in (a, b))
    finite = and_p.bind(gt_p.bind(top, like(top, -np.inf)), lt_p.bind(top, like(top, np.inf)))
    top = convert_element_type(select_n_p.bind(finite, like(top, 0), top), dtype)
    total = add_p.bind(exp_p.bind(sub_p.bind(a, top)), exp_p.bind(sub_p.bind(b, top)))
    nothing = eq_p.bind(total, like(total, 0))
    log = add_p.bind(log_p.bind(select_n_p.bind(nothing, total, like(total, 1))), top)
    log = select_n_p.bind(nothing, log, like(log, -np.inf))
    return select_n_p.bind(infinite, log, add_p.bind(*own))


def _typing(name: str, kinds: Sequence[str]) -> Callable[..., ArrayType]:
    def typing(x: ArrayType, *, axis: int, reverse: bool) -> ArrayType:
        if not 0 <= axis < x.ndim:
            raise ShapeError(f"{name} along axis {axis} of {x.show()}", f"the axis must be from 0 to {x.ndim - 1}")
        check_kind(name, x, kinds)
        return x

    return typing


def _relation(ins: Sequence[Any], outs: Sequence[Any], *, axis: int, reverse: bool) -> Relation:
    loops = Loops()
    axes = loops.axes(ins[0].shape)
    return loops.relation([axes], [axes], dict.fromkeys(axes[axis], Whole(forward=not reverse)))


def _running_log_add_exp(x: np.ndarray, *, axis: int, dtype: np.dtype[Any]) -> np.ndarray:
    """NumPy's, and of complex numbers, which NumPy's function does not take, one after the other."""
    if not is_complex(dtype):
        return np.logaddexp.accumulate(x, axis=axis, dtype=dtype)

    def combine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        top = np.maximum(np.real(a), np.real(b))
        top = np.where(np.isfinite(top), top, 0)
        return np.log(np.exp(a - top) + np.exp(b - top)) + top

    rows = np.moveaxis(x, axis, 0)
    sums = accumulate(rows, combine, initial=np.full_like(rows[0], -np.inf))
    return np.stack([*sums][1:], axis).astype(dtype)


def _scan_log_add_exp(combine: Combine, x: Array, axis: int, reverse: bool) -> Any:
    """The scan; a complex number that nothing is added to is a logarithm's principal value too."""
    if is_complex(typeof(x).dtype):
        x = combine(x, spread(like(x, -np.inf), shape_of(x)))
    return scan_by_blocks(combine, x, axis, reverse)


def _cumulative(
    name: str, kinds: Sequence[str], running: Callable[..., Any], combine: Combine, linear: bool = False,
    scan: Callable[..., Any] = scan_by_blocks,
) -> Primitive:  # fmt: skip
    def meaning(x: Operand, *, axis: int, reverse: bool) -> Any:
        if not x.shape[axis]:
            return x
        x = np.flip(x, axis) if reverse else x
        out = running(x, axis=axis, dtype=x.dtype)
        return np.flip(out, axis) if reverse else out

    def expand(x: Array, *, axis: int, reverse: bool) -> Any:
        return scan(combine, x, axis, reverse)

    def transpose(ct: Operand, x: Linear, *, axis: int, reverse: bool) -> list[Any]:
        return [p.bind(ct, axis=axis, reverse=not reverse)]

    p = Primitive(
        name,
        _typing(name, kinds),
        jvp=linear_jvp(lambda: p) if linear else expanded_jvp(expand),
        transpose=transpose if linear else None,
        axes={"axis": NAMED},
        numpy=widened(meaning),
        expand=expand,
        relation=_relation,
    )
    return p


cumsum_p: Primitive = _cumulative("cumsum", NUMBER, np.add.accumulate, add_p.bind, linear=True)
cumprod_p: Primitive = _cumulative("cumprod", NUMBER, np.multiply.accumulate, mul_p.bind)
cummax_p: Primitive = _cumulative("cummax", ORDERED, np.maximum.accumulate, max_p.bind)
cummin_p: Primitive = _cumulative("cummin", ORDERED, np.minimum.accumulate, min_p.bind)
cumlogsumexp_p: Primitive
cumlogsumexp_p = _cumulative("cumlogsumexp", INEXACT, _running_log_add_exp, log_add_exp, scan=_scan_log_add_exp)

# What joins two neighbouring parts of each scan.
COMBINE: dict[Primitive, Combine] = {
    cumsum_p: add_p.bind, cumprod_p: mul_p.bind, cummax_p: max_p.bind, cummin_p: min_p.bind,
    cumlogsumexp_p: log_add_exp,
}  # fmt: skip


class Cumulative(Protocol):
    """A cumulative function along an axis."""

    __name__: str

    def __call__(self, operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array: ...


def _function(primitive: Primitive, doc: str) -> Cumulative:
    def cumulative(operand: Operand, axis: int = 0, reverse: bool = False) -> Any:
        axis = as_axis(axis, len(shape_of(operand)), primitive.name)
        return primitive.bind(operand, axis=axis, reverse=bool(reverse))

    cumulative.__name__ = cumulative.__qualname__ = primitive.name
    cumulative.__doc__ = doc
    return cumulative


cumsum: Cumulative = _function(cumsum_p, "The sums of all prefixes (suffixes, with `reverse`) along an axis.")
cumprod: Cumulative = _function(cumprod_p, "The products of all prefixes (suffixes, with `reverse`) along an axis.")
cummax: Cumulative = _function(cummax_p, "The maxima of all prefixes (suffixes, with `reverse`) along an axis.")
cummin: Cumulative = _function(cummin_p, "The minima of all prefixes (suffixes, with `reverse`) along an axis.")
cumlogsumexp: Cumulative
cumlogsumexp = _function(cumlogsumexp_p, "The log-sum-exps of all prefixes (suffixes, with `reverse`) along an axis.")

PRIMITIVES: tuple[Primitive, ...] = (*COMBINE,)

__all__ = [
    "cumlogsumexp", "cumlogsumexp_p", "cummax", "cummax_p", "cummin", "cummin_p", "cumprod", "cumprod_p", "cumsum",
    "cumsum_p",
]  # fmt: skip
