"""The gallery of kernels: source, picture, cost by the roofline, and time on a CPU against plain array operations.

`python -m docs.website.gallery` measures the kernels, writes docs/gallery/kernels.json and docs/gallery/index.md; with
names it measures those alone. The page of each kernel is made when the site is built, from that file and the kernel's
source, which is a file of tests/support.
"""

from __future__ import annotations

import functools
import html
import importlib
import inspect
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tilewright as tw
from docs.capabilities import table
from tests.support.authors import EVERY
from tests.support.authors.kit import Case
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support import pytree

FOLDER = Path(__file__).resolve().parents[1] / "gallery"
DATA, INDEX = FOLDER / "kernels.json", FOLDER / "index.md"
TARGETS_DATA = FOLDER.parent / "kernel_targets.json"
TARGETS = ("cuda:sm_90", "tpu:v5e")
ROUNDS = 7


@dataclass(frozen=True)
class Shown:
    """A kernel of the gallery: where it comes from, and the size at which it is measured."""

    name: str
    family: str
    dims: tuple[Any, ...]  # of `make` for a kernel of the corpus, bounds of integers for one of the authors
    blocks: dict[str, Any]
    parts: tuple[str, ...] = ()  # the functions of an author's kernel that are shown
    unrolled: bool = False  # the reference is a loop over steps, which takes minutes to compile

    @functools.cached_property
    def case(self) -> Case | None:
        """The author's case; None for a kernel of the corpus."""
        return next((c for c in EVERY if c.name == self.name), None)

    @functools.cached_property
    def module(self) -> ModuleType:
        place = f"tests.support.corpus.{self.name}" if self.case is None else self.case.call.__module__
        return importlib.import_module(place)

    def small(self) -> list[Any]:
        """Operands for a picture."""
        if self.case is not None:
            return self.case.operands()
        return list(self.module.make(np.random.default_rng(0), *self.module.SIZES[0].dims))

    def large(self) -> list[Any]:
        """Operands for measurements, in the dtypes of a CPU."""
        rng = np.random.default_rng(0)
        if self.case is None:
            return list(self.module.make(rng, *self.dims))
        floats = [rng.standard_normal(t.shape, np.float32) for t in self.case.large]
        bounds = iter(self.dims)
        return [
            rng.integers(0, next(bounds), t.shape, t.dtype) if np.dtype(t.dtype).kind in "iu" else x
            for x, t in zip(floats, self.case.large, strict=True)
        ]

    def call(self, small: bool = False) -> Callable[..., Any]:
        """The kernel with the block sizes of a picture or of measurements."""
        if self.case is None:
            return functools.partial(self.module.call, **(self.module.SIZES[0].blocks if small else self.blocks))
        return functools.partial(self.case.call, **({} if small else self.case.blocks))

    def plain(self, library: Any) -> Callable[..., Any]:
        """The same in array operations of `numpy` or of `tilewright.numpy`."""
        found = self.module.reference if self.case is None else self.case.plain
        blocks = self.blocks if self.case is None else self.case.blocks
        extra = {k: v for k, v in blocks.items() if k in inspect.signature(found).parameters}
        return functools.partial(found, library, **extra)

    def source(self) -> str:
        """The text of the kernel: the functions before the reference, or those that are named."""
        functions = [f for f in vars(self.module).values() if inspect.isfunction(f)]
        own = [f for f in functions if f.__module__ == self.module.__name__]
        if self.case is None:
            own = own[: [f.__name__ for f in own].index("reference")]
        else:
            own = [f for f in own if f.__name__ in self.parts]
        return "\n\n".join(inspect.getsource(f) for f in own)

    def sentence(self) -> str:
        """What it shows: the first paragraph of the corpus's file, or what is said here."""
        doc = SAID.get(self.name) or (self.module.__doc__ or "").partition("\n\n")[0]
        return " ".join(doc.split())


# What is said of the authors' kernels, whose files have several.
SAID = {
    "norm_dropout": "Dropout by random bits, a residual and an RMS norm in one kernel with two results.",
    "cross_entropy": "Cross entropy over blocks of the vocabulary: the running maximum and sum stay in scratch.",
    "paged_attention": "Attention over pages of a cache, chosen by a prefetched table; unused pages are skipped.",
    "stream_k": "A matrix product whose grid divides all tile products evenly among workers.",
    "top_k": "The largest elements of each row and their positions, by repeated selection.",
    "adamw": "A step of AdamW for one parameter: seven arrays move once.",
}

PAGE = """# Gallery

{count} kernels with their source, a picture of their blocks, and their cost. Each runs in a test, compiled and
interpreted, against plain array operations. *At least on* is the roofline's time, and what bounds it. *CPU* is the
kernel's measured time, *plain* that of the same array operations under `jit`, which XLA fuses; a dash: those are a
loop over values or steps. Other programs ran on the machine: compare ratios, not times.

Made by `python -m docs.website.gallery`; `make docs` makes a page for each kernel. The sources are in
`tests/support/corpus` and `tests/support/authors`.

{table}
Measured on: {machine}.
"""

KERNELS = {
    k.name: k
    for k in (
        Shown("saxpy", "Elementwise", (2**21,), {"block": 4096}),
        Shown("transpose", "Elementwise", (2048, 2048), {"rows": 64, "columns": 64}),
        Shown("in_place", "Elementwise", (2**21,), {"block": 4096}),
        Shown("dropout", "Elementwise", (2**20,), {"block": 8192}),
        Shown("adamw", "Elementwise", (), {}, ("update", "adamw")),
        Shown("softmax", "Rows", (2048, 2048), {"rows": 8}),
        Shown("layer_norm", "Rows", (2048, 2048), {"rows": 8}),
        Shown("norm_dropout", "Rows", (99,), {}, ("fused", "norm_dropout")),
        Shown("cross_entropy", "Rows", (50257,), {}, ("entropy", "cross_entropy")),
        Shown("top_k", "Rows", (), {}, ("largest", "top_k")),
        Shown("reduction", "Columns", (4096, 1024), {"rows": 256, "columns": 128}),
        Shown("cumsum", "Columns", (4096, 512), {"rows": 64, "columns": 128}),
        Shown("histogram", "Columns", (2**16,), {"block": 1024}),
        Shown("matmul_loop", "Products", (512, 512, 512), {"rows": 128, "columns": 128, "piece": 64}),
        Shown("matmul_grid", "Products", (512, 512, 512), {"rows": 128, "columns": 128, "depth": 128}),
        Shown("batched_matmul", "Products", (16, 256, 256, 256), {"rows": 128, "columns": 128}),
        Shown("fused_matmul", "Products", (512, 1024, 512), {"rows": 128, "columns": 128, "depth": 128}),
        Shown("stream_k", "Products", (), {}, ("streamed", "stream_k")),
        Shown("int8_matmul", "Products", (512, 1024, 512), {"rows": 128, "columns": 128, "depth": 128}),
        Shown("int4_matmul", "Products", (256, 1024, 512, 8), {"rows": 128, "columns": 128}),
        Shown("grouped_matmul", "Products", (2048, 8, 256, 512), {"rows": 128, "columns": 128}),
        Shown("block_sparse_matmul", "Products", (16, 16, 128, 128, 512, 0.4), {"width": 128}),
        Shown("flash_attention", "Attention", (8, 1024, 1024, 64), {"rows": 64, "columns": 64}),
        Shown("paged_attention", "Attention", (16, 1024), {}, ("start", "online", "paged", "paged_attention")),
        Shown("conv1d", "Windows", (4096, 5, 64, 128), {"block": 128}),
        Shown("conv2d", "Windows", (64, 64, 3, 3, 32, 64), {"rows": 8, "columns": 16}),
        Shown("stencil", "Windows", (1024, 1024), {"rows": 32, "columns": 128}),
        Shown("embedding", "Data-dependent blocks", (512, 4096, 512), {"columns": 128}),
        Shown("selective_scan", "Recurrences and copies", (4, 512, 512, 16), {"steps": 16, "channels": 128},
              unrolled=True),
        Shown("async_copy", "Recurrences and copies", (16, 8, 1024), {"columns": 128}),
    )
}


def measured(shown: Shown) -> dict[str, Any]:
    """Cost by the roofline of each target, and the median seconds of the kernel and of the plain expression here."""
    operands, call = shown.large(), shown.call()
    row: dict[str, Any] = {"operands": [f"{a.dtype}{list(a.shape)}" for a in map(np.asarray, operands)]}
    for target in TARGETS:
        (kernel, *_) = tw.explain(call, *operands, target=target).kernels
        row |= {"bytes": kernel.bytes_moved, "flops": kernel.flops, "transcendentals": kernel.transcendentals}
        row[target] = {"seconds": kernel.seconds, "bound": kernel.bound}
    arrays = [tnp.asarray(a) for a in operands]
    times = {"kernel": tw.jit(call)}
    plain = tw.jit(shown.plain(tnp))
    try:
        if not shown.unrolled:
            pytree.leaves(plain(*arrays))[0].block_until_ready()
            times["plain"] = plain
    except tw.errors.TilewrightError:  # the reference loops over values
        pass
    row |= {f"{name} seconds": s for name, s in _medians(times, arrays).items()}
    return row


def _medians(functions: dict[str, Callable[..., Any]], arrays: list[Any]) -> dict[str, float]:
    """Median over rounds of the fastest of several calls, the functions in turn."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS + 1):
        for name, f in functions.items():
            calls, start = [], time.perf_counter()
            while len(calls) < 3 or (time.perf_counter() - start < 0.05 and len(calls) < 100):
                before = time.perf_counter()
                tw.block_until_ready(f(*arrays))
                calls.append(time.perf_counter() - before)
            found[name].append(min(calls))
    return {name: float(np.median(times[1:])) for name, times in found.items()}


# ---------------------------------------------------------------------------- pages


def stored() -> dict[str, Any]:
    """The measurements, by kernel, and `machine`."""
    return json.loads(DATA.read_text()) if DATA.exists() else {}


def seconds(value: float | None) -> str:
    """A time in a unit that suits it.

    >>> seconds(0.00123), seconds(4.5e-06)
    ('1.23 ms', '4.5 us')
    """
    if value is None:
        return "-"
    unit, scale = next(((u, s) for u, s in (("s", 1), ("ms", 1e-3), ("us", 1e-6)) if value >= s), ("us", 1e-6))
    return f"{value / scale:.3g} {unit}"


def count(value: float) -> str:
    """A number in thousands, millions or thousands of millions."""
    unit, scale = next(((u, s) for u, s in (("G", 1e9), ("M", 1e6), ("k", 1e3)) if value >= s), ("", 1))
    return f"{value / scale:.3g}{f' {unit}' if unit else ''}"


def index() -> str:
    """The page with the table of all kernels."""
    data, rows = stored(), []
    for name, shown in KERNELS.items():
        row = data[name]
        plain = row.get("plain seconds")
        ratio = f"{row['kernel seconds'] / plain:.2f}" if plain else "-"
        bounds = [f"{seconds(row[t]['seconds'])}, {row[t]['bound']}" for t in TARGETS]
        rows.append([f"`{name}`", shown.family, count(row["bytes"]), count(row["flops"]), *bounds,
                     seconds(row["kernel seconds"]), seconds(plain), ratio])  # fmt: skip
    head = ["kernel", "family", "bytes", "flops", *(f"at least on {t}" for t in TARGETS), "CPU", "plain", "ratio"]
    machine = ", ".join(f"{k} {v}" for k, v in data["machine"].items())
    return PAGE.format(count=len(KERNELS), table=table(head, rows), machine=machine)


def linked(text: str) -> str:
    """The table with links to the kernels' pages."""
    return re.sub(r"^\| `(\w+)` \|", lambda m: f"| [`{m[1]}`]({m[1]}.md) |", text, flags=re.M)


def picture(shown: Shown) -> str:
    """The blocks of the kernel at a small size, or why they are not drawn."""
    try:
        return tl.visualize(shown.call(small=True), *shown.small())
    except tw.errors.ArgumentError as error:  # its index maps read values that the call computes
        return f"<p>Not drawn: {html.escape(error.what.partition(': ')[2])}.</p>"


def page(shown: Shown) -> str:
    """The page of one kernel."""
    row = stored()[shown.name]
    work = f"{count(row['flops'])} flops, {count(row['transcendentals'])} transcendentals"
    facts = [["operands", ", ".join(f"`{o}`" for o in row["operands"])], ["bytes moved", count(row["bytes"])],
             ["operations", work]]  # fmt: skip
    facts += [[f"roofline of {t}", f"{seconds(row[t]['seconds'])}, bound by {row[t]['bound']}"] for t in TARGETS]
    facts.append(["measured on a CPU", seconds(row["kernel seconds"])])
    if "plain seconds" in row:
        ratio = row["kernel seconds"] / row["plain seconds"]
        facts.append(["array operations there", f"{seconds(row['plain seconds'])}; ratio {ratio:.2f}"])
    facts += _compiled(shown.name)
    plain = inspect.getsource(shown.module.reference if shown.case is None else shown.case.plain)
    plain = plain if plain.startswith("def ") else ""
    again = f"## The same in array operations\n\n```python\n{plain}```\n" if plain else ""
    return (
        f"# {shown.name}\n\n{shown.sentence()}\n\n<div class='picture'>{picture(shown)}</div>\n\n"
        f"## Source\n\n```python\n{shown.source()}```\n\n{again}\n## Cost\n\n{table(['', ''], facts)}"
    )


def _compiled(name: str) -> list[list[str]]:
    """What became of the kernel in the compilers of each target, where that was recorded."""
    found = json.loads(TARGETS_DATA.read_text()).get(name)
    if found is None:
        return []
    fine = [t for t, o in found.items() if ":" in t and "why" not in o and "unlike" not in o and " on " not in t]
    return [["compiles and is right, emulated", ", ".join(fine)]]


def pages() -> Iterator[tuple[str, str]]:
    """Path within docs and text of the kernels' pages."""
    for name, shown in KERNELS.items():
        yield f"gallery/{name}.md", page(shown)


def nav() -> list[Any]:
    """The entries of the navigation, by family."""
    families: dict[str, list[Any]] = {}
    for name, shown in KERNELS.items():
        families.setdefault(shown.family, []).append({name: f"gallery/{name}.md"})
    return [{family: found} for family, found in families.items()]


def main(names: list[str]) -> None:
    data = stored() if names else {}
    for name in names or KERNELS:
        data[name] = measured(KERNELS[name])
        DATA.write_text(json.dumps(data, indent=1) + "\n")
        print(f"{name}: {seconds(data[name]['kernel seconds'])}, plain {seconds(data[name].get('plain seconds'))}",
              file=sys.stderr, flush=True)  # fmt: skip
    data["machine"] = tw.bench.machine.description() | {"date": time.strftime("%Y-%m-%d")}
    ordered = {name: data[name] for name in (*KERNELS, "machine") if name in data}
    DATA.write_text(json.dumps(ordered, indent=1) + "\n")
    if KERNELS.keys() <= data.keys():
        INDEX.write_text(index())


if __name__ == "__main__":
    main(sys.argv[1:])
