"""What a report of a fault should say about the machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from .core.support.version import __version__
from .devices import devices, process_count

_SHOWN = ("TILEWRIGHT_", "JAX_", "XLA_", "CUDA_VISIBLE", "TPU_", "LIBTPU_")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions, devices and settings that a report of a fault should hold, or give them as a string.

    >>> "tilewright:" in print_environment_info(return_string=True)
    True
    """
    kinds = ", ".join(f"{d.platform} {d.id} ({d.device_kind})" for d in devices())
    lines = [
        f"tilewright: {__version__}",
        *(f"{name}: {_version(name)}" for name in ("jaxlib", "numpy", "ml_dtypes")),
        f"python: {sys.version}",
        f"devices: {kinds}",
        f"process_count: {process_count()}",
        f"platform: {platform.uname()}",
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_SHOWN)),
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None
