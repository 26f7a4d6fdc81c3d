"""Folders in which a type checker or a language server finds the package as an installed one."""

import json
import sys
import sysconfig
from pathlib import Path

from tests.support.paths import ROOT


def installed_in(folder: Path, **config: object) -> None:
    """Make an environment with the package in a folder, and pyright's configuration for the scripts beside it."""
    packages = folder / "venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "tilewright").symlink_to(ROOT / "src" / "tilewright")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    given = {"venvPath": str(folder), "venv": "venv", "include": ["*.py"], **config}
    (folder / "pyrightconfig.json").write_text(json.dumps(given))
