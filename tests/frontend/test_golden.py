"""Golden texts: what each level of the pipeline prints for a few programs.

`pytest tests/frontend/test_golden.py --update-golden` rewrites the files; read the difference before committing it.
"""

import pytest

import tilewright as tw
from tests.support.paths import GOLDEN
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp

VECTOR = tw.ShapeDtypeStruct((4,), "float32")
MATRIX = tw.ShapeDtypeStruct((8, 16), "float32")
WEIGHTS = tw.ShapeDtypeStruct((16, 4), "float32")


def mlp(w, x):
    return tnp.sum(tnp.tanh(x @ w))


def softmax(x):
    e = tnp.exp(x - tnp.max(x, -1, keepdims=True))
    return e / tnp.sum(e, -1, keepdims=True)


def loop(x):
    return lax.scan(lambda c, t: (c * t, c), x, tnp.arange(3.0))


def scale_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0


def scale(x):
    spec = tl.BlockSpec((2,), lambda i: (i,))
    return tl.kernel_call(scale_kernel, out_shape=VECTOR, grid=2, in_specs=[spec], out_specs=spec)(x)


def matmul_kernel(x_ref, y_ref, o_ref):
    @tl.when(tl.program_id(2) == 0)
    def _():
        o_ref[...] = tnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] @ y_ref[...]


def matmul(x, y):
    return tl.kernel_call(
        matmul_kernel,
        out_shape=tw.ShapeDtypeStruct((8, 4), "float32"),
        grid=(2, 1, 2),
        in_specs=[tl.BlockSpec((4, 8), lambda i, j, k: (i, k)), tl.BlockSpec((8, 4), lambda i, j, k: (k, j))],
        out_specs=tl.BlockSpec((4, 4), lambda i, j, k: (i, j)),
    )(x, y)


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
