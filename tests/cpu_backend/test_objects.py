"""Object files: what the loader takes, and what it refuses by name."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.support.machine_code import elementwise, needs_llvm
from tilewright.cpu_backend.llvm.builder import Builder
from tilewright.cpu_backend.llvm.compile import generator_version, module_text, object_of
from tilewright.cpu_backend.machine.features import caches, cores, features
from tilewright.cpu_backend.objects import elf
from tilewright.cpu_backend.objects.loader import ALLOWED, format_of, load
from tilewright.cpu_backend.objects.store import name_of, pack, unpack
from tilewright.cpu_backend.runtime.library import loaded
from tilewright.errors import CompileError

pytestmark = needs_llvm


def sample(callee: str | None = None) -> bytes:
    b = Builder("run", [("ptr", "p")])
    b.linkage = ""
    b.store(b.load(b.parameters[0], "float") * 2.5, b.parameters[0])
    if callee:
        b.run(callee, b.parameters[0])
    return object_of(module_text([b]), features())


def test_a_symbol_that_is_not_allowed_is_named():
    with pytest.raises(CompileError, match="system"):
        load(sample("system"))
    assert "run" in load(sample("free")).symbols


def test_other_formats_are_recognised_and_refused():
    for data, kind in (
        (b"\xcf\xfa\xed\xfe" + bytes(60), "Mach-O"),
        (b"\x64\x86" + bytes(60), "COFF"),
        (b"", "unknown"),
    ):
        assert format_of(data) == kind
        with pytest.raises(CompileError, match=kind):
            load(data)


@pytest.mark.parametrize("at", [16, 18])
def test_another_machines_object_is_refused(at):
    data = bytearray(sample())
    struct.pack_into("<H", data, at, 40)
    with pytest.raises(CompileError):
        load(bytes(data))


def test_a_damaged_object_is_an_error_and_never_loaded_out_of_bounds():
    data, rng = sample(), np.random.default_rng(0)
    for end in range(0, len(data), 37):
        with pytest.raises(CompileError):
            elf.read(data[:end], ALLOWED)
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(int(rng.integers(1, 6))):
            changed[int(rng.integers(64, len(data)))] = int(rng.integers(256))
        try:
            image = elf.read(bytes(changed), ALLOWED)
            elf.relocate(image, 1 << 40)
        except CompileError:
            continue
        assert len(image.data) <= elf.MOST


def test_an_unknown_relocation_is_named():
    image = elf.Image(bytearray(4096), ((0, 99, 0, 0),), {}, {}, "x86-64")
    with pytest.raises(CompileError, match="99"):
        elf.relocate(image, 0)


def test_relocations_of_aarch64_patch_their_bits():
    words = {275: (0x90000000, 4096), 277: (0x91000000, 8), 286: (0xF9400000, 16), 283: (0x94000000, 64)}
    for kind, (word, target) in words.items():
        image = elf.Image(bytearray(struct.pack("<I", word) + bytes(4092)), ((0, kind, target, 0),), {}, {}, "aarch64")
        elf.relocate(image, 1 << 20)
        (found,) = struct.unpack_from("<I", image.data)
        field = {275: 1 << 29, 277: 8 << 10, 286: 2 << 10, 283: 16}[kind]
        assert found == word | field
    with pytest.raises(CompileError, match="reach"):
        elf.relocate(elf.Image(bytearray(4096), ((0, 283, 1 << 40, 0),), {}, {}, "aarch64"), 0)


class Kept(dict):
    load, store = dict.get, dict.__setitem__


def test_an_object_is_kept_with_its_features_and_compiled_again_for_others():
    b = Builder("kept", [("ptr", "p")])
    b.linkage = ""
    text, version = module_text([b]), generator_version()
    kept = Kept()
    name, _ = loaded(text, kept)
    assert list(kept) == [name_of(text, features(), version)] == [name]
    data = kept[name]
    assert unpack(data, features(), version) == object_of(text, features())
    assert unpack(data, features().without("fma"), version) is None
    assert unpack(data, features(), "another") is None
    assert unpack(pack(b"x", features(), version), features(), version) == b"x"


def test_code_calls_nothing_and_finds_its_constants():
    x = np.linspace(-3, 3, 100, dtype=np.float32)
    np.testing.assert_allclose(elementwise("sin", "float", 8)(x), np.sin(x), atol=1e-6)


def test_the_machine_is_described():
    assert features().bits in (128, 256, 512) and features().lanes == features().bits // 32
    assert 0 < caches()[0] <= caches()[1] and cores() >= 1
