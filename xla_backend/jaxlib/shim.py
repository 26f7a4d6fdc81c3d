"""The only module that touches jaxlib's internals, whose surface changes from one version to the next."""

from __future__ import annotations

import ctypes
import functools
import io
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ...core.support import forks
from ...core.support.memo import once
from ...core.support.runtime import runtime
from ...core.support.version import check_jaxlib
from .interruptible import interruptible

check_jaxlib()

from jaxlib import _jax, xla_client  # noqa: E402

if TYPE_CHECKING:
    from ...core.ir.types import ArrayType
    from ...core.sharding.mesh import NamedSharding

ArrayImpl: type = _jax.ArrayImpl
RuntimeFault: type[Exception] = _jax.JaxRuntimeError
CompileOptions: Any = xla_client.CompileOptions
Buffer: Any
ExecutionContext: Any
ExecutionStage: Any
Buffer, ExecutionContext, ExecutionStage = _jax.ffi.Buffer, _jax.ffi.ExecutionContext, _jax.ffi.ExecutionStage
SingleDeviceSharding: Any = xla_client.SingleDeviceSharding
DeviceList: Any = xla_client.DeviceList
result_handler: Any = xla_client.array_result_handler
collect_garbage: Any = _jax.collect_garbage  # releases host arrays behind freed buffers
ZERO_COPY: Any = xla_client.HostBufferSemantics.ZERO_COPY
_FLOAT4 = np.dtype(ml_dtypes.float4_e2m1fn)
COMPILING = "XLA's compilation"
DURING_CALL: Any = xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL


def make_cpu_client(num_devices: int | None = None, asynchronous: bool = True, **among: Any) -> Any:
    """A new client of XLA:CPU with one device, or with several virtual ones; `among`: as `among_processes` says."""
    return xla_client.make_cpu_client(asynchronous=asynchronous, num_devices=num_devices, **among)


def coordination_service(address: str, count: int, timeout: int) -> Any:
    """XLA's service by which `count` processes find each other, at an address of this machine."""
    # Deaths are noticed by `tilewright.distributed`: the service would abort every process, hence its long time.
    return _jax.get_distributed_runtime_service(address, count, heartbeat_timeout=FOR_EVER, shutdown_timeout=timeout,
                                                cluster_register_timeout=timeout)  # fmt: skip


FOR_EVER = 10**6  # seconds


def coordination_client(address: str, index: int, timeout: int, shutdown: int) -> Any:
    """A process's client of the coordination service, with its key-value store."""
    client = _jax.get_distributed_runtime_client(
        address, index, init_timeout=timeout, shutdown_timeout=shutdown, heartbeat_timeout=FOR_EVER,
        shutdown_on_destruction=False, use_compression=True)  # fmt: skip
    client.connect()
    return client


def among_processes(store: Any, index: int, count: int, host: str | None) -> dict[str, Any]:
    """What a client of CPUs is given to compute with those of other processes, by way of gloo."""
    collectives = _jax.make_gloo_tcp_collectives(distributed_client=store, hostname=host)
    return {"distributed_client": store, "node_id": index, "num_nodes": count, "collectives": collectives}


def put(aval: ArrayType, sharding: NamedSharding, x: Any, device: Any, owned: bool, committed: bool) -> Any:
    """A NumPy array as a buffer. `owned`: nobody will write to its memory, so that it may be shared."""
    forks.check()
    semantics = ZERO_COPY if owned else DURING_CALL
    return xla_client.batched_device_put(aval, sharding, [x], [device], committed, False, semantics, True)


def committed(buffer: Any) -> Any:
    """A buffer of the same memory that is committed to its device."""
    sharding = buffer._sharding
    return put(buffer.aval, sharding, buffer, next(iter(sharding._internal_device_list)), True, True)


class _HostBuffer:
    """The memory of a buffer whose dtype the buffer protocol lacks; kept from reuse as long as a view of it lives."""

    def __init__(self, buffer: Any, dtype: np.dtype):
        self._hold = to_dlpack(buffer)
        self.__array_interface__ = {
            "version": 3,
            "shape": buffer.aval.shape,
            "typestr": f"|V{dtype.itemsize}",
            "data": (buffer.unsafe_buffer_pointer(), True),
        }


def wait(buffer: Any) -> None:
    """Wait until a buffer is computed."""
    if forks.used_in_parent and not buffer.is_ready():
        forks.refuse()
    buffer.block_until_ready()


def wait_for_all(buffers: list[Any]) -> None:
    """Wait until each of some buffers is computed."""
    if forks.used_in_parent and not all(buffer.is_ready() for buffer in buffers):
        forks.refuse()
    _jax.batched_block_until_ready(buffers)


def to_numpy(buffer: Any) -> Any:
    """A read-only view of a buffer's memory, waiting until it is computed."""
    # ArrayImpl's own way to NumPy looks for jax at every call, and imports it where it is installed.
    wait(buffer)
    if _beyond_host and device(buffer).client in _beyond_host:
        return buffer._single_device_array_to_np_array_did_copy()[0]
    dtype = np.dtype(buffer.aval.dtype)
    if dtype.isbuiltin == 1:
        return np.asarray(memoryview(buffer))
    if dtype == _FLOAT4:  # half a byte each, which DLPack gives as it is, and only ArrayImpl can unpack
        return buffer._single_device_array_to_np_array_did_copy()[0]
    try:
        return np.asarray(_HostBuffer(buffer, dtype)).view(dtype)
    except RuntimeFault:  # integers of less than a byte
        return buffer._single_device_array_to_np_array_did_copy()[0]


def device(buffer: Any) -> Any:
    """jaxlib's object for the one device that holds a buffer, if its sharding names one."""
    return getattr(buffer._sharding, "_device", None)


def to_dlpack(buffer: Any) -> Any:
    return _jax.buffer_to_dlpack_managed_tensor(buffer, None)


def new_context(sharded: bool = False) -> Any:
    """A new MLIR context with the dialects of our programs."""
    # Here because the bindings take 50 ms to load and only such programs need them.
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, stablehlo

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    with context:
        stablehlo.register_dialect(context)
        chlo.register_dialect(context)
        if sharded:
            from jaxlib.mlir.dialects import sdy

            sdy.register_dialect(context)
    return context


def parsed(text: str) -> Any:
    """The text of a module as an MLIR module, which programs with host callbacks have to be given as."""
    from jaxlib.mlir import ir

    with new_context("sdy." in text):
        return ir.Module.parse(text)


def portable(text: str) -> bytes:
    """The text of a module as a portable artifact of StableHLO, which jaxlibs of the last and next months read."""
    from jaxlib.mlir.dialects import stablehlo

    weeks = stablehlo.StablehloCompatibilityRequirement.WEEK_4
    version = stablehlo.get_version_from_compatibility_requirement(weeks)
    return bytes(_jax.mlir.serialize_portable_artifact(parsed(text), version, "sdy." in text))


def from_portable(artifact: bytes) -> str:
    """The text of a portable artifact."""
    with new_context(True) as context:
        return _text(_jax.mlir.deserialize_portable_artifact(artifact, context).operation)


def _text(operation: Any) -> str:
    return operation.get_asm(enable_debug_info=False)


def functions(artifact: bytes, prefix: str, first: int = 0) -> tuple[list[str], dict[str, str]]:
    """The functions of a portable artifact, each as text, private, their names with a prefix; and the meshes it names.

    The numbers by which it calls Python functions are counted from `first`.
    """
    from jaxlib.mlir import ir

    with new_context(True) as context:
        module = _jax.mlir.deserialize_portable_artifact(artifact, context).operation
        table, found = ir.SymbolTable(module), list(module.regions[0].blocks[0].operations)
        meshes = {ir.StringAttr(m.attributes["sym_name"]).value: str(m.attributes["mesh"]).removeprefix("#sdy.mesh")
                  for m in found if m.operation.name == "sdy.mesh"}  # fmt: skip
        found = [operation for operation in found if operation.operation.name != "sdy.mesh"]
        for function in found:
            old = ir.StringAttr(function.attributes["sym_name"]).value
            ir.SymbolTable.replace_all_symbol_uses(old, prefix + old, module)
            ir.SymbolTable.set_symbol_name(function, prefix + old)
            ir.SymbolTable.set_visibility(function, "private")
        del table
        module.walk(lambda operation: _renumbered(ir, operation, first))
        return [_text(function) for function in found], meshes


def _renumbered(ir: Any, operation: Any, first: int) -> Any:
    """Count the number of a call of a Python function from `first`."""
    if operation.name == "stablehlo.custom_call" and "_python_" in operation.attributes["call_target_name"].value:
        number = operation.attributes["backend_config"]["index"]
        moved = ir.IntegerAttr.get(number.type, int(number) + first)
        operation.attributes["backend_config"] = ir.DictAttr.get({"index": moved})
    return ir.WalkResult.ADVANCE


def refined(text: str) -> str:
    """A module whose arguments have known sizes, with all other sizes worked out from them.

    Raises:
      RuntimeFault: a size stays unknown, or what the module requires of sizes does not hold.
    """
    from jaxlib.mlir import ir

    with new_context("sdy." in text):
        module = ir.Module.parse(text)
        code = io.BytesIO()
        module.operation.write_bytecode(code)
        try:
            found = _jax.mlir.refine_polymorphic_shapes(code.getvalue(), True, True, "sdy." in text)
        except ValueError as error:
            raise RuntimeFault(str(error)) from None
        return _text(ir.Module.parse(found).operation)


def computation(text: str) -> Any:
    """The text of a module as a computation in HLO."""
    return _jax.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)


HloSharding: Any = xla_client.HloSharding


def gspmd_sharding(devices: Any, hlo: Any, memory_kind: str | None) -> Any:
    """jaxlib's own form of a sharding over a list of devices."""
    return xla_client.GSPMDSharding(devices, hlo, **({"memory_kind": memory_kind} if memory_kind else {}))


def tiled_sharding(tiles: list[int], copies: int, sizes: list[int], order: list[int], addends: int = 1) -> Any:
    """An array in tiles, `copies` of each, and of each `addends` whose sum it is, over a mesh of some sizes.

    The mesh's axes are taken in an order.
    """
    kinds = xla_client.OpSharding.Type
    last = [(n, kind) for n, kind in ((copies, kinds.REPLICATED), (addends, kinds.UNREDUCED)) if n > 1]
    return HloSharding.iota_tile(tiles + [n for n, _ in last], sizes, order, [kind for _, kind in last])


def put_parts(
    aval: ArrayType, sharding: NamedSharding, parts: list[Any], devices: list[Any], owned: bool = True
) -> Any:
    """A sharded buffer of parts, one for each device of this process; `owned`: memory of NumPy arrays is given up."""
    # Where one array is named twice, copying semantics fail.
    forks.check()
    semantics = ZERO_COPY if owned else DURING_CALL
    return xla_client.batched_device_put(aval, sharding, parts, devices, True, False, semantics, True)


def assembled(buffer: Any) -> Any:
    """A sharded buffer as one NumPy array, assembled and cached by jaxlib."""
    return buffer._to_np_array_did_copy()[0]


class _Capsule:
    """A DLPack capsule for NumPy."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **how: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def leading(devices: list[Any], number: int) -> Any:
    """A sharding over some devices of which one comes first."""
    order = DeviceList((devices[number], *devices[:number], *devices[number + 1 :]))
    return xla_client.GSPMDSharding(order, HloSharding.replicate())


def readable(buffer: Any) -> bool:
    """Whether the host can read the parts of a sharded buffer in place, and DLPack has a code for its dtype."""
    return np.dtype(buffer.aval.dtype).isbuiltin == 1 and not _beyond_host


def part_of(buffer: Any, leading: Any) -> Any:
    """The part of a sharded buffer, computed and `readable`, that the device of a `leading` sharding holds, in place.

    `ArrayImpl` would import jax for it. DLPack gives the first shard, so the device order is changed.
    """
    first = _jax.reorder_shards(buffer, leading, _jax.ArrayCopySemantics.REUSE_INPUT)
    part = np.from_dlpack(_Capsule(to_dlpack(first)))
    part.flags.writeable = False
    return part


class _Tensor(ctypes.Structure):
    """The beginning of DLPack's `DLManagedTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _HeldPart:
    """The memory of a DLPack capsule, whose dtype NumPy does not know, as bytes."""

    def __init__(self, capsule: Any, dtype: np.dtype):
        self._hold = capsule
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
        self.__array_interface__ = {
            "version": 3, "shape": tuple(tensor.shape[: tensor.ndim]), "typestr": f"|V{dtype.itemsize}",
            "data": (tensor.data + tensor.byte_offset, True),
        }  # fmt: skip


def odd_part_of(buffer: Any, leading: Any, device: Any) -> Any:
    """The same of a buffer that is not `readable`: of dtypes such as bfloat16 in place, of others a copy."""
    dtype = np.dtype(buffer.aval.dtype)
    if not _beyond_host:
        try:
            first = _jax.reorder_shards(buffer, leading, _jax.ArrayCopySemantics.REUSE_INPUT)
            return np.asarray(_HeldPart(to_dlpack(first), dtype)).view(dtype)
        except RuntimeFault:  # elements of less than a byte
            pass
    # The one way that is left; it imports jax where that is installed.
    part = next(p for p in buffer._arrays if p._sharding._device == device)
    return part._single_device_array_to_np_array_did_copy()[0]


def copied_to(buffer: Any, devices: Any, sharding: NamedSharding) -> Any:
    """A sharded buffer's parts as they are, on other devices or in another kind of memory."""
    forks.check()
    reuse = _jax.ArrayCopySemantics.REUSE_INPUT
    return _jax.batched_copy_array_to_devices_with_sharding([buffer], [devices], [sharding], [reuse])[0]


def copy(buffer: Any) -> Any:
    """Copies of a buffer's shards, on the same devices."""
    sharding, always = buffer._sharding, _jax.ArrayCopySemantics.ALWAYS_COPY
    devices = sharding._internal_device_list
    forks.check()
    return _jax.batched_copy_array_to_devices_with_sharding([buffer], [devices], [sharding], [always])[0]


def assigned_to(device_ids: list[int], options: Any) -> Any:
    """The options of a program that is partitioned over some devices by Shardy."""
    build, count = options.executable_build_options, len(device_ids)
    options.num_replicas = build.num_replicas = 1
    options.num_partitions = build.num_partitions = count
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([device_ids], np.int32))
    return options


def assigned(device_id: int) -> Any:
    """The device assignment of a program that runs on one device."""
    return xla_client.DeviceAssignment.create(np.array([[device_id]]))


def compile_and_load(client: Any, text: str, devices: Any, options: Any, callbacks: list[Any]) -> Any:
    """Compile the text of a StableHLO module for some devices."""
    forks.check()
    if callbacks:
        return interruptible(COMPILING, lambda: client.compile_and_load(parsed(text), devices, options, callbacks))
    return interruptible(COMPILING, lambda: client.compile_and_load(text, devices, options))


def deserialize(client: Any, data: bytes, devices: Any, options: Any) -> Any:
    return client.deserialize_executable(data, devices, options)


_plugins: dict[str, Any] = runtime.part("shim.plugins", {})


def load_plugin(name: str, path: str) -> Any:
    """Load and start the PJRT plugin at a path, once in a process; its table of functions, None if jax loaded it."""
    if not xla_client.pjrt_plugin_loaded(name):
        _plugins[name] = xla_client.load_pjrt_plugin_dynamically(name, path)
    if not xla_client.pjrt_plugin_initialized(name):
        xla_client.initialize_pjrt_plugin(name)
    return _plugins.get(name)


def tpu_devices(topology: str, **options: Any) -> list[Any]:
    """The devices of a TPU topology, which can be compiled for and nothing else."""
    return xla_client.make_tfrt_tpu_c_api_device_topology(topology, **options)._make_compile_only_devices()


def compile_ahead(devices: list[Any], text: str, options: Any) -> Any:
    """Compile the text of a StableHLO module for devices that need not be here."""
    return interruptible(COMPILING, lambda: devices[0].client.compile(
        parsed(text), executable_devices=DeviceList(tuple(devices)), compile_options=options))  # fmt: skip


def described_devices(plugin: Any, config: str, count: int = 1) -> list[Any]:
    """Devices of a kind of GPU, described by XLA's text of it, which can be compiled for and nothing else."""
    topology = xla_client.make_c_api_device_topology(plugin, "", target_config=config, topology=f"1x1x{count}")
    return topology._make_compile_only_devices()


_beyond_host: list[Any] = runtime.part("shim.beyond_host", [])  # clients whose buffers the host cannot read in place


def make_plugin_client(name: str, store: Any = None, **among: Any) -> Any:
    """A client of the devices of a plugin that is loaded, with settings from the variables `XLA_PYTHON_CLIENT_*`.

    `store` and the options `among` (`node_id`, `num_nodes`, `visible_devices`) are for those of several processes.
    """
    options: dict[str, Any] = {**xla_client.generate_pjrt_gpu_plugin_options(), **among}
    client = xla_client.make_c_api_client(name, options, store)
    forks.mark_used()
    _beyond_host.append(client)
    return client


def make_tpu_client() -> Any:
    """A client of the TPUs of this machine; their plugin is loaded."""
    client = xla_client.make_c_api_client("tpu", {}, None)
    forks.mark_used()
    _beyond_host.append(client)
    return client


@once
def lapack() -> None:
    """Give XLA:CPU the routines of SciPy's LAPACK, which takes a tenth of a second to import."""
    from jaxlib import lapack as routines

    for name, value, version in routines.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, value, platform="cpu", api_version=version)
    routines.prepare_lapack_call("potrf", np.float32)


@once
def sparse() -> None:
    """Give XLA:CPU the product of a sparse matrix with a dense one."""
    from jaxlib import cpu_sparse as routines

    for name, value, version in routines.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, value, platform="cpu", api_version=version)


def register_targets(targets: dict[str, Any]) -> None:
    """Give GPUs the routines of an extension module, by the names that programs call them by."""
    for name, value in targets.items():
        if not name.startswith("cu_cholesky_update"):  # of an older interface, and not called by programs of ours
            xla_client.register_custom_call_target(name, value, platform="CUDA", api_version=1)


def register_handlers(extension: Any, plugin: Any) -> None:
    """Give a plugin the handlers of an extension module of jax's: host callbacks, and what they are made with."""
    register = functools.partial(extension.register_custom_call_target, plugin)
    xla_client.register_custom_type_handler("CUDA", functools.partial(extension.register_custom_type, plugin))
    xla_client.register_custom_call_handler("CUDA", register)
    for name, value in extension.ffi_types().items():
        xla_client.register_custom_type(name, value, platform="CUDA")
    for name, value in extension.ffi_handlers().items():
        xla_client.register_custom_call_target(name, value, platform="CUDA", api_version=1)


def profiler() -> Any:
    """XLA's profiler."""
    from jaxlib import _profiler

    return _profiler


def recorded_events(serialised: bytes) -> list[tuple[str, Any]]:
    """What the profiler recorded: each event with the name of its device and thread or stream."""
    from jaxlib import _profile_data

    planes = _profile_data.ProfileData.from_serialized_xspace(serialised).planes
    with warnings.catch_warnings():  # the first look at `stats` warns; where warnings are errors, the process ends
        warnings.simplefilter("ignore", DeprecationWarning)
        return [
            (f"{plane.name} {line.name}", (event.name, event.start_ns, event.duration_ns, dict(event.stats)))
            for plane in planes for line in plane.lines for event in line.events
        ]  # fmt: skip


def hlo_text(serialised: bytes) -> str:
    """The text of an HLO module's protocol buffer."""
    from jaxlib import _hlo

    return _hlo.HloModule.from_serialized_hlo_module_proto(serialised).to_string()


def register_foreign(name: str, handler: Any, platform: str, version: int, **more: Any) -> None:
    """Register a function of a foreign library, once the platform's library is there."""
    xla_client.register_custom_call_target(name, handler, platform, version, **more)


def register_foreign_type(name: str, registration: Mapping[str, Any], platform: str) -> None:
    """Register a type that foreign functions keep between calls."""
    xla_client.register_custom_type(name, registration, platform=platform)


def foreign_names(platform: str) -> list[str]:
    """The names of the functions that programs for a platform can call."""
    return list(xla_client.custom_call_targets({"cpu": "Host", "cuda": "CUDA", "rocm": "ROCM"}.get(platform, platform)))


def register_batch_partitionable(name: str) -> None:
    """Say of a foreign function that it may be called for parts of a batch."""
    xla_client.register_custom_call_as_batch_partitionable(name)


def include_dir() -> str:
    """The folder of the headers that foreign functions are built with."""
    return os.path.join(os.path.dirname(os.path.abspath(_jax.__file__)), "include")
