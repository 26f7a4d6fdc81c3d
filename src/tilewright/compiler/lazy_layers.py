"""What is loaded when it is first used, because loading it takes time that most programs need not spend.

The kernel language, the templates and the backends of devices are two thirds of the package. A program without kernels
needs none of them, so what every program runs through takes them from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .. import lang as lang
    from ..core.debugging import nan_locator as nan_locator
    from ..core.sharding import mesh as mesh
    from ..core.sharding import sharding_in_types as sharding_in_types
    from ..core.sharding import visualize as visualize
    from ..lang.frontend import mutable_arrays as mutable_arrays
    from ..lang.targets import target as target
    from ..tuning import kernels as tuned_kernels
    from ..xla_backend.analysis import hlo_report as hlo_report
    from ..xla_backend.arrays import process_consistency as process_consistency
    from ..xla_backend.execution import sharded_execution as sharded_execution
    from ..xla_backend.partitioning import collective_report as collective_report
    from ..xla_backend.partitioning import partition as partition
    from ..xla_backend.partitioning import partition_kernels as partition_kernels
    from ..xla_backend.partitioning import partition_operations as partition_operations
    from ..xla_backend.partitioning import shardy as shardy
    from ..xla_backend.pipeline import inspect_sharding as inspect_sharding
    from . import ahead_of_time as ahead_of_time
    from . import cpu_fusion as cpu_fusion
    from . import cpu_kernel_selection as cpu_kernel_selection
    from . import kernel_passes as kernel_passes
else:
    from ..core.support.lazy_imports import LazyModule

    lang = LazyModule("..lang", __package__)
    nan_locator = LazyModule("..core.debugging.nan_locator", __package__)
    mesh = LazyModule("..core.sharding.mesh", __package__)
    sharding_in_types = LazyModule("..core.sharding.sharding_in_types", __package__)
    visualize = LazyModule("..core.sharding.visualize", __package__)
    mutable_arrays = LazyModule("..lang.frontend.mutable_arrays", __package__)
    target = LazyModule("..lang.targets.target", __package__)
    tuned_kernels = LazyModule("..tuning.kernels", __package__)
    hlo_report = LazyModule("..xla_backend.analysis.hlo_report", __package__)
    process_consistency = LazyModule("..xla_backend.arrays.process_consistency", __package__)
    sharded_execution = LazyModule("..xla_backend.execution.sharded_execution", __package__)
    collective_report = LazyModule("..xla_backend.partitioning.collective_report", __package__)
    partition = LazyModule("..xla_backend.partitioning.partition", __package__)
    partition_kernels = LazyModule("..xla_backend.partitioning.partition_kernels", __package__)
    partition_operations = LazyModule("..xla_backend.partitioning.partition_operations", __package__)
    shardy = LazyModule("..xla_backend.partitioning.shardy", __package__)
    inspect_sharding = LazyModule("..xla_backend.pipeline.inspect_sharding", __package__)
    ahead_of_time = LazyModule(".ahead_of_time", __package__)
    cpu_fusion = LazyModule(".cpu_fusion", __package__)
    kernel_passes = LazyModule(".kernel_passes", __package__)
    cpu_kernel_selection = LazyModule(".cpu_kernel_selection", __package__)
