"""Programs on meshes compiled for slices of TPUs and for several GPUs that need not be here."""

import re
import resource
import subprocess
import sys
import warnings

import pytest

import tilewright as tw
from tests.support.paths import ROOT
from tests.support.rings import gather
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import KernelBodyError, MeshError, UnsupportedError
from tilewright.kernels import collective
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

    wide = struct((1024, 512), "data"), struct((512, 2048), None, "model"), struct((2048, 512), "model")
    split = str(tw.compile(tw.grad(loss, (1, 2)), *wide, target=target, stop="partition"))
    assert "kernel contract" in split and "shard_map" in split  # kernels that are made of standard operations

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


V5E, GPUS = AbstractMesh((2, 2), ("x", "y")), AbstractMesh((4, 2), ("x", "y"))


def on_slice(shape, *spec, mesh=V5E):
    return tw.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, P(*spec)))


HEADS = P(None, "x", "y")
COLLECTIVE = {
    "matmul_reduce_scatter": ((P(None, "x"), P("x")), P("x"), [((256, 512), None, "x"), ((512, 256), "x")]),
    "all_gather_matmul": ((P("x"), P(None, "x")), P(None, "x"), [((256, 512), "x"), ((512, 512), None, "x")]),
    "ring_attention": (HEADS, HEADS, [((1, 512, 4, 128), *HEADS)] * 3),
}
LONG = pytest.mark.targets


@pytest.mark.parametrize("name", ["matmul_reduce_scatter", *(pytest.param(n, marks=LONG) for n in [*COLLECTIVE][1:])])
def test_collective_kernels_compile_for_a_slice_of_tpus(name):
    pytest.importorskip("libtpu")
    ins, outs, arrays = COLLECTIVE[name]
    f = tw.shard_map(lambda *a: getattr(collective, name)(*a, "x"), mesh=V5E, in_specs=ins, out_specs=outs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what a compiler refuses is warned of
        found = tw.compile(f, *(on_slice(*a) for a in arrays), target="tpu:v5e:2x2").as_text()
    assert found.count('custom_call_target="tpu_custom_call"') == 1 and "collective-permute" not in found


@pytest.mark.targets
@pytest.mark.parametrize("way", ["ring", "kernel"])
@pytest.mark.parametrize("name", COLLECTIVE)
def test_collective_kernels_compile_for_eight_gpus(name, way):
    pytest.importorskip("triton")
    ins, outs, arrays = COLLECTIVE[name]
    f = tw.shard_map(lambda *a: getattr(collective, name)(*a, "x", way=way), mesh=GPUS, in_specs=ins, out_specs=outs)
    with warnings.catch_warnings():
        warnings.filterwarnings("error" if way == "ring" else "ignore", "kernel .* is computed by XLA")
        found = tw.compile(f, *(on_slice(*a, mesh=GPUS) for a in arrays), target="cuda:sm_90")
    assert count(found, "collective-permute") >= 3 and not count(found, "all-gather")


@pytest.mark.targets
@pytest.mark.parametrize("target,devices,library", [("tpu:v5e:2x2", 4, "libtpu"), ("cuda:sm_90", 8, "triton")])
def test_the_sharded_step_of_a_gpt_compiles_within_a_minute(target, devices, library):
    pytest.importorskip(library)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "examples/gpt_sharded.py", "--target", target, "--devices", str(devices)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0 and "compiled in" in done.stdout, done.stdout + done.stderr
    assert "computed by XLA" not in done.stderr, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60


def test_a_ring_of_permutes_where_a_tpu_has_no_whole_tiles_to_copy():
    pytest.importorskip("libtpu")
    f = tw.shard_map(lambda q: collective.ring_attention(q, q, q, "x"), mesh=V5E, in_specs=HEADS, out_specs=HEADS)
    program = tw.compile(f, on_slice((1, 64, 4, 32), *HEADS), target="tpu:v5e:2x2", stop="program")
    assert "ppermute" in str(program) and "kernel_call" not in str(program)


def test_what_tpus_refuse_of_kernels_that_communicate():
    def compiled(f, axis="x", **options):
        mapped = tw.shard_map(f, mesh=V5E, in_specs=P(axis), out_specs=P(axis), **options)
        return tw.compile(mapped, on_slice((64, 256), axis), target="tpu:v5e:2x2", stop="emit")

    def parts(x, o, send, receive):
        copy = tl.make_async_remote_copy(x.at[3:7], o.at[3:7], send, receive, {"x": 0})
        copy.start()
        copy.wait()

    with pytest.raises(KernelBodyError, match="takes the barrier semaphore, and says not which"):
        compiled(lambda a: gather(a, 2))
    with pytest.raises(UnsupportedError, match="moves no whole tiles"):
        spec = tl.BlockSpec(memory_space=tl.ANY)
        compiled(tl.kernel_call(parts, tw.ShapeDtypeStruct((32, 256), "float32"), in_specs=[spec], out_specs=spec,
                                scratch_shapes=[tl.SemaphoreType.DMA] * 2))  # fmt: skip
    named = {"compiler_params": tl.tpu.CompilerParams(collective_id=3)}
    compiled(lambda a: gather(a, 2, **named))
    with pytest.raises(MeshError, match="knows the axes"):
        compiled(lambda a: gather(a, 2, "y", **named), "y", axis_names={"y"})
