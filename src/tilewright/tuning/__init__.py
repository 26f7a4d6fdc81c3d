"""Tuning: which configuration of a function is fastest here, measured when asked and kept for next time.

@autotune(space={"block": [64, 128, 256]})
def scaled(x, *, block=128): ...

scaled(x)             # the best known configuration for such arguments, or the default
scaled.tune(x)        # measure, and keep the result
"""

from .autotuned import Autotuned, autotune
from .program import ProgramReport, tune
from .report import Report, Trial
from .space import divisors, permutations, powers_of_two
from .store import Store, TuningWarning
from .tables import tuned

__all__ = [
    "Autotuned", "ProgramReport", "Report", "Store", "Trial", "TuningWarning", "autotune", "divisors", "permutations",
    "powers_of_two", "tune", "tuned",
]  # fmt: skip
