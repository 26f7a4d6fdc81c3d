"""The table of features on the start page: Tilewright has what it says, and Pallas what it says of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import tilewright as tw
from docs.website import features
from tilewright import lang as tl
from tilewright.lang.targets.target import TARGETS

X = np.arange(10, dtype=np.float32)


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def sum_of_block(x_ref, o_ref):
    o_ref[...] = x_ref[...].sum(keepdims=True)


class Ours:
    """A body over blocks of four elements, with this package; `options` go to `kernel_call`."""

    reject = tw.errors.TilewrightError
    numpy, grad, vmap = tw.numpy, staticmethod(tw.grad), staticmethod(tw.vmap)

    @staticmethod
    def call(body, size, block, index=lambda i: (i,), parallel=False):
        semantics = {"dimension_semantics": ("parallel",)} if parallel else {}
        return tl.kernel_call(
            body, tw.ShapeDtypeStruct((size,), "float32"), grid=3, in_specs=[tl.BlockSpec((4,), lambda i: (i,))],
            out_specs=tl.BlockSpec((block,), index), **semantics,
        )  # fmt: skip


class Pallas:
    """The same with Pallas, interpreted."""

    reject = Exception
    numpy, grad, vmap = jnp, staticmethod(jax.grad), staticmethod(jax.vmap)

    @staticmethod
    def call(body, size, block, index=lambda i: (i,), parallel=False, interpret=True):
        del parallel  # has no meaning to the interpreter
        return pl.pallas_call(
            body, jax.ShapeDtypeStruct((size,), "float32"), grid=3, in_specs=[pl.BlockSpec((4,), lambda i: (i,))],
            out_specs=pl.BlockSpec((block,), index), interpret=interpret,
        )  # fmt: skip


def works(call, *errors):
    """Whether a call gives a result, rather than one of these errors."""
    try:
        call()
    except errors:
        return False
    return True


def on_cpu(side):
    if side is Ours:
        ran = np.array_equal(tw.jit(side.call(double, 10, 4))(X), 2 * X)
        return "compiled" if ran and tw.compile(side.call(double, 10, 4), X, stop="executable") else "no"
    compiled = works(lambda: side.call(double, 10, 4, interpret=False)(X), ValueError)
    return "compiled" if compiled else "interpreted"


def derivative(side):
    def slope():
        assert np.array_equal(side.grad(lambda x: side.call(double, 10, 4)(x).sum())(X), np.full(10, 2.0))

    return "yes" if works(slope, ValueError) else "no"


def batch(side):
    rows = np.stack([X, -X])
    return "yes" if np.array_equal(side.vmap(side.call(double, 10, 4))(rows), 2 * rows) else "no"


def out_of_bounds(side):
    return "undetected" if works(lambda: side.call(sum_of_block, 3, 1)(X), side.reject) else "rejected"


def race(side):
    call = side.call(double, 4, 4, lambda i: (0,), parallel=True)
    return "undetected" if works(lambda: call(X), side.reject) else "rejected"


def targets(side):
    kinds = {"cpu": "CPU", "cuda": "NVIDIA", "rocm": "AMD", "tpu": "TPU"}
    del side
    found = {t.kind for t in TARGETS.values()}
    return ", ".join(name for kind, name in kinds.items() if kind in found)


def report(side):
    if side is Pallas:
        return "yes" if hasattr(pl, "explain") or hasattr(jax, "explain") else "no"
    (kernel,) = tw.explain(side.call(double, 10, 4), X, target="tpu:v5e").kernels
    return "yes" if kernel.bytes_moved and kernel.bound and kernel.findings else "no"


def autotuning(side):
    return "yes" if hasattr(tw if side is Ours else pl, "autotune") else "no"


CHECKS = {
    "kernels run on the CPU": on_cpu,
    "reverse-mode derivative of a kernel": derivative,
    "`vmap` of a kernel": batch,
    "results that depend on out-of-bounds elements": out_of_bounds,
    "parallel program instances that write one block": race,
    "autotuning": autotuning,
    "report of memory traffic, bottleneck and proofs": report,
    "targets": targets,
}
ALONE = {"targets"}  # of Pallas there is nothing to ask
UNCHECKED = {"kernels that you write", "has run on a GPU or a TPU"}  # nothing to call


@pytest.mark.parametrize("feature, side", [(f, s) for f in CHECKS for s in (Ours, Pallas)[: 1 if f in ALONE else 2]])
def test_feature(feature, side):
    column = features.HEAD.index("Tilewright" if side is Ours else "Pallas") - 1
    assert CHECKS[feature](side) == features.FEATURES[feature][column]


def test_every_feature_is_checked():
    assert CHECKS.keys() | UNCHECKED == features.FEATURES.keys()


def test_the_table_of_the_page_is_up_to_date():
    page = features.PAGE.read_text()
    assert features.filled(page) == page and "| has run on a GPU" in page, "python -m docs.website.features"
