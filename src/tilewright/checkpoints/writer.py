"""Saving: the values are copied to the host at once, a thread writes them, a rename makes the checkpoint exist."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from ..core.ir.types import KeyDtype
from ..core.support import pytree
from ..core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    CheckpointWriteError,
    NonArrayArgumentError,
    Source,
    TilewrightError,
    UnsupportedError,
    user_source,
)
from ..core.support.runtime import runtime
from ..xla_backend.arrays.array import Array
from ..xla_backend.arrays.process_consistency import everyone
from ..xla_backend.arrays.transfer import physical
from ..xla_backend.devices.coordination import group
from ..xla_backend.execution.sharded_execution import distinct, local_part
from ..xla_backend.host.digest import digest
from .coverage import Bounds
from .files import partial_of, writing
from .manifest import NAME, NUMBERS, Leaf, Manifest, Piece, dtype_of, leaves_of, merged, under_way
from .safetensors import WRITABLE, header, raw, told_of

CHUNK = 2**24  # bytes written at once
Parts = list[tuple[Bounds, np.ndarray]]


class CheckpointWarning(UserWarning):
    """A checkpoint was not written, and nobody waited for it."""


class Saving:
    """A checkpoint that a thread writes; `wait()` for it before the program ends, or to learn that it failed."""

    path: str

    def __init__(self, path: str, write: Callable[[], None]):
        self.path, self._error, self._told = path, None, False
        self._thread = threading.Thread(target=self._run, args=(write,), name=f"save {path}")
        under_way()[path] = self
        self._thread.start()

    _error: TilewrightError | None

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except TilewrightError as error:
            error.__context__ = None  # whose frames would hold this object, as the error's own
            self._error = error.with_traceback(None)

    def done(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def wait(self) -> str:
        """Wait until the checkpoint is on the disk; gives its path.

        Raises:
          CheckpointWriteError: a disk that is full or cannot be written to.
        """
        self.join()
        if self._error is not None:
            self._told = True
            raise self._error
        return self.path

    def __del__(self) -> None:
        if getattr(self, "_error", None) is not None and not self._told:
            warnings.warn(f"a checkpoint failed without a `wait()`: {self._error}", CheckpointWarning, stacklevel=2)


def save(path: str | os.PathLike[str], state: Any, *, notes: Any = None, progress: bool = True) -> Saving:
    """Save a pytree of arrays of any shapes, dtypes and shardings as the directory `path`, which must not exist yet.

    Returns when the values are copied, so that their arrays may be donated; a thread writes them. The directory
    appears under its name when all of it is on the disk. `notes` is anything that JSON can hold. With `progress` there
    is a bar on the terminal, if there is one. Several processes call it together, with one path on a file system that
    they share: each writes what it is the first to hold, process 0 what lies on no mesh.

    Raises:
      ArgumentError: there is something at `path`, or another leaf has the same path in the tree.
      ProcessMismatchError: other processes save another tree, or elsewhere.
      CheckpointWriteError (from `wait`): a disk that is full or cannot be written to.

    >>> import tempfile
    >>> from tilewright import numpy as tnp
    >>> path = save(tempfile.mkdtemp() + "/1", {"w": tnp.ones((2, 3)), "step": 1}, notes="first").wait()
    >>> from tilewright.checkpoints import restore
    >>> restore(path, {"w": tnp.zeros((2, 3)), "step": 0})["step"]
    1
    """
    path, source = os.path.abspath(path), user_source()
    before = under_way().get(path)
    if before is not None and not before.done():
        raise ArgumentError(f"a save to {path} is under way already", "`wait()` for it, and save under another name")
    if os.path.lexists(path):
        raise ArgumentError(f"there is something at {path} already", "save each checkpoint under a name of its own")
    try:
        notes = json.loads(json.dumps(notes))
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"the notes of a checkpoint: {error}", "numbers, text, lists and dicts") from None
    leaves: dict[str, tuple[np.dtype, tuple[int, ...], str | None, Parts]] = {}
    for keys, leaf in pytree.leaves_with_path(state):
        name = pytree.keystr(keys)
        if name in leaves:
            raise ArgumentError(f"two leaves of the tree have the path {name}", "give the keys other texts")
        leaves[name] = _copied(name, leaf)
    number = 0
    if runtime.process_count > 1:
        types = str([(name, str(dtype), shape, key) for name, (dtype, shape, key, _) in leaves.items()])
        number = group.step(f"the checkpoint {path}", {"leaves": digest(types)[:12]}, everyone())
    return Saving(path, lambda: _write(path, leaves, notes, progress, source, number))


def _copied(name: str, x: Any) -> tuple[np.dtype, tuple[int, ...], str | None, Parts]:
    """The dtype and shape of a leaf as it is held, its generator if it holds keys, and a copy of each part to write."""
    if type(x) is Array and x._placed is not None:
        if x._placed.spec.unreduced:
            raise UnsupportedError(f"the leaf {name} of type {x.aval.show()} in a checkpoint, whose parts are yet to "
                                   "be summed", "sum them first: `reshard(x, P(...))`")  # fmt: skip
        held = physical(x.aval)
        return held.dtype, held.shape, _generator(x), _parts(x, held.shape)
    if isinstance(x, Array) and hasattr(x, "_bits"):
        values, key = x._bits(), _generator(x)
    elif isinstance(x, (np.ndarray, np.generic, *NUMBERS)):
        values, key = np.asarray(x), None
    else:
        raise NonArrayArgumentError(f"the leaf {name} of type {type(x).__name__} in a checkpoint", "save it in `notes`")
    try:
        dtype = dtype_of(values.dtype.name)
    except ValueError:
        raise NonArrayArgumentError(f"the leaf {name} of dtype {values.dtype} in a checkpoint",
                                    "save it in `notes`") from None  # fmt: skip
    parts = []
    if values.size and runtime.process_index == 0:
        parts.append((tuple((0, n) for n in values.shape), np.array(values, dtype, order="C")))  # this machine's bytes
    return dtype, values.shape, key, parts


def _generator(x: Array) -> str | None:
    return x.dtype.generator if isinstance(x.dtype, KeyDtype) else None


def _parts(x: Array, shape: tuple[int, ...]) -> Parts:
    """The distinct parts of an array, without padding, of which a device of this process is the first holder."""
    devices, found = x.sharding.mesh.flat, []
    for number, index in distinct(x.sharding, x.shape):
        full = (*index, *(slice(None),) * (len(shape) - len(index)))
        bounds = tuple(i.indices(n)[:2] for i, n in zip(full, shape, strict=True))
        if devices[number].process_index == runtime.process_index and all(a < b for a, b in bounds):
            part = local_part(x, number, index)[tuple(slice(b - a) for a, b in bounds)]
            found.append((bounds, np.array(part, order="C")))
    return found


def _write(path: str, leaves: dict[str, Any], notes: Any, progress: bool, source: Source | None, number: int) -> None:
    """Write a checkpoint in three phases, each of which all processes have come through before the next."""
    partial, first, held = partial_of(path), runtime.process_index == 0, ExitStack()

    def begin() -> None:
        held.enter_context(writing(path))

    def write() -> None:
        total = sum(v.nbytes for *_, parts in leaves.values() for _, v in parts)
        with _bar(path, total, progress and first) as advance:
            file = f"part-{runtime.process_index}.safetensors"
            table = _write_part(os.path.join(partial, file), leaves, advance)
        _write_synced(_table(partial, runtime.process_index), [Manifest(table, None, 0).text().encode()])

    def commit() -> None:
        tables = [_table(partial, p) for p in range(runtime.process_count)]
        table = merged([leaves_of(t) for t in tables])
        for name in tables:
            os.remove(name)
        _write_synced(os.path.join(partial, NAME), [Manifest(table, notes, time.time_ns()).text().encode()])
        _sync_directory(partial)
        os.rename(partial, path)
        _sync_directory(os.path.dirname(path))

    with held:
        for name, action, everywhere in (("begin", begin, False), ("write", write, True), ("commit", commit, False)):
            failure = ""
            try:
                if first or everywhere:
                    action()
            except OSError as error:
                failure = told_of(error, path)
            for process, why in enumerate(_told(f"save/{number}/{name}", failure, f"the save of {path}")):
                if why:
                    if first and name != "begin":
                        shutil.rmtree(partial, ignore_errors=True)
                    who = f" by process {process}" if runtime.process_count > 1 else ""
                    raise CheckpointWriteError(f"{path} cannot be written{who}: {why}", WRITABLE, source)


def _table(partial: str, process: int) -> str:
    return os.path.join(partial, f"part-{process}.json")


def _told(key: str, text: str, what: str) -> list[str]:
    """What each process says at this point of a save."""
    if runtime.process_count == 1:
        return [text]
    found = group.exchange(key, text, everyone(), what)
    return [found[p] for p in everyone()]


def _write_part(path: str, leaves: dict[str, Any], advance: Callable[[int], None]) -> dict[str, Leaf]:
    """Write the file of the parts of this process; gives what the manifest says of them."""
    arrays = {f"{name}#{n}": v for name, (*_, parts) in leaves.items() for n, (_, v) in enumerate(parts)}
    sums = {name: zlib.crc32(raw(v).data) for name, v in arrays.items()}

    def chunks() -> Iterator[Any]:
        yield header(arrays)
        for v in arrays.values():
            data = raw(v)
            for start in range(0, len(data), CHUNK):
                yield data[start : start + CHUNK].data
                advance(min(CHUNK, len(data) - start))

    _write_synced(path, chunks())
    file = os.path.basename(path)
    found = {}
    for name, (dtype, shape, key, parts) in leaves.items():
        names = [f"{name}#{n}" for n in range(len(parts))]
        pieces = tuple(Piece(bounds, file, n, sums[n]) for n, (bounds, _) in zip(names, parts, strict=True))
        found[name] = Leaf(shape, dtype.name, key, pieces)
    return found


def _write_synced(path: str, chunks: Any) -> None:
    with open(path, "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _bar(path: str, total: int, progress: bool) -> Iterator[Callable[[int], None]]:
    """A bar of the bytes written, where there is a terminal."""
    console = Console(stderr=True)
    if not (progress and console.is_terminal):
        yield lambda size: None
        return
    columns = TextColumn(f"saving {os.path.basename(path)}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda size: bar.advance(task, size)
