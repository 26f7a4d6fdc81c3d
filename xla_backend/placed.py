"""Programs printed for the device that they are to run on.

What makes custom calls of kernels is another layer's, handed in by `set_kernels`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..core.ir import Program
from ..lang.kernel import Kernel
from ..lang.target import CustomCall
from .client import Device, default_device
from .module import Module, lower

EMITTED = {"cpu": "cpu", "gpu": "cuda"}  # platforms of devices, as the emitter calls them
Emit = Callable[[Kernel], CustomCall]
_kernels: dict[str, Callable[[Device], Emit]] = {}


def set_kernels(platform: str, emitter: Callable[[Device], Emit]) -> None:
    """Hand in what gives, for a device of a platform, the function that makes custom calls of kernels."""
    _kernels[platform] = emitter


def lower_for(
    device: Device | None, program: Program, name: str, donated: Sequence[int] = (), keep_unused: bool = False
) -> Module:
    """The module of a Program for a device, the default one if none is named."""
    platform = (default_device() if device is None else device).platform
    kernels = None
    if platform in _kernels:
        kernels = _kernels[platform](default_device() if device is None else device)
    module = lower(program, name, donated, keep_unused, EMITTED[platform], kernels)
    again = functools.partial(lower_for, program=program, name=name, donated=donated, keep_unused=keep_unused)
    return replace(module, platform=platform, again=again)
