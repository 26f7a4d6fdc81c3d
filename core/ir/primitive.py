"""`Primitive`: an operation as a value, its rules riding on it.

Rules (all take the parameters as keywords; `multiple` says whether results are one value or a list):

    typing(*types) -> type(s)                    of the result; raises the shape and dtype errors
    jvp(primals, tangents) -> out, tangent       tangents may be `Zero`; None: no derivative exists
    transpose(ct, *args) -> cotangents           linear arguments arrive as `Linear(type)`; one result
                                                 per argument, None where not linear or zero
    batch(axis, args, dims) -> out, dim          dims and dim: int, or None for "not batched"
    linearize(primals, nonzero) -> out, linear   for primitives that hold Programs; `linear(*tangents)`
                                                 takes a tangent (or Zero) for each primal
    dce(used, eqn) -> eqn | None                 drop unused outputs
    effects(*types) -> frozenset                 of `ir.Effect`
    numpy(*arrays) -> array(s)                   the meaning, on NumPy arrays
    relation(types, out_types) -> Relation       what it does to axes (`core/ir/axis_relation.py`); None: opaque, always
                                                 safe;
                                                 with one, `batch` may be left out
    runs(types) -> int                           how often the Programs among its parameters run; without it, once
    expand(*args) -> out                         the same in other primitives, where a backend has no rule
    recounted(params, widths) -> params          of one that holds Programs, where operand i has become `widths[i]` ones
    bodies(eqn) -> iterable of Body              of one that holds Programs: how values flow (`core/ir/dataflow.py`);
                                                 without it, one Program that runs once on all operands
    checked(walk, eqn, values) -> outs | None    for `checkify` (core/checkify/transform.py); None: as others
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .axis_relation import ONE, Relation, Work
from .binding import bind
from .types import Type

if TYPE_CHECKING:
    from .dataflow import Body
    from .program import Eqn

# Rules take values, types or axes by position, and the parameters as keywords.
TypingRule = Callable[..., Any]  # the type of the result, or a type for each where `multiple`
JvpRule = Callable[..., tuple[Any, Any]]
TransposeRule = Callable[..., Sequence[Any]]
BatchRule = Callable[..., tuple[Any, Any]]
LinearizeRule = Callable[..., tuple[Any, Callable[..., Any]]]
DceRule = Callable[..., "Eqn | None"]
EffectsRule = Callable[..., frozenset[Any]]
Meaning = Callable[..., Any]  # on NumPy arrays, or on arrays of the framework


@dataclass(frozen=True, eq=False, slots=True)
class Primitive:
    """An operation: its name and rules. Users make their own the same way the package makes its own."""

    name: str
    typing: TypingRule
    jvp: JvpRule | None = None
    transpose: TransposeRule | None = None
    batch: BatchRule | None = None
    linearize: LinearizeRule | None = None
    dce: DceRule | None = None
    effects: EffectsRule | None = None
    numpy: Meaning | None = None
    expand: Meaning | None = None
    multiple: bool = False
    relation: Callable[..., Relation | None] | None = None
    work: Work = ONE  # for each point of the relation's loops
    kind: str | None = None  # POINTWISE, MOVER, IDENTITY or EFFECT of core/ir/axis_relation.py; None: none of them
    # The parameters that tell of the operands' axes: NAMED where it names some, else the entry for an axis left alone.
    axes: Mapping[str, Any] | None = None
    runs: Callable[..., int] | None = None
    # On each device of a mesh: `varies(vary, params)` gives the axes along which results vary, if operands vary along
    # `vary`; without it, those. OWN: `typing` tells, its Programs being traced for operands that vary as they do.
    varies: Any = None
    # How results lie along axes that types tell of, if operands are split along some; without it the relation tells.
    # `places(types, out_types, **params)` gives a spec for each result; OWN: `typing` tells.
    places: Any = None
    recounted: Callable[..., dict[str, Any]] | None = None
    bodies: Callable[[Eqn], Iterable[Body]] | None = None
    choice: bool = False  # one of the Programs among its parameters runs, not all
    checked: Callable[..., Any] | None = None
    eager: bool = False  # evaluated at once by its NumPy meaning, outside of any transformation
    impl: Meaning | None = None  # evaluates it on arrays, in place of the backend

    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Apply the primitive to values, under whatever transformation is current."""
        return bind(self, args, params)

    def __repr__(self) -> str:
        return self.name


OWN = object()  # see `Primitive.varies`
NAMED = object()  # in `Primitive.axes`: the parameter names axes (or one), which a new axis shifts
SIZE = object()  # in `Primitive.axes`: the entry for an axis left alone is its size


class Zero:
    """A symbolic zero tangent or cotangent; `type` is the tangent type."""

    __slots__ = ("type",)
    type: Type

    def __init__(self, type: Type):
        self.type = type

    @property
    def aval(self) -> Any:
        return self.type

    def __repr__(self) -> str:
        return f"Zero({self.type.show()})"


class Linear:
    """Stands for an argument with respect to which a transpose is taken."""

    __slots__ = ("type",)
    type: Type

    def __init__(self, type: Type):
        self.type = type

    @property
    def aval(self) -> Any:
        return self.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    def __repr__(self) -> str:
        return f"Linear({self.type.show()})"


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """The axis a batching rule works over: its size, its name if it has one, and the mesh axes that split it.

    `lies` is the sharding of the axis alone, where types have one.
    """

    size: int
    name: Any = None
    spmd: Any = None
    lies: Any = None


def all_zero(values: Sequence[Any]) -> bool:
    return all(type(v) is Zero for v in values)
