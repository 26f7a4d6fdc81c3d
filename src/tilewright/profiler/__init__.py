"""`jax.profiler`'s names: traces of what runs, for TensorBoard and Perfetto, and what fills a device's memory."""

from collections.abc import Callable

from .memory import MemoryReport, device_memory_profile, memory_report, save_device_memory_profile
from .report import Profile, Row, profile
from .session import (
    ProfileOptions,
    StepTraceAnnotation,
    TraceAnnotation,
    annotate_function,
    start_server,
    start_trace,
    stop_server,
    stop_trace,
    trace,
)

__all__ = [
    "MemoryReport", "Profile", "ProfileOptions", "Row", "StepTraceAnnotation", "TraceAnnotation", "annotate_function",
    "device_memory_profile", "memory_report", "profile", "save_device_memory_profile", "start_server", "start_trace",
    "stop_server", "stop_trace", "trace",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
