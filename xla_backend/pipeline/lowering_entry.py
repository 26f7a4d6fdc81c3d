"""Programs lowered for the device that they are to run on, by what the front door has handed in."""

from __future__ import annotations

from ...core.ir.program import Program
from ...core.support.runtime import runtime
from ..devices.client import default_device
from ..options.compile_options import Call, Place, Unit
from .stablehlo_module import Module


def lower_for(program: Program, call: Call, tiled: bool = False, place: Place | None = None) -> Module:
    """The module of a Program for the default device, or for a mesh.

    `tiled`: its standard operations may become kernels there.
    """
    return runtime.lower(Unit(program, call, place=place), default_device(), tiled)
