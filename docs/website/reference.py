"""The pages of the reference: one for each public namespace, made from signatures and docstrings.

`python -m docs.website.reference` writes the list of namespaces, docs/reference/index.md; the pages themselves are made
when the site is built.

The package is imported rather than parsed: a third of the public names, such as the elementwise operations of `lax`,
are made from tables or imported on first use, and have no `def` that a parser could find.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docs.names import ANSWERS, DIFFERS, PLACES, fitting
from docs.website.public_names import NAMESPACES, Entry, entries
from tilewright.core.support.settings import ROWS

_BLOCK = re.compile(r"\n\s*\n")
_SECTION = re.compile(r"(Raises|Returns|Args|Yields|Note|Notes|Example|Examples):$")


def slug(space: str) -> str:
    """The file name of a namespace's page, without its ending."""
    return space.replace(".", "_")


def pages() -> Iterator[tuple[str, str]]:
    """Path within docs and text of every page."""
    for space, contents in NAMESPACES.items():
        yield f"reference/{slug(space)}.md", page(space, contents)


def index() -> str:
    """The list of namespaces, without links: outside of the site the pages do not exist."""
    rows = ([f"`{space}`", text] for space, text in NAMESPACES.items())
    head = (
        "# Reference\n\nMade by `python -m docs.website.reference`. `make docs` makes a page for each namespace, with\n"
        "every public name: its signature, docstring, example, and differences from JAX. Examples run as tests.\n\n"
    )
    return head + _table(["namespace", "contents"], rows)


def linked(text: str) -> str:
    """The list with links to the pages."""
    return re.sub(r"^\| `(tilewright[\w.]*)`", lambda m: f"| [`{m[1]}`]({slug(m[1])}.md)", text, flags=re.M)


def page(space: str, contents: str) -> str:
    """The page of a namespace: tables of its names by family, then each of them."""
    found = list(entries(space))
    shown = [e for e in found if e.kind in ("function", "class")]
    errors = [e for e in found if e.kind == "error"]
    values = [e for e in found if e.kind == "value"]
    parts = [f"# {space}\n\n{contents[0].upper()}{contents[1:]}.\n"]
    families: dict[str, list[Entry]] = {}
    for entry in shown:
        families.setdefault(entry.family, []).append(entry)
    single = len(shown) < 25 or len(families) > len(shown) / 3
    groups = {"": shown} if single else dict(sorted(families.items()))
    for family, members in groups.items():
        parts.append(f"\n**{family}**\n" if family else "")
        parts.append("\n" + _table(["name", "purpose"], ((f"[`{e.name}`](#{anchor(e)})", brief(e)) for e in members)))
    parts += _values(values)
    if errors:
        rows = ((f"`{e.name}`", brief(e)) for e in errors)
        parts.append("\n**Errors and warnings**\n\n" + _table(["name", "meaning"], rows))
    parts += [f"\n{entry_text(e)}" for e in shown]
    return "".join(parts)


def anchor(entry: Entry) -> str:
    return f"{slug(entry.space)}.{entry.name}"


def brief(entry: Entry) -> str:
    """The sentence of an entry for a cell of a table."""
    return escaped(entry.sentence).replace("|", "\\|")


def _table(head: list[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _values(values: list[Entry]) -> list[str]:
    if not values:
        return []
    rows = ((f"`{e.name}`", f"`{_value(e.value)}`") for e in values)
    return ["\n**Values, dtypes and aliases**\n\n" + _table(["name", "value"], rows)]


def _value(value: Any) -> str:
    if isinstance(value, type):
        return f"{value.__module__.partition('.')[0]} {value.__qualname__}"
    text = " ".join(repr(value).split()).replace("|", "\\|")
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text if len(text) <= 80 else f"{text[:77]}..."


def entry_text(entry: Entry) -> str:
    """The section of one name: signature, docstring, differences, members of a class."""
    signature = f"```python\n{entry.signature}\n```\n" if entry.signature else ""
    parts = [f"## {entry.name} {{ #{anchor(entry)} }}\n\n{signature}"]
    parts += [f"\n{block}\n" for block in blocks(entry.doc)]
    setting = ROWS.get(entry.name)
    if setting is not None:
        parts.append(f"\nThe [setting](../settings.md) `{entry.name}`: {setting.doc}.\n")
    parts += [f"\n**Differs from JAX or NumPy**: {text}\n" for text in differences(entry)]
    if entry.kind == "class":
        rows = list(members(entry.value))
        parts += ["\n" + _table(["member", "purpose"], rows)] if rows else []
    return "".join(parts)


def blocks(doc: str) -> Iterator[str]:
    """A docstring's paragraphs as Markdown: examples as code, sections of errors as lists."""
    for block in _BLOCK.split(doc):
        lines = block.splitlines()
        if not lines:
            continue
        if lines[0].lstrip().startswith(">>>"):
            yield "```pycon\n" + inspect.cleandoc(block) + "\n```"
        elif _SECTION.match(lines[0]):
            yield f"**{lines[0]}**"
            yield from _section(lines[1:])
        elif all(line.startswith("    ") for line in lines):
            yield "```text\n" + inspect.cleandoc(block) + "\n```"
        else:
            text, examples, _ = block.partition("\n>>>")
            yield escaped(text)
            if examples:
                yield f"```pycon\n>>>{block.partition(chr(10) + '>>>')[2]}\n```"


def _section(lines: list[str]) -> Iterator[str]:
    """The entries of a section `Raises:` or `Args:`, one a line with its continuation."""
    items: list[str] = []
    for line in lines:
        if items and len(line) - len(line.lstrip()) > 2:
            items[-1] += f" {line.strip()}"
        else:
            items.append(line.strip())
    named = (re.sub(r"^([\w., ]+):", lambda m: f"`{m[1]}`:", item) for item in items)
    yield "\n".join(f"- {escaped(item)}" for item in named)


def escaped(text: str) -> str:
    """Text whose stars and brackets are no markup outside of code."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*<_\[\]])", r"\\\1", p) for p in parts)


def differences(entry: Entry) -> Iterator[str]:
    """How a name differs from that of JAX, by the lists of the page of names."""
    back = {here: there for there, here in PLACES.items()}
    space = back.get(entry.space, "jax" + entry.space.removeprefix("tilewright"))
    text = fitting(f"{space}.{entry.name}", DIFFERS)
    if text:
        yield escaped(text[0].upper() + text[1:]) + "."
    short = f"{space.removeprefix('jax.')}.{entry.name}"
    for answer in ANSWERS:
        if short in answer["names"]:
            given = ", ".join(answer.get("given", []))
            yield f"{escaped(answer['why'])}{f' (operands: {given})' if given else ''}."


def members(kind: type) -> Iterator[tuple[str, str]]:
    """The public methods and properties that a class or a base of this package defines, with their sentences."""
    own = [c for c in kind.__mro__ if c.__module__.startswith("tilewright")]
    names = {n for c in own for n in vars(c) if not n.startswith("_")}
    for name in sorted(names):
        value = inspect.getattr_static(kind, name)
        doc = " ".join(inspect.cleandoc(getattr(value, "__doc__", None) or "").partition("\n\n")[0].split())
        if not doc or isinstance(value, (int, str, tuple)) or doc == type(value).__doc__:
            continue
        call = "" if isinstance(value, property) or not (callable(value) or hasattr(value, "__func__")) else "()"
        yield f"`{name}{call}`", escaped(doc).replace("|", "\\|")


def nav() -> list[dict[str, str]]:
    """The entries of the navigation."""
    return [{s: f"reference/{slug(s)}.md"} for s in NAMESPACES]


if __name__ == "__main__":
    (Path(__file__).resolve().parents[1] / "reference" / "index.md").write_text(index())
