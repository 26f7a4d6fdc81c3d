"""Elementwise neighbours taken into a kernel that the user wrote: its own body stays, with more at its ends.

    prologue    an operand made by elementwise equations: their operands come in by the operand's own block map, and
                the block is computed before the body runs
    epilogue    elementwise equations on a result: in the last cell of a block's run, after the body

The operand's (or result's) Ref becomes scratch in the body. Other operands of the equations are cut as the block is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.ir.program import Atom, Eqn, Program, Var
from ...core.ir.types import INT32, ArrayType, MemorySpace
from ...core.primitives.elementwise.comparison import eq_p
from ...core.primitives.movement.shape import reshape_p, transpose_p
from ...core.primitives.refs.state_primitives import get_p
from ...lang.analysis.facts import analyse
from ...lang.analysis.index_maps import map_of, same_blocks
from ...lang.kernel.block_spec import BlockAxis
from ...lang.kernel.kernel import Block, Kernel
from ..generate.body import ZERO, Body, scalar, written
from ..generate.group import ELEMENTWISE, Axes, Group


@dataclass(frozen=True, slots=True)
class Attached:
    """A kernel with neighbours in it: what it reads and writes now."""

    kernel: Kernel
    reads: tuple[Var, ...]
    writes: tuple[Var, ...]


def why_no_map(group: Group, eqns: Sequence[Eqn], anchor: Var) -> str | None:
    """Why the equations of a group are no elementwise neighbours of a value; None where they are."""
    if group.sums or group.whole:
        return "a reduction has loops of its own"
    for i in group.eqns:
        eqn = eqns[i]
        if eqn.primitive.kind not in ELEMENTWISE and (eqn.primitive is transpose_p or not eqn.inputs):
            return f"{eqn.primitive.name} does not follow the kernel's blocks"
    loops = set(group.axes[anchor])
    for v in group.axes:
        if not loops.issuperset(x for x in group.axes[v] if x is not None):
            return "an array in it has axes that the kernel's block lacks"
    return None


class _Attacher:
    """One kernel call, one value of it, and the elementwise equations on that value."""

    def __init__(self, call: Eqn, group: Group, eqns: Sequence[Eqn], anchor: Var, block: Block):
        self.call, self.kernel, self.group, self.all, self.anchor = call, call.params["kernel"], group, eqns, anchor
        self.block = block
        self.axes = group.axes[anchor]
        ids, prefetched, self.ins, self.outs, self.scratch = self.kernel.parts(self.kernel.body.inputs)
        self.ids, self.prefetched = ids, prefetched
        read = {a for i in group.eqns for a in eqns[i].inputs}
        self.beside = [v for v in call.outputs if v in read and v is not anchor]
        self.more = [v for v in group.inputs if v in read and v is not anchor and v not in self.beside]
        self.refs = {v: Var(self.cut(v, "").ref_type) for v in self.more}

    def cut(self, v: Var, name: str) -> Block:
        """An array cut as the block is, along the axes that it shares with it."""
        array = ArrayType(v.type.shape, v.type.dtype)
        place = [None if x is None else self.axes.index(x) for x in self.group.axes[v]]
        axes = [BlockAxis(1) if d is None else replace(self.block.axes[d], squeezed=False) for d in place]
        made = self.block.index_map
        if made is not None:
            made = made.replace(outputs=[ZERO if d is None else made.outputs[d] for d in place])
        return Block(name, array, tuple(axes), made)

    def shape(self, axes: Axes) -> tuple[int, ...]:
        return tuple(1 if x is None else self.block.sizes[self.axes.index(x)] for x in axes)

    def compute(self, body: Body, env: dict[Var, Atom]) -> None:
        """The group's equations on blocks of full rank."""
        for v in self.more:
            env[v] = body.get(self.refs[v])
        for i in self.group.eqns:
            eqn = body.like = self.all[i]
            operands: list[Atom] = [env[a] if type(a) is Var else a for a in eqn.inputs]
            old = self.group.axes[eqn.inputs[0]] if type(eqn.inputs[0]) is Var else ()
            new = self.group.axes[eqn.outputs[0]]
            (env[eqn.outputs[0]],) = written(body, eqn, operands, old, new, self.shape(new), eqn.params)

    def made(self, eqns: Sequence[Eqn], ins: Sequence[Var], outs: Sequence[Var], scratch: Sequence[Var],
             inputs: Sequence[Block], outputs: Sequence[Block], aliases: Sequence[Any]) -> Kernel:  # fmt: skip
        kernel = self.kernel
        variables = (*self.ids, *self.prefetched, *ins, *outs, *scratch)
        done = (self.all[i].primitive for i in self.group.eqns)
        names = dict.fromkeys(p.name for p in done if p.kind in ELEMENTWISE)
        label = "_".join((kernel.name, *list(names)[:3]))
        settings = tuple(s for s in kernel.settings if s[0] != "cost_estimate")  # stated for the body alone
        body = Program(variables, eqns, (), kernel.body.constants, kernel.body.values, label)
        types: Any = tuple(v.type for v in scratch)
        return kernel.replace(name=label, inputs=tuple(inputs), outputs=tuple(outputs), scratch=types, body=body,
                              aliases=tuple(aliases), settings=settings)  # fmt: skip

    def new_blocks(self, taken: int) -> list[Block]:
        return [self.cut(v, f"with{taken + k}") for k, v in enumerate(self.more)]


def _resized(body: Body, value: Atom, shape: tuple[int, ...]) -> Atom:
    if value.type.shape == shape:
        return value
    return body.add(reshape_p, [value], new_sizes=shape, dimensions=None)


def _not_fusible(kernel: Kernel, block: Block) -> str | None:
    if kernel.interpret or kernel.extents:
        return "its grid is known only when it runs, or it is interpreted"
    if block.space is not MemorySpace.VMEM:
        return f"the kernel takes the array in {block.space}, by itself"
    if any(low or high for low, high in block.padding):
        return "the kernel's blocks leave the array"
    return None


def prologue(call: Eqn, group: Group, eqns: Sequence[Eqn], value: Var) -> Attached | str:
    """The call with the equations that make one of its operands in its kernel; or why not."""
    kernel: Kernel = call.params["kernel"]
    first = len(kernel.prefetch)
    places = [k for k, a in enumerate(call.inputs) if a is value]
    if len(places) != 1 or places[0] < first:
        return "the kernel takes it twice, or to find its blocks by"
    number = places[0] - first
    block = kernel.inputs[number]
    ragged = any(n % s for n, s in zip(block.array.shape, block.sizes, strict=True))
    if any(i == number for i, _ in kernel.aliases):
        return "the kernel writes its result over it"
    if block.fill is not None and (ragged or any(block.element)):
        return "the kernel fills out-of-bounds elements"
    why = _not_fusible(kernel, block) or why_no_map(group, eqns, value)
    if why is not None:
        return why
    work = _Attacher(call, group, eqns, value, block)
    body = Body()
    env: dict[Var, Atom] = {}
    work.compute(body, env)
    old = work.ins[number]
    found = _resized(body, env[value], block.shape)
    rest, scratch = list(kernel.body.eqns), list(work.scratch)
    whole = all(e.primitive is get_p and e.params["index"].is_whole(block.shape) and len(e.inputs) == 1
                for e in rest if old in e.inputs)  # fmt: skip
    if whole:
        known = {e.outputs[0]: found for e in rest if old in e.inputs}
        rest = [e.replace(inputs=tuple(known.get(a, a) for a in e.inputs)) for e in rest if old not in e.inputs]  # type: ignore[arg-type]
    else:
        body.put(old, found)
        scratch.append(old)
    ins = [v for v in work.ins if v is not old]
    blocks = [b for k, b in enumerate(kernel.inputs) if k != number]
    aliases = [(i - (i > number), o) for i, o in kernel.aliases]
    made = work.made([*body.eqns, *rest], [*ins, *work.refs.values()], work.outs, scratch,
                     [*blocks, *work.new_blocks(len(blocks))], kernel.outputs, aliases)  # fmt: skip
    operands = [a for a in call.inputs if a is not value]
    if not all(type(a) is Var for a in operands):
        return "the kernel takes a literal"
    return Attached(made, (*operands, *work.more), call.outputs)  # type: ignore[arg-type]


def _why_not_beside(work: _Attacher, value: Var, again: Sequence[int]) -> str | None:
    """Why another result that the equations read is not complete where the first one's block is."""
    kernel, number = work.kernel, work.call.outputs.index(value)
    block, wanted = kernel.outputs[number], work.cut(value, "")
    if any(o == number for _, o in kernel.aliases):
        return "the kernel writes a result of it over an operand"
    as_wanted = (block.sizes, block.element) == (wanted.sizes, wanted.element)
    if not as_wanted or not same_blocks(map_of(kernel, block), map_of(kernel, wanted)):
        return "it reads two results of the kernel, which have different blocks"
    if analyse(kernel).ignored(number) != again:
        return "it reads two results of the kernel, which are complete in different cells"
    return _not_fusible(kernel, block)


def epilogue(call: Eqn, group: Group, eqns: Sequence[Eqn], value: Var, outputs: Sequence[Var],
             kept: Callable[[Var], bool]) -> Attached | str:  # fmt: skip
    """The call with the equations on one or more of its results in its kernel; `kept`: whether others read a result."""
    kernel: Kernel = call.params["kernel"]
    number = call.outputs.index(value)
    block = kernel.outputs[number]
    if any(o == number for _, o in kernel.aliases):
        return "the kernel writes its result over an operand"
    why = _not_fusible(kernel, block) or why_no_map(group, eqns, value)
    if why is not None:
        return why
    loops = {x for x in group.axes[value] if x is not None}
    if any(loops.difference(group.axes[v]) for v in outputs):
        return "a result of it lacks an axis of the kernel's block"
    again = analyse(kernel).ignored(number)
    axes = kernel.long_axes
    if again is None or again != axes[len(axes) - len(again) :]:
        return "it is not known when a block is complete"
    if not all(type(a) is Var for a in call.inputs):
        return "the kernel takes a literal"
    work = _Attacher(call, group, eqns, value, block)
    for v in work.beside:
        if (why := _why_not_beside(work, v, again)) is not None:
            return why
    return _finished(work, again, outputs, [v for v in (value, *work.beside) if not kept(v)])


def _finished(work: _Attacher, again: Sequence[int], outputs: Sequence[Var], dropped: Sequence[Var]) -> Attached | str:
    """The kernel with the equations after its body, in the last cell of a block; results that only they read go."""
    call, kernel = work.call, work.kernel
    body = Body()
    body.like = call
    refs = dict(zip(call.outputs, work.outs, strict=True))

    def finish(inner: Body) -> None:
        env: dict[Var, Atom] = {
            v: _resized(inner, inner.get(refs[v]), work.cut(v, "").sizes) for v in (work.anchor, *work.beside)
        }
        work.compute(inner, env)
        for v in outputs:
            inner.put(new[v], env[v])

    new = {v: Var(work.cut(v, "").ref_type) for v in outputs}
    if again:
        ends = (body.add(eq_p, [work.ids[a], scalar(kernel.grid[a] - 1, INT32)]) for a in again)
        body.when(body.all_of(ends), finish)
    else:
        finish(body)
    stay = [k for k, v in enumerate(call.outputs) if v not in dropped]
    scratch = [*work.scratch, *(refs[v] for v in dropped)]
    results = [work.cut(v, f"then{k}") for k, v in enumerate(outputs)]
    made = work.made([*kernel.body.eqns, *body.eqns], [*work.ins, *work.refs.values()],
                     [*(work.outs[k] for k in stay), *new.values()], scratch,
                     [*kernel.inputs, *work.new_blocks(len(kernel.inputs))],
                     [*(kernel.outputs[k] for k in stay), *results],
                     [(i, stay.index(o)) for i, o in kernel.aliases])  # fmt: skip
    found = analyse(made)
    if any(not set(found.carry_of(made.body.inputs.index(refs[v]))) <= set(again) for v in dropped):
        return "the kernel writes its block piece by piece"
    writes = (*(call.outputs[k] for k in stay), *outputs)
    return Attached(made, (*call.inputs, *work.more), writes)  # type: ignore[arg-type]
