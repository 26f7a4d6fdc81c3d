"""The tables of docs/performance.md are those of the result files."""

from docs.performance import PAGE, PART, RESULTS, filled


def test_the_page_has_what_was_measured():
    text = PAGE.read_text()
    assert filled(text) == text, "run `python -m docs.performance`"


def test_every_result_file_is_on_the_page():
    shown = {found[2] for found in PART.finditer(PAGE.read_text())}
    assert shown == {path.stem for path in RESULTS.glob("*.md")}
