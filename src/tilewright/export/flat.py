"""Tables of flatbuffers, written and read by schemas that are data.

    Schema ::= {table: ((field, type), ...)}      fields in the order of their numbers
    type   ::= a struct code (b, B, h, H, i, I, ?) | "str" | "bytes" | a table's name | [type]

A value is a dictionary with the fields that are set. The format is that of https://flatbuffers.dev/internals: offsets
from where they are stored, tables that begin with the way to their vtable, vectors and strings that begin with their
length.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Sequence[tuple[str, Any]]]


DEEPEST = 100  # tables within tables


class FormatError(ValueError):
    """Bytes that are not what a schema says."""


def _is_number(kind: Any) -> bool:
    return isinstance(kind, str) and len(kind) == 1


def written(schema: Schema, table: str, value: Mapping[str, Any]) -> bytearray:
    """The bytes of a table."""
    out = bytearray(4)
    _refer(out, 0, _table(out, schema, table, value))
    return out


def _pad(out: bytearray, to: int, extra: int = 0) -> None:
    out.extend(bytes(-(len(out) + extra) % to))


def _refer(out: bytearray, place: int, target: int) -> None:
    struct.pack_into("<I", out, place, target - place)


def _table(out: bytearray, schema: Schema, table: str, value: Mapping[str, Any]) -> int:
    fields = [(i, name, kind) for i, (name, kind) in enumerate(schema[table]) if value.get(name) is not None]
    places, size = {}, 4
    for i, _, kind in fields:
        width = struct.calcsize(kind) if _is_number(kind) else 4
        size += -size % width
        places[i] = size
        size += width
    slots = [places.get(i, 0) for i in range(len(schema[table]))]
    vtable = struct.pack(f"<HH{len(slots)}H", 4 + 2 * len(slots), size, *slots)
    _pad(out, 4, len(vtable))
    out.extend(vtable)
    start = len(out)
    out.extend(struct.pack("<i", len(vtable)) + bytes(size - 4))
    for i, name, kind in fields:
        if _is_number(kind):
            struct.pack_into(f"<{kind}", out, start + places[i], value[name])
        else:
            _refer(out, start + places[i], _value(out, schema, kind, value[name]))
    return start


def _value(out: bytearray, schema: Schema, kind: Any, value: Any) -> int:
    """What a field refers to."""
    if isinstance(kind, str) and kind not in ("str", "bytes"):
        return _table(out, schema, kind, value)
    _pad(out, 4)
    start = len(out)
    if kind in ("str", "bytes"):
        data = value.encode() if kind == "str" else bytes(value)
        out.extend(struct.pack("<I", len(data)) + data + b"\0" * (kind == "str"))
        return start
    (item,) = kind
    out.extend(struct.pack("<I", len(value)))
    if _is_number(item):
        out.extend(struct.pack(f"<{len(value)}{item}", *value))
        return start
    first = len(out)
    out.extend(bytes(4 * len(value)))
    for i, one in enumerate(value):
        _refer(out, first + 4 * i, _value(out, schema, item, one))
    return start


def read(schema: Schema, table: str, data: bytes | bytearray) -> dict[str, Any]:
    """The table that bytes hold; fields that are not set are None.

    Raises:
      FormatError: the bytes are no such table.
    """
    try:
        return _Reader(schema, bytes(data)).table(table, _target(data, 0), 0)
    except (struct.error, IndexError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"the bytes are no {table}: {error}") from None


def _target(data: Any, place: int) -> int:
    return place + struct.unpack_from("<I", data, place)[0]


class _Reader:
    """Reads tables of some bytes, as many as they could hold: tables may be referred to more than once."""

    def __init__(self, schema: Schema, data: bytes):
        self.schema, self.data, self.left = schema, data, len(data)

    def table(self, table: str, start: int, depth: int) -> dict[str, Any]:
        self.left -= 4
        if depth > DEEPEST or self.left < 0:
            raise FormatError("tables within tables without an end")
        vtable = start - self._one("i", start)
        if vtable < 0:
            raise FormatError("a table without a vtable")
        length = self._one("H", vtable)
        found: dict[str, Any] = {}
        for i, (name, kind) in enumerate(self.schema[table]):
            slot = 4 + 2 * i
            place = self._one("H", vtable + slot) if slot < length else 0
            found[name] = None if not place else self._value(kind, start + place, depth)
        return found

    def _one(self, code: str, place: int) -> Any:
        return struct.unpack_from(f"<{code}", self.data, place)[0]

    def _value(self, kind: Any, place: int, depth: int) -> Any:
        if _is_number(kind):
            return self._one(kind, place)
        target = _target(self.data, place)
        if isinstance(kind, str) and kind not in ("str", "bytes"):
            return self.table(kind, target, depth + 1)
        length = self._one("I", target)
        self.left -= length if kind in ("str", "bytes") else 4 * length
        if target + 4 + length > len(self.data) or self.left < 0:
            raise FormatError("a vector longer than the bytes")
        if kind in ("str", "bytes"):
            raw = self.data[target + 4 : target + 4 + length]
            return raw.decode() if kind == "str" else raw
        (item,) = kind
        if _is_number(item):
            return list(struct.unpack_from(f"<{length}{item}", self.data, target + 4))
        return [self._value(item, target + 4 + 4 * i, depth) for i in range(length)]
