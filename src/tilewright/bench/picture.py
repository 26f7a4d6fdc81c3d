"""A benchmark (`found`, a `Result`) as a picture, by matplotlib: bars, the roofline, or the time against the size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.support.errors import ArgumentError, VersionError


def _bars(axes: Any, found: Any) -> None:
    """The median of each row in milliseconds, with the middle half of the rounds."""
    rows = found.rows
    medians = np.asarray([row.median for row in rows]) * 1e3
    low, high = np.asarray([row.quartiles for row in rows]).T * 1e3
    names = [row.name if row.size is None else f"{row.name} {row.size:g}" for row in rows]
    bars = axes.barh(names, medians, xerr=[medians - low, high - medians], color="#4472c4", ecolor="#222222", capsize=3)
    axes.bar_label(bars, [f" {m:.3g} ms" for m in medians], padding=6)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a call: median, middle half")
    axes.set_xlim(0, max(high) * 1.25)


def _roofline(axes: Any, found: Any) -> None:
    """Operations a second against operations for each byte, under what the machine was measured to reach."""
    known = [row for row in found.rows if row.flops and row.bytes]
    if not known or not found.ceilings:
        raise ArgumentError("a roofline of rows whose operations are unknown", "benchmark functions that are compiled")
    flops, bandwidth = found.ceilings
    at = [(row.flops or 0) / (row.bytes or 1) for row in known]
    ridge = flops / bandwidth
    x = np.geomspace(min(*at, ridge) / 4, max(*at, ridge) * 4, 200)
    axes.loglog(x, np.minimum(flops, x * bandwidth) / 1e9, color="#222222", label="measured ceilings")
    for row, intensity in zip(known, at, strict=True):
        label = row.name if row.size is None else f"{row.name} {row.size:g}"
        axes.loglog(intensity, (row.flops or 0) / row.median / 1e9, "o", label=label)
    axes.set_xlabel("operations for each byte moved")
    axes.set_ylabel("Gflop/s")
    axes.legend()


def _scaling(axes: Any, found: Any) -> None:
    """The time against the size, for each name a line."""
    sized = [row for row in found.rows if row.size is not None]
    if not sized:
        raise ArgumentError("a picture of the time against the size", "rows have sizes if `scaling` made them")
    for name in dict.fromkeys(row.name for row in sized):
        rows = sorted((row for row in sized if row.name == name), key=lambda row: row.size or 0)
        sizes = [row.size or 0 for row in rows]
        axes.loglog(sizes, [row.median * 1e3 for row in rows], "o-", label=name)
        axes.fill_between(sizes, *(np.asarray([row.quartiles for row in rows]).T * 1e3), alpha=0.2)
    sizes = sorted({row.size or 0 for row in sized})
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("size")
    axes.set_ylabel("milliseconds a call")
    axes.legend()


KINDS: dict[str, Callable[[Any, Any], None]] = {"bars": _bars, "roofline": _roofline, "scaling": _scaling}


def draw(found: Any, path: Path, kind: str) -> None:
    """Write a picture of a kind.

    Raises:
      ArgumentError: an unknown kind, or rows that lack what it shows. VersionError: matplotlib is missing.
    """
    if kind not in KINDS:
        raise ArgumentError(f"there is no picture of kind {kind!r}", f"one of {', '.join(KINDS)}")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise VersionError("pictures need matplotlib", "pip install 'tilewright[demo]'") from None
    figure = Figure(figsize=(8, 1.2 + 0.5 * len(found.rows) if kind == "bars" else 5), layout="constrained")
    axes = figure.add_subplot()
    KINDS[kind](axes, found)
    axes.spines[["top", "right"]].set_visible(False)
    if found.machine:
        figure.suptitle(f"{found.machine['processor']}, {found.machine['device']}", fontsize=9, color="#666666")
    figure.savefig(path, dpi=120)
