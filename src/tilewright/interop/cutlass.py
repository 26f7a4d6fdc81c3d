"""Kernels in CUDA C++ of one's own, over CUTLASS's and CuTe's headers, as functions of arrays.

from tilewright.interop import cutlass
double = cutlass.kernel(source, lambda x: x, entry="twice", grid=32, threads=128)
y = tilewright.jit(double)(x)          # in a program; under interop.torch.call on torch's tensors
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.api.custom_vmap import custom_vmap, sequential_vmap
from ..core.api.transformations import jvp
from ..core.primitives.custom.custom_derivatives import custom_jvp
from ..core.primitives.external.host_callback import pure_callback
from ..core.support import pytree
from ..core.support.errors import ArgumentError, NoDerivativeError, UnsupportedError
from ..core.tracing.trace import as_type, typeof
from ..lang import BlockSpec, kernel_call
from ..lang.cutlass import Source

__all__ = ["kernel"]
__dir__: Callable[[], list[str]] = __all__.copy


def kernel(
    source: str, out_shape: Any, *, entry: str, grid: Any, threads: int, shared: Any = 0, scratch: Any = 0,
    meaning: Callable[..., Any] | None = None, vmap: str | Callable[..., Any] = "sequential",
) -> Callable[..., Any]:  # fmt: skip
    """A function of arrays that launches a kernel written in CUDA C++, compiled by NVRTC over CUTLASS's headers.

    `source` has `extern "C" __global__ void <entry>(...)`, which takes a pointer to each operand, to each result, and,
    if there are `scratch` bytes, to these. Before it stand the types `In0`, `In1`, ..., `Out0`, ..., and the sizes
    `in0_shape[]`, ..., of the operands and results of the call. `out_shape` is a `ShapeDtypeStruct`, a tuple of them,
    or a function of the operands' types that gives either; `grid` (blocks along x, y, z), `shared` (bytes of dynamic
    shared memory) and `scratch` are numbers, or functions of the operands' types too. A cluster is said in the source,
    by `__cluster_dims__`.

    `meaning` is a function of the operands that computes the same with array operations: what other devices run, and
    whose derivative this has; without it they raise `ExecutionError` and `NoDerivativeError`, and a derivative is given
    by `custom_vjp`. Under `vmap` the kernel is launched once for each element, or `vmap(axis_size, batched,
    *operands)` says what to do, as the rule of a `custom_vmap`.

    Raises:
      ArgumentError: the source has no such entry, or a size is none.
      VersionError: where it is compiled, CUTLASS's headers or NVRTC are missing.
      CompileError: NVRTC refuses the source.

    >>> import numpy as np
    >>> text = '''
    ... extern "C" __global__ void twice(In0 const* x, Out0* y) { y[threadIdx.x] = Out0(2) * x[threadIdx.x]; }
    ... '''
    >>> twice = kernel(text, lambda x: x, entry="twice", grid=1, threads=32, meaning=lambda x: x + x)
    >>> print(np.asarray(twice(np.arange(32, dtype="float32"))[:4]))
    [0. 2. 4. 6.]
    """
    if entry not in source or "__global__" not in source:
        raise ArgumentError(f"the source has no kernel {entry!r}", f'write `extern "C" __global__ void {entry}(...)`')
    if not isinstance(threads, int) or not 0 < threads <= 1024 or threads % 32:
        raise ArgumentError(f"{entry}: threads is {threads!r}", "a multiple of 32, 1024 at most")
    if not (vmap == "sequential" or callable(vmap)):
        raise ArgumentError(f"{entry}: vmap is {vmap!r}", '"sequential", or the rule of a `custom_vmap`')

    def launch(*operands: Any) -> Any:
        types: Any = tuple(typeof(x).strong() for x in operands)
        structs, structure = pytree.flatten(out_shape(*types) if callable(out_shape) else out_shape)
        outs: Any = tuple(as_type(s).strong() for s in structs)
        told = Source(
            source, entry, _grid(entry, _of(grid, types)), threads, _bytes(entry, "shared", _of(shared, types)),
            _bytes(entry, "scratch", _of(scratch, types)), types, outs)  # fmt: skip

        def body(*refs: Any) -> None:
            results = _meant(entry, meaning, outs, [r[...] for r in refs[: len(types)]])
            for ref, value in zip(refs[len(types) :], results, strict=True):
                ref[...] = value

        whole = BlockSpec()
        call = kernel_call(body, outs, name=entry, in_specs=[whole] * len(types), out_specs=(whole,) * len(outs),
                           compiler_params=told)  # fmt: skip
        return structure.unflatten(list(call(*operands)))

    launch.__name__ = entry
    return _derived(entry, _batched(launch, vmap), meaning)


def _batched(launch: Callable[..., Any], vmap: Any) -> Callable[..., Any]:
    if vmap == "sequential":
        return sequential_vmap(launch)
    found = custom_vmap(launch)
    found.def_vmap(vmap)
    return found


def _derived(entry: str, launch: Callable[..., Any], meaning: Callable[..., Any] | None) -> Callable[..., Any]:
    function = custom_jvp(launch)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        if meaning is None:
            raise NoDerivativeError(
                f"{entry} has no derivative: nothing is known of what its C++ computes",
                "give one by `custom_vjp`, or say what it computes, `meaning=function`")  # fmt: skip
        _, out_tangents = jvp(meaning, primals, tangents)
        return launch(*primals), out_tangents

    function.defjvp(rule)
    return function


def _meant(entry: str, meaning: Callable[..., Any] | None, outs: tuple[Any, ...], operands: list[Any]) -> list[Any]:
    """The results on devices that do not run the C++."""
    if meaning is not None:
        return pytree.leaves(meaning(*operands))

    def refuse(*arrays: Any) -> Any:
        raise UnsupportedError(
            f"{entry} is CUDA C++, which runs on NVIDIA GPUs alone",
            "say what it computes, `meaning=function`: other devices run that")  # fmt: skip

    return list(pure_callback(refuse, outs, *operands, vmap_method="sequential"))


def _of(value: Any, types: tuple[Any, ...]) -> Any:
    return value(*types) if callable(value) else value


def _grid(entry: str, value: Any) -> tuple[int, int, int]:
    sizes = (value,) if isinstance(value, int) else tuple(value)
    if not 1 <= len(sizes) <= 3 or any(not isinstance(n, int) or n < 1 for n in sizes):
        raise ArgumentError(f"{entry}: its grid is {value!r}", "one to three numbers of blocks, each 1 or more")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _bytes(entry: str, name: str, value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ArgumentError(f"{entry}: {name} is {value!r}", "a number of bytes")
    return value
