"""A picture of a kernel: the grid, how each operand is cut, and the order in which cells touch the blocks."""

from __future__ import annotations

import html
import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.api.transformations import program_of
from ...core.support import pytree
from ...core.support.errors import ArgumentError, plural
from ...core.tracing.trace import as_type
from ..interpret.interpreter import block_index
from ..kernel.kernel import Block, Kernel
from ..kernel.traverse import kernels_of

MAX_CELLS = 4096
MAX_RUNS = 4096  # strips of an operand that are drawn
_SIDE, _GAP, _TOP = 220.0, 36.0, 84.0
_ABOVE = 44.0  # of a panel, for its labels
_ROW = 520.0  # the width of a picture beyond which operands go to the next row, so that phones can show it
_THIN = 24.0  # the least height and width of an operand, so that its labels can be read

# Blocks go from the first colour (touched first) to the last.
_RAMP = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


def _colour(share: float) -> tuple[str, str]:
    """The fill of a block touched at this share of the run, and the colour of text on it."""
    at = share * (len(_RAMP) - 1)
    low = min(int(at), len(_RAMP) - 2)
    rgb = [round(a + (b - a) * (at - low)) for a, b in zip(_RAMP[low], _RAMP[low + 1], strict=True)]
    return f"rgb({rgb[0]},{rgb[1]},{rgb[2]})", "#fff" if share < 0.6 else "#000"


def _cells(
    kernel: Kernel, prefetched: Sequence[np.ndarray]
) -> tuple[list[tuple[int, ...]], list[list[tuple[int, ...]]]]:
    """The cells in grid order and, for each operand, the block that each cell sees."""
    cells = list(np.ndindex(*kernel.grid))
    return cells, [[block_index(b, ids, prefetched) for ids in cells] for b in kernel.blocks]


def _label(first: int, visits: int, run: tuple[float, float, float, float], ink: str) -> str:
    """The number of the cell that first sees a block, and how many do, as large as there is room for."""
    left, top, width, height = run
    lines = [f"{first}"] + ([f"x{visits}"] if visits > 1 else [])
    if width > 7 * len(" ".join(lines)):
        lines = [" ".join(lines)]
    size = min(11.0, height / len(lines) * 0.9, width / (0.6 * max(map(len, lines))))
    if size < 3:  # nothing that could be read; the title says it
        return ""
    middle, top = left + width / 2, top + height / 2 - size * (len(lines) - 1) / 2
    return "".join(
        f'<text x="{middle:.2f}" y="{top + size * (k + 0.35):.2f}" fill="{ink}" class="order" '
        f'style="font-size:{size:.1f}px">{line}</text>' for k, line in enumerate(lines))  # fmt: skip


class Picture(str):
    """The text of a picture, which notebooks draw."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} characters>"

    def _repr_html_(self) -> str:
        if self.startswith("<svg"):
            return f"<div style='overflow-x:auto'>{self}</div>"
        page = html.escape(self, quote=True)  # a script within the notebook's own page would not run
        return f"<iframe srcdoc='{page}' style='width:100%;height:26rem;border:0'></iframe>"


class _Panel:
    """One operand drawn as a rectangle: its last two axes, leading axes stacked downwards."""

    def __init__(self, block: Block, seen: list[tuple[int, ...]]):
        shape = (1,) * (2 - block.array.ndim) + tuple(block.array.shape)
        self.block, self.seen = block, seen
        self.pad = 2 - block.array.ndim
        self.lead = shape[:-2]
        self.rows, self.cols = shape[-2] * int(np.prod(self.lead, dtype=np.int64)), shape[-1]
        scale = _SIDE / max(self.rows, self.cols, 1)
        self.width = max(self.cols * scale, _THIN)
        self.height = max(self.rows * scale, _THIN)

    def rectangles(self, index: tuple[int, ...]) -> list[tuple[float, float, float, float]]:
        """x, y, width, height of each run of rows of a block, cut at the array's edges."""
        low, high = [0] * max(self.pad, 0), [1] * max(self.pad, 0)
        block = self.block
        for i, axis, n in zip(index, block.axes, block.array.shape, strict=True):
            low.append(min(max(axis.start(i), 0), n))
            high.append(min(max(axis.start(i) + axis.size, 0), n))
        across, down = self.width / max(self.cols, 1), self.height / max(self.rows, 1)
        inner = self.rows // max(int(np.prod(self.lead, dtype=np.int64)), 1)
        runs: list[list[int]] = []
        for at in itertools.product(*(range(a, h) for a, h in zip(low[:-2], high[:-2], strict=True))):
            first = (int(np.ravel_multi_index(at, self.lead)) if at else 0) * inner + low[-2]
            if runs and runs[-1][1] == first:
                runs[-1][1] = first + high[-2] - low[-2]
            else:
                runs.append([first, first + high[-2] - low[-2]])
        x, width = low[-1] * across, (high[-1] - low[-1]) * across
        return [(x, first * down, width, (end - first) * down) for first, end in runs]

    @property
    def extent(self) -> float:
        """The width of the panel with its label."""
        return max(self.width, 7.0 * (len(self.block.name) + len(self.block.array.show()) + 2))

    def svg(self, x: float, y: float, number: int, cells: int) -> str:
        """The panel at a position: one rectangle a block, numbered by the cell that first sees it."""
        first: dict[tuple[int, ...], int] = {}
        for t, index in enumerate(self.seen):
            first.setdefault(index, t)
        visits = Counter(self.seen)
        parts = [f'<g transform="translate({x:.1f},{y:.1f})" data-operand="{number}">']
        role = html.escape(f"{self.block.name}: {self.block.array.show()}")
        sizes = "x".join(map(str, self.block.sizes))
        parts.append(f'<text y="-26" class="name">{role}</text><text y="-10" class="note">block {sizes}</text>')
        drawn = {index: self.rectangles(index) for index in first}
        if sum(map(len, drawn.values())) > MAX_RUNS:
            drawn = {}
            parts.append(f'<text x="12" y="14" class="note">{len(first)} blocks, in strips too fine to see</text>')
        for index, runs in drawn.items():
            t = first[index]
            fill, ink = _colour(t / max(cells - 1, 1))
            shown = ",".join(map(str, index))
            outline = "".join(f"M{x:.2f} {y:.2f}h{w:.2f}v{h:.2f}h{-w:.2f}z" for x, y, w, h in runs)
            parts.append(
                f'<path d="{outline}" fill="{fill}" class="block" data-block="{shown}">'
                f"<title>block ({shown}): first seen by cell {t}, {visits[index]} visits</title></path>"
            )
            parts += [_label(t, visits[index], run, ink) for run in runs[:1]]
        parts.append(f'<rect width="{self.width:.1f}" height="{self.height:.1f}" class="outline"/></g>')
        return "".join(parts)


_STYLE = """<style>text{font:12px sans-serif}.name{font-weight:bold}.note{fill:#555}.ground{fill:#fff}
.order{text-anchor:middle;pointer-events:none}.block{stroke:#fff;stroke-width:1}.outline{fill:none;stroke:#333}
@media(prefers-color-scheme:dark){.ground{fill:#1e2129}.name{fill:#e8eaed}.note{fill:#a3acb9}.block{stroke:#1e2129}
.outline{stroke:#a3acb9}}
.now{stroke:#e11;stroke-width:4}</style>"""


def svg_of(kernel: Kernel, *arrays: Any) -> str:
    """The picture as SVG text. `arrays` are needed only where index maps read prefetched operands."""
    if kernel.extents:
        raise ArgumentError(f"visualize: the grid {kernel.grid_text} of kernel {kernel.name} has traced sizes",
                            "draw it with grid sizes that are Python ints")  # fmt: skip
    if kernel.cells > MAX_CELLS:
        raise ArgumentError(f"visualize: the grid {kernel.grid} of kernel {kernel.name} has {kernel.cells} cells",
                            f"draw a smaller problem, of at most {MAX_CELLS} cells")  # fmt: skip
    prefetched = [np.asarray(a) for a in arrays[: len(kernel.prefetch)]]
    if len(prefetched) < len(kernel.prefetch) or any(a.dtype == object for a in prefetched):
        raise ArgumentError(f"visualize: the index maps of kernel {kernel.name} read {len(kernel.prefetch)} prefetched "
                            "operands", "pass arrays for those: what they hold says where blocks lie")  # fmt: skip
    cells, seen = _cells(kernel, prefetched)
    panels = [_Panel(b, s) for b, s in zip(kernel.blocks, seen, strict=True)]
    head = f"{kernel.name}   grid {kernel.grid}, {plural(len(cells), 'cell')}"
    note = "each block: the first cell to see it, and its visits"
    width, x, y, height, parts = 7.0 * max(len(head), len(note)) + 2 * _GAP, _GAP, _TOP, _TOP, []
    for number, panel in enumerate(panels):
        if x > _GAP and x + panel.extent + _GAP > _ROW:
            x, y = _GAP, height + _ABOVE
        parts.append(panel.svg(x, y, number, len(cells)))
        x += panel.extent + _GAP
        width, height = max(width, x), max(height, y + panel.height + _GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}">{_STYLE}<rect width="100%" height="100%" class="ground"/>'
            f'<text x="{_GAP}" y="20" class="name">{html.escape(head)}</text>'
            f'<text x="{_GAP}" y="36" class="note">{note}</text>{"".join(parts)}</svg>')


_SCRIPT = """const cells=%s,seen=%s,slider=document.querySelector('input'),label=document.querySelector('output');
function show(){const t=+slider.value;document.querySelectorAll('.now').forEach(e=>e.classList.remove('now'));
label.textContent='cell '+t+': ('+cells[t].join(', ')+')';
seen.forEach((s,i)=>{const e=document.querySelector(`[data-operand="${i}"] [data-block="${s[t].join(',')}"]`);
if(e){e.classList.add('now');e.parentNode.insertBefore(e,e.parentNode.querySelector('.order')||e.parentNode.lastChild)}})}
slider.oninput=show;show();"""


def html_of(kernel: Kernel, *arrays: Any) -> str:
    """The picture as a page with a slider that steps through the cells."""
    picture = svg_of(kernel, *arrays)
    cells, seen = _cells(kernel, [np.asarray(a) for a in arrays[: len(kernel.prefetch)]])
    script = _SCRIPT % (json.dumps(cells), json.dumps(seen))
    return (f"<!doctype html><meta charset=utf-8><title>{html.escape(kernel.name)}</title>{picture}"
            f'<p><input type=range min=0 max={len(cells) - 1} value=0 style="width:60%"> <output></output></p>'
            f"<script>{script}</script>")  # fmt: skip


def visualize(function: Kernel | Callable[..., Any], *args: Any, path: str | Path | None = None) -> Picture:
    """The grid of a kernel, each operand's blocks, and the order in which cells touch them, as SVG or a page.

    `function` is a Kernel or anything that calls one; `args` are its arguments. With `path` the picture is
    written there: a page with a slider where the name ends in `.html`, SVG where it ends in `.svg`. Gives the text,
    which a notebook draws.
    Raises an `ArgumentError` where there is no kernel, its grid has over 4096 cells, or `path` ends otherwise.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import BlockSpec, kernel_call
    >>> def double(x, o):
    ...     o[...] = x[...] * 2
    >>> spec = BlockSpec((2,), lambda i: (i,))
    >>> call = kernel_call(double, tw.ShapeDtypeStruct((4,), "float32"), grid=2, in_specs=[spec], out_specs=spec)
    >>> visualize(call, np.zeros(4, "float32")).startswith("<svg")
    True
    """
    if isinstance(function, Kernel):
        kernel = function
    else:
        program, _ = program_of(function, args)
        found = next(kernels_of(program), None)
        if found is None:
            raise ArgumentError(f"visualize: {getattr(function, '__name__', function)!r} calls no kernel",
                                "pass a function that calls `kernel_call`")  # fmt: skip
        kernel = found
    arrays = [x for x in pytree.leaves(args) if not hasattr(as_type(x), "space")]
    page = path is not None and Path(path).suffix == ".html"
    if path is not None and Path(path).suffix not in (".svg", ".html"):
        raise ArgumentError(f"visualize: path is {str(path)!r}", "name a file that ends in .svg or .html")
    text = Picture((html_of if page else svg_of)(kernel, *arrays))
    if path is not None:
        Path(path).write_text(text)
    return text
