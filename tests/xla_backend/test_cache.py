"""The disk cache of executables: what it keeps, and everything that can be wrong with its directory."""

import os
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tilewright as tw
from tilewright.experimental import serialize_executable
from tilewright.xla_backend.arrays.array import as_array
from tilewright.xla_backend.execution import executable
from tilewright.xla_backend.host import disk_cache as cache
from tilewright.xla_backend.host.digest import digest
from tilewright.xla_backend.host.disk_cache import CacheWarning, DiskCache

X = np.arange(3, dtype=np.float32)


@pytest.fixture
def directory(tmp_path):
    """A fresh cache directory in force, nothing remembered from before."""
    path = tmp_path / "cache"
    with tw.config(cache_dir=str(path)):
        executable._loaded.clear()
        yield path
    executable._loaded.clear()


def run():
    """Compile (or load) and run a small program by a new function each time."""
    executable._loaded.clear()
    return tw.jit(lambda x: x * 3 + 1)(as_array(X)).tolist()


def in_force() -> DiskCache:
    found = cache.disk_cache()
    assert found is not None
    return found


def files(path):
    return sorted(path.glob("*" + cache.SUFFIX))


def test_second_compile_is_a_load(directory):
    assert run() == [1, 4, 7]
    disk = in_force()
    writes = disk.writes
    assert writes >= 1 and disk.hits == 0
    assert run() == [1, 4, 7]
    assert disk.writes == writes and disk.hits >= 1


def test_private(directory):
    run()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(f.stat().st_mode) == 0o600 for f in files(directory))
    assert not list(directory.glob(".*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda name, data: b"",
        lambda name, data: b"some other file",
        lambda name, data: data[:-1],
        lambda name, data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda name, data: data + b"more",
        lambda name, data: cache._packed(name, b"not an executable"),
    ],
    ids=["empty", "foreign", "cut", "flipped", "longer", "sound header"],
)
def test_damaged_files_are_ignored_and_replaced(directory, damage):
    run()
    for file in files(directory):
        file.write_bytes(damage(file.stem, file.read_bytes()))
    with pytest.warns(CacheWarning, match="compiled again"):
        assert run() == [1, 4, 7]
    disk = in_force()
    hits = disk.hits
    assert run() == [1, 4, 7] and disk.hits > hits


def test_a_directory_that_others_can_write_is_not_trusted(tmp_path):
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(0o777)
    with tw.config(cache_dir=str(path)), pytest.warns(CacheWarning, match="other users"):
        assert run() == [1, 4, 7]
    assert not files(path)


def test_a_file_in_place_of_the_directory(tmp_path):
    path = tmp_path / "file"
    path.write_text("in the way")
    with tw.config(cache_dir=str(path / "cache")), pytest.warns(CacheWarning, match="cannot be made"):
        assert run() == [1, 4, 7]


def test_read_only_directory(directory, monkeypatch):
    run()

    def refused(*args, **kwargs):
        raise PermissionError(30, "Read-only file system")

    # Not by permissions, which the superuser passes over.
    as_it_is = os.open
    monkeypatch.setattr(cache.os, "open", lambda path, flags, *mode: (
        refused if flags & os.O_CREAT else as_it_is)(path, flags, *mode))  # fmt: skip
    monkeypatch.setattr(cache.os, "utime", refused)
    assert run() == [1, 4, 7]  # what is there is used
    with pytest.warns(CacheWarning, match="cannot be written"):
        tw.jit(lambda x: x - 5)(as_array(X))


def test_full_disk(directory, monkeypatch):
    disk = DiskCache(directory)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    with pytest.warns(CacheWarning, match="No space left"):
        disk.store("name", b"data")
    assert not list(directory.iterdir()) and not disk.writable
    disk.store("name", b"data")  # silent from now on
    assert disk.load("name") is None


def test_the_least_recently_used_go_first(tmp_path):
    disk = DiskCache(tmp_path / "cache", max_bytes=3000)
    for i, name in enumerate("abc"):
        disk.store(name, bytes(800))
        os.utime(tmp_path / "cache" / (name + cache.SUFFIX), (i, i))
    assert disk.load("a") is not None  # now the newest
    disk.store("d", bytes(800))
    assert disk.load("b") is None and all(disk.load(name) for name in "acd")
    disk.store("e", bytes(5000))  # larger than the bound: not kept
    assert disk.load("e") is None
    disk.clear()
    assert not files(tmp_path / "cache")


def test_off(tmp_path):
    with tw.config(cache_dir=""):
        assert cache.disk_cache() is None and run() == [1, 4, 7]


def test_keys_do_not_run_together():
    assert digest("ab", "c") != digest("a", "bc") and digest("a") == digest(b"a")


def test_default_directory(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache.default_directory()).startswith("/somewhere/tilewright")


def test_a_second_process_loads_what_the_first_compiled(tmp_path):
    code = """
        import numpy as np
        import tilewright as tw
        from tilewright.xla_backend.host import disk_cache as cache
        print(tw.jit(lambda x: (x * 3 + 1) @ x)(np.arange(3, dtype=np.float32)))
        print(cache.disk_cache().hits, cache.disk_cache().misses)
    """
    env = os.environ | {"TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    outputs = [
        subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)
    ]
    assert outputs[0][0] == outputs[1][0] == "18.0"
    assert outputs[0][1] == "0" and outputs[1][2] == "0" and int(outputs[1][1]) >= 1


def test_files_that_were_exchanged_are_found_out(directory):
    programs = {"double": lambda x: x * 2, "sum": lambda x: x.sum()}
    made = {}
    for name, f in programs.items():
        before = set(files(directory))
        tw.jit(f)(as_array(X))
        (made[name],) = set(files(directory)) - before
    kept = made["double"].read_bytes()
    made["double"].write_bytes(made["sum"].read_bytes())
    made["sum"].write_bytes(kept)
    executable._loaded.clear()
    with pytest.warns(CacheWarning, match="not the file of this name"):
        assert tw.jit(lambda x: x * 2)(as_array(X)).tolist() == [0, 2, 4]


WRITER = """
import os, sys
from pathlib import Path
from tilewright.xla_backend.host import disk_cache as cache
real = os.replace
def stop(*args):
    print("go", flush=True)
    sys.stdin.read()
os.replace = stop
cache.DiskCache(Path(sys.argv[1])).store("killed", os.urandom(1 << 16))
"""


def test_what_killed_writers_left_is_swept_and_what_is_being_written_is_not(tmp_path):
    directory = tmp_path / "cache"
    disk = DiskCache(directory)
    command = [sys.executable, "-c", WRITER, str(directory)]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline()
    killed, alive = writers
    killed.kill()
    killed.communicate()
    assert len(list(directory.glob(".*.tmp"))) == 2
    disk.evict()
    assert len(list(directory.glob(".*.tmp"))) == 1, "the file of a writer that lives stays"
    alive.kill()
    alive.communicate()
    disk.clear()
    assert not list(directory.iterdir())


def test_a_store_does_not_search_the_folder(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    DiskCache(directory).store("first", b"1")
    searches = []
    entries = DiskCache.entries
    monkeypatch.setattr(DiskCache, "entries", lambda self: searches.append(1) or entries(self))
    disk, other = DiskCache(directory), DiskCache(directory, max_bytes=100_000)
    for k in range(100):
        disk.store(f"a{k}", bytes(1000))
    assert not searches
    other.store("over", bytes(1000))
    assert len(searches) == 1, "the bytes that others stored are known"
    assert sum(size for _, size, _ in entries(other)) <= 100_000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_what_is_no_file_is_passed_over(directory, what):
    run()
    for file in files(directory):
        file.unlink()
        os.mkfifo(file) if what == "pipe" else file.mkdir()
    (directory / cache.SIZES).unlink()
    os.mkfifo(directory / cache.SIZES)
    with pytest.warns(CacheWarning, match="is no file|cannot be read|is a directory"):
        assert run() == [1, 4, 7]
    assert in_force().writable


def test_files_of_an_older_version_are_replaced_in_silence(tmp_path):
    disk = DiskCache(tmp_path / "cache")
    disk._path("name").write_bytes(b"TILEWRIGHT-XLA1\n" + bytes(64))
    assert disk.load("name") is None and disk.misses == 1
    disk.store("name", b"data")
    assert disk.load("name") == b"data"


def test_a_program_that_came_from_the_disk_is_serialised(directory):
    compilations = []
    for _ in range(2):  # the second is loaded from the disk cache, and XLA's bytes of it would lack the code
        tw.clear_caches()
        compiled = tw.jit(lambda x: x * 3 + 1).lower(tw.ShapeDtypeStruct((3,), "float32")).compile()
        before = tw.stats()["compile"].times
        data = serialize_executable.serialize(compiled)
        compilations.append(tw.stats()["compile"].times - before)
        assert serialize_executable.deserialize_and_load(*data)(np.ones(3, np.float32)).tolist() == [4.0] * 3
    assert compilations == [0, 1]
