"""Sorting and the k greatest along one axis, which a block holds whole; the other axes are tiled."""

from __future__ import annotations

import math
from typing import Any

from ..core.primitives import sort as s
from ..core.types import ArrayType
from .shape import Params, Types
from .template import Cut, Loops, Parts, Template


def _axis(params: Params) -> int:
    return params["dimension"] if "dimension" in params else params["axis"]


def _loops(types: Types, params: Params) -> Loops:
    return Loops(types[0].shape, whole=(_axis(params),))


def rows(primitive: Any) -> Template:
    """The template of an operation on whole rows along one axis."""

    def cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        axis, n = _axis(params), len(types)

        def spec(t: ArrayType) -> Any:
            return cut.spec([None if i == axis else i for i in range(t.ndim)], t.shape)

        def body(*refs: Any) -> None:
            found = primitive.bind(*(r[...] for r in refs[:n]), **params)
            for ref, value in zip(refs[n:], found, strict=True):
                ref[...] = value

        return Parts(body, [spec(t) for t in types], [spec(t) for t in outs])

    return Template("sort", primitive, _loops, cut, _work)


def _work(types: Types, outs: Types, params: Params) -> tuple[int, int]:
    """Comparisons of a merge: n log2 n for each row."""
    n = types[0].shape[_axis(params)]
    return math.prod(types[0].shape) * max(n - 1, 0).bit_length(), 0


TEMPLATES = {p: rows(p) for p in (s.sort_p, s.top_k_p)}
