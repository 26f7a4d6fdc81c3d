"""StableHLO of random numbers without a key: XLA's own generator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.ir.types import INT64, ArrayType
from ...core.primitives.rng.stateful_rng import rng_uniform_p
from .emit import Emitter, Operand


def _rng_uniform(e: Emitter, operands: list[Operand], out: ArrayType, *, shape: Sequence[int]) -> Operand:
    sizes = e.constant(np.array(shape, np.int64), ArrayType((len(shape),), INT64))
    return e.op("stablehlo.rng", [*operands, sizes], out, "rng_distribution = #stablehlo<rng_distribution UNIFORM>")


RULES = {rng_uniform_p: _rng_uniform}
