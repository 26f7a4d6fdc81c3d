"""`tilewright launch`: output told apart, a death named, and the rest stopped within a second."""

import io
import sys
import time

import pytest

from tilewright.cli.launch import launch
from tilewright.cli.main import main

RANK = "import os, sys, signal, time\nrank = int(os.environ['TILEWRIGHT_PROCESS_ID'])\n"


def started(code, count, **how):
    out = io.StringIO()
    start = time.monotonic()
    status = launch([sys.executable, "-S", "-c", RANK + code], count, out=out, **how)
    return status, out.getvalue().splitlines(), time.monotonic() - start


def test_all_end_well():
    code = "print(os.environ['TILEWRIGHT_NUM_PROCESSES'], os.environ['TILEWRIGHT_NUM_CPU_DEVICES'])"
    status, lines, _ = started(code, 3, devices=2)
    assert status == 0 and sorted(lines) == ["[0] 3 2", "[1] 3 2", "[2] 3 2"]


DEATHS = {
    "raises": ("raise ValueError('a bug')", 1, "ended with status 1; stopped 0, 2; its last line: ValueError: a bug"),
    "killed": ("os.kill(os.getpid(), 9)", 137, "was killed by SIGKILL; stopped 0, 2; its last line: ready"),
    "a child holds its pipe": (
        "os.fork() or time.sleep(2); os._exit(7)", 7, "ended with status 7; stopped 0, 2; its last line: ready"),
}  # fmt: skip


@pytest.mark.parametrize("death", DEATHS)
def test_a_death_stops_the_rest(death):
    code, want, text = DEATHS[death]
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"  # as a process that waits in compiled code
    status, lines, took = started(
        f"if rank == 2: {deaf}\nprint('ready', flush=True)\nif rank != 1: time.sleep(60)\ntime.sleep(.1)\n{code}", 3)
    assert status == want and lines[-1] == f"tilewright launch: process 1 of 3 {text}"
    assert took < 5  # a second, and what starting takes on a busy machine


def test_the_command(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(3 * (len(sys.argv) > 3))")
    assert main(["launch", "-n", "1", str(script), "-n", "x"]) == 0
    assert capsys.readouterr().out == "[0] ['-n', 'x']\n"
    assert main(["launch", "-n", "1", str(script), "a", "b", "c"]) == 3
    assert "process 0 of 1 ended with status 3; its last line: ['a', 'b', 'c']" in capsys.readouterr().out
    script.write_text("import os, signal, time\nos.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(60)")
    with pytest.raises(SystemExit, match="143"):  # asked to end by its own child, which it stops
        main(["launch", "-n", "1", str(script)])
    with pytest.raises(SystemExit):
        main(["launch", "-n", "0", str(script)])
    assert "not a number of one or more" in capsys.readouterr().err
