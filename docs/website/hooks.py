"""What MkDocs calls while it builds the site: adds the generated pages, draws flowcharts, checks links.

`mkdocs.yml` names this file; `make docs` runs MkDocs from the root, with the root on the path.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from docs.website import flowchart, gallery, links, notebooks, reference

ROOT = Path(__file__).resolve().parents[2]
_RESULTS = ROOT / "benchmarks"
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```", re.M | re.S)
_WIDE = ("index.md", "learn/from_")  # pages with programs side by side have no table of contents beside them
_ROW = re.compile(r"^\|.*\|$", re.M)
_CODE = re.compile(r"`[^`]+`")
_OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:[\w-]+/)*)([\w-]+)\.md\)")


def outside() -> dict[str, Path]:
    """The pages outside of docs/ that are in the site, by their path in it: results of benchmarks, the changelog."""
    found = [ROOT / "CHANGELOG.md", *_RESULTS.glob("results/*.md"), *_RESULTS.glob("compatibility/*.md")]
    return {f"{path.relative_to(ROOT).as_posix()}": path for path in sorted(found)}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the parts of the navigation that are generated."""
    for part in config.nav or []:
        if isinstance(part, dict) and "Reference" in part:
            part["Reference"].append({"Namespaces": reference.nav()})
        if isinstance(part, dict) and "Gallery" in part:
            part["Gallery"] += gallery.nav()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, text in (*reference.pages(), *gallery.pages(), *notebooks.pages()):
        files.append(File.generated(config, path, content=text))
    for path, source in outside().items():
        files.append(File.generated(config, path, content=source.read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Draw flowcharts, mark sessions as such, and lead links out of docs/ to the copies in the site."""
    text = _MERMAID.sub(lambda m: flowchart.svg(m[1]) + "\n", markdown)
    text = text.replace("```python\n>>>", "```pycon\n>>>")
    # In code within tables GitHub needs a backslash before `|`, which MkDocs shows.
    text = _ROW.sub(lambda m: _CODE.sub(lambda code: code[0].replace("\\|", "|"), m[0]), text)
    if page.file.src_uri.startswith(_WIDE):
        page.meta["hide"] = ["toc"]
    if page.file.src_uri == "reference/index.md":
        text = reference.linked(text)
    if page.file.src_uri == "gallery/index.md":
        text = gallery.linked(text)
    if not page.file.src_uri.startswith("benchmarks/"):
        text = _OUTSIDE.sub(lambda m: f"]({m[1]}{m[2]}.md)" if f"{m[1]}{m[2]}.md" in outside() else m[0], text)
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Check the links of what was written."""
    found = list(links.broken(Path(config.site_dir)))
    if found:
        raise PluginError(f"{len(found)} broken references:\n" + "\n".join(found))
