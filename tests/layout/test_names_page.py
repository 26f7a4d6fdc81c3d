"""The page of names says of every documented name of the reference whether it is here, or why not."""

import re

import pytest

from docs.names import DIFFERS, MISSING, PAGE, REFERENCE, fitting, found, place_of, rows

ROWS = rows()


def listed(heading):
    """The names under a heading of the page, in full."""
    text = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    return {f"{space.strip().strip('`')}.{n}" for space, names in lines for n in re.findall(r"`([^`]+)`", names)}


def test_every_name_that_is_missing_has_a_reason():
    assert [f"{s}.{n}" for s, n, state, why in ROWS if state == "not here" and not why] == []


def test_the_page_lists_what_is_missing():
    """Names come all the time: the page may not yet know of them, and must not promise what is not here."""
    missing = {f"{s}.{n}" for s, n, state, _ in ROWS if state == "not here"}
    assert missing <= listed("Those that are not here"), "run `python -m docs.names`"
    assert not missing & listed("Those that are here")
    every = {f"{space}.{name}" for space, names in REFERENCE.items() for name in names}
    assert listed("Those that are here") | listed("Those that are not here") == every


def test_rules_are_of_documented_names():
    every = [f"{space}.{name}" for space, names in REFERENCE.items() for name in names]
    for pattern, text in DIFFERS:
        assert any(fitting(name, [(pattern, text)]) for name in every), pattern
    assert len({pattern for pattern, _ in MISSING}) == len(MISSING)


@pytest.mark.parametrize("name,here", [("jax.numpy.fft.fft", True), ("jax.experimental.pallas.BlockSpec", True),
                                       ("jax.Array.at", True), ("jax.numpy.no_such_name", False)])  # fmt: skip
def test_names_are_looked_for_where_they_are(name, here):
    assert found(place_of(name)) is here
