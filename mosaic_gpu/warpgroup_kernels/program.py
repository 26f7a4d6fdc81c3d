"""The program of one block of warpgroups: descriptors, barriers and memory, then the body as it stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...core.ir.array import DTypeLike
from ...core.ir.program import Eqn, Program
from ...core.ir.types import INT32, ArrayType, MemorySpace, is_bool
from ...core.support.errors import UnsupportedError
from ...lang.kernel.kernel import Kernel
from ...lang.legalize import Unfit
from ...lang.ops.basic import next_power_of_2
from ...lang.warpgroups.specs import Mesh
from .. import ptx, tcgen05
from ..lower import LANES, Lowering
from ..refs import Register
from ..text import Int, Printer
from ..values import Fragment, Layout, Lazy, Product, computed, halves
from .memory import Barriers, Global, Shared, Sums, Zeros
from .rules import BACKEND
from .sizes import barriers_of, paired, rows_of

if TYPE_CHECKING:
    from ..ptx import Box


@dataclass
class Found:
    """What a body needs of its block, which is known once it has been printed."""

    boxes: list[ptx.Box] = field(default_factory=list)
    kept: int = 0
    plain: frozenset[str] = frozenset()  # Refs whose rows are copied from anywhere


class Direct(Lowering):
    """A body that every warpgroup of a block runs."""

    backend = BACKEND

    kernel: Kernel
    mesh: Mesh
    names: Sequence[str]
    known: Found
    boxes: list[Box]
    plain: set[str]
    own_rows: bool
    matrix: Callable[..., str]
    memory: str
    waited: bool
    elected: str
    by_warps: bool
    turning: tuple[int, int]
    lane: Int
    warp: Int

    def __init__(self, p: Printer, kernel: Kernel, mesh: Mesh, names: Sequence[str], known: Found, tensor: bool):
        super().__init__(p, kernel.name, rows_of(kernel), 1)
        self.kernel, self.mesh, self.names, self.known = kernel, mesh, names, known
        self.boxes, self.plain = list(known.boxes), set(known.plain)
        self.tensor = tensor
        if tensor:
            self.own_rows, self.matrix, self.turning = True, tcgen05.matrix, (1, 2)
        self.descriptors: dict[ptx.Box, str] = {}
        self.together = self.read = False  # all threads are past their stores; a load came since
        self.waited = False  # a wait at a barrier came since, which others may not have passed
        self.joint: bool = paired(kernel)
        self.rank: Int = ptx.rank(p) if mesh.blocks > 1 else 0

    # ------------------------------------------------------------ the block

    def print(self, shared: str, block: Sequence[str], thread: str, described: str) -> None:
        p, k = self.p, self.kernel
        (warp,) = p.asm("shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;", "=r,r",
                        [p.name(p.int("shrui", thread, 5))], ["i32"], ["i32"])  # fmt: skip
        self.lane, self.warp = p.int("andi", thread, 31), p.int("andi", warp, 3)
        self.warpgroup: Int = p.int("shrui", warp, 2)
        self.lane_of_group: Int = p.add(p.mul(self.warp, 32), self.lane)
        if self.own_rows:
            self.row, self.column = self.lane_of_group, 0
        else:
            self.row = p.add(p.mul(self.warp, 16), p.int("shrui", self.lane, 2))
            self.column = p.mul(p.int("andi", self.lane, 3), 2)
        self.elected = p.compare("eq", self.lane_of_group, 0)
        ids = self._ids(block[0])
        refs = self._refs(shared)
        self._describe(shared, described, block[0], warp)
        with p.when(p.compare("eq", thread, 0)):
            for barriers in refs:
                if isinstance(barriers, Barriers):
                    for n in range(math.prod(barriers.shape)):
                        ptx.barrier_init(p, barriers.at(self, n), barriers.count)
            p.asm("fence.mbarrier_init.release.cluster;")
        if self.columns:
            with p.when(p.compare("eq", warp, 0)):
                tcgen05.allocate(p, self.slot, self.columns, 1 + self.joint)
        self.everyone()
        for name in self.descriptors.values():
            ptx.acquire(p, name)
        if self.columns:
            (self.memory,) = p.asm("ld.shared.b32 $0, [$1];", "=r,r", [p.name(self.slot)], ["i32"], ["i32"])
        self.inline(k.body, [*ids, *refs])
        self.wait()
        if self.columns:
            tcgen05.left(p)
        if self.columns or self.mesh.blocks > 1:  # a block that has ended is reached by no other
            self.everyone()
        if self.columns:
            with p.when(p.compare("eq", warp, 0)):
                tcgen05.waited(p)
                tcgen05.release(p, self.memory, self.columns, 1 + self.joint)

    def everyone(self) -> None:
        """Wait for all threads of the cluster."""
        if self.mesh.blocks > 1:
            ptx.cluster_sync(self.p)
        else:
            self.p.line("gpu.barrier")

    def peers(self, axes: Sequence[int]) -> tuple[list[Int], Int]:
        """The blocks of the cluster along some axes, and which of them this one is."""
        p, first, mine = self.p, self.rank, 0
        for n, step, own in self.mesh.strides(axes):
            at = p.int("remui", p.int("divui", self.rank, step), n)
            first, mine = p.int("subi", first, p.mul(at, step)), p.add(mine, p.mul(at, own))
        return [p.add(first, offset) for offset in self.mesh.offsets(axes)], mine

    @property
    def pair(self) -> Int:
        """The blocks of this one's pair, which differ in the last axis of the cluster, as bits."""
        return 3 if self.mesh.blocks == 2 else self.p.int("shli", 3, self.p.int("andi", self.rank, -2))

    def _ids(self, number: str) -> list[Lazy]:
        """The place of the block along each axis of the mesh, and the number of the warpgroup."""
        p, rest = self.p, number
        found: list[Int] = [self.warpgroup]
        for n in reversed(self.mesh.sizes[:-1]):
            found.append(p.int("remui", rest, n))
            rest = p.int("divui", rest, n)
        made = map(p.name, reversed(found))
        return [Lazy((), INT32, lambda p, place, name=name: name, fixed=True) for name in made]

    def _refs(self, shared: str) -> list[Any]:
        """What the Refs of the body are; shared memory is given out in their order, after descriptors and barriers."""
        p, k = self.p, self.kernel
        refs: list[Any] = []
        for n, block in enumerate(k.blocks):
            if is_bool(block.array.dtype):
                raise Unfit(f"operand {block.name} is of booleans: give it as int8, and compare")
            refs.append(Global(n, self.names[n], block.array, n >= len(k.inputs)))
        start = ptx.DESCRIPTOR * len(self.known.boxes)
        first, columns = k.splits[3], 0
        stated = barriers_of(k)
        for n, type_ in enumerate(k.scratch):
            name, array = k.scratch_name(first + n), type_.array
            if type_.space is MemorySpace.SEMAPHORE:
                made = Barriers(name, p.add(shared, start), type_.shape)
                known = stated.get(k.body.inputs[first + n])
                if known is not None:
                    made.count, made.tensor = known["arrivals"], known["tensor"]
                    made.axes, made.leader = known["axes"], known["leader"]
                start += 8 * array.size
                refs.append(made)
            elif type_.space is MemorySpace.REGS:
                refs.append(self.zeros(array))
            elif type_.space is MemorySpace.TMEM:
                whole = array.dtype.itemsize == 4 or halves(array.dtype) and array.shape[-1] % 2 == 0
                if len(array.shape) < 2 or array.shape[-2] != 128 or not whole:
                    raise Unfit(f"{name} of {array.show()} in tensor memory: give it 128 rows of float32, or of 16-bit "
                                "floats in pairs")  # fmt: skip
                refs.append(Sums(name, columns, array))
                columns += array.nbytes // 512
            else:
                refs.append(Shared(name, 0, array, name in self.known.plain))
        self.slot: Int = p.add(shared, start)
        self.columns: int = max(next_power_of_2(columns), 32) if columns else 0
        start = _up(start + 16)
        for ref in refs:
            if isinstance(ref, Shared):
                ref.address = p.add(shared, start)
                start = _up(start + ref.array.nbytes)
        self.keeps: Int = p.add(shared, start, p.mul(self.warpgroup, _up(self.known.kept)))
        self.size: int = start + self.mesh.threads * _up(self.known.kept)
        return refs

    def zeros(self, array: ArrayType) -> Any:
        """An accumulator."""
        return Register(array, self.zero(array))

    def zero(self, array: ArrayType) -> Zeros:
        zero = self.scalar(0, array.dtype)
        return Zeros(array.shape, array.dtype, lambda p, place: zero.at(p, ()), fixed=True)

    def _describe(self, shared: str, described: str, block: Int, warp: str) -> None:
        """Make the descriptors in shared memory, and put them where the copy engine reads them."""
        p, boxes = self.p, self.known.boxes
        if not boxes:
            return
        start = p.pure(f"arith.extui {p.name(p.mul(block, ptx.DESCRIPTOR * len(boxes)))} : i32 to i64")
        base = p.pure(f"llvm.getelementptr {described}[{start}] : (!llvm.ptr, i64) -> !llvm.ptr, i8")
        for n, box in enumerate(boxes):
            self.descriptors[box] = p.pure(
                f"llvm.getelementptr {base}[{ptx.DESCRIPTOR * n}] : (!llvm.ptr) -> !llvm.ptr, i8"
            )
        with p.when(p.compare("eq", warp, 0)):
            for n in range(len(boxes)):
                at = p.add(shared, ptx.DESCRIPTOR * n, p.mul(self.lane, 4))
                p.asm("st.shared.b32 [$0], $1;", "r,r", [p.name(at), p.constant(0)], ["i32", "i32"])
            p.asm("bar.warp.sync -1;")
            with p.when(p.compare("eq", self.lane, 0)):
                for n, box in enumerate(boxes):
                    ptx.describe(p, p.add(shared, ptx.DESCRIPTOR * n), self.names[box.argument], box)
            p.asm("bar.warp.sync -1;")
            for n, box in enumerate(boxes):
                ptx.publish(p, self.descriptors[box], p.add(shared, ptx.DESCRIPTOR * n))

    def descriptor(self, box: ptx.Box) -> str:
        """The pointer to a descriptor; a first printing only finds out which there are."""
        if box not in self.boxes:
            self.boxes.append(box)
        return self.descriptors.get(box, "%described")

    @property
    def found(self) -> Found:
        return Found(self.boxes, self.kept, frozenset(self.plain))

    # ------------------------------------------------------------ equations

    def inline(self, program: Program, operands: Sequence[Any]) -> list[Any]:
        self.apart()  # in a branch or a turn, threads may come from different places
        return super().inline(program, operands)

    def ruled(self, eqn: Eqn, operands: list[Any]) -> list[Any]:
        try:
            return super().ruled(eqn, operands)
        except Unfit as error:
            raise UnsupportedError(f"kernel {self.name}: {eqn.primitive}: {error}", REMEDY, eqn.source) from None

    def result(self, eqn: Eqn, found: Any) -> Any:
        if self.by_warps and isinstance(found, Fragment):
            raise UnsupportedError(f"kernel {self.name}: {eqn.primitive}: an array in the registers of a warp by "
                                   "itself: its rows are divided among the four", REMEDY, eqn.source)  # fmt: skip
        if not isinstance(found, (Lazy, Fragment)) or found.shape:
            return found
        name = self.word(found)
        return Lazy((), found.dtype, lambda p, place: name, fixed=True)

    def word(self, value: Any) -> str:
        """A scalar in a register."""
        return value.at(self.p, ()) if isinstance(value, Lazy) else self.element(value, value.layout, 0, 0)

    def settled_value(self, value: Any) -> Any:
        value = self.settled(value) if isinstance(value, Product) else value
        if isinstance(value, Fragment):
            self.settle(value)
        return value

    def held(self, value: Lazy) -> Any:
        """What memory holds now, in registers."""
        if not value.shape:
            name = value.at(self.p, ())
            return Lazy((), value.dtype, lambda p, place: name, fixed=True)
        return self.fragment(value)

    # ------------------------------------------------------------ threads of a warpgroup

    def gather(self) -> None:
        """Wait for all threads of the warpgroup, or of the warp that is by itself."""
        if self.by_warps:
            self.p.asm("bar.warp.sync -1;")
        else:
            ptx.bar_sync(self.p, self.p.add(self.warpgroup, 1), LANES)
        self.together, self.read, self.waited = True, False, False

    def meet(self) -> None:
        """Wait for all threads of the warpgroup, where one may be behind."""
        if not self.together or self.read or self.waited:
            self.gather()

    def apart(self) -> None:
        """From here on threads may be at different places."""
        self.together = False

    def reads(self) -> None:
        """Memory that threads of the warpgroup may have written is read."""
        if not self.together:
            self.gather()
        self.read: bool = True

    def writes(self) -> None:
        """Memory that they may be reading is written."""
        if not self.together or self.read:
            self.gather()
        self.together: bool = False

    def warps(self, program: Program, operands: Sequence[Any]) -> None:
        """A Program on each warp by itself, whose last input is the number of the warp."""
        self.wait()
        self.gather()
        whole, self.elected, self.by_warps = self.elected, self.p.compare("eq", self.lane, 0), True
        number = self.p.name(self.warp)
        self.inline(program, [*operands, Lazy((), INT32, lambda p, place: number, fixed=True)])
        self.elected, self.by_warps = whole, False
        self.gather()

    def owner(self, layout: Layout) -> str | None:
        """As elsewhere; a number is of one thread of a warp that is by itself."""
        return self.elected if layout.rows is None and layout.cols is None else super().owner(layout)

    def lanes(self, column: Int) -> Int:
        """The address of a column of tensor memory in the rows of this warp."""
        return self.p.add(self.memory, self.p.int("shli", self.p.mul(self.warp, 32), 16), column)

    def ready(self) -> None:
        """Nothing is awaited but what the body says."""

    def wait(self, count: int | None = None) -> None:
        if count or (count is None and self.groups):
            self.apart()
        super().wait(count)

    def put(self, address: Int, number: str, dtype: DTypeLike, owner: str | None) -> None:
        """Store a number in shared memory, by the threads that own it."""
        p, bits = self.p, 8 * dtype.itemsize

        def put() -> None:
            if bits == 32:
                type_ = computed(dtype)
                p.asm("st.shared.b32 [$0], $1;", f"r,{'f' if type_ == 'f32' else 'r'}", [p.name(address), number],
                      ["i32", type_])  # fmt: skip
            else:
                raise Unfit(f"single numbers of {dtype} are stored in shared memory: store matrices, or numbers of 32 "
                            "bits")  # fmt: skip

        if owner is None:
            put()
        else:
            with p.when(owner):
                put()

    def spread(self, shape: tuple[int, ...], put: Callable[..., None]) -> None:
        """Each element of a part is stored by one thread: `put(p, place, owner)`."""
        p, size = self.p, math.prod(shape)
        many, lane = (32, self.lane) if self.by_warps else (LANES, self.lane_of_group)
        for first in range(0, size, many):
            at = p.add(lane, first)
            owner = p.compare("slt", at, size) if first + many > size else None
            place: list[Int] = []
            for n in reversed(shape):
                place.insert(0, p.int("remui", at, n))
                at = p.int("divui", at, n)
            if owner is None:
                put(p, place, None)
            else:
                with p.when(owner):
                    put(p, place, None)


REMEDY = "change the body at this line as it says; `interpret=True` runs it as it is"


def _up(n: int) -> int:
    return -(-n // ptx.ATOM) * ptx.ATOM
