"""What a body's values are here: numbers in the registers of a warpgroup, functions of a position, tiles in memory.

A `Fragment` is laid out as Hopper's products leave their results: of each 64 rows a warp has 16; a thread has rows
`lane / 4` and 8 below it, and of each 8 columns the pair `2 * (lane % 4)`. Its registers are `regs[r][j]`: row
`64 * (r // 2) + 8 * (r % 2)` and column `8 * (j // 2) + j % 2` from the thread's first. Rows are divided among the
warpgroups that compute. Along an axis that is neither rows nor columns a fragment is constant.

Numbers are computed as f32, i32 or i1; floats of 16 bits are kept as pairs in an i32, column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.ir.array import DTypeLike
from ..core.ir.types import Dtype, is_bool, is_float
from ..lang.legalize import Unfit
from .text import Int, Printer

Shape = tuple[int, ...]
At = Callable[[Printer, Sequence[Int]], str]


@dataclass(frozen=True)
class Eight:
    """A float of 8 bits: its name in PTX, the largest float32 (or the first, `finite`) that is rounded to a number."""

    name: str
    most: float
    finite: bool

    @property
    def beyond(self) -> int:
        """The bits of what is larger: NaN, or an infinity where there is one."""
        return 0x7F if self.finite else 0x7C


EIGHT = {"float8_e4m3fn": Eight("e4m3", 464.0, True), "float8_e5m2": Eight("e5m2", 61440.0, False)}


def computed(dtype: DTypeLike) -> str:
    """The MLIR type that numbers of a dtype are computed in."""
    if is_bool(dtype):
        return "i1"
    if dtype.itemsize > 4 or is_float(dtype) and dtype.itemsize == 1 and str(dtype) not in EIGHT:
        raise Unfit(f"numbers of {dtype}: registers compute with floats and integers of 32 bits or less; convert them "
                    "before")  # fmt: skip
    return "f32" if is_float(dtype) else "i32"


def halves(dtype: DTypeLike) -> bool:
    """Whether two numbers share a register."""
    return is_float(dtype) and dtype.itemsize == 2


@dataclass(frozen=True)
class Layout:
    """The shape of a value, and which of its axes are the rows and the columns of its registers (None: constant)."""

    shape: Shape
    rows: int | None = None
    cols: int | None = None

    def joined(self, other: Layout) -> Layout:
        """The layout that two values of one shape are combined in."""
        rows = other.rows if self.rows is None else self.rows
        cols = other.cols if self.cols is None else self.cols
        if other.rows not in (None, rows) or other.cols not in (None, cols) or rows is not None and rows == cols:
            raise Unfit(f"values of {self.shape} with rows and columns exchanged are combined: transpose one before "
                        "the kernel")  # fmt: skip
        return Layout(self.shape, rows, cols)

    def moved(self, shape: Shape, where: dict[int, int]) -> Layout:
        """The layout of the same registers under another shape, `where` telling of each axis where it goes."""

        def place(axis: int | None, what: str) -> int | None:
            if axis is not None and axis not in where:
                raise Unfit(f"{what} of {self.shape} are cut or joined in {shape}: reshape it before the kernel")
            return None if axis is None else where[axis]

        return Layout(shape, place(self.rows, "rows"), place(self.cols, "columns"))


class Late(Sequence[str]):
    """Registers of a thread, computed where they are first needed, and again in regions that do not know them."""

    p: Printer
    length: int
    compute: Callable[..., str]

    def __init__(self, p: Printer, length: int, compute: Callable[[int], str]):
        self.p, self.length, self.compute = p, length, compute

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, j: int) -> Any:
        if isinstance(j, slice):
            return [self[i] for i in range(*j.indices(self.length))]
        if not 0 <= j < self.length:
            raise IndexError(j)
        key = (self, j)
        if key not in self.p.made:
            self.p.made[key] = self.compute(j)
        return self.p.made[key]


@dataclass(eq=False)
class Fragment:
    """Numbers in registers."""

    layout: Layout
    dtype: Any
    regs: Sequence[Sequence[str]]
    group: Any = None  # the products that are being made in these registers

    @property
    def shape(self) -> Shape:
        return self.layout.shape

    @property
    def paired(self) -> bool:
        return halves(self.dtype) and self.layout.cols is not None

    @property
    def late(self) -> bool:
        """Whether registers are computed where they are needed."""
        return any(isinstance(row, Late) for row in self.regs)

    @property
    def held(self) -> Fragment:
        """The same with registers that are computed by now."""
        return replace(self, regs=[list(row) for row in self.regs]) if self.late else self

    @property
    def types(self) -> list[str]:
        one = "i32" if self.paired else computed(self.dtype)
        return [one] * sum(map(len, self.regs))

    @property
    def flat(self) -> list[str]:
        return [x for row in self.regs for x in row]

    def with_flat(self, names: Sequence[str]) -> Fragment:
        """The same with other registers."""
        given = iter(names)
        return Fragment(self.layout, self.dtype, [[next(given) for _ in row] for row in self.regs])


@dataclass(eq=False)
class Lazy:
    """A number for each position, computed where it is needed.

    `varies`: the axes along which it may differ. `fixed`: it is made of constants and positions alone, not of memory.
    """

    shape: Shape
    dtype: Any
    compute: At
    varies: frozenset[int] = frozenset()
    fixed: bool = False

    def at(self, p: Printer, place: Sequence[Int]) -> str:
        key = (self, *place)
        if key not in p.made:
            p.made[key] = self.compute(p, place)
        return p.made[key]


@dataclass(eq=False)
class Tile(Lazy):
    """A block in swizzled shared memory: `axes` are the ones of its rows and of its contiguous columns."""

    address: Int = 0
    axes: tuple[int, int] = (0, 1)
    there: int = field(default=0, kw_only=True)  # rows of it that are in this block, where not all are

    @property
    def rows(self) -> int:
        return self.there or self.shape[self.axes[0]]

    @property
    def columns(self) -> int:
        return self.shape[self.axes[1]]


@dataclass(eq=False)
class Product:
    """A product of matrices that is issued once it is known what it is added to."""

    layout: Layout
    dtype: Any
    operands: tuple[Any, Any]
    contracting: tuple[int, int]
    once: bool = False  # one equation uses it
    start: Fragment | None = None  # what it is added to
    made: Fragment | None = field(default=None)

    @property
    def shape(self) -> Shape:
        return self.layout.shape


Value = Fragment | Lazy | Product


def convert(p: Printer, x: str, old: Any, new: Any) -> str:
    """A number of one dtype as one of another."""
    if old == new:
        return x
    if is_bool(new):
        zero = p.constant(0, computed(old))
        kind = f"arith.cmpf une, {x}, {zero}" if is_float(old) else f"arith.cmpi ne, {x}, {zero}"
        return p.pure(f"{kind} : {computed(old)}")
    if is_float(new):
        if is_bool(old):
            return p.pure(f"arith.uitofp {x} : i1 to f32")
        if not is_float(old):
            signed = "u" if old.kind == "u" else "s"
            x = p.pure(f"arith.{signed}itofp {x} : i32 to f32")
        return rounded(p, x, new)
    if is_float(old):
        return _integer(p, x, new)
    x = p.pure(f"arith.extui {x} : i1 to i32") if is_bool(old) else x
    return wrapped(p, x, new)


def rounded(p: Printer, x: str, dtype: DTypeLike) -> str:
    """A float32 rounded to a dtype."""
    if dtype.itemsize == 4:
        return x
    if str(dtype) in EIGHT:
        return widened(p, narrowed(p, x, dtype), dtype)
    short = {"float16": "f16", "bfloat16": "bf16"}.get(str(dtype))
    if short is None:
        raise Unfit(f"numbers are rounded to {dtype}: round to float16, bfloat16, float8_e4m3fn or float8_e5m2")
    return p.pure(f"arith.extf {p.pure(f'arith.truncf {x} : f32 to {short}')} : {short} to f32")


def narrowed(p: Printer, x: str, dtype: DTypeLike) -> str:
    """The bits of a float32 rounded to a float of 8 bits, in an i32; what is too large is NaN or infinite."""
    form = EIGHT[str(dtype)]
    (bits,) = p.asm(f"{{ .reg .b16 h; cvt.rn.satfinite.{form.name}x2.f32 h, 0f00000000, $1; cvt.u32.u16 $0, h; }}",
                    "=r,f", [x], ["f32"], ["i32"], pure=True)  # fmt: skip
    size = p.pure(f"math.absf {x} : f32")
    how = "ugt" if form.finite else "oge"
    over = p.pure(f"arith.cmpf {how}, {size}, {p.constant(form.most, 'f32')} : f32")
    sign = p.int("andi", p.int("shrui", p.pure(f"arith.bitcast {x} : f32 to i32"), 24), 0x80)
    return p.pure(f"arith.select {over}, {p.int('ori', sign, form.beyond)}, {bits} : i32")


def widened(p: Printer, bits: str, dtype: DTypeLike) -> str:
    """A float of 8 bits, given by an i32, as float32."""
    (found,) = p.asm(f"{{ .reg .b16 h, l, u; .reg .b32 w; cvt.u16.u32 h, $1; cvt.rn.f16x2.{EIGHT[str(dtype)].name}x2 "
                     "w, h; mov.b32 {l, u}, w; cvt.f32.f16 $0, l; }", "=f,r", [bits], ["i32"], ["f32"],
                     pure=True)  # fmt: skip
    return found


def word(p: Printer, numbers: Sequence[str], dtype: DTypeLike) -> str:
    """Computed numbers of a dtype, side by side in the 4 bytes of an i32."""
    if halves(dtype):
        low, high = numbers
        return pack(p, low, high, dtype)
    if dtype.itemsize == 4:
        (x,) = numbers
        return p.pure(f"arith.bitcast {x} : f32 to i32") if computed(dtype) == "f32" else x
    found: Int = 0
    for i, x in enumerate(numbers):
        bits = narrowed(p, x, dtype) if str(dtype) in EIGHT else p.int("andi", x, 0xFF)
        found = p.int("ori", found, p.int("shli", bits, 8 * i))
    return p.name(found)


def wrapped(p: Printer, x: str, dtype: DTypeLike) -> str:
    """An i32 whose low bits are an integer of a dtype, extended by its sign or zeros."""
    bits = 8 * dtype.itemsize
    if bits == 32:
        return x
    how = "extui" if dtype.kind == "u" else "extsi"
    return p.pure(f"arith.{how} {p.pure(f'arith.trunci {x} : i32 to i{bits}')} : i{bits} to i32")


def _integer(p: Printer, x: str, dtype: Dtype) -> str:
    """A float as an integer: beyond the range the end of it, NaN is 0, as the instruction has it."""
    bits = 8 * dtype.itemsize
    letter = "u" if dtype.kind == "u" else "s"
    (found,) = p.asm(f"cvt.rzi.{letter}{bits}.f32 $0, $1;" if bits == 32 else
                     f"cvt.rzi.sat.{letter}{bits}.f32 $0, $1;", "=r,f", [x], ["f32"], ["i32"], pure=True)  # fmt: skip
    return found


def pack(p: Printer, low: str, high: str, dtype: DTypeLike) -> str:
    """Two float32 rounded to 16 bits, in one register."""
    kind = {"float16": "f16x2", "bfloat16": "bf16x2"}[str(dtype)]
    return p.asm(f"cvt.rn.{kind}.f32 $0, $1, $2;", "=r,f,f", [high, low], ["f32", "f32"], ["i32"], pure=True)[0]


def unpack(p: Printer, word: str, which: int, dtype: DTypeLike) -> str:
    """One of the two numbers of a register."""
    if str(dtype) == "bfloat16":
        bits = p.int("andi", word, -65536) if which else p.int("shli", word, 16)
        return p.pure(f"arith.bitcast {bits} : i32 to f32")
    part = p.pure(f"arith.trunci {p.int('shrui', word, 16 * which)} : i32 to i16")
    return p.pure(f"arith.extf {p.pure(f'arith.bitcast {part} : i16 to f16')} : f16 to f32")
