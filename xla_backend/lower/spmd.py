"""StableHLO of programs that run on a mesh: shardings of inputs, results and values, in Shardy's attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir import Program
from ...core.mesh import constraint_p
from ...core.types import ArrayType
from ..settings import Place
from ..shardings import mesh_text, sharding_text
from .emit import Emitter, Operand


class Meshes:
    """The meshes that a module names. Devices are numbered by their places in `devices`."""

    def __init__(self, devices: tuple[Any, ...] | None, count: int):
        self.devices, self.count = devices, count
        self.names: dict[str, str] = {}

    def name(self, mesh: Any) -> str:
        """A mesh's name in the module, where it is declared once."""
        body = mesh_text("", mesh, self.devices)
        if body not in self.names:
            self.names[body] = f"mesh_{len(self.names)}" if self.names else "mesh"
        return self.names[body]

    def sharding(self, sharding: Any, ndim: int) -> str:
        """A `NamedSharding` as the body of an attribute, for a value with `ndim` dimensions."""
        return sharding_text(self.name(sharding.mesh), sharding.spec.padded(ndim))

    def texts(self) -> tuple[str, str]:
        """The module's attributes and the declarations of its meshes."""
        head = f"attributes {{mhlo.num_partitions = {self.count} : i32, mhlo.num_replicas = 1 : i32}} "
        declared = "".join(body.replace("@", f"@{name}", 1) + "\n" for body, name in self.names.items())
        return head, declared


def boundary(
    e: Emitter, place: Place, body: Program, kept: Sequence[int], computed: Sequence[int], attributes: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The attributes of a module's inputs and of its results: their shardings; donated inputs are left to XLA."""
    e.meshes = Meshes(place.devices, place.count)
    ins = [
        f"{{{_attribute(e, place.ins[i], v.type)}{', jax.buffer_donor = true' if a else ''}}}"
        for i, v, a in zip(kept, body.inputs, attributes, strict=True)
    ]
    outs = [
        "" if place.outs[i] is None else f"{{{_attribute(e, place.outs[i], a.type)}}}"
        for i, a in zip(computed, body.outputs, strict=True)
    ]
    return ins, outs


def _attribute(e: Emitter, sharding: Any, type: Any) -> str:
    return f"sdy.sharding = #sdy.sharding{e.meshes.sharding(sharding, len(type.shape))}"


def _constraint(e: Emitter, operands: list[Operand], out: ArrayType, *, sharding: Any) -> Operand:
    text = f"sharding = #sdy.sharding{e.meshes.sharding(sharding, len(out.shape))}"
    return e.op("sdy.sharding_constraint", operands, out, text)


RULES: dict[Any, Any] = {constraint_p: _constraint}
