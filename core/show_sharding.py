"""How an array lies on the devices of a mesh, as a picture in text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .errors import ArgumentError, UnsupportedError
from .trace import Tracer


def visualize_sharding(shape: Sequence[int], sharding: Any, **style: Any) -> None:
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


def visualize_array_sharding(arr: Any, **style: Any) -> None:
    """Print which devices hold which part of an array of one or two dimensions. Errors as `visualize_sharding`."""
    visualize_sharding(arr.shape, _of(arr), **style)


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Call a function on the sharding of an array.

    Raises:
      UnsupportedError: a traced value, whose sharding is settled when its program is compiled.

    >>> import tilewright as tw
    >>> inspect_array_sharding(tw.numpy.ones(2), callback=lambda s: print(s.is_fully_replicated))
    True
    """
    callback(_of(value))


def _of(x: Any) -> Any:
    if isinstance(x, Tracer):
        raise UnsupportedError(
            f"the sharding of {x.describe()}, which is settled when its program is compiled",
            "look at the result's `sharding`, or at `explain(f, ...)`, which tells each exchange",
        )
    return x.sharding
