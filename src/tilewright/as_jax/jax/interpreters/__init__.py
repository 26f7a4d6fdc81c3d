"""`jax.interpreters`: rules of primitives for each transformation."""

from ...missing import not_adapted

__getattr__ = not_adapted(
    "jax.interpreters", submodules=("ad", "batching", "mlir", "partial_eval", "pxla", "xla")
)
