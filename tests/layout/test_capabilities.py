"""The tables of the body language on the pages are those that the backends' tables make."""

import pytest

from docs.capabilities import PAGES, PARTS, filled


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_page_has_what_is_made(page):
    text = page.read_text()
    assert filled(text)[0] == text, "run `python -m docs.capabilities`"


def test_every_table_is_on_a_page():
    found = {name for page in PAGES for name in filled(page.read_text())[1]}
    assert found == set(PARTS)
