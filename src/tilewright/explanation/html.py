"""An explanation as one page of HTML that needs nothing else: the program as a graph, each kernel, the roofline.

With measurements also a timeline of what ran, and the share of the time that each part took.
"""

from __future__ import annotations

import html
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..compiler.kernel_report import KernelReport
from ..core.ir.program import Eqn, Program, Var
from ..core.primitives.control_flow.jit_primitive import jit_p
from ..core.support.errors import TilewrightError
from ..lang.call.primitive import kernel_call_p
from ..lang.frontend.visualize import svg_of
from ..lang.kernel.traverse import kernels_of
from ..lang.targets.target import Target
from ..xla_backend.analysis.hlo_report import Step, flat, show_seconds

_STYLE = """
:root{color-scheme:light dark;--line:#c9ced6;--soft:#f4f6f8;--ink:#1d2129;--note:#5b6472;--kernel:#2f6fb7;
--glue:#8a93a1}
@media(prefers-color-scheme:dark){:root{--line:#3a414d;--soft:#20252d;--ink:#e8eaed;--note:#a3acb9;--kernel:#6ca6e8}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);max-width:66rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.4rem 0 .3rem}p.note,.note{color:var(--note)}td.code{font-family:ui-monospace,monospace}
table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
td:first-child,th:first-child{text-align:left;white-space:normal}th{color:var(--note);font-weight:500}
td.bar{width:10%;min-width:4rem;text-align:left}
td.bar span{display:block;height:.8rem;background:var(--kernel);border-radius:2px}
.scroll{overflow:auto;max-height:46rem}
svg text{font:12px system-ui,sans-serif}svg .ink{fill:var(--ink)}svg .faint{fill:var(--note)}
svg .edge{fill:none;stroke:var(--line);stroke-width:1.5}svg .axis{stroke:var(--line)}
svg .roof{fill:none;stroke:var(--ink)}
pre{background:var(--soft);padding:.7rem;overflow-x:auto;border-radius:4px;font-size:13px}
"""
_WIDTH, _ROW = 190.0, 74.0  # a node's width and the distance of two levels of the graph


class Node(NamedTuple):
    """A kernel, or glue between kernels: its name, what to say of it, and the nodes whose results it takes."""

    name: str
    note: str
    kernel: bool
    after: tuple[int, ...]


def page(found: Any) -> str:
    """The page of an `Explanation`."""
    title = html.escape(f"{found.name}{f' on {found.target}' if found.target else ''}")
    parts = [f"<h1>{title}</h1><p class='note'>{html.escape(found.counts())}</p>"]
    if found.program is not None and found.kernels:
        parts.append(_section("The program", graph(nodes_of(found.program))))
    if found.kernels:
        drawn = {k.kernel: k for k in found.kernels}.values()
        parts.append(_section("Kernels", _kernel_table(found.kernels), *map(_kernel, drawn)))
    if found.xla is not None and found.xla.steps:
        note = html.escape("; ".join(line.strip() for line in found.xla.lines()[-2:]))
        steps = [s for s in flat(found.xla.steps) if not s.inner]
        parts.append(_section("What XLA runs", f"<p class='note'>{note}</p>", _steps(steps)))
    if found.machine is not None and any(k.seconds for k in found.kernels):
        parts.append(_section("Roofline", roofline(found.kernels, found.machine)))
    if found.profile is not None:
        parts.append(_section("Measured", timeline(found.profile.spans), _shares(found.profile.rows)))
    said = [
        *(r.line() for r in found.refused), *(f"kernel {k.name} is computed by {route}" for k, route in found.routes),
        *(f"kernel {k.name} is compiled by {name}" for k, name in found.compiled), *(p.line() for p in found.passed),
    ]  # fmt: skip
    if said:
        parts.append(_section("Routes", f"<pre>{html.escape(chr(10).join(said))}</pre>"))
    parts.append(_section("As text", f"<pre>{html.escape(str(found))}</pre>"))
    head = f"<head><meta charset='utf-8'><title>{title}</title><style>{_STYLE}</style></head>"
    return f"<!doctype html><html lang='en'>{head}<body>{''.join(parts)}</body></html>\n"


_NOTEBOOK = """<style>.tilewright td:first-child{text-align:left}.tilewright td.bar{width:6rem}
.tilewright td.bar span{display:block;height:.7rem;background:#2f6fb7}.tilewright .scroll{overflow-x:auto}</style>"""
DRAWN, DRAWN_CELLS = 3, 256  # kernels that a notebook shows with their picture, and cells of those


def fragment(found: Any) -> str:
    """What a notebook shows of an `Explanation`: the table of kernels, pictures of the first, and the text folded."""
    parts = [f"<p>{html.escape(str(found).splitlines()[0])}</p>"]
    if found.kernels:
        drawn = [k for k in {k.kernel: k for k in found.kernels}.values() if k.kernel.cells <= DRAWN_CELLS]
        parts += [_kernel_table(found.kernels), *(f"<h4>{html.escape(k.kernel.name)}</h4>{_picture(k)}"
                                                  for k in drawn[:DRAWN])]  # fmt: skip
    text = html.escape(str(found))
    folded = f"<details><summary>report</summary><pre>{text}</pre></details>"
    return f"<div class='tilewright'>{_NOTEBOOK}{''.join(parts)}{folded}</div>"


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{title}</h2>{''.join(parts)}</section>"


# ---------------------------------------------------------------------------- the graph


def nodes_of(program: Program) -> list[Node]:
    """The kernels of a program and the glue between them; glue that the same kernels come before is one node."""
    found = _Nodes()
    found.add(program)
    return found.nodes


class _Nodes:
    """The nodes made so far, and which of them gives each variable."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.made: dict[Any, int] = {}
        self.glue: dict[frozenset[int], int] = {}
        self.behind: list[frozenset[int]] = []  # the kernels before each node

    def add(self, program: Program) -> None:
        """The nodes of a program; those of functions that it calls stand in the place of the call."""
        for eqn in program.eqns:
            inner = eqn.params.get("program") if eqn.primitive is jit_p else None
            if inner is not None and any(True for _ in kernels_of(inner)):
                self._same(inner.inputs, eqn.inputs)
                self.add(inner)
                self._same(eqn.outputs, inner.outputs)
            else:
                self.made.update(dict.fromkeys(eqn.outputs, self._place(eqn)))

    def _same(self, variables: Sequence[Any], atoms: Sequence[Any]) -> None:
        for v, a in zip(variables, atoms, strict=True):
            if type(a) is Var and a in self.made:
                self.made[v] = self.made[a]

    def _place(self, eqn: Eqn) -> int:
        """The number of the node that an equation is, or belongs to."""
        sources = {self.made[a] for a in eqn.inputs if type(a) is Var and a in self.made}
        before = frozenset(k for s in sources for k in (self.behind[s] | ({s} if self.nodes[s].kernel else set())))
        if eqn.primitive is kernel_call_p:
            kernel = eqn.params["kernel"]
            cells = f"{kernel.cells} cell{'' if kernel.cells == 1 else 's'}"
            return self._new(Node(kernel.name, cells, True, tuple(sorted(sources))), before)
        number = self.glue.get(before)
        if number is None or any(s > number for s in sources):
            node = Node("glue by XLA", _more("", eqn), False, tuple(sorted(sources)))
            number = self.glue[before] = self._new(node, before)
            return number
        old = self.nodes[number]
        after = tuple(sorted({*old.after, *sources} - {number}))
        self.nodes[number] = old._replace(after=after, note=_more(old.note, eqn))
        return number

    def _new(self, node: Node, before: frozenset[int]) -> int:
        self.nodes.append(node)
        self.behind.append(before)
        return len(self.nodes) - 1


def _more(note: str, eqn: Eqn) -> str:
    count = int(note.split()[0]) + 1 if note else 1
    return f"{count} operation{'' if count == 1 else 's'}, {eqn.primitive.name}{' last' if count > 1 else ''}"


def graph(nodes: Sequence[Node]) -> str:
    """Nodes in levels, each below all that it takes results of; lines from the first glue to far below are left out."""
    level: list[int] = []
    for node in nodes:
        level.append(1 + max((level[a] for a in node.after), default=-1))
    place, counts = [], dict.fromkeys(range(max(level, default=0) + 1), 0)
    for at in level:
        place.append((20 + counts[at] * (_WIDTH + 30), 10 + at * _ROW))
        counts[at] += 1
    width, height = 20 + max(counts.values(), default=1) * (_WIDTH + 30), 20 + len(counts) * _ROW
    parts = []
    for (x, y), node in zip(place, nodes, strict=True):
        for a in (a for a in node.after if nodes[a].after or y - place[a][1] <= _ROW):
            (u, v), half = place[a], _WIDTH / 2
            bend = f"C{u + half:.0f} {v + 70:.0f} {x + half:.0f} {y - 26:.0f} {x + half:.0f} {y:.0f}"
            parts.append(f"<path class='edge' d='M{u + half:.0f} {v + 44:.0f}{bend}'/>")
    for (x, y), node in zip(place, nodes, strict=True):
        colour = "var(--kernel)" if node.kernel else "var(--glue)"
        parts.append(
            f"<g><rect x='{x:.0f}' y='{y:.0f}' width='{_WIDTH:.0f}' height='44' rx='6' fill='var(--soft)' "
            f"stroke='{colour}' stroke-width='{2 if node.kernel else 1}'/>"
            f"<text class='ink' x='{x + 10:.0f}' y='{y + 18:.0f}'>{_cut(node.name)}</text>"
            f"<text class='faint' x='{x + 10:.0f}' y='{y + 35:.0f}'>{_cut(node.note)}</text></g>"
        )
    return _svg(width, height, parts)


def _cut(text: str, most: int = 27) -> str:
    return html.escape(text if len(text) <= most else f"{text[: most - 1]}…")


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    size = f"width='{width:.0f}' height='{height:.0f}' viewBox='0 0 {width:.0f} {height:.0f}'"
    return f"<div class='scroll'><svg xmlns='http://www.w3.org/2000/svg' {size}>{''.join(parts)}</svg></div>"


# ---------------------------------------------------------------------------- kernels and steps


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    cells = "".join(f"<th>{h}</th>" for h in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<div class='scroll'><table><tr>{cells}</tr>{body}</table></div>"


def _td(text: Any) -> str:
    return f"<td>{html.escape(str(text))}</td>"


def _bar(share: float) -> str:
    return f"<td class='bar'><span style='width:{100 * share:.1f}%'></span></td>"


def _kernel_table(kernels: Sequence[KernelReport]) -> str:
    most = max((k.bytes_moved for k in kernels), default=0) or 1
    times = Counter(k.kernel for k in kernels)
    each = {k.kernel: k for k in kernels}.values()
    head = ("kernel", "times", "cells", "bytes moved", "", "flops", "a cell holds", "at least", "bound by", "proved")
    return _table(head, (
        (_td(k.kernel.name), _td(times[k.kernel]), _td(k.kernel.cells), _td(f"{k.bytes_moved:,}"),
         _bar(k.bytes_moved / most), _td(f"{k.flops:,}"), _td(f"{k.block_bytes:,} bytes"),
         _td(show_seconds(k.seconds) if k.seconds else "-"), _td(k.bound or "-"),
         _td(f"{sum(f.verdict == 'proved' for f in k.findings)} of {len(k.findings)}"))
        for k in each
    ))  # fmt: skip


def _picture(report: KernelReport) -> str:
    try:
        return f"<div class='scroll'>{svg_of(report.kernel)}</div>"
    except TilewrightError as error:  # too many cells, or maps that read values
        return f"<p class='note'>not drawn: {html.escape(error.what)}</p>"


def _kernel(report: KernelReport) -> str:
    lines = html.escape("\n".join(report.lines()))
    line = f"<p class='note'>{_line(report.kernel.source)}</p>" if report.kernel.source else ""
    return f"<h3>{html.escape(report.kernel.name)}</h3>{line}{_picture(report)}<pre>{lines}</pre>"


def _line(source: Any) -> str:
    """A line of the user's; its file relative to the working directory where it is below it."""
    return html.escape(str(source).removeprefix(os.path.join(os.getcwd(), "")))


def _steps(steps: Sequence[Step]) -> str:
    most = max((s.bytes_read + s.bytes_written for s in steps), default=0) or 1
    return _table(("step", "bytes read", "written", ""), (
        (_td(next(s.lines()).partition(": ")[0]), _td(f"{s.bytes_read:,}"), _td(f"{s.bytes_written:,}"),
         _bar((s.bytes_read + s.bytes_written) / most))
        for s in steps
    ))  # fmt: skip


# ---------------------------------------------------------------------------- pictures of the speed


def roofline(kernels: Sequence[KernelReport], machine: Target) -> str:
    """Each kernel under the machine's roofline: operations for each byte, and the most that allows."""
    known = [(k, max(k.flops + k.transcendentals, 1)) for k in kernels if k.seconds and k.bytes_moved]
    at = [work / k.bytes_moved for k, work in known]
    rates = [work / (k.seconds or 1.0) for k, work in known]
    peak = max(machine.rate("float32"), *rates)
    ridge = peak / machine.bandwidth
    left, right = math.log10(min(*at, ridge) / 4), math.log10(max(*at, ridge) * 4)
    top = math.log10(peak * 2)
    bottom = math.log10(min(10**left * machine.bandwidth, *rates))

    def x(intensity: float) -> float:
        return 60 + 560 * (math.log10(intensity) - left) / (right - left)

    def y(rate: float) -> float:
        return 280 - 250 * (math.log10(rate) - bottom) / (top - bottom)

    roof = f"M{x(10**left):.0f} {y(10**left * machine.bandwidth):.0f}L{x(ridge):.0f} {y(peak):.0f}H{x(10**right):.0f}"
    parts = ["<path class='axis' d='M60 10V280H620' fill='none'/>", f"<path class='roof' d='{roof}'/>",
             "<text class='faint' x='240' y='305'>operations for each byte moved</text>",
             f"<text class='faint' x='{x(ridge):.0f}' y='{y(peak) - 6:.0f}'>{peak / 1e9:,.0f} Gflop/s, float32</text>",
             f"<text class='faint' x='70' y='24'>{machine.bandwidth / 1e9:,.0f} GB/s</text>"]  # fmt: skip
    for intensity, rate, (k, _) in zip(at, rates, known, strict=True):
        across, down = x(intensity), y(rate)
        parts.append(f"<circle cx='{across:.0f}' cy='{down:.0f}' r='5' fill='var(--kernel)'/>")
        parts.append(f"<text class='ink' x='{across + 8:.0f}' y='{down + 4:.0f}'>{_cut(k.kernel.name)}</text>")
    return _svg(760, 315, parts)


def timeline(spans: Sequence[Any]) -> str:
    """What ran when, a row for each thread or stream."""
    if not spans:
        return "<p class='note'>nothing was computed on a device</p>"
    start, end = min(s.start for s in spans), max(s.start + s.length for s in spans)
    threads = {name: i for i, name in enumerate(dict.fromkeys(s.thread for s in spans))}
    scale = 900 / max(end - start, 1e-9)
    parts = [f"<text class='faint' x='0' y='{30 + 46 * i}'>{_cut(name, 60)}</text>" for name, i in threads.items()]
    for s in sorted(spans, key=lambda s: -s.length):
        x, width = (s.start - start) * scale, max(s.length * scale, 0.5)
        box = f"x='{x:.1f}' y='{36 + 46 * threads[s.thread]}' width='{width:.1f}' height='18' rx='2'"
        title = f"<title>{html.escape(s.part)}: {s.length:.1f} us</title>"
        parts.append(f"<rect {box} fill='var(--kernel)' stroke='var(--soft)'>{title}</rect>")
    parts.append(f"<text class='faint' x='0' y='12'>{show_seconds((end - start) / 1e6)} in all</text>")
    return _svg(910, 70 + 46 * len(threads), parts)


def _shares(rows: Sequence[Any]) -> str:
    total = sum(row.seconds for row in rows) or 1.0
    return _table(("part", "share", "", "time", "runs", "line"), (
        (_td(row.name), _td(f"{row.seconds / total:.0%}"), _bar(row.seconds / total), _td(show_seconds(row.seconds)),
         _td(row.calls), f"<td class='code'>{_line(row.line)}</td>")
        for row in rows
    ))  # fmt: skip
