"""What is in `eight` needs a process with eight CPU devices: `test_eight_devices.py` starts one for each file."""

import os

collect_ignore = [] if os.environ.get("TILEWRIGHT_NUM_CPU_DEVICES") == "8" else ["eight"]
