"""Sparse arrays against dense ones: every function at every layout, compiled, mapped and differentiated; errors."""

import functools
import io

import numpy as np
import pytest

import tilewright as tw
from tilewright import errors, lax
from tilewright import numpy as jnp
from tilewright.core.evaluate import evaluate
from tilewright.experimental import sparse
from tilewright.experimental.sparse import BCOO, BCSR

RNG = np.random.default_rng(0)


def mat(*shape, n_batch=0, n_dense=0, density=0.4):
    """A random sparse array of small whole numbers, of which dense blocks are kept or left out together."""
    kept = RNG.random(shape[: len(shape) - n_dense]) < density
    dense = RNG.integers(1, 5, shape) * kept.reshape(kept.shape + (1,) * n_dense)
    return BCOO.fromdense(jnp.asarray(dense.astype(np.float32)), n_batch=n_batch, n_dense=n_dense)


def messy():
    """Elements in no order, several at one place, counted from the end, and outside."""
    indices = np.array([[2, 1], [0, 3], [2, 1], [0, -1], [3, 0], [1, 4], [1, 2]], np.int32)
    return BCOO((jnp.arange(1.0, 8.0), jnp.asarray(indices)), shape=(3, 4))


MATS = {
    "plain": mat(3, 4), "messy": messy(), "batch": mat(3, 4, n_batch=1), "dense": mat(3, 4, n_dense=1),
    "all batch": mat(2, 3, n_batch=2), "vector": mat(5), "three": mat(2, 3, 4), "both": mat(2, 3, 4, n_batch=1, n_dense=1),
    "empty": sparse.empty((3, 4)), "spread": BCOO((jnp.ones((1, 2)), jnp.array([[[0], [2]]])), shape=(3, 4)),
}  # fmt: skip


def tail(x):
    """The sizes after the batch axes."""
    return x.shape[x.n_batch :]


def rows(n):
    return jnp.asarray(np.random.default_rng(n).integers(-3, 4, (n, 2)).astype(np.float32))


def dot(contract, other):
    """The product over an axis with a dense operand, either side."""
    return lambda x: (lax.dot_general(x, other(x.shape[contract]), (((contract,), (0,)), ((), ()))))


# A function of a dense array, which `sparsify` makes one of sparse arrays, and the layouts that it does not take.
FUNCTIONS = {
    "neg": (jnp.negative, ()),
    "abs": (jnp.abs, ()),
    "sin": (jnp.sin, ()),
    "log1p": (jnp.log1p, ()),
    "square": (jnp.square, ()),
    "cube": (lambda x: x**3, ()),
    "root": (lambda x: jnp.power(x, 1.5), ()),
    "twice": (lambda x: x * 2, ()),
    "halved": (lambda x: x / 2, ()),
    "scaled": (lambda x: x * jnp.linspace(1.0, 2.0, x.shape[-1]), ()),
    "divided": (lambda x: x / jnp.linspace(1.0, 2.0, x.shape[-1]), ()),
    "itself added": (lambda x: x + 2 * x, ()),
    "itself subtracted": (lambda x: 3 * x - x, ()),
    "itself multiplied": (lambda x: x * x, ()),
    "reversed added": (lambda x: x + x[::-1], ("batch", "both", "all batch", "spread")),
    "reversed multiplied": (lambda x: x * x[..., ::-1], ()),
    "dense added": (lambda x: x + jnp.ones(x.shape), ()),
    "sum": (jnp.sum, ()),
    "sum of the first": (lambda x: x.sum(0), ()),
    "sum of the last": (lambda x: x.sum(-1), ()),
    "mean": (lambda x: jnp.mean(x, 0), ()),
    "as half": (lambda x: x.astype(jnp.float16), ()),
    "flat": (lambda x: x.reshape(-1), ("batch", "dense", "all batch", "both", "spread")),
    "one more": (lambda x: x[None], ()),
    "squeezed": (lambda x: jnp.squeeze(x[:1], 0), ()),
    "slice": (lambda x: x[1:], ()),
    "strided": (lambda x: x[..., ::2], ()),
    "turned": (lambda x: x[..., ::-1], ()),
    "element": (lambda x: x[-1], ()),
    "moving slice": (lambda x: lax.dynamic_slice_in_dim(x, 1, 2, x.ndim - 1), ()),
    "gathered": (lambda x: x.at[jnp.array([1, 0, 1])].get(mode="clip"), ()),
    "repeated": (lambda x: jnp.broadcast_to(x, (2, *x.shape)), ()),
    "joined": (lambda x: jnp.concatenate([x, 2 * x], 0), ()),
    "product": (dot(-1, rows), ("dense", "both")),
    "product with a vector": (dot(-1, lambda n: rows(n)[:, 0]), ("dense", "both")),
    "product of the first": (dot(0, rows), ()),
    "product from the left": (lambda x: jnp.tensordot(rows(x.shape[0]).T, x, 1), ()),
    "in a call": (lambda x: tw.jit(lambda y: 2 * y)(x), ()),
    "in a choice": (lambda x: lax.cond(True, lambda y: 2 * y, lambda y: 3 * y, x), ()),
    "in a loop": (lambda x: lax.fori_loop(0, 2, lambda i, y: 2 * y, x), ()),
    "in a scan": (lambda x: lax.scan(lambda c, v: (2 * c, v), x, jnp.arange(2))[0], ()),
    "with a rule of its own": (lambda x: HALF(x), ()),
    "made dense": (lambda x: jnp.cos(sparse.todense(x)), ()),
}


@tw.custom_jvp
def HALF(x):
    return x / 2


HALF.defjvp(lambda primals, tangents: (HALF(*primals), tangents[0] / 2))
CASES = [(f, m) for f, (_, without) in FUNCTIONS.items() for m in MATS if m not in without]


def dense(x):
    return x.todense() if sparse.transform.is_sparse(x) else x


def weights(x):
    return np.cos(np.arange(x.size)).reshape(x.shape)


def by_numpy(function, *args):
    """The results of a function, traced and then evaluated by the primitives' NumPy meanings: nothing is compiled."""
    program = tw.make_jaxpr(lambda *args: tw.tree.leaves(function(*args)))(*args)
    return evaluate(program, *map(np.asarray, tw.tree.leaves(args)))


def with_gradient(function, by):
    """What a function gives, and the derivative of its elements' weighted sum."""

    def total(x):
        out = dense(function(x))
        return (out * weights(out)).sum(), out

    return by(total, has_aux=True)


@pytest.mark.parametrize("name,layout", CASES)
def test_functions_of_sparse_arrays_are_those_of_dense_ones(name, layout):
    function, x = FUNCTIONS[name][0], MATS[layout]

    def both(x):
        by_dense, expected = with_gradient(function, tw.grad)(x.todense())
        by_data, found = with_gradient(sparse.sparsify(function), sparse.grad)(x)
        # Elements of one place have the derivative of that place, repeated ones the sum of theirs; padding has any.
        wanted, inside = (sparse.bcoo_extract(x, d, assume_unique=True).data for d in (by_dense, jnp.ones(x.shape)))
        repeated = tuple(d for d in range(x.n_batch) if x.data.shape[d] < x.shape[d])
        wanted, inside = (d.sum(repeated, keepdims=True) for d in (wanted, inside))
        return found, expected, jnp.where(inside != 0, by_data.data, 0), wanted

    found, expected, by_data, wanted = by_numpy(both, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(by_data, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("layout", ["messy", "both"])
def test_compiled_they_are_the_same(layout):
    functions, x = [f for f, without in FUNCTIONS.values() if layout not in without], MATS[layout]
    found = tw.jit(lambda x: [dense(sparse.sparsify(f)(x)) for f in functions])(x)
    for a, b in zip(found, tw.jit(lambda x: [f(x) for f in functions])(x.todense()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


BATCHED = [name for name, (_, without) in FUNCTIONS.items() if "vector" not in without and name != "made dense"]


@pytest.mark.parametrize("name", BATCHED)
def test_vmap_is_a_loop(name):
    function, x = sparse.sparsify(FUNCTIONS[name][0]), mat(2, 3, 4, n_batch=1)

    def both(x):
        parts = [dense(function(BCOO((x.data[i], x.indices[i]), shape=x.shape[1:]))) for i in range(2)]
        return tw.vmap(lambda m: dense(function(m)))(x), jnp.stack(parts)

    found, expected = by_numpy(both, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
