"""Several processes that compute together: on one machine, or on many.

    tw.distributed.initialize()              # before the first computation; finds its place by itself
    mesh = tw.make_mesh((tw.device_count(),), ("data",))

Names and meaning are those of `jax.distributed`; `docs/processes.md` tells what is found and reported.
"""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Callable, Sequence

from ..core.support import forks
from ..core.support.errors import ArgumentError, CoordinatorError, ProcessError
from ..core.support.runtime import runtime
from ..core.support.version import JAXLIB, __version__
from ..xla_backend.devices import client
from ..xla_backend.devices.coordination import group
from ..xla_backend.execution import dispatch
from ..xla_backend.jaxlib import shim
from .clusters import CLUSTERS, detected
from .coordinator import Coordinator
from .member import Member
from .protocol import TOKEN

__all__ = ["initialize", "is_initialized", "shutdown"]
__dir__: Callable[[], list[str]] = __all__.copy


class _State:
    """This process's connection to the others, and the coordinator if it is in this process."""

    def __init__(self) -> None:
        self.member: Member | None = None
        self.coordinator: Coordinator | None = None
        self.ended = False
        self.shutdown_timeout = 300


class ProcessWarning(UserWarning):
    """This process ended, and others that compute with it did not."""


_state = runtime.part("distributed", _State())


def is_initialized() -> bool:
    """Whether this process is one of several that compute together.

    >>> is_initialized()
    False
    """
    return _state.member is not None


def initialize(
    coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None, cluster_detection_method: str | None = None,
    initialization_timeout: int = 300, heartbeat_timeout_seconds: int = 100, shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
) -> None:  # fmt: skip
    """Make this process one of several that compute together; waits until all of them have come.

    Call it once in each, before anything is computed. What is not given is found in the environment: of `tilewright
    launch`, SLURM, Open MPI, Kubernetes or Cloud TPU (`cluster_detection_method` names one). `coordinator_address` is
    `host:port` of process 0, which listens there, at `coordinator_bind_address` if that is another. `local_device_ids`
    are the numbers of the GPUs that this process is to use. Limits are in seconds. Where the environment has a
    `TILEWRIGHT_COORDINATOR_TOKEN`, the coordinator refuses processes with another one.

    Raises:
      ProcessError: it was called before, or after the first computation.
      ArgumentError: what is not given is not in the environment either, or is no number or address.
      CoordinatorError: the coordinator is not reached, or not all processes come, within `initialization_timeout`.
      ProcessMismatchError: processes of different versions.

    A "cluster" of one process, in a new interpreter:

    >>> import socket, subprocess, sys
    >>> with socket.create_server(("127.0.0.1", 0)) as free:
    ...     port = free.getsockname()[1]
    >>> script = f'''
    ... import tilewright as tw
    ... tw.distributed.initialize("127.0.0.1:{port}", num_processes=1, process_id=0)
    ... print(tw.process_index(), "of", tw.process_count())
    ... '''
    >>> print(subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True).stdout.strip())
    0 of 1
    """
    if is_initialized() or _state.ended:
        raise ProcessError("distributed.initialize was called a second time", "call it once in each process")
    if client.started():
        raise ProcessError("distributed.initialize was called after the first use of a device",
                           "call it before anything is computed, and before `devices()`")  # fmt: skip
    launcher, place = detected(os.environ, cluster_detection_method)
    address = coordinator_address or place.coordinator
    count = place.count if num_processes is None else num_processes
    index = place.index if process_id is None else process_id
    _check(address, count, index)
    assert address is not None and count is not None and index is not None
    ids = (local_device_ids,) if isinstance(local_device_ids, int) else local_device_ids
    if ids is None and place.local is not None and launcher in ("slurm", "ompi"):
        ids = (place.local,)  # these start one process for each device
    if index == 0 and launcher != "tilewright":
        _state.coordinator = _coordinator(coordinator_bind_address or address, count, initialization_timeout)
    try:
        member = Member(group, address, index, count, _versions(), initialization_timeout, heartbeat_timeout_seconds,
                        _token())  # fmt: skip
        group.store = shim.coordination_client(address, index, initialization_timeout, shutdown_timeout_seconds)
    except BaseException:
        if _state.coordinator is not None:
            _state.coordinator.close()
            _state.coordinator = None
        raise
    host = address.rpartition(":")[0]
    group.host = "127.0.0.1" if host in ("localhost", "127.0.0.1", "::1") else None
    group.local_device_ids = None if ids is None else tuple(ids)
    runtime.process_index, runtime.process_count = index, count
    _state.member, _state.shutdown_timeout = member, shutdown_timeout_seconds
    member.thread.start()
    forks.at_exit(_at_exit)


def _check(address: str | None, count: int | None, index: int | None) -> None:
    """Raise where something is missing or wrong."""
    given = {"coordinator_address": address, "num_processes": count, "process_id": index}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise ArgumentError(f"distributed.initialize without {', '.join(missing)}",
                            f"give it, or start the processes by one of: {', '.join(CLUSTERS)}")  # fmt: skip
    assert address is not None and count is not None and index is not None
    if not address.rpartition(":")[0] or not address.rpartition(":")[2].isdigit():
        raise ArgumentError(f"coordinator_address={address!r}", "write host:port, such as '10.0.0.1:8476'")
    if not 0 <= index < count:
        raise ArgumentError(f"process_id={index} of num_processes={count}", "number the processes from 0")


def _versions() -> dict[str, str]:
    """What all processes have to have in common."""
    return {"tilewright": __version__, "jaxlib": JAXLIB, "machine": platform.machine()}


def _coordinator(address: str, count: int, timeout: int) -> Coordinator:
    host, _, port = address.rpartition(":")
    try:
        return Coordinator(count, host, int(port), timeout=timeout, token=_token())
    except (OSError, OverflowError) as error:
        raise CoordinatorError(
            f"process 0 cannot listen at {address}: {error}",
            "take another port, or end what uses this one; where the host is no address of this machine, name one by "
            "coordinator_bind_address, such as '0.0.0.0:8476' for every interface") from None  # fmt: skip


def _token() -> str:
    """What the coordinator asks of every process: of `tilewright launch`, or set by whoever starts them."""
    return os.environ.get(TOKEN, "")


def shutdown() -> None:
    """Leave the other processes; what lies on a mesh of theirs can no longer be computed with.

    It is called by itself when a process ends.

    Raises:
      ProcessError: `initialize` was not called.

    >>> shutdown()
    Traceback (most recent call last):
      ...
    tilewright.core.support.errors.ProcessError: ...
    """
    if _state.member is None:
        raise ProcessError("distributed.shutdown without distributed.initialize", "call `initialize` first")
    _leave(None)


def _leave(failure: str | None) -> None:
    member, _state.member, _state.ended = _state.member, None, True
    assert member is not None
    if failure is None:
        dispatch.effects_barrier()
    if member.leave(failure, _state.shutdown_timeout):
        group.store.shutdown()
    elif failure is None:
        warnings.warn(f"other processes had not ended {_state.shutdown_timeout} s after this one", ProcessWarning,
                      stacklevel=2)  # fmt: skip
    member.channel.close()
    if _state.coordinator is not None:
        _state.coordinator.close()
        _state.coordinator = None


def _at_exit() -> None:
    if _state.member is not None:
        error = getattr(sys, "last_exc", None)
        _leave(None if error is None else f"{type(error).__name__}: {str(error)[:500]}")
