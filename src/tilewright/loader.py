"""What is loaded when it is first used, because loading it takes time that most programs need not spend.

The kernel language, the templates and the backends of devices are two thirds of the package. A program without kernels
needs none of them, so what every program runs through asks for them here, by name.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

PARTS = {
    "lang": ".lang",
    "target": ".lang.target",
    "kernel passes": ".kernel_passes",
    "targets": ".targets",
    "tuned kernels": ".tuning.kernels",
    "fusions": ".xla_backend.fusions",
    "explicit": ".core.explicit",
    "mesh": ".core.mesh",
    "sharded": ".xla_backend.sharded",
    "together": ".xla_backend.together",
    "shown shardings": ".core.show_sharding",
    "inspected": ".xla_backend.inspected",
    "communication": ".xla_backend.communication",
    "kernels on mesh": ".xla_backend.kernels_on_mesh",
    "partition": ".xla_backend.partition",
    "shardy": ".xla_backend.shardy",
}


def part(name: str) -> Any:
    """A part of the package, loaded if it is not yet."""
    return importlib.import_module(PARTS[name], __package__)


def loaded(name: str) -> bool:
    """Whether a part is there already."""
    return f"{__package__}{PARTS[name]}" in sys.modules
