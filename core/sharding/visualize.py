"""How an array lies on the devices of a mesh, as a picture in text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.array import Operand
from ..ir.primitive import Primitive
from ..ir.program import CALLBACK
from ..primitives.spmd.varying_axes import mesh_axes
from ..support.errors import ArgumentError, UnsupportedError
from ..tracing.trace import Tracer

if TYPE_CHECKING:
    from .mesh import NamedSharding

# Tells a function how a value of a program lies, when the program is compiled.
inspect_sharding_p: Primitive = Primitive(
    "inspect_sharding", lambda x, **_: [], multiple=True, effects=lambda *types, **_: frozenset({CALLBACK}),
    jvp=lambda primals, tangents, **how: (inspect_sharding_p.bind(*primals, **how), []),
    batch=lambda axis, args, dims, **how: (inspect_sharding_p.bind(*args, **how), []), numpy=lambda x, **_: [],
)  # fmt: skip


def visualize_sharding(shape: Sequence[int], sharding: NamedSharding, **style: Any) -> None:
    """Print which devices hold which part of an array of a shape, of one or two dimensions.

    Raises:
      ArgumentError: an array of no or of more dimensions.

    >>> import tilewright as tw
    >>> visualize_sharding((8, 4), tw.NamedSharding(tw.make_mesh((1,), ("x",)), tw.P("x")))
    +-------+
    | CPU 0 |
    +-------+
    """
    if len(shape) not in (1, 2):
        raise ArgumentError(f"a picture of an array of shape {tuple(shape)}", "one or two dimensions; reshape it")
    cells: dict[tuple[int, int], list[Any]] = {}
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        starts = [i.indices(n)[0] for i, n in zip(index, shape, strict=True)]
        cells.setdefault((starts[0], starts[1]) if len(starts) == 2 else (0, starts[0]), []).append(device)
    rows, columns = sorted({r for r, _ in cells}), sorted({c for _, c in cells})
    texts = [[_devices(cells.get((r, c), [])) for c in columns] for r in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(columns))]
    line = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
    shown = [line]
    for row in texts:
        shown += ["|" + "|".join(f" {text:^{w}} " for text, w in zip(row, widths, strict=True)) + "|", line]
    print("\n".join(shown))


def _devices(devices: Sequence[Any]) -> str:
    return f"{devices[0].platform.upper()} {','.join(str(d.id) for d in devices)}" if devices else ""


def visualize_array_sharding(arr: Operand, **style: Any) -> None:
    """Print which devices hold which part of an array of one or two dimensions, as `inspect_array_sharding` finds it.

    Errors as `visualize_sharding`.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> mesh = tw.make_mesh((1,), ("x",))
    >>> visualize_array_sharding(tw.device_put(tnp.ones((4, 4)), tw.NamedSharding(mesh, tw.P("x"))))
    +-------+
    | CPU 0 |
    +-------+
    """
    shape = arr.shape
    inspect_array_sharding(arr, callback=lambda found: visualize_sharding(shape, found, **style))


def inspect_array_sharding(value: Operand, *, callback: Callable[[Any], None]) -> None:
    """Call a function on the sharding of an array; on that of a value within a program when this is compiled.

    Raises:
      UnsupportedError: a value of one device within a `shard_map`.

    >>> import tilewright as tw
    >>> inspect_array_sharding(tw.numpy.ones(2), callback=lambda s: print(s.is_fully_replicated))
    True
    """
    if not isinstance(value, Tracer):
        callback(value.sharding)
    elif mesh_axes():
        raise UnsupportedError(
            f"the sharding of {value.describe()}, which is one device's part",
            "inspect what is given to the `shard_map`, or what it gives",
        )
    else:
        inspect_sharding_p.bind(value, callback=callback, number=-1)
