"""The NumPy walker of Triton modules, on modules written by hand: what each operation gives, and what is refused."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from tilewright.core.support.errors import KernelError
from tilewright.emulator import arith, ttir
from tilewright.emulator.ttir import run_ttir
from tilewright.emulator.values import DTYPES, poison

RNG = np.random.default_rng(0)
NAMES = {dtype: name for name, dtype in reversed(DTYPES.items()) if name not in ("index", "ui32")}
BF16 = np.dtype(ml_dtypes.bfloat16)


def text_of(array: np.ndarray) -> str:
    """The MLIR type of an array as a tensor, or of a scalar."""
    name = NAMES[array.dtype]
    return f"tensor<{'x'.join(map(str, array.shape))}x{name}>" if array.shape else name


def through(body: str, out: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """The value %r that a body makes of %a, %b, ... as whole arrays."""
    lines = []

    def pointers(number: int, array: np.ndarray) -> str:
        n, element = array.size, NAMES[array.dtype]
        pointer = f"tensor<{n}x!tt.ptr<{element}>>"
        lines.append(f"""
        %range{number} = tt.make_range {{start = 0 : i32, end = {n} : i32}} : tensor<{n}xi32>
        %base{number} = tt.splat %p{number} : !tt.ptr<{element}> -> {pointer}
        %at{number} = tt.addptr %base{number}, %range{number} : {pointer}, tensor<{n}xi32>""")
        return pointer

    for number, array in enumerate(inputs):
        pointer, name, flat = pointers(number, array), "abcdef"[number], text_of(array.reshape(-1))
        if array.shape:
            lines.append(f"%load{number} = tt.load %at{number} : {pointer}")
            lines.append(f"%{name} = tt.reshape %load{number} : {flat} -> {text_of(array)}")
        else:
            lines.append(f"%{name} = tt.load %p{number} : !tt.ptr<{NAMES[array.dtype]}>")
    lines.append(body)
    number, pointer = len(inputs), pointers(len(inputs), out)
    if out.shape:
        lines.append(f"%flat = tt.reshape %r : {text_of(out)} -> {text_of(out.reshape(-1))}")
    else:
        lines.append(f"%flat = tt.splat %r : {text_of(out)} -> {text_of(out.reshape(-1))}")
    lines.append(f"tt.store %at{number}, %flat : {pointer}")
    arguments = ", ".join(f"%p{i}: !tt.ptr<{NAMES[a.dtype]}>" for i, a in enumerate([*inputs, out]))
    text = f"module {{ tt.func public @k({arguments}) {{ {chr(10).join(lines)}\n tt.return }} }}"
    return run_ttir(text, (1,), [*inputs, poison(out.shape, out.dtype)])[-1]


def like(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def binary(op: str, x: np.ndarray, y: np.ndarray, out: Any = None) -> np.ndarray:
    found = like(*x.shape, dtype=x.dtype if out is None else out)
    return through(f"%r = {op} %a, %b : {text_of(x)}", found, x, y)


def cast(op: str, x: np.ndarray, dtype: Any) -> np.ndarray:
    out = like(*x.shape, dtype=dtype)
    return through(f"%r = {op} %a : {text_of(x)} to {text_of(out)}", out, x)


# ---------------------------------------------------------------------------------------------- arithmetic

INT = st.integers(-(2**31), 2**31 - 1)
WRAP = {"addi": lambda x, y: x + y, "subi": lambda x, y: x - y, "muli": lambda x, y: x * y}
UNSIGNED = {"divui": lambda x, y: x // y, "remui": lambda x, y: x % y, "maxui": max, "minui": min}
SIGNED = {
    "divsi": lambda x, y: int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1),
    "remsi": lambda x, y: int(math.copysign(abs(x) % abs(y), x)),
    "floordivsi": lambda x, y: x // y,
    "ceildivsi": lambda x, y: -(-x // y),
    "maxsi": max,
    "minsi": min,
}


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(INT, INT.filter(lambda y: y not in (0, -1))), min_size=4, max_size=4))
@example([(-(2**31), 7), (-(2**31), 2), (2**31 - 1, -3), (-7, 2)])
def test_integer_operations_are_those_of_python_on_32_bits(pairs):
    x, y = (np.array(c, np.int32) for c in zip(*pairs))
    for table, value in ((WRAP, int), (SIGNED, int), (UNSIGNED, lambda v: int(v) % 2**32)):
        for name, f in table.items():
            expected = [f(value(a), value(b)) % 2**32 for a, b in zip(x, y)]
            assert (binary(f"arith.{name}", x, y).view(np.uint32) == expected).all(), name


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(INT, st.integers(0, 31)), min_size=4, max_size=4))
def test_shifts_and_bit_counts(pairs):
    x, y = (np.array(c, np.int32) for c in zip(*pairs))
    whole = [int(v) % 2**32 for v in x]
    assert (binary("arith.shli", x, y).view(np.uint32) == [(v << int(s)) % 2**32 for v, s in zip(whole, y)]).all()
    assert (binary("arith.shrui", x, y).view(np.uint32) == [v >> int(s) for v, s in zip(whole, y)]).all()
    assert (binary("arith.shrsi", x, y) == [int(v) >> int(s) for v, s in zip(x, y)]).all()
    out = like(4, dtype=np.int32)
    counts = {
        "ctlz": lambda v: 32 - v.bit_length(),
        "ctpop": int.bit_count,
        "cttz": lambda v: 32 if v == 0 else (v & -v).bit_length() - 1,
    }
    for name, f in counts.items():
        assert (through(f"%r = math.{name} %a : tensor<4xi32>", out, x) == [f(v) for v in whole]).all(), name


def test_products_of_full_width():
    x, y = np.array([2**31 - 1, -5, -(2**31), 7], np.int32), np.array([2**31 - 1, 9, -(2**31), -1], np.int32)
    for name, view in (("mulsi", lambda v: v), ("mului", lambda v: v % 2**32)):
        exact = [(view(int(a)) * view(int(b))) % 2**64 for a, b in zip(x, y)]
        for half, body in ((0, "%r, %h"), (32, "%l, %r")):
            got = through(f"{body} = arith.{name}_extended %a, %b : tensor<4xi32>", x, x, y)
            assert (got.view(np.uint32) == [(e >> half) % 2**32 for e in exact]).all()
    high = through("%r = tt.mulhiui %a, %b : tensor<4xi32>", x, x, y)
    assert (high.view(np.uint32) == [((int(a) % 2**32) * (int(b) % 2**32)) >> 32 for a, b in zip(x, y)]).all()


def test_booleans_are_one_bit():
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    for name, f in {"addi": np.logical_xor, "muli": np.logical_and, "ori": np.logical_or}.items():
        assert (binary(f"arith.{name}", x, y) == f(x, y)).all()
    assert (cast("arith.extsi", x, np.int32) == [-1, -1, 0, 0]).all()
    assert (cast("arith.extui", x, np.int32) == [1, 1, 0, 0]).all()
    assert (cast("arith.uitofp", x, np.float32) == [1, 1, 0, 0]).all()
    assert (cast("arith.trunci", np.array([2, 3, -1, 0], np.int32), bool) == [False, True, True, False]).all()


def test_comparisons_of_integers_and_of_what_is_not_a_number():
    x, y = np.array([-1, 1, 0, 5], np.int32), np.array([1, -1, 0, 7], np.int32)
    for name, f, view in (
        ("slt", np.less, np.int32), ("ult", np.less, np.uint32), ("sge", np.greater_equal, np.int32),
        ("ugt", np.greater, np.uint32), ("eq", np.equal, np.int32), ("ule", np.less_equal, np.uint32),
    ):  # fmt: skip
        got = through(f"%r = arith.cmpi {name}, %a, %b : tensor<4xi32>", like(4, dtype=bool), x, y)
        assert (got == f(x.view(view), y.view(view))).all(), name
    x, y = np.array([1, np.nan, 2, 3], np.float32), np.array([1, 1, 3, np.nan], np.float32)
    nan = np.array([False, True, False, True])
    for name, f in {"lt": np.less, "eq": np.equal, "ge": np.greater_equal, "ne": np.not_equal}.items():
        for prefix, expected in (("o", f(x, y) & ~nan), ("u", f(x, y) | nan)):
            got = through(f"%r = arith.cmpf {prefix}{name}, %a, %b : tensor<4xf32>", like(4, dtype=bool), x, y)
            assert (got == expected).all(), prefix + name


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64])
def test_floats_round_to_their_type(dtype):
    x, y = RNG.standard_normal((2, 16)).astype(dtype)
    wide = np.promote_types(np.float32, dtype) if dtype != BF16 else np.dtype(np.float32)
    for name, f in {"addf": np.add, "mulf": np.multiply, "divf": np.divide, "maximumf": np.maximum}.items():
        expected = f(x.astype(wide), y.astype(wide)).astype(dtype)
        np.testing.assert_array_equal(binary(f"arith.{name}", x, y), expected)
    positive = np.abs(x) + dtype(1) if dtype is not BF16 else (np.abs(x) + x.dtype.type(1))
    functions = {
        "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "erf": special.erf, "floor": np.floor,
        "rsqrt": lambda v: 1 / np.sqrt(v), "exp2": np.exp2, "log2": np.log2, "absf": np.abs, "cos": np.cos,
    }  # fmt: skip
    for name, f in functions.items():
        got = through(f"%r = math.{name} %a : {text_of(positive)}", positive, positive)
        np.testing.assert_allclose(
            got.astype(float), f(positive.astype(wide)).astype(dtype).astype(float), rtol=1e-6, err_msg=name
        )


def test_casts():
    x = np.array([1.5, -2.7, 300.2, -0.49], np.float32)
    assert (cast("arith.fptosi", x, np.int32) == [1, -2, 300, 0]).all()
    assert (cast("arith.fptosi", x, np.int8) == [1, -2, -128, 0]).all()  # 300 does not fit: poison
    assert (cast("arith.truncf", x, BF16) == x.astype(BF16)).all()
    assert (cast("arith.extf", x.astype(np.float16), np.float32) == x.astype(np.float16)).all()
    assert (cast("arith.sitofp", np.array([-1, 2], np.int8), np.float32) == [-1, 2]).all()
    assert (cast("arith.uitofp", np.array([-1, 2], np.int8), np.float32) == [255, 2]).all()
    assert (cast("arith.bitcast", x, np.int32) == x.view(np.int32)).all()
    fp8 = np.dtype(ml_dtypes.float8_e4m3fn)
    got = through("%r = tt.fp_to_fp %a, rounding = rtne : tensor<4xf32> -> tensor<4xf8E4M3FN>",
                  like(4, dtype=fp8), np.array([1.06, 1e4, -1e4, np.nan], np.float32))  # fmt: skip
    np.testing.assert_array_equal(got.astype(np.float32), [1.0, 448, -448, np.nan])
    got = through("%r = tt.fp_to_fp %a, rounding = rtz : tensor<2xf32> -> tensor<2xbf16>",
                  like(2, dtype=BF16), np.array([1.007, -1.007], np.float32))  # fmt: skip
    np.testing.assert_array_equal(got.astype(np.float32), [1, -1])


def test_what_llvm_leaves_undefined():
    x = np.array([1, 2], np.int32)
    with pytest.raises(KernelError, match="division by zero"):
        binary("arith.divsi", x, np.array([1, 0], np.int32))
    with pytest.raises(KernelError, match="division by zero"):
        binary("arith.remui", x, np.array([1, 0], np.int32))
    with pytest.raises(KernelError, match="divided by -1"):
        binary("arith.divsi", np.array([1, -(2**31)], np.int32), np.array([-1, -1], np.int32))
    assert binary("arith.shli", x, np.array([1, 32], np.int32))[1] == np.iinfo(np.int32).min


def test_constants_of_every_kind():
    for value, out in (
        ("dense<[1.0, -2.5]> : tensor<2xbf16>", np.array([1, -2.5], BF16)),
        ("dense<[0x7F80, 1.5]> : tensor<2xbf16>", np.array([np.inf, 1.5], BF16)),
        ("dense<2.0> : tensor<2xf8E5M2>", np.array([2, 2], ml_dtypes.float8_e5m2)),
        ("dense<[true, false]> : tensor<2xi1>", np.array([True, False])),
        ("dense<[[1, 2], [3, -4]]> : tensor<2x2xi64>", np.array([[1, 2], [3, -4]])),
        ("255 : i8", np.array(-1, np.int8)),
        ("true", np.array(True)),
        ("0x7F800000 : f32", np.array(np.inf, np.float32)),
    ):
        np.testing.assert_array_equal(through(f"%r = arith.constant {value}", out), out)


# ---------------------------------------------------------------------------------------------- shapes


def test_shapes():
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    t = text_of(x)
    np.testing.assert_array_equal(
        through(f"%r = tt.trans %a {{order = array<i32: 1, 0>}} : {t} -> tensor<8x4xf32>", like(8, 4), x), x.T
    )
    np.testing.assert_array_equal(
        through(f"%r = tt.reshape %a : {t} -> tensor<2x16xf32>", like(2, 16), x), x.reshape(2, 16)
    )
    body = f"""%e = tt.expand_dims %a {{axis = 1 : i32}} : {t} -> tensor<4x1x8xf32>
               %r = tt.broadcast %e : tensor<4x1x8xf32> -> tensor<4x2x8xf32>"""
    np.testing.assert_array_equal(through(body, like(4, 2, 8), x), np.stack([x, x], 1))
    joined = through(f"%r = tt.join %a, %b : {t} -> tensor<4x8x2xf32>", like(4, 8, 2), x, -x)
    np.testing.assert_array_equal(joined, np.stack([x, -x], -1))
    for body, expected in (("%r, %s", joined[..., 0]), ("%s, %r", joined[..., 1])):
        got = through(f"{body} = tt.split %a : tensor<4x8x2xf32> -> {t}", like(4, 8), joined)
        np.testing.assert_array_equal(got, expected)


def test_gather_and_its_bounds():
    x, i = RNG.standard_normal((4, 8)).astype(np.float32), RNG.integers(0, 4, (2, 8)).astype(np.int32)
    body = "%r = tt.gather %a[%b] {axis = 0 : i32} : (tensor<4x8xf32>, tensor<2x8xi32>) -> tensor<2x8xf32>"
    np.testing.assert_array_equal(through(body, like(2, 8), x, i), np.take_along_axis(x, i, 0))
    with pytest.raises(KernelError, match="tt.gather: an index is out of the 4"):
        through(body, like(2, 8), x, i + 4)


def test_a_broadcast_value_is_stored():
    text = """module { tt.func public @k(%p: !tt.ptr<i32>, %n: i32) {
      %r = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
      %b = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
      %a = tt.addptr %b, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      %x = tt.splat %n : i32 -> tensor<8xi32>
      tt.store %a, %x : tensor<8x!tt.ptr<i32>>
      tt.return } }"""
    assert (run_ttir(text, (1,), [like(8, dtype=np.int32), 3])[0] == 3).all()


def test_histogram():
    values = RNG.integers(0, 8, 32).astype(np.int32)
    body = "%r = tt.histogram %a : tensor<32xi32> -> tensor<8xi32>"
    assert (through(body, like(8, dtype=np.int32), values) == np.bincount(values, minlength=8)).all()


# ---------------------------------------------------------------------------------------------- regions

SUM = "^bb0(%x: f32, %y: f32): %z = arith.addf %x, %y : f32\n tt.{0}.return %z : f32"


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_and_scans_are_those_of_numpy(axis):
    x = RNG.integers(-9, 9, (4, 8)).astype(np.float32)
    rest = "8" if axis == 0 else "4"
    reduce, scan = SUM.format("reduce"), SUM.format("scan")
    body = f"""%r = "tt.reduce"(%a) <{{axis = {axis} : i32}}> ({{ {reduce} }})
               : (tensor<4x8xf32>) -> tensor<{rest}xf32>"""
    np.testing.assert_array_equal(through(body, like(int(rest)), x), x.sum(axis))
    for reverse, expected in (("false", x.cumsum(axis)), ("true", np.flip(np.flip(x, axis).cumsum(axis), axis))):
        body = f"""%r = "tt.scan"(%a) <{{axis = {axis} : i32, reverse = {reverse}}}> ({{ {scan} }})
                   : (tensor<4x8xf32>) -> tensor<4x8xf32>"""
        np.testing.assert_array_equal(through(body, like(4, 8), x), expected)


def test_reduction_of_several_operands():
    x, i = RNG.permutation(32).astype(np.float32).reshape(4, 8), np.tile(np.arange(8, dtype=np.int32), (4, 1))
    body = """%m, %r = "tt.reduce"(%a, %b) <{axis = 1 : i32}> ({
      ^bb0(%x: f32, %i: i32, %y: f32, %j: i32):
        %c = arith.cmpf ogt, %x, %y : f32
        %v = arith.select %c, %x, %y : f32
        %k = arith.select %c, %i, %j : i32
        tt.reduce.return %v, %k : f32, i32 }) : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xi32>)"""
    assert (through(body, like(4, dtype=np.int32), x, i) == x.argmax(1)).all()


def test_loops_branches_and_calls():
    body = """%c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c6 = arith.constant 6 : i32
      %f = scf.for %i = %c0 to %c6 step %c1 iter_args(%s = %c0) -> (i32) : i32 {
        %even = arith.andi %i, %c1 : i32
        %odd = arith.cmpi eq, %even, %c1 : i32
        %n = scf.if %odd -> i32 { %t = arith.addi %s, %i : i32
          scf.yield %t : i32 } else { scf.yield %s : i32 }
        scf.yield %n : i32 }
      %r = scf.while (%w = %f) : (i32) -> i32 {
        %less = arith.cmpi slt, %w, %a : i32
        scf.condition(%less) %w : i32
      } do { ^bb0(%w: i32): %d = arith.muli %w, %w : i32
        scf.yield %d : i32 }"""
    assert through(body, like(dtype=np.int32), np.array(100, np.int32)) == 6561  # 1 + 3 + 5, squared twice
    text = """module {
      tt.func public @k(%p: !tt.ptr<i32>, %q: !tt.ptr<i32>) {
        %x = tt.load %p : !tt.ptr<i32>
        %y:2 = tt.call @swap(%x, %x) : (i32, i32) -> (i32, i32)
        tt.store %q, %y#0 : !tt.ptr<i32>
        tt.return }
      tt.func private @swap(%a: i32, %b: i32) -> (i32, i32) {
        %n = arith.constant 3 : i32
        %c = arith.cmpi sgt, %a, %n : i32
        cf.cond_br %c, ^big(%a : i32), ^small
      ^big(%v: i32): tt.return %v, %n : i32, i32
      ^small: tt.return %n, %b : i32, i32 } }"""
    for x, expected in ((7, 7), (1, 3)):
        assert run_ttir(text, (1,), [np.array([x], np.int32), like(1, dtype=np.int32)])[1] == expected


# ---------------------------------------------------------------------------------------------- matrix products


@pytest.mark.parametrize(
    ("dtype", "out"),
    [(np.float32, np.float32), (np.float16, np.float32), (BF16, np.float32), (np.float16, np.float16),
     (ml_dtypes.float8_e5m2, np.float32), (np.int8, np.int32), (np.float64, np.float64)],
)  # fmt: skip
def test_dot(dtype, out):
    dtype = np.dtype(dtype)
    x, y = (RNG.integers(-4, 4, s).astype(dtype) for s in ((16, 32), (32, 16)))
    acc = RNG.integers(-4, 4, (16, 16)).astype(out)
    body = f"%r = tt.dot %a, %b, %c, inputPrecision = ieee : {text_of(x)} * {text_of(y)} -> {text_of(acc)}"
    expected = x.astype(np.float64) @ y.astype(np.float64) + acc
    np.testing.assert_array_equal(through(body, acc, x, y, acc), expected.astype(out))


def test_dot_in_tf32_rounds_its_operands():
    x, y = RNG.standard_normal((2, 16, 16)).astype(np.float32)
    body = "%r = tt.dot %a, %b, %c{} : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>"
    ieee = through(body.format(", inputPrecision = ieee"), x, x, y, np.zeros_like(x))
    tf32 = through(body.format(", inputPrecision = tf32"), x, x, y, np.zeros_like(x))
    np.testing.assert_allclose(ieee, x @ y, rtol=1e-5, atol=1e-5)
    assert 1e-5 < np.abs(tf32 - ieee).max() < 1e-2
    assert (ttir.round_tf32(np.array([1 + 2**-11, 1 + 2**-12], np.float32)) == [1 + 2**-10, 1]).all()


# ---------------------------------------------------------------------------------------------- memory

SHIFTED = """module { tt.func public @k(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>, %n: i32) {
  %r = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
  %s = tt.splat %n : i32 -> tensor<8xi32>
  %m = arith.cmpi slt, %r, %s : tensor<8xi32>
  %v = arith.constant dense<5.0> : tensor<8xf32>
  %pp = tt.splat %p : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %qq = tt.splat %q : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %pa = tt.addptr %pp, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  %qa = tt.addptr %qq, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  %x = LOAD : tensor<8x!tt.ptr<f32>>
  tt.store STORE : tensor<8x!tt.ptr<f32>>
  tt.return } }"""


def shifted(load: str, store: str, n: int, size: int = 8) -> np.ndarray:
    text = SHIFTED.replace("LOAD", load).replace("STORE", store)
    return run_ttir(text, (1,), [np.arange(5, dtype=np.float32), poison(size, np.dtype(np.float32)), n])[1]


def test_masks_and_bounds():
    np.testing.assert_array_equal(shifted("tt.load %pa, %m, %v", "%qa, %x", 3), [0, 1, 2, 5, 5, 5, 5, 5])
    nan = np.nan
    np.testing.assert_array_equal(shifted("tt.load %pa, %m", "%qa, %x", 3), [0, 1, 2, nan, nan, nan, nan, nan])
    np.testing.assert_array_equal(shifted("tt.load %pa, %m", "%qa, %x, %m", 3, 4), [0, 1, 2, nan])
    for load, store, n, size, what in (
        ("tt.load %pa", "%qa, %x", 3, 8, "load out of bounds: byte 20 of operand 0, which has 20"),
        ("tt.load %pa, %m", "%qa, %x", 6, 8, "load out of bounds"),
        ("tt.load %pa, %m", "%qa, %x", 3, 4, "store out of bounds: byte 16 of operand 1"),
    ):
        with pytest.raises(KernelError, match=what) as caught:
            shifted(load, store, n, size)
        assert what.split()[0] in caught.value.__notes__[0]


def test_a_pointer_before_its_buffer_or_between_elements_is_refused():
    text = """module { tt.func public @k(%p: !tt.ptr<i8>, %n: i32) {
      %q = tt.addptr %p, %n : !tt.ptr<i8>, i32
      %w = tt.bitcast %q : !tt.ptr<i8> -> !tt.ptr<f32>
      %x = tt.load %w : !tt.ptr<f32>
      tt.return } }"""
    run_ttir(text, (1,), [np.zeros(8, np.int8), 4])
    for n, what in ((-4, "load through a pointer into no buffer"), (2, "no multiple of 4"), (6, "out of bounds")):
        with pytest.raises(KernelError, match=what):
            run_ttir(text, (1,), [np.zeros(8, np.int8), n])


def atomic(op: str, sem: str, values: np.ndarray, at: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, t = values.size, NAMES[values.dtype]
    text = f"""module {{ tt.func public @k(%p: !tt.ptr<{t}>, %i: !tt.ptr<i32>, %v: !tt.ptr<{t}>, %o: !tt.ptr<{t}>) {{
      %r = tt.make_range {{start = 0 : i32, end = {n} : i32}} : tensor<{n}xi32>
      %is = tt.splat %i : !tt.ptr<i32> -> tensor<{n}x!tt.ptr<i32>>
      %ia = tt.addptr %is, %r : tensor<{n}x!tt.ptr<i32>>, tensor<{n}xi32>
      %at = tt.load %ia : tensor<{n}x!tt.ptr<i32>>
      %vs = tt.splat %v : !tt.ptr<{t}> -> tensor<{n}x!tt.ptr<{t}>>
      %va = tt.addptr %vs, %r : tensor<{n}x!tt.ptr<{t}>>, tensor<{n}xi32>
      %x = tt.load %va : tensor<{n}x!tt.ptr<{t}>>
      %ps = tt.splat %p : !tt.ptr<{t}> -> tensor<{n}x!tt.ptr<{t}>>
      %pa = tt.addptr %ps, %at : tensor<{n}x!tt.ptr<{t}>>, tensor<{n}xi32>
      %old = tt.atomic_rmw {op}, {sem}, gpu, %pa, %x : (tensor<{n}x!tt.ptr<{t}>>, tensor<{n}x{t}>) -> tensor<{n}x{t}>
      %os = tt.splat %o : !tt.ptr<{t}> -> tensor<{n}x!tt.ptr<{t}>>
      %oa = tt.addptr %os, %r : tensor<{n}x!tt.ptr<{t}>>, tensor<{n}xi32>
      tt.store %oa, %old : tensor<{n}x!tt.ptr<{t}>>
      tt.return }} }}"""
    after = run_ttir(text, (1,), [start, at, values, poison(n, values.dtype)])
    return after[0], after[3]


@pytest.mark.parametrize("repeated", [False, True])
def test_atomics_are_one_update_after_the_other(repeated):
    at = RNG.integers(0, 4, 16).astype(np.int32) if repeated else RNG.permutation(16).astype(np.int32)
    for op, dtype, f in (
        ("fadd", np.float32, np.add), ("add", np.int32, np.add), ("max", np.int32, np.maximum),
        ("umax", np.int32, lambda x, y: max(x, y, key=lambda n: int(n) % 2**32)), ("and", np.int32, np.bitwise_and),
        ("exch", np.float32, lambda x, y: y),
    ):  # fmt: skip
        values, start = RNG.integers(-9, 9, (2, 16)).astype(dtype)
        expected, old = start.copy(), np.zeros(16, dtype)
        for i, (place, v) in enumerate(zip(at, values)):
            old[i], expected[place] = expected[place], f(expected[place], v)
        got = atomic(op, "acq_rel", values, at, start)
        np.testing.assert_array_equal(got[0], expected)
        np.testing.assert_array_equal(got[1], old)


def test_compare_and_swap():
    text = """module { tt.func public @k(%p: !tt.ptr<i32>, %q: !tt.ptr<i32>) {
      %a = arith.constant 4 : i32
      %b = arith.constant 9 : i32
      %o = tt.atomic_cas acq_rel, gpu, %p, %a, %b : (!tt.ptr<i32>, i32, i32) -> i32
      tt.store %q, %o : !tt.ptr<i32>
      tt.return } }"""
    for start, after in ((4, 9), (5, 5)):
        got = run_ttir(text, (1,), [np.array([start], np.int32), np.zeros(1, np.int32)])
        assert (got[0][0], got[1][0]) == (after, start)


DESCRIPTORS = """module {{ tt.func public @k(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>, %i: i32, %j: i32) {{
  %n = arith.constant 6 : i32
  %m = arith.constant {columns} : i32
  %one = arith.constant 1 : i64
  %row = arith.constant {columns} : i64
  %d = tt.make_tensor_descriptor %p, [%n, %m], [%row, %one] : !tt.ptr<f32>, !tt.tensordesc<tensor<4x4xf32>>
  %e = tt.make_tensor_descriptor %q, [%n, %m], [%row, %one] : !tt.ptr<f32>, !tt.tensordesc<tensor<4x4xf32>>
  %x = tt.descriptor_load %d[%i, %j] : !tt.tensordesc<tensor<4x4xf32>> -> tensor<4x4xf32>
  tt.descriptor_store %e[%i, %j], %x : !tt.tensordesc<tensor<4x4xf32>>, tensor<4x4xf32>
  tt.return }} }}"""


def test_descriptors_fill_with_zeros_and_drop_what_is_outside():
    x = RNG.standard_normal((6, 8)).astype(np.float32)
    for i, j in ((0, 0), (4, 4), (4, 6), (-2, 3)):
        after = run_ttir(DESCRIPTORS.format(columns=8), (1,), [x, np.full_like(x, np.nan), i, j])[1]
        expected = np.full_like(x, np.nan)
        window = slice(max(i, 0), max(i + 4, 0)), slice(max(j, 0), max(j + 4, 0))
        expected[window] = x[window]
        np.testing.assert_array_equal(after, expected)
    with pytest.raises(KernelError, match="not in 16 bytes"):
        run_ttir(DESCRIPTORS.format(columns=7), (1,), [x[:, :7], x[:, :7], 0, 0])


TILE = """module {{ tt.func public @k(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {{
  %z = arith.constant 0 : i32
  %n = arith.constant 512 : i32
  %one = arith.constant 1 : i64
  %d = tt.make_tensor_descriptor %p, [%n], [%one] : !tt.ptr<f32>, !tt.tensordesc<tensor<{n}xf32>>
  %e = tt.make_tensor_descriptor %q, [%n], [%one] : !tt.ptr<f32>, !tt.tensordesc<tensor<{n}xf32>>
  %x = tt.descriptor_load %d[%z] : !tt.tensordesc<tensor<{n}xf32>> -> tensor<{n}xf32>
  {first}
  gpu.barrier
  {second}
  tt.return }} }}"""
STORE = "tt.descriptor_store {}[%z], %x : !tt.tensordesc<tensor<8xf32>>, tensor<8xf32>"
BY_THREADS = "%y = tt.load %q : !tt.ptr<f32>"


@pytest.mark.parametrize(("first", "second", "words"), [
    (STORE.format("%e"), "", None),
    (STORE.format("%e"), STORE.format("%e"), "store of element 0 of operand 1 by the copy engine, after a store"),
    (STORE.format("%d"), "", "store of element 0 of operand 0 by the copy engine, after a load of it by the copy"),
    (STORE.format("%e"), BY_THREADS, "load of element 0 of operand 1 by threads, after a store of it by the copy"),
    (BY_THREADS, STORE.format("%e"), "store of element 0 of operand 1 by the copy engine, after a load of it by thr"),
])  # fmt: skip
def test_no_barrier_orders_the_copy_engine(first, second, words):
    text = TILE.format(n=8, first=first, second=second)
    arrays = [np.zeros(512, np.float32), np.ones(512, np.float32)]
    if words is None:
        run_ttir(text, (1,), arrays)
        return
    with pytest.raises(KernelError, match=words):
        run_ttir(text, (1,), arrays)


@pytest.mark.parametrize(("n", "words"), [(512, "of 256 elements"), (2, "fewer than 16 bytes")])
def test_tiles_have_limits(n, words):
    with pytest.raises(KernelError, match=words):
        run_ttir(TILE.format(n=n, first="", second=""), (1,), [np.zeros(512, np.float32)] * 2)


# ---------------------------------------------------------------------------------------------- the rest


def test_external_functions_and_their_types():
    x = np.abs(RNG.standard_normal(8)).astype(np.float32)
    body = '%r = tt.extern_elementwise %a {{libname = "", libpath = "", pure = true, symbol = "{}"}} : ({}) -> {}'
    for symbol, f in (
        ("__nv_expf", np.exp), ("__nv_erff", special.erf), ("__nv_log1pf", np.log1p), ("__ocml_tanh_f32", np.tanh),
        ("__nv_lgammaf", special.gammaln), ("__nv_fast_expf", np.exp), ("__ocml_rsqrt_f32", lambda v: v**-0.5),
        ("__nv_rsqrtf", lambda v: v**-0.5), ("__nv_erfinvf", special.erfinv),
    ):  # fmt: skip
        np.testing.assert_allclose(through(body.format(symbol, text_of(x), text_of(x)), x, x / 4), f(x / 4), rtol=1e-5)
    for symbol, what in (("__nv_exp", "is of float64, and is given float32"), ("__nv_magic", "no function")):
        with pytest.raises(KernelError, match=what):
            through(body.format(symbol, text_of(x), text_of(x)), x, x)
    y = np.array([1, 0, 255, -1], np.int32)
    assert (through(body.format("__nv_clz", text_of(y), text_of(y)), y, y) == [31, 32, 24, 0]).all()


IDS = """module {
  tt.func public @k(%p: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %n: i32 {tt.divisibility = 4 : i32}) {
  %x = tt.get_program_id x : i32
  %y = tt.get_program_id y : i32
  %w = tt.get_num_programs x : i32
  %r = arith.muli %y, %w : i32
  %i = arith.addi %r, %x HINT: i32
  %q = tt.addptr %p, %i : !tt.ptr<i32>, i32
  tt.store %q, %i : !tt.ptr<i32>
  tt.return } }"""


def test_programs_in_any_order():
    for order in (None, np.random.default_rng(1)):
        got = run_ttir(IDS.replace("HINT", ""), (3, 2), [np.zeros(6, np.int32), 8], order)[0]
        assert (got == np.arange(6)).all()


def test_accesses_that_race_are_refused():
    text = IDS.replace("HINT", "").replace("tt.addptr %p, %i", "tt.addptr %p, %y")  # programs of one column
    assert run_ttir(text, (3, 2), [np.zeros(6, np.int32), 8], races=False)[0][1] == 5
    with pytest.raises(KernelError, match="race: a store of element 0 of operand 0 by program 1, after a store of it"):
        run_ttir(text, (3, 2), [np.zeros(6, np.int32), 8])
    reading = text.replace("tt.store %q, %i : ", "%s = tt.load %q :")
    run_ttir(reading, (3, 2), [np.zeros(6, np.int32), 8])
    text = """module { tt.func public @k(%p: !tt.ptr<i32>) {
      %r = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
      %b = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
      %a = tt.addptr %b, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      tt.store %a, %r : tensor<8x!tt.ptr<i32>>
      BETWEEN
      %c = arith.constant dense<7> : tensor<8xi32>
      %o = arith.OP %r, %c : tensor<8xi32>
      %d = tt.addptr %b, %o : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      %x = tt.load %d : tensor<8x!tt.ptr<i32>>
      tt.return } }"""
    mirrored, same, one = (text.replace("OP", op) for op in ("subi", "remui", "andi"))
    run_ttir(mirrored.replace("BETWEEN", "gpu.barrier").replace("%r, %c", "%c, %r"), (1,), [np.zeros(8, np.int32)])
    run_ttir(one.replace("BETWEEN", ""), (1,), [np.zeros(8, np.int32)])
    with pytest.raises(KernelError, match="by another thread of the program, with no barrier between"):
        run_ttir(mirrored.replace("BETWEEN", "").replace("%r, %c", "%c, %r"), (1,), [np.zeros(8, np.int32)])
    with pytest.raises(KernelError, match="a load of element 0 of operand 0 after a store"):
        run_ttir(same.replace("BETWEEN", ""), (1,), [np.zeros(8, np.int32)])
    clash = text.replace("tt.store %a, %r", "tt.store %b, %r").replace("BETWEEN", "").replace("OP", "andi")
    with pytest.raises(KernelError, match="different values to one element"):
        run_ttir(clash, (1,), [np.zeros(8, np.int32)])


def test_promises_are_checked():
    text = IDS.replace("HINT", "{tt.divisibility = dense<2> : tensor<1xi32>} ")
    run_ttir(text, (1, 1), [np.zeros(6, np.int32), 8])
    with pytest.raises(KernelError, match="tt.divisibility"):
        run_ttir(text, (2, 1), [np.zeros(6, np.int32), 8])
    with pytest.raises(KernelError, match="argument 1 is 6, and was promised to be a multiple of 4"):
        run_ttir(text, (1, 1), [np.zeros(6, np.int32), 6])
    for hint, good in (("contiguity = dense<8>", 1), ("constancy = dense<4>", 0), ("constancy = dense<2>", 0)):
        body = f"""%c = arith.constant dense<{4 if good else 2}> : tensor<8xi32>
          %i = tt.make_range {{start = 0 : i32, end = 8 : i32}} : tensor<8xi32>
          %r = arith.OP %i, %c {{tt.{hint} : tensor<1xi32>}} : tensor<8xi32>"""
        out = like(8, dtype=np.int32)
        if hint != "constancy = dense<4>":
            through(body.replace("OP", "addi" if good else "divsi"), out)
        with pytest.raises(KernelError, match="does not hold along axis 0"):
            through(body.replace("OP", "muli" if good else "remsi"), out)


def test_refusals():
    with pytest.raises(KernelError, match="the instructions 'mov' are not known"):
        through('%r = tt.elementwise_inline_asm "mov" {constraints = "=r,r", packed_element = 1 : i32, pure = true} %a'
                " : tensor<2xi32> -> tensor<2xi32>", like(2, dtype=np.int32), like(2, dtype=np.int32))  # fmt: skip
    with pytest.raises(KernelError, match="tt.assert: too big"):
        through("""%z = arith.constant dense<0> : tensor<2xi32>
          %c = arith.cmpi slt, %a, %z : tensor<2xi32>
          tt.assert %c, "too big" : tensor<2xi1>
          %r = arith.addi %a, %z : tensor<2xi32>""", like(2, dtype=np.int32), like(2, dtype=np.int32))  # fmt: skip
    with pytest.raises(KernelError, match="takes 2 arguments, and is given 1"):
        run_ttir(IDS.replace("HINT", ""), (1,), [np.zeros(6, np.int32)])
    with pytest.raises(KernelError, match="points to int32, and is given int64"):
        run_ttir(IDS.replace("HINT", ""), (1,), [np.zeros(6, np.int64), 8])


def test_every_rule_is_of_an_operation_that_exists():
    from jaxlib.mlir.dialects import _arith_ops_gen, _gpu_ops_gen, _math_ops_gen
    from jaxlib.triton import _triton_ops_gen

    known = {
        op.OPERATION_NAME
        for module in (_arith_ops_gen, _gpu_ops_gen, _math_ops_gen, _triton_ops_gen)
        for op in vars(module).values()
        if hasattr(op, "OPERATION_NAME")
    }
    assert set(arith.RULES) <= known
    assert set(ttir.RULES) <= known
