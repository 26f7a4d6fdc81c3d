"""Images of another size, under the names of `jax.image`.

Along each axis the result is a product with a matrix of weights: an interpolation kernel, widened when the image
shrinks (so that nothing aliases), at the distances between the sample's position and the pixels, each sample's weights
divided by their sum. Positions are those of pixels' middles: sample i of n lies at (i + 1/2) * m / n - 1/2 of m pixels.

Sources: Keys, "Cubic convolution interpolation for digital image processing" (1981), for the cubic kernel; Duchon,
"Lanczos filtering in one and two dimensions" (1979).
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import lax
from .core.ir.array import Array, DTypeLike
from .core.primitives.contraction.dot_algorithms import PrecisionLike
from .core.support.call_errors import public
from .core.support.errors import ArgumentError, ShapeError
from .numpy import abs as absolute
from .numpy import arange, clip, floor, maximum, pi, sin, take, where
from .numpy import sum as total
from .numpy.util import ArrayLike, astype, dtype_of, inline_jit, promote_dtypes_inexact, shape_of, value


class ResizeMethod(enum.Enum):
    """How an image is sampled."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """A method by any of its names."""
        if s not in _NAMES:
            raise ArgumentError(f"there is no way to resize an image named {s!r}", f"one of {sorted(_NAMES)}")
        return _NAMES[s]


_NAMES = {
    **dict.fromkeys(("nearest",), ResizeMethod.NEAREST),
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    **dict.fromkeys(("lanczos3",), ResizeMethod.LANCZOS3),
    **dict.fromkeys(("lanczos5",), ResizeMethod.LANCZOS5),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    **dict.fromkeys(("area",), ResizeMethod.AREA),
}


def _triangle(x: Any) -> Any:
    return maximum(0.0, 1.0 - x)


def _cubic(a: float) -> Callable[[Any], Any]:
    """Keys' kernel of distances: (a+2)x^3 - (a+3)x^2 + 1 up to 1, a x^3 - 5a x^2 + 8a x - 4a up to 2."""

    def kernel(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1.0
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return where(x >= 2.0, 0.0, where(x >= 1.0, far, near))

    return kernel


def _lanczos(radius: float) -> Callable[[Any], Any]:
    """sinc(x) sinc(x / radius) up to the radius."""

    def kernel(x: Any) -> Any:
        y = radius * sin(pi * x) * sin(pi * x / radius)
        safe = where(x > 1e-3, x, 1.0)
        inside = where(x > 1e-3, y / (pi**2 * safe**2), 1.0)
        return where(x > radius, 0.0, inside)

    return kernel


@dataclass(frozen=True)
class _Sampling:
    """A kernel of distances in pixels, whether it is widened on shrinking, and how far edges go on past the image."""

    kernel: Callable[[Any], Any]
    widened: bool
    past: float = 0.0


def _sampling(method: ResizeMethod, antialias: bool) -> _Sampling:
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return _Sampling(_cubic(-0.75), False, past=3.5)
    kernels = {
        ResizeMethod.LINEAR: _triangle,
        ResizeMethod.LANCZOS3: _lanczos(3.0),
        ResizeMethod.LANCZOS5: _lanczos(5.0),
        ResizeMethod.CUBIC: _cubic(-0.5),
        ResizeMethod.CUBIC_PYTORCH: _cubic(-0.5),
    }
    return _Sampling(kernels[method], antialias)


def _weights(size: int, out: int, scale: Any, translation: Any, sampling: _Sampling, dtype: DTypeLike) -> Any:
    """The weights (size, out) of the pixels for each sample."""
    step = 1.0 / scale
    at = (arange(out, dtype=dtype) + 0.5) * step - translation * step - 0.5
    width = maximum(step, 1.0) if sampling.widened else 1.0
    if sampling.past:
        first = floor(at)
        taps = arange(-1.0, 3.0, dtype=dtype)[:, None] + first[None]
        found = sampling.kernel(absolute(at[None] - taps))
        onto = clip(taps, 0, size - 1)[None] == arange(size, dtype=dtype)[:, None, None]
        weights = total(where(onto, found[None], 0.0), 1)
    else:
        weights = sampling.kernel(absolute(at[None, :] - arange(size, dtype=dtype)[:, None]) / width)
    whole = total(weights, 0, keepdims=True)
    enough = absolute(whole) > 1000.0 * float(np.finfo(np.float32).eps)
    weights = where(enough, weights / where(enough, whole, 1.0), 0.0)
    inside = (at >= -0.5 - sampling.past) & (at <= size - 0.5 + sampling.past)
    return astype(where(inside[None, :], weights, 0.0), dtype)


def _areas(size: int, out: int, dtype: DTypeLike) -> Any:
    """The share of each pixel (size, out) in the stretch of each sample."""
    edges = np.arange(out + 1) * (size / max(out, 1))
    pixels = np.arange(size)[:, None]
    share = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    return astype(np.maximum(share, 0.0) * (out / size), dtype)


def _applied(image: Array, axis: int, weights: Any, precision: PrecisionLike) -> Any:
    numbers = (((axis,), (0,)), ((), ()))
    out = lax.dot_general(image, weights, numbers, precision, preferred_element_type=dtype_of(image))
    rank = len(shape_of(out))
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return lax.transpose(out, order)


def _work_dtype(dtype: Any) -> Any:
    return np.dtype(np.float32) if dtype.itemsize < 4 else np.zeros((), dtype).real.dtype


def _method(method: Any) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def _out_shape(name: str, image: Any, shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(map(operator.index, shape))
    if len(sizes) != len(shape_of(image)) or any(n < 0 for n in sizes):
        raise ShapeError(f"{name} of an image of shape {shape_of(image)} to {sizes}", "give one size for each axis")
    for old, new in zip(shape_of(image), sizes, strict=True):
        if new and not old:
            raise ShapeError(f"{name} of an image of shape {shape_of(image)} to {sizes}", "an empty axis stays empty")
    return sizes


@inline_jit("shape", "method", "antialias", "precision")
def _resize(image: Any, shape: tuple[int, ...], method: ResizeMethod, antialias: bool, precision: PrecisionLike) -> Any:
    old = shape_of(image)
    axes = [axis for axis, (m, n) in enumerate(zip(old, shape, strict=True)) if m != n]
    if method is ResizeMethod.NEAREST:
        for axis in axes:
            m, n = old[axis], shape[axis]
            image = take(image, (2 * np.arange(n) + 1) * m // (2 * n), axis=axis)
        return image
    (image,) = promote_dtypes_inexact(image)
    work = _work_dtype(dtype_of(image))
    for axis in axes:
        m, n = old[axis], shape[axis]
        if method is ResizeMethod.AREA:
            weights = _areas(m, n, work)
        else:
            scale = np.asarray(max(n, 1) / m, work)
            weights = _weights(m, n, scale, 0.0, _sampling(method, antialias), work)
        image = _applied(image, axis, astype(weights, dtype_of(image)), precision)
    return image


@public
def resize(
    image: ArrayLike, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
    precision: PrecisionLike = lax.Precision.HIGHEST,
) -> Array:  # fmt: skip
    """An image of any rank resized to `shape`, which names all axes; those of equal size are left alone.

    `method` is "nearest", "linear", "cubic", "cubic-pytorch" (which without `antialias` does as PyTorch), "lanczos3",
    "lanczos5" or "area", or a `ResizeMethod`. With `antialias` the kernel is widened along axes that shrink. The result
    is floating, of the image's dtype where that is; "nearest" keeps any dtype. `precision` is that of the products.

    Raises `ShapeError` where the ranks differ and `ArgumentError` for an unknown method.

    >>> from tilewright import numpy as tnp
    >>> resize(tnp.array([1.0, 3.0]), (4,), "linear")
    Array([1. , 1.5, 2.5, 3. ], dtype=float32)
    """
    image = value(image, "resize")
    return _resize(image, _out_shape("resize", image, shape), _method(method), bool(antialias), precision)


@inline_jit("shape", "spatial_dims", "method", "antialias", "precision")
def _moved(
    image: Any, scale: Any, translation: Any, shape: tuple[int, ...], spatial_dims: tuple[int, ...],
    method: ResizeMethod, antialias: bool, precision: PrecisionLike,
) -> Any:  # fmt: skip
    (image,), (scale, translation) = promote_dtypes_inexact(image), promote_dtypes_inexact(scale, translation)
    sampling, work = _sampling(method, antialias), _work_dtype(dtype_of(image))
    scale, translation = astype(scale, work), astype(translation, work)
    for i, axis in enumerate(spatial_dims):
        weights = _weights(shape_of(image)[axis], shape[axis], scale[i], translation[i], sampling, work)
        image = _applied(image, axis, astype(weights, dtype_of(image)), precision)
    return image


@public
def scale_and_translate(
    image: ArrayLike, shape: Sequence[int], spatial_dims: Sequence[int], scale: ArrayLike, translation: ArrayLike,
    method: str | ResizeMethod, antialias: bool = True, precision: PrecisionLike = lax.Precision.HIGHEST,
) -> Array:  # fmt: skip
    """An image stretched and moved: x along axis `spatial_dims[i]` goes to `x * scale[i] + translation[i]`.

    Positions are those of pixels' middles, half a pixel from their edges; samples that lie outside of the image are 0.
    `scale` and `translation`, of one element for each of the axes, may be traced and have derivatives. `shape` names
    all axes. The methods are those of `resize` but "nearest" and "area"; the rest and the errors as there.

    >>> from tilewright import numpy as tnp
    >>> scale_and_translate(tnp.array([1.0, 3.0]), (3,), (0,), tnp.ones(1), tnp.ones(1), "linear")
    Array([0., 1., 3.], dtype=float32)
    """
    image, scale, translation = (value(x, "scale_and_translate") for x in (image, scale, translation))
    sizes, found = _out_shape("scale_and_translate", image, shape), _method(method)
    if found in (ResizeMethod.NEAREST, ResizeMethod.AREA):
        raise ArgumentError(f"scale_and_translate has no method {found.name}", "use 'linear', 'cubic' or 'lanczos3'")
    rank = len(sizes)
    axes = tuple(operator.index(axis) for axis in spatial_dims)
    if any(not -rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) != len(axes):
        raise ArgumentError(f"spatial_dims are {axes}, the image has {rank} axes", "name each axis once")
    if shape_of(scale) != (len(axes),) or shape_of(translation) != (len(axes),):
        raise ShapeError(
            f"scale has shape {shape_of(scale)} and translation {shape_of(translation)}, for {len(axes)} axes",
            "give a vector of one element for each of `spatial_dims`",
        )
    axes = tuple(axis % rank for axis in axes)
    for axis in set(range(rank)) - set(axes):
        if sizes[axis] != shape_of(image)[axis]:
            raise ShapeError(f"axis {axis} changes its size, and is not in spatial_dims {axes}", "name it there")
    return _moved(image, scale, translation, sizes, axes, found, bool(antialias), precision)


__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
__dir__: Callable[[], list[str]] = __all__.copy
