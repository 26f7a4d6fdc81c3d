"""The process that compiles Mosaic GPU's modules: bad input can end it, and then only this process.

Run by `lang/toolchain/worker_main.py`, with nothing of this package imported. A request is {text, name, arch,
ptx_version, config}, an answer {binary, assembly, log}.

jaxlib's pipeline behind the custom call `mosaic_gpu_v2`, in XLA's CUDA plugin, makes PTX of a module; it prints the PTX
on request. It finds ptxas and libdevice in a folder `cuda_sdk_lib` of the folder that it runs in: those are Triton's.
One architecture is compiled for in a process.
"""

import base64
import hashlib
import importlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


SHARED = re.compile(r"\n[^\n]*\.shared \.align \d+ \.b8 (__dynamic_shmem__\w*);")
ENTRY = re.compile(r"\.entry (\w+)\(")


def folder_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise RuntimeError(f"{package} is not installed")
    return pathlib.Path(found.submodule_search_locations[0])


def enter(folder: str, arch: str) -> Path:
    """Work in a folder as the pipeline expects it; gives the assembler."""
    nvidia = folder_of("triton") / "backends" / "nvidia"
    links = {
        "bin/ptxas": nvidia / "bin" / ("ptxas-blackwell" if arch.startswith("10") else "ptxas"),
        "bin/nvdisasm": nvidia / "bin" / "nvdisasm",
        "nvvm/libdevice/libdevice.10.bc": nvidia / "lib" / "libdevice.10.bc",
    }
    root = pathlib.Path(folder) / "cuda_sdk_lib"
    for name, place in links.items():
        link = root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(place)
    os.environ["MOSAIC_GPU_CUDA_ROOT"] = str(root)
    os.environ["MOSAIC_GPU_RUNTIME_LIB_PATH"] = str(folder_of("jax_cuda13_plugin") / "libmosaic_gpu_runtime.so")
    os.environ["MOSAIC_GPU_DUMP_PTX"] = "1"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
    os.chdir(folder)
    return root / "bin" / "ptxas"


class Pipeline:
    """jaxlib, and the devices of a topology that need not be here."""

    context: Any

    def __init__(self, config: str):
        self.ir: ModuleType = importlib.import_module("jaxlib.mlir.ir")
        self.passes: ModuleType = importlib.import_module("jaxlib.mlir.passmanager")
        self.client: ModuleType = importlib.import_module("jaxlib.xla_client")
        self.extension: ModuleType = importlib.import_module("jaxlib._jax")
        self.context, registry = self.ir.Context(), self.ir.DialectRegistry()
        importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
        self.context.append_dialect_registry(registry)
        self.context.load_all_available_dialects()
        importlib.import_module("jaxlib.mlir._mlir_libs._stablehlo").register_dialect(self.context)
        importlib.import_module("jaxlib.mosaic.python.mosaic_gpu").register_dialect(self.context)
        plugin = folder_of("jax_plugins.xla_cuda13") / "xla_cuda_plugin.so"
        loaded = self.client.load_pjrt_plugin_dynamically("cuda", str(plugin))
        self.client.initialize_pjrt_plugin("cuda")
        topology = self.client.make_c_api_device_topology(loaded, "", target_config=config, topology="1x1x1")
        self.devices: Any = topology._make_compile_only_devices()[:1]

    def serialised(self, text: str) -> bytes:
        """A module as the custom call takes it."""
        with self.context, self.ir.Location.unknown():
            module = self.ir.Module.parse(text)
            module.operation.verify()
            self.context.allow_unregistered_dialects = True
            passes = self.passes.PassManager.parse("builtin.module(mosaic_gpu-serde{serialize=true})")
            passes.run(module.operation)
            out = io.BytesIO()
            module.operation.write_bytecode(out, desired_version=0)
            return out.getvalue()

    def printed(self, body: bytes) -> str:
        """What the pipeline prints while XLA compiles a program of one call."""
        escaped = ["".join(f"\\{b:02X}" for b in data) for data in (hashlib.sha256(body).digest(), body)]
        one = "tensor<1xi8>"
        program = f"""module @m attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
          func.func public @main(%a: {one}) -> {one} {{
            %r = stablehlo.custom_call @mosaic_gpu_v2(%a) {{api_version = 4 : i32, backend_config = {{
              kernel_hash = "{escaped[0]}", module = "{escaped[1]}", use_custom_barrier = false,
              skip_device_barrier = false, uses_xla_collective_metadata = false}}}} : ({one}) -> {one}
            return %r : {one} }} }}"""
        options = self.client.CompileOptions()
        options.num_replicas = options.num_partitions = 1
        numpy = importlib.import_module("numpy")
        ids = numpy.array([[self.devices[0].id]])
        options.device_assignment = self.client.DeviceAssignment.create(ids)
        with self.context, self.ir.Location.unknown():
            module = self.ir.Module.parse(program)
            devices = self.extension.DeviceList(tuple(self.devices))
            with caught() as dump:
                self.devices[0].client.compile(module, executable_devices=devices, compile_options=options)
        return dump.text


class caught:
    """What is written to standard output, by C++ too, while it is entered."""

    file: IO[bytes]
    saved: int

    def __enter__(self) -> "caught":
        sys.stdout.flush()
        self.file, self.saved = tempfile.TemporaryFile(), os.dup(1)
        os.dup2(self.file.fileno(), 1)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.stdout.flush()
        os.dup2(self.saved, 1)
        os.close(self.saved)
        self.file.seek(0)
        self.text: str = self.file.read().decode(errors="replace")
        self.file.close()


def tidied(dump: str, name: str, newest: int) -> str:
    """The PTX in what was printed: one kernel of a name, whose shared memory is all given at the launch.

    Its version is `newest` (major * 10 + minor) at most: the assembler then refuses what is of a later one.
    """
    start = dump.index("//\n// Generated by LLVM NVPTX")
    end = dump.find("\n// Generated by LLVM NVPTX", start + 10)
    ptx = dump[start : len(dump) if end < 0 else end].split("\0")[0]
    ptx = "\n".join(line for line in ptx.splitlines() if not re.match(r"\s*\.(loc|file)\s|\$L__(tmp|func)", line))
    cut = ptx.find("\n\t.section")
    ptx = ptx if cut < 0 else ptx[:cut]
    (entry,) = ENTRY.findall(ptx)
    memory = SHARED.search(ptx)
    if memory is not None:
        ptx = SHARED.sub("", ptx, count=1)
        extern = f".extern .shared .align 1024 .b8 {memory[1]}[];\n\n.visible .entry"
        ptx = ptx.replace(".visible .entry", extern, 1)
    ptx = re.sub(r" \.ptr \.align \d+", "", ptx)  # what it takes for granted of operands
    version = re.search(r"(?m)^\.version (\d+)\.(\d+)$", ptx)
    if version is not None and int(version[1]) * 10 + int(version[2]) > newest:
        ptx = ptx.replace(version[0], f".version {newest // 10}.{newest % 10}", 1)
    return re.sub(rf"\b{entry}\b", name, re.sub(rf"\b{entry}_param", f"{name}_param", ptx)) + "\n"


def assembled(ptxas: Path, ptx: str, arch: str) -> tuple[bytes, str]:
    """Machine code, and the assembler's account of it."""
    pathlib.Path("kernel.ptx").write_text(ptx)
    done = subprocess.run([ptxas, "-v", f"-arch=sm_{arch}", "-o", "kernel.cubin", "kernel.ptx"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        raise RuntimeError("; ".join(f"ptxas {line}" for line in done.stderr.splitlines()[:3]))
    return pathlib.Path("kernel.cubin").read_bytes(), done.stderr


class Compiler:
    """The pipeline and the assembler, of the architecture of the first request."""

    def __init__(self):
        self.folder: TemporaryDirectory[str] = tempfile.TemporaryDirectory(prefix="tilewright-mosaic-gpu-")
        self.pipeline: Pipeline | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.pipeline is None:
            self.ptxas: Path = enter(self.folder.name, request["arch"])
            self.pipeline = Pipeline(request["config"])
        dump = self.pipeline.printed(self.pipeline.serialised(request["text"]))
        ptx = tidied(dump, request["name"], request["ptx_version"])
        binary, log = assembled(self.ptxas, ptx, request["arch"])
        return {"binary": base64.b64encode(binary).decode(), "assembly": ptx, "log": log}
