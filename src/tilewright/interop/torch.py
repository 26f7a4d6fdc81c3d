"""Functions and kernels of tilewright on torch's tensors, with their generated derivatives.

    from tilewright.interop import torch as tt
    softmax = tt.call(tilewright.nn.softmax)
    softmax(x).sum().backward()         # on torch's current stream; autograd runs the generated backward

CUDA tensors are taken as they lie, by the compiled kernels; tensors in this machine's memory by the CPU's program.

Under `torch.compile` a call is one custom operator, `tilewright::NAME_NUMBER`, which its tracing does not enter.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..core.ir.program import Program
from ..core.ir.types import ArrayType
from ..core.jit.jit import jit
from ..core.support import pytree as tree
from ..core.support.config import config, current
from ..core.support.errors import DtypeError, HostArrayError, UnsupportedError, VersionError
from ..core.support.memo import cached, once
from ..core.support.runtime import runtime
from ..core.tracing.trace import eval_program
from ..core.transforms.linearize import linearize_program
from ..core.transforms.transpose import transpose_program
from ..devices import block_until_ready
from .driver import driver
from .foreign import ALIGNMENT, Described, check_pointer, check_strides, host_array
from .launch import BYTE, HOST, NONE, Bound, Function, Launch, bound

__all__ = ["call"]
__dir__: Callable[[], list[str]] = __all__.copy

_DTYPES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
)  # fmt: skip
ON_HOST = -1  # torch's number of this machine's memory, where GPUs count from 0


def _numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


class TorchLibrary:
    """torch, as launching sees it."""

    name = "tensor of torch"

    @functools.cached_property
    def module(self) -> Any:
        try:
            return importlib.import_module("torch")
        except ImportError:
            raise VersionError("torch is not installed", "pip install torch") from None

    @property
    def installed(self) -> bool:
        return "torch" in sys.modules or importlib.util.find_spec("torch") is not None

    @functools.cached_property
    def dtypes(self) -> dict[Any, np.dtype]:
        """NumPy's dtypes by torch's; those that this torch lacks are left out."""
        return {getattr(self.module, n): _numpy_dtype(n) for n in _DTYPES if hasattr(self.module, n)}

    @functools.cached_property
    def own_dtypes(self) -> dict[np.dtype, Any]:
        return {v: k for k, v in self.dtypes.items()}

    def device(self, x: Any) -> int:
        """The number of the GPU that holds a tensor, or ON_HOST."""
        if x.device.type not in ("cuda", "cpu"):
            raise HostArrayError(f"a tensor of shape {tuple(x.shape)} is on {x.device}",
                                 "move it: `x.cuda()` or `x.cpu()`")  # fmt: skip
        return x.device.index if x.is_cuda else ON_HOST

    def place(self, device: int) -> Any:
        """torch's name of a GPU."""
        return self.module.device("cuda", device)

    def describe(self, x: Any) -> Described:
        if not isinstance(x, self.module.Tensor):
            raise host_array(self.name, x)
        device = self.device(x)
        dtype = self.dtypes.get(x.dtype)
        if dtype is None:
            raise DtypeError(f"a tensor of {x.dtype} has no counterpart here", "cast it")
        shape, pointer = tuple(x.shape), x.data_ptr()
        if device == ON_HOST:
            return Described(pointer, shape, dtype, device)
        if not x.is_contiguous():
            check_strides("tensor", shape, [s * dtype.itemsize for s in x.stride()], dtype.itemsize)
        if not pointer or pointer % ALIGNMENT:
            check_pointer("tensor", pointer, shape)
        return Described(pointer, shape, dtype, device)

    def pointer(self, x: Any) -> int:
        return x.data_ptr()

    def to_host(self, x: Any) -> np.ndarray:
        """A tensor in this machine's memory as an array over the same memory, if it is contiguous."""
        flat = x.detach().reshape(-1).view(self.module.uint8).numpy()
        return flat.view(self.dtypes[x.dtype]).reshape(tuple(x.shape))

    def from_host(self, x: Any) -> Any:
        """An array as a tensor; over the same memory where torch takes such arrays."""
        if x.dtype.name.startswith("float8"):  # which arrays are not exchanged in
            return self.module.tensor(np.asarray(x).view(np.uint8)).view(self.own_dtypes[x.dtype])
        return self.module.from_dlpack(x)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Any:
        return self.module.empty(shape, dtype=self.own_dtypes[dtype], device=self.place(device))

    def view(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.view(shape)

    def stream(self, device: int) -> int:
        return self._stream(device)

    @functools.cached_property
    def _stream(self) -> Callable[[int], int]:
        short = getattr(getattr(self.module, "_C", None), "_cuda_getCurrentRawStream", None)
        return short or (lambda device: self.module.cuda.current_stream(device).cuda_stream)


_LIBRARY = TorchLibrary()
_numbers = runtime.part("interop.torch.names", itertools.count())


@dataclass(frozen=True)
class Parts:
    """Reverse mode of a Program.

    `primal` gives its `outputs`, then residuals; `backward` takes the residuals and the cotangents of the outputs that
    move with the inputs, and gives those of the inputs.
    """

    primal: Program
    backward: Program
    outputs: int
    moving: tuple[bool, ...]


@cached(1024)
def forward_and_backward(program: Program, wanted: tuple[bool, ...]) -> Parts:
    """Reverse mode in two Programs, with respect to the inputs `wanted`."""
    primal, linear, moving, residuals = linearize_program(program, wanted)
    tangents = len(linear.inputs) - residuals
    backward = transpose_program(linear, (False,) * residuals + (True,) * tangents)
    return Parts(primal, backward, len(program.outputs), moving)


@cached(1024)
def _compiled_on_host(program: Program) -> Any:
    return jit(lambda *args: eval_program(program, *args))


class TorchFunction(Function):
    """A function of torch's tensors."""

    library: TorchLibrary

    def __init__(self, function: Callable[..., Any], library: TorchLibrary, donate: Sequence[int] = ()):
        super().__init__(function, library, donate)
        # By shapes, dtypes and GPUs: the configuration, and the call where it is one launch.
        self.single: dict[Any, Any] = {}
        # Made now, for torch.compile cannot trace the making of an operator.
        self.operators: Any = Operators(self) if library.installed else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = self.library.module
        if torch.compiler.is_compiling():
            return self.operators(list(args))
        if kwargs or self.donate or (torch.is_grad_enabled() and any([getattr(x, "requires_grad", 0) for x in args])):
            return self.general(args, kwargs)
        try:
            key = tuple([(x.shape, x.dtype, x.get_device()) for x in args])
        except AttributeError:  # a number, a pytree, or no tensor at all
            return self.general(args, kwargs)
        config, run = self.single.get(key, (None, None))
        if config is not current():
            return self._first(key, args)
        if run is None:
            return self.general(args, kwargs)
        return run(args)

    def _first(self, key: Any, args: tuple[Any, ...]) -> Any:
        """The general call; if it is one launch and nothing more, the next on such tensors is short."""
        leaves, described, structure, device = self.operands(args, {})
        found = self.traced(leaves, described, structure, device)
        step = None
        if device != ON_HOST and not found.constants and len(leaves) == len(args):
            plan = bound(found.program, self.library, device)
            step = plan.alone()
        self.single[key] = current(), None if step is None else self._short(plan, step, device, found.structure)
        return self.general(args, {})

    def _short(self, plan: Bound, step: Launch, device: int, structure: Any) -> Callable[[tuple[Any, ...]], Any]:
        library, code, (function,) = self.library, step.compiled, plan.functions
        empty, place, found, one = library.module.empty, library.place(device), driver(), structure == tree.structure(0)
        makes = [(t.shape, library.own_dtypes[t.dtype]) for t in step.types]
        size, byte = code.scratch_bytes, library.own_dtypes[BYTE]

        def run(args: tuple[Any, ...]) -> Any:
            pointers = [x.data_ptr() for x in args]
            if any([not p or p % ALIGNMENT for p in pointers]) or not all([x.is_contiguous() for x in args]):
                return self.general(args, {})
            outs = [empty(shape, dtype=dtype, device=place) for shape, dtype in makes]
            pointers += [x.data_ptr() for x in outs]
            scratch = empty((size,), dtype=byte, device=place) if size else None
            pointers += (0 if scratch is None else scratch.data_ptr(), 0)
            found.enter(device)
            found.launch(function, code.grid, code.threads, code.shared, library.stream(device), pointers)
            return outs[0] if one else structure.unflatten(outs)

        return run

    def general(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of any kind: pytrees, numbers, derivatives."""
        torch = self.library.module
        leaves, described, structure, device = self.operands(args, kwargs)
        found = self.traced(leaves, described, structure, device)
        values = [*found.constants, *leaves]
        if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in leaves):
            wanted = tuple(getattr(x, "requires_grad", False) for x in values)
            results = _autograd().apply(self, found.program, wanted, device, *values)
        else:
            results = self.run(found.program, values, device, self.donated(found, leaves), described)
        return found.structure.unflatten(results)

    def run(
        self, program: Program, values: Sequence[Any], device: int, donated: frozenset[int] = NONE,
        described: Sequence[Described | None] = (),
    ) -> list[Any]:  # fmt: skip
        if device != ON_HOST:
            return super().run(program, values, device, donated, described)
        library, given = self.library, set()
        arrays = []
        for value in values:
            arrays.append(value if isinstance(value, HOST) else library.to_host(value))
            given |= {value.data_ptr()} if arrays[-1] is not value else set()
        with config(enable_x64=True):  # the Program has the dtypes of its operands
            results = [library.from_host(r) for r in block_until_ready(_compiled_on_host(program)(*arrays))]
        return [r.clone() if r.data_ptr() in given else r for r in results]


@once
def _autograd() -> Any:
    """The differentiable function of torch that runs a Program, and its generated backward."""
    torch = _LIBRARY.module

    class Launched(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, function: Any, program: Program, wanted: Any, device: int, *values: Any) -> Any:
            parts = forward_and_backward(program, wanted)
            results = function.run(parts.primal, values, device)
            outs, residuals = results[: parts.outputs], results[parts.outputs :]
            ctx.save_for_backward(*residuals)
            ctx.launched = function, parts, wanted, device
            ctx.mark_non_differentiable(*(o for o, moves in zip(outs, parts.moving, strict=True) if not moves))
            return tuple(outs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            function, parts, wanted, device = ctx.launched
            moving = [ct.contiguous() for ct, moves in zip(cotangents, parts.moving, strict=True) if moves]
            found = iter(function.run(parts.backward, [*ctx.saved_tensors, *moving], device))
            return (None, None, None, None, *(next(found) if w else None for w in wanted))

    return Launched


class Operators:
    """A function as custom operators of torch: tensors to tensors, their shapes by tracing it.

    One gives the results; another also residuals, and has as its derivative the third, which takes them and cotangents.
    """

    function: TorchFunction
    library: TorchLibrary
    outputs: int
    one: Any

    def __init__(self, function: TorchFunction):
        self.function, self.library = function, function.library
        self.outputs, self.one = 0, True  # of the results: how many, and whether it is one array. Known once traced
        custom = self.library.module.library.custom_op
        name = "".join(c if c.isalnum() else "_" for c in function.__name__).strip("_") or "function"
        named = f"tilewright::{name}_{next(_numbers)}"
        tensors, flags = "Tensor[] operands", "bool[] wanted"
        self.plain: Any = custom(named, self._plain, mutates_args=(), schema=f"({tensors}) -> Tensor[]")
        self.forward: Any = custom(f"{named}_forward", self._forward, mutates_args=(),
                              schema=f"({tensors}, {flags}) -> Tensor[]")  # fmt: skip
        self.backward: Any = custom(f"{named}_backward", self._backward, mutates_args=(),
                               schema=f"({tensors}, {flags}, Tensor[] given) -> Tensor[]")  # fmt: skip
        self.plain.register_fake(lambda operands: self._empty(self.program(operands), operands))
        self.forward.register_fake(lambda operands, wanted: self._empty(self._parts(operands, wanted).primal, operands))
        self.backward.register_fake(
            lambda operands, wanted, given: self._empty(self._parts(operands, wanted).backward, operands)
        )
        self.forward.register_autograd(self._derivative, setup_context=self._setup)

    def __call__(self, operands: list[Any]) -> Any:
        wanted = [x.requires_grad for x in operands]
        if self.library.module.is_grad_enabled() and any(wanted):
            results = self.forward(operands, wanted)
        else:
            results = self.plain(operands)
        return results[0] if self.one else tuple(results[: self.outputs])

    def program(self, operands: Sequence[Any]) -> Program:
        """The Program for tensors, which may be torch's fake ones."""
        types = tuple(ArrayType(tuple(map(int, x.shape)), self.library.dtypes[x.dtype]) for x in operands)
        _, structure = tree.flatten((tuple(range(len(operands))), {}))
        device = self.library.device(operands[0]) if operands else 0
        found = self.function.for_types(structure, types, device)
        self.outputs, self.one = len(found.program.outputs), found.structure == tree.structure(0)
        if found.constants or not (self.one or found.structure == tree.structure((0,) * self.outputs)):
            raise UnsupportedError(
                f"{self.function.__name__} closes over arrays, or gives {found.structure}, under torch.compile",
                "pass every array as an argument, and give one array or a tuple of arrays",
            )
        return found.program

    def _parts(self, operands: Sequence[Any], wanted: Sequence[bool]) -> Parts:
        return forward_and_backward(self.program(operands), tuple(wanted))

    def _empty(self, program: Program, operands: Sequence[Any]) -> list[Any]:
        types: Sequence[Any] = program.out_types
        return [operands[0].new_empty(t.shape, dtype=self.library.own_dtypes[t.dtype]) for t in types]

    def _run(self, program: Program, operands: Sequence[Any]) -> list[Any]:
        # An operator may not give its operand, nor a view of one.
        given = {x.data_ptr() for x in operands}
        results = self.function.run(program, operands, self.library.device(operands[0]))
        return [r.clone() if r.data_ptr() in given else r for r in results]

    def _plain(self, operands: list[Any]) -> list[Any]:
        return self._run(self.program(operands), operands)

    def _forward(self, operands: list[Any], wanted: list[bool]) -> list[Any]:
        return self._run(self._parts(operands, wanted).primal, operands)

    def _backward(self, operands: list[Any], wanted: list[bool], given: list[Any]) -> list[Any]:
        return self._run(self._parts(operands, wanted).backward, given)

    @staticmethod
    def _setup(ctx: Any, inputs: Any, output: Any) -> None:
        operands, wanted = inputs
        ctx.wanted, ctx.count = list(wanted), len(operands)
        ctx.save_for_backward(*operands, *output)

    def _derivative(self, ctx: Any, cotangents: Sequence[Any]) -> Any:
        operands, results = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        parts = self._parts(operands, ctx.wanted)
        moving = [
            x.new_zeros(x.shape) if ct is None else ct.contiguous()
            for x, ct, moves in zip(results, cotangents, parts.moving, strict=False) if moves
        ]  # fmt: skip
        given = [*results[parts.outputs :], *moving]
        found = iter(self.backward(list(operands), ctx.wanted, given))
        return [next(found) if w else None for w in ctx.wanted], None


def call(function: Callable[..., Any], *, donate: int | Sequence[int] = ()) -> TorchFunction:
    """A function of torch's tensors. On CUDA tensors it is launched on torch's current stream with no copy and no wait;
    on tensors in this machine's memory it is the CPU's compiled program.

    Gradients flow through it, once. Under `torch.compile` it is a custom operator, of tensors given by position.
    `donate` are positions of arguments (leaves of pytrees) whose memory results may take where no gradient is asked
    for. Integers of 64 bits are computed with in 32, unless `enable_x64` says otherwise or floats of 64 bits are among
    the operands. Raises as `arrays.call`.

    >>> call(lambda x: x * 2).__name__
    '<lambda>'
    """
    return TorchFunction(function, _LIBRARY, (donate,) if isinstance(donate, int) else donate)
