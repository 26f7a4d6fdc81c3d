"""Automatic tiling: a body written for tiles, whose sizes and loop order are chosen for the target.

    axes    ::= operand {"," operand} "->" operand {"," operand}
    operand ::= axis {axis}            "" is a scalar
    axis    ::= name | batch ":" name          the rows of each batch, consecutive, as a table of offsets says

`"m k, k n -> m n"` is a product of matrices: an axis that no result has is reduced. One choice of tiles is one kernel;
the cheapest by the roofline is taken, with the cells' own cost, of those whose blocks fit.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.array import Array
from ...core.ir.types import INT32, ArrayType, MemorySpace, is_float
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p
from ...core.primitives.elementwise.comparison import select
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.shape import broadcast_in_dim, iota_p
from ...core.primitives.reduction.reduce import highest, lowest
from ...core.support import pytree
from ...core.support.errors import ArgumentError, ShapeError, plural
from ...core.tracing.array_conversion import as_array
from ...core.tracing.trace import Tracer, as_type, trace_program, typeof
from ..call.kernel_call import kernel_call
from ..cost.estimate import program_cost
from ..cost.roofline import products
from ..kernel.block_spec import BlockSpec, BoundedSlice, PrefetchScalarGridSpec
from ..ops.basic import ds, program_id, when_all
from ..targets.target import Target, current_target

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef

CELL_SECONDS = {"cpu": 2e-6, "tpu": 3.5e-7, "cuda": 0.0, "rocm": 0.0}  # what a cell costs beside its work
LAUNCH_WAVE = 1e-6  # a wave of a GPU's programs
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
MOST = 120  # choices looked at
Tiles = dict[str, int]
_COMBINE = {"sum": (add_p, lambda dtype: 0), "max": (max_p, lowest), "min": (min_p, highest)}


def _neutral(reduce: str, dtype: np.dtype[Any]) -> Any:
    """The element of a dtype that a reduction does not change by."""
    return np.asarray(_COMBINE[reduce][1](dtype)).astype(dtype)[()]


@dataclass(frozen=True)
class Axes:
    """The axes of operands and results by name; `jagged`: for rows that a table cuts, the batch that they belong to."""

    ins: tuple[tuple[str, ...], ...]
    outs: tuple[tuple[str, ...], ...]
    jagged: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a for one in (*self.outs, *self.ins) for a in one))

    @property
    def reduced(self) -> tuple[str, ...]:
        kept = {a for one in self.outs for a in one}
        return tuple(a for a in self.names if a not in kept)


def parsed(text: str) -> Axes:
    """The axes that a text names."""
    sides = text.split("->")
    if len(sides) != 2:
        raise ArgumentError(f"auto: the axes are {text!r}", 'write them as "m k, k n -> m n"')
    jagged: dict[str, str] = {}

    def operand(one: str) -> tuple[str, ...]:
        found = []
        for word in one.split():
            batch, colon, name = word.rpartition(":")
            if colon:
                jagged[name] = batch
            if not name.isidentifier() or (colon and not batch.isidentifier()):
                raise ArgumentError(f"auto: {word!r} in the axes {text!r}", "axes are names, `rows` or `batch:rows`")
            found.append(name)
        if len(set(found)) != len(found):
            raise ArgumentError(f"auto: an axis stands twice in {one.strip()!r}", "give each axis a name of its own")
        return tuple(found)

    ins, outs = (tuple(operand(one) for one in side.split(",")) for side in sides)
    axes = Axes(ins, outs, jagged)
    missing = [a for one in axes.outs for a in one if a not in {*itertools.chain(*axes.ins), *jagged.values()}]
    if missing:
        raise ArgumentError(
            f"auto: no operand of {text!r} has the axis {missing[0]!r}", "results follow operands' axes"
        )
    lost = [a for a, b in jagged.items() if any(a in one and b not in one for one in axes.outs)]
    if lost:
        raise ArgumentError(f"auto: a result of {text!r} has the rows {lost[0]!r} and not their batch",
                            "results have both, or neither rows nor batch's cells are reduced")  # fmt: skip
    return axes


class Place:
    """The current tile's indices: `place("m")` gives those along an axis as an int32 array."""

    starts: Mapping[str, Any]
    tiles: Mapping[str, int]

    def __init__(self, starts: Mapping[str, Any], tiles: Mapping[str, int]):
        self.starts, self.tiles = starts, tiles

    def __call__(self, axis: str) -> Any:
        steps = iota_p.bind(dtype=INT32, shape=(self.tiles[axis],), dimension=0)
        start = self.starts[axis]
        return steps if isinstance(start, int) else steps + start


class Auto:
    """A body for tiles with its axes; made by `auto`."""

    body: Callable[..., Any]
    axes: Axes
    space: dict[str, Sequence[int]]
    reduce: str
    whole: tuple[str, ...]
    most: dict[str, int]
    options: dict[str, Any]

    def __init__(self, body: Callable[..., Any], axes: Axes, space: Mapping[str, Sequence[int]], whole: Sequence[str],
                 reduce: str, most: Mapping[str, int], options: Mapping[str, Any]):  # fmt: skip
        self.body, self.axes, self.space, self.reduce = body, axes, dict(space), reduce
        self.whole, self.most, self.options = tuple(whole), dict(most), dict(options)
        unknown = {*self.space, *self.whole, *self.most}.difference(axes.names, axes.jagged.values())
        if unknown:
            raise ArgumentError(
                f"auto: space, whole or most names {sorted(unknown)}", f"axes are {', '.join(axes.names)}"
            )
        if reduce not in _COMBINE:
            raise ArgumentError(f"auto: reduce is {reduce!r}", f"give one of {', '.join(_COMBINE)}")
        self.placed: bool = "place" in inspect.signature(body).parameters
        self.calls: dict[Any, Callable[..., Any]] = {}
        self.ranked: dict[Any, list[Tiles]] = {}
        self.traced: dict[Any, Any] = {}

    # ------------------------------------------------------------ sizes

    def sizes(self, types: Sequence[ArrayType]) -> dict[str, int]:
        """The size of each axis, from the operands; jagged rows: the most of one batch."""
        axes, given = self.axes, list(types)
        sizes: dict[str, int] = {}
        if axes.jagged:
            table = given.pop(0)
            for batch in axes.jagged.values():
                sizes[batch] = table.shape[0] - 1
        if len(given) != len(axes.ins):
            raise ArgumentError(f"auto: {plural(len(given), 'operand')} for {len(axes.ins)} of the axes",
                                "give one for each")  # fmt: skip
        for number, (one, type_) in enumerate(zip(axes.ins, given, strict=True)):
            if len(one) != type_.ndim:
                raise ShapeError(f"auto: operand {number} is {type_.show()}, its axes are {' '.join(one)!r}",
                                 "give an axis for each of the operand's")  # fmt: skip
            for a, n in zip(one, type_.shape, strict=True):
                n = self.most.get(a, n) if a in axes.jagged else n
                if sizes.setdefault(a, n) != n:
                    raise ShapeError(f"auto: axis {a} is {sizes[a]}, and {n} in operand {number} of {type_.show()}",
                                     "axes of one name have one size")  # fmt: skip
        return sizes

    def results(self, types: Sequence[ArrayType], tiles: Tiles) -> tuple[list[ArrayType], Any, Any]:
        """What the body gives for tiles: types, their tree, and the Program of one cell."""
        key = tuple(types), tuple(tiles.items())
        if key not in self.traced:
            self.traced[key] = self.trace(types, tiles)
        return self.traced[key]

    def trace(self, types: Sequence[ArrayType], tiles: Tiles) -> tuple[list[ArrayType], Any, Any]:
        axes = self.axes
        shape: Any = None
        given = [ArrayType(tuple(tiles[a] for a in one), t.dtype) for one, t in zip(axes.ins, types, strict=True)]

        def flat(*values: Any) -> list[Any]:
            nonlocal shape
            starts = dict.fromkeys(axes.names, 0)
            found, shape = pytree.flatten(self.run(values, Place(starts, tiles)))
            return found

        program = trace_program(flat, given, getattr(self.body, "__name__", "auto"))
        found: list[Any] = [v.type for v in program.outputs]
        for number, (one, t) in enumerate(zip(axes.outs, found, strict=False)):
            wanted = tuple(1 if self.lead(a, one) else tiles[a] for a in one)
            if t.shape != tuple(n for a, n in zip(one, wanted, strict=True) if not self.lead(a, one)):
                raise ShapeError(
                    f"auto: the body gives {t.show()} for result {number}, whose axes are {' '.join(one)!r}, from "
                    f"tiles of {', '.join(f'{a}={n}' for a, n in tiles.items())}",
                    "give a tile's axes in this order; the batch of jagged rows is no axis of a tile")  # fmt: skip
        if len(found) != len(axes.outs):
            raise ShapeError(f"auto: the body gives {plural(len(found), 'result')} for {len(axes.outs)}",
                             "give one for each")  # fmt: skip
        return found, shape, program

    def lead(self, axis: str, one: Sequence[str]) -> bool:
        """Whether an axis of a result is the batch of jagged rows: one cell has one of it."""
        return axis in self.axes.jagged.values() and not any(axis in o for o in self.axes.ins)

    def run(self, tiles: Sequence[Any], place: Place) -> Any:
        return self.body(*tiles, place=place) if self.placed else self.body(*tiles)

    # ------------------------------------------------------------ choices

    def tried(self, sizes: Mapping[str, int], target: Target) -> list[Tiles]:
        """The tiles worth looking at: what `space` says, else powers of two that the target likes, and whole axes."""
        minor = {one[-1] for one in (*self.axes.ins, *self.axes.outs) if one}
        found: list[Sequence[int]] = []
        for name in self.axes.names:
            n = sizes[name]
            if self.lead(name, ()):
                found.append((1,))
            elif name in self.space:
                found.append(
                    tuple(min(int(t), n) if name not in self.axes.jagged else int(t) for t in self.space[name])
                )
            elif name in self.whole or n <= 8:
                found.append((n,))
            else:
                rows = target.sublanes if target.kind == "tpu" else 1 if self.whole else 16
                least = target.lanes if name in minor else rows
                fits = [t for t in SIZES if least <= t < n]
                fits = fits[:: -(-len(fits) // 6) or 1]
                held = not target.gpu or (n & (n - 1) == 0 and n <= SIZES[-1])  # GPUs pad it to a power of two
                found.append((*fits, n) if held or not fits else tuple(fits))
        count = math.prod(map(len, found))
        while count > MOST:  # the longest list gives up its middle
            k = max(range(len(found)), key=lambda i: len(found[i]))
            found[k] = found[k][::2]
            count = math.prod(map(len, found))
        return [dict(zip(self.axes.names, tiles, strict=True)) for tiles in itertools.product(*found)]

    def order(self, sizes: Mapping[str, int], tiles: Tiles, itemsize: Sequence[int]) -> tuple[tuple[str, ...], int]:
        """The axes of the grid, outermost first, that move the fewest bytes, and those bytes; reduced ones are last."""
        counts = {a: -(-sizes[a] // tiles[a]) for a in self.axes.names}
        batches = [b for b in self.axes.jagged.values() if b not in self.axes.names]
        counts |= {b: sizes[b] for b in batches}
        free = [a for a in (*batches, *self.axes.names) if a not in self.axes.reduced]
        tail = [*(b for b in batches if b in self.axes.reduced), *self.axes.reduced]
        best: tuple[tuple[str, ...], int] | None = None
        orders = itertools.permutations(free) if len(free) < 5 else [tuple(free)]
        for lead in orders:
            names = (*lead, *(a for a in tail if a not in lead))
            moved = 0
            for one, size in zip((*self.axes.ins, *self.axes.outs), itemsize, strict=True):
                follows = {*one, *(self.axes.jagged[a] for a in one if a in self.axes.jagged)}
                last = max((i for i, a in enumerate(names) if a in follows and counts[a] > 1), default=-1)
                moved += math.prod(tiles[a] for a in one) * size * math.prod(counts[a] for a in names[: last + 1])
            if best is None or moved < best[1]:
                best = names, moved
        assert best is not None
        return best

    def seconds(self, types: Sequence[ArrayType], sizes: Mapping[str, int], tiles: Tiles, target: Target) -> float:
        """The least time of a choice on a target, by the roofline; infinite where its blocks do not fit."""
        least = {a: min(n, 8) if a not in self.whole else n for a, n in tiles.items()}
        small, _, little = self.results(types, least)
        itemsize = [t.dtype.itemsize for t in (*types, *small)]
        held = sum(math.prod(tiles[a] for a in one) * n for one, n in
                   zip((*self.axes.ins, *self.axes.outs), itemsize, strict=True))  # fmt: skip
        room = 2**26 if target.whole_arrays else target.block_bytes
        if target.gpu and not products(little):  # what is not multiplied stays in registers
            room = target.register_bytes
        if 2 * held > room:
            return math.inf
        _, _, program = self.results(types, tiles)
        largest = max((math.prod(v.type.shape) for e in program.eqns for v in e.outputs), default=0)
        if target.block_limit and largest > target.block_limit:
            return math.inf
        names, moved = self.order(sizes, tiles, itemsize)
        cells = math.prod(-(-sizes[a] // tiles.get(a, 1)) for a in names)
        cost = program_cost(program)
        unit = target.matrix[0] if target.kind == "tpu" else 1
        matrix = sum(n * cells / target.rate(dtype) for dtype, n in products(program, unit).items())
        rest = max(cost.flops - sum(products(program).values()), cost.transcendentals * max(target.vector_slots, 1), 0)
        side = math.prod(-(-sizes[a] // tiles[a]) for a in names if a in tiles and a not in self.axes.reduced)
        busy = 1.0
        if target.units > 1 and target.gpu:  # programs that there are not enough of leave units idle
            busy = side / (-(-side // target.units) * target.units)
        work = max(matrix, rest * cells / target.vector_rate) / busy
        return max(work, moved / target.bandwidth) + cells * CELL_SECONDS[target.kind] + (
            LAUNCH_WAVE * (-(-side // target.units)) if target.gpu else 0.0)  # fmt: skip

    def choices(self, *args: Any, target: Any = None) -> list[Tiles]:
        """The tiles worth trying for such operands, the cheapest by the roofline first."""
        types: Any = tuple(as_type(x).strong() for x in args)
        machine = current_target(target)
        found = self.ranked.get((types, machine))
        if found is None:
            sizes, arrays = self.sizes(types), types[bool(self.axes.jagged) :]
            timed = [(self.seconds(arrays, sizes, t, machine), n, t) for n, t in enumerate(self.tried(sizes, machine))]
            fit = sorted(x for x in timed if x[0] < math.inf)
            if not fit:
                name = getattr(self.body, "__name__", "the body")
                raise ArgumentError(f"auto: no tiles of {name} fit {machine.name}",
                                    "name smaller ones in `space`, or fewer axes in `whole`")  # fmt: skip
            found = self.ranked[types, machine] = [t for _, _, t in fit]
            self.traced.clear()
        return found

    # ------------------------------------------------------------ the kernel

    def __call__(self, *args: Any, tiles: Mapping[str, int] | None = None, interpret: Any = False) -> Any:
        arrays = [as_array(x) for x in args]
        types: Any = tuple(typeof(x).strong() for x in arrays)
        chosen = dict(self.choices(*arrays)[0] if tiles is None else {**self.choices(*arrays)[0], **tiles})
        unknown = set(chosen).difference(self.axes.names)
        if unknown:
            raise ArgumentError(f"auto: tiles has {sorted(unknown)}", f"axes are {', '.join(self.axes.names)}")
        key = types, tuple(chosen.items()), bool(interpret) and interpret
        if key not in self.calls:
            self.calls[key] = _Tiling(self, types, chosen).call(interpret)
        return self.calls[key](*arrays)


class _Tiling:
    """The kernel of one choice of tiles: its grid, blocks and body."""

    def __init__(self, auto: Auto, types: Sequence[ArrayType], tiles: Tiles):
        axes = auto.axes
        self.auto, self.axes, self.tiles = auto, axes, tiles
        self.sizes, self.arrays = auto.sizes(types), types[bool(axes.jagged) :]
        self.outs, self.out_tree, _ = auto.results(self.arrays, tiles)
        self.names, _ = auto.order(self.sizes, tiles, [t.dtype.itemsize for t in (*self.arrays, *self.outs)])
        self.grid = tuple(-(-self.sizes[a] // tiles.get(a, 1)) for a in self.names)
        self.at = {a: k for k, a in enumerate(self.names)}  # the number of an axis in the grid
        kept = set(itertools.chain(*axes.outs))
        reduced = [*axes.reduced, *(b for b in axes.jagged.values() if b in self.names)]
        # Axes of the grid whose cells add up in one block of a result.
        self.carried = [a for a in reduced if a not in kept and self.grid[self.at[a]] > 1]
        self.wide = [t.dtype.itemsize < 4 and is_float(t.dtype) and bool(self.carried) for t in self.outs]

    def call(self, interpret: Any) -> Callable[..., Any]:
        axes, auto = self.axes, self.auto
        result = [ArrayType(tuple(self.sizes[a] for a in one), t.dtype)
                  for one, t in zip(axes.outs, self.outs, strict=True)]  # fmt: skip
        scratch = [MemorySpace.VMEM(tuple(t.shape), "float32") for t, w in zip(self.outs, self.wide, strict=True) if w]
        call = kernel_call(
            self.body, result, grid_spec=PrefetchScalarGridSpec(
                bool(axes.jagged), self.grid, [*map(self.in_spec, axes.ins, self.arrays)],
                [self.out_spec(one) for one in axes.outs], scratch),
            dimension_semantics=["arbitrary" if a in self.carried else "parallel" for a in self.names],
            interpret=interpret, name=getattr(auto.body, "__name__", "auto"), **auto.options,
        )  # fmt: skip
        return lambda *args: self.out_tree.unflatten(pytree.leaves(call(*args)))

    def in_spec(self, one: Sequence[str], array: ArrayType) -> BlockSpec:
        axes, tiles = self.axes, self.tiles
        block = [None if self.auto.lead(a, one) else BoundedSlice(tiles[a]) if a in axes.jagged else tiles[a]
                 for a in one]  # fmt: skip

        def index_map(*ids: Any) -> tuple[Any, ...]:
            return tuple(self.rows(ids, a, one) if a in axes.jagged else ids[self.at[a]] for a in one)

        reduced = any(a in axes.reduced for a in one)
        return BlockSpec(block, index_map, fill=_neutral(self.auto.reduce, array.dtype) if reduced else None)

    def out_spec(self, one: Sequence[str]) -> BlockSpec:
        block = [None if self.auto.lead(a, one) else self.tiles[a] for a in one]
        return BlockSpec(block, lambda *ids: tuple(ids[self.at[a]] for a in one))

    def rows(self, ids: Sequence[Any], axis: str, one: Sequence[str]) -> Any:
        """Where the rows of a tile of a batch start, and how many there are; the table comes after the grid's ids."""
        table, batch, size = ids[len(self.grid)], ids[self.at[self.axes.jagged[axis]]], self.tiles[axis]
        array = self.arrays[self.axes.ins.index(tuple(one))]
        total = next(n for a, n in zip(one, array.shape, strict=True) if a in self.axes.jagged)
        start = min_p.bind(table[batch] + ids[self.at[axis]] * np.int32(size), np.int32(total))
        return ds(start, _rest(table[batch + 1] - start, size))

    def body(self, *refs: Any) -> None:
        axes = self.axes
        table, rest = (refs[0], refs[1:]) if axes.jagged else (None, refs)
        ins, held = rest[: len(self.arrays)], rest[len(self.arrays) :]
        starts = {a: program_id(self.at[a]) * self.tiles[a] if self.grid[self.at[a]] > 1 else 0 for a in axes.names}
        place = Place(starts, self.tiles)
        values = [self.kept(r[...], one, table, place, self.auto.reduce) for r, one in zip(ins, axes.ins, strict=True)]
        found = pytree.leaves(self.auto.run(values, place))
        if axes.jagged:
            found = [self.kept(v, [a for a in one if not self.auto.lead(a, one)], table, place, "sum")
                     for v, one in zip(found, axes.outs, strict=True)]  # fmt: skip
        scratch, turns = iter(held[len(self.outs) :]), [(self.at[a], self.grid[self.at[a]]) for a in self.carried]
        for ref, value, wide in zip(held, found, self.wide, strict=False):
            _put(ref, value, next(scratch) if wide else ref, turns, self.auto.reduce)

    def kept(self, value: Array, one: Sequence[str], table: AnyRef | None, place: Place, reduce: str) -> Any:
        """A tile with the rows past the end of its batch replaced by what does not change a reduction."""
        for d, a in enumerate(one):
            if a in self.axes.jagged:
                batch = program_id(self.at[self.axes.jagged[a]])
                inside = place(a) < table[batch + 1] - table[batch]
                shape, other = typeof(value).shape, _neutral(reduce, typeof(value).dtype)
                value = select(broadcast_in_dim(inside, shape, (d,)), value, broadcast_in_dim(other, shape, ()))
        return value


def _rest(count: Array, size: int) -> Any:
    count = max_p.bind(min_p.bind(count, np.int32(size)), np.int32(0))
    return count if isinstance(count, Tracer) else int(count)


def _put(ref: AnyRef, value: Array, into: AnyRef, turns: Sequence[tuple[int, int]], reduce: str) -> None:
    """Store a tile's value, combined with those of earlier iterations along grid axes, given with their sizes.

    `into` is the accumulator: the Ref itself, or scratch that the last iteration stores.
    """
    combine, _ = _COMBINE[reduce]
    value = convert_element_type(value, into.dtype) if typeof(value).dtype != into.dtype else value
    if not turns:
        into[...] = value
        return
    first = [program_id(a) == 0 for a, _ in turns]
    start = broadcast_in_dim(_neutral(reduce, into.dtype), into.shape, ())
    when_all(first, lambda: into.__setitem__(..., start))
    into[...] = combine.bind(into[...], value)
    if into is not ref:
        when_all([program_id(a) == n - 1 for a, n in turns],
                 lambda: ref.__setitem__(..., convert_element_type(into[...], ref.dtype)))  # fmt: skip


def auto(
    axes: str, *, space: Mapping[str, Sequence[int]] | None = None, whole: Sequence[str] = (), reduce: str = "sum",
    most: Mapping[str, int] | None = None, **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """Decorator: a kernel of a body that is written for tiles; their sizes and the order of loops are chosen.

    `axes` names the axes of operands and results: `"m k, k n -> m n"`. The body takes a tile of each operand, as
    arrays, and gives the tile of each result. An axis that no result has is reduced over its tiles by `reduce` ("sum",
    "max" or "min"), with that operation's neutral element past the end. Axes in `whole` are not cut: a softmax's rows.
    A body with a parameter `place` receives its indices: `place("m")` are those of its rows. `space` says
    which sizes may be taken along an axis. The choice is the cheapest for the target by the roofline; `tiles=` of a
    call overrides it, `.choices(*args, target=)` are all of them, cheapest first, and `.configurations`
    is a space for `autotune`. `"b:m d -> b d"` has jagged rows: the first argument is then a table of offsets, int32 of
    (batches + 1,), and `most={"m": n}` bounds the rows of one. `options` go to `kernel_call`. Raises `ArgumentError`
    and `ShapeError` for axes that do not go together, and what `kernel_call` raises.

    >>> import numpy as np
    >>> @auto("m k, k n -> m n")
    ... def matmul(x, y):
    ...     return x @ y
    >>> print(matmul(np.ones((4, 3), np.float32), np.ones((3, 2), np.float32))[0])
    [3. 3.]
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        made = Auto(body, parsed(axes), space or {}, whole, reduce, most or {}, options)

        @functools.wraps(body)
        def call(*args: Any, tiles: Mapping[str, int] | None = None, interpret: Any = False) -> Any:
            return made(*args, tiles=tiles, interpret=interpret)

        call.__signature__ = inspect.signature(made)
        call.choices = made.choices
        call.configurations = lambda *args, **_: [{"tiles": t} for t in made.choices(*args)[:32]]
        return call

    return decorate
