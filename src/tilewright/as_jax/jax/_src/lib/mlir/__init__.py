"""`jax._src.lib.mlir`: MLIR's bindings, as clients import them."""

from jaxlib.mlir import ir as ir
from jaxlib.mlir import passmanager as passmanager

from .....missing import not_adapted

__getattr__ = not_adapted("jax._src.lib.mlir", submodules=("dialects",))
