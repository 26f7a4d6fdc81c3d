"""A Program as the text of a module that other processes can call: sizes may be symbolic, platforms several.

    main ::= [platform: i32] the arguments that are used -> the results

With several platforms there is a branch for each, chosen by the first argument. Constants are in the text. The value of
each symbol is worked out from the sizes of the arguments, and what holds of them is asserted.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.ir.passes import vocabulary
from ...core.ir.program import CALLBACK, ORDERED, Program
from ...core.ir.symbolic.dim import Dim, symbol, symbols
from ...core.ir.symbolic.solve import one_unknown, undetermined
from ...core.ir.types import INT32, ArrayType
from ...core.support.errors import ExportError
from ..arrays.transfer import buffers, physical
from ..cpu_passes.sums import behind_barriers, reductions_of
from ..jaxlib import shim
from ..options.compile_options import Settings, Unit
from ..stablehlo import rules
from ..stablehlo.emit import Emitter, Operand
from ..stablehlo.symbolic import RULES, SymbolicEmitter
from .expand_primitives import expanded
from .stablehlo_module import rules_for

PLATFORM = ArrayType((), INT32)


class Branch(NamedTuple):
    """The program of one platform, emitted, and the settings that it was emitted by."""

    unit: Unit
    settings: Settings


def is_symbolic(program: Program) -> bool:
    """Whether a size in a Program is not known."""
    return any(
        isinstance(v.type, ArrayType) and v.type.symbolic
        for inner in (program, *vocabulary(program).programs)
        for v in (*inner.inputs, *(o for eqn in inner.eqns for o in eqn.outputs))
    )


def used(branches: Sequence[Branch]) -> tuple[int, ...]:
    """The arguments that some branch uses, or whose sizes are symbolic."""
    found: set[int] = set()
    for unit, _ in branches:
        n = len(unit.constants)
        live = {a for atoms in (unit.program.outputs, *(e.inputs for e in unit.program.eqns)) for a in atoms}
        for i, var in enumerate(unit.program.inputs[n:]):
            if var in live or unit.call.keep_unused or var.type.symbolic:
                found.add(i)
    return tuple(sorted(found))


def text_of(branches: Sequence[Branch], kept: Sequence[int], scope: Any, names: Sequence[str]) -> str:
    """The text of a module of branches; `names` are what the arguments are called in messages."""
    first = branches[0].unit
    for unit, _ in branches:
        if {ORDERED, CALLBACK} & unit.program.effects:
            raise ExportError(f"{unit.call.name} calls functions of the host, which cannot leave this process",
                              "take the callbacks and prints out of it")  # fmt: skip
    symbolic = any(is_symbolic(unit.program) for unit, _ in branches)
    e: Emitter = (SymbolicEmitter if symbolic else Emitter)({}, branches[0].settings.platform, expanded)
    n = len(first.constants)
    ins, outs = _boundary(e, first, [n + i for i in kept])
    in_types = [first.program.inputs[n:][i].type for i in kept]
    out_types = first.program.out_types
    inputs = [Operand(e.fresh(), t) for t in in_types]
    index = [Operand(e.fresh(), PLATFORM)] if len(branches) > 1 else []
    if symbolic:
        _state_sizes(e, inputs, scope, [names[i] for i in kept])  # type: ignore[arg-type]
    arguments = dict(zip(kept, inputs, strict=True))
    if index:
        regions = ", ".join(e.region([], functools.partial(_body, e, b, arguments)) for b in branches)
        results = e.ops("stablehlo.case", index, out_types, regions=regions)
    else:
        results = _body(e, branches[0], arguments, [])
    if e.callbacks:
        raise ExportError(f"{first.call.name} calls functions of the host, which cannot leave this process",
                          "take the callbacks out of it")  # fmt: skip
    main = e.finished("main", [*index, *inputs], results, ins and [""] * len(index) + ins, outs)
    return e.module_text(first.call.name, main)


def _boundary(e: Emitter, unit: Unit, kept: Sequence[int]) -> tuple[list[str], list[str]]:
    """The sharding attributes of a module's inputs and results; none for a single device."""
    place, program = unit.place, unit.program
    if place is None:
        return [], []
    ends = (*zip(unit.in_types, place.ins, strict=True), *zip(unit.out_types, place.outs, strict=True))
    ragged = next((t for t, s in ends if s.padded_shape(t.shape) != t.shape), None)
    if ragged is not None:
        raise ExportError(f"{unit.call.name} takes or gives {ragged.show()}, whose sizes its sharding does not divide",
                          "pad it to a multiple: what an export takes and gives has no padding")  # fmt: skip
    body = program.replace(inputs=[program.inputs[i] for i in kept])
    return place.boundary(e, place, body, kept, range(len(program.outputs)), [""] * len(kept))


def _body(e: Emitter, branch: Branch, arguments: dict[int, Operand], _: Any) -> list[Operand]:
    unit, settings = branch
    program = unit.program
    if settings.platform == "cpu" and reductions_of(program).unsafe:  # options of the compiler are not exported
        program = behind_barriers(program)
    table = rules_for(settings, unit.program) if type(e) is Emitter else {**rules(), **RULES}
    e.rules, e.platform = table, settings.platform
    n = len(unit.constants)
    types: Any = program.in_types
    given = [e.constant(_held(v, t), t) for v, t in zip(_physical(unit), types, strict=False)]
    unused = Operand("%unused", None)
    inputs = [arguments.get(i, unused) for i in range(len(program.inputs) - n)]
    return e.inline(program, [*given, *inputs])


def _physical(unit: Unit) -> Sequence[Any]:
    return [x._bits() if getattr(x, "_placed", None) else shim.to_numpy(b)
            for x, b in zip(unit.constants, buffers(unit.constants, unit.in_types[: len(unit.constants)]), strict=True)]


def _held(bits: Any, type: ArrayType) -> Any:
    return bits.astype(physical(type).dtype, copy=False)


# ---------------------------------------------------------------------------- sizes


def _state_sizes(e: SymbolicEmitter, inputs: Sequence[Operand], scope: Any, names: Sequence[str]) -> None:
    """Print the value of each symbol, worked out from the arguments' sizes, and what has to hold of them."""
    sizes = [(f"{name}.shape[{axis}]", d, operand, axis) for name, operand in zip(names, inputs, strict=True)
             for axis, d in enumerate(operand.shape) if isinstance(d, Dim)]  # fmt: skip
    e.sizes, defining = {}, set()
    zero = e.size(0)
    while found := next(((n, d, o, a, one) for n, d, o, a in sizes if (one := one_unknown(d, e.sizes))), None):
        name, size, operand, axis, (unknown, scale) = found
        defining.add((operand.name, axis))
        came = _size_of(e, operand, axis)
        known = size - scale * symbol(unknown, size.scope)
        scaled = came if isinstance(known, int) and not known else e.number("subtract", came, e.size(known))
        value = scaled if scale == 1 else e.number("divide", scaled, e.size(scale))
        e.sizes[unknown] = value
        if scale != 1:
            rest = e.number("remainder", scaled, e.size(scale))
            e.require(e.compare("EQ", rest, zero), f"{name} is {{0}}, and was exported as {size}", came)
        e.require(e.compare("GE", value, e.size(1)),
                  f"{name} is {{0}}, and was exported as {size}, where {unknown} is 1 or more", came)  # fmt: skip
    for name, size, operand, axis in sizes:
        if (operand.name, axis) not in defining:
            came, wanted = _size_of(e, operand, axis), e.size(size)
            e.require(e.compare("EQ", came, wanted),
                      f"{name} is {{0}}, and was exported as {size}, which is {{1}} here", came, wanted)  # fmt: skip
    signs = {">=": "GE", "<=": "LE", ">": "GT", "<": "LT", "==": "EQ"}
    for c in scope.constraints if scope is not None else ():
        left, right = e.size(c.left), e.size(c.right)
        message = f"the constraint {c.text} of the export does not hold: its sides are {{0}} and {{1}}"
        e.require(e.compare(signs[c.sign], left, right), message, left, right)


def _size_of(e: SymbolicEmitter, operand: Operand, axis: int) -> Operand:
    return Emitter.op(e, "stablehlo.get_dimension_size", [operand], PLATFORM, f"dimension = {axis} : i64")


def check_symbols(types: Sequence[ArrayType], results: Sequence[ArrayType]) -> None:
    """Raise `ExportError` where sizes of results have symbols that those of arguments do not determine."""
    given = [d for t in types for d in t.shape]
    made, known = symbols([d for t in results for d in t.shape]), {*symbols(given)}
    left = undetermined(given) or [s for s in made if s not in known]
    if left:
        raise ExportError(f"the sizes of the arguments do not determine {', '.join(left)}",
                          "give one argument an axis of that size alone, such as 'b' beside '2*b*t'")  # fmt: skip
