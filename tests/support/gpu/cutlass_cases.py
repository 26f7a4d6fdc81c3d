"""Products with epilogues as kernels, and what CUTLASS is told of one, computed in NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tilewright as tw
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.cutlass_backend.epilogue import TYPES
from tilewright.cutlass_backend.gemm_match import Contraction
from tilewright.lang.kernel.kernel import Kernel

HALF, BRAIN, SINGLE, BYTE = "float16", "bfloat16", "float32", "float8_e4m3fn"
NAMES = {text: dtype for dtype, text in TYPES.items()}


def struct(shape: tuple[int, ...], dtype: str = HALF) -> Any:
    return tw.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True)
class Case:
    """A product of M x K and K x N matrices in blocks, and what becomes of its sum.

    `operands` are those of the epilogue, by where they lie and their dtype; `turned`: which factors are stored the
    other way; `count` of products.
    """

    after: Callable[..., Any]
    operands: tuple[tuple[str, str], ...] = ()
    dtype: str = HALF
    out: str = HALF
    sizes: tuple[int, int, int] = (256, 192, 128)
    turned: tuple[bool, bool] = (False, False)
    count: int = 0
    depth: int = 64  # of a block
    more: tuple[str, ...] = ()  # dtypes of results beside the first, which `after` gives as well

    @property
    def types(self) -> list[Any]:
        m, n, k = self.sizes
        ahead = (self.count,) if self.count else ()
        a, b = ((k, m) if self.turned[0] else (m, k)), ((n, k) if self.turned[1] else (k, n))
        places = {"matrix": (*ahead, m, n), "column": (m, 1), "row": (n,), "one": (1, 1)}
        return [struct((*ahead, *a), self.dtype), struct((*ahead, *b), self.dtype),
                *(struct(places[place], dtype) for place, dtype in self.operands)]  # fmt: skip

    @property
    def sums(self) -> str:
        return "int32" if self.dtype in ("int8", "uint8") else SINGLE

    def end(self, sum: Any, operands: Any, outs: Any) -> None:
        found = self.after(sum, *(x[...] for x in operands))
        for out, value in zip(outs, found if self.more else (found,)):
            out[...] = value.astype(out.dtype)

    def body(self, a: Any, b: Any, *refs: Any) -> None:
        many = 1 + len(self.more)
        operands, outs, acc = refs[: -1 - many], refs[-1 - many : -1], refs[-1]
        dimensions = (((0 if self.turned[0] else 1,), (1 if self.turned[1] else 0,)), ((), ()))
        if self.depth == self.sizes[2]:
            self.end(lax.dot_general(a[...], b[...], dimensions, preferred_element_type=self.sums), operands, outs)
            return
        last = tl.num_programs(3) - 1

        @tl.when(tl.program_id(3) == 0)
        def _() -> None:
            acc[...] = tnp.zeros(acc.shape, acc.dtype)

        acc[...] += lax.dot_general(a[...], b[...], dimensions, preferred_element_type=self.sums)

        @tl.when(tl.program_id(3) == last)
        def _() -> None:
            self.end(acc[...], operands, outs)

    def call(self, *arrays: Any, compiler_params: Any = None) -> Any:
        (m, n, k), rows, columns = self.sizes, 64, 64
        grid = (
            max(self.count, 1),
            *(tl.cdiv(size, block) for size, block in ((m, rows), (n, columns), (k, self.depth))),
        )

        def spec(block: tuple[int, ...], *axes: int | None, batched: bool = False, fill: Any = None) -> Any:
            ahead = (None,) if batched and self.count else ()
            walked = ((0,) if ahead else ()) + axes
            return tl.BlockSpec((*ahead, *block), lambda *ids: [0 if a is None else ids[a] for a in walked], fill=fill)

        left = ((self.depth, rows), 3, 1) if self.turned[0] else ((rows, self.depth), 1, 3)
        right = ((columns, self.depth), 2, 3) if self.turned[1] else ((self.depth, columns), 3, 2)
        places = {
            "matrix": spec((rows, columns), 1, 2, batched=True), "column": spec((rows, 1), 1, None),
            "row": spec((columns,), 2), "one": spec((1, 1), None, None),
        }  # fmt: skip
        outs = [struct((*((self.count,) if self.count else ()), m, n), dtype) for dtype in (self.out, *self.more)]
        blocks = [spec((rows, columns), 1, 2, batched=True) for _ in outs]
        return tl.kernel_call(
            self.body, outs if self.more else outs[0], grid=grid, name="product",
            in_specs=[spec(*left, batched=True, fill=0), spec(*right, batched=True, fill=0),
                      *(places[place] for place, _ in self.operands)],
            out_specs=blocks if self.more else blocks[0], scratch_shapes=[tl.VMEM((rows, columns), self.sums)],
            compiler_params=compiler_params)(*arrays)  # fmt: skip


CASES = {
    "plain": Case(lambda acc: acc),
    "bias and gelu": Case(lambda acc, c: nn.gelu(acc + c), (("row", SINGLE),)),
    "residual": Case(lambda acc, c: acc.astype(HALF) + c, (("matrix", HALF),)),
    "two residuals": Case(lambda acc, c, d: (acc + c) * d, (("matrix", SINGLE), ("matrix", BRAIN)), out=SINGLE),
    "scale per row": Case(lambda acc, s: acc * s, (("column", SINGLE),), BRAIN, BRAIN),
    "scale of everything": Case(lambda acc, s: acc * s, (("one", SINGLE),)),
    "float8": Case(lambda acc, s: acc * s, (("row", SINGLE),), BYTE, BYTE, turned=(False, True)),
    "batched": Case(lambda acc, c, d: (acc + c) * d, (("row", HALF), ("matrix", HALF)), count=3),
    "the left transposed": Case(lambda acc: tnp.exp(-acc * acc), turned=(True, False), out=SINGLE),
    "selected": Case(lambda acc, c: tnp.where(acc > c, nn.relu(acc), -1.0), (("row", SINGLE),)),
    "everything": Case(
        lambda acc, c, d, s, r, u: tnp.tanh((acc + c) * d * s + r) * u,
        (("matrix", SINGLE), ("matrix", BRAIN), ("one", SINGLE), ("row", HALF), ("column", BRAIN)),
        turned=(True, True), count=2),
    "ragged": Case(lambda acc, c: tnp.clip(acc + c, -4, 4), (("matrix", HALF),), sizes=(250, 184, 120)),
    "tf32": Case(lambda acc, c: acc + c, (("row", SINGLE),), SINGLE, SINGLE, turned=(False, True)),
    "8-bit integers, scaled": Case(
        lambda acc, s, r: acc.astype(SINGLE) * s * r, (("column", SINGLE), ("row", SINGLE)), "int8", BRAIN,
        turned=(False, True)),
    "before and after its activation": Case(
        lambda acc, c: (nn.gelu(acc + c), acc + c), (("row", SINGLE),), more=(BRAIN,)),
    "three results of some products": Case(
        lambda acc, c: (acc.astype(HALF) + c, acc * 2, tnp.maximum(acc, 0)), (("matrix", HALF),), count=2,
        more=(SINGLE, HALF)),
    "one block deep": Case(lambda acc, c: tnp.tanh(acc) * c, (("column", BRAIN),), sizes=(128, 192, 64)),
}  # fmt: skip


def kernel_of(name: str) -> Kernel:
    """The kernel of a case."""
    case = CASES[name]
    (kernel,) = kernels_in(case.call, [ArrayType(t.shape, t.dtype) for t in case.types])
    return kernel


# ---------------------------------------------------------------------------- what CUTLASS computes


def _rounded(kind: str, x: Any) -> Any:
    with np.errstate(over="ignore"):
        dtype = getattr(np, NAMES[kind], None) or getattr(ml_dtypes, NAMES[kind])
        return np.asarray(x, np.float32).astype(dtype).astype(np.float32)


def _value(text: str, known: dict[str, Any]) -> Any:
    """An expression of the epilogue's C++ over arrays."""
    choice = re.fullmatch(r"(.+?) \? (.+?) : (.+)", text)
    if choice:
        return np.where(*(_value(part, known) for part in choice.groups()))
    text = re.sub(r"tilewright::rounded<([\w:]+)>", r"rounded('\1')", text).replace("tilewright::", "")
    text = re.sub(r"(?<=\d)f\b", "", text).replace("!", "~").replace("~=", "!=").replace("&&", "&").replace("||", "|")
    names = {
        "rounded": lambda kind: lambda x: _rounded(kind, x), "tanhf": np.tanh, "expf": np.exp, "fabsf": np.abs,
        "larger": np.maximum, "smaller": np.minimum,
    }  # fmt: skip
    return eval(text, names | known)


def computed(product: Contraction, operands: list[Any]) -> list[np.ndarray]:
    """The results that the epilogue's C++ gives of a product and its operands, laid out as CUTLASS is told."""
    left, right = (operands[f.number].astype(np.float32) for f in (product.left, product.right))
    left = left if product.left.summed_last else left.swapaxes(-1, -2)
    right = right.swapaxes(-1, -2) if product.right.summed_last else right
    shape = (product.count, product.rows, product.columns)
    known: dict[str, Any] = {"acc": np.broadcast_to(left @ right, shape).astype(np.float32)}
    for i, leaf in enumerate(product.leaves):
        sizes = tuple(n if varies else 1 for n, varies in zip(shape, (leaf.batched, leaf.rows, leaf.columns)))
        known[f"x{i}"] = np.asarray(operands[leaf.number], np.float32).reshape(sizes)
    for line in product.lines:
        name, text = line.removesuffix(";").split(" ", 1)[1].split(" = ", 1)
        found = np.asarray(_value(text, known))
        known[name] = found if found.dtype == bool else found.astype(np.float32)
    return [
        np.broadcast_to(_value(result.text, known), shape).astype(type_.dtype).reshape(type_.shape)
        for result, type_ in zip(product.results, product.kernel.out_types)
    ]
