"""Convolutions on a mesh: examples, features, groups, space and taps are split.

Along an axis of space each device computes its part of the results, from its part of the operand and a halo of its
neighbours'. Along an axis with more taps than results, as that of a gradient by filters, each device applies its part
of the taps, and the results are summed, as those of split input features are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.ir.program import Eqn
from ...core.primitives.spmd.varying_axes import mesh_axes, pvary
from ...lang.partition.custom_rule import Partition
from ...lang.partition.per_device import Piece
from ...lang.partition.sharding_rule import Splits, ruled
from ..stablehlo.spmd import kernel_sum_p
from .halo_exchange import moved

if TYPE_CHECKING:
    from ...core.ir.array import Array

EXAMPLES, INPUTS, OUTPUTS, GROUPS = "examples", "inputs", "outputs", "groups"


class Slide(NamedTuple):
    """An axis of space: what splits it, and how far apart two points of that, and all points of the rest, are.

    Distances are between elements of the dilated operand.
    """

    name: str
    summed: bool  # taps are split, not results
    size: int
    step: int
    span: int


def _slides(eqn: Eqn) -> list[Slide]:
    (_, rhs), (out,), params = [a.type.shape for a in eqn.inputs], [v.type.shape for v in eqn.outputs], eqn.params
    numbers, found = params["dimension_numbers"], []
    for k, (r, o) in enumerate(zip(numbers.rhs_spec[2:], numbers.out_spec[2:], strict=True)):
        taps, results = (rhs[r], params["rhs_dilation"][k]), (out[o], params["window_strides"][k])
        summed = taps[0] > results[0]
        (size, step), (others, apart) = (taps, results) if summed else (results, taps)
        found.append(Slide(f"{'taps' if summed else 'space'}{k}", summed, size, step, (others - 1) * apart))
    return found


def convolution_splits(eqn: Eqn) -> Splits:
    """How a convolution may be split."""
    params, slides = eqn.params, _slides(eqn)
    (lb, lf, *ls), (ro, ri, *rs), (ob, of, *os) = params["dimension_numbers"]
    lhs: dict[int, str] = {}
    rhs: dict[int, str] = {}
    out: dict[int, str] = {}
    features, batches = params["feature_group_count"], params["batch_group_count"]
    if batches == 1:
        lhs[lb] = out[ob] = EXAMPLES
    if features == 1:
        lhs[lf] = rhs[ri] = INPUTS
    grouped = features * batches > 1
    rhs[ro] = out[of] = GROUPS if grouped else OUTPUTS
    if grouped:
        lhs[lf if features > 1 else lb] = GROUPS
    exact = {GROUPS: 1} if grouped else {}
    for slide, base, a, r, o in zip(slides, params["lhs_dilation"], ls, rs, os, strict=True):
        if base > 1 and slide.step > slide.span + 1:  # a part may see no element
            continue
        lhs[a] = slide.name
        (rhs if slide.summed else out).update({r if slide.summed else o: slide.name})
        if slide.summed or base > 1:
            exact[slide.name] = base // math.gcd(base, slide.step)
    types = [a.type for a in eqn.inputs], [v.type for v in eqn.outputs]
    ins, outs = ([[names.get(d) for d in range(types[0][0].ndim)] for names in side] for side in ((lhs, rhs), (out,)))

    def part(axes: Mapping[Any, tuple[Any, ...]], x: Array, w: Array) -> Any:
        return _part(eqn, axes, x, w)

    found = ruled(Partition.of(ins, outs, part), *types)
    known: dict[Any, int] = {slide.name: slide.size for slide in slides} | {GROUPS: features * batches}
    return replace(found, sizes={n: known.get(n, size) for n, size in found.sizes.items()}, fills=(0, 0), exact=exact)


def _part(eqn: Eqn, axes: Mapping[Any, tuple[Any, ...]], x: Array, w: Array) -> Any:
    """A convolution on a device's parts of its operands."""
    params, over = dict(eqn.params), list(axes.get(INPUTS, ()))
    sizes = {name: [mesh_axes()[a] for a in names] for name, names in axes.items()}
    for count in ("feature_group_count", "batch_group_count"):
        params[count] = max(1, params[count] // math.prod(sizes.get(GROUPS, ())))
    pads, numbers = list(params["padding"]), params["dimension_numbers"]
    for k, slide in enumerate(_slides(eqn)):
        if names := axes.get(slide.name, ()):
            parts, base, a = math.prod(sizes[slide.name]), params["lhs_dilation"][k], numbers.lhs_spec[2 + k]
            piece, pads[k] = _seen(slide, -(-slide.size // parts), pads[k][0], base)
            x = moved(x, a, piece, eqn.inputs[0].type.shape[a], names, sizes[slide.name], 0)
            over += names if slide.summed else ()
    out = eqn.primitive.bind(x, w, **(params | {"padding": tuple(pads)}))
    return kernel_sum_p.bind(pvary(out, tuple(over)), axes=tuple(over)) if over else out


def _seen(slide: Slide, points: int, low: int, base: int) -> tuple[Piece, tuple[int, int]]:
    """What a device with so many points of an axis sees of the operand, and the padding on either side of that."""
    end = (points - 1) * slide.step + slide.span - low
    first, last = -(low // base), end // base
    return Piece(0, points * slide.step // base, -first, last + 1 - first), (first * base + low, end - last * base)
