"""What the kernels of a compiled program take of a TPU, as its compiler wrote it beside each custom call."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..lang.target import Resources, Target
from .serial import module_name

VMEM = "1"  # the number of the memory space in the compiler's notes


class Call(NamedTuple):
    """A kernel's instruction in the compiled program, with its notes."""

    instruction: str
    notes: dict[str, Any]

    @property
    def kernel(self) -> str:
        return module_name(base64.b64decode(self.notes["custom_call_config"]["body"])) or self.instruction

    def vmem(self, entry: str) -> int:
        return sum(int(c["size"]) for c in self.notes.get(entry, ()) if c["memory_space"] == VMEM)


def calls(hlo: str) -> Iterator[Call]:
    """The kernels' instructions in the text of a compiled program."""
    decoder = json.JSONDecoder()
    for line in hlo.splitlines():
        if 'custom_call_target="tpu_custom_call"' in line:
            name = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = ", line)
            notes, _ = decoder.raw_decode(line, line.index("backend_config=") + len("backend_config="))
            yield Call(name[1] if name else "", notes)


def resources(hlo: str, target: Target, estimates: Mapping[str, Any] | None = None) -> tuple[Resources, ...]:
    """For each kernel of a compiled program, VMEM used and the limit; with `estimates` (by instruction) also those."""
    found = []
    for call in calls(hlo):
        estimate = (estimates or {}).get(call.instruction)
        limit = call.vmem("scoped_memory_configs") or target.default_bytes
        found.append(Resources(
            call.kernel, call.vmem("used_scoped_memory_configs"), limit,
            spills=getattr(estimate, "spills", None), cycles=getattr(estimate, "cycles", None),
            bundles=getattr(estimate, "bundles", None),
        ))  # fmt: skip
    return tuple(found)
