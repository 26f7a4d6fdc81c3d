"""Several processes: what they compute together, the coordinator where they meet, and faults, each named in time."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from benchmarks.processes import FAULTS, tried
from tests.support.paths import ROOT
from tilewright import distributed
from tilewright.core.support.errors import ArgumentError, CoordinatorError, ProcessError, ProcessMismatchError
from tilewright.distributed.clusters import Place, detected
from tilewright.distributed.coordinator import Coordinator
from tilewright.distributed.member import Member
from tilewright.xla_backend.devices.coordination import Group

LAWS = str(ROOT / "tests/sharding/processes/laws.py")


def laws(folder, what, count, devices):
    command = [sys.executable, "-m", "tilewright.cli.main", "launch", "-n", str(count), "--devices", str(devices)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run([*command, "--stall", "30", "--stall-limit", "60", LAWS, str(folder), what], text=True,
                          env=os.environ | {"PYTHONPATH": paths}, capture_output=True, timeout=200)  # fmt: skip
    assert done.returncode == 0 and done.stdout.count("all right") == count, done.stdout + done.stderr


def test_two_processes_of_two_devices_and_their_checkpoint_on_one(tmp_path):
    laws(tmp_path, "save", 2, 2)
    laws(tmp_path, "restore", 1, 4)


@pytest.mark.targets
def test_a_checkpoint_on_more_processes(tmp_path):
    laws(tmp_path, "save", 2, 2)
    laws(tmp_path, "restore", 4, 1)


PREEMPTED = str(ROOT / "tests/sharding/processes/preempted.py")


@pytest.mark.parametrize("source", ["process", "launcher"])
def test_all_processes_save_at_one_step_after_a_notice_of_preemption(source):
    command = [sys.executable, "-m", "tilewright.cli.main", "launch", "-n", "2", "--devices", "1", "--grace", "60"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen([*command, PREEMPTED, source], text=True, env=environment, stdout=subprocess.PIPE) as process:
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if source == "launcher" and sum("ready" in each for each in lines) == 2 and "ready" in line:
                process.send_signal(signal.SIGTERM)
    saved = [line.partition("saved at step ")[2] for line in lines if "saved" in line]
    assert process.returncode == 0 and len(saved) == 2 and len(set(saved)) == 1, "".join(lines)


def test_a_notice_of_preemption_to_a_single_process():
    code = """
import os, signal
from tilewright.experimental.multihost_utils import reached_preemption_sync_point as reached
assert not any(map(reached, range(3)))
os.kill(os.getpid(), signal.SIGTERM)
print([step for step in range(3, 9) if reached(step)])
os.kill(os.getpid(), signal.SIGTERM)
print("not ended by the second signal")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "src")})  # fmt: skip
    assert done.stdout == "[4]\n" and done.returncode == -signal.SIGTERM, done.stdout + done.stderr


USUAL = [("killed", "launched"), ("stalled", "by_hand"), ("one-differs", "by_hand"), ("coordinator", "by_hand")]
EVERY = [(f, how) for f in FAULTS for how in ("launched", "by_hand") if getattr(FAULTS[f], how)]
OTHERS = [pair for pair in EVERY if pair not in USUAL]


@pytest.mark.parametrize("fault, how", USUAL + [pytest.param(*o, marks=pytest.mark.targets) for o in OTHERS])
def test_a_fault_is_named_in_time(fault, how):
    wrong, _ = tried(fault, how)
    assert not wrong, wrong


# ---------------------------------------------------------------------------- meeting


def member(coordinator, index, count=2, version="1", timeout=5):
    return Member(Group(), f"127.0.0.1:{coordinator.port}", index, count, {"tilewright": version}, timeout, 10)


def met(coordinator, *others):
    """What happens to members in threads of their own: None, or the error."""
    found = {}

    def come(number, given):
        try:
            member(coordinator, **given).channel.close()
            found[number] = None
        except ProcessError as error:
            found[number] = error

    threads = [threading.Thread(target=come, args=pair) for pair in enumerate(others)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    coordinator.close()
    return [found[n] for n in range(len(others))]


def test_the_meeting():
    assert met(Coordinator(1, "127.0.0.1", 0), {"index": 0, "count": 1}) == [None]
    both = met(Coordinator(2, "127.0.0.1", 0), {"index": 0}, {"index": 1, "version": "2"})
    assert all(type(e) is ProcessMismatchError and "process 1: {'tilewright': '2'}" in str(e) for e in both)
    (late,) = met(Coordinator(3, "127.0.0.1", 0), {"index": 1, "count": 3, "timeout": 1})
    assert type(late) is CoordinatorError and "process 0, 2 of 3 did not come in time" in str(late)
    (other,) = met(Coordinator(3, "127.0.0.1", 0), {"index": 1, "count": 2})
    assert "process 1 of 2 came to a coordinator of 3 processes" in str(other)
    twice = met(Coordinator(2, "127.0.0.1", 0), {"index": 1, "timeout": 2}, {"index": 1, "timeout": 2})
    assert sorted("is there already" in str(e) for e in twice) == [False, True]
    with pytest.raises(CoordinatorError, match="cannot reach the coordinator"):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        Member(Group(), f"127.0.0.1:{port}", 0, 2, {}, 0, 10)


def test_strangers_do_not_disturb():
    coordinator = Coordinator(1, "127.0.0.1", 0)
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b'{"join": "x"}\n', b""):
        with socket.create_connection(("127.0.0.1", coordinator.port)) as stranger:
            stranger.sendall(data)
    assert met(coordinator, {"index": 0, "count": 1}) == [None]


def test_bad_arguments():
    with pytest.raises(ProcessError, match="after the first use of a device"):
        import tilewright as tw

        tw.devices()
        distributed.initialize("127.0.0.1:1", 2, 0)
    with pytest.raises(ProcessError, match=r"without distributed\.initialize"):
        distributed.shutdown()
    for given, text in (
        ((None, 2, None), "without coordinator_address, process_id"), (("host", 2, 0), "host:port"),
        (("host:1", 2, 2), "process_id=2 of num_processes=2"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=text):
            distributed._check(*given)


# ---------------------------------------------------------------------------- launchers

ENVIRONMENTS = {
    "tilewright": (
        {"TILEWRIGHT_COORDINATOR": "127.0.0.1:99", "TILEWRIGHT_NUM_PROCESSES": "4", "TILEWRIGHT_PROCESS_ID": "3"},
        Place("127.0.0.1:99", 4, 3),
    ),
    "jax": (
        {"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"}, Place("a:1", 2, 0)
    ),
    "slurm": (
        {"SLURM_JOB_ID": "4097", "SLURM_STEP_NODELIST": "node[08-11,20],x", "SLURM_STEP_NUM_TASKS": "8",
         "SLURM_PROCID": "5", "SLURM_LOCALID": "1"},
        Place("node08:61441", 8, 5, 1),
    ),
    "ompi": (
        {"OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911", "OMPI_COMM_WORLD_SIZE": "2",
         "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
        Place("10.96.0.1:61440", 2, 1, 0),
    ),
    "tpu": (
        {"TPU_WORKER_HOSTNAMES": "t0,t1", "TPU_WORKER_ID": "1", "MEGASCALE_NUM_SLICES": "2", "MEGASCALE_SLICE_ID": "1",
         "MEGASCALE_COORDINATOR_ADDRESS": "s0:8080"},
        Place("s0:8476", 4, 3),
    ),
    "k8s": (
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "COORDINATOR_ADDRESS": "job-0", "COORDINATOR_PORT": "6666",
         "NUM_PROCESSES": "2", "JOB_COMPLETION_INDEX": "1"},
        Place("job-0:6666", 2, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_launchers_are_found(name):
    environment, place = ENVIRONMENTS[name]
    assert detected(environment) == detected(environment, name) == (name, place)
    assert detected(environment, "deactivate") == detected({}) == ("none", Place())
    with pytest.raises(ArgumentError, match="is not set"):
        detected({}, name)
    lacking = {k: v for k, v in environment.items() if "NUM_PROCESSES" not in k and "NUM_TASKS" not in k}
    assert name in ("ompi", "tpu") or detected(lacking)[1].count is None


def test_wrong_launchers():
    with pytest.raises(ArgumentError, match="one of tilewright, jax"):
        detected({}, "pbs")
    with pytest.raises(ArgumentError, match="JAX_PROCESS_ID='one' is to be a number"):
        detected({"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_PROCESS_ID": "one"})
