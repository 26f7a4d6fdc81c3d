"""libtpu on a machine without a TPU: topologies, resources, and its refusals as errors; on modules written by hand."""

import base64
import importlib.util
import json
import os
import subprocess
import sys

import pytest

import tilewright as tw
from tilewright import errors
from tilewright import lang as tl
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import MIB

pytestmark = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="the extra `tpu` is not installed")

VMEM = "#tpu.memory_space<vmem>"
ONE_CELL = """dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
  tpu.core_type = #tpu.core_type<tc>"""


def one_cell(shape, body, out=None, element="f32", name="kernel"):
    """A module with one cell: `body` reads `%x` and `%o`."""
    refs = [f"memref<{'x'.join(map(str, s))}x{element}, {VMEM}>" for s in (shape, out or shape)]
    return f"""module @{name} {{ func.func @main(%x: {refs[0]}, %o: {refs[1]}) attributes {{{ONE_CELL}}} {{
      %c0 = arith.constant 0 : index
      {body}
      return }} }}"""


def through(shape, operation="", out=None, element="f32", name="kernel"):
    """A module that loads its operand, applies `operation` from %0 to %1, and stores."""
    (x, xt), (o, ot) = (
        (f"memref<{s}x{element}, {VMEM}>", f"vector<{s}x{element}>")
        for s in ("x".join(map(str, t)) for t in (shape, out or shape))
    )
    last = "%1" if operation else "%0"
    return one_cell(shape, f"""%0 = vector.load %x[%c0, %c0] : {x}, {xt}
      {operation.format(x=xt, o=ot)}
      tpu.vector_store %o[%c0, %c0], {last} {{strides = array<i32>}} : {o}, {ot},""", out, element, name)  # fmt: skip


def by_blocks(shape, block, element="f32", name="kernel"):
    """A module that copies an array block by block."""
    grid = [-(-n // b) for n, b in zip(shape, block)]
    ref, value = (f"{kind}<{'x'.join(map(str, block))}x{element}" for kind in ("memref", "vector"))
    window = f"{{transform_indices = @map, window_bounds = array<i64: {block[0]}, {block[1]}>}}"
    return f"""module @{name} {{
      func.func @main(%i: i32, %j: i32, %x: {ref}, {VMEM}>, %o: {ref}, {VMEM}>) attributes {{
          dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>],
          iteration_bounds = array<i64: {grid[0]}, {grid[1]}>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
          tpu.core_type = #tpu.core_type<tc>, window_params = [{window}, {window}]}} {{
        %c0 = arith.constant 0 : index
        %0 = vector.load %x[%c0, %c0] : {ref}, {VMEM}>, {value}>
        tpu.vector_store %o[%c0, %c0], %0 {{strides = array<i32>}} : {ref}, {VMEM}>, {value}>,
        return }}
      func.func @map(%i: i32, %j: i32) -> (i32, i32) {{ return %i, %j : i32, i32 }} }}"""


def program(module, shape, out=None, element="f32", name="kernel", **top):
    """The text of a StableHLO module that calls a Mosaic module."""
    from tilewright.mosaic_tpu.serialization import serialize

    body = base64.b64encode(serialize(module)).decode()
    config = {"custom_call_config": {"body": body, "serialization_format": 1, "needs_layout_passes": True}, **top}
    text = json.dumps(config).replace('"', "\\22")
    taken, given = (f"tensor<{'x'.join(map(str, s))}x{element}>" for s in (shape, out or shape))
    layout = "[dense<[1, 0]> : tensor<2xindex>]"
    return f"""module @program attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
      func.func public @main(%a: {taken}) -> {given} {{
        %0 = stablehlo.custom_call @tpu_custom_call(%a) {{backend_config = "{text}", operand_layouts = {layout},
          result_layouts = {layout}}} : ({taken}) -> {given} loc("{name}")
        return %0 : {given} }} }}"""


def kernel_of(shape, block, dtype="float32", name="kernel"):
    """The Kernel that such a module could come from."""

    def body(x, o):
        o[...] = x[...]

    spec = tl.BlockSpec(block, lambda i, j: (i, j))
    struct = tw.ShapeDtypeStruct(shape, dtype)
    grid = tuple(-(-n // b) for n, b in zip(shape, block))
    call = tl.kernel_call(body, struct, grid=grid, in_specs=[spec], out_specs=spec, name=name)
    (kernel,) = kernels_of(tw.jit(call).trace(struct).jaxpr)
    return kernel


def compiled(text, target="tpu:v5e", kernels=()):
    from tilewright.mosaic_tpu.compiler import compile
    from tilewright.xla_backend.devices import tpu_plugin as tpu

    return compile(text, "program", target, list(kernels), tpu.compile)


@pytest.mark.parametrize(
    "target, count, kind",
    [
        ("tpu:v5e", 1, "TPU v5 lite"),
        ("tpu:v5e:2x2", 4, "TPU v5 lite"),
        ("tpu:v5e:1x2", 2, "TPU v5 lite"),
        ("tpu:v5p", 1, "TPU v5"),
        ("tpu:v5p:2x2x2", 8, "TPU v5"),
        ("tpu:v6e:4x4", 16, "TPU v6 lite"),
        ("tpu:7x", 2, "TPU7x"),
    ],
)
def test_topologies(target, count, kind):
    from tilewright.xla_backend.devices.tpu_plugin import devices

    found = devices(target)
    assert len(found) == count and {d.device_kind for d in found} == {kind}


@pytest.mark.parametrize("target", ["tpu:v9", "tpu:v5e:2y2", "tpu:v6e:3x3", "tpu:v5e:2x2x2", "tpu:v5e:0x1"])
def test_an_unknown_topology_is_refused(target):
    from tilewright.xla_backend.devices.tpu_plugin import devices

    with pytest.raises(errors.ArgumentError, match=target) as caught:
        devices(target)
    assert caught.value.remedy


@pytest.mark.parametrize("target", ["tpu:v5e", "tpu:v5e:2x2", "tpu:v5p", "tpu:v6e", "tpu:7x"])
def test_a_program_tells_its_vmem_and_is_serialised(target):
    text = program(by_blocks((64, 512), (8, 128), name="copy_blocks"), (64, 512), name="copy_blocks")
    binary = compiled(text, target)
    (used,) = binary.resources
    # Two blocks, twice; on 7x XLA brings the whole operand into VMEM before the call.
    assert used.kernel == "copy_blocks" and used.fast_bytes == (2 if target == "tpu:7x" else 4) * 8 * 128 * 4
    assert used.fast_limit == (32 if target in ("tpu:v6e", "tpu:7x") else 16) * MIB
    assert len(binary.serialize()) > 1000 and "tpu_custom_call" in binary.as_text()
    with pytest.raises(errors.UnsupportedError, match=target):
        binary()


def test_a_limit_that_was_asked_for_is_told():
    asked = [{"memory_space": 1, "offset": 0, "size": 40 * MIB}]
    text = program(by_blocks((64, 512), (8, 128)), (64, 512), scoped_memory_configs=asked)
    assert compiled(text).resources[0].fast_limit == 40 * MIB


def test_cycles_words_and_spills_are_estimated_in_another_process():
    from tilewright.lang.targets.target import target_of
    from tilewright.mosaic_tpu.resources import resources
    from tilewright.xla_backend.analysis.tpu_cost_model import estimates

    text = program(by_blocks((64, 512), (8, 128), name="copy_blocks"), (64, 512), name="copy_blocks")
    binary = compiled(text)
    (used,) = resources(binary.as_text(), target_of("tpu:v5e"), estimates(text, "tpu:v5e"))
    assert used.kernel == "copy_blocks" and used.spills == 0
    assert used.cycles is not None and used.cycles > 32 and used.bundles is not None and used.bundles > 2


def test_an_estimate_of_what_does_not_compile_is_an_error():
    from tilewright.xla_backend.analysis.tpu_cost_model import estimates

    with pytest.raises(errors.CompileError, match="estimate for tpu:v5e failed"):
        estimates("module {", "tpu:v5e")


def test_vmem_overflow_names_kernel_sizes_and_remedy():
    kernel = kernel_of((8192, 8192), (2048, 2048))
    text = program(by_blocks((8192, 8192), (2048, 2048)), (8192, 8192))
    with pytest.raises(errors.ResourceError, match="kernel kernel on tpu:v5e: .*64 MiB of VMEM, .*16 MiB") as caught:
        compiled(text, kernels=[kernel])
    assert "vmem_limit_bytes" in caught.value.remedy and "128 MiB" in caught.value.remedy
    assert __file__ in str(caught.value)
    with pytest.raises(errors.ResourceError, match="on tpu:7x"):
        compiled(text, "tpu:7x", [kernel])


def test_an_illegal_block_names_the_operand_and_the_nearest_sizes():
    kernel = kernel_of((1024, 1024), (100, 100))
    text = program(by_blocks((1024, 1024), (100, 100)), (1024, 1024))
    with pytest.raises(
        errors.BlockTilingError, match="the last dimension of operand `x` is 100; v5e tiles it by 128"
    ) as e:
        compiled(text, kernels=[kernel])
    assert "use 128 or the full 1024" in e.value.remedy and "use 96, 104 or the full 1024" in e.value.remedy
    with pytest.raises(errors.BlockTilingError, match=r"\(8, 128\)"):
        compiled(text)  # of a kernel that is not known


@pytest.mark.parametrize(
    "module, shape, element, error, words",
    [
        pytest.param(
            through((15, 130), "%1 = vector.shape_cast %0 : {x} to {o}", (13, 150)),
            ((15, 130), (13, 150)), "f32", errors.UnsupportedError, "unsupported shape cast", id="relayout"),
        pytest.param(
            through((16, 128), "%1 = math.asinh %0 : {x}"),
            ((16, 128),), "f32", errors.UnsupportedError, "no code for math.asinh", id="operation"),
        pytest.param(
            through((16, 128), element="f64"), ((16, 128),), "f64", errors.DtypeError, "is float64", id="f64"),
        pytest.param(
            through((16, 128), element="f16"), ((16, 128),), "f16", errors.DtypeError, "stores of f16", id="f16"),
    ],
)  # fmt: skip
def test_what_the_compiler_refuses_is_named(module, shape, element, error, words):
    kernel = kernel_of((8, 128), (8, 128))
    with pytest.raises(error) as caught:
        compiled(program(module, *shape, element=element), kernels=[kernel])
    assert words in str(caught.value) and "kernel kernel on tpu:v5e" in str(caught.value) and caught.value.remedy


def test_the_users_line_is_named_where_the_module_has_it():
    module = through((16, 128), '%1 = math.asinh %0 : {x} loc("model.py":12:0)')
    with pytest.raises(errors.UnsupportedError, match="at: model.py:12"):
        compiled(program(module, (16, 128)))


def test_the_line_of_the_body_is_named(monkeypatch):
    from tilewright.core.primitives.elementwise.arithmetic import sin_p
    from tilewright.mosaic_tpu.rules import RULES

    def refused(b, xs, out):
        return b.value(out, b.w.op("math.asinh", [b.vector(xs[0])], out.shape, "f32"))

    def body(x, o):
        y = x[...] + 1.0
        o[...] = tw.numpy.sin(y)

    struct = tw.ShapeDtypeStruct((16, 128), "float32")
    call = tl.kernel_call(body, struct)
    monkeypatch.setitem(RULES, sin_p, refused)
    with pytest.raises(errors.UnsupportedError, match="no code for math.asinh") as caught:
        tw.compile(call, struct, target="tpu:v5e")
    assert f"{__file__}:{body.__code__.co_firstlineno + 2}" in str(caught.value)


def test_anything_else_is_a_compile_error_with_the_compilers_words():
    with pytest.raises(errors.CompileError, match="program for tpu:v5e"):
        compiled("""module @program { func.func public @main() -> tensor<4xf32> {
          %0 = stablehlo.custom_call @no_such_call() : () -> tensor<4xf32>
          return %0 : tensor<4xf32> } }""")


def run(code, **environment):
    env = {k: v for k, v in os.environ.items() if k != "TPU_LIBRARY_PATH"}
    return subprocess.run(
        [sys.executable, "-c", code], env={**env, **environment}, capture_output=True, text=True, timeout=120
    )


LOAD = "from tilewright.xla_backend.devices import tpu_plugin as tpu\ntpu.devices('tpu:v5e')"


def test_a_missing_libtpu_is_named_with_the_pip_line():
    hide = """
import importlib.util as u
find = u.find_spec
u.find_spec = lambda name, *rest: None if name == "libtpu" else find(name, *rest)
"""
    done = run(hide + LOAD)
    assert "VersionError" in done.stderr and "pip install 'tilewright[tpu]'" in done.stderr


def test_another_libtpu_is_named_with_the_pip_line(tmp_path):
    other = """
import importlib.metadata as m
version = m.version
m.version = lambda name: "0.0.7" if name == "libtpu" else version(name)
"""
    done = run(other + LOAD)
    assert (
        "VersionError" in done.stderr
        and "libtpu 0.0.7" in done.stderr
        and "pip install 'tilewright[tpu]'" in done.stderr
    )
    broken = tmp_path / "libtpu.so"
    broken.write_text("no library")
    done = run(LOAD, TPU_LIBRARY_PATH=str(broken))
    assert "VersionError" in done.stderr and "cannot be loaded" in done.stderr



def test_more_memory_than_the_device_has_is_said_in_bytes():
    x = tw.ShapeDtypeStruct((65536, 65536), "float32")
    with pytest.raises(errors.ResourceError, match=r"needs \d+\.\d+ GiB of the device's memory at once"):
        tw.compile(lambda x: x.T @ x @ x, x, target="tpu:v5e")


def rows_from(start, rows, dtype="float32"):
    """Sixteen rows of a far operand, from where a table says."""

    def body(at, x, o, held, done):
        copy = tl.make_async_copy(x.at[tl.ds(start(at[tl.program_id(0)]), 16)], held, done)
        copy.start()
        copy.wait()
        o[...] = held[...]

    call = tl.kernel_call(
        body, tw.ShapeDtypeStruct((128, 128), dtype), grid_spec=tl.PrefetchScalarGridSpec(
            1, (8,), [tl.BlockSpec(memory_space=tl.ANY)], tl.BlockSpec((16, 128), lambda i, at: (i, 0)),
            [tl.VMEM((16, 128), dtype), tl.SemaphoreType.DMA]))  # fmt: skip
    types = tw.ShapeDtypeStruct((8,), "int32"), tw.ShapeDtypeStruct((rows, 128), dtype)
    return tw.compile(call, *types, target="tpu:v5e")


def test_rows_of_words_are_copied_from_anywhere():
    """One by one, unless they are known to start at whole tiles; the operand stays where it is."""
    for start in (lambda at: at, lambda at: tl.multiple_of(at, 8)):
        (used,) = rows_from(start, 2**20).resources
        assert used.fast_bytes < MIB


def test_rows_of_less_than_words_that_start_anywhere_take_vmem_for_all_of_the_operand():
    """As far as there is any; else, and where rows are known to start at whole tiles, the operand stays where it is."""
    (used,) = rows_from(lambda at: at, 16384, "bfloat16").resources
    assert used.fast_bytes > 16384 * 128 * 2
    (used,) = rows_from(lambda at: tl.multiple_of(at, 16), 2**20, "bfloat16").resources
    assert used.fast_bytes < MIB
    (used,) = rows_from(lambda at: at, 2**20, "bfloat16").resources  # the tiles around the rows are copied
    assert used.fast_bytes < MIB
