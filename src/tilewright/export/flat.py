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
        return _read_table(schema, table, bytes(data), _target(data, 0), 0)
    except (struct.error, IndexError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"the bytes are no {table}: {error}") from None


def _target(data: Any, place: int) -> int:
    return place + struct.unpack_from("<I", data, place)[0]


def _read_table(schema: Schema, table: str, data: bytes, start: int, depth: int) -> dict[str, Any]:
    if depth > 100:
        raise FormatError("tables within tables without an end")
    vtable = start - struct.unpack_from("<i", data, start)[0]
    if vtable < 0:
        raise FormatError("a table without a vtable")
    length = struct.unpack_from("<H", data, vtable)[0]
    found: dict[str, Any] = {}
    for i, (name, kind) in enumerate(schema[table]):
        slot = 4 + 2 * i
        place = struct.unpack_from("<H", data, vtable + slot)[0] if slot < length else 0
        found[name] = None if not place else _read(schema, kind, data, start + place, depth)
    return found


def _read(schema: Schema, kind: Any, data: bytes, place: int, depth: int) -> Any:
    if _is_number(kind):
        return struct.unpack_from(f"<{kind}", data, place)[0]
    target = _target(data, place)
    if isinstance(kind, str) and kind not in ("str", "bytes"):
        return _read_table(schema, kind, data, target, depth + 1)
    (length,) = struct.unpack_from("<I", data, target)
    if target + 4 + length > len(data):
        raise FormatError("a vector longer than the bytes")
    if kind in ("str", "bytes"):
        raw = data[target + 4 : target + 4 + length]
        return raw.decode() if kind == "str" else raw
    (item,) = kind
    if _is_number(item):
        return list(struct.unpack_from(f"<{length}{item}", data, target + 4))
    return [_read(schema, item, data, target + 4 + 4 * i, depth) for i in range(length)]
