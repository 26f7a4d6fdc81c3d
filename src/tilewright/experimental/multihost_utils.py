"""What several processes do with the values of each: gather them, give one's to all, wait for each other.

Every process calls these, in the same order. A process that computes alone may call them too.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.ir.types import KeyDtype
from ..core.jit.jit import jit
from ..core.sharding.mesh import Mesh, NamedSharding, PartitionSpec
from ..core.support import pytree as tree
from ..core.support.errors import ArgumentError, ProcessMismatchError
from ..core.support.runtime import runtime
from ..devices import devices
from ..distributed.host_local import (
    global_array_to_host_local_array,
    host_local_array_to_global_array,
    identity,
    is_global,
)
from ..distributed.preemption import reached_preemption_sync_point
from ..numpy import sum as tnp_sum
from ..random.key import wrap_key_data
from ..sharding import make_array_from_callback
from ..xla_backend.arrays.array import Array, as_array
from ..xla_backend.arrays.process_consistency import barrier, gathered

P = PartitionSpec

__all__ = [
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array", "host_local_array_to_global_array",
    "process_allgather", "reached_preemption_sync_point", "sync_global_devices",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy


def _mesh() -> Mesh:
    """A mesh of one device of each process."""
    first = {d.process_index: d for d in reversed(devices())}
    return Mesh([first[p] for p in range(runtime.process_count)], ("processes",))


def _of_each(bits: np.ndarray, mesh: Mesh) -> Array:
    """An array with an axis of processes in front, of which this one gives its own part."""
    shape = (runtime.process_count, *bits.shape)
    return make_array_from_callback(shape, NamedSharding(mesh, P("processes")), lambda index: bits[None])


def _bits(x: Any) -> np.ndarray:
    """The values of an array of this process, those of keys with their words."""
    return np.asarray(as_array(x)._bits())


def sync_global_devices(name: str) -> None:
    """Wait until every process has come here, with the same name.

    Raises:
      ProcessMismatchError: another process waits at another name, or does something else.

    >>> sync_global_devices("the data are there")
    """
    barrier(name)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes as NumPy arrays: stacked along a new first axis, or joined along the first (`tiled`).

    An array that lies in several processes is gathered whole, which needs `tiled=True`.

    Raises:
      ArgumentError: an array of several processes without `tiled`.
      ProcessMismatchError: arrays of different shapes or dtypes.

    >>> process_allgather(np.arange(3.0)).tolist(), process_allgather(np.arange(3.0), tiled=True).tolist()
    ([[0.0, 1.0, 2.0]], [0.0, 1.0, 2.0])
    """
    mesh = _mesh()

    def gather(x: Any) -> np.ndarray:
        if is_global(x):
            if not tiled:
                raise ArgumentError("process_allgather of an array of several processes without tiled=True",
                                    "pass tiled=True: it is gathered as it is")  # fmt: skip
            everywhere = NamedSharding(x.sharding.mesh, P())
            return np.asarray(jit(identity, out_shardings=everywhere)(x))
        bits = _bits(x)
        raw = np.frombuffer(np.ascontiguousarray(bits).tobytes(), np.uint8)
        found = np.asarray(jit(identity, out_shardings=NamedSharding(mesh, P()))(_of_each(raw, mesh)))
        stacked = np.frombuffer(found.tobytes(), bits.dtype).reshape(runtime.process_count, *bits.shape)
        return stacked.reshape(-1, *bits.shape[1:]) if tiled and bits.ndim else stacked

    return tree.map(gather, in_tree)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values of process 0, or of the one for which `is_source` holds, as NumPy arrays (keys stay such) in all.

    Every process passes a pytree of the same structure, shapes and dtypes.

    Raises:
      ArgumentError: not exactly one process is the source.
      ProcessMismatchError: other shapes or dtypes.

    >>> broadcast_one_to_all({"seed": np.int32(3)})
    {'seed': array(3, dtype=int32)}
    """
    mine = runtime.process_index == 0 if is_source is None else is_source
    if is_source is not None:
        sources = [p for p, text in enumerate(gathered("broadcast_one_to_all", str(bool(mine)))) if text == "True"]
        if len(sources) != 1:
            raise ArgumentError(f"broadcast_one_to_all with the sources {sources}", "one process is the source")
    mesh = _mesh()

    def take(x: Any) -> Any:
        bits = _bits(x)
        raw = np.frombuffer(np.ascontiguousarray(bits).tobytes(), np.uint8)
        given = _of_each(raw if mine else np.zeros_like(raw), mesh)  # a sum of bytes and zeros is exact
        found = np.asarray(jit(_summed, out_shardings=NamedSharding(mesh, P()))(given))
        values = np.frombuffer(found.tobytes(), bits.dtype).reshape(bits.shape)
        dtype = getattr(x, "dtype", None)
        return wrap_key_data(values, dtype=dtype) if isinstance(dtype, KeyDtype) else values

    return tree.map(take, in_tree)


def _summed(x: Any) -> Any:
    return tnp_sum(x, 0, dtype=np.uint8)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Hold the values of every process against those of process 0.

    Raises:
      ProcessMismatchError: they differ; it is an `AssertionError` too.

    >>> assert_equal({"step": 3})
    """
    leaves = tree.leaves_with_path(in_tree)
    mine = {tree.keystr(path): f"{as_array(x).aval.show()} {zlib.crc32(_bits(x).tobytes()):08x}" for path, x in leaves}
    first, *others = [json.loads(text) for text in gathered("assert_equal", json.dumps(mine))]
    for process, other in enumerate(others, 1):
        where = [name or "the value" for name in first | other if first.get(name) != other.get(name)]
        if where:
            raise ProcessMismatchError(f"{fail_message or 'values differ'}: process {process} from process 0, at "
                                       f"{', '.join(where[:5])}", "give every process the same values")  # fmt: skip
