"""Reductions: along columns in the registers of a thread and its three neighbours, along rows through shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, Dtype, is_float
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p, mul_p
from ...core.primitives.reduction.reduce import reduce_max_p, reduce_min_p, reduce_prod_p, reduce_sum_p
from ...lang.legalize import Unfit
from ..values import Fragment, Layout, Lazy, computed, halves
from .elementwise import both_of, ew_op, finished

if TYPE_CHECKING:
    from ..lower import Lowering

COMBINE = {reduce_sum_p: add_p, reduce_prod_p: mul_p, reduce_max_p: max_p, reduce_min_p: min_p}


def _tree[T](combine: Callable[[T, T], T], xs: list[T]) -> T:
    while len(xs) > 1:
        xs = [combine(*xs[i : i + 2]) if i + 1 < len(xs) else xs[i] for i in range(0, len(xs), 2)]
    return xs[0]


def _row(e: Lowering, by: Primitive, combine: Callable[[str, str], str], row: list[str], dtype: Dtype) -> str:
    """The numbers of a thread in one row, combined: two at once where there is an instruction for it."""
    both = both_of.get(by)
    if both is not None and e.own_rows and is_float(dtype) and len(row) % 2 == 0:
        first, second = _tree(lambda a, b: tuple(both(e.p, a, b)), list(zip(row[::2], row[1::2], strict=True)))
        return combine(first, second)
    return _tree(combine, row)


def _shuffled(e: Lowering, x: str, step: int, type_: str) -> str:
    letter = "f" if type_ == "f32" else "r"
    return e.p.asm(f"shfl.sync.bfly.b32 $0, $1, {step}, 0x1f, 0xffffffff;", f"={letter},{letter}", [x], [type_],
                   [type_])[0]  # fmt: skip


def _reduce(by: Primitive) -> Callable[..., Any]:
    def rule(e: Lowering, operands: list[Any], out: ArrayType, axes: Sequence[int], **params: Any) -> Any:
        x = e.fragment(operands[0])
        if computed(x.dtype) == "i1":
            raise Unfit("booleans are combined along an axis: combine numbers, `x.astype('int32')`")
        own, kept = x.layout, [d for d in range(len(x.shape)) if d not in axes]
        for d in axes:
            if d not in (own.rows, own.cols) and x.shape[d] > 1 and by in (add_p, mul_p):
                x = e.fragment(x, e.layout(x.shape, [d], own))
                own = x.layout
        rows, cols = e.extent(own)

        def combine(a: str, b: str) -> str:
            return ew_op[by](e.p, x.dtype, a, b)

        numbers = [[e.element(x, own, r, j) for j in range(cols)] for r in range(rows)]
        type_ = computed(x.dtype)
        if own.cols in axes:
            for r, row in enumerate(numbers):
                one = _row(e, by, combine, row, x.dtype)
                for step in () if e.own_rows else (1, 2):
                    one = combine(one, _shuffled(e, one, step, type_))
                numbers[r] = [one]
        if own.rows in axes:
            columns = [_tree(combine, list(column)) for column in zip(*numbers, strict=True)]
            for step in (1, 2, 4, 8, 16) if e.own_rows else (4, 8, 16):
                columns = [combine(c, _shuffled(e, c, step, type_)) for c in columns]
            numbers = [_across(e, combine, columns, type_, own.cols in axes or own.cols is None)]
        where = {d: i for i, d in enumerate(kept)}
        layout = Layout(out.shape, where.get(own.rows), where.get(own.cols))  # type: ignore[arg-type]
        numbers = [[finished(e.p, n, out.dtype) for n in row] for row in numbers]
        if not out.shape:
            (one,) = numbers[0]
            return Lazy((), out.dtype, lambda p, place: one)
        if halves(out.dtype):
            return e.make(layout, out.dtype, lambda r, j: numbers[r][j])
        return Fragment(layout, out.dtype, numbers)

    return rule


def _across(e: Lowering, combine: Callable[[str, str], str], columns: list[str], type_: str, alone: bool) -> list[str]:
    """The columns that a warp has combined, combined over all warps of the block through shared memory."""
    p, warps = e.p, 4 * e.consumers
    width = 1 if alone else len(columns) * (1 if e.own_rows else 4)
    base = e.keep(4 * warps * width)
    own = p.add(base, p.mul(e.warp, 4 * width))
    e.gather()

    def place(j: int) -> Any:
        return 0 if alone else 4 * j if e.own_rows else p.mul(p.add(e.column, 8 * (j // 2) + j % 2), 4)

    with p.when(p.compare("ult", e.lane, 1 if alone or e.own_rows else 4)):
        for j, x in enumerate(columns):
            p.asm("st.shared.b32 [$0], $1;", "r,f" if type_ == "f32" else "r,r", [p.name(p.add(own, place(j))), x],
                  ["i32", type_])  # fmt: skip
    e.gather()
    found = []
    for j in range(len(columns)):
        parts = []
        for w in range(warps):
            at = p.add(base, 4 * width * w, place(j))
            letter = "=f" if type_ == "f32" else "=r"
            parts += p.asm("ld.shared.b32 $0, [$1];", f"{letter},r", [p.name(at)], ["i32"], [type_])
        found.append(_tree(combine, parts))
    return found


RULES: dict[Primitive, Callable[..., Any]] = {primitive: _reduce(by) for primitive, by in COMBINE.items()}
