"""The drawings of the essays on how the package works, made from what the package itself says of an example.

`python -m docs.website.drawings` writes them to docs/images.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from docs.website.essay_examples import FUSED, OPERATIONS, adjoint_kernels, matmul_kernel
from tilewright.compiler.backend_selection import ROUTES
from tilewright.core.ir.axis_relation import Relation, relate
from tilewright.core.ir.program import Program, Var
from tilewright.lang.analysis.affine import facts

IMAGES = Path(__file__).resolve().parents[1] / "images"
KINDS = {"Parallel": "#9ecae1", "Reduced": "#fdae6b", "Whole": "#bcbddc", "Window": "#a1d99b"}
PALETTE = ("#c6dbef", "#fdd0a2", "#c7e9c0", "#dadaeb", "#fcbba1", "#d9d9d9")
LEVELS = {"clean": "#c7e9c0", "poison": "#fb6a4a", "tainted": "#fdae6b"}
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.bold{font-weight:bold}.code{font:11px monospace}.middle{text-anchor:middle}"
    ".note{fill:#666}.line{stroke:#555;fill:none}.arrow{stroke:#555;fill:none;marker-end:url(#head)}"
    ".box{stroke:#777}.head{fill:#555}.ground{fill:#fff}@media(prefers-color-scheme:dark){.ground{fill:#1e2129}text{fill:#e8eaed}"
    ".inside{fill:#222}.note{fill:#a3acb9}.line,.arrow{stroke:#a3acb9}.head{fill:#a3acb9}}"
)
_HEAD = '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">' \
        '<path d="M0 0L8 4L0 8z" class="head"/></marker>'  # fmt: skip


class Picture:
    """Shapes and texts, in the order in which they are painted."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = self.height = 0.0

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        """A line of text whose left end, or with `middle` whose middle, is at a place."""
        self._reach(x + (4 if "middle" in style else 7) * len(text), y + 6)
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}">{html.escape(text)}</text>')

    def box(self, x: float, y: float, wide: float, high: float, text: str = "", fill: str = "#fff") -> None:
        """A rectangle with a text in its middle."""
        self._reach(x + wide, y + high)
        at = f'x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"'
        self.parts.append(f'<rect {at} rx="3" fill="{fill}" class="box"/>')
        if text:
            self.text(x + wide / 2, y + high / 2 + 4, text, "middle inside")

    def line(self, x0: float, y0: float, x1: float, y1: float, style: str = "line") -> None:
        """A straight line, or an arrow."""
        self._reach(max(x0, x1), max(y0, y1))
        self.parts.append(f'<path d="M{x0:g} {y0:g}L{x1:g} {y1:g}" class="{style}"/>')

    def key(self, x: float, y: float, entries: Iterable[tuple[str, str]]) -> None:
        """What colours mean."""
        for text, fill in entries:
            self.box(x, y, 14, 14, fill=fill)
            self.text(x + 20, y + 11, text)
            x += 42 + 7 * len(text)

    def svg(self) -> str:
        """The picture as a file."""
        wide, high = self.width + 14, self.height + 12
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" ' \
               f'height="{high:g}">'  # fmt: skip
        body = "\n".join(self.parts)
        return f'{head}<style>{_STYLE}</style><defs>{_HEAD}</defs><rect width="100%" height="100%" class="ground"/>\n' \
               f"{body}\n</svg>\n"  # fmt: skip


def _kind(relation: Relation, factor: int) -> str:
    return type(relation.kinds[factor]).__name__


def relations() -> str:
    """Operations with their loops: the axes of operands on the left, loops by kind, the axes of results."""
    p = Picture()
    for number, (name, f, types) in enumerate(OPERATIONS):
        eqn = tw.make_jaxpr(f)(*types).eqns[0]
        relation = relate(eqn)
        assert relation is not None
        left, top = 14 + number % 3 * 268, 20 + number // 3 * 178
        p.text(left, top, name, "bold")
        axes = [(x, *place) for x, values in enumerate((relation.operands, relation.results))
                for place in _places(values, eqn.inputs if x == 0 else eqn.outputs)]  # fmt: skip
        rows = {f: top + 18 + 28 * f for f in range(len(relation.sizes))}
        for side, row, size, factors in axes:
            x, y = left + (0 if side == 0 else 198), top + 18 + 28 * row
            for factor in factors:
                loop = (left + (88 if side == 0 else 150), rows[factor] + 10)
                p.line(x + 40 * (side == 0), y + 10, *loop)
            p.box(x, y, 40, 20, str(size))
        for factor, y in rows.items():
            p.box(left + 88, y, 62, 20, str(relation.sizes[factor]), KINDS[_kind(relation, factor)])
    p.key(14, p.height + 14, ((kind.lower(), fill) for kind, fill in KINDS.items()))
    return p.svg()


def _places(values: Sequence[Any], atoms: Sequence[Any]) -> Iterable[tuple[int, int, Any]]:
    """Row, size and factors of every axis of some operands or results."""
    row = 0
    for axes, atom in zip(values, atoms, strict=True):
        for size, factors in zip(atom.type.shape, axes, strict=True):
            yield row, size, factors
            row += 1


def affine_maps() -> str:
    """The index maps of a matrix product as coefficients, and its cells in order, coloured by their result block."""
    p, kernel = Picture(), matmul_kernel()
    names = ("i", "j", "s")
    for number, block in enumerate((*kernel.inputs, *kernel.outputs)):
        found = facts(block.index_map, kernel.grid)
        assert found is not None and found.affine is not None
        left = 14 + 250 * number
        p.text(left, 20, f"{block.name}: block of {block.array.shape}", "bold")
        for column, name in enumerate(names):
            p.text(left + 78 + 44 * column, 42, name, "middle")
        for row, coefficients in enumerate(found.affine.coefficients):
            p.text(left, 66 + 26 * row, f"axis {row}")
            for column in range(len(names)):
                value = coefficients.get(column, 0)
                p.box(left + 58 + 44 * column, 50 + 26 * row, 40, 22, str(value), PALETTE[0] if value else "#fff")
    table = facts(kernel.outputs[0].index_map, kernel.grid)
    assert table is not None and table.table is not None
    p.text(14, 138, "The cells in order. Equal colours: the same block of the result, which stays in fast memory.", "")
    cells = np.ndindex(*kernel.grid)
    for at, ids in enumerate(cells):
        block = table.table[tuple(ids[axis] for axis in table.axes)]
        fill = PALETTE[int(np.ravel_multi_index(tuple(block), (3, 2))) % len(PALETTE)]
        p.box(14 + 31 * at, 148, 30, 26, "".join(map(str, ids)), fill)
    p.text(14, 196, "i j s: a run of four cells for each block; s is the axis that carries the sum", "note")
    return p.svg()


def _statements(program: Program, names: dict[Var, str]) -> list[tuple[str, str | None]]:
    """A body's equations in a line each, with the Ref that each reads, writes or adds to."""
    lines = []
    for eqn in program.eqns:
        for v in eqn.outputs:
            names.setdefault(v, f"v{sum(n.startswith('v') for n in names.values())}")
        given = [names.get(a, "0") if isinstance(a, Var) else _literal(a) for a in eqn.inputs]
        name = eqn.primitive.name
        out = names[eqn.outputs[0]] if eqn.outputs else ""
        ref = given[0] if name in ("get", "swap", "addupdate") else None
        plain = f"{out} = {name} {' '.join(given)}"
        access = {"get": f"{out} = {ref}[...]", "swap": f"{ref}[...] = {given[-1]}",
                  "addupdate": f"{ref}[...] += {given[-1]}"}  # fmt: skip
        lines.append((access.get(name, plain), ref))
    return lines


def _literal(atom: Any) -> str:
    return f"{np.asarray(atom.value).item():g}"


def adjoint() -> str:
    """The body of a kernel and that of its backward kernel: what reads a Ref adds to the cotangent's, and so on."""
    p, columns = Picture(), []
    for number, kernel in enumerate(adjoint_kernels()):
        blocks = [b.name for b in (*kernel.inputs, *kernel.outputs)]
        names = dict(zip(kernel.body.inputs, [*"ijk"[: len(kernel.grid)], *blocks], strict=True))
        lines = _statements(kernel.body, names)
        left = 14 + 400 * number
        p.text(left, 20, f"{kernel.name}: {'the cell' if number == 0 else 'its adjoint'}", "bold")
        for row, (text, _) in enumerate(lines):
            fill = "#fff" if lines[row][1] is None else PALETTE[1 if number else 0]
            p.box(left, 32 + 27 * row, 270, 22, fill=fill)
            p.text(left + 8, 47 + 27 * row, text, "code")
        columns.append(lines)
    forward, backward = columns
    for row, (text, ref) in enumerate(forward):
        for other, (_, bar) in enumerate(backward):
            if ref is not None and bar == f"{ref}_bar" and ("= " + ref in text) == ("+=" in backward[other][0]):
                p.line(284, 43 + 27 * row, 412, 43 + 27 * other, "arrow")
    p.text(14, p.height + 20, "A store to o_ref becomes a read of its cotangent, a read of x_ref an addition to its "
           "cotangent.", "note")  # fmt: skip
    return p.svg()


def verification() -> str:
    """A block that is past the end of its array, through some operations: what is unspecified, and what it reaches."""
    p, bad = Picture(), np.float32(np.nan)
    x = np.concatenate([np.arange(1, 6, dtype=np.float32), np.full(3, bad)])
    inside = np.arange(8) < 5
    rows = [
        ("x = x_ref[...]", x, "poison"), ("y = 2 * x", 2 * x, "poison"),
        ("y.sum()", (2 * x).sum(keepdims=True), "tainted"),
        ("z = where(inside, y, 0)", np.where(inside, 2 * x, 0), "poison"),
        ("z.sum()", np.where(inside, 2 * x, 0).sum(keepdims=True), "tainted"),
    ]  # fmt: skip
    for row, (text, values, level) in enumerate(rows):
        p.text(14, 36 + 34 * row, text, "code")
        for at, value in enumerate(values):
            unknown = bool(np.isnan(value))
            fill = LEVELS[level if unknown else "clean"]
            p.box(200 + 46 * at, 20 + 34 * row, 42, 24, "?" if unknown else f"{value:g}", fill)
    p.line(381 + 46, 14, 381 + 46, 20 + 34 * 2 - 6)
    p.text(434, 12, "end of the array", "note")
    p.text(254, 104, "stored: PaddingError", "note")
    p.text(254, 172, "stored: proved", "note")
    p.key(14, 200, LEVELS.items())
    return p.svg()


class _Loops:
    """Which axes of a Program's values follow one loop: union of axes through the relations of its equations."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, x: Any) -> Any:
        while (up := self.parent.setdefault(x, x)) is not x:
            x = up
        return x

    def join(self, a: Any, b: Any) -> None:
        self.parent[self.find(b)] = self.find(a)


def fusion() -> str:
    """The operations of a softmax, and which of its two loops each follows, by kind."""
    p, loops = Picture(), _Loops()
    program = tw.make_jaxpr(FUSED[0])(*FUSED[1])
    eqns = [(eqn, relation) for eqn in program.eqns if (relation := relate(eqn)) is not None]
    for eqn, relation in eqns:
        for axes, atom in (*zip(relation.operands, eqn.inputs, strict=True),
                           *zip(relation.results, eqn.outputs, strict=True)):  # fmt: skip
            for axis, factors in enumerate(axes):
                if isinstance(atom, Var) and len(factors) == 1 and atom.type.shape[axis] > 1:
                    loops.join((atom, axis), (eqn, factors[0]))
    found = [loops.find((program.inputs[0], axis)) for axis in range(2)]
    for column, (text, size) in enumerate(zip(("rows", "columns"), program.inputs[0].type.shape, strict=True)):
        p.text(330 + 110 * column, 20, f"{text}: {size}", "bold middle")
    stages = {"reduce_max": "1", "reduce_sum": "2"}
    for row, (eqn, relation) in enumerate(eqns):
        y = 32 + 28 * row
        p.text(14, y + 15, f"{eqn.primitive.name} -> {eqn.outputs[0].type.show()}", "code")
        for column, loop in enumerate(found):
            kinds = {_kind(relation, f) for f in range(len(relation.sizes)) if loops.find((eqn, f)) == loop}
            for kind in kinds:
                p.box(282 + 110 * column, y, 96, 22, kind.lower(), KINDS[kind])
        if eqn.primitive.name in stages:
            p.text(500, y + 15, f"reduction {stages[eqn.primitive.name]}: what follows reads the row again", "note")
    p.text(14, p.height + 18, "rows is parallel everywhere: it is tiled. columns is reduced and then followed again: a "
           "cell has whole rows.", "note")  # fmt: skip
    return p.svg()


def routes() -> str:
    """For each kind of target the backends in the order in which they are tried, and XLA after them."""
    p = Picture()
    known = {kind: [r.name for r in routes] for kind, routes in ROUTES.items()} | {"cpu": ["machine code"]}
    for row, (kind, names) in enumerate(known.items()):
        y = 20 + 62 * row
        p.box(14, y, 90, 34, kind, PALETTE[5])
        for at, name in enumerate([*names, "XLA"]):
            x = 150 + 170 * at
            p.line(x - 46 if at == 0 else x - 50, y + 17, x, y + 17, "arrow")
            p.box(x, y, 120, 34, name, PALETTE[2] if name == "XLA" else PALETTE[0])
            if at:
                p.text(x - 48, y + 11, "refused", "note")
    return p.svg()


def machine_code() -> str:
    """The passes of a softmax over one row, in vectors: what each reads, keeps in registers, and leaves in cache."""
    p = Picture()
    passes = (
        ("pass 1", "x", "m = max(m, x)", "m: 1 vector", None),
        ("pass 2", "x", "e = exp(x - m);  s += e", "s: 1 vector", "e: one row"),
        ("pass 3", "e", "o = e / s", "", "o: the result"),
    )
    heads = {80: "reads", 200: "computes, a vector at a time", 430: "in registers", 570: "in cache or memory"}
    for x, text in heads.items():
        p.text(x, 20, text, "bold")
    for row, (name, read, computed, kept, left) in enumerate(passes):
        y = 34 + 66 * row
        p.text(14, y + 26, name)
        for lane in range(6):
            p.box(80 + 17 * lane, y + 8, 15, 26, fill=PALETTE[0] if lane < 5 else "#fff")
        p.text(80, y + 50, f"{read}: full vectors, a masked one", "note")
        p.box(200, y + 8, 210, 26, computed, PALETTE[1])
        for x, text in ((430, kept), (570, left)):
            if text:
                p.box(x, y + 8, 120, 26, text, PALETTE[2 if x == 430 else 3])
        p.line(182, y + 21, 198, y + 21, "arrow")
    p.line(490, 68, 300, 106, "arrow")
    p.line(490, 134, 300, 172, "arrow")
    return p.svg()


DRAWINGS: dict[str, Callable[[], str]] = {
    "relations": relations, "affine_maps": affine_maps, "adjoint": adjoint, "verification": verification,
    "fusion": fusion, "routes": routes, "machine_code": machine_code,
}  # fmt: skip


def path_of(name: str) -> Path:
    """The file of a drawing."""
    return IMAGES / f"inside_{name}.svg"


if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        path_of(name).write_text(draw())
