"""The table of settings, a row each: type, default, meaning, environment variable, choices; no current values.

`docs/settings.md`, `tilewright doctor`, the environment and the functions of a setting's own name are made from these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple


class Row(NamedTuple):
    """What is known of a setting beside its name."""

    default: Any
    doc: str  # as in docs/settings.md
    env: bool = False  # whether an environment variable has it, of the name `TILEWRIGHT_...`
    jax: str = ""  # JAX's options that mean it, and whose variables count where ours is not set
    choices: tuple[Any, ...] = ()
    kind: str = ""  # the text of its type


def row(default: Any, doc: str, env: bool = False, jax: str = "", choices: tuple[Any, ...] = ()) -> Any:
    """The field of a setting."""
    return field(default=default, metadata={"row": Row(default, doc, env, jax, choices)})


_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_PRECISIONS = (
    None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
    "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
    "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Config:
    """The settings of a thread or task. Those with an environment variable read it once, at import."""

    enable_x64: bool = row(False, "64-bit types; without it they become 32-bit ones",
        env=True, jax="enable_x64 x64_enabled")  # fmt: skip
    default_matmul_precision: str | None = row(None, "the precision of contractions that name none: `default`, "
        "`high`, `highest`, `bfloat16`, `tensorfloat32`, `float32`, or the name of a `lax.DotAlgorithmPreset`",
        jax="default_matmul_precision", choices=_PRECISIONS)  # fmt: skip
    numpy_dtype_promotion: str = row("standard", "`strict`: operands of unlike dtypes are an error",
        jax="numpy_dtype_promotion", choices=("standard", "strict"))  # fmt: skip
    numpy_rank_promotion: str = row("allow", "`warn` or `raise` where operands of unlike ranks are broadcast",
        jax="numpy_rank_promotion", choices=("allow", "warn", "raise"))  # fmt: skip
    default_device: Any = row(None, "the device that new arrays are placed on; None is the first")
    default_prng_impl: str = row("threefry2x32", "the generator of random keys that name none, and of raw words: "
        "`threefry2x32`, `rbg`, `unsafe_rbg` or `philox`",
        jax="default_prng_impl", choices=("threefry2x32", "rbg", "unsafe_rbg", "philox"))  # fmt: skip
    enable_custom_prng: bool = row(False, "`random.PRNGKey` gives a typed key, as `random.key` does",
        jax="enable_custom_prng")  # fmt: skip
    threefry_partitionable: bool = row(True, "the parts of a sample are generated independently, by their indices; "
        "False: the samples of JAX before 0.5", jax="threefry_partitionable")  # fmt: skip
    disable_jit: bool = row(False, "jitted functions run step by step, for debugging", jax="disable_jit")
    check_static_indices: bool = row(False, "reading an array at a known integer that is out of bounds is an error; "
        "else it is clamped")  # fmt: skip
    debug_nans: bool = row(False, "`NonFiniteError` at the operation that gives NaN; each result is waited for",
        env=True, jax="debug_nans")  # fmt: skip
    debug_infs: bool = row(False, "`NonFiniteError` at the operation that gives infinity", jax="debug_infs")
    debug_checks: bool = row(False, "Programs are verified after every trace and every pass; slow, on in our tests",
        env=True, jax="enable_checks")  # fmt: skip
    debug_poison: bool = row(False, "in kernels compiled for the CPU, memory that nothing has written, and what lies "
        "past an operand's end without a `fill`, hold what they hold in the interpreter: NaN, the least integer, or "
        "the greatest where none is negative; otherwise zeros", env=True, jax="pallas_poison_buffers")  # fmt: skip
    debug_key_reuse: bool = row(False, "`KeyReuseError` where a random key is used a second time: drawn from, split "
        "or looked at after one of these", jax="debug_key_reuse")  # fmt: skip
    print_passes: bool = row(False, "every program that is compiled is printed after each pass, with the pass's time, "
        "to the standard error", env=True)  # fmt: skip
    cache_dir: str | None = row(None, "the folder of compiled programs; None is `~/.cache/tilewright/executables` (or "
        "below `XDG_CACHE_HOME`), empty is nowhere", env=True, jax="compilation_cache_dir")  # fmt: skip
    cpu_enable_async_dispatch: bool | None = row(None, "calls on the CPU return before their programs have run: see "
        "below; None is where there are more than two processors",
        env=True, jax="cpu_enable_async_dispatch", choices=(None, True, False))  # fmt: skip
    cpu_keep_memory: bool = row(True, "freed memory is kept for reuse: see below", env=True)
    cpu_keep_share: float = row(0.25, "the share of the process's memory that may be kept so, from 0 to 1", env=True)
    cpu_tiles: bool | None = row(None, "on the CPU too, standard operations run as tiled kernels; None: those that are "
        "estimated to be faster so, see [fusion](fusion.md)", choices=(None, True, False))  # fmt: skip
    cpu_route: str | None = row(None, "the route of kernels on the CPU that name none: `xla`, or `machine_code` "
        "where that takes them; None: the one that is estimated to be faster, see [CPUs](cpu.md)",
        env=True, choices=(None, "machine_code", "xla"))  # fmt: skip
    cpu_rates: str = row("", "the rates of this machine that these estimates use, as `tilewright doctor` prints "
        "them; empty: measured once, and kept beside the compiled programs", env=True)  # fmt: skip
    cpu_without: str = row("", "CPU optimisations to disable, by name, separated by commas: see below", env=True)
    interpret: Any = row(None, "True, or `lang.InterpretParams(...)`: kernels run in the interpreter, cell by cell, "
        "unless their call says how")  # fmt: skip
    strict_kernels: bool = row(False, "an unproved property of a kernel (in bounds, race-free, outputs covered, "
        "ragged tails unused) is an error, and a compiler's failure on a kernel that XLA would compute")  # fmt: skip
    parallel_writes: str = row("error", "`order`: an axis declared parallel whose cells write one block of an output "
        "runs in the grid's order, and is not refused; so in a process [under the name jax](clients.md)",
        choices=("error", "order"))  # fmt: skip
    residual_bytes: int = row(2**30, "what the derivative of a kernel with any carry may store of its states; beyond "
        "it they are stored every few cells, and computed again in between")  # fmt: skip
    kernel_target: Any = row(None, "the target, such as `cuda:sm_90`, whose tiles operations take that are made of "
        "kernels; None is the default device's. `compile(..., target=...)` sets it while it traces")  # fmt: skip
    kernel_route: str | None = row(None, "who compiles the kernels of NVIDIA GPUs first: `mosaic_gpu`, `triton`, "
        "`cutlass` (products, a minute or more each), or `xla`, which computes them without; what one does not take "
        "the next does. None: who is estimated to make the faster code",
        env=True, choices=(None, "cutlass", "mosaic_gpu", "triton", "xla"))  # fmt: skip
    source_lines: bool = row(False, "compiled programs have the named scopes and your source line of each operation, "
        "for profiles and XLA's text")  # fmt: skip
    communication: str = row("allow", "`error`: a program on a mesh that exchanges what it does not say in a "
        "`shard_map` is refused, with each exchange and your line", choices=("allow", "error"))  # fmt: skip
    mesh: Any = row(None, "the mesh that a bare `PartitionSpec` means; `set_mesh` and `use_mesh` set it")
    xla_notes: Any = row((), "metadata for XLA on all operations; `set_xla_metadata` sets them")
    num_cpu_devices: int = row(0, "how many virtual CPU devices there are (0: one); only before the first computation",
        env=True, jax="num_cpu_devices")  # fmt: skip
    stall_seconds: int = row(60, "how long a process waits for others before all say where they are; 0 is for ever: "
        "see [processes](processes.md)", env=True)  # fmt: skip
    stall_limit: int = row(0, "how long a process waits for others before all are ended; 0 is for ever", env=True)
    platforms: str = row("", "the platforms that are used (`cpu`, `gpu` or `cuda`, `tpu`), with commas, that of the "
        "default device first; empty is all; only before the first computation",
        env=True, jax="platforms platform_name")  # fmt: skip
    no_tracing: bool = row(False, "a jitted function that would have to be traced is an error", jax="no_tracing")
    transfer_guard: str = row("allow", "implicit transfers: `log` warns of them, `disallow` raises; `log_explicit` "
        "and `disallow_explicit` do of `device_put` and `device_get` too",
        jax="transfer_guard", choices=_LEVELS)  # fmt: skip
    transfer_guard_host_to_device: str | None = row(None, "as `transfer_guard`, for NumPy arrays as arguments; None: "
        "as that says", jax="transfer_guard_host_to_device", choices=(None, *_LEVELS))  # fmt: skip
    transfer_guard_device_to_host: str | None = row(None, "as `transfer_guard`, for `float(x)`, `np.asarray(x)`, "
        "printing", jax="transfer_guard_device_to_host", choices=(None, *_LEVELS))  # fmt: skip
    transfer_guard_device_to_device: str | None = row(None, "as `transfer_guard`, for arguments on another device",
        jax="transfer_guard_device_to_device", choices=(None, *_LEVELS))  # fmt: skip
    check_tracer_leaks: bool = row(False, "`LeakedTracerError` where a function was traced and one of its traced "
        "values is still referred to; slow", jax="check_tracer_leaks")  # fmt: skip

    watches: ClassVar[bool]  # of an instance: whether calls have something to look at before or after they run
    guards: ClassVar[bool]  # of an instance: whether copies have a guard

    def __post_init__(self) -> None:
        # Whether calls have something to look at before or after they run.
        levels = (self.transfer_guard_host_to_device, self.transfer_guard_device_to_host,
                  self.transfer_guard_device_to_device, self.transfer_guard)  # fmt: skip
        guards = any(level not in (None, "allow") for level in levels)
        watches = self.debug_nans or self.debug_infs or self.debug_key_reuse or guards
        object.__setattr__(self, "watches", watches)
        object.__setattr__(self, "guards", guards)


@dataclass
class Watched:
    """Settings of all threads, about what is reported: they change nothing that is compiled, so they are in no key."""

    log_compiles: bool = row(False, "each trace, compilation and load from the disk is logged with its time, by the "
        "logger `tilewright`; in all threads", env=True, jax="log_compiles")  # fmt: skip
    traceback_filtering: str = row("auto", "an error that ends a program is shown without this package's frames, with "
        "a note (`quiet_remove_frames`: without it); `off` shows all", env=True,
        jax="traceback_filtering", choices=("auto", "off", "remove_frames", "quiet_remove_frames"))  # fmt: skip
    explain_cache_misses: bool = row(False, "where a function is traced again, it is logged which argument, static "
        "value, setting or new function object made that necessary", env=True, jax="explain_cache_misses")  # fmt: skip


ROWS: dict[str, Row] = {f.name: f.metadata["row"]._replace(kind=f.type) for f in (*fields(Config), *fields(Watched))}
