"""The tables of docs/gpu.md on kernels by each route: registers, spills, shared memory, stages.

`python -m docs.routes` compiles the kernels, with no GPU, and rewrites the tables: that of Hopper, that of Mosaic GPU's
kernels in large shapes on Hopper and Blackwell, and where CUTLASS is installed that of CUTLASS, whose kernels take
minutes unless they are in the disk cache.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tilewright as tw
from tests.support.gpu.hopper_large import LARGE
from tilewright import cutlass_backend, lax, mosaic_gpu, nn, triton_backend
from tilewright.compiler.backend_selection import CUTLASS as CUTLASS_ROUTE
from tilewright.core.support.errors import TilewrightError, VersionError
from tilewright.kernels.fused.attention import dot_product_attention
from tilewright.lang.gpu.code import resources
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import Target, target_of

from .capabilities import table

PAGE = Path(__file__).resolve().parent / "gpu.md"
TARGET = target_of("cuda:sm_90")
MARK = "<!-- routes: made by python -m docs.routes -->\n"
END = "<!-- end of routes -->"
LARGE_MARK, LARGE_END = "<!-- large: made by python -m docs.routes -->\n", "<!-- end of large -->"
CUTLASS_MARK = "<!-- CUTLASS: made by python -m docs.routes -->\n"
CUTLASS_END = "<!-- end of CUTLASS -->"


def _struct(*shape: int, dtype: str = "float16") -> Any:
    return tw.ShapeDtypeStruct(shape, dtype)


def _gradient(**options: Any) -> Callable[..., Any]:
    attend = functools.partial(dot_product_attention, **options)
    return lambda q, k, v, ct: tw.vjp(attend, q, k, v)[1](ct)


def _product(a: Any, b: Any) -> Any:
    """A product in float32; factors of float8 are both summed along their rows, as Hopper asks."""
    summed = 1 if a.dtype.itemsize == 1 else 0
    return lax.dot_general(a, b, (((1,), (summed,)), ((), ())), preferred_element_type="float32")


HALF, BRAIN, BYTE, SINGLE = "float16", "bfloat16", "float8_e4m3fn", "float32"
SQUARE, QUERY, KEYS = _struct(4096, 4096), _struct(2, 4096, 16, 128), _struct(2, 4096, 4, 128)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product, 4096": (lambda a, b: a @ b, (SQUARE, SQUARE)),
    "product, 16 of 1024, bfloat16": (lambda a, b: a @ b, (_struct(16, 1024, 1024, dtype=BRAIN),) * 2),
    "int8 weights": (lambda a, w: a @ w.astype(HALF), (SQUARE, _struct(4096, 4096, dtype="int8"))),
    "attention, causal, 16 heads on 4": (_gradient(is_causal=True), (QUERY, KEYS, KEYS, QUERY)),
    "attention, window of 1024": (_gradient(local_window_size=(1024, 0)), (QUERY, KEYS, KEYS, QUERY)),
}
# What follows a product, and its operand: one for each column, one for each element, one for each row.
ENDINGS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "bias, gelu": (lambda d, c: nn.gelu(d + c), (4096,)),
    "residual": (lambda d, c: d + c, (4096, 4096)),
    "scale per row": (lambda d, s: d * s[:, None], (4096,)),
}


def _ended(ending: str, dtype: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A product of 4096 x 4096 matrices with what follows it; that of float8 gives bfloat16."""
    after, shape = ENDINGS[ending]
    out = BRAIN if dtype == BYTE else dtype
    factor, operand = _struct(4096, 4096, dtype=dtype), _struct(*shape, dtype=out if len(shape) == 2 else SINGLE)
    return lambda a, b, c: after(_product(a, b), c).astype(out), (factor, factor, operand)


ENDED = {f"product, {ending}, {dtype}": _ended(ending, dtype) for ending in ENDINGS for dtype in (HALF, BRAIN, BYTE)}
CASES |= ENDED
CUTLASS = "cuda:sm_90", "cuda:sm_100"  # what CUTLASS compiles `ENDED` for, a minute or more each


def kernels(name: str) -> list[Kernel]:
    """The kernels with products of a case."""
    function, types = CASES[name]
    found = tw.compile(function, *types, target=TARGET.name, stop="fuse")
    return [k for k in kernels_of(getattr(found, "program", found)) if "dot_general" in repr(k)]


def _row(kernel: Kernel, backend: Any, target: Target = TARGET) -> list[str]:
    """What a kernel takes by one route, or why it does not take it."""
    try:
        module, compiled = backend.compiled_kernel(kernel, target)
    except TilewrightError as error:
        return ["", "", "", error.what.partition("Mosaic GPU: ")[2] or error.what.splitlines()[0]]
    used = resources(compiled, target)
    stages = getattr(module, "stages", None) or getattr(module, "num_stages", "")
    return [str(used.registers), str(used.spills), f"{used.fast_bytes:,}", str(stages)]


def rows() -> Iterator[list[str]]:
    for name in CASES:
        for kernel in kernels(name):
            shown = f"{name}: `{kernel.name}`"
            for route, backend in (("Mosaic GPU", mosaic_gpu), ("Triton", triton_backend)):
                yield [shown, route, *_row(kernel, backend)]
                shown = ""


def large_rows() -> Iterator[list[str]]:
    """Kernels with products in large shapes, by Mosaic GPU on both architectures, or why they are not."""
    targets = [target_of("cuda:sm_90"), target_of("cuda:sm_100")]
    for name, make in LARGE.items():
        for kernel in make():
            shown = f"{name}: `{kernel.name}`"
            for target in targets:
                yield [shown, f"`{target.name}`", *_row(kernel, mosaic_gpu, target)]
                shown = ""


def cutlass_rows() -> Iterator[list[str]]:
    found = [(name, kernel) for name in ENDED for kernel in kernels(name)]
    for target in CUTLASS:
        CUTLASS_ROUTE.ready.start([kernel for _, kernel in found], target_of(target))
        for name, kernel in found:
            yield [f"{name}: `{kernel.name}`", f"`{target}`", *_row(kernel, cutlass_backend, target_of(target))]


def _replaced(text: str, mark: str, end: str, made: str) -> str:
    return re.sub(re.escape(mark) + ".*?" + re.escape(end), lambda _: f"{mark}{made}{end}", text, flags=re.S)


def made() -> str:
    """The page with its tables made anew; CUTLASS's only where it is installed."""
    columns = ["registers", "spilled bytes", "shared memory", "stages"]
    text = _replaced(PAGE.read_text(), MARK, END, table(["kernel", "route", *columns], rows()))
    text = _replaced(text, LARGE_MARK, LARGE_END, table(["kernel", "target", *columns], large_rows()))
    try:
        cutlass_backend.check_installed()
    except VersionError:
        return text
    return _replaced(text, CUTLASS_MARK, CUTLASS_END, table(["kernel", "target", *columns], cutlass_rows()))


if __name__ == "__main__":
    PAGE.write_text(made())
