"""What a kernel may run on: memories, lanes, matrix units, tiles and peak rates, as data.

Sources, all public.

- TPU: Google Cloud's pages on v5e, v5p, v6e and TPU7x (peak rates, HBM, TensorCores, number and size of matrix units);
  the hardware reference of the Pallas documentation (VMEM and SMEM of a TensorCore, lanes and sublanes). The clock is
  the one at which the matrix units reach the published peak: 197e12 / (4 * 2 * 128**2) = 1.5 GHz on v5e; likewise 1.75
  on v5p, and, at two passes of a 256 x 256 unit a cycle, 1.75 on v6e and 2.2 on 7x. The vector unit has four slots of
  128 x 8 lanes (the scaling book's appendix on TPUs); libtpu's own static profile agrees, with 4096 operations a cycle.
  The tiles of arrays are those that libtpu names when it refuses a block; its default VMEM of a kernel is in E1001.
- NVIDIA: datasheets of A100 80GB SXM, H100 SXM, H200 SXM and HGX B200, and the table of compute capabilities in the
  CUDA programming guide (shared memory of a block, registers of an SM, threads of a warp).
- AMD: MI300X datasheet, CDNA 3 white paper, ROCm's table of GPU specifications.

Rates are dense (no sparsity), for one device: what one program runs on, which is a chip, or on TPU 7x one of the two
TensorCores of a chip.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...core.ir.array import DTypeLike
from ...core.ir.program import Program
from ...core.ir.types import ArrayType
from ...core.support.config import current
from ...core.support.errors import ArgumentError
from ...core.support.runtime import runtime
from ..ops.basic import next_power_of_2

KIB, MIB, GIB = 2**10, 2**20, 2**30
TERA, GIGA = 10**12, 10**9


@dataclass(frozen=True)
class Target:
    """A kind of device.

    `fast_bytes`: the memory beside the compute units (shared memory, VMEM) that a cell's blocks are in;
    `block_bytes`: how much of it default tiles fill; `default_bytes`: how much of it the compiler gives a kernel that
    does not ask for more. `lanes`, `sublanes`: the vector unit's shape. `matrix`: the shape (m, n, k) that a matrix
    unit likes. `peak`: operations a second by dtype; `bandwidth`: bytes a second. `units`: cores that share the
    parallel axes of a grid. `tiles`: by bits of an element, the rows that are stored together. `refused`: dtypes that
    a kernel cannot have there in any form.
    """

    name: str
    kind: str  # cpu, cuda, rocm or tpu
    units: int  # SMs, compute units, or TensorCores of one device
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
    clock: float = 0.0  # cycles a second; 0 where no one figure holds
    matrix_units: int = 0  # of one core
    vector_slots: int = 0  # vector operations that one core starts in a cycle
    scalar_bytes: int = 0  # SMEM
    default_bytes: int = 0
    tiles: tuple[tuple[int, int], ...] = ()
    refused: tuple[str, ...] = ()
    grid_limit: int | None = None  # cells of a launch
    block_limit: int | None = None  # elements of one value
    copy_engine: bool = False  # it moves tiles that tensor descriptors say (TMA)
    wide_columns: int = 0  # of a product's block, if its tensor cores read both operands from shared memory

    def rate(self, dtype: DTypeLike) -> float:
        """Peak operations per second in a dtype; float32's rate where the dtype has no entry."""
        rates = dict(self.peak)
        return rates.get(str(dtype), rates["float32"])

    @property
    def gpu(self) -> bool:
        return self.kind in ("cuda", "rocm")

    @property
    def vector_rate(self) -> float:
        """Operations a second of the vector units; of float32 arithmetic where there is no other figure."""
        if self.vector_slots:
            return self.units * self.vector_slots * self.lanes * self.sublanes * self.clock
        return self.rate("float32")

    def tile(self, shape: Sequence[int], bits: int) -> tuple[int, ...]:
        """How an array with elements of some bits is tiled in memory: sizes for its last axes; () if it is not.

        >>> target_of("tpu:v5e").tile((4096, 4100), 8)
        (32, 128)
        >>> target_of("tpu:v5e").tile((1000,), 16)
        (256,)
        """
        if not self.tiles or not shape:
            return ()
        packed = max(32 // bits, 1)  # elements of one sublane's word
        if len(shape) == 1:
            return (self.lanes * packed,)
        rows, full = shape[-2], dict(self.tiles)[bits]
        if rows % full:  # stored in the least tiles of a power of two that hold it, up to a register's sublanes
            full = min(max(next_power_of_2(rows), packed), self.sublanes)
        return full, self.lanes

    def seconds(self, flops: float, moved: float, dtype: DTypeLike = "float32") -> float:
        """The roofline: the least time that some operations and bytes can take."""
        return max(flops / self.rate(dtype), moved / self.bandwidth)


def _peak(tera: dict[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((dtype, rate * TERA) for dtype, rate in tera.items())


def _cuda(name: str, sms: int, shared: int, memory: int, bandwidth: float, clock: float, matrix: tuple[int, int, int],
          refused: tuple[str, ...] = (), copy_engine: bool = True, wide: int = 0, **tera: float) -> Target:  # fmt: skip
    return Target(
        name, "cuda", sms, shared * KIB, shared * KIB // 2, 256 * KIB, memory * GIB, 32, 8, matrix, _peak(tera),
        bandwidth * GIGA, clock=clock * GIGA, matrix_units=4, default_bytes=48 * KIB, refused=refused + _NO_GPU,
        grid_limit=2**31 - 1, block_limit=2**20, copy_engine=copy_engine, wide_columns=wide)  # fmt: skip


def _tpu(name: str, cores: int, vmem: int, default: int, memory: int, bandwidth: float, clock: float, units: int,
         unit: int, **tera: float) -> Target:  # fmt: skip
    return Target(
        name, "tpu", cores, vmem * MIB, default * MIB // 2, 256 * KIB, memory * GIB, 128, 8, (unit, unit, unit),
        _peak(tera), bandwidth * GIGA, clock=clock * GIGA, matrix_units=units, vector_slots=4, scalar_bytes=MIB,
        default_bytes=default * MIB, tiles=((32, 8), (16, 8), (8, 32), (4, 64)), refused=_NO_TPU)  # fmt: skip


_WIDE = ("complex64", "complex128")
_NO_TPU = ("float64", "int64", "uint64", *_WIDE)
_NO_GPU = _WIDE  # a value of Triton's is a number, not a pair
_FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")
_FN = ("float8_e4m3fn", "float8_e5m2")

# float32 products on a TPU's matrix unit are six bfloat16 passes. On a GPU `matrix_units` are an SM's tensor cores.
TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        # No one CPU: an AVX2 core's order of magnitude (32 flops a cycle at 3 GHz, two channels of memory).
        Target("cpu", "cpu", 1, MIB, MIB // 2, 512, 16 * GIB, 8, 1, (8, 8, 8),
               (("float32", 0.1 * TERA), ("float64", 0.05 * TERA)), 20 * GIGA, whole_arrays=True, clock=3 * GIGA),
        _cuda("cuda:sm_80", 108, 163, 80, 2039, 1.41, (64, 64, 32), (*_FN, *_FNUZ), False,
              float64=9.7, float32=19.5, bfloat16=312, float16=312, int8=624),
        _cuda("cuda:sm_90", 132, 227, 80, 3350, 1.98, (64, 128, 64), _FNUZ, wide=256,
              float64=34, float32=67, bfloat16=989, float16=989, float8_e4m3fn=1979, float8_e5m2=1979, int8=1979),
        _cuda("cuda:sm_90:h200", 132, 227, 141, 4800, 1.98, (64, 128, 64), _FNUZ, wide=256,
              float64=34, float32=67, bfloat16=989, float16=989, float8_e4m3fn=1979, float8_e5m2=1979, int8=1979),
        _cuda("cuda:sm_100", 148, 227, 180, 7700, 1.965, (128, 128, 64), _FNUZ,
              float64=37, float32=75, bfloat16=2250, float16=2250, float8_e4m3fn=4500, float8_e5m2=4500, int8=4500),
        Target("rocm:gfx942", "rocm", 304, 64 * KIB, 48 * KIB, 512 * KIB, 192 * GIB, 64, 4, (64, 64, 32),
               (("float64", 81.7 * TERA), ("float32", 163.4 * TERA), ("bfloat16", 1307.4 * TERA),
                ("float16", 1307.4 * TERA), ("float8_e4m3fnuz", 2614.9 * TERA), ("float8_e5m2fnuz", 2614.9 * TERA),
                ("int8", 2614.9 * TERA)), 5300 * GIGA, clock=2.1 * GIGA, matrix_units=4, default_bytes=64 * KIB,
               refused=(*_FN, *_NO_GPU), grid_limit=2**31 - 1, block_limit=2**20),
        _tpu("tpu:v5e", 1, 128, 16, 16, 819, 1.5, 4, 128,
             float32=197 / 6, bfloat16=197, float8_e4m3fn=197, float8_e5m2=197, int8=394, int4=788),
        # The two TensorCores of a v5p chip are one device and share the parallel axes of a grid.
        _tpu("tpu:v5p", 2, 64, 16, 95, 2765, 1.75, 4, 128,
             float32=459 / 6, bfloat16=459, float8_e4m3fn=459, float8_e5m2=459, int8=918, int4=1836),
        _tpu("tpu:v6e", 1, 128, 32, 32, 1638, 1.75, 2, 256,
             float32=918 / 6, bfloat16=918, float8_e4m3fn=918, float8_e5m2=918, int8=1836, int4=3672),
        # No integer products: int8 is multiplied as bfloat16, and libtpu's process ends on a product of int4.
        _tpu("tpu:7x", 1, 64, 32, 96, 7380 / 2, 2.2, 2, 256,
             float32=2307 / 12, bfloat16=2307 / 2, float8_e4m3fn=4614 / 2, float8_e5m2=4614 / 2, int8=2307 / 2),
    )
}  # fmt: skip
CPU = TARGETS["cpu"]
# Names of products, which a family's number does not tell.
_PRODUCTS = {
    **dict.fromkeys(("a100", "ampere"), "cuda:sm_80"), **dict.fromkeys(("h100", "hopper", "sm90a"), "cuda:sm_90"),
    "h200": "cuda:sm_90:h200", **dict.fromkeys(("b200", "gb200", "blackwell", "sm100a"), "cuda:sm_100"),
    **dict.fromkeys(("mi300", "mi300x"), "rocm:gfx942"), "v5litepod": "tpu:v5e", "trillium": "tpu:v6e",
    **dict.fromkeys(("7x", "v7", "v7x", "ironwood"), "tpu:7x"), "gpu": "cuda",
}  # fmt: skip
_SHORT = {"cuda": "cuda:sm_90", "rocm": "rocm:gfx942", "tpu": "tpu:v5e", "tpu:v7x": "tpu:7x"}


def target_of(target: str | Target) -> Target:
    """A target by name (`cpu`, `cuda:sm_90`, `rocm:gfx942`, `tpu:v5e`; a bare family means its commonest one).

    Raises:
      ArgumentError: a name that is none of these.

    >>> target_of("tpu:v5e").lanes
    128
    """
    if isinstance(target, Target):
        return target
    family = ":".join(target.split(":")[:2])  # without a topology: `tpu:v5e:2x2` is four `tpu:v5e`
    found = TARGETS.get(target) or TARGETS.get(_SHORT.get(family, family))
    if found is None:
        meant = _meant(target)
        raise ArgumentError(f"there is no target named {target!r}", f"did you mean {meant!r}?" if meant else
                            f"one of {', '.join(TARGETS)}")  # fmt: skip
    return found


def _meant(name: str) -> str | None:
    """The target that another spelling of its name, or the name of a product, may mean."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    spelled = {re.sub(r"[^a-z0-9]", "", t): t for t in (*TARGETS, *_SHORT)}
    spelled |= {re.sub(r"[^a-z0-9]", "", t.partition(":")[2]): t for t in TARGETS if ":" in t}
    spelled |= _PRODUCTS
    for prefix in ("", "nvidia", "cuda", "amd", "rocm", "google", "tpu"):
        found = spelled.get(plain.removeprefix(prefix))
        if found is not None and plain.removeprefix(prefix):
            return found
    close = difflib.get_close_matches(plain, spelled, 1, 0.75)
    return spelled[close[0]] if close else None


def current_target(target: str | Target | None = None) -> Target:
    """The target named, else that of the setting `kernel_target`, else the default device's.

    What has kernels takes its tiles from it while it is traced.

    >>> import tilewright
    >>> with tilewright.config(kernel_target="tpu:v6e"):
    ...     current_target().matrix
    (256, 256, 256)
    """
    name = current().kernel_target if target is None else target
    if name is not None:
        return target_of(name)
    return runtime.backend.target()


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

    def show_param(self, indent: str) -> str:
        """What is printed of a call in a Program."""
        return f"{self.target}({self.name})"


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel takes of its device; None where the compiler does not tell.

    `fast_bytes` of `fast_limit`: shared memory of a program, VMEM of a kernel. `registers` are per thread, `spills`
    bytes; `cycles` is the compiler's estimate of a call, `bundles` how many instruction words the kernel has;
    `resident` are the bytes of operands and results that the compiler keeps in fast memory around the call. `note` says
    what was changed of the kernel's settings so that it fits or compiles. `left_to_xla` is the reason for which XLA
    computes the kernel, about which nothing else is known then.
    """

    kernel: str
    fast_bytes: int
    fast_limit: int
    registers: int | None = None
    spills: int | None = None
    cycles: int | None = None
    bundles: int | None = None
    resident: int | None = None
    note: str = ""
    left_to_xla: str = ""
