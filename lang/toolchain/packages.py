"""The Python packages that a device compiler needs, and the versions that are supported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from ...core.support.errors import VersionError
from ...core.support.memo import once


@dataclass(frozen=True, eq=False)
class Packages:
    """What `user` needs: `needed` maps a package to its module and the prefix of the supported versions."""

    user: str
    needed: Mapping[str, tuple[str, str]]
    extra: str

    @once
    def versions(self) -> dict[str, str | None]:
        """The version of each package, None where it is not installed."""
        return {package: _version(package, module) for package, (module, _) in self.needed.items()}

    def installed(self) -> bool:
        """Whether every package is installed, in whatever version."""
        return None not in self.versions().values()

    def check(self) -> None:
        """Raise a `VersionError` unless each package is installed in a supported version."""
        remedy = f"pip install 'tilewright[{self.extra}]'"
        found = self.versions()
        if missing := [package for package, version in found.items() if version is None]:
            raise VersionError(f"{self.user} need {', '.join(missing)}, not installed here", remedy)
        for package, (_, supported) in self.needed.items():
            if not str(found[package]).startswith(supported):
                raise VersionError(f"{package} {found[package]} is installed; this version works with {supported}*",
                                   remedy)  # fmt: skip


def _version(package: str, module: str) -> str | None:
    try:
        return metadata.version(package) if find_spec(module) is not None else None
    except (ModuleNotFoundError, metadata.PackageNotFoundError):
        return None
