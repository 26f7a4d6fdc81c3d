"""Functions as programs that other processes can call: `export`, symbolic sizes, and their bytes.

The bytes are those of `jax.export`, which reads what is written here, and whose exports are called here.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.ir.symbolic.dim import is_symbolic as is_symbolic_dim
from ..core.ir.symbolic.dim import max_dim, min_dim
from ..core.ir.symbolic.scope import SymbolicScope, symbolic_dim_bounds, symbolic_shape
from ..core.support.errors import ExportError, ExportVersionError, InconclusiveDimensionError
from .arguments import symbolic_args_specs
from .checks import DisabledSafetyCheck
from .exported import Exported
from .exporting import default_export_platform, export
from .nodes import register_namedtuple_serialization, register_pytree_node_serialization
from .reading import deserialize
from .schema import CALLING

minimum_supported_calling_convention_version: int
maximum_supported_calling_convention_version: int
minimum_supported_calling_convention_version, maximum_supported_calling_convention_version = CALLING

__all__ = [
    "DisabledSafetyCheck", "ExportError", "ExportVersionError", "Exported", "InconclusiveDimensionError",
    "SymbolicScope", "default_export_platform", "deserialize", "export", "is_symbolic_dim", "max_dim",
    "maximum_supported_calling_convention_version", "min_dim", "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization", "register_pytree_node_serialization", "symbolic_args_specs",
    "symbolic_dim_bounds", "symbolic_shape",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
