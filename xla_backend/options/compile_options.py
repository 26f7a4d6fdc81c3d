"""What the passes of compilation are given besides a program: one value, the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...core.ir.program import Program


@dataclass(frozen=True)
class Settings:
    """What is compiled for, and how.

    `target` is "cpu", or a `lang.targets.target.Target`; `device` is the device of this process that it stands for,
    None where it need not be here; `asked` is the name that the user gave, perhaps with a topology. With `tiled`,
    standard operations become kernels, at the target's tiles or at `tiles` (see `kernels.fuse`); with `by_cost`, those
    that are estimated to be faster as machine code of this CPU. With `by_xla` XLA computes every kernel. `off` are the
    options of `cpu` that are not used. `explained` asks for reports that take time
    to make. `checked` has each level checked, `shown` has it printed. `located` has modules say of which lines they
    were made. `kernel_stop` names the last pass of a backend over its kernels, where `legalize` ends with it.
    """

    target: Any = "cpu"
    tiled: bool = False
    tiles: Any = None
    by_cost: bool = False
    off: frozenset[str] = frozenset()
    explained: bool = False
    device: Any = None
    asked: str | None = None
    by_xla: bool = False
    checked: bool = False
    shown: bool = False
    located: bool = False
    kernel_stop: str = ""

    @property
    def platform(self) -> str:
        """`cpu`, `cuda`, `rocm` or `tpu`."""
        return "cpu" if self.target == "cpu" else self.target.kind

    @property
    def gpu(self) -> bool:
        return self.platform in ("cuda", "rocm")

    @property
    def name(self) -> str:
        """The target's name, as requested."""
        return self.asked or ("cpu" if self.target == "cpu" else self.target.name)


class Call(NamedTuple):
    """How a compiled program is called: its name, the inputs whose memory outputs may take, if unused ones stay."""

    name: str = "main"
    donated: tuple[int, ...] = ()
    keep_unused: bool = False


class Place(NamedTuple):
    """The shardings of a program's arrays on a mesh: a `NamedSharding` or None for each input and result.

    Before the pass `partition`, None leaves the choice to it. After it each array has a sharding, `devices` are those
    the program runs on (None where they are not local), `count` is their number, `boundary` prints inputs and results
    and `runner` makes the runner. The Program's types include padding, the caller's types do not.
    """

    ins: tuple[Any, ...]
    outs: tuple[Any, ...]
    devices: tuple[Any, ...] | None = None
    count: int = 1
    boundary: Any = None
    runner: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class Unit:
    """A Program between passes, with its calling convention.

    From the pass `expand` on (with a `place`, from `partition` on) random keys are arrays of words and the first
    inputs are `constants`; `in_types` and `out_types` are the caller's types. `place` is None for single-device
    programs. From `legalize` on, kernels have the form their device takes; `ways` has the original of each, and the
    backends that may compile it.
    """

    program: Program
    call: Call = Call()
    constants: tuple[Any, ...] = ()
    in_types: tuple[Any, ...] = ()
    out_types: tuple[Any, ...] = ()
    place: Place | None = None
    ways: Any = field(default_factory=dict)

    def __str__(self) -> str:
        return str(self.program)
