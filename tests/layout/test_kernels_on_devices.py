"""The table of docs/kernels.md on kernels and devices: whole, as it was worked out, and (`targets`) still so."""

import pytest

from docs.kernel_targets import CASES, COLUMNS, HERE, LIMIT, PAGE, SPILLS, outcome, page, stored
from tests.support.compilers import needs


def of_column(column: str) -> None:
    if column not in HERE:
        needs(column.removeprefix("gradient on "))


def test_the_table_is_whole_and_says_what_was_found():
    found = stored()
    assert {(name, column) for name, row in found.items() for column in row} == {
        (case.name, column) for case in CASES for column in COLUMNS
    }
    assert PAGE.read_text() == page(found), "out of date: run `python -m docs.kernel_targets`"


def test_all_compile_in_time_and_are_right_and_keep_their_registers():
    cells = {(name, column): one for name, row in stored().items() for column, one in row.items()}
    assert not [at for at, one in cells.items() if "unlike" in one]
    assert not [at for at, one in cells.items() if "why" in one or one.get("seconds", 0) > LIMIT]
    assert not [at for at, one in cells.items() if one.get("spills", 0) > SPILLS]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_case_is_what_the_table_says(column):
    of_column(column)
    case = next(c for c in CASES if c.name == "layer_norm")
    now, was = outcome(case, column), stored()[case.name][column]
    assert {k: v for k, v in now.items() if k != "seconds"} == {k: v for k, v in was.items() if k != "seconds"}


@pytest.mark.targets
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_table_says_what_is_found(case, column):
    of_column(column)
    was, now = stored()[case.name][column], outcome(case, column)
    assert now.keys() == was.keys(), now
    assert (now.get("spills", 0) > SPILLS) == (was.get("spills", 0) > SPILLS), now
