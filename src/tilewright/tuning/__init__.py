"""Tuning: which configuration of a function is fastest here, measured when asked and kept for next time.

@autotune(space={"block": [64, 128, 256]})
def scaled(x, *, block=128): ...

scaled(x)             # the best known configuration for such arguments, or the default
scaled.tune(x)        # measure, and keep the result
"""

from .search import Autotuned, Report, Trial, autotune, tune
from .store import Store, TuningWarning

__all__ = ["Autotuned", "Report", "Store", "Trial", "TuningWarning", "autotune", "tune"]
