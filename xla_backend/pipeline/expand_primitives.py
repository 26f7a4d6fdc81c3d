"""`expand`: a Program in what XLA has.

Constants become leading inputs, random keys become arrays of words, and a primitive that has no rule in
`lower` its expansion, which is printed in place.
"""

from __future__ import annotations

from typing import Any

from ...core.ir.passes import hoist, primitives_of, rewritten, vocabulary
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, subprograms
from ...core.ir.types import ArrayType
from ...core.ir.verifier import check_program
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.while_loop import while_vjp_p
from ...core.random.key_lowering import holds_keys, physicalize
from ...core.support.errors import ProgramError, UnsupportedError
from ...core.tracing.trace import of_line, trace_program
from ..cpu_passes.scan_windows import has_windows, scan_by_windows
from ..options.compile_options import Unit
from ..stablehlo import rules


def expand(unit: Unit, windows: bool = False) -> Unit:
    """The unit closed, and its Program in what XLA has; kernels stay. `windows`: scans of short rows are windows.

    Raises:
      UnsupportedError: a Ref among its inputs or results.
    """
    program, constants = hoist(unit.program)
    for t in (*program.in_types, *program.out_types):
        if not isinstance(t, ArrayType):
            raise UnsupportedError(f"a value of type {t.show()} cannot enter or leave a compiled program",
                                   "read the Ref inside the program")  # fmt: skip
    constants = (*constants, *unit.constants)
    seen = (program.in_types, program.out_types) if unit.place is None else (unit.in_types, unit.out_types)
    return Unit(expanded(program, windows), unit.call, constants, tuple(seen[0]), tuple(seen[1]), unit.place)


def expanded(program: Program, windows: bool = False) -> Program:
    """The Program in what XLA has; what has neither a rule nor an expansion stays."""
    made_of = vocabulary(program)
    closed = (v.type for inner in (program, *made_of.programs) for v in inner.constants)
    # Keys come from inputs, from constants, or from primitives that XLA lacks.
    if made_of.primitives <= rules().keys() and not any(map(holds_keys, (*program.in_types, *closed))):
        return program
    known: dict[Any, Program] = {}
    return rewritten(physicalize(program), _lacking, lambda eqn: _expanded(eqn, known, windows), known)


def expand_sweeps(program: Program) -> Program:
    """The Program with the reverse sweeps of loops as loops, before anything in these becomes a kernel."""
    known: dict[Any, Program] = {}

    def change(eqn: Eqn) -> Eqn:
        made = of_line(eqn.source, trace_program, lambda *args: while_vjp_p.expand(*args, **eqn.params),  # type: ignore[misc]
                       [a.type for a in eqn.inputs], "while_vjp")  # fmt: skip
        return in_place(eqn, rewritten(made, wanted, change, known))

    def wanted(primitive: Primitive) -> bool:
        return primitive is while_vjp_p

    return rewritten(program, wanted, change, known)


def _lacking(primitive: Primitive) -> bool:
    return primitive not in rules() and primitive.expand is not None


def _expanded(eqn: Eqn, known: dict[Any, Program], windows: bool) -> Eqn:
    """An equation as a call, printed in place, of its primitive's expansion."""
    primitive = eqn.primitive

    def expand(*args: Any) -> Any:
        if windows and has_windows(eqn):
            return [scan_by_windows(primitive, *args, **eqn.params)]
        out = primitive.expand(*args, **eqn.params)  # type: ignore[misc]
        return list(out) if primitive.multiple else [out]

    program = of_line(eqn.source, trace_program, expand, [a.type for a in eqn.inputs], primitive.name)
    program = rewritten(physicalize(program), _lacking, lambda e: _expanded(e, known, windows), known)
    return in_place(eqn, program)


def in_place(eqn: Eqn, program: Program) -> Eqn:
    """The equation that computes by a Program, printed in place, what another one does."""
    params = {"program": program, "name": program.name, "donated": (), "inline": True}
    return eqn.replace(primitive=jit_p, params=params)


def require_rules(program: Program) -> None:
    """Raise `UnsupportedError` at an equation of a primitive that has no rule, and no expansion into others."""
    if primitives_of(program) <= rules().keys():
        return
    for eqn in program.eqns:
        if eqn.primitive not in rules():
            raise UnsupportedError(
                f"{eqn.primitive.name} has no lowering to XLA and no expansion into other primitives",
                "give the Primitive an `expand` rule", eqn.source)  # fmt: skip
        for _, inner in subprograms(eqn):
            require_rules(inner)


def check_expanded(unit: Unit, emitted: bool = False) -> None:
    """Raise `ProgramError` where a unit has arrays of keys, or what XLA lacks and could be expanded.

    An `emitted` one has no kernels either.
    """
    program = check_program(unit.program)
    for inner in (program, *vocabulary(program).programs):
        for var in (*inner.inputs, *inner.constants, *(v for eqn in inner.eqns for v in eqn.outputs)):
            if holds_keys(var.type):
                raise ProgramError(f"{inner.name}: a value of type {var.type.show()} after `expand`")
    left = sorted(p.name for p in primitives_of(program) if _lacking(p) or (emitted and p not in rules()))
    if left or program.constants:
        raise ProgramError(f"{program.name}: {', '.join(left) or 'constants'} left by `expand`")
