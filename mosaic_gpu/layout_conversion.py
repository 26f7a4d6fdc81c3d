"""One number for each row as one for each column, and the other way: through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..lang.legalize import Unfit
from .values import Fragment, Layout, Value, computed


def agreed(e: Any, values: Sequence[Value]) -> list[Value]:
    """Values that are combined, with those for each row exchanged that lie along the columns of others, and so on."""
    whole = [x.layout for x in values if isinstance(x, Fragment) and None not in (x.layout.rows, x.layout.cols)]
    found, made = whole[0] if whole else None, list[Value]()
    for x in values:
        if isinstance(x, Fragment):
            x = exchanged(e, x) if found is not None and _crossed(x.layout, found) else x
            found = x.layout if found is None else found.joined(x.layout)
        made.append(x)
    return made


def _crossed(one: Layout, other: Layout) -> bool:
    """Whether a value along rows or columns alone lies along the other one's columns or rows."""
    if one.cols is None:
        return one.rows is not None and (one.rows == other.cols or other.rows not in (None, one.rows))
    return one.rows is None and (one.cols == other.rows or other.cols not in (None, one.cols))


def exchanged(e: Any, x: Fragment) -> Fragment:
    """A value along rows alone in the registers of columns, or the other way."""
    p, own, type_ = e.p, x.layout, computed(x.dtype)
    if type_ == "i1":
        raise Unfit(f"booleans of {x.shape} for each row that are those of columns: compare numbers that lie along the "
                    "columns")  # fmt: skip
    axis = own.cols if own.rows is None else own.rows
    assert axis is not None
    layout = Layout(own.shape, None, axis) if own.rows is not None else Layout(own.shape, axis, None)
    rows, cols = e.extent(own)
    e.extent(layout)  # whether it has a place there
    base, letter = e.keep(4 * own.shape[axis]), "f" if type_ == "f32" else "r"
    numbers = [[e.element(x, own, r, j) for j in range(cols)] for r in range(rows)]
    e.gather()
    owner = e.owner(own)
    assert owner is not None or e.own_rows
    with p.when(p.constant(True, "i1") if owner is None else owner):
        for r, row in enumerate(numbers):
            for j, number in enumerate(row):
                at = p.add(base, p.mul(e.place(own, r, j)[axis], 4))
                p.asm("st.shared.b32 [$0], $1;", f"r,{letter}", [p.name(at), number], ["i32", type_])
    e.gather()

    def loaded(r: int, j: int) -> str:
        at = p.add(base, p.mul(e.place(layout, r, j)[axis], 4))
        return p.asm("ld.shared.b32 $0, [$1];", f"={letter},r", [p.name(at)], ["i32"], [type_])[0]

    return e.make(layout, x.dtype, loaded)
