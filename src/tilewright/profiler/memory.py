"""What fills a device's memory: in the format of the tool `pprof`, and what a function takes at its peak, by line."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.jit.jit import jit
from ..core.support.config import config
from ..core.support.html_table import html_text
from ..xla_backend.analysis.instruction_origins import Origin, origins
from ..xla_backend.analysis.peak_memory import Live, at_peak
from ..xla_backend.devices import client

_LINES = 30  # of a report as text


def device_memory_profile(backend: str | None = None) -> bytes:
    """The arrays and programs in the memory of a platform's devices, for `pprof`: a compressed protocol buffer.

    >>> device_memory_profile()[:2] == bytes([0x1f, 0x8b])
    True
    """
    platform = client.default_device().platform if backend is None else backend
    return gzip.compress(client.client(platform).heap_profile())


def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None) -> None:
    """Write `device_memory_profile()` to a file; `pprof --web FILE` shows it.

    >>> import os, tempfile
    >>> from tilewright import profiler
    >>> path = os.path.join(tempfile.mkdtemp(), 'memory.prof')
    >>> profiler.save_device_memory_profile(path)
    >>> os.path.getsize(path) > 0
    True
    """
    Path(filename).write_bytes(device_memory_profile(backend))


@dataclass(frozen=True)
class MemoryReport:
    """What a function takes at its peak: `alive` there, the largest first, with what made each and your line.

    `arguments`, `results` and `temporary` are XLA's own figures in bytes; `temporary` is what it sets aside for all
    values between, which may be less than their sum, as some take the memory of others.
    """

    name: str
    peak: int
    alive: tuple[tuple[Live, Origin | None], ...]
    arguments: int
    results: int
    temporary: int

    def __str__(self) -> str:
        sizes = map(_size, (self.arguments, self.results, self.temporary))
        told = "{} of arguments, {} of results, {} set aside".format(*sizes)
        lines = [f"{self.name}: {_size(self.peak)} at the peak; by XLA {told}"]
        for live, origin in self.alive[:_LINES]:
            what = live.name if origin is None else f"{origin.name}  {origin.line}"
            lines.append(f"{_size(live.bytes):>12} {live.role:<9} {what}".rstrip())
        more = len(self.alive) - _LINES
        return "\n".join(lines + ([f"             and {more} smaller ones"] if more > 0 else []))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_text(str(self))


def memory_report(f: Callable[..., Any], *args: Any, **kwargs: Any) -> MemoryReport:
    """What a function has in memory at its peak, and which of your lines made it; nothing is run.

    Arguments are arrays, or shapes with dtypes. The arrays are those of the program that XLA made, in its order.

    >>> from tilewright import ShapeDtypeStruct, numpy as tnp
    >>> found = memory_report(lambda x: (tnp.sort(x) * x).sum(), ShapeDtypeStruct((1024,), "float32"))
    >>> found.peak >= 2 * 4096, found.alive[0][0].bytes
    (True, 4096)
    """
    with config(source_lines=True):
        compiled = (f if hasattr(f, "lower") else jit(f)).lower(*args, **kwargs).compile()
    text, stats = compiled.as_text(), compiled.memory_analysis()
    peak, alive = at_peak(text)
    known = origins(text)
    rows = tuple((x, known.get(x.name)) for x in alive if x.bytes)
    return MemoryReport(getattr(f, "__name__", "function"), peak, rows, stats.argument_size_in_bytes,
                        stats.output_size_in_bytes, stats.temp_size_in_bytes)  # fmt: skip


def _size(n: int) -> str:
    return f"{n / 2**20:,.2f} MiB" if n >= 2**20 else f"{n / 2**10:,.2f} KiB" if n >= 2**10 else f"{n} bytes"
