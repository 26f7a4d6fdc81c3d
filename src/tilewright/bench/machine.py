"""What a measurement was made on: the machine in words, what it reaches at most, and how fast it is at this moment."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.jit.jit import jit
from ..core.support.memo import once
from ..core.support.version import JAXLIB, __version__
from ..devices import devices
from ..numpy import ones
from ..tuning.measure import processor
from .child import timed

SIDE = 1024  # of the product that measures operations a second
MEGABYTES = 128  # that are read and written to measure the bandwidth
_YARDSTICK = 3  # passes over a fixed piece of work
_FASTEST_OF = 15
_CLOCK_BATCH, _CLOCK_SECONDS = 40, 0.01


class Ceilings(NamedTuple):
    """What the default device was measured to reach: operations of float32 and bytes of memory a second."""

    flops: float
    bandwidth: float


def description() -> dict[str, str]:
    """The machine and the versions, by name."""
    device = devices()[0]
    return {
        "machine": f"{platform.system()} {platform.machine()}", "processor": processor(),
        "processors": str(os.cpu_count()), "device": " ".join(dict.fromkeys((device.platform, device.device_kind))),
        "python": platform.python_version(), "numpy": np.__version__, "jaxlib": JAXLIB, "tilewright": __version__,
    }  # fmt: skip


@once
def ceilings() -> Ceilings:
    """Measured once in a process, each by the fastest of 15 calls: a product of matrices, and a pass over memory."""
    x = ones((SIDE, SIDE))
    product = jit(lambda x: x @ x)
    passing = jit(lambda x: x + 1.0)
    long = ones((MEGABYTES * 2**18,))
    seconds = [
        min(_seconds(lambda f=f, a=a: f(a).block_until_ready()) for _ in range(_FASTEST_OF))
        for f, a in ((product, x), (passing, long))
    ]
    return Ceilings(2 * SIDE**3 / seconds[0], 2 * MEGABYTES * 2**20 / seconds[1])


def yardstick() -> float:
    """Seconds of a fixed piece of NumPy's work, by which runs on a machine of changing speed are compared."""
    data = np.arange(2**19, dtype=np.float32)
    return min(_seconds(lambda: np.sqrt(data * data + 1.0).sum()) for _ in range(_YARDSTICK))


def clock() -> float:
    """Seconds of a fixed piece of work that stays in a processor's first cache: the least of many short batches."""
    data = np.arange(2**12, dtype=np.float32)
    return timed(lambda: np.sqrt(data * data + 1.0).sum(), _CLOCK_BATCH, _CLOCK_SECONDS, lambda out: None)[1]


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
