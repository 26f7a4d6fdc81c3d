"""What a checkpoint holds, as `manifest.json` says: the leaves of the tree, and where each part of them lies."""

from __future__ import annotations

import json
import math
import os
import re
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from ..core.ir.types import KEY_DTYPES
from ..core.support.errors import DamagedCheckpointError
from ..core.support.runtime import runtime
from . import coverage
from .coverage import Bounds
from .files import open_regular

NAME = "manifest.json"
NUMBERS = (bool, int, float, complex)  # leaves that are numbers of Python
FORMAT = "tilewright checkpoint 1"
MOST_DIMENSIONS, LARGEST = 64, 1 << 62  # of an array of NumPy, and its elements
PART = re.compile(r"part-\d+\.safetensors")
_EXTENDED = frozenset(n for n, t in vars(ml_dtypes).items() if isinstance(t, type) and issubclass(t, np.generic))


def under_way() -> weakref.WeakValueDictionary[str, Any]:
    """The saves (`writer.Saving`) of this process that a thread may still write, by their paths."""
    return runtime.parts.setdefault("checkpoints.saving", weakref.WeakValueDictionary())


@dataclass(frozen=True)
class Piece:
    """A part of a leaf: its bounds, the file and the name that hold it, and the CRC-32 of its bytes."""

    bounds: Bounds
    file: str
    name: str
    crc32: int


@dataclass(frozen=True)
class Leaf:
    """A leaf of the tree: shape and dtype as held; `key`, if it is an array of random keys, names their generator."""

    shape: tuple[int, ...]
    dtype: str
    key: str | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Manifest:
    """The leaves of a checkpoint by their paths, what the user noted, and when it was saved (nanoseconds)."""

    leaves: dict[str, Leaf]
    notes: Any
    time_ns: int

    def text(self) -> str:
        body = asdict(self)
        return json.dumps({"format": FORMAT, "crc32": _checksum(body), "body": body})


def _checksum(body: Any) -> int:
    return zlib.crc32(json.dumps(body).encode())


def metadata(path: str | os.PathLike[str]) -> Manifest:
    """What a checkpoint holds, without its arrays: on any machine, whatever devices it was saved from.

    It waits for a save to the path that this process has under way.

    Raises:
      DamagedCheckpointError: there is no complete checkpoint at the path.
      CheckpointWriteError: a save to the path was under way, and failed.

    >>> import tempfile
    >>> from tilewright.checkpoints import save
    >>> metadata(save(tempfile.mkdtemp() + "/1", {"step": 1}, notes="first").wait()).notes
    'first'
    """
    path = os.fspath(path)
    if saving := under_way().get(os.path.abspath(path)):
        saving.wait()
    try:
        with open_regular(os.path.join(path, NAME)) as file:
            table = json.loads(file.read())
        _is(table, dict, "the file")
        if _field(table, "format", str) != FORMAT:
            raise DamagedCheckpointError(f"{path} is of the format {table['format']!r}", f"this version reads {FORMAT}")
        body = _field(table, "body", dict)
        if _checksum(body) != _field(table, "crc32", int):
            raise ValueError("its checksum is another one")
        if table.keys() != {"format", "crc32", "body"}:
            raise ValueError("it has other fields")
        leaves = {k: _leaf(k, v) for k, v in _field(body, "leaves", dict).items()}
        for name, leaf in leaves.items():
            _check_coverage(name, leaf)
        return Manifest(leaves, body["notes"], _field(body, "time_ns", int))
    except FileNotFoundError:
        there = f"{path} has no {NAME}" if os.path.isdir(path) else f"there is nothing at {path}"
        raise DamagedCheckpointError(f"there is no complete checkpoint: {there}",
                                     "`latest` finds the last complete one") from None  # fmt: skip
    except DamagedCheckpointError:
        raise
    except RecursionError:
        raise DamagedCheckpointError(f"there is no complete checkpoint at {path}: {NAME} is nested too deeply",
                                     "`latest` finds the last complete one") from None  # fmt: skip
    except (OSError, ValueError, KeyError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DamagedCheckpointError(f"there is no complete checkpoint at {path}: {NAME}: {why}",
                                     "`latest` finds the last complete one") from None  # fmt: skip


def leaves_of(file: str) -> dict[str, Leaf]:
    """The leaves that a process has written a part of, of a save that is under way."""
    with open_regular(file) as text:
        return {k: _leaf(k, v) for k, v in json.loads(text.read())["body"]["leaves"].items()}


def merged(tables: Sequence[dict[str, Leaf]]) -> dict[str, Leaf]:
    """The leaves that several processes have written parts of, with the parts of all of them."""
    return {
        name: replace(leaf, pieces=tuple(piece for table in tables for piece in table[name].pieces))
        for name, leaf in tables[0].items()
    }


def dtype_of(name: str) -> np.dtype:
    """The dtype of a name of NumPy's or ml_dtypes'.

    Raises:
      ValueError: it is none of numbers.
    """
    if name in _EXTENDED:
        return np.dtype(getattr(ml_dtypes, name))
    try:
        found = np.dtype(name)
    except (TypeError, ValueError):
        found = np.dtype(object)
    if found.kind not in "biufc" or found.name != name:
        raise ValueError(f"{name!r} is no dtype of numbers")
    return found


def _is(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{what} is of type {type(value).__name__}, not {kind.__name__}")
    return value


def _field(table: Any, name: str, kind: type) -> Any:
    return _is(table[name], kind, repr(name))


def _leaf(name: str, v: Any) -> Leaf:
    """A leaf of the manifest, each field of which is checked.

    Raises:
      ValueError or KeyError: a field is missing or wrong; it names the leaf and the field.
    """
    try:
        shape = tuple(_is(n, int, "a size in 'shape'") for n in _field(_is(v, dict, "it"), "shape", list))
        if any(n < 0 for n in shape) or len(shape) > MOST_DIMENSIONS or math.prod(shape) > LARGEST:
            raise ValueError(f"'shape' is {list(shape)}")
        dtype, key = dtype_of(_field(v, "dtype", str)), v["key"]
        if key is not None and (type(key) is not str or key not in KEY_DTYPES):
            raise ValueError(f"'key' is {key!r}")
        return Leaf(shape, dtype.name, key, tuple(map(_piece, _field(v, "pieces", list))))
    except KeyError as error:
        raise ValueError(f"the leaf {name} has no {error}") from None
    except ValueError as error:
        raise ValueError(f"the leaf {name}: {error}") from None


def _piece(v: Any) -> Piece:
    _is(v, dict, "a piece")
    bounds = _field(v, "bounds", list)
    if not all(type(pair) is list and len(pair) == 2 and all(type(x) is int for x in pair) for pair in bounds):
        raise ValueError("'bounds' of a piece are no pairs of integers")
    file, crc32 = _field(v, "file", str), _field(v, "crc32", int)
    if not PART.fullmatch(file):
        raise ValueError(f"'file' of a piece is {file!r}, not part-NUMBER.safetensors in its folder")
    if not 0 <= crc32 < 1 << 32:
        raise ValueError(f"'crc32' of a piece is {crc32}")
    return Piece(tuple((a, b) for a, b in bounds), file, _field(v, "name", str), crc32)


def _check_coverage(name: str, leaf: Leaf) -> None:
    """Raise a `ValueError` unless the pieces of a leaf cover it exactly once."""
    if why := coverage.fault(leaf.shape, [piece.bounds for piece in leaf.pieces]):
        raise ValueError(f"the leaf {name}: its pieces {why}, of shape {list(leaf.shape)}")


def latest(directory: str | os.PathLike[str]) -> str | None:
    """The path of the checkpoint in a directory that was saved last, None if it holds no whole one.

    It waits for the saves to the directory that this process has under way.

    >>> import tempfile
    >>> latest(tempfile.mkdtemp()) is None
    True
    """
    for path, saving in list(under_way().items()):
        if os.path.dirname(path) == os.path.abspath(directory):
            saving.join()
    found = []
    for entry in os.scandir(directory) if os.path.isdir(directory) else ():
        if not entry.name.startswith(".") and os.path.exists(os.path.join(entry.path, NAME)):
            try:
                found.append((metadata(entry.path).time_ns, entry.path))
            except DamagedCheckpointError:
                continue
    return max(found)[1] if found else None
