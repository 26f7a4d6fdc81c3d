"""Arguments and attributes by JAX's names, which most programs leave alone."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.scipy import special

X = tnp.arange(6.0).reshape(2, 3)

PLACE = tw.NamedSharding(tw.make_mesh((1,), ("i",)), tw.P())
RESULTS = [
    ("broadcast", lambda **how: lax.broadcast(X, (2,), **how), "out_sharding"),
    ("broadcast_in_dim", lambda **how: lax.broadcast_in_dim(X, (2, 3), (0, 1), **how), "out_sharding"),
    ("broadcasted_iota", lambda **how: lax.broadcasted_iota("int32", (2,), 0, **how), "out_sharding"),
    ("reshape", lambda **how: lax.reshape(X, (6,), **how), "out_sharding"),
    ("reduce_max", lambda **how: lax.reduce_max(X, (0,), **how), "out_sharding"),
    ("reduce", lambda **how: lax.reduce(X, 0.0, lax.add, (0,), **how), "out_sharding"),
    ("full", lambda **how: lax.full((2,), 1.0, **how), "sharding"),
    ("full_like", lambda **how: lax.full_like(X, 1.0, **how), "sharding"),
    ("x.at", lambda **how: X.at[0].set(1.0, **how), "out_sharding"),
]


@pytest.mark.parametrize("call,name", [row[1:] for row in RESULTS], ids=[row[0] for row in RESULTS])
def test_shardings_of_results(call, name):
    np.testing.assert_array_equal(call(**{name: None}), call())
    placed = call(**{name: PLACE})
    np.testing.assert_array_equal(placed, call())
    assert placed.sharding is PLACE
    with pytest.raises(tw.errors.ArgumentTypeError):
        call(**{name: "x"})


def test_arguments_that_change_nothing():
    assert lax.top_k(X, 1, is_stable=False)[0].tolist() == [[2], [5]]
    assert [v.tolist() for v in lax.unstack(x=X)] == X.tolist()
    assert round(float(lax.log2(8.0, accuracy=lax.AccuracyMode.DEFAULT)), 5) == 3
    gathered = tw.vmap(lambda x: lax.all_gather(x, "i", to="varying"), axis_name="i")(X)
    assert gathered.shape == (2, 2, 3)
    assert tw.linear_transpose(lambda x: 3.0 * x, 1.0, reduce_axes=())(2.0)[0] == 6.0
    with pytest.raises(tw.errors.UnsupportedError):
        tw.linear_transpose(lambda x: 3.0 * x, 1.0, reduce_axes=("i",))


def test_jit_by_platform_and_with_flags():
    f = tw.jit(lambda x: x + 1, backend="cpu", compiler_options={"xla_cpu_enable_fast_math": False})
    assert f(X).tolist() == (X + 1).tolist()
    with tw.disable_jit(disable=True):
        assert f(1) == 2
    lowered = f.lower(X)
    assert lowered.compile({"xla_cpu_enable_fast_min_max": True})(X).tolist() == (X + 1).tolist()
    for level in ("O0", 19, tw.CompilerEffortLevel.O1):
        assert tw.jit(lambda x: -x, compiler_options={"optimization_level": level})(X).tolist() == (-X).tolist()
    with pytest.raises(tw.errors.ArgumentError, match="memory_fitting_level='O9'(.|\\n)*one of UNKNOWN, O0"):
        lowered.compile({"memory_fitting_level": "O9"})
    with pytest.raises(tw.errors.FailureError, match="xla_no_such_flag"):
        tw.jit(lambda x: x + 2, compiler_options={"xla_no_such_flag": 1})(X)
    with pytest.raises(tw.errors.ArgumentError, match="give one of the two"):
        tw.jit(lambda x: x, device=tw.devices()[0], backend="cpu")
    with pytest.raises(tw.errors.ArgumentTypeError):
        tw.jit(lambda x: x, compiler_options=["xla"])


def test_places_of_before():
    assert tw.experimental.pjit.pjit is tw.jit and tw.experimental.shard_map.shard_map is tw.shard_map
    assert tw.experimental.io_callback is tw.io_callback


def test_static_names_of_checkpoint():
    def f(x, *, power, scale):
        assert isinstance(power, int)
        return scale * x**power

    g = tw.checkpoint(f, static_argnames="power")
    assert tw.grad(lambda x: g(x, power=3, scale=2.0))(2.0) == 24.0


def test_attributes_of_arrays_and_devices():
    device = tw.devices()[0]
    assert X.platform() == device.platform == "cpu" and X.on_device_size_in_bytes() == 24
    assert device.memory_stats() is None or isinstance(device.memory_stats(), dict)
    assert device.host_id == 0 and X.to_device(device).to_device(device).committed
    assert X.flat.tolist() == list(range(6)) and tw.jit(lambda x: x.flat)(X).shape == (6,)
    struct = tw.ShapeDtypeStruct((2,), "float32").update(shape=[3])
    assert struct.shape == (3,) and struct.dtype == np.float32


@pytest.mark.parametrize("dtype", ["int16", "uint8", "float32", "complex64"])
def test_byteswap(dtype):
    values = np.arange(4).reshape(2, 2).astype(dtype)
    found = tw.jit(lambda x: x.byteswap())(values)
    assert np.asarray(found).tobytes() == values.byteswap().tobytes()
    with pytest.raises(tw.errors.ImmutableArrayError):
        tnp.asarray(values).byteswap(inplace=True)


WRONG = {
    "windows": lambda: tnp.hanning("a"),
    "kaiser": lambda: tnp.kaiser(None, 1.0),
    "linspace": lambda: tnp.linspace(0, 1, 2.5),
    "frombuffer": lambda: tnp.frombuffer(3),
    "triangles": lambda: tnp.tril_indices("a"),
    "masks": lambda: tnp.mask_indices(3, "a"),
    "piecewise": lambda: tnp.piecewise(X, 1.5, [1]),
    "along an axis": lambda: tnp.apply_along_axis(None, 0, X),
    "polyfit": lambda: tnp.polyfit(None, None, 1),
    "bernoulli": lambda: special.bernoulli("a"),
    "lpmn": lambda: special.lpmn(None, 1, 0.5),
    "sampling": lambda: tw.random.gamma(tw.random.key(0), 1.0, method="quick"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_that_do_not_fit_are_named_errors(name):
    with pytest.raises((tw.errors.ArgumentError, tw.errors.ArgumentTypeError, tw.errors.ShapeError)) as caught:
        WRONG[name]()
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, TypeError) and caught.value.remedy
