"""Calls of the fused operations: operands, options and tiles."""

import numpy as np

import tilewright as tw
from tilewright import numpy as jnp

TPU = {"target": "tpu:v5e"}
LABELS = np.array([0, 3, 10, 2, -1, 5, 6])
SEGMENTS = np.repeat([[0, 1, 2]], 3, 1).repeat(2, 0)
MASK = np.random.default_rng(1).random((9, 9)) > 0.3


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


QKV = (floats(2, 9, 4, 6), floats(2, 9, 2, 6), floats(2, 9, 2, 6))
MLP = (floats(2, 3, 5), floats(5, 7), floats(5, 7), floats(7, 4))

# name, differentiated arguments, other arguments, options of both, options of the fused one alone
CASES = [
    *[(name, (floats(3, 7, 6),), (), options, tiles) for name in ("softmax", "log_softmax")
      for options, tiles in (({}, {}), ({"axis": 1}, TPU))],
    ("rms_norm", (floats(3, 7, 6), floats(6)), (), {}, {}),
    ("rms_norm", (floats(3, 7, 6), floats(6)), (), {"residual": floats(3, 7, 6)}, TPU),
    ("layer_norm", (floats(3, 7, 6), floats(6), floats(6)), (), {}, TPU),
    ("layer_norm", (floats(3, 7, 6), floats(6), floats(6)), (), {"residual": floats(3, 7, 6)}, {}),
    ("group_norm", (floats(3, 7, 6), floats(6), floats(6)), (), {"groups": 2}, {}),
    ("cross_entropy", (floats(7, 11),), (LABELS,), {}, {}),
    ("cross_entropy", (floats(7, 11),), (LABELS,), {}, TPU),
    *[("linear_cross_entropy", (floats(7, 5), floats(5, 11)), (LABELS,), {"reduction": r, "weights": floats(7) ** 2}, b)
      for r, b in (("mean", {}), ("sum", {"rows": 4}), ("none", {"rows": 3, "columns": 4}),
                   ("mean", {"rows": 3, "columns": 4}))],
    *[("dot_product_attention", QKV, (), options, blocks) for options, blocks in (
        ({}, {"rows": 4}), ({}, {"rows": 4, "columns": 5}), ({"is_causal": True}, {"rows": 2}),
        ({"is_causal": True, "local_window_size": (3, 2)}, {"rows": 4, "columns": 4}), ({"mask": MASK}, {"rows": 4}),
        ({"query_segment_ids": SEGMENTS, "key_value_segment_ids": SEGMENTS}, {"rows": 4, "columns": 4}),
        ({"query_seq_lengths": np.array([9, 5]), "key_value_seq_lengths": np.array([3, 9])}, {"rows": 4}))],
    ("dot_product_attention", (*QKV, floats(1, 4, 9, 9)), (), {"is_causal": True}, {"rows": 2}),
    ("dot_product_attention", (*QKV, floats(2, 1, 1, 9)), (), {}, {"rows": 4}),
    ("swiglu", MLP, (), {}, {}),
    ("geglu", MLP, (), {}, TPU),
    ("rotary_embedding", (floats(2, 5, 3, 8),), (), {}, {}),
    ("rotary_embedding", (floats(2, 5, 3, 8),), (np.arange(10).reshape(2, 5),), {"base": 100.0}, TPU),
]  # fmt: skip
IDS = [f"{i}-{case[0]}" for i, case in enumerate(CASES)]


def arrays(values):
    return tw.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, values)


def scalar(fun, rest, options):
    """A function's results against fixed weights, as one number."""

    def total(*args):
        outs = tw.tree.leaves(fun(*args, *rest, **options))
        return sum((jnp.sin(jnp.arange(y.size)).reshape(y.shape) * y).sum() for y in outs)

    return total


FIRST_OF = {case[0]: case for case in reversed(CASES)}
