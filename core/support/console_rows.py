"""Rows of a table on a terminal: in columns where these fit, else a paragraph a row, with nothing cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_GAP = 2


def print_rows(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows whose cells may have several lines; text that has to be copied stays on one line.

    >>> from rich.console import Console
    >>> print_rows(Console(width=40), ["name", "size"], [["a", "1"]])
    name  size
    a     1
    >>> print_rows(Console(width=8), ["name", "size"], [["a", "1"]])
    a
      size: 1
    """
    rows = [[*row] for row in rows]
    lines = [[cell.splitlines() or [""] for cell in row] for row in ([*head], *rows)]
    widths = [max(len(line) for row in lines for line in row[i]) for i in range(len(head))]
    if sum(widths) + _GAP * (len(widths) - 1) <= console.width:
        for row in lines:
            for i in range(max(map(len, row))):
                cells = (cell[i] if i < len(cell) else "" for cell in row)
                text = (" " * _GAP).join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
                console.print(text.rstrip(), markup=False, highlight=False, soft_wrap=True)
        return
    for first, *others in rows:
        console.print(first, markup=False, highlight=False, soft_wrap=True)
        for name, cell in zip(head[1:], others, strict=True):
            for line in cell.splitlines() if cell else ():
                console.print(f"  {name}: {line}", markup=False, highlight=False, soft_wrap=True)
