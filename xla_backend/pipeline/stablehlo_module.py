"""A Program as the text of one StableHLO module, with how its inputs and outputs map to the Program's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.ir.passes import eliminate_dead, occurrences
from ...core.ir.primitive import Primitive
from ...core.ir.program import CALLBACK, ORDERED, Program, Var
from ...core.ir.types import ArrayType
from ...core.primitives.keys.threefry import threefry2x32_p
from ...core.support.errors import ExportError, ProgramError
from ..arrays.transfer import physical
from ..cpu_passes.sums import Reductions, behind_barriers, compiler_options, reductions_of
from ..jaxlib import shim
from ..options.compile_options import Place, Settings, Unit
from ..stablehlo import cpu_dot_layout as products
from ..stablehlo import random, rules
from ..stablehlo.emit import Emitter
from . import isolate_rng
from .expand_primitives import expanded


@dataclass(frozen=True)
class Module:
    """The text of a module and what is needed to call it.

    The module takes the inputs with the indices `kept` (constants first, then arguments) and returns all outputs
    but the `forwarded` ones, which are inputs passed through: output index -> input index.
    """

    text: str
    name: str
    constants: tuple[Any, ...]
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    kept: tuple[int, ...]
    forwarded: dict[int, int]
    donated: frozenset[int]
    callbacks: list[Any] = field(default_factory=list)
    keep_alive: list[Any] = field(default_factory=list)
    has_effects: bool = False
    ordered: bool = False
    platform: str = "cpu"  # of the devices that it is for
    settings: tuple[tuple[str, Any], ...] = ()  # of XLA's compiler
    placeless: bool = False  # the compiler is not to note the lines of the text
    again: Callable[[Any], Module] | None = None  # the same program, printed for another device
    place: Place | None = None  # of programs that run on a mesh
    reports: dict[str, Any] = field(default_factory=dict)  # of the passes that it went through, by their names

    def __str__(self) -> str:
        return self.text

    def on(self, device: Any) -> Module:
        """The module for a device: this one, if it is for the device's platform."""
        return self if self.again is None or device.platform == self.platform else self.again(device)

    @property
    def computed(self) -> list[int]:
        """The numbers of the outputs that the module gives."""
        return [i for i in range(len(self.out_types)) if i not in self.forwarded]


class DonationWarning(UserWarning):
    """A donated argument whose memory no output can take."""


def printed(unit: Unit, settings: Settings) -> Module:
    """Print a unit, all of whose primitives have rules, as a module."""
    program, on_cpu = unit.program, settings.platform == "cpu"
    reductions = reductions_of(program) if on_cpu else Reductions()
    program = behind_barriers(program) if reductions.isolated else program
    program = isolate_rng.isolate_hashes(program) if on_cpu else program
    call, offset = unit.call, len(unit.constants)
    given = {i + offset for i in call.donated}
    position = {v: i for i, v in enumerate(program.inputs)}
    forwarded = {
        i: position[a]
        for i, a in enumerate(program.outputs)
        if type(a) is Var and a in position and position[a] not in given
    }
    if forwarded:
        body, used = eliminate_dead(program, [i not in forwarded for i in range(len(program.outputs))])
    else:  # nothing in it is dead
        live = {a for atoms in (program.outputs, *(eqn.inputs for eqn in program.eqns)) for a in atoms}
        body, used = program, [v in live for v in program.inputs]
    kept = tuple(i for i, u in enumerate(used) if u or call.keep_unused)
    body = body.replace(inputs=[program.inputs[i] for i in kept])
    attributes, aliased = _aliases(body, kept, given)
    emitter = Emitter(rules_for(settings, body), settings.platform, expanded, settings.located)
    results: list[str] = []
    if unit.place is not None:
        computed = [i for i in range(len(program.outputs)) if i not in forwarded]
        attributes, results = unit.place.boundary(emitter, unit.place, body, kept, computed, attributes)
    main = emitter.function("main", body, "public", attributes, results)
    effects, platform = body.effects, settings.platform
    text = emitter.module_text(call.name, main)
    if emitter.unrefined:
        text = _refined(text, call.name)
    return Module(
        text, call.name, unit.constants, unit.in_types, unit.out_types,
        kept, forwarded, frozenset(aliased), emitter.callbacks, emitter.keep,
        ORDERED in effects or CALLBACK in effects, ORDERED in effects, "gpu" if settings.gpu else platform,
        settings=compiler_options(reductions, settings.off),
        placeless=on_cpu and "placeless" not in settings.off, place=unit.place,
    )  # fmt: skip


def _refined(text: str, name: str) -> str:
    """A module with the sizes of the exported functions that it calls worked out."""
    try:
        return shim.refined(text)
    except shim.RuntimeFault as error:
        raise ExportError(f"{name} calls an exported function: {str(error)[:2000]}",
                          "call it with arrays of sizes that it was exported for") from None  # fmt: skip


# A CPU program of more hashes of random keys than these has a barrier behind each. XLA fuses a hash with all that takes
# its words; where keys are split again and again, that made programs of forty hashes five times as long to compile.
# Loops of few draws are several times as fast without barriers, for XLA makes one function of their bodies.
_FUSED_HASHES = 8


def rules_for(settings: Settings, program: Program) -> Mapping[Primitive, Any]:
    """The rules by which a Program is printed as a module."""
    found = rules()
    if settings.platform != "cpu":
        return found
    many = occurrences(program, threefry2x32_p) > _FUSED_HASHES
    return {**found, **(products.RULES if "products" not in settings.off else {}),
            **({threefry2x32_p: random.behind_barrier} if many else {})}  # fmt: skip


def check_module(module: Module) -> None:
    """Raise `ProgramError` where a module's account of its inputs and outputs does not fit its text."""
    wrong = [i for i in (*module.kept, *module.forwarded.values()) if not 0 <= i < len(module.in_types)]
    begin = module.text.index("@main(")
    head = module.text[begin : module.text.index(") -> ", begin)]
    called = module.text.count("api_version = 4 : i32, backend_config = {index = ")
    if wrong or head.count("%") != len(module.kept) or called != len(module.callbacks):
        raise ProgramError(f"{module.name}: the module takes {head.count('%')} inputs and calls {called} functions of "
                           f"the host, and says {len(module.kept)} and {len(module.callbacks)}")  # fmt: skip


def _aliases(body: Program, kept: Sequence[int], donated: set[int]) -> tuple[list[str], set[int]]:
    """The attributes of each input of a module, and the indices of inputs donated to an output."""
    free: dict[Any, list[int]] = {}
    for number, atom in enumerate(body.outputs):
        free.setdefault(physical(atom.type.strong()), []).append(number)
    attributes, aliased, wasted = [], set(), []
    for index, var in zip(kept, body.inputs, strict=True):
        places = free.get(physical(var.type.strong())) if index in donated else None
        attributes.append(f"{{tf.aliasing_output = {places.pop(0)} : i32}}" if places else "")
        if places is not None and attributes[-1]:
            aliased.add(index)
        elif index in donated:
            wasted.append(var.type.show())
    if wasted:
        warnings.warn(  # begins as JAX's does, which libraries filter by
            f"Some donated buffers were not usable: {', '.join(wasted)}, which no output is like",
            DonationWarning, stacklevel=2,
        )  # fmt: skip
    return attributes, aliased
