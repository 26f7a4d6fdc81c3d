"""Kernels as they are written for `jax.experimental.pallas`: nothing but the imports is of this package."""

import functools

import numpy as np
import pytest

import tilewright as jax
import tilewright.numpy as jnp
from tilewright import lang as pl
from tilewright.lang import pallas_call


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


# ------------------------------------------------------------------------------------------------ adding vectors


def sum_kernel(a_ref, b_ref, out_ref):
    out_ref[...] = a_ref[...] + b_ref[...]


@jax.jit
def whole_sum(a: jax.Array, b: jax.Array) -> jax.Array:
    return pl.pallas_call(sum_kernel, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype))(a, b)


@functools.partial(jax.jit, static_argnames=["tile"])
def tiled_sum(a: jax.Array, b: jax.Array, tile: int = 128) -> jax.Array:
    spec = pl.BlockSpec((tile,), lambda i: (i,))
    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype),
        grid=(pl.cdiv(a.size, tile),),
        in_specs=[spec, spec],
        out_specs=spec,
    )(a, b)


def masked_sum_kernel(a_ref, b_ref, out_ref, *, tile, n):
    start = pl.program_id(axis=0) * tile
    here = pl.ds(start, tile)
    inside = start + jnp.arange(tile) < n
    a = pl.load(a_ref, (here,), mask=inside, other=0.0)
    b = pl.load(b_ref, (here,), mask=inside, other=0.0)
    pl.store(out_ref, (here,), a + b, mask=inside)


def masked_sum(a, b, tile=64):
    kernel = functools.partial(masked_sum_kernel, tile=tile, n=a.shape[0])
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype), grid=(pl.cdiv(a.shape[0], tile),))(
        a, b
    )


@pytest.mark.parametrize("n", [8, 128, 300, 1])
@pytest.mark.parametrize("add", [whole_sum, tiled_sum, masked_sum])
def test_vectors_are_added(add, n):
    a, b = uniform(n), uniform(n, seed=1)
    np.testing.assert_allclose(add(a, b), a + b, rtol=1e-6)


def iota_kernel(out_ref):
    i = pl.program_id(0)
    out_ref[i] = i


def test_the_cell_number_is_written_where_it_belongs():
    n = 8
    call = pl.pallas_call(iota_kernel, out_shape=jax.ShapeDtypeStruct((n,), jnp.int32), grid=(n,))
    np.testing.assert_array_equal(call(), np.arange(n))


# ------------------------------------------------------------------------------------------------ matmul


def matmul_kernel(x_ref, y_ref, z_ref, *, activation):
    z_ref[...] = activation(x_ref[...] @ y_ref[...])


@functools.partial(jax.jit, static_argnames=["activation", "rows", "columns"])
def matmul(x, y, *, activation, rows=16, columns=32):
    m, k = x.shape
    _, n = y.shape
    return pallas_call(
        functools.partial(matmul_kernel, activation=activation),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // rows, n // columns),
        in_specs=[pl.BlockSpec((rows, k), lambda i, j: (i, 0)), pl.BlockSpec((k, columns), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((rows, columns), lambda i, j: (i, j)),
    )(x, y)


@pytest.mark.parametrize("activation", [jax.nn.relu, jnp.tanh, jax.nn.gelu], ids=["relu", "tanh", "gelu"])
def test_matmul_with_an_activation(activation):
    x, y = uniform(32, 48), uniform(48, 64, seed=1)
    np.testing.assert_allclose(matmul(x, y, activation=activation), activation(x @ y), rtol=1e-4, atol=1e-5)


def test_matmul_batched_by_vmap():
    x, y = uniform(3, 32, 48), uniform(3, 48, 64, seed=1)
    batched = jax.vmap(functools.partial(matmul, activation=jax.nn.relu))
    np.testing.assert_allclose(batched(x, y), np.maximum(x @ y, 0), rtol=1e-4, atol=1e-5)


def blocked_matmul_kernel(x_ref, y_ref, z_ref, acc_ref, *, steps):
    @pl.when(pl.program_id(2) == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == steps - 1)
    def _store():
        z_ref[...] = acc_ref[...].astype(z_ref.dtype)


def blocked_matmul(x, y, *, bm=16, bk=16, bn=16):
    m, k = x.shape
    _, n = y.shape
    grid_spec = pl.PrefetchScalarGridSpec(
        num_scalar_prefetch=0,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pl.VMEM((bm, bn), jnp.float32)],
    )
    return pl.pallas_call(
        functools.partial(blocked_matmul_kernel, steps=k // bk),
        grid_spec=grid_spec,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        compiler_params=pl.tpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, y)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["float32", "bfloat16"])
def test_matmul_with_a_blocked_sum(dtype):
    x, y = (jnp.asarray(uniform(32, 64, seed=s)).astype(dtype) for s in (0, 1))
    got = np.asarray(blocked_matmul(x, y.T)).astype(np.float32)
    expected = np.asarray(x).astype(np.float32) @ np.asarray(y).astype(np.float32).T
    tolerance = 1e-5 if dtype == jnp.float32 else 2e-2
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------ a reduction


def reduce_kernel(x_ref, out_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        out_ref[...] = jnp.zeros_like(out_ref)

    out_ref[...] += x_ref[...]


def test_a_sum_over_the_last_grid_axis():
    x = uniform(4, 32, 16)
    call = pl.pallas_call(
        reduce_kernel,
        grid=(2, 1, 4),
        in_specs=[pl.BlockSpec((None, 16, 16), lambda i, j, k: (k, i, j))],
        out_specs=pl.BlockSpec((16, 16), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((32, 16), jnp.float32),
    )
    np.testing.assert_allclose(call(x), x.sum(0), rtol=1e-5, atol=1e-5)
