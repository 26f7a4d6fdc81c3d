"""The page on TPUs: its tables and modules are made from the data and by the lowering.

`pytest tests/layout/test_tpu_page.py --update-golden` rewrites them.
"""

import re

import pytest

import tilewright as tw
from tests.support.paths import DOCS
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import GIB, GIGA, KIB, MIB, TARGETS, TERA, target_of

PAGE = DOCS / "tpu.md"
COLUMNS = {
    "target": lambda t: f"`{t.name}`",
    "TensorCores": lambda t: t.units,
    "clock": lambda t: f"{t.clock / GIGA:g} GHz",
    "matrix units of a core": lambda t: f"{t.matrix_units} of {t.matrix[0]} x {t.matrix[1]}",
    "bfloat16": lambda t: f"{t.rate('bfloat16') / TERA:.4g} T/s",
    "float8": lambda t: f"{t.rate('float8_e4m3fn') / TERA:.4g} T/s",
    "int8": lambda t: f"{t.rate('int8') / TERA:.4g} T/s",
    "vector units": lambda t: f"{t.vector_rate / TERA:.3g} T/s",
    "HBM": lambda t: f"{t.memory_bytes // GIB} GiB, {t.bandwidth / GIGA:.4g} GB/s",
    "VMEM of a core": lambda t: f"{t.fast_bytes // MIB} MiB",
    "of a kernel, unasked": lambda t: f"{t.default_bytes // MIB} MiB",
    "SMEM": lambda t: f"{t.scalar_bytes // KIB} KiB",
}  # fmt: skip


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def generations():
    """A column for each generation."""
    tpus = [t for t in TARGETS.values() if t.kind == "tpu"]
    first, *rest = COLUMNS.items()
    return table(["", *map(first[1], tpus)], [[name, *map(of, tpus)] for name, of in rest])


def scale_kernel(x, o):
    o[...] = x[...] * 2.0


def matmul_kernel(x, y, o):
    @tl.when(tl.program_id(2) == 0)
    def _():
        o[...] = tnp.zeros_like(o)

    o[...] += tnp.matmul(x[...], y[...], preferred_element_type="float32")


def gather_kernel(rows, x, o):
    o[...] = x[...]


def scale():
    spec = tl.BlockSpec((8, 128), lambda i: (i, 0))
    struct = tw.ShapeDtypeStruct((20, 128), "float32")
    return tl.kernel_call(scale_kernel, struct, grid=3, in_specs=[spec], out_specs=spec, name="scale"), struct


def matmul():
    specs = [tl.BlockSpec((128, 256), lambda i, j, k: (i, k)), tl.BlockSpec((256, 128), lambda i, j, k: (k, j))]
    out = tl.BlockSpec((128, 128), lambda i, j, k: (i, j))
    struct = tw.ShapeDtypeStruct((512, 512), "bfloat16")
    result = tw.ShapeDtypeStruct((512, 512), "float32")
    call = tl.kernel_call(matmul_kernel, result, grid=(4, 4, 2), in_specs=specs, out_specs=out, name="matmul")
    return call, struct, struct


def gather_rows():
    spec = tl.PrefetchScalarGridSpec(
        1, (4,), [tl.BlockSpec((8, 128), lambda i, rows: (rows[i], 0))], tl.BlockSpec((8, 128), lambda i, rows: (i, 0))
    )
    out = tw.ShapeDtypeStruct((32, 128), "float32")
    call = tl.kernel_call(gather_kernel, out, grid_spec=spec, name="gather_rows")
    return call, tw.ShapeDtypeStruct((4,), "int32"), tw.ShapeDtypeStruct((640, 128), "float32")


def module(make):
    """The Mosaic text of a kernel, as MLIR prints it."""
    from tilewright.mosaic_tpu.custom_call import pretty
    from tilewright.mosaic_tpu.lower import mosaic_module

    call, *structs = make()
    (kernel,) = kernels_of(tw.compile(call, *structs, stop="program"))
    lowered = mosaic_module(kernel, target_of("tpu:v5e"))
    return f"```mlir\n{pretty(lowered.text, kernel.name).strip()}\n```\n"


PARTS = {
    "generations": generations, "scale": lambda: module(scale),
    "matmul": lambda: module(matmul), "gather_rows": lambda: module(gather_rows),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_the_page_has_what_is_made(part, request):
    begin, end = f"<!-- {part}: made by tests/layout/test_tpu_page.py -->\n", f"<!-- end of {part} -->"
    made, page = PARTS[part](), PAGE.read_text()
    found = re.search(f"{re.escape(begin)}(.*?){re.escape(end)}", page, re.S)
    assert found, f"no part {part} on the page"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page[: found.start(1)] + made + page[found.end(1) :])
    assert made == re.search(f"{re.escape(begin)}(.*?){re.escape(end)}", PAGE.read_text(), re.S)[1]
