"""Hostile input by the thousand: lines to the coordinator, bits of checkpoints and of exports.

    python -m benchmarks.fuzzing.hostile messages --count 5000 --seed 0
    python -m benchmarks.fuzzing.hostile checkpoints --count 4000
    python -m benchmarks.fuzzing.hostile exports --count 4000

Each prints what came of it how often, and exits with 1 where anything else came of it than a refusal or an error of
the catalogue. The same seed gives the same input.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import checkpoints, export
from tilewright import numpy as tnp
from tilewright.distributed.coordinator import Coordinator
from tilewright.distributed.protocol import LONGEST_JOIN

JOIN = {"join": 1, "count": 2, "versions": {"tilewright": "1"}, "timeout": 60, "alive": 60, "pid": 1, "host": "h",
        "token": "secret"}  # fmt: skip
LATER: list[dict[str, Any]] = [
    {"stalled": "call", "seconds": 2.0, "last": False},
    {"here": 1, "calls": 2, "last": "f", "waits": None, "seconds": 0.0, "line": "a.py:1"},
    {"at": "0-1", "steps": 1, "calls": 2, "what": "call", "line": "a.py:1"}, {"marks": [["0-1", 32, "abc"]]},
    {"failed": "ValueError"}, {"bye": True},
]
WRONG: list[Any] = [
    None, True, -1, 10**12, 1 << 70, 1.5, float("nan"), float("inf"), "x", "x" * 9000, [], {}, [[1, 2]], {"a": [1]},
    [["x", "y", "z"]], [None], "\ud800",
]

# ---------------------------------------------------------------------------- lines to the coordinator


def malformed(draw: random.Random, message: dict[str, Any]) -> bytes:
    """A line that is no such message: a field wrong or missing, bytes changed, too deep, too long, or nothing of it."""
    kind = draw.randrange(8)
    if kind == 0:
        return json.dumps(message | {draw.choice(list(message)): draw.choice(WRONG)}).encode() + b"\n"
    if kind == 1:
        return json.dumps({k: v for k, v in message.items() if k != draw.choice(list(message))}).encode() + b"\n"
    text = bytearray(json.dumps(message).encode())
    if kind == 2:
        for _ in range(draw.randint(1, 5)):
            text[draw.randrange(len(text))] = draw.randrange(256)
        return bytes(text) + b"\n"
    if kind == 3:
        return bytes(text[: draw.randrange(len(text))]) + b"\n"
    if kind == 4:
        return draw.choice([b"[", b'{"a":', b'[{"join":']) * draw.choice([20, 5000, 200_000]) + b"\n"
    if kind == 5:
        return json.dumps(message | {"host": "x" * draw.choice([300, LONGEST_JOIN, 3 << 20])}).encode() + b"\n"
    if kind == 6:
        return draw.randbytes(draw.randint(1, 2000)) + b"\n"
    return draw.choice([b"\n", b"\n" * 500, b"null\n", b"1e999\n", b"9" * 5000 + b"\n", b"NaN\n", b"\xff\xfe\x00\n",
                        b"GET / HTTP/1.1\r\n\r\n", b'{"join":1,"join":[]}\n'])  # fmt: skip


def sent(port: int, data: bytes) -> str:
    """What comes of sending bytes: "refused" with a reason, "closed", or "kept"."""
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(1 << 16)
        except TimeoutError:
            return "kept"
        except OSError:  # closed while it was being sent
            return "closed"
    if not answer:
        return "closed"
    return "refused" if b"refused" in answer else f"answered {answer[:60]!r}"


def joined(port: int, process: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10.0)
    connection.sendall(json.dumps(JOIN | {"join": process}).encode() + b"\n")
    return connection


def messages(count: int, seed: int) -> Counter[str]:
    """Lines of strangers to one coordinator that two processes then meet at, and of processes that have joined."""
    draw, found = random.Random(seed), Counter[str]()
    coordinator = Coordinator(2, "127.0.0.1", 0, lambda text: None, lambda process, how: None, token="secret")
    keep = joined(coordinator.port, 0)
    for _ in range(count * 4 // 5):
        line = malformed(draw, JOIN | {"join": 5, "token": draw.choice(["secret", "guess", ""])})
        found[sent(coordinator.port, line)] += 1
        if not coordinator.thread.is_alive():
            found[f"the coordinator died of {line[:80]!r}"] += 1
            return found
    idle = [socket.create_connection(("127.0.0.1", coordinator.port)) for _ in range(200)]
    other = joined(coordinator.port, 1)
    for connection in (keep, other):
        found["the processes did not meet"] += b"start" not in connection.recv(1 << 16)
        connection.sendall(b'{"bye": true}\n')
        connection.close()
    coordinator.close()
    for connection in idle:
        connection.close()
    found.update(member_messages(draw, count - count * 4 // 5))
    return found


def member_messages(draw: random.Random, count: int) -> Iterator[str]:
    """Malformed lines of a process that has joined: it is lost, and the coordinator lives."""
    for _ in range(count):
        line = malformed(draw, draw.choice(LATER))
        yield member_message(line)


def member_message(line: bytes) -> str:
    lost: list[int] = []
    coordinator = Coordinator(2, "127.0.0.1", 0, lambda text: None, lambda process, how: lost.append(process),
                              token="secret")  # fmt: skip
    with joined(coordinator.port, 1) as connection:
        while not coordinator.members and coordinator.thread.is_alive():  # else both lines may be read at once
            time.sleep(0.001)
        try:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):  # of what it tells processes meanwhile
                pass
        except TimeoutError:
            return f"a process was kept after {line[:80]!r}"
        except OSError:  # closed while it was being sent
            pass
    coordinator.stopping.set()
    coordinator.thread.join(10.0)
    if coordinator.thread.is_alive() or coordinator.fault is not None:
        return f"the coordinator died of {line[:80]!r}"
    return "a process was lost" if lost == [1] or b'"bye"' in line else f"{lost} were lost by {line[:80]!r}"


# ---------------------------------------------------------------------------- bits


def flipped(data: bytes, draw: random.Random) -> bytes:
    """The bytes with one bit of them flipped."""
    changed = bytearray(data)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def outcome(run: Any, right: Any) -> str:
    """The name of the error of the catalogue that a call raises, "same" for the right result, or what is wrong."""
    try:
        result = run()
    except tw.errors.TilewrightError as error:
        return type(error).__name__
    except Exception as error:
        return f"raw {type(error).__name__}: {str(error)[:80]}"
    return "same" if right(result) else "a wrong value"


def saved(count: int, seed: int) -> Counter[str]:
    """Restores of a checkpoint with one bit of one of its files flipped."""
    draw, found = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="tilewright-hostile-") as folder:
        state = {"w": tnp.arange(24, dtype="float32").reshape(4, 6), "n": [tnp.ones((5,), "int8"), tnp.array(3)]}
        like = tw.tree.map(np.asarray, state)
        path = Path(str(checkpoints.save(f"{folder}/one", state).wait()))
        files = sorted(p for p in path.rglob("*") if p.is_file())
        same = lambda got: all(tw.tree.leaves(tw.tree.map(np.array_equal, got, like)))  # noqa: E731
        for _ in range(count):
            file = draw.choices(files, [p.stat().st_size for p in files])[0]
            good = file.read_bytes()
            file.write_bytes(flipped(good, draw))
            found[outcome(lambda: tw.tree.map(np.asarray, checkpoints.restore(path, like)), same)] += 1
            file.write_bytes(good)
    return found


def exports(count: int, seed: int) -> Counter[str]:
    """Exports with one bit flipped, read again."""
    draw = random.Random(seed)
    shape = tw.ShapeDtypeStruct((3, 3), "float32")
    data = bytes(export.export(tw.jit(lambda x, y: {"a": tnp.sin(x) @ y, "b": x.sum()}))(shape, shape).serialize())
    return Counter(outcome(lambda: export.deserialize(flipped(data, draw)), lambda _: False) for _ in range(count))


KINDS = {"messages": messages, "checkpoints": saved, "exports": exports}
EXPECTED = {"messages": {"closed", "refused", "a process was lost"}, "checkpoints": {"DamagedCheckpointError"},
            "exports": {"ExportVersionError"}}  # fmt: skip


def wrong(kind: str, found: Counter[str]) -> Counter[str]:
    """What should not have come of it."""
    return Counter({what: n for what, n in found.items() if n and what not in EXPECTED[kind]})


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.fuzzing.hostile", description="damaged input, much of it")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = KINDS[options.kind](options.count, options.seed)
    for what, n in found.most_common():
        print(f"{n:6d} {what}")
    return 1 if wrong(options.kind, found) else 0


if __name__ == "__main__":
    sys.exit(main())
