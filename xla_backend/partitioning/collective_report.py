"""What a program on a mesh communicates, found by Shardy's passes in this process: no device is needed.

Times are least times by the target's links (`interconnect`), one collective after the other: what overlaps is not
known before the program is compiled. `compiled` counts the collectives of the program that XLA made, which combines
some and adds others.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...core.support.errors import CommunicationError
from . import shardy
from .interconnect import Interconnect, interconnect_of, members_along

# What Shardy inserts, and what programs of each device ask for, by one set of names.
INSERTED = {
    "sdy.all_reduce": "all-reduce", "sdy.all_gather": "all-gather", "sdy.reduce_scatter": "reduce-scatter",
    "sdy.all_to_all": "all-to-all", "sdy.collective_permute": "permute",
}  # fmt: skip
WRITTEN = {
    "stablehlo.all_reduce": "all-reduce", "stablehlo.all_gather": "all-gather",
    "stablehlo.reduce_scatter": "reduce-scatter", "stablehlo.all_to_all": "all-to-all",
    "stablehlo.collective_permute": "permute",
}  # fmt: skip
_COMPILED = re.compile(r' = [^\n"%]*? (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|'
                       r"ragged-all-to-all|collective-broadcast)(?:-start)?\((?:[^\n]*?channel_id=(\d+))?")  # fmt: skip
PASSES = (
    "sdy-propagation-pipeline", "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
)  # fmt: skip


@dataclass(frozen=True)
class Collective:
    """An exchange: what it is, over which axes, the bytes of a device's result, and the line that made it necessary."""

    kind: str
    axes: tuple[str, ...]
    members: int
    type: str
    bytes: int
    line: str
    written: bool  # by the program itself, within a `shard_map`
    seconds: float = 0.0  # the least time by the target's links
    gathers: str = ""  # of an implicit all-gather: which value, to which spec

    @property
    def sent(self) -> float:
        """The bytes that each device sends, by the usual algorithm on a ring."""
        n = self.members
        share = {"all-reduce": 2 * (n - 1) / n, "all-gather": (n - 1) / n, "reduce-scatter": n - 1.0,
                 "all-to-all": (n - 1) / n, "permute": 1.0}[self.kind]  # fmt: skip
        return share * self.bytes

    def show(self) -> str:
        over = " ".join(self.axes) or "?"
        asked = ", written" if self.written else ""
        what = f"{self.kind} over {over} ({self.members}){asked}"
        return f"{what}: {self.type}, {_size(self.bytes)} a device, {self.seconds * 1e6:,.1f} us, {self.line}"


@dataclass(frozen=True)
class Communication:
    """The collectives of a program, in order, and which kernels are split or run whole; prints as text."""

    collectives: tuple[Collective, ...]
    links: Interconnect
    split: tuple[tuple[str, str], ...] = ()  # the names of kernels that are split over the devices, and how
    whole: tuple[tuple[str, str], ...] = ()  # of those that run whole on every device, and why
    left: tuple[tuple[str, str], ...] = ()  # of those whose operations are left to XLA, and why
    compiled: tuple[tuple[str, int], ...] | None = None  # the collectives of the compiled program, by kind

    @property
    def seconds(self) -> float:
        """The least time that the links take for them."""
        return sum(c.seconds for c in self.collectives)

    @property
    def costliest_gather(self) -> Collective | None:
        """The implicit all-gather that takes longest."""
        return max((c for c in self.collectives if c.gathers), key=lambda c: c.seconds, default=None)

    def refuse(self, name: str) -> None:
        """Raise a `CommunicationError` if there is any that the program did not write."""
        found = [c for c in self.collectives if not c.written]
        if found:
            shown = "".join(f"\n  {c.show()}" for c in found)
            raise CommunicationError(
                f"{name} exchanges what it does not say, with communication='error':{shown}",
                "split the arrays so that operations find their parts at home, write it in a `shard_map`, or allow it",
            )

    def lines(self) -> list[str]:
        more = [f"kernel {name} is split: {how}" for name, how in self.split]
        more += [f"kernel {name} gathers sharded arrays on each device ({why}): call it in a `shard_map`"
                 for name, why in self.whole]  # fmt: skip
        more += [f"kernel {name} is left to XLA, which splits its operations: {why}" for name, why in self.left]
        if not self.collectives:
            return ["no communication", *more]
        sent = sum(c.sent for c in self.collectives)
        many = "s" if len(self.collectives) != 1 else ""
        head = (f"communication: {len(self.collectives)} collective{many}, {_size(sent)} sent by each device, "
                f"at least {self.seconds * 1e6:,.1f} us by {self.links.name}")  # fmt: skip
        shown = [head, *(f"  {c.show()}" for c in self.collectives)]
        if (worst := self.costliest_gather) is not None:
            shown.append(f"costliest gather: {worst.gathers} ({worst.seconds * 1e6:,.1f} us)")
        if self.compiled is not None:
            counts = ", ".join(f"{n} {kind}" for kind, n in self.compiled) or "none"
            shown.append(f"in the compiled program: {sum(n for _, n in self.compiled)} collectives ({counts})")
        return [*shown, *more]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def communication(text: str, target: str) -> Communication:
    """What the module of a program on a mesh communicates; links as fast as those of a target."""
    module = shardy.run(text, *PASSES)
    found: list[Collective] = []
    with shardy.context():
        meshes = {str(op.attributes["sym_name"]).strip('"'): _axes_of(str(op.attributes["mesh"]))
                  for op in module.body.operations if op.operation.name == "sdy.mesh"}  # fmt: skip

        links, mesh = interconnect_of(target), next(iter(meshes.values()))
        count = math.prod(mesh.values())

        def visit(op: Any) -> Any:
            one = None
            if op.name in INSERTED and not _again(op):
                one = _inserted(op, meshes)
            elif op.name in WRITTEN:
                one = _written(op, mesh)
            if one is not None:
                members = members_along(one.axes, mesh)[: max(one.members, 1)]
                found.append(replace(one, seconds=links.seconds(one.kind, one.bytes, members, count)))
            return shardy.ir.WalkResult.ADVANCE

        module.operation.walk(visit)
    return Communication(tuple(found), links)


def compiled_collectives(text: str) -> tuple[tuple[str, int], ...]:
    """How many collectives of each kind an optimised HLO text has.

    A start and its end are one, and so are the steps of one that a TPU's compiler spreads over other operations: they
    have one channel.

    >>> compiled_collectives("%a = f32[4] all-gather-start(%x), channel_id=1, ...")
    (('all-gather', 1),)
    """
    found = {(kind, channel or number) for number, (kind, channel) in enumerate(_COMPILED.findall(text))}
    counts = Counter(kind.replace("collective-permute", "permute") for kind, _ in found)
    return tuple(sorted(counts.items()))


def _again(op: Any) -> bool:
    """Whether a sum over devices is one that was just made: Shardy's passes put it in on both sides of a constraint."""
    before = op.operands[0].owner
    return op.name == "sdy.all_reduce" == getattr(before, "name", None) and all(
        str(op.attributes[name]) == str(before.attributes[name]) for name in ("reduction_axes", "out_sharding"))


def _axes_of(mesh: str) -> dict[str, int]:
    return {name: int(size) for name, size in re.findall(r'"((?:[^"\\]|\\.)*)"=(\d+)', mesh)}


def _bytes(type: Any) -> int:
    found = shardy.ir.RankedTensorType(type)
    width = re.sub(r"[^0-9]", "", str(found.element_type).replace("complex<f", "")) or "8"
    scale = 2 if "complex" in str(found.element_type) else 1
    return max(1, int(width) // 8) * scale * math.prod(found.shape)


def _inserted(op: Any, meshes: Mapping[str, dict[str, int]]) -> Collective:
    """A collective that Shardy puts in; its types are of whole arrays."""
    out = str(op.attributes["out_sharding"])
    mesh = meshes[re.search(r"@([\w.]+)", out)[1]]  # type: ignore[index]
    names = [n for n in op.attributes if n.endswith("_axes") or n in ("axes", "params")]
    axes = [a for n in names for a in re.findall(r'"([^"]+)"', str(op.attributes[n]))]
    if not axes:  # a permute says from where to where
        axes = sorted(set(re.findall(r'"([^"]+)"', out)))
    axes = [a for a in dict.fromkeys(axes) if a in mesh]
    parts = math.prod(mesh[a] for a in set(re.findall(r'"([^"]+)"', out)) if a in mesh)
    kind, type = INSERTED[op.name], op.results[0].type
    gathers = _gathered(op, out) if kind == "all-gather" else ""
    return Collective(kind, tuple(axes), math.prod(mesh[a] for a in axes), str(type), -(-_bytes(type) // parts),
                      _line(op), False, gathers=gathers)  # fmt: skip


def _gathered(op: Any, out: str) -> str:
    """Which value an all-gather collects, and to which spec: an argument that had it would not be gathered."""
    value = op.operands[0]
    dims = re.findall(r"\{([^{}]*)\}", out[out.index("[") : out.rindex("]") + 1])
    specs = [re.findall(r'"([^"]+)"', dim) for dim in dims]
    shown = [repr(names[0]) if len(names) == 1 else repr(tuple(names)) if names else "None" for names in specs]
    while shown and shown[-1] == "None":
        shown.pop()
    spec = f"P({', '.join(shown)})"
    if isinstance(value.owner, shardy.ir.Block):
        number = shardy.ir.BlockArgument(value).arg_number
        return f"argument {number}, {value.type}, which the spec {spec} would avoid"
    return f"{value.type} of {_line(value.owner)}, needed as {spec}"


def _written(op: Any, mesh: dict[str, int]) -> Collective:
    """A collective of a program of each device; its types are of the device's part."""
    kind, type = WRITTEN[op.name], op.results[0].type
    written = "mhlo.frontend_attributes" not in op.attributes  # those of kernels that are split say that they are not
    if kind == "permute":
        pairs = shardy.ir.DenseIntElementsAttr(op.attributes["source_target_pairs"])
        places = [pairs[i] for i in range(len(pairs))]
        axes = [_moving([*p], mesh) for p in zip(places[::2], places[1::2], strict=True)]
        return Collective(kind, tuple(dict.fromkeys(sum(axes, ()))), 2, str(type), _bytes(type), _line(op), written)
    groups = shardy.ir.DenseIntElementsAttr(op.attributes["replica_groups"])
    shape = shardy.ir.RankedTensorType(groups.type).shape
    first = [groups[i] for i in range(shape[1])]
    return Collective(kind, _moving(first, mesh), shape[1], str(type), _bytes(type), _line(op), written)


def _moving(places: list[int], mesh: dict[str, int]) -> tuple[str, ...]:
    """The axes along which some places of a mesh differ."""
    found, rest = [], math.prod(mesh.values())
    for name, size in mesh.items():
        rest //= size
        if len({(p // rest) % size for p in places}) > 1:
            found.append(name)
    return tuple(found)


def _line(op: Any) -> str:
    """The user's line that an operation comes from."""
    lines = re.findall(r'"([^"]+)":(\d+):\d+', str(op.location))
    lines = [(file, line) for file, line in lines if file != "-"]
    return f"{lines[0][0]}:{lines[0][1]}" if lines else "an argument or a result"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.2f} GiB"
