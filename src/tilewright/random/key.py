"""Keys, and what the samplers share: checks of keys, shapes and dtypes.

A key is a scalar of an opaque dtype (`key`), or in the older form a uint32 array of two words
(`PRNGKey`), which every function takes too and which `split` and `fold_in` give back in kind. Values are
those of JAX's generators; of the default one, threefry2x32, with `jax_threefry_partitionable` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..core.ir.array import Array, ArrayLike, DTypeLike
from ..core.ir.types import UINT32, as_dtype, as_size, canonical_dtype, is_float, is_integer, is_key, kind
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.keys.threefry import random_clone_p, random_unwrap_p, random_wrap_p
from ..core.primitives.movement.shape import as_shape, broadcast_shapes, index_in_dim
from ..core.support.call_errors import public
from ..core.support.config import current
from ..core.support.errors import ArgumentError, ArgumentTypeError, DtypeError, IntegerOverflowError, ShapeError
from ..core.tracing.array_conversion import as_array
from ..core.tracing.trace import shape_of, typeof
from .generators import generator, generator_name, generator_of, seeded

Shape = Sequence[int]


# ---------------------------------------------------------------------------- checks shared by the samplers


def typed_key(name: str, key: ArrayLike, batched: bool = False) -> tuple[Any, bool]:
    """A key in its opaque form, and whether it came as raw words."""
    try:
        type_ = typeof(key)
    except TypeError:
        raise ArgumentTypeError(f"{name}: {key!r} is not a random key", "make one with `random.key(seed)`") from None
    raw = not is_key(type_.dtype)
    if raw:
        dtype = generator_of(None).dtype
        if type_.dtype != UINT32 or not type_.shape or type_.shape[-1] != dtype.words:
            raise ArgumentTypeError(
                f"{name} takes a random key, got {type_.show()}",
                "make one with `random.key(seed)`; raw words are of the generator that `default_prng_impl` names",
            )
        key = random_wrap_p.bind(key, impl=dtype)
    if not batched and shape_of(key):
        raise ShapeError(
            f"{name} takes one key, got an array of keys of shape {shape_of(key)}", "use `vmap` over the keys"
        )
    return key, raw


def one_key(name: str, key: ArrayLike) -> Any:
    """The key of a sampler, checked."""
    return typed_key(name, key)[0]


def float_dtype(name: str, dtype: DTypeLike, complex_too: bool = False) -> Any:
    """The dtype to sample in: a float one, by default the widest that this configuration has."""
    found = canonical_dtype(float if dtype is None else as_dtype(dtype))
    if not (is_float(found) or (complex_too and kind(found) == "complex")):
        wanted = "a float or complex" if complex_too else "a float"
        raise DtypeError(f"{name}: dtype must be {wanted} dtype, got {found}", "cast the sample with `astype`")
    return found


def int_dtype(name: str, dtype: DTypeLike, default: Any = int) -> Any:
    """The dtype to sample in: an integer one."""
    found = canonical_dtype(default if dtype is None else as_dtype(dtype))
    if not is_integer(found):
        raise DtypeError(f"{name}: dtype must be an integer dtype, got {found}", "cast the sample with `astype`")
    return found


def sample_shape(name: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of a sample: as given, checked against the parameters; None: what they broadcast to."""
    together = broadcast_shapes(*map(shape_of, parameters)) if parameters else ()
    if shape is None:
        return together
    shape = as_shape(shape, name)
    if parameters and broadcast_shapes(shape, together) != shape:
        raise ShapeError(
            f"{name}: parameters of shape {together} do not broadcast to the sample's shape {shape}",
            "give a `shape` that ends in the parameters' shape",
        )
    return shape


METHODS = ("exact", "approximate")  # of samplers that have both


def chosen(name: str, value: Any, choices: Sequence[Any]) -> Any:
    """An option, checked."""
    if value not in choices:
        raise ArgumentError(f"{name} does not take {value!r}", f"one of {', '.join(map(repr, choices))}")
    return value


def finfo(dtype: DTypeLike) -> Any:
    """NumPy's or ml_dtypes' `finfo`."""
    return ml_dtypes.finfo(dtype)


def working_dtype(dtype: Any) -> Any:
    """The dtype in which samples are computed: half precision in float32."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def split2(key: ArrayLike, number: int = 2) -> list[Any]:
    """An opaque key split into a list of keys."""
    keys = generator(key).split(key, (number,))
    return [index_in_dim(keys, i, 0, keepdims=False) for i in range(number)]


def raw_bits(key: ArrayLike, width: int, shape: Shape) -> Any:
    """Random unsigned integers of a width in bits."""
    return generator(key).bits(key, width, tuple(shape))


# ---------------------------------------------------------------------------- making keys


def _seeded(name: str, seed: Any, impl: Any) -> Any:
    if isinstance(seed, int) and not isinstance(seed, bool):
        try:
            seed = np.int64(seed)
        except OverflowError:
            message = f"{name}: seed {seed} does not fit in 64 bits"
            raise IntegerOverflowError(message, "give one from -2^63 to 2^63 - 1") from None
    type_ = typeof(seed)
    if is_key(type_.dtype):
        raise ArgumentTypeError(f"{name} takes an integer seed, got a key", "use `fold_in` or `split` on a key")
    if type_.shape:
        raise ShapeError(f"{name} takes one seed, got shape {type_.shape}", "use `vmap` over the seeds")
    return seeded(seed, impl)


@public
def key(seed: Any, *, impl: Any = None, dtype: DTypeLike = None) -> Array:
    """A random key made from an integer seed: a scalar of an opaque key dtype.

    `impl` (or `dtype`) is the generator: "threefry2x32", "rbg", "unsafe_rbg", or "philox", which JAX does not have;
    None is the one of `default_prng_impl`.

    Raises `DtypeError` if the seed is not an integer and `ShapeError` if it is not a scalar.

    >>> import tilewright as tw
    >>> tw.random.key_data(tw.random.key(7)).tolist()
    [0, 7]
    """
    if dtype is not None and impl is not None:
        raise ArgumentError("key: both impl and dtype are given", "give one")
    return _seeded("key", seed, impl if dtype is None else dtype)


@public
def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """A random key in the older form: a uint32 array of two words; a typed one where `enable_custom_prng` is set.

    >>> import tilewright as tw
    >>> tw.random.PRNGKey(7).tolist()
    [0, 7]
    """
    key = _seeded("PRNGKey", seed, impl)
    return key if current().enable_custom_prng else random_unwrap_p.bind(key)


@public
def key_data(keys: Any) -> Array:
    """The words of a key or an array of keys: uint32, with one axis more.

    >>> import tilewright as tw
    >>> tw.random.key_data(tw.random.key(1)).shape
    (2,)
    """
    typed, _ = typed_key("key_data", keys, batched=True)
    return random_unwrap_p.bind(random_clone_p.bind(typed))  # to look at a key is not to use it


@public
def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """The array of keys whose words these are: the inverse of `key_data`.

    Raises `ShapeError` unless given uint32 with a last axis of size 2.

    >>> from tilewright import random
    >>> key = random.key(0)
    >>> random.wrap_key_data(random.key_data(key)) == key
    Array(True, dtype=bool)
    """
    if dtype is not None and impl is not None:
        raise ArgumentError("wrap_key_data: both impl and dtype are given", "give one")
    return random_wrap_p.bind(as_array(key_bits_array), impl=generator_of(impl if dtype is None else dtype).dtype)


@public
def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of the keys of a generator, by its name; None is the one of `default_prng_impl`.

    >>> import tilewright as tw
    >>> tw.random.key_dtype("rbg")
    key<rbg>
    """
    return generator_of(impl_spec).dtype


@public
def key_impl(keys: Any) -> str:
    """The name of the generator of a key or an array of keys.

    >>> import tilewright as tw
    >>> tw.random.key_impl(tw.random.key(0))
    'threefry2x32'
    """
    return generator_name(typed_key("key_impl", keys, batched=True)[0])


@public
def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """`num` new keys (or an array of keys of shape `num`), independent of each other; do not use `key` again.

    >>> import tilewright as tw
    >>> tw.random.split(tw.random.key(0), 3).shape
    (3,)
    """
    typed, raw = typed_key("split", key)
    shape = (as_size(num),) if not isinstance(num, Sequence) else tuple(map(as_size, num))
    keys = generator(typed).split(typed, as_shape(shape, "split"))
    return random_unwrap_p.bind(keys) if raw else keys


@public
def fold_in(key: ArrayLike, data: Any) -> Array:
    """A new key that depends on a key and an integer, such as a step's number: 32 bits without a sign.

    Raises:
      IntegerOverflowError: a Python integer beyond these.

    >>> import tilewright as tw
    >>> tw.random.fold_in(tw.random.PRNGKey(0), 1).shape
    (2,)
    """
    typed, raw = typed_key("fold_in", key)
    if shape_of(data):
        raise ShapeError(f"fold_in takes one integer, got shape {shape_of(data)}", "use `vmap` over the integers")
    if isinstance(data, int):
        if not 0 <= data < 1 << 32:
            raise IntegerOverflowError(f"fold_in({data})", "pass an integer from 0 to 2**32 - 1")
        data = np.uint32(data)
    elif typeof(data).dtype != UINT32:
        data = convert_element_type(data, UINT32)
    out = generator(typed).fold_in(typed, data)
    return random_unwrap_p.bind(out) if raw else out


@public
def clone(key: ArrayLike) -> Array:
    """The same key again, for code that checks that no key is used twice.

    >>> from tilewright import random
    >>> key = random.key(0)
    >>> bool((random.key_data(random.clone(key)) == random.key_data(key)).all())
    True
    """
    typed, raw = typed_key("clone", key, batched=True)
    out = random_clone_p.bind(typed)
    return random_unwrap_p.bind(out) if raw else out
