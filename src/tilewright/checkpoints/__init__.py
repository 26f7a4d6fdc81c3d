"""Checkpoints: trees of arrays on disk, however they lie on a mesh, and files in the format of `safetensors`.

    saving = checkpoints.save(f"run/{step}", state)   # returns when the values are copied; a thread writes them
    state = checkpoints.restore(checkpoints.latest("run"), state)

The format is in `docs/checkpoints.md`.
"""

from collections.abc import Callable

from .manifest import Leaf, Manifest, latest, metadata
from .reader import check, restore
from .safetensors import read_safetensors, write_safetensors
from .writer import CheckpointWarning, Saving, save

__all__ = [
    "CheckpointWarning", "Leaf", "Manifest", "Saving", "check", "latest", "metadata", "read_safetensors", "restore",
    "save", "write_safetensors",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
