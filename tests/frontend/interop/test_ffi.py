"""Foreign functions: compiled ones, those of ctypes, Python ones on buffers; what goes wrong is named."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import tilewright as tw
from tilewright import export, ffi
from tilewright.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExecutionError,
    ExportError,
    ForeignFunctionError,
    NoDerivativeError,
    ShapeError,
    UnsupportedError,
)
from tilewright.experimental.buffer_callback import buffer_callback

F32 = np.float32
SOURCE = r"""
#include <cstdint>
#include <string_view>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
static ffi::Error Axpy(float a, int64_t n, std::string_view name, ffi::Span<const int64_t> v, F32 x, F32 y,
                       ffi::ResultBuffer<ffi::F32> out) {
  if (name == "bad") return ffi::Error::InvalidArgument("no such name");
  for (size_t i = 0; i < x.element_count(); ++i)
    out->typed_data()[i] = a * x.typed_data()[i] + y.typed_data()[i] + n + v[0];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(axpy, Axpy, ffi::Ffi::Bind().Attr<float>("a").Attr<int64_t>("n")
    .Attr<std::string_view>("name").Attr<ffi::Span<const int64_t>>("v").Arg<F32>().Arg<F32>().Ret<F32>());
static ffi::Error Add(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = x.typed_data()[i] + 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(add_one, Add, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());
"""


@pytest.fixture(scope="module")
def axpy(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("ffi")
    (folder / "axpy.cc").write_text(SOURCE)
    flags = ["-std=c++17", "-shared", "-fPIC", "-O0", "-w", "-I", ffi.include_dir()]
    subprocess.run([compiler, *flags, folder / "axpy.cc", "-o", folder / "axpy.so"], check=True)
    library = ctypes.CDLL(str(folder / "axpy.so"))
    ffi.register_ffi_target("tests_axpy", ffi.pycapsule(library.axpy))
    ffi.register_ffi_target("tests_add_one", {"execute": ffi.pycapsule(library.add_one)})

    def call(x, y, method="broadcast_all", **attributes):
        given = {"a": F32(2), "n": 1, "name": "ok", "v": [10, 20]} | attributes
        return ffi.ffi_call("tests_axpy", tw.ShapeDtypeStruct(x.shape, x.dtype), vmap_method=method)(x, y, **given)

    return call


def test_a_compiled_function_takes_arrays_and_typed_attributes(axpy):
    x = np.arange(6, dtype=F32).reshape(2, 3)
    want = 3 * x + 11
    for f in (axpy, tw.jit(axpy)):
        np.testing.assert_array_equal(f(x, x), want)
    np.testing.assert_array_equal(axpy(x, x, a=F32(0), n=np.int64(5), v=np.array([1])), x + 6)
    for method in ("broadcast_all", "sequential", "sequential_unrolled"):
        got = tw.vmap(lambda x, y, m=method: axpy(x, y, m), (0, None))(x, x[0])
        np.testing.assert_array_equal(got, 2 * x + x[0] + 11)
    with pytest.raises(NoDerivativeError, match="ffi_call has no derivative"):
        tw.grad(lambda x: axpy(x, x).sum())(x)
    with pytest.raises(UnsupportedError, match="without a vmap_method"):
        tw.vmap(lambda x: axpy(x, x, None))(x)
    for attributes, message in (({"name": "bad"}, "no such name"), ({"z": 1}, "expected 4 but got 5"),
                                ({"a": 2.0}, "expected F32 but got F64")):  # fmt: skip
        with pytest.raises(ExecutionError, match=message):
            axpy(x, x, **attributes).block_until_ready()
    with pytest.raises(ArgumentTypeError, match="the attribute tests_axpy.a is"):
        axpy(x, x, a=object())


def test_aliases_layouts_and_exports_by_name(axpy):
    x = np.arange(6, dtype=F32).reshape(2, 3)
    shape = tw.ShapeDtypeStruct((2, 3), F32)
    aliased = ffi.ffi_call("tests_add_one", shape, input_output_aliases={0: 0})
    array = tw.numpy.asarray(x)
    np.testing.assert_array_equal(tw.jit(aliased)(array), x + 1)
    np.testing.assert_array_equal(array, x)  # which somebody still has
    turned = ffi.ffi_call("tests_add_one", shape, input_layouts=[(1, 0)], output_layouts=(0, 1))(x)
    np.testing.assert_array_equal(turned, (x + 1).T.reshape(2, 3))
    with pytest.raises(ShapeError, match="share memory"):
        ffi.ffi_call("tests_add_one", tw.ShapeDtypeStruct((6,), F32), input_output_aliases={0: 0})(x)
    with pytest.raises(ShapeError, match="input layouts"):
        ffi.ffi_call("tests_add_one", shape, input_layouts=[(0,)])(x)
    plain = tw.jit(lambda x: ffi.ffi_call("tests_add_one", shape)(x) * 2)
    with pytest.raises(ExportError, match="calls 'tests_add_one', which is registered in this process"):
        export.export(plain)(x)
    allowed = [export.DisabledSafetyCheck.custom_call("tests_add_one")]
    loaded = export.deserialize(export.export(plain, disabled_checks=allowed)(x).serialize())
    np.testing.assert_array_equal(loaded.call(x), 2 * x + 2)


def test_a_function_of_ctypes_is_called_untyped_and_what_does_not_fit_is_named():
    kind = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.POINTER(ctypes.c_float)))

    @kind
    def double(out, ins):
        for i in range(4):
            out[i] = 2 * ins[0][i]

    ffi.register_ffi_target("tests_double", ffi.pycapsule(double), api_version=0)
    x, shape = np.arange(4, dtype=F32), tw.ShapeDtypeStruct((4,), F32)
    untyped = ffi.ffi_call("tests_double", shape, custom_call_api_version=2, legacy_backend_config="")
    np.testing.assert_array_equal(tw.jit(untyped)(x), 2 * x)
    with pytest.raises(ForeignFunctionError, match="was registered as untyped, with api_version=0, and is called by"):
        ffi.ffi_call("tests_double", shape)(x)
    with pytest.raises(ForeignFunctionError, match="'tests_double' is registered for cpu with api_version 0"):
        ffi.register_ffi_target("tests_double", ffi.pycapsule(double))
    with pytest.raises(ForeignFunctionError, match="'tests_nowhere' is not registered for cpu"):
        tw.jit(ffi.ffi_call("tests_nowhere", shape))(x)
    with pytest.raises(ArgumentTypeError, match="wrap the function|of type int"):
        ffi.register_ffi_target("tests_other", 3)
    for wrong in ({"api_version": 7}, {"fn": {"begin": ffi.pycapsule(double)}}):
        with pytest.raises(ArgumentError):
            ffi.register_ffi_target(**{"name": "tests_other", "fn": ffi.pycapsule(double)} | wrong)
    rule = ffi.ffi_lowering("tests_double", backend_config="", api_version=2)
    twice = tw.Primitive("twice", typing=lambda t: t, multiple=False,
                         expand=lambda x: rule(type("Context", (), {"avals_out": [tw.typeof(x)]}), x)[0])  # fmt: skip
    np.testing.assert_array_equal(tw.jit(twice.bind)(x), 2 * x)


def test_python_functions_fill_buffers_and_their_errors_are_handed_on():
    x, shape = np.arange(4, dtype=F32), tw.ShapeDtypeStruct((4,), F32)

    def add(context, out, x, *, by):
        np.add(np.asarray(x), np.asarray(by), out=np.asarray(out["y"]))

    call = buffer_callback(add, {"y": shape}, vmap_method="broadcast_all")
    np.testing.assert_array_equal(tw.jit(call)(x, by=x)["y"], 2 * x)
    np.testing.assert_array_equal(tw.vmap(lambda x: call(x, by=x[::-1])["y"])(np.stack([x, -x]))[1], [-3, -3, -3, -3])

    def write(context, out, x):
        np.asarray(x)[...] = 0

    with pytest.raises(ExecutionError, match="read-only") as caught:
        buffer_callback(write, shape)(x).block_until_ready()
    assert isinstance(caught.value.raised, ValueError)

    class Own(Exception):
        pass

    def fail(x):
        raise Own("the user's words")

    with pytest.raises(ExecutionError, match="the user's words") as caught:
        tw.jit(lambda x: tw.pure_callback(fail, shape, x))(x).block_until_ready()
    assert isinstance(caught.value.raised, Own)

    def inplace(context, out, x):
        np.asarray(out)[...] += 1

    shared = tw.jit(buffer_callback(inplace, shape, input_output_aliases={0: 0}))
    np.testing.assert_array_equal(shared(x), x + 1)
