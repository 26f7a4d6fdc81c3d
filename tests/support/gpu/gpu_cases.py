"""Kernels that are compiled for GPUs in the tests: the corpus, templates of standard operations, fused operations."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import tilewright as tw
from tests.support.corpus.runs import KERNELS, operands
from tests.support.laws import CASES
from tests.support.traced import kernels_in
from tilewright.core.ir.types import ArrayType
from tilewright.core.support import pytree
from tilewright.core.tracing.trace import typeof
from tilewright.kernels import TEMPLATES
from tilewright.kernels.fused import OPERATIONS
from tilewright.kernels.fused.adamw import adamw as update
from tilewright.kernels.fused.adamw import init
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.targets.target import Target


def corpus(which: slice = slice(None)) -> Iterator[tuple[str, Kernel]]:
    """The kernels of the corpus, by name, size and mode."""
    for name, module in KERNELS.items():
        for size in module.SIZES[which]:
            types = [typeof(x) for x in operands(module, size)]
            for number, mode in enumerate(getattr(module, "MODES", ({},))):
                call = functools.partial(module.call, **size.blocks, **mode)
                label = f"{name}-{size!r}" + (f"-mode{number}" if number else "")
                for i, kernel in enumerate(kernels_in(call, types, name)):
                    yield label + (f"-kernel{i}" if i else ""), kernel


TEMPLATE_CASES = {case.primitive.name: case for case in reversed(CASES) if case.primitive in TEMPLATES}


def template(name: str, machine: Target) -> Kernel:
    """The kernel of a template at the target's default tiles, for its first case."""
    case = TEMPLATE_CASES[name]
    return TEMPLATES[case.primitive].kernel(*case.types, target=machine, **case.params)


# ---------------------------------------------------------------------------- fused operations at sizes of use


def _types(*shapes: tuple[int, ...], dtype: str = "bfloat16") -> list[ArrayType]:
    return [ArrayType(shape, dtype) for shape in shapes]


LABELS = ArrayType((4096,), "int32")
ROWS, VECTOR = (4096, 8192), (8192,)
MLP = _types((512, 1024), (1024, 4096), (1024, 4096), (4096, 1024))

# name -> the operation, its differentiated operands, the others, options
FUSED: dict[str, tuple[str, list[ArrayType], list[ArrayType], dict[str, Any]]] = {
    "softmax": ("softmax", _types(ROWS), [], {}),
    "log_softmax": ("log_softmax", _types(ROWS), [], {}),
    "rms_norm": ("rms_norm", _types(ROWS, VECTOR), [], {}),
    "layer_norm": ("layer_norm", _types(ROWS, VECTOR, VECTOR), [], {}),
    "group_norm": ("group_norm", _types((8, 32, 32, 512), (512,), (512,)), [], {"groups": 32}),
    "cross_entropy": ("cross_entropy", _types(ROWS), [LABELS], {}),
    "cross_entropy-vocabulary": ("cross_entropy", _types((4096, 50257)), [LABELS], {}),
    "linear_cross_entropy": ("linear_cross_entropy", _types((4096, 1024), (1024, 50257)), [LABELS], {}),
    "attention": ("dot_product_attention", _types(*[(2, 2048, 8, 128)] * 3), [], {}),
    "attention-causal": ("dot_product_attention", _types((2, 2048, 8, 64), *[(2, 2048, 4, 64)] * 2), [],
                         {"is_causal": True}),
    "swiglu": ("swiglu", MLP, [], {}),
    "geglu": ("geglu", MLP, [], {}),
    "rotary_embedding": ("rotary_embedding", _types((2, 2048, 8, 128)), [], {}),
}  # fmt: skip
FUSED_MORE = {
    **{f"attention-{h}-{dtype}": ("dot_product_attention", _types(*[(1, 1024, 4, h)] * 3, dtype=dtype), [], {})
       for h, dtype in ((64, "float16"), (128, "float32"), (256, "bfloat16"), (80, "bfloat16"))},
    "attention-window": ("dot_product_attention", _types(*[(1, 4096, 4, 128)] * 3), [],
                         {"is_causal": True, "local_window_size": (1023, 0)}),
    "attention-odd": ("dot_product_attention", _types((1, 1000, 4, 128), *[(1, 777, 4, 128)] * 2), [], {}),
    "attention-bias": ("dot_product_attention", _types(*[(1, 1024, 4, 64)] * 3, (1, 4, 1024, 1024)), [], {}),
    "softmax-float32": ("softmax", _types((4096, 16384), dtype="float32"), [], {}),
    "swiglu-float32": (
        "swiglu", _types((512, 1024), (1024, 4096), (1024, 4096), (4096, 1024), dtype="float32"), [], {}),
    "swiglu-odd": ("swiglu", _types((1000, 1000), (1000, 2730), (1000, 2730), (2730, 1000)), [], {}),
}  # fmt: skip


def fused(name: str, target: str) -> list[tuple[str, Kernel]]:
    """The kernels of a fused operation and of its gradient, traced for a target, by name."""
    operation, types, rest, options = (FUSED | FUSED_MORE)[name]
    function = OPERATIONS[operation].function
    n = len(types)

    def total(*args: Any) -> Any:
        return sum(y.astype("float32").sum() for y in pytree.leaves(function(*args, **options)))

    with tw.config(kernel_target=target):
        found = kernels_in(tw.value_and_grad(total, tuple(range(n))), [*types, *rest], name)
    return [(f"{name}-{kernel.name}", kernel) for kernel in dict.fromkeys(found)]


def adamw(target: str) -> list[tuple[str, Kernel]]:
    """The kernels of a step of AdamW."""

    def step(p: Any, q: Any) -> Any:
        return update([p, q], [p, q], init([p, q]), learning_rate=0.1)

    with tw.config(kernel_target=target):
        found = kernels_in(step, _types((4096, 1024), (1000,)), "adamw")
    return [(f"adamw-{i}", kernel) for i, kernel in enumerate(dict.fromkeys(found))]
