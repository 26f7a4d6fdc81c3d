"""The products of Blackwell: one thread starts them, their sums are in tensor memory, a barrier tells of their end.

Source: the PTX ISA on tcgen05. Tensor memory has 128 rows, as many as a warpgroup has threads, and 512 columns of 32
bits; an address is a row in the upper half and a column in the lower.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lang.legalize import Unfit
from . import ptx
from .mma_types import Kind
from .text import Int, Printer
from .values import Late

COLUMNS = 512
PARTS = (32, 16)  # columns of one load


def allocate(p: Printer, slot: Int, columns: int, blocks: int = 1) -> None:
    """Take columns of tensor memory, by a whole warp; where they start is written to shared memory."""
    group = f"cta_group::{blocks}.sync.aligned"
    p.asm(f"tcgen05.alloc.{group}.shared::cta.b32 [$0], {columns};", "r", [p.name(slot)], ["i32"])
    p.asm(f"tcgen05.relinquish_alloc_permit.{group};")


def release(p: Printer, address: Int, columns: int, blocks: int = 1) -> None:
    p.asm(f"tcgen05.dealloc.cta_group::{blocks}.sync.aligned.b32 $0, {columns};", "r", [p.name(address)], ["i32"])


def matrix(p: Printer, address: Int, offset: int, leading: int, stride: int) -> str:
    """The descriptor of a matrix in shared memory with the 128-byte swizzle, some bytes from an address."""
    wide = p.pure(f"arith.extui {ptx.matrix_start(p, address, offset, leading)} : i32 to i64")
    high = (stride >> 4 | 1 << 14 | 2 << 29) << 32
    return p.pure(f"arith.ori {wide}, {p.constant(high, 'i64')} : i64")


def multiply(p: Printer, to: Int, a: Int, b: str, rows: int, columns: int, kinds: tuple[Kind, Kind],
             turned: tuple[bool, bool], more: str, inside: bool = False, blocks: int = 1) -> None:  # fmt: skip
    """Start `to (+)= a @ b`, a sum over 32 bytes; `more`: whether it is added to what is there.

    `inside`: `a` is an address in tensor memory, two numbers of 16 bits to a column. `blocks`: how many have
    parts of the rows and of the right operand.
    """
    left, right = kinds
    sums = 2 if left.family == "i8" else 1
    form = (
        sums << 4
        | left.code << 7
        | right.code << 10
        | turned[0] << 15
        | turned[1] << 16
        | columns >> 3 << 17
        | rows >> 4 << 24
    )
    first, letter, type_ = ("[$1]", "r", "i32") if inside else ("$1", "l", "i64")
    p.asm(f"tcgen05.mma.cta_group::{blocks}.kind::{left.tensor} [$0], {first}, $2, $3, $4;", f"r,{letter},l,r,b",
          [p.name(to), p.name(a), b, p.constant(form), more], ["i32", type_, "i64", "i32", "i1"])  # fmt: skip


def commit(p: Printer, barrier: Int, pair: Int | None = None) -> None:
    """Arrive at a barrier once the products that were started are made; `pair`: at those of two blocks, as bits."""
    if pair is not None:
        p.asm("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
              "[$0], $1;", "r,h", [p.name(barrier), p.short(pair)], ["i32", "i16"])  # fmt: skip
        return
    p.asm("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$0];", "r", [p.name(barrier)],
          ["i32"])  # fmt: skip


def waited(p: Printer) -> None:
    """What follows comes after what a barrier told of."""
    p.asm("tcgen05.fence::after_thread_sync;")


def left(p: Printer) -> None:
    """What came before is told of by the next barrier."""
    p.asm("tcgen05.fence::before_thread_sync;")


def load(p: Printer, address: Int, columns: int, type_: str = "f32") -> list[str]:
    """The numbers of a thread's row."""
    out = ", ".join(f"${i}" for i in range(columns))
    regs = p.asm(f"tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{out}}}, [${columns}];",
                 ",".join(["=r"] * columns + ["r"]), [p.name(address)], ["i32"], ["i32"] * columns)  # fmt: skip
    p.asm("tcgen05.wait::ld.sync.aligned;")
    tied = ",".join(["=r"] * columns + [str(i) for i in range(columns)])
    regs = p.asm("// loaded", tied, regs, ["i32"] * columns, ["i32"] * columns)
    return [p.pure(f"arith.bitcast {r} : i32 to f32") for r in regs] if type_ == "f32" else regs


def row(p: Printer, address: Int, columns: int, type_: str = "f32") -> list[str]:
    """A thread's row from an address on: a multiple of 16 columns."""
    found: list[str] = []
    for part in PARTS:
        while columns - len(found) >= part:
            found += load(p, p.add(address, len(found)), part, type_)
    return found


class Row(Late):
    """A thread's row that is loaded where it is needed, some columns at a time."""

    address: Int
    type: str

    def __init__(self, p: Printer, address: Int, columns: int, type_: str):
        super().__init__(p, columns, self._loaded)
        self.address, self.type = address, type_
        self.over = False  # whether others have been stored in its place

    def _loaded(self, j: int) -> str:
        size = PARTS[0] if j < self.length // PARTS[0] * PARTS[0] else PARTS[1]
        first = j // size * size
        if self.over:
            raise Unfit("numbers of tensor memory are used after others are stored in their place: use them before")
        found = load(self.p, self.p.add(self.address, first), size, self.type)
        self.p.made.update({(self, first + i): x for i, x in enumerate(found)})
        return found[j - first]


def put(p: Printer, address: Int, words: Sequence[str]) -> None:
    """Store a thread's row from an address on, and wait until it is stored: a multiple of 8 columns."""
    done = 0
    for part in (*PARTS, 8):
        while len(words) - done >= part:
            given = ", ".join(f"${1 + i}" for i in range(part))
            p.asm(f"tcgen05.st.sync.aligned.32x32b.x{part}.b32 [$0], {{{given}}};", "r" + ",r" * part,
                  [p.name(p.add(address, done)), *words[done : done + part]], ["i32"] * (1 + part))  # fmt: skip
            done += part
    p.asm("tcgen05.wait::st.sync.aligned;")
