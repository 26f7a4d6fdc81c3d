"""What goes wrong in jobs of several processes, many times over: does each end in time, and is the cause named?

`python -m benchmarks.processes [--times 30] [--limit 40] [fault ...]`. Each is tried under `tilewright launch`, and
with processes that are started by hand, where process 0 coordinates. A run fails if a process is still there after so
many seconds (a busy machine takes long to start two), or if what is printed does not name the cause as `FAULTS` says.
Exits with 1 if any failed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright import checkpoints
from tilewright.experimental import multihost_utils

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 40.0  # seconds from start to end
LONG = 3600.0  # longer than any run
STALL, STALL_LIMIT = 1, 4


@dataclass(frozen=True)
class Fault:
    """What is to be named: by the launcher, and by the process that is left without one; None: not tried so."""

    launched: tuple[str, ...] | None
    by_hand: tuple[str, ...] | None
    survivor: int = 0


XLA_NAMES = "Failed to send RPC to coordination service"  # its own abort, where that comes first
STALLED = "process 1: not waiting, after call 1 of <lambda>", "the others wait for process 1"
STOPPED = "process 1: does not answer", "the others wait for process 1"
DIFFERS = "ProcessMismatchError: the processes differ in collective step 2", "the program <lambda>, at"
ONE_DIFFERS = "do not do the same in the same order", "process 0 is in call 2", "process 1 is in step 2: the program"
ORDER = "ProcessMismatchError", "called their programs in different orders"
ABSENT = "CoordinatorError", "process 1 of 2 did not come in time"
FAULTS = {
    "killed": Fault(
        ("process 1 of 2 was killed by SIGKILL; stopped 0; its last line: ready",),
        ("process 0 of 2 was ended: process 1 of 2", "died without a word"),
    ),
    "raises": Fault(
        ("process 1 of 2 ended with status 1; stopped 0; its last line: ValueError: a bug",),
        ("process 0 of 2 was ended: process 1 of 2", "ended with ValueError: a bug"),
    ),
    "stalled": Fault(STALLED, STALLED),
    "stopped": Fault(STOPPED, STOPPED),
    "save": Fault(("process 1 of 2 was killed by SIGKILL",), None),
    "differs": Fault(DIFFERS, DIFFERS),
    "one-differs": Fault(ONE_DIFFERS, ONE_DIFFERS),
    "order": Fault(ORDER, ORDER),
    "absent": Fault(ABSENT, ABSENT),
    "coordinator": Fault(None, ("process 1 of 2 was ended: the coordinator at", "is gone"), 1),
    "unreachable": Fault(None, ("CoordinatorError: process 1 of 2 cannot reach the coordinator at",), 1),
}


def worker(fault: str) -> None:
    """One of the two processes; number 1 does what the fault says (of the coordinator, number 0)."""
    rank = int(os.environ["RANK"]) if "RANK" in os.environ else int(os.environ["TILEWRIGHT_PROCESS_ID"])
    if (fault == "absent" and rank == 1) or (fault == "unreachable" and rank == 0):
        time.sleep(LONG)
    tw.distributed.initialize(initialization_timeout=2 if fault in ("absent", "unreachable") else 30)
    mesh = tw.make_mesh((tw.device_count(),), ("x",))
    place = tw.NamedSharding(mesh, tw.P("x"))
    x = tw.make_array_from_callback((8,), place, lambda i: np.arange(8, dtype=np.float32)[i])
    f, g = tw.jit(lambda x: x.sum()), tw.jit(lambda x: (2 * x).sum())
    assert float(f(x)) == 28
    print("ready", flush=True)
    time.sleep(0.2)
    if fault == "differs":
        f = tw.jit(lambda x: ((3 + rank) * x).sum())
    elif rank == (fault == "coordinator"):
        pass
    elif fault in ("killed", "coordinator"):
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "raises":
        raise ValueError("a bug")
    elif fault == "stalled":
        time.sleep(LONG)
    elif fault == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "one-differs":
        f = tw.jit(lambda x: (3 * x).sum())
    if fault == "save":
        for step in range(10_000):  # until process 1 is killed
            if step == 1 and rank == 1:
                threading.Timer(random.uniform(0.0, 0.3), os.kill, (os.getpid(), signal.SIGKILL)).start()
            name = f"{os.environ['FOLDER']}/{time.monotonic_ns() if rank == 0 else 0}"
            names = multihost_utils.process_allgather(np.frombuffer(name.ljust(200).encode(), np.uint8))
            checkpoints.save(names[0].tobytes().decode().strip(), {"x": x, "y": tw.device_put(x, place)}).wait()
    if fault == "order":
        float(g(x))
        for i in range(10_000):
            float((f, g)[(i + rank) % 2](x))
    for _ in range(10_000 if fault in ("killed", "coordinator", "raises") else 1):
        float(f(x))


def environment(**more: object) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    asked = {"TILEWRIGHT_STALL_SECONDS": STALL, "TILEWRIGHT_STALL_LIMIT": STALL_LIMIT, "PYTHONPATH": paths}
    return os.environ | {k: str(v) for k, v in (asked | more).items()}


def launched(fault: str, limit: float) -> tuple[str, float]:
    """All that is printed under `tilewright launch`, and the seconds that it took."""
    launch = [sys.executable, "-m", "tilewright.cli.main", "launch", "-n", "2", "--devices", "2"]
    start = time.monotonic()
    launcher = subprocess.Popen([*launch, __file__, "--worker", fault], env=environment(), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True)  # fmt: skip
    try:
        return launcher.communicate(timeout=limit)[0], time.monotonic() - start
    except subprocess.TimeoutExpired:
        os.killpg(launcher.pid, signal.SIGKILL)  # its processes too, of which one may be stopped
        raise


def by_hand(fault: str, limit: float) -> tuple[str, float]:
    """What the process prints that is left, where process 0 coordinates, and the seconds until it ended."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    start, processes = time.monotonic(), []
    for rank in range(2):
        variables = environment(RANK=rank, JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{port}", JAX_NUM_PROCESSES=2,
                                JAX_PROCESS_ID=rank, TILEWRIGHT_NUM_CPU_DEVICES=2)  # fmt: skip
        processes.append(subprocess.Popen([sys.executable, __file__, "--worker", fault], env=variables, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))  # fmt: skip
    try:
        text, _ = processes[FAULTS[fault].survivor].communicate(timeout=limit)
        return text, time.monotonic() - start
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def tried(fault: str, how: str, limit: float = LIMIT) -> tuple[str, float]:
    """An empty text if a run ended in time and named its cause, else what was wrong; and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FOLDER"] = folder
        wrong, seconds = outcome(fault, how, limit)
        return wrong or (damaged(folder) if fault == "save" else ""), seconds


def damaged(folder: str) -> str:
    """What is wrong with the checkpoints in a folder: each that has a name has to be whole."""
    for name in sorted(os.listdir(folder)):
        if not name.startswith("."):
            checkpoints.check(f"{folder}/{name}")
    return "" if checkpoints.latest(folder) else f"no checkpoint among {os.listdir(folder)}"


def outcome(fault: str, how: str, limit: float) -> tuple[str, float]:
    wanted = FAULTS[fault].launched if how == "launched" else FAULTS[fault].by_hand
    assert wanted is not None
    try:
        text, seconds = launched(fault, limit) if how == "launched" else by_hand(fault, limit)
    except subprocess.TimeoutExpired as error:
        return f"still there after {limit} s: {error.output}", limit
    missing = [w for w in wanted if w not in text and not (fault == "coordinator" and XLA_NAMES in text)]
    return (f"does not name {missing}:\n{text}" if missing else ""), seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", choices=[*FAULTS, []], help="all by default")
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds from start to end (40)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return 0
    wrong = 0
    for fault in options.faults or FAULTS:
        for how in ("launched", "by_hand"):
            if getattr(FAULTS[fault], how) is None:
                continue
            outcomes = [tried(fault, how, options.limit) for _ in range(options.times)]
            bad = [text for text, _ in outcomes if text]
            wrong += len(bad)
            longest = max(seconds for _, seconds in outcomes)
            print(f"{fault:12} {how:9} {len(outcomes) - len(bad)} of {len(outcomes)} ended in time and named; "
                  f"longest {longest:.1f} s from the start", flush=True)  # fmt: skip
            for text in bad[:2]:
                print(text, flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
