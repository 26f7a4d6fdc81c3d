"""The program of one block of threads: its descriptors and barriers, the warp that produces, the warps that compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.ir.program import Program, Var
from ..core.ir.types import INT32, ArrayType
from ..core.primitives.refs.state_primitives import whole
from ..lang.analysis.index_maps import inside, map_of
from ..lang.gpu.launch_plan import GROUP as BAND
from ..lang.gpu.launch_plan import Launch
from ..lang.kernel.kernel import Block, Kernel
from ..lang.legalize import Unfit
from ..lang.loopnest.loop_bounds import Line
from ..lang.loopnest.peeling import end_cell
from ..lang.loopnest.plan import Plan
from . import ping_pong, ptx
from .lower import LANES, Group, Lowering
from .refs import Carried, Memory, Register, TileRef, Window, stored
from .schedule import Moved, Schedule, Strip
from .text import Int, Printer
from .values import Fragment, Lazy


class Nest(Lowering):
    """A kernel within its loops."""

    joint = False  # blocks in pairs make products together
    persists = True  # a block may make many tiles of results
    orders = True  # warpgroups may take turns at starting products
    overlaps = True  # products that a turn begins may be made in the next one

    launch: Launch
    s: Schedule
    names: list[str]
    proved: dict[int, tuple[tuple[bool, bool], ...]]
    scalars: list[Memory]
    warp: str
    spared: int

    def __init__(self, p: Printer, launch: Launch, schedule: Schedule, names: Sequence[str]):
        self.plan: Plan = schedule.plan
        self.kernel: Kernel = self.plan.kernel
        super().__init__(p, self.kernel.name, schedule.rows, schedule.consumers)
        self.launch, self.s, self.names = launch, schedule, list(names)
        self.ids: list[Int] = [0] * len(self.kernel.grid)
        self.program: Int = 0
        self.number: Int = 0  # of the tile of results at hand
        self.descriptors: dict[int, str] = {}  # by the number of the argument
        self.count: Int = 0  # turns taken
        self.main: Program = schedule.parts.main  # the body of the loop at hand
        self.in_turn = False  # whether what is printed is the body of the loops
        self.live: list[tuple[int, Register]] = []
        self.refs: dict[Var, Any] = {}
        self.waits: dict[int, Callable[[], None]] = {}  # of tiles that this cell has not waited for
        self.proved = {id(b): inside(self.kernel, b) for b in self.kernel.blocks}
        self.scalars = [self._whole(name, t) for name, t in zip(self.names, self.kernel.prefetch, strict=False)]

    def _whole(self, name: str, array: ArrayType) -> Memory:
        n = array.ndim
        return Memory(Window(name, array, [0] * n, tuple(range(n)), ((True, True),) * n))

    # ------------------------------------------------------------ the block

    def print(self, shared: str, block: Sequence[str], thread: str, described: str) -> None:
        """`shared` is the address of shared memory, `described` a pointer to memory for descriptors."""
        p, s = self.p, self.s
        self.shared = shared
        self.rank: Int = ptx.rank(p) if s.cluster > 1 else 0
        self.keeps: Int = p.add(shared, s.keeps)
        (warp,) = p.asm("shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;", "=r,r",
                        [p.name(p.int("shrui", thread, 5))], ["i32"], ["i32"])  # fmt: skip
        self.warp, self.lane = warp, p.int("andi", thread, 31)
        if s.blocks:
            self.program = block[0]
        else:
            self.locate(block)
        self.describe(described)
        with p.when(p.compare("eq", thread, 0)):
            for n in range(len(s.fixed)):
                ptx.barrier_init(p, self.fixed_barrier(n), 1)
            for stage in range(s.stages):
                for n in range(len(s.ring)):
                    ptx.barrier_init(p, self.full(n, stage), 1)
                ptx.barrier_init(p, self.empty(stage), self.releases)
            self.more_barriers()
            p.asm("fence.mbarrier_init.release.cluster;")
        self.prepare()
        self.meet()
        for name in self.descriptors.values():
            ptx.acquire(p, name)
        self.roles()
        if s.cluster > 1:  # a block that has ended is reached by no other
            ptx.cluster_sync(p)

    @property
    def releases(self) -> int:
        """How many arrivals free a stage: one of each warp that computes with it, here and in each block copied to."""
        return 4 * self.consumers * (1 + len(self.s.pairs))

    def meet(self) -> None:
        """Wait for all threads of the block, and of its cluster."""
        if self.s.cluster > 1:
            ptx.cluster_sync(self.p)
        else:
            self.p.line("gpu.barrier")

    def more_barriers(self) -> None:
        """Barriers besides those of tiles and stages."""

    def prepare(self) -> None:
        """What is done before the first barrier of all threads."""

    def roles(self) -> None:
        """The last warpgroup produces, the others compute."""
        self.p.either(self.p.compare("uge", self.warp, 4 * self.consumers), self.produce, self.consume)

    def locate(self, block: Sequence[Any]) -> None:
        """The ids of the parallel axes."""
        p, s, sizes = self.p, self.s, [self.kernel.grid[a] for a in self.plan.parallel]
        number: Int = block[0]
        whole = number
        for axis in s.pairs:  # neighbours are a cluster, whose ids differ in some axes
            sizes[self.plan.parallel.index(axis)] //= 2
        number = p.int("divui", number, s.cluster)
        if self.launch.grouped:
            ids = self._grouped(number, *sizes)
        elif self.launch.flat or s.blocks or s.cluster > 1:
            ids, rest = [], number
            for n in reversed(sizes[1:]):
                ids.append(p.int("remui", rest, n))
                rest = p.int("divui", rest, n)
            ids = [rest, *ids[::-1]] if sizes else []
        else:
            ids = list(block[: len(sizes)][::-1])
            number = 0
            for i, n in zip(ids, sizes, strict=True):
                number = p.add(p.mul(number, n), i)
        self.program = self.program if s.blocks else whole if s.cluster > 1 else number
        for axis, i in zip(self.plan.parallel, ids, strict=True):
            self.ids[axis] = p.add(p.mul(i, 2), self.side(s.pairs.index(axis))) if axis in s.pairs else i

    def side(self, pair: int) -> Int:
        """Which of the two blocks of a pair this is."""
        return self.p.int("andi", self.p.int("shrui", self.rank, pair), 1) if len(self.s.pairs) > 1 else self.rank

    def _grouped(self, number: Int, rows: int, columns: int) -> list[Int]:
        """Bands of rows, down each column of a band: neighbours share blocks of both operands."""
        p = self.p
        first = p.mul(p.int("divui", number, BAND * columns), BAND)
        rest = p.int("remui", number, BAND * columns)
        height: Int = BAND if rows % BAND == 0 else p.int("minsi", p.int("subi", rows, first), BAND)
        return [p.add(first, p.int("remui", rest, height)), p.int("divui", rest, height)]

    def describe(self, described: str) -> None:
        """Make the descriptors in shared memory, and put them where the copy engine reads them."""
        p, s = self.p, self.s
        if not s.described:
            return
        size = ptx.DESCRIPTOR * len(s.described)
        start = p.pure(f"arith.extui {p.name(p.mul(self.program, size))} : i32 to i64")
        base = p.pure(f"llvm.getelementptr {described}[{start}] : (!llvm.ptr, i64) -> !llvm.ptr, i8")
        for n, moved in enumerate(s.described):
            self.descriptors[moved.argument] = p.pure(
                f"llvm.getelementptr {base}[{ptx.DESCRIPTOR * n}] : (!llvm.ptr) -> !llvm.ptr, i8"
            )
        with p.when(p.compare("eq", self.warp, 0)):
            for n in range(len(s.described)):
                at = p.add(self.shared, ptx.DESCRIPTOR * n, p.mul(self.lane, 4))
                p.asm("st.shared.b32 [$0], $1;", "r,r", [p.name(at), p.constant(0)], ["i32", "i32"])
            p.asm("bar.warp.sync -1;")
            with p.when(p.compare("eq", self.lane, 0)):
                for n, moved in enumerate(s.described):
                    ptx.describe(p, p.add(self.shared, ptx.DESCRIPTOR * n), self.names[moved.argument], moved.box)
            p.asm("bar.warp.sync -1;")
            for n, moved in enumerate(s.described):
                ptx.publish(p, self.descriptors[moved.argument], p.add(self.shared, ptx.DESCRIPTOR * n))

    # ------------------------------------------------------------ barriers and tiles

    def fixed_barrier(self, n: int) -> Int:
        return self.p.add(self.shared, self.s.barriers + 8 * n)

    def _stage_barrier(self, n: int, stage: Int) -> Int:
        p, s = self.p, self.s
        start = s.barriers + 8 * len(s.fixed)
        return p.add(self.shared, start + 8 * n * max(s.stages, 1), p.mul(stage, 8))

    def full(self, n: int, stage: Int) -> Int:
        """The barrier of a ring tile's arrival in a stage."""
        return self._stage_barrier(n, stage)

    def empty(self, stage: Int) -> Int:
        """The barrier of a stage's release."""
        return self._stage_barrier(len(self.s.ring), stage)

    def stage(self, count: Int) -> tuple[Int, Int]:
        """The stage of a turn, and the parity of its round."""
        p, n = self.p, self.s.stages
        return p.int("remui", count, n), p.int("andi", p.int("divui", count, n), 1)

    def fixed_address(self, n: int) -> Int:
        sizes = [self.s.moved[i].size for i in self.s.fixed[:n]]
        return self.p.add(self.shared, self.s.tiles + sum(sizes))

    def ring_address(self, n: int, stage: Int) -> Int:
        s, p = self.s, self.p
        within = sum(s.moved[i].size for i in s.ring[:n])
        return p.add(self.shared, s.ring_start + within, p.mul(stage, s.stage_bytes))

    def tile_of(self, moved: Moved | Strip, address: Int) -> Any:
        block = moved.block
        if isinstance(moved, Strip):
            return self.strip(address, block.shape, block.array.dtype)
        visible = [d for d, gone in enumerate(block.squeezed) if not gone]
        row, col = (visible.index(a) for a in moved.axes)
        found = self.tile(address, block.shape, block.array.dtype, (row, col))
        found.there = moved.held
        return found

    # ------------------------------------------------------------ windows

    def starts(self, block: Block) -> list[Int]:
        """Where the block of the cell at hand starts, in elements along the array's axes."""
        p, fact = self.p, map_of(self.kernel, block)
        if fact is not None and fact.affine is not None:
            form = fact.affine
            index: list[Int] = [
                p.add(c, *(p.mul(self.ids[a], k) for a, k in terms.items()))
                for c, terms in zip(form.const, form.coefficients, strict=True)
            ]
        else:
            assert block.index_map is not None
            values = self.inline(block.index_map, [*self.id_values(), *self.scalars])
            index = [self.integer(v) for v in values]
        found = []
        for d, (i, step) in enumerate(zip(index, block.steps, strict=True)):
            found.append(p.add(p.mul(i, step), -(block.padding[d][0] if block.element[d] else 0)))
        return found

    def id_values(self) -> list[Lazy]:
        names = [self.p.name(i) for i in self.ids]
        return [Lazy((), INT32, lambda p, place, name=name: name, fixed=True) for name in names]

    def window(
        self, block: Block, base: str, fill: Any = None, changes: bool = False, target: Callable[..., Any] | None = None
    ) -> Memory:
        visible = tuple(d for d, gone in enumerate(block.squeezed) if not gone)
        proved = self.proved[id(block)]
        meeting = changes and self.plan.atomic[self.kernel.outputs.index(block)]
        return Memory(Window(base, block.array, self.starts(block), visible, proved, fill, changes, target), meeting)

    # ------------------------------------------------------------ the warp that produces

    def produce(self) -> None:
        p, s = self.p, self.s
        if s.registers is not None:
            ptx.registers(p, "dec", s.registers[0])
        first = p.compare("eq", self.warp, 4 * self.consumers)
        with p.when(p.pure(f"arith.andi {first}, {p.compare('eq', self.lane, 0)} : i1")):
            for n, number in enumerate(s.fixed):
                self.copy(s.moved[number], self.fixed_address(n), self.fixed_barrier(n))
            if s.ring:
                self.tiles(lambda tile: self.iterate(self.copies))

    def tiles(self, run: Callable[[Int], None]) -> None:
        """Do something for each tile of results that this block makes, given its number; turns are counted through."""
        p, step = self.p, self.s.blocks
        self.count = 0
        if not step:
            run(0)
            return

        def body(tile: str, count: str) -> list[str]:
            self.count = count
            self.number = p.add(self.program, p.mul(tile, step))
            self.locate([self.number])
            known = self.warp, self.lane
            run(tile)
            self.warp, self.lane = known
            return [p.name(self.count)]

        many = p.int("divui", p.int("subi", self.plan.programs + step - 1, self.program), step)
        (self.count,) = p.loop(0, many, [p.name(0)], ["i32"], body)

    def copies(self) -> None:
        """Fill the next stage with the tiles of one iteration."""
        p, s = self.p, self.s
        stage, parity = self.stage(self.count)
        ptx.wait(p, self.empty(stage), p.int("xori", parity, 1))
        for n, number in enumerate(s.ring):
            self.copy(s.moved[number], self.ring_address(n, stage), self.full(n, stage))

    def iterate(self, act: Callable[[], None], level: int = 0) -> None:
        """Do something in each iteration of the loops from a level on, in their order; iterations are counted."""
        p, carry = self.p, self.plan.carry
        if level == len(carry):
            act()
            self.count = p.add(self.count, 1)
            return
        ids = list(self.ids)

        def body(i: str, count: str) -> list[str]:
            self.ids[carry[level]], self.count = i, count
            self.iterate(act, level + 1)
            return [p.name(self.count)]

        (self.count,) = p.loop(*self.bounds(level), [p.name(self.count)], ["i32"], body)
        self.ids = ids

    def copy(self, moved: Moved | Strip, to: Int, barrier: Int) -> None:
        """Start the copies of one tile."""
        p, block, joint = self.p, moved.block, self.s.joint
        start = self.starts(block)
        if isinstance(moved, Strip):
            window = Window(self.names[moved.argument], block.array, start, (), self.proved[id(block)])
            ptx.expect(p, barrier, moved.size)
            ptx.bulk_load(p, to, window.pointer(p, start, stored(block.array.dtype)), moved.size, barrier)
            return
        if joint:  # the first block's barrier tells of both
            with p.when(p.compare("eq", self.rank, 0)):
                ptx.expect(p, barrier, 2 * moved.size)
            barrier = ptx.mapped(p, barrier, 0)
        else:
            ptx.expect(p, barrier, moved.size)
        rows, both = moved.held, moved.half == "copied"
        shift = {"rows": rows, "columns": moved.chunks * moved.columns}.get(moved.half, 0)
        other = 1 << moved.pair  # the bit in which the rank of the other block of the pair differs
        first_block = p.int("andi", self.rank, ~other) if len(self.s.pairs) > 1 else 0
        to_both = p.int("shli", 1 | 1 << other, first_block) if both else 0
        for chunk in range(moved.chunks):
            for first in range(0, rows, moved.rows * (2 if both else 1)):
                place = [start[d] for d in moved.order]
                place[0] = p.add(place[0], chunk * moved.columns)
                row: Int = p.add(first, p.mul(self.side(moved.pair), moved.rows)) if both else first
                place[1] = p.add(place[1], row)
                if shift:
                    which = int(moved.half == "rows")
                    place[which] = p.add(place[which], p.mul(self.rank, shift))
                at = p.add(to, chunk * rows * ptx.ROW, p.mul(row, ptx.ROW))
                ptx.tma_load(p, at, self.descriptors[moved.argument], place, barrier, to_both, joint)

    def bounds(self, level: int) -> tuple[Int, Int]:
        """The first turn of a loop, and its end."""
        carry, turns = self.plan.carry, self.s.turns
        if turns is None or level != len(carry) - 1:
            return 0, self.kernel.grid[carry[level]]
        return self.turn(turns[0]), self.turn(turns[1])

    def ranges(self, level: int) -> list[tuple[Int, Int, Program]]:
        """The loops that a loop is made of, each with its body: the innermost has full blocks apart from others."""
        p, s, main = self.p, self.s, self.s.parts.main
        first, end = self.bounds(level)
        if s.full is None or level != len(self.plan.carry) - 1:
            return [(first, end, main)]
        low, high = s.turns or (0, self.kernel.grid[self.plan.carry[level]])
        within = [p.int("minsi", p.int("maxsi", self.turn(x), first), end) for x in s.full.bounds]
        start, stop = within[0], p.int("maxsi", within[1], within[0])
        before, after = [(first, start, main)], [(stop, end, main)]
        if s.full.bounds[0] == low:
            start, before = first, []
        if s.full.bounds[1] == high:
            stop, after = end, []
        return [*before, (start, stop, s.full.body), *after]

    def turn(self, place: int | Line) -> Int:
        if isinstance(place, int):
            return place
        p = self.p
        found = p.add(p.mul(self.ids[place.axis], place.slope), place.start)
        found = p.add(p.int("divui", found, place.divisor), -place.shift)
        if place.clipped:
            found = p.int("minsi", p.int("maxsi", found, 0), place.most)
        return found

    # ------------------------------------------------------------ the warps that compute

    def consume(self) -> None:
        p = self.p
        if self.s.registers is not None:
            ptx.registers(p, "inc", self.s.registers[1])
        self.find_place()
        if self.s.ordered:
            with p.when(p.compare("eq", self.mine, 1)):
                ptx.bar_arrive(p, ping_pong.FIRST, 2 * LANES)

        def run(tile: Int) -> None:
            self.run(0)
            self.wait()

        self.tiles(run)
        self.find_place()
        if self.s.ordered:  # no thread is left that has come to a barrier where no one waits
            with p.when(p.compare("eq", self.mine, 0)):
                ptx.bar_sync(p, ping_pong.FIRST, 2 * LANES)
        self.stored_all()

    def take_turn(self) -> None:
        """Start products after those that the other warpgroup has started; from then on some are under way."""
        if self.s.ordered and not self.groups:
            ptx.bar_sync(self.p, self.p.add(self.mine, ping_pong.FIRST), 2 * LANES)

    def pass_turn(self) -> None:
        if self.s.ordered:
            ptx.bar_arrive(self.p, self.p.int("subi", ping_pong.FIRST + 1, self.mine), 2 * LANES)

    def gather(self) -> None:
        if self.s.ordered:
            if self.in_turn:
                raise Unfit("warpgroups that wait for each other in a turn of a loop do not take turns at its "
                            "products: leave `ping_pong` out")  # fmt: skip
            self.wait()  # which the other one may have to begin its own
        super().gather()

    def find_place(self) -> None:
        """Which rows and columns are this thread's."""
        p = self.p
        self.mine: Int = p.int("shrui", self.warp, 2)
        within = p.int("andi", self.warp, 3)
        self.lane_of_group: Int = p.add(p.mul(within, 32), self.lane)
        self.position(self.rows // self.consumers, within)

    def position(self, part: int, warp: Int) -> None:
        """The first row and column of this thread, by the rows of a warpgroup and the warp within it."""
        p = self.p
        self.row: Int = p.add(p.mul(self.mine, part), p.mul(warp, 16), p.int("shrui", self.lane, 2))
        self.column: Int = p.mul(p.int("andi", self.lane, 3), 2)

    def run(self, level: int) -> None:
        """The loops from a level on, and what lives around them."""
        carry = self.plan.carry
        ending = self.begin(level)
        if level == len(carry):
            self.cell(self.main, level)
            ending()
        else:
            end_cell(self, self.s.parts.before, level, 0)
            self.loop(level)
            if self.s.blocks and not level:  # places are computed once more, and not kept beside the sums of the loop
                self.warp, self.lane = ptx.again(self.p, self.warp), ptx.again(self.p, self.lane)
                self.find_place()
                self.locate([ptx.again(self.p, self.number)])
            end_cell(self, self.s.parts.after, level, -1)
            ending()
        self.live = [(home, r) for home, r in self.live if home != level]

    def loop(self, level: int) -> None:
        """The loop of a level; with products under way at the end of a turn, its stage is released in the next one."""
        p, axis, inner = self.p, self.plan.carry[level], level == len(self.plan.carry) - 1
        registers = [r for home, r in self.live if home <= level]
        ranges = self.ranges(level)
        ids, live = list(self.ids), list(self.live)

        def turn(i: str, main: Program) -> None:
            self.ids[axis] = i
            self.live, self.main = list(live), main
            self.run(level + 1)

        def tried(main: Program) -> None:
            count = self.count
            self.count = p.name(self.count)
            turn(p.name(0), main)
            # With one stage its release is what the next turn waits for; the assembler follows no product that is under
            # way from one loop into another.
            if not self.overlaps or self.s.stages == 1 or len(ranges) > 1:
                self.wait()
            self.count = count

        def body(main: Program, i: str, count: str, *names: str) -> list[str]:
            self.count = count
            state.rename(names)
            left = self.pending(late)
            if left is not None:
                left.done = self.release_last
            turn(i, main)
            self.end_turn(inner, left)
            if inner:
                self.count = p.add(self.count, 1)
            values = [p.name(self.count), *state.names()]
            self.groups = []
            return values

        self.wait()
        state = Carried(self, registers, [partial(tried, main) for _, _, main in ranges])
        late = state.late if inner and self.s.ring else []
        names = state.names()
        if late:
            self.take_turn()
        for first, end, main in ranges:
            start = [p.name(self.count), *names]
            self.count, *names = p.loop(first, end, start, ["i32", *state.types], partial(body, main))
            state.rename(names)
        state.restore(names)
        self.ids, self.live = ids, live
        if self.pending(late) is not None and level:
            self.wait()

    def end_turn(self, inner: bool, left: Group | None) -> None:
        """Wait for the products of a turn, or for those of the one before where this one's are left to the next."""
        if not inner:
            self.wait()
        elif self.s.ring and left is None:
            self.wait()
            self.release(self.count)
        elif self.s.ring and left in self.groups:
            if self.s.ordered:
                raise Unfit("products of a turn are made while the next one computes, which needs no turns: leave "
                            "`ping_pong` out")  # fmt: skip
            self.wait(self.groups.index(left) + 1)

    def release(self, count: Int) -> None:
        """The stage of a turn may be filled again: told by each warp."""
        p = self.p
        stage, _ = self.stage(count)
        p.asm("bar.warp.sync -1;")
        with p.when(p.compare("eq", self.lane, 0)):
            ptx.arrive(p, self.empty(stage))
            for pair in range(len(self.s.pairs)):  # the other blocks copy to this one
                ptx.free_far(p, ptx.mapped(p, self.empty(stage), p.int("xori", self.rank, 1 << pair)))

    def release_last(self) -> None:
        """The stage of the turn before this, unless this is the first."""
        p = self.p
        with p.when(p.compare("ne", self.count, 0)):
            self.release(p.add(self.count, -1))

    def begin(self, level: int) -> Callable[[], None]:
        """Make the registers that live around loop `level`, wait for what is loaded once; gives what ends them."""
        k, plan, s = self.kernel, self.plan, self.s
        _, first_in, first_out, first_scratch, _ = k.splits
        refs = k.body.inputs
        stores: list[tuple[Any, Memory]] = []
        if level == 0:
            for n, number in enumerate(s.fixed):
                tile = self.tile_of(s.moved[number], self.fixed_address(n))
                ptx.wait(self.p, self.fixed_barrier(n), 0)
                self.refs[refs[first_in + number]] = TileRef(tile, lambda: None)
        for n, block in enumerate(k.outputs):
            if plan.output_homes[n] == level:
                register = self.register(refs[first_out + n], ArrayType(block.shape, block.array.dtype), level)
                stores.append((register, self.output(n, level)))
        for n, type_ in enumerate(k.scratch):
            if plan.scratch_homes[n] == level:
                self.register(refs[first_scratch + n], type_.array, level)

        def end() -> None:
            for register, memory in stores:
                place = whole(register.array.shape)
                memory.write(self, place, (), register.read(self, place, ()))

        return end

    def register(self, ref: Var, array: ArrayType, level: int) -> Any:
        found = Register(array, self._zeros(array))
        self.refs[ref] = found
        self.live.append((level, found))
        return found

    def _zeros(self, array: ArrayType) -> Lazy:
        zero = self.scalar(np.zeros((), array.dtype), array.dtype)
        return Lazy(array.shape, array.dtype, lambda p, place: zero.at(p, ()), fixed=True)

    def cell(self, program: Program, level: int) -> None:
        """A part of the body at the ids of the cell at hand, around loop number `level`."""
        k, s = self.kernel, self.s
        _, first_in, first_out, _, _ = k.splits
        refs, seen = k.body.inputs, {a for e in program.eqns for a in e.inputs}
        in_loop = self.in_turn = level == len(self.plan.carry)
        if in_loop and s.ring:
            stage, parity = self.stage(self.count)
            for n, number in enumerate(s.ring):
                tile = self.tile_of(s.moved[number], self.ring_address(n, stage))
                self.refs[refs[first_in + number]] = TileRef(tile, self._arrival(n, stage, parity))
        for n, block in enumerate(k.inputs):
            ref = refs[first_in + n]
            if ref in seen and n not in s.fixed and not (in_loop and n in s.ring):
                self.refs[ref] = self.window(block, self.names[len(k.prefetch) + n], block.fill)
        for n in range(len(k.outputs)):
            ref = refs[first_out + n]
            if ref in seen and self.plan.output_homes[n] is None:
                self.refs[ref] = self.output(n, level)
        self.inline(program, [*self.id_values(), *self.scalars, *(self.refs.get(v) for v in refs[first_in:])])
        self.ready()
        self.in_turn: bool = False

    def _arrival(self, n: int, stage: Int, parity: Int) -> Callable[[], None]:
        def wait() -> None:
            if self.waits.pop(n, None) is not None:
                ptx.wait(self.p, self.full(n, stage), parity)

        self.waits[n] = wait
        return wait

    def ready(self) -> None:
        """Wait for the tiles of this turn that nothing has waited for."""
        for wait in list(self.waits.values()):
            wait()

    # ------------------------------------------------------------ results

    def output(self, n: int, level: int) -> Memory:
        k = self.kernel
        number = len(k.prefetch) + len(k.inputs) + len(self.plan.copied) + n
        moved = self.s.stored.get(n) if level == 0 or not self.plan.carry else None
        start = self.starts(k.outputs[n])
        target = None if moved is None else lambda e, made: self.store(moved, made, start)
        return self.window(k.outputs[n], self.names[number], k.outputs[n].fill, changes=True, target=target)

    def store(self, moved: Moved, made: Fragment, start: list[Int]) -> bool:
        """Registers through swizzled shared memory to the copy engine; False where they are not laid out for it.

        The stages are free by then: all that was copied into them was used.
        """
        p, block = self.p, moved.block
        visible = [d for d, gone in enumerate(block.squeezed) if not gone]
        if [made.layout.rows, made.layout.cols] != [visible.index(a) for a in moved.axes] or not made.paired:
            return False
        part = self.rows // self.consumers
        size = part * moved.chunks * ptx.ROW
        base = self.spare(size * self.consumers)
        if base is None:
            return False
        base = p.add(base, p.mul(self.mine, size))
        if self.s.blocks:  # the tile before this may still be on its way from there
            with p.when(p.compare("eq", self.lane_of_group, 0)):
                ptx.bulk_wait(p, read=True)
            ptx.bar_sync(p, p.add(self.mine, 2), 128)
        self.matrices(moved, made, base)
        ptx.fence_proxy(p)
        ptx.bar_sync(p, p.add(self.mine, 2), 128)
        with p.when(p.compare("eq", self.lane_of_group, 0)):
            for chunk in range(moved.chunks):
                for first in range(0, part, moved.rows):
                    place = [start[d] for d in moved.order]
                    place[0] = p.add(place[0], chunk * moved.columns)
                    place[1] = p.add(place[1], first, p.mul(self.mine, part))
                    at = p.add(base, chunk * part * ptx.ROW + first * ptx.ROW)
                    ptx.tma_store(p, self.descriptors[moved.argument], place, at)
            ptx.bulk_commit(p)
            if not self.s.blocks:
                ptx.bulk_wait(p)
        return True

    def stored_all(self) -> None:
        """Wait for what the copy engine still stores at the end of a block of many tiles."""
        if self.s.blocks and self.s.stored:
            with self.p.when(self.p.compare("eq", self.lane_of_group, 0)):
                ptx.bulk_wait(self.p)

    def matrices(self, moved: Moved, made: Fragment, base: Int) -> None:
        """Registers in the swizzled rows of this warpgroup's part, 16 columns at a time."""
        p, part = self.p, self.rows // self.consumers
        for r in range(0, len(made.regs), 2):
            row = p.add(p.mul(p.int("andi", self.warp, 3), 16), p.int("andi", self.lane, 15), 32 * r)
            for i in range(moved.block.sizes[moved.axes[1]] // 16):
                words = [made.regs[r + h][2 * i + j] for j in range(2) for h in range(2)]
                part_of_row = p.add(p.int("shrui", self.lane, 4), 2 * (i % 4))
                within = p.mul(p.int("xori", part_of_row, p.int("andi", row, 7)), 16)
                at = p.add(base, p.mul(row, ptx.ROW), within, i // 4 * part * ptx.ROW)
                ptx.stmatrix(p, at, words)

    def spare(self, size: int) -> Int | None:
        """Shared memory for results once the loops are through: the stages, or memory of its own where those go on."""
        s = self.s
        if s.ring and not s.blocks and self.spared + size <= s.stages * s.stage_bytes:
            if not self.spared:
                self.wait()
                self.gather()
            self.spared += size
            return self.p.add(self.shared, s.ring_start + self.spared - size)
        return self.keep(size, ptx.ATOM) if s.blocks or not s.ring else None
