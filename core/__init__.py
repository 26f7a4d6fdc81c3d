"""Types, IR, tracing and transformations; knows no kernel and no device."""

if __name__ != "tilewright.core":
    raise ImportError("import tilewright.core, not core: the repository root is on sys.path")

from .support.lazy_imports import later

# What client code names from `jax.core`.
__getattr__, __dir__, __all__ = later(
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
