"""The format of `safetensors`: eight bytes with the length of a header, the header in JSON, the arrays one by one.

Source: the format's description at huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..core.support.errors import CheckpointWriteError, DamagedCheckpointError, DtypeError
from .files import open_regular

DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
    "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}
LENGTH = struct.Struct("<Q")
WRITABLE = "free space on the disk, or save where you may write; what was saved before is untouched"
_FIELDS = {"dtype", "shape", "data_offsets"}
LONGEST = 100_000_000  # bytes of a header, as in the format's description


@dataclass(frozen=True)
class Entry:
    """An array of a file: its dtype and shape, and where its bytes begin and end after the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def raw(x: np.ndarray) -> np.ndarray:
    """The bytes of an array in row-major order."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def header(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    """The beginning of a file that holds arrays in this order; those of dtypes that the format lacks as bytes."""
    table: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, x in arrays.items():
        known = NAMES.get(x.dtype)
        shape = list(x.shape) if known else [x.nbytes]
        table[name] = {"dtype": known or "U8", "shape": shape, "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    return LENGTH.pack(len(text)) + text


def _entry(name: str, v: Any) -> Entry:
    """An entry of a header.

    Raises:
      ValueError, TypeError or KeyError: a field is missing or wrong.
    """
    shape, (begin, end) = tuple(v["shape"]), v["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)) or end < begin or v.keys() != _FIELDS:
        raise ValueError(f"{name!r} is {v}")
    if not isinstance(v["dtype"], str):
        raise ValueError(f"{name!r} has the dtype {v['dtype']!r}")
    return Entry(v["dtype"], shape, begin, end)


class Part:
    """A file of the format, read through a memory map; links to it are followed unless `follow` is False."""

    def __init__(self, path: str | os.PathLike[str], follow: bool = True):
        self.path: str = os.fspath(path)
        try:
            with open_regular(self.path, follow) as file:
                self.bytes: np.memmap = np.memmap(file, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise self.damaged(f"cannot be read: {error}") from None
        size = LENGTH.unpack(self.bytes[:8].tobytes())[0] if len(self.bytes) >= 8 else LONGEST + 1
        if size > min(LONGEST, len(self.bytes) - 8):
            raise self.damaged(f"has {len(self.bytes)} bytes, which is less than its header needs, or is no such file")
        self.data: np.ndarray = self.bytes[8 + size :]
        try:
            table = json.loads(self.bytes[8 : 8 + size].tobytes())
            self.metadata: dict[str, str] = table.pop("__metadata__", {})
            self.entries: dict[Any, Entry] = {name: _entry(name, v) for name, v in table.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self.damaged(f"has a header that is not of the format: {error!r}") from None
        self._check_coverage()

    def _check_coverage(self) -> None:
        """Raise unless the arrays cover the bytes after the header exactly once."""
        at = 0
        for name, e in sorted(self.entries.items(), key=lambda item: (item[1].begin, item[1].end)):
            if e.begin != at:
                raise self.damaged(f"has {name!r} at byte {e.begin} of its arrays, where what is before ends at {at}")
            at = e.end
        if at != len(self.data):
            raise self.damaged(f"has {len(self.data)} bytes of arrays, where its header says {at}")

    def check(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Raise unless an array has a dtype of the format and a shape."""
        entry = self.entries.get(name)
        if entry is not None and (entry.dtype, entry.shape) != (dtype, shape):
            raise self.damaged(f"holds {name!r} as {entry.dtype}{list(entry.shape)}, not as {dtype}{list(shape)}")

    def damaged(self, why: str) -> DamagedCheckpointError:
        return DamagedCheckpointError(f"the file {self.path} {why}", "save it again; `latest` finds a complete one")

    def array(self, name: str, dtype: Any = None, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """An array of the file without reading it, of another dtype and shape where it is held as bytes."""
        entry = self.entries.get(name)
        if entry is None:
            raise self.damaged(f"holds no array {name!r}")
        if dtype is None:
            if entry.dtype not in DTYPES:
                raise DtypeError(f"the array {name!r} of {self.path} is of dtype {entry.dtype}, which is not known",
                                 f"one of {', '.join(DTYPES)}")  # fmt: skip
            dtype = DTYPES[entry.dtype]
        try:
            return self.data[entry.begin : entry.end].view(dtype).reshape(entry.shape if shape is None else shape)
        except ValueError:
            size = entry.end - entry.begin
            raise self.damaged(f"holds {size} bytes for {name!r}, which do not fit its type") from None


def write_safetensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named arrays of any shapes to one file in the format of `safetensors`; it appears whole or not at all.

    Raises:
      DtypeError: an array of a dtype that the format has not.
      CheckpointWriteError: a disk that is full or cannot be written to.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/weights.safetensors"
    >>> write_safetensors(path, {"w": np.ones((2, 3), "float32")}, {"made by": "hand"})
    >>> read_safetensors(path)["w"].shape
    (2, 3)
    """
    values = {name: np.asarray(x) for name, x in arrays.items()}
    for name, x in values.items():
        if x.dtype not in NAMES:
            raise DtypeError(f"{name!r} of dtype {x.dtype} in a safetensors file", f"cast it to one of {list(DTYPES)}")
    partial = f"{os.fspath(path)}.partial"
    try:
        with open(partial, "wb") as file:
            file.write(header(values, metadata))
            for x in values.values():
                file.write(raw(x).data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        what = f"{os.fspath(path)} cannot be written: {told_of(error, path)}"
        raise CheckpointWriteError(what, WRITABLE) from None


def told_of(error: OSError, path: str | os.PathLike[str]) -> str:
    """Why something at a path cannot be written: with the file where that is not within the path."""
    why, at = error.strerror or str(error), str(error.filename or "")
    beside = at and os.path.dirname(os.fspath(path)).startswith(at.rstrip("/"))
    return f"{why}: {at}" if beside else why


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a file in the format of `safetensors`: memory maps, of which is read what is used.

    Raises:
      DamagedCheckpointError: a file that is truncated, or not of the format.
      DtypeError: an array of a dtype that there is not here.

    >>> import os, tempfile
    >>> import numpy as np
    >>> from tilewright import checkpoints
    >>> path = os.path.join(tempfile.mkdtemp(), 'weights.safetensors')
    >>> checkpoints.write_safetensors(path, {'w': np.ones((2, 3), np.float32)})
    >>> {name: x.shape for name, x in checkpoints.read_safetensors(path).items()}
    {'w': (2, 3)}
    """
    part = Part(path)
    return {name: part.array(name) for name in part.entries}
