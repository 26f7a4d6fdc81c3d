"""Refs as the user sees them: `ref[i, ds(j, 4)]`, `ref[...] = x`, `ref.at[...]`, `ref.reshape(...)`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike, Operand
from ...ir.types import Dtype, RefType, as_dtype, itemsize_bits
from ...support.errors import ArgumentTypeError, DtypeError, KernelBodyError, ShapeError, UnsupportedError, plural
from ...tracing.trace import TRACERS, ProgramTracer, shape_of, typeof
from ..elementwise.conversion import bitcast_convert_type, convert_element_type
from ..movement.bit_packing import apart, joined, piece, rows_of, unsigned
from ..movement.shape import broadcast_in_dim_p, reshape
from .ref_indexing import Resolved, compose, dslice, is_static, resolve, unfolded
from .state_primitives import Entry, Index, Point, Shape, Span, Take, access_shape, addupdate_p, get_p, swap_p

_CHANGES = {  # what arrays have, and what is written for it with Refs
    "set": "`ref[index] = value`", "add": "`ref[index] += value`", "get": "`ref[index]`",
    **{name: f"`ref[index] = numpy.{name}(ref[index], value)`" for name in ("multiply", "divide", "power")},
    "min": "`ref[index] = numpy.minimum(ref[index], value)`", "max": "`ref[index] = numpy.maximum(ref[index], value)`",
    "apply": "`ref[index] = function(ref[index])`", "mul": "`ref[index] *= value`",
}  # fmt: skip


def _unread(name: str) -> Any:
    def refused(self: Any, *_: Any) -> Any:
        raise KernelBodyError(f"`{name}` was applied to {self.describe()} itself", "read it first: `ref[...]`")

    return refused


class _Unread:
    """The operators of values, which a Ref lacks until it is read."""

    __slots__ = ()
    __add__ = __radd__ = __iadd__ = _unread("add")
    __sub__ = __rsub__ = __isub__ = _unread("sub")
    __mul__ = __rmul__ = __imul__ = _unread("mul")
    __truediv__ = __rtruediv__ = _unread("truediv")
    __floordiv__ = __rfloordiv__ = _unread("floordiv")
    __mod__ = __rmod__ = _unread("mod")
    __pow__ = __rpow__ = _unread("pow")
    __matmul__ = __rmatmul__ = _unread("matmul")
    __and__ = _unread("and")
    __or__ = _unread("or")
    __xor__ = _unread("xor")
    __invert__ = _unread("invert")
    __lshift__ = _unread("lshift")
    __rshift__ = _unread("rshift")
    __eq__ = _unread("eq")
    __ne__ = _unread("ne")
    __lt__ = _unread("lt")
    __le__ = _unread("le")
    __gt__ = _unread("gt")
    __ge__ = _unread("ge")
    __neg__ = _unread("neg")
    __pos__ = _unread("pos")
    __abs__ = _unread("abs")
    __bool__ = _unread("bool")
    __float__ = _unread("float")
    __int__ = _unread("int")
    __index__ = _unread("index")
    __array__ = _unread("array")
    __hash__ = object.__hash__


class Part(_Unread, ABC):
    """Part of a Ref, or a way to see one: indexing reads it, assignment to an index writes it."""

    __slots__ = ()
    shape: Shape
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def at(self) -> _At:
        return _At(self)

    @property
    def aval(self) -> Any:
        """It has none."""
        raise KernelBodyError("a part of a Ref is used as a value", "read it first: `ref[...]`")

    def __getattr__(self, name: str) -> Any:
        if name in _CHANGES:
            raise KernelBodyError(f"`.at[...].{name}` was applied to a Ref, whose elements change where they are",
                                  f"write {_CHANGES[name]}")  # fmt: skip
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @abstractmethod
    def part(self, key: Any) -> Part:
        """The part that an index names."""

    def index(self, masked: bool = False) -> tuple[Index, list[Any]]:
        """The static index of the Ref that it is, and its operands."""
        raise UnsupportedError(f"a Ref seen as {self.dtype} is copied or forwarded unchanged", "give the Ref itself")

    @abstractmethod
    def read(self, mask: Any = None, other: Any = None) -> Any:
        """The array in it."""

    @abstractmethod
    def swap(self, value: Any, mask: Any = None) -> Any:
        """Store an array in it; gives what was there."""

    def describe(self) -> str:
        return f"a part of a Ref, of {self.dtype} and shape {self.shape},"

    def bitcast(self, dtype: DTypeLike) -> Part:
        """Its bits as another dtype. Of a wider one: elements that follow along the last axis but one make one, the
        first in the lowest bits; of a narrower one: each is taken apart so. Raises `UnsupportedError` where these axes
        are not there."""
        return Bitcast.of(self, as_dtype(dtype))

    def __getitem__(self, key: Index) -> Any:
        return self.part(key).read()

    def __setitem__(self, key: Index, value: Operand) -> None:
        self.part(key).swap(value)


class RefView(Part):
    """Part of a Ref: what `ref.at[...]` gives. Reads and writes go to the Ref."""

    __slots__ = ("ref", "entries")
    ref: Any
    entries: list[Resolved]

    def __init__(self, ref: RefTracer, entries: Sequence[Resolved]):
        self.ref, self.entries = ref, list(entries)

    @property
    def shape(self) -> Shape:
        return access_shape(self.index(masked=True)[0])

    @property
    def dtype(self) -> Any:
        return self.ref.dtype

    def part(self, key: Index) -> RefView:
        return self if key is Ellipsis else RefView(self.ref, compose(self.entries, resolve(self.shape, key)))

    def index(self, masked: bool = False) -> tuple[Index, list[Any]]:
        """The static index and its operands. Raises `OutOfBoundsError` for a slice past an axis' end without a mask."""
        static: list[Entry] = []
        operands = []
        for entry in self.entries:
            if entry.outside and not masked:
                raise entry.outside
            known = is_static(entry.start) and not entry.outside
            if entry.size is not None:
                if not is_static(entry.size):
                    raise ArgumentTypeError("a slice of a Ref has a traced size, and is not only copied",
                                            "copy it, `async_copy` or `sync_copy`; or take the most that it may "
                                            "be, and a mask")  # fmt: skip
                static.append(Span(entry.start if known else None, entry.size, entry.stride))
            elif known or not shape_of(entry.start):
                static.append(Point(entry.start if known else None))
            else:
                static.append(Take(shape_of(entry.start)))
            if not known:
                operands.append(np.int32(entry.start) if entry.outside else entry.start)
        return Index(static), operands

    def read(self, mask: Any = None, other: Any = None) -> Any:
        index, operands = self.index(mask is not None)
        if mask is not None:
            operands.append(_fit(mask, access_shape(index), "mask"))
            if other is not None:
                operands.append(_cast(other, self.dtype, "other"))
        elif other is not None:
            raise ArgumentTypeError("load: `other` is given without a mask", "give the mask that selects it")
        return get_p.bind(self.ref, *operands, index=index, masked=mask is not None)

    def swap(self, value: ArrayLike, mask: ArrayLike | None = None) -> Any:
        index, value, operands = store_operands(self, value, mask)
        return swap_p.bind(self.ref, value, *operands, index=index, masked=mask is not None)

    @property
    def T(self) -> Turned:
        return self.transpose((1, 0))

    def transpose(self, permutation: Sequence[int]) -> Any:
        """The part of two axes with its axes exchanged, as an operand of a product; errors as `Turned`."""
        return self if tuple(permutation) == (0, 1) else Turned(self, tuple(permutation))

    def reshape(self, *shape: Any) -> Folded:
        """The same elements, in row-major order, seen in another shape; a size of -1 is what the others leave."""
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        known = math.prod(n for n in sizes if n != -1)
        count = math.prod(self.shape)
        found = tuple(int(count // max(known, 1) if n == -1 else n) for n in sizes)
        if math.prod(found) != count or sum(n == -1 for n in sizes) > 1:
            raise ShapeError(f"a part of a Ref of shape {self.shape} is reshaped to {sizes}",
                             f"give a shape of {plural(count, 'element')}")  # fmt: skip
        return Folded(self.ref, self.entries, found)


class Folded(RefView):
    """A part of a Ref seen in another shape: what `reshape` gives."""

    __slots__ = ("folded",)

    def __init__(self, ref: RefTracer, entries: Sequence[Resolved], folded: Shape):
        super().__init__(ref, entries)
        self.folded: Shape = folded

    @property
    def shape(self) -> Shape:
        return self.folded

    @property
    def _box(self) -> RefView:
        return RefView(self.ref, self.entries)

    def part(self, key: Index) -> Folded:
        box, entries = self._box.shape, resolve(self.folded, key)
        for entry in entries:
            if entry.outside:
                raise entry.outside
        found = unfolded(box, self.folded, entries)
        if found is None:
            raise UnsupportedError(
                f"a Ref of shape {box}, seen as {self.folded}, is indexed with {key!r}: these are no spans of its axes",
                "index the Ref before it is reshaped, or read it and reshape the array")  # fmt: skip
        return Folded(self.ref, compose(self.entries, found), tuple(e.size for e in entries if e.size is not None))

    def index(self, masked: bool = False) -> tuple[Index, list[Any]]:
        """As that of a part, if only axes of one position are gone."""
        entries, left = [], list(self.folded)
        for entry in self.entries:
            if left and entry.size == left[0]:
                left.pop(0)
            elif entry.size == 1:
                entry = Resolved(entry.start)
            entries.append(entry)
        found = RefView(self.ref, entries).index(masked)
        if access_shape(found[0]) != self.folded:
            raise UnsupportedError(
                f"a Ref of shape {self._box.shape}, seen as {self.folded}, is copied or forwarded unchanged",
                "give the Ref itself, not reshaped")  # fmt: skip
        return found

    def read(self, mask: Any = None, other: Any = None) -> Any:
        box = self._box
        return reshape(box.read(self._mask(mask, box.shape), other), self.folded)

    def swap(self, value: ArrayLike, mask: Any = None) -> Any:
        box = self._box
        value = reshape(_fit(_cast(value, self.dtype, "value"), self.folded, "value"), box.shape)
        return reshape(box.swap(value, self._mask(mask, box.shape)), self.folded)

    def _mask(self, mask: Any, box: Shape) -> Any:
        return None if mask is None else reshape(_fit(mask, self.folded, "mask"), box)


class Bitcast(Part):
    """The bits of a part of a Ref as another dtype; `parts` are what is put together, from the lowest bits up."""

    __slots__ = ("parts", "dtype")
    parts: tuple[Part, ...]
    dtype: Any

    def __init__(self, parts: Sequence[Part], dtype: Dtype):
        self.parts, self.dtype = tuple(parts), dtype

    @classmethod
    def of(cls, target: Part, dtype: np.dtype) -> Part:
        old, new = itemsize_bits(target.dtype), itemsize_bits(dtype)
        if old == new:
            return cls([target], dtype)
        count = new // old
        if target.ndim < 2 or (count and target.shape[-2] % count):
            raise UnsupportedError(
                f"a Ref of {target.dtype} and shape {target.shape} is seen as {dtype}",
                f"it must have two axes, and the last but one a multiple of {max(count, 1)}")  # fmt: skip
        if new < old:
            return Narrow(target, dtype)
        rows = target.shape[-2] // count
        return cls([target.part((..., dslice(j, rows, count), slice(None))) for j in range(count)], dtype)

    @property
    def shape(self) -> Shape:
        return self.parts[0].shape

    def part(self, key: Index) -> Bitcast:
        return Bitcast([p.part(key) for p in self.parts], self.dtype)

    def read(self, mask: Any = None, other: Any = None) -> Any:
        if other is not None:
            raise UnsupportedError("load: `other` is given for a Ref seen as another dtype", "choose with `where`")
        return joined([p.read(mask) for p in self.parts], self.dtype)

    def swap(self, value: ArrayLike, mask: Any = None) -> Any:
        value = _fit(_cast(value, self.dtype, "value"), self.shape, "value")
        return joined([p.swap(piece(value, j, p.dtype), mask) for j, p in enumerate(self.parts)], self.dtype)


class Narrow(Part):
    """The bits of a part of a Ref as a narrower dtype, each element as several along the last axis but one, the lowest
    bits first. `place`: of each only the one that is so many of them up; None: all."""

    __slots__ = ("target", "dtype", "place")
    target: Part
    place: int | None
    dtype: Any

    def __init__(self, target: Part, dtype: Dtype, place: int | None = None):
        self.target, self.dtype, self.place = target, dtype, place

    @property
    def count(self) -> int:
        return itemsize_bits(self.target.dtype) // itemsize_bits(self.dtype)

    @property
    def shape(self) -> Shape:
        if self.place is not None:
            return self.target.shape
        *lead, rows, columns = self.target.shape
        return (*lead, rows * self.count, columns)

    def part(self, key: Index) -> Narrow:
        if self.place is not None:
            return Narrow(self.target.part(key), self.dtype, self.place)
        entries = resolve(self.shape, key)
        for entry in entries:
            if entry.outside is not None:
                raise entry.outside
        keys = [e.start if e.size is None else dslice(e.start, e.size, e.stride) for e in entries]
        row, count, place = entries[-2], self.count, None
        size: Any = row.size
        whole = is_static(row.start) and is_static(size) and row.start % count == 0 == size % count
        if is_static(row.start) and size is None:
            keys[-2], place = row.start // count, row.start % count
        elif whole and row.stride == 1 and entries[-1].size is not None:
            keys[-2] = dslice(row.start // count, size // count)
        else:
            raise UnsupportedError(
                f"a Ref of {self.target.dtype} seen as {self.dtype} is indexed along its last axis but one",
                f"name one row by a Python integer, or a slice whose start and size are multiples of {count}; or index "
                "the Ref before it is seen so")  # fmt: skip
        return Narrow(self.target.part(tuple(keys)), self.dtype, place)

    def _seen(self, words: Array) -> Any:
        return apart(words, self.dtype) if self.place is None else piece(words, self.place, self.dtype)

    def _unmasked(self, mask: Any) -> None:
        if mask is not None:
            raise UnsupportedError(f"a mask for a Ref of {self.target.dtype} seen as {self.dtype}",
                                   "read it all, choose with `where`, and store it all")  # fmt: skip

    def read(self, mask: Any = None, other: Any = None) -> Any:
        self._unmasked(mask)
        return self._seen(self.target.read())

    def swap(self, value: ArrayLike, mask: Any = None) -> Any:
        self._unmasked(mask)
        value = _fit(_cast(value, self.dtype, "value"), self.shape, "value")
        bits = bitcast_convert_type(value, unsigned(self.dtype))
        if self.place is None:
            parts = rows_of(bits, self.count)
        else:
            words = self.target.read()
            parts = [bits if j == self.place else piece(words, j, typeof(bits).dtype) for j in range(self.count)]
        return self._seen(self.target.swap(joined(parts, self.target.dtype)))


class Turned:
    """A part of a Ref of two axes with its axes exchanged: what products of matrices in memory take."""

    __slots__ = ("target",)

    def __init__(self, target: RefView, permutation: tuple[int, ...]):
        if permutation != (1, 0) or len(target.shape) != 2:
            raise ShapeError(f"a Ref of shape {target.shape} is transposed by {permutation}",
                             "exchange the axes of a Ref of two, (1, 0); or read it first")  # fmt: skip
        self.target: RefView = target

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

    def __init__(self, target: RefTracer | RefView):
        self.target = target

    def __getitem__(self, key: Any) -> RefView:
        return view(self.target, key)

def view(target: RefTracer, key: Index = Ellipsis) -> Any:
    """The part of a Ref (or of a view) that an index names."""
    if isinstance(target, Part):
        return target.part(key)
    stand_in = getattr(target, "stand_in", None)
    target = target if stand_in is None else stand_in
    if not isinstance(getattr(target, "aval", None), RefType):
        raise ArgumentTypeError(f"{target!r} is not a Ref", "only the Refs of a kernel are loaded from and stored to: "
                                "give the Ref itself, or a part of it, `ref.at[...]`; `ref[...]` reads")  # fmt: skip
    return RefView(target, resolve(target.aval.shape, key))


def read(target: Part, mask: Any = None, other: Any = None) -> Any:
    """The array in part of a Ref."""
    return target.read(mask, other)


def store_operands(target: RefView, value: ArrayLike, mask: Any = None) -> tuple[Index, Any, list[Any]]:
    """What an access that takes a value binds: the index, the value as the Ref holds it, and the further operands."""
    index, operands = target.index(mask is not None)
    if mask is not None:
        operands.append(_fit(mask, access_shape(index), "mask"))
    return index, _fit(_cast(value, target.dtype, "value"), access_shape(index), "value"), operands


def swap(target: Part, value: ArrayLike, mask: Any = None) -> Any:
    """Store an array in part of a Ref; gives what was there."""
    return target.swap(value, mask)


def write(target: Part, value: ArrayLike, mask: ArrayLike | None = None) -> None:
    """Store an array in part of a Ref."""
    target.swap(value, mask)


def addupdate(target: RefView, value: ArrayLike, mask: Any = None) -> None:
    """Add an array to part of a Ref; positions named twice are added to twice."""
    index, value, operands = store_operands(target, value, mask)
    addupdate_p.bind(target.ref, value, *operands, index=index, masked=mask is not None)


def _cast(value: Array, dtype: np.dtype[Any], name: str) -> Any:
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
            f"a {name} of type {type_.show()} is stored in a Ref of {dtype}", f"cast it: `.astype('{dtype}')`"
        )
    if type(value) in (bool, int, float, complex):
        return np.asarray(value).astype(dtype)[()]
    return convert_element_type(value, dtype)


def _fit(value: Array, shape: Shape, name: str) -> Any:
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


class RefTracer(_Unread, ProgramTracer):
    """A Ref in code being traced: indexing reads it, assignment to an index writes it."""

    __slots__ = ()
    __hash__ = None
    is_mutable_ref = True

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

    def __getitem__(self, key: Index) -> Any:
        return read(view(self, key))

    def __setitem__(self, key: Index, value: Array) -> None:
        write(view(self, key), value)

    def get(self, idx: Index = Ellipsis) -> Any:
        """The array in part of it."""
        return read(view(self, idx))

    def set(self, value: ArrayLike, idx: Index = Ellipsis) -> None:
        """Store an array in part of it."""
        write(view(self, idx), value)

    def swap(self, value: ArrayLike, idx: Index = Ellipsis) -> Any:
        """Store an array in part of it; gives what was there."""
        return swap(view(self, idx), value)

    def addupdate(self, value: ArrayLike, idx: Index = Ellipsis) -> None:
        """Add an array to part of it."""
        addupdate(view(self, idx), value)

    def reshape(self, *shape: Any) -> Folded:
        """The same elements in another shape; errors as `RefView.reshape`."""
        return view(self).reshape(*shape)

    def bitcast(self, dtype: DTypeLike) -> Part:
        """Its bits as another dtype; errors as `Bitcast`."""
        return view(self).bitcast(dtype)

    def describe(self) -> str:
        return f"a Ref of {self.aval.array.show()}"

    def __repr__(self) -> str:
        return self.aval.show()

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


AnyRef = RefTracer | RefView  # a Ref in the body of a kernel, or a part of one
TRACERS[RefType] = RefTracer
