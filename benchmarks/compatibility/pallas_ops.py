"""The kernels that come with jax, unmodified, on this package: values here, and of the programs emitted for devices.

    python -m tilewright.as_jax benchmarks/compatibility/pallas_ops.py [--only PATTERN] [--here] [--write]

The kernels are read from the files of a jax that is installed (`jax.experimental.pallas.ops`). Each is run here and
compared with a reference of plain array operations; then compiled for the device that it was written for, and what was
emitted is run in NumPy (`tilewright.emulate`) and compared too. `--here` leaves the devices out; `--write` keeps the
table in `benchmarks/compatibility/pallas_ops.md`, with `--only` the rows of it that were made.
"""

from __future__ import annotations

import argparse
import importlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tilewright as tw

RESULT = Path(__file__).with_suffix(".md")
RNG = np.random.default_rng(0)
LENGTHS, PAGES = np.array([70, 128], np.int32), 16
GROUPS = np.array([60, 100, 0, 96], np.int32)


@dataclass(frozen=True)
class Case:
    """A call of one kernel, what it should give, and the device that it was written for."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    reference: Callable[..., Any]
    target: str


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return jnp.asarray(RNG.standard_normal(shape), dtype)


def ops(name: str) -> Any:
    return import_module(f"jax.experimental.pallas.ops.{name}")


def gradient(case: Case) -> Case:
    """The gradient of the sum of squares of what a case gives."""

    def of(f: Callable[..., Any]) -> Callable[..., Any]:
        return jax.grad(lambda *args: (f(*args).astype(np.float32) ** 2).sum(), tuple(range(len(case.args))))

    return Case(of(case.call), case.args, of(case.reference), case.target)


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Attention of heads x rows x features, in float32, where a mask holds."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = jnp.where(mask, jnp.einsum("hqd,hkd->hqk", q, k), -1e30)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, -1), v)


# ---------------------------------------------------------------------------- Triton's


def softmax() -> Case:
    return Case(ops("gpu.softmax").softmax, (normal(4, 300),), jax.nn.softmax, "cuda:sm_90")


def layer_norm() -> Case:
    module = ops("gpu.layer_norm")
    return Case(module.layer_norm, (normal(2, 128, 256), normal(256), normal(256)), module.layer_norm_reference,
                "cuda:sm_90")  # fmt: skip


def rms_norm() -> Case:
    module = ops("gpu.rms_norm")
    return Case(module.rms_norm, (normal(2, 128, 256), normal(256), normal(256)), module.rms_norm_reference,
                "cuda:sm_90")  # fmt: skip


def gpu_attention() -> Case:
    module = ops("gpu.attention")
    segments = jnp.asarray(np.sort(RNG.integers(0, 3, (2, 256)), axis=1), np.int32)
    blocks = module.BlockSizes(block_q=64, block_k=64, block_q_dkv=32, block_kv_dkv=32, block_q_dq=32, block_kv_dq=32)
    return Case(lambda q, k, v: module.mha(q, k, v, segments, causal=True, block_sizes=blocks),
                tuple(normal(2, 256, 2, 64) for _ in range(3)),
                lambda q, k, v: module.mha_reference(q, k, v, segments, causal=True), "cuda:sm_90")  # fmt: skip


def decode_attention() -> Case:
    module = ops("gpu.decode_attention")
    return Case(module.gqa, (normal(2, 8, 64), normal(2, 1024, 2, 64), normal(2, 1024, 2, 64)), module.gqa_reference,
                "cuda:sm_90")  # fmt: skip


def paged(target: str, call: Callable[..., Any], features: int) -> Case:
    """Attention of one position to pages of keys and values, here of two sequences of 128 and 70 positions."""
    heads, groups, size = 8, 2, 16
    table = RNG.permutation(PAGES).astype(np.int32).reshape(2, -1)

    def reference(q: Any, k: Any, v: Any) -> Any:
        rows = []
        for b, length in enumerate(LENGTHS):
            k_, v_ = (x[:, table[b]].reshape(groups, -1, features)[:, :length] for x in (k, v))
            rows.append(attention(q[b].reshape(groups, heads // groups, features), k_, v_, True).reshape(heads, -1))
        return jnp.stack(rows)

    pages = [normal(groups, PAGES, size, features) for _ in range(2)]
    return Case(lambda q, k, v: call(q, k, v, table), (normal(2, heads, features), *pages), reference, target)


def gpu_paged_attention() -> Case:
    module = ops("gpu.paged_attention")
    return paged("cuda:sm_90", lambda q, k, v, table: module.paged_attention(
        q, k, v, table, LENGTHS, k_splits=4), 64)  # fmt: skip


# ---------------------------------------------------------------------------- those for TPUs


def tpu_matmul() -> Case:
    matmul = ops("tpu.matmul").matmul
    return Case(lambda x, y: matmul(x, y, block_shape=(128, 128), block_k=128), (normal(256, 512), normal(512, 256)),
                lambda x, y: x @ y, "tpu:v5e")  # fmt: skip


def tpu_flash_attention() -> Case:
    module = ops("tpu.flash_attention")
    return Case(lambda q, k, v: module.flash_attention(q, k, v, causal=True),
                tuple(normal(1, 2, 256, 64) for _ in range(3)),
                lambda q, k, v: module.mha_reference(q, k, v, None, causal=True), "tpu:v5e")  # fmt: skip


def megablox() -> Case:
    gmm = ops("tpu.megablox.ops").gmm
    return Case(lambda x, y: gmm(x, y, jnp.asarray(GROUPS), np.float32), (normal(256, 128), normal(4, 128, 128)),
                lambda x, y: jax.lax.ragged_dot(x, y, jnp.asarray(GROUPS)), "tpu:v5e")  # fmt: skip


def tpu_paged_attention(inline: bool = True) -> Case:
    call = ops("tpu.paged_attention").paged_attention
    return paged("tpu:v5e", lambda q, k, v, table: call(
        q, k, v, jnp.asarray(LENGTHS), table, pages_per_compute_block=4, inline_seq_dim=inline), 128)  # fmt: skip


def ragged_paged_attention() -> Case:
    module = ops("tpu.ragged_paged_attention.kernel")
    lengths, count = np.array([50, 40, 0, 0], np.int32), np.array([2], np.int32)
    table, starts = RNG.permutation(32).astype(np.int32).reshape(4, 8), np.array([0, 12, 32, 32, 32], np.int32)
    given = [jnp.asarray(x) for x in (lengths, table, starts, count)]
    blocks = {"num_kv_pages_per_block": 4, "num_queries_per_block": 16}
    return Case(lambda q, kv: module.ragged_paged_attention(q, kv, *given, **blocks),
                (normal(32, 8, 128), normal(32, 16, 4, 128)),
                lambda q, kv: module.ref_ragged_paged_attention(q, kv, *given), "tpu:v5e")  # fmt: skip


def splash_attention(local: bool = False) -> Case:
    module = ops("tpu.splash_attention.splash_attention_kernel")
    masks = ops("tpu.splash_attention.splash_attention_mask")
    shape = 512, 512
    mask = masks.LocalMask(shape, (128, 0), 0) if local else masks.CausalMask(shape)
    blocks = module.BlockSizes(
        block_q=256, block_kv=256, block_kv_compute=128, block_q_dkv=256, block_kv_dkv=256, block_kv_dkv_compute=128,
        block_q_dq=256, block_kv_dq=256)  # fmt: skip
    call = module.make_splash_mha_single_device(masks.MultiHeadMask([mask, mask]), block_sizes=blocks)
    return Case(call, tuple(normal(2, 512, 128) for _ in range(3)),
                lambda q, k, v: attention(q, k, v, jnp.asarray(mask[:, :])), "tpu:v5e")  # fmt: skip


# ---------------------------------------------------------------------------- Mosaic GPU's

HALF = np.float16


def product(a: Any, b: Any) -> Any:
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(b.dtype)


def hopper_matmul(cluster: bool = False) -> Case:
    module = ops("gpu.hopper_matmul_mgpu")
    config = module.TuningConfig(64, 64, 64, 2, cluster_dimension=module.MatmulDimension.M if cluster else None)
    module.get_num_sms = lambda: 4  # the device here has none
    return Case(lambda a, b: module.matmul(a, b, None, config), (normal(256, 256, dtype=HALF),) * 2, product,
                "cuda:sm_90")  # fmt: skip


def hopper_mixed_matmul() -> Case:
    module = ops("gpu.hopper_mixed_type_matmul_mgpu")
    config, a = module.TuningConfig(64, 64, 64, 2), jnp.asarray(RNG.integers(-8, 8, (256, 256)), np.int8)
    return Case(lambda a, b: module.mixed_matmul_kernel(a, b, out_dtype=b.dtype, config=config),
                (a, normal(256, 256, dtype=jnp.bfloat16)), product, "cuda:sm_90")  # fmt: skip


def hopper_attention(entry: str = "attention", causal: bool = False) -> Case:
    module = ops("gpu.attention_mgpu")
    config = module.TuningConfig(64, 64, 2, causal=causal, block_q_dkv=64, block_kv_dkv=64, block_q_dq=64,
                                 block_kv_dq=64)  # fmt: skip
    return Case(lambda q, k, v: getattr(module, entry)(q, k, v, config),
                tuple(normal(1, 256, 2, 64, dtype=HALF) for _ in range(3)),
                lambda q, k, v: module.attention_reference(q, k, v, causal=causal), "cuda:sm_90")  # fmt: skip


_GROUPED = {"group_sizes": GROUPS, "block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2,
            "grid_block_n": 1}  # fmt: skip


def hopper_ragged_dot() -> Case:
    call = ops("gpu.ragged_dot_mgpu").ragged_dot
    return Case(lambda a, b: call(a, b, **_GROUPED), (normal(256, 128, dtype=HALF), normal(4, 128, 128, dtype=HALF)),
                lambda a, b: jax.lax.ragged_dot(a, b, jnp.asarray(GROUPS)), "cuda:sm_90")  # fmt: skip


def changed(name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A module of kernels for warpgroups with some of the functions that it calls replaced."""
    module = importlib.reload(ops(name))
    names = vars(module.plgpu)
    module.plgpu = SimpleNamespace(**names | change(names))
    return module


def hopper_transposed_ragged_dot(wait: bool = False) -> Case:
    """`wait`: each product of a step waits for that of the step before, whose memory the pipeline fills again."""
    name = "gpu.transposed_ragged_dot_mgpu"
    module = ops(name) if not wait else changed(
        name, lambda names: {"wgmma": lambda *args: (names["wgmma"](*args), names["wgmma_wait"](1))})  # fmt: skip
    return Case(lambda a, b: module.transposed_ragged_dot(a, b, **_GROUPED), (normal(256, 128, dtype=HALF),) * 2,
                lambda a, b: module.ref_transposed_ragged_dot(a, b, GROUPS), "cuda:sm_90")  # fmt: skip


def blackwell_matmul(collective: bool = False, wait: bool = False) -> Case:
    """`wait`: all stores have read their memory before the next one, and so before the block ends."""
    name = "gpu.blackwell_matmul_mgpu"
    module = ops(name) if not wait else changed(name, lambda names: {
        "wait_smem_to_gmem": lambda n, **options: names["wait_smem_to_gmem"](0, **options)})  # fmt: skip
    config = module.TuningConfig(128, 64, 64, 2, collective=collective)
    return Case(lambda a, b: module.matmul_kernel(a, b, config),
                (normal(512, 256, dtype=HALF), normal(256, 256, dtype=HALF)), product, "cuda:sm_100")  # fmt: skip


CASES: dict[str, Callable[[], Case]] = {
    "gpu.softmax": softmax,
    "gpu.layer_norm": layer_norm,
    "gpu.layer_norm, gradient": lambda: gradient(layer_norm()),
    "gpu.rms_norm": rms_norm,
    "gpu.rms_norm, gradient": lambda: gradient(rms_norm()),
    "gpu.attention": gpu_attention,
    "gpu.attention, gradient": lambda: gradient(gpu_attention()),
    "gpu.decode_attention": decode_attention,
    "gpu.paged_attention": gpu_paged_attention,
    "gpu.hopper_matmul_mgpu": hopper_matmul,
    "gpu.hopper_matmul_mgpu, cluster": lambda: hopper_matmul(cluster=True),
    "gpu.hopper_mixed_type_matmul_mgpu": hopper_mixed_matmul,
    "gpu.attention_mgpu": hopper_attention,
    "gpu.attention_mgpu, causal": lambda: hopper_attention(causal=True),
    "gpu.attention_mgpu, pipeline": lambda: hopper_attention("attention_with_pipeline_emitter"),
    "gpu.attention_mgpu, gradient": lambda: gradient(hopper_attention()),
    "gpu.ragged_dot_mgpu": hopper_ragged_dot,
    "gpu.transposed_ragged_dot_mgpu": hopper_transposed_ragged_dot,
    "gpu.transposed_ragged_dot_mgpu, with wgmma_wait": lambda: hopper_transposed_ragged_dot(wait=True),
    "gpu.blackwell_matmul_mgpu": blackwell_matmul,
    "gpu.blackwell_matmul_mgpu, with a last wait": lambda: blackwell_matmul(wait=True),
    "gpu.blackwell_matmul_mgpu, two blocks, with a last wait": lambda: blackwell_matmul(collective=True, wait=True),
    "tpu.matmul": tpu_matmul,
    "tpu.flash_attention": tpu_flash_attention,
    "tpu.flash_attention, gradient": lambda: gradient(tpu_flash_attention()),
    "tpu.megablox": megablox,
    "tpu.megablox, gradient": lambda: gradient(megablox()),
    "tpu.paged_attention": tpu_paged_attention,
    "tpu.paged_attention, not inline": lambda: tpu_paged_attention(inline=False),
    "tpu.ragged_paged_attention": ragged_paged_attention,
    "tpu.splash_attention": splash_attention,
    "tpu.splash_attention, local": lambda: splash_attention(local=True),
    "tpu.splash_attention, gradient": lambda: gradient(splash_attention()),
}


def error_of(found: Any, wanted: Any) -> float:
    """How far results are off, relative to the largest element of each."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    worst = 0.0
    for a, b in pairs:
        a, b = (np.asarray(x).astype(np.float64) for x in (a, b))
        worst = max(worst, float(np.abs(a - b).max() / np.abs(b).max())) if a.shape == b.shape else np.inf
    return worst


def outcomes(case: Case, devices: bool) -> Iterator[str]:
    """What each way of running a case comes to: its error, or why it is refused."""
    wanted = case.reference(*case.args)
    ways: list[Callable[[], Any]] = [lambda: jax.jit(case.call)(*case.args)]
    if devices:
        ways.append(lambda: tw.emulate(case.call, *case.args, target=case.target))
    for way in ways:
        try:
            yield f"{error_of(way(), wanted):.0e}"
        except (tw.errors.TilewrightError, AttributeError, NotImplementedError) as error:
            yield f"{type(error).__name__}: {str(error).splitlines()[0]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = ["| kernel | device | error here | error of what is emitted for the device |", "| --- | --- | --- | --- |"]
    for name, make in CASES.items():
        if given.only is None or re.search(given.only, name):
            begun, case = time.perf_counter(), make()
            lines.append(f"| `{name}` | {case.target} | {' | '.join(outcomes(case, not given.here))} |")
            print(lines[-1], f" {time.perf_counter() - begun:.0f} s", flush=True)
    if given.write:
        made = {line.split("`")[1]: line for line in lines[2:]}
        before = RESULT.read_text().splitlines() if given.only is not None else []
        known = {line.split("`")[1]: line for line in before if line.startswith("| `")} | made
        kept = [known[name] for name in CASES if name in known]
        head = ("# Kernels that come with jax\n\n"
                "Made by `benchmarks/compatibility/pallas_ops.py`, which says what is compared.\n\n")  # fmt: skip
        RESULT.write_text(head + "\n".join([*lines[:2], *kept]) + "\n")


if __name__ == "__main__":
    main()
