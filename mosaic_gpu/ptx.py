"""The instructions of Hopper that copy and multiply by themselves, and the barriers that tell of their end.

Sources: the PTX ISA, on mbarrier, cp.async.bulk.tensor, tensormap.replace, wgmma and stmatrix. Addresses in shared
memory are i32. With the 128-byte swizzle, the 16-byte parts of each row of 128 bytes are exchanged by the row's number
modulo 8; a tile of more than 128 bytes a row is stored as several tiles of 128 bytes a row, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .text import Int, Printer

ROW = 128  # bytes of a row of a swizzled tile
ATOM = 8 * ROW  # bytes after which the swizzle repeats
DESCRIPTOR = 128  # bytes
# Types of elements by the numbers of tensormap.replace, which are not all those of the driver's CUtensorMapDataType.
ELEMENT = {"uint8": 0, "int8": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1, "uint32": 2, "int32": 3,
           "float16": 6, "float32": 7, "bfloat16": 10, "tf32": 11}  # fmt: skip


# ---------------------------------------------------------------------------- barriers


def barrier_init(p: Printer, address: Int, count: int) -> None:
    p.asm(f"mbarrier.init.shared::cta.b64 [$0], {count};", "r", [p.name(address)], ["i32"])


def expect(p: Printer, address: Int, size: int) -> None:
    """Arrive at a barrier whose phase also waits for some bytes."""
    p.asm(f"mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [$0], {size};", "r", [p.name(address)], ["i32"])


def arrive(p: Printer, address: Int) -> None:
    p.asm("mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];", "r", [p.name(address)], ["i32"])


def wait(p: Printer, address: Int, parity: Int, scope: str = "cta") -> None:
    """Wait until the phase of a parity has ended; `scope`: whether the block arrives there (cta) or a cluster."""
    p.asm(f"{{ .reg .pred p; L_${{:uid}}: mbarrier.try_wait.parity.acquire.{scope}.shared::cta.b64 p, [$0], $1, "
          "10000000; @p bra.uni D_${:uid}; bra.uni L_${:uid}; D_${:uid}: }", "r,r",
          [p.name(address), p.name(parity)], ["i32", "i32"])  # fmt: skip


def rank(p: Printer) -> str:
    """The number of this block in its cluster."""
    return p.asm("mov.u32 $0, %cluster_ctarank;", "=r", [], [], ["i32"], pure=True)[0]


def mapped(p: Printer, address: Int, rank: Int) -> str:
    """The address of the same place in the shared memory of a block of the cluster."""
    return p.asm("mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", [p.name(address), p.name(rank)], ["i32", "i32"],
                 ["i32"], pure=True)[0]  # fmt: skip


def again(p: Printer, x: Int) -> str:
    """The same number, of which the compiler does not know that it is: what is made of it is computed anew."""
    return p.asm("// again", "=r,0", [p.name(x)], ["i32"], ["i32"])[0]


def arrive_far(p: Printer, address: str) -> None:
    """Arrive at a barrier of a block of the cluster, after all that this thread has written."""
    p.asm("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [$0];", "r", [address], ["i32"])


def free_far(p: Printer, address: str) -> None:
    """Arrive at a barrier of a block of the cluster that tells that memory was read, which the copy engine then fills.

    It orders no writes of this thread, so it needs no fence of the whole GPU. CUTLASS's barriers of pipelines have the
    same form.
    """
    p.asm("mbarrier.arrive.shared::cluster.b64 _, [$0];", "r", [address], ["i32"])


def cluster_sync(p: Printer) -> None:
    """Wait for all threads of the cluster."""
    p.asm("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;")


def bar_sync(p: Printer, number: Int, threads: int) -> None:
    """Wait for some threads at one of the 16 barriers of a block."""
    if isinstance(number, int):
        p.asm(f"bar.sync {number}, {threads};")
    else:
        p.asm(f"bar.sync $0, {threads};", "r", [number], ["i32"])


def bar_arrive(p: Printer, number: Int, threads: int) -> None:
    """Be one of the threads that some wait for at a barrier of a block, without a wait."""
    p.asm(f"bar.arrive $0, {threads};", "r", [p.name(number)], ["i32"])


def fence_proxy(p: Printer) -> None:
    """What this thread wrote to shared memory is seen by copies and products that are asynchronous."""
    p.asm("fence.proxy.async.shared::cta;")


def registers(p: Printer, how: str, count: int) -> None:
    """Give up registers of each thread of a warpgroup (`dec`), or take what others have given up (`inc`)."""
    p.asm(f"setmaxnreg.{how}.sync.aligned.u32 {count};")


# ---------------------------------------------------------------------------- copies


def tma_load(p: Printer, to: Int, descriptor: str, coordinates: Sequence[Int], barrier: Int, blocks: Int = 0,
             joint: bool = False) -> None:  # fmt: skip
    """Copy a tile to shared memory; `coordinates` innermost first; its bytes are counted at a barrier.

    `blocks`: the bits of those of the cluster to which it is copied; 0: this one. `joint`: the barrier may be of the
    other block of a pair.
    """
    n = len(coordinates)
    how = ".multicast::cluster" if blocks else ".cta_group::2" if joint else ""
    mask, letter, more, type_ = (f", ${3 + n}", ",h", [p.short(blocks)], ["i16"]) if blocks else ("", "", [], [])
    places = ", ".join(f"${3 + i}" for i in range(n))
    p.asm(f"cp.async.bulk.tensor.{n}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{how} "
          f"[$0], [$1, {{{places}}}], [$2]{mask};", "r,l,r" + ",r" * n + letter,
          [p.name(to), descriptor, p.name(barrier), *map(p.name, coordinates), *more],
          ["i32", "!llvm.ptr", "i32"] + ["i32"] * n + type_)  # fmt: skip


def bulk_load(p: Printer, to: Int, source: str, size: int, barrier: Int) -> None:
    """Copy bytes that lie side by side to shared memory; they are counted at a barrier."""
    p.asm(f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], {size}, [$2];", "r,l,r",
          [p.name(to), source, p.name(barrier)], ["i32", "!llvm.ptr", "i32"])  # fmt: skip


def tma_store(p: Printer, descriptor: str, coordinates: Sequence[Int], source: Int, combine: str | None = None) -> None:
    """Copy a tile from shared memory, or combine it ("add", "max") with what is there; what is outside is dropped."""
    n = len(coordinates)
    places = ", ".join(f"${2 + i}" for i in range(n))
    start, how = ("cp", "") if combine is None else ("cp.reduce", f".{combine}")
    p.asm(f"{start}.async.bulk.tensor.{n}d.global.shared::cta{how}.tile.bulk_group [$0, {{{places}}}], [$1];",
          "l,r" + ",r" * n, [descriptor, p.name(source), *map(p.name, coordinates)],
          ["!llvm.ptr", "i32"] + ["i32"] * n)  # fmt: skip


def bulk_commit(p: Printer) -> None:
    p.asm("cp.async.bulk.commit_group;")


def bulk_wait(p: Printer, read: bool = False) -> None:
    """Wait until all tiles that this thread stores are stored, or just read from shared memory."""
    p.asm(f"cp.async.bulk.wait_group{'.read' if read else ''} 0;")


@dataclass(frozen=True)
class Box:
    """What a tensor descriptor tells: an operand of the launch, and the box that one copy moves; innermost axis first.

    `element` is its type by `ELEMENT`; strides are bytes.
    """

    argument: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element: str
    swizzled: bool


def describe(p: Printer, at: Int, pointer: str, box: Box) -> None:
    """Write a tensor descriptor into shared memory."""

    def field(name: str, value: int, kind: str = "b32", ordinal: int | None = None) -> None:
        where = "" if ordinal is None else f"{ordinal}, "
        type_, letter = ("i64", "l") if kind == "b64" else ("i32", "r")
        p.asm(f"tensormap.replace.tile.{name}.shared::cta.b1024.{kind} [$0], {where}$1;", f"r,{letter}",
              [p.name(at), p.constant(value, type_)], ["i32", type_])  # fmt: skip

    def mode(name: str, value: int) -> None:
        p.asm(f"tensormap.replace.tile.{name}.shared::cta.b1024.b32 [$0], {value};", "r", [p.name(at)], ["i32"])

    p.asm("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [$0], $1;", "r,l", [p.name(at), pointer],
          ["i32", "!llvm.ptr"])  # fmt: skip
    field("rank", len(box.sizes) - 1)
    for d, (size, stride, n) in enumerate(zip(box.sizes, box.strides, box.box, strict=True)):
        field("box_dim", n, ordinal=d)
        field("global_dim", size, ordinal=d)
        field("element_stride", 1, ordinal=d)
        if d:
            field("global_stride", stride, "b64", d - 1)
    mode("elemtype", ELEMENT[box.element])
    mode("interleave_layout", 0)
    mode("swizzle_mode", 3 if box.swizzled else 0)
    mode("fill_mode", 0)


def publish(p: Printer, to: str, source: Int) -> None:
    """Copy a descriptor from shared to global memory, by all threads of a warp."""
    p.asm("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [$0], [$1], 128;",
          "l,r", [to, p.name(source)], ["!llvm.ptr", "i32"])  # fmt: skip


def acquire(p: Printer, descriptor: str) -> None:
    """A descriptor that was written on the device may be used."""
    p.asm("fence.proxy.tensormap::generic.acquire.gpu [$0], 128;", "l", [descriptor], ["!llvm.ptr"])


# ---------------------------------------------------------------------------- products


def matrix_start(p: Printer, address: Int, offset: int, leading: int) -> str:
    """The low word of the descriptor of a matrix some bytes, a multiple of 16, from an address in shared memory.

    That of the address is made once for all matrices of a tile: no sum of addresses leaves the 14 bits that it has.
    """
    start = p.int("shrui", p.int("andi", address, 0x3FFFF), 4)
    return p.name(p.add(p.int("ori", start, (leading >> 4) << 16), offset >> 4))


def matrix(p: Printer, address: Int, offset: int, leading: int, stride: int) -> str:
    """The descriptor of a matrix in swizzled shared memory: bytes to the next 64 elements, to the next 8 rows."""
    wide = p.pure(f"arith.extui {matrix_start(p, address, offset, leading)} : i32 to i64")
    high = (stride >> 4 | 1 << 30) << 32
    return p.pure(f"arith.ori {wide}, {p.constant(high, 'i64')} : i64")


def wgmma(p: Printer, start: Sequence[str] | None, a: str | Sequence[str], b: str, n: int, kinds: tuple[str, str],
          turned: tuple[bool, bool]) -> list[str]:  # fmt: skip
    """`start + a @ b` in the n / 2 registers of a thread: 64 rows by n columns, summed over 32 bytes of each operand.

    `a` is a matrix in shared memory or four registers of two elements; `start` None: zeros. `turned`: whether memory
    holds a with its columns, b with its rows, along the long axis of the tile, which only 16 bits may.
    """
    regs, kept = n // 2, ([a] if isinstance(a, str) else list(a))
    out = ", ".join(f"${i}" for i in range(regs))
    first = regs * (1 if start is None else 2)
    left = f"${first}" if isinstance(a, str) else "{" + ", ".join(f"${first + i}" for i in range(4)) + "}"
    how = f"{int(turned[0])}, {int(turned[1])}" if isinstance(a, str) else f"{int(turned[1])}"
    short, whole = kinds[0] in ("f16", "bf16"), kinds[0] in ("s8", "u8")
    depth = 16 if short else 8 if kinds[0] == "tf32" else 32
    sums, mine, type_of_sum = ("s32", "r", "i32") if whole else ("f32", "f", "f32")
    more = f", 1, 1, {how}" if short else "" if whole else ", 1, 1"
    ptx = (f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{sums}.{'.'.join(kinds)} {{{out}}}, {left}, "
           f"${first + len(kept)}, {int(start is not None)}{more};")  # fmt: skip
    letter, type_ = ("l", "i64") if isinstance(a, str) else ("r", "i32")
    tied = [] if start is None else [str(i) for i in range(regs)]
    constraints = ",".join([f"={mine}"] * regs + tied + [letter] * len(kept) + ["l"])
    operands = [*(start or ()), *kept, b]
    types = [type_of_sum] * len(tied) + [type_] * len(kept) + ["i64"]
    return p.asm(ptx, constraints, operands, types, [type_of_sum] * regs)


def wgmma_fence(p: Printer) -> None:
    p.asm("wgmma.fence.sync.aligned;")


def wgmma_commit(p: Printer) -> None:
    p.asm("wgmma.commit_group.sync.aligned;")


def wgmma_wait(p: Printer, left: int) -> None:
    """Wait until all but the last `left` groups of products are made."""
    p.asm(f"wgmma.wait_group.sync.aligned {left};")


def settled(p: Printer, registers: Sequence[str], type_: str = "f32") -> list[str]:
    """The same registers, which nothing may read before this place."""
    n, letter = len(registers), "f" if type_ == "f32" else "r"
    tied = ",".join([f"={letter}"] * n + [str(i) for i in range(n)])
    return p.asm("// products are made", tied, registers, [type_] * n, [type_] * n)


def stmatrix(p: Printer, address: Int, words: Sequence[str]) -> None:
    """Store four matrices of 8 x 8 elements of 16 bits, each thread naming the place of one row."""
    p.asm("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [$0], {$1, $2, $3, $4};", "r,r,r,r,r",
          [p.name(address), *words], ["i32"] * 5)  # fmt: skip
