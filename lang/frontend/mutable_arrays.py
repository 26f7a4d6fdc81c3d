"""Refs outside of kernels: arrays that change in place, as far as the code that uses them can see.

A `Ref` holds an array and belongs to the trace that it was made under. There, and under what differentiates or batches
within it, an access replaces the array (`core/primitives/refs/state_discharge_rules.py`), so that derivatives and
batching need no rule. Where a Program is recorded further within (the body of a loop, a branch, a function under
`jit`), the access is recorded as one to memory, as in a kernel; the Ref becomes an operand of the loop, and when that
is bound where the Ref belongs, `lang/transforms/discharge.py` makes it one over values. `bind` calls `bind_refs` where
an operand is a `Ref`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array, ArrayLike, Index, Operand
from ...core.ir.binding import EVAL, Trace, current_trace
from ...core.ir.primitive import Primitive
from ...core.ir.program import Program, Var
from ...core.ir.types import ArrayType, MemorySpace, RefType, is_unsigned
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.subprograms import close
from ...core.primitives.elementwise.conversion import convert_element_type, stop_gradient
from ...core.primitives.refs.ref_views import RefTracer, RefView, read, view, write
from ...core.primitives.refs.ref_views import addupdate as add_to
from ...core.primitives.refs.ref_views import swap as swap_in
from ...core.primitives.refs.state_discharge_rules import read_value, write_value
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeletedArrayError,
    LeakedTracerError,
    TracerArrayConversionError,
    UnsupportedError,
)
from ...core.support.memo import cached
from ...core.tracing.array_conversion import as_array
from ...core.tracing.trace import ProgramTrace, Tracer, eval_program, shape_of, trace_program, typeof
from ..kernel.traverse import equation
from ..ops.basic import current_cell, within_body
from ..ops.run_scoped import allocate
from ..transforms.discharge import Cell, run_cells, undefined, written

if TYPE_CHECKING:
    from ...core.support.pytree import PyTree


def _place(ref: Any, key: Index) -> RefView:
    """The part of a Ref that an index names; traced indices below zero count from the end."""
    found = view(ref, Ellipsis if key is None else key)
    if type(ref) is not Ref:
        return found
    entries = []
    for entry, size in zip(found.entries, ref.shape, strict=True):
        start = entry.start
        if entry.size is None and type(start) is not int and not is_unsigned(start.dtype):
            entry = replace(entry, start=start + (start < 0).astype(start.dtype) * size)
        entries.append(entry)
    return RefView(ref, entries)


class Ref:
    """A mutable array; made by `new_ref`. Indexing reads it, and assignment to an index writes it."""

    __slots__ = ("_trace", "aval", "_value", "_still", "stand_in", "__weakref__")
    is_mutable_ref = True

    def __init__(self, value: Array, still: bool = False):
        type_: Any = typeof(value)
        self._trace: Trace = current_trace()
        self.aval: RefType = RefType(type_.strong(), MemorySpace.ANY)
        self._value: Any = value
        self._still = still  # what is written has no derivative
        self.stand_in: Any = None  # the Ref of a kernel that is the same memory, while its body is traced

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> Any:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return False

    @property
    def sharding(self) -> Any:
        return self.value.sharding

    @property
    def at(self) -> Any:
        return view(self).at

    def __getitem__(self, key: Index) -> Any:
        return read(_place(self, key))

    def __setitem__(self, key: Index, value: ArrayLike) -> None:
        write(_place(self, key), value)

    def get(self, idx: Index = Ellipsis) -> Any:
        """The array in part of it."""
        return read(_place(self, idx))

    def set(self, value: ArrayLike, idx: Index = Ellipsis) -> None:
        """Store an array in part of it."""
        write(_place(self, idx), value)

    def swap(self, value: ArrayLike, idx: Index = Ellipsis) -> Any:
        """Store an array in part of it; gives what was there."""
        return swap_in(_place(self, idx), value)

    def addupdate(self, value: ArrayLike, idx: Index = Ellipsis) -> None:
        """Add an array to part of it."""
        add_to(_place(self, idx), value)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the array that it holds now; the next access may hold another."""
        return self.value.unsafe_buffer_pointer()

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("the length of a Ref without axes was asked for", "read it with `[...]`")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self[...])

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TracerArrayConversionError("a Ref was handed to NumPy", "read it first: `ref[...]`")

    def __repr__(self) -> str:
        if self._value is None:
            return f"Ref(freed, {self.aval.array.show()})"
        if isinstance(self._value, Tracer):
            return f"Ref({self.aval.array.show()})"
        return "Ref" + repr(np.asarray(self._value)).removeprefix("array")

    # ------------------------------------------------------------ what it holds

    @property
    def value(self) -> Any:
        """The stored array; an error after it was released."""
        if self._value is None:
            raise DeletedArrayError(
                f"a Ref of {self.aval.array.show()} was used after `freeze` or `free_ref`", "make another by `new_ref`"
            )
        return self._value

    def hold(self, value: Operand) -> None:
        """Replace the stored array by one visible to its trace."""
        if isinstance(value, Tracer) and not _within(self._trace, value._trace):
            raise LeakedTracerError(
                f"{value.describe()}, which is being differentiated or batched, is stored in a Ref from outside",
                "make the Ref within the transformed function, or store `stop_gradient` of the value",
            )
        self._value = value

    def acts_here(self) -> bool:
        """Whether accesses under the current trace act on the stored array, rather than being recorded in a Program."""
        trace: Trace | None = current_trace()
        recorded = False
        while trace is not self._trace:
            recorded = recorded or isinstance(trace, ProgramTrace)
            trace = trace.parent
            if trace is None:
                raise LeakedTracerError(
                    f"a Ref of {self.aval.array.show()} was used outside of the transformed function that made it",
                    "return what it holds, `ref[...]`, rather than the Ref",
                )
        return not recorded


def _within(trace: Trace | None, wanted: Trace) -> bool:
    """Whether a trace equals another one, or is nested in it."""
    while trace is not None and trace is not wanted:
        trace = trace.parent
    return trace is wanted


# ---------------------------------------------------------------------------- binding


def bind_refs(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Bind a primitive whose operands may be Refs."""
    if primitive.effects is None or not any(type(a) is Ref for a in args):
        return current_trace().bind(primitive, args, params)
    refs = [a for a in args if type(a) is Ref]
    for ref in refs:
        ref.value  # noqa: B018  (alive)
    if primitive is jit_p and len({*map(id, refs)}) < len(refs):
        raise ArgumentError("one Ref reaches a function under `jit` twice, as an argument or from outside of it",
                            "pass it once")  # fmt: skip
    mine = {id(ref) for ref in refs if ref.acts_here()}
    if not mine:
        return current_trace().bind(primitive, args, params)
    if id(args[0]) in mine and primitive in _ACCESSES:
        return _ACCESSES[primitive](args[0], *args[1:], **params)
    return _discharged(primitive, args, params, mine)


def _get(ref: Ref, *rest: Any, **how: Any) -> Any:
    if not how.get("masked") and how["index"].is_whole(ref.shape):
        return ref.value
    return read_value(ref.value, rest, **how)


def _write(ref: Ref, value: ArrayLike, rest: Sequence[Any], add: bool, how: Mapping[str, Any]) -> None:
    if ref._still:
        value = stop_gradient(value)
    if not add and not how.get("masked") and how["index"].is_whole(ref.shape):
        ref.hold(convert_element_type(as_array(value), ref.dtype))
    else:
        ref.hold(write_value(ref.value, value, rest, add=add, **how))


def _swap(ref: Ref, value: ArrayLike, *rest: Any, **how: Any) -> Any:
    old = _get(ref, *rest, **how)
    _write(ref, value, rest, False, how)
    return old


def _addupdate(ref: Ref, value: ArrayLike, *rest: Any, **how: Any) -> list[Any]:
    _write(ref, value, rest, True, how)
    return []


_ACCESSES = {get_p: _get, swap_p: _swap, addupdate_p: _addupdate}


@cached(1024)
def _pure(
    primitive: Primitive, params: tuple[tuple[str, Any], ...], types: tuple[Any, ...], places: tuple[int, ...],
    mine: frozenset[int],
) -> tuple[Program, tuple[int, ...]]:  # fmt: skip
    """An operation on distinct operands as a Program with values for some Refs, and which of those it writes.

    `places` says which operand of the operation is which of the distinct ones. What is left in the Refs that are
    written follows the outputs.
    """
    inputs = [Var(t) for t in types]
    atoms, named = [inputs[p] for p in places], dict(params)
    eqn = equation(primitive, atoms, named)
    whole = Program(inputs, [eqn], eqn.outputs, name=primitive.name)
    changed = tuple(i for i in written(whole) if i in mine)

    def fun(*args: Any) -> list[Any]:
        inner = [Cell(a) if i in mine else a for i, a in enumerate(args)]
        results = run_cells(whole, inner)
        return [*results, *(inner[i].value for i in changed)]

    return trace_program(fun, [t.array if i in mine else t for i, t in enumerate(types)], primitive.name), changed


def _discharged(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], mine: Collection[int]) -> Any:
    """Bind an operation over the arrays that Refs hold, and have them hold what it leaves."""
    found = primitive.typing(*map(typeof, args), **params)
    if any(isinstance(t, RefType) for t in (found if primitive.multiple else [found])):
        raise ArgumentTypeError(
            f"a Ref is returned from a function under `{primitive.name}`, or carried through it",
            "return what it holds, `ref[...]`, and let loops and branches close over the Ref",
        )
    distinct = list({id(a): a for a in args}.values())
    number = {id(a): i for i, a in enumerate(distinct)}
    places = tuple(number[id(a)] for a in args)
    chosen = frozenset(i for i, a in enumerate(distinct) if id(a) in mine)
    key = tuple(sorted(params.items(), key=lambda item: item[0]))
    program, changed = _pure(primitive, key, tuple(map(typeof, distinct)), places, chosen)
    values = [a.value if i in chosen else a for i, a in enumerate(distinct)]
    if current_trace() is EVAL:  # one compiled program rather than an operation at a time
        closed, constants = close(program)
        outs = jit_p.bind(*constants, *values, program=closed, name=primitive.name, donated=(), inline=False)
    else:
        outs = eval_program(program, *values)
    n = len(outs) - len(changed)
    for i, value in zip(changed, outs[n:], strict=True):
        distinct[i].hold(stop_gradient(value) if distinct[i]._still else value)
    return outs[:n] if primitive.multiple else outs[0]


def over_values(
    fun: Callable[..., Any], args: Sequence[Any], chosen: Sequence[bool]
) -> tuple[Callable[..., Any], Sequence[Any], list[int]]:
    """A function as one of the arrays that chosen Refs among its operands hold, which gives also what they then hold.

    Its operands follow, and which of them are these Refs; the function itself, where none is.
    """
    places = [i for i, a in enumerate(args) if chosen[i] and type(a) in _REFS]
    if not places:
        return fun, args, places
    if len({id(args[i]) for i in places}) < len(places):
        raise ArgumentError("one Ref is passed twice to a function that is differentiated or batched", "pass it once")

    def of_values(*values: Any) -> tuple[Any, list[Any]]:
        refs = {i: Ref(values[i]) for i in places}
        out = fun(*(refs.get(i, x) for i, x in enumerate(values)))
        return out, [ref.value for ref in refs.values()]

    return of_values, [a[...] if i in places else a for i, a in enumerate(args)], places


_REFS = (Ref, RefTracer)


# ---------------------------------------------------------------------------- functions


def _new(value: Operand, memory_space: Any, kind: str | None, pin: bool) -> Any:
    if memory_space is not None and within_body() and not pin:
        type_: Any = typeof(value)
        made = allocate("new_ref", RefType(type_.strong(), MemorySpace(memory_space)))
        write(view(made), value)
        return made
    if memory_space is not None or pin:
        raise UnsupportedError("new_ref in a memory space of its own outside of a kernel, or pinned",
                               "leave out memory_space and pin")  # fmt: skip
    if kind not in (None, "no_grad_no_remat"):
        raise ArgumentError(f"new_ref with kind={kind!r}", "None or 'no_grad_no_remat'")
    return Ref(as_array(value), kind is not None)


def new_ref(init_val: PyTree, *, memory_space: Any = None, kind: str | None = None, pin: bool = False) -> Ref:
    """A mutable array that starts as `init_val`.

    It may be used where it was made, and from loops, branches and functions under `jit` that close over it or (`jit`)
    take it as an argument. In a kernel, with a `memory_space`, it is scratch there. With `kind="no_grad_no_remat"` what
    is written has no derivative. Raises `ArgumentTypeError` for a Ref, and later `LeakedTracerError` where a
    differentiated or batched value is stored in a Ref from outside.

    >>> import tilewright as tw
    >>> from tilewright import numpy as jnp
    >>> ref = tw.new_ref(jnp.arange(3))
    >>> @tw.jit
    ... def bump(x):
    ...     ref[0] += x
    >>> bump(5); bump(1)
    >>> ref
    Ref([6, 1, 2], dtype=int32)
    """
    if isinstance(init_val, (Ref, RefTracer, RefView)):
        raise ArgumentTypeError("new_ref of a Ref: two cannot share their memory", "copy it: `new_ref(ref[...])`")
    type_: Any = typeof(init_val)
    return _new(convert_element_type(init_val, type_.dtype), memory_space, kind, pin)


def empty_ref(ty: Any, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A mutable array of a shape and dtype, as of a `ShapeDtypeStruct`; it starts as zeros. Otherwise as `new_ref`.

    >>> import tilewright as tw
    >>> tw.empty_ref(tw.ShapeDtypeStruct((2,), "float32"))
    Ref([0., 0.], dtype=float32)
    """
    return _new(convert_element_type(undefined(ty.shape, ty.dtype), ty.dtype), memory_space, kind, False)


def freeze(ref: Ref) -> Any:
    """What a Ref holds, which nothing can change any more: the Ref cannot be used afterwards.

    >>> import tilewright as tw
    >>> print(tw.freeze(tw.new_ref(3.0)))
    3.0
    """
    if type(ref) is not Ref:
        raise ArgumentTypeError(f"freeze of {ref!r}", "pass a Ref where it was made; within `jit` read `ref[...]`")
    if not ref.acts_here():
        raise ArgumentError("freeze of a Ref within a loop, a branch or a function under `jit`, and not made there",
                            "freeze it where it was made")  # fmt: skip
    value = ref.value
    ref._value = None
    return value


def free_ref(ref: Ref) -> None:
    """Give up what a Ref holds; it cannot be used afterwards.

    >>> import tilewright as tw
    >>> ref = tw.new_ref(3.0)
    >>> tw.ref.free_ref(ref)
    >>> ref
    Ref(freed, f32[])
    """
    freeze(ref)


def get(ref: Any, idx: Index = None) -> Any:
    """The array in part of a Ref: `ref[idx]`.

    >>> import tilewright as tw
    >>> print(tw.ref.get(tw.new_ref(tw.numpy.arange(5)), slice(1, 3)))
    [1 2]
    """
    return read(_place(ref, idx))


def set(ref: Any, idx: Index, value: ArrayLike) -> None:  # noqa: A001
    """Store an array in part of a Ref: `ref[idx] = value`.

    >>> import tilewright as tw
    >>> ref = tw.new_ref(tw.numpy.zeros(2))
    >>> tw.ref.set(ref, 1, 10.0)
    >>> ref
    Ref([ 0., 10.], dtype=float32)
    """
    write(_place(ref, idx), value)


def swap(ref: Any, idx: Index, value: ArrayLike) -> Any:
    """Store an array in part of a Ref; gives what was there.

    >>> import tilewright as tw
    >>> print(tw.ref.swap(tw.new_ref(tw.numpy.arange(5)), 3, 10))
    3
    """
    return swap_in(_place(ref, idx), value)


def addupdate(ref: Any, idx: Index, x: ArrayLike) -> None:
    """Add an array to part of a Ref: `ref[idx] += x`; repeated indices accumulate.

    >>> import tilewright as tw
    >>> ref = tw.new_ref(tw.numpy.arange(3))
    >>> tw.ref.addupdate(ref, 2, 10)
    >>> ref
    Ref([ 0,  1, 12], dtype=int32)
    """
    add_to(_place(ref, idx), x)


@public
def run_state(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of arrays that calls `f` with Refs that hold them, and gives what these hold then.

    In a kernel the Refs are scratch, elsewhere those of `new_ref`. It takes one pytree of arrays (in a kernel for
    warpgroups also `ACC.init(array)`), and gives one like it.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import kernel_call
    >>> def body(x, o):
    ...     def twice(ref):
    ...         ref[...] = ref[...] * 2
    ...     o[...] = run_state(twice)(x[...])
    >>> print(kernel_call(body, tw.ShapeDtypeStruct((3,), "float32"))(np.ones(3, np.float32)))
    [2. 2. 2.]
    """

    def call(init: PyTree) -> Any:
        if not within_body():
            held = pytree.map(new_ref, init)
            f(held)
            return pytree.map(freeze, held)
        leaves, structure = pytree.flatten(init, is_leaf=lambda x: hasattr(x, "shape"))
        values = [getattr(x, "value", x) if hasattr(x, "space") else x for x in leaves]
        near = MemorySpace.REGS if "mesh" in current_cell("run_state").made else MemorySpace.VMEM
        types = [ArrayType(shape_of(v), typeof(v).dtype) for v in values]
        made = [view(allocate("run_state", RefType(t, near))) for t in types]
        for ref, value in zip(made, values, strict=True):
            write(ref, value)
        f(structure.unflatten([ref.ref for ref in made]))
        return structure.unflatten([read(ref) for ref in made])

    return call
