"""From a kernel to the text of its Triton program: the loops around the body, its Refs, and its equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.primitive import Primitive
from ..core.ir.printer import identifier
from ..core.ir.program import Eqn, Program, Var
from ..core.ir.types import INT32, ArrayType, RefType
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.refs.state_primitives import Span, whole
from ..core.support.errors import ArgumentError, Source, UnsupportedError
from ..core.support.memo import cached
from ..lang.analysis.affine import Affine
from ..lang.analysis.index_maps import inside, map_of
from ..lang.gpu.launch_plan import Launch, launch_of
from ..lang.gpu.normalize import GPU_LIMITS
from ..lang.kernel.kernel import Block, Kernel
from ..lang.legalize import Legal, entry
from ..lang.loopnest.accesses import Access
from ..lang.loopnest.full_blocks import full_blocks
from ..lang.loopnest.loop_bounds import Line, narrow
from ..lang.loopnest.peeling import end_cell, peeled
from ..lang.loopnest.plan import Plan, plan
from ..lang.mlir.program_printer import ProgramPrinter
from ..lang.targets.target import Target
from .builders import Int, add, arith, as_value, clip, compare, convert, lanes, mul, select, sub
from .descriptors import Described, described
from .launch import SETTINGS, place, settings_of
from .module import TritonModule
from .pointers import Window
from .refs import Memory, Ref, Register, Traffic
from .rules import BACKEND, UNSUPPORTED_DTYPES
from .text import Printer, Value

if TYPE_CHECKING:
    from ..lang.loopnest.peeling import Peeled


class Lowering(ProgramPrinter):
    """One kernel being printed: what rules see as `e`."""

    kernel: Kernel
    target: Target
    p: Printer
    name: str

    def __init__(self, kernel: Kernel, target: Target):
        self.backend, self.name = BACKEND, kernel.name
        self.plan: Plan = plan(kernel, GPU_LIMITS)
        self.kernel, self.target, self.p = self.plan.kernel, target, Printer()
        self.ids: list[Int] = [0] * len(self.kernel.grid)
        self.program: Int = 0  # the number of this program
        self.refs: dict[Var, Ref] = {}
        self.live: list[tuple[int, Register]] = []  # registers with the loop that each lives around

    # ------------------------------------------------------------ equations

    def unsupported(self, primitive: Primitive, reason: str = "") -> UnsupportedError:
        return BACKEND.refusal(self.kernel.name, primitive, None, reason)

    def check_dtype(self, type_: Any, source: Source | None = None) -> None:
        name = str(getattr(type_, "dtype", None))
        reason = UNSUPPORTED_DTYPES.get(name)
        if reason is None and name in self.target_refuses():
            reason = f"{self.target.name} has no instructions that convert it"
        if reason is not None:
            raise UnsupportedError(
                f"kernel {self.kernel.name}: {type_.show()}: {name} cannot be used in a GPU kernel: {reason}",
                "convert to another dtype before the kernel", source)  # fmt: skip

    def target_refuses(self) -> tuple[str, ...]:
        if self.target.kind == "rocm":
            return ("float8_e4m3fn", "float8_e5m2")
        return ("float8_e4m3fn",) if self.target.name in ("cuda:sm_80",) else ()

    def equation(self, eqn: Eqn, operands: list[Any]) -> list[Any]:
        """Print one equation; errors name its line."""
        once = eqn.primitive is dot_general_p and self.uses == [1]
        try:
            for v in eqn.outputs:
                self.check_dtype(v.type)
            found = self.ruled(eqn, operands)
        except UnsupportedError as error:
            if getattr(error, "placed", False):
                raise
            placed = UnsupportedError(error.what, error.remedy, eqn.source)
            placed.placed = True
            raise placed from None
        if once:
            self.p.once_used.add(found[0].name)
        return found

    def literal(self, value: Any, type: Any) -> Value:
        return self.p.constant(value, type.dtype)

    def constant_array(self, value: np.ndarray, type: Any) -> Value:
        """A small array that a Program holds, chosen number by number."""
        p, flat = self.p, value.reshape(-1)
        if not flat.size or (flat == flat[0]).all():
            return p.constant(flat[0] if flat.size else 0, value.dtype, value.shape)
        place: Int = 0
        for d, n in enumerate(value.shape):
            place = add(p, mul(p, place, n), lanes(p, n, d, value.ndim))
        found = p.constant(flat[0], value.dtype, value.shape)
        for i in range(1, flat.size):
            here = compare(p, "eq", as_value(p, place), p.constant(i, INT32))
            found = select(p, here, p.constant(flat[i], value.dtype), found)
        return found

    # ------------------------------------------------------------ windows

    def starts(self, block: Block, prefetched: Sequence[Memory]) -> list[Int]:
        """Where the block of the cell at hand starts, in elements along the array's axes."""
        p, fact = self.p, map_of(self.kernel, block)
        if fact is not None and fact.affine is not None:
            index = self._affine(fact.affine)
        else:
            assert block.index_map is not None
            ids = [as_value(p, i) for i in self.ids]
            index = [convert(p, v, INT32) for v in self.inline(block.index_map, [*ids, *prefetched])]
        found = []
        for d, (i, step) in enumerate(zip(index, block.steps, strict=True)):
            low = block.padding[d][0] if block.element[d] else 0
            found.append(sub(p, mul(p, i, step), low))
        return found

    def _affine(self, form: Affine) -> list[Int]:
        p = self.p
        return [
            add(p, c, *(mul(p, self.ids[a], k) for a, k in terms.items()))
            for c, terms in zip(form.const, form.coefficients, strict=True)
        ]

    def window(self, block: Block, base: Value, prefetched: Sequence[Memory], fill: Any = None) -> Window:
        visible = tuple(d for d, gone in enumerate(block.squeezed) if not gone)
        proved = inside(self.kernel, block)
        return Window(base, block.array, self.starts(block, prefetched), visible, proved, fill)


def whole_window(base: Value, array: ArrayType) -> Window:
    """An array as it is."""
    n = array.ndim
    return Window(base, array, [0] * n, tuple(range(n)), ((True, True),) * n)


class Nest(Lowering):
    """The body within its loops."""

    launch: Launch
    moved: Described
    specialised: bool
    turns: Any
    program: Int

    def __init__(
        self, kernel: Kernel, target: Target, launch: Launch, moved: Described, specialised: bool, divided: bool = True
    ):
        super().__init__(kernel, target)
        self.launch, self.moved, self.specialised = launch, moved, specialised
        k = self.kernel
        for type_ in (*k.in_types, *k.out_types, *(s.array for s in k.scratch)):
            self.check_dtype(type_, k.source)
        names = iter(launch.arguments)
        self.arguments: list[Value] = [Value(name, (), type_.dtype, True) for name, type_ in names]
        bases = iter(self.arguments)
        self.scalars: list[Memory] = [Memory(whole_window(next(bases), t), Traffic(False)) for t in k.prefetch]
        self.in_bases: list[Value] = [next(bases) for _ in k.inputs]
        for i in self.plan.copied:
            self.in_bases[i] = next(bases)
        self.out_bases: list[Value] = [next(bases) for _ in k.outputs]
        self.scratch_bases: list[Value] = list(bases)
        self.traffic: dict[Var, Traffic] = self._traffic()
        self.parts, self.turns, self.full = peeled(k, self.plan.carry, self._homes()), None, None
        if self.plan.carry:
            main, self.turns = narrow(k, self.plan.carry[-1], self.parts.main)
            self.parts: Peeled = replace(self.parts, main=main)
            self.full: Any = None if specialised or not divided else full_blocks(k, self.plan.carry[-1], main)
        self.main = self.parts.main  # the body of the loop at hand

    def _homes(self) -> dict[Var, int]:
        """The loops that registers live around."""
        _, _, first_out, _, _ = self.kernel.splits
        homes = (*self.plan.output_homes, *self.plan.scratch_homes)
        return {v: h for v, h in zip(self.kernel.body.inputs[first_out:], homes, strict=True) if h is not None}

    def _traffic(self) -> dict[Var, Traffic]:
        """One record for each memory: inputs share that of the output they are aliased to."""
        refs, (_, first_in, first_out, _, _) = self.kernel.body.inputs, self.kernel.splits
        groups = {v: [v] for v in self.plan.used}
        for i, o in self.kernel.aliases:
            if i not in self.plan.copied:
                group = groups[refs[first_out + o]]
                group += groups[refs[first_in + i]]
                groups[refs[first_in + i]] = group
        found: dict[int, Traffic] = {}
        for group in groups.values():
            if id(group) not in found:
                found[id(group)] = Traffic(_recurs([a for v in group for a in self.plan.used[v]]))
        return {v: found[id(group)] for v, group in groups.items()}

    # ------------------------------------------------------------ the program

    def text(self, name: str) -> str:
        self.place()
        if self.kernel.cells:
            self.run(0)
        return self.p.module(name, self.arguments)

    def place(self) -> None:
        """The ids of the parallel axes."""
        self.program, ids = place(self.launch, self.p)
        for axis, i in zip(self.plan.parallel, ids, strict=True):
            self.ids[axis] = i

    def run(self, level: int) -> None:
        """The loops from number `level` on, and what lives around them."""
        plan_, p = self.plan, self.p
        ending = self.begin(level)
        if level == len(plan_.carry):
            self.cell(self.main, level)
        else:
            axis = plan_.carry[level]
            registers = [r for home, r in self.live if home <= level]

            def body(i: Value, *state: Value) -> list[Value]:
                for register, value in zip(registers, state, strict=True):
                    register.value = value
                for traffic in self.traffic.values():
                    traffic.again()
                self.ids[axis] = i
                self.run(level + 1)
                return [r.value for r in registers]

            end_cell(self, self.parts.before, level, 0)
            divided = self.specialised and level == len(plan_.carry) - 1
            for first, end, main in self.ranges(level):
                self.main: Program = main
                results = p.loop(end, [r.value for r in registers], body, first, specialised=divided)
                for register, value in zip(registers, results, strict=True):
                    register.value = value
            end_cell(self, self.parts.after, level, -1)
        ending()
        self.live: list[tuple[int, Register]] = [(home, r) for home, r in self.live if home != level]

    def ranges(self, level: int) -> list[tuple[Int, Int, Program]]:
        """The loops that a loop is made of, each with its body: the innermost has full blocks apart from others."""
        main, axis, inner = self.parts.main, self.plan.carry[level], level == len(self.plan.carry) - 1
        low, high = self.turns if self.turns is not None and inner else (0, self.kernel.grid[axis])
        first, end = self.turn(low), self.turn(high)
        if self.full is None or not inner:
            return [(first, end, main)]

        def within(place: int | Line, least: Int) -> Int:
            found = arith(self.p, "maxsi", self.turn(place), least)
            return arith(self.p, "minsi", found, end)

        start = first if self.full.bounds[0] == low else within(self.full.bounds[0], first)
        stop = end if self.full.bounds[1] == high else within(self.full.bounds[1], start)
        before = [] if self.full.bounds[0] == low else [(first, start, main)]
        after = [] if self.full.bounds[1] == high else [(stop, end, main)]
        return [*before, (start, stop, self.full.body), *after]

    def turn(self, place: int | Line) -> Int:
        """A loop's first turn, or its end."""
        if isinstance(place, int):
            return place
        p = self.p
        found = add(p, mul(p, self.ids[place.axis], place.slope), place.start)
        found = sub(p, arith(p, "divsi", found, place.divisor), place.shift)
        return clip(p, found, 0, place.most) if place.clipped else found

    def begin(self, level: int) -> Callable[[], None]:
        """Make the registers that live around loop `level`, load what stays the same in it; gives what ends them."""
        k, plan_, p = self.kernel, self.plan, self.p
        _, first_in, first_out, first_scratch, _ = k.splits
        refs = k.body.inputs
        stores: list[tuple[Register, Memory]] = []
        for n, block in enumerate(k.outputs):
            if plan_.output_homes[n] != level:
                continue
            window = self.window(block, self.out_bases[n], self.scalars, block.fill)
            memory = Memory(window, Traffic(False), described=self.moved.stores(n, level))
            register = self.register(refs[first_out + n], ArrayType(block.shape, block.array.dtype), level)
            if any(o == n for _, o in k.aliases):
                register.value = Memory(window, Traffic(False)).read(p, whole(block.shape), ())
            stores.append((register, memory))
        for n, type_ in enumerate(k.scratch):
            if plan_.scratch_homes[n] == level:
                self.register(refs[first_scratch + n], type_.array, level)
        for n, block in enumerate(k.inputs):
            if plan_.staged[n] == level:
                self.refs[refs[first_in + n]] = memory = self.input(n)
                memory.held = memory.read(p, whole(block.shape), ())

        def end() -> None:
            for register, memory in stores:
                if 0 not in register.array.shape:
                    memory.write(p, register.value, whole(register.array.shape), (), None)

        return end

    def register(self, ref: Var, array: ArrayType, level: int) -> Register:
        found = Register(array, self.p.constant(0, array.dtype, array.shape))
        self.refs[ref] = found
        self.live.append((level, found))
        return found

    def input(self, n: int) -> Memory:
        block, ref = self.kernel.inputs[n], self.kernel.body.inputs[self.kernel.splits[1] + n]
        window = self.window(block, self.in_bases[n], self.scalars, block.fill)
        return Memory(window, self.traffic[ref], described=n in self.moved.inputs)

    def cell(self, program: Program, level: int) -> None:
        """A part of the body at the ids of the cell at hand, around loop number `level`."""
        k, plan_ = self.kernel, self.plan
        _, first_in, first_out, first_scratch, _ = k.splits
        refs, seen = k.body.inputs, {a for e in program.eqns for a in e.inputs}
        for n in range(len(k.inputs)):
            ref, ahead = refs[first_in + n], plan_.staged[n]
            if ref in seen and (ahead is None or ahead > level):
                self.refs[ref] = self.input(n)
        for n, block in enumerate(k.outputs):
            ref = refs[first_out + n]
            if ref in seen and plan_.output_homes[n] is None:
                window = self.window(block, self.out_bases[n], self.scalars, block.fill)
                self.refs[ref] = Memory(window, self.traffic[ref], plan_.atomic[n], self.moved.stores(n, level))
        bases = iter(self.scratch_bases)
        for n, type_ in enumerate(k.scratch):
            ref = refs[first_scratch + n]
            if plan_.scratch_homes[n] is None:
                self.refs[ref] = Memory(self.scratch(next(bases), type_), self.traffic[ref])
        ids = [as_value(self.p, i) for i in self.ids]
        self.inline(program, [*ids, *self.scalars, *(self.refs.get(v) for v in refs[first_in:])])

    def scratch(self, base: Value, type_: RefType) -> Window:
        """This program's part of a scratch in global memory."""
        array = ArrayType((self.plan.programs, *type_.shape), type_.dtype)
        n = array.ndim
        return Window(base, array, [self.program, *[0] * (n - 1)], tuple(range(1, n)), ((True, True),) * n)


def _recurs(found: Sequence[Access]) -> bool:
    """Whether what one turn of a loop stores another may touch: it is read, or stored to at overlapping places."""
    stored = [a for a in found if a.writes]
    return bool(stored) and (
        any(a.reads for a in found) or any(type(e) is Span and e.start is None for a in stored for e in a.index)
    )


@entry(BACKEND)
@cached(1024)
def triton_module(legal: Legal, target: Target, divided: bool = True, **overrides: Any) -> TritonModule:
    """The Triton program of a kernel on a target; `overrides` are fields of `lang.triton.CompilerParams`.

    `divided`: full blocks have a loop of their own, without masks.

    Raises:
      UnsupportedError: an operation or dtype that Triton or the target does not have, at the user's line.
      ArgumentError: more programs than a launch may have.
    """
    unknown = set(overrides) - set(SETTINGS)
    if unknown:
        raise ArgumentError(f"triton_module does not take {sorted(unknown)}", f"it takes {', '.join(SETTINGS)}")
    kernel, planned = legal.kernel, plan(legal.kernel, GPU_LIMITS)
    launch, settings = launch_of(planned), settings_of(planned, target, **overrides)
    name = identifier(kernel.name)
    moved = described(planned, target, settings.tensor_descriptors)
    nest = Nest(kernel, target, launch, moved, settings.warp_specialize, divided)
    return TritonModule(
        name, nest.text(name), launch.grid, launch.in_types, launch.out_types, launch.aliases, launch.prepare,
        launch.finish, num_warps=settings.num_warps, num_stages=settings.num_stages,
        specialised=settings.warp_specialize, divided=nest.full is not None,
    )  # fmt: skip
