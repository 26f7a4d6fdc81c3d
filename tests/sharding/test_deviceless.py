"""Programs on meshes compiled for slices of TPUs and for several GPUs that need not be here."""

import re

import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.errors import MeshError
from tilewright.sharding import AbstractMesh, NamedSharding, P

TARGETS = {"tpu:v5e:2x2": ("libtpu", (2, 2)), "cuda:sm_90": ("triton", (4, 2))}


def count(binary, name):
    return len(re.findall(rf"\b{name}(?:-start)?\(", binary.as_text()))


@pytest.mark.parametrize("target", TARGETS)
def test_sharded_steps_compile(target):
    library, sizes = TARGETS[target]
    pytest.importorskip(library)
    mesh = AbstractMesh(sizes, ("data", "model"))

    def struct(shape, *spec):
        return tw.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, P(*spec)))

    def loss(x, w, v):
        return tnp.mean((tnp.tanh(x @ w) @ v) ** 2)

    args = struct((64, 256), "data"), struct((256, 512), None, "model"), struct((512, 256), "model")
    step = tw.compile(tw.grad(loss, (1, 2)), *args, target=target)
    assert count(step, "all-reduce") >= 2  # of the layer's sums along model, of the gradients along data

    def ring(x):
        return lax.psum(lax.ppermute(x, "data", [(0, 1), (1, 0)]), "model")

    mapped = tw.shard_map(ring, mesh=mesh, in_specs=P("data", "model"), out_specs=P("data"))
    found = tw.compile(mapped, struct((64, 256), "data", "model"), target=target)
    assert count(found, "all-reduce") == 1 and count(found, "collective-permute") == 1


def test_a_mesh_of_another_size_than_the_slice():
    pytest.importorskip("libtpu")
    x = tw.ShapeDtypeStruct((64,), "float32", sharding=NamedSharding(AbstractMesh((8,), ("x",)), P("x")))
    with pytest.raises(MeshError, match="has 4"):
        tw.compile(lambda x: x + 1, x, target="tpu:v5e:2x2")
