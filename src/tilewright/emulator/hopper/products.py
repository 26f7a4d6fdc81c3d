"""Products of Hopper's tensor cores (wgmma), which are made when they are waited for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...core.support.errors import EmulationError
from .group import Group
from .swizzles import matrix_places
from .values import HALF, LANES, MULTIPLIED, Register, Sum, fragment_places, number, plain, product


def multiply(g: Group, text: str, *args: Any) -> Any:
    found = re.match(
        r"wgmma.mma_async.sync.aligned.m64n(\d+)k(\d+).([fs]32).(\w+).(\w+) .*\$\d+, ([\d, ]+);$", text
    )
    form = {"f32": "[01], 1, 1", "s32": "[01]"}[found[3]] if found is not None else ""
    if found is None or not re.fullmatch(form + ("(, [01]){1,2}" if found[4] in HALF else ""), found[6]):
        raise EmulationError(f"the emulator does not know {text}")
    if not g.mask.all():
        raise EmulationError("a product in part of a warpgroup")
    if not g.fenced:
        raise EmulationError("a product without wgmma.fence before it")
    numbers = [x == "1" for x in found[6].split(", ")]
    kinds, n, depth = [np.dtype(MULTIPLIED[found[i]]) for i in (4, 5)], int(found[1]), int(found[2])
    started, turned = numbers[0], numbers[3:] if found[4] in HALF else [False, False]
    if n % 8 or not 8 <= n <= 256:
        raise EmulationError(f"a product of {n} columns: 8 to 256, in eights")
    integers, size = found[3] == "s32", kinds[0].itemsize
    if depth * size != 32 or kinds[1].itemsize != size or integers != (kinds[0].kind in "iu"):
        raise EmulationError(f"there is no product of {found[4]} and {found[5]} in {found[3]} over {depth}")
    regs = n // 2
    start, rest = list(args)[: regs * started], list(args)[regs * started :]
    *left, right = [plain(x) for x in rest]
    if started and isinstance(start[0], Register):
        sum = start[0].sum
        if any(not isinstance(r, Register) or r.sum is not sum or r.i != i for i, r in enumerate(start)):
            raise EmulationError("a product on registers of several sums")
    else:
        sum = Sum([plain(x) for x in start], n, np.int32 if integers else np.float32)
    b_places = matrix_places(g.same(right), n, depth, turned[-1], size)
    if len(left) == 4:
        a_value = np.zeros((64, 16), kinds[0])
        for i, word in enumerate(left):
            pair = np.ascontiguousarray(g.lanes(word)).astype(np.int32).view(kinds[0]).reshape(LANES, 2)
            for j in range(2):
                a_value[fragment_places(2 * i + j)] = pair[:, j]
        a_places = None
    else:
        a_value, a_places = None, matrix_places(g.same(left[0]), 64, depth, turned[0], size)
    shared, clock = g.b.shared, g.clocks.min(0)
    for places in (a_places, b_places):
        if places is not None:
            shared.multiplied(grains := shared.grains(places, size))
            shared.reading(grains, clock, g.products, g.committed + 1, True,
                           "a product")  # fmt: skip
    sum.pending += 1

    def make() -> None:
        a = shared.get(a_places, kinds[0]) if a_value is None else a_value
        sum.value += product(a, shared.get(b_places, kinds[1]))
        sum.pending -= 1

    g.open.append(make)
    return [Register(sum, i) for i in range(regs)]


def order(g: Group, text: str, *args: Any) -> None:
    if not g.mask.all():
        raise EmulationError(f"{text} in part of a warpgroup")
    if "fence" in text:
        g.fenced = True
    elif "commit" in text:
        g.groups.append(g.open)
        g.open, g.fenced = [], False
        g.committed += 1
    else:
        left = number(r"(\d+);$", text)
        if left > 7:
            raise EmulationError(f"{text}: at most 7 groups stay under way")
        while len(g.groups) > left:
            for make in g.groups.pop(0):
                make()
        g.clocks[:, g.products] = g.committed - len(g.groups)


PTX = (("wgmma.mma_async", multiply), ("wgmma", order))
