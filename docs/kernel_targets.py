"""The table of docs/kernels.md on authors' kernels and devices: each compiled for each target, at a size that matters.

`python -m docs.kernel_targets` compiles them all, which takes minutes, and rewrites the table. A cell is "yes", with
what is worth knowing beside it, or the number of the reason below for which the kernel is refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tilewright as tw
from docs.capabilities import table
from tests.support.authors import EVERY
from tests.support.authors.kit import Case
from tilewright import numpy as tnp
from tilewright.core import tree
from tilewright.core.errors import TilewrightError

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "kernels.md"
BEGIN, END = "<!-- kernels on devices: made by `python -m docs.kernel_targets` -->\n", "<!-- end of devices -->"
FORWARD = ("cuda:sm_90", "cuda:sm_100", "rocm:gfx942", "tpu:v5e", "tpu:v6e")
COLUMNS = (*FORWARD, "gradient on cuda:sm_90", "gradient on tpu:v5e")
LIMIT = 60  # seconds that a compilation may take
SPILLS = 1024  # bytes of a thread's registers in memory that are not worth a word


def compiled(case: Case, column: str) -> Any:
    """A case compiled for a column of the table; raises as `tilewright.compile`."""

    def call(*arrays: Any) -> Any:
        return case.call(*arrays, **case.blocks)

    def total(*arrays: Any) -> Any:
        outs = [o for o in tree.leaves(call(*arrays)) if o.dtype.kind not in "iub"]
        return sum(tnp.sum(o.astype("float32") ** 2) for o in outs)

    function = tw.grad(total, case.derived) if column.startswith("gradient") else call
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tw.compile(function, *case.large, target=column.split()[-1])


def outcome(case: Case, column: str) -> dict[str, Any]:
    """What became of it: `why` it is refused, or seconds, bytes spilled and notes."""
    begun = time.process_time(), time.perf_counter()
    try:
        used = compiled(case, column).resources
    except TilewrightError as error:
        return {"why": f"{type(error).__name__}: {getattr(error, 'what', str(error)).splitlines()[0]}"}
    spills = max((r.spills or 0 for r in used), default=0)
    seconds = min(time.process_time() - begun[0], time.perf_counter() - begun[1])  # whatever else the machine does
    return {"seconds": seconds, "spills": spills, "notes": [r.note for r in used if r.note]}


def apart(case: Case) -> dict[str, dict[str, Any]]:
    """The outcomes of a case by column, from a process of its own, which is ended where it takes too long."""
    found: dict[str, dict[str, Any]] = {}
    for column in COLUMNS:  # a process goes through all columns, unless one ends it
        if column in found:
            continue
        command = [sys.executable, "-m", "docs.kernel_targets", case.name, *(c for c in COLUMNS if c not in found)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10 * LIMIT, cwd=ROOT)
            said, why = done.stdout, f"the compiler ended the process with {done.returncode}"
        except subprocess.TimeoutExpired as late:
            said, why = (late.stdout or b"").decode(), f"the compiler takes more than {10 * LIMIT} s"
        found |= dict(json.loads(line) for line in said.splitlines() if line.startswith("["))
        found.setdefault(next((c for c in COLUMNS if c not in found), column), {"why": why})
    print(case.name, found, file=sys.stderr, flush=True)
    return found


def shown(outcomes: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The table of outcomes by kernel and column, and its reasons."""
    reasons: list[str] = []
    rows = []
    for case in EVERY:
        by_column = outcomes[case.name]
        row = [case.name]
        for column in COLUMNS:
            found = by_column[column]
            if "why" in found:
                if found["why"] not in reasons:
                    reasons.append(found["why"])
                row.append(f"no ({reasons.index(found['why']) + 1})")
                continue
            said = [f"{found['spills']:,} bytes spilled"] if found["spills"] > SPILLS else []
            said += [f"{found['seconds']:.0f} s to compile"] if found["seconds"] > LIMIT else []
            said += [n.split(" in place")[0] for n in found["notes"]]
            row.append("; ".join(["yes", *said]))
        rows.append(row)
    listed = "".join(f"{n}. {why.replace('|', chr(92) + '|')}\n" for n, why in enumerate(reasons, 1))
    return table(["kernel", *COLUMNS], rows) + (f"\n{listed}" if listed else "")


def main(arguments: list[str]) -> None:
    if arguments:
        name, *columns = arguments
        for column in columns:
            print(json.dumps([column, outcome(next(c for c in EVERY if c.name == name), column)]), flush=True)
        return
    head, rest = PAGE.read_text().split(BEGIN)
    with ThreadPoolExecutor(2) as pool:
        outcomes = dict(zip([c.name for c in EVERY], pool.map(apart, EVERY), strict=True))
    PAGE.write_text(f"{head}{BEGIN}\n{shown(outcomes)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
