"""The generators of the documentation site: pages of the reference, flowcharts, the check of links, the navigation."""

import re

import pytest

from docs.website import flowchart, links, public_names, reference
from tests.support.paths import DOCS, ROOT


@pytest.fixture(scope="module")
def pages():
    return dict(reference.pages())


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]))
    assert listed == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_every_public_function_has_its_section(pages):
    for space in public_names.NAMESPACES:
        text = pages[f"reference/{reference.slug(space)}.md"]
        for entry in public_names.entries(space):
            section = entry.kind in ("function", "class")
            shown = f"{{ #{reference.anchor(entry)} }}" if section else f"| `{entry.name}` |"
            assert shown in text, f"{space}.{entry.name}"


def test_a_section_has_signature_errors_example_and_differences(pages):
    text = pages["reference/tilewright_numpy.md"].partition("## cumsum {")[2].partition("\n## ")[0]
    assert "```python\ncumsum(" in text and "```pycon\n>>> " in text
    assert "**Differs from JAX or NumPy**" in pages["reference/tilewright_lax.md"]
    text = pages["reference/tilewright.md"].partition("## explain {")[2].partition("\n## ")[0]
    assert "**Raises:**\n\n- `" in text


def test_docstrings_become_markdown():
    doc = "The sum of *all*.\n\nRaises:\n  ShapeError: a shape\n    that is wrong.\n\n>>> 1 + 1\n2"
    assert list(reference.blocks(doc)) == [
        "The sum of \\*all\\*.", "**Raises:**", "- `ShapeError`: a shape that is wrong.", "```pycon\n>>> 1 + 1\n2\n```",
    ]  # fmt: skip


def test_flowcharts_of_the_pages_are_drawn():
    drawn = 0
    for page in DOCS.rglob("*.md"):
        for text in re.findall(r"^```mermaid\n(.*?)^```", page.read_text(), re.M | re.S):
            chart, picture = flowchart.parse(text), flowchart.svg(text)
            drawn += 1
            assert picture.count("<rect") == len(chart.labels) > 3
            assert picture.count('class="edge" d=') == len(chart.edges) >= len(chart.labels) - 1
    assert drawn >= 2


def test_a_flowchart_that_is_not_understood_is_refused():
    with pytest.raises(ValueError, match="not understood"):
        flowchart.parse("flowchart TB\n  a[[odd]] --> b\n")


def test_nodes_are_below_those_that_lead_to_them():
    chart = flowchart.parse("flowchart TB\n  a --> b --> c\n  a -- no --> c\n  c --> a\n")
    assert flowchart.levels(chart) == {"a": 0, "b": 1, "c": 2} and ("a", "c", "no") in chart.edges


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">x</a><a href="#here">x</a><a href="https://example.org">x</a>'
        '<a href="c.html">x</a><a href="b.html#nowhere">x</a><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="there">')
    assert list(links.broken(tmp_path)) == [
        "a.html: no file for c.html", "a.html: no anchor for b.html#nowhere",
        "a.html: loads https://example.org/x.js from the network",
    ]  # fmt: skip
