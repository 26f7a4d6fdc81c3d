"""How long a kernel may take by this backend and by Triton's, to choose between them.

A model, not a measurement: a block computes at a part of its multiprocessor's peak, after what it takes to start, and
blocks come in waves. The parts are those of published figures: of 989 TFLOP/s of float16 on H100, Pallas' attention
takes 686 by Mosaic GPU and 415 by Triton (jax's documentation), products of matrices 0.6 to 0.7 of the peak by either.
On B200 jax's tutorial of products tells what each step gives: 0.376 of the peak where the warps that multiply copy too,
as Triton's do unless they are told otherwise, 0.558 with warps for each and results stored in parts, 0.615 for pairs of
blocks that make many tiles. Of attention as it is made here on Blackwell there is no figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.support.memo import cached
from ..lang.analysis.facts import analyse
from ..lang.cost.estimate import kernel_cost
from ..lang.legalize import Legal, Unfit, entry
from ..lang.targets.target import Target
from .blackwell_attention import Chained, Held
from .language import BACKEND
from .mma_types import FLOAT32
from .module import mosaic_gpu_module, refusal
from .schedule import BLACKWELL, HOPPER, products


@dataclass(frozen=True)
class Parts:
    """Of the peak, by this backend: in blocks of many tiles, of one, of 64 rows; by Triton: one product, more."""

    lasting: float
    single: float
    half: float
    plain: float
    chained: float


PARTS = {HOPPER: Parts(0.69, 0.69, 0.4, 0.62, 0.42), BLACKWELL: Parts(0.615, 0.558, 0.0, 0.376, 0.0)}
UNKNOWN = "it computes with its products, for which there is no figure of Blackwell"
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
    parts = next((parts for name, parts in PARTS.items() if target.name.startswith(name)), None)
    if not found or parts is None:
        why = f"of {target.name} there are no figures" if found else "there is no product of matrices in it"
        raise refusal(legal, Unfit(f"{why}, by which it could be estimated to be faster; ask for it by `kernel_route`"
                                   if found else why))  # fmt: skip
    blackwell = parts is PARTS[BLACKWELL]
    if blackwell and len(found) > 1:
        raise refusal(legal, Unfit(UNKNOWN))
    programs = math.prod(kernel.grid[a] for a in kernel.long_axes if a not in analyse(kernel).carry)
    waves = math.ceil(max(programs, 1) / target.units)
    dtype = found[0].inputs[0].type.dtype
    peak = target.rate("float16") / 2 if dtype == FLOAT32 else target.rate(dtype)  # in TF32
    alone = kernel_cost(kernel).flops / max(programs, 1) / (peak / target.units)
    lasting = programs > target.units and len(found) == 1  # then blocks make many tiles, and begin once
    whole = found[0].outputs[0].type.shape[0] % 128 == 0
    if blackwell and not whole:
        raise refusal(legal, Unfit("its blocks have less than 128 rows: take blocks of 128"))
    mine = parts.half if not whole else parts.lasting if lasting else parts.single
    made = Estimate(
        waves * alone / mine + (1 if lasting else waves) * DESCRIBED,
        waves * (alone / (parts.chained if len(found) > 1 else parts.plain) + LAUNCHED))  # fmt: skip
    if made.better and mosaic_gpu_module(legal, target).form in (Chained, Held):
        raise refusal(legal, Unfit(UNKNOWN))
    return made
