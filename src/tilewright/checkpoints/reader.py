"""Restoring: each part of an array is read out of the parts that were saved, through memory maps, each byte once."""

from __future__ import annotations

import math
import os
import zlib
from typing import Any

import numpy as np

from ..core.ir.types import KEY_DTYPES, KeyDtype, canonical_dtype
from ..core.sharding.mesh import AbstractMesh, NamedSharding
from ..core.support import pytree
from ..core.support.errors import CheckpointMismatchError, DtypeError, MeshError, NonArrayArgumentError
from ..devices import device_put
from ..random.key import wrap_key_data
from ..sharding import make_array_from_callback
from .coverage import Bounds
from .manifest import NUMBERS, Leaf, Manifest, Piece, dtype_of, metadata
from .safetensors import NAMES, Part, raw


class Reader:
    """The parts of a checkpoint; `bytes_read` counts what was read of their arrays."""

    path: str
    bytes_read: int

    def __init__(self, path: str):
        self.path, self.bytes_read = path, 0
        self._parts: dict[str, Part] = {}

    def piece(self, leaf: Leaf, piece: Piece) -> np.ndarray:
        """A part that was saved, not read yet."""
        if piece.file not in self._parts:
            self._parts[piece.file] = Part(os.path.join(self.path, piece.file), follow=False)
        part, dtype, shape = self._parts[piece.file], dtype_of(leaf.dtype), tuple(b - a for a, b in piece.bounds)
        size = math.prod(shape) * dtype.itemsize
        part.check(piece.name, NAMES.get(dtype, "U8"), shape if dtype in NAMES else (size,))
        return part.array(piece.name, dtype, shape)

    def whole_piece(self, leaf: Leaf, piece: Piece) -> np.ndarray:
        """A part that was saved, read and held against its checksum."""
        values = np.array(self.piece(leaf, piece))
        self.bytes_read += values.nbytes
        if zlib.crc32(raw(values).data) != piece.crc32:
            raise self._parts[piece.file].damaged(f"was altered: the checksum of {piece.name!r} is another one")
        return values

    def read(self, leaf: Leaf, wanted: list[Bounds]) -> dict[Bounds, np.ndarray]:
        """The values of an array between bounds that do not overlap; parts that are needed whole are checked."""
        found = {w: np.empty([b - a for a, b in w], dtype_of(leaf.dtype)) for w in wanted}
        for piece in leaf.pieces:
            cuts = [(w, cut) for w in wanted if (cut := _common(w, piece.bounds)) is not None]
            if not cuts:
                continue
            if sum(_size(cut) for _, cut in cuts) == _size(piece.bounds):
                values, count = self.whole_piece(leaf, piece), False
            else:
                values, count = self.piece(leaf, piece), True
            for w, cut in cuts:
                part = values[_within(cut, piece.bounds)]
                found[w][_within(cut, w)] = part
                self.bytes_read += part.nbytes * count
        return found


def _common(a: Bounds, b: Bounds) -> Bounds | None:
    cut = tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a, b, strict=True))
    return cut if all(x < y for x, y in cut) else None


def _size(bounds: Bounds) -> int:
    return math.prod(b - a for a, b in bounds)


def _within(cut: Bounds, outer: Bounds) -> tuple[slice, ...]:
    return tuple(slice(a - o, b - o) for (a, b), (o, _) in zip(cut, outer, strict=True))


def check(path: str | os.PathLike[str]) -> Manifest:
    """Read a whole checkpoint and hold every part against its checksum; gives what it holds.

    Raises:
      DamagedCheckpointError: a part is missing, truncated or altered.

    >>> import tempfile
    >>> from tilewright.checkpoints import save
    >>> list(check(save(tempfile.mkdtemp() + "/1", {"w": np.ones(3, "float32")}).wait()).leaves)
    ["['w']"]
    """
    manifest, reader = metadata(path), Reader(os.fspath(path))
    for leaf in manifest.leaves.values():
        for piece in leaf.pieces:
            reader.whole_piece(leaf, piece)
    return manifest


def restore(path: str | os.PathLike[str], like: Any = None, shardings: Any = None) -> Any:
    """The tree that was saved at a path, on any mesh, reading only the bytes that this process needs.

    `like` is a pytree of the same structure, shapes and dtypes: arrays or `ShapeDtypeStruct`, whose shardings the
    result has unless `shardings` (a sharding or device, or a prefix tree of them) names others; NumPy arrays and
    numbers come back as such. Without it the result is a dict by the paths of the leaves, `"['w']"`, and `shardings`
    may be one. Parts that are needed whole are held against their checksums; `check` reads all.

    Raises:
      DamagedCheckpointError: there is no complete checkpoint, or a part is truncated or altered.
      CheckpointMismatchError: another tree, a leaf missing, or of another shape or dtype.
      NonArrayArgumentError: a leaf of `like` that is neither an array nor a number.
      DtypeError: a leaf of 64 bits while `enable_x64` is not set.

    >>> import tempfile
    >>> from tilewright.checkpoints import save
    >>> restore(save(tempfile.mkdtemp() + "/1", {"w": np.ones(3, "float32")}).wait())
    {"['w']": Array([1., 1., 1.], dtype=float32)}
    """
    manifest, reader = metadata(path), Reader(os.fspath(path))
    if like is None:
        names = list(manifest.leaves)
        places = [shardings.get(n) if isinstance(shardings, dict) else shardings for n in names]
        return {n: _restored(reader, n, manifest.leaves[n], None, p) for n, p in zip(names, places, strict=True)}
    pairs, structure = pytree.flatten_with_path(like)
    names = [pytree.keystr(keys) for keys, _ in pairs]
    _check_names(os.fspath(path), names, manifest)
    places = pytree.broadcast_prefix(shardings, like) if shardings is not None else [None] * len(names)
    for name, (_, leaf) in zip(names, pairs, strict=True):
        _check_leaf(name, manifest.leaves[name], leaf)  # all of them before anything is read
    return structure.unflatten(
        _restored(reader, name, manifest.leaves[name], leaf, place)
        for name, (_, leaf), place in zip(names, pairs, places, strict=True)
    )


def _check_names(path: str, names: list[str], manifest: Manifest) -> None:
    missing = [n for n in names if n not in manifest.leaves]
    more = sorted(manifest.leaves.keys() - set(names))
    if missing or more:
        lacks = (("it", missing), ("`like`", more))
        said = "; ".join(f"{what} has no {', '.join(names[:5])}" for what, names in lacks if names)
        raise CheckpointMismatchError(f"the checkpoint {path} is of another tree: {said}",
                                      "pass a tree of the same structure, or leave `like` out")  # fmt: skip


def _check_leaf(name: str, leaf: Leaf, like: Any) -> None:
    """Hold the type of a leaf against that of what it is to be like."""
    if not isinstance(like, NUMBERS) and not hasattr(like, "dtype"):
        raise NonArrayArgumentError(f"the leaf {name} of `like` is of type {type(like).__name__}",
                                    "give an array, a ShapeDtypeStruct or a number")  # fmt: skip
    if isinstance(like, NUMBERS):
        shape, dtype, key = (), np.asarray(like).dtype.name, None
        fits = leaf.shape == () and leaf.key is None and dtype_of(leaf.dtype).kind == np.asarray(like).dtype.kind
    else:
        of_keys = isinstance(like.dtype, KeyDtype)
        key = like.dtype.generator if of_keys else None
        shape = (*like.shape, like.dtype.words) if of_keys else tuple(like.shape)
        dtype = "uint32" if of_keys else np.dtype(like.dtype).name
        fits = (leaf.shape, leaf.dtype, leaf.key) == (shape, dtype, key)
    if not fits:
        keys = "" if leaf.key == key else f" ({leaf.key or 'no'} keys, where it is to be {key or 'no'} keys)"
        raise CheckpointMismatchError(
            f"the leaf {name} was saved as {leaf.dtype}{list(leaf.shape)}{keys}, and `like` has {dtype}{list(shape)}",
            "make `like` as it was saved, and convert what is restored")  # fmt: skip


def _restored(reader: Reader, name: str, leaf: Leaf, like: Any, place: Any) -> Any:
    whole = tuple((0, n) for n in leaf.shape)
    place = getattr(like, "sharding", None) if place is None else place
    if place is None and isinstance(like, (np.ndarray, np.generic, *NUMBERS)):
        values = reader.read(leaf, [whole])[whole]
        return values if isinstance(like, np.ndarray) else values[()] if isinstance(like, np.generic) else values.item()
    if canonical_dtype(dtype_of(leaf.dtype)) != dtype_of(leaf.dtype):
        raise DtypeError(f"the leaf {name} was saved as {leaf.dtype}, which arrays have with `enable_x64` alone",
                         "set enable_x64, or pass a NumPy array in `like`")  # fmt: skip
    if place is not None and hasattr(place, "placed"):
        place = place.placed("restore")
    if isinstance(place, NamedSharding) and isinstance(place.mesh, AbstractMesh):
        if not place.mesh.empty:
            raise MeshError(f"the leaf {name} has a sharding over {place.mesh}, which has no devices",
                            "give a sharding over a `Mesh`, or call within `set_mesh`")  # fmt: skip
        place = None
    if isinstance(place, NamedSharding):
        maps = place.addressable_devices_indices_map(leaf.shape).values()
        bounds = [tuple(i.indices(n)[:2] for i, n in zip(m, leaf.shape, strict=True)) for m in maps]
        parts = reader.read(leaf, list(dict.fromkeys(bounds)))

        def part(index: tuple[slice, ...]) -> np.ndarray:
            return parts[tuple(i.indices(n)[:2] for i, n in zip(index, leaf.shape, strict=True))]

        array = make_array_from_callback(leaf.shape, place, part, dtype=dtype_of(leaf.dtype))
    else:
        array = device_put(reader.read(leaf, [whole])[whole], place)
    return array if leaf.key is None else wrap_key_data(array, dtype=KEY_DTYPES[leaf.key])
