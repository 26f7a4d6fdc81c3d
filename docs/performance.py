"""The tables of docs/performance.md, copied from the result files that the benchmarks write.

`python -m docs.performance` rewrites them; each stands between two comments that name its file.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
PART = re.compile(r"(<!-- results of (\w+)(?: with (.+?))?: made by docs/performance\.py -->\n).*?(<!-- end -->)", re.S)


def table(name: str, wanted: str | None) -> str:
    """The line on the run and the table of a result file, of the rows that hold a text if one is given."""
    lines = (RESULTS / f"{name}.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    run = " ".join(line for line in lines[2:start] if line)
    head, rows = lines[start : start + 2], [line for line in lines[start + 2 :] if line.startswith("|")]
    kept = [row for row in rows if wanted is None or wanted in row]
    return "\n".join([*([run, ""] if run else []), *head, *kept]) + "\n"


def filled(text: str) -> str:
    """The page with its tables made anew."""
    return PART.sub(lambda m: f"{m[1]}{table(m[2], m[3])}{m[4]}", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
