"""Flowcharts of the pages (the part of Mermaid's language that they use) as SVG, so that the site needs no script.

    flowchart TB
        a["label: place"] --> b{"label"}
        b -- text --> c

A node's label is drawn on two lines, divided at its first colon.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

_NODE = r"(\w+)(?:\[\"(.*?)\"\]|\{\"(.*?)\"\})?"
_EDGE = re.compile(rf"\s*{_NODE}\s*(?:--\s+(.+?)\s+)?-->\s*(?={_NODE})")
_LAST = re.compile(rf"\s*{_NODE}\s*$")
_WIDTH, _HEIGHT, _ACROSS, _DOWN = 284, 46, 24, 40


@dataclass
class Chart:
    """Nodes by identifier with their labels, which of them are decisions, and edges with their texts."""

    labels: dict[str, str] = field(default_factory=dict)
    decisions: set[str] = field(default_factory=set)
    edges: list[tuple[str, str, str]] = field(default_factory=list)

    def node(self, name: str, label: str | None, decision: str | None) -> str:
        if label or decision or name not in self.labels:
            self.labels[name] = label or decision or name
        if decision:
            self.decisions.add(name)
        return name


def parse(text: str) -> Chart:
    """The chart that the lines after the first describe.

    >>> parse('flowchart TB\\n a["one: x"] -- yes --> b\\n').edges
    [('a', 'b', 'yes')]
    """
    chart = Chart()
    for line in text.strip().splitlines()[1:]:
        place, before = 0, None
        while found := _EDGE.match(line, place):
            name = chart.node(*found.group(1, 2, 3))
            if before:
                chart.edges.append((before[0], name, before[1]))
            before, place = (name, found.group(4) or ""), found.end()
        last = _LAST.match(line, place)
        if last is None:
            raise ValueError(f"not understood in a flowchart: {line!r}")
        name = chart.node(*last.group(1, 2, 3))
        if before:
            chart.edges.append((before[0], name, before[1]))
    return chart


def levels(chart: Chart) -> dict[str, int]:
    """The row of each node: below all that have an edge to it, but for edges that close a cycle."""
    after: dict[str, list[str]] = {name: [] for name in chart.labels}
    for a, b, _ in chart.edges:
        after[a].append(b)
    order: list[str] = []  # each node after all that it leads to
    open_nodes: set[str] = set()
    forward: set[tuple[str, str]] = set()

    def visit(name: str) -> None:
        open_nodes.add(name)
        for other in after[name]:
            if other not in open_nodes:
                forward.add((name, other))
                if other not in order:
                    visit(other)
        open_nodes.discard(name)
        order.append(name)

    for name in chart.labels:
        if name not in order:
            visit(name)
    level = dict.fromkeys(chart.labels, 0)
    for name in reversed(order):
        for other in after[name]:
            if (name, other) in forward:
                level[other] = max(level[other], level[name] + 1)
    return level


def svg(text: str) -> str:
    """A flowchart as an SVG element whose colours are those of the page."""
    chart = parse(text)
    level = levels(chart)
    rows: dict[int, list[str]] = {}
    for name in chart.labels:
        rows.setdefault(level[name], []).append(name)
    widest = max(map(len, rows.values()))
    full = widest * (_WIDTH + _ACROSS) + 120
    place = {}
    for row, names in rows.items():
        left = (full - len(names) * (_WIDTH + _ACROSS) + _ACROSS) / 2
        for i, name in enumerate(names):
            place[name] = (left + i * (_WIDTH + _ACROSS), 8 + row * (_HEIGHT + _DOWN))
    height = 16 + len(rows) * (_HEIGHT + _DOWN) - _DOWN
    parts = [_edge(place[a], place[b], label) for a, b, label in chart.edges]
    parts += [_box(place[name], chart.labels[name], name in chart.decisions) for name in chart.labels]
    head = '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    arrow = f'<defs>{head}<path d="M0 0L8 4L0 8z"/></marker></defs>'
    return (f'<div class="flowchart"><svg viewBox="0 0 {full:.0f} {height:.0f}" width="{full:.0f}" role="img">'
            f"{arrow}{''.join(parts)}</svg></div>")  # fmt: skip


def _box(at: tuple[float, float], label: str, decision: bool) -> str:
    x, y = at
    first, _, second = label.partition(": ")
    lines = [first, *([second] if second else [])]
    middle = y + _HEIGHT / 2 + 4 - 8 * (len(lines) - 1)
    texts = "".join(
        f'<text class="{"place" if i else "label"}" x="{x + _WIDTH / 2:.0f}" y="{middle + 16 * i:.0f}">'
        f"{html.escape(_cut(line))}</text>" for i, line in enumerate(lines))  # fmt: skip
    return (f'<rect class="{"decision" if decision else "box"}" x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" rx="{_HEIGHT / 2 if decision else 6:.0f}"/>{texts}')  # fmt: skip


def _cut(line: str, most: int = 50) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


def _edge(a: tuple[float, float], b: tuple[float, float], label: str) -> str:
    """An arrow from below the one to above the other; past other rows it leads along the side."""
    (x, y), (u, v) = (a[0] + _WIDTH / 2, a[1] + _HEIGHT), (b[0] + _WIDTH / 2, b[1])
    if 0 < v - y <= _DOWN + 1 or (v > y and abs(u - x) > _WIDTH / 2):
        bend = min((v - y) / 2, 2.0 * _DOWN)
        path = f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {u:.0f} {v - bend:.0f} {u:.0f} {v:.0f}"
        text = (x + 0.3 * (u - x) + 6, y + 0.35 * (v - y) + 3)
    else:
        x, y, u, v = a[0] + _WIDTH, a[1] + _HEIGHT / 2, b[0] + _WIDTH, b[1] + _HEIGHT / 2
        right = max(x, u) + 46
        path = f"M{x:.0f} {y:.0f}C{right:.0f} {y:.0f} {right:.0f} {v:.0f} {u:.0f} {v:.0f}"
        text = (x + 20, y + (2 if v > y else -6))
    said = f'<text class="edge" x="{text[0]:.0f}" y="{text[1]:.0f}">{html.escape(label)}</text>' if label else ""
    return f'<path class="edge" d="{path}" marker-end="url(#arrow)"/>{said}'
