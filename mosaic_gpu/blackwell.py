"""The program of one block on Blackwell: a warp that copies, a warp that multiplies, a warpgroup that stores.

Products are started by one thread and summed in tensor memory, so a loop here does nothing but add products of tiles to
sums that begin at zero; what follows the loop is computed by a warpgroup, each of whose threads has a row of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.ir.program import Var
from ..core.ir.types import INT32
from ..core.primitives.refs.state_primitives import Index
from ..lang.legalize import Unfit
from ..lang.loopnest.peeling import end_cell
from ..lang.ops.basic import next_power_of_2
from . import ptx, tcgen05
from .mma_types import FLOAT32, KINDS, depth
from .products import left_of, right_of
from .refs import Register, TileRef
from .tensor_memory import Tensor
from .text import Int
from .values import Fragment, Layout, Product, Tile, computed

GROUP = 128


@dataclass(eq=False)
class Sum:
    """A Ref whose numbers are in tensor memory, from a column on, while products are added to them."""

    column: int

    def read(self, e: Any, index: Index, dynamic: Sequence[Any]) -> Any:
        raise Unfit("a sum is read within its loop, which on Blackwell only adds products: read it after the loop")

    def write(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        raise Unfit("a sum is written within its loop, which on Blackwell only adds products: write it before or after")

    def add(self, e: Any, index: Index, dynamic: Sequence[Any], value: Any) -> None:
        if not isinstance(value, Product) or not all(isinstance(x, Tile) for x in value.operands):
            raise Unfit("what is added to a sum is no product of tiles as they are copied: compute operands before "
                        "the kernel")  # fmt: skip
        e.start_product(value, self.column)


class Blackwell(Tensor):
    """A kernel within its loops, its products in tensor memory."""

    joint = True

    columns: int

    def __init__(self, *args: Any):
        super().__init__(*args)
        k, plan = self.kernel, self.plan
        if self.consumers > 1:
            raise Unfit(f"blocks of {self.rows} rows: on Blackwell a sum has 128, which is to be the rows of a block")
        if not plan.carry or any(level for part in (self.s.parts.before, self.s.parts.after) for level in part):
            raise Unfit("what is done between loops: on Blackwell products are summed in one loop, with all else "
                        "before or after it")  # fmt: skip
        if any(home is not None for home in plan.output_homes):
            raise Unfit("a result is added up in its own block: add up in scratch of float32, and store it in the "
                        "last turn")  # fmt: skip
        self.sums: dict[Var, Sum] = {}
        column = 0
        for ref in k.body.inputs[k.splits[3] :]:
            shape, dtype = ref.type.shape, ref.type.dtype
            if len(shape) != 2 or shape[0] != self.rows or dtype not in (FLOAT32, INT32) or shape[1] % 16:
                raise Unfit(f"scratch of {shape}: on Blackwell it is a sum of {self.rows} rows and a multiple of 16 "
                            "columns")  # fmt: skip
            self.sums[ref] = Sum(column)
            column += shape[1]
        self.columns = max(next_power_of_2(column), 32)
        self.buffers = 2 if self.s.blocks and 2 * self.columns <= tcgen05.COLUMNS else 1
        self.columns *= self.buffers
        if self.columns > tcgen05.COLUMNS:
            raise Unfit(f"its sums take {column} columns of tensor memory, and there are {tcgen05.COLUMNS}: take "
                        "narrower blocks")  # fmt: skip

    @property
    def releases(self) -> int:
        return 1

    def buffer(self, tile: Int) -> tuple[Int, Int, Int, Int]:
        """Of a tile of results: the first column of its sums, the barriers of their end and release, the parity."""
        p = self.p
        which, round_ = p.int("remui", tile, self.buffers), p.int("andi", p.int("divui", tile, self.buffers), 1)
        at = p.add(self.shared, self.s.sites, p.mul(which, 8))
        return p.mul(which, self.columns // self.buffers), at, p.add(at, 8 * self.buffers), round_

    def more_barriers(self) -> None:
        for n in range(self.buffers):
            ptx.barrier_init(self.p, self.p.add(self.shared, self.s.sites, 8 * n), 1)
            ptx.barrier_init(self.p, self.p.add(self.shared, self.s.sites, 8 * (self.buffers + n)), 4 * self.s.cluster)

    # ------------------------------------------------------------ the warps that copy and multiply

    def produce(self) -> None:
        super().produce()
        p = self.p
        first = p.compare("eq", self.warp, 4 * self.consumers + 1)
        chosen = p.int("ori", self.lane, self.rank)  # one thread of one block
        with p.when(p.pure(f"arith.andi {first}, {p.compare('eq', chosen, 0)} : i1")):
            refs, first_in = self.kernel.body.inputs, self.kernel.splits[1]
            for n, number in enumerate(self.s.fixed):
                tile = self.tile_of(self.s.moved[number], self.fixed_address(n))
                ptx.wait(p, self.fixed_barrier(n), 0)
                self.refs[refs[first_in + number]] = TileRef(tile, lambda: None)
            self.refs.update(self.sums)

            def run(tile: Int) -> None:
                self.sums_at, done, free, parity = self.buffer(tile)
                if self.s.blocks:
                    ptx.wait(p, free, p.int("xori", parity, 1), "cluster" if self.s.joint else "cta")
                self.first_turn = self.count
                self.iterate(self.multiply)
                tcgen05.commit(p, done, self.pair)

            self.tiles(run)

    def multiply(self) -> None:
        """Start the products of one iteration, whose end releases its stage."""
        self.cell(self.s.parts.main, len(self.plan.carry))
        if self.s.ring:
            tcgen05.commit(self.p, self.empty(self.stage(self.count)[0]), self.pair)

    def start_product(self, product: Product, column: int) -> None:
        """Add a product to a sum; the first one of a block is what the sum starts from."""
        p, (a, b), (ca, cb) = self.p, product.operands, product.contracting
        self.mine = 0
        left, right = left_of(self, a, ca), right_of(self, b, cb)
        tcgen05.waited(p)
        kinds = KINDS[str(a.dtype)], KINDS[str(b.dtype)]
        for step in range(a.shape[ca] // depth(a.dtype)):
            (one, turned), (other, across) = left(0, step), right(step)
            more = p.constant(True, "i1") if step else p.compare("ne", self.count, self.first_turn)
            to, many = p.add(self.memory, self.sums_at, column), self.together
            tcgen05.multiply(
                p, to, one, other, 128 * many, product.shape[1], kinds, (turned, across), more, blocks=many
            )

    def settled(self, product: Product) -> Fragment:
        raise Unfit("a product that is not added to a sum of its loop: add it to scratch of float32")

    # ------------------------------------------------------------ the warpgroup that stores

    def consume(self) -> None:
        p = self.p
        self.lane_of_group: Int = p.add(p.mul(self.warp, 32), self.lane)
        self.mine: int = 0
        self.position(GROUP, self.warp)
        self.tiles(self.finish)
        self.stored_all()

    def finish(self, tile: Int) -> None:
        """What follows the products of a tile of results."""
        p, k = self.p, self.kernel
        registers = {ref: Register(ref.type.array, None) for ref in k.body.inputs[k.splits[3] :]}
        self.refs.update(registers)
        end_cell(self, self.s.parts.before, 0, 0)
        for register in registers.values():
            start, zero = register.value, p.constant(0, computed(register.array.dtype))
            if start is None or isinstance(start, Fragment) or start.varies or start.at(p, [0, 0]) != zero:
                raise Unfit("a sum that does not begin at zero: store zeros there in the first turn, and add what "
                            "else there is at the end")  # fmt: skip
        sums_at, done, free, parity = self.buffer(tile)
        ptx.wait(p, done, parity)
        tcgen05.waited(p)
        for ref, register in registers.items():
            shape, dtype, first = ref.type.shape, ref.type.dtype, self.sums[ref].column
            row = tcgen05.Row(p, self.lanes(p.add(sums_at, first)), shape[1], computed(dtype))
            register.value = Fragment(Layout(shape, 0, 1), dtype, [row])
        end_cell(self, self.s.parts.after, 0, -1)
        if self.s.blocks:
            tcgen05.left(p)
            p.asm("bar.warp.sync -1;")
            with p.when(p.compare("eq", self.lane, 0)):
                ptx.arrive_far(p, ptx.mapped(p, free, 0)) if self.s.joint else ptx.arrive(p, free)
