"""Kernels as custom calls of machine code of this CPU: chosen by cost, compiled, kept on disk, known to XLA by name."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..core.ir.axis_relation import IDENTITY, MOVER, POINTWISE, work_of
from ..core.ir.program import Eqn, Program, Var, every_eqn, subprograms
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.elementwise.conversion import bitcast_convert_type_p
from ..core.primitives.movement.shape import concatenate_p, pad_p, reshape_p
from ..core.primitives.refs.state_primitives import get_p
from ..core.support.config import current
from ..core.support.errors import TilewrightError, UncoveredOutputError
from ..core.tracing.trace import trace_program
from ..cpu_backend.cost.cells import in_cells
from ..cpu_backend.cost.estimate import ALONE, Around, Estimate, Machine, estimate
from ..cpu_backend.cost.rates import rates
from ..cpu_backend.llvm.compile import missing, object_of
from ..cpu_backend.lowering.kernel import Code, code_of
from ..cpu_backend.lowering.refusal import refuse
from ..cpu_backend.lowering.streaming import uncached
from ..cpu_backend.machine.features import caches, cores, features
from ..cpu_backend.objects.loader import Loaded, reason
from ..cpu_backend.runtime.library import capsule, loaded, take
from ..kernels.fuse.flatten import flat
from ..lang.analysis.facts import analyse
from ..lang.call.primitive import kernel_call_p
from ..lang.kernel.kernel import Kernel
from ..lang.targets.target import CPU, CustomCall
from ..lang.verify.verify import coverage
from ..xla_backend.host.disk_cache import disk_cache
from ..xla_backend.jaxlib import ffi_registry
from .cpu_route_policy import route_of

TYPED = 4  # the version of custom calls whose handlers are typed
MARGIN = 0.9  # of XLA's time is the most that machine code may be estimated to take
COMPILE_SECONDS = 0.04  # that a small kernel takes to be compiled, which it is to save in so many calls of a program
CALLS = 1000
LINE_SECONDS = 5e-5  # that a line of generated code takes


def unavailable() -> str | None:
    """Why no kernel is machine code in this process; None where they may be."""
    return features().why or reason() or missing()


def machine() -> Machine:
    """This machine as estimates see it; its rates are measured where no setting and no file has them."""
    first, second, _ = caches()
    return Machine(rates(current().cpu_rates, disk_cache()), first, second, cores(), features().lanes, uncached())


def call_of(kernel: Kernel, most_seconds: float = math.inf) -> tuple[CustomCall, Code]:
    """The custom call that is a kernel, and its code.

    Raises an `UnsupportedError`, a `CompileError` or a `VersionError` where there is no machine code of it here, or
    where it would take more than some seconds to compile.
    """
    why = unavailable() or next((f"{b.name} has no elements" for b in kernel.blocks if not b.array.size), None)
    if why is not None:
        raise refuse(why)
    parts = in_cells(kernel)
    code = code_of(parts.kernel, CPU)
    seconds = code.text.count("\n") * LINE_SECONDS
    if seconds > most_seconds:
        raise refuse(f"its code would take {seconds:.1f} s to compile, more than it saves in {CALLS:,} calls")
    name, found = loaded(code.text, disk_cache())
    _register(name, found)
    finish = parts.around(kernel, code.out_types, _results(kernel, code))
    call = CustomCall(name, "{}", code.in_types, code.out_types, TYPED, code.aliases, None, finish, kernel.name)
    return call, code


def assembly_of(code: Code) -> str:
    """A kernel's code as the assembler's text; raises a `VersionError` without llvmlite."""
    return object_of(code.text, features(), assembly=True)


def _register(name: str, code: Loaded) -> None:
    if not ffi_registry.is_registered(name, "cpu"):
        ffi_registry.register(name, capsule(code.symbols["handler"]), "cpu", 1)


def register(objects: Mapping[str, bytes]) -> None:
    """Let this process run programs that call the objects of another one, by their names."""
    for name, code in take(objects).items():
        _register(name, code)


def _results(kernel: Kernel, code: Code) -> Program | None:
    """What drops the workspace from the results."""
    first, count = len(code.in_types), len(kernel.outputs)
    if len(code.out_types) == count:
        return None
    types = [*code.in_types, *code.out_types]
    return trace_program(lambda *arrays: list(arrays[first : first + count]), types, kernel.name)


class Calls:
    """The calls of a program's kernels.

    `refused` has the reason for each that might have been machine code and that XLA computes, `estimates` what was
    estimated of those that are chosen by cost, `codes` are those that are machine code. `off` are options of the CPU
    that are not used; with `checked` an internal error of the code generation is raised, otherwise XLA computes the
    kernel and a warning says so. `kept` are inputs of the program whose memory no result may take.
    """

    off: frozenset[str]
    checked: bool

    def __init__(
        self, program: Program, off: frozenset[str] = frozenset(), checked: bool = False, kept: Iterable[Var] = ()
    ) -> None:  # fmt: skip
        self.off, self.checked, program = off, checked, flat(program)
        self.separate: dict[Kernel, Kernel] = separated(program, frozenset(kept))
        self.refused: dict[Kernel, str] = {}
        self.estimates: dict[Kernel, Estimate] = {}
        self.codes: dict[Kernel, Code] = {}
        self.around: dict[Kernel, Around] = surroundings(program)
        self.times = Counter(e.params["kernel"] for e in every_eqn(program) if e.primitive is kernel_call_p)

    def __call__(self, kernel: Kernel) -> Any:
        route = route_of(kernel, self.off)
        if route == "xla" or route == "cost" and not self.cheaper(kernel):
            return kernel
        try:
            found = self.estimates.get(kernel)
            most = math.inf if found is None else self._saved(kernel, found)
            call, self.codes[kernel] = call_of(self.separate.get(kernel, kernel), most)
            return call
        except TilewrightError as error:
            self.refused[kernel] = error.what
        except Exception as error:
            if self.checked or route == "machine_code":
                raise
            self.refused[kernel] = f"an internal error, {error!r}"
            warnings.warn(f"kernel {kernel.name} is computed by XLA: {self.refused[kernel]}", RuntimeWarning, 2)
        return kernel

    def cheaper(self, kernel: Kernel) -> bool:
        """Whether machine code is estimated to save as much as it costs to compile."""
        why = unavailable() or ("it takes the bits of 16-bit floats" if _takes_bits(kernel.body) else None)
        if why is not None:
            self.refused[kernel] = why
            return False
        found = estimate(self.separate.get(kernel, kernel), machine(), self.around.get(kernel, ALONE))
        if found is None:
            return False
        self.estimates[kernel] = found
        return found.machine_code <= MARGIN * found.xla and self._saved(kernel, found) >= COMPILE_SECONDS

    def _saved(self, kernel: Kernel, found: Estimate) -> float:
        """Seconds that machine code saves in `CALLS` calls of the program."""
        return (found.xla - found.machine_code) * CALLS * max(self.times[kernel], 1)

    def told(self, kernel: Kernel, route: str) -> str:
        """A kernel's route in words, with both estimates, and the reason why it is not machine code."""
        if route_of(kernel, self.off) == "xla":
            return route
        why, estimates = self.refused.get(kernel), self.estimates.get(kernel)
        code = route.startswith("a custom call")
        found = f"machine code of this CPU, {route}" if code else route
        if estimates is not None:
            found += f"; {estimates.text()}"
        return found if why is None else f"{found}; not machine code: {why}"


def _reorders(eqn: Eqn) -> bool:
    """Whether XLA reads an operand's elements in another order: also a product's whose batch axes are not its first."""
    if eqn.primitive is dot_general_p:
        _, batches = eqn.params["dimension_numbers"]
        return any(tuple(axes) != tuple(range(len(axes))) for axes in batches)
    return eqn.primitive.kind == MOVER or eqn.primitive in (concatenate_p, pad_p)


def _takes_bits(program: Program) -> bool:
    """Whether a body takes the bits of 16-bit floats, or makes some of bits: machine code has one NaN of them."""
    return any(
        eqn.primitive is bitcast_convert_type_p
        and any(str(a.type.dtype) in ("bfloat16", "float16") for a in (*eqn.inputs, *eqn.outputs))
        for eqn in every_eqn(program)
    )


def _products(eqns: Iterable[Eqn]) -> dict[Eqn, float]:
    """For calls of kernels of one program instance, the flops of products of operands that others have too.

    Each has its share of what computing them once saves.
    """
    sharing: dict[Any, list[tuple[Eqn, float]]] = {}
    for eqn in eqns:
        if eqn.primitive is not kernel_call_p or math.prod(eqn.params["kernel"].grid) != 1:
            continue
        kernel = eqn.params["kernel"]
        refs = kernel.parts(kernel.body.inputs)[2]
        arrays = dict(zip(refs, eqn.inputs[len(kernel.prefetch) :], strict=True))
        reads = [e for e in kernel.body.eqns if e.primitive is get_p and e.inputs[0] in arrays]
        read = {e.outputs[0]: arrays[e.inputs[0]] for e in reads}
        for dot in (e for e in kernel.body.eqns if e.primitive is dot_general_p and read.keys() >= {*e.inputs}):
            key = (*(read[a] for a in dot.inputs), dot.params["dimension_numbers"])
            sharing.setdefault(key, []).append((eqn, work_of(dot)[0]))
    found: dict[Eqn, float] = {}
    for calls in sharing.values():
        for eqn, flops in calls:
            found[eqn] = found.get(eqn, 0) + flops * (1 - 1 / len(calls))
    return found


def separated(program: Program, kept: frozenset[Var]) -> dict[Kernel, Kernel]:
    """Kernels that are called only on operands that are to stay, with results in memory of their own instead.

    XLA would copy the operands first. A result that has parts that no program instance writes starts as its operand.
    """
    same = _reshaped(program)
    calls = [e for e in every_eqn(program) if e.primitive is kernel_call_p and e.params["kernel"].aliases]
    found: dict[Kernel, set[tuple[int, int]]] = {}
    for eqn in calls:
        kernel = eqn.params["kernel"]
        operands = eqn.inputs[len(kernel.prefetch) :]
        found.setdefault(kernel, set(kernel.aliases))
        found[kernel] &= {(i, o) for i, o in kernel.aliases if same.get(operands[i], operands[i]) in kept}
    apart = {k: replace(k, aliases=tuple(sorted(set(k.aliases) - pairs))) for k, pairs in found.items() if pairs}
    return {kernel: one for kernel, one in apart.items() if _starts_empty(one, found[kernel])}


def _starts_empty(kernel: Kernel, pairs: Iterable[tuple[int, int]]) -> bool:
    """Whether a kernel writes all of some results, and reads nothing of them before."""
    known = analyse(kernel)
    if any(kernel.outputs[o].loose for _, o in pairs):
        return False
    try:
        findings = [coverage(known, o, kernel.outputs[o]) for _, o in pairs]
    except UncoveredOutputError:
        return False
    return all(f.verdict == "proved" for f in findings) and not known.leaks.unwritten.level


def _reshaped(program: Program) -> dict[Any, Any]:
    """What arrays that are reshaped are in memory."""
    same: dict[Any, Any] = {}
    for eqn in program.eqns:
        if eqn.primitive is reshape_p or eqn.primitive.kind == IDENTITY:
            same[eqn.outputs[0]] = same.get(eqn.inputs[0], eqn.inputs[0]) if type(eqn.inputs[0]) is Var else None
    return same


def surroundings(program: Program) -> dict[Kernel, Around]:
    """What is around each kernel of a Program and would be fused with it by XLA: the most of all its calls."""
    found: dict[Kernel, Around] = {}

    def note(kernel: Kernel, one: Around) -> None:
        old = found.get(kernel, ALONE)
        found[kernel] = Around(max(old.bytes, one.bytes), old.moved or one.moved, max(old.flops, one.flops))

    same = _reshaped(program)
    eqns = [e for e in program.eqns if e.outputs and e.outputs[0] not in same]

    def arrays(atoms: Iterable[Any]) -> list[Any]:
        return [same.get(a, a) for a in atoms if type(a) is Var]

    uses = Counter(a for e in eqns for a in arrays(e.inputs))
    uses.update(arrays(program.outputs))
    made = {v for e in eqns if e.primitive.kind == POINTWISE for v in e.outputs if uses[v] == 1}
    read = {a for e in eqns if e.primitive.kind == POINTWISE for a in arrays(e.inputs)}
    reordered = {a for e in eqns if _reorders(e) for a in arrays(e.inputs)}
    again = _products(eqns)
    for eqn in eqns:
        if eqn.primitive is kernel_call_p:
            both = [a for a in arrays(eqn.inputs) if a in made] + [v for v in eqn.outputs if v in read]
            moved = any(v in reordered for v in eqn.outputs)
            note(eqn.params["kernel"], Around(sum(a.type.nbytes for a in both), moved, again.get(eqn, 0)))
            continue
        for _, inner in subprograms(eqn):
            for kernel, one in surroundings(inner).items():
                note(kernel, one)
    return found
