"""A plugin of pytest for jax's own test files, in a process where this package is `jax`."""

from __future__ import annotations

import os
from pathlib import Path

from . import private


def pytest_collection_finish() -> None:
    """From here on a private name without a counterpart raises."""
    private.Absent.collecting = False


private.install(Path(os.environ["JAX_CHECKOUT"]))
