"""The machine code of GPU kernels: instructions of main loops by class, registers, occupancy, predicted share."""

import sys

from . import main

sys.exit(main())
