"""The IR: one small language for array programs and kernel bodies.

    Program ::= inputs, constants, equations, outputs          typed SSA, closed
    Eqn     ::= outputs = primitive[params] atoms              with effects and the user's line
    Atom    ::= Var | Literal                                  a Literal is a scalar
    Effect  ::= read i | write i | accumulate i | ordered io | callback      i: position of a Ref operand
    Type    ::= Array(shape, dtype, weak) | Ref(Array, memory space) | Token | Opaque (core/ir/extension_types.py)

A Program is a value: nothing in this package changes one after it is made. Constants are arrays held
by the Program, each bound to a Var. Parameters of an equation are hashable, and may be Programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, final

from ..support.errors import Source
from .printer import show_eqn, show_program
from .types import ArrayType, Type, scalar_type

if TYPE_CHECKING:
    from .primitive import Primitive


@final
class Var:
    """A name for one value. Two Vars are the same only if they are the same object."""

    __slots__ = ("type",)
    type: Type

    def __init__(self, type: Type):
        self.type = type

    @property
    def aval(self) -> Any:
        return self.type

    def __repr__(self) -> str:
        return f"Var({self.type.show()})"


@final
class Literal:
    """A scalar constant written in place; `value` is a NumPy scalar of the type's dtype."""

    __slots__ = ("value", "type")
    value: Any
    type: ArrayType

    def __init__(self, value: Any, type: ArrayType):
        self.value, self.type = value, type

    @property
    def key(self) -> Any:
        """What makes two literals equal: type and bits (so that -0.0 is not 0.0, and nan is nan)."""
        return (self.type, self.value.tobytes())

    @property
    def aval(self) -> Any:
        return self.type

    @property
    def val(self) -> Any:
        """The value, as the Python number that has the type where it is weak."""
        number = self.value.item() if self.type.weak_type else None
        return self.value if number is None or scalar_type(number) is not self.type else number

    def __repr__(self) -> str:
        return f"Literal({self.value}, {self.type.show()})"


Atom = Var | Literal


@dataclass(frozen=True, slots=True)
class Effect:
    """A side effect of an equation: on Ref operand number `operand`, or on the world."""

    kind: str  # read, write, accumulate, ordered, callback, axis
    operand: int | str | None = None

    def show(self) -> str:
        return self.kind if self.operand is None else f"{self.kind} {self.operand}"


ORDERED = Effect("ordered")
CALLBACK = Effect("callback")
Effects = frozenset[Effect]
NO_EFFECTS: Effects = frozenset()


def reads(i: int) -> Effect:
    return Effect("read", i)


def writes(i: int) -> Effect:
    return Effect("write", i)


def accumulates(i: int) -> Effect:
    return Effect("accumulate", i)


class Eqn:
    """One equation. Treat as immutable; `replace` makes a changed copy."""

    __slots__ = ("primitive", "inputs", "outputs", "params", "effects", "source")
    primitive: Primitive
    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...]
    params: dict[str, Any]
    effects: Effects
    source: Source | None

    def __init__(
        self,
        primitive: Primitive,
        inputs: Sequence[Atom],
        outputs: Sequence[Var],
        params: dict[str, Any],
        effects: Effects = NO_EFFECTS,
        source: Source | None = None,
    ):
        self.primitive, self.inputs, self.outputs = primitive, tuple(inputs), tuple(outputs)
        self.params, self.effects, self.source = params, effects, source

    def replace(self, **changes: Any) -> Eqn:
        fields = {name: changes.get(name, getattr(self, name)) for name in Eqn.__slots__}
        return Eqn(**fields)

    def __repr__(self) -> str:
        return show_eqn(self)


class Program:
    """A closed program: inputs, constants (Vars with their arrays), equations, outputs."""

    __slots__ = ("inputs", "constants", "values", "eqns", "outputs", "effects", "name", "vocabulary", "__weakref__")
    inputs: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Atom, ...]
    constants: tuple[Var, ...]
    values: tuple[Any, ...]
    name: str
    effects: Effects

    def __init__(
        self,
        inputs: Sequence[Var],
        eqns: Sequence[Eqn],
        outputs: Sequence[Atom],
        constants: Sequence[Var] = (),
        values: Sequence[Any] = (),
        name: str = "program",
    ):
        self.inputs, self.eqns, self.outputs = tuple(inputs), tuple(eqns), tuple(outputs)
        self.constants, self.values, self.name = tuple(constants), tuple(values), name
        self.effects = program_effects(self.inputs, self.eqns)
        self.vocabulary: Any = None  # its set of primitives, once `rewrite.vocabulary` has collected it

    @property
    def in_types(self) -> list[Type]:
        return [v.type for v in self.inputs]

    @property
    def out_types(self) -> list[Type]:
        return [a.type for a in self.outputs]

    def replace(self, **changes: Any) -> Program:
        names = ("inputs", "eqns", "outputs", "constants", "values", "name")
        return Program(**{name: changes.get(name, getattr(self, name)) for name in names})

    def __repr__(self) -> str:
        return show_program(self)

    __str__ = __repr__


def program_effects(inputs: Sequence[Var], eqns: Iterable[Eqn]) -> Effects:
    """The effects of equations as seen from outside: Ref effects are renumbered to the inputs."""
    position = {v: i for i, v in enumerate(inputs)}
    found: set[Effect] = set()
    for eqn in eqns:
        for effect in eqn.effects:
            if isinstance(effect.operand, int):
                outer = position.get(eqn.inputs[effect.operand])  # type: ignore[call-overload]
                if outer is not None:
                    found.add(Effect(effect.kind, outer))
            else:
                found.add(effect)
    return frozenset(found) if found else NO_EFFECTS


def subprograms(eqn: Eqn) -> Iterator[tuple[str, Program]]:
    """The Programs among an equation's parameters, with the parameter's name."""
    for name, value in eqn.params.items():
        if isinstance(value, Program):
            yield name, value
        elif isinstance(value, tuple):
            for i, item in enumerate(value):
                if isinstance(item, Program):
                    yield f"{name}[{i}]", item


def every_eqn(program: Program) -> Iterator[Eqn]:
    """The equations of a Program in order, each followed by those of the Programs among its parameters."""
    for eqn in program.eqns:
        yield eqn
        for _, inner in subprograms(eqn):
            yield from every_eqn(inner)


def run(program: Program, bind: Callable[[Eqn, list[Any]], Sequence[Any]], args: Sequence[Any],
        literal: Callable[[Any], Any] = attrgetter("value")) -> list[Any]:  # fmt: skip
    """Walk a Program: `bind(eqn, values)` gives the values of each equation's outputs, `literal` those of Literals."""
    env: dict[Var, Any] = dict(zip(program.constants, program.values, strict=True))
    env.update(zip(program.inputs, args, strict=True))
    remaining = last_uses(program)
    for number, eqn in enumerate(program.eqns):
        values = [env[a] if type(a) is Var else literal(a) for a in eqn.inputs]
        for var, value in zip(eqn.outputs, bind(eqn, values), strict=True):
            env[var] = value
        for var in remaining.get(number, ()):
            del env[var]
    return [env[a] if type(a) is Var else literal(a) for a in program.outputs]


def last_uses(program: Program) -> dict[int, list[Var]]:
    """For each equation number, the Vars that nothing later reads (so that their values may be freed)."""
    last: dict[Var, int] = {}
    for number, eqn in enumerate(program.eqns):
        for atom in (*eqn.inputs, *eqn.outputs):
            if type(atom) is Var:
                last[atom] = number
    for atom in program.outputs:
        last.pop(atom, None)  # type: ignore[arg-type]
    uses: dict[int, list[Var]] = {}
    for var, number in last.items():
        uses.setdefault(number, []).append(var)
    return uses
