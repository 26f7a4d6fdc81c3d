"""Types, IR, tracing and transformations; knows no kernel and no device."""

if __name__ != "tilewright.core":
    raise ImportError("import tilewright.core, not core: the repository root is on sys.path")

from collections.abc import Callable
from typing import TYPE_CHECKING

from .support.lazy_imports import later as _later

if TYPE_CHECKING:
    from .ir.primitive import Primitive
    from .ir.program import Atom, Literal, Var
    from .ir.typeof import Value
    from .ir.types import ArrayType as ShapedArray
    from .tracing.trace import Trace, Tracer, ensure_compile_time_eval

# What client code names from `jax.core`.
if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(
        __name__,
        {
            "Atom": ".ir.program:Atom",
            "Literal": ".ir.program:Literal",
            "Primitive": ".ir.primitive:Primitive",
            "ShapedArray": ".ir.types:ArrayType",
            "Trace": ".tracing.trace:Trace",
            "Tracer": ".tracing.trace:Tracer",
            "Value": ".ir.typeof:Value",
            "Var": ".ir.program:Var",
            "ensure_compile_time_eval": ".tracing.trace:ensure_compile_time_eval",
        },
    )

__all__ = ["Atom", "Literal", "Primitive", "ShapedArray", "Trace", "Tracer", "Value", "Var", "ensure_compile_time_eval"]
__dir__: Callable[[], list[str]] = __all__.copy
