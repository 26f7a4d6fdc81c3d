"""Types, IR, tracing and transformations; knows no kernel and no device."""

if __name__ != "tilewright.core":
    raise ImportError("import tilewright.core, not core: the repository root is on sys.path")

from .later import later

# What client code names from `jax.core`.
__getattr__, __dir__, __all__ = later(
    __name__,
    {
        "Atom": ".ir:Atom",
        "Literal": ".ir:Literal",
        "Primitive": ".primitive:Primitive",
        "ShapedArray": ".types:ArrayType",
        "Trace": ".trace:Trace",
        "Tracer": ".trace:Tracer",
        "Value": ".value:Value",
        "Var": ".ir:Var",
        "ensure_compile_time_eval": ".trace:ensure_compile_time_eval",
    },
)
