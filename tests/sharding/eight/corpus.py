"""Every kernel of the corpus and of the authors on meshes of 2, 4, 2 x 2 and 8: value, gradient, collectives.

Each operand is split along the axes of the mesh, its first dimension along the first. Those in `WIDE` are split, and
what they exchange is counted; those in `STUCK` run whole, and say why.
"""

import importlib
import pkgutil
import zlib

import numpy as np
import pytest

import tilewright as tw
from tests.support import authors, corpus
from tests.support.by_numpy import by_numpy
from tests.support.corpus.kit import Size
from tilewright import numpy as tnp
from tilewright.sharding import NamedSharding, P

MESHES = {"2": ((2,), "x"), "4": ((4,), "x"), "2x2": ((2, 2), "xy"), "8": ((8,), "x")}
MODULES = [importlib.import_module(f"tests.support.corpus.{m.name}") for m in pkgutil.iter_modules(corpus.__path__)]
CORPUS = {m.__name__.rpartition(".")[2]: m for m in MODULES if hasattr(m, "make")}
AUTHORS = {c.name: c for c in authors.EVERY}
# Sizes of which eight devices have whole blocks, and what is exchanged for the value where all arrays are split along
# their first dimension: what each device needs of others, and no more. On any mesh of one axis that is the same.
WIDE = {
    "batched_matmul": (Size(8, 8, 8, 8), []),
    "block_sparse_matmul": (Size(8, 4, 4, 4, 8, 0.5), ["all-gather"] * 5),  # the dense factor, blocks, three lists
    "conv1d": (Size(32, 3, 2, 3), ["all-gather", "permute", "permute"]),  # the taps, and a row of each neighbour
    "conv2d": (Size(32, 8, 3, 3, 2, 2), ["all-gather", "permute", "permute"]),
    "dropout": (Size(64), ["all-gather"]),  # the seed
    "embedding": (Size(8, 10, 8), ["all-gather"] * 2),  # the table and the numbers of its rows
    "flash_attention": (Size(8, 16, 16, 4), []),
    "fused_matmul": (Size(32, 32, 32), ["all-gather"] * 3),  # the matrix, scale and shift
    "int4_matmul": (Size(64, 16, 16, 2), ["all-gather"] * 2),  # the second factor and its scales
    "int8_matmul": (Size(32, 32, 32), ["all-gather"] * 2),  # the second factor and its scales
    "layer_norm": (Size(32, 8, rows=4), ["all-gather"] * 2),  # scale and shift
    "matmul_grid": (Size(32, 32, 32), ["all-gather"]),  # the second factor
    "matmul_loop": (Size(32, 32, 32), ["all-gather"]),
    "reduction": (Size(32, 32), ["all-reduce"] * 2),  # two sums over the rows
    "saxpy": (Size(64, block=4), []),
    "selective_scan": (Size(8, 12, 8, 3), ["all-gather"] * 2),  # what all rows share
    "softmax": (Size(32, 8, rows=4), []),
    "stencil": (Size(32, 12), ["permute"] * 2),  # a row of each neighbour
    "transpose": (Size(32, 32, rows=4, columns=4), []),
}
# Those that are not split so, and why.
STUCK = {
    "async_copy": "no operand follows it",
    "cumsum": "is not split along axes of its grid",
    "grouped_matmul": "the index map of o computes with it",
    "histogram": "its sums do not start at zero",
    "in_place": "the index map of new_w computes with it",
}
FAST = [("softmax", "2"), ("layer_norm", "4"), ("conv1d", "8"), ("in_place", "8"), ("reduction", "2x2")]


def cases(names):
    """Every kernel on every mesh; those that are not fast only where all are asked for."""
    found = [(name, mesh) for name in names for mesh in MESHES]
    return [c if c in FAST else pytest.param(*c, marks=pytest.mark.targets, id="-".join(c)) for c in found]


def split(arrays, mesh):
    shape, names = MESHES[mesh]
    devices = tw.make_mesh(shape, tuple(names))
    return [tw.device_put(a, NamedSharding(devices, P(*names[: np.ndim(a)]))) for a in arrays]


def close(found, wanted, tolerance):
    for a, b in zip(tw.tree.leaves(found), tw.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max(initial=0.0)))


def check(call, arrays, derived, mesh, tolerance=1e-4):
    far = split(arrays, mesh)
    close(tw.jit(call)(*far), by_numpy(call, *arrays), tolerance)
    if derived:

        def loss(*given):
            return sum(tnp.sum(tnp.sin(x)) for x in tw.tree.leaves(call(*given)))

        gradient = tw.grad(loss, tuple(derived))
        close(tw.jit(gradient)(*far), by_numpy(gradient, *arrays), 10 * tolerance)
    return far


@pytest.mark.law
@pytest.mark.parametrize("name, mesh", cases(CORPUS))
def test_the_corpus(name, mesh):
    kernel = CORPUS[name]
    size, wanted = WIDE.get(name, (kernel.SIZES[0], None))
    arrays = kernel.make(np.random.default_rng(zlib.crc32(name.encode())), *size.dims)

    def call(*given):
        return kernel.call(*given, **size.blocks)

    far = check(call, arrays, kernel.DIFFERENTIABLE, mesh)
    told = tw.explain(call, *far).communication
    if mesh == "2x2":
        return
    if wanted is None:
        assert STUCK[name] in told.whole[0][1]
    else:
        assert [c.kind for c in told.collectives] == wanted and not told.whole


@pytest.mark.parametrize("name, mesh", cases(AUTHORS))
def test_those_of_authors(name, mesh):
    case = AUTHORS[name]
    check(case.call, case.operands(), case.derived, mesh, 5 * case.tolerance)
