"""Every kernel of the corpus: compiled = interpreted = reference, derivatives, batches, wrong variants refused."""

import functools
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong
from tests.support.corpus.runs import KERNELS, NAMES, SMOOTH, Split, close, operands, over_sizes, tolerance
from tests.support.laws import numpy_meaning
from tilewright import numpy as tnp
from tilewright.core.support import pytree
from tilewright.core.support.errors import OutOfBoundsError, RaceError
from tilewright.lang.autodiff.jvp_vjp import derivative_plan
from tilewright.lang.kernel.traverse import kernels_of


@pytest.mark.law
@over_sizes(NAMES)
def test_compiled_and_interpreted_are_the_reference(kernel, size, mode):
    arrays = operands(kernel, size)
    expected = kernel.reference(np, *arrays, **mode)
    close(tw.jit(functools.partial(kernel.call, **size.blocks, **mode))(*arrays), expected, tolerance(kernel))
    close(kernel.call(*arrays, **size.blocks, **mode, interpret=True), expected, tolerance(kernel))


@pytest.mark.law
@over_sizes(SMOOTH)
def test_gradient_is_that_of_the_reference_and_the_finite_difference(kernel, size, mode):
    split = Split(kernel, size, mode)
    got = tw.jit(tw.grad(split.loss, split.every))(*split.xs)
    with numpy_meaning():
        expected = tw.grad(split.reference_loss, split.every)(*split.xs)
    close(got, expected, 10 * tolerance(kernel))
    slope = sum(float((np.asarray(g) * v).sum()) for g, v in zip(got, split.vs))
    np.testing.assert_allclose(slope, split.slope(), rtol=1e-3, atol=1e-3)


@over_sizes([name for name in SMOOTH if getattr(KERNELS[name], "SECOND", False)], slice(1, 2))
def test_second_derivative_is_that_of_the_reference(kernel, size, mode):
    split = Split(kernel, size, mode)

    def along(loss: Any) -> Any:
        gradient = tw.grad(lambda *xs: tnp.sin(loss(*xs)), split.every)
        return lambda *xs: sum((g * v).sum() for g, v in zip(gradient(*xs), split.vs))

    got = tw.jit(tw.grad(along(split.loss), split.every))(*split.xs)
    with numpy_meaning():
        expected = tw.grad(along(split.reference_loss), split.every)(*split.xs)
    close(got, expected, 100 * tolerance(kernel))


@pytest.mark.law
@over_sizes(NAMES, slice(1, 2))
def test_vmap_is_a_loop(kernel, size, mode):
    first, second = operands(kernel, size), operands(kernel, Size(*size.dims, again=2))
    alone = getattr(kernel, "UNBATCHED", ())
    if alone:  # what is shared tells the shapes of the rest
        second = tuple(a if i in alone else a[::-1] * 2 for i, a in enumerate(first))
    axes = tuple(None if i in alone else 0 for i in range(len(first)))
    stacked = [a if i in alone else np.stack([a, b]) for i, (a, b) in enumerate(zip(first, second))]
    call = functools.partial(kernel.call, **size.blocks, **mode)
    got = pytree.leaves(tw.jit(tw.vmap(call, in_axes=axes))(*stacked))
    for i, arrays in enumerate((first, second)):
        close([np.asarray(g)[i] for g in got], kernel.reference(np, *arrays, **mode), tolerance(kernel))


@pytest.mark.law
@over_sizes(SMOOTH, slice(1, 2))
def test_vmap_of_the_gradient_is_a_loop(kernel, size, mode):
    split = Split(kernel, size, mode)
    other = tuple(x + v for x, v in zip(split.xs, split.vs))
    stacked = [np.stack([x, y]) for x, y in zip(split.xs, other)]
    got = tw.jit(tw.vmap(tw.grad(split.loss, split.every)))(*stacked)
    for i, xs in enumerate((split.xs, other)):
        with numpy_meaning():
            expected = tw.grad(split.reference_loss, split.every)(*xs)
        close([np.asarray(g)[i] for g in got], expected, 10 * tolerance(kernel))


@pytest.mark.law
@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [
        pytest.param(KERNELS[n], w, id=f"{n}-{w.error.__name__}-{i}")
        for n in NAMES
        for i, w in enumerate(KERNELS[n].WRONG)
    ],
)
def test_wrong_variants_are_refused(kernel: ModuleType, wrong: Wrong):
    size = wrong.size or kernel.SIZES[0]
    with pytest.raises(wrong.error) as caught:
        wrong.call(*operands(kernel, size), **size.blocks)
    missing = [word for word in wrong.words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


@pytest.mark.law
@pytest.mark.parametrize("name", NAMES)
def test_a_variant_out_of_bounds_and_one_that_races_are_among_the_wrong_ones(name):
    assert {OutOfBoundsError, RaceError} <= {w.error for w in KERNELS[name].WRONG}


# ---------------------------------------------------------------------------- the table of docs/kernels.md

BEGIN, END = "<!-- table: made by tests/lang/test_corpus.py -->\n", "<!-- end of table -->"


def strategies(kernel: ModuleType) -> str:
    """How each operand that has a gradient is differentiated."""
    if not kernel.DIFFERENTIABLE:
        return "none: integers"
    size, mode = kernel.SIZES[0], getattr(kernel, "MODES", ({},))[0]
    call = functools.partial(kernel.call, **size.blocks, **mode)
    plans = [p for k in kernels_of(tw.make_jaxpr(call)(*operands(kernel, size))) for p in derivative_plan(k)]
    kinds = {p.operand: p.kind for p in plans if p.kind != "none"}
    parts = [f"{kind} ({', '.join(o for o in kinds if kinds[o] == kind)})" for kind in sorted(set(kinds.values()))]
    return parts[0].partition(" (")[0] if len(parts) == 1 else ", ".join(parts)


def table() -> str:
    """A line for each kernel: that it runs compiled, interpreted and under `vmap` is what the tests above show."""
    lines = ["| kernel | compiled | interpreted | gradient | `vmap` |", "|---|---|---|---|---|"]
    for name in NAMES:
        alone = getattr(KERNELS[name], "UNBATCHED", ())
        batched = "yes, but for what is prefetched" if alone else "yes"
        lines.append(f"| {name} | yes | yes | {strategies(KERNELS[name])} | {batched} |")
    return "\n".join(lines)


def test_the_table_of_the_page_is_up_to_date(root, request):
    page = root / "docs" / "kernels.md"
    head, rest = page.read_text().split(BEGIN)
    made = f"{head}{BEGIN}\n{table()}\n\n{END}{rest.split(END)[1]}"
    if request.config.getoption("--update-golden"):
        page.write_text(made)
    assert page.read_text() == made, "docs/kernels.md is out of date: run this test with --update-golden"
