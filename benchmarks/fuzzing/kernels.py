"""Random kernels: verdicts by brute force, and every form of a kernel against the interpreter and its derivative."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tests.support.random_kernels import Draw, check
from tilewright.core.ir.types import is_float
from tilewright.lang.call.primitive import kernel_call_p

from .finding import Finding

STEP, TOLERANCE = 1e-2, 2e-2


class Kernels:
    """One kernel per seed; `check` compiles it for the CPU and walks its forms for GPUs and TPUs."""

    def run(self, seed: int) -> Finding | None:
        with tw.config(debug_checks=False):
            drawn = Draw(seed).kernel()
            try:
                outcome = check(drawn)
                what = derivative(drawn.kernel, drawn.arrays, seed) if outcome.endswith("right") else None
            except Exception as error:  # noqa: BLE001
                what = f"{type(error).__name__}: {error}".partition("\n")[0]
        if seed % 200 == 199:
            tw.clear_caches()
        return None if what is None else Finding(seed, f"{what}; drawn: {', '.join(drawn.words)}", script(seed))


def derivative(kernel: object, arrays: list[np.ndarray], seed: int) -> str | None:
    """How a kernel's gradient differs from finite differences along one direction; None if it does not."""
    draw = np.random.default_rng(seed)
    places = [i for i, a in enumerate(arrays) if is_float(a.dtype)]
    weights: list[np.ndarray] = []

    def loss(*floats: np.ndarray) -> object:
        given = dict(zip(places, floats, strict=True))
        outs = kernel_call_p.bind(*[given.get(i, a) for i, a in enumerate(arrays)], kernel=kernel)
        outs = [x for x in outs if is_float(x.dtype)]
        weights.extend(draw.standard_normal(x.shape).astype(np.float32) for x in outs[len(weights) :])
        return sum((x * w).sum() for x, w in zip(outs, weights, strict=True))

    floats = [arrays[i] for i in places]
    if not floats:
        return None
    way = [draw.standard_normal(a.shape).astype(a.dtype) for a in floats]
    try:
        gradients = tw.grad(loss, tuple(range(len(floats))))(*floats)
    except tw.errors.UnsupportedError:
        return None
    slope = float(sum((np.asarray(g) * w).sum() for g, w in zip(gradients, way, strict=True)))
    ends = [float(loss(*(a + s * STEP * w for a, w in zip(floats, way, strict=True)))) for s in (1, -1)]
    wanted = (ends[0] - ends[1]) / (2 * STEP)
    scale = 1 + abs(wanted) + max(map(abs, ends))
    return None if abs(slope - wanted) <= TOLERANCE * scale else f"slope {slope:.5g}, by differences {wanted:.5g}"


def script(seed: int) -> str:
    """A script that draws the kernel again, prints it and checks it."""
    return (
        "from benchmarks.fuzzing.kernels import Kernels\nfrom tests.support.random_kernels import Draw\n\n"
        f"print(Draw({seed}).kernel().kernel)\nprint(Kernels().run({seed}))\n"
    )
