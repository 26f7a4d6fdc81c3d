"""What reverse mode keeps of the loops of a program whose number of iterations is computed."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.ir.passes import eliminate_dead
from ..core.ir.program import Program, every_eqn
from ..core.primitives.control_flow.checkpointed_sweep import room_for
from ..core.primitives.control_flow.loop_adjoint import loop_adjoint
from ..core.primitives.control_flow.while_loop import while_vjp_p
from ..core.support.errors import Source


@dataclass(frozen=True)
class LoopSweep:
    """The reverse sweep of one loop: the states that it keeps, and the bytes of each."""

    name: str
    source: Source | None
    checkpoints: int
    state_bytes: int

    def line(self) -> str:
        """It as text."""
        where = self.name if self.source is None else f"at {self.source}"
        if not self.checkpoints:
            return f"loop {where}: reverse mode keeps no state; its iterations read only counters"
        total = self.checkpoints * self.state_bytes
        return (f"loop {where}: reverse mode keeps {self.checkpoints} states of {self.state_bytes:,} bytes "
                f"({total:,} bytes in all) and recomputes those in between")  # fmt: skip


def loop_sweeps(program: Program) -> tuple[LoopSweep, ...]:
    """The reverse sweeps in a program, in order."""
    found = []
    for eqn in every_eqn(eliminate_dead(program)[0]):
        if eqn.primitive is while_vjp_p:
            names = ("cond_program", "body_program", "cond_nconsts", "body_nconsts", "wanted")
            adjoint = loop_adjoint(*(eqn.params[name] for name in names))
            room = room_for(eqn.params.get("checkpoints"))
            count = 0 if adjoint.counted else room.tape + room.stack
            size = sum(t.nbytes for t in adjoint.kept)
            found.append(LoopSweep(eqn.params["body_program"].name, eqn.source, count, size))
    return tuple(found)
