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
    "target": ".lang.targets.target",
    "kernel passes": ".compiler.kernel_passes",
    "targets": ".compiler.ahead_of_time",
    "tuned kernels": ".tuning.kernels",
    "fusions": ".xla_backend.analysis.hlo_report",
    "explicit": ".core.sharding.sharding_in_types",
    "mesh": ".core.sharding.mesh",
    "sharded": ".xla_backend.execution.sharded_execution",
    "together": ".xla_backend.arrays.process_consistency",
    "shown shardings": ".core.sharding.visualize",
    "inspected": ".xla_backend.pipeline.inspect_sharding",
    "communication": ".xla_backend.partitioning.collective_report",
    "kernels on mesh": ".xla_backend.partitioning.partition_kernels",
    "operations on mesh": ".xla_backend.partitioning.partition_operations",
    "partition": ".xla_backend.partitioning.partition",
    "shardy": ".xla_backend.partitioning.shardy",
}


def part(name: str) -> Any:
    """A part of the package, loaded if it is not yet."""
    return importlib.import_module(f"tilewright{PARTS[name]}")


def loaded(name: str) -> bool:
    """Whether a part is there already."""
    return f"tilewright{PARTS[name]}" in sys.modules
