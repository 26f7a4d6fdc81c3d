"""Values that are sums over devices, as types tell of them along axes of a mesh.

    f32[8,4]{U:x}   unreduced: along x each device holds a part, and the value is the sum of the parts
    f32[8,4]{R:x}   reduced: along x all devices hold the value, and its cotangents are unreduced

The two are each other's cotangents. An operation that is linear in what is unreduced is done to each part; any other
needs the value, so that it is an error. An operation is linear in some operands if its derivative by them does not
depend on them, and if nothing that is beside them is added to them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ..ir.axis_relation import IDENTITY
from ..ir.passes import eliminate_dead
from ..ir.primitive import Primitive, Zero
from ..ir.types import FLOAT32, ArrayType, is_inexact, is_integer
from ..support.errors import DtypeError, ShardingTypeError, Source
from ..support.memo import cached
from ..tracing.trace import trace_program
from .mesh import PartitionSpec

Axes = frozenset[Any]
WHOLE = PartitionSpec()


def spec_of(type: ArrayType) -> PartitionSpec:
    """How an array lies, as its type tells."""
    placed = getattr(type, "placed", None)
    return WHOLE if placed is None else placed.spec


def is_marked(type: ArrayType) -> bool:
    """Whether a type tells of axes along which its values are unreduced or reduced."""
    return bool(spec_of(type).marked)


def marks_of_results(
    primitive: Primitive, types: Sequence[Any], plain: tuple[Any, ...], params: dict[str, Any], contracts: bool
) -> tuple[Axes, Axes]:
    """The axes along which an operation's results are unreduced, and those along which they are reduced.

    What stands beside a reduced operand counts as reduced: its cotangent is summed there. The result of an operation
    that `contracts` axes of several operands is not reduced.

    Raises:
      ShardingTypeError: an operation that is not linear in what is unreduced, or that adds something else to it.
    """
    specs = [spec_of(t) for t in types]
    unreduced = axes_of_sum(primitive, types, plain, params, [s.unreduced for s in specs],
                            [frozenset(s.axes) for s in specs])  # fmt: skip
    reduced: Axes = frozenset().union(*(s.reduced for s in specs))
    several = sum(isinstance(t, ArrayType) and is_inexact(t.dtype) for t in types) > 1
    return unreduced, frozenset() if contracts and several else reduced - unreduced


def axes_of_sum(primitive: Primitive, types: Sequence[Any], plain: tuple[Any, ...], params: dict[str, Any],
                unreduced: Sequence[Axes], split: Sequence[Axes], source: Source | None = None) -> Axes:  # fmt: skip
    """The axes along which an operation's results are unreduced, its operands being unreduced along `unreduced`.

    `split` are the axes along which other operands differ between devices. Raises ShardingTypeError as
    `marks_of_results` does.
    """
    def error(what: str) -> ShardingTypeError:
        remedy = "sum it over the devices first: `reshard(x, P(...))`, within `shard_map` `lax.psum`"
        return ShardingTypeError(f"{primitive.name} of {', '.join(t.show() for t in types)}: {what}", remedy, source)

    parts = [i for i, axes in enumerate(unreduced) if axes]
    if not parts:
        return frozenset()
    if len({unreduced[i] for i in parts}) > 1:
        raise error("the operands are unreduced along different axes")
    if primitive.expand is not None:
        raise error("it is decomposed into operations that would apply to each partial sum")
    given, found = tuple(params.items()), unreduced[parts[0]]
    if primitive.kind != IDENTITY and _depends(primitive, plain, given, tuple(parts)):
        raise error("it is not linear in what is unreduced")
    for i, t in enumerate(types):
        if i not in parts and not found.isdisjoint(split[i]):
            raise error("another operand of a partial sum is sharded along the same axis")
        number = isinstance(t, ArrayType) and (is_inexact(t.dtype) or is_integer(t.dtype))
        if i not in parts and number and not _depends(primitive, plain, given, tuple(sorted((*parts, i)))):
            raise error("what is not unreduced would be added to each part")
    return found


@cached(4096)
def _depends(primitive: Primitive, types: tuple[Any, ...], params: Sequence[Any], at: tuple[int, ...]) -> bool:
    """Whether a derivative by some operands depends on them; so it counts where there is none.

    Integers have none: what is linear in a float of their shape is linear in them.
    """
    if primitive.jvp is None:
        return True
    if all(is_inexact(types[i].dtype) for i in at):
        return _derivative_depends(primitive, types, params, at)
    for floats in (range(len(types)), at):  # other operands may be indices, which stay integers
        given = [ArrayType(t.shape, FLOAT32) if i in floats and is_integer(t.dtype) else t for i, t in enumerate(types)]
        with contextlib.suppress(DtypeError):
            return _derivative_depends(primitive, given, params, at)
    return True


def _derivative_depends(primitive: Primitive, types: Sequence[Any], params: Sequence[Any], at: tuple[int, ...]) -> bool:
    jvp, n, missing = primitive.jvp, len(types), []
    assert jvp is not None

    def tangent(*args: Any) -> list[Any]:
        given = iter(args[n:])
        moving = [next(given) if i in at else Zero(t.tangent()) for i, t in enumerate(types)]
        _, found = jvp(args[:n], moving, **dict(params))
        found = list(found) if primitive.multiple else [found]
        missing.extend(t for t in found if type(t) is Zero)
        return [t for t in found if type(t) is not Zero]

    program = trace_program(tangent, [*types, *(types[i].tangent() for i in at)], primitive.name)
    used = eliminate_dead(program)[1]
    return bool(missing) or any(used[i] for i in at)
