"""Refs: mutable blocks of memory, read by `get`, written by `swap`, added to by `addupdate`.

An access names one entry per axis of the Ref:

    Index ::= Point(start)              one position; the axis goes away
            | Span(start, size, stride) `size` indices
            | Take(shape)               indices from an integer array operand

A `start` of None is a scalar operand. Operands are `ref, [value], dynamic entries in axis order,
[mask, [other]]`. Results are laid out as by NumPy (a Point beside a Take counts as a Take). Masked-out
elements are not touched: a read gives `other` there (unspecified where none is given), a write keeps
what was there. In NumPy a Ref is an array that is written in place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import EFFECT, FREE
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.program import Effects, accumulates, reads, writes
from ...ir.types import ArrayType, RefType, Type, is_bool, is_inexact, is_integer
from ...support.errors import DifferentiationError, KernelBodyError, OutOfBoundsError, ShapeError
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import instantiate
from ...transforms.structural_primitives import moveaxis, moved
from ..elementwise.arithmetic import add_p, mul_p
from ..elementwise.comparison import select_n_p
from ..movement.shape import broadcast_in_dim_p, iota_p

if TYPE_CHECKING:
    from .ref_views import AnyRef

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One position along an axis; `start` None: a scalar operand."""

    start: int | None
    size: ClassVar[int] = 1
    stride: ClassVar[int] = 1

    def __str__(self) -> str:
        return "?" if self.start is None else str(self.start)


@dataclass(frozen=True, slots=True)
class Span:
    """`size` indices along an axis from `start`, with a stride."""

    start: int | None
    size: int
    stride: int = 1

    def __str__(self) -> str:
        start = "?" if self.start is None else self.start
        return f"{start}:+{self.size}" + (f":{self.stride}" if self.stride != 1 else "")


@dataclass(frozen=True, slots=True)
class Take:
    """Positions along an axis given by an integer array operand of this shape."""

    shape: Shape
    start: ClassVar[None] = None
    size: ClassVar[int] = 1
    stride: ClassVar[int] = 1

    def __str__(self) -> str:
        return f"take{list(self.shape)}"


Entry = Point | Span | Take


class Index(tuple[Entry, ...]):
    """The static part of an access: one entry per axis."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self))}]"

    @property
    def dynamic(self) -> list[int]:
        """The axes whose entry takes an operand."""
        return [i for i, e in enumerate(self) if e.start is None]

    @property
    def takes(self) -> bool:
        """Whether an entry is an array of indices."""
        return any(type(e) is Take for e in self)

    def picked(self) -> tuple[Shape, int]:
        """The broadcast shape of the index arrays, and its place among the axes of the result."""
        if not self.takes:
            return (), 0
        others = [i for i, e in enumerate(self) if type(e) is not Span]
        together = others[-1] - others[0] < len(others)
        return np.broadcast_shapes(*(e.shape for e in self if type(e) is Take)), others[0] if together else 0

    def axes(self) -> list[tuple[int, ...]]:
        """For each entry the axes of what is read that it makes, placed as NumPy places them."""
        picked, first = self.picked()
        end = first + len(picked)
        spans = itertools.chain(range(first), itertools.count(end))
        return [(next(spans),) if type(e) is Span else tuple(range(end - len(e.shape), end)) if type(e) is Take else ()
                for e in self]  # fmt: skip

    def is_whole(self, shape: Shape) -> bool:
        """Whether the access covers a Ref of this shape, in order."""
        return all(type(e) is Span and e.start == 0 and e.size == d and e.stride == 1
                   for e, d in zip(self, shape, strict=True))  # fmt: skip


def whole(shape: Shape) -> Index:
    """The index of everything."""
    return Index(Span(0, d) for d in shape)


def access_shape(index: Index) -> Shape:
    """The shape of what an access reads, axes placed as NumPy places them."""
    sizes = [e.size for e in index if type(e) is Span]
    picked, first = index.picked()
    return (*sizes[:first], *picked, *sizes[first:])


def split_operands(index: Index, operands: Sequence[Any], masked: bool) -> tuple[list[Any], Any, Any]:
    """The operands after the ref and value, as dynamic entries, mask and other (None where absent)."""
    n = len(index.dynamic)
    rest = list(operands[n:])
    return list(operands[:n]), (rest.pop(0) if masked else None), (rest.pop(0) if rest else None)


# ---------------------------------------------------------------------------- typing


def _array(ref: Type, name: str) -> ArrayType:
    """The array type of a Ref operand. (The NumPy evaluator passes the array itself.)"""
    if isinstance(ref, RefType):
        return ref.array
    if isinstance(ref, ArrayType):
        return ref
    raise KernelBodyError(f"{name}: {ref} is not a Ref", "index a Ref that the kernel was given")


def _check_operands(name: str, ref: ArrayType, index: Index, rest: Sequence[ArrayType], masked: bool) -> Shape:
    if len(index) != ref.ndim:
        raise ShapeError(f"{name}: {len(index)} index entries for a Ref of {ref.show()}", "give one entry per axis")
    dynamic, mask, other = split_operands(index, rest, masked)
    for axis, type_ in zip(index.dynamic, dynamic, strict=True):
        if not is_integer(type_.dtype) or (type(index[axis]) is not Take and type_.shape):
            raise ShapeError(f"{name}: the index along axis {axis} is {type_.show()}", "index with integers")
    shape = access_shape(index)
    if mask is not None and (not is_bool(mask.dtype) or mask.shape != shape):
        raise ShapeError(
            f"{name}: the mask is {mask.show()}, the access has shape {shape}", "give one boolean per element"
        )
    if other is not None and (other.dtype != ref.dtype or other.shape not in ((), shape)):
        raise ShapeError(f"{name}: `other` is {other.show()}, the access is {ref.with_shape(shape).show()}")
    return shape


def _get_typing(ref: Type, *rest: Any, index: Index, masked: bool = False) -> ArrayType:
    array = _array(ref, "get")
    return ArrayType(_check_operands("get", array, index, rest, masked), array.dtype)


def _stored(name: str, ref: Type, value: ArrayType, rest: Sequence[Any], index: Index, masked: bool) -> ArrayType:
    array = _array(ref, name)
    out = ArrayType(_check_operands(name, array, index, rest, masked), array.dtype)
    if value.shape != out.shape or value.dtype != out.dtype:
        raise ShapeError(f"{name}: a value of type {value.show()} is stored where the Ref has {out.show()}")
    return out


def _swap_typing(ref: Type, value: ArrayType, *rest: Any, index: Index, masked: bool = False) -> ArrayType:
    return _stored("swap", ref, value, rest, index, masked)


def _addupdate_typing(ref: Type, value: ArrayType, *rest: Any, index: Index, masked: bool = False) -> list[Any]:
    _stored("addupdate", ref, value, rest, index, masked)
    return []


# ---------------------------------------------------------------------------- meaning in NumPy


def numpy_index(index: Index, dynamic: Sequence[Any], shape: Shape, clip: bool, name: str) -> tuple[Any, ...]:
    """An access as NumPy's own index: slices where nothing is clipped, else broadcastable position arrays."""
    given = iter(dynamic)
    starts = [next(given) if e.start is None else e.start for e in index]
    axes = [*enumerate(zip(index, starts, shape, strict=True))]
    if not (clip or index.takes):
        return tuple(_place(entry, int(start), size, (name, axis, shape)) for axis, (entry, start, size) in axes)
    positions: list[Any] = []
    for axis, (entry, start, size) in axes:
        found = np.asarray(start)
        if type(entry) is Span:
            found = int(found) + np.arange(entry.size) * entry.stride
        outside = np.atleast_1d(found)[np.atleast_1d((found < 0) | (found >= size))]
        if outside.size and not clip:
            raise _outside(int(outside[0]), name, axis, shape)
        positions.append(np.clip(found, 0, max(size - 1, 0)))
    return _open(index, positions)


def _place(entry: Entry, start: int, size: int, where: tuple[str, int, Shape]) -> slice | int:
    """An entry from `start` on as NumPy's own, within an axis of some size."""
    count, stride = entry.size, entry.stride
    last = start + (count - 1) * stride
    if count and (start < 0 or last >= size):
        skipped = 0 if start < 0 else max(0, -((start - size) // stride))
        raise _outside(start + skipped * stride, *where)
    if type(entry) is Point:
        return start
    return slice(start, last + 1, stride) if count else slice(0, 0)


def _outside(place: int, name: str, axis: int, shape: Shape) -> OutOfBoundsError:
    return OutOfBoundsError(
        f"{name}: index {place} along axis {axis} of a Ref of shape {shape}",
        "mask the access, or keep it within the block")  # fmt: skip


def _open(index: Index, positions: Sequence[Any]) -> tuple[Any, ...]:
    """Position arrays of every axis, shaped so that they broadcast to the shape of the access."""
    others = [set(range(len(access_shape(index)))).difference(axes) for axes in index.axes()]
    return tuple(np.broadcast_arrays(*(np.expand_dims(p, tuple(more)) for p, more in zip(positions, others))))


def _get_numpy(ref: Operand, *rest: Any, index: Index, masked: bool = False) -> Any:
    dynamic, mask, other = split_operands(index, rest, masked)
    place = numpy_index(index, dynamic, ref.shape, masked, "get")
    found = np.array(ref[place])
    if mask is None:
        return found
    return np.where(mask, found, np.zeros((), ref.dtype) if other is None else other)


def _swap_numpy(ref: Operand, value: Operand, *rest: Any, index: Index, masked: bool = False) -> Any:
    dynamic, mask, _ = split_operands(index, rest, masked)
    place = numpy_index(index, dynamic, ref.shape, masked, "swap")
    old = np.array(ref[place])
    if mask is None:
        ref[place] = value
    else:
        ref[tuple(p[mask] for p in place)] = value[mask]
        old = np.where(mask, old, value)
    return old


def _addupdate_numpy(ref: Operand, value: Operand, *rest: Any, index: Index, masked: bool = False) -> Any:
    dynamic, mask, _ = split_operands(index, rest, masked)
    place = numpy_index(index, dynamic, ref.shape, masked, "addupdate")
    if mask is not None:
        np.add.at(ref, tuple(p[mask] for p in place), value[mask])
    elif index.takes:
        np.add.at(ref, place, value)
    else:
        ref[place] += value
    return []


# ---------------------------------------------------------------------------- derivatives


def _no_tangent_ref(name: str) -> DifferentiationError:
    return DifferentiationError(
        f"{name}: a differentiated value is written to a Ref that carries no derivative",
        "write it to an output or scratch of the kernel, or apply `stop_gradient` to it")  # fmt: skip


def _index_operands(rest: Sequence[Any], index: Index, masked: bool) -> list[Any]:
    """The operands of an access without `other`."""
    return list(rest[: len(index.dynamic) + masked])


def _get_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, index: Index, masked: bool = False) -> Any:
    out = get_p.bind(*primals, index=index, masked=masked)
    ref_t, other_t = tangents[0], tangents[-1]
    has_other = len(primals) - 1 > len(index.dynamic) + masked
    if type(ref_t) is Zero or not is_inexact(typeof(out).dtype):
        if has_other and type(other_t) is not Zero:
            raise _no_tangent_ref("get")
        return out, Zero(typeof(out).tangent())
    operands = _index_operands(primals[1:], index, masked)
    if has_other:
        operands.append(instantiate(other_t))
    elif masked:
        operands.append(np.zeros((), typeof(out).dtype)[()])
    return out, get_p.bind(ref_t, *operands, index=index, masked=masked)


def _swap_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, index: Index, masked: bool = False) -> Any:
    out = swap_p.bind(*primals, index=index, masked=masked)
    if type(tangents[0]) is Zero:
        if type(tangents[1]) is not Zero:
            raise _no_tangent_ref("swap")
        return out, Zero(typeof(out).tangent())
    operands = _index_operands(primals[2:], index, masked)
    return out, swap_p.bind(tangents[0], instantiate(tangents[1]), *operands, index=index, masked=masked)


def _addupdate_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, index: Index, masked: bool = False) -> Any:
    addupdate_p.bind(*primals, index=index, masked=masked)
    if type(tangents[1]) is not Zero:
        if type(tangents[0]) is Zero:
            raise _no_tangent_ref("addupdate")
        operands = _index_operands(primals[2:], index, masked)
        addupdate_p.bind(tangents[0], tangents[1], *operands, index=index, masked=masked)
    return [], []


def transpose_access(
    primitive: Primitive, ct: ArrayLike | Zero | None, ref: AnyRef, args: Sequence[Any], params: dict[str, Any]
) -> Any:
    """One recorded linear access run backwards on the Ref of cotangents `ref`; gives the value's cotangent.

    `y = ref[i]` becomes `ref[i] += ct`; `ref[i] += u` gives `ref[i]`; `y = swap(ref[i], v)` gives
    `swap(ref[i], ct)`, so that an overwriting store ends what earlier writes are due. `args` are the
    operands after the ref and value.
    """
    index, masked = params["index"], params.get("masked", False)
    operands = _index_operands(args, index, masked)
    if primitive is get_p:
        if type(ct) is not Zero:
            addupdate_p.bind(ref, ct, *operands, index=index, masked=masked)
        return None
    zero = [np.zeros((), typeof(ref).dtype)[()]] if masked else []
    if primitive is addupdate_p:
        return get_p.bind(ref, *operands, *zero, index=index, masked=masked)
    found = swap_p.bind(ref, instantiate(ct), *operands, index=index, masked=masked)
    if masked:
        found = select_n_p.bind(operands[-1], instantiate(Zero(typeof(found))), found)
    return found


def _transpose(ct: Any, ref: Any, *args: Any, **params: Any) -> Any:
    if isinstance(ref, Linear):
        raise DifferentiationError(
            "a Ref was transposed outside a kernel", "differentiate the `kernel_call`, not a function of Refs"
        )
    raise DifferentiationError("an access with a known Ref is not linear")


# ---------------------------------------------------------------------------- batching


def _batched_index(
    axis: AxisInfo, index: Index, dynamic: Sequence[Any], dims: Sequence[Any], shape: Shape
) -> tuple[Index, list[Any]]:
    """An index with batched entries as one with the batch axis leading, every entry a Take."""
    out_shape = (axis.size, *shape)
    given = iter(zip(dynamic, dims, strict=True))
    entries: list[Any] = []
    for entry, axes in zip(index, index.axes(), strict=True):
        if entry.start is None:
            value, dim = next(given)
        else:
            value, dim = np.int32(entry.start), None
        value = moved(axis, value, dim, 0)
        places = (0, *(1 + a for a in axes)) if type(entry) is Take else (0,)
        value = broadcast_in_dim_p.bind(value, shape=out_shape, broadcast_dimensions=places)
        if type(entry) is Span:
            dtype = typeof(value).dtype
            steps = iota_p.bind(dtype=dtype, shape=out_shape, dimension=1 + axes[0])
            value = add_p.bind(value, mul_p.bind(steps, np.asarray(entry.stride, dtype)[()]))
        entries.append(value)
    return Index(Take(out_shape) for _ in entries), entries


def _access_batch(primitive: Primitive, n_values: int) -> Callable[..., Any]:
    """The batch rule of an access with `n_values` value operands after the ref."""

    def rule(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, index: Index, masked: bool = False) -> Any:
        ref, values, rest = args[0], list(args[1 : 1 + n_values]), list(args[1 + n_values :])
        value_dims, rest_dims = list(dims[1 : 1 + n_values]), list(dims[1 + n_values :])
        shape = access_shape(index)
        n = len(index.dynamic)
        indexed = any(d is not None for d in rest_dims[:n])
        if dims[0] is None and not indexed and n_values:
            raise KernelBodyError(
                f"{primitive}: a batched value is stored in a Ref that is not batched",
                "store outside the `vmap`, or index the Ref with the mapped value")  # fmt: skip
        extra = [
            moved(axis, x, d, 0) if shape_of(x) != () or d is not None else x
            for x, d in zip(rest[n:], rest_dims[n:], strict=True)
        ]
        extra = [_spread_scalars(x, (axis.size, *shape)) for x in extra]
        values = [moved(axis, x, d, 0) for x, d in zip(values, value_dims, strict=True)]
        if dims[0] is not None:
            # The Ref has the batch axis too: read along it in step with the rest.
            if indexed or index.takes:
                index, entries = _batched_index(axis, index, rest[:n], rest_dims[:n], shape)
                steps = iota_p.bind(dtype=np.dtype(np.int32), shape=(axis.size, *shape), dimension=0)
                entries.insert(dims[0], steps)
                index = Index((*index, Take((axis.size, *shape))))
            else:
                entries = rest[:n]
                index = Index((*index[: dims[0]], Span(0, axis.size), *index[dims[0] :]))
                return _whole_batch(primitive, ref, values, entries, extra, index, dims[0], masked)
        elif indexed:
            index, entries = _batched_index(axis, index, rest[:n], rest_dims[:n], shape)
        else:
            entries = rest[:n]
            masks = [x for x in extra]
            index, entries = _batched_index(axis, index, entries, [None] * n, shape) if masks else (index, entries)
        out = primitive.bind(ref, *values, *entries, *extra, index=index, masked=masked)
        return (out, []) if primitive.multiple else (out, 0)

    return rule


def _spread_scalars(x: Array, shape: Shape) -> Any:
    found = shape_of(x)
    if found == () or found == shape:
        return x
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=(0,))


def _whole_batch(primitive: Primitive, ref: Any, values: Any, entries: Any, extra: Any, index: Index, axis: int,
                 masked: bool) -> Any:  # fmt: skip
    """An access of static layout on a Ref batched along `axis`: one more Span, put where the access has it."""
    at = sum(type(e) is Span for e in index[:axis])
    values = [moveaxis(v, 0, at) for v in values]
    extra = [x if shape_of(x) == () else moveaxis(x, 0, at) for x in extra]
    out = primitive.bind(ref, *values, *entries, *extra, index=index, masked=masked)
    return (out, []) if primitive.multiple else (out, at)


def _effect(kind: Callable[[int], Any]) -> Callable[..., Effects]:
    found = frozenset({kind(0)})
    return lambda *types, **params: found


get_p: Primitive = Primitive(
    "get", _get_typing, jvp=_get_jvp, transpose=_transpose, effects=_effect(reads), numpy=_get_numpy,
    work=FREE, kind=EFFECT,
    batch=lambda *args, **params: _access_batch(get_p, 0)(*args, **params),
)  # fmt: skip
swap_p: Primitive = Primitive(
    "swap", _swap_typing, jvp=_swap_jvp, transpose=_transpose, effects=_effect(writes), numpy=_swap_numpy,
    work=FREE, kind=EFFECT,
    batch=lambda *args, **params: _access_batch(swap_p, 1)(*args, **params),
)  # fmt: skip
addupdate_p: Primitive = Primitive(
    "addupdate", _addupdate_typing, jvp=_addupdate_jvp, transpose=_transpose, effects=_effect(accumulates),
    work=FREE, kind=EFFECT,
    numpy=_addupdate_numpy, batch=lambda *args, **params: _access_batch(addupdate_p, 1)(*args, **params), multiple=True,
)  # fmt: skip
PRIMITIVES: tuple[Primitive, ...] = (get_p, swap_p, addupdate_p)
