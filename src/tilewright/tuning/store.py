"""What was measured, kept in SQLite so that every process of the user's sees it.

    row ::= device, function, versions, dtypes, shapes, key  ->  configuration, seconds, spread, error, when

Every trial is kept, and what `tune` decided on in the end. The configuration for some arguments is the one decided on
in their shape bucket (sizes rounded up to powers of two), else in the nearest bucket of the same ranks and dtypes.
Where a search was cut short before it decided, the fastest counts if it beats the defaults by a tenth.

Nothing here can make a call of a function fail or wait: a store that is damaged, locked, read-only, of a newer
version, or that others can write, counts as one without measurements, with one warning.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import stat
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..core.support.config import current
from ..core.support.runtime import runtime
from .space import Configuration

VERSION = 1  # of the schema, raised when older code could not read what newer code writes
CLEAR = 1.1  # how many times faster than the defaults is enough for what was not compared with them
RECENT = 5  # measurements of a configuration, whose median counts
READ_SECONDS, WRITE_SECONDS = 0.1, 5.0  # how long a call, and how long `tune`, waits for another process's lock
AGAIN = 600.0  # seconds after such a wait in which no other one begins: `tune` writes after each trial
_SCHEMA = f"""
begin;
pragma user_version = {VERSION};
create table if not exists trials (
  device text, function text, versions text, dtypes text, shapes text, bucket text, key text,
  configuration text, seconds real, spread real, error text, recorded real
);
create index if not exists by_function on trials (device, function, versions, dtypes, key, bucket);
create table if not exists decisions (
  device text, function text, versions text, dtypes text, shapes text, bucket text, key text, configuration text,
  recorded real
);
commit;
"""

_AS_ROW = "bucket, configuration, null, null"
_OF = "where device=? and function=? and versions=? and dtypes=? and key=?"

Measured = tuple[Configuration, float | None, float | None, str | None]


class Row(NamedTuple):
    """A trial as it was read, every part of the type that it should be."""

    bucket: tuple[tuple[int, ...], ...]
    configuration: Configuration
    seconds: float | None
    error: str | None


def as_text(configuration: Configuration) -> str:
    """A configuration as it is written; values that JSON lacks as their text."""
    return json.dumps(configuration, sort_keys=True, default=repr)


def _sound(bucket: Any, configuration: Any, seconds: Any, error: Any) -> Row | None:
    """A row if its parts are what `record` writes, else None."""
    try:
        shapes, chosen = json.loads(bucket), json.loads(configuration)
    except (TypeError, ValueError, RecursionError):
        return None
    sound = (
        isinstance(chosen, dict)
        and isinstance(shapes, list)
        and all(isinstance(s, list) and all(type(d) is int and d >= 0 for d in s) for s in shapes)
        and (seconds is None or (isinstance(seconds, float) and 0 < seconds < math.inf))
        and isinstance(error, str | None)
    )
    return Row(tuple(map(tuple, shapes)), chosen, seconds, error) if sound else None


def _joined(rows: Sequence[Row]) -> Row:
    """One row of those of one configuration, the newest first."""
    times = [row.seconds for row in rows if row.seconds is not None][:RECENT]
    return rows[0]._replace(seconds=statistics.median(times), error=None) if times else rows[0]


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


class TuningWarning(UserWarning):
    """The store of tuning results could not be used as it should."""


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FAULTS = (sqlite3.Error, OSError, ValueError, OverflowError, RecursionError)
_warned = runtime.cache("tuning.warned", 256)
_locked = runtime.cache("tuning.locked", 256)  # stores that were waited for in vain, until when


def _decisions_of(db: sqlite3.Connection, which: str, values: Sequence[Any], columns: str) -> list[Any]:
    if not db.execute("select 1 from sqlite_master where name='decisions'").fetchone():
        return []  # written before there were any
    return db.execute(f"select {columns} from decisions {which}", values).fetchall()


class Store:
    """The database of trials at a path. One that cannot be read or written is passed over with a warning."""

    def __init__(self, path: Path | str | None = None):
        self.path: Path = Path(path) if path is not None else default_path()

    def warn(self, why: str) -> None:
        """Say once for each store what is wrong with it."""
        key, this = (str(self.path), why), object()
        if _warned.keep(key, this) is this:
            text = f"tuning results at {self.path} {why}; going on without"
            warnings.warn(text, TuningWarning, skip_file_prefixes=(_PACKAGE,))  # the line is the user's

    def _untrusted(self) -> str:
        """Why the file's rows may be somebody else's; "" if they are not."""
        for what, path in (("", self.path), ("are in a folder that ", self.path.parent)):
            try:
                found = path.stat()
            except FileNotFoundError:
                continue
            if not what and not stat.S_ISREG(found.st_mode):
                return "are no file"
            if hasattr(os, "getuid") and found.st_uid != os.getuid():
                return f"{what or 'are in a file that '}belongs to another user"
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return f"{what or 'are in a file that '}can be written by other users"
        return ""

    def _connected(self, writing: bool) -> sqlite3.Connection:
        if not writing:
            return sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=READ_SECONDS)
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600))
        waited = time.monotonic() < _locked.get(str(self.path), 0.0)
        return sqlite3.connect(self.path, timeout=0.0 if waited else WRITE_SECONDS)

    def _use(self, act: Callable[[sqlite3.Connection], Any], writing: bool = False) -> Any:
        """What `act` gives for the open database; None, with a warning, where it cannot be used."""
        try:
            if not writing and not self.path.exists():
                return None
            why = self._untrusted()
            if why:
                self.warn(why)
                return None
            with contextlib.closing(self._connected(writing)) as db:
                db.text_factory = lambda data: data.decode(errors="replace")  # a damaged row spoils no other
                version = db.execute("pragma user_version").fetchone()[0]
                if version > VERSION:
                    self.warn("were written by a newer version")
                    return None
                if writing:
                    db.executescript(_SCHEMA)
                elif version == 0:  # made this moment by another process
                    return None
                with db:
                    found = act(db)
                if writing:
                    _locked.pop(str(self.path), None)
                return found
        except _FAULTS as error:
            if writing and isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                _locked.keep(str(self.path), time.monotonic() + AGAIN)
            damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
            self.warn(f"cannot be used ({error}{'; `tilewright tune clear` begins anew' if damaged else ''})")
            return None

    def record(self, problem: Problem, trials: Sequence[Measured], since: float | None = None) -> bool:
        """Keep trials: configuration, seconds (None for one that failed), spread and error; whether they are kept.

        Those of the same configurations that were kept `since` a time are replaced.
        """
        where, now = self._where(problem), time.time()
        rows = [
            (*where, json.dumps(problem.shapes), json.dumps(problem.bucket), as_text(c), seconds, spread, error, now)
            for c, seconds, spread, error in trials
        ]

        def insert(db: sqlite3.Connection) -> bool:
            if since is not None:
                db.executemany(
                    f"delete from trials {_OF} and shapes=? and configuration=? and recorded>=?",
                    [(*row[:6], row[7], since) for row in rows],
                )
            db.executemany(
                "insert into trials (device, function, versions, dtypes, key, shapes, bucket, configuration,"
                " seconds, spread, error, recorded) values (?,?,?,?,?,?,?,?,?,?,?,?)", rows)  # fmt: skip
            return True

        return bool(self._use(insert, writing=True))

    def decide(self, problem: Problem, configuration: Configuration) -> bool:
        """Keep what a search decided on, in place of earlier decisions for the same bucket; whether it is kept."""
        where, bucket = self._where(problem), json.dumps(problem.bucket)

        def insert(db: sqlite3.Connection) -> bool:
            db.execute(f"delete from decisions {_OF} and bucket=?", (*where, bucket))
            db.execute(
                "insert into decisions (device, function, versions, dtypes, key, shapes, bucket, configuration,"
                " recorded) values (?,?,?,?,?,?,?,?,?)",
                (*where, json.dumps(problem.shapes), bucket, as_text(configuration), time.time()),
            )
            return True

        return bool(self._use(insert, writing=True))

    @staticmethod
    def _where(problem: Problem) -> tuple[str, ...]:
        return (problem.device, problem.function, problem.versions, problem.dtypes, problem.key)

    def decided(self, device: str, versions: str, prefix: str) -> list[tuple[Problem, Configuration]]:
        """What was decided on for functions whose names begin with a prefix, for the shapes of its buckets."""
        rows = self._use(lambda db: _decisions_of(
            db, "where device=? and versions=? and substr(function, 1, ?) = ? order by recorded",
            (device, versions, len(prefix), prefix), "function, dtypes, key, bucket, configuration",
        ))  # fmt: skip
        found = []
        for *texts, bucket, chosen in rows or ():
            row = _sound(bucket, chosen, None, None)
            if row is None or not all(type(text) is str for text in texts):
                self.warn("have damaged rows")
            else:
                function, dtypes, key = texts
                found.append((Problem(device, function, versions, dtypes, row.bucket, key), row.configuration))
        return found

    def _trials_of(self, db: sqlite3.Connection, problem: Problem, more: str = "", *values: str) -> list[Any]:
        return db.execute(
            f"select bucket, configuration, seconds, error from trials {_OF} {more} order by recorded desc, rowid desc",
            (*self._where(problem), *values),
        ).fetchall()

    def _checked(self, found: Sequence[Any]) -> list[Row]:
        """Rows that are what they should be, with a warning where some are not."""
        rows = [_sound(*row) for row in found]
        if None in rows:
            self.warn("have damaged rows")
        return [row for row in rows if row is not None]

    def _known(self, found: Sequence[Any]) -> list[Row]:
        """What is known of each configuration by trials, fastest first; those that failed come last.

        A time is the median of the newest five.
        """
        known: dict[Any, list[Row]] = {}
        for row in self._checked(found):
            known.setdefault((row.bucket, as_text(row.configuration)), []).append(row)
        return sorted(map(_joined, known.values()), key=lambda row: (row.seconds is None, row.seconds or 0.0))

    def trials(self, problem: Problem) -> list[tuple[Configuration, float | None, str | None]]:
        """What is known of each configuration in the problem's bucket, fastest first; those that failed come last."""
        found = self._use(lambda db: self._trials_of(db, problem, "and bucket=?", json.dumps(problem.bucket)))
        rows = self._known(found or ())
        return [(row.configuration, row.seconds, row.error) for row in rows]

    def best(
        self, problem: Problem, fits: Callable[[Configuration], bool] | None = None,
        default: Configuration | None = None,
    ) -> tuple[Configuration, bool] | None:  # fmt: skip
        """What to use, and whether it was measured in this very bucket; None if nothing is known.

        Configurations that do not `fit` the function as it is now do not count.
        """
        ranks = [len(s) for s in problem.shapes]
        decisions, trials = self._use(lambda db: (
            _decisions_of(db, f"{_OF} order by recorded desc", self._where(problem), _AS_ROW),
            self._trials_of(db, problem, "and seconds is not null"),
        )) or ((), ())  # fmt: skip

        def near(rows: Sequence[Row]) -> list[Row]:
            return [
                row for row in rows
                if [len(s) for s in row.bucket] == ranks and (fits is None or fits(row.configuration))
            ]  # fmt: skip

        def far(row: Row) -> float:
            return _distance(row.bucket, problem.bucket)

        decided = min(near(self._checked(decisions)), key=far, default=None)
        if decided is not None and far(decided) == 0:
            return decided.configuration, True
        # The fastest of the nearest; where a search decided, only in its own bucket.
        rows = near(self._known(trials))
        row = min(rows, key=far, default=None)
        if row is None or (decided is not None and far(decided) <= far(row)):
            return None if decided is None else (decided.configuration, False)
        plain = [r for r in rows if r.bucket == row.bucket and r.configuration == default]
        if default is not None and plain and (plain[0].seconds or 0.0) < CLEAR * (row.seconds or 0.0):
            return default, far(row) == 0
        return row.configuration, far(row) == 0

    def forget(self, function: str | None = None) -> int:
        """Drop every trial of a function, of all functions without a name; gives how many there were."""
        which, values = ("where function=?", (function,)) if function is not None else ("", ())

        def delete(db: sqlite3.Connection) -> int:
            db.execute(f"delete from decisions {which}", values)
            return db.execute(f"delete from trials {which}", values).rowcount

        return self._use(delete, writing=True) or 0

    def remove_damaged(self) -> bool:
        """Remove a file that is no sound database; whether it was one."""
        try:
            if self._untrusted() or not self.path.exists():
                return False
            with contextlib.closing(self._connected(False)) as db:
                if db.execute("pragma quick_check").fetchone()[0] == "ok":
                    return False
        except sqlite3.OperationalError:  # locked, say
            return False
        except (sqlite3.DatabaseError, OSError):
            pass
        for end in ("", "-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        return True

    def problems(self) -> list[tuple[Problem, int]]:
        """What was measured, and how many trials of each there are."""
        found = self._use(lambda db: db.execute(
            "select device, function, versions, dtypes, shapes, key, count(*) from trials"
            " group by device, function, versions, dtypes, shapes, key order by function, shapes",
        ).fetchall())  # fmt: skip
        problems = []
        for device, function, versions, dtypes, shapes, key, count in found or ():
            row = _sound(shapes, "{}", None, None)
            if row is None:
                self.warn("have damaged rows")
            else:
                problems.append((Problem(device, function, versions, dtypes, row.bucket, key), count))
        return problems
