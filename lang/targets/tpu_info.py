"""What a TPU has, as kernels for TPUs ask for it under Pallas's names: its cores, and the rows of `target` by core."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ...core.ir.array import DTypeLike
from ...core.ir.types import as_dtype, itemsize_bits
from ...core.support.errors import ArgumentError, UnsupportedError
from .target import Target, current_target, target_of


@dataclass(frozen=True)
class CoreMesh:
    """The cores that `core_map` and `kernel` run on: how many (None: all of the target's), and what their axis is
    called, for `lax.axis_index`."""

    num_cores: int | None = None
    axis_name: str = "core"

    @property
    def shape(self) -> dict[str, int]:
        """The size of the axis, by its name."""
        return {self.axis_name: self.count}

    @property
    def count(self) -> int:
        if self.num_cores is not None:
            return self.num_cores
        target = current_target()
        return target.units if target.kind == "tpu" else 1


class ChipVersion(enum.Enum):
    """Versions of TPUs; those that are targets have a `TpuInfo`."""

    TPU_V2 = "v2"
    TPU_V3 = "v3"
    TPU_V4I = "v4i"
    TPU_V4 = "v4"
    TPU_V5E = "v5e"
    TPU_V5P = "v5p"
    TPU_V6E = "v6e"
    TPU_7 = "7"
    TPU_7X = "7x"
    TPU_8I = "8i"
    TPU_8T = "8t"

    def __str__(self) -> str:
        return self.value


_CHIP_CORES = {ChipVersion.TPU_V5E: 1, ChipVersion.TPU_V5P: 2, ChipVersion.TPU_V6E: 1, ChipVersion.TPU_7X: 2}
_LITE = (ChipVersion.TPU_V4I, ChipVersion.TPU_V5E, ChipVersion.TPU_V6E)
# What the matrix unit multiplies as it is: dtypes of the left operand, and of the right one.
_WIDE, _OLD, _NEW = ("float32", "bfloat16"), ("float8_e5m2", "float8_e4m3b11fnuz"), ("float8_e5m2", "float8_e4m3fn")
_SINCE_5 = (((*_WIDE, *_OLD), (*_WIDE, *_OLD)), (("int8", "uint8"),) * 2, (("int4", "uint4"),) * 2)
_SINCE_7 = ((_WIDE, (*_WIDE, *_NEW)), (_NEW, _NEW))


@dataclass(frozen=True, kw_only=True)
class TpuInfo:
    """What one TensorCore of a TPU has: sizes in bytes, rates a second. `num_cores` are those of one device."""

    chip_version: ChipVersion
    generation: int
    num_cores: int
    num_lanes: int
    num_sublanes: int
    mxu_column_size: int
    num_mxus: int
    vmem_capacity_bytes: int
    smem_capacity_bytes: int
    hbm_capacity_bytes: int
    mem_bw_bytes_per_second: int
    bf16_ops_per_second: int
    int8_ops_per_second: int
    fp8_ops_per_second: int
    int4_ops_per_second: int
    cmem_capacity_bytes: int = 0
    sparse_core: None = None

    @property
    def is_lite(self) -> bool:
        return self.chip_version in _LITE

    @property
    def is_megacore(self) -> bool:
        """Whether several TensorCores are one device."""
        return self.num_cores > 1

    @property
    def is_split_chip(self) -> bool:
        """Whether the chip has several TensorCores, each a separate device."""
        return self.num_cores == 1 < _CHIP_CORES[self.chip_version]

    def is_matmul_supported(self, lhs_dtype: DTypeLike, rhs_dtype: DTypeLike) -> bool:
        """Whether the matrix unit multiplies these dtypes without a conversion."""
        pairs = _SINCE_5 if self.generation < 7 else _SINCE_7
        return any(str(as_dtype(lhs_dtype)) in a and str(as_dtype(rhs_dtype)) in b for a, b in pairs)

    def get_sublane_tiling(self, dtype: DTypeLike) -> int:
        """How many rows of a large array of a dtype are stored together."""
        return dict(target_of(f"tpu:{self.chip_version}").tiles)[itemsize_bits(as_dtype(dtype))]


def _info(target: Target, cores: int) -> TpuInfo:
    version, rates = ChipVersion(target.name.removeprefix("tpu:")), dict(target.peak)

    def rate(dtype: str) -> int:
        return int(rates.get(dtype, 0) / target.units)

    return TpuInfo(
        chip_version=version, generation=int(version.value.strip("vpex")), num_cores=cores, num_lanes=target.lanes,
        num_sublanes=target.sublanes, mxu_column_size=target.matrix[1], num_mxus=target.matrix_units,
        vmem_capacity_bytes=target.fast_bytes, smem_capacity_bytes=target.scalar_bytes,
        hbm_capacity_bytes=target.memory_bytes // target.units,
        mem_bw_bytes_per_second=int(target.bandwidth / target.units), bf16_ops_per_second=rate("bfloat16"),
        int8_ops_per_second=rate("int8"), fp8_ops_per_second=rate("float8_e5m2"), int4_ops_per_second=rate("int4"),
    )  # fmt: skip


def get_tpu_info() -> TpuInfo:
    """What a TensorCore of the TPU has that kernels are for: the setting `kernel_target`, else the default device.

    Raises `UnsupportedError` where that is no TPU.

    >>> import tilewright
    >>> with tilewright.config(kernel_target="tpu:v6e"):
    ...     get_tpu_info().mxu_column_size
    256
    """
    target = current_target()
    if target.kind != "tpu":
        raise UnsupportedError(f"get_tpu_info: kernels are for {target.name}",
                               'name a TPU, `with config(kernel_target="tpu:v5e")`, or ask for one, '
                               "`get_tpu_info_for_chip(ChipVersion.TPU_V5E, 1)`")  # fmt: skip
    return _info(target, target.units)


def get_tpu_info_for_chip(chip_version: ChipVersion, num_tensor_cores_per_logical_device: int) -> TpuInfo:
    """What a TensorCore of a version of TPUs has, where so many of them are one device.

    Raises `UnsupportedError` for a version that is no target, `ArgumentError` for more cores than its chips have.

    >>> from tilewright import lang as tl
    >>> info = tl.tpu.get_tpu_info_for_chip(tl.tpu.ChipVersion.TPU_V5E, 1)
    >>> info.vmem_capacity_bytes // 2**20
    128
    """
    chip, cores = ChipVersion(chip_version), num_tensor_cores_per_logical_device
    if chip not in _CHIP_CORES:
        known = ", ".join(f"{c}" for c in _CHIP_CORES)
        raise UnsupportedError(f"get_tpu_info_for_chip: TPU {chip} is no target", f"ask for one of {known}")
    if not 1 <= cores <= _CHIP_CORES[chip]:
        raise ArgumentError(f"get_tpu_info_for_chip: {cores} cores of a TPU {chip}", f"1 to {_CHIP_CORES[chip]}")
    return _info(target_of(f"tpu:{chip}"), cores)


def is_tpu_device() -> bool:
    """Whether kernels are for a TPU, as `get_tpu_info` finds it.

    >>> from tilewright import lang as tl
    >>> tl.tpu.is_tpu_device()
    False
    """
    return current_target().kind == "tpu"
