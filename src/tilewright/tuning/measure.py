"""One configuration measured: is it within memory, is it right, how long does it take."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.ir.types import is_inexact
from ..core.support import pytree
from ..core.support.errors import ArgumentError, TilewrightError
from ..core.support.memo import once
from ..devices import devices

# How far results may differ from the reference, relative to its largest element.
LEAST = 2e-3  # seconds that a timing takes
BATCHES = 8  # of a timing, the fastest of which counts
TOLERANCE = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
    "bfloat16": 4e-2,
}


def wrong(found: Any, reference: Any, tolerance: float | None) -> str | None:
    """What is wrong with a result, compared with the reference; None if nothing is."""
    for f, r in zip(pytree.leaves(found), pytree.leaves(reference), strict=True):
        f, r = np.asarray(f), np.asarray(r)
        if f.shape != r.shape or f.dtype != r.dtype:
            return f"it gives {f.dtype}{list(f.shape)}, the reference {r.dtype}{list(r.shape)}"
        if not is_inexact(f.dtype):
            if not np.array_equal(f, r):
                return f"{int((f != r).sum())} elements differ from the reference"
            continue
        limit = tolerance if tolerance is not None else TOLERANCE.get(str(f.dtype), 1e-1)
        wide = np.complex128 if np.iscomplexobj(f) else np.float64
        f, r = f.astype(wide), r.astype(wide)
        scale = float(np.max(np.abs(r), initial=0.0, where=np.isfinite(r))) or 1.0
        same = (f == r) | (np.isnan(f) & np.isnan(r))
        worst = float(np.max(np.where(same, 0.0, np.abs(f - r)), initial=0.0)) / scale
        if not worst <= limit:
            return f"it differs from the reference by {worst:.2g} of its largest element (allowed: {limit:.2g})"
    return None


def seconds_of(call: Callable[[], Any], stop_above: float, repeats: int = 7) -> tuple[float, float, int]:
    """Median seconds a call, the spread of the middle half, and the number of timings.

    Fast calls are timed several at once. A call slower than `stop_above` is timed twice only.
    """
    wait(call())
    once = _batch(call, 1)
    if once > stop_above:
        once = min(once, _batch(call, 1))  # it may have been interrupted
    if once > stop_above:
        return once, 0.0, 1
    inner = max(1, int(LEAST / max(once, 1e-7)))
    times = [fastest(call, inner) for _ in range(repeats)]
    quarters = statistics.quantiles(times, n=4)
    return statistics.median(times), quarters[2] - quarters[0], repeats


def fastest(call: Callable[[], Any], count: int) -> float:
    """Seconds of a call, in the fastest of eight or more batches of `count` calls in all, if there are as many calls.

    Other programs only add to times, and of several short batches some are not interrupted.
    """
    size = max(1, count // BATCHES)
    return min(_batch(call, size) for _ in range(count // size))


def _batch(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        out = call()
    wait(out)
    return (time.perf_counter() - start) / count


def check_budget(budget: Any) -> None:
    """Refuse what is no time.

    Raises:
      ArgumentError: it is neither a positive number of seconds nor None.
    """
    if budget is not None and not (isinstance(budget, (int, float)) and budget > 0):
        raise ArgumentError(f"tune: the budget is {budget!r}", "give seconds, `budget=60`, or None for no limit")


def closed(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """The arrays among the arguments of a call, and what makes a function of these alone of the function called.

    What is no array (a flag, a size) is a part of that function.
    """
    leaves, structure = pytree.flatten((tuple(args), dict(kwargs)))
    places = [i for i, x in enumerate(leaves) if hasattr(x, "shape")]

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        def on_arrays(*arrays: Any) -> Any:
            found = dict(zip(places, arrays, strict=True))
            args, kwargs = structure.unflatten([found.get(i, x) for i, x in enumerate(leaves)])
            return function(*args, **kwargs)

        return on_arrays

    return [leaves[i] for i in places], of


def said(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, TilewrightError):
        return error.what
    first = str(error).splitlines()
    return f"{type(error).__name__}: {first[0] if first else ''}"


def wait(out: Any) -> None:
    """Wait until all arrays are computed."""
    for x in pytree.leaves(out):
        x.block_until_ready()


def shapes_and_dtypes(types: Sequence[Any]) -> tuple[tuple[tuple[int, ...], ...], str]:
    """The shapes of some types, and their dtypes as text."""
    return tuple(t.shape for t in types), ",".join(str(t.dtype) for t in types)


@once
def processor() -> str:
    """The model of this machine's processor."""
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def device_name() -> str:
    """What measurements are of: the platform, the kind of device, the processors of this machine."""
    device = devices()[0]
    kind = processor() if device.platform == "cpu" else device.device_kind
    return f"{device.platform}:{kind}:{os.cpu_count()}"
