"""GPUs as XLA asks for them, to compile for one that is not here."""

from __future__ import annotations

from dataclasses import dataclass

from ..targets.target import KIB, MIB, Target


@dataclass(frozen=True)
class Board:
    """What XLA asks of a GPU beyond its `lang.targets.target.Target`: sizes in bytes, `fpus` per multiprocessor."""

    name: str
    capability: tuple[int, int]
    shared: int  # of a streaming multiprocessor
    l2: int
    fpus: int


# NVIDIA's datasheets and architecture white papers; the CUDA programming guide's table of compute capabilities.
BOARDS = {
    "cuda:sm_80": Board("NVIDIA A100-SXM4-80GB", (8, 0), 164 * KIB, 40 * MIB, 64),
    "cuda:sm_90": Board("NVIDIA H100 80GB HBM3", (9, 0), 228 * KIB, 50 * MIB, 128),
    "cuda:sm_90:h200": Board("NVIDIA H200", (9, 0), 228 * KIB, 50 * MIB, 128),
    "cuda:sm_100": Board("NVIDIA B200", (10, 0), 228 * KIB, 126 * MIB, 128),
}


def description(machine: Target) -> str:
    """XLA's description of a GPU as the text of a protocol buffer, from which it compiles without one."""
    board = BOARDS[machine.name]
    major, minor = board.capability
    extension = "ACCELERATED_FEATURES" if major >= 9 else "NONE"
    info = {
        "threads_per_block_limit": 1024, "threads_per_warp": 32, "shared_memory_per_block": 48 * KIB,
        "shared_memory_per_block_optin": machine.fast_bytes, "shared_memory_per_core": board.shared,
        "threads_per_core_limit": 2048, "core_count": machine.units, "fpus_per_core": board.fpus,
        "block_dim_limit_x": 2**31 - 1, "block_dim_limit_y": 65535, "block_dim_limit_z": 65535,
        "thread_dim_limit_x": 1024, "thread_dim_limit_y": 1024, "thread_dim_limit_z": 64,
        "registers_per_core_limit": 65536, "registers_per_block_limit": 65536,
        "memory_bandwidth": int(machine.bandwidth), "device_memory_size": machine.memory_bytes,
        "l2_cache_size": board.l2, "clock_rate_ghz": machine.clock / 1e9, "device_address_bits": 64,
    }  # fmt: skip
    lines = [f"  {name}: {value}" for name, value in info.items()]
    lines.append(f"  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {extension} }}")
    lines += ['  device_vendor: "NVIDIA Corporation"', f'  name: "{board.name}"']
    return "\n".join([
        "gpu_device_info {", *lines, "}", 'platform_name: "CUDA"', "dnn_version_info { major: 9 minor: 12 patch: 0 }",
        f'device_description_str: "{board.name}"', "",
    ])  # fmt: skip
