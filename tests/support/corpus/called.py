"""The Kernel that an example's call makes."""

from tests.support.corpus.small import Example
from tilewright import lang as tl
from tilewright.core.support import pytree
from tilewright.core.tracing.trace import trace_program, typeof


def kernel_of(example: Example) -> tl.Kernel:
    """The Kernel that an example's call makes."""
    leaves, structure = pytree.flatten(tuple(example.operands))
    call = example.call()
    program = trace_program(lambda *xs: pytree.leaves(call(*structure.unflatten(xs))), [typeof(x) for x in leaves])
    return program.eqns[-1].params["kernel"]
