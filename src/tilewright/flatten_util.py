"""Pytrees of arrays as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import numpy as tnp
from .core.ir.types import Type
from .core.support import pytree as tree
from .core.support.errors import DtypeError, ShapeError
from .core.tracing.trace import typeof


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All leaves of a pytree as one vector of their common dtype, and the function that undoes it.

    Where the leaves have one dtype, those of the inverse have that of its vector. It raises `ShapeError` for a vector
    of another length, `DtypeError` for one of another dtype where the leaves have several.

    >>> vector, unravel = ravel_pytree({"a": 1.0, "b": tnp.ones((2,))})
    >>> print(vector, unravel(vector)["b"])
    [1. 1. 1.] [1. 1.]
    """
    leaves, treedef = tree.flatten(pytree)
    flat = tnp.concatenate([tnp.ravel(x) for x in leaves]) if leaves else tnp.zeros((0,), "float32")
    return flat, _Unravel(treedef, tuple(typeof(x) for x in leaves), flat.dtype)


@dataclass(frozen=True)
class _Unravel:
    """The inverse; those of like trees are equal, so that `jit` takes them for one static argument."""

    treedef: Any
    types: tuple[Type, ...]
    dtype: Any

    def __call__(self, vector: Any) -> Any:
        sizes = [math.prod(t.shape) for t in self.types]
        if typeof(vector).shape != (sum(sizes),):
            raise ShapeError(
                f"unravel of a value of type {typeof(vector).show()}", f"pass a vector of {sum(sizes)} elements"
            )
        several = any(t.dtype != self.dtype for t in self.types)
        if several and typeof(vector).dtype != self.dtype:
            raise DtypeError(f"unravel of a value of type {typeof(vector).show()}", f"pass a vector of {self.dtype}")
        parts, start = [], 0
        for type_, size in zip(self.types, sizes):
            part = tnp.reshape(vector[start : start + size], type_.shape)
            parts.append(part.astype(type_.dtype) if several else part)
            start += size
        return self.treedef.unflatten(parts)


__all__ = ["ravel_pytree"]
__dir__: Callable[[], list[str]] = __all__.copy
