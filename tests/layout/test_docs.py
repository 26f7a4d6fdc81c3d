"""The pages of docs/: their code runs, and their tables are complete."""

import builtins
import doctest
import re

import pytest

import tilewright
from docs.settings import table
from tests.support.pages import examples
from tests.support.paths import DOCS
from tilewright.core.support import errors

PAGES = sorted(DOCS.rglob("*.md"))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def rows(page):
    """The cells of every row of every table of a page."""
    lines = [line for line in (DOCS / page).read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_examples(page):
    names = {"__name__": page.stem}
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for line, code in examples(page):
        if code.lstrip().startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
            report = []
            runner.run(test, out=report.append, clear_globs=False)
            names.update(test.globs)
            assert not runner.failures, "".join(report)
        else:
            exec(compile("\n" * line + code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


def test_the_table_of_settings_is_complete():
    assert table() in (DOCS / "settings.md").read_text(), "python -m docs.settings"


def test_the_catalogue_of_errors_is_complete():
    found = {}
    for row in rows("errors.md"):
        named = re.match(r"`(\w+)`(?: \((.*)\))?$", row[0])
        if named:
            found[named[1]] = named[2] or ""
            assert len(row) == 3 and row[1] and row[2], row
    classes = {n: c for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.TilewrightError)}
    assert sorted(found) == sorted(classes) == sorted(tilewright.errors.__all__)
    for name, bases in found.items():
        for base in filter(None, bases.split(", ")):
            assert issubclass(classes[name], getattr(builtins, base)), (name, base)


@pytest.mark.parametrize("page", [p for p in PAGES if re.search(r"^(svg|picture) = ", p.read_text(), re.M)],
                         ids=lambda p: p.stem)  # fmt: skip
def test_pictures_are_what_the_pages_draw(page, request):
    """A page has its picture in `picture`, and shows the first SVG of `images/`."""
    names: dict = {"__name__": page.stem}
    for line, code in examples(page):
        if not code.lstrip().startswith(">>>"):
            exec(compile("\n" * line + code, str(page), "exec"), names)
    stored = DOCS / "images" / re.search(r"\]\((?:\.\./)?images/(\w+\.svg)\)", page.read_text())[1]
    if request.config.getoption("--update-golden"):
        stored.write_text(names["picture"])
    assert stored.read_text() == names["picture"]
