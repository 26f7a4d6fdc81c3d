"""The compiled modules that a recording holds: XLA adds to it each program that exists while it records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..xla_backend.jaxlib import shim

# Numbers of fields: XSpace.planes, XPlane.event_metadata, the value of a map, XEventMetadata.stats, XStat.bytes_value,
# HloProto.hlo_module; the names of a plane and of a module.
_PLANES, _TO_MODULE = 1, (4, 2, 5, 6, 1)
_PLANE_NAME, _NAME = 2, 1
_FIXED = {1: 8, 5: 4}  # bytes of numbers of fixed width, by how they are encoded


def recorded_modules(serialised: bytes, names: set[str]) -> Iterator[tuple[str, str]]:
    """The name and the compiled text of each module of these names in a serialised XSpace."""
    for plane in _fields(memoryview(serialised), _PLANES):
        if _string(plane, _PLANE_NAME) == "/host:metadata":
            for module in _path(plane, _TO_MODULE):
                if (name := _string(module, _NAME)) in names:
                    yield name, shim.hlo_text(bytes(module))


def _path(message: memoryview, fields: Sequence[int]) -> Iterator[memoryview]:
    """The messages within a message that a path of fields leads to."""
    if not fields:
        yield message
        return
    for inner in _fields(message, fields[0]):
        yield from _path(inner, fields[1:])


def _string(message: memoryview, field: int) -> str:
    return bytes(next(_fields(message, field), b"")).decode()


def _fields(message: memoryview, field: int) -> Iterator[memoryview]:
    """The bytes of each value of a field of a protocol buffer."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind, size = key & 7, _FIXED.get(key & 7, 0)
        if kind == 0:  # an integer
            _, at = _varint(message, at)
            continue
        if kind == 2:
            size, at = _varint(message, at)
            if key >> 3 == field:
                yield message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """An integer of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at
