"""StableHLO of Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.ir.types import FLOAT32, ArrayType
from ...core.primitives.contraction.fft import FftType, fft_p
from ...core.support.errors import UnsupportedError
from .emit import Emitter, Operand


def _fft(
    e: Emitter, operands: list[Operand], out: ArrayType, *, fft_type: FftType, fft_lengths: Sequence[int]
) -> Operand:
    if out.size == 0:
        return e.constant(0, out)
    wide = FLOAT32 not in (out.dtype, np.zeros((), out.dtype).real.dtype)
    if wide and e.platform == "tpu":
        raise UnsupportedError(f"a TPU transforms float32 and complex64 only, not to {out.show()}", "cast the operand")
    lengths = ", ".join(map(str, fft_lengths))
    attributes = f"fft_type = #stablehlo<fft_type {fft_type.name}>, fft_length = array<i64: {lengths}>"
    return e.op("stablehlo.fft", operands, out, attributes)


RULES = {fft_p: _fft}
