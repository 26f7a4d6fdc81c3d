"""Programs that are split over a mesh by a rule: a kernel with a `Partition`, and its derivatives and batches.

What each device computes of its parts is derived with the program: of a derivative by the derivative of the author's
function, of a batch by its batch. Without a mesh only the program counts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import AxisInfo, Linear, Zero, all_zero
from ...core.ir.program import Program
from ...core.ir.types import is_inexact
from ...core.primitives.control_flow import program_primitive as held
from ...core.primitives.spmd.varying_axes import pvary
from ...core.support.errors import DifferentiationError
from ...core.support.memo import cached
from ...core.tracing.trace import eval_program, trace_program, typeof
from ...core.transforms.batching import batch_flat, batch_program
from ...core.transforms.jvp import jvp_flat, jvp_program
from ...core.transforms.linearize import linearize_flat
from ...core.transforms.rule_helpers import instantiate
from ...core.transforms.structural_primitives import moved
from ...core.transforms.transpose import transpose_map
from ..kernel.kernel import Kernel
from ..partition.custom_rule import Axes, Partition
from .primitive import kernel_call_p, linear_primitive, of_floats

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive


Flags = tuple[bool, ...]


def _given(values: Sequence[Any], flags: Flags) -> list[Any]:
    return [v for v, f in zip(values, flags, strict=True) if f]


def _tangents(primals: Sequence[Any], given: Sequence[Any], nonzero: Flags) -> list[Any]:
    """A tangent of each primal: those that are given, and zeros."""
    rest = iter(given)
    return [next(rest) if nz else Zero(typeof(p).tangent()) for p, nz in zip(primals, nonzero, strict=True)]


# ---------------------------------------------------------------------------- forward mode


@cached(512)
def _derived(program: Program, rule: Partition, nonzero: Flags) -> tuple[Program, Partition, Flags]:
    """The program of outputs and their tangents, its rule, and which tangents are present."""
    floats = tuple(is_inexact(t.dtype) for t in program.out_types)
    derived, present = jvp_program(program, nonzero, floats)
    n = len(program.inputs)

    def part(axes: Axes, *parts: Any) -> list[Any]:
        primals = parts[:n]
        outs, tangents = jvp_flat(functools.partial(rule.parts, axes), primals, _tangents(primals, parts[n:], nonzero))
        return [*outs, *map(instantiate, _given(tangents, present))]

    ins, outs = (*rule.ins, *_given(rule.ins, nonzero)), (*rule.outs, *_given(rule.outs, present))
    return derived, Partition.of(ins, outs, part), present


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, rule: Partition) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    derived, own, present = _derived(program, rule, nonzero)
    found = partitioned_p.bind(*primals, *_given(tangents, nonzero), program=derived, rule=own)
    n = len(present)
    return found[:n], _tangents(found[:n], found[n:], present)


# ---------------------------------------------------------------------------- reverse mode


def _linearize(primals: Sequence[Any], nonzero: Flags, *, program: Program, rule: Partition) -> Any:
    outs = partitioned_p.bind(*primals, program=program, rule=rule)
    params = {"program": program, "rule": rule, "nonzero": tuple(nonzero)}

    def linear(*tangents: Any) -> list[Any]:
        given = [instantiate(t) for t in _given(tangents, nonzero)]
        found = partitioned_linear_p.bind(*primals, *given, **params)
        return of_floats(program.out_types, found)

    return outs, linear


@cached(512)
def _backward(program: Program, rule: Partition, nonzero: Flags, given: Flags) -> tuple[Program, Partition]:
    """The program from operands and cotangents to the operands' cotangents, and its rule; forward once more."""
    n = len(program.inputs)

    def pulled(fun: Any, args: Sequence[Any]) -> list[Any]:
        outs, linear = linearize_flat(fun, args[:n], nonzero)
        found = transpose_map(linear, _tangents(outs, args[n:], given))
        return [instantiate(ct) for ct in _given(found, nonzero)]

    def run(*args: Any) -> list[Any]:
        return pulled(functools.partial(eval_program, program), args)

    def part(axes: Axes, *parts: Any) -> list[Any]:
        def varying(*operands: Any) -> list[Any]:  # as their cotangents do
            return [pvary(x, rule.axes_of(names, axes)) for x, names in
                    zip(rule.parts(axes, *operands), rule.outs, strict=True)]  # fmt: skip

        return pulled(varying, parts)

    types = [*program.in_types, *(t.tangent() for t in _given(program.out_types, given))]
    own = Partition.of((*rule.ins, *_given(rule.outs, given)), tuple(_given(rule.ins, nonzero)), part)
    return trace_program(run, types, f"backward_{program.name}"), own


def _apply(*args: Any, program: Program, rule: Partition, nonzero: Flags) -> list[Any]:
    derived, own, present = _derived(program, rule, nonzero)
    return partitioned_p.bind(*args, program=derived, rule=own)[len(present) :]


def _transpose(cts: Sequence[Any], *args: Any, program: Program, rule: Partition, nonzero: Flags) -> list[Any]:
    n = len(program.inputs)
    if any(isinstance(a, Linear) for a in args[:n]):
        raise DifferentiationError(f"{program.name} is not linear in its primal operands")
    if all_zero(cts):
        return [None] * len(args)
    full = of_floats(program.out_types, cts)
    given = tuple(type(ct) is not Zero for ct in full)
    backward, own = _backward(program, rule, nonzero, given)
    found = partitioned_p.bind(*args[:n], *_given(full, given), program=backward, rule=own)
    return [None] * n + [ct if isinstance(a, Linear) else None for ct, a in zip(found, args[n:], strict=True)]


# ---------------------------------------------------------------------------- batches


@cached(512)
def _batched(program: Program, rule: Partition, axis: AxisInfo, dims: tuple[Any, ...]) -> tuple[Program, Partition]:
    batched, _ = batch_program(program, axis, dims, True)
    name = "batch"
    while any(name in names for names in (*rule.ins, *rule.outs)):
        name += "_"

    def part(axes: Axes, *parts: Any) -> list[Any]:
        size = next(typeof(x).shape[0] for x, d in zip(parts, dims, strict=True) if d is not None)
        own = AxisInfo(size)
        found = batch_flat(functools.partial(rule.parts, axes), own, parts, dims)
        return [moved(own, x, d, 0) for x, d in zip(*found, strict=True)]

    ins = tuple(names if d is None else (name, *names) for names, d in zip(rule.ins, dims, strict=True))
    return batched, Partition.of(ins, tuple((name, *names) for names in rule.outs), part)


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[Any], *, program: Program, rule: Partition) -> Any:
    given = [x if d is None else moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True)]
    batched, own = _batched(program, rule, axis, tuple(d and 0 for d in dims))
    outs = partitioned_p.bind(*given, program=batched, rule=own)
    return outs, [0] * len(outs)


# ---------------------------------------------------------------------------- the primitives


def ruled_call(kernel: Kernel, rule: Partition, operands: Sequence[Any]) -> list[Any]:
    """The outputs of a kernel that is split by a rule."""
    return partitioned_p.bind(*operands, program=_calling(kernel), rule=rule)


@cached(512)
def _calling(kernel: Kernel) -> Program:
    return trace_program(functools.partial(kernel_call_p.bind, kernel=kernel), kernel.in_types, kernel.name)


partitioned_p: Primitive = held.holder("partitioned", jvp=_jvp, linearize=_linearize, batch=_batch, expand=held.expand)
partitioned_linear_p: Primitive = linear_primitive(
    "partitioned_linear", _apply, lambda *, program, **_: len(program.inputs),
    lambda *types, program, **_: [t.tangent() for t in program.out_types if is_inexact(t.dtype)], _transpose,
)  # fmt: skip
