"""A compiled program's fusions, read from the optimised HLO, and XLA's own cost estimates."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...lang.targets.target import Target

if TYPE_CHECKING:
    from ..execution.executable import Executable

WIDTH = 116  # columns of a line
# Instructions that compute nothing and move nothing.
_NAMES = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier"))
CALLED = re.compile(r"(?:calls|to_apply|body|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_SHAPE = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_KIND = re.compile(r'"kind":"_*(\w+?)_fusion"')
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_BITS = {"pred": 8, "token": 0, "opaque": 0}
_LIBRARIES = {"ynn": "YNNPACK", "onednn": "oneDNN"}  # of whose routines a fusion may be made
_MOVES = frozenset(("while", "conditional", "call"))  # what is within them moves the bytes


@dataclass(frozen=True)
class Step:
    """One instruction that runs: a fusion with the operations in it, or a single operation."""

    name: str
    kind: str  # loop, input, output, ynn, ... of a fusion; else the operation
    operations: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    inner: tuple[Step, ...] = ()
    custom: bool = False  # a routine that XLA only calls, and whose work it does not know

    @property
    def is_fusion(self) -> bool:
        return bool(self.operations)

    @property
    def fusions(self) -> int:
        """How many fusions it is or has within it."""
        return int(self.is_fusion) + sum(s.fusions for s in self.inner)

    def lines(self, indent: str = "") -> Iterator[str]:
        """One line, and those of the steps within it."""
        counted = Counter(self.operations).items()
        operations = ", ".join(f"{n} {name}" if n > 1 else name for name, n in counted)
        library = _LIBRARIES.get(self.kind)
        how = f"fusion (library {library})" if library else f"{self.kind} fusion"
        what = f"{how} of {operations}" if self.is_fusion else self.kind
        moved = "" if self.inner else f": {self.bytes_read:,} bytes read, {self.bytes_written:,} written"
        yield from textwrap.wrap(
            f"{what}{moved}", WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
        )
        for step in self.inner:
            yield from step.lines(f"{indent}  ")


@dataclass(frozen=True)
class XlaReport:
    """What XLA runs for a program, its estimates, and the least time that they take on a machine."""

    steps: tuple[Step, ...]
    flops: int
    transcendentals: int
    bytes_moved: int
    machine: Target

    @property
    def seconds(self) -> float:
        """The least time, by the machine's roofline."""
        return max(self._busy, self.bytes_moved / self.machine.bandwidth)

    @property
    def bound(self) -> str:
        """What the least time is spent on."""
        return "vector units" if self._busy > self.bytes_moved / self.machine.bandwidth else "memory"

    @property
    def _busy(self) -> float:
        return (self.flops + self.transcendentals) / self.machine.rate("float32")

    @property
    def custom(self) -> int:
        """How many of the steps, those within others too, are routines whose work XLA does not know."""
        return sum(step.custom for step in flat(self.steps))

    def counts(self) -> str:
        """How many fusions and how many other operations there are."""
        if not self.steps:
            return "nothing for XLA to compute"
        fusions = sum(s.fusions for s in self.steps)
        others = sum(not s.is_fusion for s in self.steps)
        text = f"{fusions} XLA fusion{'' if fusions == 1 else 's'}"
        return f"{text}, {others} other operation{'' if others == 1 else 's'}" if others else text

    def _beside(self) -> str:
        n = self.custom
        return f", beside the work of {n} routine{'' if n == 1 else 's'} that it calls" if n else ""

    def lines(self) -> list[str]:
        """Each step, then the whole program's cost."""
        if not self.steps:
            return []
        once = ", a loop counted as one iteration" if any(s.kind == "while" for s in flat(self.steps)) else ""
        work = f"  {self.flops:,} flops, {self.transcendentals:,} transcendentals, {self.bytes_moved:,} bytes moved"
        rates = f"{self.machine.rate('float32') / 1e9:,.0f} Gflop and {self.machine.bandwidth / 1e9:,.0f} GB a second"
        return [
            *(line for s in self.steps for line in s.lines("  ")),
            f"{work}, by XLA's estimate{once}{self._beside()}",
            f"  at least {show_seconds(self.seconds)}, bound by {self.bound}, at {rates}",
        ]


def flat(steps: Iterable[Step]) -> Iterator[Step]:
    """Steps, each followed by those within it."""
    for step in steps:
        yield step
        yield from flat(step.inner)


def show_seconds(seconds: float) -> str:
    """A time in seconds, milliseconds or microseconds, whichever reads best.

    >>> show_seconds(2.925), show_seconds(0.00135), show_seconds(2.66e-6)
    ('2.92 s', '1.35 ms', '2.66 us')
    """
    unit, name = next(((unit, name) for unit, name in ((1.0, "s"), (1e-3, "ms")) if seconds >= unit), (1e-6, "us"))
    return f"{seconds / unit:.3g} {name}"


def xla_report(executable: Executable, machine: Target) -> XlaReport:
    """The report on an executable, with the bound of a machine's roofline."""
    cost = executable.cost_analysis()
    steps = steps_of(executable.as_text())
    custom = [step for step in flat(steps) if step.custom]
    # XLA counts -1 operation and -1 byte for a routine that it does not know; its operands and results are known here.
    flops = int(cost.get("flops", 0)) + len(custom)
    moved = int(cost.get("bytes accessed", 0)) + sum(1 + step.bytes_read + step.bytes_written for step in custom)
    special = int(cost.get("transcendentals", 0))
    return XlaReport(steps, flops, special, moved, machine)


# ---------------------------------------------------------------------------- the text


@dataclass(frozen=True)
class Instruction:
    """One line of a computation; `rest` is what follows its operands."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    rest: str


def steps_of(text: str) -> tuple[Step, ...]:
    """The steps of the text of a compiled HLO module, in the order that they run in."""
    computations, entry = computations_of(text)
    return tuple(_steps(computations, entry))


def computations_of(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """The instructions of each computation of a compiled HLO module's text, and the name of the one that is run."""
    found: dict[str, list[Instruction]] = {}
    entry, current = "", None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line)
        if head and not line.startswith("HloModule"):
            current = found[head[2]] = []
            entry = head[2] if head[1] else entry
        elif current is not None and (parsed := _parsed(line)) is not None:
            current.append(parsed)
    return found, entry


def _parsed(line: str) -> Instruction | None:
    head = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = ", line)
    if head is None:
        return None
    rest = line[head.end() :]
    size = _closing(rest) if rest.startswith("(") else rest.index(" ")
    type_, rest = rest[:size], rest[size:].lstrip()
    opcode, _, after = rest.partition("(")
    end = _closing(f"({after}")
    operands = tuple(re.findall(r"%([\w.\-]+)", after[: end - 1]))
    return Instruction(head[1], type_, opcode, operands, after[end - 1 :])


def _closing(text: str) -> int:
    """Where the parenthesis that a text starts with is closed."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if not depth:
            return i + 1
    return len(text)


def _steps(computations: dict[str, list[Instruction]], name: str) -> Iterator[Step]:
    types = {i.name: i.type for i in computations.get(name, ())}
    for one in computations.get(name, ()):
        if one.opcode in _NAMES:
            continue
        called = CALLED.findall(one.rest) + re.findall(r"[\w.\-]+", ",".join(_BRANCHES.findall(one.rest)))
        inner = [s for c in called for s in _steps(computations, c)] if one.opcode in _MOVES else []
        if one.opcode == "call":  # how XLA divides a fusion among threads
            yield from inner
            continue
        read = sum(nbytes(types.get(o, "")) for o in one.operands)
        operations = tuple(_operations(computations, called)) if one.opcode == "fusion" else ()
        custom = one.opcode == "custom-call"
        yield Step(one.name, _kind(one), operations, read, nbytes(one.type), tuple(inner), custom)


def _operations(computations: dict[str, list[Instruction]], called: list[str]) -> Iterator[str]:
    for name in called:
        for one in computations.get(name, ()):
            if one.opcode == "fusion":
                yield from _operations(computations, CALLED.findall(one.rest))
            elif one.opcode not in _NAMES:
                yield one.opcode


def _kind(one: Instruction) -> str:
    if one.opcode == "custom-call":
        return (_TARGET.search(one.rest) or ["", "custom-call"])[1]
    if one.opcode != "fusion":
        return one.opcode
    own = _KIND.search(one.rest)
    kind = re.search(r"kind=k(\w+)", one.rest)
    return own[1] if own else kind[1].lower() if kind else "custom"


def nbytes(type: str) -> int:
    """The bytes of an HLO type, of a tuple those of its parts.

    >>> nbytes("(f32[2,3]{1,0}, s8[5]{0}, pred[])")
    30
    """
    total = 0
    for element, sizes in _SHAPE.findall(type):
        count = 1
        for n in filter(None, sizes.split(",")):
            count *= int(n)
        total += -(-count * _bits(element) // 8)
    return total


def _bits(element: str) -> int:
    if element in _BITS:
        return _BITS[element]
    width = re.match(r"(?:bf|[a-z])(\d+)", element)
    return int(width[1]) if width else 0
