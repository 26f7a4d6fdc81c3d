"""A function as launches on arrays of another library: on its stream, in its memory, with no wait and no copy.

A Program becomes a `Plan`: its kernels, and the kernels that fusion makes of the operations around them, in order, over
numbered slots. Reshapes are views. A plan is bound once to a device (the machine code is loaded, constants are put in
its memory) and then run on each call: the results' memory comes from the library, and goes back to it when no later
step needs it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiler.ahead_of_time import machine_for
from ..compiler.backend_selection import compiled_kernel
from ..core.ir.passes import eliminate_dead, hoist
from ..core.ir.program import Eqn, Literal, Program, Var
from ..core.ir.types import ArrayType, is_key
from ..core.primitives.custom.checkpoint import name_p, optimization_barrier_p
from ..core.primitives.keys.threefry import random_unwrap_p, random_wrap_p
from ..core.primitives.movement.shape import broadcast_in_dim_p, reshape_p, squeeze_p
from ..core.random.key_lowering import physicalize
from ..core.support import pytree
from ..core.support.config import config, current
from ..core.support.errors import ArgumentError, DeviceMismatchError, DtypeError, HostArrayError, UnsupportedError
from ..core.support.memo import cached, once
from ..core.tracing.trace import trace_program, typeof
from ..kernels import GLUE, TEMPLATES
from ..kernels.fuse import fuse
from ..lang.call.custom_partition import partitioned_p
from ..lang.call.primitive import kernel_call_p
from ..lang.cost.occupancy import divided
from ..lang.gpu.code import Compiled
from ..lang.kernel.kernel import Kernel
from ..lang.targets.target import Target
from ..lang.transforms.dynamic_grid import static
from ..xla_backend.arrays.array import Array
from .driver import driver
from .foreign import Described, Library

# Primitives whose result is their operand's memory with another shape.
VIEWS = frozenset((reshape_p, squeeze_p, optimization_barrier_p, name_p, random_wrap_p, random_unwrap_p))
BYTE = np.dtype(np.uint8)
NONE: frozenset[int] = frozenset()
WIDE = (np.dtype("float64"), np.dtype("complex128"))  # functions of such keep results of 64 bits


@dataclass(frozen=True)
class View:
    """A slot's memory with another shape."""

    source: int
    out: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """One kernel. `aliases` are (input, output) pairs: the output starts as the input."""

    compiled: Compiled
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[ArrayType, ...]
    aliases: tuple[tuple[int, int], ...]


Step = View | Launch


@dataclass(frozen=True)
class Plan:
    """A Program as steps over slots; `last[i]` are the slots that no step after the i-th needs."""

    name: str
    inputs: tuple[int, ...]
    constants: tuple[tuple[int, np.ndarray], ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    last: tuple[frozenset[int], ...]


class _Planner:
    def __init__(self, machine: Target):
        self.machine = machine
        self.steps: list[Step] = []
        self.constants: list[tuple[int, np.ndarray]] = []
        self.count = 0

    def slot(self) -> int:
        self.count += 1
        return self.count - 1

    def constant(self, value: Any, type: ArrayType) -> int:
        array = np.ascontiguousarray(np.asarray(value, type.dtype)).reshape(type.shape)
        self.constants.append((self.slot(), array))
        return self.constants[-1][0]

    def program(self, program: Program, args: Sequence[int]) -> list[int]:
        """Add the steps of a Program; the slots of its outputs."""
        program = fuse(physicalize(program), self.machine)
        env: dict[Var, int] = dict(zip(program.inputs, args, strict=True))
        for var, value in zip(program.constants, program.values, strict=True):
            env[var] = self.constant(value, var.type)  # type: ignore[arg-type]

        def read(atom: Any) -> int:
            return self.constant(atom.value, atom.type) if type(atom) is Literal else env[atom]

        for eqn in program.eqns:
            env.update(zip(eqn.outputs, self.equation(eqn, [read(a) for a in eqn.inputs]), strict=True))
        return [read(a) for a in program.outputs]

    def equation(self, eqn: Eqn, args: list[int]) -> list[int]:
        types: Any = [a.type for a in eqn.inputs]
        if eqn.primitive is kernel_call_p:
            return self.kernel(eqn.params["kernel"], args)
        if eqn.primitive is partitioned_p:
            return self.program(eqn.params["program"], args)
        if eqn.primitive in VIEWS or (math.prod(eqn.outputs[0].type.shape) == math.prod(types[0].shape)
                                           and eqn.primitive is broadcast_in_dim_p):  # fmt: skip
            outs = [self.slot() for _ in eqn.outputs]
            shapes = [v.type.shape for v in eqn.outputs]
            self.steps += map(View, args, outs, shapes)
            return outs
        template = TEMPLATES.get(eqn.primitive)
        if template is None:
            reason = GLUE.get(eqn.primitive, "it has no kernel")
            raise UnsupportedError(
                f"{eqn.primitive} is no launch: {reason}",
                "leave it outside of the function, or compute with tilewright's own arrays",
                eqn.source,
            )
        built = template.build(*(t.strong() for t in types), target=self.machine, **eqn.params)
        slots, shapes = [args[i] for i in built.order], [types[i].shape for i in built.order]
        for kernel in built.kernels:
            slots = self.kernel(kernel, self.views(slots, shapes, [t.shape for t in kernel.in_types]))
            shapes = [t.shape for t in kernel.out_types]
        return self.views(slots, shapes, built.shapes)

    def views(self, slots: Sequence[int], old: Sequence[Any], new: Sequence[Any]) -> list[int]:
        """Slots with the new shapes of what they hold."""
        found = list(slots)
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            if a != b:
                found[i] = self.slot()
                self.steps.append(View(slots[i], found[i], b))
        return found

    def kernel(self, kernel: Kernel, args: list[int]) -> list[int]:
        if kernel.interpret:
            raise UnsupportedError(f"kernel {kernel.name} is to be interpreted, which the host does",
                                   "leave `interpret` out", kernel.source)  # fmt: skip
        kernel = static(kernel, "a launch, whose grid is known to the host, needs")
        if (split := divided(kernel, self.machine)) is not None:
            return self.program(split.program, args)
        module, compiled = compiled_kernel(kernel, self.machine)
        taken = list(args) if module.prepare is None else self.program(module.prepare, args)
        outs = [self.slot() for _ in module.out_types]
        self.steps.append(Launch(compiled, tuple(taken), tuple(outs), module.out_types, module.aliases))
        return outs if module.finish is None else self.program(module.finish, [*args, *outs])


@cached(1024)
def make_plan(program: Program, machine: Target) -> Plan:
    """The plan of a Program.

    Raises:
      UnsupportedError: an operation that is no kernel, such as a host callback.
      CompileError, ResourceError, DtypeError: as for the kernels in it.
    """
    planner = _Planner(machine)
    inputs = tuple(planner.slot() for _ in program.inputs)
    outputs = tuple(planner.program(program, inputs))
    needed, last = set(outputs) | {s for s, _ in planner.constants}, []
    for step in reversed(planner.steps):
        used = {step.source} if isinstance(step, View) else set(step.inputs)
        last.append(frozenset(used - needed))
        needed |= used
    return Plan(program.name, inputs, tuple(planner.constants), tuple(planner.steps), outputs, tuple(reversed(last)))


# ---------------------------------------------------------------------------- a plan on a device


class Bound:
    """A plan whose code is loaded for one device, and whose constants lie in its memory."""

    plan: Plan
    library: Library
    device: int
    constants: dict[int, tuple[Any, int]]

    def __init__(self, plan: Plan, library: Library, device: int):
        self.plan, self.library, self.device = plan, library, device
        found = driver()
        found.enter(device)
        own = found.capability(device)
        self.functions: list[Any] = [
            None if isinstance(s, View)
            else found.function(_image(s.compiled, own), s.compiled.name, s.compiled.shared, device)
            for s in plan.steps
        ]  # fmt: skip
        self.constants = {slot: _uploaded(library, value, device) for slot, value in plan.constants}

    def __call__(
        self, args: Sequence[Any], pointers: Sequence[int], donated: frozenset[int] = frozenset()
    ) -> list[Any]:
        """Put the plan on the library's stream; `donated` are positions of arguments that may be overwritten."""
        found, library, plan = driver(), self.library, self.plan
        found.enter(self.device)
        stream = library.stream(self.device)
        values: dict[int, Any] = dict(zip(plan.inputs, args, strict=True))
        where: dict[int, int] = dict(zip(plan.inputs, pointers, strict=True))
        for slot, (value, pointer) in self.constants.items():
            values[slot], where[slot] = value, pointer
        own = {plan.inputs[i] for i in donated}  # slots whose memory may be taken by an output
        for step, function, last in zip(plan.steps, self.functions, plan.last, strict=True):
            if isinstance(step, View):
                values[step.out] = library.view(values[step.source], step.shape)
                where[step.out] = where[step.source]
                own.discard(step.source)
            else:
                self._launch(found, step, function, stream, values, where, own & last)
                own.update(step.outputs)
            for slot in last:
                del values[slot]
        return [values[slot] for slot in plan.outputs]

    def _launch(self, found: Any, step: Launch, function: Any, stream: int, values: dict[int, Any],
                where: dict[int, int], free: set[int]) -> None:  # fmt: skip
        starts = {o: i for i, o in step.aliases}
        for number, (slot, t) in enumerate(zip(step.outputs, step.types, strict=True)):
            source = step.inputs[starts[number]] if number in starts else None
            if source in free:
                values[slot], where[slot] = values[source], where[source]
                free.discard(source)
                continue
            values[slot] = self.library.empty(t.shape, t.dtype, self.device)
            where[slot] = self.library.pointer(values[slot])
            if source is not None and t.nbytes:
                found.copy(where[slot], where[source], t.nbytes, stream)
        code = step.compiled
        scratch = 0
        if code.scratch:
            memory = self.library.empty((code.scratch_bytes,), BYTE, self.device)
            scratch = self.library.pointer(memory)
        if 0 not in code.grid:
            pointers = [*(where[i] for i in step.inputs), *(where[o] for o in step.outputs), scratch, 0]
            found.launch(function, code.grid, code.threads, code.shared, stream, pointers)

    def alone(self) -> Launch | None:
        """The one launch that this is, where it is nothing more: no view, constant or copy."""
        plan = self.plan
        if len(plan.steps) != 1 or plan.constants:
            return None
        (step,) = plan.steps
        if isinstance(step, View) or step.aliases or 0 in step.compiled.grid:
            return None
        return step if (step.inputs, step.outputs) == (plan.inputs, plan.outputs) else None


def _image(compiled: Compiled, capability: tuple[int, int]) -> bytes:
    """What a device loads: machine code made for it, else PTX, which the driver compiles."""
    arch = compiled.target.split(":")[1].removeprefix("sm_")
    major, minor = int(arch[:-1]), int(arch[-1])
    exact = major >= 9  # code for these is for one architecture, without forward compatibility
    fits = capability == (major, minor) if exact else capability[0] == major and capability[1] >= minor
    return compiled.binary if fits else compiled.assembly.encode() + b"\0"


def _uploaded(library: Library, value: np.ndarray, device: int) -> tuple[Any, int]:
    array = library.empty(value.shape, value.dtype, device)
    pointer = library.pointer(array)
    if value.nbytes:
        driver().upload(pointer, value, library.stream(device))
    return array, pointer


@cached(4096)
def bound(program: Program, library: Library, device: int) -> Bound:
    """A Program ready to run on a device of this process."""
    return Bound(make_plan(program, machine_of(device)), library, device)


@once
def machine_of(device: int) -> Target:
    """The target that a device of this process is."""
    return machine_for(driver().capability(device), f"GPU {device}")


# ---------------------------------------------------------------------------- functions


@dataclass(frozen=True)
class Traced:
    """A function as a Program of its constants, then its arguments' leaves."""

    program: Program
    constants: tuple[Any, ...]
    structure: Any


NUMBERS = (bool, int, float, np.generic)
HOST = (*NUMBERS, np.ndarray, Array)  # what constants of a Program may be


class Function:
    """A function of tilewright that takes and gives arrays of a library."""

    function: Callable[..., Any]
    library: Library

    def __init__(self, function: Callable[..., Any], library: Library, donate: Sequence[int] = ()):
        self.function, self.library = function, library
        self.donate: frozenset[int] = frozenset((donate,) if isinstance(donate, int) else donate)
        self.known: dict[Any, Traced] = {}
        functools.update_wrapper(
            self, function, assigned=("__name__", "__qualname__", "__doc__", "__module__"), updated=()
        )

    def operands(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any], Any, int]:
        """The leaves of arguments, each described (None for numbers), their structure, and the device they are on.

        Raises:
          HostArrayError, DeviceMismatchError, StridesError, AlignmentError, FreedArrayError: as they say.
          ArgumentTypeError: neither an array nor a number.
        """
        leaves, structure = pytree.flatten((args, kwargs))
        described = [None if isinstance(x, NUMBERS) else self.library.describe(x) for x in leaves]
        devices = {d.device for d in described if d is not None}
        if len(devices) > 1:
            raise DeviceMismatchError(
                f"the arguments of {self.__name__} are on several devices: "
                f"{', '.join('this machine' if d < 0 else f'GPU {d}' for d in sorted(devices))}",
                "move them to one",
            )
        if not devices:
            raise HostArrayError(f"{self.__name__} was given no {self.library.name} to identify the GPU",
                                 "give at least one")  # fmt: skip
        return leaves, described, structure, devices.pop()

    def traced(
        self, leaves: Sequence[Any], described: Sequence[Described | None], structure: Any, device: int = 0
    ) -> Traced:
        """The function for one kind of arguments."""
        return self.for_types(structure, tuple(
            typeof(x) if d is None else ArrayType(d.shape, d.dtype) for x, d in zip(leaves, described, strict=True)
        ), device)  # fmt: skip

    def for_types(self, structure: Any, types: tuple[Any, ...], device: int = 0) -> Traced:
        """The function for arguments of a structure, whose leaves have some types."""
        key = (structure, types, device < 0, current())
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._trace(structure, types, device)
        return found

    def donated(self, found: Traced, leaves: Sequence[Any]) -> frozenset[int]:
        """The inputs of the Program whose memory results may take."""
        if not self.donate:
            return NONE
        if any(not 0 <= i < len(leaves) for i in self.donate):
            raise ArgumentError(f"donate is {sorted(self.donate)}, and there are {len(leaves)} arrays",
                                "give positions among the leaves of the arguments")  # fmt: skip
        return frozenset(i + len(found.constants) for i in self.donate)

    def _trace(self, structure: Any, types: Sequence[Any], device: int) -> Traced:
        out: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            args, kwargs = structure.unflatten(leaves)
            results, out_tree = pytree.flatten(self.function(*args, **kwargs))
            out[:] = [out_tree]
            return results

        name = self.__name__
        wide = any(t.dtype in WIDE for t in types)
        target = current().kernel_target or (machine_of(0) if device >= 0 else None)
        with config(kernel_target=target, enable_x64=wide or current().enable_x64):
            program, constants = hoist(eliminate_dead(trace_program(flat, types, name))[0])
        if program.effects:
            raise UnsupportedError(f"{name} has effects ({', '.join(e.show() for e in program.effects)})",
                                   "print and call back outside of the function")  # fmt: skip
        if any(is_key(t.dtype) for t in program.out_types):
            raise DtypeError(f"{name} gives random keys", "give their words, `random.key_data(key)`")
        return Traced(program, tuple(constants), out[0])

    def run(
        self, program: Program, values: Sequence[Any], device: int, donated: frozenset[int] = NONE,
        described: Sequence[Described | None] = (),
    ) -> list[Any]:  # fmt: skip
        """A Program on arrays, numbers and constants; `described` tells of the last of the values, if known."""
        known = [None] * (len(values) - len(described)) + list(described)
        arrays, pointers = list(values), []
        for i, (value, found) in enumerate(zip(values, known, strict=True)):
            if found is not None:
                pointers.append(found.pointer)
            elif isinstance(value, HOST):
                host = np.ascontiguousarray(np.asarray(value, program.in_types[i].dtype))
                arrays[i], pointer = _uploaded(self.library, host, device)
                pointers.append(pointer)
            else:
                pointers.append(self.library.describe(value).pointer)
        return bound(program, self.library, device)(arrays, pointers, donated)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, described, structure, device = self.operands(args, kwargs)
        found = self.traced(leaves, described, structure)
        values = [*found.constants, *leaves]
        return found.structure.unflatten(
            self.run(found.program, values, device, self.donated(found, leaves), described)
        )
