"""Writes a CycloneDX list of the distributions installed in this environment, with versions and licences, to a file."""

import json
import sys
from importlib import metadata
from pathlib import Path


def licence(found: metadata.PackageMetadata) -> str:
    """The licence that a distribution names, as one line."""
    classifiers = [c.rpartition(":: ")[2] for c in found.get_all("Classifier") or () if c.startswith("License ::")]
    for text in (found.get("License-Expression"), found.get("License"), *classifiers):
        if text and "\n" not in text and text != "UNKNOWN":
            return text
    return classifiers[0] if classifiers else "unknown"


def components() -> list[dict]:
    found = {d.metadata["Name"].lower(): d for d in metadata.distributions() if d.metadata["Name"]}
    return [
        {"type": "library", "name": d.metadata["Name"], "version": d.version,
         "purl": f"pkg:pypi/{name.replace('_', '-')}@{d.version}",
         "licenses": [{"license": {"name": licence(d.metadata)}}]}
        for name, d in sorted(found.items())
    ]  # fmt: skip


def main(path: str) -> None:
    listed = components()
    Path(path).parent.mkdir(exist_ok=True)
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": listed}
    Path(path).write_text(json.dumps(document, indent=1) + "\n")
    print(f"{path}: {len(listed)} distributions")


if __name__ == "__main__":
    main(sys.argv[1])
