"""Cycles that libtpu estimates for kernels at their default tiles, against the least that the hardware allows.

`python -m benchmarks.tpu_cycles` writes benchmarks/results/tpu_cycles.md. No TPU is needed, and none measures it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.kernels import TEMPLATES
from tilewright.kernels.fused import OPERATIONS
from tilewright.lang.targets.target import TARGETS

RESULTS = Path(__file__).resolve().parent / "results" / "tpu_cycles.md"
TPUS = tuple(name for name, t in TARGETS.items() if t.kind == "tpu")
MATMUL = {"dimension_numbers": (((1,), (0,)), ((), ())), "precision": None, "preferred_element_type": "float32"}


def struct(*shape: int, dtype: str = "float32") -> Any:
    return tw.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True)
class Case:
    """A kernel to compile: `make(target)` gives a function and its operands; `limit`: at most so much of the bound."""

    name: str
    limit: float
    make: Callable[[str], tuple[Callable[..., Any], tuple[Any, ...]]]


@dataclass(frozen=True)
class Found:
    """Cycles of all the kernels of a case against the sum of their bounds."""

    cycles: int
    bound: float
    by: str
    bundles: int
    spills: int
    vmem: int
    limit: int

    @property
    def ratio(self) -> float:
        return self.cycles / self.bound


def matmul(target: str) -> Any:
    template = TEMPLATES[dot_general_p]
    args = struct(4096, 4096, dtype="bfloat16"), struct(4096, 4096, dtype="bfloat16")
    return lambda x, y: template(x, y, target=target, **MATMUL), args


def attention(target: str) -> Any:
    query = struct(1, 2048, 2, 128, dtype="bfloat16")
    return OPERATIONS["dot_product_attention"].function, (query,) * 3


def layer_norm(target: str) -> Any:
    f = OPERATIONS["layer_norm"].function
    return (lambda x, s, b: f(x, s, b, target=target)), (struct(4096, 2048), struct(2048), struct(2048))


def cross_entropy(target: str) -> Any:
    f = OPERATIONS["cross_entropy"].function
    return (lambda x, y: f(x, y, target=target)), (struct(1024, 8192), struct(1024, dtype="int32"))


CASES = (
    Case("matmul, bf16, 4096^3", 1.3, matmul),
    Case("attention, bf16, 2048 tokens, 2 heads of 128", 2.0, attention),
    Case("layer norm, f32, 4096 x 2048", 2.0, layer_norm),
    Case("cross entropy, f32, 1024 x 8192", 2.0, cross_entropy),
)


def measured(case: Case, target: str) -> Found:
    """What libtpu estimates for a case, compiled for a target."""
    f, args = case.make(target)
    reports = [k for k in tw.explain(f, *args, target=target, compile=True).kernels if k.resources is not None]
    longest = max(reports, key=lambda k: k.seconds or 0.0)
    used = [k.resources for k in reports if k.resources is not None]
    if any(r.cycles is None for r in used):
        raise tw.errors.CompileError(f"{case.name} on {target}: libtpu estimates no cycles", "another size")
    return Found(
        sum(r.cycles or 0 for r in used), sum(k.seconds or 0.0 for k in reports) * TARGETS[target].clock,
        longest.bound or "", sum(r.bundles or 0 for r in used), sum(r.spills or 0 for r in used),
        max(r.fast_bytes for r in used), max(r.fast_limit for r in used),
    )  # fmt: skip


def table(targets: tuple[str, ...]) -> str:
    rows = ["| kernel | target | cycles | bound | by | ratio | wanted | VMEM | words | spills |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for case in CASES:
        for target in targets:
            found = measured(case, target)
            rows.append(
                f"| {case.name} | {target} | {found.cycles:,} | {found.bound:,.0f} | {found.by} | {found.ratio:.2f} | "
                f"<= {case.limit:g} | {found.vmem / 2**20:.1f} of {found.limit / 2**20:.0f} MiB | {found.bundles:,} | "
                f"{found.spills:,} B |"
            )
            print(rows[-1], flush=True)
    libtpu = importlib.metadata.version("libtpu")
    return f"""# Estimated cycles on TPUs

`python -m benchmarks.tpu_cycles`: cycles that libtpu {libtpu} estimates for one call, from the instruction words and
copies of the compiled kernel at its default tiles; not measured on a device. The bound is the largest of three times,
in cycles at the target's clock: of the products at the matrix units' peak, of the rest of the arithmetic at the vector
units' peak, of the bytes moved at HBM bandwidth (`lang/targets/target.py`). A product smaller than the matrix unit
takes as long as one that fills it: libtpu estimates 2048 x 128 x 2048 and 2048 x 256 x 2048 alike on v6e. Its estimate
takes copies into and out of VMEM as concurrent, each at about the whole bandwidth, so kernels bound by memory can be
below the bound.

A cell of attention takes its queries in runs of 128: the matrix units make the scores of one run while those of the run
before are in the vector units. Its bound is that of the products as if the runs were one (`lang/cost/roofline.py`).

{chr(10).join(rows)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=TPUS)
    options = parser.parse_args()
    RESULTS.write_text(table(tuple(options.targets)))


if __name__ == "__main__":
    main()
