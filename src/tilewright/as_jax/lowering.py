"""Lowering rules of clients: functions of arrays, from which a primitive is expanded.

`mlir.lower_fun` wraps a function of arrays, which is what nearly every client registers. It becomes the primitive's
`expand`, so that every backend has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import UnsupportedError
from ..core.primitives.staged import platform_dependent
from .primitive import Primitive


class LowerFun:
    """A lowering rule made of a function of arrays."""

    def __init__(self, fun: Callable[..., Any], multiple: bool):
        self.fun, self.multiple = fun, multiple

    def __call__(self, context: Any, *args: Any, **params: Any) -> Any:
        raise UnsupportedError("a rule of `lower_fun` was called with MLIR values", "register it as it is")

    def expand(self, primitive: Primitive) -> Callable[..., Any]:
        """The function with its results as the primitive has them."""

        def expanded(*args: Any, **params: Any) -> Any:
            out = self.fun(*args, **params)
            if primitive.multiple:
                return list(out) if self.multiple else [out]
            return out[0] if self.multiple else out

        return expanded


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LowerFun:
    """The lowering rule of a primitive that a function of arrays computes."""
    return LowerFun(fun, multiple_results)


def register_lowering(
    primitive: Any, rule: Any, platform: str | None = None, inline: bool = True, cacheable: bool = True
) -> Any:
    """Give a client's primitive its lowering.

    A rule for one platform counts on that platform only; one that is written in MLIR itself is refused when it is used.
    """
    expand = rule.expand(primitive) if isinstance(rule, LowerFun) else _refusal(primitive)
    if platform is None:
        primitive.expand = expand
    else:
        primitive.expand = _for_platform(platform, expand, primitive.expand)
    return rule


def _refusal(primitive: Primitive) -> Callable[..., Any]:
    def refuse(*args: Any, **params: Any) -> Any:
        raise UnsupportedError(f"{primitive.name} has a lowering written in MLIR, which has no adapter",
                               "register `mlir.lower_fun` of a function of arrays")  # fmt: skip

    return refuse


def _for_platform(platform: str, expand: Callable[..., Any], before: Any) -> Callable[..., Any]:
    def chosen(*args: Any, **params: Any) -> Any:
        def here(*operands: Any) -> Any:
            return expand(*operands, **params)

        def elsewhere(*operands: Any) -> Any:
            return before(*operands, **params)

        name = {"gpu": "cuda", "rocm": "cuda"}.get(platform, platform)
        default = {} if before is None else {"default": elsewhere}
        return platform_dependent(*args, **{name: here}, **default)

    return chosen
