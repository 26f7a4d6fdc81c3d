"""Files of checkpoints: opened only if regular, and folders of killed writers, swept."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import threading
from collections.abc import Iterator
from typing import IO

_WRITTEN = re.compile(r"part-\d+\.(safetensors|json)|manifest\.json")


def open_regular(path: str, follow: bool = False) -> IO[bytes]:
    """A regular file, opened to read: no pipe, which would block, and no link out of the folder unless `follow`.

    Raises:
      OSError: it is of another kind, or cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("it is no regular file")
    return os.fdopen(handle, "rb")


def partial_of(path: str) -> str:
    """The folder that a checkpoint is written in before it is renamed."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.partial")


@contextlib.contextmanager
def writing(path: str) -> Iterator[str]:
    """A new and locked folder for the parts of a checkpoint; those of killed writers beside it are removed.

    The system drops the lock with its process, however that ends.

    Raises:
      OSError: the folder cannot be made, or another save of the same path is under way.
    """
    folder, partial = os.path.dirname(path), partial_of(path)
    os.makedirs(folder, exist_ok=True)
    sweep(folder)
    if os.path.lexists(partial):
        if _is_locked(partial):
            raise OSError(errno.EBUSY, "another save of it is under way")
        shutil.rmtree(partial)
    new = f"{partial}-{os.getpid()}-{threading.get_ident()}"  # locked before it has the name that is swept
    os.mkdir(new)
    handle = os.open(new, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks, where nothing is swept
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(new, partial)
        yield partial
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def sweep(folder: str) -> None:
    """Remove the folders `.NAME.partial` of writers that no longer live, if they hold only what a save writes."""
    for entry in os.scandir(folder):
        if entry.name.startswith(".") and entry.name.endswith(".partial") and entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):
                if _is_locked(entry.path) is False and all(map(_is_written, [*os.scandir(entry.path)])):
                    shutil.rmtree(entry.path)


def _is_written(entry: os.DirEntry[str]) -> bool:
    return _WRITTEN.fullmatch(entry.name) is not None and entry.is_file(follow_symlinks=False)


def _is_locked(path: str) -> bool | None:
    """Whether a living writer holds a folder; None where the file system has no locks."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(handle)
