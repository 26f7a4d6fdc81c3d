"""What the forms for Blackwell have in common: tensor memory, and a row of the block in each thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import ptx, tcgen05
from .hopper_program import Nest
from .schedule import Moved
from .text import Int
from .values import Fragment


class Tensor(Nest):
    """A kernel whose products are made in `columns` of tensor memory, which `keeper` takes and gives back."""

    overlaps = orders = False

    own_rows: bool
    matrix: Callable[..., str]
    turning: tuple[int, int]
    row: Int
    column: int

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.own_rows, self.matrix, self.turning = True, tcgen05.matrix, (1, 2)
        self.columns = tcgen05.COLUMNS
        self.keeper: int = 4 * self.consumers + 1
        self.memory: Int = 0

    @property
    def together(self) -> int:
        """How many blocks' products are made at once."""
        return 2 if self.s.joint else 1

    @property
    def pair(self) -> int | None:
        """The blocks whose products are made at once, as bits; None: this one."""
        return 3 if self.s.joint else None

    @property
    def slot(self) -> Int:
        """Where the address of tensor memory is."""
        return self.p.add(self.shared, self.s.more + 8)

    def prepare(self) -> None:
        with self.p.when(self.p.compare("eq", self.warp, self.keeper)):
            tcgen05.allocate(self.p, self.slot, self.columns, self.together)

    def roles(self) -> None:
        p = self.p
        (self.memory,) = p.asm("ld.shared.b32 $0, [$1];", "=r,r", [p.name(self.slot)], ["i32"], ["i32"])
        super().roles()
        tcgen05.left(p)
        self.meet()
        with p.when(p.compare("eq", self.warp, self.keeper)):
            tcgen05.waited(p)
            tcgen05.release(p, self.memory, self.columns, self.together)

    def position(self, part: int, warp: Int) -> None:
        self.row, self.column = self.p.add(self.p.mul(self.mine, part), self.lane_of_group), 0

    def gather(self) -> None:
        super().gather()
        tcgen05.waited(self.p)

    def lanes(self, column: Int) -> Int:
        """The address of a column in the rows of this warp."""
        p = self.p
        rows = p.int("shli", p.mul(p.int("andi", self.warp, 3), 32), 16)
        return p.add(self.memory, rows, column)

    def matrices(self, moved: Moved, made: Fragment, base: Int) -> None:
        """A row of each thread, 8 numbers of 16 bits at a time, which may be loaded from tensor memory here."""
        p, rows = self.p, self.rows // self.consumers
        tcgen05.waited(p)
        for chunk in range(len(made.regs[0]) // 4):
            row = self.lane_of_group
            within = p.mul(p.int("xori", p.int("andi", row, 7), chunk % 8), 16)
            at = p.add(base, p.mul(row, ptx.ROW), within, chunk // 8 * rows * ptx.ROW)
            p.asm("st.shared.v4.b32 [$0], {$1, $2, $3, $4};", "r,r,r,r,r",
                  [p.name(at), *made.regs[0][4 * chunk : 4 * chunk + 4]], ["i32"] * 5)  # fmt: skip
