"""How a kernel is split over a mesh by its author's own rule, where its index maps do not say it.

    kernel_call(body, ..., partition=Partition("rows inner, inner columns -> rows columns", part))

The rule names the dimensions of the operands (prefetched ones first) and of the results; what has one name is split
together. `part(axes, *parts)` is what each device computes of its parts, and gives its parts of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...core.support.errors import ArgumentError, ShapeError
from ..kernel.kernel import Kernel

Names = tuple[tuple[str | None, ...], ...]
Axes = Mapping[Any, tuple[Any, ...]]  # the axes of the mesh along which each name is split
WHOLE = "_"


@dataclass(frozen=True)
class Partition:
    """How a kernel is split over the devices of a mesh: what `kernel_call` takes as `partition`.

    `rule` names every dimension, as in "rows inner, inner columns -> rows columns"; `_` is one that each device needs
    whole, and dimensions of one name have one size. `part(axes, *parts)` gets the mesh axes along which each name is
    split (a dict of tuples; empty where it is not) and a device's parts of the operands, and returns its parts of the
    results, in a tuple where there are several. Where a name that no result has is split, it adds up over the devices
    itself: `lax.psum(x, axes["inner"])`. A name is split only where its size divides. The kernel's derivatives and
    batches are split so too, by those of `part`.

    Raises an `ArgumentError` for a rule that cannot be read, and where the kernel is called a `ShapeError` for one
    that does not fit its operands. Results of other shapes than the rule says are a `ShapeError` too, and those that
    differ between devices where it says that they do not a `MeshError`, both when a program on a mesh is compiled.

    >>> Partition("n, n -> n", lambda axes, x, y: x + y).ins
    (('n',), ('n',))
    """

    rule: str
    part: Callable[..., Any]
    # From the mesh and the specs of operands and results: the specs to use, and the function of each device's parts.
    place: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        sides = self.rule.split("->") if isinstance(self.rule, str) else []
        names = [n for side in sides for t in side.split(",") for n in t.split()]
        if len(sides) != 2 or not callable(self.part) or not all(n.isidentifier() for n in names):
            raise ArgumentError(f"a partition by the rule {self.rule!r} and the function {self.part!r}",
                                'name the dimensions, as in Partition("rows inner, inner columns -> rows columns", '
                                "part)")  # fmt: skip
        for names in (*self.ins, *self.outs):
            known = [n for n in names if n is not None]
            if len({*known}) < len(known):
                raise ArgumentError(f"the partition rule {self.rule!r} names two dimensions of one array alike",
                                    f"give each a name of its own, or `{WHOLE}`")  # fmt: skip

    @staticmethod
    def of(ins: Sequence[Any], outs: Sequence[Any], part: Callable[..., Any], place: Any = None) -> Partition:
        """The rule of operands and results whose names are given."""
        sides = (", ".join(" ".join(n or WHOLE for n in names) for names in side) for side in (ins, outs))
        return Partition(" -> ".join(sides), part, place)

    def parts(self, axes: Axes, *operands: Any) -> list[Any]:
        """A device's parts of the results."""
        found = self.part(axes, *operands)
        return list(found) if isinstance(found, (tuple, list)) else [found]

    def axes_of(self, names: Sequence[Any], axes: Axes) -> list[Any]:
        """The axes of the mesh along which an array with these names is split."""
        return [a for n in names for a in axes.get(n, ())]

    def show_param(self, indent: str = "") -> str:
        return repr(self.rule)

    @cached_property
    def ins(self) -> Names:
        """The names of the operands' dimensions; None: whole."""
        return _names(self.rule.split("->")[0])

    @cached_property
    def outs(self) -> Names:
        """The names of the results' dimensions; None: whole."""
        return _names(self.rule.split("->")[1])

    @property
    def summed(self) -> tuple[str, ...]:
        """The names that no result has."""
        made = {n for names in self.outs for n in names}
        return tuple(dict.fromkeys(n for names in self.ins for n in names if n is not None and n not in made))

    def sizes(self, in_types: Sequence[Any], out_types: Sequence[Any]) -> Mapping[Hashable, int]:
        """The size of each name for operands and results of these types."""
        found: dict[Hashable, int] = {}
        for names, t in zip((*self.ins, *self.outs), (*in_types, *out_types), strict=True):
            found |= {n: size for n, size in zip(names, t.shape, strict=True) if n is not None}
        return found


def _names(side: str) -> Names:
    return tuple(tuple(None if n == WHOLE else n for n in t.split()) for t in side.split(","))


def check_rule(rule: Partition, kernel: Kernel) -> None:
    """Raise a `ShapeError` where a rule does not fit the operands and results of a kernel."""
    sides = ((rule.ins, kernel.in_types, "operands"), (rule.outs, kernel.out_types, "results"))
    for names, types, what in sides:
        if [len(n) for n in names] != [t.ndim for t in types]:
            raise kernel.error(ShapeError, f"the partition rule {rule.rule!r} does not fit its {what}, "
                               f"{', '.join(t.show() for t in types)}",
                               "name every dimension of each, and put commas between them")  # fmt: skip
    sizes: dict[str, int] = {}
    for names, types, _ in sides:
        for name, n in ((name, n) for ns, t in zip(names, types, strict=True) for name, n in zip(ns, t.shape)):
            if name is not None and sizes.setdefault(name, n) != n:
                raise kernel.error(
                    ShapeError, f"dimensions of the sizes {sizes[name]} and {n} have one name, {name}, in the "
                    f"partition rule {rule.rule!r}", f"give them names of their own, or `{WHOLE}`")  # fmt: skip
