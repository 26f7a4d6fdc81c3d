"""One recording at a time by XLA's profiler, and marks that a program sets in it."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..core.support.errors import ArgumentError, ProfilerError
from ..core.support.runtime import runtime
from ..xla_backend.devices import client
from ..xla_backend.jaxlib import shim

ProfileOptions: Any = shim.profiler().ProfileOptions
TraceMe: Any = shim.profiler().TraceMe


class _State:
    """The recording under way, and the server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: Any = None
        self.folder: Path | None = None
        self.perfetto = False
        self.server: Any = None


_state = runtime.part("profiler", _State())


def begin(options: Any = None) -> None:
    """Start recording.

    Raises:
      ProfilerError: a recording is under way.
    """
    with _state.lock:
        if _state.session is not None:
            raise ProfilerError("a recording is already running", "end it first, by `stop_trace()` or its `with`")
        client.default_device()  # a device that comes later would be missed
        _state.session = shim.profiler().ProfilerSession(options or ProfileOptions())


def end() -> tuple[Any, bytes]:
    """End the recording: its session, and what was recorded, as a serialised XSpace.

    Raises:
      ProfilerError: there is none.
    """
    with _state.lock:
        session, _state.session = _state.session, None
        if session is None:
            raise ProfilerError("no recording is running", "start one by `start_trace(folder)`")
        return session, session.stop()


def start_trace(
    log_dir: str | os.PathLike[str], create_perfetto_link: bool = False, create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:  # fmt: skip
    """Record what runs until `stop_trace()`, for TensorBoard, into a folder; with Perfetto also a file for that.

    Raises:
      ProfilerError: a recording is under way.
      ArgumentError: a link is asked for (a file is not: open it at Perfetto's page).

    >>> import tempfile
    >>> import tilewright as tw
    >>> tw.profiler.start_trace(tempfile.mkdtemp())
    >>> _ = tw.numpy.ones(3).block_until_ready()
    >>> tw.profiler.stop_trace()
    """
    if create_perfetto_link:
        raise ArgumentError(
            "create_perfetto_link: nothing is served from here",
            "pass create_perfetto_trace=True, and open the file that `stop_trace` writes at Perfetto's page",
        )
    begin(profiler_options)
    _state.folder, _state.perfetto = Path(log_dir), create_perfetto_trace


def stop_trace() -> None:
    """End the recording that `start_trace` began, and write it below its folder, in `plugins/profile/<time>/`.

    Raises:
      ProfilerError: there is none.

    >>> import os, tempfile
    >>> import tilewright as tw
    >>> folder = tempfile.mkdtemp()
    >>> tw.profiler.start_trace(folder)
    >>> tw.profiler.stop_trace()
    >>> os.listdir(folder)
    ['plugins']
    """
    session, data = end()
    folder, perfetto = _state.folder, _state.perfetto
    _state.folder = None
    session.export(data, str(folder))
    if perfetto:
        assert folder is not None
        newest = max((folder / "plugins" / "profile").iterdir(), key=os.path.getmtime)
        for file in newest.glob("*.trace.json.gz"):
            events = json.loads(gzip.decompress(file.read_bytes()))
            events.pop("metadata", None)  # Perfetto takes it for something else
            (newest / "perfetto_trace.json.gz").write_bytes(gzip.compress(json.dumps(events).encode()))


@contextlib.contextmanager
def trace(
    log_dir: str | os.PathLike[str], create_perfetto_link: bool = False, create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> Iterator[None]:  # fmt: skip
    """Record what a `with` block runs: `start_trace` and `stop_trace` around it.

    Raises:
      ProfilerError: a recording is under way.

    >>> import tempfile
    >>> import tilewright as tw
    >>> x = tw.numpy.ones((8, 8))
    >>> with tw.profiler.trace(tempfile.mkdtemp()):
    ...     _ = (x @ x).block_until_ready()
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(TraceMe):
    """A named span in the recording: a `with` block, with values to show beside it.

    >>> with TraceAnnotation("preparing data", rows=3):
    ...     pass
    """

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, **kwargs)


class StepTraceAnnotation(TraceAnnotation):
    """A `with` block that is one step of training, given by `step_num=`; TensorBoard groups what runs by it.

    >>> with StepTraceAnnotation("train", step_num=7):
    ...     pass
    """

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, _r=1, **kwargs)


def annotate_function(function: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any) -> Any:
    """A function whose calls are spans of the recording, by its own name or another one.

    >>> annotate_function(lambda: 2, name="two")()
    2
    """

    @functools.wraps(function)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        shown = name or getattr(function, "__qualname__", None) or repr(function)
        with TraceAnnotation(shown, **decorator_kwargs):
            return function(*args, **kwargs)

    return annotated


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Let TensorBoard record this process through a port, until `stop_server()`.

    Raises:
      ProfilerError: there is a server already, or the port is taken. ArgumentError: there is no such port.

    >>> import socket
    >>> import tilewright as tw
    >>> with socket.create_server(("127.0.0.1", 0)) as free:
    ...     port = free.getsockname()[1]
    >>> server = tw.profiler.start_server(port)
    >>> tw.profiler.stop_server()
    """
    if not 0 < port < 2**16:
        raise ArgumentError(f"there is no port {port}", "choose one from 1 to 65535")
    if _state.server is not None:
        raise ProfilerError("the profiler has a server already", "end it first, by `stop_server()`")
    if requires_backend:
        client.default_device()
    try:
        _state.server = shim.profiler().start_server(port)
    except shim.RuntimeFault as error:
        raise ProfilerError(f"no server at port {port}: {error}", "choose another port") from None
    return _state.server


def stop_server() -> None:
    """End the server.

    Raises:
      ProfilerError: there is none.

    >>> stop_server()
    Traceback (most recent call last):
        ...
    tilewright.core.support.errors.ProfilerError: the profiler has no server
    ...
    """
    if _state.server is None:
        raise ProfilerError("the profiler has no server", "start one by `start_server(port)`")
    _state.server = None
