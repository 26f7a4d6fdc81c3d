"""Kernels that speak to other devices, with every device at the same place of the body: what XLA computes.

Where all devices take the same way through a body, going through it in step is one of the orders in which they may run.
So a copy to another device is an exchange at the place where it starts: a permutation, where each device gets what one
other sends, or else everybody's values, of which each takes those for it. Waits and signals do nothing. What goes to
other devices is worked out for every device of the mesh at once: numbers that follow from `device_index` are tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.passes import primitives_of, within
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Literal, Program, Var, subprograms
from ...core.ir.types import INT32, ArrayType
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.elementwise.arithmetic import add_p, mul_p
from ...core.primitives.elementwise.comparison import eq_p, select_n_p
from ...core.primitives.movement.shape import broadcast_in_dim_p, slice_p, squeeze_p
from ...core.primitives.refs.state_primitives import get_p, swap_p
from ...core.primitives.spmd.collective import all_gather_p, ppermute_p
from ...core.support.errors import UnsupportedError
from ...core.tracing.numpy_interpreter import apply
from ..kernel.kernel import Kernel
from ..kernel.traverse import equation
from ..ops.dma import semaphore_read_p, split_parts
from ..ops.mesh_axes import Axes, device_count, device_index_p, mesh_of, tables
from ..ops.remote_dma import barrier_p, remote_signal_p, remote_start_p, remote_wait_p

# What is known of a value: for each device (a table), the same on all (SAME), nothing (None).
SAME = object()
Fact = Any
Facts = dict[Var, Fact]


def exchanged(kernel: Kernel) -> Kernel:
    """The kernel with exchanges in place of copies to other devices.

    Raises:
      UnsupportedError: devices that go different ways, or that ask how much was signalled.
    """
    mesh = mesh_of(kernel.body)
    primitives = primitives_of(kernel.body)
    if primitives.isdisjoint((remote_start_p, remote_wait_p, remote_signal_p, barrier_p)):
        return kernel
    if semaphore_read_p in primitives:
        raise _refused(kernel, "it reads semaphores that other devices signal", kernel.source)
    facts: Facts = {v: SAME for v in kernel.body.inputs[: len(kernel.grid)]}
    body = _InStep(kernel, mesh).run(kernel.body, facts, True)[0]
    return kernel.replace(body=body)


def _refused(kernel: Kernel, why: str, source: Any) -> UnsupportedError:
    return UnsupportedError(
        f"kernel {kernel.name} cannot run with the devices in step, as XLA runs it: {why}",
        "interpret it (`interpret=True`), compile it for TPUs, or let all devices go one way", source)  # fmt: skip


class _InStep:
    def __init__(self, kernel: Kernel, mesh: Axes):
        self.kernel, self.mesh, self.count = kernel, mesh, device_count(mesh)
        self.places = tables(mesh)

    def run(self, program: Program, facts: Facts, converged: bool) -> tuple[Program, list[Fact]]:
        """The rewritten Program, and what is known of its outputs; `together`: all devices execute it."""
        eqns: list[Eqn] = []
        for eqn in program.eqns:
            p = eqn.primitive
            if p is remote_start_p:
                if not converged:
                    why = "a copy to another device is within a branch or loop that devices may take differently"
                    raise _refused(self.kernel, why, eqn.source)
                eqns += self.copy(eqn, facts)
            elif p not in (remote_wait_p, remote_signal_p, barrier_p):
                made, outs = self.inner(eqn, facts, converged)
                facts.update((v, f) for v, f in zip(eqn.outputs, outs, strict=True) if f is not None)
                eqns.append(made)
        return program.replace(eqns=eqns), [self.fact(a, facts) for a in program.outputs]

    def fact(self, atom: Literal | Var, facts: Facts) -> Fact:
        if type(atom) is not Literal:
            return facts.get(atom)
        return SAME if np.shape(atom.value) else np.broadcast_to(np.asarray(atom.value), (self.count,))

    # ------------------------------------------------------------ what is known

    def inner(self, eqn: Eqn, facts: Facts, converged: bool) -> tuple[Eqn, list[Fact]]:
        given = [self.fact(a, facts) for a in eqn.inputs]
        if eqn.primitive is cond_p:
            return self.cond(eqn, given, converged)
        if eqn.primitive is while_p:
            return self.loop(eqn, given, converged)
        if eqn.primitive is scan_p:
            return self.scan(eqn, given, converged)
        programs = [p for _, p in subprograms(eqn)]
        if len(programs) == 1 and len(programs[0].inputs) == len(eqn.inputs):
            made, outs = self.run(programs[0], _known(programs[0].inputs, given), converged)
            return within(eqn, lambda _: made), outs if len(outs) == len(eqn.outputs) else [None] * len(eqn.outputs)
        return eqn, self.value(eqn, given)

    def value(self, eqn: Eqn, given: list[Fact]) -> list[Fact]:
        if eqn.primitive is device_index_p:
            return [self.places[eqn.params["axis"]]]
        if eqn.effects or any(f is None for f in given):
            return [None] * len(eqn.outputs)
        if all(same(f) for f in given) and not all(type(f) is np.ndarray for f in given):
            return [SAME] * len(eqn.outputs)
        if all(type(f) is np.ndarray for f in given) and given and not any(v.type.shape for v in eqn.outputs):
            rows = [apply(eqn.primitive, [f[d] for f in given], eqn.params) for d in range(self.count)]
            return [np.asarray(c) for c in zip(*rows)] if eqn.primitive.multiple else [np.asarray(rows)]
        return [SAME if all(map(same, given)) else None] * len(eqn.outputs)

    def cond(self, eqn: Eqn, given: list[Fact], converged: bool) -> tuple[Eqn, list[Fact]]:
        way = same(given[0])
        found = [self.run(b, _known(b.inputs, given[1:]), converged and way) for b in eqn.params["branches"]]
        branches = iter(p for p, _ in found)
        outs = [SAME if way and all(map(same, column)) else None for column in zip(*(o for _, o in found))]
        return within(eqn, lambda _: next(branches)), outs

    def loop(self, eqn: Eqn, given: list[Fact], converged: bool) -> tuple[Eqn, list[Fact]]:
        n = eqn.params["cond_nconsts"]
        m = n + eqn.params["body_nconsts"]
        test, body = eqn.params["cond_program"], eqn.params["body_program"]
        carry = self.settled(body, given[n:m], given[m:], [])
        going = self.run(test, _known(test.inputs, [*given[:n], *carry]), True)[1][0]
        made, _ = self.run(body, _known(body.inputs, [*given[n:m], *carry]), converged and same(going))
        return within(eqn, lambda p: made if p is body else p), carry if same(going) else [None] * len(carry)

    def scan(self, eqn: Eqn, given: list[Fact], converged: bool) -> tuple[Eqn, list[Fact]]:
        body = eqn.params["program"]
        n, m = eqn.params["num_consts"], eqn.params["num_consts"] + eqn.params["num_carry"]
        steps = [SAME if same(f) else None for f in given[m:]]
        carry = self.settled(body, given[:n], given[n:m], steps)
        made, outs = self.run(body, _known(body.inputs, [*given[:n], *carry, *steps]), converged)
        return within(eqn, lambda _: made), [SAME if same(f) else None for f in outs]

    def settled(self, body: Program, fixed: list[Fact], carry: Sequence[Fact], steps: list[Fact]) -> list[Fact]:
        """What is known of a loop's state in every iteration."""
        state: list[Fact] = [SAME if same(f) else None for f in carry]
        while True:
            outs = self.run(body, _known(body.inputs, [*fixed, *state, *steps]), True)[1]
            new = [SAME if same(a) and same(b) else None for a, b in zip(state, outs)]
            if new == state:
                return state
            state = new

    # ------------------------------------------------------------ copies

    def copy(self, eqn: Eqn, facts: Facts) -> list[Eqn]:
        p = eqn.params
        (src, src_at), (dst, dst_at) = split_parts(eqn.inputs, p["src"], p["dst"])
        device = eqn.inputs[-1]
        to = self.fact(device, facts)
        read = equation(get_p, [src, *src_at], {"index": p["src"], "masked": False}, eqn)
        out = [read]

        def add(primitive: Primitive, inputs: Sequence[Any], **params: Any) -> Any:
            out.append(equation(primitive, inputs, params, eqn))
            return out[-1].outputs[0]

        names = tuple(name for name, _ in self.mesh)
        given = dict(index=p["dst"], masked=False)
        if type(to) is np.ndarray and sorted(to) == list(range(self.count)):
            perm = tuple((i, int(t)) for i, t in enumerate(to))
            move: Callable[[Any], Any] = lambda x: add(ppermute_p, [x], axes=names, perm=perm)  # noqa: E731
            at = [x if same(self.fact(x, facts)) else move(x) for x in dst_at]
            add(swap_p, [dst, move(read.outputs[0]), *at], **given)
            return out

        def everybody(x: Any) -> Any:
            return add(all_gather_p, [x], axes=names, dimension=0, size=self.count, tiled=False)

        def row(x: Any, i: int) -> Any:
            shape = x.type.shape
            one = add(slice_p, [x], start_indices=(i, *(0,) * (len(shape) - 1)), limit_indices=(i + 1, *shape[1:]),
                      strides=None)  # fmt: skip
            return add(squeeze_p, [one], dimensions=(0,))

        me: Any = _number(0)
        for name, size in self.mesh:
            here = add(device_index_p, [], axis=name, mesh=self.mesh, axes=())
            me = add(add_p, [add(mul_p, [me, _number(size)]), here])
        values, targets = everybody(read.outputs[0]), everybody(device)
        places = [everybody(x) if type(x) is Var else x for x in dst_at]
        for i in range(self.count):
            at = [row(x, i) if type(x) is Var else x for x in places]
            old, new = add(get_p, [dst, *at], **given), row(values, i)
            mine = add(eq_p, [row(targets, i), me])
            if new.type.shape:
                mine = add(broadcast_in_dim_p, [mine], shape=new.type.shape, broadcast_dimensions=())
            add(swap_p, [dst, add(select_n_p, [mine, old, new]), *at], **given)
        return out


def same(fact: Fact) -> bool:
    """Whether a value is surely the same on all devices."""
    return fact is SAME or type(fact) is np.ndarray and bool((fact == fact[0]).all())


def _number(n: int) -> Literal:
    return Literal(np.int32(n), ArrayType((), INT32))


def _known(inputs: Sequence[Var], given: Sequence[Fact]) -> Facts:
    return {v: f for v, f in zip(inputs, given) if f is not None}

