"""Refs as the user sees them: `ref[i, ds(j, 4)]`, `ref[...] = x`, `ref.at[...]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, DtypeError, KernelBodyError, OutOfBoundsError, ShapeError
from ..trace import TRACERS, ProgramTracer, Tracer, shape_of, typeof
from ..types import RefType, is_integer
from .convert import convert_element_type
from .ref import Entry, Index, Point, Shape, Span, Take, access_shape, addupdate_p, get_p, swap_p
from .shape import broadcast_in_dim_p


@dataclass(frozen=True)
class Slice:
    """`size` positions from `start` (which may be traced), `stride` apart; made by `ds`."""

    start: Any
    size: int
    stride: int = 1


def dslice(start: Any, size: int | None = None, stride: int | None = None) -> Slice | slice:
    """A slice of static size whose start may be traced; `dslice(n)` is the first `n`."""
    if start is None:
        return slice(None)
    if size is None:
        start, size = 0, start
    if stride is None and isinstance(size, Tracer):  # for the index map of a BoundedSlice
        return Slice(start, size)
    if not isinstance(size, (int, np.integer)) or size < 0:
        raise ArgumentTypeError(
            f"ds: the size {size!r} is not a Python integer", "sizes are static; only starts are traced"
        )
    if stride is not None and (not isinstance(stride, (int, np.integer)) or stride < 1):
        raise ArgumentTypeError(f"ds: the stride {stride!r} is not a positive Python integer")
    return Slice(start, int(size), 1 if stride is None else int(stride))


@dataclass(frozen=True)
class _Resolved:
    """One entry of an index before static and traced parts are told apart; `size` None: a point."""

    start: Any
    size: int | None = None
    stride: int = 1


def _static(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _resolve_one(entry: Any, size: int, axis: int, shape: Shape) -> _Resolved:
    def outside(what: Any) -> OutOfBoundsError:
        return OutOfBoundsError(
            f"index {what} is out of bounds for axis {axis} of a Ref of shape {shape}",
            f"axis {axis} has {size} positions",
        )

    if _static(entry):
        if not -size <= entry < size:
            raise outside(int(entry))
        return _Resolved(int(entry) % size)
    if isinstance(entry, slice):
        parts = (entry.start, entry.stop, entry.step)
        if any(p is not None and not _static(p) for p in parts):
            raise ArgumentTypeError(f"a slice of a Ref has a traced bound along axis {axis}", "use `ds(start, size)`")
        if any(p is not None and not -size <= p <= size for p in parts[:2]):
            raise outside(":".join("" if p is None else str(p) for p in (parts if parts[2] is not None else parts[:2])))
        start, stop, step = entry.indices(size)
        if step < 1:
            raise ArgumentTypeError(
                f"a slice of a Ref has step {step} along axis {axis}", "steps are positive; use `flip`"
            )
        return _Resolved(start, len(range(start, stop, step)), step)
    if isinstance(entry, Slice):
        if not _static(entry.size):
            raise ArgumentTypeError(f"a slice of a Ref has a traced size along axis {axis}",
                                    "sizes are static; only starts are traced")  # fmt: skip
        if _static(entry.start):
            last = entry.start + max(entry.size - 1, 0) * entry.stride
            if entry.start < 0 or (entry.size and last >= size):
                raise outside(f"{entry.start} to {last}")
        return _Resolved(int(entry.start) if _static(entry.start) else entry.start, entry.size, entry.stride)
    type_ = typeof(entry)
    if not is_integer(type_.dtype):
        raise ArgumentTypeError(
            f"a Ref is indexed with {type_.show()} along axis {axis}",
            "index with integers; pass a mask to `load` or `store`",
        )
    return _Resolved(entry)


def resolve(shape: Shape, key: Any) -> list[_Resolved]:
    """One entry per axis for whatever stands between the brackets."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if any(k is None for k in keys):
        raise ArgumentTypeError("a Ref is indexed with None", "read it first, then add the axis")
    if len(dots) > 1:
        raise ArgumentTypeError("a Ref is indexed with more than one `...`")
    missing = len(shape) - (len(keys) - len(dots))
    if missing < 0:
        raise ShapeError(f"{len(keys) - len(dots)} indices for a Ref of shape {shape}", f"it has {len(shape)} axes")
    at = dots[0] if dots else len(keys)
    keys[at : at + len(dots)] = [slice(None)] * missing
    return [_resolve_one(k, d, i, shape) for i, (k, d) in enumerate(zip(keys, shape, strict=True))]


def _compose(outer: Sequence[_Resolved], inner: Sequence[_Resolved]) -> list[_Resolved]:
    """The entries of an access to a view."""
    rest = iter(inner)
    out = []
    for entry in outer:
        if entry.size is None:
            if shape_of(entry.start) if not _static(entry.start) else ():
                raise ArgumentTypeError("a view through an integer array is indexed again", "index it once")
            out.append(entry)
        else:
            given = next(rest)
            start = entry.start + given.start * entry.stride
            out.append(_Resolved(start, given.size, entry.stride * given.stride if given.size is not None else 1))
    return out


class RefView:
    """Part of a Ref: what `ref.at[...]` gives. Reads and writes go to the Ref."""

    __slots__ = ("ref", "entries")

    def __init__(self, ref: Any, entries: Sequence[_Resolved]):
        self.ref, self.entries = ref, list(entries)

    @property
    def shape(self) -> Shape:
        return access_shape(self.index()[0])

    @property
    def dtype(self) -> Any:
        return self.ref.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def at(self) -> _At:
        return _At(self)

    def index(self) -> tuple[Index, list[Any]]:
        """The static index and its operands."""
        static: list[Entry] = []
        operands = []
        for entry in self.entries:
            known = _static(entry.start)
            if entry.size is not None:
                static.append(Span(entry.start if known else None, entry.size, entry.stride))
            elif known or not shape_of(entry.start):
                static.append(Point(entry.start if known else None))
            else:
                static.append(Take(shape_of(entry.start)))
            if not known:
                operands.append(entry.start)
        return Index(static), operands

    @property
    def T(self) -> Turned:
        return self.transpose((1, 0))

    def transpose(self, permutation: Sequence[int]) -> Any:
        """The part of two axes with its axes exchanged, as an operand of a product; errors as `Turned`."""
        return self if tuple(permutation) == (0, 1) else Turned(self, tuple(permutation))

    def __getitem__(self, key: Any) -> Any:
        return read(view(self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        write(view(self, key), value)


class Turned:
    """A part of a Ref of two axes with its axes exchanged: what products of matrices in memory take."""

    __slots__ = ("target",)

    def __init__(self, target: RefView, permutation: tuple[int, ...]):
        if permutation != (1, 0) or len(target.shape) != 2:
            raise ShapeError(f"a Ref of shape {target.shape} is transposed by {permutation}",
                             "exchange the axes of a Ref of two, (1, 0); or read it first")  # fmt: skip
        self.target = target

    @property
    def shape(self) -> Shape:
        return self.target.shape[::-1]

    @property
    def dtype(self) -> Any:
        return self.target.dtype

    @property
    def T(self) -> RefView:
        return self.target

    @property
    def aval(self) -> Any:
        """It has none."""
        raise KernelBodyError("a Ref with its axes exchanged is used as a value", "read it first: `ref[...].T`")

    def transpose(self, permutation: Sequence[int]) -> Any:
        return self.target if tuple(permutation) == (1, 0) else self


class _At:
    """`ref.at`: indexing it gives a view."""

    __slots__ = ("target",)

    def __init__(self, target: Any):
        self.target = target

    def __getitem__(self, key: Any) -> RefView:
        return view(self.target, key)


def view(target: Any, key: Any = Ellipsis) -> RefView:
    """The part of a Ref (or of a view) that an index names."""
    if isinstance(target, RefView):
        if key is Ellipsis:
            return target
        return RefView(target.ref, _compose(target.entries, resolve(target.shape, key)))
    if not isinstance(getattr(target, "aval", None), RefType):
        raise ArgumentTypeError(f"{target!r} is not a Ref", "only the Refs of a kernel are loaded from and stored to")
    return RefView(target, resolve(target.aval.shape, key))


def read(target: RefView, mask: Any = None, other: Any = None) -> Any:
    """The array in part of a Ref."""
    index, operands = target.index()
    if mask is not None:
        operands.append(_fit(mask, access_shape(index), "mask"))
        if other is not None:
            operands.append(_cast(other, target.dtype, "other"))
    elif other is not None:
        raise ArgumentTypeError("load: `other` is given without a mask", "give the mask that selects it")
    return get_p.bind(target.ref, *operands, index=index, masked=mask is not None)


def store_operands(target: RefView, value: Any, mask: Any = None) -> tuple[Index, Any, list[Any]]:
    """What an access that takes a value binds: the index, the value as the Ref holds it, and the further operands."""
    index, operands = target.index()
    if mask is not None:
        operands.append(_fit(mask, access_shape(index), "mask"))
    return index, _fit(_cast(value, target.dtype, "value"), access_shape(index), "value"), operands


def swap(target: RefView, value: Any, mask: Any = None) -> Any:
    """Store an array in part of a Ref; gives what was there."""
    index, value, operands = store_operands(target, value, mask)
    return swap_p.bind(target.ref, value, *operands, index=index, masked=mask is not None)


def write(target: RefView, value: Any, mask: Any = None) -> None:
    """Store an array in part of a Ref."""
    swap(target, value, mask)


def addupdate(target: RefView, value: Any, mask: Any = None) -> None:
    """Add an array to part of a Ref; positions named twice are added to twice."""
    index, value, operands = store_operands(target, value, mask)
    addupdate_p.bind(target.ref, value, *operands, index=index, masked=mask is not None)


def _cast(value: Any, dtype: Any, name: str) -> Any:
    if value is None:
        raise KernelBodyError(
            f"the {name} stored is None: the function that made it gives no value",
            "return it there; `when` gives none: store within it, or choose with `where`",
        )
    type_ = typeof(value)
    if isinstance(type_, RefType):
        raise KernelBodyError(
            f"the {name} stored is itself a Ref of {type_.array.show()}", "read it with `[...]` first"
        )
    if type_.dtype == dtype:
        return value
    if not type_.weak_type:
        raise DtypeError(
            f"a {name} of type {type_.show()} is stored in a Ref of {dtype}", f"cast it: `.astype({dtype})`"
        )
    if type(value) in (bool, int, float, complex):
        return np.asarray(value).astype(dtype)[()]
    return convert_element_type(value, dtype)


def _fit(value: Any, shape: Shape, name: str) -> Any:
    found = shape_of(value)
    if found == shape:
        return value
    kept = len(found) <= len(shape) and all(d in (1, e) for d, e in zip(found[::-1], shape[::-1], strict=False))
    if not kept:
        raise ShapeError(
            f"a {name} of shape {found} does not fit the part of the Ref it goes to, of shape {shape}",
            "make the shapes equal, or broadcastable to the Ref's")  # fmt: skip
    missing = shape[: len(shape) - len(found)]
    if found and name == "value" and any(n != 1 for n in missing):
        raise ShapeError(
            f"a value of shape {found} would be repeated along the leading axes of the part of the Ref it goes to, of "
            f"shape {shape}",
            f"say so: `value[None]` or `keepdims=True` for an axis of size 1, or `broadcast_to(value, {shape})`",
        )
    dims = tuple(range(len(missing), len(shape)))
    return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=dims)


class RefTracer(ProgramTracer):
    """A Ref in code being traced: indexing reads it, assignment to an index writes it."""

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def at(self) -> _At:
        return _At(self)

    @property
    def T(self) -> Turned:
        return view(self).T

    def transpose(self, permutation: Sequence[int]) -> Any:
        """A Ref of two axes with its axes exchanged, as an operand of a product; errors as `Turned`."""
        return view(self).transpose(permutation)

    def __len__(self) -> int:
        return self.aval.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return read(view(self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        write(view(self, key), value)

    def get(self, idx: Any = Ellipsis) -> Any:
        """The array in part of it."""
        return read(view(self, idx))

    def set(self, value: Any, idx: Any = Ellipsis) -> None:
        """Store an array in part of it."""
        write(view(self, idx), value)

    def swap(self, value: Any, idx: Any = Ellipsis) -> Any:
        """Store an array in part of it; gives what was there."""
        return swap(view(self, idx), value)

    def addupdate(self, value: Any, idx: Any = Ellipsis) -> None:
        """Add an array to part of it."""
        addupdate(view(self, idx), value)

    def describe(self) -> str:
        return f"a Ref of {self.aval.array.show()}"

    def __repr__(self) -> str:
        return self.aval.show()

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


def _unread(name: str) -> Callable[..., Any]:
    def refused(self: RefTracer, *_: Any) -> Any:
        raise KernelBodyError(
            f"`{name.strip('_')}` was applied to {self.describe()} itself", "read it first: `ref[...]`"
        )

    return refused


_OPERATORS = (
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul "
    "neg pos abs eq ne lt le gt ge and or xor invert lshift rshift bool float int index array"
).split()
for _name in _OPERATORS:
    setattr(RefTracer, f"__{_name}__", _unread(_name))

TRACERS[RefType] = RefTracer
