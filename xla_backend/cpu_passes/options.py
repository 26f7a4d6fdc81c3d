"""The passes and settings for the CPU by name, and the numbers in them. The setting `cpu_without` switches them off.

`benchmarks/cpu_options.py` times a program with each and without it.
"""

from __future__ import annotations

from ...core.support.config import current
from ...core.support.errors import ConfigError
from ...core.support.memo import cached

OPTIONS = {
    "products": "a column-major left operand of a product is passed in row-major layout",
    "few_rows": "sums of few rows are XLA's own loops, with no kernel of YNN's to be made first",
    "placeless": "an executable does not hold the line of the module's text that each operation was on",
    "merged_sums": "the sum over a kernel's cells of their products is one product",
    "exchanged": "a transpose that only exchanges a product's operands is taken into the product",
    "scan_windows": "cumulative sums and extrema of short rows are windows of a few elements, which compile faster",
    "narrow_windows": "a body that uses static parts of its windows has windows of those parts alone",
}

# Not done with `debug_poison`: memory that nothing has written holds zeros.
ZEROS = "zeros"

# A matrix of columns of more elements than so many times their number takes as long to transpose as to multiply.
LONG_COLUMNS = 128
# The left matrix of a product is transposed up to so many times the right one's size; else they change places.
WIDER = 4
# Reductions of arrays of more elements are worth a kernel of YNN's.
FEW_ELEMENTS = 2**14

# The bytes that an intermediate result may take where a kernel's cells are run side by side, and within one turn of a
# loop, where what it makes should stay in the cache.
BUDGET, LOOP_BUDGET = 2**28, 2**21


def switched_off() -> frozenset[str]:
    """The names in the setting `cpu_without`, and `ZEROS` with `debug_poison`.

    Raises:
      ConfigError: one of them is not the name of an option.
    """
    found = _names(current().cpu_without)
    return found | {ZEROS} if current().debug_poison else found


@cached(64)
def _names(text: str) -> frozenset[str]:
    found = frozenset(name.strip() for name in text.split(",") if name.strip())
    for name in sorted(found - OPTIONS.keys()):
        raise ConfigError(f"cpu_without names {name!r}", f"names among {', '.join(OPTIONS)}, with commas")
    return found
