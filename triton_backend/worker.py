"""The process that runs Triton's compiler: bad input can end it, and then only this process.

Run by `lang/toolchain/worker_main.py`, with nothing of this package imported. A request is {text, backend, arch,
warp_size, ptx_version, options}, an answer {binary, assembly, metadata, log}.
"""

import base64
import contextlib
import importlib
import io
import os
import tempfile
from typing import Any

BINARY = {"cuda": ("ptx", "cubin"), "hip": ("amdgcn", "hsaco")}
KEPT = ("shared", "num_warps", "warp_size", "global_scratch_size", "global_scratch_align", "tmem_size")


def compiled(request: dict[str, Any]) -> dict[str, Any]:
    """Every stage of Triton's pipeline in order, from the text of a module to machine code."""
    ir = importlib.import_module("triton._C.libtriton").ir
    kinds = importlib.import_module("triton.backends.compiler")
    target = kinds.GPUTarget(request["backend"], request["arch"], request["warp_size"])
    backend = importlib.import_module("triton.compiler.compiler").make_backend(target)
    options = backend.parse_options(dict(request["options"]))
    if request["backend"] == "cuda":
        newest = importlib.import_module("triton.backends.nvidia.compiler").get_ptx_version_from_options
        version = min(newest(options, request["arch"]), request["ptx_version"])
        options = backend.parse_options({**request["options"], "ptx_version": version})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with tempfile.NamedTemporaryFile("w", suffix=".ttir", delete=False) as file:
        file.write(request["text"])
    try:
        module = ir.parse_mlir_module(file.name, context)
    finally:
        os.unlink(file.name)
    module.context = context
    stages = {}
    backend.add_stages(stages, options, kinds.Language.TRITON)
    metadata = {"target": target, **options.__dict__}
    assembly, binary = BINARY[request["backend"]]
    results = {}
    for name, stage in stages.items():
        module = stage(module, metadata)
        if name in (assembly, binary):
            results[name] = module
    kept = {k: metadata[k] for k in KEPT if metadata.get(k) is not None}
    return {"binary": base64.b64encode(results[binary]).decode(), "assembly": results[assembly], "metadata": kept}


class Compiler:
    """Triton, as `lang/toolchain/worker_main.py` asks it."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        log = io.StringIO()  # ptxas's account of registers and spills is printed
        with contextlib.redirect_stdout(log):
            found = compiled(request)
        return {**found, "log": log.getvalue()}
