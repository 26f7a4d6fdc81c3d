"""Random numbers in kernels.

`prng_seed` sets the generator of the cell at hand, and each draw after it gives fresh bits: a pure function of the
seed, the cell's ids, the number of draws since the seed, and the element's place. So a kernel draws the same compiled,
interpreted, differentiated and under any order of its cells. The `counter_*` forms have no state: they are a function
of the words they are given.

Source of the hash: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...core.ir.array import Array, ArrayLike, DTypeLike, Operand
from ...core.ir.types import (
    INT32,
    UINT32,
    ArrayType,
    MemorySpace,
    RefType,
    Shape,
    as_dtype,
    canonical_dtype,
    is_float,
    is_integer,
)
from ...core.primitives.elementwise.arithmetic import add_p, max_p, mul_p, sub_p
from ...core.primitives.elementwise.bitwise import shift_right_logical_p, xor_p
from ...core.primitives.elementwise.comparison import lt_p
from ...core.primitives.elementwise.conversion import bitcast_convert_type_p, convert_element_type
from ...core.primitives.keys.threefry import threefry2x32_p
from ...core.primitives.movement.shape import iota_p, reshape_to
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.special.functions import erf_inv_p
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, DtypeError, KernelBodyError
from ...core.tracing.trace import typeof
from ...core.transforms.structural_primitives import spread
from .basic import current_cell

FLOAT32 = np.dtype(np.float32)
_STATE = RefType(ArrayType((3,), UINT32), MemorySpace.SMEM)  # two words of key, the number of draws


# ---------------------------------------------------------------------------- words and keys


def _word(x: ArrayLike, what: str) -> Any:
    """A seed or counter as a uint32 scalar."""
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        return np.uint32(int(x) & 0xFFFFFFFF)
    type_ = typeof(x)
    if type_.shape or not is_integer(type_.dtype):
        raise DtypeError(f"{what} is {type_.show()}", "give an integer scalar: `ref[0]`, `program_id(0)`, a Python int")
    return convert_element_type(x, UINT32)


def _key(words: Sequence[Any]) -> tuple[Any, Any]:
    """Two words that depend on all of these, in order."""
    first, second = np.uint32(0), np.uint32(len(words))
    for place, word in enumerate(words):
        first, second = threefry2x32_p.bind(first, second, np.uint32(place), word)
    return first, second


def _shape(shape: Shape) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not all(isinstance(n, (int, np.integer)) and n >= 0 for n in sizes):
        raise ArgumentError(f"random bits of shape {shape!r}", "shapes are tuples of Python ints")
    return tuple(int(n) for n in sizes)


def _bits(key: Sequence[Any], draw: ArrayLike, shape: tuple[int, ...]) -> Any:
    """uint32 words: the hash of draw and place under the key."""
    size = math.prod(shape)
    place = iota_p.bind(dtype=UINT32, shape=(size,), dimension=0)
    high, low = threefry2x32_p.bind(*(spread(x, (size,)) for x in (*key, draw)), place)
    return reshape_to(xor_p.bind(high, low), shape)


# ---------------------------------------------------------------------------- what bits become


def _float_dtype(dtype: np.dtype[Any], name: str) -> np.dtype:
    found = canonical_dtype(as_dtype(dtype))
    if not is_float(found):
        raise DtypeError(f"{name} of dtype {found}", "give a float dtype")
    return found


def _unit(bits: Operand, dtype: np.dtype) -> Any:
    """Uniform in [0, 1), on a grid as fine as the mantissa: exact in the dtype."""
    kept = min(ml_dtypes.finfo(dtype).nmant, 32)
    top = shift_right_logical_p.bind(bits, np.uint32(32 - kept)) if kept < 32 else bits
    wide = dtype if dtype.itemsize > 4 else FLOAT32
    scaled = mul_p.bind(convert_element_type(top, wide), np.asarray(2.0**-kept, wide)[()])
    return convert_element_type(scaled, dtype)


def _uniform(bits: Array, dtype: np.dtype, low: ArrayLike, high: ArrayLike) -> Any:
    unit = _unit(bits, dtype)
    if (type(low), type(high)) == (float, float) and (low, high) == (0.0, 1.0):
        return unit
    low, high = (_scalar(x, dtype) for x in (low, high))
    return max_p.bind(add_p.bind(mul_p.bind(unit, sub_p.bind(high, low)), low), low)


def _scalar(x: ArrayLike, dtype: np.dtype) -> Any:
    return np.asarray(x, dtype)[()] if isinstance(x, (int, float)) else convert_element_type(x, dtype)


def _normal(bits: Array, dtype: np.dtype) -> Any:
    """The inverse of the normal's distribution function, at a uniform point of (-1, 1)."""
    wide = dtype if dtype.itemsize > 4 else FLOAT32
    low = float(np.nextafter(wide.type(-1), wide.type(0)))
    found = erf_inv_p.bind(_uniform(bits, wide, low, 1.0))
    return convert_element_type(mul_p.bind(found, np.asarray(math.sqrt(2), wide)[()]), dtype)


def _bernoulli(bits: Array, p: ArrayLike) -> Any:
    return lt_p.bind(_unit(bits, FLOAT32), _scalar(p, FLOAT32))


# ---------------------------------------------------------------------------- with state


@public
def prng_seed(*seeds: Any) -> None:
    """Seed this cell's generator from integer scalars; cells with equal seeds differ, as their ids are mixed in.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(o):
    ...     tl.prng_seed(7)
    ...     o[...] = tl.stateful_uniform((2,)) < 1
    >>> out = tw.ShapeDtypeStruct((2,), 'bool')
    >>> tl.kernel_call(body, out)().tolist()
    [True, True]
    """
    if not seeds:
        raise ArgumentError("prng_seed() without a seed", "give one or more integer scalars")
    cell = current_cell("prng_seed")
    if "prng" not in cell.made:
        cell.made["prng"] = cell.allocate(_STATE)
    words = [_word(s, f"seed {i} of prng_seed") for i, s in enumerate(seeds)]
    ids = cell.made.get("ids", cell.ids)
    state = cell.made["prng"]
    first, second = _key([*words, *(convert_element_type(i, UINT32) for i in ids)])
    for place, value in enumerate((first, second, np.uint32(0))):
        refs.write(refs.view(state, place), value)


@public
def stateful_bits(shape: Sequence[int], dtype: DTypeLike = UINT32) -> Any:
    """Fresh random bits, uint32 or int32, from the generator that `prng_seed` set.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(o):
    ...     tl.prng_seed(7)
    ...     o[...] = tl.stateful_bits((2,)) != tl.stateful_bits((2,))
    >>> out = tw.ShapeDtypeStruct((2,), 'bool')
    >>> tl.kernel_call(body, out)().tolist()
    [True, True]
    """
    dtype = as_dtype(dtype)
    if dtype not in (UINT32, INT32):
        raise DtypeError(f"random bits of dtype {dtype}", "use uint32 or int32, and shift for fewer bits")
    cell = current_cell("stateful_bits")
    state = cell.made.get("prng")
    if state is None:
        raise KernelBodyError(
            f"kernel {cell.kernel}: random bits are drawn before `prng_seed`", "call `prng_seed(seed)` first"
        )
    first, second, draw = (refs.read(refs.view(state, i)) for i in range(3))
    refs.write(refs.view(state, 2), add_p.bind(draw, np.uint32(1)))
    bits = _bits((first, second), draw, _shape(shape))
    return bits if dtype == UINT32 else bitcast_convert_type_p.bind(bits, new_dtype=INT32)


@public
def prng_random_bits(shape: Sequence[int]) -> Any:
    """Fresh random bits as int32, from the generator that `prng_seed` set.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(o):
    ...     tl.prng_seed(7)
    ...     o[...] = tl.prng_random_bits((2,)) != tl.prng_random_bits((2,))
    >>> out = tw.ShapeDtypeStruct((2,), 'bool')
    >>> tl.kernel_call(body, out)().tolist()
    [True, True]
    """
    return stateful_bits(shape, INT32)


@public
def stateful_uniform(
    shape: Sequence[int], dtype: DTypeLike = FLOAT32, minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0
) -> Any:
    """Fresh floats uniform in [minval, maxval).

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(o):
    ...     tl.prng_seed(7)
    ...     x = tl.stateful_uniform((2,), minval=3, maxval=4)
    ...     o[...] = (x >= 3) & (x < 4)
    >>> out = tw.ShapeDtypeStruct((2,), 'bool')
    >>> tl.kernel_call(body, out)().tolist()
    [True, True]
    """
    return _uniform(stateful_bits(shape), _float_dtype(dtype, "stateful_uniform"), minval, maxval)


@public
def stateful_normal(shape: Sequence[int], dtype: DTypeLike = FLOAT32) -> Any:
    """Fresh standard normal floats.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(o):
    ...     tl.prng_seed(7)
    ...     o[...] = abs(tl.stateful_normal((2,))) < 8
    >>> out = tw.ShapeDtypeStruct((2,), 'bool')
    >>> tl.kernel_call(body, out)().tolist()
    [True, True]
    """
    return _normal(stateful_bits(shape), _float_dtype(dtype, "stateful_normal"))


@public
def stateful_bernoulli(p: ArrayLike, shape: Sequence[int]) -> Any:
    """Fresh booleans, each True with probability `p`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(o):
    ...     tl.prng_seed(7)
    ...     o[...] = tl.stateful_bernoulli(1.0, (2,))
    >>> out = tw.ShapeDtypeStruct((2,), 'bool')
    >>> tl.kernel_call(body, out)().tolist()
    [True, True]
    """
    return _bernoulli(stateful_bits(shape), p)


# ---------------------------------------------------------------------------- without state


@public
def counter_bits(shape: Sequence[int], *words: Any) -> Any:
    """Random uint32 bits as a function of integer scalars (a seed and counters) and the element's place alone.

    >>> from tilewright import lang as tl
    >>> a, b = tl.counter_bits((3,), 1, 2), tl.counter_bits((3,), 1, 2)
    >>> str(a.dtype), bool((a == b).all())
    ('uint32', True)
    """
    if not words:
        raise ArgumentError(
            "counter_bits without a seed or counter", "give one or more integer scalars after the shape"
        )
    key = _key([_word(w, f"word {i} of counter_bits") for i, w in enumerate(words)])
    return _bits(key, np.uint32(0), _shape(shape))


@public
def counter_uniform(
    shape: Sequence[int], *words: Any, dtype: DTypeLike = FLOAT32, minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0
) -> Any:
    """Floats uniform in [minval, maxval), a function of integer scalars alone.

    >>> from tilewright import lang as tl
    >>> x = tl.counter_uniform((1000,), 7)
    >>> bool((x >= 0).all() and (x < 1).all())
    True
    """
    return _uniform(counter_bits(shape, *words), _float_dtype(dtype, "counter_uniform"), minval, maxval)


@public
def counter_normal(shape: Sequence[int], *words: Any, dtype: DTypeLike = FLOAT32) -> Any:
    """Standard normal floats, a function of integer scalars alone.

    >>> from tilewright import lang as tl
    >>> x = tl.counter_normal((1000,), 7)
    >>> bool(abs(x.mean()) < 0.2 and abs(x.std() - 1) < 0.2)
    True
    """
    return _normal(counter_bits(shape, *words), _float_dtype(dtype, "counter_normal"))


@public
def counter_bernoulli(p: ArrayLike, shape: Sequence[int], *words: Any) -> Any:
    """Booleans, each True with probability `p`, a function of integer scalars alone.

    >>> from tilewright import lang as tl
    >>> x = tl.counter_bernoulli(0.3, (1000,), 7)
    >>> str(x.dtype), bool(abs(x.mean() - 0.3) < 0.1)
    ('bool', True)
    """
    return _bernoulli(counter_bits(shape, *words), p)
