"""Atomic updates of parts of Refs: read, combine and write back as one step.

    atomic_rmw(ref, value, *index, [mask]; index, masked, kind, wanted, [sync]) -> [old]
    atomic_cas(ref, expected, value, *index, [mask]; index, masked, wanted, [sync]) -> [old]

The result is what was there before (zero where masked out; absent unless `wanted`). Positions named twice in one
access are updated one after the other in row-major order. Cells of parallel axes may update the same location. `sync`
is the memory order and the scope of the operation, where they were given: they change no value here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array, ArrayLike, Operand
from ...core.ir.axis_relation import EFFECT
from ...core.ir.primitive import Primitive, Zero
from ...core.ir.program import Effect
from ...core.ir.types import Type, is_bool, is_complex, is_inexact, is_integer
from ...core.primitives.control_flow.scan import bind_scan
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p
from ...core.primitives.elementwise.bitwise import and_p, or_p, xor_p
from ...core.primitives.elementwise.comparison import eq_p, select_n_p
from ...core.primitives.movement.dynamic_slice import dynamic_slice, dynamic_update_slice
from ...core.primitives.movement.gather_dimension_numbers import FILL, ScatterDimensionNumbers
from ...core.primitives.movement.scatter_functions import scatter_max, scatter_min
from ...core.primitives.movement.shape import reshape_to
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.state_discharge_rules import linear_places, read_value, write_value
from ...core.primitives.refs.state_primitives import Index, access_shape, numpy_index, split_operands, swap_p
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, DifferentiationError, DtypeError, NoDerivativeError, Source
from ...core.tracing.trace import shape_of, trace_program, typeof
from ...core.transforms.rule_helpers import instantiate, no_tangent
from ...core.transforms.structural_primitives import spread

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef
    from ...core.support.pytree import PyTree

NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "xchg": lambda old, new: new,
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
}  # fmt: skip
COMBINE: dict[str, Primitive] = {"add": add_p, "max": max_p, "min": min_p, "and": and_p, "or": or_p, "xor": xor_p}
_UPDATE: dict[str, Callable[..., Any]] = {kind: p.bind for kind, p in COMBINE.items()} | {
    "xchg": lambda old, new: new,
    "cas": lambda old, expected, new: select_n_p.bind(eq_p.bind(old, expected), old, new),
}
_SCATTER = {"max": scatter_max, "min": scatter_min}


Sync = tuple[str, str]
ORDERS, SCOPES = ("relaxed", "acquire", "release", "acq_rel"), ("cta", "gpu", "sys")


def _sync(what: str, sem: str | None, scope: str | None) -> dict[str, Sync]:
    """The parameters of an atomic operation whose memory order or scope is given."""
    for name, value, known in (("sem", sem, ORDERS), ("scope", scope, SCOPES)):
        if value is not None and value not in known:
            raise ArgumentError(f"{what}: {name} is {value!r}", f"give one of {', '.join(map(repr, known))}, or None")
    return {} if sem is None and scope is None else {"sync": (sem or "acq_rel", scope or "gpu")}


# ---------------------------------------------------------------------------- typing


def _split(kind: str, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """What follows the Ref: the values that are combined with it, and the operands of the index."""
    count = 2 if kind == "cas" else 1
    return operands[:count], operands[count:]


def _check_dtype(kind: str, dtype: np.dtype[Any]) -> None:
    fits, remedy = True, ""
    if kind in ("and", "or", "xor"):
        fits, remedy = is_integer(dtype) or is_bool(dtype), "use an integer or boolean dtype"
    elif kind in ("max", "min"):
        fits, remedy = not is_bool(dtype) and not is_complex(dtype), "use a real dtype"
    elif kind == "add":
        fits, remedy = not is_bool(dtype), "use atomic_or"
    if not fits:
        raise DtypeError(f"atomic_{kind} of a Ref of {dtype}", remedy)


def _typing(
    ref: Type, *operands: Any, index: Index, masked: bool, wanted: bool, kind: str = "cas", **_: Any
) -> list[Any]:
    values, rest = _split(kind, operands)
    outs = [swap_p.typing(ref, value, *rest, index=index, masked=masked) for value in values]
    _check_dtype(kind, ref.dtype)
    return outs[:1] if wanted else []


_EFFECTS = frozenset({Effect("read", 0), Effect("write", 0)})


# ---------------------------------------------------------------------------- meaning in NumPy


def _updated(ref: Operand, values: Sequence[Any], rest: Sequence[Any], index: Index, masked: bool,
             combine: Callable[..., Any]) -> Any:  # fmt: skip
    """The values of an array before it is updated in place."""
    dynamic, mask, _ = split_operands(index, rest, masked)
    place = numpy_index(index, dynamic, ref.shape, masked, "atomic")
    old = np.array(ref[place])
    if mask is None and not index.takes:
        ref[place] = combine(old, *values)
        return old
    old = np.zeros(old.shape, old.dtype)
    for at in np.ndindex(old.shape):
        if mask is None or mask[at]:
            one = tuple(p[at] for p in place)
            old[at] = ref[one]
            ref[one] = combine(old[at], *(v[at] for v in values))
    return old


def _numpy(
    ref: Operand, *operands: Any, index: Index, masked: bool, wanted: bool, kind: str = "cas", **_: Any
) -> list[Any]:
    old = _updated(ref, *_split(kind, operands), index, masked, NUMPY[kind])
    return [old] if wanted else []


# ---------------------------------------------------------------------------- on values


def _one_by_one(
    x: Array, values: Sequence[Any], places: Array, inside: Array, combine: Callable[..., Any]
) -> tuple[Any, Any]:
    """Update elements in order: a loop that carries the flat Ref and gives what each element was."""
    shape, flat = shape_of(places), reshape_to(x, (int(np.prod(shape_of(x))),))
    size = int(np.prod(shape))

    def body(held: Array, place: Array, here: Array, *new: Any) -> list[Any]:
        old = dynamic_slice(held, [place], [1], allow_negative_indices=False)
        made = combine(old, *(reshape_to(v, (1,)) for v in new))
        made = select_n_p.bind(reshape_to(here, (1,)), old, made)
        zero = np.zeros((), typeof(old).dtype)[()]
        given = select_n_p.bind(reshape_to(here, (1,)), spread(zero, (1,)), old)
        return [dynamic_update_slice(held, made, [place], allow_negative_indices=False), reshape_to(given, ())]

    xs = [reshape_to(v, (size,)) for v in (places, inside, *values)]
    types = [typeof(flat), *(typeof(v).with_shape(()) for v in xs)]
    done, old = bind_scan(trace_program(body, types, "atomic"), [], [flat], xs, length=size, reverse=False, unroll=1)
    return reshape_to(done, shape_of(x)), reshape_to(old, shape)


def _update_value(x: Array, values: Sequence[Any], rest: Sequence[Any], index: Index, masked: bool, wanted: bool,
                  kind: str) -> tuple[Any, Any]:  # fmt: skip
    """The value after an atomic update, and what was there before (None unless `wanted`)."""
    dynamic, mask, _ = split_operands(index, rest, masked)
    if not index.takes:
        old = read_value(x, rest, index=index, masked=masked)
        return write_value(x, _UPDATE[kind](old, *values), rest, add=False, index=index, masked=masked), old
    shape = access_shape(index)
    places, inside = linear_places(x, index, dynamic, shape)
    if mask is not None:
        inside = and_p.bind(inside, mask)
    if kind in _SCATTER and not wanted:  # the order does not matter
        size = int(np.prod(shape_of(x)))
        places = select_n_p.bind(inside, spread(np.int32(size), shape), places)
        flat = _SCATTER[kind](reshape_to(x, (size,)), reshape_to(places, (*shape, 1)), values[0],
                              ScatterDimensionNumbers((), (0,), (0,)), mode=FILL)  # fmt: skip
        return reshape_to(flat, shape_of(x)), None
    return _one_by_one(x, values, places, inside, _UPDATE[kind])


def discharged(
    cell: Any, *operands: Any, index: Index, masked: bool, wanted: bool, kind: str = "cas", **_: Any
) -> list[Any]:
    """An atomic update of a Ref whose content is a value."""
    cell.value, old = _update_value(cell.value, *_split(kind, operands), index, masked, wanted, kind)
    return [old] if wanted else []


# ---------------------------------------------------------------------------- derivatives


def no_derivative(name: str, source: Source | None = None) -> NoDerivativeError:
    return NoDerivativeError(
        f"{name} of a differentiated Ref has no derivative",
        "only atomic_add has one; keep other atomics to integers, or wrap the call in a `custom_vjp`",
        source)  # fmt: skip


def _rmw_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    ref_t, value_t = tangents[:2]
    if not is_inexact(typeof(primals[0]).dtype) or (type(ref_t) is Zero and type(value_t) is Zero):
        return no_tangent(atomic_rmw_p)(primals, tangents, **params)
    outs = atomic_rmw_p.bind(*primals, **params)
    if params["kind"] != "add" or type(ref_t) is Zero:
        raise no_derivative(f"atomic_{params['kind']}")
    return outs, atomic_rmw_p.bind(ref_t, instantiate(value_t), *primals[2:], **params)


def _cas_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    if is_inexact(typeof(primals[0]).dtype) and any(type(t) is not Zero for t in tangents[:3]):
        raise no_derivative("atomic_cas")
    return no_tangent(atomic_cas_p)(primals, tangents, **params)


def _rmw_transpose(ct: Any, *args: Any, kind: str, **params: Any) -> Any:
    raise DifferentiationError(
        f"atomic_{kind} whose result is used has no reverse-mode derivative",
        "do not use what it returns, or use forward mode (jvp)")  # fmt: skip


atomic_rmw_p: Primitive = Primitive(
    "atomic_rmw", _typing, jvp=_rmw_jvp, transpose=_rmw_transpose, numpy=_numpy, multiple=True,
    effects=lambda *types, **params: _EFFECTS, kind=EFFECT,
)  # fmt: skip
atomic_cas_p: Primitive = Primitive(
    "atomic_cas", _typing, jvp=_cas_jvp, numpy=_numpy, multiple=True, effects=lambda *types, **params: _EFFECTS,
    kind=EFFECT,
)  # fmt: skip
PRIMITIVES = (atomic_rmw_p, atomic_cas_p)


def across_cells(primitive: Primitive, params: Mapping[str, Any]) -> bool:
    """Whether an operation is an atomic one whose scope is more than a program's, so that parallel cells may meet."""
    return primitive in PRIMITIVES and params.get("sync", ("", "gpu"))[1] != "cta"


# ---------------------------------------------------------------------------- functions


LEFT = {"add": 9, "max": 6, "min": 3, "and": 2, "or": 7, "xor": 5, "xchg": 3}  # what 6 and 3 give


def _atomic(kind: str, doc: str) -> Callable[..., Any]:
    def atomic(
        ref: Any, idx: int | Sequence[int] | None, val: ArrayLike, *, mask: Array | None = None, sem: str | None = None,
        scope: str | None = None,
    ) -> Any:  # fmt: skip
        sync = _sync(f"atomic_{kind}", sem, scope)
        target = refs.view(ref, Ellipsis if idx is None else idx)
        index, value, operands = refs.store_operands(target, val, mask)
        return atomic_rmw_p.bind(
            target.ref, value, *operands, index=index, masked=mask is not None, kind=kind, wanted=True, **sync
        )[0]

    atomic.__name__ = atomic.__qualname__ = f"atomic_{kind}"
    atomic.__doc__ = (
        f"{doc} where `mask` is true, as one step; gives what was there before.\n\n"
        'The memory order `sem` ("relaxed", "acquire", "release", "acq_rel") and the `scope` ("cta", "gpu", "sys") are '
        "for targets whose cells run side by side; an `ArgumentError` for others.\n\n"
        ">>> import numpy as np\n>>> import tilewright as tw\n>>> from tilewright import lang as tl\n"
        ">>> def body(x, o):\n...     o[0] = 6\n"
        f"...     _ = tl.atomic_{kind}(o, 0, x[0])\n"
        ">>> tl.kernel_call(body, tw.ShapeDtypeStruct((1,), 'int32'))(np.int32([3])).tolist()\n"
        f"[{LEFT[kind]}]"
    )
    return public(atomic)


atomic_add: Callable[..., Any] = _atomic("add", "Add `val` to `ref[idx]`")
atomic_max: Callable[..., Any] = _atomic("max", "Make `ref[idx]` at least `val`")
atomic_min: Callable[..., Any] = _atomic("min", "Make `ref[idx]` at most `val`")
atomic_and: Callable[..., Any] = _atomic("and", "Bitwise `ref[idx] &= val`")
atomic_or: Callable[..., Any] = _atomic("or", "Bitwise `ref[idx] |= val`")
atomic_xor: Callable[..., Any] = _atomic("xor", "Bitwise `ref[idx] ^= val`")
atomic_xchg: Callable[..., Any] = _atomic("xchg", "Store `val` in `ref[idx]`")


@public
def atomic_cas(
    ref: AnyRef, cmp: ArrayLike, val: PyTree, *, mask: Any = None, sem: str | None = None,
    scope: str | None = None,
) -> Any:  # fmt: skip
    """Store `val` in a Ref (or `ref.at[...]`) where it holds `cmp`, as one step; gives what was there before.

    `sem` and `scope` are those of `atomic_add`.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(o):
    ...     o[0] = 5
    ...     o[1] = tl.atomic_cas(o.at[0], 5, 8)
    >>> out = tw.ShapeDtypeStruct((2,), 'int32')
    >>> tl.kernel_call(body, out)().tolist()
    [8, 5]
    """
    sync = _sync("atomic_cas", sem, scope)
    target = refs.view(ref)
    index, value, operands = refs.store_operands(target, val, mask)
    expected = refs.store_operands(target, cmp)[1]
    params = {"index": index, "masked": mask is not None, "wanted": True, **sync}
    return atomic_cas_p.bind(target.ref, expected, value, *operands, **params)[0]
