"""Callbacks of programs on meshes: ordered ones, those with results, and those within a `shard_map`."""

from collections import defaultdict

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp
from tilewright.errors import UnsupportedError
from tilewright.sharding import AxisType, Mesh, NamedSharding
from tilewright.sharding import PartitionSpec as P


def row(*devices):
    return Mesh(np.array(devices or tw.devices()), ("x",), axis_types=(AxisType.Auto,))


MESHES = pytest.mark.parametrize("mesh", [row(), row(tw.devices()[0])], ids=["eight", "one"])


@MESHES
@pytest.mark.parametrize("ordered", [False, True])
def test_results_of_callbacks_on_a_mesh(mesh, ordered):
    split = NamedSharding(mesh, P("x"))

    def f(x):
        return x + tw.io_callback(lambda x: x * 2, tw.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=ordered)

    x = np.arange(16.0, dtype=np.float32)
    out = tw.jit(f, in_shardings=split, out_shardings=split)(x)
    assert out.sharding == split
    np.testing.assert_array_equal(out, 3 * x)


@MESHES
@pytest.mark.parametrize("result", [False, True])
def test_each_device_keeps_the_order_of_its_callbacks(mesh, result):
    seen = defaultdict(list)

    def f(i, x):
        for n in range(2):
            tw.io_callback(lambda i, x: seen[int(i[0])].append(x), None, i, x + n, ordered=True)
        return x * 2 if result else None

    spec = P("x")
    mapped = tw.jit(tw.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec if result else None))
    x = np.arange(16)
    out = mapped(tnp.arange(mesh.size), tnp.asarray(x))
    tw.effects_barrier()
    parts = np.split(x, mesh.size)
    assert sorted(seen) == list(range(mesh.size))
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(seen[i], [part, part + 1])
    if result:
        np.testing.assert_array_equal(out, 2 * x)


@MESHES
def test_printing_within_a_map(mesh, capfd):
    def f(x):
        tw.debug.print("part {}", tw.lax.axis_index("x"))
        return tw.lax.psum(x, "x")

    tw.jit(tw.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P()))(tnp.arange(8.0)).block_until_ready()
    tw.effects_barrier()
    assert sorted(capfd.readouterr().out.split()[1::2]) == [str(i) for i in range(mesh.size)]


GRID = tw.make_mesh((4, 2), ("x", "y"))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("axis", ["x", "y"])
def test_printing_within_a_map_over_some_axes(axis, ordered, capfd):
    def f(x):
        for i in range(2):
            tw.debug.print("{} {}", i, x[0], ordered=ordered)
        return tw.lax.fori_loop(0, 2, lambda i, x: (tw.debug.print("loop {}", x.shape), x + 1)[1], x)

    x = np.arange(16.0, dtype=np.float32).reshape(8, 2)
    mapped = tw.jit(tw.shard_map(f, mesh=GRID, in_specs=P(axis), out_specs=P(axis), axis_names={axis}))
    np.testing.assert_array_equal(mapped(tw.device_put(x, NamedSharding(GRID, P(None, axis)))), x + 2)
    tw.effects_barrier()
    lines = capfd.readouterr().out.splitlines()
    n = GRID.shape[axis]
    printed = sorted(line for line in lines if "loop" not in line)
    assert printed == sorted(f"{i} {row}" for i in range(2) for row in x[:: 8 // n])
    assert len(lines) == 4 * n


@pytest.mark.parametrize("axes", [{"x", "y"}, {"x"}])
@pytest.mark.parametrize("operands", [0, 1])
def test_printing_of_constants_within_a_map(axes, operands, capfd):
    """The callback, and the map in the first case, have neither operands nor results."""
    def f(*xs):
        tw.debug.print("a line")
        return xs

    x = np.arange(8.0, dtype=np.float32)
    mapped = tw.jit(tw.shard_map(f, mesh=GRID, in_specs=(P("x"),) * operands, out_specs=P("x"), axis_names=axes))
    for out in mapped(*[x] * operands):
        np.testing.assert_array_equal(out, x)
    tw.effects_barrier()
    assert capfd.readouterr().out.splitlines() == ["a line"] * (8 if len(axes) == 2 else 4)


def test_a_callback_with_effects_and_results_in_a_map_over_some_axes():
    def f(x):
        return tw.io_callback(lambda x: x, tw.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.raises(UnsupportedError, match="leaves .'y'. to the compiler"):
        tw.jit(tw.shard_map(f, mesh=GRID, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}))(np.ones(4))
