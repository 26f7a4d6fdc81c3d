"""Products whose results the body computes with, on Blackwell: attention, and prologues that are computed.

Each warpgroup that computes has 128 rows of a block and columns of tensor memory of its own. One of its threads starts
a product, a barrier tells that it is made, and each thread loads its row. A left operand that was computed is stored to
tensor memory, from which the tensor cores take it; large scratch stays there from turn to turn, and products are added
to it in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.ir.array import DTypeLike
from ..core.ir.program import Program, Var
from ..core.ir.types import INT32, ArrayType
from ..core.primitives.refs.state_primitives import Index
from ..lang.legalize import Unfit
from ..lang.ops.basic import next_power_of_2
from . import ptx, tcgen05
from .lower import Group
from .mma_types import FLOAT32, KINDS, depth
from .products import left_of, right_of, staged
from .schedule import MOST_SITES
from .tensor_memory import Tensor
from .text import Int
from .values import Fragment, Late, Layout, Lazy, Product, Tile, Value, computed, halves

WIDEST_ROW = 128  # numbers of a product or a sum that a thread has at once


class Made(Group):
    """A product that is being made from a column of tensor memory on, as a barrier's phase tells."""

    column: int
    barrier: Int
    parity: Int
    lent: list[int]

    def __init__(self, fragments: list[Fragment], column: int, barrier: Int, parity: Int, lent: list[int]):
        super().__init__(fragments)
        self.column, self.barrier, self.parity, self.lent = column, barrier, parity, lent


@dataclass(eq=False)
class Parked:
    """A Ref whose numbers stay in tensor memory, from a column on."""

    array: ArrayType
    column: int
    rows: list[tcgen05.Row] = field(default_factory=list)  # that were read and may not be loaded yet

    def _whole(self, index: Index) -> None:
        if not index.is_whole(self.array.shape):
            raise Unfit(f"a part {index} of {self.array.show()} in tensor memory: read and write the whole of it")

    def read(self, e: Chained, index: Index, dynamic: Sequence[Any]) -> Fragment:
        self._whole(index)
        e.wait()
        tcgen05.waited(e.p)
        found = e.loaded_row(self.column, Layout(self.array.shape, 0, 1), self.array.dtype, e.late)
        self.rows += [row for row in found.regs if isinstance(row, tcgen05.Row)]
        return found

    def stored(self) -> None:
        """What was read before is no longer there."""
        for row in self.rows:
            row.over = True
        self.rows.clear()

    def write(self, e: Chained, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        self._whole(index)
        if isinstance(value, Product) and value.made is None and value.dtype == self.array.dtype:
            e.start(value, value.start, self.column)
        else:
            made = e.fragment(value, Layout(self.array.shape, 0, 1))
            e.wait()
            e.put(self.column, made.regs[0], self.array.dtype)
        self.stored()

    def add(self, e: Chained, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        self._whole(index)
        if isinstance(value, Product) and value.made is None and value.dtype == self.array.dtype:
            e.start(value, value.start, self.column, added=True)
            self.stored()
            return
        self.write(e, index, dynamic, e.sum(self.read(e, index, dynamic), value))


class Chained(Tensor):
    """A kernel within its loops, whose products are made in tensor memory and read from there."""

    persists = False  # barriers of products count the turns of one tile
    late = True  # what scratch holds is loaded where it is needed, some columns at a time

    kept: Any
    spared: Any
    sites: Any
    groups: list[Group]

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.each: int = tcgen05.COLUMNS // self.consumers  # columns of a warpgroup
        self.used: dict[int, int] = {}  # columns taken: from where, how many
        self.most = 0
        self.sites = 0  # products, each of which has a barrier for each warpgroup
        self.parity: Int = 0
        self.columns: int = self.s.columns

    def more_barriers(self) -> None:
        for n in range(MOST_SITES * self.consumers):
            ptx.barrier_init(self.p, self.p.add(self.shared, self.s.sites + 8 * n), 1)

    # ------------------------------------------------------------ columns

    @property
    def taken(self) -> Any:
        return self.kept, self.spared, dict(self.used), self.sites

    @taken.setter
    def taken(self, taken: Sequence[Any]) -> None:
        self.kept, self.spared, self.used, self.sites = *taken[:2], dict(taken[2]), taken[3]

    def take(self, columns: int) -> int:
        """The first columns in a row that are free."""
        start = 0
        for first, n in sorted(self.used.items()):
            if first - start >= columns:
                break
            start = first + n
        self.used[start] = columns
        self.most: int = max(self.most, start + columns)
        if self.most > self.each:
            raise Unfit(f"its products and scratch take {self.most} columns of tensor memory, and there are "
                        f"{self.each}: take narrower blocks")  # fmt: skip
        return start

    @property
    def asked_columns(self) -> int:
        """How many columns are to be allocated."""
        return tcgen05.COLUMNS if self.consumers > 1 else max(next_power_of_2(self.most), 32)

    def at(self, column: int) -> Int:
        """A column of this warpgroup's part."""
        return self.p.add(column, self.p.mul(self.mine, self.each))

    def loaded_row(self, column: int, layout: Layout, dtype: DTypeLike, late: bool = False) -> Fragment:
        address = self.lanes(self.at(column))
        if late:
            return Fragment(layout, dtype, [tcgen05.Row(self.p, address, layout.shape[1], computed(dtype))])
        if layout.shape[1] > WIDEST_ROW:
            raise Unfit(f"a row of {layout.shape[1]} numbers in each thread, which has registers for {WIDEST_ROW}: "
                        f"take blocks of {WIDEST_ROW} columns")  # fmt: skip
        return Fragment(layout, dtype, [tcgen05.row(self.p, address, layout.shape[1], computed(dtype))])

    def put(self, column: int, numbers: Sequence[str], dtype: DTypeLike) -> None:
        """Store this thread's row, which the tensor cores see after the next barrier."""
        p, address = self.p, self.lanes(self.at(column))
        if computed(dtype) == "f32":
            tcgen05.put(p, address, Late(p, len(numbers), lambda j: p.pure(f"arith.bitcast {numbers[j]} : f32 to i32")))
        else:
            tcgen05.put(p, address, numbers)

    def register(self, ref: Var, array: ArrayType, level: int) -> Any:
        shape = array.shape
        if len(shape) != 2 or shape[0] != self.rows or shape[1] % 16 or array.dtype not in (FLOAT32, INT32):
            return super().register(ref, array, level)
        found = self.refs[ref] = Parked(array, self.take(shape[1]))
        return found

    # ------------------------------------------------------------ products

    def consume(self) -> None:
        tcgen05.waited(self.p)
        super().consume()

    def cell(self, program: Program, level: int) -> None:
        if level == len(self.plan.carry):
            self.parity = self.p.int("andi", self.count, 1)
        else:
            self.parity = 0 if level == 0 else -1
        super().cell(program, level)

    def issue(self, product: Product, start: Fragment | None) -> Fragment:
        column = self.take(product.shape[1])
        product.made = Fragment(product.layout, product.dtype, [])
        self.start(product, start, column, fragment=product.made)
        return product.made

    def added(self, product: Product, start: Fragment) -> Product:
        self.settle(start)
        return Product(product.layout, product.dtype, product.operands, product.contracting, True, start)

    def start(self, product: Product, start: Fragment | None, column: int, added: bool = False,
              fragment: Fragment | None = None) -> None:  # fmt: skip
        """Begin a product in its columns, from zeros, from registers, or added to what is there."""
        p, (a, b), (ca, cb) = self.p, product.operands, product.contracting
        if self.branches or self.parity == -1:
            raise Unfit("a product in a branch, or around an inner loop: on Blackwell each turn makes the same "
                        "products; let an index map or a loop's length leave turns out")  # fmt: skip
        if self.sites == MOST_SITES:
            raise Unfit(f"more than {MOST_SITES} products in a body: divide it into several kernels")
        if fragment is None or start is not None:
            self.wait()
        right, lent = right_of(self, b, cb), [] if fragment is None else [column]
        left, inside = self.left(a, ca, lent)
        if start is not None and added:
            start = self.fragment(self.sum(start, self.loaded_row(column, start.layout, start.dtype)))
        if start is not None:
            self.put(column, start.regs[0], start.dtype)
        barrier = p.add(self.shared, self.s.sites + 8 * self.sites * self.consumers, p.mul(self.mine, 8))
        self.sites += 1
        tcgen05.left(p)
        ptx.bar_sync(p, p.add(self.mine, 2), 128)
        with p.when(p.compare("eq", self.lane_of_group, 0)):
            tcgen05.waited(p)
            kinds = KINDS[str(a.dtype)], KINDS[str(b.dtype)]
            for step in range(a.shape[ca] // depth(a.dtype)):
                (one, turned), (other, across) = left(0, step), right(step)
                more = p.constant(bool(step) or added or start is not None, "i1")
                to = p.add(self.memory, self.at(column))
                tcgen05.multiply(p, to, one, other, 128, product.shape[1], kinds, (turned, across), more, inside)
            tcgen05.commit(p, barrier)
        group = Made([] if fragment is None else [fragment], column, barrier, self.parity, lent)
        for made in group.fragments:
            made.group = group
        self.groups.append(group)

    def left(self, x: Any, contracting: int, lent: list[int]) -> tuple[Any, bool]:
        """The left operand by steps, and whether it is in tensor memory, in columns that are `lent` to the product."""
        if isinstance(x, Tile) and x.shape[1 - contracting] == self.rows:
            return left_of(self, x, contracting), False
        layout = Layout(x.shape, 1 - contracting, contracting)
        if not halves(x.dtype) or not (isinstance(x, Lazy) or x.layout.rows == layout.rows):
            return left_of(self, staged(self, x, contracting), contracting), False
        words = self.fragment(x, layout).regs[0]
        column = self.take(len(words))
        lent.append(column)
        self.put(column, words, INT32)
        return lambda block, step: ((self.p.add(self.memory, self.at(column + 8 * step)), False)), True

    def wait(self, count: int | None = None) -> None:
        count = len(self.groups) if count is None else count
        done, self.groups = self.groups[:count], self.groups[count:]
        for group in done:
            assert isinstance(group, Made)
            ptx.wait(self.p, group.barrier, group.parity)
            tcgen05.waited(self.p)
            for fragment in group.fragments:
                if fragment.group is group:
                    fragment.regs = self.loaded_row(group.column, fragment.layout, fragment.dtype).regs
                    fragment.group = None
            for column in group.lent:
                del self.used[column]
            if group.done is not None:
                group.done()

    def element(self, value: Value, layout: Layout, r: int, j: int) -> str:
        if isinstance(value, Fragment) and value.group is not None:
            self.settle(value)
        return super().element(value, layout, r, j)


class Held(Chained):
    """The same, where a body uses what scratch held after it stores there: all columns are loaded where it is read."""

    late = False
