"""Steps until a notice of preemption: each process prints the step at which it saves. Run by `test_processes.py`.

The first argument says from where the notice comes: "process" (the last one sends SIGTERM to itself) or "launcher".
"""

import os
import signal
import sys
import time

import numpy as np

import tilewright as tw
from tilewright.experimental import multihost_utils as mh
from tilewright.sharding import NamedSharding, P


def main():
    tw.distributed.initialize()
    mesh = tw.make_mesh((tw.device_count(),), ("x",))
    x = tw.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("x")))
    total = tw.jit(lambda x: x / x.sum() * 8)
    for step in range(3000):
        x = total(x)
        if mh.reached_preemption_sync_point(step):
            print(f"saved at step {step}", flush=True)
            return
        if step == 0:
            print("ready", flush=True)
        if step == 20 and sys.argv[1] == "process" and tw.process_index() == tw.process_count() - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
    raise SystemExit("no notice came")


if __name__ == "__main__":
    main()
