"""Where a compiled program first gave NaN or infinity: the search behind `debug_nans` and `debug_infs`.

The program is compiled once more with a check of every result (`checkify`), within loops, branches and calls too, and
run on the same operands: the first check that fails names the equation and the user's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..checkify.automatic_checks import GaveInfinity, GaveNaN
from ..checkify.check_primitive import Error
from ..checkify.transform import checked
from ..ir.program import Program
from ..jit.jit import jit
from ..support.config import config
from ..support.errors import NonFiniteError
from ..tracing.trace import eval_program

_LOOK = "check its operands there; `debug_nans` and `debug_infs` turn this check on"


def located(program: Program, values: Sequence[Any], nans: bool, infs: bool, found: NonFiniteError) -> NonFiniteError:
    """The error to raise for a Program that gave what is not finite at some operands; `found`, where nothing tells."""
    kinds = frozenset({GaveNaN} if nans else ()) | frozenset({GaveInfinity} if infs else ())
    made = checked(program, kinds)
    if not made.sites:
        return found
    with config(debug_nans=False, debug_infs=False):
        outs = jit(lambda *args: eval_program(made.program, *args))(*made.constants, *values)
    error = Error(outs[0], outs[1 : made.width], made.sites).get_exception()
    if error is None:
        return found
    return NonFiniteError(f"{error.what}, within {program.name}", _LOOK, error.source)
