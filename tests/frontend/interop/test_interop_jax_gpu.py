"""Kernels of tilewright inside programs of jax that are lowered for a GPU."""

import importlib.util

import numpy as np
import pytest

if importlib.util.find_spec("jax") is None:
    pytest.skip("jax is not installed", allow_module_level=True)

import jax

from tests.support.corpus import matmul_grid
from tilewright.interop import jax as tj
from tilewright.triton_backend import compiler


def lowered():
    x = np.ones((16, 16), np.float32)
    f = jax.jit(tj.call(lambda x: matmul_grid.call(x, x, rows=16, columns=16, depth=16)))
    return f.trace(x).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.skipif(compiler.installed() is None, reason="needs tilewright[cuda]")
def test_kernels_are_custom_calls_for_the_gpus_that_jax_has(monkeypatch):
    monkeypatch.setattr(tj, "_capability", lambda: (9, 0))
    text = lowered()
    assert text.count("__gpu$xla.gpu.ptx") == 1 and ".target sm_90a" in text


def test_kernels_are_operations_where_jax_has_no_gpu(monkeypatch):
    monkeypatch.setattr(tj, "_capability", lambda: None)
    text = lowered()
    assert "custom_call" not in text and "dot_general" in text
