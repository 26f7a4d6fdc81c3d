"""The end of a serialised export: its length and its digest. Readers of the tables alone, such as jax, pass it over."""

from __future__ import annotations

import hashlib
import struct

from ..core.support.errors import ExportVersionError

MARK = b"tilewexp"
_END = struct.Struct("<8sQ32s")  # the mark, the length of the tables, their SHA-256
_REMEDY = "take the bytes anew from where they were written, or export the function again"


def sealed(tables: bytes | bytearray) -> bytearray:
    """Tables with their end."""
    return bytearray(tables) + _END.pack(MARK, len(tables), hashlib.sha256(tables).digest())


def opened(blob: bytes | bytearray) -> tuple[bytes, bool]:
    """The tables, and whether an end vouches for them.

    Raises:
      ExportVersionError: they are not those that the end was made for.
    """
    blob = bytes(blob)
    if len(blob) < _END.size or not blob[-_END.size :].startswith(MARK):
        return blob, False
    tables, (_, length, digest) = blob[: -_END.size], _END.unpack(blob[-_END.size :])
    if length != len(tables):
        raise ExportVersionError(f"a damaged export of {len(tables)} bytes, which were {length}", _REMEDY)
    if hashlib.sha256(tables).digest() != digest:
        raise ExportVersionError(f"a damaged export: the checksum of its {length} bytes is another one", _REMEDY)
    return tables, True


def check_unsealed(writer: str) -> None:
    """Raise for an export without an end whose writer would have written one: all but 0.1 of this package."""
    if writer.startswith("tilewright ") and not writer.startswith("tilewright 0.1."):
        raise ExportVersionError(f"a damaged export, written by {writer}: its end is missing", _REMEDY)
