"""The part of torch that `interop.torch` uses, over host memory: tensors, one level of autograd, custom operators."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from tests.support.gpu.host_gpu import aligned


class Tensor:
    """A tensor on GPU `index`; `version` of the array kept as NumPy's."""

    def __init__(self, array: Any, requires_grad: bool = False, index: int | None = 0):
        self.array = array if isinstance(array, np.ndarray) and array.base is not None else aligned(np.asarray(array))
        self.requires_grad, self.grad = requires_grad, None
        self.device = types.SimpleNamespace(index=index, type="cpu" if index is None else "cuda")
        self.made_by: Any = None

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: f"torch.{self.array.dtype.name}")
    is_cuda = property(lambda self: self.device.index is not None)

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def is_contiguous(self) -> bool:
        return self.array.flags.c_contiguous

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def contiguous(self) -> Tensor:
        return self

    def view(self, shape: Any) -> Tensor:
        as_bytes = shape == "torch.uint8"
        return Tensor(self.array.view(np.uint8) if as_bytes else self.array.reshape(shape), index=self.device.index)

    def reshape(self, *shape: int) -> Tensor:
        return self.view(shape)

    def detach(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        assert self.device.type == "cpu", "torch has no arrays over a GPU's memory"
        return self.array

    def clone(self) -> Tensor:
        return Tensor(self.array.copy(), index=self.device.index)

    def new_empty(self, shape: Any, dtype: str) -> Tensor:
        return empty(shape, dtype)

    def backward(self, cotangent: Tensor) -> None:
        context, position, count = self.made_by
        given = [Tensor(np.zeros(s, "float32")) for s in context.shapes[:count]]
        given[position] = cotangent
        for operand, gradient in zip(context.operands, context.function.backward(context, *given), strict=True):
            if isinstance(operand, Tensor) and operand.requires_grad:
                operand.grad = gradient


def empty(shape: Any, dtype: str, device: Any = None) -> Tensor:
    return Tensor(np.full(shape, 77).astype(dtype.removeprefix("torch.")))


class Context:
    """What `forward` leaves for `backward`."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        self.constant = tensors


class Function:
    @classmethod
    def apply(cls, *args: Any) -> Any:
        context = Context()
        context.operands, context.function = args, cls
        outs = cls.forward(context, *args)
        context.shapes = [o.shape for o in outs]
        for i, out in enumerate(outs):
            if not any(out is c for c in context.constant):
                out.requires_grad, out.made_by = True, (context, i, len(outs))
        return outs


class Operator:
    """`torch.library.custom_op`: the function, with what is registered for it."""

    def __init__(self, name: str, function: Any, mutates_args: Any, schema: str):
        self.name, self.function, self.schema = name, function, schema
        self.fake = self.derivative = self.setup = None

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def register_fake(self, function: Any) -> None:
        self.fake = function

    def register_autograd(self, derivative: Any, *, setup_context: Any) -> None:
        self.derivative, self.setup = derivative, setup_context


def module() -> Any:
    """A module to be found as `torch`."""
    torch: Any = types.ModuleType("torch")
    for name in ("float32", "float64", "float16", "uint8", "int32", "int64", "bool"):
        setattr(torch, name, f"torch.{name}")
    torch.Tensor, torch.empty, torch.device = Tensor, empty, lambda kind, index: (kind, index)
    torch.is_grad_enabled = lambda: True
    torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=5))
    torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
    torch.autograd = types.SimpleNamespace(Function=Function)
    torch.from_dlpack = lambda x: Tensor(np.asarray(x), index=None)
    torch.library = types.SimpleNamespace(custom_op=Operator)
    return torch
