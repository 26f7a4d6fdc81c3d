"""Operations of numpy, lax, nn, scipy and random, with the shapes of their operands; one text for both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Operand = tuple[tuple[int, ...], str]


class Operation(NamedTuple):
    """A name, a function of the library (under jax's names) and of the operands, and the operands' types."""

    name: str
    run: Callable[..., Any]
    operands: tuple[Operand, ...]


def _of(shapes: str) -> tuple[Operand, ...]:
    """`"64,64 64:int32"` as operands."""
    found = (part.partition(":") for part in shapes.split())
    return tuple((tuple(map(int, shape.split(","))), dtype or "float32") for shape, _, dtype in found)


def _conv(numbers: tuple[str, str, str], **options: Any) -> Callable[..., Any]:
    strides = (1,) * (len(numbers[0]) - 2)
    given = {"window_strides": strides, "padding": "SAME", "dimension_numbers": numbers} | options
    return lambda jax, x, w: jax.lax.conv_general_dilated(x, w, **given)


def _grad(f: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """The gradient of the sum of an operation's squares."""

    def run(jax: Any, *args: Any) -> Any:
        return jax.grad(lambda *args: (f(jax, *args) ** 2).sum(), argnums)(*args)

    return run


def _attention(jax: Any, q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v)


def _window(jax: Any, x: Any, monoid: str) -> Any:
    first, combine = {"max": (-float("inf"), jax.lax.max), "add": (0.0, jax.lax.add)}[monoid]
    return jax.lax.reduce_window(x, first, combine, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _pool(jax: Any, x: Any) -> Any:
    return _window(jax, x, "max")


def _average(jax: Any, x: Any) -> Any:
    return _window(jax, x, "add")


def _spd(jax: Any, x: Any) -> Any:
    return x @ x.mT + 8 * jax.numpy.eye(x.shape[-1])


def _layers(jax: Any, x: Any, w: Any) -> Any:
    return jax.lax.scan(lambda c, w: (jax.numpy.tanh(c @ w), c.sum()), x, w)[0]


def _norm(jax: Any, x: Any, scale: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale


def _xent(jax: Any, x: Any, labels: Any) -> Any:
    return -jax.numpy.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()


def _mlp(jax: Any, x: Any, w: Any, v: Any) -> Any:
    return jax.nn.gelu(x @ w) @ v


def _until(jax: Any, x: Any) -> Any:
    return jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + 1, jax.numpy.abs(x))


_N, _C, _W = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NWC", "WIO", "NWC")
_TABLE: dict[str, dict[str, Callable[..., Any]]] = {
    "64,64": {
        "sin": lambda jax, x: jax.numpy.sin(x),
        "sum rows": lambda jax, x: x.sum(1),
        "sum": lambda jax, x: x.sum(),
        "max": lambda jax, x: x.max(0),
        "prod": lambda jax, x: x.prod(0),
        "argmax": lambda jax, x: x.argmax(1),
        "argmin": lambda jax, x: x.argmin(0),
        "mean and variance": lambda jax, x: (x.mean(1), x.var(1)),
        "all": lambda jax, x: (x > 0).all(0),
        "logsumexp": lambda jax, x: jax.nn.logsumexp(x, 1),
        "softmax": lambda jax, x: jax.nn.softmax(x),
        "log_softmax": lambda jax, x: jax.nn.log_softmax(x, 0),
        "standardize": lambda jax, x: jax.nn.standardize(x),
        "cumsum": lambda jax, x: x.cumsum(0),
        "cumprod": lambda jax, x: jax.numpy.cumprod(x, 1),
        "cummax": lambda jax, x: jax.lax.cummax(x, 0, reverse=True),
        "cummin": lambda jax, x: jax.lax.cummin(x, 1),
        "cumlogsumexp": lambda jax, x: jax.lax.cumlogsumexp(x, 0),
        "gradient of cumsum": _grad(lambda jax, x: x.cumsum(0)),
        "gradient of cummax": _grad(lambda jax, x: jax.lax.cummax(x, 1)),
        "associative_scan": lambda jax, x: jax.lax.associative_scan(jax.lax.add, x, axis=1),
        "sort": lambda jax, x: jax.numpy.sort(x, 1),
        "argsort": lambda jax, x: jax.numpy.argsort(x, 0),
        "top_k": lambda jax, x: jax.lax.top_k(x, 4),
        "gradient of sort": _grad(lambda jax, x: jax.numpy.sort(x, 1)),
        "gradient of top_k": _grad(lambda jax, x: jax.lax.top_k(x, 4)[0]),
        "partition": lambda jax, x: jax.numpy.partition(x, 8, 1),
        "median": lambda jax, x: jax.numpy.median(x, 1),
        "quantile": lambda jax, x: jax.numpy.quantile(x, 0.3, axis=0),
        "searchsorted of rows": lambda jax, x: jax.vmap(jax.numpy.searchsorted)(jax.numpy.sort(x, 1), x),
        "roll": lambda jax, x: jax.numpy.roll(x, 3, 1),
        "flip": lambda jax, x: x[::-1],
        "strided slice": lambda jax, x: x[::2, 1:],
        "differences": lambda jax, x: jax.numpy.diff(x, axis=0),
        "pad": lambda jax, x: jax.numpy.pad(x, ((0, 8), (4, 4))),
        "pad by reflection": lambda jax, x: jax.numpy.pad(x, 4, mode="reflect"),
        "transpose": lambda jax, x: x.T,
        "reshape to one axis": lambda jax, x: x.reshape(-1),
        "reshape to four": lambda jax, x: x.reshape(8, 8, 8, 8).sum(1),
        "tile": lambda jax, x: jax.numpy.tile(x, (2, 1)),
        "repeat": lambda jax, x: jax.numpy.repeat(x, 2, 0),
        "tril": lambda jax, x: jax.numpy.tril(x),
        "diagonal": lambda jax, x: jax.numpy.diagonal(x),
        "trace": lambda jax, x: jax.numpy.trace(x),
        "rot90": lambda jax, x: jax.numpy.rot90(x),
        "split": lambda jax, x: jax.numpy.split(x, 4, 1),
        "covariance": lambda jax, x: jax.numpy.cov(x),
        "gram": lambda jax, x: x @ x.T,
        "fft": lambda jax, x: jax.numpy.fft.fft(x).real,
        "rfft and back": lambda jax, x: jax.numpy.fft.irfft(jax.numpy.fft.rfft(x)),
        "fft2": lambda jax, x: jax.numpy.fft.fft2(x).real,
        "histogram": lambda jax, x: jax.numpy.histogram(x, 8)[0],
        "digitize": lambda jax, x: jax.numpy.digitize(x, jax.numpy.linspace(-1.0, 1.0, 16)),
        "vmapped convolve": lambda jax, x: jax.vmap(lambda a: jax.numpy.convolve(a, a[:5]))(x),
        "vmapped interp": lambda jax, x: jax.vmap(lambda a: jax.numpy.interp(a, jax.numpy.arange(64.0), a))(x),
        "vmapped while": lambda jax, x: jax.vmap(lambda a: _until(jax, a))(x),
        "vmapped draws": lambda jax, x: jax.vmap(
            lambda s: jax.random.normal(jax.random.key(s), (4,)))(x[:, 0].astype(int)),
        "one_hot": lambda jax, x: jax.nn.one_hot(x[:, 0].astype(int), 64),
        "scan over rows": lambda jax, x: jax.lax.scan(lambda c, a: (c + a, c * a), jax.numpy.zeros(64), x),
        "gammaln": lambda jax, x: jax.scipy.special.gammaln(x),
        "lower bound of norm": lambda jax, x: jax.numpy.linalg.norm(x, axis=1),
        "unwrap": lambda jax, x: jax.numpy.unwrap(x),
        "gradient by differences": lambda jax, x: jax.numpy.gradient(x, axis=0),
        "nan mean": lambda jax, x: jax.numpy.nanmean(x, 0),
        "count of nonzeros": lambda jax, x: jax.numpy.count_nonzero(x, axis=1),
        "dropout": lambda jax, x: jax.numpy.where(jax.random.bernoulli(jax.random.key(0), 0.5, x.shape), x, 0),
        "trapezoid": lambda jax, x: jax.numpy.trapezoid(x, axis=1),
        "row slices": lambda jax, x: jax.lax.dynamic_slice(x, (3, 0), (8, 64)),
        "row update": lambda jax, x: x.at[3].set(1.0),
        "column update": lambda jax, x: x.at[:, 5].add(1.0),
    },
    "64,64 64:int32": {
        "take": lambda jax, x, i: jax.numpy.take(x, i, 0),
        "gradient of take": _grad(lambda jax, x, i: jax.numpy.take(x, i, 0)),
        "take_along_axis": lambda jax, x, i: jax.numpy.take_along_axis(x, i[:, None], 1),
        "gradient of take_along_axis": _grad(lambda jax, x, i: jax.numpy.take_along_axis(x, i[:, None], 1)),
        "at[i].add": lambda jax, x, i: x.at[i].add(1.0),
        "at[i].set": lambda jax, x, i: x.at[i].set(0.0),
        "at[arange, j].add": lambda jax, x, i: x.at[jax.numpy.arange(64), i].add(1.0),
        "at[arange, j].set": lambda jax, x, i: x.at[jax.numpy.arange(64), i].set(0.0),
        "x[arange, j]": lambda jax, x, i: x[jax.numpy.arange(64), i],
        "vmapped at[j].set": lambda jax, x, i: jax.vmap(lambda a, j: a.at[j].set(0.0))(x, i),
        "vmapped dynamic_slice": lambda jax, x, i: jax.vmap(
            lambda a, j: jax.lax.dynamic_slice(a, (j,), (4,)))(x, i),
        "vmapped dynamic_update_slice": lambda jax, x, i: jax.vmap(
            lambda a, j: jax.lax.dynamic_update_slice(a, jax.numpy.ones(1), (j,)))(x, i),
        "segment_sum": lambda jax, x, i: jax.ops.segment_sum(x, i, 32),
        "segment_max": lambda jax, x, i: jax.ops.segment_max(x, i, 32),
        "bincount": lambda jax, x, i: jax.numpy.bincount(i, x[:, 0], length=64),
        "cross entropy": _xent,
        "gradient of cross entropy": lambda jax, x, i: jax.grad(lambda x: _xent(jax, x, i))(x),
    },
    "64,64 64,64": {
        "matmul": lambda jax, x, y: x @ y,
        "gradients of matmul": _grad(lambda jax, x, y: x @ y, (0, 1)),
        "product of transposes": lambda jax, x, y: x.T @ y,
        "concatenate": lambda jax, x, y: jax.numpy.concatenate([x, y], 0),
        "stack": lambda jax, x, y: jax.numpy.stack([x, y], 1),
        "where": lambda jax, x, y: jax.numpy.where(x > y, x, y),
        "kron": lambda jax, x, y: jax.numpy.kron(x[:8], y[:, :8]),
        "outer sum": lambda jax, x, y: (x[:, None] + y[None]).sum(2),
        "sort by keys": lambda jax, x, y: jax.lax.sort_key_val(x, y),
        "lexsort": lambda jax, x, y: jax.numpy.lexsort((x, y)),
        "cosine of rows": lambda jax, x, y: (x * y).sum(1) / jax.numpy.linalg.norm(x, axis=1),
    },
    "64,64 64": {"layer norm": _norm, "gradients of layer norm": _grad(_norm, (0, 1)),
                 "matrix by vector": lambda jax, x, v: x @ v, "polyval": lambda jax, x, v: jax.numpy.polyval(v[:8], x),
                 "searchsorted": lambda jax, x, v: jax.numpy.searchsorted(jax.numpy.sort(v), x)},
    "64,64 64,128 128,64": {"mlp": _mlp, "gradients of mlp": _grad(_mlp, (0, 1, 2)),
                            "einsum of three": lambda jax, x, w, v: jax.numpy.einsum("ij,jk,kl->il", x, w, v)},
    "64,64 4,64,64": {"scan of layers": _layers, "gradients of scan of layers": _grad(_layers, (0, 1))},
    "16,8,8 16,8": {
        "batched matmul": lambda jax, a, b: a @ b[..., None],
        "solve": lambda jax, a, b: jax.numpy.linalg.solve(a, b[..., None]),
        "triangular solve": lambda jax, a, b: jax.scipy.linalg.solve_triangular(a, b[..., None], lower=True),
        "cholesky": lambda jax, a, b: jax.numpy.linalg.cholesky(_spd(jax, a)),
        "qr": lambda jax, a, b: jax.numpy.linalg.qr(a),
        "eigh": lambda jax, a, b: jax.numpy.linalg.eigh(_spd(jax, a))[0],
        "svd": lambda jax, a, b: jax.numpy.linalg.svd(a, compute_uv=False),
        "determinant": lambda jax, a, b: jax.numpy.linalg.det(a),
        "inverse": lambda jax, a, b: jax.numpy.linalg.inv(a),
    },
    "8,16,8,16 8,16,8,16 8,16,8,16": {"attention": _attention, "gradients of attention": _grad(_attention, (0, 1, 2))},
    "16,16,16,8 3,3,8,16": {
        "convolution": _conv(_N), "strided convolution": _conv(_N, window_strides=(2, 2)),
        "dilated convolution": _conv(_N, rhs_dilation=(2, 2)), "transposed convolution": _conv(_N, lhs_dilation=(2, 2)),
        "gradient by image": _grad(_conv(_N)), "gradient by filter": _grad(_conv(_N), 1),
    },
    "16,8,16,16 16,8,3,3": {"convolution of channels first": _conv(_C), "its gradients": _grad(_conv(_C), (0, 1))},
    "16,16,16,8 3,3,1,16": {"depthwise convolution": _conv(_N, feature_group_count=8),
                            "gradients of depthwise": _grad(_conv(_N, feature_group_count=8), (0, 1))},
    "16,16,16,16 3,3,8,16": {"grouped convolution": _conv(_N, feature_group_count=2)},
    "16,32,8 3,8,16": {"convolution of one axis": _conv(_W)},
    "16,16,16,8": {"max pool": _pool, "gradient of max pool": _grad(_pool), "average pool": _average,
                   "gradient of average pool": _grad(_average),
                   "resize": lambda jax, x: jax.image.resize(x, (16, 32, 32, 8), "bilinear")},
}  # fmt: skip

OPERATIONS = tuple(
    Operation(name, run, _of(shapes)) for shapes, group in _TABLE.items() for name, run in group.items()
)
