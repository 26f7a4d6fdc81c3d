"""Tables and preformatted text as HTML, for `_repr_html_` in notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any


def html_table(head: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table whose cells are the texts of values.

    >>> html_table(["x"], [[1], ["<2>"]], "two rows")
    '<table><caption>two rows</caption><tr><th>x</th></tr><tr><td>1</td></tr><tr><td>&lt;2&gt;</td></tr></table>'
    """
    parts = [f"<caption>{html.escape(caption)}</caption>"] if caption else []
    parts += [f"<tr>{''.join(f'<th>{html.escape(str(h))}</th>' for h in head)}</tr>"] if head else []
    parts += [f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(parts)}</table>"


def html_text(text: str) -> str:
    """Text in a fixed-width font, its lines kept.

    >>> html_text("a < b")
    '<pre>a &lt; b</pre>'
    """
    return f"<pre>{html.escape(text)}</pre>"
