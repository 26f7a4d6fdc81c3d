"""Fused operations against their plain references: values, gradients, batches, dtypes, odd sizes, small tiles."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy, in_numpy
from tests.support.fused_cases import CASES, IDS, LABELS, MLP, TPU, arrays, floats, scalar
from tilewright import nn
from tilewright import numpy as jnp
from tilewright.core.support.errors import ArgumentError, ShapeError
from tilewright.kernels.fused import OPERATIONS
from tilewright.kernels.fused import adamw as adam


def close(a, b, tolerance=2e-5):
    scale = max(float(np.abs(np.asarray(b, np.float64)).max(initial=0)), 1.0)
    np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=0, atol=tolerance * scale)


def all_close(ours, theirs, tolerance=2e-5):
    for a, b in zip(tw.tree.leaves(ours), tw.tree.leaves(theirs), strict=True):
        close(a, b, tolerance)


@pytest.mark.law
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_value_and_gradient(case):
    name, args, rest, options, tiles = case
    operation = OPERATIONS[name]
    args, rest, options = arrays((args, rest, options))
    numbers = tuple(range(len(args)))

    def both(f, options):
        gradient = tw.grad(scalar(f, rest, options), numbers)
        return lambda *xs: (f(*xs, *rest, **options), gradient(*xs))

    ours = tw.jit(both(operation.function, options | tiles))(*args)
    all_close(ours, by_numpy(both(operation.reference, options), *args))


FIRST = {case[0]: case for case in CASES}


@pytest.mark.law
@pytest.mark.parametrize("name", FIRST)
def test_vmap(name):
    _, args, rest, options, tiles = FIRST[name]
    args, rest, options = arrays((args, rest, options))
    f = tw.grad(scalar(OPERATIONS[name].function, rest, options | tiles))
    batch = np.stack([args[0], args[0] * 2])
    found = tw.jit(tw.vmap(lambda x: f(x, *args[1:])))(batch)
    alone = in_numpy(f)
    for i in range(2):
        close(found[i], alone(batch[i], *args[1:]))


@pytest.mark.law
@pytest.mark.parametrize("name", FIRST)
def test_bfloat16(name):
    _, args, rest, options, tiles = FIRST[name]
    args, rest, options = arrays((args, rest, options))
    args = [a.astype(jnp.bfloat16) for a in args]
    function, reference = OPERATIONS[name].function, OPERATIONS[name].reference
    grad = tw.grad(lambda *a: scalar(function, rest, options | tiles)(*a).astype(jnp.float32))
    out, grads = tw.jit(lambda *a: (function(*a, *rest, **options, **tiles), grad(*a)))(*args)
    assert grads.dtype == jnp.bfloat16
    expected = by_numpy(lambda *a: reference(*a, *rest, **options), *[a.astype(jnp.float32) for a in args])
    all_close(out, expected, 3e-2)


@pytest.mark.parametrize("name", FIRST)
def test_cost(name):
    _, args, rest, options, _ = FIRST[name]
    cost = OPERATIONS[name].cost(*arrays(args), *arrays(rest), **arrays(options))
    assert cost.flops > 0 and cost.bytes >= sum(a.nbytes for a in args[:1])


@pytest.mark.parametrize("tiles", [{}, TPU])
def test_adamw(tiles):
    params = arrays({"a": floats(7, 3), "b": [floats(300), floats(0)]})
    state, expected_state, expected = adam.init(params), adam.init(params), params
    step = tw.jit(lambda *a: adam.adamw(*a, learning_rate=0.1, **tiles))
    theirs = in_numpy(lambda *a: adam.reference(*a, learning_rate=0.1))
    for _ in range(3):
        grads = tw.tree.map(lambda p: p * p - 1, params)
        params, state = step(params, grads, state)
        expected, expected_state = theirs(expected, grads, expected_state)
    all_close((params, state), (expected, expected_state))


def test_forward_mode_and_second_derivative_of_softmax():
    x = jnp.asarray(floats(3, 5))
    operation = OPERATIONS["softmax"]
    for a, b in zip(*(tw.jvp(f, (x,), (x * 2,)) for f in (operation.function, operation.reference)), strict=True):
        close(a, b)


def test_linear_cross_entropy_holds_few_logits():
    args = [tw.ShapeDtypeStruct(s, d) for s, d in (((2048, 8), "float32"), ((8, 32768), "float32"), ((2048,), "int32"))]
    sizes = []
    for f in (OPERATIONS["linear_cross_entropy"].function, OPERATIONS["linear_cross_entropy"].reference):
        sizes.append(tw.jit(tw.value_and_grad(f, (0, 1))).lower(*args).compile().memory_analysis().temp_size_in_bytes)
    assert sizes[0] < 0.3 * sizes[1]


def test_nn_takes_the_fused_attention_for_long_causal_sequences():
    q = tw.ShapeDtypeStruct((1, 1024, 1, 8), "float32")
    program = str(tw.make_jaxpr(lambda q: nn.dot_product_attention(q, q, q, is_causal=True))(q))
    assert "kernel attention" in program
    program = str(tw.make_jaxpr(lambda q: nn.dot_product_attention(q, q, q, is_causal=True, implementation="xla"))(q))
    assert "kernel attention" not in program


def test_a_word_among_the_arguments_of_a_tuned_operation():
    x, w = floats(4, 3), floats(3, 5)
    summed, each = (nn.linear_cross_entropy(x, w, LABELS[:4] % 5, reduction=r) for r in ("sum", "none"))
    np.testing.assert_allclose(summed, np.sum(each), rtol=1e-5)


def test_errors():
    x = floats(4, 3)
    with pytest.raises(ArgumentError, match="median"):
        nn.linear_cross_entropy(x, floats(3, 5), LABELS[:4], reduction="median")
    with pytest.raises(ShapeError, match=r"\(4, 3\)"):
        nn.linear_cross_entropy(x, floats(4, 5), LABELS[:4])
    with pytest.raises(ShapeError, match="groups"):
        nn.group_norm(x, groups=2)
    with pytest.raises(ShapeError, match="even"):
        nn.rotary_embedding(floats(1, 2, 3, 3))
    with pytest.raises(ArgumentError, match="integer"):
        nn.cross_entropy(x, x[:, 0])


BLOCKED = [case for case in CASES if case[0] == "dot_product_attention"]


@pytest.mark.law
@pytest.mark.parametrize("case", BLOCKED, ids=[f"options{i}" for i in range(len(BLOCKED))])
@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e"])
def test_attention_in_the_blocks_of_a_target(case, target):
    """Blocks of queries and of keys, in three kernels: what tiled targets run."""
    _, args, rest, options, tiles = case
    operation = OPERATIONS["dot_product_attention"]
    args, rest, options = arrays((args, rest, options))
    ours = tw.value_and_grad(
        scalar(operation.function, rest, options | tiles | {"columns": 4}), tuple(range(len(args)))
    )
    theirs = tw.value_and_grad(scalar(operation.reference, rest, options), tuple(range(len(args))))
    with tw.config(kernel_target=target):
        found = tw.jit(ours)(*args)
    all_close(found, by_numpy(theirs, *args))


@pytest.mark.law
@pytest.mark.parametrize("columns", [256, 128])
@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"scale": -0.5}, {"local_window_size": 40}, {"bias": floats(1, 1, 1, 256)},
    {"mask": np.random.default_rng(2).random((1, 2, 256, 256)) < 0.9, "query_segment_ids": np.arange(256)[None] // 100,
     "key_value_segment_ids": np.arange(256)[None] // 100},
], ids=lambda options: "-".join(options) or "plain")  # fmt: skip
def test_attention_in_runs_of_queries(options, columns):
    """A TPU's cell takes several runs of queries, the products of one before the softmax of the one before."""
    operation, args = OPERATIONS["dot_product_attention"], arrays([floats(1, 256, 2, 8) for _ in range(3)])
    options = {k: jnp.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    with tw.config(kernel_target="tpu:v6e"):
        found = tw.jit(tw.value_and_grad(scalar(operation.function, (), options | {"columns": columns}), (0, 1, 2)))(
            *args
        )
    all_close(found, by_numpy(tw.value_and_grad(scalar(operation.reference, (), options), (0, 1, 2)), *args))


@pytest.mark.law
@pytest.mark.parametrize(
    ("name", "args", "rest"),
    [
        ("swiglu", (floats(130, 100), floats(100, 140), floats(100, 140), floats(140, 8)), ()),
        ("geglu", (floats(3, 70), floats(70, 20), floats(70, 20), floats(20, 8)), ()),
        ("cross_entropy", (floats(3, 20000),), (LABELS[:3],)),
        ("linear_cross_entropy", (floats(7, 5), floats(5, 11)), (LABELS,)),
        ("softmax", (floats(2, 20000),), ()),
        ("layer_norm", (floats(2, 20000), floats(20000), floats(20000)), ()),
        ("group_norm", (floats(1, 5000, 8), floats(8), floats(8)), ()),
    ],
)
def test_in_the_blocks_of_a_gpu(name, args, rest):
    """Depths in steps, rows by blocks of columns, chunks of rows, and rows that no program holds."""
    operation, options = OPERATIONS[name], {"groups": 2} if name == "group_norm" else {}
    args, rest = arrays((args, rest))
    numbers = tuple(range(len(args)))
    blocks = {"rows": 3} if name == "linear_cross_entropy" else {}
    ours = tw.value_and_grad(scalar(operation.function, rest, options | blocks), numbers)
    theirs = tw.value_and_grad(scalar(operation.reference, rest, options), numbers)
    with tw.config(kernel_target="cuda:sm_90"):
        found = tw.jit(ours)(*args)
    all_close(found, by_numpy(theirs, *args), 1e-4)


@pytest.mark.parametrize("name", ["swiglu", "geglu"])
def test_forward_mode_of_gated_products(name):
    args = arrays(MLP)
    operation = OPERATIONS[name]
    tangents = tuple(jnp.cos(a) for a in args)
    for a, b in zip(
        *(tw.jvp(f, tuple(args), tangents) for f in (operation.function, operation.reference)), strict=True
    ):
        close(a, b)


def test_operations_take_the_tiles_of_the_target_in_force():
    x = tw.ShapeDtypeStruct((4096, 1024), "float32")
    grids = [str(tw.compile(nn.fused.softmax, x, target=target, stop="program")).count("grid=(1,)")
             for target in (None, "cuda:sm_90", "tpu:v5e")]  # fmt: skip
    assert grids[0] and not any(grids[1:])
    with tw.config(kernel_target="nowhere"), pytest.raises(ArgumentError, match="nowhere"):
        nn.fused.softmax(jnp.ones((2, 3)))
