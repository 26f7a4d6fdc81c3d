"""The law of random kernels on meshes: split as their operands lie, they compute what they compute whole.

`TILEWRIGHT_RANDOM_KERNELS=500` draws as many; seeds are numbers from 0 on, and a failure names its own.
"""

import os

import numpy as np

import tilewright as tw
from tests.support.random_kernels import Draw, check
from tilewright.lang.call.primitive import kernel_call_p
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.partition.sharding_rule import splits
from tilewright.sharding import NamedSharding, P

COUNT = int(os.environ.get("TILEWRIGHT_RANDOM_KERNELS", "4"))
MESHES = [tw.make_mesh(shape, tuple("xy"[: len(shape)])) for shape in ((2,), (3,), (2, 2), (2, 3))]


def lying(rng, mesh, ndim):
    places = rng.integers(-1, max(ndim, 1), len(mesh.axis_names)) if ndim else []
    return P(*[tuple(n for n, p in zip(mesh.axis_names, places) if p == d) for d in range(ndim)])


def held(seed):
    """Hold one kernel against its interpretation; gives whether it may be split."""
    with tw.config(debug_checks=False):
        drawn = Draw(seed).kernel()
    if not check(drawn, forms=False).endswith("right"):
        return False
    rng = np.random.default_rng(seed)
    mesh = MESHES[rng.integers(len(MESHES))]
    specs = [lying(rng, mesh, a.ndim) for a in drawn.arrays]
    far = [tw.device_put(a, NamedSharding(mesh, s)) for a, s in zip(drawn.arrays, specs)]
    found = tw.jit(lambda *given: kernel_call_p.bind(*given, kernel=drawn.kernel))(*far)
    wanted = interpret(drawn.kernel, *drawn.arrays, params=InterpretParams())
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=f"seed {seed} on {mesh}: {specs}; {drawn.words}")
    return not isinstance(splits(drawn.kernel), str)


def test_random_kernels_are_split_rightly():
    assert sum(held(seed) for seed in range(COUNT)) >= COUNT // 4
