"""`jax._src.lib`: MLIR's bindings; for the kernels that come with jax the version of CUDA, which they ask for.

Kernels enter programs as PTX, which the plugin's CUDA assembles on the machine that has the device.
"""

from __future__ import annotations

from ....missing import not_adapted


class _Versions:
    """What `cuda_versions` is asked."""

    @staticmethod
    def cuda_runtime_get_version() -> int:
        """The version as CUDA counts it: 1,000 for each major one."""
        return 13_000


cuda_versions = _Versions()

__all__ = ["cuda_versions"]
__getattr__ = not_adapted("jax._src.lib", submodules=("mlir",))
