"""A kernel as a custom call of an XLA program for a GPU.

XLA has three ways to take a Triton kernel; what follows was measured with jaxlib 0.11.2 and Triton 3.6.0 on a float16
product of 8192 x 8192 matrices in blocks of 128 x 256 x 64 for sm_90.

| custom call | takes | XLA compiles in | code | in the program |
| --- | --- | --- | --- | --- |
| `__gpu$xla.gpu.triton` | TTIR, compiled by XLA's own Triton, in this process | 0.2 to 0.5 s | 170 registers | 9 KB |
| `triton_kernel_call_ffi` | PTX in a compressed protocol buffer | 0.1 to 0.3 s, by ptxas | as Triton's | 39 KB |
| `__gpu$xla.gpu.ptx` | PTX | 0.02 s | as Triton's, 164 registers | 16 KB |

The third is used for CUDA. Its code is the one that `triton_backend/compiler.py` made: the one that `.resources` tells
of, and that is launched on arrays of other libraries. A bad kernel cannot end this process (XLA's Triton does so on
one argument too few), kernels are compiled side by side, and results are kept. It is a launch of XLA's own, which CUDA
graphs take, where the second is a call of a handler that allocates its scratch memory at every launch. The first gives
a kernel no scratch memory at all, which kernels that make tensor descriptors write to; its dialect also differs from
Triton's in the syntax of descriptors. Scratch memory here is an output that is dropped; XLA aligns those to 128
bytes or more, as descriptors want it.

On ROCm, for which there is no XLA plugin among this package's extras, it is the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.support.memo import cached
from ..lang.gpu.code import Compiled
from ..lang.gpu.entry_points import linker, starter
from ..lang.gpu.ptx_call import config, ptx_call
from ..lang.kernel.kernel import Kernel
from ..lang.legalize import Legal, entry
from ..lang.targets.target import CustomCall, Resources, Target
from . import compiler
from .fit_resources import fitted, warn
from .lower import triton_module
from .module import TritonModule
from .rules import BACKEND

TTIR_CALL = "__gpu$xla.gpu.triton"


def compiled_kernel(kernel: Kernel | Legal, machine: Target) -> tuple[TritonModule, Compiled]:
    """The Triton program of a kernel and its machine code, which fits the target.

    Raises:
      UnsupportedError, DtypeError: what Triton or the target cannot do.
      CompileError: Triton refused the program.
      ResourceError: it needs more shared memory than there is.
    """
    found = fitted(kernel, machine)
    return found.module, found.compiled


@entry(BACKEND)
@cached(1024)
def emit(kernel: Legal, machine: Target) -> CustomCall:
    """The custom call that is a kernel, for a target of the family cuda or rocm. Raises as `compiled_kernel`."""
    module, compiled = compiled_kernel(kernel, machine)
    if machine.kind == "rocm":
        return CustomCall(TTIR_CALL, _ttir_config(module), module.in_types, module.out_types, 4, module.aliases,
                          module.prepare, module.finish, module.name)  # fmt: skip
    # The last two arguments of a Triton program are its scratch memory and its profiler's.
    return ptx_call(kernel.kernel, module, compiled, max(compiled.scratch_bytes, 1), 1)


def _resources(kernel: Kernel | Legal, compiled: Compiled, machine: Target) -> Resources:
    used = fitted(kernel, machine).resources(machine)
    warn(used)
    return used


start: Callable[..., None] = starter(lambda kernel, machine: compiler.start(triton_module(kernel, machine), machine))
compile: Callable[..., Any] = linker(compiled_kernel, _resources)


def _ttir_config(module: TritonModule) -> str:
    x, y, z = module.grid
    sizes = {"grid_x": x, "grid_y": y, "grid_z": z, "num_warps": module.num_warps, "num_stages": module.num_stages}
    return config({"name": module.name, "ir": module.text}, sizes, ", debug = false")
