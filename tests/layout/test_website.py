"""The generators of the documentation site: pages of the reference, flowcharts, the check of links, the navigation."""

import contextlib
import doctest
import inspect
import io
import re
import sys

import numpy as np
import pytest

import tilewright as tw
from docs.website import flowchart, gallery, links, notebooks, public_names, reference
from tests.support.paths import DOCS, ROOT


@pytest.fixture(scope="module")
def pages():
    return dict(reference.pages())


def test_every_page_is_in_the_navigation():
    entries = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2])
    listed = {*entries}
    assert len(entries) == len(listed)
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert listed == written | {path for path, _ in notebooks.pages()} | {"CHANGELOG.md"}


def test_the_list_of_namespaces_is_up_to_date(pages):
    text = (DOCS / "reference" / "index.md").read_text()
    assert text == reference.index(), "python -m docs.website.reference"
    links = re.findall(r"\]\((\w+\.md)\)", reference.linked(text))
    assert {f"reference/{link}" for link in links} == pages.keys()


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


# ---------------------------------------------------------------------------- notebooks and gallery


@pytest.mark.parametrize("path", notebooks.paths(), ids=lambda p: p.stem)
def test_a_notebook_runs_top_to_bottom(path):
    tw.devices()  # what comes later cannot change how many there are in this process
    stored = [cell for cell in notebooks.read(path)["cells"] if cell["cell_type"] == "code"]
    found = [cell for cell in notebooks.run(notebooks.read(path), path.name)["cells"] if cell["cell_type"] == "code"]
    for before, after in zip(stored, found, strict=True):
        kinds = [[(o["output_type"], sorted(o.get("data", {}))) for o in cell["outputs"]] for cell in (before, after)]
        assert kinds[0] == kinds[1], "python -m docs.website.notebooks"


def test_a_failing_cell_fails_with_its_line():
    notebook = {"cells": [{"cell_type": "code", "source": ["x = 1\n", "x / 0"]}]}
    with pytest.raises(ZeroDivisionError) as found:
        notebooks.run(notebook, "example")
    assert found.traceback[-1].lineno == 1 and "example, cell 0" in str(found.traceback[-1].path)


def test_cells_show_what_jupyter_shows():
    names: dict = {}
    assert notebooks.run_cell("print(1)\n2", names, "") == [
        {"name": "stdout", "output_type": "stream", "text": ["1\n"]},
        {"data": {"text/plain": ["2"]}, "execution_count": None, "metadata": {}, "output_type": "execute_result"},
    ]
    assert notebooks.run_cell("x = 3", names, "") == notebooks.run_cell("x;", names, "") == []


def test_pages_of_notebooks_have_code_and_outputs():
    text = dict(notebooks.pages())["notebooks/first_kernels.md"]
    assert text.startswith("# First kernels") and "<svg" in text and "```python\ndef scale_and_add" in text
    assert "PaddingError" in text and "remedy: give x" in text


@pytest.mark.parametrize("name", gallery.KERNELS)
def test_a_kernel_of_the_gallery_is_right_and_has_its_page(name):
    shown = gallery.KERNELS[name]
    operands = shown.small()
    plain = shown.module.reference if shown.case is None else shown.case.plain
    found, wanted = shown.call(small=True)(*operands), plain(np, *operands)
    for a, b in zip(tw.tree.leaves(found), tw.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)
    page = gallery.page(shown)
    assert "kernel_call" in page and ("<svg" in page or "Not drawn" in page) and "roofline of tpu:v5e" in page
    assert shown.sentence() in page


def test_the_table_of_the_gallery_is_complete():
    assert gallery.stored().keys() == {*gallery.KERNELS, "machine"} and len(gallery.KERNELS) >= 30
    assert gallery.INDEX.read_text() == gallery.index(), "python -m docs.website.gallery"


# ---------------------------------------------------------------------------- examples of generated functions


def generated():
    """Public functions that are made in a loop or by a factory: pytest does not collect their examples."""
    for space in public_names.NAMESPACES:
        for entry in public_names.entries(space):
            code = getattr(inspect.unwrap(entry.value), "__code__", None)
            if entry.kind == "function" and entry.example and code and code.co_name != entry.value.__name__:
                yield pytest.param(entry, id=f"{space}.{entry.name}")


@pytest.mark.parametrize("entry", [*generated()])
def test_examples_of_generated_functions_run(entry):
    names = dict(vars(sys.modules[entry.value.__module__]))  # as doctest does
    test = doctest.DocTestParser().get_doctest(entry.doc, names, entry.name, None, 0)
    for example in test.examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, entry.name, "single"), test.globs)
        found, wanted = printed.getvalue().split(), example.want.split()
        if found != wanted:  # numbers of another processor
            texts = printed.getvalue(), example.want
            both = [np.array(re.findall(r"-?[\d.]+(?:e[-+]?\d+)?", text), float) for text in texts]
            assert both[0].size, (printed.getvalue(), example.want)
            np.testing.assert_allclose(*both, rtol=1e-5, atol=1e-6)


def test_public_names_have_a_docstring_and_an_example():
    assert public_names.lacking() == {"docstring": [], "example": []}
