"""Golden texts: what each level of the pipeline prints for a few programs.

`pytest tests/frontend/compiler/test_golden.py --update-golden` rewrites the files; read the difference before
committing it.
"""

import pytest

import tilewright as tw
from tests.support.paths import GOLDEN
from tests.support.programs import (
    MATRIX,
    VECTOR,
    WEIGHTS,
    loop,
    matmul,
    mlp,
    scale,
    softmax,
)
from tilewright import numpy as tnp

LEVELS = {
    "mlp.program": (mlp, (WEIGHTS, MATRIX), "program"),
    "mlp_grad.program": (tw.grad(mlp), (WEIGHTS, MATRIX), "program"),
    "mlp_grad_vmap.program": (
        tw.vmap(tw.grad(mlp), (None, 0)), (WEIGHTS, tw.ShapeDtypeStruct((3, 8, 16), "float32")), "program"),
    "softmax.program": (softmax, (MATRIX,), "program"),
    "softmax.module": (softmax, (MATRIX,), "module"),
    "scan_jvp.program": (lambda x: tw.jvp(loop, (x,), (x,)), (1.0,), "program"),
    "scale.program": (scale, (VECTOR,), "program"),
    "scale.module": (scale, (VECTOR,), "module"),
    "matmul.program": (matmul, (MATRIX, WEIGHTS), "program"),
    "matmul.module": (matmul, (MATRIX, WEIGHTS), "module"),
    "matmul_grad.program": (
        tw.grad(lambda x, y: tnp.sum(matmul(x, y)), (0, 1)), (MATRIX, WEIGHTS), "program"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEVELS)
def test_text_is_as_recorded(name, request):
    function, args, stop = LEVELS[name]
    text = str(tw.compile(function, *args, stop=stop)).rstrip() + "\n"
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"no golden text {path.name}: run with --update-golden"
    assert text == path.read_text()


def test_text_is_the_same_each_time():
    texts = {str(tw.compile(tw.grad(mlp), WEIGHTS, MATRIX, stop="program")) for _ in range(3)}
    assert len(texts) == 1
