"""`checkify` of kernels: each cell writes the results of its checks to its own block of an additional output.

Which cell failed first is found after the kernel, in the order of the grid, so cells may still run in any order. On
TPUs a block is at least a tile of memory. Only the user's own checks are looked at within a body, because what lies
past the end of an array may be anything. NaN is looked for in the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.checkify.check_primitive import ZERO, Site
from ...core.ir.array import Array
from ...core.ir.program import Eqn
from ...core.ir.types import INT32, ArrayType, is_bool
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.external.staging import platform
from ...core.primitives.movement.dynamic_slice import dynamic_slice_p
from ...core.primitives.movement.shape import broadcast_in_dim_p, iota_p, reshape_to
from ...core.primitives.refs.ref_views import view, write
from ...core.support.errors import FailedCheckError
from ...core.tracing.trace import shape_of, typeof
from ...core.transforms.rule_helpers import zeros
from ..kernel.kernel import Block, Kernel
from .rebuild import grid_block, with_body

if TYPE_CHECKING:
    from ...core.checkify.transform import Walk


def checked_call(walk: Walk, eqn: Eqn, values: Sequence[Any], bind: Callable[..., Any]) -> Any:
    """Bind a kernel again with its checks as outputs; None where it has no enabled checks."""
    kernel: Kernel = eqn.params["kernel"]
    if FailedCheckError not in walk.errors:
        return None
    sites = walk.sites_of(kernel.body)
    if not sites:
        return None
    found = _kernel(kernel, walk, sites)
    start = [zeros(b.array) for b in found.inputs[len(kernel.inputs) :]]
    outs = bind(found, *values, *start)
    n = len(kernel.outputs)
    code, *payload = (_untiled(x, t) for x, t in zip(outs[n:], _types(sites), strict=True))
    shape = kernel.grid
    ids = [iota_p.bind(shape=shape, dtype=INT32, dimension=a) for a in range(len(shape))]
    placed, spread = [], []
    rest = iter(payload)
    for s in sites:
        placed.append(replace(s, where=_where(kernel), types=(*(ArrayType((), INT32) for _ in shape), *s.types)))
        spread += [*ids, *(convert_element_type(next(rest), t.dtype) for t in s.types)]
    walk.discharge(code, spread, placed)
    return outs[:n]


def _where(kernel: Kernel) -> str:
    name = kernel.name.replace("{", "{{").replace("}", "}}")
    return f"kernel {name}, cell ({', '.join('{}' for _ in kernel.grid)}): "


def _types(sites: Sequence[Site]) -> list[ArrayType]:
    """Code and payload as a kernel stores them: booleans as integers."""
    stored = [ArrayType(t.shape, INT32) if is_bool(t.dtype) else t for s in sites for t in s.types]
    return [ArrayType((), INT32), *stored]


def _tile(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The block that holds a value of a shape: no scalar, and on TPUs two axes at least."""
    if platform() != "tpu":
        return shape or (1,)
    return (8, *(shape or (128,))) if len(shape) < 2 else shape


def _tiled(x: Array, type: ArrayType) -> Any:
    """A value as its block holds it, repeated along the axes that the block has more."""
    if is_bool(typeof(x).dtype):
        x = convert_element_type(x, INT32)
    shape, wanted = shape_of(x), _tile(type.shape)
    if shape == wanted:
        return x
    return broadcast_in_dim_p.bind(
        x, shape=wanted, broadcast_dimensions=tuple(range(len(wanted) - len(shape), len(wanted))))  # fmt: skip


def _untiled(x: Array, type: ArrayType) -> Any:
    """What cells wrote, without what was repeated: the grid's axes, then the value's."""
    shape, wanted = shape_of(x), _tile(type.shape)
    grid, more = shape[: len(shape) - len(wanted)], len(wanted) - len(type.shape)
    if not more:
        return x
    sizes = (*grid, *[1] * more, *type.shape)
    part = dynamic_slice_p.bind(x, *[ZERO] * len(shape), slice_sizes=sizes)
    return reshape_to(part, (*grid, *type.shape))


def _kernel(kernel: Kernel, walk: Walk, sites: Sequence[Site]) -> Kernel:
    """The kernel with an output more for the code and each value of the payload."""
    grid, types = kernel.grid, _types(sites)
    axes = range(len(grid))
    more = [grid_block(f"checks{i}", _tile(t.shape), t.dtype, axes, grid, kernel.prefetch) for i, t in enumerate(types)]
    # Cells outside of a computed grid do not run: the array starts as zeros then.
    starts: list[Block] = [replace(b, name=f"{b.name}_start") for b in more] if kernel.computed else []
    n, m = len(kernel.inputs), len(kernel.outputs)
    aliases = [*kernel.aliases, *((n + i, m + i) for i in range(len(starts)))]

    def body(
        ids: Sequence[Any], prefetched: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        scratch: Sequence[Any],
    ) -> None:  # fmt: skip
        state = type(walk)(frozenset({FailedCheckError}))
        state.run(kernel.body, [*ids, *prefetched, *inputs[:n], *outputs[:m], *scratch])
        for ref, x, t in zip(outputs[m:], state.state, types, strict=True):
            write(view(ref), _tiled(x, t))

    made = kernel.replace(inputs=(*kernel.inputs, *starts), outputs=(*kernel.outputs, *more), aliases=tuple(aliases))
    return with_body(made, body)
