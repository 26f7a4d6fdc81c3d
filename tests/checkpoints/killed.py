"""Saves checkpoints in children that are killed at random moments: the last whole one is always there, and right.

`python -m tests.checkpoints.killed DIRECTORY COUNT`; prints how many of the children had not finished.
"""

import os
import random
import signal
import sys
import time

import numpy as np

from tilewright import checkpoints

SHAPE = (512, 512)


def save(directory, step):
    values = {"w": np.full(SHAPE, step, np.float32), "step": step}
    return checkpoints.save(f"{directory}/{step % 3}-{step}", values, progress=False).wait()


def main(directory, count):
    chance = random.Random(0)
    start = time.perf_counter()
    save(directory, 0)
    usual, killed, last = time.perf_counter() - start, 0, 0
    for step in range(1, count + 1):
        child = os.fork()
        if not child:
            save(directory, step)
            os._exit(0)
        time.sleep(chance.uniform(0, 1.5 * usual))
        os.kill(child, signal.SIGKILL)
        killed += os.waitpid(child, 0)[1] != 0
        found = checkpoints.restore(checkpoints.latest(directory), {"w": np.zeros(SHAPE, np.float32), "step": 0})
        assert found["step"] in (last, step) and (found["w"] == found["step"]).all(), (step, last, found)
        last = found["step"]
    print(killed, last)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
