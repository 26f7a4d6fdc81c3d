"""What functions say to operands that have no answer: an error by name, or the value of NumPy, SciPy and LAPACK."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax, nn, ops, random
from tilewright import numpy as tnp
from tilewright.core.support import errors
from tilewright.experimental import sparse
from tilewright.numpy import fft, linalg
from tilewright.scipy import linalg as slinalg
from tilewright.scipy import signal, special, stats
from tilewright.scipy.sparse import linalg as sparse_linalg

NAN, INF = np.nan, np.inf
F = np.float32
ZEROS, ONES, EYE = np.zeros((2, 2), F), np.ones((2, 2), F), np.eye(2, dtype=F)
BROKEN = np.array([[1, NAN], [2, 3]], F)
TALL, CUBE, NONE = np.ones((3, 2), F), np.ones((2, 3, 4), F), np.zeros((0, 0), F)
DATA, IDS = np.arange(4, dtype=F), np.array([0, 5, -1, 1], np.int32)

REFUSED = {  # name: the call, and the error
    "inverse of a tall matrix": (lambda: linalg.inv(TALL), errors.ShapeError),
    "determinant of a vector": (lambda: linalg.det(DATA), errors.ShapeError),
    "eigenvalues of a tall matrix": (lambda: linalg.eigvalsh(TALL), errors.ShapeError),
    "solution of sizes that do not fit": (lambda: linalg.solve(EYE, np.ones(3, F)), errors.ShapeError),
    "power of a tall matrix": (lambda: linalg.matrix_power(TALL, 2), errors.ShapeError),
    "no such norm of a matrix": (lambda: linalg.norm(ONES, "max"), errors.ArgumentError),
    "no such norm of a vector": (lambda: linalg.norm(DATA, "fro"), errors.ArgumentError),
    "norm along three axes": (lambda: linalg.norm(CUBE, axis=(0, 1, 2)), errors.ArgumentError),
    "norm along one axis twice": (lambda: linalg.norm(CUBE, axis=(1, 1)), errors.AxisError),
    "expm of a tall matrix": (lambda: slinalg.expm(TALL), errors.ShapeError),
    "no such mode of qr": (lambda: linalg.qr(ONES, "thin"), errors.ArgumentError),
    "transform along no such axis": (lambda: fft.fft(DATA, axis=2), errors.AxisError),
    "transform to no points": (lambda: fft.fft(DATA, 0), errors.ArgumentError),
    "no such norm of a transform": (lambda: fft.fft(DATA, norm="half"), errors.ArgumentError),
    "real transform of complex numbers": (lambda: fft.rfft(DATA + 1j), errors.DtypeError),
    "sum along no such axis": (lambda: tnp.sum(DATA, axis=1), errors.AxisError),
    "counts that are a number": (lambda: stats.multinomial.pmf(1, 1, DATA), errors.ShapeError),
    "argmax of nothing": (lambda: tnp.argmax(NONE), errors.ArgumentError),
    "maximum of nothing": (lambda: tnp.max(NONE), errors.ArgumentError),
    "a negative size": (lambda: tnp.broadcast_shapes((2, 1), (-3,)), errors.ShapeError),
    "a shape that is text": (lambda: tnp.broadcast_shapes((3,), "abc"), errors.ArgumentTypeError),
    "a size of 1.5": (lambda: tnp.broadcast_shapes((1.5,)), errors.ArgumentTypeError),
    "a mask of another size": (lambda: tnp.place(DATA, ONES[:1], 1, inplace=False), errors.ShapeError),
    "fewer axes than a term names": (lambda: tnp.einsum("...ij,jk->...ik", DATA, ONES), errors.ArgumentError),
    "segment ids of another length": (lambda: ops.segment_sum(DATA, IDS[:2], 3), errors.ShapeError),
    "more than there are of the largest": (lambda: lax.top_k(DATA, 9), errors.ShapeError),
    "bits of a float dtype": (lambda: random.bits(random.key(0), (2,), "float32"), errors.DtypeError),
    "a sample without replacement of too many": (
        lambda: random.choice(random.key(0), 3, (5,), replace=False), errors.ArgumentError),
    "segments longer than their overlap": (lambda: signal.welch(DATA, nperseg=2, noverlap=3), errors.ArgumentError),
    "error function of complex numbers": (lambda: special.erf(DATA + 1j), errors.DtypeError),
    "sparse product of sizes that do not fit": (lambda: sparse.eye(3) @ ONES, errors.ShapeError),
    # What Python or NumPy would raise of an argument.
    "a tuple for a number": (lambda: tnp.diff(DATA, n=(1, 1)), errors.ArgumentTypeError),
    "a list for an option": (lambda: fft.fft(DATA, norm=["ortho"]), errors.ArgumentError),
    "a misspelt keyword": (lambda: linalg.svd(ONES, full_matrix=False), errors.ArgumentTypeError),
    "too few arguments": (lambda: linalg.solve(ONES), errors.ArgumentTypeError),
    "a float for a number of segments": (lambda: ops.segment_sum(DATA, IDS, 2.5), errors.ArgumentTypeError),
    "an array for a flag": (lambda: ops.segment_sum(DATA, IDS, 2, ONES > 0), errors.ArgumentError),
    "a text for a size": (lambda: fft.fftfreq("a"), errors.ArgumentTypeError),
    "a negative number of frequencies": (lambda: fft.rfftfreq(-2), errors.ArgumentError),
    "vectors without the axis": (lambda: linalg.cross(DATA[:3], DATA[:3], axis=4), errors.ArgumentError),
    "no option of a spectrum": (lambda: signal.welch(DATA, nperseg="all"), errors.ArgumentTypeError),
    "a text for an axis of lax": (lambda: lax.collapse(DATA, "a"), errors.ArgumentTypeError),
    "no dimension numbers": (lambda: lax.scatter_add(DATA, IDS[:1], DATA[:1], None), errors.ArgumentTypeError),
    "a permutation of fewer axes": (lambda: lax.transpose(CUBE, (0, 1)), errors.ShapeError),
    "a transform of -1 points": (lambda: fft.fft(DATA, -1), errors.ArgumentError),
    "a dtype with axes": (lambda: tnp.zeros(2, ("f4", 2)), errors.DtypeError),
    "a dtype of texts": (lambda: lax.iota("S3", 2), errors.DtypeError),
    "a diagonal at no place": (lambda: tnp.diagonal(ONES, NAN), errors.ArgumentTypeError),
    "no first signal": (lambda: signal.csd(None, DATA), errors.NonArrayArgumentError),
    "a mask of numbers": (
        lambda: nn.dot_product_attention(*[np.ones((1, 2, 1, 4), F)] * 3, mask=np.ones((2, 2), F)), errors.DtypeError),
    "no sharding": (lambda: nn.initializers.zeros(None, (2,), out_sharding="rows"), errors.ArgumentTypeError),
    "no way of rounding": (lambda: lax.round(DATA, "up"), errors.ArgumentError),
    "no axis of a choice": (lambda: random.choice(random.key(0), ONES, axis="rows"), errors.ArgumentTypeError),
    "random numbers of objects": (lambda: random.rademacher(random.key(0), (2,), object), errors.DtypeError),
    "a matrix of half a size": (lambda: slinalg.hilbert(2.5), errors.ArgumentTypeError),
    "factors of a solver as one matrix": (lambda: slinalg.cho_solve(CUBE, DATA), errors.ArgumentError),
    "a ufunc of one argument too many": (lambda: tnp.add(DATA, DATA, DATA), errors.ArgumentTypeError),
    "a key for a truth value": (lambda: tnp.logical_not(random.key(0)), errors.DtypeError),
    "half a bin": (lambda: tnp.histogram(DATA, bins=2.5), errors.ArgumentTypeError),
    "half a length": (lambda: tnp.bincount(IDS[3:], length=2.5), errors.ArgumentTypeError),
    "half a size": (lambda: tnp.zeros((2, 1.5)), errors.ArgumentTypeError),
    "half a repeat along an axis": (lambda: tnp.repeat(ONES, 2, axis=0.5), errors.ArgumentTypeError),
    "an integer of 81 bits": (lambda: tnp.add(DATA, 2**80), errors.IntegerOverflowError),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_by_name(name):
    call, kind = REFUSED[name]
    with pytest.raises(kind, match="test_bad_input(.|\n)*remedy: ") as caught:
        call()
    if kind is not errors.IntegerOverflowError:  # both, as users of either expect
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, TypeError)


def test_what_code_of_the_users_raises_is_left_as_it_is():
    def product(x):
        return {}["no such entry"]

    with pytest.raises(KeyError) as caught:
        sparse_linalg.cg(product, DATA)
    assert type(caught.value) is KeyError


GIVEN = {  # name: the call, and its value
    "inverse of a singular matrix": (lambda: tnp.isfinite(linalg.inv(ZEROS)).sum(), 0),
    "determinant of a singular matrix": (lambda: linalg.det(ONES), 0),
    "slogdet of zeros": (lambda: linalg.slogdet(ZEROS)[1], -INF),
    "rank of zeros": (lambda: linalg.matrix_rank(ZEROS), 0),
    "pinv of zeros": (lambda: linalg.pinv(ZEROS), ZEROS),
    "cholesky of what is not positive": (lambda: linalg.cholesky(-EYE), [[NAN, 0], [NAN, NAN]]),
    "cholesky of NaN": (lambda: linalg.cholesky(np.full((2, 2), NAN, F)), [[NAN, 0], [NAN, NAN]]),
    "singular values of NaN": (lambda: linalg.svdvals(BROKEN), [NAN, NAN]),
    "eigenvalues of NaN": (lambda: linalg.eigvals(BROKEN).real, [NAN, NAN]),
    "eigvalsh of NaN": (lambda: linalg.eigvalsh(BROKEN), [NAN, NAN]),
    "determinant of NaN": (lambda: linalg.det(BROKEN), NAN),
    "determinant of nothing": (lambda: linalg.det(NONE), 1),
    "inverse of nothing": (lambda: linalg.inv(NONE), NONE),
    "singular values of nothing": (lambda: linalg.svdvals(np.zeros((0, 3), F)), np.zeros(0)),
    "eigenvalues of nothing": (lambda: linalg.eigvalsh(NONE), np.zeros(0)),
    "norm of nothing": (lambda: linalg.norm(np.zeros(0, F)), 0),
    "inverse of integers": (lambda: linalg.inv(np.array([[2, 0], [0, 4]])), [[0.5, 0], [0, 0.25]]),
    "sum of nothing": (lambda: tnp.sum(NONE), 0),
    "segment ids out of range": (lambda: ops.segment_sum(DATA, IDS, 2), [0, 3]),
    "segments without elements": (lambda: ops.segment_max(DATA[:1], IDS[:1], 2), [0, -INF]),
    "sparse indices out of range": (
        lambda: sparse.BCOO((DATA[:2] + 1, np.array([[0], [7]])), shape=(2,)).todense(), [1, 0]),
    "sparse indices twice": (lambda: sparse.BCOO((DATA[:2] + 1, np.array([[1], [1]])), shape=(2,)).todense(), [0, 3]),
    "density for no such scale": (lambda: stats.norm.pdf(0.0, scale=-1.0), NAN),
    "density outside": (lambda: stats.expon.logpdf(-1.0), -INF),
    "binomial of a probability past 1": (lambda: stats.binom.pmf(1, 2, 1.5), NAN),
    "logarithm of what is negative": (lambda: tnp.log(F(-1)), NAN),
    "power spectrum of nothing": (lambda: signal.welch(np.zeros(0, F))[1], np.zeros(0, F)),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_a_value_as_of_numpy(name):
    call, wanted = GIVEN[name]
    found = np.asarray(call())
    assert found.dtype.kind in "fi"
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_bad_input_within_jit_is_named_at_its_line():
    with pytest.raises(tw.errors.ShapeError, match="test_bad_input"):
        tw.jit(lambda x: linalg.inv(x))(TALL)


def test_a_number_has_no_axis_to_name():
    with pytest.raises(errors.AxisError, match="give an array that has axes"):
        tnp.sum(tnp.float32(1), axis=-1)
