"""The table of docs/kernels.md on authors' kernels and devices: whole, and (`targets`) what compiling them says."""

import re

import pytest

from docs.kernel_targets import BEGIN, COLUMNS, END, PAGE, SPILLS, outcome
from tests.support.authors import EVERY


def cells():
    """The table's cells, by kernel and column, and the number of its reasons."""
    part = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    rows = [[c.strip() for c in line.strip("|\n ").split("|")] for line in part.splitlines() if line.startswith("|")]
    found = {(row[0], column): cell for row in rows[2:] for column, cell in zip(COLUMNS, row[1:], strict=True)}
    return found, len(re.findall(r"^\d+\. ", part, re.MULTILINE))


def test_the_table_is_whole():
    found, reasons = cells()
    assert set(found) == {(case.name, column) for case in EVERY for column in COLUMNS}
    for cell in found.values():
        refused = re.fullmatch(r"no \((\d+)\)", cell)
        assert int(refused[1]) <= reasons if refused else cell.startswith("yes")


@pytest.mark.targets
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("case", EVERY, ids=lambda c: c.name)
def test_the_table_says_what_compiling_says(case, column):
    cell, found = cells()[0][case.name, column], outcome(case, column)
    assert cell.startswith("no") == ("why" in found), found
    assert ("bytes spilled" in cell) == (found.get("spills", 0) > SPILLS), found
