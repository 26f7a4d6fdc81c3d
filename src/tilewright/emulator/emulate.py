"""`emulate`: a function as it is compiled for a device, run in NumPy."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiler import backend_selection as routes
from ..compiler.kernel_passes import Way
from ..compiler.pass_manager import up_to, walk
from ..compiler.pipeline import PIPELINE, Request, settings_ahead
from ..core.ir.array import DTypeLike
from ..core.ir.program import Program, subprograms
from ..core.ir.types import is_key
from ..core.sharding.shard_map import shard_map_p
from ..core.support.errors import ArgumentError, KernelError, Source, UninitializedError, UnsupportedError
from ..core.tracing.numpy_interpreter import evaluate, replacing
from ..core.tracing.trace import typeof
from ..lang.call.primitive import kernel_call_p
from ..lang.interpret.interpreter import interpret
from ..lang.interpret.multi_device import interpret_all_devices
from ..lang.kernel.kernel import Kernel
from ..lang.ops.mesh_axes import mesh_of
from ..lang.targets.target import Target
from ..random import key_data, wrap_key_data
from .calls import run_mosaic_gpu, run_mosaic_tpu, run_triton
from .devices import Core, run_together
from .mesh import Devices
from .values import zeros

# What runs the modules of a route.
WALKED = {routes.TRITON: run_triton, routes.MOSAIC_GPU: run_mosaic_gpu, routes.MOSAIC_TPU: run_mosaic_tpu}


def emulate(f: Any, *args: Any, target: str, **kwargs: Any) -> Any:
    """The result of a function as it is compiled for a device that need not be here, as NumPy arrays.

    The function goes through all passes of `compile` up to the emission of its kernels. Each kernel's program (Triton's
    dialect, Mosaic's for TPUs, Mosaic GPU's) is run operation by operation in NumPy, twice where memory that nothing
    wrote could show. What is around the kernels, and kernels that the compiler leaves to XLA, run by their NumPy
    meaning. A program on a mesh, whose devices need not be here, runs as all of them; kernels that copy to other
    devices, or signal them, run on all together. Arguments are arrays of any shapes and dtypes; the result has the
    structure that `f` returns.

    Raises:
      OutOfBoundsError, RaceError, UninitializedError, DeadlockError, SemaphoreError, InputWriteError: what the emitted
        program does wrong, with the kernel and the operation, and the line where the program tells it (Mosaic for TPUs
        does; for others it is the kernel's).
      EmulationError: other things that its dialect does not define, or an operation that the emulator does not know.
      ArgumentError: a target without kernels of its own. UnsupportedError: a kernel in C++, or one that speaks to other
        devices within a loop or a branch.
      DtypeError, ResourceError, UnsupportedError: a kernel that the target refuses.

    >>> import numpy as np
    >>> from tilewright import lang as tl
    >>> def double(x_ref, o_ref):
    ...     o_ref[...] = x_ref[...] + x_ref[...]
    >>> x = np.arange(8, dtype=np.float32)
    >>> kernel = tl.kernel_call(double, out_shape=x)
    >>> print(emulate(kernel, x, target="cuda:sm_90"))
    [ 0.  2.  4.  6.  8. 10. 12. 14.]
    """
    settings = settings_ahead(target)
    if settings.target == "cpu":
        raise ArgumentError(f"on {target} kernels are computed by XLA: nothing is emitted that could be emulated",
                            "name a GPU or a TPU, such as 'cuda:sm_90' or 'tpu:v5e'")  # fmt: skip
    passes = up_to(PIPELINE, "legalize", {})
    begun = walk(passes[:1], Request(f, args, kwargs), settings)
    traced = begun.reports["trace"]
    walked = walk(passes[1:], begun.value, settings, begun.reports)
    run = _Run(settings.target, target, walked.value.ways, walked.reports["fuse"])
    leaves = [*map(_words, (*walked.value.constants, *traced.leaves(args, kwargs)))]
    with replacing(kernel_call_p, run.kernel), replacing(shard_map_p, Devices(run.together)):
        results = evaluate(walked.value.program, *leaves)
    types = traced.program.out_types
    return traced.out_tree.unflatten([_shown(r, t.dtype) for r, t in zip(results, types, strict=True)])


def _words(x: Any) -> np.ndarray:
    """A value as NumPy has it; random keys as their words, which they are in programs that are compiled."""
    return np.asarray(key_data(x) if is_key(typeof(x).dtype) else x)


def _shown(x: Any, dtype: DTypeLike) -> Any:
    return wrap_key_data(np.asarray(x), dtype=dtype) if is_key(dtype) else np.asarray(x)


@dataclass(frozen=True)
class _Run:
    """One emulated run: how kernels are called in it."""

    machine: Target
    name: str  # of the target, as it was asked for
    ways: Mapping[Kernel, Way]
    fused: Any

    def kernel(self, *arrays: Any, kernel: Kernel) -> list[Any]:
        """The results of a kernel: what was emitted for it is run; what is left to XLA has its plain meaning."""
        way = self.ways.get(kernel)
        found = None if way is None else self._emitted(way)
        kernel = kernel if way is None else way.kernel
        if found is None:
            return interpret(kernel, *arrays)
        module, run = found
        (results,) = self._twice(kernel, lambda: [run(module, _operands(kernel, arrays))])
        return results

    def together(self, kernel: Kernel, arrays: Sequence[Sequence[Any]], read: Sequence[bool]) -> list[list[Any]]:
        """The results of a kernel on every device of a mesh; `read` says which of them the program reads."""
        way = self.ways.get(kernel)
        written = kernel if way is None else way.kernel
        if not mesh_of(written.body):
            return [self.kernel(*given, kernel=kernel) for given in arrays]
        found = None if way is None else self._emitted(way)
        if found is None or found[1] is not run_mosaic_tpu:
            return interpret_all_devices(written, arrays)
        names = [*(f"the prefetched operand {i}" for i in range(len(kernel.prefetch))),
                 *(b.name for b in kernel.blocks), *map(kernel.scratch_name, range(*kernel.splits[3:]))]  # fmt: skip
        given = [_operands(written, a) for a in arrays]

        def work(core: Core) -> list[Any]:
            return run_mosaic_tpu(found[0], given[core.device], core=core, names=names)

        return self._twice(
            written, lambda: run_together(written, work, functools.partial(_line, written), len(arrays)), read
        )

    def _twice(
        self, kernel: Kernel, run: Callable[[], list[list[Any]]], read: Sequence[bool] | None = None
    ) -> list[list[np.ndarray]]:
        """The results of every device; those that depend on memory that nothing wrote are an error."""
        try:
            found = [[np.asarray(x) for x in results] for results in run()]
            with zeros():
                again = run()
        except KernelError as error:
            raise self._named(error, kernel) from error
        for results, others in zip(found, again, strict=True):
            self._compare(kernel, results, others, read or (True,) * len(results))
        return found

    def _compare(
        self, kernel: Kernel, results: Sequence[np.ndarray], others: Sequence[Any], read: Sequence[bool]
    ) -> None:
        for number, (one, other, kept) in enumerate(zip(results, others, read, strict=True)):
            same = (one == other) | ((one != one) & (other != other))
            if kept and not np.all(same):
                place = tuple(int(i) for i in np.argwhere(~same)[0])
                raise UninitializedError(
                    f"kernel {kernel.name}, emulated for {self.name}: element {place} of result {number} depends on "
                    f"memory that nothing wrote ({np.count_nonzero(~same)} of {one.size} elements do)",
                    "write all of an output, and scratch before it is read; wait for copies; mask or `fill` "
                    "out-of-bounds elements", kernel.source)  # fmt: skip

    def _emitted(self, way: Way) -> Any:
        """The module of a kernel by the first route that takes it, and what runs it; None where XLA computes it."""
        kernel = way.kernel
        for number, (route, one) in enumerate(way.routes, 1):
            if route not in WALKED:
                if len(way.routes) == 1:
                    raise UnsupportedError(f"kernel {kernel.name} is compiled by {route.name}, which emits C++: there "
                                           "is nothing to emulate", "another route", kernel.source)  # fmt: skip
                continue
            try:
                return route.module(one, self.machine), WALKED[route]
            except routes.FAILURES:
                if number == len(way.routes) and kernel in self.fused.written:
                    raise
        return None

    def _named(self, error: KernelError, kernel: Kernel) -> KernelError:
        """The error of a walk, with the kernel, the operation and the user's line."""
        notes = getattr(error, "__notes__", [])
        within = "".join(f"\n  {note}" for note in notes[:1])
        source = _line(kernel, notes[1]) if len(notes) > 1 else error.source
        told = error.what.removeprefix(f"kernel {kernel.name}").lstrip(",: ")
        what = f"kernel {kernel.name}, emulated for {self.name}: {told}{within}"
        return type(error)(what, error.remedy, source or kernel.source)


def _operands(kernel: Kernel, arrays: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(a, t.dtype) for a, t in zip(arrays, kernel.in_types, strict=True)]


def _line(kernel: Kernel, location: str) -> Source | None:
    """The line of a kernel's body that a location of MLIR names."""
    found = re.search(r'"(.*?)":(\d+):', location)
    place = found and (found[1].replace("\\5C", "\\").replace("\\22", '"'), int(found[2]))
    return next((s for s in _sources(kernel.body) if (s.code.co_filename, s.line) == place), None)


def _sources(program: Program) -> Iterator[Source]:
    for eqn in program.eqns:
        if eqn.source is not None:
            yield eqn.source
        for _, inner in subprograms(eqn):
            yield from _sources(inner)
