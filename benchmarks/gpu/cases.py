"""What `gpu` measures, the most important first: products, attention, forms of kernels, rows, products by CUTLASS."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tilewright import lax
from tilewright import numpy as tnp
from tilewright.lang import triton
from tilewright.lang.mosaic_gpu import CompilerParams
from tilewright.nn import fused, gelu

from .variants import Form, described_by_host, in_one_run, told

UNITS = {"TFLOP/s": 1e-12, "GB/s": 1e-9}
ROUTES, CUTLASS = ("mosaic_gpu", "triton"), ("cutlass",)
# Blocks that make many tiles of results, in clusters (two on Blackwell multiply together). What a GPU does not have is
# left out.
TILES: dict[str, Form] = {
    name: partial(told, params=params) for name, params in {
        "one tile a block": CompilerParams(persistent=False, cluster=1),
        "pairs": CompilerParams(persistent=False, cluster=2),
        "many tiles": CompilerParams(persistent=True, cluster=1),
        "many tiles, pairs": CompilerParams(persistent=True, cluster=2),
        "many tiles, fours": CompilerParams(persistent=True, cluster=4),
    }.items()
}  # fmt: skip
TURNS: dict[str, Form] = {
    "in turns": partial(told, params=CompilerParams(ping_pong=True)),
    "without turns": partial(told, params=CompilerParams(ping_pong=False)),
}
# Warps that copy and warps that compute, by Triton; Mosaic GPU always has both.
SPECIALISED: dict[str, Form] = {
    "Triton, warps divided": partial(told, params=triton.CompilerParams(warp_specialize=True)),
    "Triton, warps alike": partial(told, params=triton.CompilerParams(warp_specialize=False)),
}
DESCRIPTORS: dict[str, Form] = {
    "descriptors of the device": partial(told, params=CompilerParams(persistent=False, cluster=1)),
    "descriptors of the host": partial(described_by_host, params=CompilerParams(persistent=False, cluster=1)),
}


@dataclass(frozen=True)
class Case:
    """What is measured: `amount` operations or bytes a call, `wanted` of `against` (a rival's name, or "" for units).

    `function` is of tilewright; `rivals` maps names to functions of torch, made by a function of the module.
    """

    name: str
    unit: str  # TFLOP/s, GB/s or us (of the host, a call)
    amount: float
    shapes: tuple[tuple[int, ...], ...]
    function: Callable[..., Any]
    rivals: Callable[[Any], dict[str, Callable[..., Any]]]
    wanted: float
    against: str = ""
    dtype: str = "bfloat16"
    gradient: bool = False  # the time of the backward pass alone
    in_xla: bool = False  # whether it is measured as a program of XLA's that calls its kernels, too
    routed: tuple[str, ...] = ()  # the routes of kernels that it is measured by too, whose values are compared
    forms: tuple[tuple[str, Form], ...] = ()  # of its one kernel, that it is measured in too

    def value(self, seconds: float) -> float:
        return seconds * 1e6 if self.unit == "us" else self.amount / seconds * UNITS[self.unit]


def _copy(torch: Any, *inputs: int) -> dict[str, Callable[..., Any]]:
    """The copy that bandwidth is measured against: of one array, which is read and written."""
    return {"copy": lambda x, *rest: x.clone()}


# FlashAttention's packages, where installed, and torch's own kernels of attention by their names there.
PACKAGES = {"FlashAttention 3": "flash_attn_interface", "FlashAttention 2": "flash_attn"}
KERNELS = {"cuDNN": "CUDNN_ATTENTION", "torch's FlashAttention": "FLASH_ATTENTION"}


def _attention(torch: Any, causal: bool = False) -> dict[str, Callable[..., Any]]:
    """Others' attention of (batch, tokens, heads, width): as torch chooses, by each of its kernels, by packages."""
    scaled = torch.nn.functional.scaled_dot_product_attention

    def chosen(q: Any, k: Any, v: Any) -> Any:
        return scaled(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal).transpose(1, 2)

    def by_kernel(kernel: str, *qkv: Any) -> Any:
        among = torch.nn.attention
        with among.sdpa_kernel(getattr(among.SDPBackend, kernel)):
            return chosen(*qkv)

    def by_package(package: str, *qkv: Any) -> Any:
        found = importlib.import_module(package).flash_attn_func(*qkv, causal=causal)
        return found[0] if isinstance(found, tuple) else found

    installed = {name: package for name, package in PACKAGES.items() if importlib.util.find_spec(package) is not None}
    return {"torch": chosen, **{name: partial(by_kernel, kernel) for name, kernel in KERNELS.items()},
            **{name: partial(by_package, package) for name, package in installed.items()}}  # fmt: skip


def _causal(q: Any, k: Any, v: Any) -> Any:
    return fused.dot_product_attention(q, k, v, is_causal=True)


def _tf32(torch: Any) -> dict[str, Callable[..., Any]]:
    """The product by cuBLAS, which is told to round its operands to TF32 as well."""
    torch.backends.cuda.matmul.allow_tf32 = True
    return {"cuBLAS": lambda x, y: torch.matmul(x, y.T)}


def _float8(torch: Any) -> dict[str, Callable[..., Any]]:
    one = torch.ones((), device="cuda")
    scaled = torch._scaled_mm
    return {"cuBLAS": lambda x, y: scaled(x, y.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)}


def _turned(kind: str, scale: float) -> Callable[..., Any]:
    """A product summed along both operands' rows in a dtype, and scaled."""
    dimensions = (((1,), (1,)), ((), ()))

    def product(x: Any, y: Any) -> Any:
        made = lax.dot_general(x, y, dimensions, preferred_element_type=kind)
        return (made.astype("float32") * scale).astype("bfloat16")

    return product


def _rows(name: str, function: Callable[..., Any], rival: Callable[[Any], Callable[..., Any]], m: int, n: int,
          vectors: int = 0, written: bool = True) -> Case:  # fmt: skip
    def rivals(torch: Any) -> dict[str, Callable[..., Any]]:
        return {**_copy(torch), "torch": rival(torch), "torch.compile": torch.compile(rival(torch))}

    amount = 2 * m * n * (2 if written else 1)
    return Case(f"{name} {m} x {n}", "GB/s", amount, ((m, n), *[(n,)] * vectors), function, rivals, 0.85, "copy")


def _bias_gelu(x: Any, y: Any, b: Any) -> Any:
    return gelu(tnp.matmul(x, y, preferred_element_type="float32") + b.astype("float32")).astype(x.dtype)


def _cross_entropy(logits: Any) -> Any:
    return fused.cross_entropy(logits, tnp.zeros(logits.shape[:1], "int32"))


def _adamw(*arrays: Any) -> Any:
    """A step over a tree; parameters, gradients and both moments, in this order."""
    n = len(arrays) // 4
    p, g, m, v = (list(arrays[i * n : (i + 1) * n]) for i in range(4))
    new, state = fused.adamw(p, g, {"count": tnp.zeros((), "int32"), "m": m, "v": v}, learning_rate=1e-3)
    return *new, *state["m"], *state["v"]


def _cublas(torch: Any) -> dict[str, Callable[..., Any]]:
    return {"cuBLAS": torch.matmul}


def _alone(torch: Any) -> dict[str, Callable[..., Any]]:
    """No rival: it is a kernel in several forms that is measured."""
    return {}


def _half(m: int, columns: int = 0, depth: int = 0) -> Case:
    """A product of float16."""
    n, k = columns or m, depth or m
    name = f"matmul {m}^3 float16" if n == k == m else f"matmul {m} x {k} x {n} float16"
    return Case(name, "TFLOP/s", 2 * m * n * k, ((m, k), (k, n)), lambda x, y: x @ y, _cublas, 0.95, "cuBLAS",
                "float16", routed=ROUTES)  # fmt: skip


def _attended(tokens: int, heads: int, width: int, gradient: bool = False) -> Case:
    """Causal attention, whose operations are counted as FlashAttention's authors do: one half, backwards 2.5 times."""
    back = " backwards" if gradient else ""
    return Case(f"causal attention{back} {tokens} x {heads} x {width}", "TFLOP/s",
                (2.5 if gradient else 1) * 2 * heads * tokens * tokens * width, ((1, tokens, heads, width),) * 3,
                _causal, partial(_attention, causal=True), 500 if gradient else 640, dtype="float16", gradient=gradient,
                routed=ROUTES)  # fmt: skip


def _formed(case: Case, what: str, forms: dict[str, Form]) -> Case:
    """A case whose kernel is measured in several forms, and by nothing else."""
    return replace(case, name=f"{case.name}, {what}", rivals=_alone, against="", wanted=0, routed=(),
                   forms=tuple(forms.items()))  # fmt: skip


def _small(n: int) -> Iterator[Case]:
    """Products of 8 bits and of float32, and one with what follows it."""
    half, square = n // 2, ((n, n), (n, n))

    def activated(torch: Any) -> dict[str, Callable[..., Any]]:
        gelu = torch.nn.functional.gelu
        return {"torch": lambda x, y, b: gelu(torch.addmm(b, x, y), approximate="tanh")}

    yield Case(f"matmul {half}^3 float16, bias, gelu", "TFLOP/s", 2 * half**3, ((half, half), (half, half), (half,)),
               _bias_gelu, activated, 0.95, "torch", "float16", routed=ROUTES)  # fmt: skip
    yield Case(f"matmul {n}^3 float8", "TFLOP/s", 2 * n**3, square, _turned("float32", 1.0), _float8, 0.9, "cuBLAS",
               "float8_e4m3fn", routed=ROUTES)  # fmt: skip
    yield Case(f"matmul {n}^3 int8", "TFLOP/s", 2 * n**3, square, _turned("int32", 1e-3),
               lambda torch: {"cuBLAS": lambda x, y: torch._int_mm(x, y.T)}, 0.9, "cuBLAS", "int8",
               routed=ROUTES)  # fmt: skip
    yield Case(f"matmul {half}^3 float32, in TF32", "TFLOP/s", 2 * half**3, ((half, half), (half, half)),
               lambda x, y: x @ y.T, _tf32, 0.85, "cuBLAS", "float32", routed=ROUTES)  # fmt: skip


def _memory(m: int, n: int, size: int) -> Iterator[Case]:
    """What memory bounds: rows, and a step of an optimizer."""

    def functional(torch: Any) -> Any:
        return torch.nn.functional

    yield _rows("softmax", fused.softmax, lambda torch: lambda x: functional(torch).softmax(x, -1), m, n)
    yield _rows("RMS norm", fused.rms_norm,
                lambda torch: lambda x, s: functional(torch).rms_norm(x, s.shape, s), m, n, 1)  # fmt: skip
    yield _rows("layer norm", fused.layer_norm,
                lambda torch: lambda x, s, b: functional(torch).layer_norm(x, s.shape, s, b), m, n, 2)  # fmt: skip
    yield _rows("cross entropy", _cross_entropy, lambda torch: lambda x: functional(torch).cross_entropy(
        x, torch.zeros(len(x), dtype=torch.int64, device=x.device), reduction="none"), m, n, written=False)
    leaves = [(size // 2,), (size // 4 + 1,), (size // 4 - 1,)]
    yield Case(f"AdamW {size} float32", "GB/s", 7 * 4 * size, (*leaves * 4,), _adamw, _copy, 0.85, "copy", "float32")


def _sums(m: int, n: int) -> Iterator[Case]:
    """Sums that few blocks would make: of all elements, of columns, and those of a norm's parameters."""


    def total(x: Any) -> Any:
        return x.astype("float32").sum()

    def columns(x: Any) -> Any:
        return x.astype("float32").sum(0)

    yield _rows("sum", total, lambda torch: lambda x: x.sum(dtype=torch.float32), m, n, written=False)
    yield _rows("sums of columns", columns, lambda torch: lambda x: x.sum(0, dtype=torch.float32), m, n, written=False)
    norm = _rows("layer norm backwards", fused.layer_norm,
                 lambda torch: lambda x, s, b: torch.nn.functional.layer_norm(x, s.shape, s, b), m, n, 2)  # fmt: skip
    yield replace(norm, amount=3 * 2 * m * n, gradient=True)


def cases(scale: int = 1) -> list[Case]:
    """The cases, those first for which a GPU is asked first; sizes are divided by `scale`.

    >>> [case.name for case in cases()][:3]
    ['matmul 8192^3 float16', 'matmul 4096^3 float16', 'causal attention 16384 x 16 x 128']
    """
    n, tokens, heads = 8192 // scale, 16384 // scale, max(16 // scale, 1)
    lengths = sorted({max(t // scale, 1) for t in (2048, 4096, 8192, 16384)}, reverse=True)
    wide, narrow, odd = (max(d // min(scale, 8), 1) for d in (128, 64, 80))
    products, shapes = [replace(_half(m), in_xla=True) for m in (n, n // 2)], ((1, tokens, heads, wide),) * 3
    longest = [replace(_attended(tokens, heads, d, gradient), in_xla=d == wide and not gradient)
               for d in (wide, narrow) for gradient in (False, True)]  # fmt: skip
    small, amount = list(_small(n)), 4 * heads * tokens * tokens * wide
    whole = Case(f"attention {tokens} x {heads} x {wide}", "TFLOP/s", amount, shapes, fused.dot_product_attention,
                 _attention, 415)  # fmt: skip
    return [
        *products, *longest, *_sums(tokens, n),
        _formed(_half(n), "blocks", TILES), _formed(_half(n // 2), "descriptors", DESCRIPTORS),
        *(_formed(_attended(tokens, heads, d), "turns", TURNS) for d in (wide, narrow)),
        _formed(_half(n), "warps", SPECIALISED), _formed(_attended(tokens, heads, wide), "warps", SPECIALISED),
        _formed(_half(max(64 // scale, 1), max(128 // scale, 1), 8 * n), "sum in runs", {"in one run": in_one_run}),
        *(_attended(t, heads, d, gradient) for t in lengths[1:] for d in (wide, narrow) for gradient in (False, True)),
        *small,
        Case(f"matmul {n}^3", "TFLOP/s", 2 * n**3, ((n, n), (n, n)), lambda x, y: x @ y, _cublas, 0.85, "cuBLAS"),
        replace(_attended(tokens, heads, odd), wanted=0.9, against="torch"),
        whole, replace(whole, name=f"attention backwards {tokens} x {heads} x {wide}", amount=2.5 * amount, wanted=330,
                       gradient=True),
        *_memory(tokens, n, 2**28 // scale**2),
        Case("a launch", "us", 1, ((1024,),), lambda x: x + 1, lambda torch: {"torch": lambda x: x + 1}, 6),
        *(replace(case, name=f"{case.name}, by CUTLASS", routed=CUTLASS) for case in (*products, *small[:3])),
    ]  # fmt: skip
