"""What is made of the results: the page beside them, the table of docs/clients.md, the counts in the package.

    python -m benchmarks.compatibility.client_pages

makes them of benchmarks/compatibility/clients.json; `python -m benchmarks.compatibility.clients` does so after each
file that it runs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.compatibility.client_reasons import cause

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "compatibility" / "clients.json"
DOCS = ROOT / "docs" / "clients.md"
COUNTS = ROOT / "src" / "tilewright" / "as_jax" / "tested.json"
PART = re.compile(
    r"(<!-- table: made by benchmarks/compatibility/client_pages\.py -->\n).*?(<!-- end of table -->)", re.S
)


class Counts(NamedTuple):
    """Of a library: files run, of these cut short, files of the suite; tests that count, and those that pass here."""

    run: int
    cut: int
    suite: int
    counted: int
    passed: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Counts:
        """The counts of a library's results."""
        files = found["files"].values()
        counted = sum(f["counted"] for f in files)
        failed = sum(len(f["failed"]) for f in files)
        return cls(len(files), sum("cut" in f for f in files), found["suite"], counted, counted - failed)


def table(results: Mapping[str, Any]) -> str:
    """A line for each library."""
    lines = ["| library | version | files run | cut short | of the suite | tests that count | pass here | share |",
             "| --- | --- | --: | --: | --: | --: | --: | --: |"]  # fmt: skip
    for name, found in sorted(results.items()):
        n = Counts.of(found)
        share = f"{100 * n.passed / n.counted:.1f}%" if n.counted else ""
        lines.append(f"| {' | '.join([name, found['version'], *map(str, n), share])} |")
    return "\n".join(lines) + "\n"


def reasons(found: Mapping[str, Any]) -> list[str]:
    """How many tests of a library fail here for each reason, and the files of which no test counts."""
    causes = Counter(
        cause(file, test, text) or f"not looked into: `{text.replace('`', chr(39))}`"
        for file, f in found["files"].items() for test, text in f["failed"].items()
    )  # fmt: skip
    empty = [file for file, f in found["files"].items() if not f["counted"]]
    return [*(f"- {count} × {reason}" for reason, count in causes.most_common()),
            *(f"- none of its tests passes on jax in this environment: {file}" for file in empty)]  # fmt: skip


def page(results: Mapping[str, Any]) -> str:
    """The table, and under it how many tests fail here, and why."""
    lines = ["# Libraries written for jax", "",
             "Made by `python -m benchmarks.compatibility.clients`: the libraries' own tests on this package, "
             "and on jax 0.11.2",
             "those that fail here. A test counts if it passes here or on jax. A file that is cut short counts with",
             "the tests that ran.", "",
             table(results)]  # fmt: skip
    for name, found in sorted(results.items()):
        if told := reasons(found):
            lines += [f"## {name}", "", *told, ""]
    return "\n".join(lines).rstrip() + "\n"


def made() -> dict[Path, str]:
    """The files that are made of the results, with what belongs in them."""
    results = json.loads(RESULTS.read_text())
    counts = {name: Counts.of(found)[-2:] for name, found in sorted(results.items())}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(count)}" for name, count in counts.items())
    return {
        RESULTS.with_suffix(".md"): page(results),
        DOCS: PART.sub(lambda m: f"{m[1]}{table(results)}{m[2]}", DOCS.read_text()),
        COUNTS: f"{{\n{lines}\n}}\n",
    }


def write_pages() -> None:
    """Write them."""
    for place, text in made().items():
        place.write_text(text)


if __name__ == "__main__":
    write_pages()
