"""Programs printed for the device that they are to run on.

What makes custom calls of kernels is another layer's, handed in by `set_kernels`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..core.ir import Program
from ..core.runtime import runtime
from .client import Device, default_device
from .module import Module, lower

EMITTED = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}  # platforms of devices, as the emitter calls them
# From a `lang.kernel.Kernel` to its `lang.target.CustomCall`, or None: XLA computes the kernel.
Emit = Callable[[Any], Any]
Prepare = Callable[[Device, Program], tuple[Program, Emit | None]]  # what runs on a device in a Program's stead
_kernels: dict[str, Callable[[Device], Emit]] = runtime.part("placed.kernels", {})


def set_kernels(platform: str, emitter: Callable[[Device], Emit]) -> None:
    """Hand in what gives, for a device of a platform, the function that makes custom calls of kernels."""
    _kernels[platform] = emitter


def lower_for(
    device: Device | None, program: Program, name: str, donated: Sequence[int] = (), keep_unused: bool = False,
    prepare: Prepare | None = None,
) -> Module:  # fmt: skip
    """The module of a Program for a device, the default one if none is named; `prepare` may change it for that."""
    device = default_device() if device is None else device
    platform, made, kernels = device.platform, program, None
    if prepare is not None:
        made, kernels = prepare(device, program)
    elif platform in _kernels:
        kernels = _kernels[platform](device)
    module = lower(made, name, donated, keep_unused, EMITTED[platform], kernels)
    again = functools.partial(
        lower_for, program=program, name=name, donated=donated, keep_unused=keep_unused, prepare=prepare
    )
    return replace(module, platform=platform, again=again)
