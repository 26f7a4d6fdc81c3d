"""The disk cache of executables: one checksummed file each, in a directory that only the user can write.

    file ::= MAGIC  length (8 bytes)  sha256 of the payload (32 bytes)  payload = XLA's serialised executable

Loading an executable runs its machine code, so files and directories of other users are not trusted.
Nothing here can make a computation fail: what cannot be read or written is passed over with a warning.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import warnings
from pathlib import Path

from ..core.caches import once
from ..core.config import current

MAGIC = b"TILEWRIGHT-XLA1\n"
SUFFIX = ".xla"
MAX_BYTES = 2 * 1024**3
_HEADER = len(MAGIC) + 8 + 32


class CacheWarning(UserWarning):
    """The disk cache of executables could not be used as it should."""


def default_directory() -> Path:
    """Where executables are kept unless `cache_dir` says otherwise: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tilewright" / "executables"


@once
def cpu_features() -> str:
    """What the machine code of this CPU may rely on."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return " ".join(sorted(line.split(":", 1)[1].split()))
    except OSError:
        pass
    return f"{platform.machine()} {platform.processor()}"


def key(*parts: str | bytes) -> str:
    """The name under which an executable is kept, from everything that it depends on."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _packed(payload: bytes) -> bytes:
    return MAGIC + len(payload).to_bytes(8, "little") + hashlib.sha256(payload).digest() + payload


def _unpacked(data: bytes) -> bytes | None:
    """The payload of a file's bytes, or None if they are not a whole, unchanged file of this format."""
    if len(data) < _HEADER or not data.startswith(MAGIC):
        return None
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    payload = data[_HEADER:]
    sound = len(payload) == length and hashlib.sha256(payload).digest() == data[_HEADER - 32 : _HEADER]
    return payload if sound else None


class DiskCache:
    """Executables in a directory, at most `max_bytes` of them; the least recently used go first."""

    def __init__(self, directory: Path, max_bytes: int = MAX_BYTES):
        self.directory, self.max_bytes = directory, max_bytes
        self.hits = self.misses = self.writes = 0
        self.writable = self.readable = True
        self._open()

    def _open(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self._refuse(f"cannot be made ({error.strerror})")
            return
        try:
            found = self.directory.stat()
        except OSError as error:
            self._refuse(f"cannot be read ({error.strerror})")
            return
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            self._refuse("belongs to another user")
        elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            self._refuse("can be written by other users")

    def _refuse(self, why: str) -> None:
        self.readable = self.writable = False
        self._warn(f"the cache directory {self.directory} {why}; executables are not kept")

    def _warn(self, text: str) -> None:
        warnings.warn(text, CacheWarning, stacklevel=2)

    def _path(self, name: str) -> Path:
        return self.directory / (name + SUFFIX)

    def load(self, name: str) -> bytes | None:
        """The executable kept under a name; None if there is none, or none that is sound."""
        if not self.readable:
            return None
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                owner = os.fstat(file.fileno()).st_uid
                data = file.read()
        except FileNotFoundError:
            self.misses += 1
            return None
        except OSError as error:
            self.misses += 1
            self._warn(f"{path} cannot be read ({error.strerror}); compiling instead")
            return None
        payload = _unpacked(data)
        if payload is None or (hasattr(os, "getuid") and owner != os.getuid()):
            self.discard(name, "is damaged or not a file of this cache")
            return None
        self.hits += 1
        try:
            os.utime(path)
        except OSError:
            pass  # a read-only directory: the file's age is not needed there
        return payload

    def discard(self, name: str, why: str) -> None:
        """Pass over a file that cannot be used, with a warning; it is replaced when its program is compiled."""
        self.misses += 1
        path = self._path(name)
        self._warn(f"{path} {why}; it is ignored and its program compiled again")
        try:
            path.unlink()
        except OSError:
            pass

    def store(self, name: str, payload: bytes) -> None:
        """Keep an executable; the file appears whole or not at all."""
        if not self.writable or len(payload) > self.max_bytes:
            return
        import tempfile  # here: it brings in a dozen modules that only a writer needs

        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self.directory)
            with os.fdopen(handle, "wb") as file:
                file.write(_packed(payload))
            os.replace(temporary, self._path(name))
            self.writes += 1
        except OSError as error:
            self.writable = False
            self._warn(
                f"the cache directory {self.directory} cannot be written ({error.strerror}); no more is kept there"
            )
            if temporary is not None and os.path.exists(temporary):
                os.unlink(temporary)
            return
        self.evict()

    def entries(self) -> list[tuple[float, int, str]]:
        """Time of last use, bytes and path of every file, oldest first."""
        found = []
        try:
            with os.scandir(self.directory) as items:
                for item in items:
                    if item.name.endswith(SUFFIX):
                        try:
                            info = item.stat()
                        except FileNotFoundError:
                            continue
                        found.append((info.st_mtime, info.st_size, item.path))
        except OSError:
            return []
        return sorted(found)

    def evict(self) -> None:
        """Remove the least recently used files until the bound holds."""
        files = self.entries()
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.max_bytes:
                return
            try:
                os.unlink(path)
                total -= size
            except OSError:
                continue

    def clear(self) -> None:
        """Remove every file."""
        for _, _, path in self.entries():
            try:
                os.unlink(path)
            except OSError:
                continue


@once
def _at(directory: str) -> DiskCache:
    return DiskCache(Path(directory))


def disk_cache() -> DiskCache | None:
    """The cache in the directory that the configuration names; None if `cache_dir` is empty."""
    chosen = current().cache_dir
    if chosen == "":
        return None
    return _at(str(default_directory() if chosen is None else Path(chosen).expanduser()))
