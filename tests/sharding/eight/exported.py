"""Exports of programs on a mesh: called on meshes of as many devices, within programs, by jax and of jax."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import export, lax, random
from tilewright import numpy as tnp
from tilewright.core.support.errors import ExportError, MeshError, UnsupportedError
from tilewright.sharding import AxisType, Mesh, NamedSharding, P, use_mesh

MESH = tw.make_mesh((4, 2), ("x", "y"))
A, B = np.arange(32, dtype=np.float32).reshape(8, 4) / 8, np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
SPECS, OUT = (P("x", "y"), P(None, "y")), P("x")


def on(*spec, mesh=MESH):
    return NamedSharding(mesh, P(*spec))


def step(a, b):
    return tnp.sin(a) @ b


def placed(mesh=MESH):
    return [tw.device_put(v, NamedSharding(mesh, s)) for v, s in zip((A, B), SPECS)]


def again(made, order=0):
    return export.deserialize(made.serialize(order))


@pytest.fixture(scope="module")
def made():
    f = tw.jit(step, in_shardings=tuple(NamedSharding(MESH, s) for s in SPECS), out_shardings=NamedSharding(MESH, OUT))
    return export.export(f)(A, B)


def test_it_lies_as_it_was_exported_on_any_mesh_of_as_many_devices(made):
    loaded = again(made)
    assert loaded.nr_devices == 8
    assert (loaded.in_shardings, loaded.out_shardings) == (made.in_shardings, made.out_shardings)
    assert [s.spec for s in (*made.in_shardings, *made.out_shardings)] == [*SPECS, OUT]
    turned = Mesh(MESH.devices[::-1], ("x", "y"))
    for mesh in (MESH, turned, tw.make_mesh((2, 4), ("u", "v"))):
        given = [tw.device_put(v, NamedSharding(mesh, P())) for v in (A, B)]
        found = loaded.call(given[0], B)  # the second is brought there
        assert found.sharding.mesh.flat == mesh.flat and found.sharding.spec == OUT
        np.testing.assert_allclose(found, np.sin(A) @ B, rtol=1e-5)
    with use_mesh(MESH):
        np.testing.assert_allclose(loaded.call(A, B), np.sin(A) @ B, rtol=1e-5)


def test_another_number_of_devices_is_refused(made):
    two = tw.make_mesh((2,), ("x",))
    for args, count in (([A, B], 1), ([tw.device_put(v, on(mesh=two)) for v in (A, B)], 2)):
        with pytest.raises(ExportError, match=f"exported for 8 devices, and is called on {count}"):
            made.call(*args)
    with pytest.raises((ExportError, MeshError), match="devices"):
        tw.jit(made.call, in_shardings=on(mesh=two))(A, B)


def test_within_programs_and_its_derivative(made):
    loaded = again(made, 1)
    whole = tw.jit(lambda a, b: 2 * loaded.call(a + 0, b) + loaded.call(a, b))
    np.testing.assert_allclose(whole(*placed()), 3 * np.sin(A) @ B, rtol=1e-5)
    for find in (tw.grad(lambda a, b: loaded.call(a, b).sum(), (0, 1)),
                 tw.jit(tw.grad(lambda a, b: loaded.call(a, b).sum(), (0, 1)))):  # fmt: skip
        for found, want in zip(find(*placed()), tw.grad(lambda a, b: step(a, b).sum(), (0, 1))(A, B), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_shard_maps_constants_and_keys():
    held = tw.device_put(B, on(None, "y"))

    def mapped(x, key):
        f = tw.shard_map(lambda x: lax.psum(x, "x"), mesh=MESH, in_specs=P("x"), out_specs=P())
        return f(x) @ held[:, :2], random.uniform(key, (8,), out_sharding=on("x"))

    key = random.key(3)
    loaded = again(export.export(tw.jit(mapped))(tw.device_put(A, on("x")), key))
    found = loaded.call(tw.device_put(A, on("x")), key)
    np.testing.assert_allclose(found[0], A.reshape(4, 2, 4).sum(0) @ B[:, :2], rtol=1e-5)
    assert np.array_equal(found[1], random.uniform(key, (8,)))


def test_axes_that_types_tell_of_and_a_mesh_of_one_device():
    for shape in ((8,), (1,)):
        mesh = tw.make_mesh(shape, ("x",), axis_types=(AxisType.Explicit,))
        x = tw.device_put(A, on("x", mesh=mesh))
        loaded = again(export.export(tw.jit(tnp.sin))(x))
        assert loaded.nr_devices == shape[0] and loaded.in_shardings[0].mesh.axis_types == (AxisType.Explicit,)
        np.testing.assert_allclose(loaded.call(x), np.sin(A), rtol=1e-6)
        np.testing.assert_allclose(tw.jit(loaded.call)(x), np.sin(A), rtol=1e-6)
    np.testing.assert_allclose(loaded.call(A), np.sin(A), rtol=1e-6)  # that of one device, on the default one


def test_sizes_that_are_symbolic_or_do_not_divide_are_refused():
    f = export.export(tw.jit(tnp.sin, in_shardings=on("x")))
    with pytest.raises(ExportError, match="does not divide"):
        f(np.ones(10, np.float32))
    (n,) = export.symbolic_shape("n")
    with pytest.raises(UnsupportedError, match="symbolic sizes"):
        f(tw.ShapeDtypeStruct((n,), "float32"))


def test_to_jax_and_from_jax(made):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_num_cpu_devices", 8)
    here = jax.sharding.Mesh(np.array(jax.devices("cpu")).reshape(4, 2), ("x", "y"))
    theirs = [jax.sharding.NamedSharding(here, jax.P(*s)) for s in (*SPECS, OUT)]
    args = [jax.device_put(v, s) for v, s in zip((A, B), theirs)]
    read = jax.export.deserialize(made.serialize(1))
    assert read.nr_devices == 8 and list(read.in_shardings_jax(here)) == theirs[:2]
    found = jax.jit(read.call)(*args)
    assert found.sharding.is_equivalent_to(theirs[2], 2)
    np.testing.assert_allclose(found, np.sin(A) @ B, rtol=1e-5)
    slope = jax.jit(jax.grad(lambda a, b: read.call(a, b).sum()))(*args)
    np.testing.assert_allclose(slope, np.cos(A) * B.sum(1), rtol=1e-5)
    f = jax.jit(lambda a, b: jax.numpy.sin(a) @ b, in_shardings=tuple(theirs[:2]), out_shardings=theirs[2])
    loaded = export.deserialize(jax.export.export(f)(A, B).serialize(1))
    assert loaded.nr_devices == 8 and [s.spec for s in loaded.in_shardings] == [*SPECS]
    found = loaded.call(*placed())
    assert found.sharding == NamedSharding(MESH, OUT)
    np.testing.assert_allclose(found, np.sin(A) @ B, rtol=1e-5)
    np.testing.assert_allclose(tw.grad(lambda a: loaded.call(a, B).sum())(placed()[0]), np.cos(A) * B.sum(1), rtol=1e-5)
