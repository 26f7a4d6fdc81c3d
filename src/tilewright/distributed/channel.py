"""A connection between a process and the coordinator, over which messages of `protocol` go."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
from collections.abc import Mapping
from typing import Any

from .protocol import FROM_COORDINATOR, LONGEST, Check, MalformedError, Message, parsed


class GoneError(Exception):
    """The other end of a channel is gone, or is no such channel."""


class Channel:
    """One end of a connection, from which messages are read without waiting: of some `kinds`, up to `longest` bytes."""

    kinds: Mapping[str, Mapping[str, Check]]
    longest: int

    def __init__(
        self, connection: socket.socket, alive: int = 0, kinds: Mapping[str, Mapping[str, Check]] = FROM_COORDINATOR,
        longest: int = LONGEST,
    ):  # fmt: skip
        self.socket, self._read, self.kinds, self.longest = connection, b"", kinds, longest
        self._selector = selectors.PollSelector()  # without a file descriptor of its own
        self._selector.register(connection, selectors.EVENT_READ)
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

    def receive(self, seconds: float = 0.0) -> list[Message]:
        """The messages that have come, or come within a time.

        Raises:
          GoneError: the other end has closed the connection, or sends something else than messages.
        """
        if not self._selector.select(seconds):
            return []
        try:
            data = self.socket.recv(1 << 16)
        except OSError as error:
            raise GoneError(str(error)) from None
        if not data:
            raise GoneError("closed")
        *lines, self._read = (self._read + data).split(b"\n")
        if any(len(line) > self.longest for line in (*lines, self._read)):
            raise GoneError("not of this protocol: a line is too long")
        try:
            return [parsed(line, self.kinds) for line in lines]
        except MalformedError as error:
            raise GoneError(f"not of this protocol: {error}") from None

    def close(self) -> None:
        self._selector.close()
        self.socket.close()
