"""Relocatable ELF files of x86-64 and aarch64: their sections and symbols, placed in an image and patched.

Sources: the System V ABI's object file format, its supplement for x86-64, and "ELF for the Arm 64-bit Architecture".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...core.support.errors import CompileError

_ALLOCATED, _NO_BITS, _SYMBOLS, _RELA, _REL = 2, 8, 2, 4, 9
_MACHINES = {62: "x86-64", 183: "aarch64"}
PAGE = 4096
STUB = 16  # bytes of a jump to a function outside
MOST = 64 * 2**20  # bytes of an image


def refuse(what: str) -> CompileError:
    return CompileError(f"an object file cannot be loaded: {what}", "the kernel is computed by XLA instead")


class Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class Symbol(NamedTuple):
    name: str
    section: int
    value: int
    bound: bool  # seen from outside


@dataclass(frozen=True)
class Image:
    """What is to be in memory: `data` with its relocations still to be applied, and where each symbol is."""

    data: bytearray
    patches: tuple[tuple[int, int, int, int], ...]  # place, kind, symbol's place, addend
    symbols: Mapping[str, int]
    outside: Mapping[str, int]  # functions of the C library, by the place of their stub
    architecture: str


def read(data: bytes, allowed: frozenset[str]) -> Image:
    """The image of an object file; raises a `CompileError` for what is not one, or wants what is not `allowed`."""
    try:
        return _read(data, allowed)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError, KeyError) as error:
        raise refuse(f"it is damaged ({type(error).__name__})") from None


def _read(data: bytes, allowed: frozenset[str]) -> Image:
    if data[:4] != b"\x7fELF" or data[4:6] != b"\x02\x01":
        raise refuse("it is no little-endian ELF file of 64 bits")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != 1 or machine not in _MACHINES:
        raise refuse(f"it is of kind {kind} for the processor {machine}")
    (at,) = struct.unpack_from("<Q", data, 40)
    width, count = struct.unpack_from("<HH", data, 58)
    if width != 64 or at + width * count > len(data):
        raise refuse("its table of sections is outside of it")
    sections = [Section(*struct.unpack_from("<IIQQQQIIQQ", data, at + i * width)) for i in range(count)]
    places, end = _places(sections, len(data))
    symbols = _symbols(data, sections, places)
    outside: dict[str, int] = {}
    end = -(-end // 64) * 64
    patches = []
    for section in sections:
        if section.kind == _REL and section.info in places:
            raise refuse("it has relocations without addends")
        if section.kind != _RELA or section.info not in places:
            continue
        _within(section, len(data))
        base, limit = places[section.info], sections[section.info].size
        for r in range(section.offset, section.offset + section.size - 23, 24):
            place, info, addend = struct.unpack_from("<QQq", data, r)
            symbol = symbols[info >> 32]
            if place + 4 > limit:
                raise refuse("a relocation is outside of its section")
            if symbol.section == 0:
                if symbol.name not in allowed:
                    raise refuse(f"it wants the symbol {symbol.name!r}")
                target = outside.setdefault(symbol.name, end + STUB * len(outside))
            else:
                target = places[symbol.section] + symbol.value
            patches.append((base + place, info & 0xFFFFFFFF, target, addend))
    size = end + STUB * len(outside)
    if size > MOST:
        raise refuse(f"it takes {size} bytes")
    image = bytearray(-(-size // PAGE) * PAGE)
    for i, place in places.items():
        section = sections[i]
        if section.kind != _NO_BITS:
            image[place : place + section.size] = data[section.offset : section.offset + section.size]
    found = {s.name: places[s.section] + s.value for s in symbols if s.bound and s.section in places}
    return Image(image, tuple(patches), found, outside, _MACHINES[machine])


def _within(section: Section, length: int) -> None:
    if section.offset + section.size > length:
        raise refuse("a section is outside of the file")


def _places(sections: list[Section], length: int) -> tuple[dict[int, int], int]:
    places: dict[int, int] = {}
    end = 0
    for i, section in enumerate(sections):
        if not section.flags & _ALLOCATED or not section.size:
            continue
        if section.kind != _NO_BITS:
            _within(section, length)
        align = max(section.align, 1)
        if align & (align - 1) or align > PAGE or section.size > MOST:
            raise refuse("a section has an alignment or a size that none has")
        places[i] = -(-end // align) * align
        end = places[i] + section.size
    return places, end


def _symbols(data: bytes, sections: list[Section], places: Mapping[int, int]) -> list[Symbol]:
    table = next((s for s in sections if s.kind == _SYMBOLS), None)
    if table is None:
        raise refuse("it has no symbols")
    _within(table, len(data))
    names = sections[table.link]
    _within(names, len(data))
    found = []
    for at in range(table.offset, table.offset + table.size - 23, 24):
        name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        if name >= names.size:
            raise refuse("a symbol's name is outside of the file")
        start = names.offset + name
        text = data[start : data.index(b"\0", start)].decode()
        if section in places and value > sections[section].size:
            raise refuse(f"the symbol {text!r} is outside of its section")
        found.append(Symbol(text, section, value, info >> 4 == 1))
    return found


# ---------------------------------------------------------------------------- relocations

Patch = Callable[[bytearray, int, int, int], None]  # image, place in it, place in memory, value


def _signed(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise refuse("a relocation does not reach its target")
    return value


def _relative(image: bytearray, at: int, here: int, value: int) -> None:
    struct.pack_into("<i", image, at, _signed(value - here, 32))


def _absolute(image: bytearray, at: int, here: int, value: int) -> None:
    struct.pack_into("<Q", image, at, value)


def _bits(image: bytearray, at: int, keep: int, new: int) -> None:
    (word,) = struct.unpack_from("<I", image, at)
    struct.pack_into("<I", image, at, word & keep | new)


def _jump(image: bytearray, at: int, here: int, value: int) -> None:
    _bits(image, at, 0xFC000000, _signed(value - here, 28) >> 2 & 0x03FFFFFF)


def _page(image: bytearray, at: int, here: int, value: int) -> None:
    pages = _signed((value >> 12) - (here >> 12), 21)
    _bits(image, at, 0x9F00001F, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _low(shift: int) -> Patch:
    def patch(image: bytearray, at: int, here: int, value: int) -> None:
        if value & ((1 << shift) - 1):
            raise refuse("a relocation's target is not aligned")
        _bits(image, at, 0xFFC003FF, (value & 0xFFF) >> shift << 10)

    return patch


PATCHES: dict[str, dict[int, Patch]] = {
    "x86-64": {1: _absolute, 2: _relative, 4: _relative},
    "aarch64": {
        257: _absolute, 261: _relative, 275: _page, 277: _low(0), 278: _low(0), 282: _jump, 283: _jump,
        284: _low(1), 285: _low(2), 286: _low(3), 299: _low(4),
    },
}  # fmt: skip


def relocate(image: Image, base: int) -> None:
    """Apply the relocations for an image that is to be at an address."""
    known = PATCHES[image.architecture]
    for place, kind, target, addend in image.patches:
        if kind not in known:
            raise refuse(f"it has a relocation of kind {kind} for {image.architecture}")
        if place + (8 if known[kind] is _absolute else 4) > len(image.data):
            raise refuse("a relocation is outside of the image")
        known[kind](image.data, place, base + place, base + target + addend)


def stub(image: Image, place: int, address: int) -> None:
    """A jump to an address."""
    if image.architecture == "x86-64":
        code = b"\x48\xb8" + struct.pack("<Q", address) + b"\xff\xe0"  # mov rax, address; jmp rax
    else:
        code = struct.pack("<IIQ", 0x58000050, 0xD61F0200, address)  # ldr x16, #8; br x16
    image.data[place : place + len(code)] = code
