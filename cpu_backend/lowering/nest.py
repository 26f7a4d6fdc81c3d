"""The loop nest of a kernel's code as text, recorded where each loop is printed.

    lines ::= one loop, pass, product or branch each, indented below what it is inside of
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .expression_graph import Fold, Keep, Monoid, Store
from .loop_fusion import Member

_FOLDS = {"add": "sum", "mul": "product"}


class Nest:
    """Lines of text, those of a loop's body indented below its own."""

    lines: list[str]

    def __init__(self) -> None:
        self.lines = []
        self._depth = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    @contextmanager
    def inside(self, text: str) -> Iterator[None]:
        """Lines below one of their own, which is left out if there are none."""
        self.line(text)
        self._depth += 1
        mark = len(self.lines)
        yield
        self._depth -= 1
        if len(self.lines) == mark:
            self.lines.pop()


def fold_name(monoid: Monoid) -> str:
    """What elements combined by a monoid are."""
    return _FOLDS.get(monoid.name, monoid.name)


def _effect(member: Member) -> str:
    """What a member of a pass computes or stores."""
    root = member.root
    if isinstance(root, Fold):
        return fold_name(root.node.monoid)
    if isinstance(root, Keep):
        return f"keep {root.value.dtype}{list(root.value.shape)}"
    assert isinstance(root, Store)
    return f"{'add to' if root.add else 'store'} {root.target.name}{', masked' * root.target.ragged}"


def pass_text(members: Sequence[Member], width: int, lanes: int, unroll: int, rows: int) -> str:
    """One pass over an innermost axis; `rows` are the values that it keeps for later passes over the row."""
    effects = [*map(_effect, members), *[f"keep {rows} value{'s' * (rows > 1)} of the row"] * bool(rows)]
    if not lanes:
        return f"scalars: {', '.join(effects)}"
    full, rest = divmod(width, lanes)
    turns = full // unroll if full // unroll > 1 else 0
    peeled = full - turns * unroll
    parts = [f"{turns} iterations of {unroll}"] if turns else []
    parts += [f"{peeled} {'peeled' if turns else 'unrolled'}"] if peeled else []
    parts += [f"1 masked of {rest} lane{'s' * (rest > 1)}"] if rest else []
    return f"pass over {width} in vectors of {lanes} ({', '.join(parts)}): {', '.join(effects)}"
