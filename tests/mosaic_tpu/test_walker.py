"""The NumPy walker of Mosaic TPU modules, on modules written by hand: what operations give, and what is refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.core.support import supported
from tilewright.core.support.errors import KernelError
from tilewright.core.support.version import JAXLIB
from tilewright.emulator import memrefs, mosaic, vectors
from tilewright.emulator.mosaic import run_mosaic
from tilewright.emulator.values import DTYPES, poison

RNG = np.random.default_rng(0)
NAMES = {dtype: name for name, dtype in reversed(DTYPES.items()) if name not in ("index", "ui32")}
BF16 = np.dtype(ml_dtypes.bfloat16)
GRIDLESS = "scalar_prefetch = 0 : i64, scratch_operands = {} : i64, tpu.core_type = #tpu.core_type<tc>"


def vec(array: np.ndarray) -> str:
    return f"vector<{''.join(f'{n}x' for n in array.shape)}{NAMES[array.dtype]}>"


def mem(array: np.ndarray, space: str = "vmem") -> str:
    return f"memref<{''.join(f'{n}x' for n in array.shape)}{NAMES[array.dtype]}, #tpu.memory_space<{space}>>"


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def like(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def zeros(rank: int) -> str:
    return ", ".join(["%zero"] * rank)


OLD_DIALECT = supported.numbers(JAXLIB) < (0, 12)  # with `tpu.repeat`, and reductions named for no type


def module(body: str, arguments: str, scratch: int = 0, attributes: str = "", more: str = "") -> str:
    attributes = attributes or "dimension_semantics = [], " + GRIDLESS.format(scratch)
    return f"""module {{
      func.func @main({arguments}) attributes {{{attributes}}} {{
        %zero = arith.constant 0 : index
        {body}
        return }}
      {more} }}"""


def through(body: str, out: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    """The vector %r that a body makes of %a, %b, ..., with no grid."""
    arguments, lines = [], []
    for name, array in zip("abcdef", inputs):
        arguments.append(f"%m{name}: {mem(array)}")
        lines.append(f"%{name} = vector.load %m{name}[{zeros(array.ndim)}] : {mem(array)}, {vec(array)}")
    arguments.append(f"%mo: {mem(out)}")
    lines.append(body)
    lines.append(f"tpu.vector_store %mo[{zeros(out.ndim)}], %r {{strides = array<i32>}} : {mem(out)}, {vec(out)},")
    text = module("\n".join(lines), ", ".join(arguments))
    return run_mosaic(text, [*inputs, poison(out.shape, out.dtype)])[-1]


# ---------------------------------------------------------------------------------------------- vectors


def test_shapes():
    x = floats(8, 128)
    for body, expected in (
        ("%r = vector.broadcast %a : vector<8x128xf32> to vector<2x8x128xf32>", np.stack([x, x])),
        ("%r = vector.shape_cast %a : vector<8x128xf32> to vector<2x4x128xf32>", x.reshape(2, 4, 128)),
        ("%r = tpu.transpose %a, [1, 0] : vector<8x128xf32> -> vector<128x8xf32>", x.T),
        ("%r = vector.transpose %a, [1, 0] : vector<8x128xf32> to vector<128x8xf32>", x.T),
        ("%r = tpu.concatenate %a, %a in 1 : vector<8x128xf32>, vector<8x128xf32> -> vector<8x256xf32>",
         np.concatenate([x, x], 1)),
        *[("%r = tpu.repeat %a, 1 x 3 : vector<8x128xf32> -> vector<8x384xf32>", np.tile(x, (1, 3)))] * OLD_DIALECT,
        ("""%r = "vector.extract_strided_slice"(%a) <{offsets = [2, 64], sizes = [4, 64], strides = [1, 1]}>
            : (vector<8x128xf32>) -> vector<4x64xf32>""", x[2:6, 64:]),
        ("""%s = vector.extract %a[3] : vector<128xf32> from vector<8x128xf32>
            %r = vector.shape_cast %s : vector<128xf32> to vector<1x128xf32>""", x[3:4]),
        ("""%n = arith.constant 5 : i32
            %r = tpu.dynamic_rotate %a by %n dim 1 : vector<8x128xf32>, i32 -> vector<8x128xf32>""",
         np.roll(x, 5, 1)),
        ("""%n = arith.constant 5 : i32
            %r = tpu.dynamic_rotate %a by %n dim 1 {stride = 2 : si32, stride_dimension = 0 : si32}
            : vector<8x128xf32>, i32 -> vector<8x128xf32>""",
         np.stack([np.roll(row, 5 + 2 * i) for i, row in enumerate(x)])),
    ):  # fmt: skip
        np.testing.assert_array_equal(through(body, like(*expected.shape), x), expected)


def test_iota_counts_along_several_axes():
    got = through("%r = tpu.iota {dimensions = array<i32: 2, 0>} : vector<4x3x2xi32>", like(4, 3, 2, dtype=np.int32))
    assert (got == np.broadcast_to(np.arange(4)[:, None, None] + 4 * np.arange(2), (4, 3, 2))).all()
    got = through("%r = tpu.iota {dimensions = array<i32: 1>} : vector<8x128xi32>", like(8, 128, dtype=np.int32))
    assert (got == np.arange(128)).all()


def test_reductions():
    x = RNG.integers(-9, 9, (3, 5, 128)).astype(np.float32)
    for axes in ((0,), (1,), (2,), (0, 2)):
        shape = tuple(n for d, n in enumerate(x.shape) if d not in axes)
        for kind, f, start in (("add", np.sum, 0.0), ("maximumf", np.max, -np.inf), ("minimumf", np.min, np.inf)):
            bits = np.float32(start).view(np.uint32)
            body = f"""%s = arith.constant dense<0x{bits:08X}> : {vec(like(*shape))}
              %t = vector.multi_reduction <{kind}>, %a, %s {list(axes)} : {vec(x)} to {vec(like(*shape))}
              %r = vector.shape_cast %t : {vec(like(*shape))} to {vec(like(1, *shape))}"""
            np.testing.assert_array_equal(through(body, like(1, *shape), x)[0], f(x, axes))
    y = RNG.permutation(8 * 128).astype(np.float32).reshape(8, 128)
    body = "%r = tpu.reduce_index %a {axis = 1 : i32, kind = #tpu.reduction_kind<arg_max>} : vector<8x128xf32> -> "
    assert (through(body + "vector<8xi32>", like(8, dtype=np.int32), y) == y.argmax(1)).all()
    kind = "max" if OLD_DIALECT else "maxf"
    body = f"%r = tpu.all_reduce %a {{dim = 0 : i64, kind = #tpu.reduction_kind<{kind}>}} : vector<8x128xf32> -> "
    assert (through(body + "vector<8x128xf32>", like(8, 128), y) == y.max(0)).all()


def dims(*lists: list[int]) -> str:
    return f"#tpu.dot_dimension_numbers<{', '.join(map(str, lists))}>"


def test_matrix_products():
    acc = floats(16, 32)
    plain = dims([1], [0], [0], [1], [0, 0, 1, 1], [], [])
    body = "%r = tpu.matmul %a, %b, %c {{dimension_numbers = {}, transpose_lhs_hint = false{}}} : {}, {}, {} -> {}"
    x, y = floats(16, 128), floats(128, 32)
    fp32 = ", precision = #tpu.contract_precision<fp32>"
    for left, right, numbers in (
        (x, y, plain), (x.T.copy(), y, dims([0], [0], [1], [1], [0, 1, 1, 1], [], [])),
        (x, y.T.copy(), dims([1], [1], [0], [0], [0, 0, 1, 0], [], [])),
    ):  # fmt: skip
        text = body.format(numbers, fp32, vec(left), vec(right), vec(acc), vec(acc))
        np.testing.assert_allclose(through(text, acc, left, right, acc), x @ y + acc, rtol=1e-4, atol=1e-4)
    rough = through(body.format(plain, "", vec(x), vec(y), vec(acc), vec(acc)), acc, x, y, acc)
    narrow = x.astype(BF16).astype(np.float32) @ y.astype(BF16).astype(np.float32) + acc
    np.testing.assert_allclose(rough, narrow, rtol=1e-4, atol=1e-4)
    assert np.abs(rough - (x @ y + acc)).max() > 1e-3
    i, j = (RNG.integers(-128, 127, s).astype(np.int8) for s in ((16, 128), (128, 32)))
    zero = like(16, 32, dtype=np.int32)
    exact = through(body.format(plain, "", vec(i), vec(j), vec(zero), vec(zero)), zero, i, j, zero)
    assert (exact == i.astype(np.int32) @ j.astype(np.int32)).all()
    u, v, w = floats(3, 16, 128), floats(3, 128, 32), like(3, 16, 32)
    batch = dims([2], [1], [1], [2], [0, 0, 0, 1, 1, 2], [0], [0])
    got = through(body.format(batch, fp32, vec(u), vec(v), vec(w), vec(w)), w, u, v, w)
    np.testing.assert_allclose(got, u @ v, rtol=1e-4, atol=1e-4)


def test_contraction_by_maps():
    x, y, acc = floats(8, 16), floats(32, 16), like(8, 32)
    body = f"""%r = vector.contract {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}} %a, %b, %c
      : {vec(x)}, {vec(y)} into {vec(acc)}"""
    np.testing.assert_allclose(through(body, acc, x, y, acc), x @ y.T, rtol=1e-5, atol=1e-5)


def test_bits_are_packed_along_rows():
    x = RNG.integers(-(2**31), 2**31, (8, 128)).astype(np.int32)
    got = through("%r = tpu.bitcast %a : vector<8x128xi32> -> vector<16x128xi16>", like(16, 128, dtype=np.int16), x)
    assert (got[::2] == x.astype(np.int16)).all() and (got[1::2] == (x >> 16)).all()
    back = through("%r = tpu.bitcast %a : vector<16x128xi16> -> vector<8x128xi32>", x, got)
    assert (back == x).all()


def test_numbers():
    x = np.array([[1.5, -2.5, 70000.0, 1 / 3, 0.0, np.nan, np.inf, 1e-7]], np.float32)
    body = """%r = tpu.reduce_precision %a {{exponent_bits = {} : i32, mantissa_bits = {} : i32}}
      : vector<1x8xf32> -> vector<1x8xf32>"""
    with np.errstate(over="ignore"):
        for (exponent, mantissa), dtype in (((5, 10), np.float16), ((8, 7), BF16)):
            got = through(body.format(exponent, mantissa), x, x)
            np.testing.assert_array_equal(got, x.astype(dtype).astype(np.float32))
    y = np.array([[0.5, 1.5, -0.5, -1.7]], np.float32)
    out = like(1, 4, dtype=np.int32)
    for mode, expected in (("to_nearest_even", [0, 2, 0, -2]), ("towards_zero", [0, 1, 0, -1])):
        cast = f"""%r = "tpu.fptosi"(%a) <{{rounding_mode = #tpu.rounding_mode<{mode}>}}>
          : (vector<1x4xf32>) -> vector<1x4xi32>"""
        assert (through(cast, out, y) == expected).all()
    z = np.abs(floats(8, 128)) + 1
    np.testing.assert_allclose(
        through("%r = tpu.reciprocal %a : vector<8x128xf32> -> vector<8x128xf32>", z, z), 1 / z, rtol=1e-6
    )
    np.testing.assert_allclose(through("%r = math.rsqrt %a : vector<8x128xf32>", z, z), z**-0.5, rtol=1e-6)


# ---------------------------------------------------------------------------------------------- memory


def copying(load: str, store: str, x: np.ndarray, out: np.ndarray) -> np.ndarray:
    body = f"%one = arith.constant 1 : index\n%big = arith.constant 7 : index\n{load}\n{store}"
    return run_mosaic(module(body, f"%x: {mem(x)}, %o: {mem(out)}"), [x, poison(out.shape, out.dtype)])[-1]


def test_loads_and_stores_and_their_bounds():
    x, out = floats(8, 128), like(8, 128)
    load = "%v = vector.load %x[{}, %zero] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<{}x128xf32>"
    store = "tpu.vector_store %o[{}, %zero], %v {{strides = array<i32>}} : {}, vector<{}x128xf32>,"
    got = copying(load.format("%one", 4), store.format("%zero", mem(out), 4), x, out)
    np.testing.assert_array_equal(got[:4], x[1:5])
    assert np.isnan(got[4:]).all()
    for start, n, to, name in (("%one", 8, "%zero", "vector.load"), ("%zero", 2, "%big", "tpu.vector_store")):
        with pytest.raises(KernelError, match=f"{name} out of bounds: elements . to 8 of axis 0, which has 8"):
            copying(load.format(start, n), store.format(to, mem(out), n), x, out)
    small = like(4, 128)  # a store larger than its memory
    with pytest.raises(KernelError, match="tpu.vector_store out of bounds"):
        copying(load.format("%zero", 8), store.format("%zero", mem(small), 8), x, small)
    strided = """%v = tpu.strided_load %x[%zero, %zero] {strides = array<i32: 2, 1>}
      : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<4x128xf32>"""
    half = like(4, 128)
    np.testing.assert_array_equal(copying(strided, store.format("%zero", mem(half), 4), x, half), x[::2])


def test_masked_store():
    x, mask = floats(8, 128), RNG.integers(0, 2, (8, 128)).astype(np.int32)
    body = f"""%x = vector.load %a[%zero, %zero] : {mem(x)}, {vec(x)}
      %i = vector.load %b[%zero, %zero] : {mem(mask)}, {vec(mask)}
      %c = arith.constant dense<0> : {vec(mask)}
      %k = arith.cmpi ne, %i, %c : {vec(mask)}
      tpu.vector_store %o[%zero, %zero], %x masked %k {{strides = array<i32>}} : {mem(x)}, {vec(x)}, vector<8x128xi1>"""
    text = module(body, f"%a: {mem(x)}, %b: {mem(mask)}, %o: {mem(x)}")
    got = run_mosaic(text, [x, mask, poison(x.shape, x.dtype)])[-1]
    np.testing.assert_array_equal(got, np.where(mask, x, np.nan))


def test_scalars_live_in_smem():
    scalars, out = np.array([3, 1, 2], np.int32), like(1, 128, dtype=np.int32)
    body = f"""%two = arith.constant {{}} : index
      %n = memref.load %s[%two] : {mem(scalars, "{}")}
      %r = vector.broadcast %n : i32 to {vec(out)}
      tpu.vector_store %o[%zero, %zero], %r {{{{strides = array<i32>}}}} : {mem(out)}, {vec(out)},"""
    for place, space, expected in ((2, "smem", 2), (3, "smem", "out of bounds"), (2, "vmem", "memory vmem")):
        text = module(body.format(place, space), f"%s: {mem(scalars, space)}, %o: {mem(out)}")
        if isinstance(expected, int):
            assert (run_mosaic(text, [scalars, out])[-1] == expected).all()
        else:
            with pytest.raises(KernelError, match=expected):
                run_mosaic(text, [scalars, out])


def test_an_input_is_only_read():
    x = floats(8, 128)
    body = f"""%v = arith.constant dense<1.0> : {vec(x)}
      tpu.vector_store %a[%zero, %zero], %v {{strides = array<i32>}} : {mem(x)}, {vec(x)},"""
    with pytest.raises(KernelError, match="into an operand that is only read"):
        run_mosaic(module(body, f"%a: {mem(x)}, %o: {mem(x)}"), [x, x.copy()])


# ---------------------------------------------------------------------------------------------- copies


SEM = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
HBM, VMEM = "memref<8x128xf32, #tpu.memory_space<any>>", "memref<8x128xf32, #tpu.memory_space<vmem>>"
START_IN = f"tpu.enqueue_dma source(%x : {HBM}) target(%s : {VMEM}) target_semaphore(%sem : {SEM})"
WAIT_IN = f"tpu.wait_dma2 semaphore(%sem : {SEM}) src(%x : {HBM}) dst(%s : {VMEM})"
START_OUT = f"tpu.enqueue_dma source(%s : {VMEM}) target(%o : {HBM}) target_semaphore(%sem : {SEM})"
WAIT_OUT = f"tpu.wait_dma2 semaphore(%sem : {SEM}) src(%s : {VMEM}) dst(%o : {HBM})"
DOUBLE = f"""%v = vector.load %s[%zero, %zero] : {VMEM}, vector<8x128xf32>
  %w = arith.addf %v, %v : vector<8x128xf32>
  tpu.vector_store %s[%zero, %zero], %w {{strides = array<i32>}} : {VMEM}, vector<8x128xf32>,"""


def copies(*steps: str) -> np.ndarray:
    text = module("\n".join(steps), f"%x: {HBM}, %o: {HBM}, %s: {VMEM}, %sem: {SEM}", 2)
    return run_mosaic(text, [X, np.full_like(X, np.nan)])[-1]


X = floats(8, 128)


def test_copies_and_what_is_wrong_with_them():
    np.testing.assert_array_equal(copies(START_IN, WAIT_IN, DOUBLE, START_OUT, WAIT_OUT), 2 * X)
    with pytest.raises(KernelError, match="only 0 were started"):
        copies(WAIT_IN, DOUBLE, START_OUT, WAIT_OUT)
    with pytest.raises(KernelError, match="ends with a copy in flight"):
        copies(START_IN, WAIT_IN, DOUBLE, START_OUT)
    early = copies(START_IN, DOUBLE, START_OUT, WAIT_IN, WAIT_OUT)
    assert not np.array_equal(early, 2 * X)  # read before it arrived
    with pytest.raises(KernelError, match="which only copies reach"):
        copies(f"%v = vector.load %x[%zero, %zero] : {HBM}, vector<8x128xf32>")


def test_a_part_of_a_memory():
    x = floats(32, 128)
    big = mem(x, "any")
    body = f"""%row = arith.constant {{}} : i32
      %z = arith.constant 0 : i32
      %p = tpu.memref_slice %x[%row, %z] : {big} -> {HBM}
      tpu.enqueue_dma source(%p : {HBM}) target(%o : {HBM}) target_semaphore(%sem : {SEM})
      tpu.wait_dma2 semaphore(%sem : {SEM}) src(%p : {HBM}) dst(%o : {HBM})"""
    arguments = f"%x: {big}, %o: {HBM}, %sem: {SEM}"
    got = run_mosaic(module(body.format(9), arguments, 1), [x, X])[-1]
    np.testing.assert_array_equal(got, x[9:17])
    with pytest.raises(KernelError, match="tpu.memref_slice out of bounds: elements 25 to 32"):
        run_mosaic(module(body.format(25), arguments, 1), [x, X])


def test_semaphores_and_scoped_memory():
    body = """"tpu.region"() ({{
        %sem = tpu.sem_alloc : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
        %n = arith.constant {} : i32
        %two = arith.constant 2 : i32
        tpu.sem_signal %sem, %n : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.sem_wait %sem, %two : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
        "tpu.yield"() : () -> () }}) : () -> ()"""
    out = like(8, 128)
    run_mosaic(module(body.format(2), f"%o: {VMEM}"), [out])
    with pytest.raises(KernelError, match="would wait forever"):
        run_mosaic(module(body.format(1), f"%o: {VMEM}"), [out])
    with pytest.raises(KernelError, match="a semaphore above zero"):
        run_mosaic(module(body.format(3), f"%o: {VMEM}"), [out])


# ---------------------------------------------------------------------------------------------- grids and windows


def gridded(body: str, grid: tuple[int, ...], windows: list[tuple[str, str, str]], scratch: str = "",
            semantics: str = "arbitrary", prefetch: str = "") -> str:  # fmt: skip
    """A kernel over a grid; a window is its memory's type, its bounds, and its index as a body of `%i0, %i1, ...`."""
    ids = ", ".join(f"%i{a}: i32" for a in range(len(grid)))
    scalars = f", %p: {prefetch}" if prefetch else ""
    maps, params, arguments = [], [], []
    for n, (type, bounds, index) in enumerate(windows):
        rank = bounds.count(",") + 1
        maps.append(f"func.func @map{n}({ids}{scalars}) -> ({', '.join(['i32'] * rank)}) {{ {index} }}")
        params.append(f"{{transform_indices = @map{n}, window_bounds = array<i64: {bounds}>}}")
        arguments.append(f"%w{n}: {type}")
    attributes = f"""dimension_semantics = [{", ".join([f"#tpu.dimension_semantics<{semantics}>"] * len(grid))}],
      iteration_bounds = array<i64: {", ".join(map(str, grid))}>, window_params = [{", ".join(params)}],
      scalar_prefetch = {1 if prefetch else 0} : i64, scratch_operands = {1 if scratch else 0} : i64,
      tpu.core_type = #tpu.core_type<tc>"""
    given = ", ".join([ids + scalars, *arguments, *([scratch] if scratch else [])])
    return module(body, given, attributes=attributes, more="\n".join(maps))


BLOCK = "memref<8x128xf32, #tpu.memory_space<vmem>>"
ROW = "%z = arith.constant 0 : i32\nreturn %i0, %z : i32, i32"
TWICE = f"""%v = vector.load %w0[%zero, %zero] : {BLOCK}, vector<8x128xf32>
  %r = arith.addf %v, %v : vector<8x128xf32>
  tpu.vector_store %w1[%zero, %zero], %r {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,"""


def test_ragged_blocks_are_poison_outside():
    x = floats(20, 128)
    text = gridded(TWICE, (3,), [(BLOCK, "8, 128", ROW)] * 2)
    np.testing.assert_array_equal(run_mosaic(text, [x, np.full_like(x, np.nan)])[-1], 2 * x)
    whole = TWICE.replace("addf %v, %v", "addf %v, %b").replace(
        "%r =",
        """%s = arith.constant dense<0.0> : vector<128xf32>
           %t = vector.multi_reduction <add>, %v, %s [0] : vector<8x128xf32> to vector<128xf32>
           %b = vector.broadcast %t : vector<128xf32> to vector<8x128xf32>
           %r =""",
    )
    got = run_mosaic(gridded(whole, (3,), [(BLOCK, "8, 128", ROW)] * 2), [x, np.full_like(x, np.nan)])[-1]
    assert np.isfinite(got[:16]).all() and np.isnan(got[16:]).all()
    with pytest.raises(KernelError, match="starts at 24 of axis 0"):
        run_mosaic(gridded(TWICE, (4,), [(BLOCK, "8, 128", ROW)] * 2), [x, x.copy()])
    with pytest.raises(KernelError, match="its window has sizes"):
        run_mosaic(gridded(TWICE, (3,), [(BLOCK, "4, 128", ROW)] * 2), [x, x.copy()])


SAME = "%z = arith.constant 0 : i32\nreturn %z, %z : i32, i32"
SUM = f"""%n = arith.constant 0 : i32
  %first = arith.cmpi eq, %i0, %n : i32
  scf.if %first {{
    %c = arith.constant dense<0.0> : vector<8x128xf32>
    tpu.vector_store %w1[%zero, %zero], %c {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
  }}
  %v = vector.load %w0[%zero, %zero] : {BLOCK}, vector<8x128xf32>
  %o = vector.load %w1[%zero, %zero] : {BLOCK}, vector<8x128xf32>
  %r = arith.addf %v, %o : vector<8x128xf32>
  tpu.vector_store %w1[%zero, %zero], %r {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,"""


def test_an_output_is_resident_while_its_index_stays_and_undefined_at_first():
    x = floats(24, 128)
    out = np.full((8, 128), np.nan, np.float32)
    windows = [(BLOCK, "8, 128", ROW), (BLOCK, "8, 128", SAME)]
    got = run_mosaic(gridded(SUM, (3,), windows), [x, out])[-1]
    np.testing.assert_allclose(got, x.reshape(3, 8, 128).sum(0), rtol=1e-6)
    never = SUM.replace("cmpi eq", "cmpi ne")
    assert np.isnan(run_mosaic(gridded(never.replace("cmpi ne", "cmpi slt"), (3,), windows), [x, out * 0])[-1]).all()


def test_scratch_lasts_from_cell_to_cell_and_not_between_parallel_ones():
    x = floats(16, 128)
    body = (
        SUM.replace("%w1[", "%s[")
        + f"""
      %q = vector.load %s[%zero, %zero] : {BLOCK}, vector<8x128xf32>
      tpu.vector_store %w1[%zero, %zero], %q {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,"""
    )
    windows = [(BLOCK, "8, 128", ROW)] * 2
    args = [x, np.full_like(x, np.nan)]
    got = run_mosaic(gridded(body, (2,), windows, f"%s: {BLOCK}"), args)[-1]
    np.testing.assert_allclose(got, np.concatenate([x[:8], x[:8] + x[8:]]), rtol=1e-6)
    wrong = gridded(body, (2,), windows, f"%s: {BLOCK}", "parallel")
    assert np.isnan(run_mosaic(wrong, args, order=np.random.default_rng(0))[-1]).any()
    right = gridded(TWICE, (2,), windows, semantics="parallel")
    np.testing.assert_array_equal(run_mosaic(right, args, order=np.random.default_rng(0))[-1], 2 * x)


def test_prefetched_scalars_choose_blocks():
    x, order = floats(24, 128), np.array([2, 0, 2], np.int32)
    chosen = """%i = arith.index_cast %i0 : i32 to index
      %b = memref.load %p[%i] : memref<3xi32, #tpu.memory_space<smem>>
      %z = arith.constant 0 : i32
      return %b, %z : i32, i32"""
    text = gridded(TWICE, (3,), [(BLOCK, "8, 128", chosen), (BLOCK, "8, 128", ROW)],
                   prefetch="memref<3xi32, #tpu.memory_space<smem>>")  # fmt: skip
    got = run_mosaic(text, [order, x, np.full_like(x, np.nan)])[-1]
    np.testing.assert_array_equal(got, 2 * x.reshape(3, 8, 128)[order].reshape(24, 128))


def test_dynamic_grids():
    x = floats(24, 128)
    text = gridded(TWICE, (np.iinfo(np.int64).min,), [(BLOCK, "8, 128", ROW)] * 2)
    got = run_mosaic(text, [np.int32(2), x, np.full_like(x, np.nan)])[-1]
    np.testing.assert_array_equal(got[:16], 2 * x[:16])
    assert np.isnan(got[16:]).all()


def test_element_windows():
    x = floats(20, 128)
    start = """%c = arith.constant 5 : i32
      %s = arith.muli %i0, %c : i32
      %z = arith.constant 0 : i32
      return %s, %z : i32, i32"""
    text = gridded(TWICE, (2,), [(BLOCK, "8, 128", start), (BLOCK, "8, 128", ROW)])
    kind = "window_bounds = array<i64: 8, 128>, window_kind = #tpu.element_window<[1, 0], [0, 0]>"
    text = text.replace("window_bounds = array<i64: 8, 128>", kind, 1)
    got = run_mosaic(text, [x, np.full((16, 128), np.nan, np.float32)])[-1]
    padded = np.concatenate([np.full((1, 128), np.nan, np.float32), x])
    np.testing.assert_array_equal(got, 2 * np.concatenate([padded[:8], padded[5:13]]))


def test_memory_shared_by_an_input_and_an_output():
    x = floats(40, 128)
    text = gridded(TWICE, (5,), [(BLOCK, "8, 128", ROW)] * 2)
    np.testing.assert_array_equal(run_mosaic(text, [x, x])[-1], 2 * x)
    late = """%one = arith.constant {} : i32
      %b = arith.subi %i0, %one : i32
      %z = arith.constant 0 : i32
      %m = arith.maxsi %b, %z : i32
      return %m, %z : i32, i32"""
    behind = gridded(TWICE, (5,), [(BLOCK, "8, 128", late.format(2)), (BLOCK, "8, 128", ROW)])
    with pytest.raises(KernelError, match="shares its memory"):
        run_mosaic(behind, [x, x])
    far = gridded(TWICE, (5,), [(BLOCK, "8, 128", late.format(4)), (BLOCK, "8, 128", ROW)])
    run_mosaic(far, [x, x])


def test_refusals():
    x = floats(8, 128)
    for args, what in (([x], "takes 2 arrays"), ([x.astype(np.float16), x], "is given an array of float16")):
        with pytest.raises(KernelError, match=what):
            run_mosaic(module("", f"%a: {mem(x)}, %o: {mem(x)}"), args)
    with pytest.raises(KernelError, match="of shape"):
        run_mosaic(module("", f"%a: {mem(x)}, %o: {mem(x)}"), [x[:4], x])
    with pytest.raises(KernelError, match="no rule for tpu.weird_thing|no rule for tpu.barrier"):
        run_mosaic(module("tpu.barrier barrier_id(%zero)", f"%o: {mem(x)}"), [x])


def test_every_rule_is_of_an_operation_that_exists():
    from jaxlib.mlir.dialects import _memref_ops_gen, _vector_ops_gen
    from jaxlib.mosaic.python import _tpu_ops_gen

    known = {
        op.OPERATION_NAME
        for module in (_memref_ops_gen, _vector_ops_gen, _tpu_ops_gen)
        for op in vars(module).values()
        if hasattr(op, "OPERATION_NAME")
    }
    known |= set() if OLD_DIALECT else {"tpu.repeat"}
    assert set(memrefs.RULES) | set(vectors.RULES) <= known
    assert {name for name in mosaic.RULES if name.startswith("tpu.")} <= known
