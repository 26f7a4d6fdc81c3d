"""What a kernel may run on: memories, lanes, matrix units and peak rates, as data.

Sources, all public: NVIDIA A100, H100 and B200 datasheets and the CUDA programming guide's table of compute
capabilities (shared memory and registers of an SM); AMD's MI300X datasheet and CDNA 3 white paper; Google Cloud's TPU
pages (v5e, v5p, v6e, v7) for rates and memory, and the published Pallas TPU guide for lanes, sublanes and VMEM.
Rates are dense (no sparsity), per chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import ArgumentError
from ..core.ir import Program
from ..core.types import ArrayType

KIB, MIB, GIB = 2**10, 2**20, 2**30
TERA, GIGA = 10**12, 10**9


@dataclass(frozen=True)
class Target:
    """A kind of device.

    `fast_bytes`: the memory beside the compute units (shared memory, VMEM) that a cell's blocks are in;
    `block_bytes`: how much of it default tiles fill. `lanes`, `sublanes`: the vector unit's shape. `matrix`: the
    shape (m, n, k) that a matrix unit likes. `peak`: operations a second by dtype; `bandwidth`: bytes a second.
    """

    name: str
    kind: str  # cpu, cuda, rocm or tpu
    units: int  # SMs, compute units, or TensorCores
    fast_bytes: int
    block_bytes: int
    register_bytes: int
    memory_bytes: int
    lanes: int
    sublanes: int
    matrix: tuple[int, int, int]
    peak: tuple[tuple[str, float], ...]
    bandwidth: float
    whole_arrays: bool = False  # the compiler fuses whole arrays better than tiles

    def rate(self, dtype: Any) -> float:
        """Peak operations a second in a dtype; that of float32 where the dtype has no rate of its own."""
        rates = dict(self.peak)
        return rates.get(str(dtype), rates["float32"])

    def seconds(self, flops: float, moved: float, dtype: Any = "float32") -> float:
        """The roofline: the least time that some operations and bytes can take."""
        return max(flops / self.rate(dtype), moved / self.bandwidth)

    def tile_sizes(self, n: int, loops: Any, loop: int) -> Sequence[int]:
        """Sizes worth trying for one loop of `n` steps, smallest first."""
        n = max(n, 1)
        if loop in loops.whole:
            return (n,)
        if loop in loops.single:
            return (1,)
        if loop in loops.matrix:
            base = self.matrix[min(loops.matrix.index(loop), 2)]
            steps = (1, 2, 4) if self.kind == "tpu" else (0.5, 1, 2, 4)
            sizes = [int(base * f) for f in steps if base * f <= n]
            return sizes or ([n] if self.kind == "tpu" else [_power(n)])
        inner = len(loops.sizes) - 1 - loop
        if inner == 0:
            sizes = [self.lanes * 2**f for f in range(6) if self.lanes * 2**f <= n]
        elif inner == 1:
            sizes = [self.sublanes * 2**f for f in range(6) if self.sublanes * 2**f <= n]
        else:
            sizes = [1]
        return sizes or ([n] if self.kind == "tpu" else [_power(n)])


def _power(n: int) -> int:
    """The least power of two that holds n: what Triton's blocks are."""
    return 1 << (n - 1).bit_length()


def _cuda(name: str, sms: int, shared: int, memory: int, bandwidth: float, matrix: tuple[int, int, int],
          **tera: float) -> Target:  # fmt: skip
    peak = tuple((dtype, rate * TERA) for dtype, rate in tera.items())
    return Target(name, "cuda", sms, shared * KIB, shared * KIB // 2, 256 * KIB, memory * GIB, 32, 8, matrix, peak,
                  bandwidth * GIGA)  # fmt: skip


def _tpu(name: str, cores: int, vmem: int, memory: int, bandwidth: float, unit: int, **tera: float) -> Target:
    peak = tuple((dtype, rate * TERA) for dtype, rate in tera.items())
    return Target(name, "tpu", cores, vmem * MIB, vmem * MIB // 8, 256 * KIB, memory * GIB, 128, 8,
                  (unit, unit, unit), peak, bandwidth * GIGA)  # fmt: skip


# float32 products on a TPU's matrix unit are six bfloat16 passes.
TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        # No one CPU: an AVX2 core's order of magnitude (32 flops a cycle at 3 GHz, two channels of memory).
        Target("cpu", "cpu", 1, MIB, MIB // 2, 512, 16 * GIB, 8, 1, (8, 8, 8),
               (("float32", 0.1 * TERA), ("float64", 0.05 * TERA)), 20 * GIGA, whole_arrays=True),
        _cuda("cuda:sm_80", 108, 163, 80, 2039, (64, 64, 32),
              float64=9.7, float32=19.5, bfloat16=312, float16=312, int8=624),
        _cuda("cuda:sm_90", 132, 227, 80, 3350, (64, 128, 64),
              float64=34, float32=67, bfloat16=989, float16=989, float8_e4m3fn=1979, float8_e5m2=1979, int8=1979),
        _cuda("cuda:sm_100", 148, 227, 180, 7700, (128, 128, 64),
              float64=37, float32=75, bfloat16=2250, float16=2250, float8_e4m3fn=4500, float8_e5m2=4500, int8=4500),
        Target("rocm:gfx942", "rocm", 304, 64 * KIB, 48 * KIB, 512 * KIB, 192 * GIB, 64, 4, (64, 64, 32),
               (("float64", 81.7 * TERA), ("float32", 163.4 * TERA), ("bfloat16", 1307.4 * TERA),
                ("float16", 1307.4 * TERA), ("float8_e4m3fnuz", 2614.9 * TERA), ("int8", 2614.9 * TERA)), 5300 * GIGA),
        _tpu("tpu:v5e", 1, 128, 16, 819, 128, float32=197 / 6, bfloat16=197, int8=394),
        _tpu("tpu:v5p", 2, 64, 95, 2765, 128, float32=459 / 6, bfloat16=459, int8=918),
        _tpu("tpu:v6e", 1, 128, 32, 1640, 256, float32=918 / 6, bfloat16=918, int8=1836),
        _tpu("tpu:7x", 2, 64, 192, 7370, 256, float32=2307 / 6, bfloat16=2307, float8_e4m3fn=4614, float8_e5m2=4614),
    )
}  # fmt: skip
CPU = TARGETS["cpu"]
_SHORT = {"cuda": "cuda:sm_90", "rocm": "rocm:gfx942", "tpu": "tpu:v5e", "tpu:v7x": "tpu:7x"}


def target_of(target: str | Target) -> Target:
    """A target by name (`cpu`, `cuda:sm_90`, `rocm:gfx942`, `tpu:v5e`; a bare family means its commonest one).

    >>> target_of("tpu:v5e").lanes
    128
    """
    if isinstance(target, Target):
        return target
    family = ":".join(target.split(":")[:2])  # without a topology: `tpu:v5e:2x2` is four `tpu:v5e`
    found = TARGETS.get(_SHORT.get(family, family))
    if found is None:
        raise ArgumentError(f"there is no target named {target!r}", f"one of {', '.join(TARGETS)}")
    return found


@dataclass(frozen=True)
class CustomCall:
    """A kernel as a device's compiler takes it: one custom call in the XLA program.

    `config` is the text of the attribute `backend_config` (a string literal or a dictionary, as MLIR prints them).
    The call takes `in_types`, gives `out_types`, all row-major; `aliases` are (input, output) pairs that share
    memory. `prepare` makes its inputs from the kernel's operands; `finish` makes the kernel's results from the
    kernel's operands followed by the call's results. Where they are None, types are the kernel's own.
    """

    target: str
    config: str
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    api_version: int = 1
    aliases: tuple[tuple[int, int], ...] = ()
    prepare: Program | None = None
    finish: Program | None = None
    name: str = ""


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel takes of its device; None where the compiler does not tell.

    `fast_bytes` of `fast_limit`: shared memory of a program, VMEM of a kernel. `registers` are per thread, `spills`
    bytes; `cycles` is the compiler's estimate.
    """

    kernel: str
    fast_bytes: int
    fast_limit: int
    registers: int | None = None
    spills: int | None = None
    cycles: int | None = None
