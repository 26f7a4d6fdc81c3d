"""The links between the devices of a target, and the least time that a collective takes over them.

A mesh numbers its devices row by row. Consecutive devices share a *domain*: the slice of a TPU, the node of a GPU.
Within a domain links are fast, between domains they are those of the network. Collectives that cross domains are
priced in two stages: within each domain, then between them with a part of the bytes. Along the torus of a TPU a
collective uses the links of those axes that its devices differ in; over a part of an axis, which is a line, half of
them. A stage over n devices takes log2(n) latencies and the bytes that each device has to send, so small messages cost
their latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Interconnect:
    """Bytes a second of one device in one direction, and seconds of a step, within a domain and between domains."""

    name: str
    within: float
    between: float
    latency: float
    far_latency: float
    domain: int  # devices of the largest domain; 0: all of them
    torus: tuple[int, ...] = ()  # of a TPU: the chips along each axis of the largest slice
    wraps: int = 1  # the shortest torus axis that closes to a ring

    def shape(self, count: int) -> tuple[int, ...]:
        """The chips along each axis of the slice for a number of devices: the squarest that fits.

        >>> INTERCONNECTS["tpu:v5e"].shape(32)
        (4, 8)
        """
        rest, sizes = min(count, self.domain or count), []
        for left in range(len(self.torus), 1, -1):
            side = max(d for d in range(1, rest + 1) if rest % d == 0 and d**left <= rest)
            sizes.append(side)
            rest //= side
        return tuple(sorted([*sizes, rest])) if self.torus else ()

    def seconds(self, kind: str, bytes: float, members: Sequence[int], count: int) -> float:
        """The least time of a collective with a result of some bytes on each device, among devices by their numbers.

        >>> ici = INTERCONNECTS["tpu:v5e"]
        >>> ici.seconds("all-gather", 2**20, range(4), 4) < ici.seconds("all-gather", 2**20, range(0, 512, 128), 512)
        True
        """
        size = self.domain or count
        domains = {m // size for m in members}
        outer, inner = len(domains), -(-len(members) // len(domains))
        near = [m for m in members if m // size == members[0] // size]
        speed = self.within * self._share(near, count)
        if kind == "permute":
            return self.latency + bytes / speed if outer == 1 else self.far_latency + bytes / self.between
        total = bytes * len(members) if kind == "reduce-scatter" else bytes
        part = total if kind == "all-to-all" else total / inner  # what a device exchanges with other domains
        return (_stage(kind, total, inner, speed, self.latency)
                + _stage(kind, part, outer, self.between, self.far_latency))  # fmt: skip

    def _share(self, members: Sequence[int], count: int) -> float:
        """The part of a chip's links that a collective among chips of one slice uses."""
        if not self.torus:
            return 1.0
        sizes = self.shape(count)
        places = [_coordinates(m % math.prod(sizes), sizes) for m in members]
        spans = [(len({p[axis] for p in places}), n) for axis, n in enumerate(sizes)]
        rings = sum(1.0 if span == n >= self.wraps else 0.5 for span, n in spans if span > 1)
        return max(rings, 0.5) / len(sizes)


def _coordinates(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    found = []
    for n in reversed(sizes):
        found.append(number % n)
        number //= n
    return tuple(reversed(found))


def _stage(kind: str, total: float, n: int, speed: float, latency: float) -> float:
    """The time of a collective over `n` devices, `total` being the bytes of its whole operand or result."""
    if n == 1:
        return 0.0
    passes = 2 if kind == "all-reduce" else 1
    return passes * (math.ceil(math.log2(n)) * latency + (n - 1) / n * total / speed)


# TPU v5e, v5p, v6e and 7x: interconnect, largest slice and network bandwidth of a chip by Google Cloud's page of each
# (of 7x the network is assumed to be that of v6e); the axes of v5p and 7x close in multiples of 4, those of v5e and
# v6e at 16. H100 and H200: NVLink 4 in nodes of 8 and a 400 Gb/s adapter for each GPU; B200: NVLink 5. Latencies are
# assumed: 1 us within a domain, 10 us between. XLA's CPU devices share one memory.
INTERCONNECTS = {
    "tpu:v5e": Interconnect("v5e", 200e9, 3.125e9, 1e-6, 1e-5, 256, (16, 16), 16),
    "tpu:v5p": Interconnect("v5p", 600e9, 6.25e9, 1e-6, 1e-5, 6144, (16, 16, 24), 4),
    "tpu:v6e": Interconnect("v6e", 448e9, 12.5e9, 1e-6, 1e-5, 256, (16, 16), 16),
    "tpu:7x": Interconnect("7x", 600e9, 12.5e9, 1e-6, 1e-5, 9216, (16, 24, 24), 4),
    "cuda:sm_90": Interconnect("NVLink 4", 450e9, 50e9, 1e-6, 1e-5, 8),
    "cuda:sm_100": Interconnect("NVLink 5", 900e9, 50e9, 1e-6, 1e-5, 8),
    "cpu": Interconnect("memory", 10e9, 10e9, 1e-6, 1e-6, 0),
}  # fmt: skip


def interconnect_of(target: str) -> Interconnect:
    """The links of a target, by its name; those of the CPU where they are not known."""
    return next((v for k, v in INTERCONNECTS.items() if target.startswith(k)), INTERCONNECTS["cpu"])


def members_along(axes: Sequence[str], mesh: dict[str, int]) -> tuple[int, ...]:
    """The numbers of the devices that the first one exchanges with along axes of a mesh.

    >>> members_along(["x"], {"x": 2, "y": 4})
    (0, 4)
    """
    members, stride = [0], math.prod(mesh.values())
    for name, size in mesh.items():
        stride //= size
        if name in axes:
            members = [m + i * stride for m in members for i in range(size)]
    return tuple(sorted(members))
