"""A program of each device of a mesh in NumPy: equation by equation, every device's value along leading axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.ir.program import Eqn, Literal, Program, Var, run, subprograms
from ..core.primitives.control_flow.jit_primitive import jit_p
from ..core.primitives.custom.checkpoint import checkpoint_p
from ..core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p
from ..core.sharding.shard_map import joined, over_devices, parts_of
from ..core.support.errors import UnsupportedError
from ..core.tracing.numpy_interpreter import evaluate
from ..lang.call.custom_partition import partitioned_p
from ..lang.call.primitive import kernel_call_p
from ..lang.kernel.kernel import Kernel
from ..lang.kernel.traverse import kernels_of
from ..lang.ops.mesh_axes import mesh_of

CALLS = (jit_p, checkpoint_p, custom_jvp_call_p, custom_vjp_call_p, partitioned_p)  # that mean their Programs
# The results of every device, of a kernel at the operands of each; and which of the results are read.
Together = Callable[[Kernel, list[list[np.ndarray]], Sequence[bool]], list[list[Any]]]


class Devices:
    """The NumPy meaning of `shard_map`, whose kernels `together` runs: all devices at once."""

    def __init__(self, together: Together):
        self.together = together

    def __call__(
        self, *arrays: Any, program: Program, mesh: Any, in_specs: Any, out_specs: Any, manual: Any
    ) -> list[Any]:
        axes = list(manual)
        given = [parts_of(np.asarray(x), s, axes, mesh) for x, s in zip(arrays, in_specs, strict=True)]
        outs = self.program(program, mesh, manual, given)
        return [joined(x, s, axes, mesh) for x, s in zip(outs, out_specs, strict=True)]

    def program(self, program: Program, mesh: Any, manual: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """A Program of values with leading axes."""
        sizes = tuple(mesh.shape[a] for a in manual)
        given = iter(values)
        inputs = [next(given) for _ in program.inputs]
        constants = [np.broadcast_to(x, (*sizes, *np.shape(x))) for x in program.values]
        read = {a for e in program.eqns for a in e.inputs} | {*program.outputs}
        closed = program.replace(inputs=(*program.constants, *program.inputs), constants=(), values=())

        def bind(eqn: Eqn, args: list[Any]) -> Sequence[Any]:
            if eqn.primitive in CALLS or eqn.primitive is kernel_call_p:
                args = each(eqn.inputs, args)
                if eqn.primitive in CALLS:
                    return self.program(eqn.params["program"], mesh, manual, args)
                return self.kernel(eqn, sizes, args, [v in read for v in eqn.outputs])
            _refuse(eqn)
            given = [x for a, x in zip(eqn.inputs, args, strict=True) if type(a) is Var]
            return evaluate(over_devices(_alone(eqn), mesh, manual), *given)

        def each(atoms: Sequence[Any], values: Sequence[Any]) -> list[Any]:
            """Values of every device: a literal is the same on all."""
            return [np.broadcast_to(x, (*sizes, *np.shape(x))) if type(a) is Literal else x
                    for a, x in zip(atoms, values, strict=True)]  # fmt: skip

        return each(program.outputs, run(closed, bind, [*constants, *inputs]))

    def kernel(
        self, eqn: Eqn, sizes: tuple[int, ...], args: Sequence[np.ndarray], read: Sequence[bool]
    ) -> list[np.ndarray]:
        count = int(np.prod(sizes))
        flat = [a.reshape(count, *a.shape[len(sizes) :]) for a in args]
        found = self.together(eqn.params["kernel"], [[a[d] for a in flat] for d in range(count)], read)
        return [np.stack([np.asarray(x) for x in column]).reshape(*sizes, *column[0].shape)
                for column in zip(*found, strict=True)]  # fmt: skip


def _alone(eqn: Eqn) -> Program:
    """A Program of one equation."""
    inputs = [Var(a.type) for a in eqn.inputs if type(a) is Var]
    rest = iter(inputs)
    operands = tuple(next(rest) if type(a) is Var else a for a in eqn.inputs)
    return Program(inputs, [eqn.replace(inputs=operands)], eqn.outputs, name=eqn.primitive.name)


def _refuse(eqn: Eqn) -> None:
    for _, program in subprograms(eqn):
        for kernel in kernels_of(program):
            if mesh_of(kernel.body):
                raise UnsupportedError(
                    f"kernel {kernel.name}, which is multi-device, is called in a {eqn.primitive.name}, where "
                    "the emulator has one device", "call it outside of loops and branches to emulate it",
                    kernel.source)  # fmt: skip
