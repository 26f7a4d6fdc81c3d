"""Asynchronous copies between Refs, and semaphores.

    dma_start(src, *at, dst, *at, sem, *at; src, dst, sem, add, own)    starts; the copy may happen any time until
    dma_wait(src, *at, dst, *at, sem, *at; src, dst, sem, add, own)     the wait returns
    semaphore_signal(sem, value, *at; index), semaphore_wait(...; decrement), semaphore_read(sem, *at) -> value

`own` copies are of the language's making: they fill two buffers in turn, and a wait names the parts that its start
named. A semaphore is an int32 Ref in `SEMAPHORE` memory, zero at first. The interpreter copies when the wait comes (or
never, if it does not come, which is an error at the end of the kernel); compiled, a copy happens when it starts, or,
if it is an `own` one, when it is waited for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.axis_relation import EFFECT, FREE
from ...core.ir.primitive import Primitive
from ...core.ir.program import Effect, Effects
from ...core.ir.types import INT32, ArrayType, MemorySpace, RefType
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.state_primitives import Index, access_shape, numpy_index
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentTypeError, DtypeError, KernelBodyError, ShapeError
from ...core.transforms.rule_helpers import no_tangent
from .dynamic_slices import each_copy, int32_of
from .interpret_params import address, running


class SemaphoreType(enum.Enum):
    """The kinds of semaphores; one stands for its scratch of shape `()`, and `DMA((2,))` for an array of them."""

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    shape = property(lambda self: ())
    dtype = property(lambda self: INT32)
    space = property(lambda self: MemorySpace.SEMAPHORE)

    def __call__(self, shape: Any) -> RefType:
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if not all(isinstance(n, (int, np.integer)) for n in sizes):
            raise ArgumentTypeError(f"SemaphoreType.{self.name}({shape!r}) is no array of semaphores",
                                    f"say how many there are: `SemaphoreType.{self.name}((2,))`")  # fmt: skip
        return RefType(ArrayType(sizes, INT32), MemorySpace.SEMAPHORE)


def split_parts(operands: Sequence[Any], *indices: Index) -> list[tuple[Any, list[Any]]]:
    """The Refs among the operands of a copy, each with the operands of its index."""
    out, rest = [], list(operands)
    for index in indices:
        n = 1 + len(index.dynamic)
        out.append((rest[0], rest[1:n]))
        rest = rest[n:]
    return out


def parts_of(operands: Sequence[Any], src: Index, dst: Index, sem: Index, **_: Any) -> list[tuple[Any, list[Any]]]:
    """The three Refs among the operands of a copy within a device, each with the operands of its index."""
    return split_parts(operands, src, dst, sem)


def _copy_typing(*types: Any, src: Index, dst: Index, sem: Index, **_: Any) -> list[Any]:
    source, target, semaphore = [ref for ref, _ in parts_of(types, src, dst, sem)]
    check_copy("an asynchronous copy", source, target, src, dst)
    check_semaphore("an asynchronous copy", semaphore, sem)
    return []


def check_copy(what: str, source: Any, target: Any, src: Index, dst: Index) -> None:
    """Raise an error unless a part of a Ref and the part that it is copied to are of one shape and dtype."""
    a, b = ArrayType(access_shape(src), source.dtype), ArrayType(access_shape(dst), target.dtype)
    if a.shape != b.shape:
        raise ShapeError(f"{what} of {a.show()} to {b.show()}", "copy between parts of one shape")
    if a.dtype != b.dtype:
        raise DtypeError(f"{what} of {a.show()} to {b.show()}", "a copy changes no dtype; load, cast and store")


def check_semaphore(what: str, type_: Any, index: Index) -> None:
    if isinstance(type_, RefType) and type_.space is not MemorySpace.SEMAPHORE:
        raise KernelBodyError(
            f"{what} is given a Ref of {type_.array.show()} in {type_.space} for a semaphore",
            "state it as scratch: `SemaphoreType.DMA`")  # fmt: skip
    if access_shape(index):
        raise ShapeError(f"{what} is given {access_shape(index)} semaphores", "give one: `sem.at[i]`")


BOTH = ("read", "write")


def effects_on(*always: Effect, **kinds: Sequence[str]) -> Callable[..., Effects]:
    """The effects of an operation on parts of Refs, by the name of each one's index, and those that it has always."""

    def rule(*types: Any, **params: Any) -> Effects:
        found, at = {*always}, 0
        for name, kind in kinds.items():
            found |= {Effect(k, at) for k in kind}
            index = params.get(name)
            at += 1 + (len(index.dynamic) if index is not None else 0)
        return frozenset(found)

    return rule


_NO_DERIVATIVE = "has no derivative", "give the function that calls the kernel a `custom_vjp`"


def operation(
    name: str, typing: Any, effects: Any, numpy: Any, multiple: bool = True, why: tuple[str, str] = _NO_DERIVATIVE,
    **more: Any,
) -> Primitive:  # fmt: skip
    """A primitive that acts on Refs; without a `jvp` rule it has no derivative, and `why` is what is said of that."""

    def no_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        raise KernelBodyError(f"{name} {why[0]}", why[1])

    given = {"jvp": no_jvp, "effects": effects, "numpy": numpy, "multiple": multiple, "work": FREE, "kind": EFFECT}
    return Primitive(name, typing, **given | more)


def address_of(ref: np.ndarray, place: Any) -> int:
    """What tells one semaphore from another: where it lies in memory."""
    one = ref[tuple(slice(p, p + 1) for p in place)] if ref.ndim else ref
    return address(one)


def _start_numpy(*operands: Any, src: Index, dst: Index, sem: Index, add: bool, own: bool) -> list[Any]:
    (source, src_at), (target, dst_at), (semaphore, sem_at) = parts_of(operands, src, dst, sem)
    come = numpy_index(src, src_at, source.shape, False, "make_async_copy (source)")
    go = numpy_index(dst, dst_at, target.shape, False, "make_async_copy (destination)")
    nbytes = int(np.prod(access_shape(dst))) * target.dtype.itemsize

    def perform() -> None:
        target[go] = target[go] + source[come] if add else source[come]

    run = running()
    if run is None:
        perform()
    else:
        place = numpy_index(sem, sem_at, semaphore.shape, False, "make_async_copy (semaphore)")
        run.start(address_of(semaphore, place), perform, nbytes)
    return []


def _wait_numpy(*operands: Any, src: Index, dst: Index, sem: Index, add: bool, own: bool) -> list[Any]:
    _, (target, _), (semaphore, sem_at) = parts_of(operands, src, dst, sem)
    run = running()
    if run is not None:
        place = numpy_index(sem, sem_at, semaphore.shape, False, "make_async_copy (semaphore)")
        run.wait(address_of(semaphore, place), int(np.prod(access_shape(dst))) * target.dtype.itemsize)
    return []


_EARLY = "is differentiated before it became a plain copy", "differentiate the kernel call"
_COPIES = effects_on(src=("read",), dst=("write",), sem=BOTH)
dma_start_p = operation("dma_start", _copy_typing, _COPIES, _start_numpy, why=_EARLY)
dma_wait_p = operation("dma_wait", _copy_typing, _COPIES, _wait_numpy, why=_EARLY)


# ---------------------------------------------------------------------------- semaphores


def _signal_typing(sem: Any, value: Any, *rest: Any, index: Index, decrement: bool = True) -> list[Any]:
    check_semaphore("semaphore_signal or semaphore_wait", sem, index)
    return []


def _read_typing(sem: Any, *rest: Any, index: Index) -> Any:
    check_semaphore("semaphore_read", sem, index)
    return ArrayType((), INT32)


def _signal_numpy(sem: Any, value: Any, *rest: Any, index: Index) -> list[Any]:
    sem[numpy_index(index, rest, sem.shape, False, "semaphore_signal")] += value
    return []


def _wait_for_numpy(sem: Any, value: Any, *rest: Any, index: Index, decrement: bool) -> list[Any]:
    place = numpy_index(index, rest, sem.shape, False, "semaphore_wait")
    run = running()
    if run is not None and (run.together or sem[place] < value):
        run.await_count((sem, place), int(value))
    if decrement:
        sem[place] -= value
    return []


semaphore_signal_p = operation(
    "semaphore_signal", _signal_typing, effects_on(index=BOTH), _signal_numpy,
    jvp=no_tangent(lambda: semaphore_signal_p),
)  # fmt: skip
semaphore_wait_p = operation(
    "semaphore_wait", _signal_typing, effects_on(index=BOTH), _wait_for_numpy, jvp=no_tangent(lambda: semaphore_wait_p)
)
semaphore_read_p = operation(
    "semaphore_read", _read_typing, effects_on(index=("read",)),
    lambda sem, *rest, index: sem[numpy_index(index, rest, sem.shape, False, "semaphore_read")], False,
    jvp=no_tangent(lambda: semaphore_read_p),
)  # fmt: skip
PRIMITIVES = (dma_start_p, dma_wait_p, semaphore_signal_p, semaphore_wait_p, semaphore_read_p)


@public
def semaphore_wait(sem: Any, value: Any = 1, *, decrement: bool = True) -> None:
    """Wait until a semaphore holds `value`, then take that much off it."""
    target = refs.view(sem)
    index, operands = target.index()
    semaphore_wait_p.bind(target.ref, int32_of(value), *operands, index=index, decrement=decrement)


@public
def semaphore_read(sem: Any) -> Any:
    """What a semaphore holds, an int32 scalar."""
    target = refs.view(sem)
    index, operands = target.index()
    return semaphore_read_p.bind(target.ref, *operands, index=index)


# ---------------------------------------------------------------------------- copies


def operands_of(**parts: Any) -> tuple[list[Any], dict[str, Index]]:
    """What a copy between parts of Refs binds: each Ref with the operands of its index, and the indices by name."""
    operands, indices = [], {}
    for name, part in parts.items():
        target = refs.view(part)
        indices[name], given = target.index()
        operands += [target.ref, *given]
    return operands, indices


@dataclass(frozen=True)
class AsyncCopyDescriptor:
    """A copy from one part of a Ref to another, to be started and waited for."""

    src: Any
    dst: Any
    sem: Any
    add: bool = False
    own: bool = False

    def _bind(self, primitive: Primitive) -> None:
        def one(src: Any, dst: Any, sem: Any) -> None:
            operands, indices = operands_of(src=src, dst=dst, sem=sem)
            primitive.bind(*operands, **indices, add=self.add, own=self.own)

        each_copy((self.src, self.dst, self.sem), one)

    def start(self, priority: int = 0) -> None:
        """Start the copy: its source must stay as it is, and its destination unread, until the wait."""
        self._bind(dma_start_p)

    def wait(self) -> None:
        """Wait until the copy is done."""
        self._bind(dma_wait_p)

    wait_send = wait_recv = wait


@public
def make_async_copy(src_ref: Any, dst_ref: Any, sem: Any) -> AsyncCopyDescriptor:
    """A copy from `src_ref` to `dst_ref` (Refs or `ref.at[...]`, of one shape and dtype) that is not started yet.

    Both may be a slice of one traced size, `ref.at[ds(start, size)]`, no more than the axes have: it is copied in
    pieces of the powers of two in it. Either may be what `select_ref` gives. Raises `ShapeError` for parts that differ.
    """
    return AsyncCopyDescriptor(src_ref, dst_ref, sem)


@public
def async_copy(src_ref: Any, dst_ref: Any, sem: Any, *, priority: int = 0, add: bool = False) -> AsyncCopyDescriptor:
    """Start a copy; wait for it with `.wait()`. With `add` the source is added to the destination."""
    copy = AsyncCopyDescriptor(src_ref, dst_ref, sem, add)
    copy.start(priority)
    return copy


@public
def sync_copy(src_ref: Any, dst_ref: Any, *, add: bool = False) -> None:
    """Copy one part of a Ref to another.

    Parts and errors as for `make_async_copy`.
    """
    put = refs.addupdate if add else refs.write
    each_copy((src_ref, dst_ref), lambda src, dst: put(dst, refs.read(src)))
