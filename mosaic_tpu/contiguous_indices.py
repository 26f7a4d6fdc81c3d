"""Positions that follow each other, given one by one, as the span that they are.

`ref[row, start + arange(n)]` takes each position from an array. A TPU has no addressing of single elements, so that
such a read goes over all that the Ref holds; of a span it reads what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.ir.passes import within
from ..core.ir.program import Atom, Eqn, Literal, Program
from ..core.ir.types import ArrayType
from ..core.primitives.elementwise.arithmetic import add_p, mul_p
from ..core.primitives.elementwise.conversion import convert_element_type_p
from ..core.primitives.movement.shape import broadcast_in_dim_p, iota_p
from ..core.primitives.refs.state_primitives import Index, Span, Take, access_shape, get_p
from ..lang.analysis.dead_stores import ACCESSES
from ..lang.kernel.canonicalize import touches_refs
from ..lang.kernel.kernel import Kernel
from ..lang.kernel.traverse import dataflow, equation

INT32 = np.dtype(np.int32)


@dataclass(frozen=True)
class Line:
    """`start + stride * i + scalar` at position i; the scalar may be none."""

    start: int
    stride: int
    scalar: Atom | None = None


def with_spans(kernel: Kernel) -> Kernel:
    """A kernel whose accesses at contiguous indices are slices."""
    body = _program(kernel.body, {})
    return kernel if body is kernel.body else kernel.replace(body=body)


def _program(program: Program, lines: Mapping[Any, Line]) -> Program:
    known, eqns, changed = dict(lines), [], False
    for eqn in program.eqns:
        line = _line(eqn, known)
        if line is not None:
            known[eqn.outputs[0]] = line
        made = [eqn]
        if eqn.primitive in ACCESSES:
            made = _access(eqn, known)
        elif touches_refs(eqn):
            made = [_within(eqn, known)]
        changed |= made != [eqn]
        eqns += made
    return program.replace(eqns=eqns) if changed else program


def _within(eqn: Eqn, known: Mapping[Any, Line]) -> Eqn:
    """A branch or loop; what it takes of lines without a scalar are lines within it too, unless it carries them."""
    made: dict[int, Program] = {}
    for inner, taken, given, _ in dataflow(eqn):
        carried = {a for a, _, _ in given}
        lines = {b: known[a] for a, b, ahead in taken
                 if a in known and known[a].scalar is None and not ahead and b not in carried}  # fmt: skip
        made[id(inner)] = _program(inner, {} if inner is eqn.params.get("cond_program") else lines)

    return within(eqn, lambda inner: made.get(id(inner), inner))


def _line(eqn: Eqn, known: Mapping[Any, Line]) -> Line | None:
    """The line that a value of one axis is."""
    if len(eqn.outputs) != 1 or not isinstance(eqn.outputs[0].type, ArrayType):
        return None
    out, ins = eqn.outputs[0].type, eqn.inputs
    if len(out.shape) != 1 or out.dtype != INT32:
        return None
    if eqn.primitive is iota_p:
        return Line(0, 1)
    if eqn.primitive is broadcast_in_dim_p and not ins[0].type.shape:
        return _scalar(ins[0])
    if eqn.primitive is convert_element_type_p:
        return known.get(ins[0])
    found = [line for a in ins if (line := known.get(a) if a.type.shape else _scalar(a)) is not None]
    if len(ins) != 2 or len(found) != 2:
        return None
    flat, other = sorted(found, key=lambda line: line.stride)
    if eqn.primitive is add_p and (flat.scalar is None or other.scalar is None):
        return Line(flat.start + other.start, flat.stride + other.stride, flat.scalar or other.scalar)
    if eqn.primitive is mul_p and flat.scalar is None and other.scalar is None and flat.stride == 0:
        return Line(flat.start * other.start, flat.start * other.stride)
    return None


def _scalar(atom: Atom) -> Line | None:
    if atom.type.dtype != INT32:
        return None
    return Line(int(atom.value), 0) if isinstance(atom, Literal) else Line(0, 0, atom)


def _access(eqn: Eqn, known: Mapping[Any, Line]) -> list[Eqn]:
    """An access with its index array as a slice, where nothing else of the array is used."""
    index: Index = eqn.params["index"]
    axes = [i for i, e in enumerate(index) if type(e) is Take]
    first = 1 if eqn.primitive is get_p else 2
    if len(axes) != 1 or any(type(e) is Span for e in index[: axes[0]]):
        return [eqn]
    (axis,) = axes
    at = first + index.dynamic.index(axis)
    line = known.get(eqn.inputs[at])
    if line is None or line.stride < 1:
        return [eqn]
    made: list[Eqn] = []
    start: Any = line.scalar
    if start is not None and line.start:
        made.append(equation(add_p, [start, Literal(np.int32(line.start), ArrayType((), INT32))], {}, eqn))
        start = made[0].outputs[0]
    span = Span(line.start if line.scalar is None else None, index[axis].shape[0], line.stride)
    new = Index((*index[:axis], span, *index[axis + 1 :]))
    if access_shape(new) != access_shape(index):
        return [eqn]
    inputs = [*eqn.inputs[:at], *([] if start is None else [start]), *eqn.inputs[at + 1 :]]
    changed = equation(eqn.primitive, inputs, eqn.params | {"index": new}, eqn)
    return [*made, changed.replace(outputs=eqn.outputs)]
