"""Primitives that hold Programs or act on Refs."""

from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.control_flow.jit_primitive import jit_p
from tilewright.core.primitives.elementwise.arithmetic import add_p, mul_p, sin_p
from tilewright.core.tracing.trace import trace_program

from . import Case

VECTOR, SCALAR = ArrayType((4,), "float32"), ArrayType((), "float32")


def _body(x, y):
    return [mul_p.bind(sin_p.bind(x), y), add_p.bind(x, x)]


def _params(*types):
    return {"program": trace_program(_body, types, "body"), "name": "body", "donated": (), "inline": False}


# Its derivatives, which need Programs of wider types, are in tests/core/transforms/test_transforms.py.
CASES = [Case(jit_p, (t, u), _params(t, u), grad=(False, False)) for t, u in ((VECTOR, VECTOR), (SCALAR, SCALAR))]
ELSEWHERE = {
    name: "acts on a Ref, which only a kernel has: tests/lang/test_kernels.py, tests/lang/autodiff/test_derivatives.py"
    for name in ("get", "swap", "addupdate")
}
