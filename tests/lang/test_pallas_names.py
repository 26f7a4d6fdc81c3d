"""Names that kernel authors know from Pallas: what they mean here, or why they are not here."""

import functools

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotAdaptedNameError,
    ShapeError,
    UnsupportedError,
)
from tilewright.lang import mosaic_gpu, tpu, triton
from tilewright.lang.kernel import missing_names as absent
from tilewright.lang.targets.target import TARGETS, target_of

I32 = np.int32
both = pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])


@pytest.mark.parametrize("module, names", [(tl, absent.PALLAS), (tpu, absent.TPU), (triton, absent.TRITON)])
def test_what_is_absent_says_why(module, names):
    assert not set(names) & set(module.__all__)
    for name, remedy in names.items():
        with pytest.raises(NotAdaptedNameError, match=f"{name} is a name of Pallas") as error:
            getattr(module, name)
        assert remedy in str(error.value)
        assert not hasattr(module, name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", [n for n in TARGETS if n.startswith("tpu:")])
def test_what_a_tpu_has(name):
    target = target_of(name)
    with tw.config(kernel_target=name):
        info = tpu.get_tpu_info()
        assert tpu.is_tpu_device()
    assert info == tpu.get_tpu_info_for_chip(info.chip_version, info.num_cores)
    assert f"tpu:{info.chip_version}" == name and info.num_cores == target.units == 1 + info.is_megacore
    assert np.isclose(info.bf16_ops_per_second * info.num_cores, target.rate("bfloat16"))
    assert info.is_lite == name.endswith("e") and str(info.generation) in name
    assert info.get_sublane_tiling("float32") == 8 and info.get_sublane_tiling("int8") == 32
    assert info.is_matmul_supported("bfloat16", "float8_e5m2") and not info.is_matmul_supported("int8", "float32")
    assert info.is_matmul_supported("int8", "int8") == (info.generation < 7)


def test_tpus_that_are_not_there():
    with pytest.raises(UnsupportedError, match="kernels are for cpu"), tw.config(kernel_target="cpu"):
        tpu.get_tpu_info()
    with pytest.raises(UnsupportedError, match="TPU v2 is no target"):
        tpu.get_tpu_info_for_chip(tpu.ChipVersion.TPU_V2, 1)
    with pytest.raises(ArgumentError, match="2 cores of a TPU v5e"):
        tpu.get_tpu_info_for_chip(tpu.ChipVersion.TPU_V5E, 2)
    assert tpu.get_tpu_info_for_chip(tpu.ChipVersion.TPU_V5P, 1).is_split_chip


@both
@pytest.mark.parametrize("cores", [1, 2])
def test_a_kernel_on_a_mesh_of_cores(cores, interpret):
    """Each core copies its rows to scratch of its own; the first one alone writes the last result."""

    @tl.kernel(out_type=[tw.ShapeDtypeStruct((4, 3), "int32"), tw.ShapeDtypeStruct((1,), "int32")],
               mesh=tpu.TensorCoreMesh(axis_name="core", num_cores=cores), interpret=interpret,
               scratch_types=[tpu.VMEM((4 // cores, 3), "int32")])  # fmt: skip
    def call(x, o, first, held):
        core = lax.axis_index("core")
        rows = tl.ds(core * (4 // cores), 4 // cores)
        tpu.sync_copy(tpu.annotate(x.at[rows], no_store=True), held)
        held[...] = held[...] + core
        tpu.sync_copy(held, o.at[rows])

        @tpu.run_on_first_core("core")
        def _():
            first[0] = core + 7

    x = np.arange(12, dtype=I32).reshape(4, 3)
    got, first = call(x)
    np.testing.assert_array_equal(got, x + np.repeat(np.arange(cores), 4 // cores)[:, None])
    assert first.tolist() == [7]


@both
@pytest.mark.parametrize("cores", [1, 2])
def test_a_core_map_over_the_refs_that_its_body_closes_over(cores, interpret):
    """It reads and writes them in place, through functions and partials, also under `jit` and `grad`."""
    n = 4 // cores

    def doubled(x):
        source, target = tw.new_ref(x), tw.new_ref(tnp.zeros_like(x))

        def kernel(source, target, held, sem):
            rows = tl.ds(lax.axis_index("core") * n, n)
            tpu.async_copy(source.at[rows], held, sem).wait()
            held[...] = held[...] * 2
            tpu.sync_copy(held, target.at[rows])

        @tl.core_map(tpu.create_tensorcore_mesh("core", num_cores=cores), interpret=interpret)
        def _():
            tl.run_scoped(functools.partial(kernel, source, target), tpu.VMEM((n, 3), x.dtype), tpu.SemaphoreType.DMA)

        return target[...]

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(doubled(x), 2 * x)
    np.testing.assert_array_equal(tw.jit(doubled)(x), 2 * x)
    np.testing.assert_array_equal(tw.grad(lambda x: doubled(x).sum())(x), np.full_like(x, 2))


def one_device(f):
    return tw.shard_map(f, mesh=tw.make_mesh((1,), ("x",)), in_specs=tw.P("x"), out_specs=tw.P("x"))


@both
def test_one_core_signals_itself(interpret):
    """Along the axis of a mesh of one core, and along no axis of the devices' mesh."""

    @tl.kernel(out_type=tw.ShapeDtypeStruct((4,), "float32"), mesh=tpu.TensorCoreMesh(axis_name="core", num_cores=1),
               scratch_types=[tpu.SemaphoreType.REGULAR], interpret=interpret)  # fmt: skip
    def call(x, o, sem):
        for device in ({"core": 0}, {}):
            tl.semaphore_signal(sem, 1, device_id=device)
            tl.semaphore_wait(sem, 1)
        tpu.sync_copy(x, o)

    np.testing.assert_array_equal(one_device(call)(np.ones(4, np.float32)), np.ones(4))


def test_an_operand_that_varies_over_devices_is_aliased():
    def body(x, o):
        o[...] = x[...] * 2

    def call(x):
        return tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0})(x)

    np.testing.assert_array_equal(one_device(call)(np.ones(4, np.float32)), np.full(4, 2))


def test_cores_of_the_target_and_what_is_missing():
    assert tl.CoreMesh().count == 1
    with tw.config(kernel_target="tpu:v5p"):
        assert tl.CoreMesh(axis_name="core").count == 2
    with pytest.raises(ArgumentError, match="without out_shape"):
        tl.core_map(tl.CoreMesh(1))(lambda: None)
    with pytest.raises(ArgumentError, match="devices and num_cores"):
        tpu.create_tensorcore_mesh("core", tw.devices(), 1)
    with pytest.raises(ArgumentTypeError, match="delay_release"):
        mosaic_gpu.emit_pipeline(lambda *_: None, grid=(1,), delay_release=1)


@both
def test_arrays_in_bodies(interpret):
    def body(x, o):
        held = tl.empty_like({"a": x[...]})["a"]
        spread = tl.broadcast_to(x[0:1, :], (2, 3))
        o[...] = tnp.where(spread >= 0, spread, held)

    x = np.arange(6, dtype=I32).reshape(2, 3)
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((2, 3), "int32"), interpret=interpret)
    np.testing.assert_array_equal(call(x), [[0, 1, 2]] * 2)
    assert tl.strides_from_shape((2, 3, 4)) == (12, 4, 1) and tl.strides_from_shape(()) == ()
    with pytest.raises(ShapeError, match="broadcast_to"):
        tl.broadcast_to(x, (3, 3))


def test_inline_assembly_under_the_name_of_pallas():
    x = np.arange(3, dtype=I32)
    given = {"args": [x], "constraints": "=r,r", "pack": 1, "meaning": lambda x: x + x}
    (got,) = triton.elementwise_inline_asm(
        "add.s32 $0, $1, $1;", result_shape_dtypes=[tw.ShapeDtypeStruct((3,), "int32")], **given)  # fmt: skip
    np.testing.assert_array_equal(got, x * 2)
    with pytest.raises(ShapeError, match="a result of \\(4,\\)"):
        triton.elementwise_inline_asm("", result_shape_dtypes=[tw.ShapeDtypeStruct((4,), "int32")], **given)


@both
def test_stores_to_scratch_in_a_loop_whose_results_are_used(interpret):
    """The loop stays where nothing reads the scratch."""

    def body(o, held):
        def turn(state):
            i, _ = state
            held[0] = held[0] + 1
            return i + 1, i < 3

        held[0] = 0
        o[0] = lax.while_loop(lambda state: state[1], turn, (I32(0), np.bool_(True)))[0]

    call = tl.kernel_call(body, tw.ShapeDtypeStruct((1,), "int32"), scratch_shapes=[tl.SMEM((1,), "int32")],
                          interpret=interpret)  # fmt: skip
    assert call().tolist() == [4]


@both
def test_refs_made_in_a_body(interpret):
    def body(x, o):
        twice = tw.new_ref(x[...] * 2, memory_space=tl.VMEM)
        sums = tw.empty_ref(tw.ShapeDtypeStruct((4,), "int32"), tl.VMEM)
        sums[1:] += twice[1:]
        o[...] = sums[...] + twice[...]

    x = np.arange(4, dtype=I32)
    call = tl.kernel_call(body, tl.VMEM.like(x).array, interpret=interpret)
    np.testing.assert_array_equal(call(x), np.where(x > 0, 4 * x, 2 * x))
    with pytest.raises(UnsupportedError, match="outside of a kernel"):
        tw.new_ref(x, memory_space=tl.VMEM)


def test_run_state_outside_of_kernels():
    def turn(refs):
        refs["a"][0] += refs["b"][1]

    state = {"a": tnp.zeros(2), "b": tnp.ones(2)}
    got = tw.jit(tl.run_state(turn))(state)
    np.testing.assert_array_equal(got["a"], [1, 0])
    gradient = tw.grad(lambda b: tl.run_state(turn)(state | {"b": b})["a"].sum())(tnp.ones(2))
    np.testing.assert_array_equal(gradient, [0, 1])


def test_names_of_triton_say_what_to_use():
    for name, remedy in absent.OF_TRITON.items():
        with pytest.raises(NotAdaptedNameError, match=f"lang.{name} is a name of Triton") as error:
            getattr(tl, name)
        assert remedy in str(error.value) and name not in tl.__all__
    assert all(hasattr(tnp, name) for name in absent.NUMPY) and all(hasattr(lax, name) for name in absent.LAX)


@pytest.mark.parametrize(("name", "meant"), [
    ("h100", "cuda:sm_90"), ("sm_90", "cuda:sm_90"), ("cuda:sm90", "cuda:sm_90"), ("v5e", "tpu:v5e"),
    ("TPU v6e", "tpu:v6e"), ("mi300x", "rocm:gfx942"), ("H200", "cuda:sm_90:h200"), ("cuda:90", "cuda:sm_90"),
    ("nvidia-b200", "cuda:sm_100"), ("ironwood", "tpu:7x"), ("gpu", "cuda"),
])  # fmt: skip
def test_other_names_of_targets(name, meant):
    with pytest.raises(ArgumentError, match=f"did you mean '{meant}'"):
        target_of(name)
    assert target_of(meant)
    with pytest.raises(ArgumentError, match="one of cpu, cuda:sm_80"):
        target_of("abacus")
