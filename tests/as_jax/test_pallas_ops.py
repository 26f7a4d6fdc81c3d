"""The package's kernels under the names of `jax.experimental.pallas.ops`, against NumPy."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp
from tilewright.as_jax.pallas_ops.gpu import attention, decode_attention, layer_norm, rms_norm, softmax
from tilewright.as_jax.pallas_ops.gpu import paged_attention as gpu_paged
from tilewright.as_jax.pallas_ops.tpu import flash_attention as flash
from tilewright.as_jax.pallas_ops.tpu import matmul, megablox, paged_attention, ragged_paged_attention
from tilewright.as_jax.pallas_ops.tpu import splash_attention as splash
from tilewright.as_jax.pallas_ops.tpu.paged_attention import quantization_utils
from tilewright.errors import ShapeError, UnsupportedError

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("f")


def expected(q, k, v, scale=1.0, bias=0.0, mask=None, soft_cap=None):
    """Attention of (..., heads, positions, width) in float64, heads of keys repeated."""
    k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3).astype(np.float64) for x in (k, v))
    scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2) * scale + bias
    scores = scores if soft_cap is None else soft_cap * np.tanh(scores / soft_cap)
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def close(found, known, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(found), known, tolerance, tolerance)


def same_gradient(f, reference, *args):
    def loss(f):
        return lambda *args: tnp.sum(tnp.sin(f(*args)))

    places = tuple(range(len(args)))
    for found, known in zip(tw.grad(loss(f), places)(*args), tw.grad(loss(reference), places)(*args), strict=True):
        close(found, np.asarray(known), 2e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
def test_flash_attention(causal, segmented):
    q, k, v, ab = normal(2, 4, 24, 8), normal(2, 4, 24, 8), normal(2, 4, 24, 8), normal(2, 4, 24, 24)
    ids = np.sort(RNG.integers(0, 3, (2, 24)), 1)
    segments = flash.SegmentIds(ids, ids) if segmented else None
    mask = np.tril(np.ones((24, 24), bool)) if causal else np.ones((24, 24), bool)
    mask = mask & (ids[:, None, :, None] == ids[:, None, None, :]) if segmented else mask

    def run(f):
        return lambda q, k, v, ab: f(q, k, v, ab, segments, causal=causal, sm_scale=0.5)

    close(run(flash.flash_attention)(q, k, v, ab), expected(q, k, v, 0.5, ab, mask))
    close(run(flash.mha_reference)(q, k, v, ab), expected(q, k, v, 0.5, ab, mask))
    same_gradient(run(flash.flash_attention), run(flash.mha_reference), q, k, v, ab)


@pytest.mark.parametrize("causal", [False, True])
def test_mha(causal):
    q, k, v = normal(2, 16, 4, 8), normal(2, 16, 4, 8), normal(2, 16, 4, 8)
    ids = np.sort(RNG.integers(0, 2, (2, 16)), 1)
    mask = (ids[:, None, :, None] == ids[:, None, None, :]) & (np.tril(np.ones((16, 16), bool)) if causal else True)
    known = np.swapaxes(expected(*(np.swapaxes(x, 1, 2) for x in (q, k, v)), 0.3, mask=mask), 1, 2)
    for f in (attention.mha, attention.mha_reference):
        close(f(q, k, v, ids, 0.3, causal), known)
    same_gradient(lambda *x: attention.mha(*x, ids, 0.3, causal),
                  lambda *x: attention.mha_reference(*x, ids, 0.3, causal), q, k, v)  # fmt: skip
    with pytest.raises(UnsupportedError, match="return_residuals"):
        attention.mha(q, k, v, None, return_residuals=True)


MASKS = {
    "full": splash.FullMask((12, 20)),
    "causal": splash.CausalMask((12, 20), offset=3),
    "local": splash.LocalMask((12, 20), (4, 1), 2),
    "left only": splash.LocalMask((12, 20), (4, None), 0),
    "chunks or causal": splash.ChunkedCausalMask((12, 20), 4) | splash.CausalMask((12, 20)),
    "array or full and causal": (
        splash.NumpyMask(RNG.random((12, 20)) < 0.5) | splash.FullMask((12, 20)) & splash.CausalMask((12, 20))),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("soft_cap", [None, 2.0])
def test_splash_attention(name, soft_cap):
    mask = splash.MultiHeadMask([MASKS[name]] * 3 + [splash.CausalMask((12, 20), 1)])
    dense = mask[:, :, :]
    assert dense.shape == mask.shape == (4, 12, 20) and np.array_equal(mask[1, 2:5, ::2], dense[1, 2:5, ::2])
    q, k, v = normal(4, 12, 8), normal(2, 20, 8), normal(2, 20, 8)
    kernel = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1, attn_logits_soft_cap=soft_cap)
    known = expected(q, k, v, mask=dense, soft_cap=soft_cap)
    close(tw.jit(kernel)(q, k, v), known)
    close(splash.make_masked_mha_reference(mask, attn_logits_soft_cap=soft_cap)(q, k, v), known)
    close(tw.vmap(kernel)(*(np.stack([x, x]) for x in (q, k, v))), np.stack([known, known]))
    one = splash.make_splash_mqa_single_device(dense, attn_logits_soft_cap=soft_cap)
    close(one(q, k[0], v[0]), expected(q, k[:1], v[:1], mask=dense, soft_cap=soft_cap))


def test_splash_attention_within_segments_has_a_gradient():
    q, k, v = normal(2, 16, 8), normal(2, 16, 8), normal(2, 16, 8)
    ids = np.sort(RNG.integers(0, 3, 16))
    mask = splash.MultiHeadMask([splash.CausalMask((16, 16))] * 2)
    kernel, reference = splash.make_splash_mha_single_device(mask), splash.make_masked_mha_reference(mask)
    segments = splash.SegmentIds(ids, ids)
    close(kernel(q, k, v, segments), expected(q, k, v, mask=mask[:, :, :] & (ids[:, None] == ids)))
    same_gradient(lambda *x: kernel(*x, segments), lambda *x: reference(*x, segments), q, k, v)


@pytest.mark.parametrize("soft_cap", [None, 1.5])
def test_paged_attention(soft_cap):
    q, pages = normal(3, 4, 8), [normal(2, 10, 4, 8) for _ in range(2)]
    lengths, table = np.array([5, 16, 1], "i"), np.array([[7, 1, 2, 9], [4, 5, 6, 3], [8, 9, 0, 1]], "i")
    keys, values = (np.moveaxis(x[:, table].reshape(2, 3, 16, 8), 0, 1) for x in pages)
    mask = (np.arange(16) < lengths[:, None])[:, None, None]
    known = expected(q[:, :, None], keys, values, mask=mask, soft_cap=soft_cap)[:, :, 0]
    options = {"attn_logits_soft_cap": soft_cap}
    close(paged_attention.paged_attention(q, *pages, lengths, table, pages_per_compute_block=2, **options), known)
    close(gpu_paged.paged_attention(q, *pages, table, lengths, **options), known)
    dense = (np.swapaxes(x, 1, 2) for x in (keys, values))
    close(gpu_paged.paged_attention_reference(q, *dense, lengths, **options), known)
    coded = [quantization_utils.quantize_to_int8(tnp.asarray(x)) for x in pages]
    close(paged_attention.paged_attention(q, *coded, lengths, table, pages_per_compute_block=2, **options), known, 0.05)


@pytest.mark.parametrize("options", [{}, {"sliding_window": 3, "soft_cap": 2.0}, {"k_scale": 0.5, "v_scale": 2.0}])
def test_ragged_paged_attention(options):
    q, pages = normal(45, 4, 8), normal(12, 4, 4, 8)
    lengths, offsets = np.array([9, 24, 1, 0], "i"), np.array([0, 5, 26, 27, 27], "i")
    table = RNG.integers(0, 12, (4, 6)).astype("i")
    args = q, pages, lengths, table, offsets, np.array([3], "i")
    found = tw.jit(lambda *a: ragged_paged_attention.ragged_paged_attention(*a, sm_scale=0.4, **options))(*args)
    close(found[:27], np.asarray(ragged_paged_attention.ref_ragged_paged_attention(*args, sm_scale=0.4, **options)))
    for s in range(3):
        n, length = offsets[s + 1] - offsets[s], lengths[s]
        both = np.swapaxes(pages[table[s]].reshape(24, 4, 8)[:length], 0, 1)
        at, place = np.arange(n)[:, None] + length - n, np.arange(length)
        mask = (place <= at) & (place > at - options.get("sliding_window", 99))
        known = expected(np.swapaxes(q[offsets[s] : offsets[s + 1]], 0, 1), both[::2] * options.get("k_scale", 1),
                         both[1::2] * options.get("v_scale", 1), 0.4, 0, mask, options.get("soft_cap"))  # fmt: skip
        close(found[offsets[s] : offsets[s + 1]], np.swapaxes(known, 0, 1))


@pytest.mark.parametrize("transposed", [False, True])
def test_gmm(transposed):
    x, w, sizes = normal(11, 6), normal(3, 6, 4), np.array([4, 0, 5], "i")
    parts = [x[:4] @ w[0], x[4:9] @ w[2], np.zeros((2, 4), "f")]
    given = np.swapaxes(w, 1, 2) if transposed else w
    close(megablox.gmm(x, given, sizes, transpose_rhs=transposed), np.concatenate(parts))
    out = megablox.gmm(x, given[1:], sizes, group_offset=np.array([1], "i"), existing_out=np.ones((11, 4), "f"),
                       transpose_rhs=transposed)  # fmt: skip
    close(out, np.concatenate([np.ones((4, 4)), parts[1], np.ones((2, 4))]))
    same_gradient(lambda x, w: megablox.gmm(x, w, sizes),
                  lambda x, w: tnp.concatenate([x[:4] @ w[0], x[4:9] @ w[2], tnp.zeros((2, 4))]), x, w)  # fmt: skip


@pytest.mark.parametrize("name", ["gqa", "mqa"])
def test_decode_attention(name):
    q, k, v = normal(3, 4, 8), normal(3, 16, 2, 8), normal(3, 16, 2, 8)
    k, v = (k, v) if name == "gqa" else (k[:, :, :1], v[:, :, :1])
    start, end = np.array([0, 3, 5]), np.array([16, 9, 6])
    mask = ((np.arange(16) >= start[:, None]) & (np.arange(16) < end[:, None]))[:, None, None]
    known = expected(q[:, :, None], *(np.swapaxes(x, 1, 2) for x in (k, v)), 1 / np.sqrt(8), mask=mask)[:, :, 0]
    given = (k, v) if name == "gqa" else (k[:, :, 0], v[:, :, 0])
    for f in (getattr(decode_attention, name), getattr(decode_attention, f"{name}_reference")):
        close(f(q, *given, start, end), known)


def test_norms_and_softmax():
    x, weight, bias = normal(5, 16), normal(16), normal(16)
    centred = x - x.mean(1, keepdims=True)
    for module, rows in ((layer_norm, centred), (rms_norm, x)):
        name = module.__name__.rpartition(".")[2]
        known = rows / np.sqrt((rows * rows).mean(1, keepdims=True) + 1e-5) * weight + bias
        f, reference = getattr(module, name), getattr(module, f"{name}_reference")
        close(f(x, weight, bias), known)
        close(reference(x, weight, bias), known)
        same_gradient(f, reference, x, weight, bias)
    e = np.exp(x - x.max(1, keepdims=True))
    close(softmax.softmax(x), e / e.sum(1, keepdims=True))


def test_matmul():
    x, y = normal(16, 32), normal(32, 24)
    close(matmul.matmul(x, y, block_shape=(8, 8), block_k=16), x @ y, 1e-5)
    assert matmul.matmul(x, y, block_shape=(8, 8), block_k=16, out_dtype="bfloat16").dtype == tnp.bfloat16
    with pytest.raises(ShapeError, match="blocks that divide them"):
        matmul.matmul(x, y, block_shape=(8, 7), block_k=16)


SCRIPT = """
import importlib.machinery as machinery
find = machinery.PathFinder.find_spec
machinery.PathFinder.find_spec = classmethod(lambda cls, name, *rest: None if name == "jax" else find(name, *rest))
from tilewright import as_jax
as_jax.install()
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.megablox.ops import gmm
from jax.experimental.pallas.ops.tpu.paged_attention import quantization_utils, paged_attention
import jax.experimental.pallas.ops.gpu.rms_norm as norm
assert "pallas_ops" in norm.__file__ and splash_attention_mask.CausalMask((2, 2))[0, :].sum() == 1
try:
    import jax.experimental.pallas.ops.gpu.attention_mgpu
except ModuleNotFoundError as error:
    assert "install jax" in str(error), error
else:
    raise AssertionError
"""


def test_the_names_stand_for_them_without_jax():
    assert importlib.util.find_spec("tilewright.as_jax.pallas_ops") is not None
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
