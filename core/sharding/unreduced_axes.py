"""Values that are sums over devices, as types tell of them along axes of a mesh.

    f32[8,4]{U:x}   unreduced: along x each device holds a part, and the value is the sum of the parts
    f32[8,4]{R:x}   reduced: along x all devices hold the value, and its cotangents are unreduced

The two are each other's cotangents. An operation that is linear in what is unreduced is done to each part; any other
needs the value, so that it is an error. An operation is linear in some operands if its derivative by them does not
depend on them, and if nothing that is beside them is added to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.axis_relation import IDENTITY
from ..ir.passes import eliminate_dead
from ..ir.primitive import Primitive, Zero
from ..ir.types import ArrayType, is_inexact
from ..support.errors import ShardingTypeError
from ..support.memo import cached
from ..tracing.trace import trace_program
from .mesh import PartitionSpec

Axes = frozenset[Any]
WHOLE = PartitionSpec()


def spec_of(type: Any) -> PartitionSpec:
    """How an array lies, as its type tells."""
    placed = getattr(type, "placed", None)
    return WHOLE if placed is None else placed.spec


def is_marked(type: Any) -> bool:
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
    inexact = [i for i, t in enumerate(types) if isinstance(t, ArrayType) and is_inexact(t.dtype)]
    parts = [i for i, t in enumerate(types) if spec_of(t).unreduced]
    unreduced = _of_parts(primitive, types, plain, params, parts, inexact) if parts else frozenset()
    reduced: Axes = frozenset().union(*(spec_of(t).reduced for t in types))
    return unreduced, frozenset() if contracts and len(inexact) > 1 else reduced - unreduced


def _of_parts(primitive: Primitive, types: Sequence[Any], plain: tuple[Any, ...], params: dict[str, Any],
              parts: Sequence[int], inexact: Sequence[int]) -> Axes:  # fmt: skip
    axes = {spec_of(types[i]).unreduced for i in parts}
    if len(axes) > 1:
        raise _error(primitive, types, "the operands are unreduced along different axes")
    if primitive.expand is not None:
        raise _error(primitive, types, "it is decomposed into operations that would apply to each partial sum")
    given, found = tuple(params.items()), axes.pop()
    if primitive.kind != IDENTITY and _depends(primitive, plain, given, tuple(parts)):
        raise _error(primitive, types, "it is not linear in what is unreduced")
    for i, t in enumerate(types):
        if i not in parts and not found.isdisjoint(spec_of(t).axes):
            raise _error(primitive, types, "another operand of a partial sum is sharded along the same axis")
        if i not in parts and i in inexact and not _depends(primitive, plain, given, tuple(sorted((*parts, i)))):
            raise _error(primitive, types, "what is not unreduced would be added to each part")
    return found


def _error(primitive: Primitive, types: Sequence[Any], what: str) -> ShardingTypeError:
    remedy = "sum it over the devices first: `reshard(x, P(...))`"
    return ShardingTypeError(f"{primitive.name} of {', '.join(t.show() for t in types)}: {what}", remedy)


@cached(4096)
def _depends(primitive: Primitive, types: tuple[Any, ...], params: Any, at: tuple[int, ...]) -> bool:
    """Whether a derivative by some operands depends on them; so it counts where there is none."""
    jvp, n, missing = primitive.jvp, len(types), []
    if jvp is None:
        return True

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
