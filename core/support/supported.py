"""The supported versions of other packages: the only table of them.

A version outside the range of its package, or known to be broken, raises `VersionError`. A version in the range that
the tests have not run with warns once with `UntestedVersionWarning`. `make test-versions` runs the tests with the
oldest and the newest ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .errors import UntestedVersionWarning, VersionError, warn
from .memo import once

Status = Literal["tested", "untested", "broken", "unsupported"]


def numbers(version: str) -> tuple[int, ...]:
    """The release numbers of a version, without what follows them (`rc1`, `.dev0`, `+local`).

    >>> numbers("0.12.0.1"), numbers("3.6.0+git1"), numbers("0.13.0.dev20260101")
    ((0, 12, 0, 1), (3, 6, 0), (0, 13, 0))
    """
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _ordered(version: str) -> tuple[int, ...]:
    """The key that versions are ordered by: 3.6 and 3.6.0 are equal."""
    return (*numbers(version), 0, 0, 0, 0)[:5]


@dataclass(frozen=True)
class Support:
    """The versions of one package from `lowest` up to `below`, exclusive.

    `tested` are the releases that the tests ran with; "0.0.48" stands for 0.0.48.1 too. `broken` maps a version in the
    range to the reason why it is refused.
    """

    package: str
    lowest: str
    below: str
    tested: tuple[str, ...]
    broken: Mapping[str, str] = field(default_factory=dict)

    @property
    def requirement(self) -> str:
        """The range as pip writes it."""
        return f"{self.package}>={self.lowest},<{self.below}"

    @property
    def remedy(self) -> str:
        last = self.tested[-1]
        return f"pip install '{self.package}=={last}{'' if last.count('.') > 1 else '.*'}'"

    def status(self, version: str) -> Status:
        """How well a version is supported."""
        if not _ordered(self.lowest) <= _ordered(version) < _ordered(self.below):
            return "unsupported"
        if version in self.broken:
            return "broken"
        release = re.fullmatch(r"[\d.]+(\+.*)?", version) is not None
        return "tested" if release and any(_within(version, t) for t in self.tested) else "untested"

    def check(self, version: str, remedy: str = "") -> None:
        """Refuse a version that is unsupported or broken, and warn once of an untested one.

        Raises:
          VersionError: the version is outside the range, or known to be broken.
        """
        status = self.status(version)
        if status == "untested":
            _warn_untested(self.package, version, ", ".join(self.tested), self.remedy)
        if status == "unsupported":
            raise VersionError(f"{self.package} {version} is installed; this version of tilewright works with "
                               f"{self.requirement}", remedy or self.remedy)  # fmt: skip
        if status == "broken":
            raise VersionError(f"{self.package} {version} is installed and does not work: {self.broken[version]}",
                               self.remedy)  # fmt: skip


def _within(version: str, release: str) -> bool:
    return numbers(version)[: len(numbers(release))] == numbers(release)


@once
def _warn_untested(package: str, version: str, tested: str, remedy: str) -> None:
    warn(f"{package} {version} is untested with this version of tilewright, which was tested with {tested}; if "
         f"something fails: {remedy}", UntestedVersionWarning)  # fmt: skip


_TABLE = (
    Support("jaxlib", "0.11.2", "0.13", ("0.11.2", "0.12.0.1")),
    Support("triton", "3.6.0", "3.10", ("3.6.0", "3.9.0")),
    Support("libtpu", "0.0.48", "0.0.53", ("0.0.48", "0.0.52")),
    # CUTLASS's headers do not compile with later versions of CUDA.
    Support("nvidia-cutlass", "4.2", "4.3", ("4.2",)),
    Support("nvidia-cuda-nvrtc", "13.0", "13.1", ("13.0",)),
    Support("nvidia-cuda-cccl", "13.0", "13.1", ("13.0",)),
    Support("nvidia-cuda-runtime", "13.0", "13.1", ("13.0",)),
    Support("nvidia-cuda-crt", "13.0", "13.1", ("13.0",)),
    Support("cuda-python", "13", "14", ("13",)),
)
SUPPORTED: Mapping[str, Support] = {support.package: support for support in _TABLE}
