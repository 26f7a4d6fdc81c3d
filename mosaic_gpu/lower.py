"""What rules see as `e`: the values of a body, element by element, and the order of products."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.ir.array import ArrayLike, DTypeLike
from ..core.ir.program import Eqn
from ..core.ir.types import ArrayType
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.elementwise.arithmetic import add_p
from ..lang.mlir.program_printer import ProgramPrinter
from . import ptx
from .products import issue
from .rules import BACKEND, RULES
from .text import Int, Printer
from .values import (
    EIGHT,
    Fragment,
    Late,
    Layout,
    Lazy,
    Product,
    Tile,
    Unfit,
    Value,
    computed,
    halves,
    pack,
    rounded,
    unpack,
    widened,
)

LANES = 128


class Group:
    """Products committed together; `fragments` are being made by them."""

    def __init__(self, fragments: list[Fragment]):
        self.fragments = fragments
        self.done: Callable[[], None] | None = None  # what follows once they are made


class Lowering(ProgramPrinter):
    """The equations of one warpgroup.

    `rows` are those of a block, of which each of `consumers` warpgroups has its part; `row` and `column` are the first
    that a thread has, `mine` the number of its warpgroup.
    """

    backend = BACKEND

    p: Printer
    rows: int
    consumers: int
    kept: int
    spared: Any
    name: str

    def __init__(self, p: Printer, name: str, rows: int, consumers: int):
        self.p, self.name, self.rows, self.consumers = p, name, rows, consumers
        self.matrix: Callable[..., str] = ptx.matrix  # how a tile is described to the tensor cores
        self.turning: tuple[int, ...] = (2,)  # sizes of operands that may be summed along the rows of a tile
        self.by_warps = False  # each warp by itself runs what is printed
        self.own_rows = False  # a thread has a whole row of a fragment, as tensor memory is read
        self.columns_of: dict[Int, tuple[Int, int]] = {}  # of each column of a pair the even one, and which it is
        self.groups: list[Group] = []  # not yet waited for
        self.kept = 0  # bytes of shared memory that the body keeps for itself
        self.keeps: Int = 0  # where that is
        self.stored: dict[str, Layout] = {}  # where the numbers of a result are, by its pointer
        self.spared = 0  # bytes of the stages that results are in
        self.branches = 0  # that are being printed, within each other
        self.mine: Int = 0
        self.lane_of_group: Int = 0
        self.lane: Int = 0
        self.warp: Int = 0
        self.row: Int = 0
        self.column: Int = 0

    # ------------------------------------------------------------ equations

    def equation(self, eqn: Eqn, operands: list[Any]) -> list[Any]:
        once = self.uses == [1]
        try:
            found = self.ruled(eqn, operands)
            if not eqn.primitive.multiple:
                found = [self.result(eqn, found[0])]
        except Unfit as error:
            error.source = error.source or eqn.source
            raise
        if eqn.primitive is dot_general_p:
            found[0].once = once
        return found

    def result(self, eqn: Eqn, found: Any) -> Any:
        """The result of an equation; a scalar is computed once, here."""
        if not isinstance(found, Lazy) or found.shape:
            return found
        name = found.at(self.p, ())
        return Lazy((), found.dtype, lambda p, place: name, fixed=True)

    def literal(self, value: Any, type: ArrayType) -> Lazy:
        return self.scalar(value, type.dtype)

    def constant_array(self, value: np.ndarray, type: Any) -> Lazy:
        if value.ndim:
            raise Unfit(f"the body holds an array of {value.shape}: give it to the kernel as an operand")
        return self.scalar(value, type.dtype)

    def scalar(self, value: ArrayLike, dtype: np.dtype[Any]) -> Lazy:
        type_ = computed(dtype)
        number = np.asarray(value).astype(dtype)
        plain = float(number) if type_ == "f32" else int(number)
        return Lazy((), dtype, lambda p, place: p.constant(plain, type_), fixed=True)

    def integer(self, value: Value) -> str:
        """A scalar of the body as an i32."""
        assert isinstance(value, Lazy) and not value.shape
        return value.at(self.p, ())

    # ------------------------------------------------------------ layouts

    def layout(self, shape: tuple[int, ...], varies: Iterable[int] | None = None, start: Layout | None = None
               ) -> Layout:  # fmt: skip
        """Where a value is put that differs along some axes, by default all: rows are the axis as long as the block's.

        `start` is a layout that it must agree with.
        """
        rows, cols = (None, None) if start is None else (start.rows, start.cols)
        for d in sorted(range(len(shape)) if varies is None else varies, key=lambda d: (shape[d] != self.rows, d)):
            if shape[d] == 1 or d in (rows, cols):
                continue
            if rows is None and shape[d] == self.rows:
                rows = d
            elif cols is None and shape[d] % 8 == 0:
                cols = d
            else:
                raise Unfit(f"a value of {shape} in blocks of {self.rows} rows: registers hold matrices of so many "
                            "rows and a multiple of 8 columns, and vectors along one of the two; reshape it before "
                            "the kernel")  # fmt: skip
        return Layout(shape, rows, cols)

    def joined(self, values: Sequence[Value], shape: tuple[int, ...]) -> Layout | None:
        """The layout of what is made of values elementwise, None where none of them is in registers."""
        found: Layout | None = None
        for x in values:
            if isinstance(x, (Fragment, Product)) and x.shape == shape:
                found = x.layout if found is None else found.joined(x.layout)
        if found is not None:
            for x in values:
                if isinstance(x, Lazy) and x.shape:
                    found = self.layout(shape, x.varies, found)
        return found

    def extent(self, layout: Layout) -> tuple[int, int]:
        """How many rows and columns of a layout a thread has."""
        if layout.rows is not None and layout.shape[layout.rows] != self.rows:
            raise Unfit(f"{layout.shape[layout.rows]} rows of one value, {self.rows} of others: let all blocks have "
                        "one number of rows")  # fmt: skip
        if layout.cols is not None and layout.shape[layout.cols] % 8:
            raise Unfit(f"{layout.shape[layout.cols]} columns: take blocks of a multiple of 8")
        columns = 1 if layout.cols is None else layout.shape[layout.cols]
        if self.own_rows:
            return 1, columns
        rows = 1 if layout.rows is None else self.rows // self.consumers // 32
        return rows, max(columns // 4, 1)

    def place(self, layout: Layout, r: int, j: int) -> list[Int]:
        """The position of one register of this thread."""
        found: list[Int] = [0] * len(layout.shape)
        if layout.rows is not None:
            found[layout.rows] = self.p.add(self.row, 64 * (r // 2) + 8 * (r % 2))
        if layout.cols is not None:
            found[layout.cols] = j if self.own_rows else self._column(j)
        return found

    def _column(self, j: int) -> Int:
        """A column of this thread; of each pair it is known which is the other."""
        even, odd = (self.p.add(self.column, 8 * (j // 2) + n) for n in (0, 1))
        self.columns_of |= {even: (even, 0), odd: (even, 1)}
        return odd if j % 2 else even

    # ------------------------------------------------------------ elements

    def element(self, value: Value, layout: Layout, r: int, j: int) -> str:
        """The number of a value at a register of a layout that it has or is spread to."""
        if isinstance(value, Product):
            value = self.settled(value)
        if isinstance(value, Lazy):
            place = self.place(layout, r, j) if value.shape else ()
            return value.at(self.p, place)
        own = value.layout
        r, j = r if own.rows is not None else 0, j if own.cols is not None else 0
        if value.group is not None:
            self.settle(value)
        if value.paired:
            return unpack(self.p, value.regs[r][j // 2], j % 2, value.dtype)
        return value.regs[r][j]

    def make(
        self, layout: Layout, dtype: DTypeLike, element: Callable[[int, int], str], late: bool = False
    ) -> Fragment:
        """A fragment of computed numbers, which are rounded to its dtype; `late`: where they are needed."""
        rows, cols = self.extent(layout)
        paired = halves(dtype) and layout.cols is not None

        def number(r: int, j: int) -> str:
            if paired:
                return pack(self.p, element(r, 2 * j), element(r, 2 * j + 1), dtype)
            return rounded(self.p, element(r, j), dtype) if halves(dtype) else element(r, j)

        found = [Late(self.p, cols // 2 if paired else cols, partial(number, r)) for r in range(rows)]
        return Fragment(layout, dtype, found if late else [list(row) for row in found])

    def fragment(self, value: Value, layout: Layout | None = None) -> Fragment:
        """A value in registers."""
        if isinstance(value, Product):
            value = self.settled(value)
        if isinstance(value, Fragment) and (layout is None or value.layout == layout):
            return value
        layout = layout or self.layout(value.shape, value.varies if isinstance(value, Lazy) else None)
        return self.make(layout, value.dtype, lambda r, j: self.element(value, layout, r, j))

    # ------------------------------------------------------------ the order of products

    def settled(self, product: Product) -> Fragment:
        """A product, issued; its registers are read only after `settle`."""
        if product.made is None:
            product.made = self.issue(product, product.start)
        return product.made

    def issue(self, product: Product, start: Fragment | None) -> Fragment:
        """Begin a product, from zeros or from what is in registers."""
        return issue(self, product, start)

    def added(self, product: Product, start: Fragment) -> Fragment | Product:
        """A product that is added to what is in registers."""
        self.settle(start)
        return self.issue(product, start)

    def commit(self, fragment: Fragment) -> None:
        ptx.wgmma_commit(self.p)
        fragment.group = Group([fragment])
        self.groups.append(fragment.group)

    def settle(self, fragment: Fragment) -> None:
        """Wait until a fragment's products are made."""
        if fragment.group is not None:
            self.wait(self.groups.index(fragment.group) + 1)

    def wait(self, count: int | None = None) -> None:
        """Wait for the first groups of products, by default for all."""
        count = len(self.groups) if count is None else count
        if not count:
            return
        if count == len(self.groups):
            self.pass_turn()
        ptx.wgmma_wait(self.p, len(self.groups) - count)
        done, self.groups = self.groups[:count], self.groups[count:]
        for group in done:
            for fragment in group.fragments:
                if fragment.group is group:
                    fragment.regs = fragment.with_flat(
                        ptx.settled(self.p, fragment.flat, computed(fragment.dtype))
                    ).regs
                    fragment.group = None
            if group.done is not None:
                group.done()

    def pending(self, registers: Sequence[Any]) -> Group | None:
        """Registers whose products an iteration leaves to the next one, if there are any."""
        if not registers:
            return None
        group = Group([r.value for r in registers])
        for fragment in group.fragments:
            fragment.group = group
        self.groups = [group]
        return group

    def take_turn(self) -> None:
        """What comes before a product is started, which is told at `pass_turn` where no product is under way."""

    def pass_turn(self) -> None:
        """What comes before all products under way are waited for."""

    # ------------------------------------------------------------ memory and threads

    def keep(self, size: int, align: int = 16) -> Int:
        """The address of shared memory that the body keeps for itself."""
        start = -(-self.kept // align) * align
        self.kept = start + size
        return self.p.add(self.keeps, start)

    @property
    def taken(self) -> Any:
        """What the body has taken of memory; set to give back what a way that is dropped took."""
        return self.kept, self.spared

    @taken.setter
    def taken(self, taken: Sequence[int]) -> None:
        self.kept, self.spared = taken

    @property
    def asked_columns(self) -> int:
        """How many columns of tensor memory are to be allocated, as a schedule has it by default where it has none."""
        return 512

    def gather(self) -> None:
        """Wait for all threads that compute."""
        ptx.bar_sync(self.p, 1, LANES * self.consumers)

    def owner(self, layout: Layout) -> str | None:
        """Of the threads that hold the same numbers of a layout, the one that stores them."""
        tests = []
        if self.own_rows:
            tests = [] if layout.rows is not None else [self.p.compare("eq", self.lane_of_group, 0)]
        elif layout.rows is None:
            tests = [self.p.compare("ult", self.lane, 4), self.p.compare("eq", self.warp, 0)]
        if layout.cols is None and not self.own_rows:
            tests.append(self.p.compare("eq", self.p.int("andi", self.lane, 3), 0))
        found = None
        for test in tests:
            found = test if found is None else self.p.pure(f"arith.andi {found}, {test} : i1")
        return found

    def tile(self, address: Int, shape: tuple[int, ...], dtype: np.dtype[Any], axes: tuple[int, int]) -> Tile:
        """A block in swizzled shared memory."""

        def at(p: Printer, place: Sequence[Int]) -> str:
            return self.loaded(self.address(found, place), dtype)

        varies = frozenset(d for d, n in enumerate(shape) if n > 1)
        found = Tile(shape, dtype, at, varies, False, address, axes)
        return found

    def address(self, tile: Tile, place: Sequence[Int]) -> Int:
        """Where an element of a tile is."""
        p, size = self.p, tile.dtype.itemsize
        row, column = place[tile.axes[0]], place[tile.axes[1]]
        offset = p.mul(column, size)
        chunk = p.mul(p.int("divui", offset, ptx.ROW), tile.rows * ptx.ROW)
        within = p.int("xori", p.int("remui", offset, ptx.ROW), p.mul(p.int("andi", row, 7), 16))
        return p.add(tile.address, chunk, p.mul(row, ptx.ROW), within)

    def strip(self, address: Int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Lazy:
        """Numbers of 32 bits side by side in shared memory; those of two columns of a thread are loaded at once."""
        letter, type_ = ("f", "f32") if computed(dtype) == "f32" else ("r", "i32")

        def at(p: Printer, place: Sequence[Int]) -> str:
            column = place[-1]
            if isinstance(column, str) and column not in self.columns_of:
                return self.loaded(p.add(address, p.mul(column, 4)), dtype)
            even, odd = (column & ~1, column & 1) if isinstance(column, int) else self.columns_of[column]
            key = (at, even)
            if key not in p.made:
                p.made[key] = p.asm("ld.shared.v2.b32 {$0, $1}, [$2];", f"={letter},={letter},r",
                                    [p.name(p.add(address, p.mul(even, 4)))], ["i32"], [type_] * 2)  # fmt: skip
            return p.made[key][odd]

        return Lazy(shape, dtype, at, frozenset({len(shape) - 1}))

    def loaded(self, address: Int, dtype: np.dtype[Any]) -> str:
        """A number in shared memory."""
        p, bits = self.p, 8 * dtype.itemsize
        if bits == 32:
            letter, type_ = ("f", "f32") if computed(dtype) == "f32" else ("r", "i32")
            return p.asm("ld.shared.b32 $0, [$1];", f"={letter},r", [p.name(address)], ["i32"], [type_])[0]
        kind = "b16" if halves(dtype) else f"{'s' if dtype.kind == 'i' else 'u'}{bits}"
        word = p.asm(f"{{ .reg .b16 h; ld.shared.{kind} h, [$1]; cvt.{'u' if halves(dtype) else kind[0]}32."
                     f"{'u' if halves(dtype) else kind[0]}16 $0, h; }}", "=r,r", [p.name(address)], ["i32"],
                     ["i32"])[0]  # fmt: skip
        if str(dtype) in EIGHT:
            return widened(p, word, dtype)
        return unpack(p, word, 0, dtype) if halves(dtype) else word

    def sum(self, x: Value, y: Value) -> Value:
        """x + y."""
        return RULES[add_p](self, [x, y], ArrayType(x.shape, x.dtype))

    # ------------------------------------------------------------ registers through loops and branches

    def unify(self, registers: Sequence[Any], bodies: Sequence[Callable[[], Any]]) -> list[Any]:
        """Settle the layouts that registers have on every way, by printing the ways and dropping what is printed.

        Gives the registers that products are being made in at the end of one.
        """
        layouts: list[Layout | None] = [None] * len(registers)
        for _ in range(4):
            before = [r.value for r in registers]
            late: list[Any] = []
            ends: list[list[Any]] = []
            for body in bodies:
                taken = self.taken
                with self.p.region():
                    body()
                late += [r for r in registers if isinstance(r.value, Fragment) and r.value.group is not None]
                self.groups, self.taken = [], taken
                ends.append([r.value for r in registers])
                for register, value in zip(registers, before, strict=True):
                    register.value = value
            found = [
                self._settled_layout(layouts[i], [before[i], *(end[i] for end in ends)]) for i in range(len(registers))
            ]
            stable, layouts = found == layouts, found
            for register, layout in zip(registers, layouts, strict=True):
                register.layout = layout
                if layout is not None:
                    register.value = self.fragment(register.value, layout)
            if stable:
                return late
        raise Unfit("what its loops carry is laid out in another way in each turn: carry it along rows, or along "
                    "columns")  # fmt: skip

    def _settled_layout(self, found: Layout | None, values: Sequence[Value]) -> Layout | None:
        """A layout that all values of a register have a place in; None where it stays the same value."""
        if found is None and all(v is values[0] for v in values):
            return None
        for v in values:
            if isinstance(v, Fragment):
                found = v.layout if found is None else found.joined(v.layout)
        for v in values:
            if isinstance(v, Lazy):
                found = self.layout(v.shape, v.varies, found)
        return found
