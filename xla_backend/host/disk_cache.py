"""The disk cache of executables: one checksummed file each, in a directory that only the user can write.

    file ::= MAGIC  length (8 bytes)  sha256 of key and payload (32 bytes)  payload = XLA's serialised executable

A file's key is part of its checksum, so a file under another one's name is found out. Files are written aside, read
back, and renamed; a writer holds a lock on what it writes, so what killed writers left is known by having none.
The folder is not searched at each store: the file `sizes` has the bytes found by the last search, then those of each
file stored since, by any process.

Loading an executable runs its machine code, so files and directories of other users are not trusted.
Nothing here can make a computation fail: what cannot be read or written is passed over with a warning.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import stat
import time
import warnings
from pathlib import Path

from ...core.support.config import current
from ...core.support.memo import once

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_FAMILY = b"TILEWRIGHT-XLA"
MAGIC = _FAMILY + b"2\n"
SUFFIX, ASIDE, SIZES = ".xla", ".tmp", "sizes"
MAX_BYTES = 2 * 1024**3
KEPT_SHARE = 0.9  # of the bound is left when files are removed, so that the next store need not search again
ABANDONED = 24 * 3600  # seconds after which a file written aside is taken for left over where there are no locks
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


def _checksum(name: str, payload: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + payload).digest()


def _packed(name: str, payload: bytes) -> bytes:
    return MAGIC + len(payload).to_bytes(8, "little") + _checksum(name, payload) + payload


def _unpacked(name: str, data: bytes) -> bytes | None:
    """The payload of a file's bytes, or None if they are not the whole, unchanged file of this name."""
    if len(data) < _HEADER or not data.startswith(MAGIC):
        return None
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    payload = data[_HEADER:]
    sound = len(payload) == length and _checksum(name, payload) == data[_HEADER - 32 : _HEADER]
    return payload if sound else None


def _locked(handle: int) -> bool:
    """Whether this process now holds the lock of an open file; where there are no locks, never."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _open_private(path: Path | str, how: int) -> int:
    """Open a file without waiting for anybody, as opening a pipe by that name would."""
    return os.open(path, how | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o600)


def _read(path: Path) -> tuple[bytes | None, int]:
    """A file's bytes and its owner; None if it is no file, but a directory or a pipe."""
    handle = _open_private(path, os.O_RDONLY)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        return (file.read() if stat.S_ISREG(found.st_mode) else None), found.st_uid


def _is_left_over(path: str) -> bool:
    """Whether nobody writes to a file that was written aside."""
    try:
        handle = _open_private(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return time.time() - os.fstat(handle).st_mtime > ABANDONED or _locked(handle)
    finally:
        os.close(handle)


class DiskCache:
    """Executables in a directory, at most `max_bytes` of them; the least recently used go first."""

    directory: Path
    max_bytes: int
    readable: bool
    hits: int
    misses: int
    writes: int

    def __init__(self, directory: Path, max_bytes: int = MAX_BYTES):
        self.directory, self.max_bytes = directory, max_bytes
        self.hits = self.misses = self.writes = 0
        self.writable = self.readable = True
        self._total = 0  # bytes in the folder, as far as this process knows
        self._stored = 0
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
            data, owner = _read(path)
        except FileNotFoundError:
            self.misses += 1
            return None
        except OSError as error:
            self.misses += 1
            self._warn(f"{path} cannot be read ({error.strerror}); compiling instead")
            return None
        if data is not None and data.startswith(_FAMILY) and not data.startswith(MAGIC):
            self.misses += 1  # of another version, and soon overwritten
            return None
        payload = None if data is None else _unpacked(name, data)
        if payload is None or (hasattr(os, "getuid") and owner != os.getuid()):
            self.discard(name, "is no file" if data is None else "is damaged or not the file of this name")
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
        data = _packed(name, payload)
        try:
            try:
                self._write(name, data)
            except FileNotFoundError:  # another process took the file for left over before it had its lock
                self._write(name, data)
            self.writes += 1
            self._count(len(data))
        except IsADirectoryError:
            self._warn(f"{self._path(name)} is a directory; the executable is not kept")
        except OSError as error:
            self.writable: bool = False
            self._warn(
                f"the cache directory {self.directory} cannot be written ({error.strerror}); no more is kept there"
            )

    def _write(self, name: str, data: bytes) -> None:
        """Write a file aside, read it back, and give it its name."""
        temporary = self.directory / f".{os.urandom(8).hex()}{ASIDE}"
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w+b") as file:
                _locked(handle)
                file.write(data)
                file.seek(0)
                if file.read() != data:
                    raise OSError(errno.EIO, "what was written reads back as something else")
                os.replace(temporary, self._path(name))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _count(self, added: int) -> None:
        """Record the size of a new file; remove old files once the total exceeds the limit."""
        sizes = self.directory / SIZES
        try:
            handle = _open_private(sizes, os.O_WRONLY | os.O_APPEND)  # short appends of several processes do not mix
            with os.fdopen(handle, "wb") as file:
                file.write(f"{added}\n".encode())
            self._total += added
            if self._stored % 64 == 0:  # what other processes stored meanwhile shows now and then
                self._total = sum(map(int, (_read(sizes)[0] or b"").split()))
            self._stored += 1
            if self._total <= self.max_bytes:
                return
        except (OSError, ValueError):  # not there yet, or damaged
            pass
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
        """Search the folder: remove what killed writers left, and the least recently used files beyond the bound."""
        self._sweep()
        files = self.entries()
        total = sum(size for _, size, _ in files)
        bound = self.max_bytes if total <= self.max_bytes else self.max_bytes * KEPT_SHARE
        for _, size, path in files:
            if total <= bound:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size
        self._total = total
        with contextlib.suppress(OSError):
            handle = _open_private(self.directory / SIZES, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(handle, "wb") as file:
                file.write(f"{total}\n".encode())

    def _sweep(self) -> None:
        try:
            with os.scandir(self.directory) as items:
                aside = [item.path for item in items if item.name.startswith(".") and item.name.endswith(ASIDE)]
        except OSError:
            return
        for path in aside:
            if _is_left_over(path):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def clear(self) -> None:
        """Remove every file."""
        self._sweep()
        self._total = 0
        for path in [*(path for _, _, path in self.entries()), self.directory / SIZES]:
            with contextlib.suppress(OSError):
                os.unlink(path)


@once
def _at(directory: str) -> DiskCache:
    return DiskCache(Path(directory))


def disk_cache() -> DiskCache | None:
    """The cache in the directory that the configuration names; None if `cache_dir` is empty."""
    chosen = current().cache_dir
    if chosen == "":
        return None
    return _at(str(default_directory() if chosen is None else Path(chosen).expanduser()))
