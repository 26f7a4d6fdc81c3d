"""Tables of what was found, as JSON: carried to another machine, merged, kept with a program, shipped with the package.

table ::= {"format": "tilewright-tuning", "version": 1, "entries": [entry ...]}
entry ::= {device, function, versions, dtypes, shapes, key, configuration, seconds}
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.support.errors import TuningError
from ..core.support.memo import once
from ..core.support.version import JAXLIB, __version__
from .space import Configuration
from .store import Problem, Store

FORMAT, VERSION = "tilewright-tuning", 1
_REMEDY = "make one by `tilewright tune export FILE`"
SHIPPED = Path(__file__).parent / "shipped"

Table = tuple[tuple[Problem, Configuration, float], ...]
_in_force: ContextVar[Table] = ContextVar("tilewright_tuned", default=())


def exported(store: Store) -> dict[str, Any]:
    """The choice for everything that a store has measured, as a table: what was decided on, else the fastest."""
    entries = []
    for problem, _ in store.problems():
        trials = [(c, s) for c, s, _ in store.trials(problem) if s is not None]
        if trials:
            chosen = store.best(problem)
            configuration, seconds = next((t for t in trials if chosen and t[0] == chosen[0]), trials[0])
            entries.append({**vars(problem), "configuration": configuration, "seconds": seconds})
    return {"format": FORMAT, "version": VERSION, "entries": entries}


def parsed(table: Any, name: str = "the table") -> Table:
    """The entries of a table, checked.

    Raises:
      TuningError: it is no such table, or of a newer version.
    """
    if not isinstance(table, Mapping) or table.get("format") != FORMAT or not isinstance(table.get("entries"), list):
        raise TuningError(f"{name} is no table of tuning results", _REMEDY)
    if table.get("version") != VERSION:
        raise TuningError(f"{name} has version {table.get('version')!r}, not {VERSION}", "update the package")
    return tuple(_entry(e, f"entry {i} of {name}") for i, e in enumerate(table["entries"]))


def _entry(entry: Any, name: str) -> tuple[Problem, Configuration, float]:
    try:
        shapes = tuple(tuple(int(d) for d in shape) for shape in entry["shapes"])
        texts = [entry[k] for k in ("device", "function", "versions", "dtypes", "key")]
        configuration, seconds = entry["configuration"], float(entry["seconds"])
        if not all(isinstance(t, str) for t in texts) or not isinstance(configuration, dict) or not seconds > 0:
            raise ValueError("a part is of another kind")
    except (KeyError, TypeError, ValueError) as error:
        raise TuningError(f"{name} is damaged: {error!r}", _REMEDY) from None
    device, function, versions, dtypes, key = texts
    return Problem(device, function, versions, dtypes, shapes, key), dict(configuration), seconds


def read(path: str | os.PathLike[str]) -> Table:
    """The table in a file.

    Raises:
      TuningError: it cannot be read, or is no table.
    """
    try:
        return parsed(json.loads(Path(path).read_text()), os.fspath(path))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise TuningError(f"{os.fspath(path)} cannot be read: {error}", _REMEDY) from None


def write(path: str | os.PathLike[str], store: Store) -> int:
    """Write a store's table to a file, whole or not at all; gives how many entries it has."""
    table, aside = exported(store), Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
    try:
        aside.write_text(json.dumps(table, indent=1, default=repr))
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise TuningError(f"{os.fspath(path)} cannot be written: {error}", "choose another place") from None
    return len(table["entries"])


def merge(table: Table, store: Store) -> int:
    """Put a table's entries among a store's measurements; gives how many are kept."""
    kept = 0
    for problem, chosen, seconds in table:
        kept += store.record(problem, [(chosen, seconds, None, None)]) and store.decide(problem, chosen)
    return kept


@contextmanager
def tuned(*tables: Mapping[str, Any] | str | os.PathLike[str]) -> Iterator[None]:
    """Within a `with` block, in this thread or task, have autotuned functions choose from tables first.

    A table is a file that `tilewright tune export` wrote, or its content. What was traced before keeps its choices.

    Raises:
      TuningError: something given is no table.

    >>> import json, os, tempfile
    >>> import tilewright as tw
    >>> store = tw.tuning.Store(os.path.join(tempfile.mkdtemp(), 'tuned.sqlite'))
    >>> path = os.path.join(tempfile.mkdtemp(), 'table.json')
    >>> from tilewright.tuning import tables
    >>> _ = tables.write(path, store)
    >>> with tw.tuning.tuned(path):
    ...     print(float(tw.nn.relu(1.0)))
    1.0
    """
    entries: Table = ()
    for table in tables:
        entries += parsed(table) if isinstance(table, Mapping) else read(table)
    token = _in_force.set((*entries, *_in_force.get()))
    try:
        yield
    finally:
        _in_force.reset(token)


def in_force() -> Table:
    """The entries of the tables that are in force here."""
    return _in_force.get()


@once
def shipped() -> Table:
    """The entries of the tables that came with the package, as if measured with the versions that are installed.

    The digest of a function's source guards against changes of the function; a choice measured with another jaxlib is
    still a better guess than the default.
    """
    here = f"{__version__}/{JAXLIB}"
    return tuple((replace(problem, versions=here), chosen, seconds)
                 for path in sorted(SHIPPED.glob("*.json")) for problem, chosen, seconds in read(path))  # fmt: skip


def nearest(
    entries: Iterable[tuple[Problem, Configuration, float]], problem: Problem
) -> tuple[Configuration, bool] | None:
    """The configuration for a problem, or for the nearest shapes of its ranks, and whether it is of its own bucket."""
    alike = [
        (_far(p, problem), seconds, configuration) for p, configuration, seconds in entries
        if (p.device, p.function, p.versions, p.dtypes, p.key) ==
           (problem.device, problem.function, problem.versions, problem.dtypes, problem.key)
        and list(map(len, p.shapes)) == list(map(len, problem.shapes))
    ]  # fmt: skip
    if not alike:
        return None
    far, _, configuration = min(alike, key=lambda row: row[:2])
    return configuration, far == 0


def _far(a: Problem, b: Problem) -> float:
    pairs = [(x, y) for p, q in zip(a.bucket, b.bucket, strict=True) for x, y in zip(p, q, strict=True)]
    return sum(abs(math.log2(max(x, 1)) - math.log2(max(y, 1))) for x, y in pairs)
