"""`BACKEND`: how each operation of a kernel for warpgroups is printed, beside the rules for values in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program
from ...core.ir.types import ArrayType, is_integer
from ...core.primitives.movement.shape import slice_p
from ...core.primitives.refs.state_primitives import Index, access_shape
from ...lang.legalize import Backend, Unfit
from ...lang.ops.run_scoped import undefine_p
from ...lang.warpgroups import barriers as bar
from ...lang.warpgroups import products as pro
from ...lang.warpgroups import transfers as tra
from ...lang.warpgroups.common import split
from ...lang.warpgroups.warps import warp_map_p
from .. import ptx, tcgen05
from ..mma_types import FLOAT32, KINDS, depth, kind_of
from ..products import WIDEST, left_of, right_of
from ..refs import Register
from ..rules import RULES as VALUES
from ..rules import UNSUPPORTED, UNSUPPORTED_DTYPES
from ..text import Int
from ..values import Fragment, Layout, Product, halves
from .loops import RULES as LOOPS
from .memory import Barriers, Global, Rows, Shared, Sums, Zeros, divided, entries, matrices

# ---------------------------------------------------------------------------- barriers


def _nothing(e: Any, operands: list[Any], outs: list[Any], **params: Any) -> list[Any]:
    return []


def _undefine(e: Any, operands: list[Any], outs: list[Any], zero: bool) -> list[Any]:
    (ref,) = operands
    if isinstance(ref, Register) and not isinstance(ref, Barriers):
        e.wait()
        ref.value = e.zero(ref.array)
    return []


def _when(e: Any, predicate: Sequence[Any], act: Callable[[], None]) -> None:
    """By one thread of the warpgroup, where a predicate holds."""
    test = e.elected
    for given in predicate:
        test = e.p.pure(f"arith.andi {test}, {given.at(e.p, ())} : i1")
    with e.p.when(test):
        act()


def _arrive(e: Any, operands: list[Any], outs: list[Any], bar: Index) -> list[Any]:
    ((barriers, at),), predicate = split(operands, bar)
    if barriers.tensor and e.tensor:
        tcgen05.left(e.p)
    e.meet()
    address = barriers.at(e, barriers.number(e, bar, at))
    blocks = e.peers(barriers.axes)[0][: 1 if barriers.leader else None] if barriers.axes else []

    def arrive() -> None:
        for block in blocks:
            ptx.arrive_far(e.p, ptx.mapped(e.p, address, block))
        if not blocks:
            ptx.arrive(e.p, address)

    _when(e, predicate, arrive)
    return []


def _wait(e: Any, operands: list[Any], outs: list[Any], bar: Index) -> list[Any]:
    ((barriers, at),), _ = split(operands, bar)
    number = barriers.number(e, bar, at)
    scope = "cta" if e.mesh.blocks == 1 else "cluster"
    ptx.wait(e.p, barriers.at(e, number), barriers.next(e, number), scope)
    e.waited = True
    if barriers.tensor and e.tensor:
        tcgen05.waited(e.p)
    return []


def _warps(e: Any, operands: list[Any], outs: list[Any], program: Program) -> list[Any]:
    e.warps(program, operands)
    return []


def _registers(e: Any, operands: list[Any], outs: list[Any], n: int, action: str) -> list[Any]:
    ptx.registers(e.p, "inc" if action == "increase" else "dec", n)
    return []


# ---------------------------------------------------------------------------- copies


def _copy(e: Any, far: Global, index: Index, dynamic: Sequence[Any], near: Rows) -> list[tuple[Any, list[Int], Int]]:
    """The boxes of a copy: descriptor, coordinates (innermost first), and address in shared memory."""
    p, array, size = e.p, far.array, far.array.dtype.itemsize
    found = entries(e, index, dynamic)
    long = [d for d, (_, n) in enumerate(found) if n is not None]
    if not 0 < len(long) < 3 or long[-1] != array.ndim - 1 or array.ndim > 5 or str(array.dtype) not in ptx.ELEMENT:
        raise Unfit(f"a copy of a part {index} of {array.show()}: give a matrix of rows that lie side by side, or a "
                    "row, of an array of five axes at most")  # fmt: skip
    strides = [math.prod(array.shape[d + 1 :]) * size for d in range(array.ndim)]
    if any(s % 16 for s in strides[:-1]):
        raise Unfit(f"a copy of {array.show()}: pad its rows to a multiple of 16 bytes")
    (rows, columns), per = near.shape, near.per
    many = min(rows, 256)
    if rows % many or columns % per or columns > per and rows > 1 and not near.swizzled:
        raise Unfit(f"a copy of {rows} rows of {columns}: beyond 256 rows copy a multiple of 256, and longer rows one "
                    "by one")  # fmt: skip
    order = (*reversed(long), *(d for d in reversed(range(array.ndim)) if d not in long))
    shape = (per, many)[: len(long)] + (1,) * (len(order) - len(long))
    box = ptx.Box(far.argument, tuple(array.shape[d] for d in order), tuple(strides[d] for d in order), shape,
              str(array.dtype), near.swizzled)  # fmt: skip
    descriptor, parts = e.descriptor(box), []
    for chunk in range(columns // per):
        for first in range(0, rows, many):
            place = [found[d][0] for d in order]
            place[0] = p.add(place[0], chunk * per)
            if first:
                place[1] = p.add(place[1], first)
            parts.append((descriptor, place, near.at(chunk, first)))
    return parts


def _copies(e: Any, far: Global, far_part: Index, far_at: Sequence[Any], near: Shared, near_part: Index,
            near_at: Sequence[Any]) -> list[tuple[Any, list[Int], Int]]:  # fmt: skip
    """The boxes of a copy of one matrix, or of several, along axes ahead of its rows."""
    parts, ones, others = [], matrices(e, far_part, far_at), matrices(e, near_part, near_at)
    for (src, src_at), (dst, dst_at) in zip(ones, others, strict=True):
        parts += _copy(e, far, src, src_at, near.rows(e, dst, dst_at))
    return parts


def _load(e: Any, operands: list[Any], outs: list[Any], src: Index, dst: Index, bar: Index, shared: Any) -> list[Any]:
    ((far, far_at), (near, near_at), (barriers, bar_at)), predicate = split(operands, src, dst, bar)
    p, size = e.p, math.prod(access_shape(dst)) * near.array.dtype.itemsize
    blocks, mine = e.peers(shared.axes) if shared is not None else ([], 0)
    many, joint = not (shared is None or shared.leader), shared is not None and shared.leader
    count = 1 if shared is None else shared.blocks
    if joint and not (e.tensor and shared is not None and e.mesh.offsets(shared.axes) == [0, 1]):
        raise Unfit("a copy that another block's barrier tells of (leader_tracked), which pairs of blocks along the "
                    "last axis of the cluster have, in kernels with tensor memory: leave it out")  # fmt: skip
    if shared is not None and shared.axis is not None:
        src, far_at = divided(e, src, far_at, shared.axis, shared.blocks, mine)
    if many:
        dst, near_at = divided(e, dst, near_at, 0, count, mine)
    parts = _copies(e, far, src, far_at, near, dst, near_at)
    address = barriers.at(e, barriers.number(e, bar, bar_at))
    e.meet()

    def start() -> None:
        to, mask = address, 0
        if joint:
            with p.when(p.compare("eq", mine, 0)):
                ptx.expect(p, address, size * count)
            to = ptx.mapped(p, address, blocks[0])
        else:
            ptx.expect(p, address, size)
            for block in blocks:
                mask = p.int("ori", mask, p.int("shli", 1, block))
        for descriptor, place, at in parts:
            ptx.tma_load(p, at, descriptor, place, to, mask, joint)

    _when(e, predicate, start)
    return []


# How the copy engine combines floats; integers of 32 bits in all ways.
_COMBINED = {"float32": ("add",), "float16": ("add", "min", "max"), "bfloat16": ("add", "min", "max")}


def _store(e: Any, operands: list[Any], outs: list[Any], src: Index, dst: Index, commit: bool, reduction: str | None
           ) -> list[Any]:  # fmt: skip
    ((near, near_at), (far, far_at)), predicate = split(operands, src, dst)
    dtype = near.array.dtype
    whole = is_integer(dtype) and dtype.itemsize == 4
    if reduction is not None and not whole and reduction not in _COMBINED.get(str(dtype), ()):
        raise Unfit(f"results of {dtype} combined with what is there by {reduction!r}: floats are added, those of 16 "
                    "bits also by 'min' and 'max', integers of 32 bits in all ways")  # fmt: skip
    parts = _copies(e, far, dst, far_at, near, src, near_at)
    e.meet()

    def start() -> None:
        for descriptor, place, source in parts:
            ptx.tma_store(e.p, descriptor, place, source, reduction)

    _when(e, predicate, start)
    return _commit(e, [], []) if commit else []


def _commit(e: Any, operands: list[Any], outs: list[Any]) -> list[Any]:
    _when(e, (), lambda: ptx.bulk_commit(e.p))
    return []


def _wait_group(e: Any, operands: list[Any], outs: list[Any], n: int, read_only: bool) -> list[Any]:
    _when(e, (), lambda: e.p.asm(f"cp.async.bulk.wait_group{'.read' if read_only else ''} {n};"))
    e.gather()
    return []


def _commit_shared(e: Any, operands: list[Any], outs: list[Any]) -> list[Any]:
    ptx.fence_proxy(e.p)
    e.gather()
    return []


# ---------------------------------------------------------------------------- products


def _wgmma(e: Any, operands: list[Any], outs: list[Any], a: Index | None, b: Index, turned: tuple[bool, bool]
           ) -> list[Any]:  # fmt: skip
    if e.by_warps:
        raise Unfit("a product that one warp starts by itself: let all four of a warpgroup start it, outside of "
                    "`warp_map`")  # fmt: skip
    acc, left, right = pro.wgmma_parts(operands, a, b)
    other = right[0].view(e, b, right[1])
    one = e.settled_value(left) if a is None else left[0].view(e, a, left[1])
    kind_of(one.dtype, other.dtype, None)
    if acc.array.dtype != FLOAT32:
        raise Unfit(f"sums in {acc.array.dtype}: state the accumulator as `ACC(shape)`, which is float32")
    product = Product(Layout(acc.array.shape, 0, 1), FLOAT32, (one, other), (0 if turned[0] else 1, int(turned[1])))
    start = acc.value
    start = None if isinstance(start, Zeros) else e.fragment(start, product.layout)
    e.apart()
    acc.value = e.issue(product, start)
    return []


def _wait_products(e: Any, operands: list[Any], outs: list[Any], n: int) -> list[Any]:
    count = len(e.groups) - n
    if count > 0:
        e.wait(count)
    elif e.groups:
        ptx.wgmma_wait(e.p, n)
    e.apart()
    return []


def _mma(e: Any, operands: list[Any], outs: list[Any], acc: Index, a: Index, b: Index, turned: tuple[bool, bool],
         joint: bool) -> list[Any]:  # fmt: skip
    p = e.p
    ((sums, sums_at), (left, left_at), (right, right_at)), (more,) = split(operands, acc, a, b)
    column, columns = sums.start(e, acc, sums_at)
    other, inside = right.view(e, b, right_at), isinstance(left, Sums)
    kind_of(left.array.dtype, other.dtype, None)
    kinds = KINDS[str(left.array.dtype)], KINDS[str(other.dtype)]
    if columns > WIDEST:
        raise Unfit(f"a product of {columns} columns: start several, of {WIDEST} at most")
    test = more.at(p, ())
    if inside:
        held, long = left.start(e, a, left_at)
        first = lambda block, step: (p.add(e.memory, held, 8 * step), False)  # noqa: E731  # 32 bytes of each row
    else:
        one = left.view(e, a, left_at)
        first, long = left_of(e, one, 0 if turned[0] else 1), one.shape[0 if turned[0] else 1]
    second, steps = right_of(e, other, int(turned[1])), long // depth(left.array.dtype)

    def start() -> None:
        tcgen05.waited(p)
        for step in range(steps):
            (x, x_turned), (y, y_turned) = first(0, step), second(step)
            tcgen05.multiply(p, p.add(e.memory, column), x, y, e.rows * (1 + joint), columns, kinds,
                             (x_turned, y_turned), p.constant(True, "i1") if step else test, inside,
                             blocks=1 + joint)  # fmt: skip

    tcgen05.left(p)
    e.meet()
    _when(e, (), start)
    return []


def _commit_products(e: Any, operands: list[Any], outs: list[Any], bar: Index, joint: bool) -> list[Any]:
    ((barriers, at),), _ = split(operands, bar)
    address = barriers.at(e, barriers.number(e, bar, at))
    _when(e, (), lambda: tcgen05.commit(e.p, address, e.pair if joint else None))
    return []


def _load_sums(e: Any, operands: list[Any], out: ArrayType, ref: Index) -> Any:
    ((sums, at),), _ = split(operands, ref)
    column, columns = sums.start(e, ref, at)
    if sums.each > 1:
        raise Unfit(f"{sums.name} of {sums.array.dtype} in tensor memory is loaded: products alone read it; keep the "
                    "values, or float32 there")  # fmt: skip
    if columns % 16:
        raise Unfit(f"{columns} columns of tensor memory are loaded: load a multiple of 16")
    tcgen05.waited(e.p)
    e.apart()
    return Fragment(Layout(out.shape, 0, 1), FLOAT32, [tcgen05.row(e.p, e.lanes(column), columns)])


def _store_sums(e: Any, operands: list[Any], outs: list[Any], ref: Index) -> list[Any]:
    ((sums, at),), (value,) = split(operands, ref)
    column, columns = sums.start(e, ref, at)
    if columns % (8 * sums.each):
        raise Unfit(f"{columns} columns of {sums.array.dtype} in tensor memory are stored: store a multiple of "
                    f"{8 * sums.each}")  # fmt: skip
    value = e.fragment(e.settled_value(value), Layout((e.rows, columns), 0, 1))
    p = e.p
    words = value.regs[0] if sums.each > 1 else [p.pure(f"arith.bitcast {x} : f32 to i32") for x in value.regs[0]]
    tcgen05.waited(p)
    e.apart()
    tcgen05.put(p, e.lanes(column), words)
    return []


def _commit_sums(e: Any, operands: list[Any], outs: list[Any]) -> list[Any]:
    tcgen05.left(e.p)
    e.gather()
    tcgen05.waited(e.p)
    return []


# ---------------------------------------------------------------------------- parts of values


def _slice(
    e: Any, operands: list[Any], out: ArrayType, start_indices: Sequence[int], limit_indices: Sequence[int],
    strides: Any,
) -> Any:  # fmt: skip
    """Some columns of a value in registers: all rows of it, in whole groups of 8 columns."""
    x = e.settled_value(operands[0])
    given = {"start_indices": start_indices, "limit_indices": limit_indices, "strides": strides}
    cols = x.layout.cols if isinstance(x, Fragment) else None
    step = 1 if e.own_rows and not halves(x.dtype) else 2 if e.own_rows else 8
    others = all(n == m for d, (n, m) in enumerate(zip(x.shape, out.shape, strict=True)) if d != cols)
    whole = strides is None or all(s == 1 for s in strides)
    if cols is None or not others or not whole or start_indices[cols] % step or out.shape[cols] % step:
        return VALUES[slice_p](e, [x], out, **given)
    held = (1 if e.own_rows else 4) * (2 if x.paired else 1)  # columns of one register
    first, last = (i // held for i in (start_indices[cols], limit_indices[cols]))
    return Fragment(replace(x.layout, shape=out.shape), x.dtype, [row[first:last] for row in x.regs])


RULES: dict[Primitive, Callable[..., Any]] = {
    **VALUES,
    **LOOPS, slice_p: _slice, undefine_p: _undefine,
    warp_map_p: _warps, bar.barrier_init_p: _nothing, bar.barrier_arrive_p: _arrive, bar.barrier_wait_p: _wait,
    bar.set_max_registers_p: _registers,
    tra.copy_gmem_to_smem_p: _load, tra.copy_smem_to_gmem_p: _store, tra.commit_group_p: _commit,
    tra.wait_group_p: _wait_group, tra.commit_smem_p: _commit_shared,
    pro.wgmma_p: _wgmma, pro.wait_products_p: _wait_products, pro.tcgen05_mma_p: _mma,
    pro.tcgen05_commit_p: _commit_products, pro.load_tmem_p: _load_sums, pro.wait_loads_p: _nothing,
    pro.store_tmem_p: _store_sums, pro.commit_tmem_p: _commit_sums,
}  # fmt: skip
_REFUSED = {p: why for p, why in UNSUPPORTED.items() if p not in RULES}
BACKEND = Backend("a kernel for warpgroups", RULES, _REFUSED, UNSUPPORTED_DTYPES)
