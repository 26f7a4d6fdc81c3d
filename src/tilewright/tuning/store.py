"""What was measured, kept in SQLite so that every process of the user's sees it.

    row ::= device, function, versions, dtypes, shapes, key  ->  configuration, seconds, spread, error, when

Every trial is kept. The configuration for some arguments is the fastest one measured in their shape
bucket (sizes rounded up to powers of two), else in the nearest bucket of the same ranks and dtypes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.config import current

_SCHEMA = """
create table if not exists trials (
  device text, function text, versions text, dtypes text, shapes text, bucket text, key text,
  configuration text, seconds real, spread real, error text, recorded real
);
create index if not exists by_function on trials (device, function, versions, dtypes, key, bucket);
"""

Configuration = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """What a configuration is chosen for."""

    device: str
    function: str
    versions: str
    dtypes: str
    shapes: tuple[tuple[int, ...], ...]
    key: str = ""

    @property
    def bucket(self) -> tuple[tuple[int, ...], ...]:
        """The shapes with every size rounded up to a power of two."""
        return tuple(tuple(1 << max(d - 1, 0).bit_length() if d else 0 for d in shape) for shape in self.shapes)


def default_path() -> Path:
    """Where measurements are kept: beside the executables of the configured cache directory."""
    if current().cache_dir:
        return Path(current().cache_dir or "") / "tuning.sqlite"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tilewright" / "tuning.sqlite"


def _distance(a: Sequence[Sequence[int]], b: Sequence[Sequence[int]]) -> float:
    pairs = [(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)]
    return sum(abs(math.log2(max(x, 1)) - math.log2(max(y, 1))) for x, y in pairs)


class Store:
    """The database of trials at a path. One that cannot be read or written is passed over with a warning."""

    def __init__(self, path: Path | str | None = None):
        self.path = Path(path) if path is not None else default_path()

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection | None]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            connection = sqlite3.connect(self.path, timeout=30)
            connection.executescript(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            warnings.warn(f"tuning results at {self.path} cannot be used ({error}); going on without", stacklevel=4)
            yield None
            return
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def record(self, problem: Problem, configuration: Configuration, seconds: float | None, spread: float | None,
               error: str | None) -> None:  # fmt: skip
        """Keep one trial; `seconds` is None for one that failed."""
        row = (*self._where(problem), json.dumps(problem.shapes), json.dumps(problem.bucket),
               json.dumps(configuration, sort_keys=True), seconds, spread, error, time.time())  # fmt: skip
        with self._open() as db:
            if db is not None:
                db.execute(
                    "insert into trials (device, function, versions, dtypes, key, shapes, bucket, configuration,"
                    " seconds, spread, error, recorded) values (?,?,?,?,?,?,?,?,?,?,?,?)", row)  # fmt: skip

    @staticmethod
    def _where(problem: Problem) -> tuple[str, ...]:
        return (problem.device, problem.function, problem.versions, problem.dtypes, problem.key)

    def trials(self, problem: Problem) -> list[tuple[Configuration, float | None, str | None]]:
        """Every trial in the problem's bucket, fastest first; those that failed come last."""
        with self._open() as db:
            rows = [] if db is None else db.execute(
                "select configuration, seconds, error from trials where device=? and function=? and versions=?"
                " and dtypes=? and key=? and bucket=? order by seconds is null, seconds, recorded",
                (*self._where(problem), json.dumps(problem.bucket)),
            ).fetchall()  # fmt: skip
        return [(json.loads(c), s, e) for c, s, e in rows]

    def best(self, problem: Problem) -> tuple[Configuration, bool] | None:
        """The fastest configuration known and whether it was measured in this very bucket; None if there is none."""
        with self._open() as db:
            rows = [] if db is None else db.execute(
                "select bucket, configuration, min(seconds) from trials where device=? and function=? and versions=?"
                " and dtypes=? and key=? and seconds is not null group by bucket",
                self._where(problem),
            ).fetchall()  # fmt: skip
        ranks = [len(s) for s in problem.shapes]
        near = [(json.loads(b), json.loads(c)) for b, c, _ in rows]
        near = [(b, c) for b, c in near if [len(s) for s in b] == ranks]
        if not near:
            return None
        bucket, configuration = min(near, key=lambda pair: _distance(pair[0], problem.bucket))
        return configuration, _distance(bucket, problem.bucket) == 0

    def forget(self, function: str) -> None:
        """Drop every trial of a function."""
        with self._open() as db:
            if db is not None:
                db.execute("delete from trials where function=?", (function,))
