"""Layers of neural networks as pairs of functions, and `serial` and `parallel` to put them together.

    init(rng, input_shape) -> (output_shape, params)        apply(params, inputs, rng=None) -> outputs

An axis of a shape may be -1: of any size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import lax, nn, random
from .. import numpy as tnp
from ..core.api.transformations import ShapeDtypeStruct, eval_shape
from ..core.ir.array import Array, ArrayLike
from ..core.support.errors import ArgumentError
from ..nn.initializers import glorot_normal, normal, ones, zeros

if TYPE_CHECKING:
    from functools import partial

    from ..nn.initializers import Initializer


glorot: Callable[..., Initializer]
randn: Callable[..., Initializer]
glorot, randn = glorot_normal, normal
Layer = tuple[Callable[..., Any], Callable[..., Any]]


def Dense(out_dim: int, W_init: Any = glorot_normal(), b_init: Any = normal()) -> Layer:  # noqa: N802, B008
    """A product with a matrix, plus a bias.

    >>> init, apply = Dense(3)
    >>> shape, params = init(random.key(0), (-1, 2))
    >>> shape, apply(params, tnp.ones((4, 2))).shape
    ((-1, 3), (4, 3))
    """

    def init(rng: ArrayLike, input_shape: Sequence[int]) -> Any:
        first, second = random.split(rng)
        return (*input_shape[:-1], out_dim), (W_init(first, (input_shape[-1], out_dim)), b_init(second, (out_dim,)))

    def apply(params: Any, inputs: Array, **_: Any) -> Any:
        matrix, bias = params
        return tnp.dot(inputs, matrix) + bias

    return init, apply


def _filter(letters: str, window: Sequence[int], inputs: int, outputs: int) -> tuple[int, ...]:
    """The shape of a convolution's filter, whose axes have letters: O, I, and one for each axis of the window."""
    sizes = iter(window)
    return tuple(outputs if c == "O" else inputs if c == "I" else next(sizes) for c in letters)


def _convolution(dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int], strides: Any, padding: Any,
                 W_init: Any, b_init: Any, transposed: bool) -> Layer:  # fmt: skip
    lhs, rhs, out = dimension_numbers
    steps = tuple(strides or (1,) * len(filter_shape))
    W_init = W_init or glorot_normal(rhs.index("I"), rhs.index("O"))

    def convolve(x: Array, matrix: Any) -> Any:
        if transposed:
            return lax.conv_transpose(x, matrix, steps, padding, dimension_numbers=dimension_numbers)
        return lax.conv_general_dilated(x, matrix, steps, padding, dimension_numbers=dimension_numbers)

    def init(rng: ArrayLike, input_shape: Sequence[int]) -> Any:
        first, second = random.split(rng)
        matrix = W_init(first, _filter(rhs, filter_shape, input_shape[lhs.index("C")], out_chan))
        bias = b_init(second, tuple(out_chan if c == "C" else 1 for c in out))
        return _shape_of(convolve, input_shape, matrix), (matrix, bias)

    def apply(params: Any, inputs: Any, **_: Any) -> Any:
        matrix, bias = params
        return convolve(inputs, matrix) + bias

    return init, apply


def _shape_of(function: Callable[..., Any], input_shape: Sequence[int], *rest: Any) -> tuple[int, ...]:
    """The shape that a function of an array has; an axis of any size, which must lead, stays one."""
    given = tuple(1 if n == -1 else n for n in input_shape)
    found = eval_shape(function, ShapeDtypeStruct(given, tnp.float32), *rest).shape
    return tuple(-1 if k < len(input_shape) and input_shape[k] == -1 else n for k, n in enumerate(found))


def GeneralConv(dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int],  # noqa: N802
                strides: Any = None, padding: Any = "VALID", W_init: Any = None, b_init: Any = normal(1e-6)) -> Layer:  # noqa: B008
    """A convolution with a bias; `dimension_numbers` as of `lax.conv_general_dilated`.

    >>> init, apply = GeneralConv(("NHWC", "HWIO", "NHWC"), 8, (3, 3))
    >>> init(random.key(0), (-1, 6, 6, 1))[0]
    (-1, 4, 4, 8)
    """
    return _convolution(dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init, False)


def GeneralConvTranspose(dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int],  # noqa: N802
                         strides: Any = None, padding: Any = "VALID", W_init: Any = None,
                         b_init: Any = normal(1e-6)) -> Layer:  # noqa: B008
    """A transposed convolution with a bias.

    >>> init, apply = GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), 8, (3, 3), (2, 2), "SAME")
    >>> init(random.key(0), (-1, 6, 6, 1))[0]
    (-1, 12, 12, 8)
    """
    return _convolution(dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init, True)


Conv: partial[Layer] = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
ConvTranspose: partial[Layer] = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose: partial[Layer] = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def BatchNorm(axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,  # noqa: N802
              beta_init: Any = zeros, gamma_init: Any = ones) -> Layer:  # fmt: skip
    """Values with mean 0 and variance 1 along some axes of the batch, then scaled and moved by parameters.

    >>> init, apply = BatchNorm()
    >>> init(random.key(0), (-1, 4, 4, 8))[1][0].shape
    (8,)
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: ArrayLike, input_shape: Sequence[int]) -> Any:
        shape = tuple(n for k, n in enumerate(input_shape) if k not in axes)
        first, second = random.split(rng)
        beta = beta_init(first, shape) if center else ()
        return tuple(input_shape), (beta, gamma_init(second, shape) if scale else ())

    def apply(params: Any, x: Any, **_: Any) -> Any:
        beta, gamma = params
        place = tuple(None if k in axes else slice(None) for k in range(tnp.ndim(x)))
        z = nn.standardize(x, axes, epsilon=epsilon)
        z = gamma[place] * z if scale else z
        return z + beta[place] if center else z

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer without parameters that applies a function to its input.

    >>> init, apply = elementwise(tnp.tanh)
    >>> float(apply((), 0.0))
    0.0
    """
    return (lambda rng, input_shape: (input_shape, ())), (lambda params, inputs, **_: fun(inputs, **fun_kwargs))


Tanh: Layer
Relu: Layer
Exp: Layer
Softplus: Layer
Tanh, Relu, Exp, Softplus = elementwise(tnp.tanh), elementwise(nn.relu), elementwise(tnp.exp), elementwise(nn.softplus)
LogSoftmax: Layer
Softmax: Layer
LogSoftmax, Softmax = elementwise(nn.log_softmax, axis=-1), elementwise(nn.softmax, axis=-1)
Sigmoid: Layer
Elu: Layer
LeakyRelu: Layer
Sigmoid, Elu, LeakyRelu = elementwise(nn.sigmoid), elementwise(nn.elu), elementwise(nn.leaky_relu)
Selu: Layer
Gelu: Layer
Selu, Gelu = elementwise(nn.selu), elementwise(nn.gelu)


def _pooling(name: str, reducer: Any, start: float, mean: bool, doc: str) -> Callable[..., Layer]:
    def pool(window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID", spec: Any = None) -> Layer:
        order = spec or "N" + "HWD"[: len(window_shape)] + "C"
        axes = [k for k, c in enumerate(order) if c not in "NC"]

        def full(values: Sequence[int]) -> tuple[int, ...]:
            given = dict(zip(axes, values, strict=True))
            return tuple(given.get(k, 1) for k in range(len(order)))

        window, steps = full(window_shape), full(strides or (1,) * len(window_shape))

        def apply(params: Any, inputs: Array, **_: Any) -> Any:
            out = lax.reduce_window(inputs, start, reducer, window, steps, padding)
            if mean:
                out = out / lax.reduce_window(tnp.ones_like(inputs), 0.0, lax.add, window, steps, padding)
            return out

        return (lambda rng, input_shape: (_shape_of(lambda x: apply((), x), input_shape), ())), apply

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = f"""{doc}

    >>> init, apply = {name}((2, 2), (2, 2))
    >>> init(random.key(0), (-1, 6, 6, 1))[0]
    (-1, 3, 3, 1)
    """
    return pool


MaxPool: Callable[..., Layer] = _pooling("MaxPool", lax.max, -math.inf, False, "The largest value of each window.")
SumPool: Callable[..., Layer] = _pooling("SumPool", lax.add, 0.0, False, "The sum of each window.")
AvgPool: Callable[..., Layer]
AvgPool = _pooling("AvgPool", lax.add, 0.0, True, "The mean of each window, within the array's bounds.")


def _flat(rng: ArrayLike, input_shape: Sequence[int]) -> Any:
    return (input_shape[0], math.prod(input_shape[1:])), ()


Flatten: Layer = (_flat, lambda params, inputs, **_: tnp.reshape(inputs, (inputs.shape[0], -1)))
Identity: Layer = ((lambda rng, input_shape: (input_shape, ())), (lambda params, inputs, **_: inputs))


def FanOut(num: int) -> Layer:  # noqa: N802
    """The input `num` times, for the branches of a `parallel`.

    >>> FanOut(2)[1]((), 1.0)
    [1.0, 1.0]
    """
    return (lambda rng, input_shape: ([input_shape] * num, ())), (lambda params, inputs, **_: [inputs] * num)


FanInSum: Layer = ((lambda rng, shapes: (shapes[0], ())), (lambda params, inputs, **_: sum(inputs)))


def FanInConcat(axis: int = -1) -> Layer:  # noqa: N802
    """The inputs of several branches, one after the other along an axis.

    >>> FanInConcat()[1]((), [tnp.ones(2), tnp.ones(1)]).shape
    (3,)
    """

    def init(rng: ArrayLike, shapes: Sequence[Sequence[int]]) -> Any:
        place = axis % len(shapes[0])
        total = sum(shape[place] for shape in shapes)
        return (*shapes[0][:place], total, *shapes[0][place + 1 :]), ()

    return init, lambda params, inputs, **_: tnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:  # noqa: N802
    """In mode "train" values that are kept with probability `rate` and divided by it; else the input itself.

    `apply` raises `ArgumentError` where it needs a key and got none (`apply(params, inputs, rng=key)`).

    >>> float(Dropout(0.5, "test")[1]((), 1.0))
    1.0
    """

    def apply(params: Any, inputs: Any, rng: ArrayLike | None = None, **_: Any) -> Any:
        if mode != "train":
            return inputs
        if rng is None:
            raise ArgumentError("a Dropout layer in mode 'train' got no key", "call `apply(params, inputs, rng=key)`")
        return tnp.where(random.bernoulli(rng, rate, tnp.shape(inputs)), inputs / rate, 0)

    return (lambda rng, input_shape: (input_shape, ())), apply


def _apart(rng: Any, count: int) -> Any:
    return [None] * count if rng is None else random.split(rng, count)


def serial(*layers: Layer) -> Layer:
    """Layers one after the other.

    >>> init, apply = serial(Dense(4), Relu, Dense(2))
    >>> shape, params = init(random.key(0), (-1, 3))
    >>> shape, len(params)
    ((-1, 2), 3)
    """

    def init(rng: ArrayLike, input_shape: Any) -> Any:
        params = []
        for start, _ in layers:
            rng, own = random.split(rng)
            input_shape, made = start(own, input_shape)
            params.append(made)
        return input_shape, params

    def apply(params: Any, inputs: Any, rng: ArrayLike | None = None, **rest: Any) -> Any:
        for (_, run), own, key in zip(layers, params, _apart(rng, len(layers)), strict=True):
            inputs = run(own, inputs, rng=key, **rest)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Layers beside each other: of a list of inputs a list of outputs.

    >>> init, apply = serial(FanOut(2), parallel(Dense(4), Identity), FanInConcat())
    >>> init(random.key(0), (-1, 3))[0]
    (-1, 7)
    """

    def init(rng: ArrayLike, input_shapes: Sequence[Any]) -> Any:
        keys = random.split(rng, len(layers))
        found = [start(key, shape) for (start, _), key, shape in zip(layers, keys, input_shapes, strict=True)]
        return [shape for shape, _ in found], [params for _, params in found]

    def apply(params: Any, inputs: Any, rng: Any = None, **rest: Any) -> Any:
        given = zip(layers, params, inputs, _apart(rng, len(layers)), strict=True)
        return [run(own, x, rng=key, **rest) for (_, run), own, x, key in given]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that is made of its input's shape.

    >>> init, apply = shape_dependent(lambda shape: Dense(shape[-1]))
    >>> init(random.key(0), (-1, 3))[0]
    (-1, 3)
    """

    def init(rng: ArrayLike, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply(params: Any, inputs: Any, **rest: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **rest)

    return init, apply


__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp", "FanInConcat",
    "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity", "LeakyRelu",
    "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise",
    "glorot", "parallel", "randn", "serial", "shape_dependent",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
