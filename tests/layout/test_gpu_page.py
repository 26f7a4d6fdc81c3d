"""The generated parts of docs/gpu.md: registers and shared memory of three kernels, and their Triton programs."""

import re

import pytest

from tests.support.pages import examples
from tests.support.paths import DOCS
from tests.support.traced import kernels_in
from tilewright.core.ir.types import ArrayType
from tilewright.core.support.supported import SUPPORTED
from tilewright.lang.gpu.code import resources
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend import compiled_kernel, compiler, start

PAGE = DOCS / "gpu.md"
TARGETS = ("cuda:sm_80", "cuda:sm_90", "cuda:sm_100", "rocm:gfx942")

pytestmark = pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]")


@pytest.fixture(scope="module")
def kernels():
    """The kernels of the page's examples by name."""
    names: dict = {"__name__": "gpu"}
    line, code = next(examples(PAGE))
    exec(compile("\n" * line + code, str(PAGE), "exec"), names)
    found = {}
    for name, (function, *types) in names["EXAMPLES"].items():
        (found[name],) = kernels_in(function, [ArrayType(t.shape, t.dtype) for t in types], name)
    for target in TARGETS:
        start(list(found.values()), target_of(target))
    return found


def table(kernels):
    head = ["kernel", *(f"`{t}`" for t in TARGETS)]
    rows = [head, ["---"] * len(head)]
    for name, kernel in kernels.items():
        row = [name]
        for target in TARGETS:
            found = resources(compiled_kernel(kernel, target_of(target))[1], target_of(target))
            assert found.spills == 0
            row.append(f"{found.registers} registers, {found.fast_bytes} bytes")
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def programs(kernels):
    texts = (compiled_kernel(k, target_of("cuda:sm_90"))[0].text.strip() for k in kernels.values())
    return "\n\n".join(f"`{name}`:\n\n```mlir\n{text}\n```" for name, text in zip(kernels, texts))


@pytest.mark.parametrize(("part", "make"), [("resources", table), ("programs", programs)])
def test_generated_part(part, make, kernels, request):
    if make is table and compiler.PACKAGES.versions()["triton"] != SUPPORTED["triton"].tested[-1]:
        pytest.skip("the page has the resources by the newest Triton that is supported")
    page, made = PAGE.read_text(), make(kernels)
    pattern = rf"(<!-- {part}: made by tests/layout/test_gpu_page\.py -->\n).*?(<!-- end of {part} -->)"
    assert re.search(pattern, page, re.S)
    wanted = re.sub(pattern, lambda m: f"{m[1]}{made}\n{m[2]}", page, flags=re.S)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(wanted)
    else:
        assert page == wanted, "run `pytest tests/layout/test_gpu_page.py --update-golden`"
