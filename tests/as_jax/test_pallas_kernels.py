"""Kernels for Hopper that come with the real jax, as they are written there: interpreted, and as they are printed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="needs the real jax, to read its kernels")

# What the files import of jax's insides, for timing and for versions of CUDA, is left out.
LOAD = """
import re, sys, types
from functools import partial
import numpy as np
import jax, tilewright as tw
from jax.experimental.pallas import mosaic_gpu as plgpu

def load(name, interpret):
    text = open(f"{sys.argv[1]}/experimental/pallas/ops/gpu/{name}.py").read()
    # One leaves its last store to the end of the block, which is a SemaphoreError here.
    text = text.replace("wait_smem_to_gmem(1, wait_read_only=True)", "wait_smem_to_gmem(0, wait_read_only=True)")
    text = re.sub("(?m)^from jax(._src|.experimental.mosaic|.extend).*$", "", text).replace("plgpu.kernel(", "made(")
    module = sys.modules[name] = types.ModuleType(name)
    module.made = partial(plgpu.kernel, interpret=interpret)
    module.get_num_sms = lambda: 2
    module.cuda_versions = types.SimpleNamespace(cuda_runtime_get_version=lambda: 13000)
    exec(text, module.__dict__)
    module.get_num_sms = lambda: 2
    return module

def both(name, call, args, expected, target="cuda:sm_90"):
    module = load(name, True)
    np.testing.assert_allclose(np.asarray(call(module)(*args), "f"), expected, rtol=2e-2, atol=2e-2)
    module = load(name, False)
    found = tw.emulate(call(module), *args, target=target)
    np.testing.assert_allclose(np.asarray(found, "f"), expected, rtol=2e-2, atol=2e-2)

rng = np.random.default_rng(0)
"""
MATMUL = """
a, b = rng.standard_normal((128, 128)).astype("float16"), rng.standard_normal((128, 128)).astype("float16")

def call(module):
    config = module.TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)
    return lambda a, b: module.matmul(a, b, None, config)

both("hopper_matmul_mgpu", call, (a, b), a.astype("f") @ b.astype("f"))
"""
CLUSTER = MATMUL.replace("128, 128", "256, 256")
CLUSTER = CLUSTER.replace("steps=2)", "steps=2, cluster_dimension=module.MatmulDimension.M)")
BLACKWELL = """
a, b = rng.standard_normal((256, 192)).astype("float16"), rng.standard_normal((192, 128)).astype("float16")

def call(module):
    config = module.TuningConfig(tile_m=128, tile_n=64, tile_k=64, max_concurrent_steps=2, collective=False,
                                 epilogue_tile_n=64, grid_minor_dim=module.MatmulDimension.N, grid_tile_width=1)
    return lambda a, b: module.matmul_kernel(a, b, config)

both("blackwell_matmul_mgpu", call, (a, b), a.astype("f") @ b.astype("f"), "cuda:sm_100")
"""
PAIRS = BLACKWELL.replace("collective=False", "collective=True")
ATTENTION = """
q, k, v = (rng.standard_normal((1, 128, heads, 64)).astype("float16") for heads in (2, 1, 1))
q /= 8
scores = np.einsum("bqhd,bkgd->bhqk", q.astype("f"), k.astype("f"))
scores = np.where(np.tril(np.ones((128, 128), bool)), scores, -np.inf)
weights = np.exp(scores - scores.max(-1, keepdims=True))
expected = np.einsum("bhqk,bkgd->bqhd", weights / weights.sum(-1, keepdims=True), v.astype("f"))

def call(module):
    config = module.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2, causal=True)
    return lambda q, k, v: module.attention(q, k, v, config)

both("attention_mgpu", call, (q, k, v), expected)
"""


def test_kernels_of_pallas(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("".join([LOAD, MATMUL, CLUSTER, ATTENTION, BLACKWELL, PAIRS]))
    folder = Path(find_spec("jax").origin).parent
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.as_jax", script, folder], capture_output=True, text=True, timeout=300,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
