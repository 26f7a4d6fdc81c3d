"""`jax._src.lib.mlir.dialects`: dialects of MLIR, as clients import them."""

from jaxlib.mlir.dialects import chlo as chlo
from jaxlib.mlir.dialects import func as func
from jaxlib.mlir.dialects import sdy as sdy
from jaxlib.mlir.dialects import stablehlo as hlo

from ......missing import not_adapted

__all__ = ["chlo", "func", "hlo", "sdy"]
__getattr__ = not_adapted("jax._src.lib.mlir.dialects")
