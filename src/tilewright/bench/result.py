"""What a benchmark found: a row for each function, and the machine; a table, kept as JSON, CSV or a picture."""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.support.errors import ArgumentError, BenchmarkError
from ..xla_backend.analysis.hlo_report import show_seconds
from .machine import Ceilings
from .picture import draw

FORMAT, VERSION = "tilewright-benchmark", 1
PICTURES = (".png", ".svg", ".pdf")
_DRAWN = 2000  # samples of a bootstrap


@dataclass(frozen=True)
class Row:
    """One function: the seconds of a call in each round, and what is known of it (None: unknown).

    `least` has the seconds of a call in the fastest batch of each round, where there were several.

    `flops` and `bytes` are XLA's counts for one call, `peak` the bytes that it takes at most, `compile` the seconds of
    its first call.
    """

    name: str
    seconds: tuple[float, ...]
    flops: float | None = None
    bytes: float | None = None
    peak: int | None = None
    compile: float | None = None
    size: float | None = None
    least: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The times between which the middle half of the rounds lies."""
        return tuple(float(q) for q in np.quantile(self.seconds, (0.25, 0.75)))  # type: ignore[return-value]


@dataclass(frozen=True)
class Result:
    """The rows of one benchmark, the first of which the others are compared with, and where they were measured.

    `yardstick` has the seconds of a fixed piece of work in each round: how fast the machine was (`machine.clock` for
    rows that have `least`, else `machine.yardstick`). `name`: of what was measured in several libraries.
    """

    rows: tuple[Row, ...]
    yardstick: tuple[float, ...] = ()
    ceilings: Sequence[float] | None = None
    machine: Mapping[str, str] | None = None
    name: str = ""

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise ArgumentError(f"no row {name!r}", f"one of {', '.join(r.name for r in self.rows)}")

    def ratio(self, name: str) -> tuple[float, float, float]:
        """The time of a row over that of the first, of rounds next to each other: the median, and a 95% interval."""
        return self._ratio(self[name])

    def _ratio(self, row: Row) -> tuple[float, float, float]:
        ratios = np.asarray(row.seconds) / np.asarray(self.rows[0].seconds)
        draws = np.random.default_rng(0).choice(ratios, (_DRAWN, len(ratios)))
        low, high = np.quantile(np.median(draws, 1), (0.025, 0.975))
        return float(np.median(ratios)), float(low), float(high)

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rows as dicts: times in seconds, rates a second, shares of the ceilings."""
        return [self._row(row) for row in self.rows]

    def _row(self, row: Row) -> dict[str, Any]:
        low, high = row.quartiles
        ratio = self._ratio(row)
        flops = row.flops / row.median if row.flops else None
        moved = row.bytes / row.median if row.bytes else None
        most = self.ceilings or (None, None)
        return {
            "name": row.name, "size": row.size, "median": row.median, "low": low, "high": high, "ratio": ratio[0],
            "ratio_low": ratio[1], "ratio_high": ratio[2], "flops_per_second": flops, "bytes_per_second": moved,
            "share_of_flops": flops / most[0] if flops and most[0] else None,
            "share_of_bandwidth": moved / most[1] if moved and most[1] else None, "peak_bytes": row.peak,
            "compile_seconds": row.compile,
        }  # fmt: skip

    def __str__(self) -> str:
        rows = [["", "median", "middle half", "ratio", "95% interval", "Gflop/s", "GB/s", "peak", "first call"]]
        rows += [_cells(found) for found in self.table]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [[c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))] for row in rows]
        return "\n".join("  ".join(line).rstrip() for line in lines)

    __repr__ = __str__

    def save(self, path: str | os.PathLike[str], kind: str = "bars") -> None:
        """Write to a file by its ending: .json, .csv, .txt, or a picture (.png, .svg, .pdf; see `bench.picture`).

        Raises:
          ArgumentError: an unknown ending or kind of picture. BenchmarkError: no such folder.
        """
        check_path(path)
        suffix, path = Path(path).suffix, Path(path)
        if suffix == ".json":
            path.write_text(json.dumps(self.as_json(), indent=1))
        elif suffix == ".csv":
            text = io.StringIO()
            writer = csv.DictWriter(text, list(self.table[0]))
            writer.writeheader()
            writer.writerows(self.table)
            path.write_text(text.getvalue())
        elif suffix == ".txt":
            path.write_text(f"{self}\n")
        else:
            draw(self, path, kind)

    def as_json(self) -> dict[str, Any]:
        """All of it as what JSON can hold."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}


def _cells(found: Mapping[str, Any]) -> list[str]:
    def share(rate: float | None, of: float | None, unit: float) -> str:
        return "-" if rate is None else f"{rate / unit:.3g}" + (f" ({of:.0%})" if of is not None else "")

    size = "" if found["size"] is None else f" {found['size']:g}"
    return [
        f"{found['name']}{size}", show_seconds(found["median"]),
        f"{show_seconds(found['low'])} to {show_seconds(found['high'])}", f"{found['ratio']:.3f}",
        f"{found['ratio_low']:.3f} to {found['ratio_high']:.3f}",
        share(found["flops_per_second"], found["share_of_flops"], 1e9),
        share(found["bytes_per_second"], found["share_of_bandwidth"], 1e9),
        "-" if found["peak_bytes"] is None else _bytes(found["peak_bytes"]),
        "-" if found["compile_seconds"] is None else show_seconds(found["compile_seconds"]),
    ]  # fmt: skip


def _bytes(n: float) -> str:
    return f"{n / 2**20:.3g} MiB" if n >= 2**20 else f"{n / 2**10:.3g} KiB"


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse what `save` cannot write to.

    Raises:
      ArgumentError: an unknown ending. BenchmarkError: no such folder.
    """
    path = Path(path)
    if path.suffix not in (".json", ".csv", ".txt", *PICTURES):
        raise ArgumentError(f"a benchmark as {path.name!r}", "end the name in .json, .csv, .txt, .png or .svg")
    if not path.parent.is_dir():
        raise BenchmarkError(f"{path} cannot be written: there is no folder {path.parent}", "make the folder first")


def load(path: str | os.PathLike[str]) -> Result:
    """The result in a JSON file that `save` wrote.

    Raises:
      BenchmarkError: the file cannot be read, or is none of these.

    >>> import os, tempfile
    >>> import tilewright as tw
    >>> x = tw.numpy.ones(8)
    >>> path = os.path.join(tempfile.mkdtemp(), 'sum.json')
    >>> tw.benchmark(lambda x: x.sum(), x, rounds=2, name='sum').save(path)
    >>> [row.name for row in tw.bench.load(path).rows]
    ['sum']
    """
    try:
        found = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise _not_one(os.fspath(path), error) from None
    return of_json(found, os.fspath(path))


def of_json(found: Any, name: str) -> Result:
    """The result that `as_json` gave a value of; `name` is what errors call it.

    Raises:
      BenchmarkError: it is no such value.
    """
    try:
        if found.get("format") != FORMAT or found.get("version") != VERSION:
            raise ValueError(f"its format is {found.get('format')!r}, version {found.get('version')!r}")
        rows = tuple(
            Row(**{**row, "seconds": _times(row["seconds"]), "least": tuple(map(float, row.get("least", ())))})
            for row in found["rows"]
        )
        flops, bandwidth = found["ceilings"] or (None, None)
        ceilings = None if flops is None or bandwidth is None else Ceilings(float(flops), float(bandwidth))
        return Result(rows, tuple(found["yardstick"]), ceilings, found["machine"], found.get("name", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _not_one(name, error) from None


def _not_one(name: str, error: Exception) -> BenchmarkError:
    return BenchmarkError(f"{name} is no result of a benchmark: {error}", "one that `Result.save` wrote as JSON")


def _times(values: Sequence[Any]) -> tuple[float, ...]:
    times = tuple(float(v) for v in values)
    if not times or min(times) <= 0:
        raise ValueError("a row without times")
    return times
