"""Messages between a process and the coordinator: objects of JSON, one a line, over a TCP connection.

    process to coordinator           coordinator to process
    {"join": 1, "count": 4, ...}     {"start": true} or {"refused": text, "kind": "absent"}
    {"stalled": "call 3 of step"}    {"where": 7}, which asks for
    {"here": 7, "calls": 2, ...}     {"end": text}
    {"marks": [...]}                 {"mismatch": text}
    {"at": ..., "steps": 2, ...}
    {"failed": "ValueError: ..."}
    {"bye": true}                    {"done": true}, when all have said so
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
from typing import Any

LONGEST = 1 << 20  # bytes of a message


class GoneError(Exception):
    """The other end of a channel is gone, or is no such channel."""


class Channel:
    """One end of a connection, from which messages are read without waiting."""

    def __init__(self, connection: socket.socket, alive: int = 0):
        self.socket, self._read = connection, b""
        connection.settimeout(10.0)  # for sending
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if alive:
            self.keep_alive(alive)

    def keep_alive(self, seconds: int) -> None:
        """Have the system notice within so many seconds that the other machine is gone."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        pause = max(1, seconds // 5)
        for name, value in (("TCP_KEEPIDLE", pause), ("TCP_KEEPINTVL", pause), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, name):
                self.socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, **message: Any) -> None:
        """Send a message; one that the other end can no longer take is lost."""
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, seconds: float = 0.0) -> list[dict[str, Any]]:
        """The messages that have come, or come within a time.

        Raises:
          GoneError: the other end has closed the connection, or sends something else than messages.
        """
        if not select.select([self.socket], [], [], seconds)[0]:
            return []
        try:
            data = self.socket.recv(1 << 16)
        except OSError as error:
            raise GoneError(str(error)) from None
        if not data:
            raise GoneError("closed")
        *lines, self._read = (self._read + data).split(b"\n")
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            raise GoneError("not of this protocol") from None
        if len(self._read) > LONGEST or not all(isinstance(m, dict) for m in found):
            raise GoneError("not of this protocol")
        return found

    def close(self) -> None:
        self.socket.close()
