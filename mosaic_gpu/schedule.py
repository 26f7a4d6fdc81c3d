"""How a kernel is divided: warpgroups that compute, what the copy engine moves, and the ring of stages it is moved to.

    Schedule ::= plan, rows, consumers, fixed tiles, ring tiles, stored tiles, stages, bytes kept

One warpgroup produces: a thread of it waits until a stage is free and starts the copies of a turn. `consumers`
warpgroups compute: each has its part of the rows of a block, and registers that the first one has given up. Shared
memory, from its start:

    descriptors | barriers | tiles that are loaded once | what bodies keep | stages
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from ..core.ir.program import Eqn, Program, Var, subprograms
from ..core.ir.types import is_bool
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.refs.state_primitives import get_p
from ..lang.analysis.index_maps import inside, map_of
from ..lang.kernel.kernel import Block
from ..lang.legalize import Unfit
from ..lang.loopnest.full_blocks import FullBlocks, full_blocks
from ..lang.loopnest.loop_bounds import Bounds, narrow
from ..lang.loopnest.peeling import Peeled, peeled
from ..lang.loopnest.plan import Plan
from ..lang.targets.target import Target
from . import ptx
from .mma_types import FLOAT32

MOST_STAGES, MOST_CONSUMERS, MOST_BOX = 8, 2, 256
MOST_SITES = 12  # products of a body, whose sums are in tensor memory
HOPPER, BLACKWELL = "cuda:sm_90", "cuda:sm_100"
GROUP = 128  # threads of a warpgroup
TOGETHER = 16  # multiprocessors of the smallest part of a GPU whose blocks may be a cluster (GPC): an assumption
# Registers of a thread of the warps that copy, and of those that compute, by how many warpgroups compute: of 65536.
REGISTERS = {2: (24, 240), 3: (32, 160)}
BUSY = {2: (40, 232), 3: (40, 152)}  # where the warps that copy also count tiles, or copy to other blocks


@dataclass(frozen=True)
class Moved:
    """An operand that the copy engine moves, by tiles of 128 bytes a row; sizes and strides (bytes) innermost first."""

    argument: int  # of the launch
    block: Block
    axes: tuple[int, int]  # of the array: rows and columns of the tile
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]  # the array's axes, innermost first
    rows: int  # of one box
    element: str  # of the descriptor
    half: str = ""  # of which one block of a pair has: "copied" to both, "rows" or "columns" of the right operand
    pair: int = 0  # of the cluster's, whose blocks have halves

    @property
    def columns(self) -> int:
        """Of one box: 128 bytes."""
        return ptx.ROW // self.block.array.dtype.itemsize

    @property
    def box(self) -> ptx.Box:
        shape = (self.columns, self.rows, *(1,) * (len(self.sizes) - 2))
        return ptx.Box(self.argument, self.sizes, self.strides, shape, self.element, True)

    @property
    def chunks(self) -> int:
        """How many boxes are beside each other; the last one may reach past the block, where nothing is used."""
        found = -(-self.block.sizes[self.axes[1]] // self.columns)
        return found // 2 if self.half == "columns" else found

    @property
    def held(self) -> int:
        """How many rows a block has."""
        return self.block.sizes[self.axes[0]] // (2 if self.half == "rows" else 1)

    @property
    def size(self) -> int:
        return self.held * self.chunks * ptx.ROW

    @property
    def stores(self) -> bool:
        """Whether boxes that are stored change nothing but the block: what is past the array's end is dropped."""
        axis, columns = self.axes[1], self.block.sizes[self.axes[1]]
        return columns % 16 == 0 and (columns % self.columns == 0 or columns == self.block.array.shape[axis])


@dataclass(frozen=True)
class Strip:
    """An operand of which a block is 16 n bytes that lie side by side, which the copy engine moves as they are."""

    argument: int  # of the launch
    block: Block
    half: ClassVar[str] = ""

    @property
    def size(self) -> int:
        return self.block.sizes[-1] * self.block.array.dtype.itemsize


@dataclass(frozen=True)
class Schedule:
    """See the module. Tiles are given by the numbers of inputs."""

    plan: Plan
    parts: Peeled  # what runs before, in and after the loops
    turns: Bounds | None  # of the innermost loop, where not all
    rows: int
    consumers: int
    moved: dict[int, Moved | Strip]
    fixed: tuple[int, ...]
    ring: tuple[int, ...]
    stored: dict[int, Moved]  # by the numbers of outputs
    limit: int  # bytes of shared memory
    asked: int | None  # stages
    kept: int = 0
    columns: int = 512  # of tensor memory
    pairs: tuple[int, ...] = ()  # the axes of the grid in each of which two blocks of a cluster differ
    joint: bool = False  # whose products are made together
    ordered: bool = False  # two warpgroups take turns at starting products
    full: FullBlocks | None = None  # the turns without masks
    blocks: int = 0  # that make all tiles of results, one after the other; 0: each makes one

    @property
    def cluster(self) -> int:
        """How many blocks' copies land in each other's memory."""
        return 2 ** len(self.pairs)

    @property
    def threads(self) -> int:
        return GROUP * (self.consumers + 1)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Of a thread that copies, and of one that computes; None: as the launch has it."""
        return (BUSY if self.blocks or self.cluster > 1 else REGISTERS).get(self.consumers)

    @property
    def described(self) -> list[Moved]:
        return [*(moved for moved in self.moved.values() if isinstance(moved, Moved)), *self.stored.values()]

    @property
    def barriers(self) -> int:
        """The offset of the barriers: of each fixed tile; for each stage, of each ring tile and of its release."""
        return ptx.DESCRIPTOR * len(self.described)

    @property
    def tiles(self) -> int:
        """The offset of the fixed tiles."""
        return _up(self.sites + 8 * MOST_SITES * MOST_CONSUMERS)

    @property
    def more(self) -> int:
        """The offset of a barrier of the form's own, and of a word."""
        return self.barriers + 8 * (len(self.fixed) + MOST_STAGES * (len(self.ring) + 1))

    @property
    def sites(self) -> int:
        """The offset of the barriers that tell of products in tensor memory."""
        return self.more + 16

    @property
    def keeps(self) -> int:
        """The offset of what bodies keep."""
        return _up(self.tiles + sum(self.moved[n].size for n in self.fixed))

    @property
    def stage_bytes(self) -> int:
        return _up(sum(self.moved[n].size for n in self.ring))

    @property
    def ring_start(self) -> int:
        return _up(self.keeps + self.kept)

    @property
    def stages(self) -> int:
        """As many as fit, or as were asked for."""
        if not self.ring:
            return 0
        turns = math.prod(self.plan.kernel.grid[a] for a in self.plan.carry)
        fit = (self.limit - self.ring_start) // self.stage_bytes
        if fit < 1:
            raise Unfit(f"its blocks take {self.ring_start + self.stage_bytes} bytes of shared memory, and there are "
                        f"{self.limit}: take smaller blocks")  # fmt: skip
        return max(1, min(self.asked or MOST_STAGES, fit, MOST_STAGES if self.blocks else turns, MOST_STAGES))

    @property
    def shared(self) -> int:
        found = self.ring_start + self.stages * self.stage_bytes
        if found > self.limit:
            raise Unfit(f"its blocks take {found} bytes of shared memory, and there are {self.limit}: take smaller "
                        "blocks")  # fmt: skip
        return found

    def tiled(self, units: int, cluster: int) -> Schedule:
        """With as many blocks as multiprocessors run at once in clusters; they make all tiles of results between them.

        Raises:
          Unfit: why each block makes one.
        """
        units = units // TOGETHER * TOGETHER if cluster > 2 and units >= TOGETHER else units // cluster * cluster or 1
        if self.plan.programs <= units:
            raise Unfit(f"{self.plan.programs} blocks of results, and {units} multiprocessors: each makes one at most; "
                        "leave `persistent` out")  # fmt: skip
        if self.fixed or not self.ring:
            raise Unfit("a block that makes many tiles of results copies what it reads turn by turn, and of this "
                        "something once: leave `persistent` out")  # fmt: skip
        return replace(self, blocks=units)

    def keeping(self, size: int, columns: int) -> Schedule:
        return replace(self, kept=size, columns=columns)


def _up(n: int) -> int:
    return -(-n // ptx.ATOM) * ptx.ATOM


def schedule(plan: Plan, target: Target, stages: int | None, consumers: int | None) -> Schedule:
    """The schedule of a planned kernel.

    Raises:
      Unfit: why it is not for this backend.
    """
    k = plan.kernel
    blackwell = target.name.startswith(BLACKWELL)
    if not blackwell and not target.name.startswith(HOPPER):
        raise Unfit(f"it is for Hopper (sm_90) and Blackwell (sm_100), not for {target.name}")
    if any(plan.used[k.body.inputs[k.splits[1] + i]] or not plan.atomic[o] for i, o in k.aliases):
        raise Unfit("operands share memory with results, and blocks do more than to update it: update by atomic "
                    "operations, or leave `input_output_aliases` out")  # fmt: skip
    if any(home is None for home in plan.scratch_homes):
        raise Unfit("scratch of which parts are read and written lies in global memory: read and write the whole of it")
    shapes = [eqn.outputs[0].type.shape for eqn in products(k.body)]
    rows = {shape[0] for shape in shapes if len(shape) == 2}
    if not rows:
        raise Unfit("there is no product of matrices in it, which alone gains by copies of its own warps")
    if len(rows) > 1 or max(rows) % 64:
        raise Unfit(f"its products have {' and '.join(map(str, sorted(rows)))} rows: take blocks of one number of "
                    "rows, a multiple of 64")  # fmt: skip
    (height,) = rows
    if blackwell and height not in (128, 256):
        raise Unfit(f"blocks of {height} rows: on Blackwell take 128, or 256, of two warpgroups")
    many = height // 128 if blackwell else consumers or min(MOST_CONSUMERS, height // 64)
    if height // 64 % many:
        raise Unfit(f"{height} rows are not divided by 64 among {many} warpgroups: ask for fewer `consumers`")
    parts, turns, full = _parts(plan)
    read = {a for e in parts.main.eqns for a in e.inputs}
    first, proved = len(k.prefetch), {id(b): inside(k, b) for b in k.blocks}
    moved: dict[int, Moved | Strip] = {}
    strips: dict[int, Strip] = {}
    for n, block in enumerate(k.inputs):
        found = _moved(first + n, block, proved[id(block)])
        ref = k.body.inputs[k.splits[1] + n]
        whole = any(a.primitive is get_p and a.index.is_whole(block.shape) for a in plan.used[ref])
        if ref in read and found is not None and whole:
            tf32 = block.array.dtype == FLOAT32 and _multiplied(parts.main, ref)
            moved[n] = replace(found, element="tf32") if tf32 else found
        elif ref in read and whole and _is_strip(block, proved[id(block)]):
            strips[n] = Strip(first + n, block)
    once = {n for n in (*moved, *strips) if not plan.carry or steady(plan, k.inputs[n], plan.carry)}
    # Strips only go along with tiles: a block that makes many results, or has no loop, copies none for their sake.
    moved |= {n: strip for n, strip in strips.items() if any((n in once) == (tile in once) for tile in moved)}
    fixed = tuple(n for n in moved if n in once)
    outs = first + len(k.inputs) + len(plan.copied)
    stored = {}
    for n, block in enumerate(k.outputs):
        out = _moved(outs + n, block, proved[id(block)])
        if (
            out is not None
            and not plan.atomic[n]
            and out.stores
            and block.array.dtype.itemsize == 2
            and out.block.sizes[out.axes[0]] == height
        ):
            stored[n] = replace(out, rows=min(height // many, MOST_BOX))
    return Schedule(plan, parts, turns, height, many, moved, fixed, tuple(n for n in moved if n not in fixed), stored,
                    target.fast_bytes, stages, full=full)  # fmt: skip


def _parts(plan: Plan) -> tuple[Peeled, Bounds | None, FullBlocks | None]:
    """The body without what only first and last cells do, the turns in which it does something, those without masks."""
    k = plan.kernel
    homes = (*plan.output_homes, *plan.scratch_homes)
    registers = zip(k.body.inputs[k.splits[2] :], homes, strict=True)
    parts = peeled(k, plan.carry, {v: h for v, h in registers if h is not None})
    if not plan.carry:
        return parts, None, None
    main, turns = narrow(k, plan.carry[-1], parts.main)
    return replace(parts, main=main), turns, full_blocks(k, plan.carry[-1], main)


def steady(plan: Plan, block: Block, axes: tuple[int, ...]) -> bool:
    """Whether a block is the same along some axes of the grid."""
    fact = map_of(plan.kernel, block)
    form = None if fact is None else fact.affine
    return form is not None and not any(terms.get(a) for terms in form.coefficients for a in axes)


def products(program: Program) -> list[Eqn]:
    """The products in a Program and those within it."""
    found: list[Eqn] = []
    for eqn in program.eqns:
        found += [eqn] if eqn.primitive is dot_general_p else []
        for _, inner in subprograms(eqn):
            found += products(inner)
    return found


def _moved(argument: int, block: Block, proved: tuple[tuple[bool, bool], ...]) -> Moved | None:
    """How the copy engine moves a block, if it does: a matrix of an array of 5 axes, of rows of 16 n bytes."""
    array, size = block.array, block.array.dtype.itemsize
    long = [d for d, n in enumerate(block.sizes) if n > 1]
    if len(long) != 2 or long[1] != array.ndim - 1 or array.ndim > 5 or str(array.dtype) not in ptx.ELEMENT:
        return None
    row, col = long
    rows, columns = block.sizes[row], block.sizes[col]
    strides = [math.prod(array.shape[d + 1 :]) * size for d in range(array.ndim)]
    whole = all(map(all, proved)) or block.fill is None or block.fill == 0
    if columns * size % 16 or rows % 8 or rows > MOST_BOX and rows % MOST_BOX or any(s % 16 for s in strides[:-1]):
        return None
    if not whole or is_bool(array.dtype) or any(n >= 2**32 for n in array.shape):
        return None
    order = (col, row, *(d for d in reversed(range(array.ndim)) if d not in long))
    return Moved(
        argument, block, (row, col), tuple(array.shape[d] for d in order), tuple(strides[d] for d in order), order,
        min(rows, MOST_BOX), str(array.dtype))  # fmt: skip


def _is_strip(block: Block, proved: tuple[tuple[bool, bool], ...]) -> bool:
    """Whether blocks are some numbers of 32 bits along the last axis, which all begin at a multiple of 16 bytes."""
    array, sizes = block.array, block.sizes
    return (bool(sizes) and math.prod(sizes) == sizes[-1] > 1 and array.dtype.itemsize == 4 and not any(block.element)
            and sizes[-1] % 4 == array.shape[-1] % 4 == 0 and not block.squeezed[-1] and all(map(all, proved))
            and not is_bool(array.dtype))  # fmt: skip


def _multiplied(program: Program, ref: Var) -> bool:
    """Whether what is read of a Ref goes to products alone: then the copy engine rounds it to TF32."""
    read = {e.outputs[0] for e in program.eqns if e.primitive is get_p and e.inputs[0] is ref}
    users = [e for e in program.eqns if ref in e.inputs or any(v in read for v in e.inputs if isinstance(v, Var))]
    return all(e.primitive in (get_p, dot_general_p) for e in users) and not any(v in read for v in program.outputs)
