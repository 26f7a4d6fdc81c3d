"""What notebooks show of a sharding: the devices of its mesh."""

from __future__ import annotations

from typing import Any

from ..support.html_table import html_table, html_text


class DeviceGrid:
    """A base of shardings over a mesh that shows the devices as a table, the last axis of the mesh across."""

    __slots__ = ()
    mesh: Any
    spec: Any

    def _repr_html_(self) -> str:
        devices = getattr(self.mesh, "devices", None)
        if devices is None:  # an abstract mesh
            return html_text(repr(self))
        rows = devices.reshape(-1, devices.shape[-1] if devices.ndim else 1)
        return html_table((), rows, f"{self.spec} over {dict(self.mesh.shape)}")
