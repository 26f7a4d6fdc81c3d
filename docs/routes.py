"""The table of docs/gpu.md on kernels for Hopper by each route: registers, spills, shared memory, stages.

`python -m docs.routes` compiles the kernels for sm_90, with no GPU, and rewrites the table.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright import mosaic_gpu, nn, triton_backend
from tilewright import numpy as tnp
from tilewright.core.errors import TilewrightError
from tilewright.kernels.fused.attention import dot_product_attention
from tilewright.lang.gpu.resources import resources
from tilewright.lang.kernel import Kernel
from tilewright.lang.target import target_of
from tilewright.lang.visit import kernels_of

from .capabilities import table

PAGE = Path(__file__).resolve().parent / "gpu.md"
TARGET = target_of("cuda:sm_90")
MARK = "<!-- routes: made by python -m docs.routes -->\n"
END = "<!-- end of routes -->"


def _struct(*shape: int, dtype: str = "float16") -> Any:
    return tw.ShapeDtypeStruct(shape, dtype)


def _gradient(**options: Any) -> Callable[..., Any]:
    attend = functools.partial(dot_product_attention, **options)
    return lambda q, k, v, ct: tw.vjp(attend, q, k, v)[1](ct)


SQUARE, QUERY, KEYS = _struct(4096, 4096), _struct(2, 4096, 16, 128), _struct(2, 4096, 4, 128)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product, 4096": (lambda a, b: a @ b, (SQUARE, SQUARE)),
    "product, 16 of 1024, bfloat16": (lambda a, b: a @ b, (_struct(16, 1024, 1024, dtype="bfloat16"),) * 2),
    "product, bias, gelu": (
        lambda a, b, c: nn.gelu(tnp.matmul(a, b, preferred_element_type="float32") + c).astype("float16"),
        (SQUARE, SQUARE, _struct(4096, dtype="float32"))),
    "product, residual": (lambda a, b, c: a @ b + c, (SQUARE, SQUARE, SQUARE)),
    "int8 weights": (lambda a, w: a @ w.astype("float16"), (SQUARE, _struct(4096, 4096, dtype="int8"))),
    "attention, causal, 16 heads on 4": (_gradient(is_causal=True), (QUERY, KEYS, KEYS, QUERY)),
    "attention, window of 1024": (_gradient(local_window_size=(1024, 0)), (QUERY, KEYS, KEYS, QUERY)),
}  # fmt: skip


def kernels(name: str) -> list[Kernel]:
    """The kernels with products of a case."""
    function, types = CASES[name]
    found = tw.compile(function, *types, target=TARGET.name, stop="fuse")
    return [k for k in kernels_of(getattr(found, "program", found)) if "dot_general" in repr(k)]


def _row(kernel: Kernel, backend: Any) -> list[str]:
    """What a kernel takes by one route, or why it does not take it."""
    try:
        module, compiled = backend.compiled_kernel(kernel, TARGET)
    except TilewrightError as error:
        return ["", "", "", error.what.partition("Mosaic GPU: ")[2] or error.what.splitlines()[0]]
    used = resources(compiled, TARGET)
    stages = getattr(module, "stages", None) or getattr(module, "num_stages", "")
    return [str(used.registers), str(used.spills), f"{used.fast_bytes:,}", str(stages)]


def rows() -> Iterator[list[str]]:
    for name in CASES:
        for kernel in kernels(name):
            shown = f"{name}: `{kernel.name}`"
            for route, backend in (("Mosaic GPU", mosaic_gpu), ("Triton", triton_backend)):
                yield [shown, route, *_row(kernel, backend)]
                shown = ""


def made() -> str:
    """The page with its table made anew."""
    head = ["kernel", "route", "registers", "spilled bytes", "shared memory", "stages"]
    text, found = PAGE.read_text(), table(head, rows())
    return re.sub(re.escape(MARK) + ".*?" + re.escape(END), lambda _: f"{MARK}{found}{END}", text, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(made())
