"""Linear algebra against NumPy, SciPy and jax: values, dtypes, batches, derivatives, and what bad input does."""

import numpy as np
import pytest
import scipy.linalg

import tilewright as tw
from tests.support.by_numpy import by_numpy, in_numpy
from tests.support.calls.linalg_calls import CALLS, H, general, hermitian, matrix
from tests.support.compilers import needs
from tilewright import lax
from tilewright import numpy as jnp
from tilewright.core.ir.binding import under
from tilewright.core.support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from tilewright.core.tracing.numpy_interpreter import NUMPY
from tilewright.scipy import linalg as spl

DTYPES = ["float32", "float64", "complex64", "complex128"]
MODULES = {"numpy": (jnp.linalg, np.linalg), "scipy": (spl, scipy.linalg)}
TABLE = [pytest.param(c, id=str(c)) for c in CALLS]


@pytest.fixture(autouse=True)
def wide():
    with tw.config(enable_x64=True):
        yield


def leaves(out):
    return tw.tree_util.tree_leaves(out if isinstance(out, (list, tuple)) else [out])


def facts(call, xp, out):
    return [x for x in leaves(call.facts(xp, out)) if x is not None]


def ours(call, *arrays):
    return facts(call, jnp, getattr(MODULES[call.module][0], call.name)(*arrays, **call.keywords))


def theirs(call, *arrays):
    return facts(call, np, getattr(MODULES[call.module][1], call.name)(*arrays, **call.keywords))


def check(found, expected, tolerance, dtypes=True):
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        f, e = np.asarray(f), np.asarray(e)
        assert f.shape == e.shape
        if dtypes and e.dtype.kind in "fc":
            assert f.dtype == e.dtype or (f.dtype.kind == "c" and e.dtype.kind == "f")
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance * max(1.0, abs(e).max() if e.size else 1))


def loop(call, function, arrays, batch):
    rows = [function(call, *[a[i] for a in arrays]) for i in np.ndindex(*batch)]
    return [np.stack(parts).reshape(*batch, *np.shape(parts[0])) for parts in zip(*rows, strict=True)]


@pytest.mark.law
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", [p for p in TABLE if p.values[0].theirs])
def test_as_numpy_and_scipy(call, dtype):
    tolerance = 2e-3 if dtype in ("float32", "complex64") else 1e-8
    arrays = call.arrays(1, (), dtype)
    widened = call.module == "scipy" and call.name in ("det", "expm_frechet")  # SciPy's come in double precision
    check(ours(call, *arrays), theirs(call, *arrays), tolerance, dtypes=not widened)


@pytest.mark.law
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("call", [p for p in TABLE if p.values[0].batched])
def test_leading_axes_are_a_loop(call, dtype):
    arrays = call.arrays(2, (2,), dtype)
    if call.name in ("sqrtm",):
        return
    found = ours(call, *arrays)
    one = lambda call, *xs: by_numpy(lambda *xs: ours(call, *xs), *xs)  # noqa: E731
    check(found, loop(call, one, arrays, (2,)), 2e-3 if dtype == "float32" else 1e-8)


@pytest.mark.law
@pytest.mark.parametrize("call", TABLE)
def test_jit_is_eager_and_vmap_is_a_loop(call):
    arrays = call.arrays(3, (), "float32")
    check(tw.jit(lambda *a: ours(call, *a))(*arrays), ours(call, *arrays), 1e-3)
    if call.batched or call.name == "sqrtm":
        many = [call.arrays(seed, (), "float32") for seed in (3, 4)]
        stacked = [np.stack(xs) for xs in zip(*many, strict=True)]
        found = tw.vmap(lambda *a: ours(call, *a))(*stacked)
        check(found, loop(call, ours, stacked, (2,)), 2e-3)


def scalar(call, arrays):
    """A real function of the operands, from a random mix of all results."""
    rng = np.random.default_rng(5)
    sizes = tw.eval_shape(lambda *xs: ours(call, *xs), *arrays)
    mixes = [rng.standard_normal(x.shape) + 1j * rng.standard_normal(x.shape) for x in sizes]

    def f(*xs):
        total = 0.0
        for out, mix in zip(ours(call, *xs), mixes, strict=True):
            if out.dtype.kind == "c":
                total = total + jnp.sum(out.real * mix.real) + jnp.sum(out.imag * mix.imag)
            elif out.dtype.kind == "f":
                total = total + jnp.sum(out * mix.real)
        return total

    return f


def directions(arrays, seed):
    rng = np.random.default_rng(seed)
    tangents = []
    for x in arrays:
        t = rng.standard_normal(np.shape(x))
        tangents.append((t + 1j * rng.standard_normal(np.shape(x)) if np.iscomplexobj(x) else t).astype(x.dtype))
    return tangents


def moved(arrays, tangents, h):
    return [x + h * t for x, t in zip(arrays, tangents, strict=True)]


DIFFERENTIABLE = [p for p in TABLE if p.values[0].differentiable and p.values[0].name != "multi_dot"]


@pytest.mark.law
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("call", DIFFERENTIABLE)
def test_derivatives_to_second_order_are_finite_differences(call, dtype):
    arrays = call.arrays(6, (), dtype)
    f = scalar(call, arrays)
    first, second = directions(arrays, 7), directions(arrays, 8)
    if call.operands[0] is hermitian:  # what is Hermitian stays so
        first, second = ([(t + H(t)) / 2 if t.shape[-1] == t.shape[-2] else t for t in ts] for ts in (first, second))

    def along(gradients):
        return sum(np.sum(np.asarray(g) * t).real for g, t in zip(gradients, first, strict=True))

    # Two programs: the value with its gradient, and the change of these. What they compute is no law of a compiler.
    pair = tw.value_and_grad(f, tuple(range(len(arrays))))
    backward, forward, h = in_numpy(pair), in_numpy(lambda xs, ts: tw.jvp(pair, xs, ts)[1]), 1e-5
    (ahead, _), (behind, _) = (backward(*moved(arrays, first, s)) for s in (h, -h))
    found, _ = forward(tuple(arrays), tuple(first))
    np.testing.assert_allclose(float(found), (float(ahead) - float(behind)) / (2 * h), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(along(backward(*arrays)[1]), float(found), rtol=1e-8, atol=1e-8)
    if dtype == "float64":
        ahead, behind = (along(backward(*moved(arrays, second, s))[1]) for s in (h, -h))
        _, curved = forward(tuple(arrays), tuple(second))
        np.testing.assert_allclose(along(curved), (ahead - behind) / (2 * h), rtol=1e-4, atol=1e-4)


@pytest.mark.law
@pytest.mark.parametrize("call", [p for p in DIFFERENTIABLE if p.values[0].note not in ("generalized", "her", "equal")])
def test_values_and_gradients_as_jax(call):
    jax = pytest.importorskip("jax")
    module = jax.numpy.linalg if call.module == "numpy" else jax.scipy.linalg
    if not hasattr(module, call.name):
        pytest.skip("jax does not have it")
    arrays = call.arrays(9, (), "float64")

    def f(xp, function, *xs):
        return [x.sum() for x in leaves_of(call.facts(xp, function(*xs, **call.keywords)))]

    def leaves_of(out):
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def total(function):
        """The sum of the real results, and all of them."""

        def summed(a):
            results = function(a, *arrays[1:])
            return sum(x for x in results if x.dtype.kind == "f"), results

        return summed

    mine = lambda *xs: f(jnp, getattr(MODULES[call.module][0], call.name), *xs)  # noqa: E731
    with jax.enable_x64(True):
        # In one program: operation by operation jax compiles dozens.
        theirs = jax.jit(lambda *xs: f(jax.numpy, getattr(module, call.name), *xs))
        kinds = {x.dtype.kind for x in jax.eval_shape(theirs, *arrays)}
        # jax gives the triangle that is not read a derivative; its pivoted one is no finite difference's
        derived = call.name not in ("solve_triangular", "cholesky") and call.note != "pivoting" and "c" not in kinds
        try:
            if derived:
                (_, values), expected = jax.jit(jax.value_and_grad(total(theirs), has_aux=True))(arrays[0])
        except (NotImplementedError, ValueError):  # jax has no derivative, or none in reverse
            derived = False
        values = values if derived else theirs(*arrays)
    if not derived:
        check(by_numpy(mine, *arrays), values, 1e-7)
        return
    (_, results), found = by_numpy(tw.value_and_grad(total(mine), has_aux=True), arrays[0])
    check(results, values, 1e-7)
    found, expected = np.asarray(found), np.asarray(expected)
    if call.operands[0] is hermitian:
        found, expected = found + found.T, expected + expected.T
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# ---------------------------------------------------------------------------- matrices of a form


@pytest.mark.parametrize("name", ["hilbert", "invhilbert", "pascal", "invpascal", "helmert", "dft", "hadamard"])
def test_matrices_of_a_size(name):
    for size in (1, 2, 4, 8):
        expected = getattr(scipy.linalg, name)(size)
        np.testing.assert_allclose(np.asarray(getattr(spl, name)(size)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["lower", "upper"])
def test_kinds_of_pascal(kind):
    np.testing.assert_array_equal(np.asarray(spl.pascal(4, kind)), scipy.linalg.pascal(4, kind))
    np.testing.assert_array_equal(np.asarray(spl.invpascal(4, kind)), scipy.linalg.invpascal(4, kind))


def test_scales_and_fulness():
    for scale in ("sqrtn", "n"):
        np.testing.assert_allclose(np.asarray(spl.dft(3, scale)), scipy.linalg.dft(3, scale), atol=1e-12)
    np.testing.assert_allclose(np.asarray(spl.helmert(4, full=True)), scipy.linalg.helmert(4, full=True), atol=1e-12)
    assert spl.hadamard(2, dtype=jnp.float32).dtype == np.float32


# ---------------------------------------------------------------------------- functions that need more than a row


@pytest.mark.law
@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_solve(trans, dtype):
    rng = np.random.default_rng(0)
    a, b = general(rng, (), np.dtype(dtype)), matrix(rng, (), np.dtype(dtype), 4, 2)
    expected = scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b, trans)
    np.testing.assert_allclose(np.asarray(spl.lu_solve(spl.lu_factor(a), b, trans)), expected, rtol=1e-3, atol=1e-4)
    found = spl.lu_solve(spl.lu_factor(a), b[:, 0], trans)
    np.testing.assert_allclose(np.asarray(found), expected[:, 0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cho_solve(lower, dtype):
    rng = np.random.default_rng(0)
    a, b = hermitian(rng, (2,), np.dtype(dtype)), matrix(rng, (2,), np.dtype(dtype), 4, 2)
    found = spl.cho_solve(spl.cho_factor(a, lower=lower), b)
    np.testing.assert_allclose(np.asarray(found), np.linalg.solve(a, b), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("mode", ["left", "right"])
def test_qr_multiply(mode, dtype):
    rng = np.random.default_rng(0)
    a = matrix(rng, (), np.dtype(dtype), 5, 3)
    for pivoting in (False, True):
        for conjugate in (False, True):
            for c in (matrix(rng, (), np.dtype(dtype), *((3, 2) if mode == "left" else (2, 5))),):
                expected = scipy.linalg.qr_multiply(a, c, mode, pivoting, conjugate)
                found = spl.qr_multiply(a, c, mode, pivoting, conjugate)
                for f, e in zip(found, expected, strict=True):
                    np.testing.assert_allclose(np.asarray(f), e, rtol=1e-9, atol=1e-9)


def test_rsf2csf_of_blocks_beside_each_other():
    rng = np.random.default_rng(3)
    a = rng.standard_normal((6, 6))
    t, z = map(np.asarray, spl.rsf2csf(*spl.schur(a)))
    np.testing.assert_allclose(z @ t @ z.conj().T, a, atol=1e-10)
    np.testing.assert_allclose(np.tril(t, -1), 0, atol=1e-12)
    np.testing.assert_allclose(z.conj().T @ z, np.eye(6), atol=1e-10)


@pytest.mark.parametrize("function", [np.exp, np.sin, np.sqrt])
def test_funm(function):
    a = hermitian(np.random.default_rng(0), (), np.dtype("float64"))
    ours_ = getattr(jnp, function.__name__)
    np.testing.assert_allclose(np.asarray(spl.funm(a, ours_)), scipy.linalg.funm(a, function), atol=1e-9)
    assert float(spl.funm(a, ours_, disp=False)[1]) < 1e-10


def test_sqrtm_of_singular_matrices():
    np.testing.assert_array_equal(np.asarray(spl.sqrtm(jnp.zeros((2, 2)))), np.zeros((2, 2)))
    assert np.isnan(np.asarray(spl.sqrtm(jnp.array([[0.0, 1.0], [0.0, 0.0]])))).any()


def test_eigh_tridiagonal():
    rng = np.random.default_rng(1)
    d, e = rng.standard_normal(30), rng.standard_normal(29)
    turned = e * np.exp(1j * e)  # above the diagonal
    w, v = map(np.asarray, spl.eigh_tridiagonal(d.astype(complex), turned))
    np.testing.assert_allclose((v * w) @ H(v), np.diag(d) + np.diag(turned, 1) + np.diag(turned.conj(), -1), atol=1e-10)
    w, v = map(np.asarray, spl.eigh_tridiagonal(d, e))
    expected = scipy.linalg.eigh_tridiagonal(d, e)[0]
    np.testing.assert_allclose(w, expected, atol=1e-10)
    np.testing.assert_allclose((v * w) @ v.T, np.diag(d) + np.diag(e, 1) + np.diag(e, -1), atol=1e-10)
    some = spl.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(3, 7))
    np.testing.assert_allclose(np.asarray(some), expected[3:8], atol=1e-10)


@pytest.mark.law
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 0), (2, 4, 3)])
def test_qdwh(shape, dtype):
    x = matrix(np.random.default_rng(0), shape[:-2], np.dtype(dtype), *shape[-2:])
    u, h, _, converged = map(np.asarray, lax.linalg.qdwh(x))
    limit = 1e-4 if dtype in ("float32", "complex64") else 1e-11
    assert converged.all()
    np.testing.assert_allclose(u @ h, x, atol=limit)
    np.testing.assert_allclose(H(u) @ u, np.broadcast_to(np.eye(shape[-1]), h.shape), atol=limit)


@pytest.mark.law
@pytest.mark.parametrize("algorithm", ["DEFAULT", "QR", "POLAR", "DIVIDE_AND_CONQUER"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_algorithms_of_svd(shape, algorithm):
    x = matrix(np.random.default_rng(0), (), np.dtype("complex128"), *shape)
    x[:, -1] = x[:, 0]  # a singular value of zero among them
    for full in (False, True):
        u, s, vh = map(np.asarray, lax.linalg.svd(x, full_matrices=full, algorithm=lax.linalg.SvdAlgorithm[algorithm]))
        k = min(shape)
        np.testing.assert_allclose((u[:, :k] * s) @ vh[:k], x, atol=1e-10)
        np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), atol=1e-10)
        np.testing.assert_allclose(H(u) @ u, np.eye(u.shape[1]), atol=1e-10)


@pytest.mark.parametrize("columns", [0, 2])
def test_vectors_of_zero_singular_values_are_orthonormal_too(columns):
    x = np.zeros((4, 3))
    x[:, :columns] = np.random.default_rng(0).normal(size=(4, columns))
    u, _, _ = map(np.asarray, lax.linalg.svd(x, algorithm=lax.linalg.SvdAlgorithm.POLAR))
    np.testing.assert_allclose(u.T @ u, np.eye(4), atol=1e-10)


def test_subsets():
    a = hermitian(np.random.default_rng(0), (), np.dtype("float64"))
    v, w = lax.linalg.eigh(a, subset_by_index=(1, 3))
    np.testing.assert_allclose(np.asarray(w), [2.0, 3.0], atol=1e-10)
    assert v.shape == (4, 2)
    u, s, vh = lax.linalg.svd(a, full_matrices=False, subset_by_index=(0, 2))
    np.testing.assert_allclose(np.asarray(s), [4.0, 3.0], atol=1e-10)
    assert u.shape == (4, 2) and vh.shape == (2, 4)


def test_raw_qr_and_its_products():
    a = matrix(np.random.default_rng(0), (), np.dtype("float64"), 4, 3)
    h, taus = jnp.linalg.qr(a, mode="raw")
    q, r = jnp.linalg.qr(a, mode="complete")
    c = matrix(np.random.default_rng(1), (), np.dtype("float64"), 4, 2)
    np.testing.assert_allclose(lax.linalg.ormqr(h.T, taus, c), np.asarray(q) @ c, atol=1e-12)
    np.testing.assert_allclose(np.asarray(jnp.linalg.qr(a, mode="r")), np.asarray(r)[:3], atol=1e-12)


# ---------------------------------------------------------------------------- sizes of zero, integers, results


@pytest.mark.parametrize("name", ["cholesky", "inv", "eigvalsh", "det", "slogdet", "svdvals", "pinv", "eigh", "qr"])
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_sizes_of_zero(name, shape):
    x = np.zeros(shape)
    expected = getattr(np.linalg, name)(x)
    found = getattr(jnp.linalg, name)(x)
    check(leaves(found), list(expected) if isinstance(expected, tuple) else [expected], 1e-12)


def test_rectangles_without_rows():
    found = jnp.linalg.svd(np.zeros((0, 3)))
    assert [x.shape for x in found] == [(0, 0), (0,), (3, 3)]
    np.testing.assert_array_equal(np.asarray(found.Vh), np.eye(3))
    assert jnp.linalg.lstsq(np.zeros((0, 3)), np.zeros((0, 2)))[0].shape == (3, 2)
    assert jnp.linalg.solve(np.zeros((0, 0)), np.zeros((0, 2))).shape == (0, 2)


def test_integers_are_promoted():
    a = np.array([[2, 1], [1, 2]], np.int32)
    for name in ("inv", "cholesky", "det", "eigvalsh", "svdvals"):
        found = np.asarray(getattr(jnp.linalg, name)(a))
        assert found.dtype == np.float64 or found.dtype == np.float32
        np.testing.assert_allclose(found, getattr(np.linalg, name)(a), rtol=1e-5)


@pytest.mark.parametrize("name", ["cholesky", "eigh"])
def test_factors_of_integers_and_booleans(name):
    for a in (np.array([[2, 1], [1, 2]], np.uint8), np.eye(2, dtype=bool)):
        found, expected = (leaves(getattr(lax.linalg, name)(x)) for x in (a, a.astype(np.float32)))
        check(found, expected, 0)


# Functions of a square matrix and columns that take half precision.
NARROW = {
    "det": lambda a, b: jnp.linalg.det(a), "det of 3": lambda a, b: jnp.linalg.det(a[:3, :3]),
    "triangular_solve": lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
    "solve_triangular": lambda a, b: spl.solve_triangular(a, b, trans="C"),
    "cho_solve": lambda a, b: spl.cho_solve((a, True), b),
    "lu_solve": lambda a, b: spl.lu_solve((a, np.arange(4)), b),
    "schur": lambda a, b: spl.schur(a, output="complex")[0], "sqrtm": lambda a, b: spl.sqrtm(a),
    "rsf2csf": lambda a, b: spl.rsf2csf(jnp.triu(a), a)[1],
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NARROW)
def test_half_precision_is_computed_in_float32_and_rounded_once(name, dtype):
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(x, dtype) for x in (hermitian(rng, (), np.float32), matrix(rng, (), np.float32, 4, 2)))
    found, wide = NARROW[name](a, b), NARROW[name](a.astype(np.float32), b.astype(np.float32))
    assert found.dtype == (np.complex64 if wide.dtype == np.complex64 else a.dtype)
    check([found], [wide.astype(found.dtype)], 1e-6)


def test_the_companion_of_one_coefficient_is_empty():
    assert spl.fiedler_companion(np.ones(1)).shape == (0, 0)


def test_singular_and_infinite_matrices_are_the_same_by_numpy_and_compiled():
    x = np.array([[1.0, np.inf, 2], [2, 1, 1], [1, 1, -5]])
    calls = [lambda: jnp.linalg.inv(np.ones((3, 3))), lambda: jnp.linalg.cholesky(-np.eye(3)), lambda: jnp.linalg.qr(x),
             lambda: spl.hessenberg(x), lambda: spl.solve_triangular(x, np.eye(3), unit_diagonal=True)]  # fmt: skip
    for call in calls:
        check(leaves(under(NUMPY, call)), leaves(call()), 1e-6)


def test_results_have_names():
    a = np.eye(2)
    assert jnp.linalg.eigh(a)._fields == ("eigenvalues", "eigenvectors") == jnp.linalg.eig(a)._fields
    assert jnp.linalg.svd(a)._fields == ("U", "S", "Vh")
    assert jnp.linalg.qr(a)._fields == ("Q", "R")
    assert jnp.linalg.slogdet(a)._fields == ("sign", "logabsdet")


# ---------------------------------------------------------------------------- bad input


SQUARE = ["cholesky", "inv", "det", "slogdet", "eig", "eigvals", "eigh", "eigvalsh"]


@pytest.mark.parametrize("name", SQUARE)
def test_matrices_that_are_not_square(name):
    with pytest.raises(ShapeError, match="square"):
        getattr(jnp.linalg, name)(np.ones((2, 3)))


@pytest.mark.parametrize("name", [name for name in [*SQUARE, "qr", "svd", "pinv"] if name != "det"])
def test_types_that_no_library_factors(name):
    with pytest.raises(DtypeError, match="float32"):
        getattr(jnp.linalg, name)(jnp.ones((4, 4), jnp.bfloat16))


@pytest.mark.parametrize("call", [
    lambda: jnp.linalg.svd(np.ones(3)),
    lambda: jnp.linalg.solve(np.eye(2), np.ones(3)),
    lambda: jnp.linalg.solve(np.eye(2), 3.0),
    lambda: jnp.linalg.lstsq(np.eye(2), np.ones(3)),
    lambda: jnp.linalg.tensorinv(np.ones((2, 3))),
    lambda: jnp.linalg.matrix_power(np.ones((2, 3)), 2),
    lambda: spl.expm(np.ones((2, 3))),
    lambda: spl.solve_triangular(np.eye(2), np.ones(3)),
    lambda: spl.solve_sylvester(np.eye(2), np.eye(3), np.eye(2)),
    lambda: spl.eigh_tridiagonal(np.ones(3), np.ones(3)),
    lambda: spl.block_diag(np.ones((1, 1, 1))),
    lambda: spl.leslie(np.ones(2), np.ones(2)),
    lambda: spl.companion(np.ones(1)),
    lambda: lax.linalg.lu_pivots_to_permutation(np.zeros(3, np.int32), 2),
    lambda: lax.linalg.triangular_solve(np.eye(2), np.ones((3, 1)), left_side=True),
    lambda: lax.linalg.householder_product(np.ones((2, 3)), np.ones(2)),
    lambda: lax.linalg.qdwh(np.ones((2, 3))),
    lambda: lax.linalg.tridiagonal_solve(np.ones(2), np.ones(3), np.ones(3), np.ones((3, 1))),
])  # fmt: skip
def test_shapes_that_do_not_fit(call):
    with pytest.raises(ShapeError):
        call()


@pytest.mark.parametrize("call", [
    lambda: jnp.linalg.norm(np.eye(2), ord=5),
    lambda: jnp.linalg.norm(np.eye(2), ord="x"),
    lambda: jnp.linalg.eigh(np.eye(2), "X"),
    lambda: jnp.linalg.qr(np.eye(2), "x"),
    lambda: jnp.linalg.slogdet(np.eye(2), method="x"),
    lambda: jnp.linalg.pinv(np.eye(2), 0.1, rcond=0.1),
    lambda: lax.linalg.eigh(np.eye(2), subset_by_index=(1, 3)),
    lambda: spl.lu_solve(spl.lu_factor(np.eye(2)), np.ones(2), 3),
    lambda: spl.solve(np.eye(2), np.ones(2), assume_a="x"),
    lambda: spl.solve_triangular(np.eye(2), np.ones(2), trans="x"),
    lambda: spl.qr(np.eye(2), mode="raw"),
    lambda: spl.schur(np.eye(2), output="x"),
    lambda: spl.polar(np.eye(2), method="x"),
    lambda: spl.polar(np.eye(2), side="x"),
    lambda: spl.hadamard(3),
    lambda: spl.helmert(0),
    lambda: spl.dft(2, "x"),
    lambda: spl.pascal(2, "x"),
    lambda: spl.solve_sylvester(np.eye(2), np.eye(2), np.eye(2), method="x"),
])  # fmt: skip
def test_arguments_that_mean_nothing(call):
    with pytest.raises(ArgumentError):
        call()


@pytest.mark.parametrize("call", [
    lambda: lax.linalg.svd(np.eye(2), algorithm=lax.linalg.SvdAlgorithm.JACOBI),
    lambda: spl.sqrtm(np.eye(2), blocksize=2),
    lambda: spl.polar(np.ones((2, 3))),
    lambda: spl.eigh_tridiagonal(np.ones(3), np.ones(2), select="v", select_range=(0.0, 1.0)),
    lambda: tw.grad(lambda x: jnp.linalg.svd(x)[0].sum())(np.ones((3, 2))),
    lambda: tw.grad(lambda x: jnp.linalg.qr(x, "complete")[0].sum())(np.ones((3, 2))),
    lambda: tw.grad(lambda x: jnp.linalg.eig(x)[1].real.sum())(np.eye(2)),
])  # fmt: skip
def test_what_is_not_there_says_so(call):
    with pytest.raises(UnsupportedError):
        call()


@pytest.mark.parametrize("name", ["cholesky", "eigvalsh", "svdvals", "eigvals", "inv", "qr", "eigh", "svd", "eig"])
def test_nan_comes_out_where_nan_goes_in(name):
    x = np.stack([np.full((3, 3), np.nan), np.eye(3)])
    for out in leaves(getattr(jnp.linalg, name)(x)):
        assert np.isnan(np.asarray(out)[0]).any() and np.isfinite(np.asarray(out)[1]).all()


def test_what_has_no_factor_is_nan():
    x = np.stack([-np.eye(3), np.eye(3)])
    found = np.asarray(jnp.linalg.cholesky(x))
    assert np.isnan(found[0]).any() and (found[1] == np.eye(3)).all()
    assert not np.isfinite(np.asarray(jnp.linalg.inv(np.zeros((2, 2))))).any()
    assert jnp.linalg.slogdet(np.zeros((2, 2))) == (0.0, -np.inf)
    assert float(jnp.linalg.cond(np.ones((2, 2)), 1)) == np.inf
    assert np.isnan(np.asarray(spl.solve_sylvester(np.eye(2), -np.eye(2), np.eye(2)))).all()


# ---------------------------------------------------------------------------- derivatives where values repeat


def test_derivatives_of_repeated_values_are_finite():
    for f in (jnp.linalg.eigvalsh, jnp.linalg.svdvals, jnp.linalg.eigvals):
        gradient = np.asarray(tw.grad(lambda x, f=f: f(x).real.sum())(np.eye(3)))
        np.testing.assert_allclose(gradient, np.eye(3), atol=1e-12)


def test_derivatives_of_repeated_vectors_do_not_exist():
    assert np.isnan(np.asarray(tw.grad(lambda x: jnp.linalg.eigh(x)[1].sum())(np.eye(2)))).any()
    assert np.isnan(np.asarray(tw.grad(lambda x: jnp.linalg.svd(x)[0].sum())(np.eye(2)))).any()


def test_the_gradient_of_a_determinant_at_singular_matrices():
    for values in ([1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 0.0, 0.0], [0.0, 2.0, 3.0, 1.0]):
        q = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
        x = np.diag(values)
        expected = np.diag([np.prod(np.delete(values, i)) for i in range(4)])
        np.testing.assert_allclose(np.asarray(tw.grad(jnp.linalg.det)(x)), expected, atol=1e-12)
        assert np.isfinite(np.asarray(tw.grad(jnp.linalg.det)(q @ x @ q.T))).all()


def test_eigenvectors_have_derivatives_where_asked():
    a = np.diag([1.0, 2.0, 4.0]) + 0.1 * np.random.default_rng(0).standard_normal((3, 3))
    f = lambda x: lax.linalg.eig(x, enable_eigvec_derivs=True)  # noqa: E731
    change = np.random.default_rng(1).standard_normal((3, 3))
    tangents = tw.jvp(f, (a,), (change,))[1]
    h = 1e-6
    for t, above, below in zip(tangents, f(a + h * change), f(a - h * change), strict=True):
        np.testing.assert_allclose(np.asarray(t), (np.asarray(above) - np.asarray(below)) / (2 * h), atol=1e-7)


def test_one_factor_serves_a_solution_and_its_derivatives():
    """A gradient of `solve` makes one LU factorisation, one of the logarithm of a determinant too."""
    a = np.eye(3) * 2
    for f in (lambda x: jnp.linalg.solve(x, x[0]).sum(), lambda x: jnp.linalg.slogdet(x)[1]):
        text = tw.jit(tw.grad(f)).lower(a).compile().as_text()
        assert text.count('custom_call_target="lapack_dgetrf_ffi"') == 1


def test_values_alone_need_no_vectors():
    lowered = tw.jit(lambda x: jnp.linalg.eigh(x)[0]).lower(np.eye(3)).as_text()
    assert "mode = 78 : ui8" in lowered and "mode = 86 : ui8" not in lowered


# ---------------------------------------------------------------------------- random matrices


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_covariances_of_random_vectors(method):
    cov = hermitian(np.random.default_rng(0), (), np.dtype("float64"))
    x = np.asarray(tw.random.multivariate_normal(tw.random.key(0), np.zeros(4), cov, (20000,), method=method))
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.15)


@pytest.mark.parametrize("method", ["eigh", "svd"])
def test_covariances_may_be_singular(method):
    x = np.asarray(tw.random.multivariate_normal(tw.random.key(0), np.zeros(2), np.ones((2, 2)), (5,), method=method))
    np.testing.assert_allclose(x[:, 0], x[:, 1], atol=1e-6)


def test_random_vectors_by_an_unknown_method():
    with pytest.raises(ArgumentError, match="method"):
        tw.random.multivariate_normal(tw.random.key(0), np.zeros(2), np.eye(2), method="x")


@pytest.mark.parametrize("size", [(3, 5), (5, 3)])
def test_random_orthogonal_matrices(size):
    n, m = size
    q = np.asarray(tw.random.orthogonal(tw.random.key(0), n, (2,), jnp.float64, m))
    product = q @ H(q) if n < m else H(q) @ q
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12)


# ---------------------------------------------------------------------------- other targets


PROGRAMS = {
    "cholesky": jnp.linalg.cholesky, "inv": jnp.linalg.inv, "qr": jnp.linalg.qr, "eigh": jnp.linalg.eigh,
    "svd": jnp.linalg.svd, "slogdet": jnp.linalg.slogdet, "polar": spl.polar, "expm": spl.expm,
}  # fmt: skip


@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942", "tpu:v5e"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_printed_for_devices_that_are_not_here(name, target):
    if not target.startswith("tpu"):  # whose small factorisations are not kernels
        needs(target)
    with tw.config(enable_x64=False):
        text = str(tw.compile(PROGRAMS[name], jnp.ones((4, 4), jnp.float32), target=target, stop="module"))
    assert "lapack" not in text
    if target.startswith("tpu"):
        assert "cusolver" not in text
    elif name != "expm":
        assert ("cusolver_" if target.startswith("cuda") else "hipsolver_") in text or "triangular_solve" in text


@pytest.mark.targets
@pytest.mark.parametrize("target,module", [("cuda:sm_90", "jax_cuda13_plugin"), ("tpu:v5e", "libtpu")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compile_for_devices_that_are_not_here(name, target, module):
    pytest.importorskip(module)
    with tw.config(enable_x64=False):
        assert tw.compile(PROGRAMS[name], jnp.ones((32, 32), jnp.float32), target=target) is not None


def test_targets_say_what_they_lack():
    for target, function in (("tpu:v5e", jnp.linalg.eig), ("cuda:sm_90", spl.schur)):
        with pytest.raises(UnsupportedError, match="no routine"):
            with tw.config(enable_x64=False):
                tw.compile(function, jnp.ones((4, 4), jnp.float32), target=target, stop="module")


@pytest.mark.parametrize("x", [np.eye(3), np.ones(2), np.zeros((0, 2))])
def test_ranks_have_the_default_integer_type(x):
    for wide, dtype in ((True, np.int64), (False, np.int32)):
        with tw.config(enable_x64=wide):
            assert jnp.linalg.matrix_rank(x).dtype == dtype


@pytest.mark.parametrize("shape", [(100_000, 2), (2, 100_000)])
def test_the_derivative_of_a_long_pseudo_inverse_has_no_large_square(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    slope = tw.jit(lambda x: tw.jvp(jnp.linalg.pinv, (x,), (x,))[1])(x)  # (c A)^+ is A^+ / c
    np.testing.assert_allclose(slope, -np.linalg.pinv(x), atol=1e-6)


def test_equations_of_matrices_under_strict_promotion():
    a = np.diag([1.0, 2.0]).astype(np.float32)
    with tw.numpy_dtype_promotion("strict"):
        for method in ("schur", "eigen"):
            x = np.asarray(spl.solve_sylvester(a, a, a, method=method))
            np.testing.assert_allclose(a @ x + x @ a, a, atol=1e-6)
