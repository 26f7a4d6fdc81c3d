"""The types of the IR.

    Type ::= ArrayType(shape, dtype, weak_type) | RefType(ArrayType, space) | OpaqueType
    (core/ir/extension_types.py)

A dtype is a NumPy dtype or a `KeyDtype` (an opaque random key). Types are interned, so equal types
are one object and comparing them is comparing addresses.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from ..support.config import current
from ..support.errors import ArgumentTypeError, DtypeError, IntegerOverflowError, KernelBodyError
from ..support.memo import cached
from ..support.runtime import InternTable, runtime

if TYPE_CHECKING:
    from ..sharding.mesh import AbstractMesh, Mesh, NamedSharding, PartitionSpec
    from .array import DTypeLike, Operand

Shape = tuple[int, ...]


class extended(np.generic):
    """The abstract kind of the dtypes that no number has."""


class prng_key(extended):
    """The abstract kind of the dtypes of random keys."""


class KeyDtype:
    """The dtype of random keys of one generator; its values are opaque, `words` uint32 each.

    The NumPy evaluator holds keys in arrays of the structured dtype `storage`.
    """

    __slots__ = ("generator", "words", "storage")
    kind = "V"
    itemsize = 8
    type = prng_key

    generator: str
    words: int
    storage: np.dtype[Any]

    def __init__(self, generator: str, words: int):
        self.generator, self.words = generator, words
        self.storage = np.dtype([(generator, np.uint32, (words,))])

    @property
    def name(self) -> str:
        return f"key<{self.generator}>"

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return (_key_dtype, (self.generator,))


THREEFRY = KeyDtype("fry", 2)
RBG, UNSAFE_RBG, PHILOX = KeyDtype("rbg", 4), KeyDtype("urbg", 4), KeyDtype("philox", 2)
KEY_DTYPES = {dtype.generator: dtype for dtype in (THREEFRY, RBG, UNSAFE_RBG, PHILOX)}
_STORED: dict[Any, Any] = {key.storage: key for key in KEY_DTYPES.values()}


def _key_dtype(name: str) -> KeyDtype:
    return KEY_DTYPES[name]


Dtype = Any  # np.dtype | KeyDtype, which NumPy's own annotations do not take

_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "int2", "uint2")
# Formats for storage, of which arrays are made, converted and multiplied.
RARE_FLOATS = (
    "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu",
)  # fmt: skip
_NAMED = {name: np.dtype(getattr(ml_dtypes, name)) for name in (*_FLOATS, *RARE_FLOATS)}
bfloat16: np.dtype[Any]
float8_e4m3fn: np.dtype[Any]
float8_e5m2: np.dtype[Any]
int4: np.dtype[Any]
uint4: np.dtype[Any]
int2: np.dtype[Any]
uint2: np.dtype[Any]
bfloat16, float8_e4m3fn, float8_e5m2, int4, uint4, int2, uint2 = (_NAMED[name] for name in _FLOATS)
FLOAT0 = np.dtype([("float0", np.void, 0)])  # the type of the tangents of integers

BOOL = np.dtype(bool)
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
UINT32 = np.dtype(np.uint32)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

_CANONICAL: dict[Any, Any] = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_PYTHON = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128)}


def as_dtype(dtype: DTypeLike) -> Dtype:
    """Any spelling of a dtype as a dtype, without narrowing 64-bit ones."""
    if type(dtype) is KeyDtype:
        return dtype
    if isinstance(dtype, str) and dtype in _NAMED:
        return _NAMED[dtype]
    try:
        found = np.dtype(getattr(dtype, "dtype", dtype) if not isinstance(dtype, type) else dtype)
    except TypeError:
        raise DtypeError(
            f"{dtype!r} is not a dtype", "name one, such as 'float32', 'bfloat16' or `numpy.int8`"
        ) from None
    if found.subdtype is not None:
        raise DtypeError(f"{dtype!r} is a dtype of elements with axes of their own", "add the axes to the shape")
    return _STORED.get(found, found) if found.names else found


def canonical_dtype(dtype: DTypeLike) -> Dtype:
    """A dtype as this configuration holds it: 64-bit types become 32-bit unless `enable_x64` is set."""
    if not isinstance(dtype, np.dtype):
        dtype = as_dtype(dtype)
    return dtype if current().enable_x64 else _CANONICAL.get(dtype, dtype)


def is_portable(dtype: DTypeLike) -> bool:
    """Whether arrays of a NumPy dtype have it on a device in every configuration.

    >>> import numpy as np
    >>> is_portable(np.dtype("float32")), is_portable(np.dtype("float64"))
    (True, False)
    """
    return is_known(dtype) and dtype not in _CANONICAL and dtype != FLOAT0


def kind(dtype: Dtype) -> str:
    """One of `bool int uint float complex key float0`."""
    try:
        return _KINDS[dtype]
    except KeyError:
        raise DtypeError(f"there are no arrays of dtype {dtype}", "use numbers or booleans") from None


def is_known(dtype: DTypeLike) -> bool:
    """Whether arrays may have a dtype: not texts, dates, objects, records, floats of 80 bits."""
    return dtype in _KINDS


def itemsize_bits(dtype: DTypeLike) -> int:
    """The bits that an element of a dtype has; those of narrow integers count, not the byte that holds them.

    >>> itemsize_bits("int4"), itemsize_bits("float32")
    (4, 32)
    """
    found = as_dtype(dtype)
    digits = "".join(c for c in str(found) if c.isdigit())
    return int(digits) if str(found).lstrip("u").startswith("int") else 8 * found.itemsize


def _all_kinds() -> dict[Any, str]:
    kinds: dict[Any, str] = {np.dtype(bool): "bool", FLOAT0: "float0"} | dict.fromkeys(KEY_DTYPES.values(), "key")
    for bits in (8, 16, 32, 64):
        kinds[np.dtype(f"int{bits}")], kinds[np.dtype(f"uint{bits}")] = "int", "uint"
    for name, dtype in _NAMED.items():
        kinds[dtype] = "uint" if name.startswith("uint") else "int" if name.startswith("int") else "float"
    kinds |= {np.dtype(t): "float" for t in (np.float16, np.float32, np.float64)}
    return kinds | {np.dtype(t): "complex" for t in (np.complex64, np.complex128)}


_KINDS = _all_kinds()


def is_float(dtype: Dtype) -> bool:
    return _KINDS.get(dtype) == "float"


def is_complex(dtype: Dtype) -> bool:
    return _KINDS.get(dtype) == "complex"


def is_inexact(dtype: Dtype) -> bool:
    return _KINDS.get(dtype) in ("float", "complex")


def is_integer(dtype: Dtype) -> bool:
    return _KINDS.get(dtype) in ("int", "uint")


def is_unsigned(dtype: Dtype) -> bool:
    return _KINDS.get(dtype) == "uint"


def is_bool(dtype: Dtype) -> bool:
    return dtype == BOOL


def is_key(dtype: Dtype) -> bool:
    return type(dtype) is KeyDtype


_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c"}


def short_name(dtype: Dtype) -> str:
    """The dtype as the printer writes it: `f32`, `bf16`, `i8`, `bool`, `key<fry>`."""
    if dtype == bfloat16:
        return "bf16"
    letter = _SHORT.get(_KINDS.get(dtype, ""))
    if letter is None or "float8" in str(dtype) or "float4" in str(dtype):
        return "float0" if dtype == FLOAT0 else str(dtype).replace("float", "f")
    digits = "".join(c for c in str(dtype) if c.isdigit())
    return letter + digits


def as_size(size: Any) -> Any:
    """The size of an axis: a number as Python's, a symbolic one (`core/ir/symbolic`) as it is."""
    return size if getattr(size, "symbolic", False) else operator.index(size)


class ArrayType:
    """An array's shape, dtype, and whether the dtype is weak (taken from a Python scalar). Interned."""

    __slots__ = ("shape", "dtype", "weak_type", "__weakref__")
    shape: Shape
    dtype: Any
    weak_type: bool
    vary: frozenset[Any] = frozenset()  # the axes of a mesh along which devices may have other values: see VaryingType
    _interned: InternTable = runtime.register("types.interned", InternTable())  # types are compared by identity

    def __new__(
        cls, shape: Shape, dtype: Dtype, weak_type: bool = False, *, sharding: Any = None, vma: Any = None,
        memory_space: Any = None, manual_axis_type: Any = None
    ) -> ArrayType:  # fmt: skip
        # What is taken by keyword alone is JAX's; only a sharding over axes of the type `Explicit` is kept.
        if sharding is not None:
            return with_sharding(ArrayType(shape, dtype, weak_type), sharding)
        key = (shape, dtype, weak_type)
        try:
            found = cls._interned[key]()
            if found is not None:
                return found
        except (KeyError, TypeError):
            pass
        shape, dtype = tuple(as_size(d) for d in shape), as_dtype(dtype)
        self = object.__new__(cls)
        self.shape, self.dtype, self.weak_type = full = (shape, dtype, bool(weak_type))
        return cls._interned.intern(full, self)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for d in self.shape:
            size *= d
        return size

    @property
    def symbolic(self) -> bool:
        """Whether a size is not known yet (see `core/ir/symbolic`)."""
        return any([type(d) is not int for d in self.shape])

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Any) -> ArrayType:
        return ArrayType(tuple(shape), self.dtype, self.weak_type)

    def strong(self) -> ArrayType:
        return ArrayType(self.shape, self.dtype) if self.weak_type else self

    def tangent(self) -> ArrayType:
        """The type of a tangent: the same for floats, `float0` for everything else."""
        return self.strong() if is_inexact(self.dtype) else ArrayType(self.shape, FLOAT0)

    def cotangent(self) -> ArrayType:
        """The type of a cotangent: a tangent's, but for the axes of sums (`core/sharding/unreduced_axes.py`)."""
        return self.tangent()

    @property
    def plain(self) -> ArrayType:
        """The type without what it says of a mesh."""
        return self

    @property
    def unvarying(self) -> ArrayType:
        """The type without the axes along which values vary."""
        return self.plain

    def without_axis(self, axis: int, size: int | None = None) -> ArrayType:
        """The type of an element along an axis (of this size, which the type has)."""
        return self.with_shape((*self.shape[:axis], *self.shape[axis + 1 :]))

    def along(self, axis: int) -> Any:
        """The sharding of a single axis, where the type has one."""
        return None

    def with_axis(self, axis: int, size: int, lies: Any = None) -> ArrayType:
        """The type of so many elements along a new axis; `lies` is the sharding of that axis alone."""
        found = self.with_shape((*self.shape[:axis], size, *self.shape[axis:]))
        return found if lies is None else with_sharding(found, lies.with_spec((*(None,) * axis, *lies.spec)))

    def shard(
        self, mesh: AbstractMesh | Mesh, manual_axes: frozenset[Any], check_vma: bool, spec: PartitionSpec
    ) -> ArrayType:
        """The type of a device's part: the axes of the spec divide its shape, and along them devices differ.

        So they do along axes where it is unreduced; and where it is reduced, since cotangents do.
        """
        sizes = zip(self.shape, spec.padded(self.ndim), strict=True)
        shape = tuple([n // mesh.parts(names) for n, names in sizes])
        part = VaryingType(self.plain.with_shape(shape), self.vary | spec.marked.union(spec.axes))
        return self.within(part, manual_axes) if isinstance(self, ShardedType) else part

    def unshard(
        self, mesh: AbstractMesh | Mesh, check_vma: bool, spec: PartitionSpec, manual: Sequence[str] | None = None
    ) -> ArrayType:
        """The type of the whole that such parts make, where the function within saw the axes `manual` (None: all)."""
        sizes = zip(self.shape, spec.padded(self.ndim), strict=True)
        whole = self.plain.with_shape(tuple([n * mesh.parts(names) for n, names in sizes]))
        left = self.vary.difference(mesh.axis_names if manual is None else manual)
        if self.placed is not None:
            spec = spec.with_dims(*[names + rest for names, rest in zip(
                spec.padded(self.ndim), self.placed.spec.padded(self.ndim), strict=True)])  # fmt: skip
        return with_sharding(VaryingType(whole, left), mesh.sharding(spec))

    placed: Any = None  # its sharding along axes of the type `Explicit`: see ShardedType

    @property
    def sharding(self) -> Any:
        """Its sharding along the axes of the current mesh that types carry (`AxisType.Explicit`)."""
        if self.placed is None:
            return runtime.interceptors.sharded_types.whole(self.ndim)
        return self.placed.of_type(self.ndim)

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return f"{short_name(self.dtype) if short_dtypes else self.dtype}[{self._sizes()}]{self._marks()}"

    def _sizes(self) -> str:
        return ",".join(map(str, self.shape))

    def _marks(self) -> str:
        return _marks(V=self.vary)

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """The type's varying axes, over which `shard_map` maps."""
        return ManualAxisType(self.vary)

    def show(self, short: bool = True) -> str:
        return self.str_short(short_dtypes=True)

    def __repr__(self) -> str:
        return f"ArrayType({self.show()}{', weak_type=True' if self.weak_type else ''})"

    def __str__(self) -> str:
        return self.str_short()

    def __reduce__(self) -> Any:
        return (ArrayType, (self.shape, self.dtype, self.weak_type))


def _marks(**marked: frozenset[Any]) -> str:
    """What a type says of axes beside its shape: `{V:x}`, `{U:(x,y), R:z}`."""
    told = [(letter, ",".join(sorted(map(str, axes))), len(axes)) for letter, axes in marked.items() if axes]
    return f"{{{', '.join(f'{m}:({names})' if n > 1 else f'{m}:{names}' for m, names, n in told)}}}" if told else ""


class ManualAxisType(NamedTuple):
    """The axes of a mesh along which values within `shard_map` may differ."""

    varying: frozenset[Any]


class VaryingType(ArrayType):
    """The type of an array on each device of a mesh, whose values may differ along the axes `vary`. Interned."""

    __slots__ = ("vary", "_plain")
    vary: frozenset[Any]

    def __new__(cls, type: ArrayType, vary: frozenset[Any]) -> ArrayType:
        if not vary:
            return type.unvarying if type.vary else type
        plain = type.plain
        if type.placed is not None:
            return ShardedType(VaryingType(plain, vary), type.placed)
        self = object.__new__(cls)
        self.shape, self.dtype, self.weak_type = plain.shape, plain.dtype, plain.weak_type
        self.vary, self._plain = vary, plain
        return cls._interned.intern((plain, vary), self)

    @property
    def plain(self) -> ArrayType:
        return self._plain

    def with_shape(self, shape: Any) -> ArrayType:
        return VaryingType(self._plain.with_shape(shape), self.vary)

    def strong(self) -> ArrayType:
        return VaryingType(self._plain.strong(), self.vary)

    def tangent(self) -> ArrayType:
        return VaryingType(self._plain.tangent(), self.vary)

    def __reduce__(self) -> Any:
        return (VaryingType, (self._plain, self.vary))


class ShardedType(ArrayType):
    """The type of an array that lies on a mesh as `placed` says, along its axes of the type `Explicit`. Interned.

    It splits a dimension at least, or the array is unreduced or reduced along an axis
    (`core/sharding/unreduced_axes.py`); the type of any other array is plain. `core/sharding/mesh.py` makes these.
    Within a `shard_map` over some of the axes its values may vary along these, too.
    """

    __slots__ = ("placed", "vary", "_plain")
    vary: frozenset[Any]

    def __new__(cls, type: ArrayType, placed: NamedSharding) -> ArrayType:
        self = object.__new__(cls)
        self.shape, self.dtype, self.weak_type = type.shape, type.dtype, type.weak_type
        self.placed, self.vary, self._plain = placed, type.vary, type.plain
        return cls._interned.intern((type.plain, placed, type.vary), self)

    @property
    def plain(self) -> ArrayType:
        return self._plain

    @property
    def unvarying(self) -> ArrayType:
        return ShardedType(self._plain, self.placed) if self.vary else self

    def within(self, part: ArrayType, mapped: Any) -> ArrayType:
        """The type of a part within a `shard_map` over some axes: sharded along the others as before."""
        rest = [tuple(n for n in names if n not in mapped) for names in self.placed.spec.padded(self.ndim)]
        return with_sharding(part, self.placed.with_spec(rest).update(mesh=self.placed.mesh.mapped(mapped)))

    @property
    def unplaced(self) -> ArrayType:
        """The type without the sharding."""
        return VaryingType(self._plain, self.vary)

    def _like(self, unplaced: ArrayType, dims: Any) -> ArrayType:
        return with_sharding(unplaced, self.placed.with_spec(self.placed.spec.with_dims(*dims)))

    def with_shape(self, shape: Any) -> ArrayType:
        return self if shape == self.shape else self.unplaced.with_shape(shape)

    def without_axis(self, axis: int, size: Any = None) -> ArrayType:
        dims = self.placed.spec.padded(self.ndim)
        return self._like(self.unplaced.without_axis(axis), (*dims[:axis], *dims[axis + 1 :]))

    def with_axis(self, axis: int, size: Any, lies: Any = None) -> ArrayType:
        dims, names = self.placed.spec.padded(self.ndim), None if lies is None else lies.spec.dims[0]
        return self._like(self.unplaced.with_axis(axis, size), (*dims[:axis], names, *dims[axis:]))

    def along(self, axis: int) -> Any:
        names = self.placed.spec.padded(self.ndim)[axis]
        return self.placed.with_spec((names,)) if names else None

    def strong(self) -> ArrayType:
        return ShardedType(self.unplaced.strong(), self.placed)

    def tangent(self) -> ArrayType:
        found = self.unplaced.tangent()
        return found if found.dtype == FLOAT0 else ShardedType(found, self.placed)

    def cotangent(self) -> ArrayType:
        found = self.unplaced.tangent()
        return found if found.dtype == FLOAT0 else ShardedType(found, self.placed.with_spec(self.placed.spec.dual))

    def _marks(self) -> str:
        return _marks(V=self.vary, U=self.placed.spec.unreduced, R=self.placed.spec.reduced)

    def _sizes(self) -> str:
        dims = self.placed.spec.padded(self.ndim)
        names = ["" if not d else f"@{d[0]}" if len(d) == 1 else f"@({','.join(map(str, d))})" for d in dims]
        return ",".join(f"{size}{name}" for size, name in zip(self.shape, names, strict=True))

    def __reduce__(self) -> Any:
        return (ShardedType, (self.unplaced, self.placed))


class MemorySpace(StrEnum):
    """Where a Ref lives: the nearest memory of that kind on each target."""

    ANY = "any"
    VMEM = "vmem"
    SMEM = "smem"
    HBM = "hbm"
    SEMAPHORE = "semaphore"
    TMEM = "tmem"
    REGS = "regs"

    def __call__(self, shape: Shape, dtype: DTypeLike = None) -> RefType:
        """The type of a Ref in this memory: how the scratch of a kernel is stated. Raises `ArgumentTypeError` for a
        shape that is no sequence of sizes, or without a dtype."""
        try:
            sizes = [as_size(n) for n in shape]
        except TypeError:
            sizes = [-1]
        if dtype is None or any(type(n) is int and n < 0 for n in sizes):
            raise ArgumentTypeError(f"{self.name}({shape!r}{'' if dtype is None else f', {dtype!r}'}) is no scratch",
                                    f"give a shape and a dtype: `{self.name}((8, 128), 'float32')`")  # fmt: skip
        return RefType(ArrayType(sizes, canonical_dtype(dtype)), self)

    def like(self, x: Operand) -> RefType:
        """The type of a Ref in this memory, of the shape and dtype of an array or a Ref."""
        return self(x.shape, x.dtype)


FAR = (MemorySpace.ANY, MemorySpace.HBM)  # memory that outlives the cells, of which a body reaches parts by itself


def with_sharding(type: ArrayType, sharding: NamedSharding) -> Any:
    """The type of an array with a sharding: plain where no axis of the type `Explicit` splits it."""
    explicit = sharding.in_types() if hasattr(sharding, "in_types") else None  # one device's has none
    if explicit is None:
        return type
    explicit.check_rank(type.shape)
    return ShardedType(type, explicit)


@dataclass(frozen=True, slots=True)
class RefType:
    """A mutable block of memory holding an array of type `array` in memory space `space`."""

    array: ArrayType
    space: MemorySpace = MemorySpace.VMEM

    @property
    def shape(self) -> Shape:
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def weak_type(self) -> bool:
        return False

    def with_shape(self, *shape: Any) -> RefType:
        raise KernelBodyError(f"an operation on arrays was applied to a Ref of {self.array.show()} itself",
                              "read it first: `ref[...]`")  # fmt: skip

    without_axis = with_shape
    with_axis = with_shape

    def along(self, axis: int) -> None:
        return None

    @property
    def placed(self) -> Any:
        """None: a Ref is on one device."""
        return None

    @property
    def vary(self) -> frozenset[Any]:
        return frozenset()

    def tangent(self) -> RefType:
        return RefType(self.array.tangent(), self.space)

    cotangent = tangent

    def strong(self) -> RefType:
        return self

    @property
    def plain(self) -> RefType:
        return self

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def symbolic(self) -> bool:
        return self.array.symbolic

    def show(self, short: bool = True) -> str:
        return f"Ref<{self.space}>{{{self.array.show()}}}"

    def __str__(self) -> str:
        return self.show()


Type = ArrayType | RefType


@cached()
def _weak_type(kind: type, x64: bool) -> ArrayType:
    dtype = _PYTHON[kind]
    return ArrayType((), dtype if x64 else _CANONICAL.get(dtype, dtype), dtype is not BOOL)


def scalar_type(value: bool | int | float | complex) -> ArrayType:
    """The weak type of a Python scalar under this configuration (int and float stay `int`, `float` of JAX)."""
    if type(value) is int and value.bit_length() > 64:
        raise IntegerOverflowError(f"{value} needs {value.bit_length()} bits", "pass a float, or an integer of 64 bits")
    return _weak_type(type(value), current().enable_x64)
