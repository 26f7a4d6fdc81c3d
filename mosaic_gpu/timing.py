"""How long a kernel may take by this backend and by Triton's, to choose between them.

A model, not a measurement: a block computes at a part of its multiprocessor's peak, after what it takes to start, and
blocks come in waves. The parts are those of published figures: of 989 TFLOP/s of float16 on H100, Pallas' attention
takes 686 by Mosaic GPU and 415 by Triton (jax's documentation), products of matrices 0.6 to 0.7 of the peak by either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.caches import cached
from ..lang.analysis import analyse
from ..lang.cost import kernel_cost
from ..lang.legalize import Legal, entry
from ..lang.target import Target
from .language import BACKEND
from .module import mosaic_gpu_module, refusal
from .schedule import HOPPER, products

SPECIALISED, HALF, PLAIN, CHAINED = 0.69, 0.4, 0.62, 0.42  # of the peak: two warpgroups, one; Triton: one product, more
DESCRIBED, LAUNCHED = 3e-6, 1e-6  # seconds until a block computes: its descriptors are made on the device; else


@dataclass(frozen=True)
class Estimate:
    """Seconds by this backend and by Triton's."""

    specialised: float
    plain: float

    @property
    def better(self) -> bool:
        return self.specialised < self.plain

    def line(self) -> str:
        return f"an estimate of {self.specialised * 1e6:.3g} us, {self.plain * 1e6:.3g} us by Triton"


@entry(BACKEND)
@cached(1024)
def estimate(legal: Legal, target: Target) -> Estimate:
    """How long a kernel may take; where this backend's time is the less, the kernel is lowered to see that it can be.

    Raises:
      UnsupportedError: it is not for this backend.
    """
    kernel, found = legal.given, products(legal.given.body)
    if not found or not target.name.startswith(HOPPER):
        raise refusal(legal, "there is no product of matrices in it" if not found else f"{target.name} is not Hopper")
    programs = math.prod(kernel.grid[a] for a in kernel.long_axes if a not in analyse(kernel).carry)
    waves = math.ceil(max(programs, 1) / target.units)
    alone = kernel_cost(kernel).flops / max(programs, 1) / (target.rate("float16") / target.units)
    lasting = programs > target.units and len(found) == 1  # then blocks make many tiles, and begin once
    two = found[0].outputs[0].type.shape[0] % 128 == 0
    made = Estimate(
        waves * alone / (SPECIALISED if two else HALF) + (1 if lasting else waves) * DESCRIBED,
        waves * (alone / (CHAINED if len(found) > 1 else PLAIN) + LAUNCHED))  # fmt: skip
    if made.better:
        mosaic_gpu_module(legal, target)
    return made
