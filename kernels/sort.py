"""Sorting and the k greatest along one axis, which a block holds whole; the other axes are tiled."""

from __future__ import annotations

from typing import Any

from ..core.primitives import sort as s
from ..core.types import ArrayType
from .bodies import store
from .generate.loops import Cut, Loops
from .template import Params, Parts, Template, Types, own


def _axis(params: Params) -> int:
    return params["dimension"] if "dimension" in params else params["axis"]


def _loops(types: Types, params: Params) -> Loops:
    return Loops(types[0].shape, whole=(_axis(params),))


def rows(primitive: Any) -> Template:
    """The template of an operation on whole rows along one axis."""

    def parts(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        axis, n = _axis(params), len(types)

        def spec(t: ArrayType) -> Any:
            return cut.spec([None if i == axis else i for i in range(t.ndim)], t.shape)

        def body(*refs: Any) -> None:
            store(refs[n:], primitive.bind(*(r[...] for r in refs[:n]), **params))

        return Parts(body, [spec(t) for t in types], [spec(t) for t in outs])

    return Template("sort", primitive, own(primitive, _loops, parts))


TEMPLATES = {p: rows(p) for p in (s.sort_p, s.top_k_p)}
