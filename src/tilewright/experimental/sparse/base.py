"""What all sparse formats share: their class, their errors and warnings, and functions mapped over batch axes."""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import numpy as jnp
from ...core.api.transformations import vmap
from ...core.ir.array import Array, DTypeLike
from ...core.ir.types import canonical_dtype
from ...core.support import pytree
from ...core.support.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedError
from ...core.support.late_methods import late_methods
from ...core.tracing.trace import Tracer, Value, dtype_of, shape_of

Shape = tuple[int, ...]

TODENSE = "sparse.todense"  # the name that marks what `todense` was called on while a function is traced


class SparseEfficiencyError(ArgumentError):
    """A sparse format that would store many zeros was asked for."""


class SparseEfficiencyWarning(UserWarning):
    """A sparse format stores many zeros."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """A product does not run in the library of NVIDIA's; here none does, so that it is never given."""


class SparseInfo(NamedTuple):
    """What is known of a sparse array apart from its buffers."""

    shape: Shape
    indices_sorted: bool = False
    unique_indices: bool = False


def dense_needed(what: str) -> UnsupportedError:
    """The error of an operation whose result would not be sparse."""
    return UnsupportedError(f"{what}: the result would be dense", "convert the operand with `todense()` first")


def late_operators(name: str, methods: str) -> type:
    """A mixin class with methods of a class of `transform.py`, which needs all formats."""
    return late_methods(name, lambda: getattr(import_module(".transform", __package__), name), methods)


def _absent(name: str) -> Any:
    """A method that a format lacks."""

    def method(self: Any, *args: Any) -> Any:
        raise UnsupportedError(f"{type(self).__name__} has no {name}", "convert it to BCOO, or use `todense()`")

    method.__name__ = name
    return method


class JAXSparse(abc.ABC):
    """The base of sparse formats: buffers of numbers and indices, and the shape of what they mean."""

    data: Array
    shape: Shape
    __hash__: ClassVar[None] = None
    __array_ufunc__ = None  # NumPy's operators leave the operation to ours

    @property
    @abc.abstractmethod
    def nse(self) -> int:
        """The number of elements that are stored."""

    @abc.abstractmethod
    def tree_flatten(self) -> tuple[tuple[Array, ...], Any]:
        """The buffers, and what a pytree keeps apart."""

    @classmethod
    @abc.abstractmethod
    def tree_unflatten(cls, aux: Any, children: Sequence[Any]) -> Any:
        """The array of its buffers."""

    @abc.abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its axes reversed, or in the order named."""

    @abc.abstractmethod
    def todense(self) -> Array:
        """The dense array."""

    @property
    def dtype(self) -> np.dtype:
        return dtype_of(self.data)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Any:
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("a sparse array of shape () has no length", "use `todense()` for its value")
        return self.shape[0]

    def block_until_ready(self) -> Any:
        """Wait until the buffers are computed; gives the array itself."""
        for buffer in self.tree_flatten()[0]:
            buffer.block_until_ready()
        return self

    def _described(self) -> str:
        return f"nse={self.nse}"

    def __repr__(self) -> str:
        if not isinstance(self.data, (Value, np.ndarray)):  # in the middle of a transformation
            return f"{type(self).__name__}(<invalid>)"
        text = f"{type(self).__name__}({self.dtype}{list(self.shape)}, {self._described()})"
        return f"{type(self.data).__name__}[{text}]" if isinstance(self.data, Tracer) else text

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise dense_needed(f"NumPy was given a {type(self).__name__}")

    sum = _absent("sum")
    __neg__, __pos__ = _absent("__neg__"), _absent("__pos__")
    __matmul__, __rmatmul__ = _absent("__matmul__"), _absent("__rmatmul__")
    __mul__, __rmul__ = _absent("__mul__"), _absent("__rmul__")
    __add__, __radd__ = _absent("__add__"), _absent("__radd__")
    __sub__, __rsub__ = _absent("__sub__"), _absent("__rsub__")
    __getitem__ = _absent("__getitem__")


# ------------------------------------------------------------------------------------------------- batch axes


def batched(fun: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function mapped over `count` leading axes of its arguments; one of size 1 is repeated."""
    for _ in range(count):
        fun = _mapped(fun)
    return fun


def _mapped(fun: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Array) -> Any:
        sizes = {shape_of(x)[0] for x in args}
        if len(sizes) == 1:
            return vmap(fun)(*args)
        if len(sizes - {1}) > 1:
            raise ShapeError(f"batch axes of sizes {sorted(sizes)}", "they are of one size, or 1")
        given = [jnp.squeeze(x, 0) if shape_of(x)[0] == 1 else x for x in args]
        return vmap(fun, in_axes=tuple(None if shape_of(x)[0] == 1 else 0 for x in args))(*given)

    return run


def batch_shape(old: Shape, buffers: Sequence[Array], count: int) -> Shape:
    """The sizes of `count` batch axes, of which `vmap` took some of `old` away, or to which it gave some.

    Buffers that repeat along an axis have size 1 there, so that they alone do not tell its size.
    """
    held: Shape = tuple(map(max, *(x.shape[:count] for x in buffers)))
    grown = count > len(old)
    least, most = sorted((count, len(old)))
    for kept in reversed([*itertools.combinations(range(most), least)]):  # the first axes come and go first
        known = old if grown else tuple(old[i] for i in kept)
        seen = [held[i] for i in kept] if grown else held
        if all(n in (1, m) for n, m in zip(seen, known, strict=True)):
            sizes = dict(zip(kept, known, strict=True))
            return tuple(sizes.get(i, n) for i, n in enumerate(held)) if grown else known
    return held


def check_integers(indices: Array, what: str) -> None:
    """Raise where indices are not integers."""
    if not jnp.issubdtype(dtype_of(indices), np.integer):
        raise ArgumentTypeError(f"{what} of dtype {dtype_of(indices)}", "indices are integers; cast with `astype`")


def check_fits(sizes: Sequence[int], dtype: DTypeLike) -> None:
    """Raise where indices of a dtype do not reach past the end of every axis."""
    most = np.iinfo(dtype).max
    if any(n > most for n in sizes):
        raise ArgumentError(f"{max(sizes)} places for indices of dtype {dtype}", "int64 ones, within `enable_x64`")


def wide_indices(indices: Any, what: str) -> Array:
    """Indices of at least 32 bits and with a sign, as counting from the end and beyond an axis needs them.

    Raises:
      ArgumentTypeError: they are not integers.
    """
    found = indices if isinstance(indices, Value) else jnp.asarray(indices)
    check_integers(found, what)
    dtype = dtype_of(found)
    if dtype.kind == "i" and dtype.itemsize >= 4:
        return found
    wide = canonical_dtype(np.int64 if dtype.itemsize == 8 else np.int32)
    if dtype.itemsize >= wide.itemsize:  # what the sign would turn around is past the end
        found = jnp.minimum(found, np.array(np.iinfo(wide).max, dtype))
    return found.astype(wide)


def permutation(axes: Any, ndim: int) -> tuple[int, ...]:
    """The order of axes of a transpose; raises where it is none."""
    if not isinstance(axes, (tuple, list, np.ndarray)):
        raise ArgumentTypeError(f"a permutation of type {type(axes).__name__}", "pass a tuple of axes")
    order = tuple(int(d) for d in axes)
    if sorted(order) != list(range(ndim)):
        raise ArgumentTypeError(f"{order} is no permutation of the axes of an array of {ndim}", "name each axis once")
    return order


def register[T: type](cls: T) -> T:
    """Make a format a pytree of its buffers."""
    return pytree.register_pytree_node_class(cls)


__all__ = [
    "CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError", "SparseEfficiencyWarning", "SparseInfo",
]  # fmt: skip
