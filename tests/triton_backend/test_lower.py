"""Kernels printed for Triton: the text, walked in NumPy, gives what the interpreter gives.

Every primitive that has a template runs tiled with ragged ends; every kernel of the corpus forward, differentiated and
batched; the walker also finds accesses out of bounds and races. `pytest --update-golden` rewrites the three texts.
"""

import functools
import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.support import fused_cases as fused
from tests.support.corpus.called import kernel_of
from tests.support.corpus.corners import CORNERS
from tests.support.corpus.runs import KERNELS, NAMES, SMOOTH, Split, operands, over_sizes
from tests.support.corpus.small import EXAMPLES
from tests.support.gpu.walker import check_all, check_triton, kernels_of
from tests.support.laws import operands as case_operands
from tests.support.paths import GOLDEN
from tests.support.templates import CASES_OF, by_dtypes, first_by
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.program import Eqn, Var
from tilewright.core.ir.types import ArrayType, is_key
from tilewright.core.support import pytree
from tilewright.core.support.errors import ArgumentError, UnsupportedError
from tilewright.core.tracing.trace import typeof
from tilewright.kernels import TEMPLATES
from tilewright.kernels.fused import OPERATIONS
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.loopnest.plan import plan
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend.lower import triton_module
from tilewright.triton_backend.rules import UNSUPPORTED, UNSUPPORTED_DTYPES

SM90 = target_of("cuda:sm_90")
S = tw.ShapeDtypeStruct
F32 = np.dtype(np.float32)
rng = np.random.default_rng(0)


def text_of(call: Any, *args: Any, **overrides: Any) -> str:
    """The text of the one kernel that a call makes."""
    ((kernel, _),) = kernels_of(call, *args)
    return triton_module(kernel, SM90, **overrides).text


def check(call: Any, *args: Any, **options: Any) -> None:
    assert check_all(check_triton, call, *args, **options)


# ---------------------------------------------------------------------------- what is refused


def copy_kernel(type_: ArrayType) -> tl.Kernel:
    def copy_body(x, o):
        o[...] = x[...]

    ((kernel, _),) = kernels_of(tl.kernel_call(copy_body, type_), np.zeros(type_.shape, type_.dtype))
    return kernel


@pytest.mark.parametrize("primitive", UNSUPPORTED, ids=repr)
def test_what_is_unsupported_is_refused_at_its_line(primitive):
    kernel = copy_kernel(ArrayType((4,), F32))
    get, swap = kernel.body.eqns
    made = Var(get.outputs[0].type)
    refused = Eqn(primitive, get.outputs, [made], {}, source=get.source)
    body = kernel.body.replace(eqns=(get, refused, swap.replace(inputs=(swap.inputs[0], made))))
    with pytest.raises(UnsupportedError) as caught:
        triton_module(kernel.replace(body=body), SM90)
    assert primitive.name in str(caught.value) and UNSUPPORTED[primitive] in str(caught.value)
    assert "test_lower.py" in str(caught.value) and "copy_body" in str(caught.value)


@pytest.mark.parametrize("dtype", UNSUPPORTED_DTYPES)
def test_dtypes_that_no_gpu_program_has_are_refused(dtype):
    with tw.config(enable_x64=True):
        kernel = copy_kernel(ArrayType((4,), dtype))
    with pytest.raises(UnsupportedError, match="cannot be used in a GPU kernel") as caught:
        triton_module(kernel, SM90)
    assert UNSUPPORTED_DTYPES[dtype] in str(caught.value)


def test_float8_needs_hardware_that_has_it():
    kernel = copy_kernel(ArrayType((4,), "float8_e4m3fn"))
    triton_module(kernel, SM90)
    for target in ("cuda:sm_80", "rocm:gfx942"):
        with pytest.raises(UnsupportedError, match="float8_e4m3fn"):
            triton_module(kernel, target_of(target))


@pytest.mark.parametrize("dtype", ["int8", "bool", "bfloat16"])
def test_atomics_of_narrow_dtypes_are_refused(dtype):
    kind = tl.atomic_or if dtype == "bool" else tl.atomic_max

    def body(x, o):
        o[...] = x[...]
        kind(o, ..., x[...])

    ones, call = np.ones(4, tnp.dtype(dtype)), tl.kernel_call(body, S((4,), dtype), input_output_aliases={0: 0})
    with pytest.raises(UnsupportedError, match="32 or 64 bits"):
        text_of(call, ones)


# ---------------------------------------------------------------------------- numerics


def middle_tiles(loops: Any) -> tuple[int, ...]:
    """Ragged tiles where a loop may be cut and has any."""
    tiles = []
    for i, n in enumerate(loops.sizes):
        ragged = [t for t in range(1, n) if n % t] or list(range(1, n))
        whole = i in loops.whole or n < 2
        tiles.append(1 if i in loops.single else max(n, 1) if whole else ragged[len(ragged) // 2])
    return tuple(tiles) if loops.shared is None or loops.sizes[loops.shared] < 2 else (*tiles, 2)


def words(x: Any, dtype: Any) -> np.ndarray:
    """An operand as kernels see it: random keys as words."""
    return np.asarray(x).view(np.uint32).reshape(*np.shape(x), -1) if is_key(dtype) else np.asarray(x)


@pytest.mark.law
@pytest.mark.parametrize("case", first_by(by_dtypes, [c for c in CASES_OF if not any(
    str(t.dtype) in UNSUPPORTED_DTYPES for t in (*c.types, *(ArrayType((), v) for v in c.params.values()
                                                             if isinstance(v, np.dtype)))
)]))  # fmt: skip
def test_tiled_primitives(case):
    template, args = TEMPLATES[case.primitive], case_operands(case)
    types = [typeof(a) for a in args]
    if any(str(t.dtype) in UNSUPPORTED_DTYPES for t in template.results(types, case.params)):
        with pytest.raises(UnsupportedError):
            triton_module(template.kernel(*types, tiles=middle_tiles(template.loops(types, case.params)),
                                          **case.params), SM90)  # fmt: skip
        return
    built = template.build(*types, tiles=middle_tiles(template.loops(types, case.params)), **case.params)

    def checked(kernel, *given):
        floats = [d.itemsize for d in (t.dtype for t in kernel.out_types) if np.dtype(d).kind not in "biu"]
        check_triton(kernel, *given, rtol={1: 0.15, 2: 3e-2}.get(min(floats, default=4), max(case.tolerance, 1e-4)))
        return interpret(kernel, *given)

    built.run(checked, [words(x, t.dtype) for x, t in zip(args, types, strict=True)])


@pytest.mark.law
@pytest.mark.parametrize("example", EXAMPLES + CORNERS, ids=lambda e: e.name)
def test_small_kernels(example):
    check_triton(kernel_of(example), *(np.asarray(x) for x in pytree.leaves(tuple(example.operands))), rtol=1e-4)


@pytest.mark.law
@over_sizes(NAMES)
def test_corpus(kernel, size, mode):
    check(functools.partial(kernel.call, **size.blocks, **mode), *operands(kernel, size), rtol=1e-3)


@pytest.mark.law
@over_sizes(SMOOTH, slice(1, 2))
def test_gradients_of_the_corpus(kernel, size, mode):
    split = Split(kernel, size, mode)
    check(tw.grad(split.loss, split.every), *split.xs, rtol=1e-3)


@pytest.mark.law
@over_sizes(SMOOTH, slice(0, 1))
def test_tangents_of_the_corpus(kernel, size, mode):
    split = Split(kernel, size, mode)
    check(lambda *xs: tw.jvp(split.call, xs, split.vs), *split.xs, rtol=1e-3)


@pytest.mark.law
@over_sizes(NAMES, slice(1, 2))
def test_batches_of_the_corpus(kernel, size, mode):
    alone, arrays = getattr(kernel, "UNBATCHED", ()), operands(kernel, size)
    axes = tuple(None if i in alone else 0 for i in range(len(arrays)))
    stacked = [a if i in alone else np.stack([a, a]) for i, a in enumerate(arrays)]
    check(tw.vmap(functools.partial(kernel.call, **size.blocks, **mode), in_axes=axes), *stacked, rtol=1e-3)


@pytest.mark.parametrize("name", fused.FIRST_OF)
def test_fused_operations_and_their_gradients(name):
    _, args, rest, options, tiles = fused.FIRST_OF[name]
    function = OPERATIONS[name].function
    args, rest, options = fused.arrays((args, rest, options))
    tiles = tiles | ({"target": "cuda:sm_90"} if "target" in tiles else {})
    total = fused.scalar(function, rest, options | tiles)
    with tw.config(kernel_target="cuda:sm_90"):
        check(lambda *xs: function(*xs, *rest, **options, **tiles), *args, rtol=1e-3)
        check(tw.grad(total, tuple(range(len(args)))), *args, rtol=1e-3)


KINDS = ("add", "max", "min", "and", "or", "xor", "xchg")


@pytest.mark.law
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("kind", "dtype"), [
    (k, d) for k in KINDS for d in ("int32", "uint32", "float32") if k not in ("and", "or", "xor") or d != "float32"
])  # fmt: skip
def test_atomics_and_what_they_give(kind, dtype, masked):
    start, values = ((rng.normal(size=n) * 50).astype(np.int32).astype(dtype) for n in (6, 10))
    places, mask = rng.integers(0, 6, 10).astype(np.int32), rng.random(10) < 0.6
    if dtype == "float32":  # extrema of floats are two operations: elements of one place come in another order
        start, places = np.resize(start, 10), rng.permutation(10).astype(np.int32)
    atomic = getattr(tl, f"atomic_{kind}")

    def body(start_ref, places_ref, values_ref, mask_ref, held_ref, old_ref):
        held_ref[...] = start_ref[...]
        old_ref[...] = atomic(held_ref, (places_ref[...],), values_ref[...], mask=mask_ref[...] if masked else None)

    check(tl.kernel_call(body, [S(start.shape, dtype), S((10,), dtype)]), start, places, values, mask)


@pytest.mark.parametrize("masked", [False, True])
def test_compare_and_swap(masked):
    start, values = np.arange(6, dtype=np.int32) % 3, np.arange(6, dtype=np.int32) + 10
    mask = np.array([1, 1, 0, 1, 0, 1], bool)

    def body(x, v, m, held, old):
        held[...] = x[...]
        old[...] = tl.atomic_cas(held, np.int32(1), v[...], mask=m[...] if masked else None)

    check(tl.kernel_call(body, [S((6,), np.int32)] * 2), start, values, mask)


def test_random_bits():
    def body(seed, o):
        tl.tpu.prng_seed(seed[0])
        o[...] = tl.tpu.stateful_uniform(o.shape) + tl.tpu.stateful_normal(o.shape)

    spec = tl.BlockSpec((5,), lambda i: i)
    check(tl.kernel_call(body, S((13,), F32), grid=3, in_specs=[tl.BlockSpec()], out_specs=spec), np.int32([3]),
          rtol=1e-4)  # fmt: skip


def test_control_flow_in_a_body():
    def body(x, o, total):
        total[...] = tnp.zeros_like(total)

        def step(i, carry):
            total[...] += x[i, :] * carry
            return carry + 1.0

        last = tw.lax.fori_loop(0, 5, step, 1.0)
        n = tw.lax.while_loop(lambda n: n < total[0], lambda n: n + 1.0, last)
        o[...] = tw.lax.switch(x.shape[0] % 3, [lambda: total[...], lambda: total[...] + n, lambda: total[...] - n])
        o[1] = n

    call = tl.kernel_call(body, S((6,), F32), scratch_shapes=[tl.VMEM((6,), F32)])
    check(call, np.abs(rng.normal(size=(5, 6))).astype(F32))


def test_loops_over_stacked_values():
    def body(x, o):
        last, rows = tw.lax.scan(lambda c, r: (c + r, c * r), tnp.zeros(3, F32), x[...], reverse=True)
        o[...] = rows + last

    check(tl.kernel_call(body, S((5, 3), F32)), rng.normal(size=(5, 3)).astype(F32))


# ---------------------------------------------------------------------------- the text


def saxpy(n: int, block: int, **options: Any) -> Any:
    def saxpy(x, y, o):
        o[...] = 2.0 * x[...] + y[...]

    spec = tl.BlockSpec((block,), lambda i: i)
    return tl.kernel_call(saxpy, S((n,), F32), grid=tl.cdiv(n, block), in_specs=[spec, spec], out_specs=spec, **options)


def vectors(n: int) -> list[np.ndarray]:
    return [rng.normal(size=n).astype(F32) for _ in range(2)]


def attention(causal: bool) -> Any:
    return functools.partial(KERNELS["flash_attention"].call, causal=causal)


GOLDENS = {
    "saxpy.ttir": lambda: text_of(saxpy(1000, 128), *vectors(1000)),
    "matmul.ttir": lambda: text_of(
        functools.partial(KERNELS["matmul_grid"].call, rows=64, columns=64, depth=32),
        *(np.zeros(s, F32) for s in ((256, 128), (128, 192)))),
    "matmul_described.ttir": lambda: text_of(
        functools.partial(KERNELS["matmul_grid"].call, rows=64, columns=64, depth=32),
        *(np.zeros(s, np.float16) for s in ((250, 120), (120, 192)))),
    "row_softmax.ttir": lambda: text_of(
        functools.partial(KERNELS["softmax"].call, rows=4), np.zeros((64, 100), F32)),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name, request):
    text, path = GOLDENS[name](), GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert text == path.read_text(), f"{name} prints differently; read the difference, then --update-golden"


def test_the_text_is_the_same_every_time():
    triton_module.__wrapped__.cache_clear()
    first = GOLDENS["matmul.ttir"]()
    triton_module.__wrapped__.cache_clear()
    plan.cache_clear()
    assert GOLDENS["matmul.ttir"]() == first


def test_masks_only_where_a_block_may_leave_the_array():
    divides, ragged = text_of(saxpy(1024, 128), *vectors(1024)), text_of(saxpy(1000, 128), *vectors(1000))
    assert "cmpi" not in divides and "cmpi" in ragged
    assert ragged.count("tt.load") == 2


def test_grids_of_many_axes_and_long_ones_are_flattened():
    def body(x, o):
        o[...] = x[...] + tl.program_id(0)

    def call(grid, shape):
        spec = tl.BlockSpec((None,) * len(grid) + (2,), lambda *ids: (*ids, 0))
        return tl.kernel_call(body, S(shape, F32), grid=grid, in_specs=[spec], out_specs=spec)

    for grid in ((2, 3), (2, 3, 2), (2, 3, 2, 2), (3, 1, 2, 1, 2)):
        x = rng.normal(size=(*grid, 2)).astype(F32)
        check(call(grid, x.shape), x)
    ((kernel, _),) = kernels_of(call((2, 3, 2), (2, 3, 2, 2)), np.zeros((2, 3, 2, 2), F32))
    assert triton_module(kernel, SM90).grid == (2, 3, 2)
    long = kernel.replace(grid=(70000, 3, 2))
    assert triton_module(long, SM90).grid == (70000 * 6, 1, 1)
    with pytest.raises(ArgumentError, match="programs"):
        triton_module(kernel.replace(grid=(2**20, 2**12, 2)), SM90)


def test_blocks_of_a_product_run_in_bands():
    call = functools.partial(KERNELS["matmul_grid"].call, rows=16, columns=16, depth=16)
    arrays = [rng.normal(size=s).astype(F32) for s in ((16 * 19, 32), (32, 48))]
    ((kernel, _),) = kernels_of(call, *arrays)
    assert triton_module(kernel, SM90).grid == (19 * 3, 1, 1)
    check(call, *arrays)


def test_loops_have_no_branches_for_their_first_and_last_turns():
    arrays = [np.zeros((32, 32), F32)] * 2
    matmul = text_of(functools.partial(KERNELS["matmul_grid"].call, rows=16, columns=16, depth=16), *arrays)
    attention = KERNELS["flash_attention"]
    ((kernel, _), *_) = kernels_of(functools.partial(attention.call, **attention.SIZES[0].blocks),
                                   *operands(attention, attention.SIZES[0]))  # fmt: skip
    assert "arith.addf" not in matmul  # products start from the sum so far
    for text in (matmul, triton_module(kernel, SM90).text):
        assert "scf.for" in text and "scf.if" not in text

    def meets(x, o, total):  # the reset reads what the turn before left: it stays where it is
        total[...] = total[...] + x[...]

        @tl.when(tl.program_id(0) == 0)
        def _():
            total[...] = x[...]

        o[...] = total[...]

    spec = tl.BlockSpec((4,), lambda i: i)
    call = tl.kernel_call(meets, S((12,), F32), grid=3, in_specs=[spec], out_specs=spec,
                          scratch_shapes=[tl.VMEM((4,), F32)])  # fmt: skip
    x = rng.normal(size=12).astype(F32)
    check(call, x)
    assert "scf.if" in text_of(call, x)


def test_ends_of_nested_loops():
    def body(x, rows, total, acc):
        i, j = tl.program_id(0), tl.program_id(1)

        @tl.when((i == 0) & (j == 0))
        def _():
            total[...] = tnp.zeros_like(total)

        @tl.when(j == 0)
        def _():
            acc[...] = tnp.zeros_like(acc)

        acc[...] += x[...]
        total[...] += x[...] * 2.0

        @tl.when(j == 2)
        def _():
            rows[...] = acc[...]

    outs = [tl.BlockSpec((1, 4), lambda i, j: (i, 0)), tl.BlockSpec((1, 4), lambda i, j: (0, 0))]
    call = tl.kernel_call(body, [S((2, 4), F32), S((1, 4), F32)], grid=(2, 3), out_specs=outs,
                          in_specs=[tl.BlockSpec((1, 4), lambda i, j: (i, j))],
                          scratch_shapes=[tl.VMEM((1, 4), F32)])  # fmt: skip
    x = rng.normal(size=(2, 12)).astype(F32)
    check(call, x)
    assert "scf.if" not in text_of(call, x)


def test_grids_of_computed_size():
    def body(n, x, o):
        o[...] = x[...] * n[0]

    spec = tl.BlockSpec((4,), lambda i, n: i)
    x = rng.normal(size=12).astype(F32)

    def call(n, x):
        grid = tl.PrefetchScalarGridSpec(1, (n[0],), [spec], spec)
        return tl.kernel_call(body, S((12,), F32), grid_spec=grid, input_output_aliases={1: 0})(n, x)

    check(call, np.int32([2]), x)


def test_a_sum_stays_in_registers_and_a_dynamic_store_goes_to_memory():
    def body(x, at, o, rows):
        rows[at[...]] = x[...]
        rows[...] += 1.0
        o[...] = rows[at[...]] * 2.0

    call = tl.kernel_call(body, S((8,), F32), grid=1, scratch_shapes=[tl.VMEM((8,), F32)])
    arguments = rng.normal(size=8).astype(F32), rng.permutation(8).astype(np.int32)
    check(call, *arguments)
    ((kernel, _),) = kernels_of(call, *arguments)
    module = triton_module(kernel, SM90)
    assert "gpu.barrier" in module.text and module.out_types[-1] == ArrayType((1, 8), F32)
    assert module.finish is not None and len(module.finish.outputs) == 1
    ((product, _),) = kernels_of(
        functools.partial(KERNELS["matmul_grid"].call, rows=16, columns=16, depth=16),
        *(np.zeros((32, 32), F32) for _ in range(2)),
    )
    module = triton_module(product, SM90)
    assert "gpu.barrier" not in module.text and "iter_args" in module.text and module.finish is None


def test_an_operand_read_after_its_memory_is_written_is_copied():
    def late(x, o, sums):
        o[...] = x[...] + 1.0
        sums[...] = x[...] * 2.0

    def early(x, o, sums):
        found = x[...]
        o[...] = found + 1.0
        sums[...] = found * 2.0

    x = rng.normal(size=8).astype(F32)
    for body, copies in ((late, 1), (early, 0)):
        call = tl.kernel_call(body, [S((8,), F32)] * 2, input_output_aliases={0: 0})
        check(call, x)
        ((kernel, _),) = kernels_of(call, x)
        module = triton_module(kernel, SM90)
        assert len(module.in_types) == 1 + copies and (module.prepare is not None) == bool(copies)
        assert module.aliases == ((0, 0),)


def test_warps_and_stages():
    stated = saxpy(1024, 128, compiler_params=tl.triton.CompilerParams(num_warps=2, num_stages=5))
    ((kernel, _),) = kernels_of(stated, *vectors(1024))
    module = triton_module(kernel, SM90)
    assert (module.num_warps, module.num_stages) == (2, 5)
    module = triton_module(kernel, SM90, num_warps=8)
    assert (module.num_warps, module.num_stages) == (8, 5)
    for wrong in ({"num_warps": 3}, {"num_warps": 64}, {"num_stages": -1}, {"threads": 1}):
        with pytest.raises(ArgumentError):
            triton_module(kernel, SM90, **wrong)


def test_prints_and_checks():
    def body(x, o):
        tl.debug_print("x is {}", x[...])
        tl.debug_check(tnp.all(x[...] > 0), "x is not positive")
        o[...] = x[...]

    text = text_of(tl.kernel_call(body, S((4,), F32)), np.ones(4, F32))
    assert 'tt.print " x is: "' in text and "tt.assert" in text and "x is not positive" in text


def test_a_host_callback_is_refused():
    def body(x, o):
        tw.debug.callback(lambda v: None, x[...])
        o[...] = x[...]

    with pytest.raises(UnsupportedError, match="debug_callback"):
        text_of(tl.kernel_call(body, S((4,), F32)), np.ones(4, F32))


def test_names_of_the_mathematical_libraries():
    def body(x, o):
        o[...] = tnp.tanh(x[...])

    ((kernel, _),) = kernels_of(tl.kernel_call(body, S((4,), F32)), np.ones(4, F32))
    assert '"__nv_tanhf"' in triton_module(kernel, SM90).text
    assert '"__ocml_tanh_f32"' in triton_module(kernel, target_of("rocm:gfx942")).text


def test_precision_of_products():
    def call(precision):
        return tl.kernel_call(lambda x, y, o: o.__setitem__(..., tw.lax.dot(x[...], y[...], precision=precision)),
                              S((16, 16), F32))  # fmt: skip

    x = np.zeros((16, 16), F32)
    found = {p: text_of(call(p), x, x) for p in (None, "high", "highest")}
    assert "inputPrecision = tf32 " in found[None] and "tf32x3" in found["high"]
    assert "inputPrecision" not in found["highest"]


def test_a_batch_of_one_product_is_a_product_of_matrices():
    def body(x, y, o):
        o[...] = tnp.matmul(x[...], y[...])

    x, y = (rng.standard_normal((1, 16, 16)).astype("float32") for _ in range(2))
    call = tl.kernel_call(body, S(x.shape, "float32"))
    assert re.findall(r"tt.dot .*-> (.*)", text_of(call, x, y)) == ["tensor<16x16xf32>"]
    check(call, x, y)


def test_products_with_bfloat16_that_give_it_are_taken_in_it():
    """As those of cotangents with operands: by default, not where more is asked for."""

    def call(precision=None, out="bfloat16"):
        def body(x, y, o):
            o[...] = tw.lax.dot(x[...], y[...], precision=precision, preferred_element_type=out)

        return tl.kernel_call(body, S((16, 16), out))

    x, y = rng.standard_normal((16, 16), dtype=F32), rng.standard_normal((16, 16), dtype=F32).astype("bfloat16")
    dots = [re.search(r"tt.dot .*", text_of(c, x, y))[0] for c in (call(), call("highest"), call(out="float32"))]
    assert [d.count("xbf16>") for d in dots] == [2, 0, 0]
    check(call(), x, y)


@pytest.mark.targets
def test_a_row_is_put_at_a_computed_place_by_repeating_it():
    """Of one row there is nothing to choose; Triton's compiler fails where such gathers stand in branches of loops."""

    def body(at, x, zero, o, held):
        i = tl.program_id(0)
        tw.lax.fori_loop(0, 8, lambda r, c: held.__setitem__(tl.ds(r, 1), x[tl.ds(at[i * 8 + r], 1)]) or c, 0)
        y = held[...] * 2
        for r in range(8):
            row = at[i * 8 + r]

            @tl.when(row >= i)
            def _(row=row, r=r):
                o[tl.ds(row, 1)] += y[r : r + 1]

    def block(*_):
        return (0, 0)

    spec = tl.PrefetchScalarGridSpec(1, (2,), [tl.BlockSpec((16, 64), block)] * 2, tl.BlockSpec((16, 64), block),
                                     scratch_shapes=[tl.VMEM((8, 64), F32)])  # fmt: skip
    call = tl.kernel_call(body, S((16, 64), F32), grid_spec=spec, input_output_aliases={2: 0})
    args = rng.permutation(16).astype(np.int32), rng.random((16, 64), np.float32), np.zeros((16, 64), np.float32)
    assert not re.search("tt.gather .*-> tensor<1024x", text_of(call, *args))
    check_all(check_triton, call, *args)
    assert tw.compile(call, *args, target="cuda:sm_90").resources, "the compiler refused it"


@pytest.mark.parametrize(("axis", "shift"), [(1, 1), (1, -5), (0, 3)])
def test_a_turned_value_is_one_gather(axis, shift):
    def body(x, o):
        o[...] = tnp.roll(x[...], shift, axis) + tnp.roll(x[...] > 0.5, shift, axis)

    x = rng.random((8, 64), np.float32)
    call = tl.kernel_call(body, S(x.shape, F32))
    assert "arith.select" not in text_of(call, x)  # of parts of it
    check_all(check_triton, call, x)
