"""`Template`: the kernel that a primitive becomes, as a function of tile sizes and target.

    Template ::= primitive, its nest for operands of some types: the group of one operation, or a special loop nest
    Nest     ::= loops, what a cell holds at some tiles, the kernels at some tiles
    Parts    ::= a special loop nest at given tiles, as what `kernel_call` takes: specs, body, scratch

A template tiles its primitive and never redefines it: the body applies the primitive itself to blocks, and at
whole-array tiles it is that and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..core.ir.primitive import Primitive
from ..core.ir.program import Eqn, Var
from ..core.ir.types import UINT32, ArrayType, is_key
from ..core.primitives.keys.threefry import random_unwrap_p, random_wrap_p
from ..core.primitives.movement.shape import reshape_to
from ..core.support.errors import ArgumentError
from ..core.tracing.numpy_interpreter import apply
from ..core.tracing.trace import trace_program, typeof
from ..lang.call.kernel_call import kernel_call
from ..lang.call.primitive import kernel_call_p
from ..lang.cost.estimate import eqn_cost
from ..lang.kernel.block_spec import BlockAxis, BlockSpec, PrefetchScalarGridSpec
from ..lang.kernel.kernel import Kernel
from ..lang.targets.target import CPU, Target, target_of
from .bodies import store
from .cost import Cost, bytes_moved
from .generate.accumulators import full
from .generate.group import monoid_of
from .generate.loops import Cut, Loops, Tiles
from .generate.single_op import Alone
from .generate.tiles import candidates, check

Types = Sequence[ArrayType]
Params = dict[str, Any]


class Nest(Protocol):
    """An operation on operands of some types as loops that tiles cut: `Own`, or `Alone`, whose words these are."""

    @property
    def loops(self) -> Loops: ...

    def fast_bytes(self, tiles: Sequence[int], target: Target) -> int: ...

    def refuse(self, tiles: Sequence[int], target: Target, room: int) -> str | None: ...

    def candidates(self, target: Target) -> list[Tiles]: ...

    def kernels(self, tiles: Tiles, target: Target, name: str) -> tuple[tuple[Kernel, ...], tuple[int, ...]]: ...


Make = Callable[[Types, Types, Params], Nest]


# ---------------------------------------------------------------------------- special loop nests


@dataclass(frozen=True)
class Parts:
    """A kernel in the author's terms. `args`: which operand each input is (prefetched ones first).

    `views`: by number, operands that it takes in another shape, of the same elements; `outs`: its results where they
    are not the primitive's, which are then views of them.
    """

    body: Callable[..., None]
    in_specs: Sequence[BlockSpec]
    out_specs: Sequence[BlockSpec]
    scratch: Sequence[Any] = ()
    args: Sequence[int] | None = None
    prefetch: int = 0
    aliases: dict[int, int] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None
    views: dict[int, tuple[int, ...]] = field(default_factory=dict)
    outs: Sequence[ArrayType] | None = None


@dataclass(frozen=True)
class Own:
    """Loops of an operation's own, which relations cannot express: `cut` makes the parts for given tiles."""

    types: Types
    outs: Types
    loops: Loops
    cut: Callable[[Cut], Parts]

    def fast_bytes(self, tiles: Sequence[int], target: Target) -> int:
        parts = self._parts(self.loops.cut(tuple(tiles)))
        order = parts.args if parts.args is not None else range(len(self.types))
        arrays = [*(_viewed(self.types[i], parts.views.get(i)) for i in order[parts.prefetch :]),
                  *(raw_type(t) for t in parts.outs or self.outs)]  # fmt: skip
        specs = (*parts.in_specs, *parts.out_specs)
        blocks = sum(math.prod(_sizes(s, a)) * a.dtype.itemsize for s, a in zip(specs, arrays, strict=True))
        return 2 * blocks + sum(s.array.nbytes for s in parts.scratch)

    def _parts(self, cut: Cut) -> Parts:
        if all(0 in t.shape for t in self.outs):
            return Parts(lambda *refs: None, [], [BlockSpec()] * len(self.outs), args=(), grid=(0,))
        return self.cut(cut)

    def refuse(self, tiles: Sequence[int], target: Target, room: int) -> str | None:
        held = self.fast_bytes(tiles, target)
        return f"a cell would hold {held:,} bytes of {room:,}" if held > room else None

    def candidates(self, target: Target) -> list[Tiles]:
        return candidates(self.loops, target, lambda tiles, room: self.refuse(tiles, target, room), regular=False)

    def kernels(self, tiles: Tiles, target: Target, name: str) -> tuple[tuple[Kernel, ...], tuple[int, ...]]:
        cut, types = self.loops.cut(tiles), self.types
        parts = self._parts(cut)
        order = tuple(range(len(types))) if parts.args is None else tuple(parts.args)
        spec = PrefetchScalarGridSpec(
            parts.prefetch, cut.grid if parts.grid is None else parts.grid, list(parts.in_specs),
            list(parts.out_specs), list(parts.scratch)
        )  # fmt: skip
        results = [raw_type(t) for t in parts.outs or self.outs]
        call = kernel_call(parts.body, results, grid_spec=spec, name=name, input_output_aliases=parts.aliases)
        program = trace_program(lambda *xs: call(*xs), [_viewed(types[i], parts.views.get(i)) for i in order], name)
        return (program.eqns[-1].params["kernel"],), order


def filled(out_specs: Sequence[BlockSpec], values: Callable[..., Sequence[Any]], in_specs: Sequence[BlockSpec] = (),
           args: Sequence[int] = (), outs: Types | None = None) -> Parts:  # fmt: skip
    """Results of one number each, where there is nothing to compute from: `values` of the operands read, if any."""

    def body(*refs: Any) -> None:
        results = refs[len(in_specs) :]
        found = values(*(r[...] for r in refs[: len(in_specs)]))
        store(results, [full(v, o.shape) for v, o in zip(found, results, strict=True)])

    return Parts(body, in_specs, out_specs, args=args, outs=outs)


def own(family: str, primitive: Primitive, parts: Callable[[Types, Types, Params, Cut], Parts],
        loops: Callable[[Types, Params], Loops] | None = None, blockwise: bool = False, words: bool = False
        ) -> Template:  # fmt: skip
    """The template of an operation by its parts at given tiles of its loops (None: those of its result).

    In one cell it is the primitive itself. `blockwise`: it is that on blocks too, where no loop that carries is cut.
    `words`: it works on random keys, which kernels see as words.
    """

    def made(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        if words or any(0 in t.shape for t in (*types, *outs)):
            return parts(types, outs, params, cut)
        count = len(types)

        def body(*refs: Any) -> None:
            found = primitive.bind(*(r[...] for r in refs[:count]), **params)
            store(refs[count:], found if primitive.multiple else [found])

        if cut.cells == 1:
            ins, results = ([cut.spec([None] * t.ndim, t.shape) for t in ts] for ts in (types, outs))
            return Parts(body, ins, results)
        found, carries = parts(types, outs, params, cut), any(map(cut.split, cut.loops.carry))
        return replace(found, body=body, scratch=()) if blockwise and not carries else found

    def make(types: Types, outs: Types, params: Params) -> Nest:
        found = loops(types, params) if loops is not None else Loops(outs[0].shape)
        return Own(types, outs, found, lambda cut: made(types, outs, params, cut))

    return Template(family, primitive, make)


# ---------------------------------------------------------------------------- the group of one


def grouped(family: str, primitive: Primitive) -> Template:
    """The template of an operation by its relation; a reduction of nothing gives the neutral element."""

    def make(types: Types, outs: Types, params: Params) -> Nest:
        alone = Alone.of(primitive, types, outs, params)
        if not any(0 in t.shape for t in (*types, *outs)):
            return alone
        loops, (out, *_) = alone.loops, alone.nest.outputs
        follows = [None if x is None else alone.nest.order.index(x) for x in alone.group.axes[out]]

        def nothing(cut: Cut) -> Parts:
            neutral = monoid_of(alone.eqns[0]).neutral(out.type.dtype)
            return filled([cut.spec(follows, out.type.shape)], lambda: [neutral])

        return Own(types, outs, loops, nothing)

    return Template(family, primitive, make)


# ---------------------------------------------------------------------------- templates


@dataclass(frozen=True)
class Built:
    """Kernels, each after the first on the results of the one before.

    `order`: which operand each input of the first is; `shapes`: those of the operation's results. Arrays go in and out
    as views of the same elements where a kernel has other shapes than the operation.
    """

    kernels: tuple[Kernel, ...]
    order: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    def run(self, call: Callable[..., Sequence[Any]], args: Sequence[Any]) -> list[Any]:
        """The operation's results, `call(kernel, *arrays)` giving those of a kernel."""
        values = [args[i] for i in self.order]
        for kernel in self.kernels:
            values = call(kernel, *(reshape_to(v, t.shape) for v, t in zip(values, kernel.in_types, strict=True)))
        return [reshape_to(v, shape) for v, shape in zip(values, self.shapes, strict=True)]


@dataclass(frozen=True, eq=False)
class Template:
    """How a primitive becomes a kernel.

    `make(types, outs, params)` gives the nest for operands and results of some types.
    """

    family: str
    primitive: Primitive
    make: Make

    @property
    def name(self) -> str:
        return self.primitive.name

    def __call__(self, *args: Any, tiles: Tiles | None = None, target: str | Target = CPU, **params: Any) -> Any:
        """The primitive applied to arrays, as a kernel; results as the primitive gives them."""
        types: list[Any] = [typeof(a) for a in args]
        built = self.build(*types, tiles=tiles, target=target, **params)
        raw = [random_unwrap_p.bind(a) if is_key(t.dtype) else a for a, t in zip(args, types, strict=True)]
        outs = built.run(lambda kernel, *xs: kernel_call_p.bind(*xs, kernel=kernel), raw)
        wanted = self.results(types, params)
        return self.unpacked(
            [random_wrap_p.bind(o, impl=t.dtype) if is_key(t.dtype) else o for o, t in zip(outs, wanted, strict=True)]
        )

    def kernel(self, *types: ArrayType, tiles: Tiles | None = None, target: str | Target = CPU, **params: Any
               ) -> Kernel:  # fmt: skip
        """The (first) kernel for operands of some types; `tiles` has one size per loop, the target's default without.

        A last number more is into how many runs the shared loop is divided, if there is one.

        Raises:
          ArgumentError: tiles that are not one per loop, or that the target cannot hold.
        """
        return self.build(*types, tiles=tiles, target=target, **params).kernels[0]

    def unpacked(self, outs: Sequence[Any]) -> Any:
        """A kernel's results as the primitive gives its own."""
        return list(outs) if self.primitive.multiple else outs[0]

    def reference(self, *arrays: Any, **params: Any) -> Any:
        """The meaning, in NumPy."""
        return apply(self.primitive, arrays, params)

    def results(self, types: Sequence[ArrayType], params: dict[str, Any]) -> list[ArrayType]:
        found = self.primitive.typing(*types, **params)
        return [t.strong() for t in (found if self.primitive.multiple else [found])]

    def cost(self, *types: ArrayType, tiles: Tiles | None = None, target: str | Target = CPU, **params: Any) -> Cost:
        """Operations, transcendental functions, and bytes moved at some tiles."""
        outs = self.results(types, params)
        flops, transcendentals = eqn_cost(Eqn(self.primitive, [Var(t) for t in types], [Var(t) for t in outs], params))
        built = self.build(*types, tiles=tiles, target=target, **params)
        return Cost(flops, transcendentals, sum(map(bytes_moved, built.kernels)))

    # ------------------------------------------------------------------------ tiles

    def nest(self, types: Types, params: Params) -> Nest:
        strong = [t if is_key(t.dtype) else t.strong() for t in types]
        return self.make(strong, self.results(types, params), params)

    def loops(self, types: Types, params: Params) -> Loops:
        """The loop nest that tiles cut."""
        return self.nest(types, params).loops

    def untiled(self, *types: ArrayType, **params: Any) -> Tiles:
        """The tiles at which the kernel is one cell: the primitive itself."""
        return self.loops(types, params).all

    def default(self, *types: ArrayType, target: str | Target = CPU, **params: Any) -> Tiles:
        """Sensible tiles on a target: the whole array on a CPU, else the first of the candidates."""
        return self.candidates(*types, target=target, **params)[0]

    def candidates(self, *types: ArrayType, target: str | Target = CPU, **params: Any) -> tuple[Tiles, ...]:
        """Tiles worth trying on a target, all of which it can hold; the default first."""
        target, nest = target_of(target), self.nest(types, params)
        return (nest.loops.all,) if target.whole_arrays else tuple(nest.candidates(target))

    # ------------------------------------------------------------------------ the kernel

    def build(self, *types: ArrayType, tiles: Tiles | None = None, target: str | Target = CPU, **params: Any) -> Built:
        """The kernels, and which operand each input of the first is."""
        target, nest = target_of(target), self.nest(types, params)
        if tiles is None:
            tiles = self.default(*types, target=target, **params)
        check(f"template {self.name}", tuple(tiles), nest.loops)
        if not target.whole_arrays and (why := nest.refuse(tiles, target, target.fast_bytes)):
            raise ArgumentError(
                f"template {self.name}: at tiles {tiles} {why}; {target.name} holds {target.fast_bytes:,}",
                "use smaller tiles, or those of `candidates`")  # fmt: skip
        kernels, order = nest.kernels(tuple(tiles), target, self.name)
        return Built(kernels, order, tuple(raw_type(t).shape for t in self.results(types, params)))


def _sizes(spec: BlockSpec, array: ArrayType) -> tuple[int, ...]:
    if spec.block_shape is None:
        return array.shape
    return tuple(BlockAxis.of(s).size for s in spec.block_shape)


def _viewed(t: ArrayType, shape: tuple[int, ...] | None) -> ArrayType:
    return raw_type(t) if shape is None else ArrayType(shape, t.dtype)


def raw_type(t: ArrayType) -> ArrayType:
    """What a kernel sees of an operand: random keys as their words."""
    return ArrayType((*t.shape, t.dtype.words), UINT32) if is_key(t.dtype) else t.strong()
