"""Parameters whose annotation is a bare `Any`, which tells a reader and a checker nothing: their share only falls."""

import ast

import pytest

from tests.support.paths import ROOT, nodes_of

# The largest share by package, in percent of all parameters but `self`, `cls`, `*args` and `**kwargs`.
LIMITS = {
    "core": 9, "lang": 6, "kernels": 6, "xla_backend": 7, "cpu_backend": 7, "triton_backend": 7, "mosaic_tpu": 8,
    "mosaic_gpu": 11, "cutlass_backend": 4, "src/tilewright": 30,
}  # fmt: skip


def bare(annotation):
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


@pytest.mark.parametrize("package", LIMITS)
def test_parameters_name_their_types(package):
    found = []
    for path in (ROOT / package).rglob("*.py"):
        if not any(parent.is_symlink() for parent in path.parents if parent != ROOT):
            for node in nodes_of(path):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                    found += [bare(a.annotation) for a in arguments if a.annotation or a.arg not in ("self", "cls")]
    share = 100 * sum(found) / len(found)
    assert share <= LIMITS[package], "name the type: `Array`, `ArrayLike`, `DTypeLike`, `Axis`, `Sequence[Any]`, ..."
    assert share > LIMITS[package] - 10, "the share fell: lower the limit"
