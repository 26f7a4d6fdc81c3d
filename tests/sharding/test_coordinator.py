"""The coordinator among strangers: its token, malformed lines, idle connections, where it listens."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from benchmarks.fuzzing import hostile
from tests.support.paths import ROOT
from tilewright.core.support.errors import CoordinatorError
from tilewright.distributed import protocol
from tilewright.distributed.coordinator import MOST_WAITING, Coordinator, listening
from tilewright.distributed.member import Member
from tilewright.xla_backend.devices.coordination import Group


def coordinator(count=2, token="secret"):
    return Coordinator(count, "127.0.0.1", 0, lambda text: None, lambda process, how: None, token=token)


def member(at, index, token="secret", count=2):
    return Member(Group(), f"127.0.0.1:{at.port}", index, count, {"tilewright": "1"}, 20, 10, token)


def meet(at):
    """Both processes join; the error of the first that could not."""
    failures = []

    def come(index):
        try:
            member(at, index).channel.close()
        except CoordinatorError as error:
            failures.append(error)

    threads = [threading.Thread(target=come, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    at.close()
    assert not failures, failures[0]


def test_malformed_lines_cost_their_sender_the_connection_and_nothing_else():
    found = hostile.messages(300, seed=1)
    assert not hostile.wrong("messages", found), found
    assert sum(found.values()) == 300 and found["a process was lost"] == 60


@pytest.mark.parametrize("line, why", [
    (b"[" * 300_000, "nested too deeply"), (b"[]", "no object"), (b"{}", "no known kind"), (b"{", "no JSON"),
    (b'{"bye": NaN}', "no JSON"), (b'{"bye": 1}', "'bye' of 'bye' has a wrong type"),
    (b'{"join": true}', "'join' of 'join' has a wrong type"), (b'{"join": 1, "count": 2}', "'join' without 'versions'"),
    (b'{"marks": [["0", 1]]}', "'marks' of 'marks'"), (b'{"failed": "\\ud800"}', "'failed' of 'failed'"),
    (b'{"stalled": "x", "seconds": 1e999, "last": true}', "'seconds' of 'stalled'"),
    (b'{"at": "x", "steps": %d, "calls": 0, "what": "", "line": null}' % (1 << 70), "'steps' of 'at'"),
    (b'"' + b"[" * 5, "no JSON"),
])  # fmt: skip
def test_what_is_no_message_is_refused_with_the_reason(line, why):
    with pytest.raises(protocol.MalformedError, match=why):
        protocol.parsed(line, protocol.FROM_PROCESS)


def test_brackets_within_texts_are_no_depth():
    message = {"failed": "[" * 1000 + '"\\' + "{" * 1000}
    assert protocol.parsed(json.dumps(message).encode(), protocol.FROM_PROCESS) == message


def test_a_process_without_the_token_is_refused_and_takes_no_place():
    at = coordinator()
    for token in ("", "guess", "secret2"):
        with pytest.raises(CoordinatorError, match=f"does not have the token .*{protocol.TOKEN}"):
            member(at, 0, token)
    assert not at.joined
    meet(at)


def test_idle_connections_stop_nobody():
    at = coordinator()
    idle = [socket.create_connection(("127.0.0.1", at.port)) for _ in range(200)]
    for connection in idle[:100]:
        connection.sendall(b'{"join"')
    meet(at)
    for connection in idle:
        connection.close()


def test_connections_beyond_the_limit_make_room():
    at, held = coordinator(), []
    for _ in range(min(MOST_WAITING + 20, 600)):
        held.append(socket.create_connection(("127.0.0.1", at.port)))
    meet(at)
    assert at.fault is None
    for connection in held:
        connection.close()


@pytest.mark.parametrize("host, family, bound", [
    ("127.0.0.1", socket.AF_INET, "127.0.0.1"), ("localhost", socket.AF_INET, "127.0.0.1"),
    ("127.0.0.2", socket.AF_INET, "127.0.0.2"), ("0.0.0.0", socket.AF_INET, "0.0.0.0"),
])  # fmt: skip
def test_it_listens_at_the_host_that_is_named(host, family, bound):
    if bound == "127.0.0.2" and sys.platform != "linux":
        pytest.skip("only 127.0.0.1 is an address here")
    with listening(host, 0) as listener:
        assert (listener.family, listener.getsockname()[0]) == (family, bound)


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_it_listens_at_an_address_of_version_6(host):
    try:
        listener = listening(host, 0)
    except OSError as error:
        pytest.skip(f"this machine has no ::1: {error}")
    with listener:
        assert listener.getsockname()[0] == "::1"


def test_no_address_of_this_machine_is_an_error():
    with pytest.raises(OSError):
        listening("192.0.2.1", 0)  # of a network for documentation


SHOWN = f"import os; print(len(os.environ[{protocol.TOKEN!r}]))"


def test_launch_makes_a_token_and_hands_it_to_its_processes(tmp_path):
    script = tmp_path / "shown.py"
    script.write_text(SHOWN)
    command = [sys.executable, "-m", "tilewright.cli.main", "launch", "-n", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "src"), protocol.TOKEN: "old"})  # fmt: skip
    assert sorted(done.stdout.splitlines()) == ["[0] 64", "[1] 64"], done
