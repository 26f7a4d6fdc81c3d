"""What a checkpoint holds, as `manifest.json` says: the leaves of the tree, and where each part of them lies."""

from __future__ import annotations

import json
import os
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..core.support.errors import DamagedCheckpointError
from ..core.support.runtime import runtime

NAME = "manifest.json"
NUMBERS = (bool, int, float, complex)  # leaves that are numbers of Python
FORMAT = "tilewright checkpoint 1"
Bounds = tuple[tuple[int, int], ...]  # first and past the last element of each dimension


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
        with open(os.path.join(path, NAME), encoding="utf-8") as file:
            table = json.load(file)
        if table["format"] != FORMAT:
            raise DamagedCheckpointError(f"{path} is of the format {table['format']!r}", f"this version reads {FORMAT}")
        if _checksum(table["body"]) != table["crc32"]:
            raise ValueError("its checksum is another one")
        body = table["body"]
        return Manifest({k: _leaf(v) for k, v in body["leaves"].items()}, body["notes"], body["time_ns"])
    except FileNotFoundError:
        there = f"{path} has no {NAME}" if os.path.isdir(path) else f"there is nothing at {path}"
        raise DamagedCheckpointError(f"there is no complete checkpoint: {there}",
                                     "`latest` finds the last complete one") from None  # fmt: skip
    except DamagedCheckpointError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpointError(f"there is no complete checkpoint at {path}: {NAME}: {error}",
                                     "`latest` finds the last complete one") from None  # fmt: skip


def leaves_of(file: str) -> dict[str, Leaf]:
    """The leaves that a process has written a part of, of a save that is under way."""
    with open(file, encoding="utf-8") as text:
        return {k: _leaf(v) for k, v in json.load(text)["body"]["leaves"].items()}


def merged(tables: Sequence[dict[str, Leaf]]) -> dict[str, Leaf]:
    """The leaves that several processes have written parts of, with the parts of all of them."""
    return {
        name: replace(leaf, pieces=tuple(piece for table in tables for piece in table[name].pieces))
        for name, leaf in tables[0].items()
    }


def _leaf(v: dict[str, Any]) -> Leaf:
    pieces = (Piece(tuple(map(tuple, p["bounds"])), p["file"], p["name"], p["crc32"]) for p in v["pieces"])
    return Leaf(tuple(v["shape"]), v["dtype"], v["key"], tuple(pieces))


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
