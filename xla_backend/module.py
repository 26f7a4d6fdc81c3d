"""A Program as the text of one StableHLO module, with how its inputs and outputs map to the Program's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import UnsupportedError
from ..core.ir import CALLBACK, ORDERED, Program, Var
from ..core.keys import physicalize
from ..core.rewrite import eliminate_dead, hoist
from ..core.types import ArrayType
from .lower import rules
from .lower.emit import Emitter
from .transfer import physical

# XLA:CPU gives reductions to YNN, whose kernel for each takes 0.3 ms to make when a program first runs. Few rows added
# up to one are as fast in XLA's own loop.
FEW_ROWS = ("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT")


@dataclass(frozen=True)
class Module:
    """The text of a module and what is needed to call it.

    The module takes the inputs at positions `kept` (constants first, then arguments) and gives all
    outputs but those in `forwarded`, which are inputs passed through: output number -> input number.
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
    settings: tuple[tuple[str, str], ...] = ()  # of XLA's compiler
    again: Callable[[Any], Module] | None = None  # the same program, printed for another device

    def on(self, device: Any) -> Module:
        """The module for a device: this one, if it is for the device's platform."""
        return self if self.again is None or device.platform == self.platform else self.again(device)

    @property
    def computed(self) -> list[int]:
        """The numbers of the outputs that the module gives."""
        return [i for i in range(len(self.out_types)) if i not in self.forwarded]


class DonationWarning(UserWarning):
    """A donated argument whose memory no output can take."""


def lower(
    program: Program,
    name: str = "main",
    donated: Sequence[int] = (),
    keep_unused: bool = False,
    platform: str = "cpu",
    kernels: Callable[[Any], Any] | None = None,
) -> Module:
    """Print a Program as a module; `donated` are positions of inputs whose memory outputs may take.

    `platform` is what it is compiled for (`cpu`, `cuda`, `rocm`, `tpu`). `kernels` makes a device's
    `lang.target.CustomCall` of a Kernel; without it kernels are printed for the CPU.
    """
    program, constants = hoist(program)
    offset = len(constants)
    given = {i + offset for i in donated}
    for t in (*program.in_types, *program.out_types):
        if not isinstance(t, ArrayType):
            raise UnsupportedError(f"a value of type {t.show()} cannot enter or leave a compiled program",
                                   "read the Ref inside the program")  # fmt: skip
    position = {v: i for i, v in enumerate(program.inputs)}
    forwarded = {
        i: position[a]
        for i, a in enumerate(program.outputs)
        if type(a) is Var and a in position and position[a] not in given
    }
    body, used = eliminate_dead(program, [i not in forwarded for i in range(len(program.outputs))])
    kept = tuple(i for i, u in enumerate(used) if u or keep_unused)
    body = body.replace(inputs=[program.inputs[i] for i in kept])
    attributes, aliased = _aliases(body, kept, given)
    emitter = Emitter(rules(), platform, kernels)
    callbacks, keep_alive, text = _printed(body, name, attributes, emitter)
    effects = body.effects
    return Module(
        text, name, tuple(constants), tuple(program.in_types), tuple(program.out_types),  # type: ignore[arg-type]
        kept, forwarded, frozenset(aliased), callbacks, keep_alive,
        ORDERED in effects or CALLBACK in effects, ORDERED in effects,
        settings=(FEW_ROWS,) if platform == "cpu" and emitter.sums and all(emitter.sums) else (),
    )  # fmt: skip


def _aliases(body: Program, kept: Sequence[int], donated: set[int]) -> tuple[list[str], set[int]]:
    """For each input of a module its attributes; and the positions whose memory an output takes."""
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
        warnings.warn(
            f"donated arguments whose memory no output can take: {', '.join(wasted)}", DonationWarning, stacklevel=2
        )
    return attributes, aliased


def _printed(body: Program, name: str, attributes: Sequence[str], emitter: Emitter) -> tuple[list[Any], list[Any], str]:
    main = emitter.function("main", physicalize(body), "public", attributes)
    return emitter.callbacks, emitter.keep, emitter.module_text(name, main)
