"""The Python packages that a device compiler needs, and the versions that are supported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec

from ...core.support.errors import VersionError
from ...core.support.memo import once
from ...core.support.supported import SUPPORTED


@dataclass(frozen=True, eq=False)
class Packages:
    """What `user` needs: `needed` maps a package to its module, `exactly` a package to its one supported version.

    The versions of other packages are checked against `core/support/supported.py`.
    """

    user: str
    needed: Mapping[str, str]
    extra: str
    exactly: Mapping[str, str] = field(default_factory=dict)

    @once
    def versions(self) -> dict[str, str | None]:
        """The version of each package, None where it is not installed."""
        return {package: _version(package, module) for package, module in self.needed.items()}

    def installed(self) -> bool:
        """Whether every package is installed, in whatever version."""
        return None not in self.versions().values()

    def check(self) -> None:
        """Raise a `VersionError` unless each package is installed in a supported version."""
        remedy = f"pip install 'tilewright[{self.extra}]'"
        found = self.versions()
        if missing := [package for package, version in found.items() if version is None]:
            raise VersionError(f"{self.user} need {', '.join(missing)}, not installed here", remedy)
        for package in self.needed:
            version, wanted = str(found[package]), self.exactly.get(package)
            if wanted is None:
                SUPPORTED[package].check(version, remedy)
            elif version != wanted:
                raise VersionError(f"{package} {version} is installed; it must be {wanted}, as jaxlib is",
                                   f"pip install '{package}=={wanted}'")  # fmt: skip


def _version(package: str, module: str) -> str | None:
    try:
        return metadata.version(package) if find_spec(module) is not None else None
    except (ModuleNotFoundError, metadata.PackageNotFoundError):
        return None
