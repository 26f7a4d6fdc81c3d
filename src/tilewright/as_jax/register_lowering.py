"""Lowering rules of clients: what a primitive is expanded into.

`mlir.lower_fun` wraps a function of arrays, which is what nearly every client registers. It becomes the primitive's
`expand`, so that every backend has it. A rule that is written in MLIR itself becomes a call of the module that it
writes (`lowering_context`), which XLA compiles; bodies of kernels cannot hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..core.primitives.external.call_exported import call_exported_p
from ..core.primitives.external.staging import platform_dependent
from ..core.support.errors import UnsupportedError
from ..core.tracing.trace import typeof
from .primitive import Primitive


class LowerFun:
    """A lowering rule made of a function of arrays."""

    fun: Callable[..., Any]
    multiple: bool

    def __init__(self, fun: Callable[..., Any], multiple: bool):
        self.fun, self.multiple = fun, multiple

    def __call__(self, context: Any, *args: Any, **params: Any) -> Any:
        """Within a rule that is written in MLIR: the results for MLIR values."""
        return lowering_context().call_function(context, self.fun, args, params)

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

    A rule for one platform counts on that platform only.

    Raises:
      UnsupportedError: for a primitive of this package's own, whose lowering stays as it is.
    """
    if Primitive not in type(primitive).__mro__:
        raise UnsupportedError(f"a lowering of {primitive}, which is a primitive of this package's own",
                               "make a primitive with `jax.extend.core.Primitive`")  # fmt: skip
    expand = rule.expand(primitive) if isinstance(rule, LowerFun) else _written(primitive, rule, platform or "cpu")
    if platform is None:
        primitive.expand = expand
    else:
        primitive.expand = _for_platform(platform, expand, primitive.expand)
    return rule


def lowering_context() -> Any:
    """What writes MLIR, whose bindings take time to load and which few programs need."""
    return import_module(".lowering_context", __package__)


def _written(primitive: Primitive, rule: Callable[..., Any], platform: str) -> Callable[..., Any]:
    """A rule that is written in MLIR, as an expansion."""
    modules: dict[Any, Any] = {}

    def expanded(*args: Any, **params: Any) -> Any:
        types = tuple(typeof(x).strong() for x in args)
        key = types, tuple(params.items())
        if key not in modules:
            modules[key] = lowering_context().written(primitive, rule, types, params, platform)
        outs = call_exported_p.bind(*args, exported=modules[key])
        return outs if primitive.multiple else outs[0]

    return expanded


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
