"""Guards of copies that nobody wrote: between host and device, and from device to device.

    level ::= allow | log | disallow                        of what happens by itself: NumPy arrays as arguments, floats
            | log_explicit | disallow_explicit              of explicit transfers too: `device_put`, `device_get`

The settings are `transfer_guard_host_to_device` and similar; `transfer_guard` is the default of each. They hold on
every platform, so that a program for an accelerator can be tried on a CPU, where nothing is copied.
"""

from __future__ import annotations

import warnings

from .config import current
from .errors import ExecutionError, user_source

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = "host_to_device", "device_to_host", "device_to_device"


def guard(kind: str, what: str, remedy: str, explicit: bool = False) -> None:
    """Say that something is copied, or refuse it, as the settings ask for. Raises `ExecutionError`."""
    settings = current()
    level = getattr(settings, f"transfer_guard_{kind}") or settings.transfer_guard
    if level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    text = f"{what}, and transfer_guard_{kind} is {level!r}"
    if level.startswith("disallow"):
        raise ExecutionError(text, remedy)
    warnings.warn(f"{text}; {remedy} (at {user_source()})", stacklevel=3)
