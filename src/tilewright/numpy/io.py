"""Saving, loading and printing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import ml_dtypes
import numpy as np

from .create import asarray
from .util import Array, ArrayLike


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Write an array to a file in NumPy's format.

    >>> import io
    >>> from tilewright import numpy as jnp
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(2))
    >>> len(file.getvalue()) > 8
    True
    """
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write several arrays to one file in NumPy's format.

    >>> import io
    >>> from tilewright import numpy as jnp
    >>> file = io.BytesIO()
    >>> jnp.savez(file, a=jnp.arange(2))
    >>> _ = file.seek(0)
    >>> jnp.load(file)["a"].tolist()
    [0, 1]
    """
    named = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *(np.asarray(x) for x in args), allow_pickle=allow_pickle, **named)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array written by `save`; of a file of several, NumPy's own object.

    What NumPy has as two bytes of no known dtype is read as bfloat16, which files do not name.

    >>> import io
    >>> from tilewright import numpy as jnp
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(2))
    >>> _ = file.seek(0)
    >>> jnp.load(file)
    Array([0, 1], dtype=int32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    return asarray(found.view(ml_dtypes.bfloat16) if found.dtype == np.dtype("V2") else found)


def array_repr(arr: Array, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """An array as text with its type.

    >>> from tilewright import numpy as jnp
    >>> jnp.array_repr(jnp.arange(2))
    'Array([0, 1], dtype=int32)'
    """
    text = np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)
    dtype = "" if "dtype=" in text else f", dtype={np.asarray(arr).dtype.name})"
    text = "Array" + text.removeprefix("array")
    return text[:-1] + dtype if dtype else text


def array_str(a: Array, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """An array's elements as text.

    >>> from tilewright import numpy as jnp
    >>> jnp.array_str(jnp.arange(2))
    '[0 1]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


printoptions: Callable[..., AbstractContextManager[Any]]
set_printoptions: Callable[..., None]
get_printoptions: Callable[[], Any]
printoptions, set_printoptions, get_printoptions = np.printoptions, np.set_printoptions, np.get_printoptions

__all__ = [
    "array_repr", "array_str", "get_printoptions", "load", "printoptions", "save", "savez", "set_printoptions",
]  # fmt: skip
