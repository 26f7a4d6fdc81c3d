"""The check of the built site: each local link has its file and its anchor, and no page loads from the network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src")}


class _Page(HTMLParser):
    """The anchors of a page, and its references with the tag and attribute that they are in."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.references: list[tuple[str, str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := found.get(key))}
        if found.get("rel") in ("canonical", "alternate"):
            return
        self.references += [(tag, key, value) for key in ("href", "src") if (value := found.get(key))]


@cache
def _page(path: Path) -> _Page:
    return _Page(path.read_text(encoding="utf-8"))


def broken(site: Path) -> Iterator[str]:
    """What is wrong with the pages below a folder, a line each."""
    for path in sorted(site.rglob("*.html")):
        for tag, key, value in _page(path).references:
            parts = urlsplit(value)
            if parts.scheme in ("http", "https") or parts.netloc:
                if (tag, key) in _LOADED:
                    yield f"{path.relative_to(site)}: loads {value} from the network"
                continue
            if parts.scheme or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(site)}: no file for {value}"
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _page(target).anchors:
                yield f"{path.relative_to(site)}: no anchor for {value}"


if __name__ == "__main__":
    found = list(broken(Path(sys.argv[1]).resolve()))
    print(*found, sep="\n")
    sys.exit(bool(found))
