"""`Array`: its values, its conversions, its memory, and what it refuses."""

import copy
import pickle
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.core.ir.types import THREEFRY, ArrayType
from tilewright.xla_backend.arrays.array import Array, as_array
from tilewright.xla_backend.arrays.transfer import put

DTYPES = [
    "bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64",
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4,
]  # fmt: skip


def keys(n: int = 2) -> Array:
    """An array of random keys whose words count up."""
    type = ArrayType((n,), THREEFRY)
    return Array(type, put(np.arange(2 * n, dtype=np.uint32).reshape(n, 2), type))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype):
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    x = as_array(values)
    assert x.dtype == values.dtype and x.shape == (2, 3) and x.size == 6 and x.ndim == 2 and x.nbytes == values.nbytes
    back = np.asarray(x)
    assert back.dtype == values.dtype and np.array_equal(back, values) and not back.flags.writeable
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype == x.dtype and np.array_equal(np.asarray(again), values)


def test_numpy_data_is_copied_and_results_are_views():
    values = np.arange(64, dtype=np.float32)
    x = as_array(values)
    values[0] = 7
    assert x[0] == 0 if hasattr(x, "__getitem__") else True
    assert np.asarray(x).__array_interface__["data"][0] == x.unsafe_buffer_pointer()
    assert np.array(x).flags.writeable
    assert np.asarray(x, dtype=np.float64).dtype == np.float64


def test_64_bit_data_narrows_unless_asked_for():
    assert as_array(np.arange(3)).dtype == np.int32
    assert as_array(np.ones(2)).dtype == np.float32
    with tw.config(enable_x64=True):
        assert as_array(np.arange(3)).dtype == np.int64
        assert (as_array(np.ones(2)) + 1.0).dtype == np.float64


def test_scalars_are_weak_and_signed_zeros_kept():
    x = as_array(1.5)
    assert x.weak_type and x.shape == () and repr(x) == "Array(1.5, dtype=float32, weak_type=True)"
    assert str(as_array(0.0)) == "0.0" and str(as_array(-0.0)) == "-0.0"
    one = as_array(np.ones(2, np.float32))
    assert np.signbit(np.asarray(one * -0.0)).all() and not np.signbit(np.asarray(one * 0.0)).any()
    assert as_array(True).dtype == bool and as_array(1).dtype == np.int32 and as_array(1j).dtype == np.complex64
    with pytest.raises(OverflowError):
        as_array(2**40)


def test_text():
    assert repr(as_array(np.array([1, 2], np.float32))) == "Array([1., 2.], dtype=float32)"
    assert str(as_array(np.array([1, 2], np.float32))) == "[1. 2.]"
    assert repr(as_array(np.zeros((0, 3), np.int32))) == "Array([], shape=(0, 3), dtype=int32)"
    assert repr(as_array(np.eye(2, dtype=np.int32))) == "Array([[1, 0],\n       [0, 1]], dtype=int32)"
    assert f"{as_array(np.float32(2.5)):.2f}" == "2.50"
    assert repr(as_array(np.ones(2, ml_dtypes.bfloat16))) == "Array([1, 1], dtype=bfloat16)"
    assert "key<fry>" in repr(keys())


def test_python_conversions():
    three = as_array(np.int32(3))
    assert int(three) == 3 and float(three) == 3.0 and complex(three) == 3 and [0, 1, 2, 3][three] == 3 and bool(three)
    assert three.item() == 3 and as_array(np.arange(3)).tolist() == [0, 1, 2]
    assert len(as_array(np.arange(5))) == 5
    assert [float(v) for v in as_array(np.arange(3.0))] == [0.0, 1.0, 2.0]
    assert [v.shape for v in as_array(np.ones((2, 3)))] == [(3,), (3,)]
    assert bool(as_array(np.ones((1, 1)))) and 2 in as_array(np.arange(3))


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda x: bool(x), tw.errors.ArgumentError),
        (lambda x: float(x), tw.errors.ArgumentTypeError),
        (lambda x: x.__index__(), tw.errors.ArgumentTypeError),
        (lambda x: hash(x), TypeError),
        (lambda x: len(as_array(1.0)), tw.errors.ArgumentTypeError),
        (lambda x: iter(as_array(1.0)), tw.errors.ArgumentTypeError),
        (lambda x: x.__setitem__(0, 1.0), tw.errors.ImmutableArrayError),
        (lambda x: np.asarray(keys()), tw.errors.DtypeError),
        (lambda x: as_array("text"), tw.errors.NonArrayArgumentError),
    ],
)
def test_refusals(act, error):
    with pytest.raises(error):
        act(as_array(np.arange(3.0)))


def test_in_place_assignment_says_what_to_write():
    x = as_array(np.arange(3.0))
    with pytest.raises(tw.errors.ImmutableArrayError, match=r"x = x\.at\[i\]\.set\(v\)"):
        x[0] = 1.0
    with pytest.raises(tw.errors.ImmutableArrayError):
        del x[0]


def test_deleted():
    x = as_array(np.arange(3.0))
    x.delete()
    assert x.is_deleted() and "deleted" in repr(x) and "deleted" in str(x)
    for act in (np.asarray, Array.block_until_ready, Array.is_ready, Array.copy, lambda v: v.item(), lambda v: v + 1):
        with pytest.raises(tw.errors.DeletedArrayError, match="donated or deleted"):
            act(x)


def test_copies_have_buffers_of_their_own():
    x = as_array(np.arange(3.0))
    for y in (x.copy(), copy.copy(x), copy.deepcopy(x)):
        assert y.unsafe_buffer_pointer() != x.unsafe_buffer_pointer() and np.array_equal(y, x)


def test_keys_pickle_and_copy():
    x = keys(3)
    for y in (pickle.loads(pickle.dumps(x)), x.copy()):
        assert y.aval is x.aval and np.array_equal(y._bits(), x._bits())
    assert [k.aval.show() for k in x] == ["key<fry>[]"] * 3


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "bool", "complex64"])
def test_dlpack_shares_memory_with_numpy(dtype):
    x = as_array(np.ones(64, dtype))
    y = np.from_dlpack(x)
    assert y.dtype == dtype and y.__array_interface__["data"][0] == x.unsafe_buffer_pointer()
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_numpy_defers_to_our_operators():
    x = as_array(np.arange(3, dtype=np.float32))
    for y in (np.ones(3, np.float32) + x, np.float32(1) + x, x + np.ones(3, np.float32), 1 + x, x + 1):
        assert isinstance(y, Array) and y.tolist() == [1, 2, 3]
    assert isinstance(np.sin(x), Array) and isinstance(np.asarray(x), np.ndarray)


def test_operators_have_the_meaning_of_numpy():
    x, y = np.array([5, -7, 9], np.int32), np.array([3, 2, -4], np.int32)
    a, b = as_array(x), as_array(y)
    for op in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lt", "le", "eq", "ne", "gt", "ge"):
        for _ in range(2):  # compiled, then found
            assert np.array_equal(getattr(a, f"__{op}__")(b), getattr(x, f"__{op}__")(y)), op
            assert np.array_equal(getattr(a, f"__{op}__")(2), getattr(x, f"__{op}__")(2)), op
    for _ in range(2):
        assert (2 - a).tolist() == [-3, 9, -7] and (-a).tolist() == [-5, 7, -9] and (~a).tolist() == (~x).tolist()
        assert np.allclose(a / b, x / y) and np.allclose(2 / b, 2 / y) and (a**2).tolist() == [25, 49, 81]
        assert (a == 5.0).tolist() == [True, False, False]
    assert a.__add__("text") is NotImplemented


def test_operators_follow_the_configuration():
    x = as_array(np.arange(3, dtype=np.float32))
    assert (x + 1.0).dtype == np.float32
    with tw.config(enable_x64=True):
        y = as_array(np.arange(3.0))
        assert (y + 1.0).dtype == np.float64 and (y + x).dtype == np.float64 and (x + 1.0).dtype == np.float32
    assert (x + 1.0).dtype == np.float32
    with tw.config(disable_jit=True):
        assert (x + x).tolist() == [0, 2, 4]


def test_device_and_readiness():
    x = as_array(np.ones(3))
    assert x.devices() == {tw.devices()[0]} and x.device.platform == "cpu" and x.sharding.device_set == x.devices()
    assert x.block_until_ready() is x and x.is_ready()
    y = tw.device_put({"a": np.ones(2, np.float32)}, tw.devices()[0])
    assert tw.device_get(y)["a"].tolist() == [1, 1] and tw.block_until_ready(y) is y
    assert tw.default_backend() == "cpu" and tw.device_count() == len(tw.local_devices())
    with pytest.raises(tw.errors.ArgumentError, match="platform"):
        tw.devices("abacus")


def test_several_virtual_devices():
    code = """
        import numpy as np
        import tilewright as tw
        from tilewright.xla_backend.devices import client

        client.set_num_cpu_devices(3)
        first, second, third = tw.devices()
        x = tw.device_put(np.arange(3, dtype=np.float32), second)
        assert x.device is second and (x + x).device is second and (x + 1).tolist() == [1, 2, 3]
        table = np.ones(3, np.float32)
        f = tw.jit(lambda v, w=0.0: v * 2 + table + w)
        assert f(x).device is second and f(x, 1.0).tolist() == [2, 4, 6] and f(table).device is first
        assert tw.jit(lambda v: v, device=third)(table).device is third
        with tw.config(default_device=third):
            assert f(table).device is third and f(table).tolist() == [3, 3, 3]
        try:
            x + tw.device_put(x, third)
        except tw.errors.ArgumentError as error:
            assert "device_put" in str(error)
        else:
            raise AssertionError("arrays on two devices were added")
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr
