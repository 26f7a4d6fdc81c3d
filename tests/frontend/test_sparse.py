"""Sparse arrays against dense ones: every function at every layout, compiled, mapped and differentiated; errors."""

import inspect
import io

import numpy as np
import pytest

import tilewright as tw
from tests.support.compilers import needs
from tests.support.gpu.walker import check_mosaic, check_triton, kernels_of
from tilewright import errors, lax
from tilewright import numpy as jnp
from tilewright.core.tracing.numpy_interpreter import evaluate
from tilewright.experimental import sparse
from tilewright.experimental.sparse import BCOO, BCSR

RNG = np.random.default_rng(0)


def by_numpy(function, *args):
    """The results of a function, traced and then evaluated by the primitives' NumPy meanings: nothing is compiled."""
    program = tw.make_jaxpr(lambda *args: tw.tree.leaves(function(*args)))(*args)
    return evaluate(program, *map(np.asarray, tw.tree.leaves(args)))


def mat(*shape, n_batch=0, n_dense=0, density=0.4):
    """A random sparse array of small whole numbers, of which dense blocks are kept or left out together."""
    kept = RNG.random(shape[: len(shape) - n_dense]) < density
    dense = (RNG.integers(1, 5, shape) * kept.reshape(kept.shape + (1,) * n_dense)).astype(np.float32)
    most = int(kept.reshape(*kept.shape[:n_batch], -1).sum(-1).max())
    parts = by_numpy(lambda x: BCOO.fromdense(x, nse=most, n_batch=n_batch, n_dense=n_dense), dense)
    return BCOO(tuple(map(jnp.asarray, parts)), shape=shape, indices_sorted=True, unique_indices=True)


def messy():
    """Elements in no order, several at one place, counted from the end, and outside."""
    indices = np.array([[2, 1], [0, 3], [2, 1], [0, -1], [3, 0], [1, 4], [1, 2]], np.int32)
    return BCOO((jnp.arange(1.0, 8.0), jnp.asarray(indices)), shape=(3, 4))


MATS = {
    "plain": mat(3, 4), "messy": messy(), "batch": mat(3, 4, n_batch=1), "dense": mat(3, 4, n_dense=1),
    "all batch": mat(2, 3, n_batch=2), "vector": mat(5), "three": mat(2, 3, 4),
    "both": mat(2, 3, 4, n_batch=1, n_dense=1),
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
    "sign": (jnp.sign, ()),
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


def with_gradient(function, by):
    """What a function gives, and the derivative of its elements' weighted sum."""

    def total(x):
        out = dense(function(x))
        return (out * weights(out)).sum(), out

    return by(total, has_aux=True)


@pytest.mark.law
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


def test_elements_of_one_place_are_added_up_before_what_is_not_linear():
    row = np.int32([2, 3, 2, 3])

    def several(x):
        third, whole = (sparse.sparsify(lambda x, n=n: (x / n).astype(jnp.int32))(x) for n in (3, 1))
        quotient = sparse.sparsify(lambda x: lax.div(x, jnp.broadcast_to(row, x.shape)))(whole)
        return [m.todense() for m in (third, quotient, BCSR.from_bcoo(x))]

    x = np.asarray(messy().todense())
    wanted = (x / 3).astype(int), x.astype(int) // row, x
    for a, b in zip(by_numpy(several, messy()), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("layout", ["messy", pytest.param("both", marks=pytest.mark.targets)])
def test_compiled_they_are_the_same(layout):
    functions, x = [f for f, without in FUNCTIONS.values() if layout not in without], MATS[layout]
    found = tw.jit(lambda x: [dense(sparse.sparsify(f)(x)) for f in functions])(x)
    for a, b in zip(found, by_numpy(lambda x: [f(x) for f in functions], x.todense()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


BATCHED = [name for name, (_, without) in FUNCTIONS.items() if "vector" not in without and name != "made dense"]


@pytest.mark.law
@pytest.mark.parametrize("name", BATCHED)
def test_vmap_is_a_loop(name):
    function, x = sparse.sparsify(FUNCTIONS[name][0]), mat(2, 3, 4, n_batch=1)

    def both(x):
        parts = [dense(function(BCOO((x.data[i], x.indices[i]), shape=x.shape[1:]))) for i in range(2)]
        return tw.vmap(lambda m: dense(function(m)))(x), jnp.stack(parts)

    found, expected = by_numpy(both, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("made", [lambda x: x, BCSR.from_bcoo], ids=["BCOO", "BCSR"])
def test_vmap_takes_batch_axes_alone(made):
    """Another axis of the buffers is none of the array's: it was mapped in silence, and gave another shape."""
    x, one = made(mat(2, 3, 4, n_batch=1)), made(mat(3, 4))
    for wrong in ({"in_axes": 1}, {"in_axes": -1}, {"out_axes": 1}):
        with pytest.raises(errors.BatchAxisError, match=f"vmap {[*wrong][0]}=-?1 of a {type(x).__name__} with n_batch"):
            tw.vmap(lambda m: m, **wrong)(x)
    with pytest.raises(errors.BatchAxisError, match="n_batch=0"):
        tw.vmap(lambda m: m.data)(one)
    assert tw.vmap(lambda m: m)(x).shape == (2, 3, 4)


def test_vmap_keeps_the_sizes_of_repeated_axes():
    """Of buffers of size 1 along an axis that stays, the array's size became 1."""
    x = BCOO((jnp.ones((2, 1, 2)), jnp.zeros((2, 1, 2, 1), int)), shape=(2, 3, 4))
    again, found = tw.eval_shape(tw.vmap(lambda m: (m, m.todense())), x)
    assert again.shape == found.shape == x.shape
    assert tw.eval_shape(tw.vmap(lambda m: m, axis_size=5, in_axes=None), x).shape == (5, *x.shape)


# ------------------------------------------------------------------------------------------- between sparse arrays

A, B = mat(3, 4), mat(4, 5)
NUMBERS = (((1,), (0,)), ((), ()))
BATCHES = (((2,), (1,)), ((0,), (0,)))
PRODUCTS = {
    "matrices": (A, B, NUMBERS),
    "many to few": (mat(3, 4, density=0.9), mat(4, 2, density=0.9), NUMBERS),
    "to a scalar": (mat(4), mat(4), (((0,), (0,)), ((), ()))),
    "outer": (mat(3), mat(4), (((), ()), ((), ()))),
    "two axes": (mat(3, 4, 2), mat(2, 4, 5), (((1, 2), (1, 0)), ((), ()))),
    "batches": (mat(2, 3, 4, n_batch=1), mat(2, 4, 5, n_batch=1), BATCHES),
    "free batch": (mat(2, 3, 4, n_batch=1), mat(4, 5), (((2,), (0,)), ((), ()))),
    "messy": (messy(), mat(4, 3), NUMBERS),
    "of nothing stored": (sparse.empty((3, 4)), sparse.empty((4, 5)), NUMBERS),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    """Of two sparse arrays, and of each with the other made dense."""
    x, y, numbers = PRODUCTS[name]

    def every(x, y):
        x_dense, y_dense = x.todense(), y.todense()
        pairs = [(x, y), (x, y_dense), *([(x_dense, y)] if name != "free batch" else [])]
        found = [dense(sparse.bcoo_dot_general(a, b, dimension_numbers=numbers)) for a, b in pairs]
        expected = lax.dot_general(x_dense, y_dense, numbers)
        sampled = sparse.bcoo_fromdense(expected, nse=expected.size, n_batch=len(numbers[1][0]))
        data = sparse.bcoo_dot_general_sampled(x_dense, y_dense, sampled.indices, dimension_numbers=numbers)
        inside = sampled.data != 0  # padding has any
        return expected, jnp.where(inside, data, 0), sampled.data, *found

    expected, data, kept, *found = by_numpy(every, x, y)
    np.testing.assert_allclose(data, kept, rtol=1e-4, atol=1e-4)
    for result in found:
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_products_of_sparse_arrays_have_derivatives():
    w = jnp.cos(jnp.arange(15.0)).reshape(3, 5)
    found = sparse.grad(lambda a, b: ((a @ b).todense() * w).sum(), (0, 1))(A, B)
    expected = tw.grad(lambda a, b: ((a @ b) * w).sum(), (0, 1))(A.todense(), B.todense())
    for x, ours, theirs in zip((A, B), found, expected, strict=True):
        np.testing.assert_allclose(ours.data, sparse.bcoo_extract(x, theirs).data, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("other", [(3, 4), (1, 4), (3, 1), (1, 1)])
@pytest.mark.parametrize("n_dense", [0, 1])
def test_elementwise_products(other, n_dense):
    x, y = mat(3, 4, n_dense=n_dense), mat(*other, n_dense=n_dense, density=0.9)
    for a, b in ((x, y), (y, x), (messy() if not n_dense else x, y)):
        found, expected = by_numpy(
            lambda a, b: (sparse.bcoo_multiply_sparse(a, b).todense(), a.todense() * b.todense()), a, b
        )
        np.testing.assert_allclose(found, expected)


def test_layouts():
    def every(x):
        pairs = [(b, d) for b in range(x.ndim + 1) for d in range(x.ndim + 1 - b)]
        found = [x.update_layout(n_batch=b, n_dense=d, on_inefficient=None) for b, d in pairs]
        assert [(y.n_batch, y.n_dense) for y in found] == pairs
        return [y.todense() for y in found]

    for x in MATS.values():
        for y in by_numpy(every, x):
            np.testing.assert_array_equal(y, x.todense())
    with pytest.raises(sparse.SparseEfficiencyError, match="stores zeros"):
        A.update_layout(n_batch=1)
    with pytest.warns(sparse.SparseEfficiencyWarning, match="stores zeros"):
        A.update_layout(n_dense=1, on_inefficient="warn")


@pytest.mark.parametrize("layout", MATS)
def test_order_and_duplicates(layout):
    x = MATS[layout]

    def ordered(x):
        sizes = (x.nse, x.nse + 1)
        found = [x.sort_indices(), *(x.sum_duplicates(n, zeros) for zeros in (False, True) for n in sizes)]
        assert all(y.indices_sorted for y in found)
        assert all(y.unique_indices for y in found[1:] if y.n_sparse or y.nse < 2)
        assert [y.nse for y in found] == [x.nse, *sizes, *sizes]
        return [y.todense() for y in found]

    for y in by_numpy(ordered, x):
        np.testing.assert_array_equal(y, x.todense())


def test_what_is_known_of_a_messy_one():
    x = messy()
    y = x.sum_duplicates()
    assert y.nse == 3 and y.indices.tolist() == [[0, 3], [1, 2], [2, 1]] and y.data.tolist() == [6.0, 7.0, 4.0]
    assert x.sum_duplicates(nse=2).todense().sum() == 13
    assert sparse.bcoo_extract(x, jnp.ones((3, 4))).data.tolist() == [1, 1, 0, 0, 0, 0, 1]
    assert tw.jit(lambda x: x.sum_duplicates(nse=4))(x).nse == 4
    assert sparse.bcoo_eliminate_zeros(BCOO((x.data * (x.data > 3), x.indices), shape=x.shape)).nse == 2


def test_indices_that_repeat_are_sorted_once():
    x = BCOO((jnp.arange(6.0).reshape(3, 2), jnp.array([[[2], [0]]])), shape=(3, 4))
    y = x.sort_indices()
    assert y.indices.shape == (1, 2, 1) and y.data.shape == (3, 2)
    np.testing.assert_array_equal(y.todense(), x.todense())


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.int8])
def test_indices_that_are_narrow_or_unsigned(dtype):
    """Past the end, -n of an unsigned number was a great one, and all elements outside; 130 is none of int8's."""
    last = np.iinfo(dtype).max  # past the end
    x = BCOO((jnp.arange(1.0, 5.0), np.array([[2, 1], [0, 3], [2, 1], [last, 0]], dtype)), shape=(3, 130))

    def several(x):
        joined = sparse.bcoo_concatenate([x, x], dimension=1)
        found = [x, x.sum_duplicates(nse=4), x[::-1], x + 2 * x, x * x, x[1:], x.reshape(130, 3), joined, x[:, :3] @ x]
        return [m.todense() for m in (*found, BCSR.from_bcoo(x))]

    expected = by_numpy(several, BCOO((x.data, np.array([[2, 1], [0, 3], [2, 1], [3, 0]])), shape=x.shape))
    for a, b in zip(by_numpy(several, x), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_ranks_need_no_promotion():
    def several(x):
        y = x.sum_duplicates(nse=3)
        moved = sparse.bcoo_dynamic_slice(x, (1,) * x.ndim, (1,) * x.ndim), x[1:], x[..., ::-1], x[None]
        return x + 2 * x, x * y, sparse.bcoo_multiply_sparse(x, x[:1]), x.sum(0), x @ jnp.ones((x.shape[-1], 2)), moved

    with tw.numpy_rank_promotion("raise"):
        for x in (messy(), mat(3, 2, 3, n_batch=1)):
            tw.make_jaxpr(several)(x)


def test_elements_of_an_array_without_sparse_axes_are_at_one_place():
    x = BCOO.fromdense(jnp.ones(2), n_batch=1, nse=3)
    assert not x.unique_indices
    np.testing.assert_array_equal(sparse.bcoo_extract(x, jnp.ones(2)).todense(), np.ones(2))
    assert not x.update_layout(n_batch=0).unique_indices


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_axes_of_size_0(shape):
    x = BCOO((jnp.ones(2), jnp.zeros((2, 2), int)), shape=shape)

    def several(x):
        layouts = [x.update_layout(n_batch=b, n_dense=d, on_inefficient=None) for b in range(3) for d in range(3 - b)]
        return [m.todense() for m in (*layouts, x * jnp.ones(shape), x / jnp.ones(shape), x[:])]

    assert all(found.shape == shape for found in by_numpy(several, x))


# ------------------------------------------------------------------------------------------- other formats and files


@pytest.mark.law
@pytest.mark.parametrize("made", [sparse.COO, sparse.CSR, sparse.CSC, BCSR, BCOO])
def test_matrices(made, tmp_path):
    x = mat(3, 4).todense()
    m, v, w = made.fromdense(x), jnp.arange(4.0), rows(4)
    np.testing.assert_allclose(tw.jit(lambda m, w: m @ w)(m, w), x @ w)

    def several(m, v):
        found = sparse.grad(lambda m: ((m @ v) ** 2).sum())(m)
        assert type(found) is made
        return m.todense(), m @ v, (m if made is BCSR else m.T.T) @ v, found.todense()

    squares = tw.grad(lambda x: ((x @ v) ** 2).sum())(x) * (x != 0)
    for a, b in zip(by_numpy(several, m, v), (x, x @ v, x @ v, squares), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    sparse.save(tmp_path / "m.npz", m)
    again = sparse.load(tmp_path / "m.npz")
    assert type(again) is made
    for a, b in zip(m.tree_flatten()[0], again.tree_flatten()[0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.shape == m.shape


@pytest.mark.parametrize("name", ["bcoo", "bcsr", "coo", "csr", "csc"])
def test_empty_and_identity(name):
    sizes = [] if name == "bcsr" else [(4, 0), (3, 1), (5, -2), (3, 7)]

    def made():
        eyes = [sparse.eye(4, n, k, sparse_format=name).todense() for n, k in sizes]
        return [sparse.empty((3, 4), sparse_format=name).todense(), *eyes]

    for a, b in zip(by_numpy(made), [np.zeros((3, 4)), *(np.eye(4, n, k) for n, k in sizes)], strict=True):
        np.testing.assert_array_equal(a, b)


def test_rows_with_batch_and_dense_axes():
    def several(x):
        y = BCSR.from_bcoo(x)
        again = y.sum_duplicates(nse=x.nse).todense()
        return y.todense(), y.to_bcoo().todense(), again, sparse.bcsr_extract(y.indices, y.indptr, x.todense()), y.data

    for x in (mat(2, 3, 4, n_batch=1), mat(3, 4, 2, n_dense=1), mat(2, 3, 4, 2, n_batch=1, n_dense=1)):
        *same, extracted, data = by_numpy(several, x)
        np.testing.assert_array_equal(extracted, data)
        for y in same:
            np.testing.assert_array_equal(y, x.todense())

    def batched(x):
        y = BCSR.from_bcoo(x)
        wide = sparse.bcsr_broadcast_in_dim(y, shape=(3, 2, 3, 4), broadcast_dimensions=(1, 2, 3))
        joined = sparse.bcsr_concatenate([y, y], dimension=1)
        return tw.vmap(lambda m: m @ rows(4))(y), joined.todense(), wide.todense()

    x = mat(2, 3, 4, n_batch=1)
    d = np.asarray(x.todense())
    expected = d @ rows(4), np.concatenate([d, d], 1), np.broadcast_to(d, (3, 2, 3, 4))
    for a, b in zip(by_numpy(batched, x), expected, strict=True):
        np.testing.assert_allclose(a, b)


def test_functions_of_rows_give_rows():
    x = BCSR((jnp.arange(1.0, 5.0), jnp.array([2, 0, 0, 1]), jnp.array([0, 3, 3, 4])), shape=(3, 3))
    functions = (jnp.negative, jnp.sin, jnp.square, lambda x: x**1.5, lambda x: jnp.stack([x, x]),
                 lambda x: jnp.concatenate([x, -x], 0))  # fmt: skip

    def found(x):
        results = [sparse.sparsify(f)(x) for f in functions]
        assert {type(m) for m in results} == {BCSR} and results[0].indices is x.indices
        assert [row.shape for row in x] == 3 * [(3,)]  # it had no end
        return [m.todense() for m in results], [f(x.todense()) for f in functions]

    for a, b in zip(*np.array_split(np.array(by_numpy(found, x), object), 2), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_files_of_floats_that_numpy_lacks(dtype):
    file, x = io.BytesIO(), BCOO((jnp.arange(2.0).astype(dtype), jnp.array([[2], [0]])), shape=(3,))
    sparse.save(file, x)
    file.seek(0)
    again = sparse.load(file)
    assert again.dtype == x.dtype and again.data.tolist() == [0.0, 1.0]


def test_scipy():
    scipy = pytest.importorskip("scipy.sparse")
    x = scipy.random(5, 4, 0.4, "csc", np.float32, 0)
    for made in (BCOO, BCSR):
        np.testing.assert_array_equal(made.from_scipy_sparse(x).todense(), x.toarray())
    assert not isinstance(np.ones(5) @ BCOO.from_scipy_sparse(x), np.ndarray)


def test_convolution():
    x, w = mat(1, 1, 9), mat(1, 1, 3, density=0.9)
    for padding in ([(0, 0)], [(2, 1)], "SAME"):
        how = {"window_strides": (1,), "padding": padding}
        for a, b in ((x, w), (x, w.todense())):
            found = sparse.bcoo_conv_general_dilated(a, b, **how)
            expected = lax.conv_general_dilated(x.todense(), w.todense(), (1,), padding)
            np.testing.assert_allclose(found.todense(), expected, atol=1e-5)


def test_random():
    x = sparse.random_bcoo(tw.random.key(1), (2, 4, 5, 3), n_batch=1, n_dense=1, nse=0.3, sorted_indices=True)
    assert (x.nse, x.n_batch, x.n_dense, x.indices_sorted) == (6, 1, 1, True)
    assert len({(b, *i) for b in range(2) for i in x.indices[b].tolist()}) == 12
    assert sparse.random_bcoo(tw.random.key(1), (5,), nse=3, generator=tw.random.normal).nse == 3


def test_jacobians():
    x, v = mat(3, 4), jnp.arange(1.0, 5.0)
    expected = tw.jacrev(lambda m: m @ v)(x.todense())
    inside = np.broadcast_to(x.todense() != 0, (3, 3, 4))
    for jacobian in (sparse.jacfwd, sparse.jacrev, sparse.jacobian):
        found = jacobian(lambda m, v: m @ v)(x, v)
        assert (found.n_batch, found.nse) == (1, x.nse)
        np.testing.assert_allclose(found.todense(), expected * inside)
    value, (by_m, by_v) = sparse.value_and_grad(lambda m, v: (m @ v).sum(), (0, 1))(x, v)
    np.testing.assert_allclose(by_v, x.todense().sum(0))
    assert value == (x.todense() @ v).sum() and by_m.shape == x.shape
    found, aux = sparse.grad(lambda m: ((m @ v).sum(), 2.0), has_aux=True)(x)
    assert aux == 2 and found.nse == x.nse
    tw.test_util.check_grads(lambda d: BCOO((d, x.indices), shape=x.shape) @ v, (x.data,), 2, rtol=1e-2)


# ------------------------------------------------------------------------------------------- linear algebra


def test_spsolve():
    a = mat(5, 5).todense() + 5 * jnp.eye(5)
    m, b = BCSR.fromdense(a), jnp.arange(1.0, 6.0)

    def solved(data, b):
        return sparse.linalg.spsolve(data, m.indices, m.indptr, b)

    np.testing.assert_allclose(solved(m.data, b), np.linalg.solve(a, b), rtol=1e-5)
    found = tw.jit(tw.grad(lambda d, b: (solved(d, b) ** 2).sum(), (0, 1)))(m.data, b)
    expected = tw.grad(lambda a, b: (jnp.linalg.solve(a, b) ** 2).sum(), (0, 1))(a, b)
    np.testing.assert_allclose(found[0], sparse.bcsr_extract(m.indices, m.indptr, expected[0]), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)
    with pytest.raises(errors.ShapeError, match="spsolve"):
        sparse.linalg.spsolve(m.data, m.indices, m.indptr, jnp.ones(4))
    with pytest.raises(errors.DtypeError, match="float"):
        sparse.linalg.spsolve(m.data, m.indices, m.indptr, jnp.ones(5, int))


def test_lobpcg():
    q = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    q = q + q.T
    start = jnp.asarray(np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32))
    expected = np.linalg.eigvalsh(q)[::-1][:3]
    for a in (jnp.asarray(q), lambda x: jnp.asarray(q) @ x):
        theta, u, steps = sparse.linalg.lobpcg_standard(a, start)
        np.testing.assert_allclose(theta, expected, rtol=1e-4)
        np.testing.assert_allclose(q @ u, u * theta, atol=1e-2)
        assert 0 < steps < 100
    with pytest.raises(errors.ArgumentError, match="5 k < n"):
        sparse.linalg.lobpcg_standard(q, jnp.ones((40, 8)))


# ------------------------------------------------------------------------------------------- blocks, as a kernel


def blocks(nse, m, k, size, count, n):
    """Blocks in any order, of which some repeat and the last is outside, a dense matrix, and their product."""
    data, dense = (RNG.integers(-3, 4, shape).astype(np.float32) for shape in ((nse, m, k), (count * k, n)))
    at, columns = RNG.integers(0, size, nse), RNG.integers(0, count, nse)
    at[:2], columns[:2], at[-1] = at[0], columns[0], size
    expected = np.zeros((size + 1, m, n), np.float32)
    np.add.at(expected, at, data @ dense.reshape(count, k, n)[columns])
    return data, at.astype(np.int32), columns.astype(np.int32), dense, expected[:size].reshape(size * m, n)


def test_blocks():
    data, at, columns, dense_, expected = blocks(7, 2, 4, 5, 3, 6)

    def product(data, dense):
        return sparse.block_matmul(data, at, columns, dense, size=5, tile=4)

    np.testing.assert_allclose(product(data, dense_), expected)
    assert sparse.block_matmul(data[:0], at[:0], columns[:0], dense_, size=5).shape == expected.shape
    stacked = tw.vmap(product, in_axes=(0, None))(np.stack([data, 2 * data]), dense_)
    np.testing.assert_allclose(stacked, np.stack([expected, 2 * expected]))
    by_data, by_dense = tw.grad(lambda d, x: (product(d, x) ** 2).sum() / 2, (0, 1))(jnp.asarray(data), dense_)
    rest = np.concatenate([expected.reshape(5, 2, 6), np.zeros((1, 2, 6), np.float32)])[at]
    inner = dense_.reshape(3, 4, 6)[columns]
    np.testing.assert_allclose(by_data, rest @ inner.transpose(0, 2, 1), rtol=1e-4)
    wanted = np.zeros((3, 4, 6), np.float32)
    np.add.at(wanted, columns, data.transpose(0, 2, 1) @ rest)
    np.testing.assert_allclose(by_dense, wanted.reshape(12, 6), rtol=1e-4)
    with pytest.raises(errors.ShapeError, match="blocks of 4 columns"):
        sparse.block_matmul(data, at, columns, dense_[:-1], size=5)
    with pytest.raises(errors.DtypeError, match="one dtype of floats"):
        sparse.block_matmul(data.astype(np.float16), at, columns, dense_, size=5)


@pytest.mark.parametrize("walk", [check_triton, check_mosaic])
def test_blocks_on_devices(walk):
    """The kernel as Triton's and Mosaic's, walked in NumPy."""
    *operands, expected = blocks(5, 8, 128, 3, 2, 128)
    found = kernels_of(lambda *xs: sparse.block_matmul(*xs, size=3), *operands)
    assert len(found) == 1
    np.testing.assert_allclose(walk(found[0][0], *found[0][1])[0], expected, rtol=1e-5)


@pytest.mark.parametrize("target", ["cuda", "tpu:v5e"])
def test_blocks_compile_without_a_device(target):
    needs(target)
    types = [tw.ShapeDtypeStruct(x.shape, x.dtype) for x in blocks(5, 16, 128, 3, 2, 128)[:4]]
    emitted = tw.compile(lambda *xs: sparse.block_matmul(*xs, size=3), *types, target=target, stop="emit")
    assert "block_matmul" in str(emitted)


# ------------------------------------------------------------------------------------------- errors

BAD = {
    "cos": (lambda: sparse.sparsify(jnp.cos)(A), NotImplementedError, "cos of BCOO: the result would be dense"),
    "equal": (lambda: A == A, NotImplementedError, "would be dense"),
    "a number added": (lambda: A + 1.0, NotImplementedError, "would be dense"),
    "divided by": (lambda: 1.0 / A, NotImplementedError, "division by a sparse array"),
    "to the power 0": (lambda: A**0.0, NotImplementedError, "dense"),
    "as NumPy's": (lambda: np.asarray(A), NotImplementedError, "NumPy was given a BCOO"),
    "to a function of dense arrays": (lambda: jnp.sin(A), TypeError, "BCOO(.|\n)*todense"),
    "a dense array for a sparse one": (lambda: sparse.bcoo_sort_indices(jnp.ones(3)), TypeError, "bcoo_sort_indices"),
    "no dimension numbers": (lambda: sparse.bcoo_dot_general(A, B, dimension_numbers=None), TypeError, "call it as"),
    "a misspelt keyword": (lambda: sparse.empty((3, 3), n_bach=1), TypeError, "n_bach"),
    "one buffer": (lambda: BCOO((jnp.ones(3),), shape=(3,)), ValueError, "BCOO"),
    "a size of a half": (lambda: BCOO((jnp.ones(3), jnp.zeros((3, 1), int)), shape=(1.5,)), TypeError, "1.5"),
    "a negative size": (lambda: sparse.empty((3, -1)), ValueError, "negative size"),
    "places of other elements": (lambda: sparse.COO((jnp.ones(2), jnp.zeros(2, int), jnp.zeros(3, int)), shape=(3, 3)),
                                 ValueError, "a place for each element"),
    "rows of another number": (lambda: sparse.CSR((jnp.ones(2), jnp.zeros(2, int), jnp.zeros(3, int)), shape=(3, 3)),
                               ValueError, "where each row"),
    "no such order": (lambda: sparse.linalg.spsolve(jnp.ones(1), jnp.zeros(1, int), jnp.arange(2), jnp.ones(1),
                                                    reorder=7), ValueError, "reorder=7"),
    "no rule": (lambda: sparse.sparsify(jnp.sort)(A), NotImplementedError, "has no rule"),
    "buffers": (lambda: BCOO((jnp.ones(3), jnp.zeros((2, 1), int)), shape=(3,)), ValueError, r"shape \(3,\)"),
    "indices": (lambda: BCOO((jnp.ones(3), jnp.zeros((3, 1))), shape=(3,)), TypeError, "indices are integers"),
    "rows": (lambda: BCSR((jnp.ones(3), jnp.zeros(3, int), jnp.zeros(3, int)), shape=(3, 3)), ValueError, "indptr"),
    "places": (lambda: BCOO((jnp.ones(1), jnp.zeros((1, 2), int)), shape=(70000, 70000)).reshape(70000, 7, 10000),
               ValueError, "4900000000 places for indices of dtype int32"),
    "a long axis": (lambda: BCOO((jnp.ones(1), jnp.zeros((1, 1), int)), shape=(2**32,))[1:], ValueError, "enable_x64"),
    "nse": (lambda: tw.jit(BCOO.fromdense)(jnp.ones(3)), TypeError, "give `nse`"),
    "kinds of axes": (lambda: mat(2, 3, n_batch=1).T, NotImplementedError, "mixes kinds of axes"),
    "mixed reshape": (lambda: mat(2, 3, n_batch=1).reshape(3, 2), ValueError, "mixes batch, sparse and dense"),
    "dense sum": (lambda: mat(3, 4, n_dense=1) @ jnp.ones(4), NotImplementedError, "over its dense axes"),
    "wide broadcast": (lambda: sparse.bcoo_broadcast_in_dim(mat(1, 3), shape=(2, 3), broadcast_dimensions=(0, 1)),
                       NotImplementedError, "adds sparse axes"),
    "larger dense": (lambda: sparse.bcoo_multiply_dense(mat(1, 3), jnp.ones((2, 3))), NotImplementedError,
                     "another shape"),
    "joined kinds": (lambda: sparse.bcoo_concatenate([A, mat(3, 4, n_batch=1)], dimension=0), ValueError, "layouts"),
    "slice": (lambda: sparse.bcoo_slice(A, start_indices=(0, 0), limit_indices=(4, 4)), ValueError, "limit <= size"),
    "format": (lambda: sparse.empty((2, 2), sparse_format="ell"), ValueError, "sparse_format='ell'"),
    "too many": (lambda: sparse.random_bcoo(tw.random.key(0), (2, 2), nse=7), ValueError, "nse=7 of 4 places"),
    "transpose of rows": (lambda: BCSR.from_bcoo(A).T, NotImplementedError, "to_bcoo"),
    "a word for a number": (lambda: sparse.bcoo_fromdense(A.todense(), n_batch="a", index_dtype=np.int32), TypeError,
                            "n_batch='a', index_dtype=<class"),
    "a word for a shape": (lambda: A.reshape("a"), TypeError, r"call it as reshape\("),
    "a word for an argument": (lambda: sparse.grad(jnp.sum, argnums="a"), TypeError, r"call it as grad\("),
    "rows of nothing": (lambda: BCSR.from_bcoo(None), TypeError, r"call it as from_bcoo\("),
    "no number of rows": (lambda: sparse.block_matmul(jnp.ones((1, 2, 2)), [0], [0], jnp.ones((2, 2)), size=None),
                          TypeError, "call it as block_matmul"),
    "file": (lambda: sparse.save(io.BytesIO(), jnp.ones(2)), TypeError, "numpy.save"),
    "scan over rows": (lambda: sparse.sparsify(lambda x: lax.scan(lambda c, r: (c, r), 0, x))(A), NotImplementedError,
                       "rows of a sparse array"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_errors_are_named(name):
    call, kind, text = BAD[name]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert isinstance(caught.value, errors.TilewrightError)


# ------------------------------------------------------------------------------------------- the reference


def test_names_are_the_references():
    jax = pytest.importorskip("jax.experimental.sparse")
    kept = {n for n in vars(jax) if not n.startswith("_") and not n.endswith("_p")}
    kept -= {"SparseTracer", "annotations"} | {n for n in kept if type(getattr(jax, n)).__name__ == "module"}
    assert kept - set(dir(sparse)) == set()
    for name in sorted(kept):
        if callable(getattr(jax, name)) and not isinstance(getattr(jax, name), type):
            theirs, ours = (inspect.signature(getattr(m, name)).parameters for m in (jax, sparse))
            assert set(theirs) <= set(ours), name


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve_of_sparse_vectors(mode):
    x, w = np.array([1, 0, 0, 2, -1], np.float32), np.array([0, 3, 1], np.float32)
    convolved = sparse.sparsify(lambda x, w: jnp.convolve(x, w, mode=mode))
    for other in (jnp.asarray(w), sparse.BCOO.fromdense(jnp.asarray(w))):
        found = convolved(sparse.BCOO.fromdense(jnp.asarray(x)), other)
        np.testing.assert_array_equal(found.todense(), np.convolve(x, w, mode))


def test_sums_of_sparse_truth_values_are_unions():
    a = np.array([[True, False, False], [True, True, False]])
    whole = [sparse.BCOO.fromdense(jnp.asarray(v)) for v in (a, a[::-1])]
    x, y = (sparse.BCOO((m.data.astype(bool), m.indices), shape=m.shape) for m in whole)
    np.testing.assert_array_equal((x + y).todense(), a | a[::-1])
    np.testing.assert_array_equal((x + x).sum_duplicates().todense(), a)


def test_booleans_are_counted():
    mask, other = np.array([[1, 0, 1], [0, 0, 1]], bool), np.array([[1, 0], [1, 1], [1, 1]], bool)
    counts = mask.astype(np.int32)
    mat, dense = sparse.BCOO.fromdense(mask), jnp.asarray(other)
    twice = sparse.BCOO((jnp.ones(2, bool), jnp.zeros((2, 2), jnp.int32)), shape=(1, 1))
    rows = sparse.BCSR.fromdense(mask)
    for found, wanted in (
        (mat, counts), (mat.T, counts.T), (mat + mat, 2 * counts), (mat * mat, counts), (-mat, -counts),
        (mat @ dense, counts @ other), (mat @ sparse.BCOO.fromdense(other), counts @ other),
        (rows @ dense, counts @ other), (sparse.bcoo_reduce_sum(twice, axes=(0,)), [2]), (twice @ twice, [[4]]),
        (twice @ jnp.ones((1, 1), bool), [[2]]),
    ):  # fmt: skip
        found = found.todense() if hasattr(found, "todense") else found
        assert found.dtype == np.int32 and found.tolist() == np.asarray(wanted).tolist()
    numbers = (((1,), (0,)), ((), ()))
    places = jnp.array([[0, 0], [0, 1], [1, 0]])
    sampled = sparse.bcoo_dot_general_sampled(mask, dense.at[2].set(False), places, dimension_numbers=numbers)
    assert sampled.dtype == bool and sampled.tolist() == [True, False, False]
