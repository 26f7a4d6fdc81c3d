"""Seeing and checking values while a kernel runs."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from ...core.ir.array import ArrayLike, Operand
from ...core.primitives.external.host_callback import debug_callback
from ...core.primitives.external.host_callback import debug_print as print_values
from ...core.support.call_errors import public
from ...core.support.errors import KernelError
from .basic import current_cell


@public
def debug_print(fmt: str, *args: Any) -> None:
    """Print values in every cell: formatted as by `str.format`, or after the text where it names none.

    Cells print in grid order in the interpreter, in any order when compiled.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(x, o):
    ...     tl.debug_print('cell {}: {}', tl.program_id(0), x[0])
    ...     o[...] = x[...]
    >>> spec = tl.BlockSpec((1,), lambda i: (i,))
    >>> out = tw.ShapeDtypeStruct((2,), 'float32')
    >>> call = tl.kernel_call(body, out, grid=2, in_specs=[spec], out_specs=spec, interpret=True)
    >>> _ = call(np.float32([1, 2]))
    cell 0: 1.0
    cell 1: 2.0
    """
    named = any(name is not None for _, name, _, _ in string.Formatter().parse(fmt))
    print_values(fmt if named or not args else fmt + " {}" * len(args), *args)


class Check:
    """What a check does on the host."""

    kernel: str
    message: Any

    def __init__(self, kernel: str, message: str):
        self.kernel, self.message = kernel, message

    @property
    def text(self) -> str:
        return str(self.message() if callable(self.message) else self.message)

    def __call__(self, condition: Operand, *ids: Any) -> None:
        if not np.all(condition):
            raise KernelError(
                f"kernel {self.kernel}, cell {tuple(int(i) for i in ids)}: debug_check failed: {self.text}",
                "this is the check that the kernel's author wrote")  # fmt: skip


@public
def debug_check(condition: ArrayLike, message: str) -> None:
    """Raise an error that names the cell, and carries `message`, where `condition` is not true.

    Interpreted, it is a `KernelError`; compiled, the program fails with that text. A check calls the host in every
    cell: take it out of what is to be fast.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright import lang as tl
    >>> def body(x, o):
    ...     tl.debug_check(x[0] > 0, 'not positive')
    ...     o[...] = x[...]
    >>> call = tl.kernel_call(body, tw.ShapeDtypeStruct((1,), 'float32'), interpret=True)
    >>> try:
    ...     call(np.float32([-1]))
    ... except tw.errors.TilewrightError as error:
    ...     print('not positive' in str(error))
    True
    """
    cell = current_cell("debug_check")
    debug_callback(Check(cell.kernel, message), condition, *cell.ids)
