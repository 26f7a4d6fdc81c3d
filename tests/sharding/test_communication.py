"""What programs on meshes communicate, told without devices; pictures of shardings."""

import pytest

import tilewright as tw
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.core.support.errors import ArgumentError, CommunicationError, MeshError, UnsupportedError
from tilewright.sharding import AbstractMesh, NamedSharding, P, with_sharding_constraint
from tilewright.xla_backend.partitioning.collective_report import compiled_collectives

MESH = AbstractMesh((32, 32), ("data", "model"))


def struct(shape, *spec):
    return tw.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(MESH, P(*spec)))


def mlp(x, w, v):
    return tnp.tanh(x @ w) @ v


def test_a_plan_for_a_thousand_devices():
    args = struct((4096, 8192), "data"), struct((8192, 32768), None, "model"), struct((32768, 8192), "model")
    found = tw.explain(mlp, *args, target="tpu:v5e").communication
    (one,) = found.collectives
    assert (one.kind, one.axes, one.members, one.bytes, one.written) == ("all-reduce", ("model",), 32, 2**22, False)
    assert one.line.startswith(__file__) and one.sent == 2 * 31 / 32 * 2**22
    # 32 chips are two rows of a slice of 16 x 16: a line along one axis of the torus, a ring along the other
    assert found.seconds == pytest.approx(one.sent / (0.75 * 200e9) + 2 * 5 * 1e-6)
    assert "all-reduce over model (32)" in str(tw.explain(mlp, *args))
    with pytest.raises(CommunicationError, match="all-reduce over model"):
        tw.explain(mlp, *args, communication="error")
    whole = tw.jit(lambda x: 2 * x, out_shardings=NamedSharding(MESH, P()))
    (gather,) = tw.explain(whole, struct((64, 2), "data")).communication.collectives
    assert (gather.kind, gather.axes, gather.bytes) == ("all-gather", ("data",), 512)


def test_collectives_between_slices_take_the_network():
    def seconds(axis, target, shape=(512, 2), size=2**24):
        mesh = AbstractMesh(shape, ("outer", "inner"))
        x = tw.ShapeDtypeStruct((shape[0] * shape[1], size // 4), "float32",
                                sharding=NamedSharding(mesh, P(("outer", "inner"))))  # fmt: skip
        f = tw.shard_map(lambda x: lax.psum(x, axis), mesh=mesh, in_specs=P(("outer", "inner")),
                         out_specs=P("inner" if axis == "outer" else "outer"))  # fmt: skip
        return tw.explain(f, x, target=target).communication.seconds

    assert seconds("outer", "tpu:v5e") > 2 * seconds("outer", "tpu:v5p")  # 1024 chips: four slices of v5e, one of v5p
    two_nodes = seconds("outer", "cuda:sm_90", (2, 8))
    assert two_nodes == pytest.approx(2 * 1e-5 + 2**24 / 50e9)
    assert two_nodes > 4 * seconds("inner", "cuda:sm_90", (2, 8))
    assert seconds("inner", "tpu:v5e", size=4) == pytest.approx(2e-6, rel=1e-3)  # a small message costs its latency
    assert seconds("inner", "tpu:v5e") == pytest.approx(2 * 1e-6 + 2**24 / 50e9)  # one link


def test_the_costliest_gather_names_the_spec_that_avoids_it():
    def f(x, w):
        return with_sharding_constraint(x @ w, NamedSharding(MESH, P("data")))

    def worst(*spec):
        found = tw.explain(f, struct((1024, 4096), "data"), struct((4096, 64), *spec), target="tpu:v5e").communication
        return found.costliest_gather

    assert "argument 1" in worst("data").gathers and "the spec P() would avoid" in worst("data").gathers
    assert worst() is None


def test_collectives_of_the_compiled_program_are_counted():
    pytest.importorskip("libtpu")
    mesh = AbstractMesh((2, 2), ("x", "y"))
    x = tw.ShapeDtypeStruct((8, 256), "float32", sharding=NamedSharding(mesh, P("x", "y")))
    found = tw.explain(tw.jit(lambda x: tnp.sum(x) + tnp.max(x)), x, target="tpu:v5e:2x2", compile=True).communication
    counts = dict(found.compiled)
    assert 1 <= counts["all-reduce"] <= len(found.collectives)
    assert f"in the compiled program: {sum(counts.values())} collectives" in str(found)


def test_a_collective_in_steps_is_counted_once():
    text = """
      %a.1 = f32[128,512]{1,0:T(8,128)} all-gather(%p.1), channel_id=153, dimensions={1}
      %a.2 = f32[128,512]{1,0:T(8,128)} all-gather(%p.2), channel_id=153, dimensions={1}
      %b = (f32[]{:T(128)}, /*index=5*/f32[128]{0:T(128)}) all-reduce(%x, %y), channel_id=7
      %c = f32[4] collective-permute-start(%x), source_target_pairs={{0,1}}, metadata={op_name="all-reduce (7)"}
    """
    assert compiled_collectives(text) == (("all-gather", 1), ("all-reduce", 1), ("permute", 1))


@pytest.mark.parametrize("target", ["tpu:v5e", "cuda:sm_90"])
@pytest.mark.parametrize("spec", [("model",), (None, "model"), ("data", "model")])
def test_a_step_of_adamw_updates_parts_where_they_are(spec, target):
    pytest.importorskip("triton" if target.startswith("cuda") else "numpy")
    w, factor = struct((1024, 2048), *spec), tw.ShapeDtypeStruct((), "int32")
    def step(w, g, m, v, count):
        new, state = nn.adamw({"w": w}, {"w": g}, {"m": {"w": m}, "v": {"w": v}, "count": count}, learning_rate=0.1)
        return new["w"], state["m"]["w"], state["v"]["w"]

    assert tw.explain(tw.jit(step), w, w, w, w, factor, target=target).communication.collectives == ()


def test_what_a_program_writes_is_told_and_allowed():
    step = tw.shard_map(lambda x: lax.psum(x.sum(), "data"), mesh=MESH, in_specs=P("data"), out_specs=P())
    found = tw.explain(step, struct((64, 8), "data"), communication="error").communication
    assert [(c.kind, c.axes, c.bytes, c.written) for c in found.collectives] == [("all-reduce", ("data",), 4, True)]
    x = tw.ShapeDtypeStruct((64,), "int32")
    bare = tw.explain(lambda x: with_sharding_constraint(2 * x, P("model")), x, mesh=MESH)
    assert bare.communication.collectives == () and "no communication" in str(bare)
    with pytest.raises(MeshError, match="no devices"):
        tw.jit(step)(tnp.ones((64, 8)))


def test_pictures(capsys):
    mesh = tw.make_mesh((1, 1), ("x", "y"))
    x = tw.device_put(tnp.ones((2, 2)), NamedSharding(mesh, P("x", "y")))
    tw.debug.visualize_array_sharding(x)
    assert capsys.readouterr().out.splitlines()[1] == "| CPU 0 |"
    tw.debug.inspect_array_sharding(x, callback=lambda s: print(s.spec))
    assert "'x', 'y'" in capsys.readouterr().out
    with pytest.raises(ArgumentError, match="two dimensions"):
        tw.debug.visualize_array_sharding(tw.device_put(tnp.ones((1, 1, 1)), NamedSharding(mesh, P())))
    tw.jit(lambda x: tw.debug.visualize_array_sharding(x))(x)
    assert "| CPU 0 |" in capsys.readouterr().out


def test_a_value_within_a_program_is_inspected_when_that_is_compiled():
    seen = []

    def f(x, w):
        h = tnp.tanh(x @ w)
        tw.debug.inspect_array_sharding(h, callback=lambda s: seen.append(s.spec))
        return h.sum()

    args = struct((4096, 8192), "data"), struct((8192, 32768), None, "model")
    tw.compile(f, *args, stop="print", target="tpu:v5e")
    tw.compile(tw.vmap(tw.grad(f), (None, 1)), *args[:1], struct((8192, 2, 32), None, None, "model"), stop="print",
               target="tpu:v5e")  # fmt: skip
    assert seen == [P("data", "model"), P("data", None, "model")]
    tw.jit(lambda x: tw.debug.inspect_array_sharding(x + 1, callback=seen.append))(tnp.ones(2))
    assert seen[2].device_set == {tw.devices()[0]}
    mapped = tw.shard_map(lambda x: tw.debug.inspect_array_sharding(x, callback=print) or x, mesh=MESH,
                          in_specs=P("data"), out_specs=P("data"))  # fmt: skip
    with pytest.raises(UnsupportedError, match="one device's part"):
        tw.explain(mapped, args[0])
