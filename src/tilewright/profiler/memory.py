"""What fills a device's memory, in the format of the tool `pprof`."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from ..xla_backend import client


def device_memory_profile(backend: str | None = None) -> bytes:
    """The arrays and programs in the memory of a platform's devices, for `pprof`: a compressed protocol buffer.

    >>> device_memory_profile()[:2] == bytes([0x1f, 0x8b])
    True
    """
    platform = client.default_device().platform if backend is None else backend
    return gzip.compress(client.client(platform).heap_profile())


def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None) -> None:
    """Write `device_memory_profile()` to a file; `pprof --web FILE` shows it."""
    Path(filename).write_bytes(device_memory_profile(backend))
