"""The offsets by which handlers read XLA's structures, against the header that jaxlib has."""

from __future__ import annotations

import re
from pathlib import Path

import jaxlib
import pytest

from tilewright.cpu_backend.runtime.abi import API_MAJOR, API_MINOR, METADATA_EXTENSION, OFFSETS, SIZES

HEADER = Path(jaxlib.__file__).parent / "include/xla/ffi/api/c_api.h"
if not HEADER.exists():
    pytest.skip("jaxlib has no headers", allow_module_level=True)
TEXT = re.sub(r"//[^\n]*", "", HEADER.read_text())
WIDTHS = {"int64_t": 8, "size_t": 8, "int32_t": 4, "uint32_t": 4, "int": 4}


def layout(structure: str) -> tuple[dict[str, int], int, int]:
    """Offsets of the fields, the size, and the alignment, as C has them."""
    found = re.search(rf"struct {structure} \{{([^}}]*)\}}", TEXT)
    assert found is not None, structure
    place, widest, fields = 0, 1, {}
    for line in found[1].split(";"):
        line = line.strip()
        if not line:
            continue
        if of := re.match(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\)", line):
            kind, name = "void*", of[1]
        else:
            kind, name = re.match(r"(?:struct |const )*(.*?)\s*\b(\w+)$", line, re.DOTALL).groups()
        size = align = 8 if "*" in kind else WIDTHS.get(kind)
        if size is None and re.search(rf"struct {kind} \{{", TEXT):
            _, size, align = layout(kind)
        size, align = (size, align) if size else (4, 4)  # enums and 32-bit flags
        place = -(-place // align) * align
        fields[name], widest = place, max(widest, align)
        place += size
    return fields, -(-place // widest) * widest, widest


@pytest.mark.parametrize("structure", list(OFFSETS))
def test_offsets_are_those_of_the_header(structure):
    fields, size, _ = layout(structure)
    assert {name: fields[name] for name in OFFSETS[structure]} == OFFSETS[structure]
    assert SIZES.get(structure, size) == size


def test_versions_are_those_of_the_header():
    major, minor = (int(re.search(rf"#define XLA_FFI_API_{part} (\d+)", TEXT)[1]) for part in ("MAJOR", "MINOR"))
    assert major == API_MAJOR and minor >= API_MINOR
    assert re.search(rf"XLA_FFI_Extension_Metadata = {METADATA_EXTENSION}\b", TEXT)
