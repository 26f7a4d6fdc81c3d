"""`jax.experimental.array_serialization.serialization`: arrays saved by tensorstore, in zarr, while a program goes on.

flax saves arrays of several processes by it, and orbax derives its managers of checkpoints from the class here.
"""

from __future__ import annotations

import abc
import importlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .....core.ir.array import DTypeLike
from .....core.support.errors import CheckpointWriteError, VersionError
from .....devices import process_index
from .....experimental.multihost_utils import sync_global_devices
from .....sharding import make_array_from_callback
from ....missing import not_adapted


def _tensorstore() -> Any:
    try:
        return importlib.import_module("tensorstore")
    except ImportError:
        raise VersionError("tensorstore is not installed", "pip install tensorstore") from None


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """What a manager of checkpoints has that saves arrays while the program goes on."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise what went wrong while arrays were saved."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait until all arrays are saved."""

    @abc.abstractmethod
    def serialize(self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Callable[[], None]) -> None:
        """Begin to save arrays."""

    @abc.abstractmethod
    def deserialize(self, shardings: Any, tensorstore_specs: Any, global_shapes: Any = None, dtypes: Any = None) -> Any:
        """The arrays that were saved, with shardings."""


def get_tensorstore_spec(ckpt_path: str | os.PathLike[str], ocdbt: bool = False) -> dict[str, Any]:
    """How tensorstore finds an array: in a folder of its own; with `ocdbt`, under its name in the store above it.

    >>> get_tensorstore_spec("/saved/w")["kvstore"]
    {'driver': 'file', 'path': '/saved/w'}
    """
    path = os.path.normpath(ckpt_path)
    if not ocdbt:
        return {"driver": "zarr", "kvstore": {"driver": "file", "path": path}}
    folder, name = os.path.split(path)
    base = {"driver": "file", "path": folder}
    return {"driver": "zarr", "kvstore": {"driver": "ocdbt", "base": base, "path": name}}


class GlobalAsyncCheckpointManager(GlobalAsyncCheckpointManagerBase):
    """Saves and reads arrays by tensorstore, each process its own parts; saving ends in a thread.

    Raises:
      CheckpointWriteError: of `wait_until_finished` and `check_for_errors`, what tensorstore could not write.
    """

    def __init__(self, timeout_secs: int = 300) -> None:
        self._timeout = timeout_secs
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def check_for_errors(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise CheckpointWriteError(f"an array could not be saved: {error}", "see the path that it names") from error

    def wait_until_finished(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()

    def serialize(
        self, arrays: Sequence[Any], tensorstore_specs: Sequence[Mapping[str, Any]], *,
        on_commit_callback: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Copy the arrays and begin to write them; the callback is called in the first process when all are written."""
        self.wait_until_finished()
        writes = [write for x, spec in zip(arrays, tensorstore_specs, strict=True) for write in _writes(x, spec)]
        for write in writes:
            write.copy.result()
        self._thread = threading.Thread(target=self._end, args=(writes, on_commit_callback))
        self._thread.start()

    def _end(self, writes: Sequence[Any], then: Callable[[], None] | None) -> None:
        try:
            for write in writes:
                write.commit.result(timeout=self._timeout)
            sync_global_devices("arrays are saved")
            if then is not None and process_index() == 0:
                then()
        except Exception as error:
            self._error = error

    def serialize_with_paths(
        self, arrays: Sequence[Any], paths: Sequence[str], *, on_commit_callback: Callable[[], None] | None = None
    ) -> None:
        """As `serialize`, to folders."""
        self.serialize(arrays, [*map(get_tensorstore_spec, paths)], on_commit_callback=on_commit_callback)

    def deserialize(
        self, shardings: Sequence[Any], tensorstore_specs: Sequence[Mapping[str, Any]],
        global_shapes: Sequence[Any] | None = None, dtypes: Sequence[Any] | None = None, concurrent_gb: int = 32,
    ) -> list[Any]:  # fmt: skip
        """The arrays, with shardings; one that is to be larger than what was saved has zeros there."""
        self.wait_until_finished()
        nothing = (None,) * len(tensorstore_specs)
        each = zip(shardings, tensorstore_specs, global_shapes or nothing, dtypes or nothing, strict=True)
        return [_read(*one) for one in each]

    def deserialize_with_paths(
        self, shardings: Sequence[Any], paths: Sequence[str], global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None, concurrent_gb: int = 32,
    ) -> list[Any]:  # fmt: skip
        """As `deserialize`, from folders."""
        return self.deserialize(shardings, [*map(get_tensorstore_spec, paths)], global_shapes, dtypes)


def _writes(x: Any, spec: Mapping[str, Any]) -> list[Any]:
    """The writing of an array's parts that are here, begun; the chunks of the file are the parts of the array."""
    chunks = [max(1, n) for n in x.sharding.shard_shape(x.shape)]
    metadata = {"compressor": {"id": "zstd"}, "shape": [*x.shape], "chunks": chunks}
    store = _tensorstore().open({"metadata": metadata, "dtype": x.dtype.name, **spec}, create=True, open=True).result()
    return [store[part.index].write(np.asarray(part.data)) for part in x.addressable_shards if part.replica_id == 0]


def _read(sharding: Any, spec: Mapping[str, Any], shape: Any, dtype: DTypeLike) -> Any:
    store = _tensorstore().open(dict(spec), open=True).result()
    shape = tuple(store.shape if shape is None else shape)
    dtype = store.dtype.numpy_dtype if dtype is None else np.dtype(dtype)

    def part(index: tuple[slice, ...]) -> np.ndarray:
        bounds = [s.indices(n) for s, n in zip(index, shape, strict=True)]
        found = np.zeros([stop - start for start, stop, _ in bounds], dtype)
        saved = tuple(slice(start, min(stop, n)) for (start, stop, _), n in zip(bounds, store.shape, strict=True))
        if all(s.start < s.stop for s in saved):
            found[tuple(slice(s.stop - s.start) for s in saved)] = store[saved].read().result()
        return found

    return make_array_from_callback(shape, sharding, part)


__all__ = ["GlobalAsyncCheckpointManager", "GlobalAsyncCheckpointManagerBase", "get_tensorstore_spec"]
__getattr__: Callable[..., Any] = not_adapted("jax.experimental.array_serialization.serialization")
