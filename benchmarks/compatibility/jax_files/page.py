"""The page of jax's own test files, docs/jax_tests.md, made of results.json and the reasons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.compatibility.jax_files.reasons import reason

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[2] / "docs" / "jax_tests.md"
HEAD = """# JAX's own tests

Made by `python -m benchmarks.compatibility.jax_files`: the test files of JAX's repository, run on this package
[under the name `jax`](clients.md), with eight virtual CPU devices; what fails here was run on JAX 0.11.2 too. A test
counts if it passes here or on JAX. A generated test is drawn once, and of a file the share of tests that the table
names is drawn by their names. Imports of JAX's private modules are answered by its public names; a test that uses one
without a public name fails here, and is counted apart as "insides".

"""


def _share(passed: int, counted: int) -> str:
    return f"{100 * passed / counted:.1f}%" if counted else ""


def row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of a file."""
    kinds = Counter(reason(name, test, text)[0] for test, text in found["failed"].items())
    counted, failed = found["counted"], sum(kinds.values())
    asked = counted - kinds["insides"] - kinds["wording"]
    cut = " (cut short)" if "cut" in found else ""
    return (f"{name}{cut}", f"{100 * found.get('share', 1):.0f}%", str(counted), str(counted - failed),
            _share(counted - failed, counted), str(kinds["wording"]), str(kinds["insides"]),
            _share(counted - failed, asked))  # fmt: skip


def page(results: Mapping[str, Any]) -> str:
    """The table, and below it the reasons, most common first."""
    counted = sum(found["counted"] for found in results.values())
    causes = Counter(
        reason(file, test, text) for file, found in results.items() for test, text in found["failed"].items()
    )  # fmt: skip
    kinds = Counter[str]()
    for (kind, _), count in causes.items():
        kinds[kind] += count
    passed = counted - sum(kinds.values())
    asked = counted - kinds["wording"] - kinds["insides"]
    lines = [f"Of {counted} tests {passed} pass ({_share(passed, counted)}); {_share(passed, asked)} of those that do "
             "not look at JAX's wording or insides.", "",
             "| file | drawn | tests that count | pass here | share | wording | insides | share without these |",
             "| --- | --: | --: | --: | --: | --: | --: | --: |",
             *(f"| {' | '.join(row(name, found))} |" for name, found in sorted(results.items())), "",
             "## Why tests fail", "",
             *(f"- {count} × {why} ({kind})" for (kind, why), count in causes.most_common())]  # fmt: skip
    return HEAD + "\n".join(lines) + "\n"


def write_page() -> None:
    """Write it."""
    PAGE.write_text(page(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    write_page()
